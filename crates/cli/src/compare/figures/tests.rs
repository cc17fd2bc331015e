//! A percentile is one of the values.

use super::*;

#[test]
fn a_percentile_is_a_value_that_was_there() {
    let hundred: Vec<u32> = (1..=100).collect();
    assert_eq!(percentile(&hundred, 0.5), Some(50));
    assert_eq!(percentile(&hundred, 0.99), Some(99));
    assert_eq!(percentile(&hundred, 0.999), Some(100));
    assert_eq!(percentile(&[7], 0.5), Some(7));
    assert_eq!(percentile::<u32>(&[], 0.5), None);
}
