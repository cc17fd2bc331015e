//! Tests of small sets and maps: they do what the standard library's do.

use super::{LiteSet, lite_map};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

proptest! {
    #[test]
    fn a_lite_set_does_what_a_tree_does(steps in prop::collection::vec((0..3u8, 0..12u8), 0..60)) {
        let (mut lite, mut tree) = (LiteSet::new(), BTreeSet::new());
        for (what, value) in steps {
            match what {
                0 => prop_assert_eq!(lite.insert(value), tree.insert(value)),
                1 => prop_assert_eq!(lite.remove(&value), tree.remove(&value)),
                _ => prop_assert_eq!(lite.contains(&value), tree.contains(&value)),
            }
            prop_assert!(lite.iter().eq(tree.iter()));
        }
    }

    #[test]
    fn a_collected_lite_map_holds_the_last_of_each_key_in_order(entries in prop::collection::vec((0..12u8, 0..99u8), 0..60)) {
        let tree: BTreeMap<u8, u8> = entries.iter().copied().collect();
        prop_assert!(lite_map(entries.clone()).iter().eq(tree.iter()));
        let keys: LiteSet<u8> = entries.into_iter().map(|(key, _)| key).collect();
        prop_assert!(keys.into_iter().eq(tree.into_keys()));
    }
}
