//! A policy's text as `policy_format` lays it out: what is assigned where, on which line, with every comment.
//!
//! `kallisto_hcl` reads what a policy means and forgets the rest. Here nothing is forgotten: words, texts and comments are kept as they were
//! written. What is not understood is no error to explain, since `kallisto_hcl` was asked before: there is no layout of it then.

use kallisto_hcl::limits::DEPTH_MAX;

/// What stands between two braces, or in the whole text; or the elements between two brackets.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LayoutBody<T> {
    pub(super) entries: Vec<T>,
    pub(super) comments: Vec<LooseComment>,
}

/// Comments on lines that follow each other, and that belong to no entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LooseComment {
    /// The number of the entry that they stand before.
    pub(super) before: usize,
    pub(super) texts: Vec<String>,
}

/// A block or an assignment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LayoutItem {
    /// Comments on the lines above it.
    pub(super) lead: Vec<String>,
    /// Its name and its labels.
    pub(super) keys: Vec<String>,
    pub(super) is_assigned: bool,
    pub(super) value: LayoutValue,
    /// The comment behind it.
    pub(super) tail: Option<String>,
    pub(super) line: usize,
}

/// What is assigned, or the body of a block.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LayoutValue {
    /// A word, a number or a text, which may have several lines.
    Literal(String),
    List {
        body: LayoutBody<LayoutElement>,
        /// Whether all elements begin on the line of the bracket.
        is_one_line: bool,
    },
    Object(LayoutBody<LayoutItem>),
}

/// An element of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LayoutElement {
    pub(super) lead: Vec<String>,
    pub(super) value: LayoutValue,
    pub(super) tail: Option<String>,
}

impl<T> Default for LayoutBody<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), comments: Vec::new() }
    }
}

impl LayoutValue {
    pub(super) fn is_heredoc(&self) -> bool {
        matches!(self, Self::Literal(text) if text.starts_with("<<"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LexemeKind {
    Comment,
    Literal,
    /// One of `{}[]=,`.
    Sign,
}

/// A part of the text, from which line to which.
#[derive(Clone, Copy, Debug)]
struct Lexeme<'t> {
    kind: LexemeKind,
    text: &'t str,
    line: usize,
    line_end: usize,
}

/// The text in its parts; `None` where one does not end.
fn lexemes(text: &str) -> Option<Vec<Lexeme<'_>>> {
    let (mut all, mut rest, mut line) = (Vec::new(), text, 1);
    loop {
        let start = rest.trim_start();
        line += rest[..rest.len() - start.len()].matches('\n').count();
        rest = start;
        let Some(first) = rest.chars().next() else { return Some(all) };
        let (kind, len) = match first {
            '{' | '}' | '[' | ']' | '=' | ',' => (LexemeKind::Sign, 1),
            '"' => (LexemeKind::Literal, string_len(rest)?),
            '<' => (LexemeKind::Literal, heredoc_len(rest)?),
            '#' => (LexemeKind::Comment, line_len(rest)),
            '/' if rest.starts_with("//") => (LexemeKind::Comment, line_len(rest)),
            '/' if rest.starts_with("/*") => (LexemeKind::Comment, rest.find("*/")? + 2),
            _ => {
                let ends = |c: char| c.is_whitespace() || "{}[]=,\"#<".contains(c);
                (LexemeKind::Literal, rest.find(ends).unwrap_or(rest.len()))
            }
        };
        let (text, after) = rest.split_at(len);
        let line_end = line + text.matches('\n').count();
        all.push(Lexeme { kind, text: text.trim_end(), line, line_end });
        (rest, line) = (after, line_end);
    }
}

fn line_len(text: &str) -> usize {
    text.find('\n').unwrap_or(text.len())
}

fn string_len(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '"' => return Some(at + 1),
            '\n' => return None,
            _ => {}
        }
    }
    None
}

/// A text of several lines, without the end of its last.
fn heredoc_len(text: &str) -> Option<usize> {
    let word = text[..line_len(text)].strip_prefix("<<")?.trim_start_matches('-').trim();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if at > 0 && line.trim() == word {
            return Some(at + line.trim_end().len());
        }
        at += line.len();
    }
    None
}

/// Reads a whole text; `None` where it is not understood.
pub(super) fn read(text: &str) -> Option<LayoutBody<LayoutItem>> {
    let all = lexemes(text)?;
    let mut reader = SyntaxReader { all: &all, at: 0 };
    let body = reader.items(0)?;
    (reader.at == all.len()).then_some(body)
}

struct SyntaxReader<'t> {
    all: &'t [Lexeme<'t>],
    at: usize,
}

