//! `operator generate-root`: a root token by consent of those who hold shares.
//!
//! The token comes back hidden by a one-time password that only the one who started it knows;
//! `-decode` takes the password off, on this machine.

use clap::Args;
use data_encoding::BASE64_NOPAD;
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use super::ask;
use super::pgp;
use super::print::{self, MissingMember, ShownMembers, row, text};
use super::rekey::nonce_of;
use kallisto_command::client::{Client, ClientRequest, Method};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{self, Document, OutputFormat, table};
use kallisto_command::secret::as_u64;

const ATTEMPT: &str = "sys/generate-root/attempt";
const UPDATE: &str = "sys/generate-root/update";
/// Characters of a one-time password.
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Longest one-time password that a server may ask for.
const OTP_CHARS_MAX: u64 = 1024;

const STATUS: &ShownMembers = &[
    ("nonce", MissingMember::Text),
    ("started", MissingMember::No),
    ("progress", MissingMember::Zero),
    ("required", MissingMember::Zero),
    ("complete", MissingMember::No),
    ("encoded_token", MissingMember::Text),
    ("encoded_root_token", MissingMember::Text),
    ("pgp_fingerprint", MissingMember::Text),
    ("otp", MissingMember::Text),
    ("otp_length", MissingMember::Zero),
];

const DRAWN: &str = "A one-time password was drawn and is shown as OTP. Keep it: without it the root token cannot\n\
                     be decoded.\n";

/// Makes a root token with a quorum of shares.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto operator generate-root -init\n  kallisto operator generate-root -init -pgp-key=alice.asc\n  kallisto operator generate-root\n  kallisto operator generate-root -nonce=NONCE - < share.txt\n  kallisto operator generate-root -decode=ENCODED -otp=OTP\n  kallisto operator generate-root -cancel\n\nWithout a share it is asked for on the terminal, unseen"
)]
pub(crate) struct GenerateRoot {
    /// A share of the unseal key; - reads it from stdin
    #[arg(value_name = "KEY")]
    key: Option<SecretString>,
    /// Start
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    init: Option<bool>,
    /// Forget the shares given so far
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    cancel: Option<bool>,
    /// Print how far it is
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    status: Option<bool>,
    /// Take the one-time password off this token; - reads it from stdin
    #[arg(long, value_name = "ENCODED")]
    decode: Option<SecretString>,
    /// Draw a one-time password for -init and print it
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    generate_otp: Option<bool>,
    /// The one-time password, for -init or -decode; drawn by the server when absent
    #[arg(long, value_name = "OTP")]
    otp: Option<SecretString>,
    /// With -init, file of an OpenPGP public key that the token is encrypted to, instead of a one-time password
    #[arg(long, value_name = "FILE", conflicts_with = "otp")]
    pgp_key: Option<String>,
    /// Nonce of the start; needed with a share that is not typed
    #[arg(long, value_name = "NONCE")]
    nonce: Option<String>,
    #[command(flatten)]
    common: CommonFlags,
}

impl GenerateRoot {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        if let Some(encoded) = &self.decode {
            return self.decode(encoded, &config);
        }
        let client = Client::new(&config)?;
        if self.generate_otp == Some(true) {
            return generate_otp(&client, &config);
        }
        if self.cancel == Some(true) {
            return self.cancel(&client);
        }
        if self.init == Some(true) {
            return self.start(&client, &config);
        }
        let state = read(&client)?;
        if self.status == Some(true) {
            return show(&state, &config);
        }
        self.give(&state, &client, &config)
    }

    fn decode(&self, encoded: &SecretString, config: &Config) -> Result<Outcome, Error> {
        let Some(otp) = &self.otp else {
            return Err(Error::usage("Missing otp: use -otp to supply it"));
        };
        let encoded = ask::value(encoded)?;
        let token = decoded(encoded.expose_secret(), otp.expose_secret())
            .map_err(|why| Error::usage(format!("Error decoding root token: {why}")))?;
        match config.format {
            OutputFormat::Table => Ok(output::bare(config, token.expose_secret().to_owned())),
            format => {
                let members = vec![("token", Document::Own(Json::from(token.expose_secret())))];
                Ok(Outcome::print(Document::Record(members).to_text(format)?))
            }
        }
    }

    fn cancel(&self, client: &Client<'_>) -> Result<Outcome, Error> {
        let mut request = ClientRequest::new(Method::Delete, ATTEMPT);
        if let Some(nonce) = &self.nonce {
            request = request.with_query("nonce", nonce);
        }
        client.send(&request).map_err(Error::doing("Error canceling root token generation"))?;
        Ok(Outcome::line("Success! Root token generation canceled (if it was started)"))
    }

    fn start(&self, client: &Client<'_>, config: &Config) -> Result<Outcome, Error> {
        let otp = self.otp.as_ref().map_or("", |otp| otp.expose_secret());
        let body = match &self.pgp_key {
            Some(file) => {
                Map::from([("pgp_key".to_owned(), Json::from(pgp::key("-pgp-key", file)?))])
            }
            None => Map::from([("otp".to_owned(), Json::from(otp))]),
        };
        let doing = "Error initializing root generation";
        let answer = client.send(&ClientRequest::put(ATTEMPT, body));
        let state = print::object(answer.map_err(Error::doing(doing))?, doing)?;
        let outcome = show(&state, config)?;
        Ok(match (config.format, text(&state, "otp").is_empty()) {
            (OutputFormat::Table, false) => outcome.with_notice(DRAWN),
            _ => outcome,
        })
    }

    /// Gives a share.
    fn give(&self, state: &Map, client: &Client<'_>, config: &Config) -> Result<Outcome, Error> {
        if !print::is(state, "started") {
            return Err(Error::usage(format!(
                "No root generation is in progress. Start one with \"kallisto operator generate-root \
                 -init\".\nA one-time password of your own has {} characters.",
                text(state, "otp_length")
            )));
        }
        let nonce = nonce_of(self.nonce.as_deref(), self.key.as_ref(), state)?;
        let question = format!("Operation nonce: {nonce}\nUnseal Key");
        let share = ask::share(self.key.as_ref(), &question, config)?;
        let body = Map::from([
            ("key".to_owned(), Json::from(share.expose_secret())),
            ("nonce".to_owned(), Json::from(nonce)),
        ]);
        let doing = "Error posting unseal key";
        let answer = client.send(&ClientRequest::put(UPDATE, body));
        show(&print::object(answer.map_err(Error::doing(doing))?, doing)?, config)
    }
}

