//! The pattern of a rule: which paths it speaks of, and how specific it is.
//!
//! ```text
//! secret/app     that path
//! secret/*       every path that starts so; only a last `*` is a wildcard
//! secret/+/db    `+` alone between slashes stands for one segment, whatever it is
//! secret/+/d*    both
//! ```
//!
//! A pattern is read once into a [`Pattern`], wildcards first and templates second, and then
//! [resolved](Pattern::resolve) for a caller. Invariant: what a template puts in is text. It is
//! never a wildcard, and a granted rule takes no value with a slash, so no name that a caller
//! chose for itself widens a rule.

use std::cmp::Reverse;
use std::fmt;

use crate::template::{TemplateSubject, Variable};

/// Longest pattern as written, in bytes.
pub const PATTERN_BYTES_MAX: usize = 4096;
/// Most segments of a pattern. A request's path has at most [`crate::SEGMENTS_MAX`].
pub const PATTERN_SEGMENTS_MAX: usize = 128;

/// A pattern as its policy says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// As written.
    pub(crate) text: String,
    segments: Vec<PatternTemplate>,
    is_prefix: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PatternTemplate {
    Any,
    Text(Vec<PatternPiece>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PatternPiece {
    Literal(String),
    Variable(Variable),
}

/// Why a text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternError {
    TooLong,
    /// `+*`.
    MixedWildcards,
    /// `{{` without `}}` or the other way round.
    Unbalanced,
}

/// Why a pattern says nothing about a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// The caller has no value for a template.
    NoValue,
    /// The caller's value would widen what is granted: it holds `/`, `*` or `+`.
    UnsafeValue,
}

/// What a pattern comes to for one caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ResolvedPattern {
    pub(crate) segments: Vec<Segment>,
    /// True when it matches whatever starts with it.
    pub(crate) is_prefix: bool,
}

/// One segment of a resolved pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Segment {
    /// Any one segment.
    Any,
    /// This one; the last one of a prefix may be the start of one.
    Text(String),
}

/// How specific a resolved pattern is: the greater one is asked. The fields are compared in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Specificity {
    is_exact: bool,
    /// Where the first wildcard stands. Zero for an exact pattern: all of them are equal.
    first_wildcard: usize,
    is_whole: bool,
    any_segments: Reverse<usize>,
    bytes: usize,
}

/// The first rule by which two specificities differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// An exact pattern comes before one with wildcards.
    Exact,
    /// The later the first wildcard, the more specific.
    LaterWildcard,
    /// A pattern without a final `*` comes before one with it.
    NoFinalGlob,
    /// The fewer `+` segments, the more specific.
    FewerSegmentWildcards,
    /// The longer pattern is the more specific.
    Longer,
    /// For a listing, a rule for the path with its slash comes before one for it without.
    WithSlash,
    /// Of two equally specific rules a denial comes first.
    Denial,
    /// Nothing else differs: the greater text decides.
    GreaterText,
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self, PatternError> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong);
        }
        if text.contains("+*") {
            return Err(PatternError::MixedWildcards);
        }
        let mut pieces = pieces(text.strip_prefix('/').unwrap_or(text))?;
        let is_prefix = match pieces.last_mut() {
            Some(PatternPiece::Literal(last)) if last.ends_with('*') => {
                last.pop();
                true
            }
            _ => false,
        };
        let segments = segments(pieces);
        if segments.len() > PATTERN_SEGMENTS_MAX {
            return Err(PatternError::TooLong);
        }
        Ok(Self { text: text.to_owned(), segments, is_prefix })
    }

    /// Whether it is written with the folder in front, and says something behind it.
    pub(crate) fn spells(&self, folder: &str) -> bool {
        self.text.strip_prefix('/').unwrap_or(&self.text).starts_with(folder)
    }

    /// Whether it has a template.
    pub(crate) fn has_variables(&self) -> bool {
        self.segments.iter().any(|segment| match segment {
            PatternTemplate::Text(pieces) => {
                pieces.iter().any(|piece| matches!(piece, PatternPiece::Variable(_)))
            }
            PatternTemplate::Any => false,
        })
    }

    /// The names of templates that nothing will ever answer.
    pub(crate) fn unknown_variables(&self) -> impl Iterator<Item = &str> {
        let pieces = self.segments.iter().filter_map(|segment| match segment {
            PatternTemplate::Text(pieces) => Some(pieces),
            PatternTemplate::Any => None,
        });
        pieces.flatten().filter_map(|piece| match piece {
            PatternPiece::Variable(Variable::Unknown(name)) => Some(name.as_str()),
            PatternPiece::Variable(_) | PatternPiece::Literal(_) => None,
        })
    }

    /// Puts the caller's values in. A denial takes any value, as text: it can only take away.
    pub(crate) fn resolve(
        &self,
        identity: &dyn TemplateSubject,
        use_of: PatternUse,
    ) -> Result<ResolvedPattern, Unresolved> {
        let mut segments = Vec::with_capacity(self.segments.len());
        for segment in &self.segments {
            let PatternTemplate::Text(pieces) = segment else {
                segments.push(Segment::Any);
                continue;
            };
            let mut text = String::new();
            for piece in pieces {
                match piece {
                    PatternPiece::Literal(literal) => text.push_str(literal),
                    PatternPiece::Variable(variable) => {
                        let value = identity.value(variable).filter(|value| !value.is_empty());
                        let value = value.ok_or(Unresolved::NoValue)?;
                        if use_of == PatternUse::Grant && value.contains(['/', '*', '+']) {
                            return Err(Unresolved::UnsafeValue);
                        }
                        text.push_str(&value);
                    }
                }
            }
            segments.extend(text.split('/').map(|part| Segment::Text(part.to_owned())));
        }
        Ok(ResolvedPattern { segments, is_prefix: self.is_prefix })
    }
}

