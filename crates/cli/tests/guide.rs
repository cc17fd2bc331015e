//! The chapter that shows the algorithms shows the code that runs.

use std::fs;
use std::path::PathBuf;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_block_of_code_in_the_chapter_on_the_algorithms_stands_in_the_file_that_it_names() {
    let chapter = fs::read_to_string(root().join("docs/guide/four-ways-to-cut-a-stream.md")).expect("the chapter");
    let mut shown = Vec::new();
    for part in chapter.split("<!-- ").skip(1) {
        let (path, rest) = part.split_once(" -->\n```rust,ignore\n").expect("a file, then its code");
        let (code, _) = rest.split_once("\n```").expect("the end of the code");
        let file = fs::read_to_string(root().join(path)).expect(path);
        assert!(file.contains(code), "{path} does not say this any more:\n{code}");
        shown.push(path.rsplit('/').next().expect("a name").trim_end_matches(".rs").replace('_', "-"));
    }
    let modes = flott::Mode::ALL.map(|mode| mode.to_string());
    assert!(modes.iter().all(|mode| shown.contains(mode)), "all of {modes:?} are shown, not only {shown:?}");
}
