//! Templates of user names: a closed subset of Go's, read whole before it is stored.
//!
//! ```text
//! text      (anything | "{{" pipeline "}}")*
//! pipeline  call ("|" call)*           the value before stands last among the arguments
//! call      function argument*
//! argument  .DisplayName | .RoleName | number | "text" | "(" pipeline ")"
//! ```
//!
//! Invariant: a name that was made has letters, digits and `_.@-` alone, whatever people are called: no quoting can go wrong on it.

use std::iter::Peekable;
use std::str::Chars;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::{BASE64, HEXLOWER};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use kallisto_api::Error;
use kallisto_engine::Random;

/// Longest template, in bytes.
const TEMPLATE_BYTES_MAX: usize = 1024;
/// How deep parentheses stand in parentheses.
const DEPTH_MAX: usize = 16;
/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 128;
const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// For whom a name is made.
pub(crate) struct UsernameFacts<'a> {
    pub(crate) display_name: &'a str,
    pub(crate) role_name: &'a str,
    pub(crate) now: Timestamp,
    pub(crate) random: &'a dyn Random,
}

/// `count` random letters and digits.
pub(crate) fn random_text(random: &dyn Random, count: usize) -> Result<String, Error> {
    let mut out = String::with_capacity(count);
    while out.len() < count {
        let mut bytes = [0; 64];
        random.fill(&mut bytes)?;
        // Without the bytes past the last multiple, every letter is as likely.
        let fair = bytes.iter().filter(|byte| **byte < 248);
        let letters = fair.map(|byte| char::from(ALPHABET[usize::from(byte % 62)]));
        out.extend(letters.take(count - out.len()));
    }
    Ok(out)
}

/// Letters, digits and `_.@-`; anything else is `_`.
pub(crate) fn plain(text: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '@' | '-');
    text.chars().map(|c| if keep(c) { c } else { '_' }).collect()
}

/// The first `count` characters of a text.
pub(crate) fn cut(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).map_or(text, |(at, _)| &text[..at])
}

/// Fills a template.
///
/// # Errors
/// [`Error::Invalid`] for one that is none.
pub(crate) fn make(template: &str, names: &UsernameFacts<'_>) -> Result<String, Error> {
    let bad = |why: String| Error::invalid(format!("unable to parse template: {why}"));
    if template.len() > TEMPLATE_BYTES_MAX {
        return Err(bad(format!("longer than {TEMPLATE_BYTES_MAX} bytes")));
    }
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let (inside, after) =
            after.split_once("}}").ok_or_else(|| bad("unclosed action".into()))?;
        let mut parser = Parser { chars: inside.trim_matches('-').chars().peekable(), names };
        let value = parser.pipeline(DEPTH_MAX).map_err(|fault| match fault {
            TemplateFault::Bad(why) => bad(why),
            TemplateFault::Error(error) => error,
        })?;
        parser.space();
        if parser.chars.peek().is_some() {
            return Err(bad(format!("unexpected text in action {inside:?}")));
        }
        out.push_str(&value);
        rest = after;
    }
    out.push_str(rest);
    let name = plain(out.trim());
    match name.len() {
        0 => Err(bad("it makes an empty name".into())),
        1..=NAME_BYTES_MAX => Ok(name),
        _ => Err(bad(format!("it makes a name longer than {NAME_BYTES_MAX} bytes"))),
    }
}

/// Refuses a template that cannot be read.
///
/// # Errors
/// [`Error::Invalid`] for that.
pub(crate) fn check_readable(template: &str) -> Result<(), Error> {
    made_of(template, 7, 1_700_000_000).map(drop)
}

fn made_of(template: &str, byte: u8, secs: i64) -> Result<String, Error> {
    let now = Timestamp::from_second(secs).unwrap_or_default();
    let random: &dyn Random = &Constant(byte);
    make(template, &UsernameFacts { display_name: "token", role_name: "role", now, random })
}

/// Refuses a template that makes the same name twice: what has that name already would be taken for what was made.
///
/// # Errors
/// [`Error::Invalid`] for that, and for one that cannot be read.
pub(crate) fn check(template: &str) -> Result<(), Error> {
    match made_of(template, 7, 1_700_000_000)? == made_of(template, 90, 1_700_000_001)? {
        false => Ok(()),
        true => Err(Error::invalid(
            "username_template makes the same name each time: it needs random, uuid, unix_time or timestamp",
        )),
    }
}

