//! The seal whose key stays in another server's transit engine.

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

/// Wraps the unseal key by `encrypt` and gives it back by `decrypt`.
pub(crate) struct TransitUnsealer(TransitSettings);

impl TransitUnsealer {
    pub(crate) fn new(settings: TransitSettings) -> Self {
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

    fn is_outdated(&self, _wrapped: &[u8]) -> bool {
        // The other server keeps every version of its key; which one wrapped is its business.
        false
    }
}
