//! The tree that both languages end in.
//!
//! HCL writes one thing in several ways: `path "a" { .. }`, `path = { "a" = { .. } }`, in JSON
//! `{"path": {"a": {..}}}` or with lists of objects in between. [`BlockBody::labelled`] and
//! [`BlockBody::unlabelled`] read them all alike, so the readers of policies and configuration need not
//! know which was used.

use std::time::Duration;

use crate::{Error, TextPosition};

/// The inside of a file or of a block: what stands in it, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockBody {
    /// The assignments and blocks.
    pub items: Vec<TreeItem>,
}

/// One assignment or block.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeItem {
    /// Its name.
    pub key: NameKey,
    /// What stands between the name and the brace: `"a"` in `path "a" { .. }`.
    pub labels: Vec<NameKey>,
    /// Whether it was written `name { .. }`, and not `name = value` or as a member of a JSON object.
    pub is_block: bool,
    /// What it holds.
    pub value: HclValue,
}

/// A name and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameKey {
    /// The name, without quotes.
    pub text: String,
    /// Where it starts.
    pub at: TextPosition,
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct HclValue {
    /// Where it starts.
    pub at: TextPosition,
    /// What it is.
    pub kind: ValueKind,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueKind {
    /// `null`, in JSON only.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as it was written: decimal, `0x` hexadecimal, or with a fraction or exponent.
    Number(String),
    /// A string or heredoc.
    Text(String),
    /// A list.
    List(Vec<HclValue>),
    /// A block or map.
    Object(BlockBody),
}

impl BlockBody {
    /// The first item called `name`.
    pub fn first(&self, name: &str) -> Option<&TreeItem> {
        self.items.iter().find(|item| item.key.text == name)
    }

    /// Every block called `name` with its one label, such as each `path "label" { .. }`.
    ///
    /// # Errors
    /// [`Error`] at an item of that name that is not a block with one label.
    pub fn labelled(&self, name: &str) -> Result<Vec<(&NameKey, &Self)>, Error> {
        let mut found = Vec::new();
        for item in self.items.iter().filter(|item| item.key.text == name) {
            match item.labels.as_slice() {
                [label] => objects(&item.value, &mut |body| found.push((label, body)))?,
                [] => {
                    let mut outer = Vec::new();
                    objects(&item.value, &mut |body| outer.push(body))?;
                    for inner in outer.into_iter().flat_map(|body| &body.items) {
                        if let Some(label) = inner.labels.first() {
                            return Err(Error { at: label.at, what: "this block takes one label" });
                        }
                        objects(&inner.value, &mut |body| found.push((&inner.key, body)))?;
                    }
                }
                [_, second, ..] => {
                    return Err(Error { at: second.at, what: "this block takes one label" });
                }
            }
        }
        Ok(found)
    }

    /// Every block called `name` with its two labels, such as each `audit "kind" "path" { .. }`.
    ///
    /// # Errors
    /// [`Error`] at an item of that name that is not a block with two labels.
    pub fn twice_labelled(&self, name: &str) -> Result<Vec<(&NameKey, &NameKey, &Self)>, Error> {
        let mut found = Vec::new();
        for item in self.items.iter().filter(|item| item.key.text == name) {
            twice_labelled(&[], &item.labels, &item.value, &mut found)?;
        }
        Ok(found)
    }

    /// Every block called `name` that has no label, such as each `telemetry { .. }`.
    ///
    /// # Errors
    /// [`Error`] at an item of that name that is no block, or one with a label.
    pub fn unlabelled(&self, name: &str) -> Result<Vec<(&NameKey, &Self)>, Error> {
        let mut found = Vec::new();
        for item in self.items.iter().filter(|item| item.key.text == name) {
            if let Some(label) = item.labels.first() {
                return Err(Error { at: label.at, what: "this block takes no label" });
            }
            objects(&item.value, &mut |body| found.push((&item.key, body)))?;
        }
        Ok(found)
    }
}

/// Finds the blocks under two labels, of which `outer` stand outside of `value` and `labels` at it.
/// At most two deep.
fn twice_labelled<'a>(
    outer: &[&'a NameKey],
    labels: &'a [NameKey],
    value: &'a HclValue,
    found: &mut Vec<(&'a NameKey, &'a NameKey, &'a BlockBody)>,
) -> Result<(), Error> {
    let all: Vec<&NameKey> = outer.iter().copied().chain(labels).collect();
    match all.as_slice() {
        [kind, path] => objects(value, &mut |body| found.push((kind, path, body))),
        [_, _, third, ..] => Err(Error { at: third.at, what: "this block takes two labels" }),
        fewer => {
            let mut inner = Vec::new();
            objects(value, &mut |body| inner.push(body))?;
            for item in inner.into_iter().flat_map(|body| &body.items) {
                let outer: Vec<&NameKey> = fewer.iter().copied().chain([&item.key]).collect();
                twice_labelled(&outer, &item.labels, &item.value, found)?;
            }
            Ok(())
        }
    }
}

/// Visits a block, or each block of a list of them, which is how JSON repeats a key.
fn objects<'a>(value: &'a HclValue, visit: &mut dyn FnMut(&'a BlockBody)) -> Result<(), Error> {
    let refuse = |at| Err(Error { at, what: "expected a block" });
    match &value.kind {
        ValueKind::Object(body) => visit(body),
        ValueKind::List(values) => {
            for value in values {
                match &value.kind {
                    ValueKind::Object(body) => visit(body),
                    _ => return refuse(value.at),
                }
            }
        }
        ValueKind::Null | ValueKind::Bool(_) | ValueKind::Number(_) | ValueKind::Text(_) => {
            return refuse(value.at);
        }
    }
    Ok(())
}

impl HclValue {
    /// The text, if this is a string.
    pub fn as_text(&self) -> Option<&str> {
        match &self.kind {
            ValueKind::Text(text) => Some(text),
            ValueKind::Null
            | ValueKind::Bool(_)
            | ValueKind::Number(_)
            | ValueKind::List(_)
            | ValueKind::Object(_) => None,
        }
    }

    /// The number, if this is a whole one that is not negative and fits.
    pub fn as_u64(&self) -> Option<u64> {
        let ValueKind::Number(text) = &self.kind else { return None };
        match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }

    /// The span of time, if this is a whole number of seconds or text such as `1h30m`.
    pub fn as_duration(&self) -> Option<Duration> {
        match &self.kind {
            ValueKind::Number(text) | ValueKind::Text(text) => {
                kallisto_duration::parse_unsigned(text.trim())
            }
            ValueKind::Null | ValueKind::Bool(_) | ValueKind::List(_) | ValueKind::Object(_) => {
                None
            }
        }
    }
}
