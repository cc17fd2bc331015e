//! What cannot be imported, and how that is said.

use super::*;

/// State, format, content of the file, and what must be in the message; of one that can be imported, `new`.
const CASES: [(&str, &str, &str, &str); 14] = [
    (
        "tallies",
        "csv",
        "key,value.count,value.mean,value.last\na,1,0.5,\nb,-1,0.5,x\n",
        "line 3, column `value.count`: it must be u64, and is the number -1",
    ),
    (
        "tallies",
        "csv",
        "key,value.count,value.mean,value.last\na,many,0.5,\n",
        "line 2, column `value.count`: it must be u64, and is the text `many`",
    ),
    ("tallies", "csv", "key,value.count,value.mean\na,1,0.5\n", "new"),
    (
        "tallies",
        "csv",
        "key,value.count,value.median\na,1,0.5\n",
        "line 1, column `value.median`: there is no such column",
    ),
    ("tallies", "csv", "key\na\n", "line 2, column `value`: it is missing"),
    (
        "tallies",
        "jsonl",
        "{\"key\":7,\"value\":{\"count\":1,\"mean\":1}}\n",
        "line 1, column `key`: it must be string, and is the number 7",
    ),
    (
        "tallies",
        "jsonl",
        "{\"key\":\"a\",\"value\":{\"count\":1,\"mean\":\"much\"}}\n",
        "line 1, column `value.mean`: it must be f64, and is the text `much`",
    ),
    ("tallies", "jsonl", "{\"key\":\"a\",\"value\":\n", "line 1: it is no JSON"),
    (
        "tallies",
        "jsonl",
        "{\"key\":\"a\",\"value\":{\"count\":1,\"mean\":1},\"time_ms\":1}\n",
        "line 1, column `time_ms`: an entry of this state has no such part",
    ),
    (
        "tallies",
        "jsonl",
        "{\"key\":\"a\",\"value\":{\"count\":1,\"mean\":1}}\n{\"key\":\"a\",\"value\":{\"count\":2,\"mean\":1}}\n",
        "line 2: line 1 has the same entry",
    ),
    ("lines", "jsonl", "{\"key\":1,\"position\":1,\"value\":\"x\"}\n", "line 1: element 1 of a list of 0"),
    (
        "lines",
        "jsonl",
        "{\"key\":1,\"value\":\"x\"}\n{\"key\":1,\"position\":0,\"value\":\"y\"}\n",
        "line 2, column `position`: of line 1 and this one, which are of the same list, only one has a position",
    ),
    (
        "shares",
        "csv",
        "key,map_key,value\n1,4294967296,0.5\n",
        "line 2, column `map_key`: it must be u32, and is the number 4294967296",
    ),
    ("alarms", "csv", "key,time_ms\n1,soon\n", "line 2, column `time_ms`: it must be i64, and is the text `soon`"),
];

#[test]
fn what_does_not_fit_is_refused_with_line_column_and_types_before_anything_is_written() {
    let place = place();
    drop(block_on(stateful(&place.path().join("from"), 50, 1)).expect("a runtime"));
    let (directory, to) = (text(place.path().join("from")), text(place.path().join("new")));
    let import = |file: &str, state: &str| {
        run(&["state", "import", file, "--from", &directory, "--to", &to, "--operator", "count", "--state", state])
    };
    for (state, extension, content, words) in CASES {
        let file = text(place.path().join(format!("rows.{extension}")));
        fs::write(&file, content).expect("written");
        let (code, stdout, stderr) = import(&file, state);
        if words == "new" {
            assert_eq!(code, 0, "an option may be left out: {stderr}");
            fs::remove_dir_all(&to).expect("written");
            continue;
        }
        assert_eq!((code, stdout.as_str()), (2, ""), "{content}: {stderr}");
        assert!(stderr.contains(words), "{content}: {stderr}");
        let left = fs::read_dir(&to).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{content}: something was left behind");
    }
    let there = "there are: count/alarms, count/lines";
    for (file, state, words) in [("none.csv", "none", there), ("none.csv", "lines", "cannot read none.csv")] {
        let (code, _, stderr) = import(file, state);
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
    }
    let (code, _, stderr) = run(&["state", "export", &directory, "--format", "csv"]);
    assert!(code == 2 && stderr.contains("CSV has the columns of one state"), "{stderr}");
    let (code, _, stderr) = run(&["state", "get", &directory, "--state", "lines", "--key", "x"]);
    assert!(code == 2 && stderr.contains("`x` is no key of state count/lines: it must be u64"), "{stderr}");
    let (code, _, stderr) = run(&["state", "list", &directory, "--checkpoint", "9"]);
    assert!(code == 2 && stderr.contains("no checkpoint 9"), "{stderr}");
}
