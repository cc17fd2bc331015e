//! Sessions by processing time: lines of text from a socket belong to one session until nothing came for a while.
//!
//! ```sh
//! nc -lk 7777 &
//! cargo run -p flott --example sessions_by_timer -- --address 127.0.0.1:7777 --gap 5
//! ```
//! The first word of a line is its user. Kill the job and start it again: the open sessions are still there, and those that
//! ended meanwhile come out at once.

use flott::prelude::*;
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(clap::Args)]
struct Arguments {
    /// Where lines come from.
    #[arg(long, default_value = "127.0.0.1:7777")]
    address: String,
    /// Seconds of silence that end a session.
    #[arg(long, default_value_t = 5)]
    gap: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Session {
    lines: u64,
    began: Time,
    ends: Time,
}

/// User, number of lines, and milliseconds from the first to the last.
fn sessions(lines: Stream<String>, gap: Duration) -> Stream<(String, u64, u64)> {
    lines.key_by(|line| line.split(' ').next().unwrap_or_default().to_owned()).process_with_timers(
        "sessions",
        Value::<Session>::named("open"),
        move |mut open, _line, out| {
            let before = open.get().cloned();
            if let Some(session) = &before {
                out.delete_timer(session.ends);
            }
            let ends = out.timer_after(gap);
            let (lines, began) = before.map_or((0, out.now()), |session| (session.lines, session.began));
            open.set(Session { lines: lines + 1, began, ends });
            Ok(())
        },
        move |mut open, moment, out| {
            if let Some(session) = open.get() {
                let length = moment.since(session.began).saturating_sub(gap);
                let record = (out.key.clone(), session.lines, u64::try_from(length.as_millis())?);
                out.emit(record);
            }
            open.clear();
            Ok(())
        },
    )
}

fn main() -> flott::Result<()> {
    flott::main_with::<Arguments>("sessions", |arguments, job| {
        let lines = job.source("lines", SocketSource::connect(&arguments.address));
        sessions(lines, Duration::from_secs(arguments.gap))
            .map(|(user, lines, millis)| format!("{user}: {lines} lines in {millis} ms"))
            .sink("out", print());
    })
}
