//! One line as a command. Pure: no store, no terminal.
//!
//! Words are separated by blanks; a verb may be written in any case. The value of `PUT` is the rest of the line behind one
//! blank, every byte of it. A path may start and end with a slash, which says nothing; a key is one segment.

use kallisto_securedb::WriteDurability;

use super::loglevel::ExecLogLevel;
use clap::ValueEnum;

/// What there is to say, in the order of `HELP`: the verb, its arguments, what it does.
pub(super) const VERBS: [(&str, &str, &str); 11] = [
    ("PUT", "PATH KEY VALUE", "set a key; the value is the rest of the line"),
    (
        "GET",
        "PATH [KEY]",
        "print the value or (nil); without a key all of the path's, as KEY=VALUE",
    ),
    ("DEL", "PATH KEY", "remove a key"),
    ("LIST", "[PATH]", "print what is below a path; folders end in a slash"),
    ("SAVE", "", "return when everything so far is on the disk"),
    ("MODE", "[STRICT|BATCH]", "when writes are on the disk; also IMMEDIATE and PERF"),
    ("BENCH", "COUNT", "write, read back and remove so many keys, and say how fast"),
    ("STATS", "", "print numbers about the store"),
    ("LOGLEVEL", "[LEVEL]", "what is logged to standard error: error, warn, info, debug, off"),
    ("HELP", "", "print this"),
    ("EXIT", "", "save and leave; also QUIT"),
];

/// Most keys of one `BENCH`.
const BENCH_MAX: u32 = 10_000_000;

/// What a line asks for. Paths have no slash at either end; the root is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExecCommand<'a> {
    /// Set a key.
    Put { path: &'a str, key: &'a str, value: &'a [u8] },
    /// Print one key or all of a path.
    Get { path: &'a str, key: Option<&'a str> },
    /// Remove a key.
    Delete { path: &'a str, key: &'a str },
    /// Print what is below a path.
    List { path: &'a str },
    /// Make everything durable.
    Save,
    /// Change or print the durability.
    Mode(Option<WriteDurability>),
    /// Measure.
    Bench(u32),
    /// Change or print the level of logging.
    Level(Option<ExecLogLevel>),
    /// Print numbers.
    Stats,
    /// Print the verbs.
    Help,
    /// Leave.
    Exit,
}

/// Why a line is no command. The text never quotes the line: it may hold a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExecLineError(pub(super) &'static str);

/// The command of a line; `None` if it is empty or a comment.
pub(super) fn parse(line: &[u8]) -> Result<Option<ExecCommand<'_>>, ExecLineError> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (verb, rest) = word(line);
    if verb.is_empty() || verb.starts_with(b"#") {
        return Ok(None);
    }
    let verb = verb.to_ascii_uppercase();
    if verb == b"PUT" {
        return put(rest).map(Some);
    }
    let words = LineWords::of(rest)?;
    let command = match (verb.as_slice(), words.all()) {
        (b"GET", [path]) => ExecCommand::Get { path: path_of(path)?, key: None },
        (b"GET", [path, key]) => ExecCommand::Get { path: path_of(path)?, key: Some(key_of(key)?) },
        (b"GET", _) => return Err(ExecLineError("GET PATH [KEY]")),
        (b"DEL", [path, key]) => ExecCommand::Delete { path: path_of(path)?, key: key_of(key)? },
        (b"DEL", _) => return Err(ExecLineError("DEL PATH KEY")),
        (b"LIST", []) => ExecCommand::List { path: "" },
        (b"LIST", [path]) => ExecCommand::List { path: trim(path) },
        (b"LIST", _) => return Err(ExecLineError("LIST [PATH]")),
        (b"SAVE", []) => ExecCommand::Save,
        (b"MODE", []) => ExecCommand::Mode(None),
        (b"MODE", [mode]) => ExecCommand::Mode(Some(mode_of(mode)?)),
        (b"MODE", _) => return Err(ExecLineError("MODE [STRICT|IMMEDIATE|BATCH|PERF]")),
        (b"BENCH", [count]) => ExecCommand::Bench(count_of(count)?),
        (b"BENCH", _) => return Err(ExecLineError("BENCH COUNT")),
        (b"LOGLEVEL", []) => ExecCommand::Level(None),
        (b"LOGLEVEL", [level]) => ExecCommand::Level(Some(level_of(level)?)),
        (b"LOGLEVEL", _) => return Err(ExecLineError("LOGLEVEL [error|warn|info|debug|off]")),
        (b"STATS", []) => ExecCommand::Stats,
        (b"HELP", _) => ExecCommand::Help,
        (b"EXIT" | b"QUIT", []) => ExecCommand::Exit,
        (b"SAVE" | b"STATS" | b"EXIT" | b"QUIT", _) => {
            return Err(ExecLineError("that verb stands alone"));
        }
        _ => return Err(ExecLineError("no such verb; HELP prints them")),
    };
    Ok(Some(command))
}

fn put(rest: &[u8]) -> Result<ExecCommand<'_>, ExecLineError> {
    const USAGE: ExecLineError = ExecLineError("PUT PATH KEY VALUE");
    let (path, rest) = word(rest);
    let (key, rest) = word(rest);
    let value = rest.strip_prefix(b" ").or_else(|| rest.strip_prefix(b"\t")).ok_or(USAGE)?;
    let (path, key) = (path_of(text(path)?)?, key_of(text(key)?)?);
    Ok(ExecCommand::Put { path, key, value })
}

