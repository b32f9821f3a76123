//! What a Redis client sends: a command as an array of bulk strings, or as one line of text.
//!
//! Both forms are those of the protocol's specification (redis.io, "Redis serialization protocol
//! specification", sections "Sending commands" and "Inline commands"). Arguments stay where they are in
//! the input: a command is a list of ranges. Only a line with quotes is changed, in place ([`unquote`]). Sizes are checked before
//! anything is kept for them.
//!
//! The parser may be called again with more input after it answered [`ParsedInput::More`]; it starts over. A large argument is
//! skipped, not looked at, since lengths are announced, but there may be many. So a caller keeps how far a part was looked at
//! ([`SeenPart`]) and goes on there ([`look_on`]) until the command is whole: then its ranges are found, all in one go. How much is
//! announced is returned, so that a caller has room for that much before asking again.

use std::ops::Range;

use memchr::{memchr, memchr2};

/// Most arguments of one command.
pub const ARGUMENTS_MAX: usize = 1 << 16;
/// Longest argument, in bytes.
pub const ARGUMENT_BYTES_MAX: usize = 16 << 20;
/// Longest command sent as a line, or line that announces a length, in bytes.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// Longest command, in bytes.
pub const COMMAND_BYTES_MAX: usize = 32 << 20;
/// Most arguments of a command of a client that did not say who it is, as in Redis.
pub const STRANGER_ARGUMENTS_MAX: usize = 10;
/// Longest argument of such a command, in bytes, as in Redis.
pub const STRANGER_ARGUMENT_BYTES_MAX: usize = 16 << 10;

/// Where in the input the arguments of a command are; the first is its name.
pub type Ranges = Vec<Range<usize>>;

/// What the input starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParsedInput {
    /// A whole command, so many bytes long. Without arguments it is an empty line, which is ignored.
    Command(usize),
    /// A line with quotes in it, so many bytes long, of which [`unquote`] makes a command.
    Quoted(usize),
    /// A part of one that is at least so many bytes long.
    More(usize),
}

/// Why the input is no command; the connection cannot go on, since where the next one starts is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MalformedCommand {
    /// The number of arguments is none, or over [`ARGUMENTS_MAX`].
    ArgumentCount,
    /// The length of an argument is none, or over [`ARGUMENT_BYTES_MAX`].
    ArgumentLength,
    /// An argument does not start with `$`.
    ArgumentMark,
    /// A line is over [`LINE_BYTES_MAX`].
    LongLine,
    /// The whole is over [`COMMAND_BYTES_MAX`].
    LongCommand,
    /// A quote that is never closed, or is closed inside a word.
    Quotes,
    /// The number of arguments is over [`STRANGER_ARGUMENTS_MAX`].
    StrangerCount,
    /// The length of an argument is over [`STRANGER_ARGUMENT_BYTES_MAX`].
    StrangerLength,
}

/// How far a part of a command was looked at: the next look goes on there, however few bytes came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenPart {
    /// Arguments that are whole.
    arguments: usize,
    /// Where the next one begins.
    at: usize,
}

impl SeenPart {
    /// The part of which [`parse`] answered [`ParsedInput::More`] with these ranges.
    pub fn of(ranges: &Ranges) -> Self {
        Self { arguments: ranges.len(), at: ranges.last().map_or(0, |last| last.end + 2) }
    }
}

/// Who sends a command: what it may be at the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandSender {
    /// Somebody who said who it is.
    Known,
    /// Anybody: all that is of use is a login, which is small.
    Stranger,
}

impl MalformedCommand {
    /// The words that Redis has for it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::ArgumentCount => "invalid multibulk length",
            Self::ArgumentLength => "invalid bulk length",
            Self::ArgumentMark => "expected '$'",
            Self::LongLine => "too big inline request",
            Self::LongCommand => "too big request",
            Self::Quotes => "unbalanced quotes in request",
            Self::StrangerCount => "unauthenticated multibulk length",
            Self::StrangerLength => "unauthenticated bulk length",
        }
    }
}

