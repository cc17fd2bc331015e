/*
 * What it is: the jobs of flott-bench on Apache Flink, for `flott-bench --beside flink`, which compiles and runs it. One JSON line with
 * what it measured. Final totals are checked, so a run that lost or doubled a record does not count.
 * What it never is: part of flott. Nothing that is built from this repository contains it, and CI does not run it.
 */
package bench;

import java.io.File;
import java.io.RandomAccessFile;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.LongBuffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.time.Instant;
import java.util.*;

import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamUtils;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.util.Collector;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Side-by-side anchor jobs on Apache Flink (DataStream API).
 *
 *   keyed-count : NumberSequenceSource -> (key = (splitmix64(n)>>>1) % K, 1) -> keyBy -> ValueState count -> tally
 *   window      : same, event-time tumbling 10 s window count per key          -> tally
 *
 * The tally operator is chained after the keyed operator, keeps (outputs, sum) in operator state, and
 * writes progress into small memory-mapped files, which survive a SIGKILL of the task manager.
 * Final totals are checked against an array simulation, so a wrong checkpoint/restore shows.
 */
public final class FlinkBench {
    static final ObjectMapper M = new ObjectMapper();

    // ---------------------------------------------------------------- workload
    static long splitmix64(long n) {
        long z = n + 0x9E3779B97F4A7C15L;
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }

    /** skew256 of 256 records go to key 0 (hot key), the rest uniformly over K keys. */
    static long keyOf(long n, long k, int skew256) {
        long z = splitmix64(n);
        if (skew256 > 0 && (int) (z >>> 56) < skew256) return 0;
        return (z >>> 1) % k;
    }

    /** Each of the p contiguous source splits covers the whole event-time range. Milliseconds. */
    static long tsOf(long n, long total, int p, long recsPerWindow) {
        long per = total / p;
        return (n % per) * p * 10_000L / recsPerWindow;
    }

    static long nowUs() {
        Instant i = Instant.now();
        return i.getEpochSecond() * 1_000_000L + i.getNano() / 1000;
    }

    // ------------------------------------------------- mmap'd progress files
    /** longs: 0 pid, 1 openUs, 2 firstUs, 3 lastUs, 4 n(this attempt), 5 outputs(state), 6 sum(state), 7 restored outputs, 8 finished, 16.. marks */
    static final int HDR = 16, MARKS = 8192;
    static final long STEP = 65536;

    static final class Stat {
        final LongBuffer b;
        long n;
        final long step;

        Stat(String dir, String name, int sub, int attempt, long step) throws Exception {
            this.step = step;
            File f = new File(dir, name + "-" + sub + "-" + attempt + ".stat");
            try (RandomAccessFile r = new RandomAccessFile(f, "rw")) {
                MappedByteBuffer mb = r.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, 8L * (HDR + MARKS));
                b = mb.order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
            }
            b.put(0, ProcessHandle.current().pid());
            b.put(1, nowUs());
        }

        void hit() {
            long i = n++;
            if ((i & 255) == 0) {
                long t = nowUs();
                if (i == 0) b.put(2, t);
                b.put(3, t);
                b.put(4, n);
                if (i % step == 0 && i / step < MARKS) b.put(HDR + (int) (i / step), t);
            }
        }

