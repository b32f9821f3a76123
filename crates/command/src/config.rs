//! Arguments and environment into one validated [`Config`].
//!
//! The only reader of the environment among the client commands. Every setting has one name and
//! three spellings, `KALLISTO_<NAME>`, `BAO_<NAME>` and `VAULT_<NAME>`; the first wins, an empty value counts as
//! unset, and a flag wins over all. [`SETTINGS`] is the whole table, [`SERVER_SETTINGS`] that of
//! the server.

mod colours;
mod no_proxy;
mod settings;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use ureq::http::Uri;
use zeroize::Zeroize;

use super::client::reach::AddressReach;
use super::error::Error;
use super::flags::{CommonFlags, ConnectionFlags};
use super::output::OutputFormat;
use super::{duration, files};

pub use colours::{colours_wanted, log_colours_wanted};
pub use settings::{SERVER_SETTINGS, SETTINGS};

/// Where a server listens when nobody says otherwise.
const ADDRESS_DEFAULT: &str = "https://127.0.0.1:8200";
/// How long one request may take when nobody says otherwise.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
/// Retries when nobody says otherwise: a person sees the error and decides.
const RETRIES_DEFAULT: u32 = 0;
/// Most retries one can ask for.
const RETRIES_MAX: u32 = 100;
/// Where `login` keeps the token, below the home directory; shared with Vault's command line.
const TOKEN_FILE: &str = ".vault-token";

/// What stands before a setting's name, the first that is set wins: ours, OpenBao's, Vault's.
const PREFIXES: [&str; 3] = ["KALLISTO", "BAO", "VAULT"];

/// What stands before the name of a setting that is about the server that `migrate` moves from.
const SOURCE: &str = "SOURCE_";

/// The environment, by name; a function so that tests need not touch the real one.
pub struct Environment<'a>(Box<VariableLookup<'a>>);

/// Finds the value of a variable.
type VariableLookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

impl<'a> Environment<'a> {
    /// The environment of this process.
    pub fn process() -> Self {
        Self(Box::new(|name| std::env::var(name).ok()))
    }

    /// An environment that holds what `lookup` says.
    pub fn of(lookup: impl Fn(&str) -> Option<String> + 'a) -> Self {
        Self(Box::new(lookup))
    }

    /// The environment as a client of the server has it that `migrate` moves from: the settings that say which server that is, and how to be known
    /// to it, are those of that server alone, and all others are those of every client.
    pub fn of_source(&self) -> Environment<'_> {
        let of_that_server =
            |name: &str| SETTINGS.iter().any(|(known, _)| known.strip_prefix(SOURCE) == Some(name));
        Environment::of(move |spelling| {
            let setting = spelling.split_once('_').filter(|(prefix, _)| PREFIXES.contains(prefix));
            match setting {
                Some((prefix, name)) if of_that_server(name) => {
                    self.plain(&format!("{prefix}_{SOURCE}{name}"))
                }
                _ => self.plain(spelling),
            }
        })
    }

    /// A variable that is no setting of ours.
    pub fn plain(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    /// A setting: the spelling that was found, and its value.
    pub fn setting(&self, name: &str) -> Option<(String, String)> {
        let known = SETTINGS.iter().chain(&SERVER_SETTINGS).map(|(known, _)| known);
        assert!(known.into_iter().any(|known| *known == name), "{name} is in no table");
        PREFIXES.into_iter().find_map(|prefix| {
            let spelling = format!("{prefix}_{name}");
            self.plain(&spelling).map(|value| (spelling, value))
        })
    }

    /// The value of a setting, however it is spelled.
    pub fn value(&self, name: &str) -> Option<String> {
        self.setting(name).map(|(_, value)| value)
    }
}

/// Where `login` and a dev server keep the token of this user: where the environment says, else in the home directory if there is one.
pub fn token_file(environment: &Environment<'_>) -> Option<PathBuf> {
    let named = environment.value("TOKEN_PATH").map(PathBuf::from);
    named.or_else(|| environment.plain("HOME").map(|home| Path::new(&home).join(TOKEN_FILE)))
}

