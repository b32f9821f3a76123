//! A grant: what a user agreed to, from the code to the end of the access token.
//!
//! A code and an access token name the record of their grant, and prove themselves by a secret of which the record has the hash. So
//! nothing that is stored lets anybody in, and what a code was for is found without a search:
//!
//! ```text
//! code, access token := prefix, base64url(expiry hour: 4 bytes, big-endian | id: 16 | secret: 32)
//! ```
//!
//! The hour is that after which nothing of the grant is good any more; records are kept by it, and deleted an hour's at a time.
//!
//! Invariants:
//! - A code is good once: whoever brings it takes the grant from [`GrantState::Open`] on, in one transaction, whatever comes of the rest.
//! - A code that is brought again ends the access token that was given for it (RFC 6749, 4.1.2).
//! - A code that was bound to a challenge is taken from who knows the verifier only, and a verifier is taken with a challenge only.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest;
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use kallisto_api::Json;
use zeroize::Zeroizing;

use crate::oauth::{Code, OauthError};
use crate::record;

/// How long a code is good, in seconds.
pub const CODE_SECS: i64 = 300;
const HOUR_SECS: i64 = 3600;
const ID_BYTES: usize = 16;
const SECRET_BYTES: usize = 32;
const TICKET_BYTES: usize = 4 + ID_BYTES + SECRET_BYTES;
/// What leads an access token.
pub const ACCESS_TOKEN_PREFIX: &str = "hvo_access_";

/// The shortest and longest challenge and verifier (RFC 7636, 4.1).
const VERIFIER_CHARS: std::ops::RangeInclusive<usize> = 43..=128;

/// How a challenge is made of a verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengeMethod {
    /// It is the verifier.
    Plain,
    /// It is the verifier's SHA-256.
    S256,
}

/// What a code is bound to (RFC 7636).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeChallenge {
    text: String,
    method: ChallengeMethod,
}

impl CodeChallenge {
    /// A challenge; `None` when the text can be none.
    pub fn new(text: &str, method: ChallengeMethod) -> Option<Self> {
        is_verifier(text).then(|| Self { text: text.to_owned(), method })
    }

    /// Whether it was made of this verifier.
    pub fn is_of(&self, verifier: &str) -> bool {
        if !is_verifier(verifier) {
            return false;
        }
        let made = match self.method {
            ChallengeMethod::Plain => Zeroizing::new(verifier.to_owned()),
            ChallengeMethod::S256 => BASE64URL_NOPAD.encode(&sha256(verifier)).into(),
        };
        verify_slices_are_equal(made.as_bytes(), self.text.as_bytes()).is_ok()
    }
}

fn is_verifier(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    VERIFIER_CHARS.contains(&text.len()) && text.bytes().all(fits)
}

fn sha256(text: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
    hash
}

/// Where the record of a grant is: a code and an access token name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantId {
    hour: u32,
    id: [u8; ID_BYTES],
}

impl GrantId {
    /// A grant of which nothing is good after `end`.
    pub fn new(end: i64, id: [u8; ID_BYTES]) -> Self {
        let hour = end.div_euclid(HOUR_SECS).saturating_add(1);
        Self { hour: u32::try_from(hour.max(0)).unwrap_or(u32::MAX), id }
    }

    /// The name of its record: the hour, a slash, the id.
    pub fn name(&self) -> String {
        format!("{:08x}/{}", self.hour, HEXLOWER.encode(&self.id))
    }

    fn ticket(&self, prefix: &str, secret: &[u8; SECRET_BYTES]) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(TICKET_BYTES));
        bytes.extend_from_slice(&self.hour.to_be_bytes());
        bytes.extend_from_slice(&self.id);
        bytes.extend_from_slice(secret);
        Zeroizing::new(format!("{prefix}{}", BASE64URL_NOPAD.encode(&bytes)))
    }

    /// The code with this secret.
    pub fn code(&self, secret: &[u8; SECRET_BYTES]) -> Zeroizing<String> {
        self.ticket("", secret)
    }

    /// The access token with this secret.
    pub fn access_token(&self, secret: &[u8; SECRET_BYTES]) -> Zeroizing<String> {
        self.ticket(ACCESS_TOKEN_PREFIX, secret)
    }

    /// The grant that a code names.
    pub fn of_code(code: &str) -> Option<Self> {
        let bytes = Zeroizing::new(BASE64URL_NOPAD.decode(code.as_bytes()).ok()?);
        if bytes.len() != TICKET_BYTES {
            return None;
        }
        let (hour, rest) = bytes.split_first_chunk::<4>()?;
        let (id, _) = rest.split_first_chunk::<ID_BYTES>()?;
        Some(Self { hour: u32::from_be_bytes(*hour), id: *id })
    }

    /// The grant that an access token names.
    pub fn of_access_token(token: &str) -> Option<Self> {
        Self::of_code(token.strip_prefix(ACCESS_TOKEN_PREFIX)?)
    }
}

