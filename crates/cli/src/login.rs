//! `login`: from a credential to a token, kept in `~/.vault-token` for later commands.
//!
//! The file is the one Vault's command line uses, so that the two share a login; it is readable by
//! its owner alone. [`LoginForm`] says which endpoint a method has and what it takes. Questions are
//! asked on the terminal without echo, and never with `-non-interactive`.
//!
//! A login whose answer comes wrapped (`-wrap-ttl`) is unwrapped at once, unless only the wrapping
//! is wanted (`-token-only`, `-no-store`).

use std::io::IsTerminal;

use clap::Args;
use secrecy::{ExposeSecret, SecretString};

use super::login_kind::LoginKind;
use super::pairs::{self, PairInputs};
use kallisto_command::client::{Client, ClientRequest, url};
use kallisto_command::config::{Config, Environment, checked_token};
use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_command::flags::{CommonFlags, FieldFlag};
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{self, OutputFormat, field};
use kallisto_command::secret::Secret;

use super::{login_mfa, oidc_login, unwrap};

/// How a method is logged in to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoginForm {
    /// The credential is a token.
    Token,
    /// `login/<username>` with the rest as the body, the password asked for if missing.
    Password,
    /// The same, and both may be the environment's: who is logged in at this machine, and a setting.
    Directory,
    /// `login` with a token of that site, which may be the environment's or is asked for.
    SiteToken,
    /// `login` with everything as the body.
    Plain,
    /// Through a browser.
    Browser,
}

impl LoginForm {
    const fn of(kind: LoginKind) -> Self {
        match kind {
            LoginKind::Token => Self::Token,
            LoginKind::Userpass | LoginKind::Okta | LoginKind::Radius => Self::Password,
            LoginKind::Ldap => Self::Directory,
            LoginKind::Github => Self::SiteToken,
            LoginKind::Approle | LoginKind::Cert | LoginKind::Jwt | LoginKind::Kubernetes => {
                Self::Plain
            }
            LoginKind::Oidc => Self::Browser,
        }
    }
}

const NOT_STORED: &str = "The token was not stored in token helper. Set the VAULT_TOKEN environment\n\
                          variable or pass the token below with each request to Kallisto.\n\n";
const HIDDEN: &str = "WARNING! The VAULT_TOKEN environment variable is set! The value of this variable\n\
                      will take precedence; if this is unwanted please unset VAULT_TOKEN or update its\n\
                      value accordingly.\n\n";
const SUCCESS: &str = "Success! You are now authenticated. The token information displayed below is\n\
                       already stored in the token helper. You do NOT need to run \"kallisto login\" again.\n\
                       Future Kallisto requests will automatically use this token.\n\n";

/// Logs in.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto login\n  kallisto login -method=userpass username=ada\n  kallisto login -method=approle role_id=@role secret_id=@secret\n  kallisto login -method=oidc role=dev\n  kallisto login -token-only -method=userpass username=ada password=-"
)]
pub(crate) struct Login {
    /// A token, - to read it from stdin, or KEY=VALUE pairs for the method
    #[arg(value_name = "TOKEN | KEY=VALUE")]
    credentials: Vec<String>,
    /// token, userpass, ldap, okta, radius, approle, cert, github, jwt, kubernetes or oidc
    #[arg(long, value_name = "NAME", default_value = "token")]
    method: String,
    /// Where the method is mounted, if not at its own name
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Print the token and do not keep it
    #[arg(long)]
    no_store: bool,
    /// Keep the token and do not print it
    #[arg(long)]
    no_print: bool,
    /// Print the token alone and do not keep it
    #[arg(long)]
    token_only: bool,
    /// The second factor, if one is asked for; without it the code is asked for on the terminal
    #[arg(long, value_name = "METHOD:CODE")]
    mfa: Vec<String>,
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    field: FieldFlag,
}

/// What becomes of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeepToken {
    Stored,
    NotStored,
    /// `-token-only`.
    Bare,
}

