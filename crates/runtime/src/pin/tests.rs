//! Tests of pins.

use super::Pin;
use flott_checkpoint::CheckpointId;
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_pin_is_read_back(id: u64, holder: String) {
        let pin = Pin { checkpoint: CheckpointId(id), holder };
        prop_assert_eq!(Pin::decode("pins/a", &pin.encode()).expect("sound"), pin);
    }

    #[test]
    fn any_bytes_are_decoded_without_a_panic(bytes: Vec<u8>) {
        prop_assert!(Pin::decode("pins/a", &bytes).is_err());
    }
}