/// Whether everything of the records in a folder of this name has ended.
pub fn folder_has_ended(folder: &str, now: i64) -> bool {
    let hour = u32::from_str_radix(folder.trim_end_matches('/'), 16);
    hour.is_ok_and(|hour| i64::from(hour) <= now.div_euclid(HOUR_SECS))
}

/// How far a grant has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantState {
    /// The code was not brought yet.
    Open,
    /// It was, and an access token with this hash was given for it.
    Given {
        /// SHA-256 of the access token.
        access_hash: [u8; 32],
        /// When it ends.
        ends_at: i64,
    },
    /// It was brought in vain, or twice: nothing of it is good any more.
    Ended,
}

/// What a user agreed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeGrant {
    /// How far it has come.
    pub state: GrantState,
    /// SHA-256 of the code.
    pub code_hash: [u8; 32],
    /// When the code was given.
    pub made_at: i64,
    /// How long the access token lives, in seconds.
    pub access_ttl_secs: u64,
    /// The name of the provider.
    pub provider: String,
    /// Who the user logs in to.
    pub client_id: String,
    /// The user's entity.
    pub entity_id: String,
    /// Where the browser was sent.
    pub redirect_uri: String,
    /// What was asked for.
    pub scopes: Vec<String>,
    /// What the code is bound to.
    pub challenge: Option<CodeChallenge>,
    /// What goes into the ID token.
    pub nonce: Option<String>,
    /// When the user proved who they are, if the client asked.
    pub auth_time: Option<i64>,
}

/// What a client brings with a code.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The provider that it asks.
    pub provider: &'a str,
    /// Who it is; it was proven.
    pub client_id: &'a str,
    /// Whether it can keep no secret.
    pub is_public: bool,
    /// Where the browser was sent; empty when it does not say.
    pub redirect_uri: &'a str,
    /// What the challenge was made of; empty for none.
    pub verifier: &'a str,
    /// SHA-256 of the access token that it is to be given.
    pub access_hash: [u8; 32],
    /// The time.
    pub now: i64,
}

/// SHA-256 of a code or an access token.
pub fn hash(text: &str) -> [u8; 32] {
    sha256(text)
}

fn expired() -> OauthError {
    OauthError::new(Code::InvalidGrant, "authorization grant is invalid or expired")
}

impl CodeGrant {
    /// Whether this is its code.
    pub fn has_code(&self, code: &str) -> bool {
        verify_slices_are_equal(&sha256(code), &self.code_hash).is_ok()
    }

    /// Takes the code, which [`CodeGrant::has_code`] was asked about: it is good once, whatever this says.
    ///
    /// # Errors
    /// The refusal, for the client.
    pub fn take(&mut self, exchange: &Exchange<'_>) -> Result<(), OauthError> {
        let was = std::mem::replace(&mut self.state, GrantState::Ended);
        if was != GrantState::Open || exchange.now >= self.made_at.saturating_add(CODE_SECS) {
            return Err(expired());
        }
        self.check(exchange)?;
        let secs = i64::try_from(self.access_ttl_secs).unwrap_or(i64::MAX);
        let ends_at = exchange.now.saturating_add(secs);
        self.state = GrantState::Given { access_hash: exchange.access_hash, ends_at };
        Ok(())
    }

    fn check(&self, exchange: &Exchange<'_>) -> Result<(), OauthError> {
        let refuse = |code, why: &str| Err(OauthError::new(code, why));
        if self.client_id != exchange.client_id {
            return refuse(Code::InvalidGrant, "authorization code was not issued to the client");
        }
        if self.provider != exchange.provider {
            return refuse(Code::InvalidGrant, "authorization code was not issued by the provider");
        }
        if exchange.redirect_uri.is_empty() {
            return refuse(Code::InvalidRequest, "redirect_uri parameter is required");
        }
        if self.redirect_uri != exchange.redirect_uri {
            return refuse(
                Code::InvalidGrant,
                "redirect_uri does not match the redirect_uri used in the authorization request",
            );
        }
        match (&self.challenge, exchange.verifier) {
            (None, _) if exchange.is_public => {
                refuse(Code::InvalidRequest, "PKCE is required for public clients")
            }
            (None, "") => Ok(()),
            (None, _) => {
                refuse(Code::InvalidRequest, "unexpected code_verifier for token exchange")
            }
            (Some(_), "") => {
                refuse(Code::InvalidRequest, "expected code_verifier for token exchange")
            }
            (Some(challenge), verifier) if challenge.is_of(verifier) => Ok(()),
            (Some(_), _) => refuse(Code::InvalidGrant, "invalid code_verifier for token exchange"),
        }
    }

