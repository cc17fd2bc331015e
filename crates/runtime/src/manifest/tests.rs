//! Tests of the manifest.

use super::{BaseEntry, MANIFEST_FORMAT, Manifest};
use crate::control::Captured;
use crate::envelope::Envelope;
use crate::error::ErrorKind;
use crate::testing::sample_job;
use flott_checkpoint::{AttemptId, CheckpointId, SubtaskId};
use proptest::prelude::*;

fn full() -> Manifest {
    sample_job::manifest(CheckpointId(7), AttemptId(3), None)
}

fn increment() -> Manifest {
    let base = BaseEntry { id: CheckpointId(5), attempt: AttemptId(1), checksum: u64::MAX };
    sample_job::manifest(CheckpointId(7), AttemptId(3), Some(base))
}

/// The message with which a changed manifest is refused.
fn refusal(change: impl FnOnce(&mut Manifest)) -> String {
    let mut manifest = increment();
    change(&mut manifest);
    let error = Manifest::decode("manifests/7-3.json", &manifest.encode()).expect_err("inconsistent");
    assert_eq!(error.kind(), ErrorKind::Unusable);
    assert!(error.to_string().contains("manifests/7-3.json"), "{error}");
    error.to_string()
}

#[test]
fn a_manifest_is_read_back() {
    for manifest in [full(), increment()] {
        assert_eq!(Manifest::decode(&manifest.path(), &manifest.encode()).expect("sound"), manifest);
    }
}

#[test]
fn the_bytes_of_a_manifest_never_change() {
    // What is stored today must be read for ever: a change here is a new format.
    let mut manifest = increment();
    for blob in manifest.parts.iter_mut().filter_map(|part| part.segment.as_mut()) {
        (blob.length, blob.checksum) = (1_700, "2d04a892caa28f0d".to_owned());
    }
    let in_flight = r#""end_of_data":false,"captured":{"records":3,"bytes":13,"window":48}}"#;
    assert!(std::str::from_utf8(&manifest.encode()).is_ok_and(|text| text.contains(in_flight)));
    // Where nothing was in flight, nothing is said of it.
    manifest
        .parts
        .iter_mut()
        .flat_map(|part| &mut part.channels)
        .for_each(|channel| channel.captured = Captured::default());
    let bytes = manifest.encode();
    let text = std::str::from_utf8(&bytes).expect("JSON");
    assert!(text.starts_with(r#"{"format":1,"manifest":{"job":"sample","id":7,"attempt":3,"incarnation":"000000000000f107","key_seed":"0000000000005eed","key_groups":128,"kind":"checkpoint","mode":"aligned","guarantee":"exactly-once","parent":null,"base":{"id":5,"attempt":1,"checksum":"ffffffffffffffff"},"finished":false,"workers":2,"#), "{text}");
    assert_eq!(format!("{:016x}", Manifest::checksum(&bytes)), "27f1c9e0bccba336");
}

#[test]
fn every_flipped_bit_and_every_truncation_is_found() {
    let manifest = full();
    let bytes = manifest.encode();
    for at in 0..bytes.len() {
        for bit in [0, 5] {
            let mut flipped = bytes.to_vec();
            flipped[at] ^= 1 << bit;
            assert!(Manifest::decode(&manifest.path(), &flipped).is_err(), "bit {bit} of byte {at}");
        }
        assert!(Manifest::decode(&manifest.path(), &bytes[..at]).is_err(), "{at} bytes");
    }
}

#[test]
fn a_newer_format_is_unusable_and_says_so() {
    let newer = Envelope { kind: "manifest", format: MANIFEST_FORMAT + 1 }.seal(&full());
    let error = Manifest::decode("manifests/7-3.json", &newer).expect_err("newer");
    assert_eq!(error.kind().exit_code(), 4);
    assert!(error.to_string().contains("format 2") && error.to_string().contains("newer version"), "{error}");
}

#[test]
fn a_manifest_that_contradicts_itself_is_refused() {
    assert!(refusal(|m| m.id = CheckpointId(8)).contains("checkpoint 8"));
    assert!(refusal(|m| m.key_groups = 0).contains("no key groups"));
    assert!(refusal(|m| m.workers = 65_535).contains("65535 workers"));
    assert!(refusal(|m| drop(m.parts.pop())).contains("parts are not those"));
    assert!(refusal(|m| m.parts.swap(0, 1)).contains("in order"));
    assert!(refusal(|m| m.edges[0].to = 2).contains("edge leaves"));
    assert!(refusal(|m| m.parts[2].channels[0].edge = 1).contains("channel of edge 1"));
    assert!(refusal(|m| m.parts[2].segment = None).contains("captured what was in flight, and has no segment"));
    assert!(refusal(|m| m.vertices[0].operators[0].name = "out".to_owned()).contains("one name"));
    assert!(refusal(|m| m.base = None).contains("base"));
    assert!(refusal(|m| m.parts.iter_mut().for_each(|part| part.base = Some(CheckpointId(7)))).contains("base"));
    let blob = |m: &mut Manifest, change: fn(&mut crate::control::BlobRef)| {
        change(m.parts[2].segment.as_mut().expect("it has one"));
    };
    assert!(refusal(|m| blob(m, |b| b.path = "data/3/../../x.seg".to_owned())).contains("no segment"));
    assert!(refusal(|m| blob(m, |b| b.path = "data/3/6-0.seg".to_owned())).contains("no segment"));
    assert!(refusal(|m| blob(m, |b| b.checksum = "xyz".to_owned())).contains("`xyz` for a checksum"));
    assert!(refusal(|m| blob(m, |b| b.path = "data/3/7-1.seg".to_owned())).contains("disagree"));
}

#[test]
fn blobs_are_named_once_and_their_bytes_are_counted_once() {
    let mut manifest = full();
    let shared = manifest.parts[2].segment.clone();
    manifest.parts[3].segment = shared.clone();
    assert_eq!(manifest.blobs().len(), 1);
    assert_eq!(manifest.bytes(), shared.expect("it has one").length);
    assert!(manifest.is_full() && !increment().is_full());
    let restored = manifest.restored();
    assert_eq!(restored.vertex_of.get("out"), Some(&1));
    assert_eq!(restored.parts.len(), 4);
    assert!(manifest.part(SubtaskId { vertex: 1, index: 1 }).is_some());
}

#[test]
fn the_secret_seed_is_not_in_debug_texts() {
    assert!(!format!("{:?}", full()).contains(&0x5eed.to_string()));
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_without_a_panic(bytes: Vec<u8>) {
        prop_assert!(Manifest::decode("manifests/7-3.json", &bytes).is_err());
    }

    #[test]
    fn any_json_in_a_sound_envelope_is_decoded_without_a_panic(
        field in "[a-z_]{1,8}",
        value in prop_oneof![any::<u64>().prop_map(serde_json::Value::from), "[a-z]{0,5}".prop_map(serde_json::Value::from)],
        at in 0..17usize,
    ) {
        let mut json = serde_json::to_value(full()).expect("JSON");
        let object = json.as_object_mut().expect("an object");
        let key = object.keys().nth(at).cloned().unwrap_or(field);
        object.insert(key, value);
        let bytes = Envelope { kind: "manifest", format: 1 }.seal(&json);
        let _ = Manifest::decode("manifests/7-3.json", &bytes);
    }
}
