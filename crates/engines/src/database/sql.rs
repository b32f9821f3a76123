//! Statements of SQL with names and passwords in them: the one place that quotes.
//!
//! An operator writes a statement with places such as `{{name}}`; what goes there may have been chosen by others. A value is written for where its
//! place is: inside a literal or a quoted name its quotes are doubled; anywhere else it has to be a word that no dialect reads as more than a word.
//!
//! Invariant: filling a statement never changes where its literals, names and comments begin and end.

use kallisto_api::Error;
use secrecy::SecretString;
use zeroize::Zeroizing;

/// Which database reads a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SqlDialect {
    /// PostgreSQL.
    Postgres,
    /// MySQL and MariaDB.
    Mysql,
}

/// Where in a statement a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Context {
    Plain,
    Literal {
        escapes: bool,
    },
    Name(char),
    /// A comment, or text between dollar quotes.
    Opaque,
}

/// Fills the places of a statement.
///
/// # Errors
/// [`Error::Invalid`] for a value that cannot stand where its place is.
pub(super) fn fill(
    statement: &str,
    values: &[(&str, &str)],
    dialect: SqlDialect,
) -> Result<SecretString, Error> {
    let mut out = Zeroizing::new(String::with_capacity(statement.len() + 128));
    let mut scanner = Scanner::new(dialect);
    let mut rest = statement;
    while let Some(c) = rest.chars().next() {
        if let Some((name, after)) = place(rest)
            && let Some((_, value)) = values.iter().find(|(known, _)| *known == name)
        {
            write(&mut out, value, scanner.context(), name, dialect)?;
            rest = after;
            continue;
        }
        let taken = scanner.step(rest);
        out.push_str(&rest[..taken.max(c.len_utf8())]);
        rest = &rest[taken.max(c.len_utf8())..];
    }
    Ok(SecretString::from(out.as_str()))
}

/// The name of the place that a text begins with, and what follows it.
fn place(text: &str) -> Option<(&str, &str)> {
    let (name, after) = text.strip_prefix("{{")?.split_once("}}")?;
    Some((name.trim(), after))
}

fn write(
    out: &mut String,
    value: &str,
    context: Context,
    name: &str,
    dialect: SqlDialect,
) -> Result<(), Error> {
    if value.contains('\0') {
        return Err(Error::invalid(format!("{name} has a zero byte")));
    }
    match context {
        Context::Literal { escapes } => {
            for c in value.chars() {
                if c == '\'' || (c == '\\' && escapes) {
                    out.push(c);
                }
                out.push(c);
            }
        }
        // A double quote begins a literal for MySQL, unless it is told otherwise: both readings have to be safe.
        Context::Name('"') if dialect == SqlDialect::Mysql && value.contains('\\') => {
            return Err(Error::invalid(format!("{name} has a backslash, inside double quotes")));
        }
        Context::Name(quote) => {
            for c in value.chars() {
                if c == quote {
                    out.push(c);
                }
                out.push(c);
            }
        }
        Context::Plain | Context::Opaque => {
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if value.is_empty() || !value.chars().all(is_word) {
                return Err(Error::invalid(format!(
                    "{{{{{name}}}}} stands without quotes in a statement: its value could be read as more than a word"
                )));
            }
            out.push_str(value);
        }
    }
    Ok(())
}

/// Follows where literals, names and comments begin and end.
struct Scanner {
    dialect: SqlDialect,
    context: Context,
    /// What ends an opaque part.
    end: String,
    /// The character before, for `E'…'`.
    before: [char; 2],
}

impl Scanner {
    fn new(dialect: SqlDialect) -> Self {
        Self { dialect, context: Context::Plain, end: String::new(), before: [' '; 2] }
    }

    const fn context(&self) -> Context {
        self.context
    }

    /// Takes the next piece of the text: its length in bytes.
    fn step(&mut self, text: &str) -> usize {
        let Some(c) = text.chars().next() else { return 0 };
        let taken = match self.context {
            Context::Plain => self.step_plain(text, c),
            Context::Literal { escapes: true } | Context::Name('"')
                if c == '\\'
                    && (self.dialect == SqlDialect::Mysql
                        || self.context == Context::Literal { escapes: true }) =>
            {
                // What is escaped ends nothing.
                1 + text[1..].chars().next().map_or(0, char::len_utf8)
            }
            Context::Literal { .. } => self.step_quoted(text, '\''),
            Context::Name(quote) => self.step_quoted(text, quote),
            Context::Opaque => {
                if text.starts_with(&self.end) {
                    self.context = Context::Plain;
                    self.end.len()
                } else {
                    c.len_utf8()
                }
            }
        };
        self.before = [self.before[1], c];
        taken
    }

    fn step_quoted(&mut self, text: &str, quote: char) -> usize {
        let Some(c) = text.chars().next() else { return 0 };
        if c == quote {
            if text[c.len_utf8()..].starts_with(quote) {
                return 2 * c.len_utf8();
            }
            self.context = Context::Plain;
        }
        c.len_utf8()
    }

