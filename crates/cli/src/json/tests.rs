//! Every value comes back from JSON with all its bits.

use super::*;
use proptest::prelude::*;

fn datum() -> impl Strategy<Value = Datum> {
    let leaf = prop_oneof![
        Just(Datum::Nil),
        any::<bool>().prop_map(Datum::Bool),
        any::<i64>().prop_map(|number| Datum::Integer(number.into())),
        any::<u64>().prop_map(|number| Datum::Integer(number.into())),
        any::<u64>().prop_map(|bits| Datum::F64(f64::from_bits(bits))),
        prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-f64::INFINITY), Just(-0.0), Just(1.0)]
            .prop_map(Datum::F64),
        any::<u32>().prop_map(|bits| f32::from_bits(bits | 0x7f80_0000)).prop_map(Datum::F32),
        "[$a-c\"\n,ä]{0,4}".prop_map(Datum::Text),
        proptest::collection::vec(any::<u8>(), 0..5).prop_map(Datum::Bytes),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Datum::Sequence),
            proptest::collection::vec((inner.clone(), inner), 0..4).prop_map(Datum::Map),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_with_all_its_bits(datum in datum()) {
        let text = text(&datum);
        let read = parse(&text).map_err(TestCaseError::fail)?;
        prop_assert_eq!(read.stored(), datum.stored(), "{}", text);
        prop_assert!(!text.contains('\n'));
    }
}

#[test]
fn what_has_a_dollar_and_no_meaning_is_refused() {
    for text in
        ["{\"$f64\":7}", "{\"$odd\":\"x\"}", "{\"$bytes\":\"0\"}", "{\"$bytes\":\"00\",\"a\":1}", "{\"$map\":[[1]]}"]
    {
        assert!(parse(text).is_err(), "{text}");
    }
}
