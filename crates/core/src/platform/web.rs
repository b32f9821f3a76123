//! What browsers get: which pages of other origins may ask, and the headers of the server's own
//! pages.
//!
//! Both are records in the engine storage of `sys/`, brought here by the fold and read by the listener for
//! every request that names an origin. No other origin may ask until an operator allows it; tokens
//! travel in headers and never in cookies, so credentials are never allowed.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};

use crate::api::json::{self, Json, Map};

/// Where the origins are kept in the engine storage of `sys/`.
pub(crate) const CORS: &str = "config/cors";
/// Where the headers of pages are, by name.
pub(crate) const PAGE_HEADERS: &str = "config/ui/header/";
/// The origin that stands for all.
pub(crate) const ANY_ORIGIN: &str = "*";

/// Headers that a page may send once its origin is allowed; clients of Vault send these.
pub(crate) const USUAL_HEADERS: [&str; 10] = [
    "Content-Type",
    "Authorization",
    "X-Vault-Token",
    "X-Vault-MFA",
    "X-Vault-No-Request-Forwarding",
    "X-Vault-Wrap-Format",
    "X-Vault-Wrap-TTL",
    "X-Requested-With",
    "X-Vault-AWS-IAM-Server-ID",
    "X-Vault-Policy-Override",
];

/// Which origins may ask, and what they may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origins {
    pub(crate) allowed: Vec<String>,
    /// Headers besides [`USUAL_HEADERS`].
    pub(crate) extra_headers: Vec<String>,
}

impl Origins {
    /// Whether pages of this origin may ask; it is compared byte by byte.
    pub fn allow(&self, origin: &[u8]) -> bool {
        self.allowed.iter().any(|one| one == ANY_ORIGIN || one.as_bytes() == origin)
    }

    /// The headers that such a page may send.
    pub fn headers(&self) -> impl Iterator<Item = &str> {
        USUAL_HEADERS.into_iter().chain(self.extra_headers.iter().map(String::as_str))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        Json::object([
            ("allowed_origins", Json::strings(self.allowed.clone())),
            ("extra_headers", Json::strings(self.extra_headers.clone())),
        ])
        .to_text()
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let map = json::parse_object(value).ok()?;
        Some(Self {
            allowed: texts(&map, "allowed_origins")?,
            extra_headers: texts(&map, "extra_headers")?,
        })
    }
}

/// The values of each header of the server's pages, by name.
pub type PageHeaders = BTreeMap<String, Vec<String>>;

/// The record of one header.
pub(crate) fn encode_page_header(values: &[String]) -> Vec<u8> {
    Json::object([("values", Json::strings(values.to_vec()))]).to_text()
}

fn texts(map: &Map, name: &str) -> Option<Vec<String>> {
    let Json::Array(items) = map.get(name)? else { return None };
    items.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

/// What browsers are told, as the records have it.
#[derive(Default)]
pub(crate) struct Web {
    origins: ArcSwapOption<Origins>,
    page_headers: ArcSwap<PageHeaders>,
}

impl Web {
    /// Takes a record of the engine storage in; false when it is damaged. Records of others are passed over.
    pub(crate) fn put(&self, name: &str, value: &[u8]) -> bool {
        if name == CORS {
            let Some(origins) = Origins::decode(value) else { return false };
            self.origins.store(Some(Arc::new(origins)));
        } else if let Some(name) = name.strip_prefix(PAGE_HEADERS) {
            let values = json::parse_object(value).ok().and_then(|map| texts(&map, "values"));
            let Some(values) = values else { return false };
            self.change(|headers| {
                headers.insert(name.to_owned(), values);
            });
        }
        true
    }

    /// Forgets a record of the engine storage.
    pub(crate) fn remove(&self, name: &str) {
        if name == CORS {
            self.origins.store(None);
        } else if let Some(name) = name.strip_prefix(PAGE_HEADERS) {
            self.change(|headers| {
                headers.remove(name);
            });
        }
    }

    /// Called by the fold alone, so changes do not race.
    fn change(&self, change: impl FnOnce(&mut PageHeaders)) {
        let mut headers = PageHeaders::clone(&self.page_headers.load());
        change(&mut headers);
        self.page_headers.store(Arc::new(headers));
    }

    pub(crate) fn origins(&self) -> Option<Arc<Origins>> {
        self.origins.load_full()
    }

    pub(crate) fn page_headers(&self) -> Arc<PageHeaders> {
        self.page_headers.load_full()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_and_go_and_damaged_ones_are_told() {
        let web = Web::default();
        let origins = Origins {
            allowed: vec!["https://a.example".to_owned()],
            extra_headers: vec!["X-Own".to_owned()],
        };
        assert!(web.put(CORS, &origins.encode()));
        assert_eq!(web.origins().as_deref(), Some(&origins));
        assert!(origins.allow(b"https://a.example") && !origins.allow(b"https://a.example.evil"));
        assert!(!origins.allow(b"https://A.example") && !origins.allow(b""));
        assert_eq!(origins.headers().last(), Some("X-Own"));
        let name = format!("{PAGE_HEADERS}X-One");
        assert!(web.put(&name, &encode_page_header(&["a".to_owned(), "b".to_owned()])));
        assert_eq!(web.page_headers()["X-One"], ["a", "b"]);
        assert!(!web.put(CORS, b"{}") && !web.put(&name, b"[]") && web.put("other", b"\xff"));
        web.remove(CORS);
        web.remove(&name);
        assert!(web.origins().is_none() && web.page_headers().is_empty());
    }
}
