//! Batch tokens: sealed into their own text, stored nowhere.
//!
//! ```text
//! hvb. base64url(envelope of {"p":[policies],"n":name,"a":path,"c":created,"t":ttl,...})
//! ```
//! The envelope is a record's (see `docs/format.md`), sealed under the cluster's data key for a
//! storage key that no record has. So a token opens on every server of the cluster and on no other,
//! after a restart as before, and after a rotation too, since older data keys stay in the keyring.
//! Making one writes nothing, which is what a stampede of logins needs.
//!
//! Invariants:
//! - Everything that decides stands in the text; only the parent's life is looked up, and how far time has come
//!   ([`super::time_marks`]).
//! - Nothing that is stored hangs on a batch token: no accessor, uses, children, cubbyhole or lease.

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use jiff::{SignedDuration, Timestamp};
use kallisto_auth::{Token, TokenKind};
use kallisto_barrier::{ENVELOPE_OVERHEAD, Keyring};
use secrecy::SecretString;
use zeroize::Zeroizing;

use crate::api::error::Error;
use crate::api::json::{self, Json, Map};
use crate::identity::record::IdentityId;
use crate::records::token::TokenEntry;
use crate::storage::keys::{self, NamespaceNumber};
use kallisto_engine::address;

/// Every batch token starts with this, and no token that was stored does: a chosen one has no dot.
pub(crate) const PREFIX: &str = "hvb.";
/// Longest text of a batch token, in bytes; with the other headers it must fit into a request's head.
pub(crate) const TEXT_BYTES_MAX: usize = 8 << 10;

/// The text of a batch token, made in a generation of time.
pub(crate) fn seal(
    made: (&TokenEntry, u64),
    namespace: NamespaceNumber,
    keyring: &Keyring,
) -> Result<SecretString, Error> {
    let plain = Zeroizing::new(encode(made));
    let mut envelope = Vec::with_capacity(plain.len() + ENVELOPE_OVERHEAD);
    let sealed = keyring.seal_record(&keys::batch_token(namespace), &plain, &mut envelope);
    sealed.map_err(|error| Error::Unavailable(format!("cannot encrypt: {error}")))?;
    Ok(format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&envelope)).into())
}

/// What a batch token says, without the mark of its namespace, and the generation of time it was made in; `None` when this cluster did not make
/// it there.
pub(crate) fn open(
    text: &str,
    namespace: NamespaceNumber,
    keyring: &Keyring,
) -> Option<(TokenEntry, u64)> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let envelope = BASE64URL_NOPAD.decode(text.strip_prefix(PREFIX)?.as_bytes()).ok()?;
    let mut plain = Zeroizing::new(Vec::with_capacity(envelope.len()));
    keyring.open_record(&keys::batch_token(namespace), &envelope, &mut plain).ok()?;
    decode(&plain)
}

/// Short names, and only what is set: every byte travels with every request.
fn encode((entry, generation): (&TokenEntry, u64)) -> Vec<u8> {
    let mut map = Map::new();
    let mut put = |name: &str, value: Json| map.insert(name.to_owned(), value);
    put("p", Json::strings(entry.auth.policies.iter().cloned()));
    put("n", entry.auth.display_name.as_str().into());
    put("a", entry.auth.path.as_str().into());
    let created_at = entry.auth.created_at;
    put("c", created_at.as_millisecond().div_euclid(1000).into());
    put("t", entry.ttl_secs.into());
    let millis = created_at.as_millisecond().rem_euclid(1000).unsigned_abs();
    if millis > 0 {
        put("s", millis.into());
    }
    if let Some(parent) = &entry.parent {
        put("f", HEXLOWER.encode(parent).into());
    }
    if let Some(meta) = &entry.meta {
        put("m", meta.clone().into());
    }
    if let Some(role) = &entry.role {
        put("r", role.as_str().into());
    }
    if let Some(id) = entry.entity_id {
        put("e", id.to_string().into());
    }
    if !entry.bound_cidrs.is_empty() {
        put("b", address::shown(&entry.bound_cidrs));
    }
    if generation > 0 {
        put("g", generation.into());
    }
    Json::Object(map).to_text()
}

