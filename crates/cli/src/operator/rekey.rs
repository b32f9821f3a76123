//! `operator rekey`: new shares of the unseal or recovery key, by consent of those who hold the old.
//!
//! One call starts it (`-init`), then each holder gives a share, named by the nonce of the start or
//! typed where the nonce is shown. With `-verify` at the start the new shares count only once a
//! quorum of them was given back (`-verify` again).

use clap::{Args, ValueEnum};
use secrecy::{ExposeSecret, SecretString};

use super::ask;
use super::pgp;
use super::print::{self, MissingMember, ShownMembers, list, row, text};
use kallisto_command::client::{Client, ClientRequest, Method};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{OutputFormat, table};

const STATUS: &ShownMembers = &[
    ("nonce", MissingMember::Text),
    ("started", MissingMember::No),
    ("t", MissingMember::Zero),
    ("n", MissingMember::Zero),
    ("progress", MissingMember::Zero),
    ("required", MissingMember::Zero),
    ("pgp_fingerprints", MissingMember::Null),
    ("backup", MissingMember::No),
    ("verification_required", MissingMember::No),
    ("verification_nonce", MissingMember::Text),
];
const VERIFICATION: &ShownMembers = &[
    ("nonce", MissingMember::Text),
    ("started", MissingMember::No),
    ("t", MissingMember::Zero),
    ("n", MissingMember::Zero),
    ("progress", MissingMember::Zero),
];
const KEYS: &ShownMembers = &[
    ("nonce", MissingMember::Text),
    ("complete", MissingMember::No),
    ("keys", MissingMember::Null),
    ("keys_base64", MissingMember::Null),
    ("pgp_fingerprints", MissingMember::Null),
    ("backup", MissingMember::No),
    ("verification_required", MissingMember::No),
    ("verification_nonce", MissingMember::Absent),
];
const KEPT: &ShownMembers = &[
    ("nonce", MissingMember::Text),
    ("keys", MissingMember::Null),
    ("keys_base64", MissingMember::Null),
];
const VERIFIED: &ShownMembers = &[("nonce", MissingMember::Text), ("complete", MissingMember::No)];

const ONCE: &str = "WARNING! The new shares will be shown once and stored nowhere. Use -verify to make sure\n\
                    that they arrived before the old ones stop to count.\n";
const NOT_YET: &str = "The new shares do not count yet: keep the old ones, and give a quorum of the new ones\n\
                       back with -verify. Sealing the server or cancelling forgets the new ones. The state of\n\
                       the verification, with its nonce, is:\n\n";

/// Which key gets new shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RekeyTarget {
    /// The one that unseals
    Barrier,
    /// The one that recovers a server which unseals by itself
    Recovery,
}

/// Replaces the shares of the unseal or recovery key.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto operator rekey -init -key-shares=3 -key-threshold=2\n  kallisto operator rekey -init -key-shares=2 -key-threshold=2 -pgp-keys=alice.asc,bob.asc -backup\n  kallisto operator rekey\n  kallisto operator rekey -nonce=NONCE - < share.txt\n  kallisto operator rekey -status\n  kallisto operator rekey -cancel\n\nWithout a share it is asked for on the terminal, unseen"
)]
pub(crate) struct Rekey {
    /// A share of the key as it is, or with -verify as it will be; - reads it from stdin
    #[arg(value_name = "KEY")]
    key: Option<SecretString>,
    /// Start, with this many shares and this threshold
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    init: Option<bool>,
    /// Forget what was given so far
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    cancel: Option<bool>,
    /// Print how far it is
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    status: Option<bool>,
    /// With -init, ask for the new shares back; otherwise, act on that asking back
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    verify: Option<bool>,
    /// Number of new shares
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 5)]
    key_shares: u64,
    /// Number of new shares that make the key
    #[arg(short = 't', long, value_name = "COUNT", default_value_t = 3)]
    key_threshold: u64,
    /// Nonce of the start; needed with a share that is not typed
    #[arg(long, value_name = "NONCE")]
    nonce: Option<String>,
    /// With -init, files of OpenPGP public keys, one for each share, which is encrypted to it
    #[arg(long, value_name = "FILE,...", value_delimiter = ',')]
    pgp_keys: Vec<String>,
    /// With -init and -pgp-keys, keep the encrypted shares in the server
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    backup: Option<bool>,
    /// Print the encrypted shares that were kept
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    backup_retrieve: Option<bool>,
    /// Delete the encrypted shares that were kept
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    backup_delete: Option<bool>,
    /// Which key gets new shares
    #[arg(long, value_enum, value_name = "TARGET", default_value = "barrier")]
    target: RekeyTarget,
    #[command(flatten)]
    common: CommonFlags,
}

