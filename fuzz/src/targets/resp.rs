//! Commands of Redis clients: whatever the bytes, a command lies within them, a part asks for more than
//! there is, and a command written as an array is read as itself. Looks at parts of one agree.

use kallisto_listener::resp::parse::{
    ARGUMENTS_MAX, CommandSender, ParsedInput, Ranges, SeenPart, look_on, parse, unquote,
};

/// What commands are made of, and lengths that lie.
pub(crate) const WORDS: &[&[u8]] = &[
    b"*1\r\n",
    b"*2\r\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"*65537\r\n",
    b"$0\r\n\r\n",
    b"$3\r\nGET\r\n",
    b"$1\r\na\r\n",
    b"$-1\r\n",
    b"$16777217\r\n",
    b"$99999999999999999999\r\n",
    b"$00000000000000000001\r\n",
    b"GET a\r\n",
    b"SET \"a b\" 'c'\n",
    b"SET a\"\\x41\\n\\\"\" 'it\\'s'\r\n",
    b"\r\n",
    b"\"",
    b"'",
    b"\r",
    b"\n",
];

/// What patterns and strings of JSON are made of; 0xff divides a pattern from a text.
pub(crate) const TEXT_WORDS: &[&[u8]] = &[
    b"*",
    b"?",
    b"[a-c]",
    b"[^a]",
    b"[",
    b"]",
    b"^",
    b"-",
    b"\\",
    b"\\*",
    b"a",
    b"aaaa",
    b"app/",
    b"/",
    b"\xff",
    b"\\u0041",
    b"\\ud83d\\ude00",
    b"\\ud800",
    b"\\n",
    b"\xc3\xa9",
];

/// The target.
pub(crate) fn run(bytes: &[u8]) {
    let mut ranges = Ranges::new();
    let mut at = 0;
    while at < bytes.len() {
        match parse(&bytes[at..], &mut ranges) {
            Ok(ParsedInput::Command(length)) => {
                check_command(&bytes[at..], length, &ranges);
                check_part(&bytes[at..at + length]);
                at += length;
            }
            Ok(ParsedInput::Quoted(length)) => {
                let mut line = bytes[at..at + length].to_vec();
                if unquote(&mut line, &mut ranges).is_err() {
                    return;
                }
                check_command(&line, length, &ranges);
                at += length;
            }
            Ok(ParsedInput::More(wanted)) => {
                assert!(wanted > bytes.len() - at, "asks for what is there");
                let mut seen = SeenPart::of(&ranges);
                let looked = look_on(CommandSender::Known, &bytes[at..], &mut seen);
                assert_eq!(looked, Ok((!ranges.is_empty()).then_some(wanted)));
                return;
            }
            Err(malformed) => {
                assert!(!malformed.text().is_empty());
                return;
            }
        }
    }
}

/// A command of which a part was seen is whole when all of it came.
fn check_part(command: &[u8]) {
    let mut ranges = Ranges::new();
    if let Ok(ParsedInput::More(_)) = parse(&command[..command.len() / 2], &mut ranges) {
        let mut seen = SeenPart::of(&ranges);
        assert_eq!(look_on(CommandSender::Known, command, &mut seen), Ok(None));
    }
}

fn check_command(input: &[u8], length: usize, ranges: &Ranges) {
    assert!(length > 0 && length <= input.len());
    assert!(ranges.len() <= ARGUMENTS_MAX);
    let mut written = format!("*{}\r\n", ranges.len()).into_bytes();
    let mut end = 0;
    for range in ranges {
        assert!(end <= range.start && range.start <= range.end && range.end <= length);
        end = range.end;
        let argument = &input[range.clone()];
        written.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        written.extend_from_slice(argument);
        written.extend_from_slice(b"\r\n");
    }
    let mut again = Ranges::new();
    assert_eq!(parse(&written, &mut again), Ok(ParsedInput::Command(written.len())));
    let same = ranges.iter().zip(&again).all(|(a, b)| input[a.clone()] == written[b.clone()]);
    assert!(same && again.len() == ranges.len());
    for end in 0..written.len() {
        assert!(matches!(parse(&written[..end], &mut again), Ok(ParsedInput::More(n)) if n > end));
        if end > 512 {
            break;
        }
    }
}
