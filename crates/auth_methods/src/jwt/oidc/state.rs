//! The `state` of a login through a browser: all that is known of it until it comes back, under a keyed hash.
//!
//! ```text
//! st_ base64url( [id, issued, role, redirect URI, hash of client_nonce, address that asked] ) . base64url( hash )
//! ```
//!
//! So whoever asks for an address to log in at makes this cluster write nothing, and every server of it knows the login when it comes back.
//! The hash is keyed by a key of the cluster and covers the provider and the client it was issued for: after another one is configured, no
//! code of the old one is sent to the new. `nonce` and the code verifier are keyed hashes of the id.
//!
//! Invariants:
//! - A state is good for [`LIFE_SECS`], for one mount, and for one token: see [`super::record::USED`].
//! - What a state says is not secret; what it is hashed with, and the code verifier, are.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE64URL_NOPAD;
use kallisto_api::{Error, Json, json};
use kallisto_engine::{EngineContext, KeyedHash};

use super::super::config::JwtConfig;

/// How long a login may take, in seconds.
pub(super) const LIFE_SECS: i64 = 600;
/// Longest state that is looked at, in bytes.
const TEXT_BYTES_MAX: usize = 4096;
/// Longest `client_nonce`, in bytes.
const CLIENT_NONCE_BYTES_MAX: usize = 512;
/// As Vault's begin.
const PREFIX: &str = "st_";
/// Bytes of an id.
const ID_BYTES: usize = 16;

/// A login that is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LoginUnderWay {
    /// Names it in the storage; random.
    pub(super) id: String,
    /// In seconds since 1970.
    pub(super) issued: i64,
    pub(super) role: String,
    pub(super) redirect_uri: String,
    /// Of what its client has to show again; empty where it showed nothing.
    client_nonce_hash: String,
    /// The address of who asked for it; empty where that is not told.
    pub(super) from: String,
}

impl LoginUnderWay {
    /// A login that begins.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a nonce that is too long; when there is no randomness or no key.
    pub(super) fn make(
        context: &EngineContext<'_>,
        role: &str,
        redirect_uri: &str,
        client_nonce: &str,
        from: String,
    ) -> Result<Self, Error> {
        if client_nonce.len() > CLIENT_NONCE_BYTES_MAX {
            return Err(Error::invalid(format!(
                "client_nonce of more than {CLIENT_NONCE_BYTES_MAX} bytes"
            )));
        }
        let mut id = [0; ID_BYTES];
        context.random.fill(&mut id)?;
        let id = BASE64URL_NOPAD.encode(&id);
        let client_nonce_hash = match client_nonce {
            "" => String::new(),
            given => hash_of_nonce(context.keyed_hash, &id, given)?,
        };
        Ok(Self {
            id,
            issued: context.now.as_second(),
            role: role.to_owned(),
            redirect_uri: redirect_uri.to_owned(),
            client_nonce_hash,
            from,
        })
    }

    /// The text that goes to the provider and comes back.
    ///
    /// # Errors
    /// When the key is gone.
    pub(super) fn seal(&self, hash: &dyn KeyedHash, config: &JwtConfig) -> Result<String, Error> {
        let payload = Json::Array(vec![
            self.id.as_str().into(),
            self.issued.into(),
            self.role.as_str().into(),
            self.redirect_uri.as_str().into(),
            self.client_nonce_hash.as_str().into(),
            self.from.as_str().into(),
        ]);
        let payload = BASE64URL_NOPAD.encode(&payload.to_text());
        let tag = BASE64URL_NOPAD.encode(&tag(hash, config, &payload)?);
        Ok(format!("{PREFIX}{payload}.{tag}"))
    }

    /// The login that a text was made for; `None` for what this cluster did not make, not for this mount as it is configured, or too long
    /// ago. What follows a comma is for those who find a namespace in it.
    ///
    /// # Errors
    /// When the key is gone.
    pub(super) fn open(
        context: &EngineContext<'_>,
        config: &JwtConfig,
        text: &str,
    ) -> Result<Option<Self>, Error> {
        let text = text.split_once(",ns=").map_or(text, |(text, _)| text);
        let parts = text.strip_prefix(PREFIX).and_then(|text| text.split_once('.'));
        let Some((payload, given)) = parts.filter(|_| text.len() <= TEXT_BYTES_MAX) else {
            return Ok(None);
        };
        let expected = tag(context.keyed_hash, config, payload)?;
        let given = BASE64URL_NOPAD.decode(given.as_bytes()).unwrap_or_default();
        if verify_slices_are_equal(&expected, &given).is_err() {
            return Ok(None);
        }
        let age = |state: &Self| context.now.as_second() - state.issued;
        // Another server's clock may be ahead of this one's.
        Ok(Self::parse(payload).filter(|state| (-LIFE_SECS..LIFE_SECS).contains(&age(state))))
    }

