//! A request as the core takes it: parsed by a listener, not yet trusted.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::net::SocketAddr;

use jiff::Timestamp;
use kallisto_auth::{Operation, Path};

use crate::error::Error;
use crate::etag::Etag;
use crate::fields::parse_bool;
use crate::flow::Flow;
use crate::json::{self, Json, Map};
use crate::request_id::RequestId;

/// What the body is said to be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum BodyKind<'a> {
    /// JSON, whatever else the content type says.
    Json,
    /// `application/merge-patch+json`.
    MergePatch,
    /// `application/x-www-form-urlencoded`.
    Form,
    /// JSON under another content type, which `PATCH` names when it refuses.
    Other(&'a str),
    /// No text, but what it would say: of a protocol that knows no JSON. The body has no bytes.
    Fields(&'a Map),
}

impl fmt::Debug for BodyKind<'_> {
    /// Without the fields, which are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "Json",
            Self::MergePatch => "MergePatch",
            Self::Form => "Form",
            Self::Other(_) => "Other",
            Self::Fields(_) => "Fields",
        })
    }
}

/// The text of a token, borrowed from the request that carries it. Never printed.
#[derive(Clone, Copy)]
pub struct TokenText<'a>(&'a str);

impl<'a> TokenText<'a> {
    /// Wraps a token's text.
    pub const fn new(text: &'a str) -> Self {
        Self(text)
    }

    /// The text itself; whoever calls this handles a secret.
    pub const fn expose(self) -> &'a str {
        self.0
    }
}

impl fmt::Debug for TokenText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText")
    }
}

/// Where the headers of a request are found: whoever parsed it still has them.
pub trait HeaderSource: Sync {
    /// The values of a header whose name is given in lower case.
    fn values(&self, name: &str) -> Vec<String>;
}

/// The headers of a request, which are looked at only when somebody asked for them by name. Never
/// printed.
#[derive(Clone, Copy, Default)]
pub struct Headers<'a>(Option<&'a dyn HeaderSource>);

impl<'a> Headers<'a> {
    /// The headers that `source` has.
    pub fn of(source: &'a dyn HeaderSource) -> Self {
        Self(Some(source))
    }

    /// The values of a header whose name is given in lower case.
    pub fn values(self, name: &str) -> Vec<String> {
        self.0.map_or_else(Vec::new, |source| source.values(name))
    }
}

impl fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Headers")
    }
}

/// One request.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Its id.
    pub id: RequestId,
    /// What is asked.
    pub operation: Operation,
    /// Where.
    pub path: Path<'a>,
    /// The namespace asked for; empty for the root one.
    pub namespace: &'a str,
    /// Who asks.
    pub token: Option<TokenText<'a>>,
    /// The query parameters, decoded.
    pub query: Vec<(String, String)>,
    /// The body's bytes, bounded by the listener.
    pub body: &'a [u8],
    /// What the body is said to be.
    pub body_kind: BodyKind<'a>,
    /// Lifetime asked for a wrapped response, in seconds; 0 for an open one.
    pub wrap_ttl_secs: u64,
    /// When the request arrived.
    pub now: Timestamp,
    /// The other end of the connection it came by; `None` for one made within the process.
    pub remote: Option<SocketAddr>,
    /// The certificates that the client presented, its own first, in DER; whose key it proved to have.
    pub client_chain: &'a [Vec<u8>],
    /// Its headers.
    pub headers: Headers<'a>,
}

impl<'a> Request<'a> {
    /// A request with an id of its own, of nobody, in the root namespace: without query, body, certificates and headers.
    /// What it has besides, callers say field by field.
    #[inline]
    pub fn new(operation: Operation, path: Path<'a>, now: Timestamp) -> Self {
        Self {
            id: RequestId::make(),
            operation,
            path,
            namespace: "",
            token: None,
            query: Vec::new(),
            body: &[],
            body_kind: BodyKind::Json,
            wrap_ttl_secs: 0,
            now,
            remote: None,
            client_chain: &[],
            headers: Headers::default(),
        }
    }
}

