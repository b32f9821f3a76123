//! One stanza being read, or the whole of all files: which keys were asked for, and which were not.
//!
//! A reader asks for every key it knows; [`ConfigSection::finish`] then finds what nobody asked for. So
//! the list of known keys is the code that reads them and cannot fall behind it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use kallisto_hcl::{BlockBody, HclValue, TreeItem, ValueKind};

use super::error::{Error, FilePosition, ValueOrigin};
use super::raw_value::RawValue;
use super::sources::ConfigFile;

/// A stanza: its title for messages, where it starts, and its parts. Only the top has several.
#[derive(Clone)]
pub(super) struct ConfigSection<'a> {
    aside: Aside,
    title: String,
    place: FilePosition,
    parts: Vec<(Rc<str>, &'a BlockBody)>,
    asked: BTreeSet<&'static str>,
}

/// What was refused already, so that the rest is read as if it were not there: file, line, and the key, or nothing for a stanza.
type Aside = Rc<RefCell<BTreeSet<(Rc<str>, u32, String)>>>;

/// Most letters that may differ for a key to be taken for another that is missing.
const TYPO_LETTERS_MAX: usize = 2;
/// How alike an unknown key has to be to a known one to ask whether that was meant.
const ALIKE_MIN: f64 = 0.85;

/// What becomes of a known key that the server has no use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unused {
    /// It has no effect and need not have one: nothing is said.
    Silent,
    /// It has no effect: a warning says so.
    Ignored,
    /// Going on without it would surprise its author: an error, unless it is off or empty.
    Refused,
}

