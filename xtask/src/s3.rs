//! An S3 server for checks: `moto`, on loopback, in memory; installed into the target folder, ended by its process id, or by
//! itself when whoever started it is gone.

use crate::process::{self, exists, target};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The one that the tests were written against.
const MOTO: &str = "moto[server,s3]==5.2.5";

/// What the tests start, too.
const PROGRAM: &str = include_str!("../../crates/flott/tests/s3/server.py");

/// Looks for its answer, a fifth of a second apart.
const LOOKS: u32 = 150;

/// Installs the server into a folder of ours, once; the system's Python packages stay as they are. `install` brings what is
/// missing of the system: a package, and why.
pub(crate) fn library(install: impl Fn(&str, &str) -> Result<(), String>) -> Result<PathBuf, String> {
    let library = target().join("tools/moto");
    let path = library.to_string_lossy().into_owned();
    let is_there = || {
        let load = Command::new("python3").args(["-c", "import moto.server"]).env("PYTHONPATH", &path).output();
        library.join("moto").is_dir() && load.is_ok_and(|output| output.status.success())
    };
    if is_there() {
        return Ok(library);
    }
    if !exists("python3", "--version") {
        install("python3", "the S3 server of the tests is written in it")?;
    }
    let has_pip = || Command::new("python3").args(["-m", "pip", "--version"]).output();
    if !has_pip().is_ok_and(|output| output.status.success()) {
        install("python3-pip", "it fetches the S3 server of the tests")?;
    }
    let pip = ["-m", "pip", "install", "--quiet", "--upgrade", "--target", &path, MOTO];
    process::run("python3", &pip, &[]).map_err(|error| {
        format!("the S3 server of the tests cannot be installed ({error}): install `{MOTO}` into {path} by hand")
    })?;
    if is_there() { Ok(library) } else { Err(format!("`{MOTO}` was installed into {path}, and does not load there")) }
}

/// See the head of this file. There is one bucket.
pub(crate) struct Server {
    port: u16,
    child: Child,
}

impl Server {
    /// Its only bucket.
    pub(crate) const BUCKET: &str = "flott";

    pub(crate) fn start(library: &PathBuf) -> Result<Server, String> {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = port.map_err(|error| format!("there is no free port: {error}"))?.port();
        let mut command = Command::new("python3");
        command.args(["-c", PROGRAM, &port.to_string()]).env("PYTHONPATH", library);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("cannot start python3: {error}"))?;
        let mut server = Server { port, child };
        for _ in 0..LOOKS {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
                return server.make_bucket(stream).map(|()| server);
            }
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(format!("the S3 server ended: {status}"));
            }
            std::thread::park_timeout(Duration::from_millis(200));
        }
        Err("the S3 server does not answer".to_owned())
    }

    fn make_bucket(&self, mut stream: TcpStream) -> Result<(), String> {
        let (bucket, port) = (Server::BUCKET, self.port);
        let head = format!(
            "PUT /{bucket} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let mut answer = String::new();
        let asked = stream.write_all(head.as_bytes()).and_then(|()| stream.read_to_string(&mut answer));
        match asked {
            Ok(_) if answer.starts_with("HTTP/1.1 200") => Ok(()),
            Ok(_) => Err(format!("the S3 server makes no bucket: {answer}")),
            Err(error) => Err(format!("the S3 server makes no bucket: {error}")),
        }
    }

    /// What a program needs to use it.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let variables = [
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_ACCESS_KEY_ID", "testing".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "testing".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
        ];
        variables.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail if it has ended. It is not reaped before: the number is no other's.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
