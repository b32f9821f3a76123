//! What operators write besides keys and clients: roles, scopes, assignments, providers.

use kallisto_api::{Error, Json};

use crate::record;
use crate::subject::TokenSubject;

/// The assignment that everybody is in; it is always there, and nobody changes it.
pub const ALLOW_ALL: &str = "allow_all";
/// The provider that is always there.
pub const DEFAULT_PROVIDER: &str = "default";
/// The scope that every request asks for; it has no claims of its own.
pub const OPENID: &str = "openid";
/// Most entities, and most groups, of an assignment.
pub const ASSIGNED_MAX: usize = 16 << 10;
/// Most scopes of a provider.
pub const SCOPES_MAX: usize = 256;
/// Most clients that a provider lists.
pub const PROVIDER_CLIENTS_MAX: usize = 4096;

/// What identity tokens are made by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRole {
    /// The name of the key that signs them.
    pub key: String,
    /// Whom they are for.
    pub client_id: String,
    /// The claims that they have besides.
    pub template: String,
    /// How long they live, in seconds.
    pub ttl_secs: u64,
}

/// Claims that a client may ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimsScope {
    /// The claims.
    pub template: String,
    /// For people.
    pub description: String,
}

/// Who may log in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// By id.
    pub entity_ids: Vec<String>,
    /// Whoever is in them, by id.
    pub group_ids: Vec<String>,
}

/// A provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OidcProvider {
    /// Scheme, host and port; empty for the address of the server.
    pub issuer: String,
    /// Who may use it; `*` for every client.
    pub allowed_client_ids: Vec<String>,
    /// The scopes that it knows besides `openid`.
    pub scopes_supported: Vec<String>,
}

impl TokenRole {
    /// What is shown of it.
    pub fn shown(&self) -> Json {
        Json::object([
            ("client_id", self.client_id.as_str().into()),
            ("key", self.key.as_str().into()),
            ("template", self.template.as_str().into()),
            ("ttl", self.ttl_secs.into()),
        ])
    }

    /// Reads a record back, whose bytes are what is shown; `None` when it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let map = record::object(bytes)?;
        Some(Self {
            key: record::text(&map, "key")?,
            client_id: record::text(&map, "client_id")?,
            template: record::text(&map, "template")?,
            ttl_secs: record::number(&map, "ttl")?,
        })
    }
}

impl ClaimsScope {
    /// What is shown of it.
    pub fn shown(&self) -> Json {
        Json::object([
            ("description", self.description.as_str().into()),
            ("template", self.template.as_str().into()),
        ])
    }

    /// Reads a record back, whose bytes are what is shown; `None` when it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let map = record::object(bytes)?;
        Some(Self {
            template: record::text(&map, "template")?,
            description: record::text(&map, "description")?,
        })
    }
}

impl Assignment {
    /// The one that everybody is in.
    pub fn of_all() -> Self {
        Self { entity_ids: vec!["*".to_owned()], group_ids: vec!["*".to_owned()] }
    }

    /// Whether a subject is in it.
    pub fn has(&self, subject: &TokenSubject) -> bool {
        let by_group = |group: &String| subject.groups.iter().any(|own| own.id == *group);
        self.entity_ids.contains(&subject.id) || self.group_ids.iter().any(by_group)
    }

    /// What is shown of it.
    pub fn shown(&self) -> Json {
        Json::object([
            ("entity_ids", Json::strings(self.entity_ids.clone())),
            ("group_ids", Json::strings(self.group_ids.clone())),
        ])
    }

    /// Reads a record back, whose bytes are what is shown; `None` when it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let map = record::object(bytes)?;
        Some(Self {
            entity_ids: record::texts(&map, "entity_ids")?,
            group_ids: record::texts(&map, "group_ids")?,
        })
    }
}

impl OidcProvider {
    /// The one that is always there, while nobody changed it.
    pub fn of_default() -> Self {
        Self { allowed_client_ids: vec!["*".to_owned()], ..Self::default() }
    }

    /// Whether a client may use it.
    pub fn allows(&self, client_id: &str) -> bool {
        self.allowed_client_ids.iter().any(|allowed| allowed == "*" || allowed == client_id)
    }

