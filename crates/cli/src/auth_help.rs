//! `auth help`: how to log in by a method.

use clap::Args;

use super::login_kind::LoginKind;
use super::mounted;
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::outcome::Outcome;

/// A method: what it is, how it is used, and what it is told.
type MethodHelp = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// The help of the methods that this server has, and of logging in with a token.
const fn help_of(kind: LoginKind) -> Option<MethodHelp> {
    Some(match kind {
        LoginKind::Approle => (
            "Machines log in with the id of a role and a secret id of it.",
            "kallisto login -method=approle role_id=@role-id secret_id=@secret-id",
            &[
                ("role_id", "The id of the role."),
                ("secret_id", "A secret id of the role, unless the role asks for none."),
            ],
        ),
        LoginKind::Cert => (
            "The client certificate of the connection is the proof.",
            "kallisto login -method=cert -client-cert=cert.pem -client-key=key.pem name=web",
            &[("name", "The role to log in by; the first that fits when absent.")],
        ),
        LoginKind::Github => (
            "Members of an organization at GitHub log in with a token of theirs.",
            "kallisto login -method=github token=-",
            &[(
                "token",
                "The token of GitHub, with the scope read:org; - reads it from stdin. Without it VAULT_AUTH_GITHUB_TOKEN is taken, or it is asked for.",
            )],
        ),
        LoginKind::Jwt => (
            "A signed JWT is the proof.",
            "kallisto login -method=jwt role=ci jwt=@token.jwt",
            &[
                ("role", "The role to log in by; the method's default when absent."),
                ("jwt", "The JWT."),
            ],
        ),
        LoginKind::Kubernetes => (
            "The token of a Kubernetes service account is the proof.",
            "kallisto login -method=kubernetes role=web jwt=@/var/run/secrets/kubernetes.io/serviceaccount/token",
            &[("role", "The role to log in by."), ("jwt", "The token of the service account.")],
        ),
        LoginKind::Ldap => (
            "People log in with their name and password at a directory.",
            "kallisto login -method=ldap username=ada",
            &[
                ("username", "The name; that of LOGNAME or USER when absent."),
                (
                    "password",
                    "The password. Without it VAULT_LDAP_PASSWORD is taken, or it is asked for.",
                ),
            ],
        ),
        LoginKind::Oidc => (
            "People log in with a browser at an OpenID Connect provider.",
            "kallisto login -method=oidc role=dev",
            &[
                ("role", "The role to log in by; the method's default when absent."),
                ("port", "The port to listen on for the browser, 8250 when absent; 0 for any."),
                ("listenaddress", "The address to listen on, localhost when absent."),
                ("callbackhost", "The host that the browser comes back to, localhost when absent."),
                ("callbackmethod", "http, or https behind a proxy."),
                (
                    "callbackport",
                    "The port that the browser comes back to, if not the one listened on.",
                ),
                ("callbackmode", "client, direct or device, as the role says; client when absent."),
                ("skip_browser", "true to print the address and open no browser."),
                ("timeout", "How long to wait for the user, 10m when absent."),
            ],
        ),
        LoginKind::Okta => (
            "Users of an organization at Okta log in with their password there.",
            "kallisto login -method=okta username=ada@example.org",
            &[
                ("username", "The name."),
                ("password", "The password; it is asked for when absent."),
                (
                    "totp",
                    "The code of an authenticator app, where Okta asks for a second factor; without it Okta Verify is asked on the user's phone.",
                ),
                ("provider", "Whose factor that is, OKTA or GOOGLE, where somebody has both."),
            ],
        ),
        LoginKind::Token => (
            "A token that was made elsewhere is kept for later commands.",
            "kallisto login -",
            &[("token", "The token; it is asked for when absent.")],
        ),
        LoginKind::Userpass => (
            "People log in with a name and a password that the server keeps.",
            "kallisto login -method=userpass username=ada",
            &[
                ("username", "The name."),
                ("password", "The password; it is asked for when absent."),
            ],
        ),
        LoginKind::Radius => return None,
    })
}

/// Prints how to log in by a method.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto auth help userpass\n  kallisto auth help machines/")]
pub(crate) struct Help {
    /// Its kind, or where it is mounted
    #[arg(value_name = "KIND | PATH")]
    method: String,
    #[command(flatten)]
    common: CommonFlags,
}

impl Help {
    /// Prints it. The server is asked only for what no kind is called.
    pub(super) fn run(self) -> Result<Outcome, Error> {
        let name = self.method.trim_matches('/');
        if let Some(text) = text_of(name) {
            return Ok(Outcome::print(text));
        }
        let config = Config::load(&self.common)?;
        let mounted = mounted::read_all(&config, "sys/auth", "Error listing auth methods")?;
        let entry = mounted.get(&format!("{name}/")).and_then(|entry| entry.as_object());
        let kind = entry.map(|entry| mounted::cell(entry, "type"));
        let absent =
            || Error::Absent(format!("No auth method available on the server at \"{name}/\""));
        let kind = kind.ok_or_else(absent)?;
        text_of(&kind).map(Outcome::print).ok_or_else(absent)
    }
}

/// The help of the kind of that name.
fn text_of(name: &str) -> Option<String> {
    let (about, example, fields) = LoginKind::named(name).and_then(help_of)?;
    let mut text = format!("Usage: kallisto login -method={name} [KEY=VALUE...]\n\n");
    text.push_str(&format!("  {about}\n\n      $ {example}\n\nConfiguration:\n"));
    for (field, about) in fields {
        text.push_str(&format!("\n  {field}=<string>\n      {about}\n"));
    }
    Some(text)
}
