//! Holds the generated pages of `docs/reference/` to what the code says.
//!
//! A table that the documents show lies in the crate that works by it. A test beside it writes the table as Markdown and calls [`hold`],
//! which compares the text with the page. `cargo x reference` runs those tests with [`WRITE`] set, and then the pages are written. Used by
//! tests only.
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::path::PathBuf;

/// The variable that has pages written instead of compared.
pub const WRITE: &str = "KALLISTO_REFERENCE_WRITE";

/// Compares `text` with the page `name` of `docs/reference/`, or writes it there.
///
/// # Panics
/// Where the page is another, with the first line that differs; where it cannot be written.
#[expect(clippy::disallowed_methods, reason = "tests compare with files of the repository")]
pub fn hold(name: &str, text: &str) {
    // As cargo says it to the running test, which may have been built in another copy of the tree.
    let own = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let path = own.join("../../docs/reference").join(name);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, text)
            .unwrap_or_else(|error| panic!("docs/reference/{name}: {error}"));
        return;
    }
    let page = std::fs::read(&path).unwrap_or_default();
    let page = String::from_utf8_lossy(&page);
    if page != text {
        let differs = page.lines().zip(text.lines()).position(|(one, other)| one != other);
        let at = differs.unwrap_or_else(|| page.lines().count().min(text.lines().count()));
        let line = |of: &str| of.lines().nth(at).unwrap_or("nothing").to_owned();
        panic!(
            "docs/reference/{name} is not what the code says; run: cargo x reference\nline {}, the page: {}\nthe code: {}",
            at + 1,
            line(&page),
            line(text)
        );
    }
}

/// A page: its title, what it is, and where it comes from.
pub fn page(title: &str, about: &str, source: &str) -> String {
    format!(
        "<!-- Written by `cargo x reference` from {source}; a test compares. Do not edit. -->\n\n# {title}\n\n{about}\n\n"
    )
}

/// Appends a table.
pub fn table(text: &mut String, head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "| {} |\n|{}", head.join(" | "), "---|".repeat(head.len()));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| escape(cell)).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text.push('\n');
}

/// Text as it may stand in a cell: on one line, without a bar that would end it.
fn escape(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut escaped = String::with_capacity(line.len());
    let mut is_code = false;
    for c in line.chars() {
        match c {
            '`' => {
                is_code = !is_code;
                escaped.push('`');
            }
            '|' => escaped.push_str("\\|"),
            '<' if !is_code => escaped.push_str("&lt;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_stays_on_its_line_and_in_its_column() {
        let mut text = String::new();
        table(&mut text, &["a", "b"], [vec!["x | y\nz".to_owned(), "`<a|b>` <c>".to_owned()]]);
        assert_eq!(text, "| a | b |\n|---|---|\n| x \\| y z | `<a\\|b>` &lt;c> |\n\n");
    }

    #[test]
    fn a_page_that_says_something_else_is_refused() {
        if std::env::var_os(WRITE).is_none() {
            let refused = std::panic::catch_unwind(|| hold("no-such-page.md", "text"));
            assert!(refused.is_err());
        }
    }
}
