//! One checkpoint over time, a bar a subtask: where each of them spent it, from the trigger to the log.
//!
//! Words and letters only; the figures are those of the manifest and the history.

use crate::output::micros;
use flott_runtime::control::PartTimings;
use flott_runtime::verify::PartRow;
use std::io::{self, Write};

#[cfg(test)]
mod tests;

/// Letters of a bar.
const WIDTH: u64 = 60;

const LEGEND: &str = ". start delay   a alignment   c cut   s scan   u upload   r record";

/// Prints the bars of all parts, and of the record if that is known.
///
/// # Errors
/// If nobody reads them.
pub fn print(out: &mut impl Write, parts: &[PartRow], record: Option<u64>) -> io::Result<()> {
    let acked = parts.iter().map(|part| steps(part.timings).iter().map(|(_, time)| time).sum()).max().unwrap_or(0);
    let total: u64 = acked + record.unwrap_or(0);
    if total == 0 {
        return Ok(());
    }
    let names: Vec<String> = parts.iter().map(|part| format!("{} {}", part.subtask, part.vertex)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max("record".len());
    let mut line = |name: &str, bar: &str| {
        let gap = " ".repeat(width - name.chars().count());
        writeln!(out, "{}", format!("{name}{gap}  {bar}").trim_end())
    };
    let end = micros(total);
    let axis = format!("0{}{end}", " ".repeat(usize::try_from(WIDTH).unwrap_or(0).saturating_sub(1 + end.len())));
    line("", &axis)?;
    for (name, part) in names.iter().zip(parts) {
        line(name, &bar(&steps(part.timings), 0, total))?;
    }
    if let Some(record) = record {
        line("record", &bar(&[('r', record)], acked, total))?;
    }
    line("", LEGEND)
}

fn steps(timings: PartTimings) -> [(char, u64); 5] {
    let PartTimings { start_delay, alignment, cut, scan, upload } = timings;
    [('.', start_delay), ('a', alignment), ('c', cut), ('s', scan), ('u', upload)]
}

/// Steps in a row, from a moment on. Short ones are drawn over long ones, so that each shows at least one letter, unless two
/// of them fall into one.
fn bar(steps: &[(char, u64)], from: u64, total: u64) -> String {
    let mut at = from;
    let mut spans = Vec::new();
    for (letter, time) in steps.iter().filter(|(_, time)| *time > 0) {
        spans.push((*time, *letter, at));
        at += time;
    }
    // Stable: of steps of one length the later one is on top.
    spans.sort_by_key(|(time, ..)| std::cmp::Reverse(*time));
    let column = |moment: u64| u128::from(moment) * u128::from(WIDTH) / u128::from(total.max(1));
    let last = u128::from(WIDTH) - 1;
    let mut letters = vec![' '; usize::try_from(WIDTH).unwrap_or(0)];
    for (time, letter, at) in spans {
        let begin = column(at).min(last);
        let end = column(at + time).max(begin + 1);
        let begin_end = (usize::try_from(begin).unwrap_or(0), usize::try_from(end).unwrap_or(0));
        letters.iter_mut().take(begin_end.1).skip(begin_end.0).for_each(|place| *place = letter);
    }
    letters.into_iter().collect::<String>().trim_end().to_owned()
}