/// The header that names the loaded snapshot of a recovery, in lower case; Vault's.
const RECOVER_HEADER: &str = "x-vault-recover-snapshot-id";
/// The query parameter that says the same, which Vault took first.
const RECOVER_QUERY: &str = "recover_snapshot_id";
/// The query parameter that names the loaded snapshot of a read.
const READ_QUERY: &str = "read_snapshot_id";

/// The loaded snapshot that a query and headers name to recover from; `None` where neither names any. Whether a request recovers is
/// decided by this alone.
///
/// # Errors
/// [`Error::Invalid`] unless all that is named is one id. An empty one is a mistake (a variable that is not set, say): a request that
/// meant to recover must never run as a plain write.
pub fn snapshot_to_recover(
    query: &[(String, String)],
    headers: Headers<'_>,
) -> Result<Option<String>, Error> {
    let in_query = query.iter().filter(|(name, _)| name == RECOVER_QUERY).map(|(_, id)| id.clone());
    let mut ids = headers.values(RECOVER_HEADER).into_iter().chain(in_query);
    let Some(id) = ids.next() else { return Ok(None) };
    if ids.any(|other| other != id) {
        return Err(Error::invalid("more than one snapshot is named to recover from"));
    }
    if id.is_empty() {
        return Err(no_snapshot_named());
    }
    Ok(Some(id))
}

/// The refusal of a recovery that does not say from what.
pub fn no_snapshot_named() -> Error {
    Error::invalid("RECOVER needs a loaded snapshot: X-Vault-Recover-Snapshot-Id names it")
}

impl Request<'_> {
    /// The loaded snapshot that a read or a list is to be answered from.
    pub fn read_snapshot(&self) -> Option<&str> {
        if self.operation.writes() {
            return None;
        }
        let mut ids = self.query.iter().filter(|(name, _)| name == READ_QUERY);
        ids.find(|(_, id)| !id.is_empty()).map(|(_, id)| id.as_str())
    }

    /// The loaded snapshot that a recovery recovers from.
    ///
    /// # Errors
    /// [`Error::Invalid`] as [`snapshot_to_recover`], and where none is named.
    pub fn recover_snapshot(&self) -> Result<String, Error> {
        snapshot_to_recover(&self.query, self.headers)?.ok_or_else(no_snapshot_named)
    }

    /// Whether the client says that it has the answer with this tag.
    pub fn knows(&self, etag: Etag) -> bool {
        self.headers.values("if-none-match").iter().any(|named| etag.is_named_in(named))
    }

    /// The arrival in nanoseconds since 1970. The range of `i64` ends in the year 2262.
    pub fn now_ns(&self) -> i64 {
        i64::try_from(self.now.as_nanosecond()).unwrap_or(i64::MAX)
    }

    /// Who it is counted with before its token was looked at: everybody at its address.
    pub fn flow(&self) -> Flow {
        self.remote.map_or(Flow::OWN, |remote| Flow::of_address(remote.ip()))
    }

    /// Who it is counted with once its token is known to be live: that token, at its address.
    pub fn client(&self) -> Flow {
        self.token.map_or_else(|| self.flow(), |token| self.flow().with_token(token.expose()))
    }

    /// Whether it asks what its path is for.
    pub fn asks_help(&self) -> bool {
        let given = self.query.iter().find(|(name, _)| name == "help");
        let asks = given.is_some_and(|(_, value)| parse_bool(value) == Some(true));
        asks && self.operation == Operation::Read
    }

    /// The body as an object.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming what is wrong and where.
    pub fn object(&self) -> Result<Map, Error> {
        match self.body_kind {
            BodyKind::Fields(fields) => return Ok(fields.clone()),
            BodyKind::Form if !looks_like_json(self.body) => return parse_form(self.body),
            BodyKind::Form | BodyKind::Json | BodyKind::MergePatch | BodyKind::Other(_) => {}
        }
        json::parse_object(self.body)
            .map_err(|error| Error::invalid(format!("failed to decode JSON input: {error}")))
    }

    /// How much it brings, in bytes: its body, or the texts of its fields.
    pub fn body_bytes(&self) -> usize {
        match self.body_kind {
            BodyKind::Fields(fields) => json::text_bytes(fields),
            _ => self.body.len(),
        }
    }

    /// The body of a `PATCH`.
    ///
    /// # Errors
    /// [`Error::UnsupportedMedia`] unless the content type is that of a merge patch; what
    /// [`Request::object`] says otherwise.
    pub fn merge_patch(&self) -> Result<Map, Error> {
        let given = match self.body_kind {
            BodyKind::MergePatch | BodyKind::Fields(_) => return self.object(),
            BodyKind::Json => "application/json",
            BodyKind::Form => "application/x-www-form-urlencoded",
            BodyKind::Other(given) => given,
        };
        let given: String = given.chars().filter(|c| !c.is_control()).take(100).collect();
        Err(Error::UnsupportedMedia(format!(
            "PATCH requires Content-Type of application/merge-patch+json, provided {given}"
        )))
    }

    /// The query parameters as fields; one that is there twice is a list, in text.
    pub fn query_fields(&self) -> Map {
        join_fields(self.query.iter().cloned())
    }

    /// The one value of a query parameter.
    ///
    /// # Errors
    /// How many there are if there are several: which of them counts, nobody is to guess.
    pub fn sole_in_query(&self, name: &str) -> Result<Option<&str>, usize> {
        let mut values = self.query.iter().filter(|(given, _)| given == name);
        let first = values.next().map(|(_, value)| value.as_str());
        match values.count() {
            0 => Ok(first),
            more => Err(more + 1),
        }
    }
}