/// Who reads standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// A person at a terminal.
    Person,
    /// A pipe or a file.
    Program,
}

/// Whether to send requests or to show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// Send.
    Real,
    /// `-output-curl-string`: show the last request as a command line.
    Curl,
    /// `-output-policy`: show the rule that it needs.
    Policy,
}

/// How to know the server and be known to it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// PEM file of the authority to trust.
    pub ca_cert: Option<PathBuf>,
    /// The same as text; `ca_cert` wins.
    pub ca_cert_text: Option<String>,
    /// Directory of such files; the others win.
    pub ca_path: Option<PathBuf>,
    /// PEM files of the client's certificate and key.
    pub client_identity: Option<(PathBuf, PathBuf)>,
    /// Name to ask for and check instead of the address's host.
    pub server_name: Option<String>,
    /// Whether the server's certificate is not checked: whoever answers is believed.
    pub trusts_anyone: bool,
}

/// Everything a client command needs to know, checked.
#[derive(Debug)]
pub struct Config {
    /// Scheme, host and port of the server, and perhaps a path before `/v1`.
    pub address: Uri,
    /// Token sent with every request.
    pub token: Option<SecretString>,
    /// Whether the token is the environment's, which hides the stored one, and not that of the file `login` writes.
    pub has_environment_token: bool,
    /// Where `login` stores a token; none without a home directory.
    pub token_file: Option<PathBuf>,
    /// Namespace as it goes on the wire, ending in `/`.
    pub namespace: Option<String>,
    /// How to print.
    pub format: OutputFormat,
    /// Certificates and keys.
    pub tls: TlsSettings,
    /// Extra headers.
    pub headers: Vec<(String, String)>,
    /// `X-Vault-Wrap-TTL`, in the form for the wire.
    pub wrap_ttl: Option<String>,
    /// Whether a flag says that answers are to be wrapped, and not only the environment.
    pub wraps_by_flag: bool,
    /// Longest time for one request.
    pub timeout: Duration,
    /// Most retries of one request.
    pub retries_max: u32,
    /// Whether a redirect is followed, once and with method and body kept.
    pub follows_redirects: bool,
    /// Where a connection may go to.
    pub reach: AddressReach,
    /// Proxy to go through.
    pub proxy: Option<String>,
    /// Send or show.
    pub sending: Sending,
    /// Whether questions may be asked on the terminal (`-non-interactive` says no).
    pub may_ask: bool,
    /// Who reads.
    pub audience: Audience,
}

impl Config {
    /// The settings of a command: flags and the environment of this process. What every command but two
    /// cannot do is refused here, the raw format.
    pub fn load(flags: &CommonFlags) -> Result<Self, Error> {
        let config = Self::load_raw(flags)?;
        match config.format {
            OutputFormat::Raw => {
                Err(Error::usage("This command does not support the -format=raw option."))
            }
            OutputFormat::Table | OutputFormat::Json | OutputFormat::Yaml => Ok(config),
        }
    }

    /// The settings of a command that can print the bytes of an answer as they came.
    pub fn load_raw(flags: &CommonFlags) -> Result<Self, Error> {
        let audience = match std::io::stdout().is_terminal() {
            true => Audience::Person,
            false => Audience::Program,
        };
        let config = Self::resolve(flags, &Environment::process(), audience)?;
        config.with_stored_token()
    }