    /// What is shown of it; `issuer` is the whole one.
    pub fn shown(&self, issuer: &str) -> Json {
        Json::object([
            ("allowed_client_ids", Json::strings(self.allowed_client_ids.clone())),
            ("issuer", issuer.into()),
            ("scopes_supported", Json::strings(self.scopes_supported.clone())),
        ])
    }

    /// Reads a record back, whose bytes are what is shown with its own issuer; `None` when it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let map = record::object(bytes)?;
        Some(Self {
            issuer: record::text(&map, "issuer")?,
            allowed_client_ids: record::texts(&map, "allowed_client_ids")?,
            scopes_supported: record::texts(&map, "scopes_supported")?,
        })
    }
}

/// Refuses an issuer that is more than a scheme, a host and a port, or less. An empty one stands for the address of the server.
///
/// # Errors
/// [`Error::Invalid`] saying so.
pub fn check_issuer(issuer: &str) -> Result<(), Error> {
    let rest = issuer.strip_prefix("https://").or_else(|| issuer.strip_prefix("http://"));
    let fits = |rest: &str| {
        let (host, port) = match rest.rfind(':') {
            Some(at) if !rest.ends_with(']') => (&rest[..at], Some(&rest[at + 1..])),
            _ => (rest, None),
        };
        let inside = match host.strip_prefix('[') {
            Some(inside) => inside.strip_suffix(']').filter(|text| text.contains(':')),
            None => Some(host).filter(|text| !text.contains(':')),
        };
        let word =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':' | b'_');
        inside.is_some_and(|inside| !inside.is_empty() && inside.bytes().all(word))
            && port.is_none_or(|port| port.parse::<u16>().is_ok() && !port.starts_with('+'))
    };
    if issuer.is_empty() || rest.is_some_and(fits) {
        return Ok(());
    }
    Err(Error::invalid(
        "invalid issuer, which must include only a scheme, host, and optional port (e.g. \
         https://example.com:8200)",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_is_a_scheme_a_host_and_perhaps_a_port() {
        for good in [
            "",
            "https://a.example",
            "http://127.0.0.1:8200",
            "https://[::1]:8200",
            "https://[2001:db8::1]",
        ] {
            assert!(check_issuer(good).is_ok(), "{good}");
        }
        for bad in [
            "a.example",
            "ftp://a.example",
            "https://",
            "https://:80",
            "https://a.example/",
            "https://a.example/x",
            "https://a.example?x",
            "https://a.example#x",
            "https://u@a.example",
            "https://a.example:",
            "https://a.example:x",
            "https://a.example:99999",
            "https://a.example:+80",
            "https://::1",
            "https://[]",
            "https://[a]",
            "https://a b",
            "HTTPS://a.example",
            "https://a\\b",
        ] {
            assert!(check_issuer(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn records_are_read_back_as_they_were() {
        let role = TokenRole {
            key: "k".to_owned(),
            client_id: "c".to_owned(),
            template: "{}".to_owned(),
            ttl_secs: 60,
        };
        assert_eq!(TokenRole::decode(&role.shown().to_text()).unwrap(), role);
        let provider = OidcProvider::of_default();
        assert_eq!(OidcProvider::decode(&provider.shown("").to_text()).unwrap(), provider);
        let assignment = Assignment { entity_ids: vec!["e".to_owned()], group_ids: Vec::new() };
        assert_eq!(Assignment::decode(&assignment.shown().to_text()).unwrap(), assignment);
        let scope = ClaimsScope { template: "{}".to_owned(), description: "d".to_owned() };
        assert_eq!(ClaimsScope::decode(&scope.shown().to_text()).unwrap(), scope);
        assert!(TokenRole::decode(b"[]").is_none());
    }

    #[test]
    fn everybody_is_in_the_assignment_of_all_and_a_provider_names_its_clients() {
        let everybody = vec!["*".to_owned()];
        let all = Assignment::of_all();
        assert_eq!((&all.entity_ids, &all.group_ids), (&everybody, &everybody));
        let of = |ids: &[&str]| OidcProvider {
            allowed_client_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            ..OidcProvider::of_default()
        };
        assert!(of(&["*"]).allows("a") && of(&["b", "a"]).allows("a"));
        assert!(!of(&["b"]).allows("a") && !of(&[]).allows("a"));
    }
}