/// What a rule does with its pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternUse {
    Grant,
    Denial,
}

/// Cuts text and templates apart.
fn pieces(text: &str) -> Result<Vec<PatternPiece>, PatternError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    loop {
        let (literal, template) = match rest.split_once("{{") {
            Some((literal, after)) => (literal, Some(after)),
            None => (rest, None),
        };
        if literal.contains("}}") {
            return Err(PatternError::Unbalanced);
        }
        pieces.push(PatternPiece::Literal(literal.to_owned()));
        let Some(template) = template else { return Ok(pieces) };
        let (name, after) = template.split_once("}}").ok_or(PatternError::Unbalanced)?;
        if name.contains("{{") {
            return Err(PatternError::Unbalanced);
        }
        pieces.push(PatternPiece::Variable(Variable::parse(name)));
        rest = after;
    }
}

/// Cuts pieces at the slashes of their literals.
fn segments(pieces: Vec<PatternPiece>) -> Vec<PatternTemplate> {
    let mut segments: Vec<Vec<PatternPiece>> = vec![Vec::new()];
    for piece in pieces {
        let PatternPiece::Literal(text) = piece else {
            segments.last_mut().into_iter().for_each(|segment| segment.push(piece.clone()));
            continue;
        };
        for (number, part) in text.split('/').enumerate() {
            if number > 0 {
                segments.push(Vec::new());
            }
            if let Some(segment) = segments.last_mut().filter(|_| !part.is_empty()) {
                segment.push(PatternPiece::Literal(part.to_owned()));
            }
        }
    }
    let template = |pieces: Vec<PatternPiece>| match pieces.as_slice() {
        [PatternPiece::Literal(text)] if text == "+" => PatternTemplate::Any,
        _ => PatternTemplate::Text(pieces),
    };
    segments.into_iter().map(template).collect()
}

impl ResolvedPattern {
    /// True when there is a `+`.
    pub(crate) fn has_any(&self) -> bool {
        self.segments.contains(&Segment::Any)
    }

    /// What it says of paths inside `folder`, whole segments with an ending slash; `None` when it says
    /// nothing of them. Denials compare without case.
    pub(crate) fn below(self, folder: &str, use_of: PatternUse) -> Option<Self> {
        if folder.is_empty() {
            return Some(self);
        }
        let same = |text: &str, part: &str| match use_of {
            PatternUse::Grant => text == part,
            PatternUse::Denial => fold_case(text) == fold_case(part),
        };
        let outer: Vec<&str> = folder.trim_end_matches('/').split('/').collect();
        for (number, part) in outer.iter().enumerate() {
            let is_last = number + 1 == self.segments.len();
            match self.segments.get(number)? {
                Segment::Any if !is_last => {}
                // A wildcard that begins within the folder's own path is about all that is in it.
                Segment::Text(text) if is_last && self.is_prefix => {
                    let starts = fold_case(part).starts_with(&*fold_case(text));
                    return (use_of == PatternUse::Denial && starts).then(Self::everything);
                }
                Segment::Text(text) if !is_last && same(text, part) => {}
                Segment::Any | Segment::Text(_) => return None,
            }
        }
        let segments = self.segments.into_iter().skip(outer.len()).collect();
        Some(Self { segments, is_prefix: self.is_prefix })
    }

    /// `*`
    fn everything() -> Self {
        Self { segments: vec![Segment::Text(String::new())], is_prefix: true }
    }

    /// The text without a final `*`; a `+` stands for itself.
    pub(crate) fn stem(&self) -> String {
        let parts: Vec<&str> = self.segments.iter().map(Segment::as_str).collect();
        parts.join("/")
    }

