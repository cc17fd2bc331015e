//! The oracle agrees with a plain count of all records, and notices each kind of wrong output.

use super::*;

const LOAD: Load = Load { records: 1_003, slots: 20, life: 7 };

/// Counts records one by one, as the job's documentation says.
fn counted() -> BTreeMap<u64, (u64, u64)> {
    let (mut open, mut rows) = (BTreeMap::<u64, (u64, u64)>::new(), BTreeMap::new());
    for number in 0..LOAD.records {
        let (slot, round) = (number % LOAD.slots, number / LOAD.slots);
        let age = round + slot % LOAD.life;
        let key = age / LOAD.life * LOAD.slots + slot;
        let seen = open.entry(key).or_default();
        *seen = (seen.0 + 1, seen.1.wrapping_add(mix(number)));
        if age % LOAD.life == LOAD.life - 1 {
            rows.insert(key, *seen);
        }
    }
    rows
}

#[test]
fn the_rows_are_those_of_a_plain_count() {
    let rows = counted();
    assert!(rows.len() > 100);
    for key in 0..LOAD.keys() {
        assert_eq!(LOAD.row(key), rows.get(&key).copied(), "key {key}");
    }
}

#[test]
fn a_lost_a_doubled_and_a_wrong_row_are_noticed() {
    let lines: Vec<String> = counted().iter().map(|(key, (count, sum))| format!("{key},{count},{sum}")).collect();
    let wrong = |lines: &[String]| {
        let mut reader = Reader::new(LOAD, Path::new("nowhere"));
        lines.iter().for_each(|line| reader.check(line));
        reader.end();
        reader.wrong
    };
    assert_eq!(wrong(&lines), Vec::<String>::new());
    assert!(wrong(&lines[1..])[0].contains("lost"));
    assert!(wrong(&[&lines[..], &lines[3..4]].concat())[0].contains("twice"));
    assert!(wrong(&[&lines[1..], &["0,1,1".to_owned()]].concat())[0].contains("key 0"));
    assert!(wrong(&[&lines[..], &["nothing".to_owned()]].concat())[0].contains("none"));
    assert!(wrong(&[&lines[..], &["999999,1,1".to_owned()]].concat())[0].contains("999999"));
}