/// What a template is tried with.
struct Constant(u8);

impl Random for Constant {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Error> {
        bytes.fill(self.0);
        Ok(())
    }
}

enum TemplateFault {
    Bad(String),
    Error(Error),
}

struct Parser<'a> {
    chars: Peekable<Chars<'a>>,
    names: &'a UsernameFacts<'a>,
}

impl Parser<'_> {
    fn space(&mut self) {
        while self.chars.next_if(|c| c.is_whitespace()).is_some() {}
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.chars.next_if(|c| c.is_alphanumeric() || matches!(c, '_' | '.')) {
            word.push(c);
        }
        word
    }

    fn pipeline(&mut self, depth: usize) -> Result<String, TemplateFault> {
        let deeper = depth
            .checked_sub(1)
            .ok_or_else(|| TemplateFault::Bad("too many parentheses".into()))?;
        let mut value = self.call(None, deeper)?;
        loop {
            self.space();
            if self.chars.next_if_eq(&'|').is_none() {
                return Ok(value);
            }
            value = self.call(Some(value), deeper)?;
        }
    }

    /// An argument; `None` where there is none.
    fn argument(&mut self, depth: usize) -> Result<Option<String>, TemplateFault> {
        self.space();
        match self.chars.peek() {
            Some('"') => {
                self.chars.next();
                let mut text = String::new();
                loop {
                    match self.chars.next() {
                        Some('"') => return Ok(Some(text)),
                        Some('\\') => text.extend(self.chars.next()),
                        Some(c) => text.push(c),
                        None => {
                            return Err(TemplateFault::Bad("unterminated quoted string".into()));
                        }
                    }
                }
            }
            Some('(') => {
                self.chars.next();
                let value = self.pipeline(depth)?;
                self.space();
                match self.chars.next_if_eq(&')') {
                    Some(_) => Ok(Some(value)),
                    None => Err(TemplateFault::Bad("unclosed left paren".into())),
                }
            }
            Some('.') => {
                let word = self.word();
                self.field(&word).map(Some)
            }
            Some(c) if c.is_ascii_digit() => Ok(Some(self.word())),
            _ => Ok(None),
        }
    }

    fn field(&self, word: &str) -> Result<String, TemplateFault> {
        match word {
            ".DisplayName" => Ok(self.names.display_name.to_owned()),
            ".RoleName" => Ok(self.names.role_name.to_owned()),
            other => Err(TemplateFault::Bad(format!("can't evaluate field {other}"))),
        }
    }

    fn call(&mut self, piped: Option<String>, depth: usize) -> Result<String, TemplateFault> {
        self.space();
        let is_value = matches!(self.chars.peek(), Some('.' | '"' | '('));
        if is_value && piped.is_none() {
            return self.argument(depth)?.ok_or_else(|| TemplateFault::Bad("missing value".into()));
        }
        let function = self.word();
        let mut arguments = Vec::new();
        while let Some(argument) = self.argument(depth)? {
            arguments.push(argument);
        }
        arguments.extend(piped);
        self.apply(&function, &arguments)
    }

    fn apply(&self, function: &str, arguments: &[String]) -> Result<String, TemplateFault> {
        let number = |text: &String| {
            let number = text.parse::<usize>().ok().filter(|n| (1..=NAME_BYTES_MAX).contains(n));
            number.ok_or_else(|| TemplateFault::Bad(format!("{function}: {text:?} is no length")))
        };
        let sha256 = |text: &str| HEXLOWER.encode(digest(&SHA256, text.as_bytes()).as_ref());
        Ok(match (function, arguments) {
            ("random", [count]) => {
                random_text(self.names.random, number(count)?).map_err(TemplateFault::Error)?
            }
            ("truncate", [count, text]) => cut(text, number(count)?).to_owned(),
            ("truncate_sha256", [count, text]) => {
                let count = number(count)?;
                match text.chars().count() <= count {
                    true => text.clone(),
                    false if count <= 8 => {
                        return Err(TemplateFault::Bad(
                            "truncate_sha256: the length is 9 at least".into(),
                        ));
                    }
                    false => format!("{}{}", cut(text, count - 8), cut(&sha256(text), 8)),
                }
            }
            ("uppercase", [text]) => text.to_uppercase(),
            ("lowercase", [text]) => text.to_lowercase(),
            ("replace", [from, to, text]) if !from.is_empty() => text.replace(from.as_str(), to),
            ("sha256", [text]) => sha256(text),
            ("base64", [text]) => BASE64.encode(text.as_bytes()),
            ("hex", [text]) => HEXLOWER.encode(text.as_bytes()),
            ("unix_time", []) => self.names.now.as_second().to_string(),
            ("unix_time_millis", []) => self.names.now.as_millisecond().to_string(),
            ("timestamp", [layout]) => time_by_layout(layout, self.names.now),
            ("uuid", []) => self.names.random.make_uuid().map_err(TemplateFault::Error)?,
            ("printf", [format, values @ ..]) => print(format, values)?,
            _ => {
                return Err(TemplateFault::Bad(format!(
                    "function {function:?} is not defined for {} arguments",
                    arguments.len()
                )));
            }
        })
    }
}

