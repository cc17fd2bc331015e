//! What timely is asked to wait for. Time is given, never waited for.

use super::*;

#[test]
fn an_alarm_is_asked_for_only_if_none_comes_in_time() {
    let mut alarms = Alarms::default();
    assert_eq!(alarms.set(Time(0), Time(500)), Some(Duration::from_micros(500)));
    assert_eq!(alarms.set(Time(0), Time(600)), None);
    assert_eq!(alarms.set(Time(0), Time(5)), Some(Duration::from_micros(5)));
    assert_eq!(alarms.set(Time(6), Time(500)), None, "the first alarm is not forgotten over the earlier one");
    assert_eq!(alarms.set(Time(500), Time(600)), Some(Duration::from_micros(100)), "it has rung");
}

#[test]
fn alternating_between_a_near_and_a_far_moment_does_not_pile_up_alarms() {
    let mut alarms = Alarms::default();
    for round in 0..1_000 {
        let now = Time(round * 10);
        alarms.set(now, Time(1_000_000));
        alarms.set(now, now.after(Duration::from_micros(5)));
        assert!(alarms.0.len() <= 2);
    }
}
