//! Follows where literals, names and comments of a statement begin and end, from its start on: what [`super::fill`] asks at each place.
//!
//! Invariant: where it is in doubt about what a database reads, it says [`Context::Opaque`], where nothing but words may be written.

use super::SqlDialect;

/// Where in a statement a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Context {
    Plain,
    Literal {
        escapes: bool,
    },
    Name(char),
    /// A comment, or text between dollar quotes.
    Opaque,
    /// A literal or a quoted name in text between dollar quotes, if that is SQL.
    QuotedInOpaque,
}

/// What ends a comment of one line.
const LINE_END: &str = "\n";

/// What begins a comment that servers run, those of some versions only, or only MariaDB.
pub(super) const CONDITIONAL_COMMENTS: [&str; 2] = ["/*!", "/*M!"];

/// How deep texts between dollar quotes are read inside one another.
const DOLLAR_DEPTH_MAX: usize = 4;

/// Whether a literal goes on with the next quote: PostgreSQL joins literals with a line break between them, and what is joined to
/// an `E'…'` has its escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LiteralJoin {
    No,
    /// An `E'…'` has ended, and nothing but blanks and comments came since.
    Blank,
    /// And one line break at least.
    LineBreak,
}

/// What PostgreSQL reads that has no quotes, as far as it has come: what a dollar sign or a quote behind it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BareWord {
    /// Neither of these, also behind what ended by a quote or a dollar sign.
    No,
    /// A name, of which dollar signs are a part.
    Name,
    /// An `E` and nothing else: the prefix of a literal with escapes.
    EscapePrefix,
    /// A number, of which dollar signs are none. An `E` behind it begins anew, as it does up to PostgreSQL 14.
    Number,
}

impl BareWord {
    fn then(self, c: char) -> Self {
        let is_in_name = matches!(self, Self::Name | Self::EscapePrefix);
        match c {
            _ if is_in_name && is_of_a_name(c) => Self::Name,
            'e' | 'E' => Self::EscapePrefix,
            '0'..='9' => Self::Number,
            '$' => Self::No,
            c if is_of_a_name(c) => Self::Name,
            _ => Self::No,
        }
    }
}

/// Follows where literals, names and comments begin and end.
pub(super) struct Scanner {
    dialect: SqlDialect,
    context: Context,
    joining: LiteralJoin,
    /// What ends an opaque part; for [`LINE_END`] every line break that the dialect knows.
    end: String,
    /// How many comments are open, one inside the other.
    comments: usize,
    word: BareWord,
    /// The character before.
    before: char,
    /// A dollar sign came that is no part of a name, and nothing but what may stand in its tag since.
    is_in_tag: bool,
    /// It is in a comment of MySQL's that some servers run, as their version says.
    is_conditional: bool,
    /// What those that run such a comment have read differs for good from what the others have.
    is_split: bool,
    /// In text between dollar quotes: that text, read as a statement of its own.
    inside: Option<Box<DollarText>>,
    /// How deep texts between dollar quotes are still read.
    depth: usize,
}

/// Text between dollar quotes.
struct DollarText {
    scanner: Scanner,
    /// How many of the next bytes it has taken already.
    ahead: usize,
}

impl DollarText {
    fn step(&mut self, text: &str, length: usize) {
        if self.ahead == 0 {
            self.ahead = self.scanner.step(text);
        }
        self.ahead = self.ahead.saturating_sub(length);
    }
}

impl Scanner {
    pub(super) fn new(dialect: SqlDialect) -> Self {
        Self {
            dialect,
            context: Context::Plain,
            joining: LiteralJoin::No,
            end: String::new(),
            comments: 0,
            word: BareWord::No,
            before: ' ',
            is_in_tag: false,
            is_conditional: false,
            is_split: false,
            inside: None,
            depth: DOLLAR_DEPTH_MAX,
        }
    }

