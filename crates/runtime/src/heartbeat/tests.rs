//! Which operator and record a failure or a long step is blamed on.

use super::*;

#[test]
fn the_operator_that_ran_last_is_blamed_with_its_record() {
    let heartbeat = Heartbeat::default();
    let mark = heartbeat.mark("count");
    assert_eq!(mark, heartbeat.mark("count"));
    let _step = heartbeat.step();
    heartbeat.took(7);
    heartbeat.enter(mark);
    let error = heartbeat.blame(Error::failed("it panicked"));
    assert_eq!(error.to_string(), "operator `count`: it panicked at record 7 of its chain");
}

#[test]
fn a_step_is_under_way_between_begin_and_end() {
    let heartbeats = Heartbeats::default();
    let heartbeat = heartbeats.of(1);
    let shown = || heartbeats.pulses().into_iter().map(|pulse| pulse.stepping).collect::<Vec<_>>();
    assert_eq!(shown(), [false, false]);
    let step = heartbeat.step();
    let first = heartbeat.pulse().steps;
    assert_eq!(shown(), [false, true]);
    drop(step);
    assert_eq!(shown(), [false, false]);
    let _step = heartbeat.step();
    assert_ne!(heartbeat.pulse().steps, first);
}

#[test]
fn a_panic_is_blamed_on_the_record_whose_place_is_known() {
    let heartbeat = Heartbeat::default();
    let mark = heartbeat.mark("parse");
    heartbeat.naming(|| "in.csv, line 1".to_owned(), || heartbeat.enter(mark));
    let body = || heartbeat.naming(|| "in.csv, line 2".to_owned(), || panic!("on purpose"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_err());
    let error = heartbeat.blame(Error::failed("it panicked"));
    assert_eq!(error.to_string(), "operator `parse`: it panicked at in.csv, line 2");
}
