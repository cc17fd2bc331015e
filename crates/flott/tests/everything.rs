//! A real process that has one of each kind of operator, state, source and side: killed again and again, restored by other
//! numbers of workers. What it commits is what one undisturbed run commits.
//!
//! Where clocks or the order of two streams have a say, each row tells what is needed to judge it.

#![allow(clippy::indexing_slicing, reason = "a test may end where it stands")]

mod process;

use flate2::write::GzEncoder;
use process::{Site, Start, wait_for};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::str::FromStr;

const FILES: u64 = 3;
const LINES: u64 = 900;
/// One line in so many is broken.
const BROKEN: u64 = 45;
/// Users of each file.
const USERS: u64 = 20;
/// The visits of one user are so many lines apart.
const RARELY: u64 = 150;
/// So many lines a second.
const SLOW: u64 = 1_500;
/// As in the job.
const TTL: u64 = 40;
const RULES: u64 = 8;

struct Visit {
    file: u64,
    user: u64,
    page: u64,
    number: u64,
}

fn visits() -> impl Iterator<Item = Visit> {
    let numbers = (0..FILES).flat_map(|file| (0..LINES).map(move |line| (file, line)));
    numbers.filter(|(_, line)| line % BROKEN != BROKEN - 1).map(|(file, line)| Visit {
        file,
        // One user comes so rarely that nothing of it is remembered: so many lines last longer than a value lives.
        user: file * 100 + if line % RARELY == 0 { USERS } else { line * line % USERS },
        // One page has a third of all visits.
        page: if line % 3 == 0 { 1 } else { line % 17 },
        number: file * LINES + line,
    })
}

fn write_input(site: &Site) {
    for file in 0..FILES {
        let path = site.path(&format!("visits-{file}.jsonl.gz"));
        let mut gzip = GzEncoder::new(File::create(path).expect("created"), flate2::Compression::fast());
        let mut good = visits().filter(|visit| visit.file == file);
        for line in 0..LINES {
            let text = if line % BROKEN == BROKEN - 1 {
                format!("broken {file} {line}")
            } else {
                let Visit { user, page, number, .. } = good.next().expect("as many as lines");
                format!("{{\"user\":{user},\"page\":{page},\"number\":{number}}}")
            };
            writeln!(gzip, "{text}").expect("written");
        }
        gzip.finish().expect("written");
    }
}

fn job<'a>(site: &'a Site, workers: &str) -> Start<'a> {
    let (input, output) = (site.path("visits-*.jsonl.gz").display().to_string(), site.output().display().to_string());
    let arguments = ["--input", &input, "--output", &output, "--workers", workers];
    site.program(Path::new(env!("CARGO_BIN_EXE_flott-everything-job"))).with(&arguments)
}

/// Columns of numbers; an empty one is nothing.
fn columns<T: FromStr<Err: Debug>>(row: &str) -> Vec<Option<T>> {
    let parse = |text: &str| (!text.is_empty()).then(|| text.parse().expect("a number"));
    row.split(',').map(parse).collect()
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort_unstable();
    rows
}

/// The rows of each user in the order of its visits, as numbers.
fn by_user(site: &Site, sink: &str) -> BTreeMap<u64, Vec<Vec<Option<u64>>>> {
    let mut users: BTreeMap<u64, Vec<Vec<Option<u64>>>> = BTreeMap::new();
    for row in site.rows_of(sink) {
        let row = columns::<u64>(&row);
        users.entry(row[0].expect("a user")).or_default().push(row);
    }
    users.values_mut().for_each(|rows| rows.sort_unstable_by_key(|row| row[1]));
    let numbers: BTreeSet<_> = users.values().flatten().map(|row| row[1]).collect();
    assert_eq!(numbers.len(), users.values().map(Vec::len).sum::<usize>(), "{sink}: rows are doubled");
    assert_eq!(numbers.len(), visits().count(), "{sink}: rows are lost");
    users
}

