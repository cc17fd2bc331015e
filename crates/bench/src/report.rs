//! Prints figures: an aligned table, one in Markdown, or one JSON object a line.

use serde::Serialize;

/// One measured figure.
#[derive(Serialize, Clone, Debug)]
pub(crate) struct Figure {
    /// Which bench.
    pub(crate) bench: &'static str,
    /// What was measured.
    pub(crate) what: String,
    /// The median.
    pub(crate) value: f64,
    /// The smallest and the largest run.
    pub(crate) range: (f64, f64),
    /// Of all three.
    pub(crate) unit: &'static str,
    /// What it must stay below; none for a figure that stands beside another.
    pub(crate) bar: Option<f64>,
}

impl Figure {
    /// A figure of several runs.
    pub(crate) fn of(
        bench: &'static str,
        what: impl Into<String>,
        runs: &[f64],
        unit: &'static str,
        bar: Option<f64>,
    ) -> Figure {
        let range = (runs.iter().copied().fold(f64::INFINITY, f64::min), runs.iter().copied().fold(0.0, f64::max));
        Figure { bench, what: what.into(), value: crate::measure::median(runs.to_vec()), range, unit, bar }
    }

    /// Whether there is a bar and the figure does not stay below it.
    pub(crate) fn misses(&self) -> bool {
        self.bar.is_some_and(|bar| self.value > bar || self.value.is_nan())
    }

    fn verdict(&self) -> &'static str {
        match self.bar {
            None => "",
            Some(_) if self.misses() => "missed",
            Some(_) => "holds",
        }
    }
}

/// How figures are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Table,
    Json,
    Markdown,
}

/// A figure with its verdict, as JSON.
#[derive(Serialize)]
struct Judged<'a> {
    #[serde(flatten)]
    figure: &'a Figure,
    verdict: &'static str,
}

pub(crate) fn print(figures: &[Figure], form: Form) {
    if form == Form::Json {
        for figure in figures {
            println!(
                "{}",
                serde_json::to_string(&Judged { figure, verdict: figure.verdict() })
                    .expect("numbers and text can be written")
            );
        }
        return;
    }
    let number = |value: f64| if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") };
    let header = ["bench", "figure", "median", "min .. max", "unit", "bar", "verdict"].map(String::from);
    let row = |figure: &Figure| {
        let range = format!("{} .. {}", number(figure.range.0), number(figure.range.1));
        let bar = figure.bar.map_or_else(String::new, |bar| format!("< {}", number(bar)));
        let (bench, unit, verdict) = (figure.bench.to_owned(), figure.unit.to_owned(), figure.verdict().to_owned());
        [bench, figure.what.clone(), number(figure.value), range, unit, bar, verdict]
    };
    let rows: Vec<[String; 7]> = std::iter::once(header).chain(figures.iter().map(row)).collect();
    if form == Form::Markdown {
        let line = |cells: &[String]| println!("| {} |", cells.join(" | "));
        rows.iter().take(1).for_each(|row| line(row));
        line(&[const { String::new() }; 7].map(|_| "---".to_owned()));
        rows.iter().skip(1).for_each(|row| line(row));
        return;
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..7).map(width).collect();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        println!("{}", cells.join("  ").trim_end());
    }
}
