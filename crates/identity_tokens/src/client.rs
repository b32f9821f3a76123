//! Clients: the applications that users log in to.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use kallisto_api::{Error, Json, Map};

use crate::named_key::DAY_SECS;
use crate::record;
use crate::redirect;

/// Most redirect URIs of a client.
pub const REDIRECT_URIS_MAX: usize = 256;
/// Most assignments of a client.
pub const ASSIGNMENTS_MAX: usize = 256;
/// Longest life of an access token, in seconds: a year.
pub const ACCESS_TOKEN_SECS_MAX: u64 = 366 * DAY_SECS;
/// What leads the secret of a client.
pub const SECRET_PREFIX: &str = "hvo_secret_";

/// Whether a client can keep a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientType {
    /// It runs on a server.
    Confidential,
    /// It runs with its user, who can read whatever it keeps.
    Public,
}

impl ClientType {
    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Confidential => "confidential",
            Self::Public => "public",
        }
    }

    /// The type of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Confidential, Self::Public].into_iter().find(|kind| kind.name() == name)
    }
}

/// A client. Its secret is printed nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct OauthClient {
    /// The name that operators gave it.
    pub name: String,
    /// What it is known by to itself.
    pub client_id: String,
    /// `None` for a public one.
    pub secret: Option<zeroize::Zeroizing<String>>,
    /// Whether it can keep a secret.
    pub kind: ClientType,
    /// The name of the key that signs its ID tokens.
    pub key: String,
    /// Where browsers are sent with codes.
    pub redirect_uris: Vec<String>,
    /// Who may log in to it.
    pub assignments: Vec<String>,
    /// How long its ID tokens live, in seconds.
    pub id_token_ttl_secs: u64,
    /// How long its access tokens live, in seconds.
    pub access_token_ttl_secs: u64,
    /// Whether users log in to it.
    pub authorization_code: bool,
    /// Whether it gets tokens for itself.
    pub client_credentials: bool,
}

impl std::fmt::Debug for OauthClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OauthClient").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

