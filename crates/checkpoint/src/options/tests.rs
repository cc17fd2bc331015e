//! Tests of the options: the defaults, and a clear error for each value that makes no sense.

use super::*;

#[test]
fn the_defaults_are_those_that_are_documented() {
    let options = Options::default();
    assert_eq!(options.validate(), Ok(()));
    assert_eq!((options.mode, options.interval), (Mode::Aligned, Some(Duration::from_secs(1))));
    assert_eq!((options.timeout, options.min_pause), (Duration::from_secs(600), Duration::ZERO));
    assert_eq!((options.tolerable_failures, options.retained), (10, 3));
}

#[test]
fn zero_and_absurd_values_are_refused_by_name() {
    let years = Duration::from_secs(3 * 366 * 24 * 3600);
    let wrong = [
        ("checkpoint interval", Options { interval: Some(Duration::ZERO), ..Options::default() }),
        ("checkpoint interval", Options { interval: Some(Duration::from_micros(999)), ..Options::default() }),
        ("checkpoint interval", Options { interval: Some(years), ..Options::default() }),
        ("checkpoint timeout", Options { timeout: Duration::ZERO, ..Options::default() }),
        ("checkpoint timeout", Options { timeout: Duration::MAX, ..Options::default() }),
        ("minimum pause", Options { min_pause: years, ..Options::default() }),
        ("retained checkpoints", Options { retained: 0, ..Options::default() }),
        ("retained checkpoints", Options { retained: u32::MAX, ..Options::default() }),
        ("repeat", Options { repeat: Duration::ZERO, ..Options::default() }),
    ];
    for (option, options) in wrong {
        let errors = options.validate().expect_err(option);
        assert_eq!(errors.iter().map(|error| error.option).collect::<Vec<_>>(), [option]);
        let text = errors.first().map(ToString::to_string).unwrap_or_default();
        assert!(text.starts_with(option) && text.len() > option.len() + 10, "{text}");
    }
}

#[test]
fn every_wrong_value_is_named_at_once() {
    let options = Options { interval: Some(Duration::ZERO), retained: 0, ..Options::default() };
    assert_eq!(options.validate().expect_err("two are wrong").len(), 2);
}

#[test]
fn checkpoints_by_hand_alone_and_no_tolerance_are_wishes_not_mistakes() {
    let options = Options { interval: None, tolerable_failures: 0, ..Options::default() };
    assert_eq!(options.validate(), Ok(()));
}
