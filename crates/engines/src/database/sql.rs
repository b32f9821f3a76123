//! Statements of SQL with names and passwords in them: the one place that quotes.
//!
//! An operator writes a statement with places such as `{{name}}`; what goes there may have been chosen by others. A value is written for where its
//! place is: inside a literal or a quoted name its quotes are doubled; anywhere else it has to be a word that no dialect reads as more than a word.
//! Between quotes in a text between dollar quotes it has letters, digits and `_.@-` alone, as the names and passwords that are made here have.
//!
//! Invariant: filling a statement never changes where its literals, names and comments begin and end.

#[cfg(any(test, feature = "fuzz"))]
mod pieces;
mod scanner;

use kallisto_api::Error;
use secrecy::SecretString;
use zeroize::Zeroizing;

use self::scanner::{Context, Scanner};

/// Which database reads a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SqlDialect {
    /// PostgreSQL.
    Postgres,
    /// MySQL and MariaDB.
    Mysql,
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
            if let Some(what) = scanner.objection(value, after) {
                return Err(Error::invalid(format!("{{{{{name}}}}} stands {what}")));
            }
            // Inside a literal of the inner text that has more in it than the place, the value is a part of a statement.
            let is_whole = |quote: char| out.ends_with(quote) && after.starts_with(quote);
            let context = match scanner.context() {
                Context::QuotedInOpaque if !is_whole('\'') && !is_whole('"') => Context::Opaque,
                context => context,
            };
            write(&mut out, value, context, name, dialect)?;
            scanner.pass(value);
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
        // Whoever runs the text reads a name or a password between the quotes, in whatever language it is.
        Context::QuotedInOpaque => {
            let is_known = match name {
                "expiration" => is_time(value),
                "password" => dialect == SqlDialect::Postgres && is_verifier(value),
                _ => false,
            };
            if !is_known && (value.is_empty() || !value.chars().all(is_of_a_login)) {
                return Err(Error::invalid(format!(
                    "{{{{{name}}}}} stands in a text between dollar quotes: its value has other characters than letters, digits and _.@-"
                )));
            }
            out.push_str(value);
        }
        Context::Plain | Context::Opaque => {
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            // Up to PostgreSQL 14 a word begins where the digits of a number end: `1SUPERUSER` are two.
            let is_two_words = dialect == SqlDialect::Postgres
                && value.starts_with(|c: char| c.is_ascii_digit())
                && !value.bytes().all(|byte| byte.is_ascii_digit());
            if value.is_empty() || is_two_words || !value.chars().all(is_word) {
                return Err(Error::invalid(format!(
                    "{{{{{name}}}}} stands without quotes in a statement: its value could be read as more than a word"
                )));
            }
            out.push_str(value);
        }
    }
    Ok(())
}

/// Whether a character is one that names of users and passwords are usually made of. None ends or escapes anything between quotes.
const fn is_of_a_login(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '@' | '-')
}

/// Whether a value is a time as `VALID UNTIL` has it, which the server writes itself: digits and signs at their places.
fn is_time(value: &str) -> bool {
    let shape = "0000-00-00 00:00:00+0000";
    let is_alike = |(is, like): (char, char)| match like {
        '0' => is.is_ascii_digit(),
        sign => is == sign,
    };
    value.len() == shape.len() && value.chars().zip(shape.chars()).all(is_alike)
}

/// Whether a value is a verifier of a password (RFC 5803), whose signs neither end a text between dollar quotes nor begin one.
fn is_verifier(value: &str) -> bool {
    let is_of_it = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | ':');
    let parts = value.strip_prefix("SCRAM-SHA-256$").map(|rest| rest.split('$'));
    parts.is_some_and(|parts| {
        let parts: Vec<&str> = parts.collect();
        parts.len() == 2
            && parts.iter().all(|part| part.contains(':') && part.chars().all(is_of_it))
    })
}

/// A value as a literal.
pub(super) fn literal(value: &str, dialect: SqlDialect) -> Result<String, Error> {
    let mut out = String::from("'");
    let escapes = dialect == SqlDialect::Mysql;
    write(&mut out, value, Context::Literal { escapes }, "a value", dialect)?;
    out.push('\'');
    Ok(out)
}

