//! How a step is shared between records and the scan.

use super::{RECORDS_FIRST, share};
use flott_checkpoint::Mode;
use std::time::Duration;

#[test]
fn records_come_first_right_after_the_cut_and_the_scan_goes_on_all_the_same() {
    let early = Duration::ZERO;
    assert_eq!(share(4_096, Mode::Aligned, true, early), 1_024);
    assert_eq!(share(4_096, Mode::Aligned, false, early), 4_096, "nobody waits");
    assert_eq!(share(4_096, Mode::Aligned, true, RECORDS_FIRST), 4_096, "a job that never rests");
    assert_eq!(share(4_096, Mode::Unaligned, true, early), 4 * 4_096, "steps are long");
    for whole in 1..10 {
        assert!(share(whole, Mode::Aligned, true, early) > 0, "a scan that stands still");
    }
}