/// Finds the command of somebody known that `input` starts with; its arguments replace what is in `ranges`.
///
/// # Errors
/// [`MalformedCommand`] when no continuation can make it one.
pub fn parse(input: &[u8], ranges: &mut Ranges) -> Result<ParsedInput, MalformedCommand> {
    parse_of(CommandSender::Known, input, ranges)
}

/// The same for a command of whoever sent it.
///
/// # Errors
/// As [`parse`], and when it is larger than this one may send.
pub fn parse_of(
    sender: CommandSender,
    input: &[u8],
    ranges: &mut Ranges,
) -> Result<ParsedInput, MalformedCommand> {
    ranges.clear();
    match input.first() {
        None => Ok(ParsedInput::More(1)),
        Some(b'*') => parse_array(sender, input, ranges),
        Some(_) => parse_line(input, ranges),
    }
}

/// Looks on at a command of which a part was seen; how many bytes it is at least, or `None` when [`parse_of`] has more to say of it.
///
/// # Errors
/// As [`parse_of`].
pub fn look_on(
    sender: CommandSender,
    input: &[u8],
    seen: &mut SeenPart,
) -> Result<Option<usize>, MalformedCommand> {
    if seen.arguments == 0 {
        return Ok(None);
    }
    let Some((count, _)) = array_of(sender, input)? else { return Ok(None) };
    while seen.arguments < count {
        match argument(sender, input, seen.at)? {
            FoundArgument::Whole(range) => {
                *seen = SeenPart { arguments: seen.arguments + 1, at: range.end + 2 };
            }
            FoundArgument::More(wanted) => return Ok(Some(wanted)),
        }
    }
    Ok(None)
}

fn parse_array(
    sender: CommandSender,
    input: &[u8],
    ranges: &mut Ranges,
) -> Result<ParsedInput, MalformedCommand> {
    let Some((count, mut at)) = array_of(sender, input)? else {
        return Ok(ParsedInput::More(input.len() + 1));
    };
    for _ in 0..count {
        match argument(sender, input, at)? {
            FoundArgument::Whole(range) => {
                at = range.end + 2;
                ranges.push(range);
            }
            FoundArgument::More(wanted) => return Ok(ParsedInput::More(wanted)),
        }
    }
    Ok(ParsedInput::Command(at))
}

/// How many arguments an array has, and where the first begins; `None` when the line that says so has no end yet.
fn array_of(
    sender: CommandSender,
    input: &[u8],
) -> Result<Option<(usize, usize)>, MalformedCommand> {
    let Some((count, at)) = announced(input, 1, MalformedCommand::ArgumentCount)? else {
        return Ok(None);
    };
    // Redis takes a count of zero or less for nothing at all.
    let count = usize::try_from(count).unwrap_or(0);
    if count > ARGUMENTS_MAX {
        return Err(MalformedCommand::ArgumentCount);
    }
    if sender == CommandSender::Stranger && count > STRANGER_ARGUMENTS_MAX {
        return Err(MalformedCommand::StrangerCount);
    }
    Ok(Some((count, at)))
}

/// What begins where an argument is to.
enum FoundArgument {
    /// One, which is all there.
    Whole(Range<usize>),
    /// A part of one: with it the command is at least so many bytes long.
    More(usize),
}

fn argument(
    sender: CommandSender,
    input: &[u8],
    at: usize,
) -> Result<FoundArgument, MalformedCommand> {
    match input.get(at) {
        None => return Ok(FoundArgument::More(at + 1)),
        Some(b'$') => {}
        Some(_) => return Err(MalformedCommand::ArgumentMark),
    }
    let Some((length, start)) = announced(input, at + 1, MalformedCommand::ArgumentLength)? else {
        return Ok(FoundArgument::More(input.len() + 1));
    };
    let length = usize::try_from(length).map_err(|_| MalformedCommand::ArgumentLength)?;
    if length > ARGUMENT_BYTES_MAX {
        return Err(MalformedCommand::ArgumentLength);
    }
    if sender == CommandSender::Stranger && length > STRANGER_ARGUMENT_BYTES_MAX {
        return Err(MalformedCommand::StrangerLength);
    }
    let end = start + length;
    if end > COMMAND_BYTES_MAX {
        return Err(MalformedCommand::LongCommand);
    }
    let is_whole = input.len() >= end + 2;
    Ok(if is_whole { FoundArgument::Whole(start..end) } else { FoundArgument::More(end + 2) })
}

