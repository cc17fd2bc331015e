//! What `flott compare` refuses before it spends a minute.

use std::process::Command;

#[test]
fn a_picture_that_cannot_be_written_is_refused_before_anything_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let missing = dir.path().join("missing/compare.svg");
    let directory = dir.path().join("directory.svg");
    std::fs::create_dir(&directory).expect("a directory");
    // Nobody can make a file there, not even root.
    for path in [missing.as_path(), directory.as_path(), "/proc/compare.svg".as_ref()] {
        let output = Command::new(env!("CARGO_BIN_EXE_flott")).arg("compare").arg("--plot").arg(path).output();
        let output = output.expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("cannot draw {}: ", path.display())), "{said}");
        assert!(said.contains("name a file in a directory that exists"), "{said}");
        assert!(output.stdout.is_empty() && !said.contains("run 1 of"), "nothing has run: {said}");
    }
}
