//! The random numbers are the published sequence, for ever: a generator that resumes depends on it.

use super::*;

#[test]
fn the_sequence_is_splitmix64() {
    let mut random = Random::new(1_234_567);
    let published = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
    assert_eq!(published.map(|_| random.next_u64()), published);
}

#[test]
fn bounds_hold_and_every_value_comes() {
    let mut random = Random::new(1);
    let mut seen = [0u32; 7];
    for _ in 0..7_000 {
        seen[usize::try_from(random.below(7)).unwrap()] += 1;
        assert!((0.0..1.0).contains(&random.unit()));
    }
    assert!(seen.iter().all(|count| (800..1_200).contains(count)), "{seen:?}");
    assert_eq!(random.below(0), 0);
}

#[test]
fn neighbouring_records_have_sequences_of_their_own() {
    let mut first: Vec<u64> = (0..1_000).map(|index| Random::for_record(5, index).next_u64()).collect();
    first.extend((0..1_000).map(|index| Random::for_record(6, index).next_u64()));
    first.sort_unstable();
    first.dedup();
    assert_eq!(first.len(), 2_000);
}