fn decode(plain: &[u8]) -> Option<(TokenEntry, u64)> {
    let map = json::parse_object(plain).ok()?;
    let text = |name: &str| map.get(name).and_then(Json::as_str).map(str::to_owned);
    let number = |name: &str| match map.get(name)? {
        Json::Number(text) => text.parse::<i64>().ok(),
        _ => None,
    };
    let Some(Json::Array(policies)) = map.get("p") else { return None };
    let policies = policies.iter().map(|name| name.as_str().map(str::to_owned));
    let parent = match map.get("f") {
        None => None,
        Some(hex) => Some(HEXLOWER.decode(hex.as_str()?.as_bytes()).ok()?.try_into().ok()?),
    };
    let millis = match map.get("s") {
        None => 0,
        Some(_) => number("s").filter(|millis| (0..1000).contains(millis))?,
    };
    let created_at = number("c")?.checked_mul(1000)?.checked_add(millis)?;
    let created_at = Timestamp::from_millisecond(created_at).ok()?;
    let ttl = number("t")?;
    let end = created_at.saturating_add(SignedDuration::from_secs(ttl));
    let generation = match map.get("g") {
        None => 0,
        Some(_) => u64::try_from(number("g")?).ok()?,
    };
    let entry = TokenEntry {
        auth: Token {
            accessor: String::new(),
            kind: TokenKind::Batch,
            policies: policies.collect::<Option<_>>()?,
            display_name: text("n")?,
            path: text("a")?,
            created_at,
            expires_at: Some(end.unwrap_or(Timestamp::MAX)),
            orphan: parent.is_none(),
        },
        parent,
        parent_above: None,
        meta: map.get("m").and_then(Json::as_object).cloned(),
        uses_left: 0,
        ttl_secs: u64::try_from(ttl).ok()?,
        period_secs: 0,
        explicit_max_ttl_secs: 0,
        max_ttl_secs: 0,
        renewable: false,
        role: text("r"),
        entity_id: match map.get("e") {
            None => None,
            Some(id) => Some(IdentityId::parse(id.as_str()?)?),
        },
        bound_cidrs: address::stored(&map, "b")?,
        kept: Map::new(),
        renewed_at: None,
    };
    Some((entry, generation))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    const ROOT: NamespaceNumber = NamespaceNumber::ROOT;

    fn entry() -> TokenEntry {
        let mut entry =
            crate::records::token::make_root(Timestamp::from_second(1_700_000_000).unwrap());
        let entry = entry.as_mut().unwrap();
        entry.auth.kind = TokenKind::Batch;
        entry.auth.policies = vec!["default".into(), "web".into()];
        entry.parent = Some([9; 32]);
        entry.meta = Some(Map::from([("a".to_owned(), "b".into())]));
        entry.ttl_secs = 60;
        entry.entity_id = IdentityId::parse("00000000-0000-4000-8000-00000000000e");
        entry.bound_cidrs = address::parse_all(&["10.0.0.0/8".to_owned()]).unwrap();
        entry.clone()
    }

    #[test]
    fn a_batch_token_opens_in_its_cluster_alone_also_after_a_rotation() {
        let ring = Keyring::generate([1; 16], 0).unwrap();
        let text = seal((&entry(), 3), ROOT, &ring).unwrap();
        let text = text.expose_secret();
        let (again, generation) = open(text, ROOT, &ring.rotated(1).unwrap()).unwrap();
        assert_eq!(generation, 3);
        assert_eq!(again.auth.policies, ["default", "web"]);
        assert_eq!((again.parent, again.ttl_secs), (Some([9; 32]), 60));
        assert_eq!(again.auth.expires_at.unwrap().as_second(), 1_700_000_060);
        assert_eq!(again.meta, entry().meta);
        assert_eq!((again.entity_id, again.bound_cidrs), (entry().entity_id, entry().bound_cidrs));
        assert!(!again.auth.orphan);
        let other = Keyring::generate([1; 16], 0).unwrap();
        assert!(open(text, ROOT, &other).is_none());
    }

    #[test]
    fn a_text_with_any_character_changed_is_no_token() {
        let ring = Keyring::generate([1; 16], 0).unwrap();
        let text = seal((&entry(), 3), ROOT, &ring).unwrap();
        let text = text.expose_secret();
        for at in 0..text.len() {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            assert!(open(std::str::from_utf8(&bytes).unwrap(), ROOT, &ring).is_none(), "{at}");
            assert!(open(&text[..at], ROOT, &ring).is_none(), "{at}");
        }
        assert!(open(&format!("{text}A"), ROOT, &ring).is_none());
        assert!(open(&format!("{PREFIX}{}", "A".repeat(TEXT_BYTES_MAX)), ROOT, &ring).is_none());
    }

    #[test]
    fn a_token_of_one_namespace_is_none_in_another() {
        let ring = Keyring::generate([1; 16], 0).unwrap();
        let inside = NamespaceNumber(1);
        let text = seal((&entry(), 3), inside, &ring).unwrap();
        assert!(open(text.expose_secret(), inside, &ring).is_some());
        for other in [ROOT, NamespaceNumber(2)] {
            assert!(open(text.expose_secret(), other, &ring).is_none());
        }
        let text = seal((&entry(), 3), ROOT, &ring).unwrap();
        assert!(open(text.expose_secret(), inside, &ring).is_none());
    }

    #[test]
    fn a_record_of_the_store_is_no_token() {
        let ring = Keyring::generate([1; 16], 0).unwrap();
        let mut envelope = Vec::new();
        ring.seal_record(b"\x04record", &encode((&entry(), 0)), &mut envelope).unwrap();
        assert!(
            open(&format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&envelope)), ROOT, &ring).is_none()
        );
    }
}
