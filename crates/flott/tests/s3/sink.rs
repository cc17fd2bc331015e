//! The conformance suite of the sinks, over the file sink in a bucket of a real server.

use super::{options, started};
use crate::server::Server;
use flott_runtime::io::place_files::PlaceFiles;
use flott_runtime::testing::sink_suite::{Bucket, LinesInBucket, check_part_of_sink};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A prefix of its own for each case; the server ends with the program.
struct Prefix(u64);

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(started)
}

impl Bucket for Prefix {
    fn new() -> Self {
        static CASES: AtomicU64 = AtomicU64::new(0);
        Prefix(CASES.fetch_add(1, Ordering::Relaxed))
    }
    fn url(&self) -> String {
        format!("s3://bucket/suite/{}", self.0)
    }
    fn files(&self) -> PlaceFiles {
        PlaceFiles::with_options(options(&server().address()))
    }
}

/// As many faults as a test's time allows; the suite over a bucket in memory has more.
#[test]
fn objects_on_a_real_server_are_committed_exactly_once_whatever_fails() {
    check_part_of_sink::<LinesInBucket<Prefix>>(251, 1);
}
