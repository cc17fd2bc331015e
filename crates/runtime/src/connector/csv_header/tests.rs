//! Which headers suit which record types.

use super::*;
use serde::Deserialize;
use std::collections::HashMap;

#[derive(Deserialize)]
#[allow(dead_code, reason = "they are only read")]
struct Sale {
    shop: String,
    amount: u64,
    #[serde(alias = "price")]
    cost: f64,
    kind: Kind,
    note: Option<String>,
    #[serde(default)]
    rebate: u8,
}

#[derive(Deserialize)]
enum Kind {
    #[allow(dead_code, reason = "it is only read")]
    Cash,
}

fn fault<T: DeserializeOwned>(columns: &[&str]) -> Option<String> {
    fault_of::<T>(&ByteRecord::from(columns.to_vec()))
}

#[test]
fn optional_fields_and_aliases_and_further_columns_need_no_column_of_their_own() {
    assert_eq!(fault::<Sale>(&["shop", "amount", "cost", "kind"]), None);
    assert_eq!(fault::<Sale>(&["colour", "kind", "price", "amount", "shop", "note"]), None);
}

#[test]
fn all_missing_columns_are_named_beside_those_that_are_there() {
    let fault = fault::<Sale>(&["shop", "ammount", "price"]).unwrap();
    assert_eq!(fault, "the CSV header lacks `amount`, `kind`; its columns are `shop`, `ammount`, `price`");
}

#[test]
fn a_column_that_comes_twice_is_named_where_names_matter() {
    let twice = ["shop", "amount", "cost", "kind", "x", "x", "shop"];
    assert_eq!(fault::<Sale>(&twice).unwrap(), "the CSV header names `shop`, `x` more than once");
    assert!(fault::<HashMap<String, String>>(&["a", "a"]).is_some());
    assert_eq!(fault::<(String, String)>(&["a", "a"]), None, "a tuple takes columns in order");
    assert_eq!(fault::<HashMap<String, String>>(&["a", "", ""]), None, "columns without a name");
}

#[test]
fn a_type_that_cannot_be_read_from_made_up_values_is_left_to_its_first_record() {
    #[derive(Deserialize)]
    #[allow(dead_code, reason = "they are only read")]
    struct Odd {
        at: std::net::IpAddr,
        other: String,
    }
    #[derive(Deserialize)]
    #[allow(dead_code, reason = "they are only read")]
    struct Panics {
        #[serde(deserialize_with = "year")]
        day: String,
        other: String,
    }
    fn year<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
        Ok(String::deserialize(from)?[..4].to_owned())
    }
    assert_eq!(fault::<Odd>(&["at"]), None);
    assert_eq!(fault::<Panics>(&["day"]), None);
}
