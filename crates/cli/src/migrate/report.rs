//! What a pass did, counted by kind, and each thing that did not move, with the reason.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::pass::{Item, MigrationPass};
use kallisto_command::config::Config;
use kallisto_command::error::{EXIT_SERVER, Error};
use kallisto_command::json::Json;
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{Document, OutputFormat, table};

/// Lines of each sort in a table; JSON has them all.
const LINES_MAX: usize = 50;

/// What came of an item.
pub(super) enum Settled {
    /// It is at the target now, or would be.
    Moved,
    /// It was there already as it is.
    Same,
    /// It is at the target and is another, or is not there.
    Differs(String),
    /// It is not at the target, for this reason.
    NotMoved(String),
}

impl Settled {
    pub(super) fn differs(why: &str) -> Self {
        Self::Differs(why.to_owned())
    }

    /// What came of two parts of one item: the worse of both.
    pub(super) fn and(self, other: Self) -> Self {
        let rank = |settled: &Self| match settled {
            Self::Same => 0,
            Self::Moved => 1,
            Self::Differs(_) => 2,
            Self::NotMoved(_) => 3,
        };
        if rank(&other) > rank(&self) { other } else { self }
    }

    pub(super) fn not_moved(why: &str) -> Self {
        Self::NotMoved(why.to_owned())
    }
}

/// What there is to say of a pass.
pub(super) struct MigrationReport {
    pass: MigrationPass,
    lines: Mutex<ReportLines>,
}

#[derive(Default)]
struct ReportLines {
    counts: BTreeMap<&'static str, ItemCounts>,
    not_moved: Vec<ReportLine>,
    differing: Vec<ReportLine>,
    notes: Vec<ReportLine>,
}

#[derive(Clone, Copy, Default)]
struct ItemCounts {
    moved: u64,
    same: u64,
    differing: u64,
    not_moved: u64,
}

struct ReportLine {
    kind: &'static str,
    path: String,
    why: String,
}

impl MigrationReport {
    pub(super) fn new(pass: MigrationPass) -> Self {
        Self { pass, lines: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, ReportLines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an item.
    pub(super) fn count(&self, item: Item<'_>, settled: Settled) {
        let mut lines = self.lock();
        let counts = lines.counts.entry(item.kind).or_default();
        match settled {
            Settled::Moved => counts.moved += 1,
            Settled::Same => counts.same += 1,
            Settled::Differs(why) => {
                counts.differing += 1;
                lines.differing.push(ReportLine::new(item, why));
            }
            Settled::NotMoved(why) => {
                counts.not_moved += 1;
                lines.not_moved.push(ReportLine::new(item, why));
            }
        }
    }

    /// Says something of an item that counts as moved.
    pub(super) fn note(&self, item: Item<'_>, why: impl Into<String>) {
        self.lock().notes.push(ReportLine::new(item, why.into()));
    }

    /// The report as it is printed.
    pub(super) fn outcome(self, config: &Config) -> Result<Outcome, Error> {
        let mut lines = self.lines.into_inner().unwrap_or_else(PoisonError::into_inner);
        for list in [&mut lines.not_moved, &mut lines.differing, &mut lines.notes] {
            list.sort_by(|a, b| (a.kind, &a.path).cmp(&(b.kind, &b.path)));
        }
        let is_good = lines.not_moved.is_empty() && lines.differing.is_empty();
        let text = match config.format {
            OutputFormat::Table => lines.table(self.pass),
            format => Document::Own(lines.json(self.pass)).to_text(format)?,
        };
        Ok(Outcome::print(text).with_code(if is_good { 0 } else { EXIT_SERVER }))
    }
}

impl ReportLine {
    fn new(item: Item<'_>, why: String) -> Self {
        Self { kind: item.kind, path: format!("{}{}", item.namespace, item.path), why }
    }

    fn json(&self) -> Json {
        Json::object([
            ("kind", self.kind.into()),
            ("path", self.path.as_str().into()),
            ("reason", self.why.as_str().into()),
        ])
    }
}

impl ReportLines {
    fn table(&self, pass: MigrationPass) -> String {
        let moved = if pass == MigrationPass::DryRun { "Would Move" } else { "Moved" };
        let heads = match pass {
            MigrationPass::Compare => vec!["Kind", "Equal", "Differing", "Not Read"],
            MigrationPass::Move | MigrationPass::DryRun => {
                vec!["Kind", moved, "Same Already", "Not Moved"]
            }
        };
        let row = |(kind, counts): (&&'static str, &ItemCounts)| {
            let numbers = match pass {
                MigrationPass::Compare => [counts.same, counts.differing, counts.not_moved],
                MigrationPass::Move | MigrationPass::DryRun => {
                    [counts.moved, counts.same, counts.not_moved]
                }
            };
            std::iter::once((*kind).to_owned()).chain(numbers.map(|it| it.to_string())).collect()
        };
        let mut text = table::under(&heads, self.counts.iter().map(row));
        for (heading, lines) in [
            ("Not moved:", &self.not_moved),
            ("Differing:", &self.differing),
            ("To know:", &self.notes),
        ] {
            if lines.is_empty() {
                continue;
            }
            text.push_str(&format!("\n{heading}\n"));
            for line in lines.iter().take(LINES_MAX) {
                text.push_str(&format!("  {} {}: {}\n", line.kind, line.path, line.why));
            }
            if let Some(more) = lines.len().checked_sub(LINES_MAX).filter(|&more| more > 0) {
                text.push_str(&format!("  and {more} more; -format=json has them all\n"));
            }
        }
        text
    }

    fn json(&self, pass: MigrationPass) -> Json {
        let count = |(kind, counts): (&&'static str, &ItemCounts)| {
            let numbers = Json::object([
                ("moved", counts.moved.into()),
                ("same", counts.same.into()),
                ("differing", counts.differing.into()),
                ("not_moved", counts.not_moved.into()),
            ]);
            ((*kind).to_owned(), numbers)
        };
        let list = |lines: &[ReportLine]| Json::Array(lines.iter().map(ReportLine::json).collect());
        let pass = match pass {
            MigrationPass::Move => "move",
            MigrationPass::DryRun => "dry-run",
            MigrationPass::Compare => "compare",
        };
        Json::object([
            ("pass", pass.into()),
            ("counts", Json::Object(self.counts.iter().map(count).collect())),
            ("not_moved", list(&self.not_moved)),
            ("differing", list(&self.differing)),
            ("notes", list(&self.notes)),
        ])
    }
}
