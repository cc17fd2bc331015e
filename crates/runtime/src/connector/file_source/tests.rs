//! The conformance suite on all kinds of files, and what is particular to files.

use super::*;
use crate::operator::try_map::OnError;
use crate::source::{Next, SourceContext};
use crate::testing::connector_contexts::source_context;
use crate::testing::memory_files::{Fault, FileCall, Hook, MemoryFiles, Operation};
use crate::testing::source_suite::check_source;
use crate::time::Time;
use serde::Deserialize;
use std::sync::atomic::Ordering;

fn cx(files: &MemoryFiles) -> SourceContext {
    source_context(Arc::new(files.clone()))
}

/// All lines of one file, checked by the suite.
fn lines_of(content: impl AsRef<[u8]>) -> Vec<String> {
    let files = MemoryFiles::new();
    files.put("in/a.txt", content);
    check_source(&FileSource::lines("in/*.txt"), &cx(&files)).remove(0).1
}

#[test]
fn lines_end_as_they_may() {
    assert_eq!(lines_of("one\ntwo\n"), ["one", "two"]);
    assert_eq!(lines_of("one\ntwo"), ["one", "two"], "the last line feed is missing");
    assert_eq!(lines_of("one\r\ntwo\r\n\r\n"), ["one", "two", ""]);
    assert_eq!(lines_of("\n\n"), ["", ""]);
    assert_eq!(lines_of("a\rb\r"), ["a\rb\r"], "a carriage return alone is no end");
    assert_eq!(lines_of(""), [""; 0]);
    assert_eq!(
        lines_of("\u{FEFF}one\n\u{FEFF}two"),
        ["one", "\u{FEFF}two"],
        "only at the beginning it is a byte order mark"
    );
    assert_eq!(lines_of("\u{FEFF}"), [""; 0]);
}

#[test]
fn lines_may_be_longer_than_a_chunk() {
    let long = "é".repeat(100_000);
    assert_eq!(lines_of(format!("short\n{long}\r\n{long}")), ["short", &long, &long]);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]
    #[test]
    fn lines_are_those_of_the_standard_library(text in "(a|é|\r\n|\n|b{1,9000}){0,30}") {
        let expected: Vec<&str> = text.lines().collect();
        proptest::prop_assert_eq!(lines_of(&text), expected);
    }

    #[test]
    fn csv_is_that_of_the_csv_crate(text in "(a|,|\"|\"a\nb\"|;|\r\n|\n|\"\"|b{1,3000}){0,40}") {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
        let expected: Vec<Vec<String>> = reader.deserialize().map(Result::unwrap).collect();
        let columns = expected.first().map_or(0, Vec::len);
        let expected: Vec<Vec<String>> = expected.into_iter().take_while(|row| row.len() == columns).collect();
        let files = MemoryFiles::new();
        files.put("in/a.csv", &text);
        let source = FileSource::csv::<Vec<String>>("in/a.csv").headers(false);
        let mut reader = source.open("a.csv", None, &cx(&files)).unwrap();
        let mut resumed = source.open("a.csv", Some(reader.position()), &cx(&files)).unwrap();
        for row in expected {
            proptest::prop_assert_eq!(reader.next(Time(0)).unwrap(), Next::Record(row.clone(), None));
            proptest::prop_assert_eq!(resumed.next(Time(0)).unwrap(), Next::Record(row, None));
            proptest::prop_assert_eq!(reader.describe(), resumed.describe());
            resumed = source.open("a.csv", Some(reader.position()), &cx(&files)).unwrap();
        }
        // Then both end, or both meet the same bad record.
        let (end, resumed) = (reader.next(Time(0)), resumed.next(Time(0)));
        proptest::prop_assert_eq!(format!("{end:?}"), format!("{resumed:?}"));
    }
}

