//! The picture of a comparison: for each mode its throughput at full load and its latency at half load, over time, with the
//! checkpoints, the crash and the recovery. The same scale everywhere, so that rows can be compared.

use super::figures::{name, percentile};
use super::meter::SLICE_MS;
use super::trial::{Subject, Trial};
use flott::Error;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;
use std::time::Duration;

const WIDTH: u32 = 1_200;
const HEAD: u32 = 30;
const ROW: u32 = 170;
/// Samples of progress are summed up over so much time.
const STEP: Duration = Duration::from_millis(100);
/// Latencies below are drawn as this, in milliseconds: a logarithmic scale has no zero.
const LEAST: f64 = 0.05;
const CHECKPOINT: RGBColor = RGBColor(150, 150, 150);
const CRASH: RGBColor = RGBColor(200, 30, 30);
const RECOVERY: RGBColor = RGBColor(30, 140, 60);
const LINE: RGBColor = RGBColor(30, 80, 170);

/// What is drawn of one mode.
pub(super) struct Curves {
    mode: String,
    throughput: Curve,
    latency: Curve,
    verdict: String,
}

struct Curve {
    /// Seconds, and what there was then.
    points: Vec<(f64, f64)>,
    checkpoints: Vec<f64>,
    crash: f64,
    recovery: Option<f64>,
}

impl Curves {
    /// What is drawn of the run at full load and of the one at half load.
    pub(super) fn of(subject: Subject, full: &Trial, half: &Trial) -> Curves {
        let verdict = format!("lost {}, over-counted {}", full.verdict.lost, full.verdict.over_counted);
        Curves {
            mode: name(subject),
            throughput: Curve::of(full, throughput(full)),
            latency: Curve::of(half, latency(half)),
            verdict,
        }
    }
}

impl Curve {
    fn of(trial: &Trial, points: Vec<(f64, f64)>) -> Curve {
        Curve {
            points,
            checkpoints: trial.completed.iter().map(Duration::as_secs_f64).collect(),
            crash: trial.crashed.as_secs_f64(),
            recovery: trial.recovered.map(|at| at.as_secs_f64()),
        }
    }

    fn highest(&self) -> f64 {
        self.points.iter().map(|(_, value)| *value).fold(0.0, f64::max)
    }

    fn end(&self) -> f64 {
        self.points.last().map_or(0.0, |(at, _)| *at)
    }
}

/// Thousand records a second, step by step.
fn throughput(trial: &Trial) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let mut from = (Duration::ZERO, 0);
    for (at, arrived) in &trial.progress {
        if *at >= from.0 + STEP {
            points.push((at.as_secs_f64(), (arrived - from.1) as f64 / (*at - from.0).as_secs_f64() / 1_000.0));
            from = (*at, *arrived);
        }
    }
    points
}

/// The 99th percentile of each slice of time in which something arrived, as the decimal logarithm of milliseconds.
fn latency(trial: &Trial) -> Vec<(f64, f64)> {
    let slices = trial.slices.iter().zip(0u32..).filter_map(|(slice, number)| {
        let mut micros = slice.clone();
        micros.sort_unstable();
        let at = f64::from(number + 1) * SLICE_MS as f64 / 1_000.0;
        percentile(&micros, 0.99).map(|late| (at, (f64::from(late) / 1_000.0).max(LEAST).log10()))
    });
    slices.collect()
}

/// Whether the file can be written, before a minute is spent on what goes into it.
pub(super) fn check(path: &Path) -> Result<(), Error> {
    draw(path, &[])
}

/// Draws all modes, one below the other.
pub(super) fn draw(path: &Path, all: &[Curves]) -> Result<(), Error> {
    let rows = u32::try_from(all.len()).unwrap_or(1).max(1);
    let area = SVGBackend::new(path, (WIDTH, HEAD + ROW * rows)).into_drawing_area();
    paint(&area, all).and_then(|()| area.present()).map_err(|error| {
        Error::refused(format!("cannot draw {}: {error}", path.display()))
            .hint("name a file in a directory that exists and can be written")
    })
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Painted<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn paint<'a>(area: &Area<'a>, all: &[Curves]) -> Painted<'a> {
    area.fill(&WHITE)?;
    let (legend, body) = area.split_vertically(HEAD);
    let text = "grey: a checkpoint is complete; red: the crash; green: records flow again";
    legend.draw(&Text::new(text, (12, 8), ("sans-serif", 14)))?;
    let highest = |of: fn(&Curves) -> &Curve| all.iter().map(|curves| of(curves).highest()).fold(f64::MIN, f64::max);
    let end = |of: fn(&Curves) -> &Curve| all.iter().map(|curves| of(curves).end()).fold(1.0, f64::max);
    let throughput =
        Scale { seconds: end(|curves| &curves.throughput), from: 0.0, to: highest(|curves| &curves.throughput) * 1.1 };
    let latency = Scale {
        seconds: end(|curves| &curves.latency),
        from: LEAST.log10(),
        to: highest(|curves| &curves.latency).max(0.0) + 0.2,
    };
    for (curves, row) in all.iter().zip(body.split_evenly((all.len().max(1), 1))) {
        let (left, right) = row.split_horizontally(WIDTH / 2);
        let title = format!("{}: thousand records/s at full load ({})", curves.mode, curves.verdict);
        panel(&left, &title, &throughput, &curves.throughput, &|value| format!("{value:.0}"))?;
        let title = format!("{}: latency at half load, p99 of {SLICE_MS} ms, in ms", curves.mode);
        panel(&right, &title, &latency, &curves.latency, &|value| format!("{:.1}", 10f64.powf(*value)))?;
    }
    Ok(())
}

/// The same for all panels of a column.
struct Scale {
    seconds: f64,
    from: f64,
    to: f64,
}

fn panel<'a>(
    area: &Area<'a>,
    title: &str,
    scale: &Scale,
    curve: &Curve,
    label: &dyn Fn(&f64) -> String,
) -> Painted<'a> {
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 13))
        .margin(6)
        .x_label_area_size(18)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..scale.seconds, scale.from..scale.to)?;
    chart
        .configure_mesh()
        .x_labels(8)
        .y_labels(5)
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(235, 235, 235))
        .y_label_formatter(&|value| label(value))
        .x_label_formatter(&|at| format!("{at:.0} s"))
        .draw()?;
    let checkpoints = curve.checkpoints.iter().map(|at| (*at, CHECKPOINT));
    let crash = (curve.crash > 0.0).then_some((curve.crash, CRASH));
    let recovery = curve.recovery.map(|at| (at, RECOVERY));
    let marks = checkpoints.chain(crash).chain(recovery);
    chart.draw_series(marks.map(|(at, colour)| PathElement::new([(at, scale.from), (at, scale.to)], colour)))?;
    chart.draw_series(LineSeries::new(curve.points.iter().copied(), &LINE))?;
    Ok(())
}