    fn parse(payload: &str) -> Option<Self> {
        let payload = json::parse(&BASE64URL_NOPAD.decode(payload.as_bytes()).ok()?).ok()?;
        let Json::Array(members) = payload else { return None };
        let [id, Json::Number(issued), role, redirect_uri, client_nonce_hash, from] = &members[..]
        else {
            return None;
        };
        let text = |member: &Json| member.as_str().map(str::to_owned);
        Some(Self {
            id: text(id)?,
            issued: issued.parse().ok()?,
            role: text(role)?,
            redirect_uri: text(redirect_uri)?,
            client_nonce_hash: text(client_nonce_hash)?,
            from: text(from)?,
        })
    }

    /// When it ends, in seconds since 1970.
    pub(super) const fn ends(&self) -> i64 {
        self.issued + LIFE_SECS
    }

    /// Until when it is remembered that it was used: as long as any server may take it, whatever its clock says.
    pub(super) const fn forgotten(&self) -> i64 {
        self.issued + 2 * LIFE_SECS
    }

    /// Whether its client showed a nonce when it began.
    pub(super) const fn has_client_nonce(&self) -> bool {
        !self.client_nonce_hash.is_empty()
    }

    /// Refuses a client that is not the one that began it.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying so.
    pub(super) fn check_client(&self, hash: &dyn KeyedHash, given: &str) -> Result<(), Error> {
        if !self.has_client_nonce() {
            return Ok(());
        }
        let given = hash_of_nonce(hash, &self.id, given)?;
        let equal =
            verify_slices_are_equal(given.as_bytes(), self.client_nonce_hash.as_bytes()).is_ok();
        if equal { Ok(()) } else { Err(Error::invalid("invalid client_nonce")) }
    }

    /// What the provider must say again in the ID token.
    ///
    /// # Errors
    /// When the key is gone.
    pub(super) fn nonce(&self, hash: &dyn KeyedHash) -> Result<String, Error> {
        derived(hash, "nonce", &self.id)
    }

    /// The secret that is shown with the code (RFC 7636, section 4.1).
    ///
    /// # Errors
    /// When the key is gone.
    pub(super) fn code_verifier(&self, hash: &dyn KeyedHash) -> Result<String, Error> {
        derived(hash, "code verifier", &self.id)
    }

    /// Its hash, which the provider is told before (RFC 7636, section 4.2).
    ///
    /// # Errors
    /// When the key is gone.
    pub(super) fn code_challenge(&self, hash: &dyn KeyedHash) -> Result<String, Error> {
        let verifier = self.code_verifier(hash)?;
        Ok(BASE64URL_NOPAD.encode(digest(&SHA256, verifier.as_bytes()).as_ref()))
    }
}

fn derived(hash: &dyn KeyedHash, what: &str, id: &str) -> Result<String, Error> {
    Ok(BASE64URL_NOPAD.encode(&hash.hash(&format!("oidc {what}\n{id}"))?))
}

fn hash_of_nonce(hash: &dyn KeyedHash, id: &str, given: &str) -> Result<String, Error> {
    // The state stands in addresses: half of the hash is enough, and shorter.
    let hash = hash.hash(&format!("oidc client nonce\n{id}\n{given}"))?;
    Ok(BASE64URL_NOPAD.encode(&hash[..16]))
}

fn tag(hash: &dyn KeyedHash, config: &JwtConfig, payload: &str) -> Result<[u8; 32], Error> {
    let (url, _) = config.discovery().unwrap_or_default();
    let client = config.client.as_ref().map_or("", |client| &client.id);
    // No URL has a line end, so no two pairs are written alike.
    hash.hash(&format!("oidc state\n{url}\n{}\n{client}\n{payload}", client.len()))
}

/// Any text as the payload of a state: none, or one whose payload says the same again. The same text as a whole state under another's key is
/// none.
///
/// # Panics
/// If a promise is broken.
#[cfg(any(test, feature = "fuzz"))]
pub(in super::super) fn fuzz(text: &str) {
    /// Not the key that any state was made with.
    struct Zeros;
    impl KeyedHash for Zeros {
        fn hash(&self, _: &str) -> Result<[u8; 32], Error> {
            Ok([0; 32])
        }
    }
    let payload = BASE64URL_NOPAD.encode(text.as_bytes());
    let Some(state) = LoginUnderWay::parse(&payload) else { return };
    let Ok(sealed) = state.seal(&Zeros, &JwtConfig::default()) else { return };
    let again = sealed.strip_prefix(PREFIX).and_then(|sealed| sealed.split_once('.'));
    assert_eq!(again.and_then(|(payload, _)| LoginUnderWay::parse(payload)), Some(state));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_read_as_it_was_written_and_nothing_else_is_one() {
        fuzz(r#"["id",7,"role","http://localhost/x","hash","127.0.0.1"]"#);
        for other in ["", "[]", "{}", r#"["id","7","r","u","h","f"]"#, r#"["id",7,"r","u","h"]"#] {
            assert_eq!(
                LoginUnderWay::parse(&BASE64URL_NOPAD.encode(other.as_bytes())),
                None,
                "{other}"
            );
        }
    }
}
