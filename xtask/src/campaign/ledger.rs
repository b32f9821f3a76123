//! `tests/campaigns.md`: what campaigns did, a row a run. Other lines of the file are for people.

use std::fmt;
use std::fs::{self, File};
use std::path::PathBuf;

use crate::workspace;

/// The file, below the workspace.
pub(super) const FILE: &str = "tests/campaigns.md";

/// The file with the rows.
#[derive(Debug)]
pub(super) struct CampaignLedger {
    file: PathBuf,
}

/// What a run did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CampaignRow {
    pub(super) date: String,
    pub(super) campaign: String,
    pub(super) first: u64,
    /// The first seed that was not tried. `None` until a part has ended.
    pub(super) next: Option<u64>,
    pub(super) count: u64,
    pub(super) secs: u64,
    pub(super) commit: String,
}

impl CampaignLedger {
    /// The ledger of this workspace.
    pub(super) fn open() -> Self {
        Self { file: workspace::root().join(FILE) }
    }

    /// Its rows.
    pub(super) fn rows(&self) -> Result<Vec<CampaignRow>, String> {
        let text = fs::read_to_string(&self.file).map_err(|error| self.told(&error))?;
        Ok(text.lines().filter_map(CampaignRow::read).collect())
    }

    /// Puts `row` in place of `written`, or at the end of the rows of campaigns if that is not there.
    #[expect(clippy::disallowed_methods, reason = "the ledger is a file of the workspace")]
    pub(super) fn write(&self, written: &CampaignRow, row: &CampaignRow) -> Result<(), String> {
        // Campaigns may run side by side.
        let lock = File::open(&self.file).map_err(|error| self.told(&error))?;
        lock.lock().map_err(|error| self.told(&error))?;
        let text = fs::read_to_string(&self.file).map_err(|error| self.told(&error))?;
        fs::write(&self.file, replaced(&text, written, row)).map_err(|error| self.told(&error))
    }

    fn told(&self, error: &std::io::Error) -> String {
        format!("{}: {error}", self.file.display())
    }
}

fn replaced(text: &str, written: &CampaignRow, row: &CampaignRow) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let old = written.next.map(|_| written.to_string());
    if let Some(at) = lines.iter().rposition(|line| Some(line) == old.as_ref()) {
        lines[at] = row.to_string();
    } else {
        let last = lines.iter().rposition(|line| line.starts_with('|'));
        lines.insert(last.map_or(lines.len(), |last| last + 1), row.to_string());
    }
    lines.join("\n") + "\n"
}

/// How far a campaign is.
pub(super) fn count(rows: &[CampaignRow], campaign: &str) -> u64 {
    of(rows, campaign).map(|row| row.count).sum()
}

/// The first seed that no run has tried.
pub(super) fn next_seed(rows: &[CampaignRow], campaign: &str) -> u64 {
    of(rows, campaign).filter_map(|row| row.next).max().unwrap_or(1)
}

fn of<'a>(rows: &'a [CampaignRow], campaign: &'a str) -> impl Iterator<Item = &'a CampaignRow> {
    rows.iter().filter(move |row| row.campaign == campaign)
}

impl CampaignRow {
    /// Reads what `Display` writes. `None` for any other line.
    fn read(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        let [date, campaign, seeds, count, secs, commit] = cells[..] else { return None };
        let (first, next) = seeds.split_once("..")?;
        Some(Self {
            date: date.to_owned(),
            campaign: campaign.to_owned(),
            first: first.parse().ok()?,
            next: Some(next.parse().ok()?),
            count: count.parse().ok()?,
            secs: secs.strip_suffix(" s")?.parse().ok()?,
            commit: commit.to_owned(),
        })
    }
}

impl fmt::Display for CampaignRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { date, campaign, first, next, count, secs, commit } = self;
        let next = next.unwrap_or(*first);
        write!(f, "| {date} | {campaign} | {first}..{next} | {count} | {secs} s | {commit} |")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(campaign: &str, first: u64, next: u64, count: u64) -> CampaignRow {
        CampaignRow {
            date: "2026-11-29".to_owned(),
            campaign: campaign.to_owned(),
            first,
            next: Some(next),
            count,
            secs: 7,
            commit: "0123abcd".to_owned(),
        }
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let row = row("flips", 3, 9, 12);
        assert_eq!(CampaignRow::read(&row.to_string()), Some(row));
        for line in ["", "text", "| date | campaign |", "|---|---|---|---|---|---|"] {
            assert_eq!(CampaignRow::read(line), None, "{line}");
        }
    }

    #[test]
    fn a_run_has_one_row_however_many_parts_it_has() {
        let text = "# Campaigns\n\n| date |\n|---|\n\nThe end.\n";
        let begun = CampaignRow { next: None, count: 0, ..row("flips", 1, 0, 0) };
        let (first, second) = (row("flips", 1, 5, 10), row("flips", 1, 9, 20));
        let once = replaced(text, &begun, &first);
        assert_eq!(once, format!("# Campaigns\n\n| date |\n|---|\n{first}\n\nThe end.\n"));
        let other = replaced(&once, &begun, &row("sim", 1, 2, 3));
        let twice = replaced(&other, &first, &second);
        let rows: Vec<_> = twice.lines().filter_map(CampaignRow::read).collect();
        assert_eq!(rows, [second, row("sim", 1, 2, 3)]);
        assert_eq!((count(&rows, "flips"), next_seed(&rows, "flips")), (20, 9));
        assert_eq!((count(&rows, "none"), next_seed(&rows, "none")), (0, 1));
    }

    #[test]
    fn the_ledger_of_the_workspace_is_read() {
        CampaignLedger::open().rows().unwrap();
    }
}
