//! Whether a figure grows, and the table that shows it.
//!
//! The rule: the median of the last quarter of the time against that of the second one; more than a tenth and more than the
//! figure's slack above it is growth. What fills up to a known limit grows if it is above that. The first quarter is not looked at, because a job fills its state and its caches then.

use super::sample::{FIGURES, May, Sample};
use serde_json::{Value, json};

#[cfg(test)]
mod tests;

/// So much more, as a share, is no growth.
const SHARE: f64 = 0.1;
/// Rows of the table.
const ROWS: usize = 20;

/// What became of one figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Verdict {
    /// The medians of the second and the last quarter.
    pub(super) before: f64,
    pub(super) after: f64,
    pub(super) grows: bool,
}

/// Judges a figure by its samples; `None` if there are too few.
pub(super) fn judge(samples: &[(f64, f64)], may: May) -> Option<Verdict> {
    let end = samples.last()?.0;
    let quarter = |from: f64, to: f64| {
        let within = samples.iter().filter(|(at, _)| *at > end * from && *at <= end * to);
        median(within.map(|(_, value)| *value).collect())
    };
    let (before, after) = (quarter(0.25, 0.5)?, quarter(0.75, 1.0)?);
    let limit = match may {
        May::Add(slack) => before * (1.0 + SHARE) + slack,
        May::FillUpTo(limit) => limit,
    };
    Some(Verdict { before, after, grows: after > limit })
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// One verdict a figure, in their order.
pub(super) fn verdicts(samples: &[Sample]) -> Vec<Option<Verdict>> {
    let of = |index: usize, may: May| {
        let values = samples.iter().filter_map(|sample| Some((sample.at, (*sample.figures.get(index)?)?)));
        judge(&values.collect::<Vec<_>>(), may)
    };
    FIGURES.iter().enumerate().map(|(index, figure)| of(index, figure.may)).collect()
}

/// The table over time, and below it one line a figure.
pub(super) fn lines(samples: &[Sample]) -> Vec<String> {
    let mut lines = vec![head()];
    let step = samples.len().div_ceil(ROWS).max(1);
    lines.extend(samples.chunks(step).map(row));
    for (figure, verdict) in FIGURES.iter().zip(verdicts(samples)) {
        lines.push(match verdict {
            None => format!("{:<8} too few samples", figure.name),
            Some(Verdict { before, after, grows }) => {
                let word = if grows { "grows" } else { "flat" };
                let (before, after) = (number(Some(before)), number(Some(after)));
                let unit = figure.unit;
                format!("{:<8} {word:<6} second quarter {before}, last quarter {after} {unit}", figure.name)
            }
        });
    }
    lines
}

fn head() -> String {
    let figures = FIGURES.iter().map(|figure| match figure.unit {
        "" => format!("{:>11}", figure.name),
        unit => format!("{:>11}", format!("{} {unit}", figure.name)),
    });
    let counts = ["restarts", "deaths", "complete", "aborted", "rows"].map(|name| format!("{name:>9}"));
    format!("{:>6}{}{}", "s", figures.collect::<String>(), counts.concat())
}

/// Of each figure the median of these samples; of each count the last.
fn row(samples: &[Sample]) -> String {
    let Some(last) = samples.last() else { return String::new() };
    let of = |index: usize| median(samples.iter().filter_map(|sample| *sample.figures.get(index)?).collect());
    let figures = (0..FIGURES.len()).map(|index| format!("{:>11}", number(of(index))));
    let c = last.counts;
    let counts = [c.restarts, c.deaths, c.completed, c.aborted, c.rows].map(|count| format!("{count:>9}"));
    format!("{:>6.0}{}{}", last.at, figures.collect::<String>(), counts.concat())
}

fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.fract() == 0.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.1}"),
    }
}

/// The same for programs.
pub(super) fn json(samples: &[Sample]) -> Value {
    let figures = FIGURES.iter().zip(verdicts(samples)).map(|(figure, verdict)| {
        json!({
            "name": figure.name, "unit": figure.unit,
            "second_quarter": verdict.map(|verdict| verdict.before), "last_quarter": verdict.map(|verdict| verdict.after),
            "verdict": verdict.map(|verdict| if verdict.grows { "grows" } else { "flat" }),
        })
    });
    let samples = samples.iter().map(|sample| {
        let c = sample.counts;
        json!({
            "s": sample.at, "figures": sample.figures, "restarts": c.restarts, "deaths": c.deaths,
            "completed": c.completed, "aborted": c.aborted, "rows": c.rows,
        })
    });
    json!({"figures": figures.collect::<Vec<_>>(), "samples": samples.collect::<Vec<_>>()})
}
