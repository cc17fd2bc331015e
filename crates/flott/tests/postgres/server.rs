//! A PostgreSQL server of a test's own: data in a temporary folder, on loopback, never as root, ended by its process id.

use crate::process::wait_for;
use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The user that the server knows.
const USER: &str = "flott";

/// See the head of this file.
pub(crate) struct Server {
    dir: TempDir,
    programs: PathBuf,
    /// Whom it runs as, if the tests run as root.
    runs_as: Option<(u32, u32)>,
    port: u16,
    child: Option<Child>,
}

/// Where `initdb` is. Debian keeps it out of the path.
fn programs() -> PathBuf {
    let named = std::env::var_os("FLOTT_POSTGRES_BIN").map(PathBuf::from);
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut known: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    known.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = named.into_iter().chain(known.into_iter().rev()).chain(std::env::split_paths(&path));
    all.into_iter().find(|directory| directory.join("initdb").exists()).expect(
        "these tests need a PostgreSQL server: `cargo xtask test --real postgres` installs one, or name the directory of \
         `initdb` in FLOTT_POSTGRES_BIN",
    )
}

/// Some user that is not root, by the system's list: the server refuses root.
fn somebody() -> (u32, u32) {
    let users = fs::read_to_string("/etc/passwd").expect("the system has users");
    let of = |name: &str| {
        let line = users.lines().find(|line| line.starts_with(&format!("{name}:")))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    of("postgres").or_else(|| of("nobody")).expect("a user that is not root")
}

impl Server {
    /// Makes a database and starts its server.
    pub(crate) fn new() -> Server {
        let dir = tempfile::tempdir().expect("a directory");
        let is_root = rustix::process::geteuid().is_root();
        let runs_as = is_root.then(somebody);
        if let Some((user, group)) = runs_as {
            std::os::unix::fs::chown(dir.path(), Some(user), Some(group)).expect("root may");
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port").port();
        let mut server = Server { dir, programs: programs(), runs_as, port, child: None };
        let data = server.data();
        let made = server
            .program("initdb")
            .args(["-A", "trust", "-E", "UTF8", "--no-sync", "--no-locale", "-U", USER, "-D"])
            .arg(&data)
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        server.start();
        server
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn program(&self, name: impl AsRef<Path>) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        if let Some((user, group)) = self.runs_as {
            command.uid(user).gid(group);
        }
        command
    }

    /// For the job.
    pub(crate) fn connection(&self) -> String {
        format!("host=127.0.0.1 port={} user={USER} dbname=postgres", self.port)
    }

    /// Starts it, and waits until it answers.
    pub(crate) fn start(&mut self) {
        let data = self.data();
        wait_for("the server answers", || {
            let ended = self.child.as_mut().is_none_or(|child| child.try_wait().expect("asked").is_some());
            if ended {
                // What a killed server leaves is given back a little later: then it is tried again.
                let port = self.port.to_string();
                let log =
                    fs::File::options().create(true).append(true).open(self.dir.path().join("log")).expect("a log");
                let mut command = self.program("postgres");
                command.arg("-D").arg(&data).args(["-p", &port, "-c", "listen_addresses=127.0.0.1"]);
                command.args(["-c", "unix_socket_directories=", "-c", "fsync=off"]);
                command.stdout(Stdio::null()).stderr(log);
                self.child = Some(command.spawn().expect("postgres runs"));
            }
            self.try_sql("SELECT 1").ok()
        });
    }

    /// Kills it with all its processes; what was committed is on the disk.
    pub(crate) fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap_or_default();
        // Both fail if it has ended by itself.
        let _ = child.kill();
        let _ = child.wait();
        for pid in children.split_whitespace().filter_map(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?)) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    /// The answer to a statement, a line for each row, fields separated by `|`.
    pub(crate) fn sql(&self, statement: &str) -> Vec<String> {
        self.try_sql(statement).unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    /// Keeps everybody from writing to a table, until what it gives back is dropped.
    pub(crate) fn hold(&self, table: &str) -> Holder {
        let lock = format!("BEGIN; LOCK TABLE {table} IN SHARE MODE; SELECT pg_sleep(600)");
        let mut command = self.program("psql");
        command.args(["-X", "-q", "-d"]).arg(self.connection()).args(["-c", &lock]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("psql runs");
        let held =
            format!("SELECT 1 FROM pg_locks WHERE relation = '{table}'::regclass AND mode = 'ShareLock' AND granted");
        wait_for("the table is locked", || (!self.sql(&held).is_empty()).then_some(()));
        let ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)' AND pid <> pg_backend_pid()";
        Holder { child, end: Box::new(self.statement(ends)) }
    }

    fn statement(&self, statement: &str) -> Command {
        let mut command = self.program("psql");
        command.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d"].map(OsStr::new));
        command.arg(self.connection()).args(["-c", statement]);
        command
    }

    fn try_sql(&self, statement: &str) -> Result<Vec<String>, String> {
        let output = self.statement(statement).output().expect("psql runs");
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    }
}

/// Has a table locked.
pub(crate) struct Holder {
    child: Child,
    end: Box<Command>,
}

impl Drop for Holder {
    fn drop(&mut self) {
        // The server notices a client that is gone only when it has something to say to it.
        let _ = self.end.output();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