    fn step_plain(&mut self, text: &str, c: char) -> usize {
        let is_mysql = self.dialect == SqlDialect::Mysql;
        if text.starts_with("--") || (is_mysql && c == '#') {
            return self.open("\n", c.len_utf8());
        }
        if text.starts_with("/*") {
            return self.open("*/", 2);
        }
        match c {
            '\'' => {
                let [earlier, last] = self.before;
                let is_word = earlier.is_ascii_alphanumeric() || earlier == '_';
                let escapes = is_mysql || (matches!(last, 'e' | 'E') && !is_word);
                self.context = Context::Literal { escapes };
            }
            '"' => self.context = Context::Name('"'),
            '`' if is_mysql => self.context = Context::Name('`'),
            '$' if !is_mysql => {
                let is_tag = |c: char| c.is_alphanumeric() || c == '_';
                if let Some(length) = text[1..].find(|c| !is_tag(c))
                    && text[1 + length..].starts_with('$')
                {
                    let tag = text[..length + 2].to_owned();
                    let taken = tag.len();
                    return self.open(&tag, taken);
                }
            }
            _ => {}
        }
        c.len_utf8()
    }

    fn open(&mut self, end: &str, taken: usize) -> usize {
        self.context = Context::Opaque;
        end.clone_into(&mut self.end);
        taken
    }
}

/// A value as a literal.
pub(super) fn literal(value: &str, dialect: SqlDialect) -> Result<String, Error> {
    let mut out = String::from("'");
    let escapes = dialect == SqlDialect::Mysql;
    write(&mut out, value, Context::Literal { escapes }, "a value", dialect)?;
    out.push('\'');
    Ok(out)
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn filled(statement: &str, value: &str, dialect: SqlDialect) -> Result<String, Error> {
        let filled = fill(statement, &[("name", value), ("password", value)], dialect)?;
        Ok(filled.expose_secret().to_owned())
    }

    const EVIL: &str = "a'b\"c`; DROP ROLE postgres; --";

    #[test]
    fn a_value_stays_inside_its_quotes() {
        let postgres = |statement| filled(statement, EVIL, SqlDialect::Postgres);
        assert_eq!(postgres("X '{{name}}' Y").unwrap(), "X 'a''b\"c`; DROP ROLE postgres; --' Y");
        assert_eq!(postgres("X \"{{name}}\"").unwrap(), "X \"a'b\"\"c`; DROP ROLE postgres; --\"");
        let mysql = |statement| filled(statement, EVIL, SqlDialect::Mysql);
        assert_eq!(mysql("X `{{name}}`").unwrap(), "X `a'b\"c``; DROP ROLE postgres; --`");
        assert_eq!(filled("'{{name}}'", "\\'", SqlDialect::Mysql).unwrap(), "'\\\\'''");
        assert_eq!(filled("'{{name}}'", "\\", SqlDialect::Postgres).unwrap(), "'\\'");
        assert_eq!(filled("E'{{name}}'", "\\'", SqlDialect::Postgres).unwrap(), "E'\\\\'''");
    }

    #[test]
    fn a_value_without_quotes_around_it_is_a_word_or_refused() {
        assert_eq!(filled("ROLE {{name}}", "app_1", SqlDialect::Postgres).unwrap(), "ROLE app_1");
        for statement in [
            "ROLE {{name}}",
            "-- {{name}}",
            "/* {{name}} */",
            "DO $$ {{name}} $$",
            "$a$'{{name}}'$a$",
        ] {
            assert!(filled(statement, "a-b", SqlDialect::Postgres).is_err(), "{statement}");
            assert!(filled(statement, EVIL, SqlDialect::Postgres).is_err(), "{statement}");
        }
    }

    #[test]
    fn quotes_inside_other_quotes_and_comments_begin_nothing() {
        let value = "it's";
        for (statement, expected) in [
            ("'a''b' '{{name}}'", "'a''b' 'it''s'"),
            ("-- don't\n'{{name}}'", "-- don't\n'it''s'"),
            ("/* don't */ '{{name}}'", "/* don't */ 'it''s'"),
            ("\"a'b\" '{{name}}'", "\"a'b\" 'it''s'"),
            ("$x$ don't $x$ '{{name}}'", "$x$ don't $x$ 'it''s'"),
            ("'{{other}}{{name}}'", "'{{other}}it''s'"),
        ] {
            assert_eq!(filled(statement, value, SqlDialect::Postgres).unwrap(), expected);
        }
        assert_eq!(
            filled("'a\\'' '{{name}}'", value, SqlDialect::Mysql).unwrap(),
            "'a\\'' 'it''s'"
        );
    }

    #[test]
    fn no_value_closes_the_literal_that_it_stands_in() {
        let mut seed = 7_u64;
        for _ in 0..20_000 {
            let value: String = (0..6)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    ['\'', '"', '\\', ';', '-', 'a', '`', '$'][(seed >> 60) as usize % 8]
                })
                .collect();
            for (dialect, statement) in [
                (SqlDialect::Postgres, "A '{{name}}' B"),
                (SqlDialect::Postgres, "A E'{{name}}' B"),
                (SqlDialect::Postgres, "A \"{{name}}\" B"),
                (SqlDialect::Mysql, "A '{{name}}' B"),
                (SqlDialect::Mysql, "A `{{name}}` B"),
            ] {
                let Ok(text) = filled(statement, &value, dialect) else { continue };
                let mut scanner = Scanner::new(dialect);
                let (mut at, mut plain) = (0, String::new());
                while at < text.len() {
                    let before = scanner.context();
                    let taken = scanner.step(&text[at..]);
                    if before == Context::Plain {
                        plain.push_str(&text[at..at + taken]);
                    }
                    at += taken;
                }
                assert_eq!(scanner.context(), Context::Plain, "{text}");
                assert!(plain.ends_with(" B") && plain.len() <= 6, "{text}: {plain}");
            }
        }
    }
}
