use super::*;

#[test]
fn the_operator_that_ran_last_is_blamed_with_its_record() {
    let heartbeat = Heartbeat::default();
    let mark = heartbeat.mark("count");
    assert_eq!(mark, heartbeat.mark("count"));
    heartbeat.begin_step();
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
    heartbeat.begin_step();
    let first = heartbeat.pulse().steps;
    assert_eq!(shown(), [false, true]);
    heartbeat.end_step();
    assert_eq!(shown(), [false, false]);
    heartbeat.begin_step();
    assert_ne!(heartbeat.pulse().steps, first);
}
