//! From an HTTP head and a body to a core request.

use std::net::SocketAddr;

use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use jiff::Timestamp;
use kallisto_core::{
    BodyKind, Error, HeaderSource, Headers, Operation, Path, Request, RequestId, Span, TokenText,
    no_snapshot_named, parse_bool, parse_query, snapshot_to_recover,
};

use super::SILENT;
use super::target::HttpVerb;

static TOKEN: HeaderName = HeaderName::from_static("x-vault-token");
static NAMESPACE: HeaderName = HeaderName::from_static("x-vault-namespace");
static WRAP_TTL: HeaderName = HeaderName::from_static("x-vault-wrap-ttl");

/// When a request arrived, from whom, and with what in its head.
#[derive(Clone, Copy)]
pub(super) struct Arrival<'a> {
    pub(super) now: Timestamp,
    pub(super) remote: SocketAddr,
    pub(super) client_chain: &'a [Vec<u8>],
    pub(super) headers: &'a InHead<'a>,
}

/// The headers of a request, for the core to ask for by name.
pub(super) struct InHead<'a>(pub(super) &'a HeaderMap);

impl HeaderSource for InHead<'_> {
    fn values(&self, name: &str) -> Vec<String> {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        self.0.get_all(name).iter().map(text).collect()
    }
}

/// Parses a request; `path` is percent-encoded.
///
/// # Errors
/// [`Error::Invalid`] naming what is malformed.
pub(super) fn parse<'a>(
    head: &'a Parts,
    path: &'a str,
    verb: HttpVerb,
    body: &'a [u8],
    arrival: Arrival<'a>,
) -> Result<Request<'a>, Error> {
    let path = Path::decode(path).map_err(|error| Error::invalid(error.to_string()))?;
    let query = match head.uri.query() {
        None => Vec::new(),
        Some(query) => {
            parse_query(query).ok_or_else(|| Error::invalid("malformed query parameters"))?
        }
    };
    Ok(Request {
        id: RequestId::make(),
        operation: operation(verb, &query, Headers::of(arrival.headers))?,
        path,
        namespace: namespace(head)?,
        token: token(head),
        query,
        body,
        body_kind: body_kind(head),
        wrap_ttl_secs: wrap_ttl(head)?,
        now: arrival.now,
        remote: Some(arrival.remote),
        client_chain: arrival.client_chain,
        headers: Headers::of(arrival.headers),
    })
}

/// A `GET` with `list` or `scan` is a list or a scan, and a write that names a loaded snapshot recovers from it; elsewhere the
/// parameters mean nothing. `RECOVER` is for nothing else.
fn operation(
    verb: HttpVerb,
    query: &[(String, String)],
    headers: Headers<'_>,
) -> Result<Operation, Error> {
    Ok(match verb {
        HttpVerb::Get if flag(query, "list")? => Operation::List,
        HttpVerb::Get if flag(query, "scan")? => Operation::Scan,
        HttpVerb::Get => {
            // What it asks then is the core's to see; here it is only checked.
            flag(query, "help")?;
            Operation::Read
        }
        HttpVerb::Write => match snapshot_to_recover(query, headers)? {
            Some(_) => Operation::Recover,
            None => Operation::Update,
        },
        HttpVerb::Recover => match snapshot_to_recover(query, headers)? {
            Some(_) => Operation::Recover,
            None => return Err(no_snapshot_named()),
        },
        HttpVerb::Patch => Operation::Patch,
        HttpVerb::Delete => Operation::Delete,
        HttpVerb::List => Operation::List,
        HttpVerb::Scan => Operation::Scan,
    })
}

fn flag(query: &[(String, String)], name: &str) -> Result<bool, Error> {
    match query.iter().find(|(given, _)| given == name) {
        None => Ok(false),
        Some((_, value)) if value.is_empty() => Ok(false),
        Some((_, value)) => parse_bool(value).ok_or(SILENT),
    }
}

/// The token of the contract's own header, else of a bearer authorisation.
fn token(head: &Parts) -> Option<TokenText<'_>> {
    // A header without a value says no more than none.
    let text = match head.headers.get(&TOKEN).filter(|value| !value.is_empty()) {
        Some(value) => value.to_str().ok()?,
        None => head.headers.get_all(AUTHORIZATION).iter().find_map(bearer)?,
    };
    (!text.is_empty()).then(|| TokenText::new(text))
}