    /// Whether this is its access token, and good.
    pub fn has_access_token(&self, token: &str, now: i64) -> bool {
        match &self.state {
            GrantState::Given { access_hash, ends_at } => {
                let is_it = verify_slices_are_equal(&sha256(token), access_hash).is_ok();
                is_it && now < *ends_at
            }
            GrantState::Open | GrantState::Ended => false,
        }
    }

    /// The record's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let time = |secs: i64| Json::Number(secs.to_string().into());
        let (state, access_hash, ends_at) = match &self.state {
            GrantState::Open => ("open", Json::Null, Json::Null),
            GrantState::Given { access_hash, ends_at } => {
                ("given", HEXLOWER.encode(access_hash).into(), time(*ends_at))
            }
            GrantState::Ended => ("ended", Json::Null, Json::Null),
        };
        let (challenge, method) = match &self.challenge {
            None => (Json::Null, Json::Null),
            Some(CodeChallenge { text, method }) => {
                let method = match method {
                    ChallengeMethod::Plain => "plain",
                    ChallengeMethod::S256 => "S256",
                };
                (text.as_str().into(), method.into())
            }
        };
        Json::object([
            ("state", state.into()),
            ("access_hash", access_hash),
            ("ends_at", ends_at),
            ("code_hash", HEXLOWER.encode(&self.code_hash).into()),
            ("made_at", time(self.made_at)),
            ("access_ttl", self.access_ttl_secs.into()),
            ("provider", self.provider.as_str().into()),
            ("client_id", self.client_id.as_str().into()),
            ("entity_id", self.entity_id.as_str().into()),
            ("redirect_uri", self.redirect_uri.as_str().into()),
            ("scopes", Json::strings(self.scopes.clone())),
            ("challenge", challenge),
            ("method", method),
            ("nonce", record::or_null(self.nonce.as_deref())),
            ("auth_time", self.auth_time.map_or(Json::Null, time)),
        ])
        .to_text()
    }

    /// Reads a record back; `None` when it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let map = record::object(bytes)?;
        let hash = |name: &str| -> Option<[u8; 32]> {
            HEXLOWER.decode(map.get(name)?.as_str()?.as_bytes()).ok()?.try_into().ok()
        };
        let state = match map.get("state")?.as_str()? {
            "open" => GrantState::Open,
            "given" => GrantState::Given {
                access_hash: hash("access_hash")?,
                ends_at: record::number(&map, "ends_at")?,
            },
            "ended" => GrantState::Ended,
            _ => return None,
        };
        let challenge = match record::text_or_null(&map, "challenge")? {
            None => None,
            Some(text) => {
                let method = match map.get("method")?.as_str()? {
                    "plain" => ChallengeMethod::Plain,
                    "S256" => ChallengeMethod::S256,
                    _ => return None,
                };
                Some(CodeChallenge { text, method })
            }
        };
        Some(Self {
            state,
            code_hash: hash("code_hash")?,
            made_at: record::number(&map, "made_at")?,
            access_ttl_secs: record::number(&map, "access_ttl")?,
            provider: record::text(&map, "provider")?,
            client_id: record::text(&map, "client_id")?,
            entity_id: record::text(&map, "entity_id")?,
            redirect_uri: record::text(&map, "redirect_uri")?,
            scopes: record::texts(&map, "scopes")?,
            challenge,
            nonce: record::text_or_null(&map, "nonce")?,
            auth_time: record::number_or_null(&map, "auth_time")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

    fn grant(challenge: Option<CodeChallenge>) -> CodeGrant {
        CodeGrant {
            state: GrantState::Open,
            code_hash: hash("code"),
            made_at: 1000,
            access_ttl_secs: 3600,
            provider: "default".to_owned(),
            client_id: "app".to_owned(),
            entity_id: "ann".to_owned(),
            redirect_uri: "https://app.example/cb".to_owned(),
            scopes: vec!["groups".to_owned()],
            challenge,
            nonce: Some("no".to_owned()),
            auth_time: Some(900),
        }
    }

    const GOOD: Exchange<'static> = Exchange {
        provider: "default",
        client_id: "app",
        is_public: false,
        redirect_uri: "https://app.example/cb",
        verifier: "",
        access_hash: [7; 32],
        now: 1299,
    };

    fn s256() -> Option<CodeChallenge> {
        // RFC 7636, appendix B.
        CodeChallenge::new("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", ChallengeMethod::S256)
    }

    #[test]
    fn a_code_is_good_once_and_brought_again_ends_what_was_given_for_it() {
        let mut grant = grant(None);
        assert!(grant.has_code("code") && !grant.has_code("cod"));
        grant.take(&GOOD).unwrap();
        grant.state = GrantState::Given { access_hash: hash("token"), ends_at: 1299 + 3600 };
        assert!(grant.has_access_token("token", 1300));
        assert!(!grant.has_access_token("other", 1300));
        assert!(!grant.has_access_token("token", 1299 + 3600));
        assert_eq!(grant.take(&GOOD).unwrap_err(), expired());
        assert_eq!(grant.state, GrantState::Ended);
        assert!(!grant.has_access_token("token", 1300));
    }

    #[test]
    fn a_code_that_was_brought_in_vain_is_good_no_more() {
        for (exchange, code) in [
            (Exchange { client_id: "other", ..GOOD }, "invalid_grant"),
            (Exchange { provider: "other", ..GOOD }, "invalid_grant"),
            (Exchange { redirect_uri: "", ..GOOD }, "invalid_request"),
            (Exchange { redirect_uri: "https://app.example/cb/", ..GOOD }, "invalid_grant"),
            (Exchange { verifier: VERIFIER, ..GOOD }, "invalid_request"),
            (Exchange { is_public: true, ..GOOD }, "invalid_request"),
            (Exchange { now: 1300, ..GOOD }, "invalid_grant"),
        ] {
            let mut grant = grant(None);
            assert_eq!(grant.take(&exchange).unwrap_err().code.name(), code);
            assert_eq!(grant.take(&GOOD).unwrap_err(), expired());
        }
    }

    #[test]
    fn a_code_that_is_bound_to_a_challenge_takes_its_verifier() {
        let take = |verifier| grant(s256()).take(&Exchange { verifier, ..GOOD });
        assert!(take(VERIFIER).is_ok());
        for wrong in
            ["", "x", &VERIFIER.to_uppercase(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"]
        {
            assert!(take(wrong).is_err(), "{wrong}");
        }
        let plain = CodeChallenge::new(VERIFIER, ChallengeMethod::Plain);
        let mut grant = grant(plain);
        assert!(grant.take(&Exchange { verifier: VERIFIER, ..GOOD }).is_ok());
        for bad in ["", &"x".repeat(42), &"x".repeat(129), &"é".repeat(40)] {
            assert_eq!(CodeChallenge::new(bad, ChallengeMethod::S256), None);
        }
    }

    #[test]
    fn records_are_read_back_as_they_were() {
        let mut grant = grant(s256());
        assert_eq!(CodeGrant::decode(&grant.encode()).unwrap(), grant);
        for state in [GrantState::Given { access_hash: [9; 32], ends_at: 5 }, GrantState::Ended] {
            grant.state = state;
            grant.challenge = None;
            assert_eq!(CodeGrant::decode(&grant.encode()).unwrap(), grant);
        }
        assert!(CodeGrant::decode(b"{}").is_none());
    }

    #[test]
    fn a_code_and_an_access_token_name_their_grant() {
        let id = GrantId::new(7200, [3; ID_BYTES]);
        assert_eq!(id.name(), format!("00000003/{}", "03".repeat(16)));
        let code = id.code(&[1; SECRET_BYTES]);
        let token = id.access_token(&[1; SECRET_BYTES]);
        assert_eq!(GrantId::of_code(&code), Some(id));
        assert_eq!(GrantId::of_access_token(&token), Some(id));
        assert_eq!(GrantId::of_code(&token), None);
        for bad in ["", "x", "hvo_access_", &code[1..], &format!("{}=", *code)] {
            assert_eq!(GrantId::of_code(bad), None, "{bad}");
        }
        assert!(!folder_has_ended("00000003/", 3 * HOUR_SECS - 1));
        assert!(folder_has_ended("00000003/", 3 * HOUR_SECS));
        assert!(!folder_has_ended("x", i64::MAX));
    }

    #[test]
    fn a_grant_is_stored_with_how_its_challenge_is_made() {
        for method in [ChallengeMethod::Plain, ChallengeMethod::S256] {
            let grant = grant(CodeChallenge::new(VERIFIER, method));
            let again = CodeGrant::decode(&grant.encode()).unwrap();
            assert_eq!(again.challenge, grant.challenge);
            assert!(again.challenge.is_some());
        }
    }
}
