//! `kv/search`: secrets by name and by custom metadata, among those the caller may see.
//!
//! A name is compared without regard to case, with `*` for anything; without one it is looked for
//! anywhere in the path. Custom metadata is compared as it is. Values are never looked into.

use kallisto_auth::Operation;
use kallisto_cuckoo::Table;

use super::parameters;
use super::walk::{Page, Step, seal_cursor, walk};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::caller::call::Call;
use crate::engines::kv::v2;
use crate::engines::kv_batch::judge::Judge;
use crate::engines::kv_batch::meter::Meter;
use crate::engines::kv_batch::place::{Place, Secret};
use crate::limits::{CUSTOM_KEYS_MAX, SEARCH_PATTERN_BYTES_MAX};
use crate::view::NamespaceContext;
use crate::view::{Hot, HotSlot, Mount, hot_key};

/// What is looked for.
struct Wanted {
    /// In lower case; empty for any.
    name: String,
    metadata: Vec<(String, String)>,
}

pub(in crate::engines) async fn search(
    meter: Meter<'_>,
    unsealed: &NamespaceContext,
    call: &Call<'_, '_>,
) -> Result<Response, Error> {
    let parameters = parameters(call)?;
    let fields = Fields::new(&parameters);
    let mut folder = Place::from_field(unsealed, call, fields, "path")?;
    if !folder.is_folder() {
        folder.path.push('/');
    }
    meter.take_list(&folder)?;
    let wanted = Wanted::from_fields(fields)?;
    let page = Page::from_fields(unsealed, fields, &folder)?;
    let judge = Judge::of(unsealed, call)?;
    let mut found = Vec::new();
    let next = walk(&folder, &page, |name| {
        if !wanted.names(name) {
            return Ok(Step::Next);
        }
        let path = format!("{}{name}", folder.path);
        let Some(shown) = look(unsealed, &judge, &folder.mount, &path, &wanted)? else {
            return Ok(Step::Next);
        };
        if found.len() == page.limit {
            return Ok(Step::Stop);
        }
        if !wanted.metadata.is_empty() {
            // What the answer shows of it, a read of its metadata would.
            let path = Secret::api_path(&folder.mount, "metadata", &path);
            meter.take(Operation::Read, &path)?;
        }
        found.push(shown);
        Ok(Step::Next)
    })
    .await?;
    let next = next.map_or(Json::Null, |at| seal_cursor(unsealed, &folder, &at).into());
    Ok(Response::data(&Json::object([("results", Json::Array(found)), ("next", next)])))
}

/// What the answer shows of a secret with a fitting name; `None` when it does not fit, or the caller
/// may not see what it would fit by.
fn look(
    unsealed: &NamespaceContext,
    judge: &Judge<'_>,
    mount: &Mount,
    path: &str,
    wanted: &Wanted,
) -> Result<Option<Json>, Error> {
    let full = Json::from(format!("{}{path}", mount.entry.path));
    if wanted.metadata.is_empty() {
        return Ok(judge.may_see(mount, path).then(|| Json::object([("path", full)])));
    }
    if !judge.may_see_metadata(mount, path) {
        return Ok(None);
    }
    let custom = custom_metadata(unsealed, mount, path)?;
    let fits = |(key, pattern): &(String, String)| {
        let value = custom.as_ref()?.get(key)?.as_str()?;
        glob(pattern, value).then_some(())
    };
    if wanted.metadata.iter().any(|pair| fits(pair).is_none()) {
        return Ok(None);
    }
    let custom = custom.map_or(Json::Null, Json::Object);
    Ok(Some(Json::object([("path", full), ("custom_metadata", custom)])))
}