/// The token of a bearer authorisation; a request may have others too.
fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

fn namespace(head: &Parts) -> Result<&str, Error> {
    match head.headers.get(&NAMESPACE) {
        None => Ok(""),
        Some(value) => value.to_str().map_err(|_| Error::NoNamespace),
    }
}

fn wrap_ttl(head: &Parts) -> Result<u64, Error> {
    let value =
        head.headers.get(&WRAP_TTL).filter(|value| !value.as_bytes().trim_ascii().is_empty());
    let Some(value) = value else { return Ok(0) };
    let span = value.to_str().ok().and_then(Span::parse);
    let secs = span.and_then(|span| u64::try_from(span.nanos()).ok()).map(|nanos| {
        // A lifetime under a second still asks for wrapping.
        nanos.div_ceil(1_000_000_000)
    });
    secs.ok_or_else(|| {
        Error::invalid("error parsing X-Vault-Wrap-TTL header: not a duration of zero or more")
    })
}

fn body_kind(head: &Parts) -> BodyKind<'_> {
    let Some(value) = head.headers.get(CONTENT_TYPE) else { return BodyKind::Json };
    let Ok(text) = value.to_str() else { return BodyKind::Other("") };
    let kind = text.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/merge-patch+json") {
        BodyKind::MergePatch
    } else if kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        BodyKind::Form
    } else if kind.eq_ignore_ascii_case("application/json") {
        BodyKind::Json
    } else {
        BodyKind::Other(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let mut builder = hyper::Request::builder().uri("/v1/a");
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap().into_parts().0
    }

    #[test]
    fn the_vault_header_outranks_a_bearer() {
        let text = |headers: &[(&str, &str)]| {
            token(&parts(headers)).map(|token| token.expose().to_owned())
        };
        assert_eq!(
            text(&[("Authorization", "Bearer b"), ("X-Vault-Token", "a")]),
            Some("a".into())
        );
        assert_eq!(text(&[("Authorization", "bearer b")]), Some("b".into()));
        assert_eq!(text(&[("Authorization", "Basic b")]), None);
        assert_eq!(text(&[("X-Vault-Token", "")]), None);
        assert_eq!(text(&[("X-Vault-Token", ""), ("Authorization", "Bearer b")]), Some("b".into()));
        assert_eq!(text(&[]), None);
        // Proxies add authorisations of their own.
        let several = [("Authorization", "Basic b"), ("Authorization", "Bearer c")];
        assert_eq!(text(&several), Some("c".into()));
        let several = [("Authorization", "Bearer c"), ("Authorization", "Bearer d")];
        assert_eq!(text(&several), Some("c".into()));
    }

    #[test]
    fn a_parameter_that_says_nothing_asks_for_no_list() {
        let asked = |query: &str| flag(&parse_query(query).unwrap(), "list");
        for query in ["", "list", "list=", "list=false", "list=0", "scan=true"] {
            assert_eq!(asked(query), Ok(false), "{query}");
        }
        for query in ["list=true", "list=TRUE", "list=1", "list=t"] {
            assert_eq!(asked(query), Ok(true), "{query}");
        }
        assert_eq!(asked("list=yes"), Err(SILENT));
    }

    #[test]
    fn wrap_ttls_parse_or_are_refused() {
        for (text, secs) in [("0", 0), ("60", 60), ("1h", 3600), ("250ms", 1)] {
            assert_eq!(wrap_ttl(&parts(&[("X-Vault-Wrap-TTL", text)])), Ok(secs), "{text}");
        }
        // One without a value asks for nothing.
        for text in ["", "  "] {
            assert_eq!(wrap_ttl(&parts(&[("X-Vault-Wrap-TTL", text)])), Ok(0), "{text:?}");
        }
        for text in ["-1", "soon"] {
            assert!(wrap_ttl(&parts(&[("X-Vault-Wrap-TTL", text)])).is_err(), "{text}");
        }
    }
}
