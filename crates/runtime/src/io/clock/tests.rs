//! Tests of the production clock.

use super::SystemClock;
use crate::time::Clock;

#[test]
fn time_is_in_this_century_and_never_goes_back() {
    let clock = SystemClock::new();
    let mut last = clock.now();
    assert!(last.millis() > 1_600_000_000_000, "{last:?} is not microseconds since 1970");
    for _ in 0..10_000 {
        let now = clock.now();
        assert!(now >= last);
        last = now;
    }
}
