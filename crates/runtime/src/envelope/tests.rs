//! Tests of the envelope.

use super::{Envelope, from_hex, hex};
use proptest::prelude::*;

const V1: Envelope = Envelope { kind: "thing", format: 1 };

fn message(bytes: &[u8]) -> String {
    V1.open::<Vec<String>>(bytes).expect_err("no thing").to_string()
}

proptest! {
    #[test]
    fn what_is_sealed_is_opened(content: Vec<String>) {
        prop_assert_eq!(V1.open::<Vec<String>>(&V1.seal(&content)).expect("sound"), content);
    }

    #[test]
    fn every_flipped_bit_is_found(content: Vec<String>, at: prop::sample::Index, bit in 0..8u8) {
        let mut bytes = V1.seal(&content).to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(V1.open::<Vec<String>>(&bytes).is_err());
    }

    #[test]
    fn every_truncation_is_found(content: Vec<String>, at: prop::sample::Index) {
        let bytes = V1.seal(&content);
        prop_assert!(V1.open::<Vec<String>>(&bytes[..at.index(bytes.len())]).is_err());
    }

    #[test]
    fn any_bytes_are_opened_without_a_panic(bytes: Vec<u8>) {
        prop_assert!(V1.open::<Vec<String>>(&bytes).is_err());
    }

    #[test]
    fn hex_is_read_back(value: u64) {
        prop_assert_eq!(from_hex(&hex(value)), Some(value));
    }
}

#[test]
fn a_newer_format_is_told_from_damage_whatever_it_contains() {
    let newer = Envelope { kind: "thing", format: 2 }.seal(&serde_json::json!({"other": "shape"}));
    let text = message(&newer);
    assert!(text.contains("format 2") && text.contains("up to 1") && text.contains("newer version"), "{text}");
}

#[test]
fn another_kind_of_object_is_refused() {
    assert!(message(&Envelope { kind: "other", format: 1 }.seal(&0)).contains("no field `thing`"));
    assert!(message(&V1.seal(&0)).contains("no sense"));
}
