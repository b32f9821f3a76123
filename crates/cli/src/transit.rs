//! `transit`: keys of one's own, brought to a transit mount without being seen on the way.

use clap::{Args, Subcommand};
use data_encoding::BASE64;
use kallisto_command::client::{Client, ClientRequest, url};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output;
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use super::pairs::{self, PairInputs};
use super::wrapped_key;

const DOING: &str = "Error importing the key";

/// What can be done with transit.
#[derive(Subcommand, Debug)]
pub(crate) enum Transit {
    /// Import a key as a new one of the mount
    Import(Import),
    /// Import a key as the next version of one that was imported
    ImportVersion(Import),
}

impl Transit {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        match self {
            Self::Import(import) => import.run("import"),
            Self::ImportVersion(import) => import.run("import_version"),
        }
    }
}

/// Imports a key.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto transit import transit/keys/app @key.b64\n  kallisto transit import transit/keys/signer @key.pem type=ecdsa-p256 exportable=true\n  kallisto transit import-version transit/keys/app @next.b64\n\n\
    The key is base64 (of raw bytes for symmetric keys, of PKCS#8 for key pairs), or PEM of PKCS#8. It is wrapped by the mount's wrapping key \
    before it is sent."
)]
pub(crate) struct Import {
    /// The key in the mount, such as transit/keys/app
    path: String,
    /// The key material in base64 or PEM; @file for what a file has, - for standard input
    #[arg(allow_hyphen_values = true)]
    key: SecretString,
    /// What else the route takes: type, exportable, derived, hash_function
    #[arg(value_name = "KEY=VALUE", allow_hyphen_values = false)]
    data: Vec<String>,
    #[command(flatten)]
    common: CommonFlags,
}

impl Import {
    fn run(self, route: &str) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let path = url::clean(&self.path)?;
        let Some((mount, name)) = path.rsplit_once("/keys/") else {
            return Err(Error::usage(format!(
                "{path} is no key of a transit mount, which is written as transit/keys/NAME"
            )));
        };
        let mut inputs = PairInputs::process();
        let text = match self.key.expose_secret() {
            "-" => Zeroizing::new(inputs.stdin().map_err(Error::usage)?),
            key => match key.strip_prefix('@') {
                Some(file) => Zeroizing::new(files::read(file.as_ref()).map_err(|error| {
                    Error::usage(format!("Error reading the key {file}: {error}"))
                })?),
                None => Zeroizing::new(key.as_bytes().to_vec()),
            },
        };
        let material = material(&text).ok_or_else(|| {
            Error::usage("the key is neither base64 nor PEM; a file is named as @file")
        })?;
        let mut body: Map = pairs::parse(&self.data, &mut inputs)?;
        let client = Client::new(&config)?;
        let answer = client.send(&ClientRequest::get(&format!("{mount}/wrapping_key")));
        let answer = answer.map_err(Error::doing("Error reading the wrapping key"))?;
        let data = answer.and_then(|answer| answer.data).unwrap_or_default();
        let wrapping = data.get("public_key").and_then(Json::as_str).unwrap_or_default();
        let wrapped = wrapped_key::wrap(&material, wrapping);
        let wrapped = wrapped.ok_or_else(|| {
            Error::usage(format!("{mount}/wrapping_key gives no key that wraps this one"))
        })?;
        body.insert("ciphertext".to_owned(), wrapped.into());
        body.entry("hash_function".to_owned()).or_insert_with(|| "SHA256".into());
        let request = ClientRequest::put(&format!("{mount}/keys/{name}/{route}"), body);
        client.send(&request).map_err(Error::doing(DOING))?;
        Ok(output::done(&config, &format!("Success! Imported the key {name} to {mount}/")))
    }
}

/// The bytes of a key in base64 or PEM; `None` for anything else.
fn material(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let text = std::str::from_utf8(text).ok()?;
    let bytes = if text.trim_start().starts_with("-----BEGIN") {
        pem::parse(text).ok()?.into_contents()
    } else {
        let lines = Zeroizing::new(text.split_whitespace().collect::<String>());
        BASE64.decode(lines.as_bytes()).ok()?
    };
    (!bytes.is_empty()).then(|| Zeroizing::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_typed_is_not_shown() {
        use clap::Parser as _;

        #[derive(clap::Parser, Debug)]
        struct Line {
            #[command(subcommand)]
            transit: Transit,
        }
        let line = Line::try_parse_from(["x", "import", "transit/keys/a", "canary"]).unwrap();
        assert!(!format!("{line:?}").contains("canary"), "{line:?}");
    }

    #[test]
    fn keys_are_base64_or_pem() {
        let read = |text: &str| material(text.as_bytes()).map(|bytes| bytes.to_vec());
        assert_eq!(read("AAEC\n"), Some(vec![0, 1, 2]));
        assert_eq!(read("AA\nEC"), Some(vec![0, 1, 2]));
        let pem = "-----BEGIN PRIVATE KEY-----\nAAEC\n-----END PRIVATE KEY-----\n";
        assert_eq!(read(pem), Some(vec![0, 1, 2]));
        for bad in ["", "key.b64", "AAE", "-----BEGIN X-----\n"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
