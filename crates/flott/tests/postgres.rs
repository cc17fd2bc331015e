//! The example `postgres_exact` against a real server: whatever is killed, job or server, wherever, the table is in the end what one
//! undisturbed run writes. `cargo xtask test --real postgres` builds what these tests run.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may end where it stands")]

#[path = "process/mod.rs"]
mod process;
#[path = "postgres/server.rs"]
mod server;

use process::{ALL_LINES, Site, Start};
use server::Server;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// So slow that a process has most of its input before it when something happens to it: 2 s.
const SLOW: u64 = ALL_LINES / 2;

const POINTS: [&str; 10] = [
    "BeforeStart",
    "AfterStart",
    "BeforeAck",
    "AfterLastAck",
    "AfterManifest",
    "AfterLogSlot",
    "AfterFinalSlot",
    "DuringCollection",
    "Step(9)",
    "Step(30)",
];

fn example() -> PathBuf {
    let own = std::env::current_exe().expect("we run");
    let path = own.ancestors().nth(2).expect("a target directory").join("examples/postgres_exact");
    assert!(path.exists(), "build it: cargo build -p flott --features postgres,testing --example postgres_exact");
    path
}

/// A job with its input and its table.
struct Place {
    site: Site,
    table: String,
}

impl Place {
    fn new(server: &Server, table: &str) -> Place {
        server.sql(&format!("CREATE TABLE {table} (key text NOT NULL, count bigint NOT NULL)"));
        Place { site: Site::new(), table: table.to_owned() }
    }

    fn job(&self, server: &Server) -> Start<'_> {
        self.site.job_of(&example()).with(&["--database", &server.connection(), "--table", &self.table])
    }

    fn rows(&self, server: &Server) -> BTreeMap<String, u64> {
        let rows = server.sql(&format!("SELECT key || ',' || count FROM \"{}\"", self.table));
        rows.into_iter().fold(BTreeMap::new(), |mut rows, row| {
            *rows.entry(row).or_insert(0) += 1;
            rows
        })
    }

    /// The table is that of one undisturbed run, and says so for each writer.
    fn must_be_whole(&self, server: &Server) {
        let (rows, expected) = (self.rows(server), Site::expected());
        let lost = expected.keys().filter(|row| !rows.contains_key(*row)).count();
        let doubled: Vec<_> = rows.iter().filter(|(row, count)| expected.get(*row) != Some(count)).take(5).collect();
        assert_eq!((lost, doubled), (0, vec![]), "rows that are lost, and rows too many");
    }
}

#[test]
fn an_undisturbed_run_writes_each_row_once_and_a_mark_for_each_writer() {
    let server = Server::new();
    let place = Place::new(&server, "counts");
    place.job(&server).start().must_end_with(0);
    place.must_be_whole(&server);
    assert_eq!(
        server.sql("SELECT job, sink, writer FROM flott_epochs ORDER BY writer"),
        ["postgres-exact|table|0", "postgres-exact|table|1"]
    );
    place.job(&server).start().must_end_with(0);
    place.must_be_whole(&server);
}

#[test]
fn a_job_that_is_killed_anywhere_writes_each_row_once() {
    let server = Server::new();
    for (n, point) in POINTS.iter().enumerate() {
        let place = Place::new(&server, &format!("counts_{n}"));
        place.job(&server).rate(SLOW).crash_at(point).start().must_crash();
        if n % 2 == 1 {
            place.job(&server).rate(SLOW).crash_at("AfterLogSlot").start().must_crash();
            place.job(&server).rate(SLOW).crash_at("DuringRestore").start().must_crash();
        }
        place.job(&server).start().must_end_with(0);
        place.must_be_whole(&server);
        server.sql("TRUNCATE flott_epochs");
    }
}

#[test]
fn a_job_that_is_killed_again_and_again_after_its_commits_repeats_none_of_them() {
    let server = Server::new();
    let place = Place::new(&server, "counts");
    let committed = || server.sql("SELECT coalesce(sum(epoch), 0) FROM flott_epochs");
    for life in 0..4 {
        let before = if life == 0 { vec!["0".to_owned()] } else { committed() };
        // The next checkpoint is far away when this one's output is seen: the next life restores what is committed.
        let mut job = place.job(&server).rate(SLOW / 2).with(&["--checkpoint-interval", "300ms"]).start();
        let is_there = |_: &_| !server.sql("SELECT to_regclass('flott_epochs')").concat().is_empty();
        job.await_that("it commits", |job| is_there(job) && committed() != before);
        job.kill();
    }
    place.job(&server).start().must_end_with(0);
    place.must_be_whole(&server);
}

#[test]
fn a_server_that_is_killed_anywhere_has_each_row_once() {
    let mut server = Server::new();
    for (n, point) in POINTS.iter().enumerate() {
        let place = Place::new(&server, &format!("counts_{n}"));
        let mut job = place.job(&server).rate(ALL_LINES).stop_at(point).start();
        job.await_stop();
        server.kill();
        job.go_on();
        server.start();
        job.must_end_with(0);
        place.must_be_whole(&server);
        server.sql("TRUNCATE flott_epochs");
    }
}