    /// Joins flags and environment; reads no file.
    pub fn resolve(
        flags: &CommonFlags,
        environment: &Environment<'_>,
        audience: Audience,
    ) -> Result<Self, Error> {
        let connection = &flags.connection;
        let format = flags.format.format.clone().or_else(|| environment.value("FORMAT"));
        let format = format.as_deref().map_or(Ok(OutputFormat::Table), OutputFormat::parse)?;
        let address = connection.address.clone().or_else(|| environment.value("ADDR"));
        let address = parse_address(address.as_deref().unwrap_or(ADDRESS_DEFAULT))?;
        let token = environment.value("TOKEN").map(checked_token).transpose()?;
        let wrap_ttl = wrap_ttl(connection, environment)?;
        Ok(Self {
            has_environment_token: token.is_some(),
            token,
            token_file: token_file(environment),
            namespace: connection
                .namespace
                .clone()
                .or_else(|| environment.value("NAMESPACE"))
                .and_then(|name| wire_namespace(&name)),
            format,
            tls: tls_settings(connection, environment)?,
            headers: connection.header.iter().map(|text| header(text)).collect::<Result<_, _>>()?,
            wraps_by_flag: wrap_ttl.is_some() && connection.wrap_ttl.is_some(),
            wrap_ttl,
            timeout: timeout(environment)?,
            retries_max: retries_max(environment)?,
            reach: AddressReach::Anywhere,
            follows_redirects: !flag_or(
                connection.disable_redirects,
                environment,
                "DISABLE_REDIRECTS",
            )?,
            proxy: proxy(&address, environment),
            address,
            sending: match (connection.output_curl_string, connection.output_policy) {
                (true, _) => Sending::Curl,
                (false, true) => Sending::Policy,
                (false, false) => Sending::Real,
            },
            may_ask: !connection.non_interactive,
            audience,
        })
    }

    /// Takes the token that `login` stored, if the environment holds none.
    fn with_stored_token(mut self) -> Result<Self, Error> {
        if self.token.is_some() {
            return Ok(self);
        }
        let Some(path) = &self.token_file else { return Ok(self) };
        let bytes = match files::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(self),
            Err(error) => {
                let shown = path.display();
                return Err(Error::unusable(format!("reading the stored token: {shown}: {error}")));
            }
        };
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        let trimmed = text.trim().to_owned();
        text.zeroize();
        if !trimmed.is_empty() {
            self.token = Some(checked_token(trimmed)?);
        }
        Ok(self)
    }

    /// The token, where a request or `print token` needs it.
    pub fn expose_token(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.expose_secret())
    }
}

/// A token is sent in a header: control characters in it would fail late and obscurely.
pub fn checked_token(token: String) -> Result<SecretString, Error> {
    if token.chars().any(|c| c.is_control() || !c.is_ascii()) {
        let text = "configured Vault token contains non-printable characters and cannot be used";
        return Err(Error::unusable(text));
    }
    Ok(SecretString::from(token))
}

fn parse_address(text: &str) -> Result<Uri, Error> {
    let bad = |why: &str| Error::unusable(format!("address {:?}: {why}", without_secrets(text)));
    let trimmed = text.trim_end_matches('/');
    if !trimmed.contains("://") {
        return Err(bad("a scheme is missing, e.g. https://127.0.0.1:8200"));
    }
    let address: Uri = trimmed.parse().map_err(|_| bad("not a URL"))?;
    match address.scheme_str() {
        Some("http" | "https") => {}
        _ => return Err(bad("only http and https are spoken")),
    }
    if address.query().is_some() || address.authority().is_some_and(|a| a.as_str().contains('@')) {
        return Err(bad("neither a query nor a user belongs here"));
    }
    Ok(address)
}

/// An address as errors show it: without a user, who may have a password, and without a query.
pub fn without_secrets(address: &str) -> String {
    let is_scheme = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let (scheme, rest) = match address.find("://") {
        Some(at) if is_scheme(&address[..at]) => address.split_at(at + 3),
        _ => ("", address),
    };
    let (hidden, shown) = match rest.rfind('@') {
        // Whether that ends a password or stands in a query cannot be told.
        Some(at) if rest[..at].contains(['?', '#']) => ("...", ""),
        Some(at) => ("...", &rest[at..]),
        None => ("", rest),
    };
    let shown = shown.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}{hidden}{shown}")
}

/// `team` and `/team/` are `team/`; the root has no name.
fn wire_namespace(name: &str) -> Option<String> {
    let name = name.trim_matches('/');
    (!name.is_empty()).then(|| format!("{name}/"))
}

