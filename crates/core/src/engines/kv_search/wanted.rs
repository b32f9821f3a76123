//! What a search looks for: a name, custom metadata, a key of the data.
//!
//! | said | a secret fits when |
//! |---|---|
//! | `name=part` | its path has the part in it, or is the pattern if that has a `*`; without case |
//! | `metadata` `owner=ada`, `tier=*` | it has the key with that value, in which `*` stands for anything |
//! | `metadata` `due<2026-12-01`, `n>5`; `n<=5`, `n>=5` | it has the key with a smaller or greater value (or with this one): as numbers if both are, else byte by byte, which is in time for dates of one form |
//! | `due_before=DATE` | the same as `due<DATE` |
//! | `key=NAME` | its current data has a key of that name at the top, in which `*` stands for anything |
//!
//! All that is said has to fit. Nothing here reads a secret: it is shown what to compare.

use kallisto_engine::glob::matches_glob;

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::limits::{CUSTOM_KEYS_MAX, SEARCH_PATTERN_BYTES_MAX};

/// What is looked for.
pub(super) struct SearchPattern {
    /// In lower case; empty for any.
    name: String,
    metadata: Vec<(String, Test)>,
    /// A key of the data; empty for any.
    key: String,
}

/// What a value of custom metadata has to be.
enum Test {
    Like(String),
    Below(String),
    AtMost(String),
    Above(String),
    AtLeast(String),
}

impl SearchPattern {
    pub(super) fn from_fields(fields: Fields<'_>) -> Result<Self, Error> {
        let name = fields.string("name")?.unwrap_or_default().to_lowercase();
        let mut metadata = match fields.raw("metadata") {
            None | Some(Json::Null) => Vec::new(),
            Some(Json::String(text)) if text.trim().is_empty() => Vec::new(),
            Some(Json::String(text)) => pairs(text)?,
            Some(Json::Object(map)) => map
                .iter()
                .map(|(key, value)| match value {
                    Json::String(text) => Ok((key.clone(), Test::of(text))),
                    _ => Err(Error::invalid("'metadata' must be an object of texts")),
                })
                .collect::<Result<_, _>>()?,
            Some(_) => return Err(Error::invalid("'metadata' must be an object of texts")),
        };
        if let Some(end) = fields.string("due_before")?.filter(|end| !end.is_empty()) {
            metadata.push(("due".to_owned(), Test::Below(end)));
        }
        let key = fields.string("key")?.unwrap_or_default();
        let bytes = name.len()
            + key.len()
            + metadata.iter().map(|(key, test)| key.len() + test.text().len()).sum::<usize>();
        if bytes > SEARCH_PATTERN_BYTES_MAX || metadata.len() > CUSTOM_KEYS_MAX {
            return Err(Error::invalid(format!(
                "what is searched for must have at most {SEARCH_PATTERN_BYTES_MAX} bytes and \
                 {CUSTOM_KEYS_MAX} keys of metadata"
            )));
        }
        Ok(Self { name, metadata, key })
    }

    pub(super) fn names(&self, path: &str) -> bool {
        if self.name.is_empty() {
            return true;
        }
        let path = path.to_lowercase();
        if self.name.contains('*') {
            matches_glob(&self.name, &path)
        } else {
            path.contains(&self.name)
        }
    }

    pub(super) const fn asks_metadata(&self) -> bool {
        !self.metadata.is_empty()
    }

    pub(super) const fn asks_keys(&self) -> bool {
        !self.key.is_empty()
    }

    /// Whether custom metadata is as wanted.
    pub(super) fn fits(&self, custom: Option<&Map>) -> bool {
        self.metadata.iter().all(|(key, test)| {
            let value = custom.and_then(|custom| custom.get(key)?.as_str());
            value.is_some_and(|value| test.takes(value))
        })
    }

    /// Whether data has the wanted key.
    pub(super) fn has_key(&self, data: &Map) -> bool {
        if self.key.contains('*') {
            return data.iter().any(|(key, _)| matches_glob(&self.key, key));
        }
        data.get(&self.key).is_some()
    }
}

impl Test {
    fn of(text: &str) -> Self {
        type Kind = fn(String) -> Test;
        let kinds: [(&str, Kind); 4] =
            [("<=", Self::AtMost), ("<", Self::Below), (">=", Self::AtLeast), (">", Self::Above)];
        let found = kinds.into_iter().find_map(|(sign, kind)| {
            text.strip_prefix(sign).map(|bound| kind(bound.trim_start().to_owned()))
        });
        found.unwrap_or_else(|| Self::Like(text.to_owned()))
    }

    fn text(&self) -> &str {
        let (Self::Like(text)
        | Self::Below(text)
        | Self::AtMost(text)
        | Self::Above(text)
        | Self::AtLeast(text)) = self;
        text
    }

    fn takes(&self, value: &str) -> bool {
        match self {
            Self::Like(pattern) => matches_glob(pattern, value),
            Self::Below(end) => order(value, end).is_lt(),
            Self::AtMost(end) => order(value, end).is_le(),
            Self::Above(start) => order(value, start).is_gt(),
            Self::AtLeast(start) => order(value, start).is_ge(),
        }
    }
}