/// Keys that a stanza may hold and that nothing reads. A name ending in `*` is a prefix.
pub(super) type UnusedKeys = [(&'static str, Unused)];

impl<'a> ConfigSection<'a> {
    /// Everything that stands outside of stanzas, in all files.
    pub(super) fn whole(sources: &'a [ConfigFile]) -> Self {
        let parts: Vec<_> =
            sources.iter().map(|source| (Rc::clone(&source.name), &source.body)).collect();
        let file = parts.first().map_or_else(|| Rc::from(""), |(file, _)| Rc::clone(file));
        let place = FilePosition { file, line: 1 };
        let aside = Aside::default();
        Self { aside, title: String::new(), place, parts, asked: BTreeSet::new() }
    }

    /// Where it starts.
    pub(super) fn place(&self) -> &FilePosition {
        &self.place
    }

    /// The error that something is wrong with the stanza as a whole.
    ///
    /// What lacks something may have it under a name that was mistyped; what had something refused may lack nothing else.
    pub(super) fn refuse(&self, what: &str) -> Error {
        let title = &self.title;
        let mistyped = self.mistyped();
        if self.items().any(|(file, item)| self.is_aside(file, item)) {
            let say = |(item, meant): (&TreeItem, &str)| {
                let (file, line, key) = (&self.place.file, item.key.at.line, &item.key.text);
                format!("{file}:{line}: unknown key {key:?} in {title}: did you mean {meant:?}?")
            };
            return Error::Follows(self.place.clone(), mistyped.into_iter().map(say).collect());
        }
        let text = match mistyped.first() {
            Some((item, meant)) => {
                let (line, key) = (item.key.at.line, &item.key.text);
                format!("{title}: {what}; line {line} says {key:?}: did you mean {meant:?}?")
            }
            None => format!("{title}: {what}"),
        };
        Error::Stanza(self.place.clone(), text)
    }

    fn items(&self) -> impl Iterator<Item = (&Rc<str>, &'a TreeItem)> {
        self.parts.iter().flat_map(|(file, body)| body.items.iter().map(move |item| (file, item)))
    }

    /// Keys that nobody asked for so far, each with one that was asked for, is not there and is nearly the same.
    fn mistyped(&self) -> Vec<(&'a TreeItem, &'static str)> {
        let there = |name: &str| self.items().any(|(_, item)| item.key.text == name);
        let unread = self.items().filter(|(_, item)| !self.asked.contains(item.key.text.as_str()));
        let found = unread.filter_map(|(_, item)| {
            let letters = |name: &str| strsim::osa_distance(&item.key.text, name);
            let absent = self.asked.iter().copied().filter(|name| !there(name));
            let meant = absent.min_by_key(|name| letters(name))?;
            (letters(meant) <= TYPO_LETTERS_MAX).then_some((item, meant))
        });
        found.collect()
    }

    /// Leaves out what an error is about from now on; whether that was there.
    pub(super) fn set_aside(&self, error: &Error) -> bool {
        let (place, key) = match error {
            Error::Value(ValueOrigin::File(place, key), _) => (place, key.as_str()),
            Error::Stanza(place, _) | Error::Follows(place, _) => (place, ""),
            Error::Value(ValueOrigin::Environment(_), _)
            | Error::Unreadable(..)
            | Error::Form(..)
            | Error::Missing(_) => return false,
        };
        self.aside.borrow_mut().insert((Rc::clone(&place.file), place.line, key.to_owned()))
    }

    fn is_aside(&self, file: &Rc<str>, item: &TreeItem) -> bool {
        self.is_aside_at(file, item.key.at.line, &item.key.text)
    }

    fn is_aside_at(&self, file: &Rc<str>, line: u32, key: &str) -> bool {
        self.aside.borrow().contains(&(Rc::clone(file), line, key.to_owned()))
    }

    /// The value of a key, the last one where it is repeated.
    pub(super) fn raw_value(&mut self, name: &'static str) -> Result<Option<RawValue>, Error> {
        match self.last(name) {
            Some((file, item)) => RawValue::of(origin(&file, item), &item.value),
            None => Ok(None),
        }
    }

    /// A key whose value may have any form, the last one where it is repeated: where it stands, and the value.
    pub(super) fn tree(&mut self, name: &'static str) -> Option<(ValueOrigin, &'a HclValue)> {
        self.last(name).map(|(file, item)| (origin(&file, item), &item.value))
    }

    /// A key whose value is a name, and that is left out where there is none: an empty one was to be filled in.
    pub(super) fn name(&mut self, name: &'static str) -> Result<Option<RawValue>, Error> {
        match self.tree(name) {
            Some((origin, HclValue { kind: ValueKind::Text(text), .. })) if text.is_empty() => {
                Err(Error::Value(origin, "is empty: name something, or leave it out".to_owned()))
            }
            _ => self.raw_value(name),
        }
    }

    /// A key that is true or false.
    pub(super) fn switch(&mut self, name: &'static str) -> Result<Option<bool>, Error> {
        self.raw_value(name)?.map(|raw| raw.switch()).transpose()
    }

    /// A key that is a list of texts, or one text with commas between.
    pub(super) fn list(&mut self, name: &'static str) -> Result<Vec<RawValue>, Error> {
        let Some((file, item)) = self.last(name) else { return Ok(Vec::new()) };
        let ValueKind::List(values) = &item.value.kind else {
            return self.raw_value(name)?.map_or(Ok(Vec::new()), |raw| split(&raw));
        };
        let mut list = Vec::new();
        for value in values {
            if self.is_aside_at(&file, value.at.line, name) {
                continue;
            }
            let place = FilePosition { file: Rc::clone(&file), line: value.at.line };
            list.extend(RawValue::of(ValueOrigin::File(place, name.to_owned()), value)?);
        }
        Ok(list)
    }

    /// Every stanza without a label.
    pub(super) fn stanzas(&mut self, name: &'static str) -> Result<Vec<Self>, Error> {
        self.asked.insert(name);
        let mut found = Vec::new();
        for (file, body) in &self.parts {
            let blocks = body.unlabelled(name).map_err(|error| form(file, error))?;
            found.extend(blocks.into_iter().filter_map(|(key, body)| {
                let place = FilePosition { file: Rc::clone(file), line: key.at.line };
                self.one(name.to_owned(), place, body)
            }));
        }
        Ok(found)
    }

    /// Every stanza with a label, and the label.
    pub(super) fn labelled(&mut self, name: &'static str) -> Result<Vec<(&'a str, Self)>, Error> {
        self.asked.insert(name);
        let mut found = Vec::new();
        for (file, body) in &self.parts {
            let blocks = body.labelled(name).map_err(|error| form(file, error))?;
            for (label, _) in &blocks {
                check_label(file, label.at.line, &label.text)?;
            }
            found.extend(blocks.into_iter().filter_map(|(label, body)| {
                let place = FilePosition { file: Rc::clone(file), line: label.at.line };
                let stanza = self.one(format!("{name} {:?}", label.text), place, body)?;
                Some((label.text.as_str(), stanza))
            }));
        }
        Ok(found)
    }

    /// Every stanza with two labels, and the labels.
    pub(super) fn labelled_twice(
        &mut self,
        name: &'static str,
    ) -> Result<Vec<(&'a str, &'a str, Self)>, Error> {
        self.asked.insert(name);
        let mut found = Vec::new();
        for (file, body) in &self.parts {
            let blocks = body.twice_labelled(name).map_err(|error| form(file, error))?;
            for (one, other, _) in &blocks {
                check_label(file, one.at.line, &one.text)?;
                check_label(file, other.at.line, &other.text)?;
            }
            found.extend(blocks.into_iter().filter_map(|(one, other, body)| {
                let place = FilePosition { file: Rc::clone(file), line: one.at.line };
                let title = format!("{name} {:?} {:?}", one.text, other.text);
                Some((one.text.as_str(), other.text.as_str(), self.one(title, place, body)?))
            }));
        }
        Ok(found)
    }

    /// Every key with its value, where any key may stand; the last one where it is repeated.
    pub(super) fn every(self) -> Result<Vec<(String, RawValue)>, Error> {
        let mut all = Vec::new();
        for (file, body) in &self.parts {
            for item in &body.items {
                let raw = RawValue::of(origin(file, item), &item.value)?;
                all.extend(raw.map(|raw| (item.key.text.clone(), raw)));
            }
        }
        Ok(all)
    }

    /// Says what was not asked for, or asked for and given twice in one file.
    pub(super) fn finish(
        self,
        unused: &UnusedKeys,
        warnings: &mut Vec<String>,
    ) -> Result<(), Error> {
        #[cfg(test)]
        super::tests::reference::note(&self.title, &self.asked);
        let within = match self.title.as_str() {
            "" => String::new(),
            title => format!(" in {title}"),
        };
        for (file, body) in &self.parts {
            let mut seen = BTreeSet::new();
            for item in &body.items {
                let (key, place) = (&item.key.text, place_of(file, item));
                if self.is_aside_at(file, item.key.at.line, "") {
                    continue;
                }
                if self.asked.contains(key.as_str()) {
                    let scalar =
                        !matches!(item.value.kind, ValueKind::Object(_) | ValueKind::List(_));
                    if scalar && !seen.insert(key) {
                        warnings.push(format!(
                            "{place}: {key} is given again{within}; this one counts"
                        ));
                    }
                    continue;
                }
                match fate(unused, key) {
                    Some(Unused::Silent) => {}
                    Some(Unused::Ignored) => {
                        warnings.push(format!("{place}: {key}{within} is ignored"));
                    }
                    // What is off is what it is here.
                    Some(Unused::Refused) if asks_nothing(&item.value) => {}
                    Some(Unused::Refused) => {
                        return Err(Error::Stanza(
                            place,
                            format!("{key}{within} is not supported"),
                        ));
                    }
                    None => {
                        let meant = self.alike(key).map(|name| format!(": did you mean {name:?}?"));
                        let meant = meant.unwrap_or_default();
                        warnings.push(format!("{place}: unknown key {key:?}{within}{meant}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// The known key that is most like an unknown one.
    fn alike(&self, key: &str) -> Option<&'static str> {
        let rated = self.asked.iter().map(|name| (strsim::jaro_winkler(key, name), *name));
        let best = rated.max_by(|(one, _), (other, _)| one.total_cmp(other));
        best.filter(|(alike, _)| *alike >= ALIKE_MIN).map(|(_, name)| name)
    }

    fn one(&self, title: String, place: FilePosition, body: &'a BlockBody) -> Option<Self> {
        if self.is_aside_at(&place.file, place.line, "") {
            return None;
        }
        let parts = vec![(Rc::clone(&place.file), body)];
        Some(Self { aside: Rc::clone(&self.aside), title, place, parts, asked: BTreeSet::new() })
    }

    fn last(&mut self, name: &'static str) -> Option<(Rc<str>, &'a TreeItem)> {
        self.asked.insert(name);
        let mut items = self.parts.iter().flat_map(|(file, body)| {
            body.items.iter().filter(|item| item.key.text == name).map(move |item| (file, item))
        });
        // A value that was refused is as good as none, also where an earlier one stands.
        let aside = Rc::clone(&self.aside);
        let is_aside = |file: &Rc<str>, item: &TreeItem| {
            aside.borrow().contains(&(Rc::clone(file), item.key.at.line, item.key.text.clone()))
        };
        items
            .rfind(|(file, item)| !is_aside(file, item))
            .map(|(file, item)| (Rc::clone(file), item))
    }
}

/// Whether a value says that nothing is wanted.
fn asks_nothing(value: &HclValue) -> bool {
    match &value.kind {
        ValueKind::Null | ValueKind::Bool(false) => true,
        ValueKind::Text(text) => text.is_empty() || text.eq_ignore_ascii_case("false"),
        ValueKind::Number(text) => text == "0",
        ValueKind::List(values) => values.is_empty(),
        ValueKind::Bool(true) | ValueKind::Object(_) => false,
    }
}

fn split(raw: &RawValue) -> Result<Vec<RawValue>, Error> {
    let texts = raw.expose()?.split(',').map(str::trim).filter(|text| !text.is_empty());
    Ok(texts.map(|text| raw.with_text(text)).collect())
}

/// A label is a kind, or a name that is shown and kept.
fn check_label(file: &Rc<str>, line: u32, label: &str) -> Result<(), Error> {
    let place = FilePosition { file: Rc::clone(file), line };
    match label.contains('\0') {
        true => Err(Error::Form(place, "a label holds a NUL character")),
        false => Ok(()),
    }
}

fn fate(unused: &UnusedKeys, key: &str) -> Option<Unused> {
    let matches = |name: &str| match name.strip_suffix('*') {
        Some(prefix) => key.starts_with(prefix),
        None => key == name,
    };
    unused.iter().find(|(name, _)| matches(name)).map(|(_, fate)| *fate)
}

fn origin(file: &Rc<str>, item: &TreeItem) -> ValueOrigin {
    ValueOrigin::File(place_of(file, item), item.key.text.clone())
}

fn place_of(file: &Rc<str>, item: &TreeItem) -> FilePosition {
    FilePosition { file: Rc::clone(file), line: item.key.at.line }
}

fn form(file: &Rc<str>, error: kallisto_hcl::Error) -> Error {
    Error::Form(FilePosition { file: Rc::clone(file), line: error.at.line }, error.what)
}
