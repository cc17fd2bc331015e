use super::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Forgetful {
    kept: u32,
    #[serde(skip_deserializing)]
    lost: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Renamed {
    #[serde(rename(serialize = "a", deserialize = "b"))]
    field: u32,
}

#[test]
fn a_type_that_loses_a_field_on_the_way_is_found() {
    let error = round_trip(&Forgetful { kept: 1, lost: Some("x".to_owned()) }).unwrap_err();
    assert!(error.to_string().contains("not the same"), "{error}");
}

#[test]
fn a_type_that_cannot_be_read_back_is_found() {
    let error = round_trip(&Renamed { field: 1 }).unwrap_err();
    assert!(error.to_string().contains("serde attributes"), "{error}");
}

#[test]
fn ordinary_types_pass() {
    round_trip(&("word".to_owned(), 7u64, vec![Some(1.5f64), None])).unwrap();
    let json: serde_json::Value = serde_json::json!({"a": [1, null, "x"]});
    round_trip(&json).unwrap();
}
