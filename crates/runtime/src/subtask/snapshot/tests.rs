//! How a step is shared between records and the scan.

use super::{RECORDS_FIRST, Work, share};
use flott_checkpoint::Mode;
use std::time::Duration;

#[test]
fn records_come_first_right_after_the_cut_and_the_scan_goes_on_all_the_same() {
    let early = Duration::ZERO;
    let work = |records, micros| Work { records, time: Duration::from_micros(micros) };
    assert_eq!(share(4_096, Mode::Aligned, work(400, 10), early), 100, "in proportion to records");
    assert_eq!(share(4_096, Mode::Aligned, work(4, 100), early), 500, "to the time, if they are slow");
    assert_eq!(share(4_096, Mode::Aligned, work(1 << 40, 10), early), 1_024, "a long step");
    assert_eq!(share(4_096, Mode::Aligned, work(4, 1_000), early), 1_024, "back-pressure");
    assert_eq!(share(4_096, Mode::Aligned, work(0, 100), early), 4_096, "nobody waits");
    assert_eq!(share(4_096, Mode::Aligned, work(400, 10), RECORDS_FIRST), 4_096, "a job that never rests");
    assert_eq!(share(4_096, Mode::Unaligned, work(400, 10), early), 4 * 4_096, "steps are long");
    for (whole, records) in (1..10).flat_map(|whole| (0..10).map(move |records| (whole, records))) {
        assert!(share(whole, Mode::Aligned, work(records, 0), early) > 0, "a scan that stands still");
    }
}
