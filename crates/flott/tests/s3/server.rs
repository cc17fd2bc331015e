//! An S3 server of a test's own: `moto`, on loopback, in memory, ended by its process id, or by itself when the test is gone.

use crate::process::wait_for;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// What is run by Python; `cargo xtask kill --s3` starts the same.
const PROGRAM: &str = include_str!("server.py");

/// See the head of this file.
pub(crate) struct Server {
    port: u16,
    child: Child,
}

/// Where `cargo xtask test --real s3` has installed it; nothing if it is to be found by Python itself.
fn library() -> PathBuf {
    let named = std::env::var_os("FLOTT_MOTO").map(PathBuf::from);
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    named.unwrap_or_else(|| target.join("tools/moto"))
}

impl Server {
    /// Starts one that takes everybody's word for who they are.
    pub(crate) fn new() -> Server {
        Server::start(&[])
    }

    /// Starts one that knows nobody, and so turns everybody away after the first request.
    pub(crate) fn that_knows_nobody() -> Server {
        Server::start(&[("INITIAL_NO_AUTH_ACTION_COUNT", "1")])
    }

    fn start(environment: &[(&str, &str)]) -> Server {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port").port();
        let mut command = Command::new("python3");
        command.args(["-c", PROGRAM, &port.to_string()]).env("PYTHONPATH", library());
        command.envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("these tests need python3");
        let mut stderr = child.stderr.take().expect("piped");
        // Read to its end, so that the server never waits for it.
        let said = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        let mut said = Some(said);
        let mut server = Server { port, child };
        wait_for("the S3 server answers", || {
            if server.child.try_wait().expect("asked").is_some() {
                let text = said.take().and_then(|said| said.join().ok()).unwrap_or_default();
                panic!(
                    "no S3 server: `cargo xtask test --real s3` installs one, or name its folder in FLOTT_MOTO: {text}"
                );
            }
            TcpStream::connect(server.address()).ok()
        });
        server
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Makes a bucket.
    pub(crate) fn bucket(&self, name: &str) {
        let mut stream = TcpStream::connect(self.address()).expect("it listens");
        let host = self.address();
        write!(stream, "PUT /{name} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail if it has ended by itself. It is not reaped before: the number is no other's.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