impl Rekey {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        if self.cancel == Some(true) {
            return self.cancel(&client);
        }
        if self.backup_delete == Some(true) {
            let request = ClientRequest::new(Method::Delete, &self.path("backup"));
            client.send(&request).map_err(Error::doing("Error deleting kept shares"))?;
            return Ok(Outcome::line("Success! Deleted the kept shares (if there were any)"));
        }
        if self.backup_retrieve == Some(true) {
            return self.show_kept(&client, &config);
        }
        if self.init == Some(true) {
            return self.start(&client, &config);
        }
        if self.status == Some(true) {
            return self.show(&self.read(&client)?, &config);
        }
        self.give(&client, &config)
    }

    /// `sys/rekey/...`, where both Vault and OpenBao have it.
    fn path(&self, end: &str) -> String {
        let family = match self.target {
            RekeyTarget::Barrier => "rekey",
            RekeyTarget::Recovery => "rekey-recovery-key",
        };
        format!("sys/{family}/{end}")
    }

    fn verifies(&self) -> bool {
        self.verify == Some(true)
    }

    fn cancel(&self, client: &Client<'_>) -> Result<Outcome, Error> {
        let path = self.path(if self.verifies() { "verify" } else { "init" });
        let mut request = ClientRequest::new(Method::Delete, &path);
        if let Some(nonce) = &self.nonce {
            request = request.with_query("nonce", nonce);
        }
        client.send(&request).map_err(Error::doing("Error canceling rekey"))?;
        Ok(Outcome::line("Success! Canceled rekeying (if it was started)"))
    }

    fn start(&self, client: &Client<'_>, config: &Config) -> Result<Outcome, Error> {
        let mut body = Map::from([
            ("secret_shares".to_owned(), Json::from(self.key_shares)),
            ("secret_threshold".to_owned(), Json::from(self.key_threshold)),
            ("require_verification".to_owned(), Json::from(self.verifies())),
        ]);
        if !self.pgp_keys.is_empty() {
            body.insert("pgp_keys".to_owned(), pgp::keys("-pgp-keys", &self.pgp_keys)?);
        }
        if let Some(keeps) = self.backup {
            body.insert("backup".to_owned(), Json::from(keeps));
        }
        let doing = "Error initializing rekey";
        let answer = client.send(&ClientRequest::put(&self.path("init"), body));
        let state = print::object(answer.map_err(Error::doing(doing))?, doing)?;
        let outcome = show_status(&state, config)?;
        Ok(match (config.format, self.verifies()) {
            (OutputFormat::Table, false) => outcome.with_notice(ONCE),
            _ => outcome,
        })
    }

    /// The encrypted shares that were kept, by the fingerprints of the keys that open them.
    fn show_kept(&self, client: &Client<'_>, config: &Config) -> Result<Outcome, Error> {
        let doing = "Error retrieving kept shares";
        let answer = client.send_really(&ClientRequest::get(&self.path("backup")));
        let answer = print::object(answer.map_err(Error::doing(doing))?, doing)?;
        let kept = answer.get("data").and_then(Json::as_object).unwrap_or(&answer);
        if config.format != OutputFormat::Table {
            return print::document(kept, KEPT, config);
        }
        let mut rows = vec![row("Nonce", text(kept, "nonce"))];
        let shares = kept.get("keys_base64").and_then(Json::as_object);
        for fingerprint in shares.into_iter().flat_map(Map::keys) {
            for share in shares.into_iter().flat_map(|shares| list(shares, fingerprint)) {
                rows.push(row(fingerprint, share));
            }
        }
        Ok(Outcome::print(table::rows(&rows)))
    }

    /// How far the rekey is, or with -verify its verification.
    fn read(&self, client: &Client<'_>) -> Result<Map, Error> {
        let doing = "Error reading rekey status";
        let path = self.path(if self.verifies() { "verify" } else { "init" });
        let answer = client.send_really(&ClientRequest::get(&path)).map_err(Error::doing(doing))?;
        print::object(answer, doing)
    }

    fn show(&self, state: &Map, config: &Config) -> Result<Outcome, Error> {
        match self.verifies() {
            true => show_verification(state, config),
            false => show_status(state, config),
        }
    }

    /// Gives a share.
    fn give(&self, client: &Client<'_>, config: &Config) -> Result<Outcome, Error> {
        let state = self.read(client)?;
        if !print::is(&state, "started") {
            let text = "No rekey is in progress. Start one with \"kallisto operator rekey -init\".";
            return Err(Error::usage(text));
        }
        let nonce = nonce_of(self.nonce.as_deref(), self.key.as_ref(), &state)?;
        let what = match self.target {
            RekeyTarget::Barrier => "Unseal Key",
            RekeyTarget::Recovery => "Recovery Key",
        };
        let question = format!("Rekey operation nonce: {nonce}\n{what}");
        let share = ask::share(self.key.as_ref(), &question, config)?;
        let body = Map::from([
            ("key".to_owned(), Json::from(share.expose_secret())),
            ("nonce".to_owned(), Json::from(nonce)),
        ]);
        let path = self.path(if self.verifies() { "verify" } else { "update" });
        let doing = "Error posting unseal key";
        let answer = client.send(&ClientRequest::put(&path, body));
        let done = print::object(answer.map_err(Error::doing(doing))?, doing)?;
        match (print::is(&done, "complete"), self.verifies()) {
            (false, _) => self.show(&self.read(client)?, config),
            (true, true) => show_verified(&done, config),
            (true, false) => self.show_keys(&done, client, config),
        }
    }

    fn show_keys(
        &self,
        done: &Map,
        client: &Client<'_>,
        config: &Config,
    ) -> Result<Outcome, Error> {
        if config.format != OutputFormat::Table {
            return print::document(done, KEYS, config);
        }
        let mut out = String::from("\n");
        let fingerprints = list(done, "pgp_fingerprints");
        for (at, key) in list(done, "keys_base64").into_iter().enumerate() {
            let holder = fingerprints.get(at);
            let holder = holder.map(|name| format!(" fingerprint: {name}; value:"));
            out.push_str(&format!("Key {}{}: {key}\n", at + 1, holder.unwrap_or_default()));
        }
        out.push_str(&format!("\nOperation nonce: {}\n\n", text(done, "nonce")));
        if !print::is(done, "verification_required") {
            out.push_str(
                "Success! The shares above replace the old ones. They are shown this once: give each\n\
                 to another person.\n",
            );
            return Ok(Outcome::print(out));
        }
        let doing = "Error reading rekey status";
        let request = ClientRequest::get(&self.path("verify"));
        let answer = client.send(&request).map_err(Error::doing(doing))?;
        out.push_str(&table::rows(&verification_rows(&print::object(answer, doing)?)));
        Ok(Outcome::print(out).with_notice(NOT_YET))
    }
}

