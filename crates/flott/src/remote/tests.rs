//! What is a request, and what is none.

use super::*;
use crate::{Guarantee, Mode};

#[test]
fn a_request_comes_back_as_it_was_written() {
    let set = Request::Set { checkpoint_mode: Some("aligned".to_owned()), checkpoint_interval: None };
    for request in [Request::Status {}, set] {
        let line = serde_json::to_vec(&request).expect("written");
        assert_eq!(Request::parse(&line).expect("read"), request);
    }
}

#[test]
fn what_is_no_request_is_refused_with_the_reason() {
    let cases: [(&[u8], &str); 6] = [
        (b"", "this is no request"),
        (b"{\"request\":\"stop\"}", "unknown variant `stop`"),
        (b"{\"request\":\"status\",\"loud\":true}", "unknown field `loud`"),
        (b"{\"request\":\"set\",\"checkpoint_mode\":7}", "expected a string"),
        (b"\xff\xfe", "this is no request"),
        (&[b' '; LONGEST_REQUEST + 1], "at most 4096 bytes"),
    ];
    for (line, words) in cases {
        let error = Request::parse(line).expect_err("no request").to_string();
        assert!(error.contains(words), "{}: {error}", String::from_utf8_lossy(line));
    }
}

#[test]
fn the_answer_holds_what_the_status_says() {
    let status = Status {
        checkpoint_mode: Some(Mode::AtLeastOnce),
        guarantee: Some(Guarantee::AtLeastOnce),
        checkpoint_interval: Some(Duration::from_micros(1_500)),
        ..Status::default()
    };
    let answer = status_answer("counts", &status, None);
    assert_eq!(answer["checkpoint_mode"], "at-least-once");
    assert_eq!(answer["guarantee"], "at-least-once");
    assert_eq!(answer["checkpoint_interval_ms"], 1.5);
    assert_eq!((&answer["job"], &answer["phase"]), (&"counts".into(), &"starting".into()));
    assert!(answer["last_checkpoint"].is_null());
}
