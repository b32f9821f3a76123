//! The seal whose key stays in another server's transit engine.
//!
//! The other server keeps every version of its key and says with each ciphertext which one made it (`vault:v2:..`). What an older
//! version wrapped is wrapped anew, so that the other server may give that version up. [`super::token_renewal`] keeps the token alive.

use std::sync::Arc;

use data_encoding::BASE64;
use kallisto_core::AutoSeal;
use secrecy::SecretString;
use zeroize::Zeroizing;

use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::json::{Json, Map};

/// Where the key is.
pub(crate) struct TransitSettings {
    /// The other server: address, TLS, namespace and token, as a client has them.
    pub(crate) client: Config,
    /// Where its transit engine is mounted.
    pub(crate) mount: String,
    /// The name of the key.
    pub(crate) key: String,
}

/// What is wrapped to learn which version of the key wraps now; no secret.
const SAMPLE: &[u8] = b"kallisto asks for the newest key";

/// Wraps the unseal key by `encrypt` and gives it back by `decrypt`.
pub(crate) struct TransitUnsealer(Arc<TransitSettings>);

impl TransitUnsealer {
    pub(crate) fn new(settings: Arc<TransitSettings>) -> Self {
        Self(settings)
    }

    /// Sends `field` to a verb of the engine and takes `wanted` from the answer.
    fn ask(&self, verb: &str, field: &str, value: &str, wanted: &str) -> Result<String, String> {
        let path = format!("{}/{verb}/{}", self.0.mount.trim_matches('/'), self.0.key);
        let body: Map = [(field.to_owned(), Json::from(value))].into_iter().collect();
        let client = Client::new(&self.0.client).map_err(|error| error.to_string())?;
        let answer = client
            .send(&ClientRequest::put(&path, body))
            .map_err(|error| format!("transit seal, {verb}: {error}"))?;
        answer
            .as_ref()
            .and_then(|secret| secret.data.as_ref()?.get(wanted)?.as_str())
            .map(str::to_owned)
            .ok_or_else(|| format!("transit seal, {verb}: the answer has no {wanted}"))
    }
}

impl AutoSeal for TransitUnsealer {
    fn name(&self) -> &str {
        "transit"
    }

    fn wrap(&self, key: &[u8]) -> Result<Vec<u8>, String> {
        let plaintext = Zeroizing::new(BASE64.encode(key));
        self.ask("encrypt", "plaintext", &plaintext, "ciphertext").map(String::into_bytes)
    }

    fn unwrap(&self, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>, String> {
        let ciphertext = std::str::from_utf8(wrapped).map_err(|_| "the wrapped key is damaged")?;
        let plaintext = self.ask("decrypt", "ciphertext", ciphertext, "plaintext")?;
        let plaintext = SecretString::from(plaintext);
        let bytes = BASE64.decode(secrecy::ExposeSecret::expose_secret(&plaintext).as_bytes());
        bytes.map(Zeroizing::new).map_err(|_| "the other server's answer is no base64".into())
    }

    /// Asks the other server: a restart costs one request more. One that does not answer leaves everything as it is.
    fn is_outdated(&self, wrapped: &[u8]) -> bool {
        let fresh = match self.wrap(SAMPLE) {
            Ok(fresh) => fresh,
            Err(why) => {
                tracing::warn!(why, "not known whether the seal's key was rotated");
                return false;
            }
        };
        match (version_of(wrapped), version_of(&fresh)) {
            (Some(then), Some(now)) => then < now,
            _ => false,
        }
    }
}

/// Which version of the key made a ciphertext, `vault:vN:..`.
fn version_of(ciphertext: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(ciphertext).ok()?;
    let (version, _) = text.strip_prefix("vault:v")?.split_once(':')?;
    version.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::version_of;

    #[test]
    fn a_ciphertext_says_which_version_of_the_key_made_it() {
        for (ciphertext, version) in [
            ("vault:v1:AAAA", Some(1)),
            ("vault:v12:AA:AA", Some(12)),
            ("vault:v12", None),
            ("vault:vx:AAAA", None),
            ("AAAA", None),
        ] {
            assert_eq!(version_of(ciphertext.as_bytes()), version, "{ciphertext}");
        }
    }
}
