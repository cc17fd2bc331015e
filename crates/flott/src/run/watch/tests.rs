//! When the watch over the worker threads speaks up. Time is given, never waited for.

use super::*;

fn pulse(steps: u64) -> Pulse {
    Pulse { steps, stepping: steps % 2 == 1, operator: Some("slow".to_owned()), record: 42 }
}

fn at(seconds: u64) -> Time {
    Time(seconds * 1_000_000)
}

#[test]
fn nothing_is_said_before_the_timeout() {
    let mut watch = Watch::new(Duration::from_secs(30));
    assert_eq!(watch.due(), None);
    watch.on_stop(at(10));
    watch.on_stop(at(20));
    assert_eq!(watch.due(), Some(at(40)));
    assert!(watch.look(at(39), vec![pulse(1)]).is_none());
}

#[test]
fn code_that_does_not_return_is_named_with_its_record() {
    let mut watch = Watch::new(Duration::from_secs(30));
    watch.on_stop(at(0));
    assert!(watch.look(at(30), vec![pulse(2), pulse(7)]).is_none(), "one look proves nothing");
    assert_eq!(watch.due(), Some(at(31)));
    let error = watch.look(at(31), vec![pulse(4), pulse(7)]).expect("the second look decides").to_string();
    assert!(error.contains("operator `slow`") && error.contains("record 42") && error.contains("worker 1"), "{error}");
}

#[test]
fn a_worker_that_steps_is_not_blamed() {
    let mut watch = Watch::new(Duration::from_secs(5));
    watch.on_stop(at(0));
    assert!(watch.look(at(5), vec![pulse(7)]).is_none());
    let error = watch.look(at(6), vec![pulse(9)]).expect("the time is over").to_string();
    assert!(error.contains("could not stop within 5s") && !error.contains("slow"), "{error}");
}

#[test]
fn an_attempt_that_has_ended_is_not_watched_any_more() {
    let mut watch = Watch::new(Duration::from_secs(5));
    watch.on_attempt_ending(at(0));
    assert_eq!(watch.due(), Some(at(5)));
    watch.on_attempt_ended();
    assert_eq!(watch.due(), None);
}

#[test]
fn a_stop_has_all_its_time_although_an_attempt_that_was_ending_took_too_long() {
    let mut watch = Watch::new(Duration::from_secs(30));
    watch.on_attempt_ending(at(0));
    watch.on_stop(Time(29_500_000));
    assert!(watch.look(at(30), vec![pulse(7)]).is_none(), "the attempt is late, which one look does not prove");
    watch.on_attempt_ended();
    assert!(watch.look(at(31), vec![pulse(7)]).is_none(), "the job itself is not late");
    assert_eq!(watch.due(), Some(Time(59_500_000)));
}

#[test]
fn a_job_that_is_late_itself_stays_late_when_its_attempt_ends() {
    let mut watch = Watch::new(Duration::from_secs(30));
    watch.on_stop(at(0));
    watch.on_attempt_ending(at(1));
    assert!(watch.look(at(30), vec![pulse(7)]).is_none());
    watch.on_attempt_ended();
    assert!(watch.look(at(31), vec![pulse(7)]).is_some());
}