fn header(text: &str) -> Result<(String, String), Error> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| Error::usage("flag -header: the form is NAME=VALUE"))?;
    if name.to_ascii_lowercase().starts_with("x-vault-") {
        return Err(Error::usage(format!("flag -header: {name:?} is set by this program alone")));
    }
    let name_ok = ureq::http::HeaderName::try_from(name).is_ok();
    let value_ok = ureq::http::HeaderValue::try_from(value).is_ok();
    if !name_ok || !value_ok {
        return Err(Error::usage(format!("flag -header: {name:?} is no valid header")));
    }
    Ok((name.to_owned(), value.to_owned()))
}

fn tls_settings(
    flags: &ConnectionFlags,
    environment: &Environment<'_>,
) -> Result<TlsSettings, Error> {
    let pick = |flag: &Option<String>, name| flag.clone().or_else(|| environment.value(name));
    let cert = pick(&flags.client_cert, "CLIENT_CERT");
    let key = pick(&flags.client_key, "CLIENT_KEY");
    let client_identity = match (cert, key) {
        (Some(cert), Some(key)) => Some((cert.into(), key.into())),
        (None, None) => None,
        _ => {
            let text = "both a client certificate and a client key must be given";
            return Err(Error::unusable(text));
        }
    };
    let trusts_anyone = flag_or(flags.tls_skip_verify, environment, "SKIP_VERIFY")?;
    Ok(TlsSettings {
        ca_cert: pick(&flags.ca_cert, "CACERT").map(PathBuf::from),
        // What is said for this one call wins over what is said for all.
        ca_cert_text: environment.value("CACERT_BYTES").filter(|_| flags.ca_path.is_none()),
        ca_path: pick(&flags.ca_path, "CAPATH").map(PathBuf::from),
        client_identity,
        server_name: pick(&flags.tls_server_name, "TLS_SERVER_NAME"),
        trusts_anyone,
    })
}

/// A switch: the flag, else the setting, else off.
fn flag_or(flag: Option<bool>, environment: &Environment<'_>, name: &str) -> Result<bool, Error> {
    if let Some(given) = flag {
        return Ok(given);
    }
    let Some((spelling, value)) = environment.setting(name) else { return Ok(false) };
    match value.to_ascii_lowercase().as_str() {
        "1" | "t" | "true" => Ok(true),
        "0" | "f" | "false" => Ok(false),
        _ => Err(Error::unusable(format!("{spelling}: neither true nor false"))),
    }
}

fn wrap_ttl(
    flags: &ConnectionFlags,
    environment: &Environment<'_>,
) -> Result<Option<String>, Error> {
    let ttl =
        match (&flags.wrap_ttl, environment.setting("WRAP_TTL")) {
            (Some(text), _) => duration::parse(text)
                .map_err(|why| Error::usage(format!("flag -wrap-ttl: {why}")))?,
            (None, Some((spelling, text))) => duration::parse(&text)
                .map_err(|why| Error::unusable(format!("{spelling}: {why}")))?,
            (None, None) => return Ok(None),
        };
    Ok((!ttl.is_zero()).then(|| duration::wire(ttl)))
}

fn timeout(environment: &Environment<'_>) -> Result<Duration, Error> {
    let Some((spelling, text)) = environment.setting("CLIENT_TIMEOUT") else {
        return Ok(TIMEOUT_DEFAULT);
    };
    match duration::parse(&text) {
        Ok(timeout) if !timeout.is_zero() => Ok(timeout),
        Ok(_) => Err(Error::unusable(format!("{spelling}: must be more than nothing"))),
        Err(why) => Err(Error::unusable(format!("{spelling}: {why}"))),
    }
}

fn retries_max(environment: &Environment<'_>) -> Result<u32, Error> {
    let Some((spelling, text)) = environment.setting("MAX_RETRIES") else {
        return Ok(RETRIES_DEFAULT);
    };
    match text.parse() {
        Ok(number) if number <= RETRIES_MAX => Ok(number),
        _ => Err(Error::unusable(format!("{spelling}: a number from 0 to {RETRIES_MAX}"))),
    }
}