#[test]
fn a_server_that_dies_again_and_again_while_epochs_are_committed_has_each_row_once() {
    let mut server = Server::new();
    let place = Place::new(&server, "counts");
    // Slow enough not to be at its end before the last of them, however long a server takes to start.
    let mut job = place.job(&server).rate(SLOW / 2).start();
    for count in [2, 4, 6, 8] {
        job.await_checkpoints(count);
        server.kill();
        server.start();
    }
    job.must_end_with(0);
    place.must_be_whole(&server);
}

/// Lets a job come into a commit that does not end: somebody else has the table.
fn within_a_commit(server: &Server, place: &Place) -> (process::Process, server::Holder) {
    let holder = server.hold(&place.table);
    let mut job = place.job(server).rate(SLOW).start();
    let waits = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'flott' AND wait_event_type = 'Lock'";
    job.await_that("a commit waits for the table", |_| !server.sql(waits).is_empty());
    (job, holder)
}

#[test]
fn a_job_that_is_killed_within_a_commit_writes_each_row_once() {
    let server = Server::new();
    let place = Place::new(&server, "counts");
    let (mut job, holder) = within_a_commit(&server, &place);
    job.kill();
    drop(holder);
    place.job(&server).start().must_end_with(0);
    place.must_be_whole(&server);
}

#[test]
fn a_server_that_is_killed_within_a_commit_has_each_row_once() {
    let mut server = Server::new();
    let place = Place::new(&server, "counts");
    let (mut job, holder) = within_a_commit(&server, &place);
    server.kill();
    drop(holder);
    server.start();
    job.must_end_with(0);
    place.must_be_whole(&server);
}

#[test]
fn a_server_that_comes_later_than_the_job_is_waited_for() {
    let mut server = Server::new();
    let place = Place::new(&server, "counts");
    server.kill();
    let mut job = place.job(&server).start();
    job.await_that("it says what is wrong", |job| {
        let said = format!("{:?}", job.events_of("restart"));
        said.contains("cannot connect") && said.contains("table counts of PostgreSQL database postgres at 127.0.0.1")
    });
    server.start();
    job.must_end_with(0);
    place.must_be_whole(&server);
}

#[test]
fn a_job_that_was_stopped_while_another_did_its_work_writes_nothing() {
    let server = Server::new();
    for (n, point) in ["AfterLogSlot", "AfterManifest"].iter().enumerate() {
        let place = Place::new(&server, &format!("counts_{n}"));
        let mut zombie = place.job(&server).rate(SLOW).stop_at(point).start();
        zombie.await_stop();
        place.job(&server).start().must_end_with(0);
        place.must_be_whole(&server);
        zombie.go_on();
        zombie.must_end_with(3);
        place.must_be_whole(&server);
        server.sql("TRUNCATE flott_epochs");
    }
}

#[test]
fn a_server_and_a_job_that_die_together_leave_each_row_once() {
    let mut server = Server::new();
    let place = Place::new(&server, "counts");
    place.job(&server).rate(SLOW).crash_at("AfterLogSlot").start().must_crash();
    server.kill();
    let mut job = place.job(&server).start();
    job.await_that("it meets the dead server", |job| {
        job.stderr().contains("Postgre") || !job.events_of("restart").is_empty()
    });
    server.start();
    job.must_end_with(0);
    place.must_be_whole(&server);
}

/// What a job says that ends with this code.
fn said(start: Start<'_>, code: i32) -> String {
    let mut job = start.start();
    job.must_end_with(code);
    job.stderr()
}

#[test]
fn what_cannot_heal_is_refused_with_what_to_do() {
    let server = Server::new();
    let place = Place::new(&server, "counts");
    server.sql("CREATE TABLE narrow (key text)");
    server.sql("CREATE TABLE dates (key text, count date)");
    let with = |arguments: &[&str]| place.site.job_of(&example()).with(arguments);
    let database = server.connection();
    let absent = said(with(&["--database", &database, "--table", "absent"]), 2);
    assert!(absent.contains("there is no table absent") && absent.contains("create it"), "{absent}");
    let narrow = said(with(&["--database", &database, "--table", "narrow"]), 2);
    assert!(narrow.contains("has no column `count`, only key"), "{narrow}");
    let other = said(with(&["--database", &database.replace("dbname=postgres", "dbname=nowhere")]), 2);
    assert!(other.contains("\"nowhere\" does not exist") && other.contains("create the database"), "{other}");
    let user = said(with(&["--database", &database.replace("user=flott", "user=nobody")]), 2);
    assert!(user.contains("\"nobody\" does not exist") && user.contains("pg_hba"), "{user}");
    let garbled = said(with(&["--database", "host localhost"]), 2);
    assert!(garbled.contains("cannot be read") && garbled.contains("host=…"), "{garbled}");
    let dates = said(with(&["--database", &database, "--table", "dates"]), 1);
    assert!(dates.contains("invalid input syntax for type date") && dates.contains("fit each other"), "{dates}");
}

#[test]
fn output_of_an_earlier_life_is_refused_or_replaced_on_demand() {
    let server = Server::new();
    let place = Place::new(&server, "counts");
    place.job(&server).start().must_end_with(0);
    let refused = said(place.job(&server).with(&["--restore", "none"]), 2);
    assert!(refused.contains("earlier life") && refused.contains("--overwrite"), "{refused}");
    place.must_be_whole(&server);
    place.job(&server).with(&["--restore", "none", "--overwrite"]).start().must_end_with(0);
    place.must_be_whole(&server);
}