/// The number on the line from `start`, and where the next line starts; `None` when it has no end
/// yet.
fn announced(
    input: &[u8],
    start: usize,
    malformed: MalformedCommand,
) -> Result<Option<(i64, usize)>, MalformedCommand> {
    // Longer than any number that is taken.
    const DIGITS_MAX: usize = 20;
    let line = &input[start..];
    let window = &line[..line.len().min(DIGITS_MAX + 2)];
    let Some(end) = memchr(b'\r', window) else {
        return if line.len() > DIGITS_MAX { Err(malformed) } else { Ok(None) };
    };
    match line.get(end + 1) {
        None => return Ok(None),
        Some(b'\n') => {}
        Some(_) => return Err(malformed),
    }
    let number = decimal(&line[..end]).ok_or(malformed)?;
    Ok(Some((number, start + end + 2)))
}

fn decimal(text: &[u8]) -> Option<i64> {
    // One digit or two is what nearly every length has.
    match text {
        [one @ b'0'..=b'9'] => Some(i64::from(one - b'0')),
        [ten @ b'1'..=b'9', one @ b'0'..=b'9'] => {
            Some(i64::from(ten - b'0') * 10 + i64::from(one - b'0'))
        }
        [b'+', ..] => None,
        _ => std::str::from_utf8(text).ok()?.parse().ok(),
    }
}

/// A command typed as a line, if its words stand in it as they are.
fn parse_line(input: &[u8], ranges: &mut Ranges) -> Result<ParsedInput, MalformedCommand> {
    let window = &input[..input.len().min(LINE_BYTES_MAX)];
    let Some(end) = memchr(b'\n', window) else {
        let full = input.len() >= LINE_BYTES_MAX;
        return if full {
            Err(MalformedCommand::LongLine)
        } else {
            Ok(ParsedInput::More(input.len() + 1))
        };
    };
    let line = &input[..end];
    if memchr2(b'"', b'\'', line).is_some() {
        return Ok(ParsedInput::Quoted(end + 1));
    }
    let mut at = 0;
    while let Some(skip) = line[at..].iter().position(|byte| !byte.is_ascii_whitespace()) {
        let start = at + skip;
        let length = line[start..].iter().position(u8::is_ascii_whitespace);
        at = length.map_or(end, |length| start + length);
        add(ranges, start..at)?;
    }
    Ok(ParsedInput::Command(end + 1))
}

fn add(ranges: &mut Ranges, word: Range<usize>) -> Result<(), MalformedCommand> {
    if ranges.len() == ARGUMENTS_MAX {
        return Err(MalformedCommand::ArgumentCount);
    }
    ranges.push(word);
    Ok(())
}

/// Takes the quotes and escapes out of a line, [`ParsedInput::Quoted`], as Redis does: `\n`, `\r`, `\t`, `\a`, `\b`, `\xHH`
/// and any other character behind a backslash between `"`, and `\'` between `'`. Its words are then in its front, which no
/// word grows by, and where they are replaces what is in `ranges`.
///
/// # Errors
/// [`MalformedCommand::Quotes`] when a quote has no end, or ends inside a word.
pub fn unquote(line: &mut [u8], ranges: &mut Ranges) -> Result<(), MalformedCommand> {
    ranges.clear();
    let (mut at, mut end) = (0, 0);
    while let Some(skip) = line[at..].iter().position(|byte| !byte.is_ascii_whitespace()) {
        let start = end;
        (at, end) = unquote_word(line, at + skip, start)?;
        add(ranges, start..end)?;
    }
    Ok(())
}