/// Fills whatever it is given as a statement with whatever it is given as a value: a target of the fuzzers. However the value is
/// made, a plain reader finds the same pieces in the statement as with a word in its place.
#[cfg(any(test, feature = "fuzz"))]
pub fn fill_hostile(bytes: &[u8]) {
    use secrecy::ExposeSecret;
    let Some((which, rest)) = bytes.split_first() else { return };
    let dialect = if which % 2 == 0 { SqlDialect::Postgres } else { SqlDialect::Mysql };
    let mut parts = rest.splitn(2, |byte| *byte == 0xff).map(std::str::from_utf8);
    let (Some(Ok(statement)), Some(Ok(value))) = (parts.next(), parts.next()) else { return };
    let shape = |value| {
        let filled = fill(statement, &[("name", value)], dialect).ok()?;
        Some(pieces::readings(filled.expose_secret(), dialect))
    };
    if let Some(hostile) = shape(value) {
        assert_eq!(Some(hostile), shape("w"), "{dialect:?} {statement:?}");
    }
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

    /// Found by comparing with a second reader: where a reader of the database is in a literal or not has to be known in each of these.
    #[test]
    fn comments_names_and_signs_are_where_the_database_sees_them() {
        use SqlDialect::{Mysql, Postgres};
        for (statement, dialect) in [
            ("/* /* */ ' */ {{name}} --'", Postgres),
            ("x$a$ ' $a$ ' {{name}} --'", Postgres),
            ("$1$ ' $1$ ' {{name}} --'", Postgres),
            ("\u{e9}E'\\' {{name}} --'", Postgres),
            ("5--' \n ' {{name}} -- '", Mysql),
            ("/*! ' */ ' {{name}} */ '", Mysql),
        ] {
            assert!(filled(statement, EVIL, dialect).is_err(), "{statement}");
            assert!(filled(statement, "word", dialect).is_ok(), "{statement}");
        }
        for statement in
            ["{{name}}'a'", "{{name}}\"a\"", "${{name}}$", "{{name}}$a$", "{{name}}E'a'"]
        {
            assert!(filled(statement, "E", Postgres).is_err(), "{statement}");
        }
    }

    /// The fuzzer found the first. What ended by a dollar sign, and a number, leave the next dollar sign and the next `E` to begin anew; a name does not.
    #[test]
    fn a_dollar_sign_belongs_to_a_name_and_to_nothing_else_before_it() {
        let postgres = |statement: &str, value| filled(statement, value, SqlDialect::Postgres);
        for opaque in
            ["$a$x$a$$$'{{name}}'$$", "1$$'{{name}}'$$", "$1$$'{{name}}'$$", "E''$$'{{name}}'$$"]
        {
            assert!(postgres(opaque, "$$").is_err(), "{opaque}");
            assert_eq!(postgres(opaque, "w").unwrap(), opaque.replace("{{name}}", "w"));
        }
        for named in ["a$$'{{name}}'", "E$$'{{name}}'", "a1$b$'{{name}}'", "\u{e9}$$'{{name}}'"] {
            assert_eq!(postgres(named, "$$").unwrap(), named.replace("{{name}}", "$$"));
        }
        for escaped in ["$a$x$a$E'{{name}}'", "1E'{{name}}'", "\"a\"e'{{name}}'", "'a'E'{{name}}'"]
        {
            assert_eq!(postgres(escaped, "\\").unwrap(), escaped.replace("{{name}}", "\\\\"));
        }
        for plain in
            ["aE'{{name}}'", "E1'{{name}}'", "EE'{{name}}'", "a$E'{{name}}'", "E '{{name}}'"]
        {
            assert_eq!(postgres(plain, "\\").unwrap(), plain.replace("{{name}}", "\\"));
        }
    }

    /// What PostgreSQL joins to an `E'…'` has its escapes: unless a backslash is doubled there, a quote behind it ends nothing.
    #[test]
    fn a_literal_that_goes_on_behind_a_line_break_has_the_escapes_of_its_beginning() {
        let postgres = |statement: &str, value| filled(statement, value, SqlDialect::Postgres);
        let breaks = [
            "\n",
            "\r",
            " \t\n\x0c ",
            "\n\n",
            " -- c'\n",
            "-- c\r",
            " --\n -- \n\t",
            "\n-- {{other}}\n",
        ];
        for between in breaks {
            let joined = |text: &str| format!("E'a'{between}'{text}'");
            assert_eq!(
                postgres(&joined("{{name}}"), "\\'").unwrap(),
                joined("\\\\''"),
                "{between:?}"
            );
            let again = |text: &str| format!("{}\n'{text}'", joined("b"));
            assert_eq!(
                postgres(&again("{{name}}"), "\\'").unwrap(),
                again("\\\\''"),
                "{between:?}"
            );
            // Where the quote is escaped, the place is inside still.
            let inside = joined("\\' {{name}}");
            assert_eq!(postgres(&inside, "it's").unwrap(), joined("\\' it''s"));
        }
        for apart in [" ", "\n,", " /* \n */ ", "\n/* */"] {
            let alone = |text: &str| format!("E'a'{apart}'{text}'");
            assert_eq!(postgres(&alone("{{name}}"), "\\").unwrap(), alone("\\"), "{apart:?}");
        }
        // A plain literal goes on as one, and a word in between ends what was.
        assert_eq!(postgres("'a'\n'{{name}}'", "\\").unwrap(), "'a'\n'\\'");
        assert_eq!(postgres("E'a'\n{{name}}\n'\\'", "w").unwrap(), "E'a'\nw\n'\\'");
        assert_eq!(filled("'a'\n'{{name}}'", "\\", SqlDialect::Mysql).unwrap(), "'a'\n'\\\\'");
    }

    #[test]
    fn a_carriage_return_ends_a_comment_for_postgresql_and_not_for_mysql() {
        let statement = "-- it's\r'{{name}}'";
        assert_eq!(filled(statement, "it's", SqlDialect::Postgres).unwrap(), "-- it's\r'it''s'");
        assert!(filled(statement, "it's", SqlDialect::Mysql).is_err(), "it is a comment");
        assert!(filled("--\r ' {{name}} -- '", EVIL, SqlDialect::Postgres).is_ok());
        assert!(filled("--\r{{name}}", EVIL, SqlDialect::Postgres).is_err());
    }

    /// Found by a fuzzer guided by coverage. PostgreSQL 15 refuses all of these; 14 reads `CONNECTION LIMIT 1SUPERUSER` as two clauses.
    #[test]
    fn a_number_and_a_word_beside_it_are_not_one_word() {
        let postgres = |statement: &str, value| filled(statement, value, SqlDialect::Postgres);
        for statement in ["LIMIT {{name}}", "{{name}}/* '", "DO $$ {{name}} $$", "-- {{name}}"] {
            for value in ["1SUPERUSER", "0b", "1_000", "1e5"] {
                assert!(postgres(statement, value).is_err(), "{statement} {value}");
            }
            for value in ["100", "a1", "_1", "SUPERUSER"] {
                assert_eq!(
                    postgres(statement, value).unwrap(),
                    statement.replace("{{name}}", value)
                );
            }
        }
        for statement in ["1{{name}}", "a 20{{name}}", "{{name}}{{password}}"] {
            assert!(postgres(statement, "1").is_err(), "{statement}");
        }
        for after in ["SUPERUSER", "_x", "7", "\u{e9}"] {
            assert!(postgres(&format!("{{{{name}}}}{after}"), "1").is_err(), "{after}");
            assert!(postgres(&format!("{{{{name}}}}{after}"), "a").is_ok(), "{after}");
        }
        assert_eq!(postgres("a1{{name}}, ({{name}})", "7").unwrap(), "a17, (7)");
        // For MySQL it is the beginning of a name.
        assert_eq!(filled("USER {{name}}", "1a", SqlDialect::Mysql).unwrap(), "USER 1a");
    }

    /// PostgreSQL 15 ends `$a$ … $a$` wherever the value made its last tag, and begins one with a tag that the value completed.
    #[test]
    fn no_value_makes_a_tag_of_dollar_quotes() {
        let postgres = |statement: &str, value| filled(statement, value, SqlDialect::Postgres);
        for tagged in ["$a$ x ${{name}}$ y $a$", "$ab$ $a{{name}}$ $ab$", "$a{{name}}$ x $ab$"] {
            assert!(postgres(tagged, "b").is_err(), "{tagged}");
        }
        for apart in
            ["$$ a {{name}} $$", "$a$ $5 + {{name}} $a$", "a$b {{name}}", "$a$x$a$ {{name}}"]
        {
            assert_eq!(postgres(apart, "b").unwrap(), apart.replace("{{name}}", "b"), "{apart}");
        }
    }

    #[test]
    fn a_comment_of_mysql_ends_at_the_first_end_and_holds_none() {
        let mysql = |statement: &str, value| filled(statement, value, SqlDialect::Mysql);
        assert_eq!(mysql("/* a/*/ '{{name}}'", "*/ it's").unwrap(), "/* a/*/ '*/ it''s'");
        assert!(mysql("/* a/*/ ' */ {{name}} '", "it's").is_ok(), "it is in a literal");
        assert!(filled("/* a/*/ ' */ {{name}} '", "a b", SqlDialect::Postgres).is_err());
    }

    /// MariaDB 10.11 does not run `/*!50701 … */` and so ends it at the first `*/`; it runs `/*M! … */`, which is a comment for MySQL.
    #[test]
    fn what_only_some_servers_run_is_safe_for_those_that_do_not() {
        let mysql = |statement: &str, value| filled(statement, value, SqlDialect::Mysql);
        for opening in ["/*!", "/*!50701 ", "/*M!100100 "] {
            let inside = |text: &str| format!("USER 'a' {opening}IDENTIFIED BY '{text}'*/ -- x");
            assert!(mysql(&inside("{{name}}"), "q*/ , b -- ").is_err(), "{opening}");
            assert!(mysql(&inside("{{name}}/"), "q*").is_err(), "{opening}");
            assert!(mysql(&inside("*{{name}}"), "/").is_err(), "{opening}");
            assert_eq!(mysql(&inside("{{name}}"), "it's").unwrap(), inside("it''s"));
            let behind = |text: &str| format!("{} '{text}'", inside("p").replace("-- x", ""));
            assert_eq!(mysql(&behind("{{name}}"), "*/").unwrap(), behind("*/"));
            // Where the two readings part, nobody knows what is a literal.
            for parted in ["' */ {{name}} '", "'/*' */ ' {{name}} '", "'\\*/' ' {{name}} '"] {
                let parted = format!("{opening}{parted}");
                assert!(mysql(&parted, EVIL).is_err(), "{parted}");
                assert!(mysql(&parted, "word").is_ok(), "{parted}");
            }
        }
        assert!(mysql("/*M! ' */ '{{name}}' */ '", "; x").is_err());
        for version in ["/*!{{name}} 'a' */", "/*M!{{name}} 'a' */", "/*!9{{name}} 'a' */"] {
            assert!(mysql(version, "99999").is_err(), "{version}");
        }
        assert_eq!(mysql("a * / '{{name}}'", "*/").unwrap(), "a * / '*/'");
    }

    #[test]
    fn a_name_stands_between_quotes_in_a_text_between_dollar_quotes() {
        let name = "v-token-app-4f.x@Y_--1-1795548511";
        for statement in [
            "DO $$ BEGIN CREATE ROLE \"{{name}}\"; END $$;",
            "DO $do$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{{name}}') THEN NULL; END IF; END $do$",
            "DO $$ BEGIN EXECUTE 'GRANT a TO \"{{name}}\"'; EXECUTE format('x''s %I', '{{name}}'); END $$",
            "DO $$ BEGIN EXECUTE $x$ ALTER ROLE \"{{name}}\" PASSWORD '{{password}}' $x$; END $$",
            "$a$'{{name}}'$a$",
            "DO $$ it's '{{name}}', \"{{name}}\" $$",
        ] {
            let filled = |value: &str| filled(statement, value, SqlDialect::Postgres);
            let expected = statement.replace("{{name}}", name).replace("{{password}}", name);
            if !statement.contains("it's") {
                assert_eq!(filled(name).unwrap(), expected);
            }
            for evil in [EVIL, "a'b", "a\"b", "a b", "a\\", "$$", "a;", ""] {
                assert!(filled(evil).is_err(), "{statement} {evil}");
            }
        }
    }

    #[test]
    fn what_the_server_itself_writes_stands_between_quotes_in_a_text_between_dollar_quotes() {
        let (time, verifier) =
            ("2026-11-29 12:00:05+0000", "SCRAM-SHA-256$4096:W22Za+==$WG5d/8o=:wfPLw=");
        let statement = "DO $$ BEGIN CREATE ROLE a PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'; END $$";
        let fill = |password, expiration| {
            let values = [("password", password), ("expiration", expiration)];
            fill(statement, &values, SqlDialect::Postgres)
        };
        let expected = statement.replace("{{password}}", verifier).replace("{{expiration}}", time);
        assert_eq!(fill(verifier, time).unwrap().expose_secret(), expected);
        for other in ["2026-11-29 12:00:05", "2026-11-29 12:00:05+00'0", "1", "infinity", ""] {
            assert_eq!(fill("p", other).is_ok(), ["1", "infinity"].contains(&other), "{other}");
        }
        for other in
            ["SCRAM-SHA-256$$4096:a$b:c", "SCRAM-SHA-256$4096:a$b:c'", "SCRAM-SHA-256$a$b$:c"]
        {
            assert!(fill(other, time).is_err(), "{other}");
        }
    }

    #[test]
    fn a_value_without_quotes_around_it_is_a_word_or_refused() {
        assert_eq!(filled("ROLE {{name}}", "app_1", SqlDialect::Postgres).unwrap(), "ROLE app_1");
        for statement in [
            "ROLE {{name}}",
            "-- {{name}}",
            "/* {{name}} */",
            "DO $$ {{name}} $$",
            "DO $$ 'x' {{name}} 'y' $$",
            "DO $$ -- '{{name}} $$",
            "DO $$ 'x' $$, {{name}}, $$ 'y' $$",
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

    /// What a text between dollar quotes is read as is not known: only a value that is all of a literal may have more than a word has.
    #[test]
    fn between_dollar_quotes_a_value_is_a_whole_literal_or_a_word() {
        let postgres = |statement: &str, value| filled(statement, value, SqlDialect::Postgres);
        for whole in ["DO $$ f('{{name}}') $$", "DO $$ f(\"{{name}}\") $$"] {
            assert_eq!(postgres(whole, "a.b").unwrap(), whole.replace("{{name}}", "a.b"));
        }
        for part in ["DO $$ f('x{{name}}') $$", "DO $$ f('{{name}}x') $$", "DO $$ f({{name}}) $$"] {
            assert!(postgres(part, "a.b").is_err(), "{part}");
            assert_eq!(postgres(part, "ab").unwrap(), part.replace("{{name}}", "ab"));
        }
    }

    #[test]
    fn a_backslash_in_double_quotes_is_refused_for_mysql_alone() {
        let of = |value, dialect| filled("X \"{{name}}\"", value, dialect);
        assert!(of("a\\b", SqlDialect::Mysql).is_err());
        assert_eq!(of("ab", SqlDialect::Mysql).unwrap(), "X \"ab\"");
        assert_eq!(of("a\\b", SqlDialect::Postgres).unwrap(), "X \"a\\b\"");
    }

    #[test]
    fn a_literal_is_escaped_as_its_dialect_reads_it() {
        assert_eq!(literal("it's", SqlDialect::Postgres).unwrap(), "'it''s'");
        assert_eq!(literal("a\\b", SqlDialect::Postgres).unwrap(), "'a\\b'");
        assert_eq!(literal("a\\b'", SqlDialect::Mysql).unwrap(), "'a\\\\b'''");
        assert!(literal("a\0", SqlDialect::Mysql).is_err());
    }

    #[test]
    fn comments_that_begin_between_dollar_quotes_are_none() {
        let statement = "X $$ /* /* $$ '{{name}}'";
        assert_eq!(
            filled(statement, "it's", SqlDialect::Postgres).unwrap(),
            "X $$ /* /* $$ 'it''s'"
        );
    }

    #[test]
    fn comments_of_one_line_and_marks_of_names_are_those_of_the_dialect() {
        use SqlDialect::{Mysql, Postgres};
        for (statement, dialect) in [
            ("--a'\n'{{name}}'", Postgres),
            ("-- '\n'{{name}}'", Postgres),
            ("-- '\n'{{name}}'", Mysql),
            ("--\t'\n'{{name}}'", Mysql),
            ("--\u{1}'\n'{{name}}'", Mysql),
            ("#'\n'{{name}}'", Mysql),
        ] {
            assert!(filled(statement, EVIL, dialect).is_ok(), "{statement}");
        }
        assert!(filled("X `{{name}}`", EVIL, Postgres).is_err(), "it is no mark of a name there");
    }
}
