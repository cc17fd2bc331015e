//! Tests of what a store's error means.

use super::Refusal;
use object_store::Error;

fn generic(text: &str) -> Error {
    Error::Generic { store: "S3", source: text.to_owned().into() }
}

fn answer(status: u16, code: &str) -> Error {
    generic(&format!(
        "Error performing PUT http://127.0.0.1:1/b/x in 1ms - Server returned non-2xx status code: {status} Something: \
         <?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>The words of the store.</Message></Error>"
    ))
}

#[test]
fn what_a_store_will_never_serve_is_told_from_what_may_pass() {
    for (status, code) in [
        (404, "NoSuchBucket"),
        (404, "ContainerNotFound"),
        (403, "RequestTimeTooSkewed"),
        (403, "AccessDenied"),
        (401, "Unauthorized"),
        (400, "ExpiredToken"),
        (301, "PermanentRedirect"),
        (501, "NotImplemented"),
    ] {
        assert!(Refusal::of(&answer(status, code)).is_final(), "{status} {code}");
    }
    for (status, code) in [
        (400, "RequestTimeout"),
        (400, "IncompleteBody"),
        (404, "NoSuchKey"),
        (408, ""),
        (409, "ConditionalRequestConflict"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "SlowDown"),
    ] {
        assert!(!Refusal::of(&answer(status, code)).is_final(), "{status} {code}");
    }
    assert!(!Refusal::of(&generic("a broken pipe")).is_final());
}

#[test]
fn what_others_are_at_is_no_object_that_is_there() {
    for (status, code, conflict, used_up) in [
        (409, "ConditionalRequestConflict", true, false),
        (409, "OperationAborted", true, false),
        (409, "BlobAlreadyExists", false, false),
        (412, "PreconditionFailed", false, false),
        (400, "InvalidBlockList", false, true),
        (404, "NoSuchUpload", false, true),
    ] {
        let refusal = Refusal::of(&answer(status, code));
        assert_eq!((refusal.is_conflict(), refusal.says_used_up()), (conflict, used_up), "{status} {code}");
    }
}

#[test]
fn an_error_is_said_in_the_stores_words_with_what_to_do() {
    for (error, said, hint) in [
        (answer(404, "NoSuchBucket"), "404 NoSuchBucket: The words of the store", "make it, or correct its name"),
        (answer(403, "SignatureDoesNotMatch"), "403 SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"),
        (answer(403, "RequestTimeTooSkewed"), "403 RequestTimeTooSkewed", "set the clock"),
        (answer(403, "AccessDenied"), "403 AccessDenied", "may not do this"),
        (generic("Received redirect without LOCATION, this normally"), "301 PermanentRedirect", "AWS_REGION"),
    ] {
        let text = Refusal::of(&error).describe(&error);
        assert!(text.contains(said) && text.contains(hint), "{text}");
        assert!(!text.contains("<Code>") && !text.contains("non-2xx"), "{text}");
    }
}

#[test]
fn an_error_that_is_no_answer_keeps_its_own_words() {
    let error = generic("no room on the disk");
    assert!(Refusal::of(&error).describe(&error).contains("no room on the disk"));
}