impl OauthClient {
    /// A client about which nothing was said yet.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            client_id: String::new(),
            secret: None,
            kind: ClientType::Confidential,
            key: crate::named_key::DEFAULT.to_owned(),
            redirect_uris: Vec::new(),
            assignments: Vec::new(),
            id_token_ttl_secs: DAY_SECS,
            access_token_ttl_secs: DAY_SECS,
            authorization_code: true,
            client_credentials: false,
        }
    }

    /// Refuses what no client may be; `verification_ttl_secs` is its key's.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying what.
    pub fn check(&self, verification_ttl_secs: u64) -> Result<(), Error> {
        if self.redirect_uris.len() > REDIRECT_URIS_MAX {
            return Err(Error::invalid(format!("more than {REDIRECT_URIS_MAX} redirect URIs")));
        }
        if self.assignments.len() > ASSIGNMENTS_MAX {
            return Err(Error::invalid(format!("more than {ASSIGNMENTS_MAX} assignments")));
        }
        self.redirect_uris.iter().try_for_each(|uri| redirect::check(uri))?;
        if self.id_token_ttl_secs > verification_ttl_secs {
            return Err(Error::invalid(
                "a client's id_token_ttl cannot be greater than the verification_ttl of the key it \
                 references",
            ));
        }
        if self.access_token_ttl_secs > ACCESS_TOKEN_SECS_MAX {
            return Err(Error::invalid("access_token_ttl must be a year at most"));
        }
        if self.client_credentials && self.kind == ClientType::Public {
            return Err(Error::invalid(
                "client_credentials takes a client that can keep a secret: client_type is public",
            ));
        }
        Ok(())
    }

    /// Whether `secret` is what it proves itself by. A public client proves nothing.
    pub fn is_proven_by(&self, secret: &str) -> bool {
        match &self.secret {
            Some(own) => verify_slices_are_equal(own.as_bytes(), secret.as_bytes()).is_ok(),
            None => self.kind == ClientType::Public,
        }
    }

    /// What lists show of it.
    pub fn info(&self) -> Map {
        Map::from([
            ("access_token_ttl".to_owned(), self.access_token_ttl_secs.into()),
            ("assignments".to_owned(), Json::strings(self.assignments.clone())),
            ("authorization_code".to_owned(), self.authorization_code.into()),
            ("client_credentials".to_owned(), self.client_credentials.into()),
            ("client_id".to_owned(), self.client_id.as_str().into()),
            ("client_type".to_owned(), self.kind.name().into()),
            ("id_token_ttl".to_owned(), self.id_token_ttl_secs.into()),
            ("key".to_owned(), self.key.as_str().into()),
            ("redirect_uris".to_owned(), Json::strings(self.redirect_uris.clone())),
        ])
    }

    /// What a read shows of it: its secret besides.
    pub fn shown(&self) -> Map {
        let mut map = self.info();
        if let Some(secret) = &self.secret {
            map.insert("client_secret".to_owned(), secret.as_str().into());
        }
        map
    }

    /// The record's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut map = self.shown();
        map.insert("name".to_owned(), self.name.as_str().into());
        Json::Object(map).to_text()
    }

    /// Reads a record back; `None` when it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let map = record::object(bytes)?;
        Some(Self {
            name: record::text(&map, "name")?,
            client_id: record::text(&map, "client_id")?,
            secret: record::text(&map, "client_secret").map(Into::into),
            kind: ClientType::named(map.get("client_type")?.as_str()?)?,
            key: record::text(&map, "key")?,
            redirect_uris: record::texts(&map, "redirect_uris")?,
            assignments: record::texts(&map, "assignments")?,
            id_token_ttl_secs: record::number(&map, "id_token_ttl")?,
            access_token_ttl_secs: record::number(&map, "access_token_ttl")?,
            authorization_code: record::flag(&map, "authorization_code")?,
            client_credentials: record::flag(&map, "client_credentials")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> OauthClient {
        OauthClient {
            client_id: "id".to_owned(),
            secret: Some(format!("{SECRET_PREFIX}x").into()),
            redirect_uris: vec!["https://app.example/cb".to_owned()],
            ..OauthClient::new("app")
        }
    }

    #[test]
    fn a_client_is_stored_whole_and_printed_without_its_secret() {
        let client = client();
        assert_eq!(OauthClient::decode(&client.encode()).unwrap(), client);
        assert!(!format!("{client:?}").contains(SECRET_PREFIX));
        assert!(!client.info().contains_key("client_secret"));
        assert!(OauthClient::decode(b"{}").is_none());
    }

    #[test]
    fn a_confidential_client_is_proven_by_its_secret_and_nothing_else() {
        let client = client();
        assert!(client.is_proven_by("hvo_secret_x"));
        for other in ["", "hvo_secret_", "hvo_secret_X", "hvo_secret_xx"] {
            assert!(!client.is_proven_by(other), "{other}");
        }
        let lost = OauthClient { secret: None, ..client.clone() };
        assert!(!lost.is_proven_by(""), "a secret that is gone is no proof");
        let public = OauthClient { secret: None, kind: ClientType::Public, ..client };
        assert!(public.is_proven_by(""));
    }

    #[test]
    fn a_client_is_as_large_as_it_may_and_its_tokens_live_as_long() {
        let checked = |change: &dyn Fn(&mut OauthClient)| {
            let mut client = client();
            client.id_token_ttl_secs = 60;
            change(&mut client);
            client.check(60).is_ok()
        };
        let uris = |count| vec!["https://app.example/cb".to_owned(); count];
        assert!(checked(&|_| {}));
        assert!(checked(&|client| client.redirect_uris = uris(REDIRECT_URIS_MAX)));
        assert!(!checked(&|client| client.redirect_uris = uris(REDIRECT_URIS_MAX + 1)));
        assert!(!checked(&|client| client.redirect_uris = vec!["no URI".to_owned()]));
        let names = |count| vec!["a".to_owned(); count];
        assert!(checked(&|client| client.assignments = names(ASSIGNMENTS_MAX)));
        assert!(!checked(&|client| client.assignments = names(ASSIGNMENTS_MAX + 1)));
        assert!(!checked(&|client| client.id_token_ttl_secs = 61), "longer than its key");
        let lives = |secs: u64| checked(&|client| client.access_token_ttl_secs = secs);
        assert!(lives(ACCESS_TOKEN_SECS_MAX) && !lives(ACCESS_TOKEN_SECS_MAX + 1));
        assert!(checked(&|client| client.kind = ClientType::Public));
        assert!(checked(&|client| client.client_credentials = true));
        assert!(!checked(&|client| {
            (client.kind, client.client_credentials) = (ClientType::Public, true);
        }));
    }
}