impl Login {
    /// Logs in.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let keep = self.keep()?;
        let mut inputs = PairInputs::process();
        let pairs = self.pairs(&mut inputs)?;
        let Some(shape) = LoginKind::named(&self.method).map(LoginForm::of) else {
            let known = LoginKind::ALL.map(LoginKind::name).join(", ");
            return Err(Error::usage(format!(
                "Unknown auth method: {} (one of {known})",
                self.method
            )));
        };
        let secret = match shape {
            LoginForm::Token => with_token(&config, pairs)?,
            LoginForm::Password
            | LoginForm::Directory
            | LoginForm::SiteToken
            | LoginForm::Plain
            | LoginForm::Browser => self.with_method(&config, shape, pairs)?,
        };
        let secret = login_mfa::complete(&config, secret, &self.mfa)?;
        let secret = match (secret.wrapping_token(), keep) {
            (Some(token), KeepToken::Bare) => return Ok(output::bare(&config, token.to_owned())),
            (Some(_), KeepToken::NotStored) => return output::secret(&secret, &config, None),
            (Some(token), KeepToken::Stored) => unwrap::unwrap_with(Client::new(&config)?, token)?
                .ok_or_else(|| Error::Absent("The wrapped login was empty".to_owned()))?,
            (None, _) => secret,
        };
        // There are servers that wrap what they ask for, too.
        let secret = login_mfa::complete(&config, secret, &self.mfa)?;
        if secret.client_token().is_none_or(str::is_empty) {
            // A second factor is due, and nobody to ask for it.
            return output::secret(&secret, &config, None);
        }
        self.finish(&secret, keep, &config)
    }

    fn keep(&self) -> Result<KeepToken, Error> {
        match (self.token_only, self.no_store, self.no_print) {
            (false, true, true) => {
                Err(Error::usage("-no-store and -no-print cannot be used together"))
            }
            (true, _, true) => {
                Err(Error::usage("-token-only and -no-print cannot be used together"))
            }
            (true, _, false) => Ok(KeepToken::Bare),
            (false, true, false) => Ok(KeepToken::NotStored),
            (false, false, _) => Ok(KeepToken::Stored),
        }
    }

    /// The credentials as pairs; a single word is a token.
    fn pairs(&self, inputs: &mut PairInputs<'_>) -> Result<Vec<(String, String)>, Error> {
        match self.credentials.as_slice() {
            [word] if word == "-" && self.method == "token" => {
                let bytes = inputs.stdin().map_err(Error::usage)?;
                let token = String::from_utf8_lossy(&bytes).trim().to_owned();
                Ok(vec![("token".to_owned(), token)])
            }
            [word] if self.method == "token" && !word.contains('=') => {
                Ok(vec![("token".to_owned(), word.clone())])
            }
            words => pairs::parse_strings(words, inputs),
        }
    }

    fn with_method(
        &self,
        config: &Config,
        shape: LoginForm,
        mut pairs: Vec<(String, String)>,
    ) -> Result<Secret, Error> {
        // Vault's command line takes the path as a pair too.
        let mount = taken(&mut pairs, "mount").filter(|mount| !mount.is_empty());
        let mount = mount.as_deref().or(self.path.as_deref()).unwrap_or(&self.method);
        let mount = url::clean(mount)?;
        let nothing = || Error::Absent(format!("{AUTHENTICATING}: the server gave no token"));
        let gives = |secret: &Secret| secret.auth.is_some() || secret.wrap_info.is_some();
        if shape == LoginForm::Browser {
            let secret = oidc_login::log_in(config, &mount, pairs)?;
            return secret.filter(gives).ok_or_else(nothing);
        }
        let mut path = format!("auth/{mount}/login");
        let environment = Environment::process();
        if let Some(name) = username(shape, &mut pairs, &environment)? {
            path = format!("{path}/{}", url::clean(name.trim())?);
        }
        let missing =
            credential(shape).filter(|(key, ..)| !pairs.iter().any(|(had, _)| had == key));
        if let Some((key, setting, question)) = missing {
            let value = match setting.and_then(|setting| environment.value(setting)) {
                Some(value) => value,
                None => ask(question, config)?.expose_secret().to_owned(),
            };
            pairs.push((key.to_owned(), value));
        }
        let body: Map = pairs.into_iter().map(|(key, value)| (key, Json::from(value))).collect();
        let client = Client::new(config)?.without_token();
        let secret = client
            .send(&ClientRequest::put(&path, body).wrappable())
            .map_err(Error::doing(AUTHENTICATING))?;
        secret.filter(gives).ok_or_else(nothing)
    }

    /// Keeps and prints the token as asked.
    fn finish(&self, secret: &Secret, keep: KeepToken, config: &Config) -> Result<Outcome, Error> {
        let token = secret.client_token().unwrap_or_default();
        if keep == KeepToken::Bare {
            return field::of_secret(secret, "token", config);
        }
        if keep == KeepToken::Stored {
            store(token, config)?;
        }
        if self.no_print {
            return Ok(Outcome::default());
        }
        let hidden = keep == KeepToken::Stored && config.has_environment_token;
        if self.field.field.is_some() {
            return output::secret(secret, config, self.field.field.as_deref());
        }
        let mut notice = String::new();
        if hidden {
            notice.push_str(HIDDEN);
        }
        if keep == KeepToken::NotStored {
            notice.push_str(NOT_STORED);
        }
        let mut outcome = output::secret(secret, config, None)?.with_notice(&notice);
        if config.format == OutputFormat::Table && keep == KeepToken::Stored {
            outcome.stdout.splice(0..0, SUCCESS.bytes());
        }
        Ok(outcome)
    }
}