/// Numbers by what they are worth, all else by its bytes.
fn order(a: &str, b: &str) -> std::cmp::Ordering {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => a.cmp(b),
    }
}

/// `a=b, c<d`; blanks around a pair and its parts say nothing.
fn pairs(text: &str) -> Result<Vec<(String, Test)>, Error> {
    let pair = |pair: &str| {
        let at = pair.find(['=', '<', '>'])?;
        let (key, wanted) = (pair[..at].trim(), pair[at..].trim_end());
        let wanted = wanted.strip_prefix('=').unwrap_or(wanted).trim_start();
        (!key.is_empty()).then(|| (key.to_owned(), Test::of(wanted)))
    };
    let pairs: Option<Vec<_>> = text.split(',').map(pair).collect();
    pairs.ok_or_else(|| Error::invalid("'metadata' must be pairs such as owner=ada,due<2027-01-01"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_searched_for_has_its_limits_in_bytes_and_in_keys() {
        let is_taken = |name: usize, key: usize, metadata: &[(usize, &str, usize)]| {
            let text = |bytes: usize| Json::from("x".repeat(bytes));
            let pairs: Map = metadata
                .iter()
                .enumerate()
                .map(|(at, (key, how, value))| {
                    let name = format!("{at}{}", "k".repeat(key - at.to_string().len()));
                    (name, Json::from(format!("{how}{}", "v".repeat(*value))))
                })
                .collect();
            let body = Map::from([
                ("name".to_owned(), text(name)),
                ("key".to_owned(), text(key)),
                ("metadata".to_owned(), Json::Object(pairs)),
            ]);
            SearchPattern::from_fields(Fields::new(&body)).is_ok()
        };
        const MAX: usize = SEARCH_PATTERN_BYTES_MAX;
        assert!(is_taken(MAX, 0, &[]) && !is_taken(MAX + 1, 0, &[]));
        assert!(is_taken(0, MAX, &[]) && !is_taken(0, MAX + 1, &[]));
        assert!(is_taken(MAX - 24, 24, &[]) && !is_taken(MAX - 24, 25, &[]));
        for how in ["", "<", ">"] {
            assert!(is_taken(1, 1, &[(8, how, MAX - 10)]), "{how}");
            assert!(!is_taken(1, 1, &[(8, how, MAX - 9)]), "{how}");
        }
        assert!(is_taken(0, 0, &[(2, "", 3); CUSTOM_KEYS_MAX]));
        assert!(!is_taken(0, 0, &[(2, "", 3); CUSTOM_KEYS_MAX + 1]));
    }

    #[test]
    fn smaller_and_greater_are_those_of_numbers_or_else_of_texts() {
        let takes = |said: &str, value: &str| pairs(said).unwrap()[0].1.takes(value);
        assert!(takes("n<10", "9") && !takes("n<10", "10") && takes("n>9", "10"));
        assert!(takes("due<2026-12-01", "2026-11-30") && !takes("due<2026-12-01", "2026-12-01"));
        assert!(takes("due>2026-12-01", "2027") && takes("a=<b", "a") && !takes("a=<b", "b"));
        assert!(takes("a=>b", "c") && !takes("a=>b", "b"));
        assert!(takes("a=x*", "xy") && takes("n<10", "") != takes("n>10", ""));
        assert!(pairs("a").is_err() && pairs("a=b,").is_err() && pairs("=b").is_err());
    }

    #[test]
    fn smaller_and_greater_may_have_a_value_among_them_that_is_the_same() {
        let takes = |said: &str, value: &str| pairs(said).unwrap()[0].1.takes(value);
        for (said, value, is_taken) in [
            ("n<=10", "10", true),
            ("n<=10", "9", true),
            ("n<=10", "11", false),
            ("n>=10", "10.0", true),
            ("n>=10", "9", false),
            ("due<=2026-12-31", "2026-12-31", true),
            ("due<=2026-12-31", "2027-02-01", false),
            ("due>=2026-12-31", "2027-02-01", true),
            ("a=<=b", "b", true),
            ("a=>=b", "a", false),
        ] {
            assert_eq!(takes(said, value), is_taken, "{said} {value}");
        }
    }

    #[test]
    fn blanks_around_a_pair_and_its_parts_say_nothing_and_no_text_wants_nothing() {
        let said = |text: &str| {
            let body = Map::from([("metadata".to_owned(), text.into())]);
            SearchPattern::from_fields(Fields::new(&body)).unwrap()
        };
        let custom = |owner: &str| {
            Map::from([("owner".to_owned(), owner.into()), ("n".to_owned(), "5".into())])
        };
        for text in ["owner=ada l,n<6", "owner=ada l, n<6", " owner = ada l , n < 6\n"] {
            assert!(said(text).fits(Some(&custom("ada l"))), "{text}");
            assert!(!said(text).fits(Some(&custom("bob"))), "{text}");
        }
        for text in ["", " "] {
            assert!(!said(text).asks_metadata(), "{text:?}");
        }
    }
}
