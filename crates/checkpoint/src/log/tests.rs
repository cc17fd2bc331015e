//! Tests of the log's entries: every change of a byte is an error, nothing panics, the bytes stay what they are.

use super::*;
use proptest::prelude::*;

fn start() -> LogEntry {
    LogEntry::Start(StartEntry {
        attempt: AttemptId(7),
        nonce: u64::MAX,
        incarnation: 1,
        restored_from: Some(CheckpointId(41)),
        next_id: CheckpointId(42),
        began: Some(Incarnation { id: 1, key_seed: 0xfeed_0000_0000_beef, key_groups: 128 }),
        savepoint: None,
    })
}

fn checkpoint() -> LogEntry {
    LogEntry::Checkpoint(CheckpointEntry {
        slot: Slot(8),
        id: CheckpointId(42),
        attempt: AttemptId(7),
        nonce: 3,
        parent: None,
        manifest: "manifests/42-7.json".to_owned(),
        checksum: 0x8000_0000_0000_0001,
    })
}

prop_compose! {
    fn any_start()(attempt: u64, nonce: u64, incarnation: u64, from: Option<u64>, next: u64, began: Option<(u64, u64, u16)>)
        -> LogEntry {
        LogEntry::Start(StartEntry {
            attempt: AttemptId(attempt),
            nonce,
            incarnation,
            restored_from: from.map(CheckpointId),
            next_id: CheckpointId(next),
            began: began.map(|(id, key_seed, key_groups)| Incarnation { id, key_seed, key_groups }),
            savepoint: None,
        })
    }
}

prop_compose! {
    fn any_checkpoint()(slot: u64, id: u64, attempt: u64, nonce: u64, parent: Option<u64>, manifest in ".{0,40}", checksum: u64)
        -> LogEntry {
        LogEntry::Checkpoint(CheckpointEntry {
            slot: Slot(slot),
            id: CheckpointId(id),
            attempt: AttemptId(attempt),
            nonce,
            parent: parent.map(CheckpointId),
            manifest,
            checksum,
        })
    }
}

/// Bytes as a later format would write them: unknown content, the same frame.
fn framed(body: &str) -> Vec<u8> {
    let hash = xxh3_64(body.as_bytes());
    format!("{body},\"xxh3\":\"{hash:016x}\"}}\n").into_bytes()
}

#[test]
fn an_entry_is_one_readable_json_object_whose_bytes_are_fixed() {
    let expected = concat!(
        r#"{"format":1,"entry":{"checkpoint":{"slot":8,"id":42,"attempt":7,"nonce":"0000000000000003","parent":null,"#,
        r#""manifest":"manifests/42-7.json","checksum":"8000000000000001"}}"#,
    );
    assert_eq!(checkpoint().encode(), framed(expected));
    let value: serde_json::Value = serde_json::from_slice(&start().encode()).expect("an entry is JSON");
    assert_eq!(value["entry"]["start"]["began"]["key_seed"], "feed00000000beef");
    assert_eq!(value["entry"]["start"]["nonce"], "ffffffffffffffff");
}

#[test]
fn every_single_flipped_bit_is_an_error() {
    for entry in [start(), checkpoint()] {
        let bytes = entry.encode();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(LogEntry::decode(&changed).is_err(), "bit {bit} of {}", String::from_utf8_lossy(&bytes));
        }
    }
}

#[test]
fn every_truncation_and_every_appended_byte_is_an_error() {
    for entry in [start(), checkpoint()] {
        let bytes = entry.encode();
        for length in 0..bytes.len() {
            assert!(LogEntry::decode(&bytes[..length]).is_err(), "{length} bytes of {}", bytes.len());
        }
        for byte in 0..=u8::MAX {
            let longer = [bytes.as_slice(), &[byte]].concat();
            assert!(LogEntry::decode(&longer).is_err(), "byte {byte} appended");
        }
    }
}

#[test]
fn a_newer_format_says_so_instead_of_calling_the_entry_damaged() {
    let bytes = framed(r#"{"format":2,"entry":{"something":{"else":true}},"more":[1]"#);
    let error = LogEntry::decode(&bytes).expect_err("format 2 is unknown");
    assert_eq!(error, EntryError::Newer { found: 2 });
    assert!(error.to_string().contains("use a newer version"), "{error}");
}

#[test]
fn unknown_fields_of_this_format_and_malformed_secrets_are_errors() {
    let start = |extra: &str, nonce: &str| {
        framed(&format!(
            r#"{{"format":1,"entry":{{"start":{{"attempt":1,"nonce":"{nonce}","incarnation":"0000000000000001","restored_from":null,"next_id":1,"began":null{extra}}}}}"#
        ))
    };
    assert!(LogEntry::decode(&start("", "0000000000000000")).is_ok());
    assert!(LogEntry::decode(&start(r#","colour":"red""#, "0000000000000000")).is_err());
    for nonce in ["", "0", "000000000000000g", "+00000000000000f", "000000000000000F", "00000000000000000"] {
        assert!(LogEntry::decode(&start("", nonce)).is_err(), "nonce {nonce:?}");
    }
}

#[test]
fn an_entry_in_a_slot_of_another_one_is_seen() {
    assert!(start().check_slot(Slot(7)).is_ok());
    assert!(start().check_slot(Slot(8)).is_err());
    assert!(checkpoint().check_slot(Slot(8)).is_ok());
    assert!(checkpoint().check_slot(Slot(7)).is_err());
    for copied_to in [9, 5_000, u64::MAX] {
        let misplaced = EntryError::Misplaced { slot: Slot(copied_to), attempt: AttemptId(7) };
        assert_eq!(LogEntry::read(Slot(copied_to), &checkpoint().encode()), Err(misplaced));
    }
    let other = CheckpointEntry {
        slot: Slot(7),
        ..match checkpoint() {
            LogEntry::Checkpoint(entry) => entry,
            LogEntry::Start(_) => unreachable!("a checkpoint"),
        }
    };
    assert!(LogEntry::Checkpoint(other).check_slot(Slot(7)).is_err(), "a checkpoint lies above its Start");
}

#[test]
fn an_entry_longer_than_any_is_refused_unread() {
    let bytes = framed(&format!(r#"{{"format":1,"entry":"{}""#, "x".repeat(MAX_ENTRY_BYTES)));
    assert!(matches!(LogEntry::decode(&bytes), Err(EntryError::Incomplete { .. })));
}

#[test]
fn the_key_seed_is_not_in_what_is_printed_for_people() {
    assert!(!format!("{:?}", start()).contains(&0xfeed_0000_0000_beef_u64.to_string()));
    assert!(!format!("{:?}", start()).contains("feed00000000beef"));
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded(entry in prop_oneof![any_start(), any_checkpoint()]) {
        prop_assert_eq!(LogEntry::decode(&entry.encode()), Ok(entry));
    }

    #[test]
    fn random_bytes_are_an_error_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(LogEntry::decode(&bytes).is_err());
    }

    #[test]
    fn a_right_checksum_over_random_text_is_no_panic(body in ".{0,200}") {
        prop_assert!(LogEntry::decode(&framed(&body)).is_err());
    }

    #[test]
    fn a_right_checksum_over_an_entry_with_a_piece_cut_out_is_no_panic(from in 0usize..200, length in 1usize..50) {
        let whole = start().encode();
        let body = &whole[..whole.len() - 28];
        let cut: Vec<u8> = body.iter().enumerate().filter(|(n, _)| *n < from || *n >= from + length).map(|(_, b)| *b).collect();
        let _ = LogEntry::decode(&framed(&String::from_utf8_lossy(&cut)));
    }
}