/// The first word and what is behind it.
fn word(bytes: &[u8]) -> (&[u8], &[u8]) {
    let bytes = bytes.trim_ascii_start();
    let end = bytes.iter().position(u8::is_ascii_whitespace).unwrap_or(bytes.len());
    bytes.split_at(end)
}

/// At most three words: no verb takes more, so more are a mistake of their own.
struct LineWords<'a> {
    words: [&'a str; 3],
    count: usize,
}

impl<'a> LineWords<'a> {
    fn of(mut rest: &'a [u8]) -> Result<Self, ExecLineError> {
        let mut all = Self { words: [""; 3], count: 0 };
        while all.count < all.words.len() {
            let (next, behind) = word(rest);
            if next.is_empty() {
                break;
            }
            all.words[all.count] = text(next)?;
            all.count += 1;
            rest = behind;
        }
        Ok(all)
    }

    fn all(&self) -> &[&'a str] {
        &self.words[..self.count]
    }
}

fn text(bytes: &[u8]) -> Result<&str, ExecLineError> {
    std::str::from_utf8(bytes).map_err(|_| ExecLineError("paths and keys are UTF-8"))
}

fn trim(path: &str) -> &str {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.strip_suffix('/').unwrap_or(path)
}

fn path_of(path: &str) -> Result<&str, ExecLineError> {
    match trim(path) {
        "" => Err(ExecLineError("the path is empty")),
        path => Ok(path),
    }
}

fn key_of(key: &str) -> Result<&str, ExecLineError> {
    match key {
        "" => Err(ExecLineError("the key is missing")),
        key if key.contains('/') => Err(ExecLineError("a key is one segment: it has no slash")),
        key => Ok(key),
    }
}

fn mode_of(mode: &str) -> Result<WriteDurability, ExecLineError> {
    let mode = super::TypedSyncMode::from_str(mode, true)
        .map_err(|_| ExecLineError("a mode is STRICT, IMMEDIATE, BATCH or PERF"))?;
    Ok(mode.durability())
}

fn level_of(level: &str) -> Result<ExecLogLevel, ExecLineError> {
    ExecLogLevel::from_str(level, true)
        .map_err(|_| ExecLineError("a level is error, warn, info, debug or off"))
}

fn count_of(count: &str) -> Result<u32, ExecLineError> {
    let count = count.parse().ok().filter(|count| (1..=BENCH_MAX).contains(count));
    count.ok_or(ExecLineError("COUNT is a number from 1 to 10,000,000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_read_in_any_case() {
        for line in ["get a b", "GET a b", "gEt  a\tb ", " get /a/ b\r"] {
            let expected = ExecCommand::Get { path: "a", key: Some("b") };
            assert_eq!(parse(line.as_bytes()), Ok(Some(expected)), "{line:?}");
        }
        for (line, command) in [
            ("save", ExecCommand::Save),
            ("quit", ExecCommand::Exit),
            ("Exit", ExecCommand::Exit),
            ("mode perf", ExecCommand::Mode(Some(WriteDurability::Batch))),
            ("MODE Immediate", ExecCommand::Mode(Some(WriteDurability::Strict))),
            ("mode", ExecCommand::Mode(None)),
            ("bench 1000", ExecCommand::Bench(1_000)),
            ("list", ExecCommand::List { path: "" }),
            ("list a/b/", ExecCommand::List { path: "a/b" }),
            ("loglevel DEBUG", ExecCommand::Level(Some(ExecLogLevel::Debug))),
        ] {
            assert_eq!(parse(line.as_bytes()), Ok(Some(command)), "{line}");
        }
    }

    #[test]
    fn a_value_is_the_rest_of_the_line_byte_for_byte() {
        for (line, value) in [
            (&b"PUT a/b k v"[..], &b"v"[..]),
            (b"put a/b k correct horse  battery ", b"correct horse  battery "),
            (b"put a/b k  v", b" v"),
            (b"put a/b k ", b""),
            (b"put a/b k # no comment", b"# no comment"),
            (b"put a/b k \xff\x00\r", b"\xff\x00"),
        ] {
            assert_eq!(parse(line), Ok(Some(ExecCommand::Put { path: "a/b", key: "k", value })));
        }
    }

    #[test]
    fn blank_lines_and_comments_are_nothing() {
        for line in ["", "  ", "\r", "# put a b c", "   #"] {
            assert_eq!(parse(line.as_bytes()), Ok(None));
        }
    }

    #[test]
    fn mistakes_say_how_it_goes_and_do_not_quote_the_line() {
        for line in [
            "bogus",
            "PUT",
            "PUT a",
            "PUT a k",
            "PUT / k v",
            "PUT a k/l v",
            "GET",
            "GET a b c",
            "DEL a",
            "DEL a b c",
            "LIST a b",
            "SAVE now",
            "MODE fast",
            "MODE strict now",
            "BENCH",
            "BENCH 0",
            "BENCH -1",
            "BENCH 10000001",
            "LOGLEVEL loud",
            "EXIT 1",
        ] {
            let Err(ExecLineError(text)) = parse(line.as_bytes()) else { panic!("{line}") };
            assert!(!text.is_empty());
        }
        assert!(parse(b"GET \xff k").is_err());
    }
}
