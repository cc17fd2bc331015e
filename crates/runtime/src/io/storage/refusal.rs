//! What a store's error means: whether another try can help, whether it can have had an effect, and what its user can do.
//!
//! The client gives most answers of a store as text: the HTTP status, and the body, XML with a code. Only what is read here is
//! ever decided by that text; without it an error is one that may pass.

use object_store::Error;
use std::fmt::Write as _;

#[cfg(test)]
mod tests;

/// The parts of a store's answer that was no success.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    status: Option<u16>,
    /// The store's own name of it: `NoSuchBucket`.
    code: String,
    /// The store's own words.
    message: String,
    /// What the client says if there was no answer: the innermost cause.
    cause: String,
}

impl Refusal {
    pub(super) fn of(error: &Error) -> Refusal {
        let text = error.to_string();
        let mut cause: &dyn std::error::Error = error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        let mut refusal = Refusal {
            status: text.split_once("status code: ").and_then(|(_, rest)| rest.get(..3)?.parse().ok()),
            code: between(&text, "<Code>", "</Code>"),
            message: between(&text, "<Message>", "</Message>"),
            cause: cause.to_string(),
        };
        // Google's JSON, and what its XML says of a bucket.
        if refusal.code.is_empty() && text.contains("bucket does not exist") {
            refusal.code = "NoSuchBucket".to_owned();
        }
        if refusal.status.is_none() && text.contains("redirect without LOCATION") {
            refusal.code = "PermanentRedirect".to_owned();
            refusal.status = Some(301);
        }
        refusal
    }

    /// The bucket itself is missing. The stores say so with the status of a missing object.
    pub(super) fn names_missing_bucket(&self) -> bool {
        matches!(self.code.as_str(), "NoSuchBucket" | "ContainerNotFound" | "InvalidBucketName")
    }

    /// Others are at the same object just now: the request was not done, and nobody says that the object is there (L5). The client
    /// takes it for one that is there, by its status.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self.code.as_str(), "ConditionalRequestConflict" | "OperationAborted")
    }

    /// What was uploaded in parts is no upload any more. Perhaps it is the object, and the answer to an earlier try was lost: then
    /// S3 and Google know no such upload, and Azure no such uncommitted blocks.
    pub(super) fn says_used_up(&self) -> bool {
        matches!(self.code.as_str(), "NoSuchUpload" | "InvalidBlockList")
    }

    /// The store has understood the request and will never serve it; nothing was done.
    pub(super) fn is_final(&self) -> bool {
        if self.names_missing_bucket() {
            return true;
        }
        match self.status {
            // S3 says 400 also when the body came too slowly, and when it is busy with the bucket.
            Some(400) => !matches!(self.code.as_str(), "RequestTimeout" | "OperationAborted" | "IncompleteBody"),
            Some(301 | 307 | 401 | 403 | 405 | 411 | 413 | 414 | 501) => true,
            _ => self.cause.contains("URL scheme is not allowed"),
        }
    }

    /// What can be done about it.
    fn hint(&self) -> Option<&'static str> {
        let hint = match self.code.as_str() {
            "NoSuchBucket" | "ContainerNotFound" | "InvalidBucketName" => {
                "there is no such bucket: make it, or correct its name (flott makes none)"
            }
            "RequestTimeTooSkewed" => {
                "this machine's clock is off, and the store takes requests of its own time only: set the clock (NTP)"
            }
            "InvalidAccessKeyId"
            | "SignatureDoesNotMatch"
            | "InvalidToken"
            | "ExpiredToken"
            | "AuthenticationFailed"
            | "InvalidAuthenticationInfo"
            | "MissingSecurityHeader" => {
                "the credentials are wrong or have expired: set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if there is \
                 one, AWS_SESSION_TOKEN (Google: GOOGLE_APPLICATION_CREDENTIALS; Azure: AZURE_STORAGE_ACCOUNT_NAME and \
                 AZURE_STORAGE_ACCOUNT_KEY)"
            }
            "PermanentRedirect" | "AuthorizationHeaderMalformed" | "TemporaryRedirect" => {
                "the bucket lies in another region: set AWS_REGION to it"
            }
            "NotImplemented" => {
                "this store lacks what flott needs: conditional writes (If-None-Match: *) and multipart uploads"
            }
            _ if matches!(self.status, Some(401 | 403)) => {
                "these credentials may not do this: they need to read, write, list and delete objects below this prefix"
            }
            _ if self.cause.contains("URL scheme is not allowed") => {
                "plain http is off: use https, or set AWS_ALLOW_HTTP=true for a store on this machine"
            }
            _ if self.cause.contains("Connection refused") || self.cause.contains("dns error") => {
                "nobody answers there: look at AWS_ENDPOINT_URL, or at the network"
            }
            _ => return None,
        };
        Some(hint)
    }

    /// For people: short, with the store's own words.
    pub(super) fn describe(&self, error: &Error) -> String {
        let mut text = String::new();
        match (self.status, self.code.as_str(), self.message.as_str()) {
            (Some(status), "", "") => write!(text, "the store answers {status}").unwrap_or_default(),
            (Some(status), code, "") => write!(text, "the store answers {status} {code}").unwrap_or_default(),
            (Some(status), code, message) => {
                write!(text, "the store answers {status} {code}: {}", message.trim_end_matches('.'))
                    .unwrap_or_default();
            }
            // The client's texts repeat themselves from layer to layer.
            (None, ..) if is_about_http(error) => text.push_str(&self.cause),
            (None, ..) => text = error.to_string(),
        }
        if let Some(hint) = self.hint() {
            write!(text, " ({hint})").unwrap_or_default();
        }
        text
    }
}

fn is_about_http(error: &Error) -> bool {
    let text = error.to_string();
    text.contains("Error performing ") || text.contains("HTTP error")
}

fn between(text: &str, from: &str, to: &str) -> String {
    let found = text.split_once(from).and_then(|(_, rest)| rest.split_once(to));
    found.map(|(inner, _)| inner.to_owned()).unwrap_or_default()
}
