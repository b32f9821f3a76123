//! Latencies as pictures: bars for a terminal, and curves over percentiles as SVG.
//!
//! The curves have the axes of HdrHistogram's own plots: the share of slower requests on a
//! logarithmic axis, so that the tail is as wide as the middle.

use std::fmt::Write;

use hdrhistogram::Histogram;

use super::report::spoken;

/// Width of the longest bar, in characters.
const BAR_WIDTH: f64 = 40.0;
/// Most bars: octaves from a nanosecond to ten minutes.
const OCTAVES: u32 = 41;

/// Width and height of the picture, and of the border in which the axes are named.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 380.0;
const BORDER: f64 = 64.0;
/// The nines at the right end of the axis.
const NINES: u32 = 5;
/// Points of a curve.
const POINTS: u32 = 200;
const COLOURS: [&str; 4] = ["#3465a4", "#cc0000", "#4e9a06", "#75507b"];

/// How many requests took how long, an octave a line.
pub(super) fn bars(latencies: &Histogram<u64>) -> String {
    let counts: Vec<(u64, u64)> = (0..OCTAVES)
        .map(|octave| 1_u64 << octave)
        .map(|from| (from, latencies.count_between(from, 2 * from - 1)))
        .collect();
    let first = counts.iter().position(|(_, count)| *count > 0).unwrap_or_default();
    let last = counts.iter().rposition(|(_, count)| *count > 0).unwrap_or_default();
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or_default().max(1);
    let mut text = String::new();
    for (from, count) in &counts[first..=last] {
        let length = (*count as f64 / most as f64 * BAR_WIDTH).ceil() as usize;
        let share = *count as f64 / latencies.len().max(1) as f64 * 100.0;
        let (from, to) = (spoken(*from), spoken(2 * from));
        let bar = "#".repeat(length);
        let _ = writeln!(text, "{from:>9} - {to:>9} {share:>7.3} % {bar}");
    }
    text
}

/// A picture with one curve for each of the histograms, by name.
pub(super) fn svg(title: &str, curves: &[(&str, &Histogram<u64>)]) -> String {
    let least = curves.iter().map(|(_, curve)| curve.min()).min().unwrap_or(1).max(1);
    let most = curves.iter().map(|(_, curve)| curve.max()).max().unwrap_or(10);
    let floor = (least as f64).log10().floor();
    let ceiling = (most.max(2) as f64).log10().ceil().max(floor + 1.0);
    let axes = Axes { floor, ceiling };
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{BORDER}\" y=\"24\" font-size=\"14\">{}</text>\n",
        escaped(title)
    );
    axes.draw(&mut text);
    for (at, (name, curve)) in curves.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let points: Vec<String> = (0..=POINTS)
            .map(|step| {
                let nines = f64::from(step) / f64::from(POINTS) * f64::from(NINES);
                let slower = 10_f64.powf(-nines);
                let nanos = curve.value_at_quantile(1.0 - slower).max(1);
                format!("{:.1},{:.1}", axes.x(nines), axes.y((nanos as f64).log10()))
            })
            .collect();
        let _ = writeln!(
            text,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>\n\
             <text x=\"{}\" y=\"{}\" fill=\"{colour}\">{}</text>",
            points.join(" "),
            BORDER + 8.0,
            BORDER + 4.0 + 16.0 * at as f64,
            escaped(name)
        );
    }
    text.push_str("</svg>\n");
    text
}

/// The scales: percentiles to the right, latency upwards, both logarithmic.
struct Axes {
    /// Powers of ten nanoseconds at the foot and the top.
    floor: f64,
    ceiling: f64,
}

impl Axes {
    fn x(&self, nines: f64) -> f64 {
        BORDER + (WIDTH - 2.0 * BORDER) * nines / f64::from(NINES)
    }

    fn y(&self, power: f64) -> f64 {
        let share = (power - self.floor) / (self.ceiling - self.floor);
        HEIGHT - BORDER + (2.0 * BORDER - HEIGHT) * share
    }

    fn draw(&self, text: &mut String) {
        const GRID: &str = "stroke=\"#cccccc\" stroke-width=\"1\"";
        let (left, right) = (self.x(0.0), self.x(f64::from(NINES)));
        let (foot, top) = (self.y(self.floor), self.y(self.ceiling));
        for step in 0..=(self.ceiling - self.floor) as u32 {
            let power = self.floor + f64::from(step);
            let y = self.y(power);
            let label = spoken(10_f64.powf(power) as u64);
            let _ = writeln!(
                text,
                "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" {GRID}/>\n\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                left - 6.0,
                y + 4.0
            );
        }
        for nines in 0..=NINES {
            let x = self.x(f64::from(nines));
            let label = match nines {
                0 => "0".to_owned(),
                1 => "90 %".to_owned(),
                2 => "99 %".to_owned(),
                more => format!("99.{} %", "9".repeat(more as usize - 2)),
            };
            let _ = writeln!(
                text,
                "<line x1=\"{x:.1}\" y1=\"{foot:.1}\" x2=\"{x:.1}\" y2=\"{top:.1}\" {GRID}/>\n\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                foot + 18.0
            );
        }
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">share of requests that were faster</text>",
            WIDTH / 2.0,
            HEIGHT - 16.0
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_hold_every_request_and_curves_stay_inside() {
        let mut latencies = Histogram::new_with_bounds(1, 600_000_000_000, 3).unwrap();
        for micros in [10, 11, 12, 900] {
            latencies.record(micros * 1_000).unwrap();
        }
        let text = bars(&latencies);
        let shares = text.lines().map(|line| {
            let share =
                line.split_ascii_whitespace().rev().find_map(|word| word.parse::<f64>().ok());
            share.unwrap()
        });
        assert!((shares.sum::<f64>() - 100.0).abs() < 0.01, "{text}");
        let picture = svg("a < b", &[("reads", &latencies)]);
        assert!(picture.contains("a &lt; b") && picture.ends_with("</svg>\n"));
        let (_, points) = picture.split_once("points=\"").unwrap();
        for point in points.split('"').next().unwrap().split(' ') {
            let (x, y) = point.split_once(',').unwrap();
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!(
                (0.0..=WIDTH).contains(&x) && (BORDER - 1.0..=HEIGHT - BORDER + 1.0).contains(&y)
            );
        }
    }
}
