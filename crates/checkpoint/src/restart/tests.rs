//! Tests of the restart strategy.

use super::*;

fn restart() -> Restart {
    Restart::new(RestartOptions::default()).expect("the defaults make sense")
}

#[test]
fn delays_double_from_50_ms_up_to_a_minute() {
    let mut restart = Restart::new(RestartOptions { failures: 100, ..RestartOptions::default() }).expect("valid");
    let delays: Vec<Verdict> = (0..13).map(|n| restart.on_failure(n * 1000)).collect();
    let expected = [50, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 60_000, 60_000];
    assert_eq!(delays, expected.map(Verdict::RestartAfter));
    assert_eq!(restart.total(), 13);
}

#[test]
fn ten_minutes_without_a_failure_begin_anew() {
    let mut restart = restart();
    restart.on_failure(0);
    assert_eq!(restart.on_failure(599_999), Verdict::RestartAfter(100));
    assert_eq!(restart.on_failure(1_199_999), Verdict::RestartAfter(50));
}

#[test]
fn the_tenth_failure_without_a_completed_checkpoint_ends_the_job() {
    let mut restart = restart();
    for n in 0..9 {
        assert!(matches!(restart.on_failure(n), Verdict::RestartAfter(_)));
    }
    restart.on_checkpoint();
    for n in 0..9 {
        assert!(matches!(restart.on_failure(n), Verdict::RestartAfter(_)));
    }
    assert_eq!(restart.on_failure(9), Verdict::GiveUp { failures: 10 });
}

#[test]
fn values_that_make_no_sense_are_refused() {
    let zero = RestartOptions { first: Duration::ZERO, ..RestartOptions::default() };
    let short = RestartOptions { longest: Duration::from_millis(1), ..RestartOptions::default() };
    let never = RestartOptions { failures: 0, ..RestartOptions::default() };
    for options in [zero, short, never] {
        assert!(Restart::new(options.clone()).is_err(), "{options:?}");
    }
}
