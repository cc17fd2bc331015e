//! A job with its metrics served, and read as often as anybody would: what that costs belongs to the job's CPU time.

use flott::prelude::*;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Prometheus asks each 15 s or so.
const EACH: Duration = Duration::from_secs(1);

/// Runs a job to its end, and reads its metrics each second.
pub(crate) fn run_scraped(job: &Job) -> Result<(), String> {
    job.metrics("127.0.0.1:0");
    let running = job.spawn().map_err(|error| error.to_string())?;
    let address = running.metrics_address().ok_or("the job serves no metrics")?.to_owned();
    loop {
        match running.wait_for(EACH) {
            Some(ended) => return ended.map(drop).map_err(|error| error.to_string()),
            None => read(&address).map_err(|error| format!("cannot read metrics at {address}: {error}"))?,
        }
    }
}

fn read(address: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    if text.contains("flott_") { Ok(()) } else { Err(std::io::Error::other(format!("it answers {text:?}"))) }
}
