//! How a step is shared between records and the scan.

use super::{RECORDS_FIRST, share};
use flott_checkpoint::Mode;
use std::time::Duration;

#[test]
fn records_come_first_right_after_the_cut_and_the_scan_goes_on_all_the_same() {
    let early = Duration::ZERO;
    assert_eq!(share(4_096, Mode::Aligned, 400, early), 100, "in proportion");
    assert_eq!(share(4_096, Mode::Aligned, 1 << 40, early), 1_024, "a long step");
    assert_eq!(share(4_096, Mode::Aligned, 0, early), 4_096, "nobody waits");
    assert_eq!(share(4_096, Mode::Aligned, 400, RECORDS_FIRST), 4_096, "a job that never rests");
    assert_eq!(share(4_096, Mode::Unaligned, 400, early), 4 * 4_096, "steps are long");
    for (whole, records) in (1..10).flat_map(|whole| (0..10).map(move |records| (whole, records))) {
        assert!(share(whole, Mode::Aligned, records, early) > 0, "a scan that stands still");
    }
}
