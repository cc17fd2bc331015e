//! Jobs whose types are not those of the checkpoint: refused before any record with everything that one needs to know, and without
//! harm, so that the job with the right types goes on.

use super::*;

/// The job of `durable_sales` with another value, which counts how often its own code ran.
fn changed<A: flott_runtime::record::Record + Sync>(
    place: &Place,
    init: A,
    f: impl Fn(&mut A, Sale) + Send + Sync + 'static,
) -> Job {
    let job = Job::new("sales");
    job.workers(1).checkpoint_interval(Duration::from_millis(20)).checkpoint_dir(place.text("checkpoints"));
    job.source("sales", FileSource::csv::<Sale>(place.text("sales.csv")))
        .key_by(|sale| sale.shop.clone())
        .fold("total", init, f)
        .map(|(shop, _)| shop)
        .sink("out", FileSink::lines(place.path("out")));
    job
}

#[test]
fn a_value_of_another_type_is_refused_with_key_and_types_and_the_right_job_goes_on() {
    let place = Place::new();
    stopped(&place);
    let job = changed(&place, String::new(), |_: &mut String, _| panic!("a record came"));
    let words = ["operator `total`", "total/fold", "\"shop-", "u64", "string", "serde(default)", "checkpoint"];
    assert_says(&error(&job), ErrorKind::Unusable, &words);
    // Nor with permission to double: nothing is damaged, so nothing falls back.
    let job = changed(&place, String::new(), |_: &mut String, _| panic!("a record came"));
    job.allow_duplicates(true);
    assert_says(&error(&job), ErrorKind::Unusable, &words);
    assert_eq!(durable_sales(&place, 1_000_000).run().expect("it goes on").ended, Ended::Finished);
}

#[test]
fn state_of_another_kind_and_a_key_of_another_type_are_refused_by_name() {
    let place = Place::new();
    stopped(&place);
    let other = |job: Job| {
        job.workers(1).checkpoint_dir(place.text("checkpoints"));
        job
    };
    let source = || FileSource::csv::<Sale>(place.text("sales.csv"));
    let out = || FileSink::lines(place.path("out"));
    let kind = other(Job::new("sales"));
    let sum = Reducing::<u64>::named("fold", |sum: &mut u64, n| *sum += n);
    let process =
        kind.source("sales", source()).key_by(|sale| sale.shop.clone()).process("total", sum, |_, sale, out| {
            out.emit(sale.shop);
            Ok(())
        });
    process.sink("out", out());
    assert_says(&error(&kind), ErrorKind::Unusable, &["kind", "`fold`", "`total`", "`value`", "`reducing`"]);
    let key = other(Job::new("sales"));
    let total =
        key.source("sales", source()).key_by(|sale| sale.amount).fold("total", 0u64, |sum, sale| *sum += sale.amount);
    total.map(|(shop, _)| shop.to_string()).sink("out", out());
    assert_says(&error(&key), ErrorKind::Unusable, &["key type", "`fold`", "`total`", "string", "u64"]);
}