/// What a layout of Go names a part of a time by, with the same for `strftime`; of two that begin alike the longer one comes first.
const LAYOUT: [(&str, &str); 28] = [
    ("January", "%B"),
    ("Monday", "%A"),
    ("-07:00", "+00:00"),
    ("Z07:00", "Z"),
    ("-0700", "+0000"),
    ("Z0700", "Z"),
    ("_2006", "_%Y"),
    ("2006", "%Y"),
    ("-07", "+00"),
    ("Jan", "%b"),
    ("MST", "UTC"),
    ("Mon", "%a"),
    ("002", "%j"),
    ("01", "%m"),
    ("02", "%d"),
    ("03", "%I"),
    ("04", "%M"),
    ("05", "%S"),
    ("06", "%y"),
    ("15", "%H"),
    ("PM", "%p"),
    ("pm", "%P"),
    ("_2", "%e"),
    ("1", "%-m"),
    ("2", "%-d"),
    ("3", "%-I"),
    ("4", "%-M"),
    ("5", "%-S"),
];

/// A time in UTC by a layout of Go, such as `2006-01-02T15:04:05Z`.
fn time_by_layout(layout: &str, now: Timestamp) -> String {
    let now = now.to_zoned(TimeZone::UTC);
    let mut out = String::new();
    let mut rest = layout;
    while let Some(c) = rest.chars().next() {
        match LAYOUT.iter().find(|(part, _)| rest.starts_with(part)) {
            Some((part, format)) => {
                out.push_str(&now.strftime(format).to_string());
                rest = &rest[part.len()..];
            }
            None => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    out
}

/// A format in which `%s`, `%d` and `%v` stand for the values in their order.
fn print(format: &str, values: &[String]) -> Result<String, TemplateFault> {
    let mut out = String::new();
    let (mut chars, mut values) = (format.chars(), values.iter());
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('s' | 'd' | 'v') => match values.next() {
                Some(value) => out.push_str(value),
                None => return Err(TemplateFault::Bad("printf: too few values".into())),
            },
            Some('%') => out.push('%'),
            _ => return Err(TemplateFault::Bad("printf: only %s, %d and %v".into())),
        }
    }
    match values.next() {
        Some(_) => Err(TemplateFault::Bad("printf: too many values".into())),
        None => Ok(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(template: &str) -> Result<String, Error> {
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        let random: &dyn Random = &Constant(7);
        make(
            template,
            &UsernameFacts { display_name: "userpass-bob", role_name: "app", now, random },
        )
    }

    #[test]
    fn the_templates_of_the_field_make_the_names_that_they_say() {
        for (template, expected) in [
            ("v-{{.RoleName | truncate 8}}-{{random 6 | lowercase}}", "v-app-hhhhhh"),
            (
                "{{ printf \"v-%s-%s-%s-%s\" (.DisplayName | truncate 8) (.RoleName | truncate 8) (random 20) (unix_time) | truncate 63 }}",
                "v-userpass-app-HHHHHHHHHHHHHHHHHHHH-1700000000",
            ),
            ("{{.DisplayName | replace \"userpass-\" \"\" | uppercase}}", "BOB"),
            ("x{{unix_time_millis}}", "x1700000000000"),
            ("{{timestamp \"2006-01-02T15:04:05Z\"}}", "2023-11-14T22_13_20Z"),
            ("{{timestamp \"20060102150405\"}}", "20231114221320"),
            ("{{timestamp \"v_2006_01_02_15\"}}", "v_2023_11_14_22"),
            ("{{timestamp \"Mon Jan _2 3.04PM 06 MST\" | lowercase}}", "tue_nov_14_10.13pm_23_utc"),
            ("{{\"it's; --\"}}", "it_s__--"),
            ("{{.RoleName | base64}}-{{.RoleName | hex}}", "YXBw-617070"),
            ("{{.DisplayName | truncate_sha256 12}}", "userpass-bob"),
            ("{{.DisplayName | truncate_sha256 11}}", "use99027acf"),
            ("{{.DisplayName | truncate_sha256 9}}", "u99027acf"),
            ("{{.RoleName | truncate_sha256 3}}", "app"),
            ("{{printf \"%s%%\" .RoleName}}", "app_"),
        ] {
            assert_eq!(made(template).unwrap(), expected, "{template}");
        }
    }

    #[test]
    fn a_template_makes_another_name_each_time() {
        for good in [
            "{{random 8}}",
            "v-{{.RoleName}}-{{unix_time}}",
            "x{{unix_time_millis}}",
            "{{timestamp \"2006-01-02-150405\"}}",
            "{{uuid}}",
            "{{printf \"%s-%s\" .DisplayName (random 4) | lowercase}}",
            "{{random 8 | sha256 | truncate 4}}",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "fixed",
            "{{.RoleName}}",
            "v-{{.DisplayName}}-{{.RoleName | sha256}}",
            "{{printf \"%s%s\" .RoleName (random 20) | truncate 4}}",
            "{{unix_time | truncate 9}}",
            "{{timestamp \"2006-01-02\"}}",
            "{{",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_template_that_cannot_be_read_is_refused() {
        for template in [
            "",
            "{{",
            "{{.Nope}}",
            "{{random}}",
            "{{random 0}}",
            "{{random 99999}}",
            "{{nope 1}}",
            "{{printf \"%s\"}}",
            "{{printf \"%x\" .RoleName}}",
            "{{(.RoleName}}",
            "{{.RoleName ) }}",
            "{{\"a}}",
            "{{truncate_sha256 3 .DisplayName}}",
            "{{truncate_sha256 8 .DisplayName}}",
            "{{.RoleName | replace \"\" \"x\"}}",
        ] {
            let refused = made(template).unwrap_err().to_string();
            assert!(refused.starts_with("unable to parse template: "), "{template}: {refused}");
        }
        let deep = format!("{{{{{}.RoleName{}}}}}", "(".repeat(99), ")".repeat(99));
        assert!(made(&deep).is_err());
    }

    #[test]
    fn a_template_is_as_long_as_it_may_and_makes_some_name() {
        let of = |bytes: usize| format!("{{{{.RoleName{}}}}}", " ".repeat(bytes - 13));
        assert_eq!(made(&of(TEMPLATE_BYTES_MAX)).unwrap(), "app");
        let longer = made(&of(TEMPLATE_BYTES_MAX + 1)).unwrap_err().to_string();
        assert!(longer.ends_with("longer than 1024 bytes"), "{longer}");
        let empty = made("{{.RoleName | replace \"app\" \"\"}}").unwrap_err().to_string();
        assert!(empty.ends_with("it makes an empty name"), "{empty}");
        assert!(check_readable("{{.RoleName}}").is_ok() && check_readable("{{").is_err());
    }

    /// The first of these bytes would make some letters likelier than others.
    struct Halves;

    impl Random for Halves {
        fn fill(&self, bytes: &mut [u8]) -> Result<(), Error> {
            let half = bytes.len() / 2;
            bytes[..half].fill(248);
            bytes[half..].fill(1);
            Ok(())
        }
    }

    #[test]
    fn random_text_is_as_long_as_it_is_asked_for_and_of_fair_bytes_alone() {
        for count in [0, 1, 31, 64, 70, 130] {
            assert_eq!(random_text(&Halves, count).unwrap(), "B".repeat(count), "{count}");
        }
    }
}
