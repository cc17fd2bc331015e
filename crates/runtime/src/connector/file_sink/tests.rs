//! The conformance suite in each format, and what is particular to files.

use super::super::file_committer::PartToken;
use super::super::part_name::PartName;
use super::*;
use crate::error::ErrorKind;
use crate::sink::Token;
use crate::testing::connector_contexts::sink_context;
use crate::testing::memory_files::{Fault, FileCall, MemoryFiles, Operation};
use crate::testing::sink_suite::{BETWEEN_RECORDS, SinkCase, Visible, check_sink};
use serde::Serialize;

mod footed;
mod in_bucket;

/// The records of committed parts, in the order of epochs, each line after `skip` of each part: "subtask n …".
fn read_parts(files: &MemoryFiles, skip: usize) -> Visible {
    read_bodies(files, |text| text.lines().skip(skip).collect())
}

/// The same, where `body` finds the records of a part.
fn read_bodies(files: &MemoryFiles, body: impl Fn(&str) -> Vec<&str>) -> Visible {
    let mut parts: Vec<(u64, u64, String)> = Vec::new();
    for path in files.all_files() {
        let name = path.rsplit('/').next().unwrap().to_owned();
        match PartName::parse(&name) {
            Some(part) if !part.pending => parts.push((part.number, part.n, path)),
            _ => {}
        }
    }
    parts.sort();
    let mut visible = Visible::new();
    for (_, _, path) in parts {
        let text = String::from_utf8(files.get(&path).unwrap()).expect("a committed part is never torn");
        assert!(text.ends_with('\n'), "{path}: a committed part ends with a whole line");
        for line in body(&text) {
            let mut numbers = line.split([' ', ',', '[', ']']).filter(|field| !field.is_empty());
            let subtask = numbers.next().unwrap().parse().unwrap();
            visible.entry(subtask).or_default().push(numbers.next().unwrap().parse().unwrap());
        }
    }
    visible
}

struct SmallLines;

impl SinkCase for SmallLines {
    type Record = String;
    type Sink = FileSink<LineFormat>;

    fn new() -> Self {
        SmallLines
    }
    fn sink(&self) -> Self::Sink {
        FileSink::lines("data/out")
    }
    fn record(&self, subtask: u16, n: u64) -> String {
        format!("{subtask} {n}")
    }
    fn visible(&self, files: &MemoryFiles) -> Visible {
        read_parts(files, 0)
    }
}

#[test]
fn lines_are_committed_exactly_once_whatever_fails() {
    check_sink::<SmallLines>();
}

/// Larger than the buffer, so that the worker's thread writes too.
struct LargeLines;

impl SinkCase for LargeLines {
    type Record = String;
    type Sink = FileSink<LineFormat>;

    fn new() -> Self {
        LargeLines
    }
    fn sink(&self) -> Self::Sink {
        FileSink::lines("out")
    }
    fn record(&self, subtask: u16, n: u64) -> String {
        format!("{subtask} {n} {}", "x".repeat(25 << 10))
    }
    fn visible(&self, files: &MemoryFiles) -> Visible {
        read_parts(files, 0)
    }
}

#[test]
fn lines_beyond_the_buffer_are_committed_exactly_once_whatever_fails() {
    check_sink::<LargeLines>();
}

#[derive(Serialize)]
struct Row {
    subtask: u16,
    n: u64,
}

struct RolledCsv;

impl SinkCase for RolledCsv {
    type Record = Row;
    type Sink = FileSink<CsvFormat>;
    const SEVERAL_TOKENS: bool = true;

    fn new() -> Self {
        RolledCsv
    }
    fn sink(&self) -> Self::Sink {
        FileSink::csv("/out").max_part_size(14)
    }
    fn record(&self, subtask: u16, n: u64) -> Row {
        Row { subtask, n }
    }
    fn visible(&self, files: &MemoryFiles) -> Visible {
        read_parts(files, 1)
    }
}

struct AgedLines;

impl SinkCase for AgedLines {
    type Record = String;
    type Sink = FileSink<LineFormat>;
    const SEVERAL_TOKENS: bool = true;

