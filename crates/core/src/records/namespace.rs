//! The record of a namespace.

use crate::api::json::{self, Json, Map};
use crate::storage::keys::NamespaceNumber;

/// Characters of an id, which is the end of every token and accessor made inside.
const ID_CHARS: u32 = 6;
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Ids there are.
const IDS: u64 = 62_u64.pow(ID_CHARS);
/// Shares no factor with [`IDS`] (2 and 31), so that multiplying by it gives every number an id of its own.
const SPREAD: u64 = 38_726_415_133;

const _: () = assert!(!SPREAD.is_multiple_of(2) && !SPREAD.is_multiple_of(31));
const _: () = assert!(u32::MAX as u64 <= IDS && IDS < 1 << 36 && SPREAD < 1 << 36);

/// A namespace as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Namespace {
    pub(crate) number: NamespaceNumber,
    /// Its path from the root namespace, with an ending slash.
    pub(crate) path: String,
    pub(crate) uuid: String,
    /// What its makers wrote on it: texts by name.
    pub(crate) custom: Map,
    /// Whether it was deleted, and what was in it is being cleared.
    pub(crate) is_tainted: bool,
    /// The keyed hash of the key that unlocks it, in hexadecimal; `None` while it is open.
    pub(crate) lock: Option<String>,
}

impl Namespace {
    /// Its id on the wire, which follows from its number: no two ever have the same.
    pub(crate) fn id(&self) -> String {
        let mut left = (u128::from(self.number.0) * u128::from(SPREAD) % u128::from(IDS)) as u64;
        let mut id = String::with_capacity(ID_CHARS as usize);
        for _ in 0..ID_CHARS {
            id.push(char::from(DIGITS[(left % 62) as usize]));
            left /= 62;
        }
        id
    }

    /// The namespace as `sys/namespaces` shows it.
    pub(crate) fn to_wire(&self) -> Json {
        Json::object([
            ("custom_metadata", self.custom.clone().into()),
            ("id", self.id().into()),
            ("locked", self.lock.is_some().into()),
            ("path", self.path.as_str().into()),
            ("tainted", self.is_tainted.into()),
            ("uuid", self.uuid.as_str().into()),
        ])
    }

    /// The record's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        Json::object([
            ("number", u64::from(self.number.0).into()),
            ("path", self.path.as_str().into()),
            ("uuid", self.uuid.as_str().into()),
            ("custom_metadata", self.custom.clone().into()),
            ("tainted", self.is_tainted.into()),
            ("lock", self.lock.as_deref().map_or(Json::Null, Json::from)),
        ])
        .to_text()
    }

    /// Reads a record back; `None` when the bytes are no namespace.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let text = |name: &str| map.get(name).and_then(Json::as_str).map(str::to_owned);
        let Json::Number(number) = map.get("number")? else { return None };
        let Json::Bool(is_tainted) = *map.get("tainted")? else { return None };
        Some(Self {
            number: NamespaceNumber(number.parse().ok()?),
            path: text("path")?,
            uuid: text("uuid")?,
            custom: map.get("custom_metadata")?.as_object()?.clone(),
            is_tainted,
            lock: text("lock"),
        })
    }
}

/// What a view knows of the namespace it is of.
#[derive(Clone, Debug)]
pub(crate) struct NamespaceFacts {
    pub(crate) number: NamespaceNumber,
    /// What tokens and accessors end in.
    pub(crate) id: String,
    /// Its path from the root namespace, with an ending slash.
    pub(crate) path: String,
}

impl NamespaceFacts {
    pub(crate) fn of(namespace: &Namespace) -> Self {
        Self { number: namespace.number, id: namespace.id(), path: namespace.path.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn namespace(number: u32) -> Namespace {
        Namespace {
            number: NamespaceNumber(number),
            path: "team/kid/".into(),
            uuid: "u".into(),
            custom: Map::from([("a".to_owned(), "b".into())]),
            is_tainted: false,
            lock: Some("00".into()),
        }
    }

    #[test]
    fn records_read_back() {
        let one = namespace(7);
        let two = Namespace { is_tainted: true, lock: None, ..namespace(u32::MAX) };
        for namespace in [one, two] {
            assert_eq!(Namespace::decode(&namespace.encode()), Some(namespace));
        }
        assert_eq!(Namespace::decode(b"{}"), None);
    }

    #[test]
    fn no_two_numbers_share_an_id() {
        let ids: BTreeSet<String> =
            (1..=50_000).chain(u32::MAX - 50_000..=u32::MAX).map(|at| namespace(at).id()).collect();
        assert_eq!(ids.len(), 100_001);
        assert!(ids.iter().all(|id| id.len() == 6));
    }
}
