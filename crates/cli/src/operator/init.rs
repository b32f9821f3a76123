//! `operator init`: makes the keys of a new server and prints the shares, this once.
//!
//! With a seal that unseals by itself the shares are those of the recovery key, so the server is
//! asked for its seal first. `-status` answers by its exit code: 0 there are keys, 2 there are none,
//! 1 it could not be found out.

use clap::Args;

use super::pgp;
use super::print::{self, MissingMember, list, text};
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::{EXIT_SERVER, EXIT_USAGE, Error};
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{Document, OutputFormat};
use kallisto_command::secret::Secret;

const PATH: &str = "sys/init";
const SHARES_DEFAULT: u64 = 5;
const THRESHOLD_DEFAULT: u64 = 3;

/// Makes the keys of a new server and prints their shares and the first root token.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto operator init\n  kallisto operator init -key-shares=1 -key-threshold=1 -format=json\n  kallisto operator init -key-shares=2 -key-threshold=2 -pgp-keys=alice.asc,bob.asc -root-token-pgp-key=alice.asc\n  kallisto operator init -status\n\nThe shares are printed once and stored nowhere: give each to another person"
)]
pub(crate) struct Init {
    /// Number of shares of the unseal key [default: 5]
    #[arg(short = 'n', long, value_name = "COUNT")]
    key_shares: Option<u64>,
    /// Number of shares that unseal [default: 3]
    #[arg(short = 't', long, value_name = "COUNT")]
    key_threshold: Option<u64>,
    /// Number of shares of the recovery key, of a server that unseals by itself [default: 5]
    #[arg(long, value_name = "COUNT")]
    recovery_shares: Option<u64>,
    /// Number of shares that make the recovery key [default: 3]
    #[arg(long, value_name = "COUNT")]
    recovery_threshold: Option<u64>,
    /// Files of OpenPGP public keys, one for each share, which is encrypted to it
    #[arg(long, value_name = "FILE,...", value_delimiter = ',')]
    pgp_keys: Vec<String>,
    /// The same for the shares of the recovery key
    #[arg(long, value_name = "FILE,...", value_delimiter = ',')]
    recovery_pgp_keys: Vec<String>,
    /// File of an OpenPGP public key that the root token is encrypted to
    #[arg(long, value_name = "FILE")]
    root_token_pgp_key: Option<String>,
    /// Only print whether the server has keys: exit code 0 yes, 2 no, 1 error
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    status: Option<bool>,
    /// Does nothing; Vault's command line takes it too
    #[arg(long, value_name = "COUNT", hide = true, allow_negative_numbers = true)]
    stored_shares: Option<i64>,
    #[command(flatten)]
    common: CommonFlags,
}

/// How many shares of which key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ShareCounts {
    shares: u64,
    threshold: u64,
    recovery_shares: u64,
    recovery_threshold: u64,
}

impl Init {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        if self.status == Some(true) {
            // No keys is exit code 2 here, so no failure may be.
            return Ok(status(&client, &config).unwrap_or_else(|error| {
                let code = error.exit_code().min(EXIT_USAGE);
                Outcome::from(error).with_code(code)
            }));
        }
        let counts = self.counts(&client)?;
        let mut body = Map::from([
            ("secret_shares".to_owned(), Json::from(counts.shares)),
            ("secret_threshold".to_owned(), Json::from(counts.threshold)),
            ("recovery_shares".to_owned(), Json::from(counts.recovery_shares)),
            ("recovery_threshold".to_owned(), Json::from(counts.recovery_threshold)),
        ]);
        for (name, flag, files) in [
            ("pgp_keys", "-pgp-keys", &self.pgp_keys),
            ("recovery_pgp_keys", "-recovery-pgp-keys", &self.recovery_pgp_keys),
        ] {
            if !files.is_empty() {
                body.insert(name.to_owned(), pgp::keys(flag, files)?);
            }
        }
        if let Some(file) = &self.root_token_pgp_key {
            let key = pgp::key("-root-token-pgp-key", file)?;
            body.insert("root_token_pgp_key".to_owned(), Json::from(key));
        }
        let doing = "Error initializing";
        let answer = client.send(&ClientRequest::put(PATH, body));
        let made = print::object(answer.map_err(Error::doing(doing))?, doing)?;
        let outcome = match config.format {
            OutputFormat::Table => Outcome::print(for_people(&made, counts)),
            format => Outcome::print(for_programs(&made, counts).to_text(format)?),
        };
        Ok(match self.stored_shares {
            Some(_) => outcome.with_notice("-stored-shares has no effect\n"),
            None => outcome,
        })
    }

    /// The defaults are of the key that the server's seal has shares of.
    fn counts(&self, client: &Client<'_>) -> Result<ShareCounts, Error> {
        let doing = "Error checking seal status";
        let answer = client.send_really(&ClientRequest::get("sys/seal-status"));
        let seal = print::object(answer.map_err(Error::doing(doing))?, doing)?;
        let or = |given: Option<u64>, default| given.filter(|count| *count != 0).unwrap_or(default);
        let recovery = print::is(&seal, "recovery_seal");
        Ok(ShareCounts {
            shares: or(self.key_shares, if recovery { 0 } else { SHARES_DEFAULT }),
            threshold: or(self.key_threshold, if recovery { 0 } else { THRESHOLD_DEFAULT }),
            recovery_shares: or(self.recovery_shares, if recovery { SHARES_DEFAULT } else { 0 }),
            recovery_threshold: or(
                self.recovery_threshold,
                if recovery { THRESHOLD_DEFAULT } else { 0 },
            ),
        })
    }
}

