//! The numbers in the README's table: each row has those of one row of the measurements.
//!
//! `bench/peers/run.sh` writes the table of `docs/benchmarks.md` between two marks; the README's is copied from it by hand, with advantages of ten
//! and more rounded. A row whose numbers stand together in no row there is of another run, or of none.

use super::TidyFinding;
use super::files::File;

const README: &str = "README.md";
const MEASURED: &str = "docs/benchmarks.md";
/// What the table of measurements is between.
const MARKS: [&str; 2] = ["<!-- peers:begin", "<!-- peers:end"];
/// The part of the README with the table.
const HEADING: &str = "## Numbers\n";

/// Checks each row of the README's table.
pub(super) fn check(files: &[File]) -> Vec<TidyFinding> {
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| &*file.text);
    let (Some(readme), Some(measured)) = (text(README), text(MEASURED)) else { return Vec::new() };
    let Some(measured) = between(measured, MARKS) else {
        return vec![TidyFinding::new(MEASURED, "has no table of measurements between its marks")];
    };
    let measured: Vec<Vec<f64>> = rows(measured).map(|(_, row)| numbers(row)).collect();
    let Some(before) = readme.find(HEADING) else {
        return vec![TidyFinding::new(README, "has no table of numbers")];
    };
    // The section begins on the line behind its heading.
    let first = readme[..before].lines().count() + 2;
    let section = between(&readme[before..], [HEADING, "\n## "]).unwrap_or_default();
    let foreign = rows(section).filter(|(_, row)| {
        let shown = numbers(row);
        !measured.iter().any(|row| shown.iter().all(|&one| row.iter().any(|&of| is_of(one, of))))
    });
    foreign
        .map(|(line, _)| {
            let place = format!("{README}:{}", first + line);
            TidyFinding::new(place, format!("has numbers that no row of {MEASURED} has"))
        })
        .collect()
}

/// What stands behind the first mark and before the next other one.
fn between<'t>(text: &'t str, [begin, end]: [&str; 2]) -> Option<&'t str> {
    let (_, behind) = text.split_once(begin)?;
    behind.split_once(end).map(|(inner, _)| inner)
}

/// The rows of tables, with the numbers of their lines; what stands before the figures is left out.
fn rows(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter_map(|(line, row)| {
        let (_name, figures) = row.strip_prefix("| ")?.split_once(" | ")?;
        let (_unit, figures) = figures.split_once(" | ")?;
        Some((line, figures))
    })
}

/// The numbers in a row's figures, in their order.
fn numbers(row: &str) -> Vec<f64> {
    let row = row.replace(',', "");
    let words = row.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    words.filter_map(|word| word.trim_matches('.').parse().ok()).collect()
}

/// Whether a number that is shown is a measured one, or that one rounded: advantages from ten on are.
fn is_of(shown: f64, measured: f64) -> bool {
    shown == measured || (measured >= 10.0 && shown == measured.round())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(row: &str) -> Vec<TidyFinding> {
        let file = |path: &str, text: String| File { path: path.to_owned(), text };
        let readme = format!(
            "# A\n\n{HEADING}\n| | unit | A | B |\n|---|---|---:|---:|\n{row}\n\n## Z\n| x | y | 5 |\n"
        );
        let measured = format!(
            "| old | x/s | 9 |\n{} -->\n| a, 16 | x/s | 1,200 | 25 (47.12) |\n| b | ms | 3.5 | 5 (1.43) |\n{} -->\n",
            MARKS[0], MARKS[1]
        );
        check(&[file(README, readme), file(MEASURED, measured)])
    }

    #[test]
    fn a_row_has_the_numbers_of_one_that_was_measured() {
        for row in [
            "| a, 99 at once | x/s | 1,200 | 25 (47) | |",
            "| b | ms | 3.5 (**1.43** of the 5 without) | | |",
        ] {
            assert_eq!(found(row), [], "{row}");
        }
        for row in ["| a | x/s | 1,201 | 25 (47) |", "| b | ms | 3.5 (47) |", "| c | x/s | 9 |"] {
            let [finding] = &found(row)[..] else { panic!("{row}") };
            assert_eq!(finding.place, "README.md:7", "{row}");
        }
    }
}
