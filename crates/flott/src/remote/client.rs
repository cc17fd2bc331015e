//! The asking end: finds the socket of a job, asks once, and waits for the answer, but not for ever.

use super::Request;
use flott_runtime::error::{Error, Result};
use flott_runtime::io::local_socket::{live_sockets, socket_directory};
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A job that lives answers long before.
const PATIENCE: Duration = Duration::from_secs(10);

/// No answer is longer.
const LONGEST_ANSWER: u64 = 16 << 20;

/// Asks the job whose name or socket this is; something with a `/` is a socket.
///
/// # Errors
/// If there is no such job or there are several, if it does not answer, or what it answers is an error.
pub fn ask(job: &str, request: &Request) -> Result<Value> {
    let (path, stream) = connect(job)?;
    let failed = |error: std::io::Error| {
        let why = match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => "it does not answer".to_owned(),
            _ => error.to_string(),
        };
        Error::failed(format!("the job at {} cannot be asked: {why}", path.display()))
    };
    let answer = exchange(stream, request).map_err(failed)?;
    let answer: Value = serde_json::from_slice(&answer).map_err(|error| failed(error.into()))?;
    match answer.get("error").and_then(Value::as_str) {
        Some(error) if answer.get("exit_code").and_then(Value::as_u64) == Some(2) => Err(Error::refused(error)),
        Some(error) => Err(Error::failed(error)),
        None => Ok(answer),
    }
}

fn exchange(stream: UnixStream, request: &Request) -> std::io::Result<Vec<u8>> {
    stream.set_read_timeout((!request.is_long()).then_some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    (&stream).write_all(&line)?;
    let mut answer = Vec::new();
    BufReader::new(stream).take(LONGEST_ANSWER).read_until(b'\n', &mut answer)?;
    if answer.is_empty() { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(answer) }
}

fn connect(job: &str) -> Result<(PathBuf, UnixStream)> {
    if job.contains('/') {
        let stream = UnixStream::connect(job);
        return stream.map(|stream| (PathBuf::from(job), stream)).map_err(|error| {
            Error::refused(format!("nobody listens at {job}: {error}"))
                .hint("a running job prints its socket at its start; one that was killed leaves a dead one behind")
        });
    }
    let directory = socket_directory();
    let mut found = live_sockets(&directory, job)
        .map_err(|error| Error::refused(format!("cannot look for sockets in {}: {error}", directory.display())))?;
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(last), false) => Err(several(job, found.iter().chain([&last]).map(|(path, _)| path.as_path()))),
        (None, _) => Err(Error::refused(format!("no running job `{job}` has a socket in {}", directory.display()))
            .hint("a running job prints its socket at its start; name that, or set XDG_RUNTIME_DIR or TMPDIR as the job has it")),
    }
}

fn several<'a>(job: &str, paths: impl Iterator<Item = &'a Path>) -> Error {
    let paths: Vec<String> = paths.map(|path| path.display().to_string()).collect();
    Error::refused(format!("{} running jobs are called `{job}`", paths.len()))
        .hint(format!("name the socket of one of them: {}", paths.join(", ")))
}