fn status(client: &Client<'_>, config: &Config) -> Result<Outcome, Error> {
    let doing = "Error checking initialization status";
    let answer = client.send(&ClientRequest::get(PATH)).map_err(Error::doing(doing))?;
    let initialized = Secret::flag_of(&print::object(answer, doing)?, "initialized", doing)?;
    let code = if initialized { 0 } else { EXIT_SERVER };
    let outcome = match config.format {
        OutputFormat::Table if initialized => Outcome::line("Kallisto is initialized"),
        OutputFormat::Table => Outcome::line("Kallisto is not initialized"),
        format => {
            let members = vec![("Initialized", Document::Own(Json::from(initialized)))];
            Outcome::print(Document::Record(members).to_text(format)?)
        }
    };
    Ok(outcome.with_code(code))
}

fn for_people(made: &Map, counts: ShareCounts) -> String {
    let mut out = String::new();
    for (at, key) in list(made, "keys_base64").into_iter().enumerate() {
        out.push_str(&format!("Unseal Key {}: {key}\n", at + 1));
    }
    for (at, key) in list(made, "recovery_keys_base64").into_iter().enumerate() {
        out.push_str(&format!("Recovery Key {}: {key}\n", at + 1));
    }
    out.push_str(&format!("\nInitial Root Token: {}\n\n", text(made, "root_token")));
    if counts.recovery_shares > 0 {
        let ShareCounts { recovery_shares: n, recovery_threshold: t, .. } = counts;
        out.push_str(&format!(
            "Success! Kallisto is initialized\n\nThe recovery key has {n} shares, of which {t} \
             make it. They are shown above this once:\ngive each to another person.\n"
        ));
    } else {
        let ShareCounts { shares: n, threshold: t, .. } = counts;
        out.push_str(&format!(
            "Kallisto is initialized with {n} shares of the unseal key, of which {t} unseal it. They\n\
             are shown above this once: give each to another person. Whenever the server starts or\n\
             was sealed, it needs {t} of them before it serves, and without {t} of them everything\n\
             in it is lost for good.\n\n\
             A quorum of shares can be exchanged for new ones: see \"kallisto operator rekey\".\n"
        ));
    }
    out
}

fn for_programs(made: &Map, counts: ShareCounts) -> Document<'_> {
    let value = |name: &str, missing| match (made.get(name), missing) {
        (Some(value), _) => Document::Value(value),
        (None, MissingMember::Text) => Document::Own(Json::from("")),
        (None, _) => Document::Own(Json::Null),
    };
    let count = |count: u64| Document::Own(Json::from(count));
    Document::Record(vec![
        ("unseal_keys_b64", value("keys_base64", MissingMember::Null)),
        ("unseal_keys_hex", value("keys", MissingMember::Null)),
        ("unseal_shares", count(counts.shares)),
        ("unseal_threshold", count(counts.threshold)),
        ("recovery_keys_b64", value("recovery_keys_base64", MissingMember::Null)),
        ("recovery_keys_hex", value("recovery_keys", MissingMember::Null)),
        ("recovery_keys_shares", count(counts.recovery_shares)),
        ("recovery_keys_threshold", count(counts.recovery_threshold)),
        ("root_token", value("root_token", MissingMember::Text)),
    ])
}