    /// A value was written here.
    pub(super) fn pass(&mut self, value: &str) {
        self.before = value.chars().last().unwrap_or(self.before);
        if let Some(inside) = &mut self.inside {
            inside.scanner.pass(value);
            inside.ahead = 0;
        }
        if self.context == Context::Plain {
            self.joining = LiteralJoin::No;
            self.word = value.chars().fold(self.word, BareWord::then);
        }
    }

    /// Why a value may not stand here, before `after`, whatever its quotes.
    pub(super) fn objection(&self, value: &str, after: &str) -> Option<&'static str> {
        // Whoever does not run the comment sees its end in the value, or in what is around none.
        if self.is_conditional && (value.is_empty() || value.contains(['*', '/'])) {
            return Some("in a comment that only some servers run: its value could end it");
        }
        // With the value it could be the tag that begins or ends a text between dollar quotes.
        if self.is_in_tag && matches!(self.context, Context::Plain | Context::Opaque) {
            return Some("behind a dollar sign: its value could change what that means");
        }
        if self.context != Context::Plain && !self.is_split {
            return None;
        }
        if self.leans_on_a_sign(after) {
            return Some("against a quote or a sign: its value could change what that means");
        }
        let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
        let is_against_a_word =
            self.dialect == SqlDialect::Postgres && after.starts_with(is_of_a_name);
        if self.word == BareWord::Number || (is_number && is_against_a_word) {
            return Some("against a number or a word: they could be read as another word");
        }
        None
    }

    /// Whether a word here could become the tag, the prefix or the version of what is before or `after` it.
    fn leans_on_a_sign(&self, after: &str) -> bool {
        self.before == '$'
            || (self.is_conditional && self.before == '!')
            || after.starts_with(['\'', '"', '$'])
            || ["e'", "E'"].iter().any(|prefix| after.starts_with(prefix))
    }

    pub(super) fn context(&self) -> Context {
        if self.is_split {
            return Context::Opaque;
        }
        let inside = self.inside.as_ref().map(|inside| inside.scanner.context());
        match (self.context, inside) {
            (
                Context::Opaque,
                Some(Context::Literal { .. } | Context::Name(_) | Context::QuotedInOpaque),
            ) => Context::QuotedInOpaque,
            (context, _) => context,
        }
    }

    /// Takes the next piece of the text: its length in bytes.
    pub(super) fn step(&mut self, text: &str) -> usize {
        let Some(c) = text.chars().next() else { return 0 };
        let was_plain = self.context == Context::Plain;
        if let Some(inside) = &mut self.inside {
            inside.step(text, c.len_utf8());
        }
        self.is_split |= self.is_conditional && self.parts_readings(text, c);
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
            // What stands in opaque text is told by `context` alone.
            Context::QuotedInOpaque => c.len_utf8(),
            // PostgreSQL's comments hold comments. For MySQL `/*/` has the end of one.
            Context::Opaque
                if self.comments > 0
                    && self.dialect == SqlDialect::Postgres
                    && text.starts_with("/*") =>
            {
                self.comments += 1;
                2
            }
            Context::Opaque if text.starts_with(&self.end) || self.ends_line(c) => {
                self.comments = self.comments.saturating_sub(1);
                if self.comments == 0 {
                    self.context = Context::Plain;
                    self.inside = None;
                }
                if self.end == LINE_END && self.joining != LiteralJoin::No {
                    self.joining = LiteralJoin::LineBreak;
                }
                self.end.len()
            }
            Context::Opaque => c.len_utf8(),
        };
        let is_of_tag = is_of_a_name(c) && c != '$';
        let is_named = matches!(self.word, BareWord::Name | BareWord::EscapePrefix);
        self.is_in_tag = match c {
            // A tag is taken as a whole.
            '$' => taken == 1 && !is_named,
            _ => is_of_tag && self.is_in_tag,
        };
        let is_bare = was_plain && self.context == Context::Plain;
        self.word = if is_bare { self.word.then(c) } else { BareWord::No };
        self.before = c;
        taken
    }

    /// Whether what begins or ends a comment stands where those that run the comment around it do not see it.
    fn parts_readings(&self, text: &str, c: char) -> bool {
        // An escape hides one character from them.
        let seen = if c == '\\' { &text[1..] } else { text };
        seen.starts_with("/*") || (self.context != Context::Plain && seen.starts_with("*/"))
    }

    fn step_quoted(&mut self, text: &str, quote: char) -> usize {
        let Some(c) = text.chars().next() else { return 0 };
        if c == quote {
            if text[c.len_utf8()..].starts_with(quote) {
                return 2 * c.len_utf8();
            }
            let is_joined = self.dialect == SqlDialect::Postgres
                && self.context == Context::Literal { escapes: true };
            self.joining = if is_joined { LiteralJoin::Blank } else { LiteralJoin::No };
            self.context = Context::Plain;
        }
        c.len_utf8()
    }

    /// Whether a carriage return ends the comment of one line that it stands in. For MySQL only a line feed does.
    fn ends_line(&self, c: char) -> bool {
        c == '\r' && self.end == LINE_END && self.dialect == SqlDialect::Postgres
    }

    fn step_plain(&mut self, text: &str, c: char) -> usize {
        let is_mysql = self.dialect == SqlDialect::Mysql;
        let joining = std::mem::replace(&mut self.joining, LiteralJoin::No);
        if joining != LiteralJoin::No && is_blank_of_postgres(c) {
            let is_break = matches!(c, '\n' | '\r');
            self.joining = if is_break { LiteralJoin::LineBreak } else { joining };
        }
        let is_dashes = text.strip_prefix("--").is_some_and(|after| {
            // For MySQL two dashes are two signs unless a blank follows.
            !is_mysql
                || after.starts_with(|c: char| c.is_ascii_whitespace() || c.is_ascii_control())
        });
        if is_dashes || (is_mysql && c == '#') {
            self.joining = joining;
            return self.open(LINE_END, c.len_utf8());
        }
        if self.is_conditional && text.starts_with("*/") {
            self.is_conditional = false;
            return 2;
        }
        // What MySQL or MariaDB runs although it stands in a comment is no comment.
        if is_mysql && CONDITIONAL_COMMENTS.iter().any(|opening| text.starts_with(opening)) {
            self.is_conditional = true;
        } else if text.starts_with("/*") {
            self.comments = 1;
            return self.open("*/", 2);
        }
        match c {
            '\'' => {
                let escapes = is_mysql
                    || joining == LiteralJoin::LineBreak
                    || self.word == BareWord::EscapePrefix;
                self.context = Context::Literal { escapes };
            }
            '"' => self.context = Context::Name('"'),
            '`' if is_mysql => self.context = Context::Name('`'),
            // Behind a name it belongs to it, and before a number it is a parameter.
            '$' if !is_mysql && !matches!(self.word, BareWord::Name | BareWord::EscapePrefix) => {
                let is_tag = |c: char| is_of_a_name(c) && c != '$';
                if let Some(length) = text[1..].find(|c| !is_tag(c))
                    && text[1 + length..].starts_with('$')
                    && !text[1..].starts_with(|c: char| c.is_ascii_digit())
                {
                    let tag = text[..length + 2].to_owned();
                    let taken = tag.len();
                    self.inside = self.nested();
                    return self.open(&tag, taken);
                }
            }
            _ => {}
        }
        c.len_utf8()
    }

    /// What reads a text between dollar quotes, unless it stands in as many already as are read.
    fn nested(&self) -> Option<Box<DollarText>> {
        let depth = self.depth.checked_sub(1)?;
        let scanner = Self { depth, ..Self::new(self.dialect) };
        Some(Box::new(DollarText { scanner, ahead: 0 }))
    }

    fn open(&mut self, end: &str, taken: usize) -> usize {
        self.context = Context::Opaque;
        end.clone_into(&mut self.end);
        taken
    }
}

/// Whether PostgreSQL passes over a character between literals.
const fn is_blank_of_postgres(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// Whether a character may stand in a name of PostgreSQL that has no quotes.
fn is_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii()
}