    fn new() -> Self {
        AgedLines
    }
    fn sink(&self) -> Self::Sink {
        FileSink::lines("out").max_part_age(2 * BETWEEN_RECORDS)
    }
    fn record(&self, subtask: u16, n: u64) -> String {
        format!("{subtask} {n}")
    }
    fn visible(&self, files: &MemoryFiles) -> Visible {
        read_parts(files, 0)
    }
}

#[test]
fn lines_in_parts_of_an_age_are_committed_exactly_once_whatever_fails() {
    check_sink::<AgedLines>();
}

#[test]
fn csv_in_parts_of_a_size_is_committed_exactly_once_whatever_fails() {
    check_sink::<RolledCsv>();
}

struct Json;

impl SinkCase for Json {
    type Record = (u16, u64);
    type Sink = FileSink<JsonLineFormat>;

    fn new() -> Self {
        Json
    }
    fn sink(&self) -> Self::Sink {
        FileSink::json_lines("out")
    }
    fn record(&self, subtask: u16, n: u64) -> (u16, u64) {
        (subtask, n)
    }
    fn visible(&self, files: &MemoryFiles) -> Visible {
        read_parts(files, 0)
    }
}

#[test]
fn json_lines_are_committed_exactly_once_whatever_fails() {
    check_sink::<Json>();
}

/// Writes records as one epoch of checkpoint 7, and prepares it.
fn prepare<T: 'static, F: Format<T>>(
    sink: &FileSink<F>,
    files: &MemoryFiles,
    records: Vec<T>,
) -> (Arc<dyn Committer>, Vec<Token>) {
    let cx = sink_context(Arc::new(files.clone()));
    let mut writer = sink.open(&cx).unwrap();
    for record in records {
        writer.write(record, Time(0)).unwrap();
    }
    let mut sealed = SinkWriter::<T>::seal(&mut writer, CheckpointId(7)).unwrap();
    let committer = Sink::<T>::committer(sink, &cx).unwrap();
    let tokens = committer.prepare(&mut sealed).unwrap();
    (committer, tokens)
}

/// All committed text after one epoch.
fn written<T: 'static, F: Format<T>>(sink: &FileSink<F>, records: Vec<T>) -> Vec<String> {
    let files = MemoryFiles::new();
    let (committer, tokens) = prepare(sink, &files, records);
    tokens.iter().for_each(|token| committer.commit(token).unwrap());
    files.all_files().iter().map(|path| String::from_utf8(files.get(path).unwrap()).unwrap()).collect()
}

#[test]
fn a_part_has_the_name_of_its_checkpoint_and_its_pending_name_that_of_the_attempt() {
    let files = MemoryFiles::new();
    let (committer, tokens) = prepare(&FileSink::lines("out"), &files, vec!["a"]);
    assert_eq!(files.all_files(), ["out/.part-out-life-0000000001-00000-00000.txt"]);
    committer.commit(&tokens[0]).unwrap();
    assert_eq!(files.all_files(), ["out/part-out-life-0000000007-00000-00000.txt"]);
    assert_eq!(tokens[0].name, "part-out-life-0000000007-00000-00000.txt");
}

