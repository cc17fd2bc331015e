//! What a cell says is read back as it was.

use super::*;

#[test]
fn cells_come_back_as_they_were() {
    let leaf = |name: &'static str| Shape::Leaf(name);
    let optional = |shape: Shape| Shape::Optional(Box::new(shape));
    let text = |text: &str| Datum::Text(text.to_owned());
    let cases = [
        (leaf("u64"), Datum::Integer(u64::MAX.into()), "18446744073709551615"),
        (leaf("f64"), Datum::F64(1.0), "1.0"),
        (leaf("f64"), Datum::F64(f64::INFINITY), "{\"$f64\":\"inf\"}"),
        (leaf("f32"), Datum::F32(0.1), "0.1"),
        (leaf("bool"), Datum::Bool(true), "true"),
        (leaf("string"), text(""), ""),
        (leaf("string"), text("{\"$f64\":\"inf\"}"), "{\"$f64\":\"inf\"}"),
        (leaf("bytes"), Datum::Bytes(vec![0, 255]), "{\"$bytes\":\"00ff\"}"),
        (leaf("unit"), Datum::Nil, ""),
        (optional(leaf("string")), Datum::Nil, ""),
        (optional(leaf("string")), text(""), "\"\""),
        (optional(leaf("string")), text("x"), "x"),
        (optional(leaf("i8")), Datum::Integer(-1), "-1"),
        (Shape::Any, text("x"), "\"x\""),
        (Shape::Sequence(Box::new(leaf("u8"))), Datum::Sequence(vec![Datum::Integer(1)]), "[1]"),
    ];
    for (shape, datum, expected) in cases {
        let written = cell(&datum, &shape);
        assert_eq!(written, expected, "{shape}");
        assert_eq!(parse(&written, &shape), Ok(datum), "{shape}");
    }
}

#[test]
fn a_struct_has_a_column_for_each_field_and_a_changed_type_is_one_column_of_json() {
    let plan = "{count:u64,at:{day:u32,name:option<string>},tags:seq<string>}";
    let mut shape = StateShape {
        kind: StateKind::Value,
        word: "value".to_owned(),
        key: "(string,u32)".parse().expect("a shape"),
        field: Shape::Unknown,
        value: plan.parse().expect("a shape"),
        varies: false,
        seen: None,
    };
    assert_eq!(Columns::of(&shape).names(), ["key", "value.count", "value.at.day", "value.at.name", "value.tags"]);
    shape.varies = true;
    assert_eq!(Columns::of(&shape).names(), ["key", "value"]);
}