#[test]
fn a_short_read_of_the_system_is_not_the_end() {
    let files = MemoryFiles::new();
    files.put("a", "one\ntwo\nthree");
    files.set_hook(Some(Box::new(|_: &FileCall<'_>| Fault::Short(1))));
    assert_eq!(check_source(&FileSource::lines("a"), &cx(&files))[0].1, ["one", "two", "three"]);
}

#[test]
fn event_time_comes_from_the_record() {
    let files = MemoryFiles::new();
    files.put("a", "5\n7");
    let source = FileSource::lines("a").timestamp(|line| Timestamp(line.parse().unwrap()));
    check_source(&source, &cx(&files));
    let next = source.open("a", None, &cx(&files)).unwrap().next(Time(0)).unwrap();
    assert_eq!(next, Next::Record("5".to_owned(), Some(Timestamp(5))));
}

fn error_of<T: std::fmt::Debug>(read: Result<T>) -> Error {
    read.expect_err("this must fail")
}

#[test]
fn a_line_that_is_not_utf8_is_named() {
    let files = MemoryFiles::new();
    files.put("in/a.txt", b"good\n\xFFbad\n");
    let mut reader = FileSource::lines("in/a.txt").open("a.txt", None, &cx(&files)).unwrap();
    assert!(reader.next(Time(0)).is_ok());
    let error = error_of(reader.next(Time(0)));
    assert!(error.to_string().contains("not UTF-8 at a.txt, line 2"), "{error}");
}

#[test]
fn a_dead_letter_has_the_whole_text_of_its_record_however_the_file_is_read() {
    let files = MemoryFiles::new();
    files.put("in/a.csv", b"1,2\n\"a\r\nb\",\"x\"\"y\"\r\n\r\n3,\xFF\n5,6,7");
    files.put("in/a.jsonl", b"[1]\n\n\xFF {\r\n[2");
    let unreadable = |reader: &mut BoxedReader<(u64, u64), FilePosition>| {
        let mut seen = Vec::new();
        loop {
            match reader.next(Time(0)).unwrap() {
                Next::Unreadable(unreadable) => seen.push((unreadable.record, unreadable.position)),
                Next::End => return seen,
                _ => {}
            }
        }
    };
    let csv = FileSource::csv::<(u64, u64)>("in/a.csv").headers(false).on_error(OnError::Fail).with_dead_letters();
    let json = FileSource::json::<(u64, u64)>("in/a.jsonl").with_dead_letters();
    for short in [false, true] {
        let fault: Hook = Box::new(|_| Fault::Short(1));
        files.set_hook(short.then_some(fault));
        let seen = unreadable(&mut csv.open("a.csv", None, &cx(&files)).unwrap());
        let places = ["a.csv, line 2, column 1", "a.csv, line 5, column 2", "a.csv, line 6"].map(str::to_owned);
        let records = ["\"a\r\nb\",\"x\"\"y\"", "3,\u{FFFD}", "5,6,7"].map(str::to_owned);
        assert!(seen.iter().map(|(record, _)| record).eq(&records), "{seen:?}");
        assert!(seen.iter().map(|(_, place)| place).eq(&places), "{seen:?}");
        let seen = unreadable(&mut json.open("a.jsonl", None, &cx(&files)).unwrap());
        let records = ["[1]", "\u{FFFD} {", "[2"].map(str::to_owned);
        assert!(seen.iter().map(|(record, _)| record).eq(&records), "{seen:?}");
    }
    assert!(Source::skipped(&csv).is_none() && Source::skipped(&json).is_none(), "nothing is left out");
}

#[test]
fn a_line_without_end_is_refused_before_it_fills_memory() {
    let files = MemoryFiles::new();
    files.put("zeros", vec![0; super::super::MAX_RECORD_BYTES + (1 << 20)]);
    let error = error_of(FileSource::lines("zeros").open("zeros", None, &cx(&files)).unwrap().next(Time(0)));
    assert!(error.to_string().contains("longer than 16 MiB at zeros, line 1"), "{error}");
    let mut quoted = b"x\n\"".to_vec();
    quoted.resize(super::super::MAX_RECORD_BYTES + (1 << 20), b'a');
    files.put("quoted", quoted);
    let error =
        error_of(FileSource::csv::<(String,)>("quoted").open("quoted", None, &cx(&files)).unwrap().next(Time(0)));
    assert!(error.to_string().contains("longer than 16 MiB at quoted, line 2; is a quote missing"), "{error}");
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Flight {
    carrier: String,
    delay: Option<i32>,
}

fn flight(carrier: &str, delay: Option<i32>) -> Flight {
    Flight { carrier: carrier.to_owned(), delay }
}

#[test]
fn csv_columns_find_their_fields_by_name() {
    let files = MemoryFiles::new();
    files.put("in/a.csv", "\u{FEFF}delay,note,carrier\r\n2,\"a, \"\"b\"\"\r\nc\",UA\r\n\r\n,x,AA\r\n-3,,DL");
    let read = check_source(&FileSource::csv::<Flight>("in/*.csv"), &cx(&files));
    assert_eq!(read[0].1, [flight("UA", Some(2)), flight("AA", None), flight("DL", Some(-3))]);
}

#[test]
fn the_line_of_a_csv_record_is_where_it_begins() {
    for end in ["\n", "\r\n"] {
        let files = MemoryFiles::new();
        files.put("a", ["carrier,delay", "\"U\nA\",1", "", "AA,2", "DL,3"].join(end));
        let mut reader = FileSource::csv::<Flight>("a").open("a", None, &cx(&files)).unwrap();
        for line in [2, 5, 6] {
            assert!(matches!(reader.next(Time(0)), Ok(Next::Record(..))));
            assert_eq!(reader.describe(), format!("a, line {line}"));
        }
    }
}

#[test]
fn csv_without_header_and_with_another_delimiter() {
    let files = MemoryFiles::new();
    files.put("a", "UA;2\nAA;3");
    let source = FileSource::csv::<(String, i32)>("a").headers(false).delimiter(b';');
    assert_eq!(check_source(&source, &cx(&files))[0].1, [("UA".to_owned(), 2), ("AA".to_owned(), 3)]);
}

#[test]
fn csv_files_without_records_are_empty() {
    for content in ["", "carrier,delay", "carrier,delay\n", "\n\n"] {
        let files = MemoryFiles::new();
        files.put("a", content);
        assert_eq!(check_source(&FileSource::csv::<Flight>("a"), &cx(&files))[0].1, []);
    }
}

/// The error that the second record of a CSV file gives.
fn csv_error(second: &str) -> String {
    let files = MemoryFiles::new();
    files.put("in/a.csv", format!("carrier,delay\nUA,2\n{second}\n"));
    let source = FileSource::csv::<Flight>("in/*.csv");
    let mut reader = source.open("a.csv", None, &cx(&files)).unwrap();
    assert!(reader.next(Time(0)).is_ok());
    let resumed = error_of(source.open("a.csv", Some(reader.position()), &cx(&files)).unwrap().next(Time(0)));
    let error = error_of(reader.next(Time(0)));
    assert_eq!(resumed.to_string(), error.to_string(), "resumed, the message is the same");
    error.to_string()
}

#[test]
fn csv_errors_name_file_line_column_and_value() {
    let error = csv_error("AA,late");
    assert!(error.contains("`late`") && error.contains("a.csv, line 3, column `delay`"), "{error}");
    let error = csv_error("AA");
    assert!(error.contains("has 1 fields, the header has 2 at a.csv, line 3"), "{error}");
    let error = csv_error("AA,1,2");
    assert!(error.contains("has 3 fields, the header has 2 at a.csv, line 3"), "{error}");
}

#[test]
fn a_header_without_a_needed_column_is_an_error() {
    let files = MemoryFiles::new();
    files.put("a", "airline,delay\nUA,2\n");
    let error = FileSource::csv::<Flight>("a").open("a", None, &cx(&files)).err().expect("it cannot be read");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("lacks `carrier`") && error.to_string().contains("a, line 1"), "{error}");
    // Its last word: what the header cannot tell, the first record does.
    files.put("b", "at\n::1\n");
    let source = FileSource::csv::<(std::net::IpAddr, u8)>("b");
    let error = error_of(source.open("b", None, &cx(&files)).unwrap().next(Time(0)));
    assert!(error.to_string().contains("the columns are `at`"), "{error}");
}

#[test]
fn records_that_cannot_be_read_are_left_out_if_asked_and_positions_stay_exact() {
    let files = MemoryFiles::new();
    let bad = ["UA,much\n", "UA\n", "UA,1,2\n", "\"U\nA\",x\n"];
    let text: String = (0..40).map(|row| format!("AA,{row}\n{}", bad[row % 4].repeat(row % 3))).collect();
    files.put("a", format!("carrier,delay\n{text}UA,much\n"));
    let source = FileSource::csv::<Flight>("a").on_error(OnError::Skip);
    let read = check_source(&source, &cx(&files)).remove(0).1;
    assert_eq!(read.len(), 40, "the suite has resumed behind each of them");
    let other = source.clone();
    let count = |source: &FileSource<super::super::Csv<Flight>>| source.skipped().unwrap().load(Ordering::Relaxed);
    assert!(count(&source) > 40 && count(&other) == 0, "a clone counts for itself");
    let mut reader = other.open("a", None, &cx(&files)).unwrap();
    while reader.next(Time(0)).unwrap() != Next::End {}
    assert_eq!(count(&other), 40, "39 between the records, and the last line");
    assert!(FileSource::csv::<Flight>("a").skipped().is_none(), "nothing may be left out");
}

#[test]
fn splits_are_named_below_the_fixed_directory() {
    let files = MemoryFiles::new();
    for path in ["data/x/1.csv", "data/y/2.csv", "data/x/.part-3.csv", "data/top.csv", "data/x/deep/4.csv"] {
        files.put(path, "a\n");
    }
    let splits = |pattern: &str| FileSource::lines(pattern).splits(&cx(&files)).unwrap();
    assert_eq!(splits("data/*/*.csv"), ["x/1.csv", "y/2.csv"]);
    assert_eq!(splits("./data/x/*.csv"), ["1.csv"]);
    assert_eq!(splits("data/**/*.csv"), ["top.csv", "x/1.csv", "x/deep/4.csv", "y/2.csv"]);
    assert_eq!(splits("data/x/1.csv"), ["1.csv"]);
    assert_eq!(splits("/data/*.csv"), ["top.csv"]);
    assert_eq!(splits("data/x/.*.csv"), [".part-3.csv"], "hidden files are read when they are asked for");
}

#[test]
fn a_moved_directory_resumes() {
    let files = MemoryFiles::new();
    files.put("old/a.txt", "one\ntwo");
    files.put("new/place/a.txt", "one\ntwo");
    let mut reader = FileSource::lines("old/*.txt").open("a.txt", None, &cx(&files)).unwrap();
    reader.next(Time(0)).unwrap();
    let source = FileSource::lines("new/place/*.txt");
    assert_eq!(source.splits(&cx(&files)).unwrap(), ["a.txt"]);
    let mut resumed = source.open("a.txt", Some(reader.position()), &cx(&files)).unwrap();
    assert_eq!(resumed.next(Time(0)).unwrap(), Next::Record("two".to_owned(), None));
}

#[test]
fn no_file_is_refused() {
    let files = MemoryFiles::new();
    files.put("in/a.csv", "");
    for pattern in ["in/*.txt", "in/b.csv", "in", "[a"] {
        let error = error_of(FileSource::lines(pattern).splits(&cx(&files)));
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(error.to_string().contains(&format!("`{pattern}`")), "{error}");
    }
}

#[test]
fn a_file_that_changed_since_the_checkpoint_is_not_read() {
    let files = MemoryFiles::new();
    files.put("in/a.txt", "one\ntwo\n");
    let source = FileSource::lines("in/*.txt");
    let mut reader = source.open("a.txt", None, &cx(&files)).unwrap();
    reader.next(Time(0)).unwrap();
    let position = reader.position();
    for changed in ["one\ntwo\nthree\n", "one\nTWO\n", ""] {
        files.put("in/a.txt", changed);
        let error = source.open("a.txt", Some(position.clone()), &cx(&files)).err().expect("it changed");
        assert_eq!(error.kind(), ErrorKind::Unusable);
        let text = error.to_string();
        let is = FileBytes::open(&cx(&files).files, Path::new("in/a.txt"), Compression::None).unwrap().fingerprint();
        assert!(text.contains(&position.fingerprint.to_string()) && text.contains(&is.to_string()), "{text}");
        assert!(text.contains("in/a.txt") && text.contains("--restore none"), "{text}");
    }
    Files::remove(&files, Path::new("in/a.txt")).unwrap();
    let gone = source.open("a.txt", Some(position), &cx(&files)).err().expect("it is gone");
    assert_eq!(gone.kind(), ErrorKind::Unusable);
    let never = source.open("a.txt", None, &cx(&files)).err().expect("it is gone");
    assert_eq!(never.kind(), ErrorKind::Refused);
}

#[test]
fn a_file_that_changes_while_it_is_read_is_an_error() {
    for changed in ["one\ntwo\nthree\n", "one\n"] {
        let files = MemoryFiles::new();
        files.put("a", "one\ntwo\n");
        let mut reader = FileSource::lines("a").open("a", None, &cx(&files)).unwrap();
        assert_eq!(reader.next(Time(0)).unwrap(), Next::Record("one".to_owned(), None));
        files.put("a", changed);
        reader.next(Time(0)).unwrap();
        let error = error_of(reader.next(Time(0)));
        assert!(error.to_string().contains("changed while it was read"), "{error}");
    }
}

#[test]
fn a_position_is_stored_as_documented() {
    let position =
        FilePosition { offset: 5, line: 2, header_read: true, fingerprint: Fingerprint { length: 9, xxh3: 0xAB } };
    let json = serde_json::to_string(&position).unwrap();
    let documented = r#"{"offset":5,"line":2,"header_read":true,"fingerprint":{"length":9,"xxh3":"00000000000000ab"}}"#;
    assert_eq!(json, documented);
    assert_eq!(serde_json::from_str::<FilePosition>(documented).unwrap(), position);
}

#[test]
fn a_failed_read_names_the_file() {
    let files = MemoryFiles::new();
    files.put("in/a.txt", "one\n".repeat(50_000));
    let mut reader = FileSource::lines("in/a.txt").open("a.txt", None, &cx(&files)).unwrap();
    files.set_hook(Some(Box::new(|call: &FileCall<'_>| match call.operation {
        Operation::ReadAt => Fault::Fail(io::ErrorKind::Other),
        _ => Fault::None,
    })));
    let error = loop {
        if let Err(error) = reader.next(Time(0)) {
            break error;
        }
    };
    assert!(error.to_string().contains("cannot read in/a.txt"), "{error}");
}

/// Everything that is in a directory and is no regular file: (name, what the message says).
#[cfg(unix)]
fn foreign_things(directory: &Path) -> Vec<(&'static str, &'static str)> {
    use std::os::unix::{fs::symlink, net::UnixListener};
    let made = std::process::Command::new("mkfifo").arg(directory.join("pipe.txt")).status().expect("mkfifo runs");
    assert!(made.success());
    std::fs::create_dir(directory.join("directory.txt")).expect("a directory");
    // The file stays when the listener is closed.
    drop(UnixListener::bind(directory.join("socket.txt")).expect("a socket"));
    symlink("/dev/zero", directory.join("zero.txt")).expect("a link");
    vec![
        ("pipe.txt", "a pipe, a socket or a device"),
        ("socket.txt", "a pipe, a socket or a device"),
        ("zero.txt", "a pipe, a socket or a device"),
        ("directory.txt", "a directory"),
    ]
}

#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_refused_at_once_and_never_read() {
    use crate::io::files::OsFiles;
    let directory = tempfile::tempdir().expect("a directory");
    let things = foreign_things(directory.path());
    let (files, cx) = (Arc::new(OsFiles), source_context(Arc::new(OsFiles)));
    for (name, what) in &things {
        let path = directory.path().join(name);
        let refused = |error: Error| {
            assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
            assert!(error.to_string().contains(&format!("{name}` is {what}, not a regular file")), "{error}");
        };
        let source = FileSource::lines(path.display().to_string());
        refused(source.splits(&cx).expect_err("no input"));
        refused(source.open(name, None, &cx).err().expect("no input"));
        assert!(files.open(&path).is_err(), "{name} is not waited for");
        if *name != "directory.txt" {
            // A pattern skips directories and nothing else.
            let pattern = directory.path().join(format!("{}*", &name[..4])).display().to_string();
            refused(FileSource::lines(pattern).splits(&cx).expect_err("no input"));
        }
    }
    std::fs::write(directory.path().join("directory-too.txt"), "one").expect("a file");
    let pattern = directory.path().join("dir*").display().to_string();
    assert_eq!(FileSource::lines(pattern).splits(&cx).expect("a file"), ["directory-too.txt"]);
}

/// One gzip member.
fn gzip(content: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn a_compressed_file_reads_as_its_content_from_any_position() {
    let files = MemoryFiles::new();
    let lines: Vec<String> = (0..400).map(|n| format!("line {n} {}", "é".repeat(n))).collect();
    let text = lines.join("\n");
    let (first, second) = text.as_bytes().split_at(text.len() / 3);
    files.put("in/whole.gz", gzip(text.as_bytes()));
    files.put("in/members.gz", [gzip(first), gzip(b""), gzip(second)].concat());
    files.put("in/mark.gz", gzip(format!("\u{FEFF}{text}").as_bytes()));
    files.put("in/none.gz", gzip(b""));
    let read = check_source(&FileSource::lines("in/*.gz"), &cx(&files));
    for (name, read) in read {
        assert_eq!(read, if name == "none.gz" { &[][..] } else { &lines[..] }, "{name}");
    }
    files.put("named/otherwise", gzip(b"a\n"));
    assert_eq!(check_source(&FileSource::lines("named/*").gzip(true), &cx(&files))[0].1, ["a"]);
    files.put("plain/by-name.gz", "a\n");
    assert_eq!(check_source(&FileSource::lines("plain/*").gzip(false), &cx(&files))[0].1, ["a"]);
    files.put("csv/a.csv.gz", gzip(b"n,word\n1,one\n2,two\n"));
    let rows = check_source(&FileSource::csv::<(u64, String)>("csv/*"), &cx(&files)).remove(0).1;
    assert_eq!(rows, [(1, "one".to_owned()), (2, "two".to_owned())]);
}

#[test]
fn every_truncation_and_every_flipped_byte_of_a_compressed_file_is_an_error_that_names_file_and_offset() {
    let content: Vec<u8> =
        (0..300u32).flat_map(|n| format!("{} line\n", n.wrapping_mul(2_654_435_761)).into_bytes()).collect();
    let whole = gzip(&content);
    let read = |bytes: &[u8]| -> Result<Vec<String>> {
        let files = MemoryFiles::new();
        files.put("a.gz", bytes);
        let mut reader = FileSource::lines("a.gz").open("a.gz", None, &cx(&files))?;
        let mut lines = Vec::new();
        while let Next::Record(line, _) = reader.next(Time(0))? {
            lines.push(line);
        }
        Ok(lines)
    };
    let expected = read(&whole).expect("whole");
    for length in 0..whole.len() {
        let error = read(&whole[..length]).expect_err("it is cut off");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        for part in ["a.gz is no whole gzip file", "cut off", "bytes of content"] {
            assert!(error.to_string().contains(part), "cut at {length}: {error}");
        }
    }
    let mut harmless = 0;
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        match read(&flipped) {
            Err(error) => assert!(error.to_string().contains("a.gz"), "{at}: {error}"),
            // The header has a time and a system that nobody reads, and the last byte of the stream some unused bits.
            Ok(lines) => {
                assert!(lines == expected, "byte {at} changes the content unnoticed");
                harmless += 1;
            }
        }
    }
    assert!(harmless <= 8, "{harmless} bytes may change");
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, Deserialize)]
struct Reading {
    sensor: String,
    value: i64,
}

