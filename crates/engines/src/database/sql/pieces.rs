//! The pieces of a statement, as a plain reader of its dialect finds them: what [`super::fill`] is compared with.
//!
//! It looks at the whole text and knows nothing of places. Words, literals, names and comments are one piece each, whatever they hold.

use super::SqlDialect;
use super::scanner::CONDITIONAL_COMMENTS;

/// One piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Word,
    Literal,
    QuotedName,
    Comment,
    DollarQuoted,
    Sign(char),
    /// It is begun and has no end.
    Open,
}

/// What a server does with a comment that says who is to run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConditionalReading {
    /// It runs it.
    Run,
    /// Its version is not meant; a comment may stand inside.
    Skip,
    /// It knows nothing of such comments.
    Comment,
}

/// The pieces of a text for each server that reads the dialect.
pub(super) fn readings(text: &str, dialect: SqlDialect) -> Vec<Vec<Piece>> {
    let all = [ConditionalReading::Run, ConditionalReading::Skip, ConditionalReading::Comment];
    all.into_iter().map(|reading| of(text, dialect, reading)).collect()
}

/// The pieces of a text.
fn of(text: &str, dialect: SqlDialect, reading: ConditionalReading) -> Vec<Piece> {
    let mut rest = text;
    let mut is_run = false;
    let mut pieces = Vec::new();
    let mut word = "";
    // What follows the last literal with escapes.
    let mut gap: Option<&str> = None;
    while let Some(c) = rest.chars().next() {
        let (piece, length) = match dialect {
            SqlDialect::Postgres => {
                let is_joined = gap.is_some_and(|gap| joins(&gap[..gap.len() - rest.len()]));
                let word = if is_joined { "E" } else { word };
                let found = next_of_postgres(rest, c, word);
                if found.0 == Piece::Literal {
                    gap = matches!(word, "e" | "E").then(|| &rest[found.1..]);
                }
                found
            }
            SqlDialect::Mysql if is_run && rest.starts_with("*/") => {
                is_run = false;
                (Piece::Sign('*'), 2)
            }
            SqlDialect::Mysql if is_conditional(rest) && reading == ConditionalReading::Run => {
                is_run = true;
                (Piece::Sign('!'), 2)
            }
            SqlDialect::Mysql => next_of_mysql(rest, c, reading),
        };
        let length = if piece == Piece::Open { rest.len() } else { length };
        word = if piece == Piece::Word { &rest[..length] } else { "" };
        if !c.is_whitespace() || piece != Piece::Sign(c) {
            pieces.push(piece);
        }
        rest = &rest[length..];
    }
    pieces
}

fn next_of_postgres(rest: &str, c: char, word: &str) -> (Piece, usize) {
    let ends = |length: Option<usize>, piece| length.map_or((Piece::Open, 0), |at| (piece, at));
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    let is_word = |c: char| is_start(c) || c.is_ascii_digit() || c == '$';
    match c {
        '-' if rest.starts_with("--") => line(rest, &['\n', '\r']),
        '/' if rest.starts_with("/*") => ends(nested_comment(rest), Piece::Comment),
        '\'' if matches!(word, "e" | "E") => ends(quoted(rest, '\'', true), Piece::Literal),
        '\'' => ends(quoted(rest, '\'', false), Piece::Literal),
        '"' => ends(quoted(rest, '"', false), Piece::QuotedName),
        '$' => {
            let tag = rest[1..].find('$').map(|at| &rest[..at + 2]);
            let is_tag = |tag: &&str| {
                let name = &tag[1..tag.len() - 1];
                name.chars().all(|c| is_word(c) && c != '$')
                    && !name.starts_with(|c: char| c.is_ascii_digit())
            };
            match tag.filter(is_tag) {
                None => (Piece::Sign('$'), 1),
                Some(tag) => {
                    let end = rest[tag.len()..].find(tag).map(|at| at + 2 * tag.len());
                    ends(end, Piece::DollarQuoted)
                }
            }
        }
        // What follows the digits of a number begins anew.
        c if c.is_ascii_digit() => {
            (Piece::Word, rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()))
        }
        c if is_start(c) => (Piece::Word, rest.find(|c| !is_word(c)).unwrap_or(rest.len())),
        c => (Piece::Sign(c), c.len_utf8()),
    }
}

fn is_conditional(rest: &str) -> bool {
    CONDITIONAL_COMMENTS.iter().any(|opening| rest.starts_with(opening))
}

fn next_of_mysql(rest: &str, c: char, reading: ConditionalReading) -> (Piece, usize) {
    let ends = |length: Option<usize>, piece| length.map_or((Piece::Open, 0), |at| (piece, at));
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii();
    let is_blank = |c: char| c.is_ascii_whitespace() || c.is_ascii_control();
    match c {
        '#' => line(rest, &['\n']),
        '-' if rest.strip_prefix("--").is_some_and(|after| after.starts_with(is_blank)) => {
            line(rest, &['\n'])
        }
        '/' if is_conditional(rest) && reading == ConditionalReading::Skip => {
            ends(skipped_comment(rest), Piece::Comment)
        }
        '/' if rest.starts_with("/*") => {
            ends(rest[2..].find("*/").map(|at| at + 4), Piece::Comment)
        }
        '\'' => ends(quoted(rest, '\'', true), Piece::Literal),
        '"' => ends(quoted(rest, '"', true), Piece::QuotedName),
        '`' => ends(quoted(rest, '`', false), Piece::QuotedName),
        c if is_word(c) => (Piece::Word, rest.find(|c| !is_word(c)).unwrap_or(rest.len())),
        c => (Piece::Sign(c), c.len_utf8()),
    }
}

fn line(rest: &str, ends: &[char]) -> (Piece, usize) {
    (Piece::Comment, rest.find(ends).map_or(rest.len(), |at| at + 1))
}

/// Whether PostgreSQL joins two literals with this between them.
fn joins(gap: &str) -> bool {
    let mut rest = gap;
    let mut breaks = false;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '-' if rest.starts_with("--") => match rest.find(['\n', '\r']) {
                Some(end) => end,
                None => return false,
            },
            ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c' => 1,
            _ => return false,
        };
        breaks |= matches!(c, '\n' | '\r');
        rest = &rest[length..];
    }
    breaks
}

/// The length of a quoted part with both its quotes.
fn quoted(rest: &str, quote: char, escapes: bool) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if escapes && c == '\\' {
            chars.next();
        } else if c == quote && chars.next_if(|(_, next)| *next == quote).is_none() {
            return Some(at + quote.len_utf8());
        }
    }
    None
}

fn nested_comment(rest: &str) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        let (length, open) = match &rest[at..] {
            text if text.starts_with("/*") => (2, 1),
            text if text.starts_with("*/") => (2, -1),
            text => (text.chars().next()?.len_utf8(), 0),
        };
        depth = depth.checked_add_signed(open)?;
        at += length;
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// The length of a comment with others in it, which have none.
fn skipped_comment(rest: &str) -> Option<usize> {
    let mut at = 2;
    loop {
        let end = rest[at..].find("*/")?;
        match rest[at..at + end].find("/*") {
            None => return Some(at + end + 2),
            Some(inner) => {
                let inner = at + inner + 2;
                at = inner + rest[inner..].find("*/")? + 2;
            }
        }
    }
}
