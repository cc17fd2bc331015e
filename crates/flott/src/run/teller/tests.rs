//! What a listener hears that is slower than its job.

use super::super::driver::Listen;
use super::*;
use flott_runtime::error::Error;
use std::sync::mpsc;

/// Says what it hears, each word after a permit.
struct Slow {
    permits: mpsc::Receiver<()>,
    heard: mpsc::Sender<String>,
}

impl Slow {
    fn say(&self, word: String) {
        let _ = self.permits.recv();
        self.heard.send(word).unwrap();
    }
}

impl Listen for Slow {
    fn on_event(&mut self, _: Time, event: &JobEvent, _: &Status) {
        self.say(match event {
            JobEvent::Progress { .. } => "progress".to_owned(),
            JobEvent::Warning(warning) => warning.to_string(),
            other => panic!("not told: {other:?}"),
        });
    }

    fn on_end(&mut self, result: &Result<Report>) {
        self.say(result.as_ref().expect_err("told so").to_string());
    }
}

#[test]
fn a_listener_that_rests_holds_nobody_up_and_misses_only_progress() {
    let (permits, receiver) = mpsc::channel();
    let (heard, hears) = mpsc::channel();
    let teller = Teller::start(Box::new(Slow { permits: receiver, heard })).unwrap();
    for round in 0..1_000 {
        teller.tell(Time(round), JobEvent::Progress { records_in: round, records_out: round }, Status::default());
    }
    for round in 0..100 {
        teller.tell(Time(round), JobEvent::Warning(format!("warning {round}")), Status::default());
    }
    let told = teller.end(Err(Error::failed("the end")));
    // It does not wait any more.
    drop(permits);
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(told);
    let heard: Vec<String> = hears.try_iter().collect();
    let progress = heard.iter().filter(|word| *word == "progress").count();
    assert!((MANY..=MANY + 1).contains(&progress), "{progress}");
    let rest: Vec<&String> = heard.iter().filter(|word| *word != "progress").collect();
    assert_eq!(rest.len(), 101);
    assert!(rest.iter().take(100).enumerate().all(|(round, word)| **word == format!("warning {round}")));
    assert!(rest[100].contains("the end"));
}

#[test]
fn a_listener_goes_when_the_driver_does() {
    let (permits, receiver) = mpsc::channel();
    let (heard, hears) = mpsc::channel();
    let teller = Teller::start(Box::new(Slow { permits: receiver, heard })).unwrap();
    teller.tell(Time(0), JobEvent::Warning("last".to_owned()), Status::default());
    permits.send(()).unwrap();
    drop(teller);
    assert_eq!(hears.iter().collect::<Vec<_>>(), ["last"], "and then its end of the channel is gone");
}
