//! Tests of blocking calls.

use super::make;
use crate::io::{BlockingCall, answer};

#[tokio::test]
async fn a_call_is_made_on_another_thread_and_its_answer_comes_back() {
    let here = std::thread::current().id();
    let call = BlockingCall(Box::new(move || Box::new(std::thread::current().id() != here)));
    let elsewhere: bool = answer(make(call).await.expect("answered"));
    assert!(elsewhere);
}

#[tokio::test]
async fn a_panic_in_a_call_is_an_error_with_its_text() {
    let call = BlockingCall(Box::new(|| panic!("part 7 is not mine")));
    let error = make(call).await.expect_err("panicked").to_string();
    assert!(error.contains("part 7 is not mine"), "{error}");
}
