//! The claims of a token: those that the server sets, and those that templates add.

use kallisto_api::{Json, Map};

use crate::signing_key::TokenSigningKey;
use kallisto_api::Error;

/// The claims that are the server's; no template sets them.
pub const RESERVED: [&str; 10] =
    ["iat", "aud", "exp", "iss", "sub", "namespace", "nonce", "auth_time", "at_hash", "c_hash"];

/// Whether a claim is the server's.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// What the server says in a token (OpenID Connect Core, 2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Who made it.
    pub issuer: String,
    /// Whom it is about: an entity's id.
    pub subject: String,
    /// Whom it is for: a client's id.
    pub audience: String,
    /// The id of the namespace in which it was made.
    pub namespace: String,
    /// When it was made.
    pub issued_at: i64,
    /// When it ends.
    pub expires_at: i64,
    /// What the client sent to know its own request by.
    pub nonce: Option<String>,
    /// When the subject proved who they are, if the client asked.
    pub auth_time: Option<i64>,
    /// Half the hash of the access token that goes with it.
    pub access_token_hash: Option<String>,
    /// Half the hash of the code that it was given for.
    pub code_hash: Option<String>,
}

/// Adds the claims of a template to others: never one of the server's.
pub fn add(to: &mut Map, claims: Map) {
    to.extend(claims.into_iter().filter(|(name, _)| !is_reserved(name)));
}

impl Claims {
    /// All claims of the token, with those of templates.
    pub fn with(&self, of_templates: impl IntoIterator<Item = Map>) -> Map {
        let mut all = Map::new();
        for claims in of_templates {
            add(&mut all, claims);
        }
        let time = |secs: i64| Json::Number(secs.to_string().into());
        let mut put = |name: &str, value: Json| all.insert(name.to_owned(), value);
        put("iss", self.issuer.as_str().into());
        put("sub", self.subject.as_str().into());
        put("aud", self.audience.as_str().into());
        put("namespace", self.namespace.as_str().into());
        put("iat", time(self.issued_at));
        put("exp", time(self.expires_at));
        if let Some(nonce) = &self.nonce {
            put("nonce", nonce.as_str().into());
        }
        if let Some(at) = self.auth_time {
            put("auth_time", time(at));
        }
        if let Some(hash) = &self.access_token_hash {
            put("at_hash", hash.as_str().into());
        }
        if let Some(hash) = &self.code_hash {
            put("c_hash", hash.as_str().into());
        }
        all
    }

    /// The token: signed, in compact form (RFC 7515, 7.1).
    ///
    /// # Errors
    /// As [`TokenSigningKey::sign`].
    pub fn sign(
        &self,
        key: &TokenSigningKey,
        of_templates: impl IntoIterator<Item = Map>,
    ) -> Result<String, Error> {
        crate::jws::sign(key, &self.with(of_templates))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_adds_claims_and_replaces_none_of_the_servers() {
        let claims = Claims { subject: "ann".to_owned(), ..Claims::default() };
        let mut hostile: Map =
            RESERVED.iter().map(|name| ((*name).to_owned(), "forged".into())).collect();
        hostile.insert("team".to_owned(), "red".into());
        let all = claims.with([hostile.clone(), hostile]);
        assert_eq!(all["sub"], "ann".into());
        assert_eq!(all["team"], "red".into());
        assert!(!all.values().any(|value| *value == "forged".into()));
        assert!(!all.contains_key("nonce"), "what the server does not say is not said at all");
    }
}