/// The parts of one epoch of lines, each written at a moment in seconds.
fn written_at(sink: &FileSink<LineFormat>, records: &[(u64, &'static str)]) -> Vec<String> {
    let files = MemoryFiles::new();
    let cx = sink_context(Arc::new(files.clone()));
    let mut writer = Sink::<&'static str>::open(sink, &cx).unwrap();
    for (second, record) in records {
        writer.write(*record, Time(second * 1_000_000)).unwrap();
    }
    let mut sealed = SinkWriter::<&'static str>::seal(&mut writer, CheckpointId(7)).unwrap();
    let committer = Sink::<&'static str>::committer(sink, &cx).unwrap();
    committer.prepare(&mut sealed).unwrap().iter().for_each(|token| committer.commit(token).unwrap());
    files.all_files().iter().map(|path| String::from_utf8(files.get(path).unwrap()).unwrap()).collect()
}

#[test]
fn a_part_that_is_old_enough_is_cut_at_the_next_record() {
    let sink = FileSink::lines("out").max_part_age(Duration::from_secs(10));
    assert_eq!(written_at(&sink, &[(5, "a"), (14, "b"), (15, "c"), (24, "d"), (90, "e")]), ["a\nb\n", "c\nd\n", "e\n"]);
    assert_eq!(written_at(&sink, &[(5, "a"), (5, "b")]), ["a\nb\n"], "its age counts from its own first record");
    let both = FileSink::lines("out").max_part_age(Duration::from_secs(10)).max_part_size(4);
    assert_eq!(written_at(&both, &[(0, "a"), (1, "b"), (2, "c"), (12, "d")]), ["a\nb\n", "c\n", "d\n"]);
    assert_eq!(written_at(&FileSink::lines("out"), &[(0, "a"), (u64::MAX / 1_000_000, "b")]), ["a\nb\n"]);
}

#[test]
fn a_gap_between_two_records_cuts_a_part_and_a_steady_stream_does_not() {
    let sink = FileSink::lines("out").max_part_gap(Duration::from_secs(10));
    assert_eq!(written_at(&sink, &[(5, "a"), (14, "b"), (23, "c"), (33, "d"), (34, "e")]), ["a\nb\nc\n", "d\ne\n"]);
    assert_eq!(written_at(&sink, &[(90, "a"), (91, "b")]), ["a\nb\n"], "before the first record there is no gap");
    let both = sink.max_part_age(Duration::from_secs(15));
    assert_eq!(written_at(&both, &[(0, "a"), (9, "b"), (16, "c"), (27, "d")]), ["a\nb\n", "c\n", "d\n"]);
}

#[test]
fn a_checkpoint_cuts_a_part_of_any_age_and_the_next_one_is_new() {
    let files = MemoryFiles::new();
    let sink = FileSink::lines("out").max_part_age(Duration::from_secs(10));
    let mut writer = Sink::<&str>::open(&sink, &sink_context(Arc::new(files))).unwrap();
    let parts = |sealed: Option<Sealed>| sealed.unwrap().downcast::<SealedParts>().unwrap().parts.len();
    writer.write("a", Time(0)).unwrap();
    assert_eq!(parts(SinkWriter::<&str>::seal(&mut writer, CheckpointId(7))), 1);
    writer.write("b", Time(9_000_000)).unwrap();
    writer.write("c", Time(18_000_000)).unwrap();
    assert_eq!(parts(SinkWriter::<&str>::seal(&mut writer, CheckpointId(8))), 1);
}

#[test]
fn csv_has_a_header_in_each_part() {
    let rows = || vec![Row { subtask: 1, n: 2 }, Row { subtask: 3, n: 4 }];
    assert_eq!(written(&FileSink::csv("out"), rows()), ["subtask,n\n1,2\n3,4\n"]);
    assert_eq!(written(&FileSink::csv("out").max_part_size(1), rows()), ["subtask,n\n1,2\n", "subtask,n\n3,4\n"]);
    assert_eq!(written(&FileSink::csv("out").without_header().delimiter(b';'), rows()), ["1;2\n3;4\n"]);
    let tuples = vec![("a,b".to_owned(), 1), ("say \"hi\"\n".to_owned(), 2)];
    let named = FileSink::csv("out").header(["word", "count"]);
    assert_eq!(written(&named, tuples.clone()), ["word,count\n\"a,b\",1\n\"say \"\"hi\"\"\n\",2\n"]);
    assert_eq!(written(&FileSink::csv("out"), tuples), ["\"a,b\",1\n\"say \"\"hi\"\"\n\",2\n"]);
}

#[test]
fn a_record_that_is_not_flat_is_an_error_that_says_so() {
    let nested = vec![std::collections::BTreeMap::from([("key", 1)])];
    let mut writer = Sink::<Vec<std::collections::BTreeMap<&str, i32>>>::open(
        &FileSink::csv("out"),
        &sink_context(Arc::new(MemoryFiles::new())),
    )
    .unwrap();
    let error = writer.write(nested, Time(0)).unwrap_err();
    assert!(error.to_string().contains("a CSV record is flat"), "{error}");
}

#[test]
fn an_empty_epoch_leaves_no_file() {
    let files = MemoryFiles::new();
    let mut writer = Sink::<String>::open(&FileSink::lines("out"), &sink_context(Arc::new(files.clone()))).unwrap();
    assert!(SinkWriter::<String>::seal(&mut writer, CheckpointId(1)).is_none());
    assert!(files.all_files().is_empty());
    assert!(
        crate::io::Files::info(&files, "out".as_ref()).unwrap().is_dir,
        "the directory is made when the sink opens"
    );
}

#[test]
fn sealing_asks_nothing_of_the_file_system() {
    let files = MemoryFiles::new();
    let mut writer = Sink::<i32>::open(&FileSink::lines("out"), &sink_context(Arc::new(files.clone()))).unwrap();
    for n in 0..10_000 {
        writer.write(n, Time(0)).unwrap();
    }
    let before = files.calls();
    assert!(SinkWriter::<i32>::seal(&mut writer, CheckpointId(1)).is_some());
    assert_eq!(files.calls(), before);
}

const FINAL: &str = "out/part-out-life-0000000007-00000-00000.txt";
const PENDING: &str = "out/.part-out-life-0000000001-00000-00000.txt";

#[test]
fn a_final_name_that_is_taken_is_success_only_for_the_same_content() {
    let files = MemoryFiles::new();
    let (committer, tokens) = prepare(&FileSink::lines("out"), &files, vec!["a"]);
    files.put(FINAL, "b\n");
    let error = committer.commit(&tokens[0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutputDamaged, "the same length, another content: {error}");
    assert!(error.to_string().contains(FINAL), "{error}");
    assert_eq!(files.get(FINAL).unwrap(), b"b\n", "nothing is replaced");
    assert_eq!(files.get(PENDING).unwrap(), b"a\n", "nothing is removed");
    files.put(FINAL, "a\n");
    committer.commit(&tokens[0]).unwrap();
    assert_eq!(files.all_files(), [FINAL]);
}

#[test]
fn a_collision_of_two_copies_of_a_checkpoint_directory_says_what_happened_and_what_to_do() {
    let files = MemoryFiles::new();
    // Both resumed from one checkpoint and took the next one: the same name, another content.
    let (first, tokens) = prepare(&FileSink::lines("out"), &files, vec!["a"]);
    first.commit(&tokens[0]).unwrap();
    let (second, tokens) = prepare(&FileSink::lines("out"), &files, vec!["b"]);
    let error = second.commit(&tokens[0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutputDamaged, "{error}");
    for part in ["checkpoint directory is a copy", "only one of the two", FINAL] {
        assert!(error.to_string().contains(part), "`{part}` is missing: {error}");
    }
    assert_eq!(files.get(FINAL).unwrap(), b"a\n", "nothing is replaced");
}

#[cfg(unix)]
#[test]
fn what_is_no_file_in_the_place_of_output_is_damage_at_once() {
    use crate::io::files::OsFiles;
    use std::os::unix::fs::symlink;
    type Make = fn(&std::path::Path);
    let things: [Make; 2] =
        [|path| std::fs::create_dir(path).expect("a directory"), |path| symlink("nowhere", path).expect("a link")];
    for (in_the_place_of_pending, make) in [false, true].into_iter().flat_map(|place| things.map(|make| (place, make)))
    {
        let directory = tempfile::tempdir().expect("a directory");
        let out = directory.path().join("out");
        std::fs::create_dir(&out).expect("a directory");
        let sink = FileSink::lines(&out);
        let cx = sink_context(Arc::new(OsFiles));
        let mut writer = Sink::<&str>::open(&sink, &cx).expect("opened");
        writer.write("a", Time(0)).expect("written");
        let mut sealed = SinkWriter::<&str>::seal(&mut writer, CheckpointId(1)).expect("something was written");
        let committer = Sink::<&str>::committer(&sink, &cx).expect("it commits");
        let token = committer.prepare(&mut sealed).expect("prepared").remove(0);
        let part = PartToken::decode(&token).expect("a token");
        let place = if in_the_place_of_pending { &part.pending } else { &part.committed };
        if in_the_place_of_pending {
            std::fs::remove_file(out.join(place)).expect("it is there");
        }
        make(&out.join(place));
        let error = committer.commit(&token).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutputDamaged, "{error}");
    }
}

#[test]
fn a_missing_pending_file_is_success_only_with_the_right_final_one() {
    let files = MemoryFiles::new();
    let (committer, tokens) = prepare(&FileSink::lines("out"), &files, vec!["a"]);
    committer.commit(&tokens[0]).unwrap();
    committer.commit(&tokens[0]).unwrap();
    files.put(FINAL, "changed\n");
    assert_eq!(committer.commit(&tokens[0]).unwrap_err().kind(), ErrorKind::OutputDamaged);
    crate::io::Files::remove(&files, FINAL.as_ref()).unwrap();
    let error = committer.commit(&tokens[0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutputDamaged);
    assert!(error.to_string().contains(FINAL) && error.to_string().contains(PENDING), "{error}");
}

#[test]
fn staged_output_of_another_length_is_not_published() {
    let files = MemoryFiles::new();
    let (committer, tokens) = prepare(&FileSink::lines("out"), &files, vec!["a"]);
    files.put(PENDING, "");
    assert_eq!(committer.commit(&tokens[0]).unwrap_err().kind(), ErrorKind::OutputDamaged);
    assert_eq!(files.all_files(), [PENDING]);
}

#[test]
fn cleaning_takes_only_what_older_attempts_of_this_sink_and_incarnation_left() {
    let files = MemoryFiles::new();
    let kept = [
        ".part-out-life-0000000002-00000-00000.txt",   // this attempt's
        ".part-out-life-0000000003-00000-00000.txt",   // a newer one's
        ".part-out-other-0000000001-00000-00000.txt",  // another incarnation's
        ".part-out2-life-0000000001-00000-00000.txt",  // another sink's
        ".part-a-out-life-0000000001-00000-00000.txt", // another sink's
        "part-out-life-0000000001-00000-00000.txt",    // committed
        "notes.txt",
        ".part-out-life-1-0-0.txt",
    ];
    kept.iter().for_each(|name| files.put(format!("out/{name}"), "x"));
    let (_, tokens) = prepare(&FileSink::lines("out"), &files, vec!["restored"]);
    files.put("out/.part-out-life-0000000001-00001-00000.txt", "left over");
    let cx = SinkContext { attempt: AttemptId(2), ..sink_context(Arc::new(files.clone())) };
    Sink::<String>::committer(&FileSink::lines("out"), &cx).unwrap().clean(&tokens).unwrap();
    let mut expected: Vec<String> = kept.iter().map(|name| format!("out/{name}")).collect();
    expected.push(PENDING.to_owned());
    expected.sort();
    assert_eq!(files.all_files(), expected);
}

#[test]
fn foreign_parts_are_named_and_only_they_are_overwritten() {
    let files = MemoryFiles::new();
    let foreign = ["part-out-old-0000000001-00000-00000.txt", ".part-out-old-0000000001-00000-00001.txt"];
    let kept = ["part-out-life-0000000001-00000-00000.txt", "part-in-old-0000000001-00000-00000.txt", "readme"];
    foreign.iter().chain(&kept).for_each(|name| files.put(format!("out/{name}"), "x"));
    let committer = Sink::<String>::committer(&FileSink::lines("out"), &sink_context(Arc::new(files.clone()))).unwrap();
    let error = committer.claim(false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains(foreign[0]) && error.to_string().contains("--overwrite"), "{error}");
    assert!(!error.to_string().contains(kept[0]), "{error}");
    committer.claim(true).unwrap();
    assert_eq!(files.all_files().len(), 5, "claiming removes nothing");
    committer.overwrite_foreign().unwrap();
    committer.claim(false).unwrap();
    let mut expected: Vec<String> = kept.iter().map(|name| format!("out/{name}")).collect();
    expected.sort();
    assert_eq!(files.all_files(), expected);
}

#[test]
fn a_directory_that_is_not_there_yet_can_be_claimed() {
    let committer =
        Sink::<String>::committer(&FileSink::lines("out"), &sink_context(Arc::new(MemoryFiles::new()))).unwrap();
    committer.claim(false).unwrap();
}

#[test]
fn a_file_in_the_place_of_the_directory_is_refused() {
    let files = MemoryFiles::new();
    files.put("out", "x");
    let opened = Sink::<String>::open(&FileSink::lines("out"), &sink_context(Arc::new(files)));
    assert_eq!(opened.err().unwrap().kind(), ErrorKind::Refused);
}

#[test]
fn a_prepare_that_failed_to_write_can_be_repeated() {
    let faults = [Fault::Fail(io::ErrorKind::StorageFull), Fault::FailAfter(io::ErrorKind::Other), Fault::Short(1)];
    for (operation, fault) in
        [Operation::CreateNew, Operation::WriteAll, Operation::SyncDir].into_iter().flat_map(|o| faults.map(|f| (o, f)))
    {
        let files = MemoryFiles::new();
        let cx = sink_context(Arc::new(files.clone()));
        let sink = FileSink::lines("out");
        let mut writer = Sink::<&str>::open(&sink, &cx).unwrap();
        writer.write("hello", Time(0)).unwrap();
        let mut sealed = SinkWriter::<&str>::seal(&mut writer, CheckpointId(7)).unwrap();
        let committer = Sink::<&str>::committer(&sink, &cx).unwrap();
        let mut once = true;
        files.set_hook(Some(Box::new(move |call: &FileCall<'_>| {
            let hit = call.operation == operation && std::mem::take(&mut once);
            if hit { fault } else { Fault::None }
        })));
        let served = matches!(fault, Fault::Short(_)) && operation != Operation::WriteAll;
        assert_eq!(committer.prepare(&mut sealed).is_ok(), served, "{operation:?} {fault:?}");
        let tokens = committer.prepare(&mut sealed).unwrap();
        files.crash(0);
        committer.commit(&tokens[0]).unwrap();
        assert_eq!(files.get(FINAL).unwrap(), b"hello\n", "{operation:?} {fault:?}");
    }
}

#[test]
fn a_file_whose_sync_failed_is_never_acknowledged() {
    let files = MemoryFiles::new();
    let cx = sink_context(Arc::new(files.clone()));
    let sink = FileSink::lines("out");
    let mut writer = Sink::<&str>::open(&sink, &cx).unwrap();
    writer.write("hello", Time(0)).unwrap();
    let mut sealed = SinkWriter::<&str>::seal(&mut writer, CheckpointId(7)).unwrap();
    let committer = Sink::<&str>::committer(&sink, &cx).unwrap();
    files.set_hook(Some(Box::new(|call: &FileCall<'_>| match call.operation {
        Operation::Sync => Fault::Fail(io::ErrorKind::Other),
        _ => Fault::None,
    })));
    assert!(committer.prepare(&mut sealed).is_err());
    files.set_hook(None);
    let error = committer.prepare(&mut sealed).unwrap_err();
    assert!(error.to_string().contains("may be lost"), "{error}");
}

#[test]
fn a_pending_name_that_somebody_else_took_is_not_removed() {
    let files = MemoryFiles::new();
    files.put(PENDING, "not ours");
    let cx = sink_context(Arc::new(files.clone()));
    let sink = FileSink::lines("out");
    let mut writer = Sink::<&str>::open(&sink, &cx).unwrap();
    writer.write("hello", Time(0)).unwrap();
    let mut sealed = SinkWriter::<&str>::seal(&mut writer, CheckpointId(7)).unwrap();
    let committer = Sink::<&str>::committer(&sink, &cx).unwrap();
    for _ in 0..2 {
        assert!(committer.prepare(&mut sealed).is_err());
        assert_eq!(files.get(PENDING).unwrap(), b"not ours");
    }
}

proptest::proptest! {
    #[test]
    fn a_damaged_token_is_an_error_and_reaches_no_other_file(payload: Vec<u8>, name: String, at: usize, bit in 0u8..8) {
        let files = MemoryFiles::new();
        let (committer, mut tokens) = prepare(&FileSink::lines("out"), &files, vec!["a"]);
        files.put("secret", "x");
        let noise = Token { name: name.clone(), payload };
        proptest::prop_assert!(committer.commit(&noise).is_err());
        let escape = PartToken { pending: "../secret".into(), committed: name, length: 1, xxh3: String::new() };
        let escape = Token { name: String::new(), payload: serde_json::to_vec(&escape).unwrap() };
        proptest::prop_assert_eq!(committer.commit(&escape).unwrap_err().kind(), ErrorKind::Unusable);
        let length = tokens[0].payload.len();
        tokens[0].payload[at % length] ^= 1 << bit;
        // Whatever it names now, no other file is touched.
        let _ = committer.commit(&tokens[0]);
        proptest::prop_assert_eq!(files.get("secret").unwrap(), b"x");
    }
}