impl Wanted {
    fn from_fields(fields: Fields<'_>) -> Result<Self, Error> {
        let name = fields.string("name")?.unwrap_or_default().to_lowercase();
        let metadata = match fields.raw("metadata") {
            None | Some(Json::Null) => Vec::new(),
            Some(Json::String(text)) => pairs(text)?,
            Some(Json::Object(map)) => map
                .iter()
                .map(|(key, value)| match value {
                    Json::String(text) => Ok((key.clone(), text.clone())),
                    _ => Err(Error::invalid("'metadata' must be an object of texts")),
                })
                .collect::<Result<_, _>>()?,
            Some(_) => return Err(Error::invalid("'metadata' must be an object of texts")),
        };
        let bytes = name.len() + metadata.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>();
        if bytes > SEARCH_PATTERN_BYTES_MAX || metadata.len() > CUSTOM_KEYS_MAX {
            return Err(Error::invalid(format!(
                "'name' and 'metadata' must have at most {SEARCH_PATTERN_BYTES_MAX} bytes and \
                 {CUSTOM_KEYS_MAX} keys"
            )));
        }
        Ok(Self { name, metadata })
    }

    fn names(&self, path: &str) -> bool {
        if self.name.is_empty() {
            return true;
        }
        let path = path.to_lowercase();
        if self.name.contains('*') { glob(&self.name, &path) } else { path.contains(&self.name) }
    }
}

/// `a=b,c=d`
fn pairs(text: &str) -> Result<Vec<(String, String)>, Error> {
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=')?;
        Some((key.to_owned(), value.to_owned()))
    };
    let pairs: Option<Vec<_>> = text.split(',').map(pair).collect();
    pairs.ok_or_else(|| Error::invalid("'metadata' must be pairs such as owner=ada,tier=*"))
}

/// Whether `text` is `pattern`, in which a `*` stands for anything.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').map_or((None, rest), |(m, l)| (Some(m), l));
    for part in middle.into_iter().flat_map(|middle| middle.split('*')) {
        // The leftmost place is as good as any: what follows may stand anywhere behind it.
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

/// The custom metadata of a secret: from memory if it is there.
fn custom_metadata(
    unsealed: &NamespaceContext,
    mount: &Mount,
    path: &str,
) -> Result<Option<Map>, Error> {
    if !mount.entry.kind.has_versions() {
        return Ok(None);
    }
    let text = match hot_custom(unsealed, &unsealed.view.hot, mount, path)? {
        Some(text) => text,
        None => {
            let (metadata, _) = v2::stage::metadata(unsealed, mount, path)?;
            metadata
                .and_then(|metadata| metadata.custom)
                .map_or_else(Vec::new, |text| text.into_string().into_bytes())
        }
    };
    if text.is_empty() {
        return Ok(None);
    }
    let text = std::str::from_utf8(&text).map_err(|error| Error::internal(&error))?;
    Ok(v2::custom_json(Some(text))?.as_object().cloned())
}

/// The text of it in the hot table; empty for none, `None` when the secret is not in the table.
fn hot_custom(
    unsealed: &NamespaceContext,
    table: &Table<HotSlot>,
    mount: &Mount,
    path: &str,
) -> Result<Option<Vec<u8>>, Error> {
    let guard = table.pin();
    let Some(entry) = table.get(&hot_key(mount.entry.id, path), &guard).map(Hot::from) else {
        return Ok(None);
    };
    if entry.header.custom_bytes == 0 {
        return Ok(Some(Vec::new()));
    }
    let mut data = zeroize::Zeroizing::new(Vec::with_capacity(entry.sealed_bytes()));
    entry.open_into(&unsealed.view.cipher, &mut data).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The obvious way: try every place for every star.
    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|at| naive(rest, &text[at..])),
            Some((byte, rest)) => text.first() == Some(byte) && naive(rest, &text[1..]),
        }
    }

    #[test]
    fn a_glob_is_what_trying_every_place_finds() {
        let mut random = fastrand::Rng::with_seed(11);
        let mut hits = 0;
        for _ in 0..50_000 {
            let mut word = |letters: &[char], most: usize| -> String {
                let count = random.usize(..=most);
                (0..count).map(|_| letters[random.usize(..letters.len())]).collect()
            };
            let (pattern, text) = (word(&['a', 'b', '*'], 6), word(&['a', 'b'], 8));
            let expected = naive(pattern.as_bytes(), text.as_bytes());
            hits += usize::from(expected);
            assert_eq!(glob(&pattern, &text), expected, "{pattern:?} {text:?}");
        }
        assert!(hits > 1000);
    }
}