/// Each state's own account of all visits.
fn must_be_whole(site: &Site) {
    let (mut seen, mut odd, mut users) = (Vec::new(), Vec::new(), BTreeMap::new());
    for Visit { user, page, number, .. } in visits() {
        let (pages, count, sum) = users.entry(user).or_insert_with(|| (BTreeMap::new(), 0u64, 0u64));
        let of_page = pages.entry(page).or_insert(0u64);
        (*of_page, *count, *sum) = (*of_page + 1, *count + 1, *sum + number);
        seen.push(format!("{user},{number},{of_page},{count},{sum}"));
        odd.extend((number % 2 == 1).then(|| format!("{user},{number},{of_page}")));
    }
    assert_eq!(sorted(site.rows_of("users")), sorted(seen), "values, maps and lists");
    assert_eq!(sorted(site.rows_of("odd")), sorted(odd), "the side output");
    let fired = visits().map(|visit| visit.number.to_string()).collect();
    assert_eq!(sorted(site.rows_of("fired")), sorted(fired), "each timer takes effect once");
    let broken = (0..FILES).flat_map(|file| (BROKEN - 1..LINES).step_by(BROKEN as usize).map(move |line| (file, line)));
    let broken = broken.map(|(file, line)| format!("broken {file} {line}")).collect();
    let dead = site.rows_of("dead").iter().map(|row| row.rsplit(',').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(sorted(dead), sorted(broken), "dead letters");
    pages_must_be_whole(site);
    lives_must_be_whole(site);
    site.must_verify();
}

/// How a page's count grew in parts is a matter of time; no count comes twice, and the last one is right.
fn pages_must_be_whole(site: &Site) {
    let (mut expected, mut found) = (BTreeMap::new(), BTreeMap::<u64, u64>::new());
    visits().for_each(|visit| *expected.entry(visit.page).or_insert(0u64) += 1);
    let rows = site.rows_of("pages");
    assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), rows.len(), "a count came twice");
    for row in rows {
        let (page, count) = row.split_once(',').expect("two columns");
        let most = found.entry(page.parse().expect("a page")).or_default();
        *most = (*most).max(count.parse().expect("a count"));
    }
    assert_eq!(found, expected, "folds in parts");
}

/// What was remembered of a user is its visit before, exactly if that is no longer ago than a value lives.
fn lives_must_be_whole(site: &Site) {
    let (mut remembered, mut forgotten) = (0, 0);
    for rows in by_user(site, "lives").values() {
        assert_eq!(rows[0][3], None, "nothing was before the first: {:?}", rows[0]);
        for pair in rows.windows(2) {
            let (before, now) = (pair[0][2].expect("a moment"), pair[1][2].expect("a moment"));
            let lives = now - before < TTL;
            assert_eq!(pair[1][3], lives.then_some(before), "{pair:?}");
            (remembered, forgotten) = (remembered + usize::from(lives), forgotten + usize::from(!lives));
        }
    }
    assert!(remembered > 0 && forgotten > 0, "{remembered} remembered, {forgotten} forgotten");
}

/// A rule that a user has met once is never missing again, whichever worker the user is at.
fn rules_must_stay(site: &Site) {
    for (user, rows) in by_user(site, "ruled") {
        let first = rows.iter().position(|row| row[3].is_some()).unwrap_or(rows.len());
        for row in &rows[first..] {
            let rule = row[2].expect("a page") % RULES;
            assert_eq!(row[3], Some(rule * rule + 1), "user {user} met rules before: {row:?}");
        }
        assert!(first < rows.len(), "user {user} never met a rule");
    }
}

#[test]
fn an_undisturbed_run_of_everything_is_as_computed() {
    let site = Site::of("everything");
    write_input(&site);
    // As slowly as the others: a value that is never forgotten shows nothing.
    job(&site, "2").rate(SLOW).start().must_end_with(0);
    must_be_whole(&site);
    rules_must_stay(&site);
}

#[test]
fn everything_killed_again_and_again_and_restored_by_other_numbers_of_workers_loses_and_doubles_nothing() {
    for mode in ["aligned", "stop-the-world"] {
        let site = Site::of("everything");
        write_input(&site);
        let mut restored = Vec::new();
        let slow = |workers| job(&site, workers).rate(SLOW).with(&["--checkpoint-mode", mode]);
        // Killed from outside when so much is committed, and at points too short to hit from outside.
        for (life, workers) in ["2", "3", "1", "4"].into_iter().enumerate() {
            let mut killed = slow(workers).start();
            let enough = 250 * (life + 1);
            wait_for("it gets on", || (site.rows_of("fired").len() >= enough).then_some(()));
            killed.kill();
            restored.extend(killed.events_of("restored"));
        }
        for (workers, point) in [("2", "AfterLogSlot"), ("3", "BetweenCommits"), ("2", "BeforeAck")] {
            let mut killed = slow(workers).crash_at(point).start();
            killed.must_crash();
            restored.extend(killed.events_of("restored"));
        }
        let rescaled = restored.iter().filter(|event| event.get("rescaled_from").is_some()).count();
        assert!(restored.len() >= 5 && rescaled >= 4, "{} restored, {rescaled} rescaled: {restored:?}", restored.len());
        job(&site, "2").start().must_end_with(0);
        must_be_whole(&site);
        rules_must_stay(&site);
    }
}

#[test]
fn everything_killed_with_records_in_flight_loses_and_doubles_nothing() {
    let site = Site::of("everything");
    write_input(&site);
    let slow = || job(&site, "2").rate(SLOW).with(&["--checkpoint-mode", "unaligned"]);
    for point in ["AfterLogSlot", "BetweenCommits", "BeforeAck", "DuringRestore", "AfterManifest"] {
        slow().crash_at(point).start().must_crash();
    }
    slow().start().must_end_with(0);
    must_be_whole(&site);
}
