//! The generator keeps its pace and resumes anywhere. The clock is given, never waited for.

use super::*;
use crate::testing::connector_contexts::source_context;
use crate::testing::memory_files::MemoryFiles;
use crate::testing::source_suite::check_source;

fn cx() -> SourceContext {
    source_context(Arc::new(MemoryFiles::new()))
}

fn records(splits: u16, rate: f64) -> Vec<(u64, u64)> {
    let source = Generator::new(25, 7, |index, random| (index, random.next_u64())).splits(splits).rate(rate);
    let mut records: Vec<_> = check_source(&source, &cx()).into_iter().flat_map(|(_, records)| records).collect();
    records.sort_unstable();
    records
}

#[test]
fn records_depend_on_seed_and_index_alone() {
    let all = records(1, 0.0);
    assert!(all.iter().map(|record| record.0).eq(0..25), "each index once");
    assert_eq!(records(4, 0.0), all);
    assert_eq!(records(40, 1_000.0), all);
}

#[test]
fn the_rate_is_shared_by_the_splits() {
    let source = Generator::new(1_000, 1, |index, _| index).splits(2).rate(100.0);
    let mut reader = source.open("0", Some(10), &cx()).unwrap();
    let began = Time(5_000_000);
    assert_eq!(reader.next(began).unwrap(), Next::Record(20, None));
    let due = began.after(Duration::from_millis(20));
    assert_eq!(reader.next(began).unwrap(), Next::At(due));
    assert_eq!(reader.next(due).unwrap(), Next::Record(22, None));
    let late = began.after(Duration::from_millis(60));
    assert_eq!(reader.next(late).unwrap(), Next::Record(24, None), "what was missed is caught up with");
    assert_eq!(reader.next(late).unwrap(), Next::Record(26, None));
    assert_eq!(reader.next(late).unwrap(), Next::At(began.after(Duration::from_millis(80))));
}

#[test]
fn a_split_that_is_not_there_is_unusable() {
    let source = Generator::unbounded(1, |index, _| index).splits(2);
    assert!(!source.is_bounded());
    assert_eq!(source.open("2", None, &cx()).err().unwrap().kind(), crate::ErrorKind::Unusable);
}
