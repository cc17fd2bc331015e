//! Ctrl-C: whatever a command is doing, it ends with 130 and no pin is left.

use super::{place, stateful, text};
use flott_runtime::io::runtime::block_on;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn begin(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flott"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it runs")
}

fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs").success());
}

fn pins(place: &Path) -> usize {
    fs::read_dir(place.join("sample/pins")).map_or(0, Iterator::count)
}

#[test]
fn a_diff_lets_both_of_its_checkpoints_go() {
    let place = place();
    let mut job = block_on(stateful(place.path(), 200, 1)).expect("a runtime");
    // More than fits into a pipe, so the command cannot be through when it is interrupted.
    (0..4_000u64).for_each(|key| job.put_alarm(key, 1));
    block_on(job.checkpoint(None)).expect("a runtime");
    let before = format!("{}@1", text(place.path()));
    let mut diff = begin(&["checkpoints", "diff", &before, "@2", "--keys", "--json"]);
    let mut stdout = BufReader::new(diff.stdout.take().expect("piped"));
    stdout.read_line(&mut String::new()).expect("a line");
    assert_eq!(pins(place.path()), 2, "it holds what it reads");
    interrupt(&diff);
    stdout.read_to_string(&mut String::new()).expect("the rest");
    assert_eq!(diff.wait().expect("it ends").code(), Some(130));
    assert_eq!(pins(place.path()), 0, "a pin is left");
}

#[test]
fn an_import_that_waits_for_its_file_ends() {
    let place = place();
    drop(block_on(stateful(place.path(), 200, 1)).expect("a runtime"));
    let (from, to) = (text(place.path()), text(place.path().join("to")));
    let of = ["--operator", "count", "--state", "tallies"];
    let mut import = begin(&[&["state", "import", "-", "--from", &from, "--to", &to], of.as_slice()].concat());
    while pins(place.path()) == 0 {
        assert!(import.try_wait().expect("a child").is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    interrupt(&import);
    // Its standard input stays open until then.
    let stdin = import.stdin.take();
    assert_eq!(import.wait().expect("it ends").code(), Some(130));
    drop(stdin);
    assert_eq!(pins(place.path()), 0, "a pin is left");
}