/// The nonce to send: one that the caller names, or the server's when the share is typed, because
/// the nonce is shown then.
pub(super) fn nonce_of(
    given: Option<&str>,
    key: Option<&SecretString>,
    state: &Map,
) -> Result<String, Error> {
    match (given, key) {
        (Some(nonce), _) if !nonce.is_empty() => Ok(nonce.to_owned()),
        (_, Some(_)) => Err(Error::usage("Missing nonce value: specify it via the -nonce flag")),
        (_, None) => Ok(text(state, "nonce")),
    }
}

fn show_status(state: &Map, config: &Config) -> Result<Outcome, Error> {
    if config.format != OutputFormat::Table {
        return print::document(state, STATUS, config);
    }
    let mut rows = vec![row("Nonce", text(state, "nonce")), row("Started", text(state, "started"))];
    if print::is(state, "started") {
        rows.push(row("Progress", print::progress(state, "required")));
        rows.push(row("New Shares", text(state, "n")));
        rows.push(row("New Threshold", text(state, "t")));
        rows.push(row("Verification Required", text(state, "verification_required")));
        let nonce = text(state, "verification_nonce");
        if !nonce.is_empty() {
            rows.push(row("Verification Nonce", nonce));
        }
    }
    Ok(Outcome::print(table::rows(&rows)))
}

fn show_verification(state: &Map, config: &Config) -> Result<Outcome, Error> {
    match config.format {
        OutputFormat::Table => Ok(Outcome::print(table::rows(&verification_rows(state)))),
        _ => print::document(state, VERIFICATION, config),
    }
}

fn verification_rows(state: &Map) -> Vec<(String, String)> {
    vec![
        row("Started", text(state, "started")),
        row("New Shares", text(state, "n")),
        row("New Threshold", text(state, "t")),
        row("Verification Nonce", text(state, "nonce")),
        row("Verification Progress", print::progress(state, "t")),
    ]
}

fn show_verified(done: &Map, config: &Config) -> Result<Outcome, Error> {
    match config.format {
        OutputFormat::Table => Ok(Outcome::line("Success! The new shares replace the old ones.")),
        _ => print::document(done, VERIFIED, config),
    }
}
