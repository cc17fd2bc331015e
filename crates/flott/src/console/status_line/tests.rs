//! What a terminal is sent.

use super::StatusLine;

#[test]
fn what_is_logged_stands_above_the_line_which_is_drawn_again() {
    let line = StatusLine { text: "in 1/s".to_owned() };
    assert_eq!(line.below("warning: x"), "\r\x1b[2Kwarning: x\n\r\x1b[2K\x1b[?7lin 1/s\x1b[?7h");
}

#[test]
fn each_text_replaces_the_one_before_and_leaves_the_terminal_wrapping() {
    let line = StatusLine { text: "in 2/s".to_owned() };
    let drawn = line.drawn();
    assert!(drawn.starts_with("\r\x1b[2K") && drawn.ends_with("in 2/s\x1b[?7h"), "{drawn:?}");
}
