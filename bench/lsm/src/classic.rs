//! The classic: 25 million puts of 8-byte keys and 128-byte values through `kallisto engine run`, the same keys again,
//! gets of all of them in order, gets of as many missing ones.
//!
//! `bench-lsm --classic --binary PATH [--count N] [--dir DIR] [--svg FILE]`. Each phase is a process of its own whose
//! standard input is generated as it reads. It prints seconds of each phase and its slowest and fastest hundred thousand,
//! and draws the seconds of every hundred thousand along the way: a flat line, if the engine is what it should be.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::Instant;

use plotters::prelude::*;

/// Operations between two points of the plot.
const EVERY: u64 = 100_000;
/// Bytes of every value.
const VALUE_BYTES: usize = 128;
/// The seconds a phase of 25 million may take.
const AIMS_SECS: [f64; 4] = [31.0, 120.0, 175.0, 12.0];

struct Plan {
    binary: PathBuf,
    count: u64,
    dir: PathBuf,
    svg: Option<PathBuf>,
}

impl Plan {
    fn parse(args: &[String]) -> Self {
        let dir = PathBuf::from(crate::DIR).join("classic");
        let mut plan =
            Self { binary: PathBuf::from("kallisto"), count: 25_000_000, dir, svg: None };
        let mut args = args.iter();
        while let Some(name) = args.next() {
            let mut text = || args.next().unwrap_or_else(|| panic!("{name} wants a value"));
            match name.as_str() {
                "--quick" => plan.count = 1_000_000,
                "--binary" => plan.binary = PathBuf::from(text()),
                "--count" => plan.count = text().parse().expect("a number"),
                "--dir" => plan.dir = PathBuf::from(text()),
                "--svg" => plan.svg = Some(PathBuf::from(text())),
                other => panic!("no option {other}"),
            }
        }
        plan
    }
}

/// What the input of a phase says.
#[derive(Clone, Copy)]
enum Lines {
    Put { seed: u8 },
    Get { from: u64 },
}

/// A phase that was run.
struct Phase {
    name: &'static str,
    seconds: f64,
    /// Seconds of each hundred thousand.
    pace: Vec<f64>,
}

pub fn run(args: &[String]) {
    let plan = Plan::parse(args);
    let _ = std::fs::remove_dir_all(&plan.dir);
    std::fs::create_dir_all(&plan.dir).expect("a writable folder");
    let phases = [
        phase(&plan, "put, new keys", Lines::Put { seed: b'a' }, None),
        phase(&plan, "put, the same keys", Lines::Put { seed: b'A' }, None),
        phase(&plan, "get, in order", Lines::Get { from: 0 }, Some(0)),
        phase(&plan, "get, missing", Lines::Get { from: plan.count }, Some(plan.count)),
    ];
    print!("{}", table(&plan, &phases));
    if let Some(svg) = &plan.svg {
        draw(svg, &phases).expect("a drawing");
    }
    std::fs::remove_dir_all(&plan.dir).expect("our own folder");
}

/// Runs one phase; `missing` is how many gets must find nothing.
fn phase(plan: &Plan, name: &'static str, lines: Lines, missing: Option<u64>) -> Phase {
    let mut command = Command::new(&plan.binary);
    command.args([
        "engine",
        "run",
        "-i",
        "-",
        "-o",
        "/dev/null",
        "--keys",
        "u64",
        "--sync",
        "none",
    ]);
    command.args(["--json", "--every", &EVERY.to_string(), "--dir"]).arg(plan.dir.join("store"));
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn().expect("a kallisto executable");
    let (input, figures) = (child.stdin.take(), child.stderr.take());
    let (input, figures) = (input.expect("a pipe"), figures.expect("a pipe"));
    let mut said = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| generate(input, lines, plan.count));
        said.extend(BufReader::new(figures).lines().map(|line| line.expect("text")));
    });
    let status = child.wait().expect("our own child");
    let seconds = start.elapsed().as_secs_f64();
    assert!(status.success(), "{name}: {status}: {said:?}");
    let summary = said.pop().expect("a summary");
    assert_eq!(number(&summary, "operations"), plan.count as f64, "{summary}");
    if let Some(missing) = missing {
        assert_eq!(number(&summary, "missing"), missing as f64, "{summary}");
    }
    let pace = said.iter().map(|line| number(line, "seconds")).collect();
    eprintln!("{name}: {seconds:.1} s");
    Phase { name, seconds, pace }
}

/// Writes the lines of a phase. Values differ from key to key and from one writing to the next.
fn generate(input: ChildStdin, lines: Lines, count: u64) {
    let mut input = BufWriter::with_capacity(1 << 20, input);
    let mut value = [0; VALUE_BYTES];
    for n in 0..count {
        match lines {
            Lines::Put { seed } => {
                value.fill(seed + (n % 26) as u8);
                write!(input, "P {n} ").expect("a reader");
                input.write_all(&value).expect("a reader");
                input.write_all(b"\n").expect("a reader");
            }
            Lines::Get { from } => writeln!(input, "G {}", from + n).expect("a reader"),
        }
    }
    input.flush().expect("a reader");
}

/// The number behind a name in a line of JSON.
fn number(line: &str, name: &str) -> f64 {
    let quoted = format!("\"{name}\":");
    let (_, rest) = line.split_once(&quoted).unwrap_or_else(|| panic!("no {name} in {line}"));
    let end = rest.find([',', '}']).expect("the end of a number");
    rest[..end].parse().expect("a number")
}

fn table(plan: &Plan, phases: &[Phase]) -> String {
    let mut text = format!("{} keys of 8 bytes, values of {VALUE_BYTES}\n\n", plan.count);
    text.push_str("| phase | seconds | aim for 25 M | per second | 100,000: median | slowest |\n");
    text.push_str("|---|---:|---:|---:|---:|---:|\n");
    for (phase, aim) in phases.iter().zip(AIMS_SECS) {
        let mut pace = phase.pace.clone();
        pace.sort_by(f64::total_cmp);
        let rate = plan.count as f64 / phase.seconds;
        let (median, slowest) = (pace[pace.len() / 2], pace[pace.len() - 1]);
        text.push_str(&format!(
            "| {} | {:.1} | {aim:.0} | {rate:.0} | {median:.3} s | {slowest:.3} s |\n",
            phase.name, phase.seconds
        ));
    }
    text
}

/// Seconds of every hundred thousand along the way, one line for each phase.
fn draw(path: &Path, phases: &[Phase]) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::new(path, (900, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let all = phases.iter().flat_map(|phase| &phase.pace);
    let highest = all.copied().fold(0.0, f64::max) * 1.05;
    let longest = phases.iter().map(|phase| phase.pace.len()).max().unwrap_or(1);
    let millions = |points: usize| (points as u64 * EVERY) as f64 / 1e6;
    let mut chart = ChartBuilder::on(&root)
        .margin(16)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..millions(longest), 0.0..highest)?;
    let mesh = &mut chart.configure_mesh();
    mesh.x_desc("million operations").y_desc("seconds per 100,000").draw()?;
    let colours = [BLUE, RED, GREEN, BLACK];
    for (phase, colour) in phases.iter().zip(colours) {
        let points = phase.pace.iter().enumerate().map(|(n, seconds)| (millions(n + 1), *seconds));
        let line = LineSeries::new(points, colour);
        chart
            .draw_series(line)?
            .label(phase.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour));
    }
    let mut labels = chart.configure_series_labels();
    labels.border_style(BLACK.mix(0.3)).background_style(WHITE.mix(0.8)).draw()?;
    root.present()?;
    Ok(())
}