    pub(crate) fn specificity(&self) -> Specificity {
        let any_segments = self.segments.iter().filter(|s| **s == Segment::Any).count();
        let stem = self.stem();
        let bytes = stem.len();
        if !self.is_prefix && any_segments == 0 {
            let first_wildcard = 0;
            let any_segments = Reverse(0);
            return Specificity {
                is_exact: true,
                first_wildcard,
                is_whole: true,
                any_segments,
                bytes: 0,
            };
        }
        // In a pattern with wildcard segments any `+` counts as the first one, also a literal one, as
        // in the servers whose policies these are.
        let first_wildcard = match any_segments {
            0 => bytes,
            _ => stem.find('+').unwrap_or(bytes),
        };
        Specificity {
            is_exact: false,
            first_wildcard,
            is_whole: !self.is_prefix,
            any_segments: Reverse(any_segments),
            bytes,
        }
    }

    /// The same pattern with the letters' case taken away.
    pub(crate) fn folded(&self) -> Self {
        let fold = |segment: &Segment| match segment {
            Segment::Any => Segment::Any,
            Segment::Text(text) => Segment::Text(fold_case(text).into_owned()),
        };
        Self { segments: self.segments.iter().map(fold).collect(), is_prefix: self.is_prefix }
    }

    /// True when the pattern speaks of `path`. The slow and plain way; the tables are the fast one.
    pub(crate) fn matches(&self, path: &str) -> bool {
        if !self.has_any() {
            let stem = self.stem();
            return if self.is_prefix { path.starts_with(&stem) } else { path == stem };
        }
        let parts: Vec<&str> = path.split('/').collect();
        let (Some((last, before)), wanted) = (self.segments.split_last(), self.segments.len())
        else {
            return false;
        };
        let fits = if self.is_prefix { parts.len() >= wanted } else { parts.len() == wanted };
        let same = |(segment, part): (&Segment, &&str)| match segment {
            Segment::Any => true,
            Segment::Text(text) => text == part,
        };
        fits && before.iter().zip(&parts).all(same)
            && match (last, self.is_prefix) {
                (Segment::Text(start), true) => parts[wanted - 1].starts_with(start.as_str()),
                (last, _) => same((last, &parts[wanted - 1])),
            }
    }

    /// True when the pattern matches every path that `other` matches. Both are read as patterns, without looking at paths.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let same = |(own, its): (&Segment, &Segment)| match (own, its) {
            (Segment::Any, _) => true,
            (Segment::Text(own), Segment::Text(its)) => own == its,
            (Segment::Text(_), Segment::Any) => false,
        };
        let Some((last, before)) = self.segments.split_last() else { return false };
        let Some(at) = other.segments.get(before.len()) else { return false };
        if !before.iter().zip(&other.segments).all(same) {
            return false;
        }
        if !self.is_prefix {
            return !other.is_prefix
                && other.segments.len() == self.segments.len()
                && same((last, at));
        }
        match (last, at) {
            (Segment::Any, _) => true,
            (Segment::Text(start), Segment::Text(text)) => text.starts_with(start.as_str()),
            (Segment::Text(start), Segment::Any) => start.is_empty(),
        }
    }

    /// True when the pattern matches some path at or below `folder`, which ends in a slash.
    pub(crate) fn reaches(&self, folder: &str) -> bool {
        let wanted: Vec<&str> = folder.trim_end_matches('/').split('/').collect();
        for (number, part) in wanted.iter().enumerate() {
            let is_last = number + 1 == self.segments.len();
            match self.segments.get(number) {
                Some(Segment::Any) => {}
                Some(Segment::Text(text)) if self.is_prefix && is_last => {
                    return part.starts_with(text.as_str());
                }
                Some(Segment::Text(text)) if text == part => {}
                Some(Segment::Text(_)) | None => return false,
            }
        }
        true
    }
}

impl Segment {
    fn as_str(&self) -> &str {
        match self {
            Self::Any => "+",
            Self::Text(text) => text,
        }
    }
}

impl fmt::Display for ResolvedPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.stem(), if self.is_prefix { "*" } else { "" })
    }
}

impl Specificity {
    /// What makes `self` the more specific one; `None` when both are equal.
    pub(crate) fn over(&self, other: &Self) -> Option<Precedence> {
        if self.is_exact != other.is_exact {
            Some(Precedence::Exact)
        } else if self.first_wildcard != other.first_wildcard {
            Some(Precedence::LaterWildcard)
        } else if self.is_whole != other.is_whole {
            Some(Precedence::NoFinalGlob)
        } else if self.any_segments != other.any_segments {
            Some(Precedence::FewerSegmentWildcards)
        } else if self.bytes != other.bytes {
            Some(Precedence::Longer)
        } else {
            None
        }
    }
}

/// `text` without the case of its letters: upper case first, so that `ß` and `SS`, `ς` and `Σ`, `K`
/// and the Kelvin sign come to the same.
pub fn fold_case(text: &str) -> std::borrow::Cow<'_, str> {
    if text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return text.into();
    }
    if text.is_ascii() {
        return text.to_ascii_lowercase().into();
    }
    let upper = text.chars().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).collect::<String>().into()
}
