//! A commit that fails is told before the attempt ends by it.

use super::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// Fails so many times, and then commits.
struct Refuses {
    left: AtomicU32,
    error: Error,
}

impl Committer for Refuses {
    fn claim(&self, _: bool) -> Result<()> {
        Ok(())
    }

    fn overwrite_foreign(&self) -> Result<()> {
        Ok(())
    }

    fn prepare(&self, _: &mut Sealed) -> Result<Vec<Token>> {
        Ok(Vec::new())
    }

    fn commit(&self, _: &Token) -> Result<()> {
        let fails = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if fails.is_ok() { Err(self.error.clone()) } else { Ok(()) }
    }

    fn clean(&self, _: &[Token]) -> Result<()> {
        Ok(())
    }
}

struct NoWriter;

impl Seal for NoWriter {
    fn seal(&mut self, _: CheckpointId) -> Option<Sealed> {
        None
    }

    fn ready(&mut self) -> bool {
        true
    }
}

/// Commits some tokens of checkpoint 1; says what was told, how often it was tried, and how it ended.
fn commit(failures: u32, error: Error) -> (Vec<String>, u32, Result<()>) {
    commit_with(Arc::new(Refuses { left: AtomicU32::new(failures), error }), 1)
}

fn commit_with(committer: Arc<dyn Committer>, tokens: usize) -> (Vec<String>, u32, Result<()>) {
    let whose = Whose { job: "job".into(), subtask: 0 };
    let mut port = SinkPort::new("out", whose, Some(committer), Rc::new(RefCell::new(NoWriter)));
    let token = |_| Arc::new(Token { name: "part".into(), payload: Vec::new() });
    port.restore(CheckpointId(1), (0..tokens).map(token).collect());
    let (mut told, mut tries, mut now) = (Vec::new(), 0, Time(0));
    while !port.is_committed(CheckpointId(1)) {
        now = port.wake_at().unwrap_or(now);
        let call = port.next_call(now).expect("it is due");
        tries += 1;
        match port.on_answer((call.0)(), now) {
            Ok(SinkNews::Nothing) => {}
            Ok(SinkNews::Hindered(error)) => told.push(error.to_string()),
            Ok(SinkNews::NotPrepared(error)) => panic!("{error}"),
            Err(error) => return (told, tries, Err(error)),
        }
    }
    (told, tries, Ok(()))
}

#[test]
fn a_commit_that_goes_on_failing_is_told_once_and_ends_the_attempt_only_later() {
    let failure = || Error::failed("DELETE denied");
    for hiccup in 0..TRIES_BEFORE_TELLING {
        let (told, tries, end) = commit(hiccup, failure());
        assert_eq!((told.len(), tries, end.is_ok()), (0, hiccup + 1, true));
    }
    let (told, tries, end) = commit(COMMIT_TRIES - 1, failure());
    assert_eq!((tries, end.is_ok()), (COMMIT_TRIES, true));
    assert!(matches!(&told[..], [one] if one.contains("DELETE denied") && one.contains("out")), "{told:?}");
    let (told, tries, end) = commit(COMMIT_TRIES, failure());
    assert_eq!((told.len(), tries), (1, COMMIT_TRIES));
    assert!(end.is_err_and(|error| error.to_string().contains("out")));
}

#[test]
fn an_error_that_no_repetition_mends_is_not_repeated() {
    let (told, tries, end) = commit(1, Error::refused("the table has other columns"));
    assert_eq!((told.len(), tries), (0, 1));
    assert!(end.is_err());
}

/// Each token has its own tries; whoever reads the log wants to know of the store, not of each.
#[test]
fn a_store_that_ails_is_told_once_for_all_that_waits() {
    /// Every other time.
    struct Ails(AtomicU32, Refuses);
    impl Committer for Ails {
        fn claim(&self, overwrite: bool) -> Result<()> {
            self.1.claim(overwrite)
        }

        fn overwrite_foreign(&self) -> Result<()> {
            self.1.overwrite_foreign()
        }

        fn prepare(&self, sealed: &mut Sealed) -> Result<Vec<Token>> {
            self.1.prepare(sealed)
        }

        fn commit(&self, token: &Token) -> Result<()> {
            let number = self.0.fetch_add(1, Ordering::Relaxed);
            if number % 4 == 3 { Ok(()) } else { self.1.commit(token) }
        }

        fn clean(&self, restored: &[Token]) -> Result<()> {
            self.1.clean(restored)
        }
    }
    let refuses = Refuses { left: AtomicU32::new(u32::MAX), error: Error::failed("503") };
    let (told, tries, end) = commit_with(Arc::new(Ails(AtomicU32::new(0), refuses)), 3);
    assert_eq!((told.len(), tries, end.is_ok()), (1, 12, true), "{told:?}");
}

#[test]
fn a_commit_that_fails_after_an_overwrite_that_failed_is_told_too() {
    struct Store {
        overwrites_fail: AtomicU32,
        commits_fail: AtomicU32,
    }
    fn fails(left: &AtomicU32, what: &str) -> Result<()> {
        let fails = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if fails.is_ok() { Err(Error::failed(what)) } else { Ok(()) }
    }
    impl Committer for Store {
        fn claim(&self, _: bool) -> Result<()> {
            Ok(())
        }
        fn overwrite_foreign(&self) -> Result<()> {
            fails(&self.overwrites_fail, "DELETE denied")
        }
        fn prepare(&self, _: &mut Sealed) -> Result<Vec<Token>> {
            Ok(Vec::new())
        }
        fn commit(&self, _: &Token) -> Result<()> {
            fails(&self.commits_fail, "PUT denied")
        }
        fn clean(&self, _: &[Token]) -> Result<()> {
            Ok(())
        }
    }
    let store = Arc::new(Store { overwrites_fail: AtomicU32::new(4), commits_fail: AtomicU32::new(0) });
    let whose = Whose { job: "job".into(), subtask: 0 };
    let committer: Arc<dyn Committer> = Arc::clone(&store) as _;
    let mut port = SinkPort::new("out", whose, Some(committer), Rc::new(RefCell::new(NoWriter)));
    let mut now = Time(0);
    let settle = |port: &mut SinkPort, now: &mut Time| {
        let mut told = Vec::new();
        loop {
            *now = port.wake_at().unwrap_or(*now);
            let Some(call) = port.next_call(*now) else { return told };
            match port.on_answer((call.0)(), *now) {
                Ok(SinkNews::Hindered(error)) => told.push(error.to_string()),
                Ok(_) => {}
                Err(error) => {
                    told.push(format!("END {error}"));
                    return told;
                }
            }
        }
    };
    port.owe(Duty::Overwrite);
    let told = settle(&mut port, &mut now);
    assert!(matches!(&told[..], [one] if one.contains("DELETE denied")), "{told:?}");
    assert!(port.is_committed(CheckpointId(1)), "nothing is owed");
    // Later.
    store.commits_fail.store(COMMIT_TRIES - 1, Ordering::Relaxed);
    port.restore(CheckpointId(2), vec![Arc::new(Token { name: "part".into(), payload: Vec::new() })]);
    let told = settle(&mut port, &mut now);
    assert!(matches!(&told[..], [one] if one.contains("PUT denied")), "nine failures in a row, told: {told:?}");
}
