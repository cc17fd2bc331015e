//! The bounds of the paper, for any stream of keys.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

proptest! {
    #[test]
    fn a_heavy_key_has_a_counter_and_every_count_is_within_its_error(
        // Some keys often, and many once; hashes that collide.
        keys in prop::collection::vec(prop_oneof![0u64..5, 0u64..40, any::<u64>()], 0..2_000),
        buckets in 1u64..1_000,
    ) {
        let (mut heavy, mut counts) = (Heavy::default(), BTreeMap::<u64, u64>::new());
        for key in &keys {
            heavy.add(key % buckets, key);
            *counts.entry(*key).or_default() += 1;
        }
        let (added, most) = (keys.len() as u64, COUNTERS as u64);
        prop_assert_eq!(heavy.added(), added);
        prop_assert!(heavy.counters().len() <= COUNTERS);
        for counter in heavy.counters() {
            let count = counts[&counter.key];
            prop_assert!(counter.count - counter.error <= count && count <= counter.count);
            prop_assert!(counter.error <= added / most);
        }
        for (key, _) in counts.iter().filter(|(_, count)| **count > added / most) {
            prop_assert!(heavy.counters().iter().any(|counter| counter.key == *key), "{} is missing", key);
        }
    }
}
