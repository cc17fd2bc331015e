//! The answering end of a job's local socket: reads requests, hands them to [`Commands`], writes answers.
//!
//! Whoever connects may be slow, silent or wrong; that costs the job nothing but a small task, and for a bounded time.

use super::task::task;
use crate::handle::Commands;
use crate::remote::{LONGEST_REQUEST, Request, refusal, status_answer};
use crate::settings::{parse_interval, parse_mode};
use flott_runtime::error::{Error, Result};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

#[cfg(test)]
mod tests;

/// Clients at a time; more are told so and sent away.
const MOST_CLIENTS: usize = 64;

/// A client that neither asks nor reads for so long is left.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two tries to accept when that fails: there are no more file descriptors, and time may help.
const BETWEEN_TRIES: Duration = Duration::from_millis(200);

/// Serves until the runtime ends.
pub(crate) async fn serve(listener: UnixListener, job: Arc<str>, commands: Commands) {
    let places = Arc::new(Semaphore::new(MOST_CLIENTS));
    loop {
        let Ok((mut client, _)) = listener.accept().await else {
            tokio::time::sleep(BETWEEN_TRIES).await;
            continue;
        };
        let place = Arc::clone(&places).try_acquire_owned();
        let (job, commands) = (Arc::clone(&job), commands.clone());
        tokio::spawn(task(async move {
            match place {
                Ok(_place) => talk(client, &job, &commands).await,
                Err(_) => {
                    let error = Error::failed(format!("{MOST_CLIENTS} clients are being served already; ask again"));
                    answer(&mut client, &refusal(&error)).await;
                }
            }
        }));
    }
}

/// Answers one client until it goes away, is silent for too long, or says something too long.
async fn talk(mut client: UnixStream, job: &str, commands: &Commands) {
    let (from, mut to) = client.split();
    let mut from = BufReader::new(from);
    let longest = u64::try_from(LONGEST_REQUEST).unwrap_or(u64::MAX) + 1;
    loop {
        let mut line = Vec::new();
        let mut next = (&mut from).take(longest);
        match timeout(PATIENCE, next.read_until(b'\n', &mut line)).await {
            Ok(Ok(1..)) => {}
            _ => return,
        }
        let is_whole = line.last() == Some(&b'\n');
        let _busy;
        let said = match Request::parse(line.trim_ascii()) {
            Ok(Request::Savepoint { directory, stop, drain }) => {
                // A job that ends with a savepoint says so before it is gone.
                _busy = commands.busy().await;
                savepoint(&directory, stop, drain, commands).await
            }
            Ok(request) => obey(request, job, commands).await,
            Err(error) => Err(error),
        };
        let said = said.unwrap_or_else(|error| refusal(&error));
        // What follows a line without an end cannot be told from its rest.
        if !answer(&mut to, &said).await || !is_whole {
            return;
        }
    }
}

async fn obey(request: Request, job: &str, commands: &Commands) -> Result<Value> {
    match request {
        Request::Status {} | Request::Savepoint { .. } => {}
        Request::Set { checkpoint_mode: None, checkpoint_interval: None } => {
            return Err(Error::refused("nothing is to be set: name a mode, an interval, or both"));
        }
        Request::Set { checkpoint_mode, checkpoint_interval } => {
            let mode = checkpoint_mode.map(|text| parse_mode(&text)).transpose().map_err(Error::refused)?;
            let interval = checkpoint_interval.map(|text| parse_interval(&text)).transpose().map_err(Error::refused)?;
            commands.set(mode, interval)?;
            made(commands, mode, interval).await;
        }
    }
    // Workers that hang are named after a second; a driver that does is no reason to hang too.
    let pending = timeout(PATIENCE, commands.locate()).await.ok().flatten();
    Ok(status_answer(job, &commands.status(), pending.as_deref()))
}

async fn savepoint(directory: &str, stop: bool, drain: bool, commands: &Commands) -> Result<Value> {
    if !directory.starts_with('/') && !directory.contains("://") {
        return Err(Error::refused(format!(
            "`{directory}` is no absolute path: the job runs in a directory of its own"
        )));
    }
    let taken = match (stop, drain) {
        (true, drain) => commands.end_with_savepoint(directory, drain).await?,
        (false, false) => commands.take_savepoint(directory).await?,
        (false, true) => return Err(Error::refused("a job is drained only to be stopped: add --stop")),
    };
    Ok(json!({"path": taken.path, "checkpoint": taken.checkpoint, "bytes": taken.bytes, "stopped": stop}))
}

/// Waits until a change shows, or somebody else has made another.
async fn made(commands: &Commands, mode: Option<flott_checkpoint::Mode>, interval: Option<Duration>) {
    let shows = async {
        loop {
            let status = commands.status();
            let has_mode = mode.is_none_or(|mode| status.checkpoint_mode == Some(mode));
            if has_mode && interval.is_none_or(|interval| status.checkpoint_interval == Some(interval)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // The driver takes commands at once; only one that another client has overtaken does not show.
    let _ = timeout(Duration::from_secs(1), shows).await;
}

/// False if the client does not read it.
async fn answer(to: &mut (impl AsyncWriteExt + Unpin), said: &Value) -> bool {
    let line = format!("{said}\n");
    matches!(timeout(PATIENCE, to.write_all(line.as_bytes())).await, Ok(Ok(())))
}
