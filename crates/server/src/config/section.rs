//! One stanza being read, or the whole of all files: which keys were asked for, and which were not.
//!
//! A reader asks for every key it knows; [`Section::finish`] then finds what nobody asked for. So
//! the list of known keys is the code that reads them and cannot fall behind it.

use std::collections::BTreeSet;
use std::rc::Rc;

use kallisto_hcl::{Body, Item, Kind};

use super::error::{Error, Origin, Place};
use super::given::Given;
use super::sources::Source;

/// A stanza: its title for messages, where it starts, and its parts. Only the top has several.
pub(super) struct Section<'a> {
    title: String,
    place: Place,
    parts: Vec<(Rc<str>, &'a Body)>,
    asked: BTreeSet<&'static str>,
}

/// What becomes of a known key that the server has no use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unused {
    /// It has no effect and need not have one: nothing is said.
    Silent,
    /// It has no effect: a warning says so.
    Ignored,
    /// Going on without it would surprise its author: an error.
    Refused,
}

/// Keys that a stanza may hold and that nothing reads. A name ending in `*` is a prefix.
pub(super) type UnusedKeys = [(&'static str, Unused)];

impl<'a> Section<'a> {
    /// Everything that stands outside of stanzas, in all files.
    pub(super) fn whole(sources: &'a [Source]) -> Self {
        let parts: Vec<_> =
            sources.iter().map(|source| (Rc::clone(&source.name), &source.body)).collect();
        let file = parts.first().map_or_else(|| Rc::from(""), |(file, _)| Rc::clone(file));
        let place = Place { file, line: 1 };
        Self { title: String::new(), place, parts, asked: BTreeSet::new() }
    }

    /// Where it starts.
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// The error that something is wrong with the stanza as a whole.
    pub(super) fn refuse(&self, what: &str) -> Error {
        Error::Stanza(self.place.clone(), format!("{}: {what}", self.title))
    }

    /// The value of a key, the last one where it is repeated.
    pub(super) fn given(&mut self, name: &'static str) -> Result<Option<Given>, Error> {
        match self.last(name) {
            Some((file, item)) => Given::of(origin(&file, item), &item.value),
            None => Ok(None),
        }
    }

    /// A key that is true or false.
    pub(super) fn switch(&mut self, name: &'static str) -> Result<Option<bool>, Error> {
        self.given(name)?.map(|given| given.switch()).transpose()
    }

    /// A key that is a list of texts, or one text with commas between.
    pub(super) fn list(&mut self, name: &'static str) -> Result<Vec<Given>, Error> {
        let Some((file, item)) = self.last(name) else { return Ok(Vec::new()) };
        let Kind::List(values) = &item.value.kind else {
            return self.given(name)?.map_or(Ok(Vec::new()), |given| split(&given));
        };
        let mut list = Vec::new();
        for value in values {
            let place = Place { file: Rc::clone(&file), line: value.at.line };
            list.extend(Given::of(Origin::File(place, name.to_owned()), value)?);
        }
        Ok(list)
    }

    /// Every stanza without a label.
    pub(super) fn stanzas(&mut self, name: &'static str) -> Result<Vec<Self>, Error> {
        self.asked.insert(name);
        let mut found = Vec::new();
        for (file, body) in &self.parts {
            let blocks = body.unlabelled(name).map_err(|error| form(file, error))?;
            found.extend(blocks.into_iter().map(|(key, body)| {
                let place = Place { file: Rc::clone(file), line: key.at.line };
                Self::one(name.to_owned(), place, body)
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
            found.extend(blocks.into_iter().map(|(label, body)| {
                let place = Place { file: Rc::clone(file), line: label.at.line };
                (label.text.as_str(), Self::one(format!("{name} {:?}", label.text), place, body))
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
            found.extend(blocks.into_iter().map(|(one, other, body)| {
                let place = Place { file: Rc::clone(file), line: one.at.line };
                let title = format!("{name} {:?} {:?}", one.text, other.text);
                (one.text.as_str(), other.text.as_str(), Self::one(title, place, body))
            }));
        }
        Ok(found)
    }

    /// Every key with its value, where any key may stand; the last one where it is repeated.
    pub(super) fn every(self) -> Result<Vec<(String, Given)>, Error> {
        let mut all = Vec::new();
        for (file, body) in &self.parts {
            for item in &body.items {
                let given = Given::of(origin(file, item), &item.value)?;
                all.extend(given.map(|given| (item.key.text.clone(), given)));
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
        let within = match self.title.as_str() {
            "" => String::new(),
            title => format!(" in {title}"),
        };
        for (file, body) in &self.parts {
            let mut seen = BTreeSet::new();
            for item in &body.items {
                let (key, place) = (&item.key.text, place_of(file, item));
                if self.asked.contains(key.as_str()) {
                    let scalar = !matches!(item.value.kind, Kind::Object(_) | Kind::List(_));
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
                    Some(Unused::Refused) => {
                        return Err(Error::Stanza(
                            place,
                            format!("{key}{within} is not supported"),
                        ));
                    }
                    None => warnings.push(format!("{place}: unknown key {key:?}{within}")),
                }
            }
        }
        Ok(())
    }

    fn one(title: String, place: Place, body: &'a Body) -> Self {
        let parts = vec![(Rc::clone(&place.file), body)];
        Self { title, place, parts, asked: BTreeSet::new() }
    }

    fn last(&mut self, name: &'static str) -> Option<(Rc<str>, &'a Item)> {
        self.asked.insert(name);
        let mut items = self.parts.iter().flat_map(|(file, body)| {
            body.items.iter().filter(|item| item.key.text == name).map(move |item| (file, item))
        });
        items.next_back().map(|(file, item)| (Rc::clone(file), item))
    }
}

fn split(given: &Given) -> Result<Vec<Given>, Error> {
    let texts = given.expose()?.split(',').map(str::trim).filter(|text| !text.is_empty());
    Ok(texts.map(|text| given.with_text(text)).collect())
}

fn fate(unused: &UnusedKeys, key: &str) -> Option<Unused> {
    let matches = |name: &str| match name.strip_suffix('*') {
        Some(prefix) => key.starts_with(prefix),
        None => key == name,
    };
    unused.iter().find(|(name, _)| matches(name)).map(|(_, fate)| *fate)
}

fn origin(file: &Rc<str>, item: &Item) -> Origin {
    Origin::File(place_of(file, item), item.key.text.clone())
}

fn place_of(file: &Rc<str>, item: &Item) -> Place {
    Place { file: Rc::clone(file), line: item.key.at.line }
}

fn form(file: &Rc<str>, error: kallisto_hcl::Error) -> Error {
    Error::Form(Place { file: Rc::clone(file), line: error.at.line }, error.what)
}
