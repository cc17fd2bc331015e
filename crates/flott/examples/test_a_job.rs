//! A job that is written so that it can be tested, and its tests: `cargo test -p flott --example test_a_job`.
//!
//! The job counts the visits of each page and says once when a page has been silent for a while. Its graph is a function of
//! its source and its sink, so that the program gives it a generator and the standard output, and a test what it likes. See
//! `docs/guide/testing-a-job.md`.
//!
//! ```sh
//! cargo run --release --example test_a_job
//! ```

use flott::connector::{Sink, Source, print};
use flott::prelude::*;
use std::time::Duration;

/// A page without a visit for so long is silent.
const SILENCE: Duration = Duration::from_millis(50);

/// The graph, with whatever source and sink.
fn visits(job: &Job, pages: impl Source<Item = String>, out: impl Sink<String, Writer: 'static>) {
    job.source("visits", pages)
        .key_by(|page| page.clone())
        .process_with_timers(
            "silence",
            (Value::<u64>::named("visits"), Value::<Time>::named("alarm")),
            |(mut visits, mut alarm), _page, out| {
                visits.update(|| 0, |visits| *visits += 1);
                if let Some(old) = alarm.get() {
                    out.delete_timer(*old);
                }
                alarm.set(out.timer_after(SILENCE));
                Ok(())
            },
            |(mut visits, mut alarm), _moment, out| {
                let count = visits.get().copied().unwrap_or(0);
                visits.clear();
                alarm.clear();
                out.emit(format!("{} is silent after {count} visits", out.key));
                Ok(())
            },
        )
        .sink("out", out);
}

fn main() -> flott::Result<()> {
    flott::main("test-a-job", |job| {
        let pages = Generator::new(200, 1, |n, random| format!("/page/{}", (n / 20 + random.below(3)) % 12));
        visits(job, pages.rate(200.0), print());
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flott::Mode;
    use flott::testing::{Crash, MemorySink, MemorySource, Test};

    /// Five visits of each of 200 pages, one page after the other.
    fn pages() -> MemorySource<String> {
        MemorySource::new((0..1_000u32).map(|n| format!("/{}", n / 5)).collect())
    }

    fn expected() -> Vec<String> {
        let mut lines: Vec<String> = (0..200).map(|page| format!("/{page} is silent after 5 visits")).collect();
        lines.sort();
        lines
    }

    #[test]
    fn every_page_falls_silent_once_whatever_the_order_and_the_mode() {
        for mode in [Mode::Aligned, Mode::Unaligned, Mode::StopTheWorld] {
            for seed in 0..5 {
                let (job, out) = (Job::new("visits"), MemorySink::new());
                visits(&job, pages(), out.clone());
                Test::new(&job).seed(seed).mode(mode).run().unwrap();
                let mut lines = out.committed();
                lines.sort();
                assert_eq!(lines, expected(), "mode {mode}, seed {seed}");
            }
        }
    }

    #[test]
    fn crashes_lose_and_double_nothing() {
        for seed in 0..10 {
            let (job, out) = (Job::new("visits"), MemorySink::new());
            visits(&job, pages(), out.clone());
            let test = Test::new(&job).seed(seed).interval(Duration::from_millis(3));
            let tested = test.crash(Crash::AfterCheckpoint(1)).crash(Crash::AtTurn(100 + seed)).run().unwrap();
            assert!(tested.crashes >= 1, "seed {seed}: nothing was tested");
            let mut lines = out.committed();
            lines.sort();
            assert_eq!(lines, expected(), "seed {seed}, restored {:?}", tested.restored);
        }
    }
}
