//! What the oracle says of final counts.

use super::*;
use flott::connector::SinkWriter;

fn writer(meter: &Arc<Meter>) -> MeasuringWriter {
    MeasuringWriter { meter: Arc::clone(meter), late: Vec::new() }
}

/// Writes what an undisturbed job would write for these records, beginning with these counts.
fn count(
    writer: &mut MeasuringWriter,
    numbers: impl Iterator<Item = u64>,
    counts: &mut std::collections::HashMap<u64, u64>,
) {
    for number in numbers {
        let count = counts.entry(key(number)).or_default();
        *count += 1;
        writer.write((key(number), Tally { count: *count, last: number }), Time(0)).expect("nothing fails");
    }
}

fn given(records: u64) -> (Arc<Flow>, Arc<Meter>) {
    let flow = Flow::new(None);
    flow.end_at(records);
    let meter = Meter::new(&flow);
    (flow, meter)
}

#[test]
fn a_run_that_counts_each_record_once_is_faultless() {
    let (flow, meter) = given(10);
    count(&mut writer(&meter), flow.numbers(), &mut Default::default());
    assert_eq!(meter.judge(), Verdict { lost: 0, over_counted: 0 });
}

#[test]
fn what_is_missing_and_what_is_counted_twice_shows() {
    let (flow, meter) = given(10);
    let mut counts = Default::default();
    let mut writer = writer(&meter);
    let all: Vec<u64> = flow.numbers().collect();
    count(&mut writer, all[3..].iter().copied(), &mut counts);
    assert_eq!(meter.judge(), Verdict { lost: 3, over_counted: 0 });
    count(&mut writer, all[..8].iter().copied(), &mut counts);
    assert_eq!(meter.judge(), Verdict { lost: 0, over_counted: 5 });
}

#[test]
fn three_of_ten_records_have_one_key_and_all_keys_exist() {
    let hot = (0..100_000).filter(|number| key(*number) == 0).count();
    assert!((29_000..31_000).contains(&hot), "{hot}");
    assert!((0..100_000).all(|number| key(number) < KEYS));
}