        void end() {
            b.put(3, nowUs());
            b.put(4, n);
        }
    }

    static final class StatView {
        int sub, attempt;
        long[] v;

        long g(int i) { return v[i]; }
    }

    static List<StatView> readStats(String dir, String name) throws Exception {
        List<StatView> out = new ArrayList<>();
        File[] fs = new File(dir).listFiles((d, f) -> f.startsWith(name + "-") && f.endsWith(".stat"));
        if (fs == null) return out;
        for (File f : fs) {
            String[] p = f.getName().replace(".stat", "").substring(name.length() + 1).split("-");
            StatView s = new StatView();
            s.sub = Integer.parseInt(p[0]);
            s.attempt = Integer.parseInt(p[1]);
            byte[] by = Files.readAllBytes(f.toPath());
            LongBuffer lb = ByteBuffer.wrap(by).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
            s.v = new long[lb.remaining()];
            lb.get(s.v);
            if (s.v.length >= HDR) out.add(s);
        }
        out.sort(Comparator.comparingInt((StatView s) -> s.attempt).thenComparingInt(s -> s.sub));
        return out;
    }

    // ---------------------------------------------------------------- operators
    static final class ToPair extends RichMapFunction<Long, Tuple2<Long, Long>> {
        final long k; final int skew; final String dir;
        transient Stat st;
        transient Tuple2<Long, Long> reuse;
        final boolean objReuse;

        ToPair(long k, int skew, String dir, boolean objReuse) { this.k = k; this.skew = skew; this.dir = dir; this.objReuse = objReuse; }

        @Override public void open(OpenContext c) throws Exception {
            st = new Stat(dir, "src", getRuntimeContext().getTaskInfo().getIndexOfThisSubtask(),
                    getRuntimeContext().getTaskInfo().getAttemptNumber(), STEP);
            reuse = new Tuple2<>(0L, 1L);
        }

        @Override public Tuple2<Long, Long> map(Long n) {
            st.hit();
            long key = keyOf(n, k, skew);
            if (objReuse) { reuse.f0 = key; return reuse; }
            return new Tuple2<>(key, 1L);
        }

        @Override public void close() { if (st != null) st.end(); }
    }

    static final class CountFn extends RichFlatMapFunction<Tuple2<Long, Long>, Long> {
        final long failAt;
        transient ValueState<Long> cnt;
        transient long seen;
        transient boolean mayFail;

        CountFn(long failAt) { this.failAt = failAt; }

        @Override public void open(OpenContext c) throws Exception {
            cnt = getRuntimeContext().getState(new ValueStateDescriptor<>("cnt", Types.LONG));
            mayFail = failAt > 0 && getRuntimeContext().getTaskInfo().getAttemptNumber() == 0
                    && getRuntimeContext().getTaskInfo().getIndexOfThisSubtask() == 0;
        }

        @Override public void flatMap(Tuple2<Long, Long> r, Collector<Long> out) throws Exception {
            if (mayFail && ++seen == failAt) throw new RuntimeException("injected failure");
            Long c = cnt.value();
            long x = (c == null ? 0 : c) + r.f1;
            cnt.update(x);
            out.collect(x);
        }
    }

    /** Aggregates down: (number of outputs, checksum of outputs); emits nothing downstream but one total at the end. */
    static final class Tally extends RichFlatMapFunction<Long, String> implements CheckpointedFunction {
        final String dir; final boolean square; final int sleepEvery; final int sleepMs;
        transient Stat st;
        transient ListState<Tuple2<Long, Long>> state;
        transient long outputs, sum, restored;

        Tally(String dir, boolean square, int sleepEvery, int sleepMs) { this.dir = dir; this.square = square; this.sleepEvery = sleepEvery; this.sleepMs = sleepMs; }

        @Override public void initializeState(FunctionInitializationContext ctx) throws Exception {
            state = ctx.getOperatorStateStore().getListState(new ListStateDescriptor<>("tally", Types.TUPLE(Types.LONG, Types.LONG)));
            for (Tuple2<Long, Long> t : state.get()) { outputs += t.f0; sum += t.f1; }
            restored = outputs;
        }

        @Override public void snapshotState(FunctionSnapshotContext c) throws Exception {
            state.update(Collections.singletonList(new Tuple2<>(outputs, sum)));
        }

        @Override public void open(OpenContext c) throws Exception {
            st = new Stat(dir, "sink", getRuntimeContext().getTaskInfo().getIndexOfThisSubtask(),
                    getRuntimeContext().getTaskInfo().getAttemptNumber(), STEP);
            st.b.put(7, restored);
        }

        @Override public void flatMap(Long v, Collector<String> out) throws Exception {
            outputs++;
            sum += square ? v * v : v;
            st.hit();
            if (sleepEvery > 0 && outputs % sleepEvery == 0) Thread.sleep(sleepMs);
        }

        @Override public void close() {
            if (st == null) return;
            st.b.put(5, outputs);
            st.b.put(6, sum);
            st.b.put(4, st.n);
            if (st.n > 0) st.b.put(8, 1);
        }
    }

    static final class CountAgg implements AggregateFunction<Tuple2<Long, Long>, Long, Long> {
        public Long createAccumulator() { return 0L; }
        public Long add(Tuple2<Long, Long> v, Long a) { return a + v.f1; }
        public Long getResult(Long a) { return a; }
        public Long merge(Long a, Long b) { return a + b; }
    }

    // ---------------------------------------------------------------- driver
    public static void main(String[] argv) throws Exception {
        Map<String, String> a = new LinkedHashMap<>();
        for (int i = 0; i + 1 < argv.length; i += 2) a.put(argv[i].replaceFirst("^--", ""), argv[i + 1]);
        String job = a.getOrDefault("job", "keyed-count");
        String label = a.getOrDefault("label", job);
        long n = Long.parseLong(a.getOrDefault("n", "10000000"));
        long k = Long.parseLong(a.getOrDefault("keys", "1000000"));
        int p = Integer.parseInt(a.getOrDefault("p", "2"));
        n = n / p * p;
        String backend = a.getOrDefault("backend", "hashmap");
        String ckpt = a.getOrDefault("ckpt", "none"); // none | eo | alo | unaligned
        long interval = Long.parseLong(a.getOrDefault("interval", "1000"));
        boolean incr = Boolean.parseBoolean(a.getOrDefault("incremental", "false"));
        boolean reuse = Boolean.parseBoolean(a.getOrDefault("object-reuse", "true"));
        boolean fused = Boolean.parseBoolean(a.getOrDefault("fused", "false"));
        boolean debloat = Boolean.parseBoolean(a.getOrDefault("debloat", "false"));
        int skew = (int) Math.round(Double.parseDouble(a.getOrDefault("skew", "0")) * 256);
        int sleepEvery = Integer.parseInt(a.getOrDefault("sleep-every", "0"));
        int sleepMs = Integer.parseInt(a.getOrDefault("sleep-ms", "1"));
        long rpw = Long.parseLong(a.getOrDefault("recs-per-window", "1000000"));
        String fail = a.getOrDefault("fail", "none"); // none | exception | kill
        long restartDelay = Long.parseLong(a.getOrDefault("restart-delay", "0"));
        String mode = a.getOrDefault("mode", "mini"); // mini | remote
        int port = Integer.parseInt(a.getOrDefault("rest-port", "18081"));
        String work = a.get("work");
        long t0 = Long.parseLong(a.getOrDefault("t0-ms", String.valueOf(System.currentTimeMillis())));
        long maxSec = Long.parseLong(a.getOrDefault("max-sec", "150"));
        String pids = a.getOrDefault("pids", "");
        String statDir = work + "/stat";
        Files.createDirectories(Paths.get(statDir));

        Configuration c = new Configuration();
        c.setString("rest.address", "127.0.0.1");
        c.setString("rest.bind-address", "127.0.0.1");
        c.setString("rest.port", String.valueOf(port));
        c.setString("rest.bind-port", String.valueOf(port));
        c.setString("jobmanager.rpc.address", "127.0.0.1");
        c.setString("web.checkpoints.history", "500");
        c.setString("web.refresh-interval", "200");
        c.setString("taskmanager.memory.managed.size", a.getOrDefault("managed", "1024m"));
        c.setString("taskmanager.memory.network.min", "256m");
        c.setString("taskmanager.memory.network.max", "256m");
        c.setString("taskmanager.network.memory.buffer-debloat.enabled", String.valueOf(debloat));
        c.setString("io.tmp.dirs", work + "/tmp");
        c.setString("state.backend.type", backend);
        c.setString("pipeline.object-reuse", String.valueOf(reuse));
        c.setString("parallelism.default", String.valueOf(p));
        c.setString("execution.checkpointing.storage", "filesystem");
        c.setString("execution.checkpointing.dir", "file://" + work + "/ckpt");
        c.setString("execution.checkpointing.incremental", String.valueOf(incr));
        c.setString("restart-strategy.type", "fixed-delay");
        c.setString("restart-strategy.fixed-delay.attempts", fail.equals("none") ? "0" : "20");
        c.setString("restart-strategy.fixed-delay.delay", restartDelay + " ms");
        if (!ckpt.equals("none")) {
            c.setString("execution.checkpointing.interval", interval + " ms");
            c.setString("execution.checkpointing.mode", ckpt.equals("alo") ? "AT_LEAST_ONCE" : "EXACTLY_ONCE");
            c.setString("execution.checkpointing.unaligned.enabled", String.valueOf(ckpt.equals("unaligned")));
            c.setString("execution.checkpointing.timeout", "60 s");
        }
        for (Map.Entry<String, String> e : a.entrySet()) if (e.getKey().startsWith("D.")) c.setString(e.getKey().substring(2), e.getValue());

        long[] cpuA = procStat();
        MiniCluster mini = null;
        if (mode.equals("mini")) {
            mini = new MiniCluster(new MiniClusterConfiguration.Builder().setConfiguration(c)
                    .setNumTaskManagers(1).setNumSlotsPerTaskManager(p).build());
            mini.start();
            port = mini.getRestAddress().get().getPort();
        }
        Configuration cc = new Configuration(c);
        cc.setString("rest.port", String.valueOf(port));
        String[] jars = a.containsKey("jar") ? new String[]{a.get("jar")} : new String[0];
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createRemoteEnvironment("127.0.0.1", port, cc, jars);
        env.setParallelism(p);

        final long total = n; final int fp = p; final long frpw = rpw;
        boolean window = job.equals("window");
        WatermarkStrategy<Long> ws = window
                ? WatermarkStrategy.<Long>forMonotonousTimestamps().withTimestampAssigner((x, t) -> tsOf(x, total, fp, frpw))
                : WatermarkStrategy.noWatermarks();
        DataStream<Tuple2<Long, Long>> pairs = env
                .fromSource(new NumberSequenceSource(0, n - 1), ws, "seq").uid("src")
                .map(new ToPair(k, skew, statDir, reuse)).returns(Types.TUPLE(Types.LONG, Types.LONG)).name("to-pair").uid("map");
        KeyedStream<Tuple2<Long, Long>, Long> keyed = fused
                ? DataStreamUtils.reinterpretAsKeyedStream(pairs, x -> x.f0, Types.LONG)
                : pairs.keyBy(x -> x.f0, Types.LONG);
        DataStream<Long> counts = window
                ? keyed.window(TumblingEventTimeWindows.of(Duration.ofSeconds(10))).aggregate(new CountAgg(), Types.LONG, Types.LONG).uid("cnt")
                : keyed.flatMap(new CountFn(fail.equals("exception") ? n / p / 2 : 0)).returns(Types.LONG).name("count").uid("cnt");
        counts.flatMap(new Tally(statDir, window, sleepEvery, sleepMs)).returns(Types.STRING).name("tally").uid("tally")
                .sinkTo(new DiscardingSink<>()).uid("sink");

        long tSubmit = nowUs();
        JobClient jc = env.executeAsync(label);
        JobID id = jc.getJobID();
        Rest rest = new Rest(port, id.toHexString());
        var fut = jc.getJobExecutionResult();
        long deadline = System.nanoTime() + maxSec * 1_000_000_000L;
        long tKill = 0;
        String err = null;
        List<double[]> cpu = new ArrayList<>(); // (epoch us, own cpu seconds), for CPU per record over the second half
        while (!fut.isDone()) {
            Thread.sleep(fail.equals("kill") ? 20 : 100);
            cpu.add(new double[]{nowUs(), ownCpu(pids)});
            if (fail.equals("kill") && tKill == 0) {
                long seen = 0, pid = 0;
                for (StatView s : readStats(statDir, "sink")) { seen += s.g(4); if (s.sub == 0) pid = s.g(0); }
                if (seen >= n / 2 && pid > 0 && pid != ProcessHandle.current().pid() && Arrays.asList(pids.split(",")).contains(String.valueOf(pid))) {
                    tKill = nowUs();
                    new ProcessBuilder("kill", "-9", String.valueOf(pid)).inheritIO().start().waitFor();
                }
            }
            if (System.nanoTime() > deadline) { err = "timeout"; try { jc.cancel().get(); } catch (Exception e) { } break; }
        }
        if (err == null) try { fut.get(); } catch (Exception e) { Throwable t = e; while (t.getCause() != null) t = t.getCause(); err = t.toString(); }
        long tDone = nowUs();
        long[] cpuB = procStat();
        double ownCpu = ownCpu(pids);
        cpu.add(new double[]{tDone, ownCpu});
        Thread.sleep(400); // let the REST cache expire

        // ---- results
        Map<String, Object> o = new LinkedHashMap<>();
        o.put("engine", "flink-" + org.apache.flink.runtime.util.EnvironmentInformation.getVersion());
        o.put("label", label); o.put("job", job); o.put("n", n); o.put("keys", k); o.put("p", p); o.put("backend", backend);
        o.put("ckpt", ckpt); o.put("interval_ms", ckpt.equals("none") ? 0 : interval); o.put("incremental", incr); o.put("fused", fused);
        o.put("object_reuse", reuse); o.put("skew", skew / 256.0); o.put("sleep_every", sleepEvery); o.put("debloat", debloat); o.put("mode", mode); o.put("fail", fail);
        if (err != null) o.put("error", err);
        List<StatView> src = readStats(statDir, "src"), snk = readStats(statDir, "sink");
        long first = Long.MAX_VALUE, last = 0; int maxAtt = 0; long outputs = 0, sum = 0;
        for (StatView s : src) if (s.attempt == 0 && s.g(2) > 0) first = Math.min(first, s.g(2));
        for (StatView s : snk) maxAtt = Math.max(maxAtt, s.attempt);
        for (StatView s : snk) if (s.attempt == maxAtt) { outputs += s.g(5); sum += s.g(6); last = Math.max(last, s.g(3)); }
        double wall = (last - first) / 1e6;
        o.put("records_per_s", Math.round(n / wall));
        o.put("wall_s", r3(wall));
        double steady = 0, halfUs = 0, halfRecs = 0; int nSeries = 0;
        List<StatView> series = window ? src : snk;
        for (StatView s : series) if (s.attempt == maxAtt) {
            int m = (int) ((s.g(4) - 1) / STEP), h = m / 2;
            if (m > h && m < MARKS && h >= 1) {
                steady += (m - h) * (double) STEP / ((s.g(HDR + m) - s.g(HDR + h)) / 1e6);
                halfUs += s.g(HDR + h); nSeries++; halfRecs += s.g(4) - h * (double) STEP;
            }
        }
        o.put("steady_records_per_s", Math.round(steady));
        if (nSeries > 0) {
            double dc = cpuAt(cpu, last) - cpuAt(cpu, halfUs / nSeries), el2 = (last - halfUs / nSeries) / 1e6;
            o.put("steady_cpu_us_per_record", r3(dc * 1e6 / halfRecs));
            o.put("steady_cores_got", r3(dc / el2));
            o.put("records_per_core_s", Math.round(halfRecs / dc));
        }
        o.put("start_to_first_record_s", r3(first / 1e6 - t0 / 1e3));
        o.put("submit_to_first_record_s", r3((first - tSubmit) / 1e6));
        o.put("last_record_to_job_end_s", r3((tDone - last) / 1e6));

        // ---- verification
        if (err == null) {
            long expOut, expSum;
            if (!window) {
                int[] cnt = new int[(int) k]; expSum = 0; expOut = n;
                for (long i = 0; i < n; i++) expSum += ++cnt[(int) keyOf(i, k, skew)];
            } else {
                long nw = tsOf(n / p - 1, n, p, rpw) / 10_000 + 1; expOut = 0; expSum = 0;
                long per = n / p; int[] cnt = new int[(int) k]; long pos = 0;
                for (long w = 0; w < nw; w++) {
                    Arrays.fill(cnt, 0);
                    for (; pos < per && tsOf(pos, n, p, rpw) / 10_000 == w; pos++)
                        for (int s = 0; s < p; s++) { int q = (int) keyOf(s * per + pos, k, skew); int v = ++cnt[q]; if (v == 1) expOut++; expSum += 2L * v - 1; }
                }
            }
            o.put("outputs", outputs);
            o.put("totals_ok", outputs == expOut && sum == expSum);
            if (outputs != expOut || sum != expSum) { o.put("expected_outputs", expOut); o.put("sum", sum); o.put("expected_sum", expSum); }
        }
        // ---- recovery
        if (!fail.equals("none")) {
            long lastBefore = 0, firstAfter = Long.MAX_VALUE, openAfter = Long.MAX_VALUE, seenBefore = 0, restored = 0, lastSub0 = 0;
            for (StatView s : snk) {
                if (s.attempt == 0) { lastBefore = Math.max(lastBefore, s.g(3)); seenBefore += s.g(4); if (s.sub == 0) lastSub0 = s.g(3); }
                else if (s.attempt == maxAtt) { if (s.g(2) > 0) firstAfter = Math.min(firstAfter, s.g(2)); openAfter = Math.min(openAfter, s.g(1)); restored += s.g(7); }
            }
            o.put("attempts", maxAtt + 1);
            o.put("downtime_ms", r3((firstAfter - lastBefore) / 1e3));
            o.put("downtime_from_failed_subtask_ms", r3((firstAfter - lastSub0) / 1e3));
            if (tKill > 0) o.put("kill_to_first_output_ms", r3((firstAfter - tKill) / 1e3));
            o.put("seen_before", seenBefore); o.put("restored_at", restored); o.put("replayed", seenBefore - restored);
        }
        // ---- checkpoints
        try { o.put("checkpoints", rest.checkpoints()); } catch (Exception e) { o.put("rest_error", e.toString()); }
        long rss = hwm("self");
        o.put("rss_hwm_mib_driver", rss);
        if (!pids.isEmpty()) { Map<String, Object> mm = new LinkedHashMap<>(); for (String s : pids.split(",")) mm.put(s, hwm(s)); o.put("rss_hwm_mib_cluster", mm); }
        o.put("own_cpu_s", r3(ownCpu));
        double busy = (cpuB[0] - cpuA[0]) / 100.0, el = (cpuB[1] - cpuA[1]) / 100.0;
        o.put("cpu_us_per_record", r3(ownCpu * 1e6 / n));
        o.put("machine_busy_cores", r3(busy / Math.max(0.01, el) * Runtime.getRuntime().availableProcessors()));
        o.put("loadavg", Files.readString(Path.of("/proc/loadavg")).split(" ")[0]);
        System.out.println(M.writeValueAsString(o));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    static double r3(double d) { return Math.round(d * 1000) / 1000.0; }

    static long hwm(String pid) {
        try { for (String l : Files.readAllLines(Path.of("/proc/" + pid + "/status"))) if (l.startsWith("VmHWM")) return Long.parseLong(l.replaceAll("[^0-9]", "")) / 1024; } catch (Exception e) { }
        return -1;
    }

    static double ownCpu(String pids) {
        double c = ((com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e9;
        for (String s : pids.split(",")) if (!s.isEmpty()) c += pidCpu(s);
        return c;
    }

    static double cpuAt(List<double[]> l, double us) {
        double[] q = l.get(0);
        for (double[] x : l) {
            if (x[0] >= us) return x[0] == q[0] ? x[1] : q[1] + (x[1] - q[1]) * (us - q[0]) / (x[0] - q[0]);
            q = x;
        }
        return q[1];
    }

    static double pidCpu(String pid) {
        try { String s = Files.readString(Path.of("/proc/" + pid + "/stat")); String[] f = s.substring(s.lastIndexOf(')') + 2).split(" "); return (Long.parseLong(f[11]) + Long.parseLong(f[12])) / 100.0; } catch (Exception e) { return 0; }
    }

    static long[] procStat() throws Exception {
        String[] f = Files.readAllLines(Path.of("/proc/stat")).get(0).trim().split("\\s+");
        long t = 0; for (int i = 1; i <= 8; i++) t += Long.parseLong(f[i]);
        long idle = Long.parseLong(f[4]) + Long.parseLong(f[5]);
        return new long[]{t - idle, t};
    }

    static final class Rest {
        final HttpClient h = HttpClient.newHttpClient(); final int port; final String job;

        Rest(int port, String job) { this.port = port; this.job = job; }

        JsonNode get(String path) throws Exception {
            HttpResponse<String> r = h.send(HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/jobs/" + job + path)).timeout(Duration.ofSeconds(10)).build(), HttpResponse.BodyHandlers.ofString());
            if (r.statusCode() != 200) throw new RuntimeException(path + " -> " + r.statusCode());
            return M.readTree(r.body());
        }

        Map<String, Object> checkpoints() throws Exception {
            JsonNode j = get("/checkpoints");
            Map<String, Object> o = new LinkedHashMap<>();
            o.put("completed", j.path("counts").path("completed").asInt());
            o.put("failed", j.path("counts").path("failed").asInt());
            List<Double> e2e = new ArrayList<>(), size = new ArrayList<>(), full = new ArrayList<>(), sync = new ArrayList<>(), async = new ArrayList<>(), align = new ArrayList<>(), delay = new ArrayList<>(), persisted = new ArrayList<>();
            Set<String> vids = new LinkedHashSet<>();
            for (JsonNode v : get("").path("vertices")) vids.add(v.path("id").asText());
            int asked = 0;
            for (JsonNode cp : j.path("history")) {
                if (!cp.path("status").asText().equals("COMPLETED")) continue;
                e2e.add(cp.path("end_to_end_duration").asDouble());
                size.add(cp.path("checkpointed_size").asDouble());
                full.add(cp.path("state_size").asDouble());
                persisted.add(cp.path("persisted_data").asDouble());
                if (++asked > 40) continue;
                double sy = 0, as = 0, al = 0, de = 0;
                for (String v : vids) try {
                    JsonNode s = get("/checkpoints/details/" + cp.path("id").asText() + "/subtasks/" + v);
                    for (JsonNode st : s.path("subtasks")) {
                        if (!st.path("status").asText().equals("completed")) continue;
                        sy = Math.max(sy, st.path("checkpoint").path("sync").asDouble());
                        as = Math.max(as, st.path("checkpoint").path("async").asDouble());
                        al = Math.max(al, st.path("alignment").path("duration").asDouble());
                        de = Math.max(de, st.path("start_delay").asDouble());
                    }
                } catch (Exception e) { }
                sync.add(sy); async.add(as); align.add(al); delay.add(de);
            }
            put(o, "e2e_ms", e2e); put(o, "sync_ms_max_subtask", sync); put(o, "async_ms_max_subtask", async);
            put(o, "alignment_ms_max_subtask", align); put(o, "start_delay_ms_max_subtask", delay);
            put(o, "checkpointed_bytes", size); put(o, "full_state_bytes", full); put(o, "persisted_inflight_bytes", persisted);
            return o;
        }

        static void put(Map<String, Object> o, String k, List<Double> l) {
            if (l.isEmpty()) return;
            Collections.sort(l);
            Map<String, Object> m = new LinkedHashMap<>();
            m.put("p50", l.get(l.size() / 2)); m.put("max", l.get(l.size() - 1)); m.put("min", l.get(0));
            o.put(k, m);
        }
    }
}
