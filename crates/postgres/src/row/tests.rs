//! What records look like on the way to the server.

use super::*;
use std::collections::BTreeMap;

#[derive(serde::Serialize)]
struct Row {
    name: &'static str,
    count: Option<u64>,
    ratio: f64,
    tags: Vec<&'static str>,
}

fn line<T: Serialize>(columns: &[&str], record: &T) -> Result<String> {
    let mut line = Vec::new();
    Layout::new(columns.iter().map(|name| (*name).to_owned()).collect()).write(record, &mut line)?;
    Ok(String::from_utf8(line).expect("UTF-8"))
}

#[test]
fn fields_go_to_the_columns_of_their_names() {
    let row = Row { name: "a", count: Some(7), ratio: 0.5, tags: vec!["x", "y\"z"] };
    assert_eq!(line(&["name", "count", "ratio", "tags"], &row).unwrap(), "a\t7\t0.5\t[\"x\",\"y\\\\\"z\"]\n");
    assert_eq!(line(&["ratio", "name"], &row).unwrap(), "0.5\ta\n");
    assert_eq!(line(&["name", "absent"], &row).unwrap(), "a\t\\N\n");
}

#[test]
fn what_copy_takes_for_its_own_is_escaped_and_null_is_no_text() {
    assert_eq!(line(&["a", "b"], &("1\t2\n3\\4\r", "")).unwrap(), "1\\t2\\n3\\\\4\\r\t\n");
    assert_eq!(line(&["a", "b"], &("\\N", None::<u8>)).unwrap(), "\\\\N\t\\N\n");
    assert_eq!(
        line(&["a", "b", "c"], &(f64::NAN, f32::NEG_INFINITY, f64::MAX.floor() > 0.0)).unwrap(),
        "NaN\t-Infinity\ttrue\n"
    );
    assert_eq!(line(&["a", "b"], &(Field(&[0, 255]), u128::MAX)).unwrap(), format!("\\\\x00ff\t{}\n", u128::MAX));
    assert_eq!(line(&["a"], &'\t').unwrap(), "\\t\n");
}

#[test]
fn a_record_that_is_no_row_is_an_error_that_says_so() {
    for error in [
        line(&["a", "b"], &(1, 2, 3)).unwrap_err(),
        line(&["a", "b"], &(1,)).unwrap_err(),
        line(&["a"], &BTreeMap::from([("a", 1)])).unwrap_err(),
        line(&["a"], &vec![1]).unwrap_err(),
    ] {
        assert!(error.to_string().contains("columns a"), "{error}");
    }
}