/// True when a body that calls itself a form is JSON: `curl -d` says so of everything it sends.
fn looks_like_json(body: &[u8]) -> bool {
    matches!(body.trim_ascii_start().first(), Some(b'{' | b'[' | b'"'))
}

fn parse_form(body: &[u8]) -> Result<Map, Error> {
    let refuse = || Error::invalid("failed to decode form input: malformed encoding");
    let text = std::str::from_utf8(body).map_err(|_| refuse())?;
    Ok(join_fields(parse_query(text).ok_or_else(refuse)?))
}

/// Fields from names and texts. A name that is there twice is a list, and the text of a list has commas.
fn join_fields(pairs: impl IntoIterator<Item = (String, String)>) -> Map {
    let mut fields: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in pairs {
        match fields.entry(name) {
            Entry::Vacant(place) => {
                place.insert(value);
            }
            Entry::Occupied(mut place) => {
                place.get_mut().push(',');
                place.get_mut().push_str(&value);
            }
        }
    }
    fields.into_iter().map(|(name, value)| (name, Json::String(value))).collect()
}

/// Most query parameters or form fields in one request.
pub const QUERY_PAIRS_MAX: usize = 256;

/// Splits `a=b&c=d` and decodes both sides; `None` when an escape is malformed, the result is not
/// UTF-8, or there are more than [`QUERY_PAIRS_MAX`] pairs.
pub fn parse_query(text: &str) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        if pairs.len() == QUERY_PAIRS_MAX {
            return None;
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        pairs.push((decode_component(name)?, decode_component(value)?));
    }
    Some(pairs)
}

fn decode_component(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Fields;

    #[test]
    fn a_field_of_a_form_that_is_there_twice_is_a_list() {
        let form = parse_form(b"a=1&policies=x&policies=y%2Cz&a=&b=").unwrap();
        let text = |name: &str| form[name].as_str().unwrap();
        assert_eq!((text("policies"), text("a"), text("b")), ("x,y,z", "1,", ""));
        let policies = Fields::new(&form).strings("policies").unwrap().unwrap();
        assert_eq!(policies, ["x", "y", "z"]);
    }

    #[test]
    fn queries_decode_or_are_refused() {
        let pairs = parse_query("a=b%20c&d=e+f&g&h=%C3%A9").unwrap();
        let expected = [("a", "b c"), ("d", "e f"), ("g", ""), ("h", "é")];
        assert!(pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).eq(expected));
        for bad in ["a=%", "a=%f", "a=%zz", "a=%ff", &"a&".repeat(QUERY_PAIRS_MAX + 1)] {
            assert_eq!(parse_query(bad), None);
        }
    }
}
