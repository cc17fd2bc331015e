//! Fixed vectors of encoding, hash and key group, and the promises of shapes.

use super::*;
use flott_checkpoint::lite_map;
use proptest::prelude::*;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Place {
    Nowhere,
    Gate(u16),
    Leg(String, u32),
    Route { from: String, to: Option<String> },
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Flight {
    carrier: String,
    number: i32,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Wrapped(u64);

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Skipping {
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<u16>,
    number: u32,
}

fn encoded<K: Serialize>(key: &K) -> Vec<u8> {
    encode_key(key).expect("a key").to_vec()
}

fn text(value: &str) -> String {
    value.to_owned()
}

#[test]
fn the_encoding_is_the_documented_one() {
    assert_eq!(encoded(&0x0102_0304_0506_0708_u64), [8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(encoded(&-2i16), [0xfe, 0xff]);
    assert_eq!(encoded(&1u128).len(), 16);
    assert_eq!(encoded(&true), [1]);
    assert_eq!(encoded(&'é'), [0xe9, 0, 0, 0]);
    assert_eq!(encoded(&"UA"), *b"UA", "a text alone has no length");
    assert_eq!(encoded(&((), "UA", [0u8; 0])), *b"UA", "nor has one beside nothing");
    assert_eq!(encoded(&("UA", "")), [2, 0, 0, 0, b'U', b'A', 0, 0, 0, 0]);
    assert_eq!(encoded(&Some("UA")), [1, 2, 0, 0, 0, b'U', b'A']);
    assert_eq!(encoded(&["UA"]), *b"UA");
    assert_eq!(encoded(&vec!["UA"]), [1, 0, 0, 0, 2, 0, 0, 0, b'U', b'A']);
    assert_eq!(encoded(&()), Vec::<u8>::new());
    assert_eq!(encoded(&None::<u8>), [0]);
    assert_eq!(encoded(&Some(7u8)), [1, 7]);
    assert_eq!(encoded(&Wrapped(1)), encoded(&1u64));
    assert_eq!(encoded(&(1u8, "a", false)), [1, 1, 0, 0, 0, b'a', 0]);
    assert_eq!(encoded(&vec![1u8, 2]), [2, 0, 0, 0, 1, 2]);
    assert_eq!(encoded(&[1u8, 2]), [1, 2]);
    assert_eq!(encoded(&BTreeSet::from([2u16, 1])), [2, 0, 0, 0, 1, 0, 2, 0]);
    assert_eq!(encoded(&Flight { carrier: text("B6"), number: 1 }), [2, 0, 0, 0, b'B', b'6', 1, 0, 0, 0]);
    assert_eq!(encoded(&Place::Nowhere), [0, 0, 0, 0]);
    assert_eq!(encoded(&Place::Gate(3)), [1, 0, 0, 0, 3, 0]);
    assert_eq!(encoded(&Place::Leg(text("x"), 1)), [2, 0, 0, 0, 1, 0, 0, 0, b'x', 1, 0, 0, 0]);
    assert_eq!(encoded(&Place::Route { from: text(""), to: None }), [3, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn what_has_no_canonical_form_is_refused_with_advice() {
    let refusal = |error: KeyError| error.to_string();
    assert!(refusal(encode_key(&1.5f64).unwrap_err()).contains("float"));
    assert!(refusal(encode_key(&(1, vec![1f32])).unwrap_err()).contains("use an integer"));
    assert!(refusal(encode_key(&BTreeMap::from([(1, 2)])).unwrap_err()).contains("sorted sequence of pairs"));
    assert!(refusal(encode_key(&Skipping { gate: None, number: 1 }).unwrap_err()).contains("skip_serializing_if"));
    assert!(encode_key(&Skipping { gate: Some(1), number: 1 }).is_ok());
}

fn check<K: Key>(key: &K, seed: u64, hash: u64, group: u16) {
    let found = hash_key(seed, key).unwrap();
    assert_eq!((found, key_group(found, 128)), (hash, KeyGroup(group)), "{}", Shape::of(key));
}

#[test]
fn hashes_are_the_documented_ones() {
    const SEED: u64 = 0x0123_4567_89ab_cdef;
    // Computed with the reference implementation of xxh3 over bytes put together by hand.
    check(&0u64, 0, 0xc77b_3abb_6f87_acd9, 61);
    check(&1u64, SEED, 0x62da_9b4e_cf9e_94bc, 109);
    check(&u64::MAX, SEED, 0x1c90_f36d_5470_02f0, 72);
    check(&7u32, SEED, 0x05c2_37a7_c5d2_ea47, 97);
    check(&-1i64, SEED, 0x1c90_f36d_5470_02f0, 72);
    check(&text(""), SEED, 0xcc1c_a35a_1b08_9c5c, 14);
    check(&text("UA"), SEED, 0x81dc_54da_6707_f84b, 110);
    check(&text(&"x".repeat(60)), SEED, 0x2081_14db_6eb1_d856, 64);
    check(&text(&"x".repeat(300)), SEED, 0xda0c_b6a3_89ee_a0ff, 6);
    check(&(text("UA"), 7u32), SEED, 0x965f_0406_f682_1d09, 47);
    check(&Some(7u8), SEED, 0x0cf9_3546_2e5d_6ca4, 124);
    check(&Place::Gate(3), SEED, 0xda7e_8820_7fb0_85ff, 63);
}

#[test]
fn key_groups_are_a_fraction_of_the_hash_bits_from_24_up() {
    assert_eq!(key_group(0, 128), KeyGroup(0));
    assert_eq!(key_group(u64::MAX, 128), KeyGroup(127));
    assert_eq!(key_group(0xff00_0000_00ff_ffff, 128), KeyGroup(0), "bits outside 24..56 count");
    assert_eq!(key_group(1 << 49, 128), KeyGroup(1));
    assert_eq!(key_group((1 << 49) - 1, 128), KeyGroup(0));
    assert_eq!(key_group(0x0080_0000_0000_0000, 100), KeyGroup(50));
    assert_eq!(key_group(u64::MAX, 1), KeyGroup(0));
    assert_eq!(key_group(u64::MAX, MAX_KEY_GROUPS), KeyGroup(MAX_KEY_GROUPS - 1));
}

#[test]
fn every_group_gets_its_share_of_keys() {
    for groups in [3u16, 100, 128] {
        let mut counts = vec![0u32; groups.into()];
        (0..100_000u64).for_each(|key| counts[usize::from(key_group(hash_key(1, &key).unwrap(), groups).0)] += 1);
        let fair = 100_000 / u32::from(groups);
        assert!(counts.iter().all(|count| count.abs_diff(fair) < fair / 4 + 100), "{groups}: {counts:?}");
    }
}

#[test]
fn worker_ranges_cover_each_group_once_and_owner_agrees() {
    for groups in [1u16, 2, 5, 100, 128, MAX_KEY_GROUPS] {
        for workers in [1u32, 2, 3, 7, 64, 127, 128, 129, 1000] {
            let mut next = 0;
            let mut sizes = BTreeSet::new();
            for index in 0..workers {
                let range = group_range(groups, workers, index);
                assert_eq!(range.start, next, "{groups} groups, worker {index} of {workers}");
                next = range.end;
                sizes.insert(range.len());
                range.for_each(|group| assert_eq!(owner(KeyGroup(group), groups, workers), index));
            }
            assert_eq!(next, groups);
            assert!(sizes.len() <= 2, "{groups} groups on {workers} workers: {sizes:?}");
            assert!(group_range(groups, workers, workers).is_empty());
        }
    }
}

#[test]
fn shapes_are_written_as_documented() {
    let shape = |shape: Shape| shape.to_string();
    assert_eq!(shape(Shape::of(&1u64)), "u64");
    assert_eq!(shape(Shape::of(&("a", 1u32))), "(string,u32)");
    assert_eq!(shape(Shape::of(&Wrapped(1))), "u64");
    assert_eq!(shape(Shape::of(&None::<u8>)), "option<?>");
    assert_eq!(shape(Shape::of(&vec![Some(1u8), None])), "seq<option<u8>>");
    assert_eq!(shape(Shape::of(&Flight { carrier: text(""), number: 1 })), "{carrier:string,number:i32}");
    assert_eq!(shape(Shape::of(&Place::Leg(text(""), 1))), "[2 Leg=(string,u32)]");
    assert_eq!(shape(Shape::of(&BTreeMap::from([(1u8, 'a')]))), "map<u8,char>");
    assert_eq!(shape(Shape::of(&[1u8, 2])), "(u8,u8)");
}

#[test]
fn shapes_of_one_type_merge_and_agree() {
    let values = [Place::Nowhere, Place::Gate(1), Place::Route { from: text(""), to: Some(text("")) }];
    let mut merged = Shape::default();
    for value in &values {
        assert!(merged.agrees_with(&Shape::of(value)));
        merged.merge(Shape::of(value));
    }
    assert_eq!(merged.to_string(), "[0 Nowhere=unit|1 Gate=u16|3 Route={from:string,to:option<string>}]");
    assert!(Shape::of(&None::<u8>).agrees_with(&Shape::of(&Some(1u8))));
}

#[test]
fn shapes_of_different_types_do_not_agree() {
    let differ = |a: Shape, b: Shape| assert!(!a.agrees_with(&b) && !b.agrees_with(&a), "{a} agrees with {b}");
    differ(Shape::of(&1u64), Shape::of(&1u32));
    differ(Shape::of(&1u64), Shape::of(&"1"));
    differ(Shape::of(&(1u8, 2u8)), Shape::of(&(1u8, 2u8, 3u8)));
    differ(Shape::of(&Some(1u8)), Shape::of(&1u8));
    differ("{a:u8,b:u8}".parse().unwrap(), "{b:u8,a:u8}".parse().unwrap());
    differ("[0 A=unit]".parse().unwrap(), "[0 B=unit]".parse().unwrap());
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let leaf = prop_oneof![Just(Shape::Unknown), Just(Shape::Any), Just(Shape::Leaf("u64")), Just(Shape::Leaf("unit"))];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let named = ("\\PC{0,6}", inner.clone());
        prop_oneof![
            inner.clone().prop_map(|shape| Shape::Optional(Box::new(shape))),
            inner.clone().prop_map(|shape| Shape::Sequence(Box::new(shape))),
            (inner.clone(), inner.clone()).prop_map(|pair| Shape::Map(Box::new(pair))),
            proptest::collection::vec(inner, 0..4).prop_map(Shape::Tuple),
            proptest::collection::vec(named.clone(), 0..4).prop_map(Shape::Struct),
            proptest::collection::vec((any::<u32>(), named), 0..4).prop_map(|variants| Shape::Enum(lite_map(variants))),
        ]
    })
}

proptest! {
    #[test]
    fn the_fast_paths_hash_as_the_encoding_does(seed: u64, number: u64, small: u32, signed: i64, word in "\\PC{0,80}") {
        let slow = |bytes: Vec<u8>| xxh3_64_with_seed(&bytes, seed);
        prop_assert_eq!(hash_key(seed, &number).unwrap(), slow(encoded(&number)));
        prop_assert_eq!(hash_key(seed, &small).unwrap(), slow(encoded(&small)));
        prop_assert_eq!(hash_key(seed, &signed).unwrap(), slow(encoded(&signed)));
        prop_assert_eq!(hash_key(seed, &word).unwrap(), slow(encoded(&word)));
    }

    #[test]
    fn keys_are_equal_exactly_if_their_encodings_are(
        a: (Option<String>, Vec<u8>, String), b: (Option<String>, Vec<u8>, String),
    ) {
        prop_assert_eq!(a == b, encoded(&a) == encoded(&b));
        prop_assert_eq!(encoded(&a), encoded(&a.clone()));
    }

    #[test]
    fn the_text_of_a_shape_parses_back(shape in any_shape()) {
        prop_assert_eq!(shape.to_string().parse::<Shape>().unwrap(), shape);
    }

    #[test]
    fn any_text_is_a_shape_or_an_error(text in "[a-z0-9%<>,(){}\\[\\]|:=? ]{0,40}") {
        drop(text.parse::<Shape>());
    }
}

#[test]
fn deep_nesting_is_an_error_and_no_overflow() {
    assert!("(".repeat(1_000_000).parse::<Shape>().is_err());
    assert!("option<".repeat(1_000_000).parse::<Shape>().is_err());
}

mod moved {
    //! Types of [`super`] under other names, and others like them that differ.

    use serde::{Deserialize, Serialize};

    #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
    pub(super) struct Leg {
        pub(super) carrier: String,
        pub(super) number: i32,
    }

    #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
    pub(super) struct Wider {
        carrier: String,
        number: i64,
    }

    #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
    pub(super) struct Aliased {
        #[serde(alias = "airline")]
        carrier: String,
        number: i32,
    }

    #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
    pub(super) enum Tree {
        Forks(Vec<Tree>, Option<Box<Tree>>, (u8, Box<Tree>)),
    }
}

/// The shape of a type agrees with that of its values, and survives its text form.
fn expected<T: Serialize + serde::de::DeserializeOwned>(values: &[T], text: &str) {
    let shape = Shape::of_type::<T>();
    assert_eq!(shape.to_string(), text);
    assert_eq!(text.parse::<Shape>().expect("it parses back"), shape);
    for value in values {
        assert!(shape.agrees_with(&Shape::of(value)), "{text} and {}", Shape::of(value));
    }
}

#[test]
fn the_shape_of_a_type_is_known_without_a_value_and_agrees_with_its_values() {
    let flight = Flight { carrier: "UA".to_owned(), number: 7 };
    expected(&[7u64], "u64");
    expected(&["UA".to_owned()], "string");
    expected(&[std::num::NonZeroU32::MIN], "u32");
    expected(&[Wrapped(1)], "u64");
    expected(&[(1u8, "x".to_owned())], "(u8,string)");
    expected(&[[1u16; 3]], "(u16,u16,u16)");
    expected(&[None, Some(1i128)], "option<i128>");
    expected(&[Vec::new(), vec![flight.clone()]], "seq<{carrier:string,number:i32}>");
    expected(&[flight], "{carrier:string,number:i32}");
    expected(&[Place::Nowhere, Place::Gate(1), Place::Leg(String::new(), 1)], "[]");
    expected(&[BTreeMap::from([(1u8, 2u8)])], "map<?,?>");
    expected(&[((), std::time::Duration::MAX, true)], "(unit,{secs:u64,nanos:u32},bool)");
    // Ends, however a type multiplies.
    assert_eq!(Shape::of_type::<moved::Tree>().to_string(), "[]");
}

#[test]
fn the_shape_of_a_type_has_no_rust_name_in_it_and_shows_every_change_of_a_key() {
    let before = Shape::of_type::<Flight>();
    let agrees = |now: Shape| before.agrees_with(&now);
    assert!(agrees(Shape::of_type::<moved::Leg>()), "renamed and moved");
    assert!(agrees(Shape::of_type::<moved::Aliased>()), "an alias changes nothing that is stored");
    assert!(!agrees(Shape::of_type::<moved::Wider>()), "a field of another type");
    for other in [Shape::of_type::<u64>(), Shape::of_type::<(String, i32)>(), Shape::of_type::<Place>()] {
        assert!(!before.agrees_with(&other), "{before} and {other}");
    }
}

#[test]
fn the_owners_of_a_range_are_those_who_own_a_group_of_it_and_nobody_else() {
    for groups in [1u16, 5, 127, 128, 300] {
        for (before, after) in (1..=groups.min(40)).flat_map(|before| [1, 2, 3, 7, groups].map(|after| (before, after)))
        {
            for index in 0..after.min(groups) {
                let range = group_range(groups, after.into(), index.into());
                let owns = |worker: &u16| {
                    let theirs = group_range(groups, before.into(), u32::from(*worker));
                    range.clone().any(|group| theirs.contains(&group))
                };
                let expected: Vec<u16> = (0..before).filter(owns).collect();
                assert_eq!(owners(&range, groups, before).collect::<Vec<_>>(), expected, "{groups} {before} {after}");
            }
        }
    }
    assert!(owners(&(4..4), 128, 3).is_empty());
}

#[test]
fn a_worker_has_a_key_of_its_own_if_it_has_key_groups() {
    for workers in [1u32, 2, 3, 128] {
        for index in 0..workers {
            let space = KeySpace::of_worker(7, 128, workers, index);
            let (hash, key) = space.own_key().expect("it owns key groups");
            assert_eq!(hash_key(7, &key), Ok(hash));
            assert!(space.owns(space.group(hash)));
        }
    }
    assert_eq!(KeySpace::of_worker(7, 2, 3, 1).own_key().is_some(), !group_range(2, 3, 1).is_empty());
}

#[test]
fn the_owner_of_a_name_never_changes() {
    let expected = [
        ("", [0, 0, 1, 2]),
        ("flights-2008.csv", [0, 0, 2, 14]),
        ("part-3-1-0", [0, 1, 1, 53]),
        ("out/0", [0, 0, 1, 20]),
    ];
    for (name, owners) in expected {
        assert_eq!([1, 2, 3, 64].map(|workers| owner_of_name(name, workers)), owners, "{name}");
    }
    assert_eq!([writer_name("out", 0), writer_name("a/b", 12)], ["out/0", "a/b/12"]);
}