impl<'t> SyntaxReader<'t> {
    fn next_is(&self, sign: &str) -> bool {
        let next = self.all.get(self.at);
        next.is_some_and(|next| next.kind == LexemeKind::Sign && next.text == sign)
    }

    fn take(&mut self, sign: &str) -> bool {
        let is_there = self.next_is(sign);
        self.at += usize::from(is_there);
        is_there
    }

    fn literal(&mut self) -> Option<Lexeme<'t>> {
        let next = self.all.get(self.at).filter(|next| next.kind == LexemeKind::Literal)?;
        self.at += 1;
        Some(*next)
    }

    /// Comments behind the last part, on its line and with nothing behind them.
    fn tail(&mut self) -> Option<String> {
        let last = self.all.get(self.at.checked_sub(1)?)?;
        let behind = self.all[self.at..].iter().take_while(|next| {
            next.kind == LexemeKind::Comment
                && next.line == last.line_end
                && next.line_end == next.line
        });
        let count = behind.count();
        let next = self.all.get(self.at + count);
        if count == 0 || next.is_some_and(|next| next.line == last.line_end) {
            return None;
        }
        let texts: Vec<&str> =
            self.all[self.at..self.at + count].iter().map(|comment| comment.text).collect();
        self.at += count;
        Some(texts.join(" "))
    }

    /// The comments that stand here: those of the entry behind them, on the lines above it, are told; the others are put in.
    fn comments(&mut self, before: usize, loose: &mut Vec<LooseComment>) -> Vec<String> {
        let mut group: Vec<String> = Vec::new();
        let mut line_end = 0;
        while let Some(next) = self.all.get(self.at).filter(|next| next.kind == LexemeKind::Comment)
        {
            if !group.is_empty() && next.line > line_end + 1 {
                loose.push(LooseComment { before, texts: std::mem::take(&mut group) });
            }
            group.push(next.text.to_owned());
            (line_end, self.at) = (next.line_end, self.at + 1);
        }
        let is_lead = self.all.get(self.at).is_some_and(|next| next.line <= line_end + 1)
            && !self.next_is("}")
            && !self.next_is("]");
        if is_lead || group.is_empty() {
            return group;
        }
        loose.push(LooseComment { before, texts: group });
        Vec::new()
    }

    /// Items up to a brace that closes, or to the end.
    fn items(&mut self, depth: usize) -> Option<LayoutBody<LayoutItem>> {
        let mut body = LayoutBody::default();
        loop {
            let lead = self.comments(body.entries.len(), &mut body.comments);
            if self.at == self.all.len() || self.next_is("}") {
                return lead.is_empty().then_some(body);
            }
            let mut keys = Vec::new();
            let line = self.all[self.at].line;
            while let Some(key) = self.literal() {
                keys.push(key.text.to_owned());
            }
            let is_assigned = self.take("=");
            if keys.is_empty() || (!is_assigned && !self.next_is("{")) {
                return None;
            }
            let value = self.value(depth)?;
            self.take(",");
            let tail = self.tail();
            body.entries.push(LayoutItem { lead, keys, is_assigned, value, tail, line });
        }
    }

    fn value(&mut self, depth: usize) -> Option<LayoutValue> {
        if depth > DEPTH_MAX {
            return None;
        }
        if self.take("{") {
            let body = self.items(depth + 1)?;
            return self.take("}").then_some(LayoutValue::Object(body));
        }
        if self.take("[") {
            return self.list(depth + 1);
        }
        Some(LayoutValue::Literal(self.literal()?.text.to_owned()))
    }

    fn list(&mut self, depth: usize) -> Option<LayoutValue> {
        let line = self.all[self.at - 1].line;
        let (mut body, mut is_one_line) = (LayoutBody::default(), true);
        loop {
            let lead = self.comments(body.entries.len(), &mut body.comments);
            if self.take("]") {
                return lead.is_empty().then_some(LayoutValue::List { body, is_one_line });
            }
            is_one_line &= self.all.get(self.at)?.line == line;
            let value = self.value(depth)?;
            let is_followed = self.take(",");
            let tail = self.tail();
            if !is_followed && !self.take(",") && !self.closes() {
                return None;
            }
            body.entries.push(LayoutElement { lead, value, tail });
        }
    }

    /// Whether the list ends here, but for comments.
    fn closes(&self) -> bool {
        let mut behind = self.all[self.at..].iter().filter(|next| next.kind != LexemeKind::Comment);
        behind.next().is_some_and(|next| next.text == "]")
    }
}
