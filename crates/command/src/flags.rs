//! Flags that several commands share, as clap takes them; nothing is decided here.
//!
//! [`super::config::Config`] joins them with the environment. Names and meanings are Vault's.

use clap::Args;

use super::duration;

/// Reads the value of a switch, as Go's flags do.
///
/// # Errors
/// A sentence, when it is neither true nor false.
pub fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("neither true nor false".to_owned()),
    }
}

/// Checks a flag that is sent as it is written and has to be a duration, which may be below zero (the server's own, for
/// lifetimes of leases). Vault's command line refuses another as a wrong flag, before anything is sent. An empty one says
/// nothing, as there: scripts fill it from variables.
///
/// # Errors
/// The sentence that Go's clients say.
pub fn parse_duration(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Ok(String::new());
    }
    duration::parse(text.strip_prefix('-').unwrap_or(text))
        .map(|_| text.to_owned())
        .map_err(|_| format!("time: invalid duration {text:?}"))
}

/// Which server to speak to and how; every client command has these.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connection")]
pub struct ConnectionFlags {
    /// Address of the server [env: VAULT_ADDR] [default: https://127.0.0.1:8200]
    #[arg(hide_short_help = true, long, value_name = "URL")]
    pub address: Option<String>,
    /// PEM file of the certificate authority to trust [env: VAULT_CACERT]
    #[arg(hide_short_help = true, long, value_name = "PATH")]
    pub ca_cert: Option<String>,
    /// Directory of PEM files of certificate authorities to trust [env: VAULT_CAPATH]
    #[arg(hide_short_help = true, long, value_name = "PATH")]
    pub ca_path: Option<String>,
    /// PEM file of the client's certificate, with -client-key [env: VAULT_CLIENT_CERT]
    #[arg(hide_short_help = true, long, value_name = "PATH")]
    pub client_cert: Option<String>,
    /// PEM file of the client's private key [env: VAULT_CLIENT_KEY]
    #[arg(hide_short_help = true, long, value_name = "PATH")]
    pub client_key: Option<String>,
    /// Name the server's certificate must carry [env: VAULT_TLS_SERVER_NAME]
    #[arg(hide_short_help = true, long, value_name = "NAME")]
    pub tls_server_name: Option<String>,
    /// Trust any certificate; only for trying things out [env: VAULT_SKIP_VERIFY]
    #[arg(hide_short_help = true, long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub tls_skip_verify: Option<bool>,
    /// Namespace to work in [env: VAULT_NAMESPACE]
    #[arg(hide_short_help = true, long, visible_alias = "ns", value_name = "NAME")]
    pub namespace: Option<String>,
    /// Extra header of every request, as NAME=VALUE; may be repeated
    #[arg(hide_short_help = true, long, value_name = "NAME=VALUE")]
    pub header: Vec<String>,
    /// Wrap the answer in a single-use token that lives this long, e.g. 60 or 5m; refused where a command does not print the answer as it came [env: VAULT_WRAP_TTL]
    #[arg(hide_short_help = true, long, value_name = "DURATION")]
    pub wrap_ttl: Option<String>,
    /// Do not follow a redirect to another server [env: VAULT_DISABLE_REDIRECTS]
    #[arg(hide_short_help = true, long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub disable_redirects: Option<bool>,
    /// Print the request as a curl command instead of sending it
    #[arg(hide_short_help = true, long)]
    pub output_curl_string: bool,
    /// Print the policy that the request needs instead of sending it
    #[arg(hide_short_help = true, long)]
    pub output_policy: bool,
    /// Never ask on the terminal
    #[arg(hide_short_help = true, long)]
    pub non_interactive: bool,
    /// No colours, whatever the terminal can do [env: VAULT_CLI_NO_COLOR, NO_COLOR]
    #[arg(hide_short_help = true, long)]
    pub no_color: bool,
}

/// How to print an answer.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Output")]
pub struct FormatFlag {
    /// table, json, yaml or (for read) raw [env: VAULT_FORMAT] [default: table]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
}

/// Print one field of an answer.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Output")]
pub struct FieldFlag {
    /// Print only this field; piped on, without a line break at the end
    #[arg(long, value_name = "NAME")]
    pub field: Option<String>,
}

/// What every command that prints an answer takes.
#[derive(Args, Debug, Default)]
pub struct CommonFlags {
    #[command(flatten)]
    /// How a server is reached.
    pub connection: ConnectionFlags,
    #[command(flatten)]
    /// How the answer is printed.
    pub format: FormatFlag,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_sent_as_it_is_written_or_not_at_all() {
        for text in ["", "0", "90", "1h30m", "1d", "1.5s", "-1", "-1s"] {
            assert_eq!(parse_duration(text).as_deref(), Ok(text));
        }
        for text in ["abc", "-", "--1", " 1", "1 h", "system"] {
            let wanted = format!("time: invalid duration {text:?}");
            assert_eq!(parse_duration(text), Err(wanted));
        }
    }
}