/// The proxy for this address. The machine itself is never reached through one.
fn proxy(address: &Uri, environment: &Environment<'_>) -> Option<String> {
    if let Some(ours) = environment.value("PROXY_ADDR").or_else(|| environment.value("HTTP_PROXY"))
    {
        return Some(ours);
    }
    let host = address.host().unwrap_or_default().trim_matches(['[', ']']);
    let loopback = host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let (name, port) = match address.scheme_str() {
        Some("https") => ("HTTPS_PROXY", 443),
        _ => ("HTTP_PROXY", 80),
    };
    let list = environment.plain("NO_PROXY").or_else(|| environment.plain("no_proxy"));
    let exempt =
        no_proxy::names(&list.unwrap_or_default(), host, address.port_u16().unwrap_or(port));
    if loopback || host == "localhost" || exempt {
        return None;
    }
    environment.plain(name).or_else(|| environment.plain(&name.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(flags: &ConnectionFlags, variables: &[(&str, &str)]) -> Result<Config, String> {
        let lookup = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let flags = CommonFlags { connection: flags.clone(), ..CommonFlags::default() };
        let environment = Environment::of(lookup);
        Config::resolve(&flags, &environment, Audience::Program).map_err(|error| error.to_string())
    }

    fn from_environment(variables: &[(&str, &str)]) -> Result<Config, String> {
        resolved(&ConnectionFlags::default(), variables)
    }

    #[test]
    fn without_anything_the_defaults_hold() {
        let config = from_environment(&[]).unwrap();
        assert_eq!(config.address.to_string(), "https://127.0.0.1:8200/");
        assert_eq!((config.format, config.retries_max), (OutputFormat::Table, 0));
        assert_eq!(config.timeout, Duration::from_secs(60));
        assert!(config.token.is_none() && config.namespace.is_none() && config.proxy.is_none());
        assert_eq!(config.tls, TlsSettings::default());
    }

    #[test]
    fn flags_win_over_our_spelling_and_that_over_vaults() {
        let vault = ("VAULT_ADDR", "http://vault:1");
        let bao = ("BAO_ADDR", "http://bao:3");
        let ours = ("KALLISTO_ADDR", "http://kallisto:2/");
        let flag = ConnectionFlags { address: Some("http://flag:3".into()), ..Default::default() };
        let host =
            |config: Result<Config, String>| config.unwrap().address.host().unwrap().to_owned();
        assert_eq!(host(from_environment(&[vault])), "vault");
        assert_eq!(host(from_environment(&[vault, bao])), "bao");
        assert_eq!(host(from_environment(&[vault, bao, ours])), "kallisto");
        assert_eq!(host(from_environment(&[vault, ("KALLISTO_ADDR", "")])), "vault");
        assert_eq!(host(resolved(&flag, &[vault, ours])), "flag");
    }

    #[test]
    fn an_address_that_is_refused_is_shown_without_its_password() {
        for address in [
            "http://ann:s3cr3t@host",
            "https://ann:s3@cr3t@host:1?a=s3cr3t",
            "http://h/?s3cr3t",
            "http://h/?a@s3cr3t",
            "http://ann:s3cr3t?s3cr3t@host",
            "ann:s3cr3t@host:8200",
            "ann:s3cr3t://x@host",
        ] {
            let refusal = from_environment(&[("VAULT_ADDR", address)]).unwrap_err();
            assert!(refusal.contains("address") && !refusal.contains("cr3t"), "{refusal}");
        }
        assert_eq!(without_secrets("ftp://host:1/a?b"), "ftp://host:1/a");
    }

    #[test]
    fn values_are_checked_and_errors_name_the_setting() {
        for (name, value) in [
            ("VAULT_ADDR", "::::"),
            ("VAULT_ADDR", "127.0.0.1:8200"),
            ("VAULT_ADDR", "ftp://host"),
            ("VAULT_ADDR", "http://user:pass@host"),
            ("VAULT_FORMAT", "bogus"),
            ("VAULT_TOKEN", "bad\n"),
            ("VAULT_SKIP_VERIFY", "x"),
            ("VAULT_WRAP_TTL", "x"),
            ("VAULT_CLIENT_TIMEOUT", "x"),
            ("VAULT_CLIENT_TIMEOUT", "0"),
            ("VAULT_MAX_RETRIES", "-1"),
            ("VAULT_MAX_RETRIES", "101"),
            ("VAULT_CLIENT_CERT", "/only/one/of/two"),
        ] {
            assert!(from_environment(&[(name, value)]).is_err(), "{name}={value}");
        }
        let error = from_environment(&[("KALLISTO_MAX_RETRIES", "x")]).unwrap_err();
        assert!(error.contains("KALLISTO_MAX_RETRIES"), "{error}");
        let error = from_environment(&[("VAULT_TOKEN", "hunter\u{7}2")]).unwrap_err();
        assert!(!error.contains("hunter"), "{error}");
    }

    #[test]
    fn debug_shows_no_token() {
        let config = from_environment(&[("VAULT_TOKEN", "hvs.hunter2")]).unwrap();
        assert!(!format!("{config:?}").contains("hunter2"));
        assert_eq!(config.expose_token(), Some("hvs.hunter2"));
    }

    #[test]
    fn the_token_may_be_kept_elsewhere_than_at_home() {
        let file = |variables: &[(&str, &str)]| from_environment(variables).unwrap().token_file;
        let home = ("HOME", "/home/ada");
        assert_eq!(file(&[home]).as_deref(), Some(Path::new("/home/ada/.vault-token")));
        let elsewhere = ("BAO_TOKEN_PATH", "/run/token");
        assert_eq!(file(&[home, elsewhere]).as_deref(), Some(Path::new("/run/token")));
        assert_eq!(file(&[]), None);
    }

    #[test]
    fn a_certificate_of_the_environment_is_that_of_one_server() {
        let ours = ("VAULT_CACERT_BYTES", "PEM");
        let text = |flags: &ConnectionFlags| resolved(flags, &[ours]).unwrap().tls.ca_cert_text;
        assert_eq!(text(&ConnectionFlags::default()).as_deref(), Some("PEM"));
        let flags = ConnectionFlags { ca_path: Some("/dir".into()), ..Default::default() };
        assert_eq!(text(&flags), None);
        let environment = Environment::of(|name| (name == ours.0).then(|| ours.1.to_owned()));
        assert_eq!(environment.of_source().value("CACERT_BYTES"), None);
    }

    #[test]
    fn namespaces_end_in_a_slash_and_the_root_has_none() {
        for (given, wanted) in [("team", Some("team/")), ("/a/b/", Some("a/b/")), ("/", None)] {
            let config = from_environment(&[("VAULT_NAMESPACE", given)]).unwrap();
            assert_eq!(config.namespace.as_deref(), wanted, "{given}");
        }
    }

    #[test]
    fn this_machine_is_not_reached_through_a_proxy() {
        let proxy = |address: &str, no_proxy: &str| {
            let variables =
                [("VAULT_ADDR", address), ("HTTPS_PROXY", "http://p:3"), ("NO_PROXY", no_proxy)];
            from_environment(&variables).unwrap().proxy
        };
        assert_eq!(proxy("https://vault.corp:8200", "").as_deref(), Some("http://p:3"));
        for address in ["https://127.0.0.1:8200", "https://localhost:1", "https://[::1]:1"] {
            assert_eq!(proxy(address, ""), None, "{address}");
        }
        assert_eq!(proxy("https://vault.corp:8200", "x, .corp"), None);
        assert_eq!(proxy("https://vault.corp:8200", "orp").as_deref(), Some("http://p:3"));
        assert_eq!(proxy("https://vault.corp:8200", "*"), None);
    }

    #[test]
    fn headers_of_ours_cannot_be_forged() {
        let given =
            |header: &str| ConnectionFlags { header: vec![header.into()], ..Default::default() };
        assert!(resolved(&given("x-test=1=2"), &[]).is_ok());
        for header in ["bad", "X-Vault-Token=x", "a b=c", "a=b\nc"] {
            assert!(resolved(&given(header), &[]).is_err(), "{header}");
        }
    }
}
