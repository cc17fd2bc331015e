//! A value fills its bytes or is refused.

use super::from_slice;

#[test]
fn bytes_behind_a_value_are_refused_and_so_are_bytes_that_are_missing() {
    let whole = rmp_serde::to_vec_named(&(7u32, "text".to_owned(), vec![1u8, 2])).expect("encodes");
    let read = from_slice::<(u32, String, Vec<u8>)>(&whole);
    assert_eq!(read.expect("whole"), (7, "text".to_owned(), vec![1, 2]));
    for extra in [&b"\0"[..], &whole] {
        let error = from_slice::<(u32, String, Vec<u8>)>(&[&whole, extra].concat()).unwrap_err().to_string();
        assert!(error.contains(&format!("{} bytes are left over", extra.len())), "{error}");
    }
    for end in 0..whole.len() {
        let part = whole.get(..end).expect("in range");
        assert!(from_slice::<(u32, String, Vec<u8>)>(part).is_err(), "{end} of {} bytes", whole.len());
    }
}