fn read(client: &Client<'_>) -> Result<Map, Error> {
    let doing = "Error getting root generation status";
    let answer = client.send_really(&ClientRequest::get(ATTEMPT)).map_err(Error::doing(doing))?;
    print::object(answer, doing)
}

fn show(state: &Map, config: &Config) -> Result<Outcome, Error> {
    if config.format != OutputFormat::Table {
        return print::document(state, STATUS, config);
    }
    let mut rows = vec![
        row("Nonce", text(state, "nonce")),
        row("Started", text(state, "started")),
        row("Progress", print::progress(state, "required")),
        row("Complete", text(state, "complete")),
    ];
    for (name, title) in [
        ("pgp_fingerprint", "PGP Fingerprint"),
        ("encoded_token", "Encoded Token"),
        ("otp", "OTP"),
        ("otp_length", "OTP Length"),
    ] {
        let value = text(state, name);
        if !value.is_empty() && value != "0" {
            rows.push(row(title, value));
        }
    }
    Ok(Outcome::print(table::plain(&rows)))
}

/// A one-time password as long as the server wants it.
fn generate_otp(client: &Client<'_>, config: &Config) -> Result<Outcome, Error> {
    let length = read(client)?.get("otp_length").and_then(as_u64).unwrap_or(0);
    if length == 0 || length > OTP_CHARS_MAX {
        let text = "Error generating a one-time password: the server names no length for it";
        return Err(Error::Absent(text.to_owned()));
    }
    let otp = draw(length)?;
    match config.format {
        OutputFormat::Table => Ok(output::bare(config, otp.to_string())),
        format => {
            let members = vec![
                ("otp", Document::Own(Json::from(otp.as_str()))),
                ("otp_length", Document::Own(Json::from(length))),
            ];
            Ok(Outcome::print(Document::Record(members).to_text(format)?))
        }
    }
}

/// Characters drawn at random, each as likely as any other.
fn draw(length: u64) -> Result<Zeroizing<String>, Error> {
    let source = rustls::crypto::aws_lc_rs::default_provider().secure_random;
    let mut otp = Zeroizing::new(String::new());
    let mut bytes = Zeroizing::new([0_u8; 64]);
    while (otp.len() as u64) < length {
        source
            .fill(bytes.as_mut())
            .map_err(|_| Error::Unusable("the system gave no randomness".to_owned()))?;
        // 248 is the last multiple of 62 in a byte: past it some characters would be likelier.
        let usable = bytes.iter().filter(|byte| **byte < 248);
        let missing = usize::try_from(length).unwrap_or(usize::MAX) - otp.len();
        otp.extend(usable.take(missing).map(|byte| char::from(ALPHABET[usize::from(*byte % 62)])));
    }
    Ok(otp)
}

/// The token under the password.
fn decoded(encoded: &str, otp: &str) -> Result<SecretString, &'static str> {
    let encoded = encoded.trim_end_matches('=');
    let hidden = BASE64_NOPAD.decode(encoded.as_bytes()).map_err(|_| "it is no base64")?;
    if hidden.len() != otp.len() {
        return Err("the one-time password has another length");
    }
    let token = hidden.iter().zip(otp.bytes()).map(|(left, right)| left ^ right).collect();
    let token = String::from_utf8(token).ok().filter(|text| text.is_ascii());
    token.map(SecretString::from).ok_or("the one-time password is another one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_comes_off_or_is_refused() {
        // Made by OpenBao 2.7.2.
        let encoded = "A3Y8FT4hNBJweiwRfwk3PRxVExcJHgYABgU";
        let otp = "pXqyrSDs45fF0OfIXdVeNis6wf";
        for encoded in [encoded.to_owned(), format!("{encoded}=")] {
            assert_eq!(
                decoded(&encoded, otp).unwrap().expose_secret(),
                "s.MlLrpaDOJWOFQtD1ErGwu6qc"
            );
        }
        assert!(decoded("not base64!", otp).is_err());
        assert!(decoded(encoded, "short").is_err());
        assert!(decoded(encoded, &"\u{e9}".repeat(13)).is_err());
    }

    #[test]
    fn passwords_have_the_length_asked_for_and_differ() {
        for length in [1, 26, 28, 1024] {
            let otp = draw(length).unwrap();
            assert_eq!(otp.len() as u64, length);
            assert!(otp.bytes().all(|byte| ALPHABET.contains(&byte)));
        }
        assert_ne!(*draw(28).unwrap(), *draw(28).unwrap());
    }
}
