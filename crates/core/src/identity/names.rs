//! What entities, groups and aliases may be called, and when two names are the same.
//!
//! Names are kept as they were given and compared without their letters' case and the blanks around
//! them, as Vault compares them. Characters that cannot be seen are refused: two names must never
//! look alike and be two.

use aws_lc_rs::digest;
use data_encoding::BASE64URL_NOPAD;
use kallisto_engine::token_params::clean_policy_names;

use super::record::{IdentityId, IdentityMetadata};
use crate::api::error::Error;
use crate::api::fields::{Fields, scalar_text, unconvertible};
use crate::api::json::Json;
use crate::random;

/// Longest name of an entity, a group or an alias, in bytes.
const NAME_BYTES_MAX: usize = 512;
/// Most pairs of metadata.
const METADATA_PAIRS_MAX: usize = 64;
/// Longest key of metadata, in bytes.
const METADATA_KEY_BYTES_MAX: usize = 128;
/// Longest value of metadata, in bytes.
const METADATA_VALUE_BYTES_MAX: usize = 512;
/// Bytes of a claim's hash: past finding two names with one by trying.
const CLAIM_BYTES: usize = 20;

/// What a name is compared by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Folded(Box<str>);

impl Folded {
    /// Folds a name; upper case first, so that letters whose cases differ in number come together.
    pub(crate) fn new(name: &str) -> Self {
        let upper = name.trim().chars().flat_map(char::to_uppercase);
        Self(upper.flat_map(char::to_lowercase).collect::<String>().into())
    }
}

/// The name of the engine storage's record that says which entity has a name.
pub(crate) fn entity_claim(name: &Folded) -> String {
    claim("name", &[&name.0])
}

/// The name of the engine storage's record that says which entity has an alias.
pub(crate) fn alias_claim(accessor: &str, name: &Folded) -> String {
    claim("alias", &[accessor, &name.0])
}

/// Names are hashed: they hold what paths may not.
fn claim(kind: &str, parts: &[&str]) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part.as_bytes());
    }
    let hash = context.finish();
    format!("{kind}/{}", BASE64URL_NOPAD.encode(&hash.as_ref()[..CLAIM_BYTES]))
}

/// Checks a name; `what` names it in the refusal.
///
/// # Errors
/// [`Error::Invalid`] for one that is empty, too long, or not all to be seen.
pub(crate) fn check(what: &str, name: &str) -> Result<(), Error> {
    if name.trim().is_empty() {
        return Err(Error::invalid(format!("{what} is empty")));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(format!("{what} is longer than {NAME_BYTES_MAX} bytes")));
    }
    match name.char_indices().find(|(_, c)| is_unseen(*c)) {
        Some((at, _)) => {
            Err(Error::invalid(format!("{what} has a character at byte {at} that cannot be seen")))
        }
        None => Ok(()),
    }
}

/// Control and format characters, and blanks other than the common one.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || (c != ' ' && c.is_whitespace())
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// A name for what was given none: the kind and eight hexadecimal digits.
pub(crate) fn make(kind: &str) -> Result<String, Error> {
    let mut bytes = [0; 4];
    random::fill(&mut bytes)?;
    Ok(format!("{kind}_{:08x}", u32::from_be_bytes(bytes)))
}

/// The policies a body names, checked; `None` when it names none.
///
/// # Errors
/// [`Error::Invalid`] for `root` in any spelling, and for what names no policy.
pub(crate) fn policies(fields: Fields<'_>) -> Result<Option<Vec<String>>, Error> {
    let Some(names) = fields.strings("policies")? else { return Ok(None) };
    if names.iter().any(|name| name.trim().eq_ignore_ascii_case("root")) {
        return Err(Error::invalid("policies cannot contain root"));
    }
    clean_policy_names(names).map(Some)
}

/// The metadata a body holds under `name`: an object, a text `key=value`, or a list of these. A comma is part of a value.
///
/// # Errors
/// [`Error::Invalid`] naming what is wrong with it.
pub(crate) fn metadata(fields: Fields<'_>, name: &str) -> Result<Option<IdentityMetadata>, Error> {
    let Some(pairs) = fields.pairs(name)? else { return Ok(None) };
    let text = |(key, value): (String, Json)| match value {
        Json::Null => Ok((key, String::new())),
        value => match scalar_text(&value) {
            Some(text) => Ok((key, text)),
            None => Err(unconvertible(name, &value, "string")),
        },
    };
    let metadata = pairs.into_iter().map(text).collect::<Result<_, Error>>()?;
    check_metadata(name, metadata).map(Some)
}