/// Takes the value of a key out of the pairs.
fn taken(pairs: &mut Vec<(String, String)>, key: &str) -> Option<String> {
    let at = pairs.iter().position(|(had, _)| had == key)?;
    Some(pairs.remove(at).1)
}

/// Who logs in, where the path of the login says so.
fn username(
    shape: LoginForm,
    pairs: &mut Vec<(String, String)>,
    environment: &Environment<'_>,
) -> Result<Option<String>, Error> {
    let given = taken(pairs, "username");
    let refused = |why: &str| Err(Error::Unusable(format!("{AUTHENTICATING}: {why}")));
    match (shape, given) {
        (LoginForm::Password | LoginForm::Directory, Some(name)) => Ok(Some(name)),
        (LoginForm::Password, None) => refused("'username' must be specified"),
        (LoginForm::Directory, None) => {
            let own = ["LOGNAME", "USER"].into_iter().find_map(|name| environment.plain(name));
            match own {
                Some(name) => Ok(Some(name)),
                None => refused("'username' not supplied and neither 'LOGNAME' nor 'USER' is set"),
            }
        }
        (
            LoginForm::Token | LoginForm::SiteToken | LoginForm::Plain | LoginForm::Browser,
            given,
        ) => {
            pairs.extend(given.map(|name| ("username".to_owned(), name)));
            Ok(None)
        }
    }
}

/// What a login proves who one is with: its key, the setting that may hold it, and what it is asked for as.
const fn credential(
    shape: LoginForm,
) -> Option<(&'static str, Option<&'static str>, &'static str)> {
    match shape {
        LoginForm::Password => Some(("password", None, "Password")),
        LoginForm::Directory => Some(("password", Some("LDAP_PASSWORD"), "Password")),
        LoginForm::SiteToken => Some(("token", Some("AUTH_GITHUB_TOKEN"), "Token")),
        LoginForm::Token | LoginForm::Plain | LoginForm::Browser => None,
    }
}

pub(crate) const AUTHENTICATING: &str = "Error authenticating";

/// Logs in with a token: it is looked up, and the answer shown as if it had been made now.
fn with_token(config: &Config, pairs: Vec<(String, String)>) -> Result<Secret, Error> {
    let given = pairs.into_iter().find(|(key, _)| key == "token").map(|(_, token)| token);
    let token = match given.filter(|token| !token.trim().is_empty()) {
        Some(token) => checked_token(token.trim().to_owned())?,
        None => ask("Token", config)?,
    };
    let client = Client::new(config)?.with_token(token.expose_secret());
    let doing = format!("{AUTHENTICATING}: error looking up token");
    let request = ClientRequest::get("auth/token/lookup-self").unwrapped();
    let found = client.send(&request).map_err(Error::doing(doing))?;
    let nothing = || Error::Absent(format!("{AUTHENTICATING}: the token was not found"));
    let found = found.and_then(|found| found.data).ok_or_else(nothing)?;
    Ok(Secret { auth: Some(auth_of(&found, token.expose_secret())), ..Secret::default() })
}