/// Moves the word at `at` to `to`; what comes behind both.
fn unquote_word(
    line: &mut [u8],
    mut at: usize,
    mut to: usize,
) -> Result<(usize, usize), MalformedCommand> {
    let mut quote = None;
    while let Some(&byte) = line.get(at) {
        let (character, length) = match quote {
            None if byte.is_ascii_whitespace() => return Ok((at, to)),
            None if matches!(byte, b'"' | b'\'') => {
                quote = Some(byte);
                at += 1;
                continue;
            }
            Some(mark) if byte == mark => {
                let is_end = line.get(at + 1).is_none_or(u8::is_ascii_whitespace);
                return if is_end { Ok((at + 1, to)) } else { Err(MalformedCommand::Quotes) };
            }
            Some(b'"') if byte == b'\\' => escaped(&line[at + 1..]),
            Some(b'\'') if line[at..].starts_with(b"\\'") => (b'\'', 2),
            _ => (byte, 1),
        };
        line[to] = character;
        at += length;
        to += 1;
    }
    if quote.is_some() { Err(MalformedCommand::Quotes) } else { Ok((at, to)) }
}

/// The character that a backslash before `rest` makes of it, and how long the two are.
fn escaped(rest: &[u8]) -> (u8, usize) {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    match *rest {
        [b'x', high, low, ..] if let (Some(high), Some(low)) = (digit(high), digit(low)) => {
            ((high << 4) | low, 4)
        }
        [b'n', ..] => (b'\n', 2),
        [b'r', ..] => (b'\r', 2),
        [b't', ..] => (b'\t', 2),
        [b'a', ..] => (7, 2),
        [b'b', ..] => (8, 2),
        [other, ..] => (other, 2),
        [] => (b'\\', 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(input: &[u8]) -> Result<Vec<&[u8]>, MalformedCommand> {
        let mut ranges = Ranges::new();
        match parse(input, &mut ranges)? {
            ParsedInput::Command(length) => assert_eq!(length, input.len()),
            other => panic!("{other:?}"),
        }
        Ok(ranges.into_iter().map(|range| &input[range]).collect())
    }

    /// The words of a line with quotes.
    fn unquoted(line: &[u8]) -> Result<Vec<Vec<u8>>, MalformedCommand> {
        let (mut ranges, mut line) = (Ranges::new(), line.to_vec());
        assert_eq!(parse(&line, &mut ranges), Ok(ParsedInput::Quoted(line.len())));
        unquote(&mut line, &mut ranges)?;
        Ok(ranges.into_iter().map(|range| line[range].to_vec()).collect())
    }

    #[test]
    fn commands_come_as_arrays_and_as_lines() {
        let get: [&[u8]; 2] = [b"GET", b"a\r\nb"];
        assert_eq!(words(b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n"), Ok(get.to_vec()));
        assert_eq!(words(b"*1\r\n$0\r\n\r\n"), Ok(vec![&b""[..]]));
        let line: [&[u8]; 3] = [b"SET", b"a\\n", b"c"];
        assert_eq!(words(b"SET a\\n \t c \r\n"), Ok(line.to_vec()));
        assert_eq!(words(b" SET a\\n c\n"), Ok(line.to_vec()));
        for nothing in [&b"\r\n"[..], b"*0\r\n", b"*-1\r\n", b" \n"] {
            assert_eq!(words(nothing), Ok(Vec::new()));
        }
    }

    /// Each as `redis-server` 7.0 reads it.
    #[test]
    fn lines_are_quoted_as_in_redis() {
        for (line, expected) in [
            (&b"SET \"a b\"  'c' \r\n"[..], &[&b"SET"[..], b"a b", b"c"][..]),
            (b"SET 'a b' c\n", &[b"SET", b"a b", b"c"]),
            (b"\"\" ''\n", &[b"", b""]),
            (b"a\"b c\" d'e f'\r\n", &[b"ab c", b"de f"]),
            (b"\"\\n\\r\\t\\a\\b\\\\\\\"\\q\"\n", &[b"\n\r\t\x07\x08\\\"q"]),
            (b"\"\\x41\\xfF\\x4g\\x\"\n", &[b"A\xffx4gx"]),
            (b"'it\\'s \\n\\\\\"'\n", &[b"it's \\n\\\\\""]),
            (b"a\\\"b\\n\"\n", &[b"a\\b\n"]),
            (b"\"'\" '\"'\n", &[b"'", b"\""]),
        ] {
            let words = unquoted(line).unwrap();
            assert_eq!(words, expected, "{}", String::from_utf8_lossy(line));
        }
        for line in [
            &b"GET \"a\n"[..],
            b"GET \"a\"b\n",
            b"GET 'a'b\r\n",
            b"GET a'\n",
            b"GET \"a\\\"\n",
            b"GET \"a\\\r\n",
            b"SET k {\"a\":1}\n",
        ] {
            assert_eq!(unquoted(line), Err(MalformedCommand::Quotes), "{line:?}");
        }
    }

    #[test]
    fn what_cannot_become_a_command_is_named() {
        for (input, malformed) in [
            (&b"*x\r\n"[..], MalformedCommand::ArgumentCount),
            (b"*65537\r\n", MalformedCommand::ArgumentCount),
            (b"*1234567890123456789012345", MalformedCommand::ArgumentCount),
            (b"*1\r\nGET", MalformedCommand::ArgumentMark),
            (b"*1\r\n$-1\r\n", MalformedCommand::ArgumentLength),
            (b"*1\r\n$+1\r\n", MalformedCommand::ArgumentLength),
            (b"*1\r\n$16777217\r\n", MalformedCommand::ArgumentLength),
            (b"*1\r\n$1\rx", MalformedCommand::ArgumentLength),
            (&[b'a'; LINE_BYTES_MAX], MalformedCommand::LongLine),
        ] {
            assert_eq!(parse(input, &mut Ranges::new()), Err(malformed), "{input:?}");
        }
    }

    #[test]
    fn a_command_is_as_large_as_its_sender_may_send() {
        let parsed = |sender, input: &str| parse_of(sender, input.as_bytes(), &mut Ranges::new());
        let (known, stranger) = (CommandSender::Known, CommandSender::Stranger);
        let more = |input: &str, bytes: usize| Ok(ParsedInput::More(input.len() + bytes));
        for (input, bytes) in [("*65536\r\n", 1), ("*1\r\n$16777216\r\n", (16 << 20) + 2)] {
            assert_eq!(parsed(known, input), more(input, bytes), "{input}");
        }
        for (input, bytes) in [("*10\r\n", 1), ("*1\r\n$16384\r\n", (16 << 10) + 2)] {
            assert_eq!(parsed(stranger, input), more(input, bytes), "{input}");
        }
        for (input, malformed) in [
            ("*11\r\n", MalformedCommand::StrangerCount),
            ("*1\r\n$16385\r\n", MalformedCommand::StrangerLength),
        ] {
            assert_eq!(parsed(stranger, input), Err(malformed));
            assert!(parsed(known, input).is_ok());
        }
    }

    #[test]
    fn all_arguments_together_are_as_large_as_a_command_may_be() {
        let first = 16 << 20;
        let begins = format!("*2\r\n${first}\r\n");
        let mut input = begins.into_bytes();
        input.resize(input.len() + first, b'x');
        input.extend_from_slice(b"\r\n");
        let left = COMMAND_BYTES_MAX - input.len() - "$16777193\r\n".len();
        let second = |length: usize| {
            let input = [&input[..], format!("${length}\r\n").as_bytes()].concat();
            parse(&input, &mut Ranges::new())
        };
        assert_eq!(second(left), Ok(ParsedInput::More(COMMAND_BYTES_MAX + 2)));
        assert_eq!(second(left + 1), Err(MalformedCommand::LongCommand));
    }

    #[test]
    fn a_length_has_as_many_digits_as_any_number_and_a_line_as_many_bytes_as_it_may() {
        let parsed = |input: &[u8]| parse(input, &mut Ranges::new());
        let digits = |count: usize| [b"*", &b"0".repeat(count)[..]].concat();
        assert_eq!(parsed(&digits(20)), Ok(ParsedInput::More(22)));
        assert_eq!(parsed(&digits(21)), Err(MalformedCommand::ArgumentCount));
        let whole = [&digits(20)[..], b"\r\n"].concat();
        assert_eq!(parsed(&whole), Ok(ParsedInput::Command(23)));
        let longer = [&digits(25)[..], b"\r\n"].concat();
        assert_eq!(parsed(&longer), Err(MalformedCommand::ArgumentCount));
        assert_eq!(parsed(b"*07\r\n"), Ok(ParsedInput::More(6)));
        assert_eq!(parsed(b"*1\r"), Ok(ParsedInput::More(4)));
        let word = |count: usize| b"a".repeat(count);
        assert_eq!(parsed(&word(LINE_BYTES_MAX - 1)), Ok(ParsedInput::More(LINE_BYTES_MAX)));
        let line = [&word(LINE_BYTES_MAX - 1)[..], b"\n"].concat();
        assert_eq!(parsed(&line), Ok(ParsedInput::Command(LINE_BYTES_MAX)));
        let longer = [&word(LINE_BYTES_MAX)[..], b"\n"].concat();
        assert_eq!(parsed(&longer), Err(MalformedCommand::LongLine));
        for (count, length) in [("10", 10), ("42", 42), ("99", 99), ("123", 123)] {
            let input = format!("*1\r\n${count}\r\n");
            assert_eq!(parsed(input.as_bytes()), Ok(ParsedInput::More(input.len() + length + 2)));
        }
    }

    #[test]
    fn a_part_is_looked_at_from_where_the_last_look_ended_and_found_to_be_the_same() {
        let mut whole = b"*204\r\n$6\r\nEXISTS\r\n".to_vec();
        (0..200).for_each(|_| whole.extend_from_slice(b"$1\r\na\r\n"));
        whole.extend_from_slice(b"$0\r\n\r\n$12\r\nhello\r\nworld\r\n$3\r\nend\r\n");
        let (mut ranges, mut seen) = (Ranges::new(), SeenPart::default());
        for end in 0..whole.len() {
            let part = &whole[..end];
            let parsed = parse(part, &mut ranges);
            let Ok(ParsedInput::More(wanted)) = parsed else { panic!("{end}: {parsed:?}") };
            match look_on(CommandSender::Known, part, &mut seen) {
                Ok(None) => assert!(ranges.len() < 2, "{end}"),
                other => assert_eq!(other, Ok(Some(wanted)), "{end}"),
            }
            if seen.arguments == 0 {
                seen = SeenPart::of(&ranges);
            }
            assert_eq!(seen, SeenPart::of(&ranges), "{end}");
        }
        assert_eq!(look_on(CommandSender::Known, &whole, &mut seen), Ok(None));
        assert_eq!((seen.arguments, seen.at), (204, whole.len()));
        // What was looked at is not looked at again.
        let mut torn = whole[..whole.len() - 4].to_vec();
        torn[40] = b'!';
        let mut seen = SeenPart { arguments: 203, at: whole.len() - 9 };
        let looked = look_on(CommandSender::Known, &torn, &mut seen);
        assert_eq!(looked, Ok(Some(whole.len())));
        // What cannot become a command is found by both.
        torn.truncate(whole.len() - 9);
        torn.extend_from_slice(b"x");
        let looked = look_on(CommandSender::Known, &torn, &mut seen);
        assert_eq!(looked, Err(MalformedCommand::ArgumentMark));
    }

    #[test]
    fn every_prefix_asks_for_more_and_never_for_more_than_there_is() {
        let whole = b"*3\r\n$3\r\nSET\r\n$11\r\nhello world\r\n$0\r\n\r\n";
        let mut ranges = Ranges::new();
        for end in 0..whole.len() {
            match parse(&whole[..end], &mut ranges) {
                Ok(ParsedInput::More(wanted)) => assert!(end < wanted && wanted <= whole.len()),
                other => panic!("{end}: {other:?}"),
            }
        }
        assert_eq!(parse(whole, &mut ranges), Ok(ParsedInput::Command(whole.len())));
    }
}