/// Holds metadata to its limits.
///
/// # Errors
/// [`Error::Invalid`] naming the limit.
pub(crate) fn check_metadata(
    name: &str,
    metadata: IdentityMetadata,
) -> Result<IdentityMetadata, Error> {
    let over = |what: String| Err(Error::invalid(format!("{name} has {what}")));
    if metadata.len() > METADATA_PAIRS_MAX {
        return over(format!("more than {METADATA_PAIRS_MAX} pairs"));
    }
    let long_key = |key: &String| key.is_empty() || key.len() > METADATA_KEY_BYTES_MAX;
    if metadata.keys().any(long_key) {
        return over(format!("a key that is not 1 to {METADATA_KEY_BYTES_MAX} bytes long"));
    }
    if metadata.values().any(|value| value.len() > METADATA_VALUE_BYTES_MAX) {
        return over(format!("a value longer than {METADATA_VALUE_BYTES_MAX} bytes"));
    }
    Ok(metadata)
}

/// Ids that a body lists under `name`, sorted, each once; `Err` carries the first text that is none.
///
/// # Errors
/// [`Error::Invalid`] from `refuse`, given the text.
pub(crate) fn ids(
    fields: Fields<'_>,
    name: &str,
    refuse: impl Fn(&str) -> Error,
) -> Result<Option<Vec<IdentityId>>, Error> {
    let Some(texts) = fields.strings(name)? else { return Ok(None) };
    let parsed = texts.iter().map(|text| IdentityId::parse(text).ok_or_else(|| refuse(text)));
    let mut ids: Vec<IdentityId> = parsed.collect::<Result<_, _>>()?;
    ids.sort_unstable();
    ids.dedup();
    Ok(Some(ids))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_name_are_one_name_or_none() {
        let bob = Folded::new("bob");
        for same in ["Bob", "BOB ", "  bob"] {
            assert!(check("name", same).is_ok());
            assert_eq!(Folded::new(same), bob, "{same:?}");
            assert_eq!(alias_claim("a", &Folded::new(same)), alias_claim("a", &bob));
        }
        for unseen in
            ["bo\u{200b}b", "bob\t", "bob\u{a0}", "b\u{ad}ob", "\u{feff}bob", "bob\0", " "]
        {
            assert!(check("name", unseen).is_err(), "{unseen:?}");
        }
        assert_eq!(Folded::new("Straße"), Folded::new("STRASSE"));
    }

    #[test]
    fn metadata_is_pairs_whose_values_may_have_commas() {
        let read = |value: &str| {
            let body = format!(r#"{{"metadata":{value}}}"#);
            let body = crate::api::json::parse_object(body.as_bytes()).unwrap();
            metadata(Fields::new(&body), "metadata").map(|found| {
                let pairs = found.into_iter().flatten();
                pairs.map(|(key, value)| format!("{key}:{value}")).collect::<Vec<_>>()
            })
        };
        for (given, pairs) in [
            (r#""org=ACME, Inc.""#, &["org:ACME, Inc."][..]),
            (r#""dn=cn=ann,ou=people""#, &["dn:cn=ann,ou=people"]),
            (r#"["team=red","dn=a,b"]"#, &["dn:a,b", "team:red"]),
            (r#"{"team":"red","size":3,"none":null}"#, &["none:", "size:3", "team:red"]),
            (r#""{\"team\":\"red\"}""#, &["team:red"]),
            (r#""""#, &[]),
            ("null", &[]),
            ("{}", &[]),
        ] {
            assert_eq!(read(given).unwrap(), pairs, "{given}");
        }
        for bad in [r#""team""#, r#""=red""#, r#"{"team":["red"]}"#, "7", r#"["a=b","c"]"#] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn claims_of_different_things_differ() {
        let of = |accessor: &str, name: &str| alias_claim(accessor, &Folded::new(name));
        assert_ne!(of("ab", "c"), of("a", "bc"));
        assert_ne!(of("a", "b"), of("b", "a"));
        assert!(kallisto_index::check_path(&of("a", &"x/../".repeat(100))).is_ok());
    }
}