/// A looked-up token in the form a login answers with.
fn auth_of(found: &Map, token: &str) -> Map {
    let member = |name: &str| found.get(name).cloned().unwrap_or(Json::Null);
    let mut auth = Map::from([
        ("client_token".to_owned(), Json::from(token)),
        ("accessor".to_owned(), member("accessor")),
        ("policies".to_owned(), all_policies(found)),
        ("token_policies".to_owned(), member("policies")),
        ("identity_policies".to_owned(), member("identity_policies")),
        ("metadata".to_owned(), member("meta")),
        ("renewable".to_owned(), Json::Bool(found.get("renewable") == Some(&Json::Bool(true)))),
        ("lease_duration".to_owned(), found.get("ttl").cloned().unwrap_or(Json::from(0_u64))),
    ]);
    auth.retain(|_, value| *value != Json::Null);
    auth
}

/// The token's own policies and those of its identity, sorted, each once.
fn all_policies(found: &Map) -> Json {
    let mut names: Vec<&str> = ["policies", "identity_policies"]
        .iter()
        .filter_map(|name| match found.get(*name) {
            Some(Json::Array(items)) => Some(items.iter().filter_map(Json::as_str)),
            _ => None,
        })
        .flatten()
        .collect();
    names.sort_unstable();
    names.dedup();
    Json::strings(names)
}

fn store(token: &str, config: &Config) -> Result<(), Error> {
    let Some(path) = &config.token_file else {
        return Err(Error::unusable("Error storing token: HOME is not set; see -no-store"));
    };
    files::write_private(path, token.as_bytes()).map_err(|error| {
        Error::Unusable(format!("Error storing token: {}: {error}; see -no-store", path.display()))
    })
}

/// Whether there is somebody to ask.
pub(crate) fn can_ask(config: &Config) -> bool {
    config.may_ask && std::io::stdin().is_terminal()
}

/// Asks on the terminal, without echo.
pub(crate) fn ask(what: &str, config: &Config) -> Result<SecretString, Error> {
    let refused = |why: &str| {
        let lower = what.to_ascii_lowercase();
        Err(Error::Unusable(format!(
            "{AUTHENTICATING}: no {lower} given and {why}; pass it as {lower}=- to read it from stdin"
        )))
    };
    if !config.may_ask {
        return refused("-non-interactive forbids to ask");
    }
    if !std::io::stdin().is_terminal() {
        return refused("there is no terminal to ask on");
    }
    match rpassword::prompt_password(format!("{what} (will be hidden): ")) {
        Ok(answer) => Ok(SecretString::from(answer)),
        Err(error) => refused(&error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_told_who_is_logged_in_here() {
        let name = |shape, given: &[(&str, &str)], variables: &[(&str, &str)]| {
            let mut pairs: Vec<_> =
                given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let environment = Environment::of(|name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            });
            username(shape, &mut pairs, &environment).map_err(|error| error.to_string())
        };
        let here = [("LOGNAME", "ada"), ("USER", "root")];
        let given = [("username", "bob")];
        assert_eq!(name(LoginForm::Directory, &given, &here), Ok(Some("bob".to_owned())));
        assert_eq!(name(LoginForm::Directory, &[], &here), Ok(Some("ada".to_owned())));
        assert_eq!(name(LoginForm::Directory, &[], &here[1..]), Ok(Some("root".to_owned())));
        assert!(name(LoginForm::Directory, &[], &[]).unwrap_err().contains("LOGNAME"));
        assert!(name(LoginForm::Password, &[], &here).unwrap_err().contains("'username' must be"));
        assert_eq!(name(LoginForm::Plain, &given, &here), Ok(None));
    }
    /// A test of `kallisto` compares this help with the login methods themselves.
    #[test]
    fn the_help_names_the_kinds_that_are_known_and_no_others() {
        let command = Login::augment_args(clap::Command::new("login"));
        let method = command.get_arguments().find(|arg| arg.get_id() == "method").unwrap();
        let help = method.get_help().unwrap().to_string().replace(" or ", ", ");
        assert_eq!(help, LoginKind::ALL.map(LoginKind::name).join(", "));
    }
}
