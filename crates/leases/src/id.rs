//! The id of a lease: the path it was asked for at and 24 random characters.
//!
//! On the wire the id of a lease of a namespace ends in a dot and the id of that namespace. Inside the server the
//! namespace is known from where the record lies, so that end is added and taken off at the edge.

use std::fmt;

use crate::limits::{ID_BYTES_MAX, NAMESPACE_ID_BYTES_MAX, PATH_BYTES_MAX, RANDOM_CHARS};

/// No id of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidId;

impl fmt::Display for InvalidId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid lease id")
    }
}

impl std::error::Error for InvalidId {}

/// The id of a lease, without its namespace.
///
/// Invariant: a path of 1 to [`PATH_BYTES_MAX`] bytes that neither begins nor ends with a slash, a slash, and
/// [`RANDOM_CHARS`] characters of base 62.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(Box<str>);

impl LeaseId {
    /// The id of a lease that is asked for at `path`; `random` are [`RANDOM_CHARS`] characters of base 62, freshly drawn.
    ///
    /// # Errors
    /// [`InvalidId`] when one of the two is not what it has to be.
    pub fn new(path: &str, random: &str) -> Result<Self, InvalidId> {
        if path.len() > PATH_BYTES_MAX || random.len() != RANDOM_CHARS {
            return Err(InvalidId);
        }
        Self::parse(&format!("{path}/{random}"))
    }

    /// Reads an id without a namespace.
    ///
    /// # Errors
    /// [`InvalidId`] when it is none.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let (path, random) = split(text).ok_or(InvalidId)?;
        let path_fits = !path.is_empty() && !path.starts_with('/') && !path.ends_with('/');
        let random_fits = random.iter().all(u8::is_ascii_alphanumeric);
        (path_fits && random_fits).then(|| Self(text.into())).ok_or(InvalidId)
    }

    /// Reads an id as clients send it to a namespace; `namespace_id` is empty for the root namespace.
    ///
    /// # Errors
    /// [`InvalidId`] when it is none, or one of another namespace.
    pub fn parse_wire(text: &str, namespace_id: &str) -> Result<Self, InvalidId> {
        if text.len() > ID_BYTES_MAX + 1 + NAMESPACE_ID_BYTES_MAX {
            return Err(InvalidId);
        }
        if namespace_id.is_empty() {
            return Self::parse(text);
        }
        let inside = text.strip_suffix(namespace_id).and_then(|text| text.strip_suffix('.'));
        Self::parse(inside.ok_or(InvalidId)?)
    }

    /// The id as clients see it; `namespace_id` is empty for the root namespace.
    pub fn to_wire(&self, namespace_id: &str) -> String {
        match namespace_id.is_empty() {
            true => self.0.to_string(),
            false => format!("{}.{namespace_id}", self.0),
        }
    }

    /// The whole id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path the lease was asked for at.
    pub fn path(&self) -> &str {
        split(&self.0).map_or("", |(path, _)| path)
    }

    /// The random part.
    pub fn random(&self) -> [u8; RANDOM_CHARS] {
        split(&self.0).map_or([b'0'; RANDOM_CHARS], |(_, random)| *random)
    }

    /// The id of a lease at `path`, when both parts are known to be good: they come from an id.
    pub(crate) fn join(path: &str, random: &[u8; RANDOM_CHARS]) -> Self {
        let mut text = String::with_capacity(path.len() + 1 + RANDOM_CHARS);
        text.push_str(path);
        text.push('/');
        text.extend(random.iter().map(|&byte| char::from(byte)));
        Self(text.into_boxed_str())
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The path and the random part of an id.
fn split(text: &str) -> Option<(&str, &[u8; RANDOM_CHARS])> {
    if text.len() > ID_BYTES_MAX {
        return None;
    }
    let (path, random) = text.rsplit_once('/')?;
    Some((path, random.as_bytes().try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANDOM: &str = "unJMmnBWSUfWch79qSsTpiu9";

    #[test]
    fn an_id_is_a_path_and_a_random_part() {
        let id = LeaseId::new("database/creds/r", RANDOM).unwrap();
        assert_eq!(id.as_str(), format!("database/creds/r/{RANDOM}"));
        assert_eq!((id.path(), id.random().as_slice()), ("database/creds/r", RANDOM.as_bytes()));
        assert_eq!(LeaseId::parse(id.as_str()), Ok(id.clone()));
        assert_eq!(LeaseId::join(id.path(), &id.random()), id);
    }

    #[test]
    fn an_id_of_a_namespace_is_read_only_there() {
        let id = LeaseId::new("database/creds/r", RANDOM).unwrap();
        let inside = id.to_wire("aB3dE");
        assert_eq!(inside, format!("database/creds/r/{RANDOM}.aB3dE"));
        assert_eq!(LeaseId::parse_wire(&inside, "aB3dE"), Ok(id.clone()));
        assert_eq!(LeaseId::parse_wire(id.as_str(), ""), Ok(id.clone()));
        for (text, namespace) in
            [(inside.as_str(), ""), (&inside, "aB3dF"), (id.as_str(), "aB3dE"), (&inside, "B3dE")]
        {
            assert_eq!(LeaseId::parse_wire(text, namespace), Err(InvalidId), "{text} {namespace}");
        }
    }

    #[test]
    fn what_is_no_id_is_refused() {
        let long = format!("{}/{RANDOM}", "a".repeat(PATH_BYTES_MAX + 1));
        for text in [
            "",
            "/",
            RANDOM,
            &format!("/{RANDOM}"),
            &format!("/a/{RANDOM}"),
            &format!("a//{RANDOM}"),
            &format!("a/{}", &RANDOM[1..]),
            &format!("a/{RANDOM}x"),
            &format!("a/-{}", &RANDOM[1..]),
            &long,
        ] {
            assert_eq!(LeaseId::parse(text), Err(InvalidId), "{text}");
        }
        let longest = LeaseId::parse(&long[1..]).unwrap();
        let namespace = "n".repeat(NAMESPACE_ID_BYTES_MAX);
        assert_eq!(LeaseId::parse_wire(&longest.to_wire(&namespace), &namespace), Ok(longest));
        assert_eq!(InvalidId.to_string(), "invalid lease id");
        assert_eq!(LeaseId::new("a", "short"), Err(InvalidId));
    }

    #[test]
    fn the_parts_of_an_id_have_their_lengths_and_it_is_shown_as_it_is() {
        let longest = LeaseId::new(&"a".repeat(PATH_BYTES_MAX), RANDOM).unwrap();
        assert_eq!(longest.as_str().len(), ID_BYTES_MAX);
        assert_eq!(longest.to_string(), longest.as_str());
        for length in [PATH_BYTES_MAX + 1, PATH_BYTES_MAX + 100] {
            assert_eq!(LeaseId::new(&"a".repeat(length), RANDOM), Err(InvalidId));
        }
        assert_eq!(LeaseId::new("a", &format!("b/{RANDOM}")), Err(InvalidId), "a part of the path");
    }
}