#[test]
fn json_lines_are_records_and_empty_lines_are_none() {
    let files = MemoryFiles::new();
    files.put(
        "in/a.jsonl",
        "\u{FEFF}{\"sensor\":\"a\",\"value\":1}\r\n\n  \n{ \"value\": -2, \"sensor\": \"\\u00e9\" }",
    );
    let source = FileSource::json::<Reading>("in/*.jsonl").timestamp(|reading| Timestamp(reading.value));
    let read = check_source(&source, &cx(&files)).remove(0).1;
    let reading = |sensor: &str, value| Reading { sensor: sensor.to_owned(), value };
    assert_eq!(read, [reading("a", 1), reading("é", -2)]);
}

#[test]
fn a_json_line_of_another_shape_is_named_or_left_out_and_counted() {
    use crate::operator::try_map::OnError;
    use std::sync::atomic::Ordering;
    let good = "{\"sensor\":\"a\",\"value\":1}\n";
    for (bad, cause) in [
        ("{\"sensor\":\"a\"}", "missing field `value`"),
        ("{\"sensor\":\"a\",\"value\":\"much\"}", "invalid type"),
        ("{\"sensor\":\"a\",\"value\":1} {}", "trailing characters"),
        ("{\"sensor\"", "EOF while parsing"),
        ("no", "expected"),
    ] {
        let files = MemoryFiles::new();
        files.put("in/a.jsonl", format!("{good}\n{bad}\n{good}"));
        let source = FileSource::json::<Reading>("in/a.jsonl");
        let mut reader = source.open("a.jsonl", None, &cx(&files)).unwrap();
        reader.next(Time(0)).unwrap();
        let error = reader.next(Time(0)).expect_err("another shape");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        for part in ["a.jsonl, line 3, column", cause, "Reading"] {
            assert!(error.to_string().contains(part), "`{part}` is missing: {error}");
        }
        assert!(!error.to_string().contains("line 1"), "{error}");
        let source = source.on_error(OnError::Skip);
        let skipped = source.skipped().expect("it may leave records out");
        let mut reader = source.open("a.jsonl", None, &cx(&files)).unwrap();
        assert!(matches!(reader.next(Time(0)).unwrap(), Next::Record(..)));
        assert_eq!(reader.next(Time(0)).unwrap(), Next::Skipped);
        assert!(matches!(reader.next(Time(0)).unwrap(), Next::Record(..)));
        assert_eq!(reader.next(Time(0)).unwrap(), Next::End);
        assert_eq!(skipped.load(Ordering::Relaxed), 1);
    }
}
