//! `login -method=oidc`: through a browser, as Vault's command line does it.
//!
//! The command asks the server for an address, has the user's browser open it, and listens on the user's machine for the browser to come back
//! ([`listener`]). What came back goes on to the server, which answers with the token. By direct callback or device there is nothing to listen
//! for: the server is asked until it is done.
//!
//! What comes back with another state than this login's is refused, and the command goes on waiting: any page can send a browser here. The
//! pages that a browser is shown have nothing in them that came with its request.

mod browser;
mod listener;

use std::io::Write as _;
use std::time::{Duration, Instant};

use kallisto_command::client::url::parse_query;
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::duration;
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};
use kallisto_command::secret::Secret;

use listener::{LoginListener, ReceivedRequest};

const AUTHENTICATING: &str = "Error authenticating";
/// How long a user may take, unless they say otherwise: as long as the server waits.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Longest wait between two questions, in seconds.
const INTERVAL_SECS_MAX: u64 = 60;
/// Bytes of what shows the server that the one who comes back is the one who began.
const NONCE_BYTES: usize = 20;

/// Who hears of the login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoginMode {
    /// This command.
    Client,
    /// The server.
    Direct,
    /// Nobody.
    Device,
}

/// What the command was told.
#[derive(Debug, PartialEq, Eq)]
struct LoginArguments {
    role: String,
    listen_address: String,
    port: u16,
    callback_method: String,
    callback_host: String,
    /// As in the redirect URI; `None` for the one that is listened on.
    callback_port: Option<u16>,
    mode: LoginMode,
    skips_browser: bool,
    timeout: Duration,
}

impl LoginArguments {
    fn parse(pairs: Vec<(String, String)>) -> Result<Self, Error> {
        let mut told = Self {
            role: String::new(),
            listen_address: "localhost".to_owned(),
            port: 8250,
            callback_method: "http".to_owned(),
            callback_host: "localhost".to_owned(),
            callback_port: None,
            mode: LoginMode::Client,
            skips_browser: false,
            timeout: TIMEOUT,
        };
        for (key, value) in pairs {
            let refuse = |what: &str| Error::usage(format!("{key}={value}: {what}"));
            let port = || value.parse().map_err(|_| refuse("no port"));
            match key.as_str() {
                "role" => told.role = value,
                "listenaddress" => told.listen_address = value,
                "port" => told.port = port()?,
                "callbackhost" => told.callback_host = value,
                "callbackport" => told.callback_port = Some(port()?),
                "callbackmethod" => match value.as_str() {
                    "http" | "https" => told.callback_method = value,
                    _ => return Err(refuse("http or https")),
                },
                "callbackmode" => {
                    told.mode = match value.as_str() {
                        "client" => LoginMode::Client,
                        "direct" => LoginMode::Direct,
                        "device" => LoginMode::Device,
                        _ => return Err(refuse("client, direct or device")),
                    };
                }
                "skip_browser" => {
                    told.skips_browser = match value.as_str() {
                        "true" | "1" => true,
                        "false" | "0" => false,
                        _ => return Err(refuse("true or false")),
                    };
                }
                "timeout" => told.timeout = duration::parse(&value).map_err(|why| refuse(&why))?,
                _ => {
                    return Err(refuse(
                        "not known; there are role, port, listenaddress, callbackhost, callbackmethod, \
                         callbackport, callbackmode, skip_browser and timeout",
                    ));
                }
            }
        }
        Ok(told)
    }

    /// Where the browser comes back to, when this command listens on `port`.
    fn redirect_uri(&self, port: u16) -> String {
        let port = self.callback_port.unwrap_or(port);
        let host = match self.callback_host.contains(':') && !self.callback_host.starts_with('[') {
            true => format!("[{}]", self.callback_host),
            false => self.callback_host.clone(),
        };
        format!("{}://{host}:{port}{}", self.callback_method, listener::PATH)
    }
}

/// Logs in at a mount, and returns the server's answer.
pub(crate) fn log_in(
    config: &Config,
    mount: &str,
    pairs: Vec<(String, String)>,
) -> Result<Option<Secret>, Error> {
    let told = LoginArguments::parse(pairs)?;
    let client = Client::new(config)?.without_token();
    let login = OidcLogin { config, client, mount, nonce: make_nonce()?, told };
    match login.told.mode {
        LoginMode::Client => login.by_listener(),
        LoginMode::Direct => {
            let address = config.address.to_string();
            let namespace = config.namespace.as_deref().unwrap_or_default();
            let uri = format!(
                "{}/v1/{namespace}auth/{mount}/oidc/callback",
                address.trim_end_matches('/')
            );
            login.by_asking(&uri)
        }
        LoginMode::Device => login.by_asking(""),
    }
}

struct OidcLogin<'a> {
    config: &'a Config,
    client: Client<'a>,
    mount: &'a str,
    nonce: String,
    told: LoginArguments,
}

impl OidcLogin<'_> {
    /// Asks for an address to log in at.
    fn begin(&self, redirect_uri: &str) -> Result<BegunLogin, Error> {
        let mut body = Map::from([
            ("client_nonce".to_owned(), Json::from(self.nonce.as_str())),
            ("role".to_owned(), Json::from(self.told.role.as_str())),
        ]);
        if !redirect_uri.is_empty() {
            body.insert("redirect_uri".to_owned(), Json::from(redirect_uri));
        }
        let path = format!("auth/{}/oidc/auth_url", self.mount);
        let answer = self.client.send(&ClientRequest::put(&path, body).unwrapped());
        let answer = answer.map_err(Error::doing(AUTHENTICATING))?;
        let text = |name: &str| {
            let datum = answer.as_ref().and_then(|answer| answer.datum(name));
            datum.and_then(Json::as_str).unwrap_or_default().to_owned()
        };
        let url = text("auth_url");
        if url.is_empty() {
            return Err(Error::Absent(format!(
                "{AUTHENTICATING}: Unable to authorize role {:?} with redirect_uri {redirect_uri:?}. Check \
                 the server's configuration: the role must be one for logins through a browser, and allow \
                 this address.",
                self.told.role
            )));
        }
        if !browser::is_web_address(&url) {
            return Err(Error::Absent(format!(
                "{AUTHENTICATING}: the server gave an address that no browser should open"
            )));
        }
        let interval_secs = text("poll_interval").parse().unwrap_or(5);
        Ok(BegunLogin { url, state: text("state"), user_code: text("user_code"), interval_secs })
    }

    /// Listens for the browser to come back.
    fn by_listener(self) -> Result<Option<Secret>, Error> {
        let listener = LoginListener::open(&self.told.listen_address, self.told.port);
        let listener = listener.map_err(|error| {
            Error::Unusable(format!(
                "{AUTHENTICATING}: cannot listen on {}:{}: {error}; see port= and listenaddress=",
                self.told.listen_address, self.told.port
            ))
        })?;
        let begun = self.begin(&self.told.redirect_uri(listener.port()))?;
        let state = state_of(&begun.url).ok_or_else(|| {
            Error::Absent(format!("{AUTHENTICATING}: the server gave an address without a state"))
        })?;
        self.show(&begun);
        let came = listener.wait(&state, self.told.timeout).ok_or_else(|| self.timed_out())?;
        let answer = self.hand_on(&came);
        came.answer(answer.is_ok());
        answer
    }

    /// Gives the server what came back.
    fn hand_on(&self, came: &ReceivedRequest) -> Result<Option<Secret>, Error> {
        let path = format!("auth/{}/oidc/callback", self.mount);
        if came.was_posted {
            // The server keeps what was posted until it is asked for.
            let fields = came.fields.iter();
            let body = fields.map(|(name, value)| (name.clone(), Json::from(value.as_str())));
            let request = ClientRequest::put(&path, body.collect()).unwrapped();
            self.client.send_raw(&request).map_err(Error::doing(AUTHENTICATING))?;
        }
        let told = ["state", "code", "iss", "error"].into_iter().filter_map(|name| {
            let (_, value) = came.fields.iter().find(|(known, _)| known == name)?;
            Some((name.to_owned(), value.clone()))
        });
        let nonce = ("client_nonce".to_owned(), self.nonce.clone());
        let request = ClientRequest::get(&path).with_queries(told.chain([nonce]).collect());
        self.client.send(&request.wrappable()).map_err(Error::doing(AUTHENTICATING))
    }

    /// Asks the server until it is done.
    fn by_asking(self, redirect_uri: &str) -> Result<Option<Secret>, Error> {
        let begun = self.begin(redirect_uri)?;
        if begun.state.is_empty() {
            return Err(Error::Absent(format!(
                "{AUTHENTICATING}: role {:?} is not for callbackmode=direct or device",
                self.told.role
            )));
        }
        self.show(&begun);
        let path = format!("auth/{}/oidc/poll", self.mount);
        let began = now();
        let mut interval_secs = begun.interval_secs;
        while began.elapsed() < self.told.timeout {
            let interval = Duration::from_secs(interval_secs.clamp(1, INTERVAL_SECS_MAX));
            std::thread::sleep(interval.min(self.told.timeout));
            let body = Map::from([
                ("client_nonce".to_owned(), Json::from(self.nonce.as_str())),
                ("state".to_owned(), Json::from(begun.state.as_str())),
            ]);
            match self.client.send(&ClientRequest::put(&path, body).wrappable()) {
                Ok(answer) => return Ok(answer),
                Err(error) if says(&error, "authorization_pending") => {}
                // RFC 8628, section 3.5.
                Err(error) if says(&error, "slow_down") => interval_secs += 5,
                Err(error) => return Err(Error::doing(AUTHENTICATING)(error)),
            }
        }
        Err(self.timed_out())
    }

    /// Shows the user where to go, and takes them there.
    fn show(&self, begun: &BegunLogin) {
        let opens = !self.told.skips_browser && self.config.may_ask;
        let what = match opens {
            true => "Complete the login via your OIDC provider. Launching browser to:",
            false => {
                "Complete the login via your OIDC provider. Open the following link in your browser:"
            }
        };
        let code = match begun.user_code.as_str() {
            "" => String::new(),
            code => format!("    When prompted, enter code {code}\n\n"),
        };
        let text = format!(
            "{what}\n\n    {}\n\n{code}\nWaiting for OIDC authentication to complete...\n",
            begun.url
        );
        // Nobody reads it: the browser says what to do as well.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
        if opens && !browser::open(&begun.url) {
            let hint = "No browser could be opened: open the link yourself.\n";
            let _ = std::io::stderr().lock().write_all(hint.as_bytes());
        }
    }

    fn timed_out(&self) -> Error {
        let secs = self.told.timeout.as_secs();
        Error::Absent(format!(
            "{AUTHENTICATING}: Timed out waiting for the provider: nobody logged in within {}; see timeout=",
            duration::human(secs)
        ))
    }
}

/// A login that has begun.
struct BegunLogin {
    url: String,
    state: String,
    user_code: String,
    interval_secs: u64,
}

fn says(error: &kallisto_command::client::error::ClientError, what: &str) -> bool {
    error.api().is_some_and(|api| api.says(what))
}

/// The state that an address to log in at has in its query.
fn state_of(url: &str) -> Option<String> {
    let query = parse_query(url.split_once('?')?.1)?;
    query.into_iter().find(|(name, value)| name == "state" && !value.is_empty()).map(|(_, it)| it)
}

fn make_nonce() -> Result<String, Error> {
    let mut bytes = [0; NONCE_BYTES];
    let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
    random
        .fill(&mut bytes)
        .map_err(|_| Error::Unusable("this machine gives no randomness".to_owned()))?;
    Ok(data_encoding::BASE64URL_NOPAD.encode(&bytes))
}

/// The clock by which a login runs out.
#[expect(clippy::disallowed_methods, reason = "this is the clock seam of a login by browser")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(words: &[(&str, &str)]) -> Result<LoginArguments, Error> {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        LoginArguments::parse(words.iter().map(pair).collect())
    }

    #[test]
    fn where_a_browser_comes_back_to_is_what_was_told() {
        for (words, uri) in [
            (&[][..], "http://localhost:8250/oidc/callback"),
            (&[("port", "0")], "http://localhost:4711/oidc/callback"),
            (&[("callbackhost", "127.0.0.1")], "http://127.0.0.1:8250/oidc/callback"),
            (&[("callbackhost", "::1")], "http://[::1]:8250/oidc/callback"),
            (
                &[
                    ("callbackmethod", "https"),
                    ("callbackhost", "x.example"),
                    ("callbackport", "443"),
                ],
                "https://x.example:443/oidc/callback",
            ),
        ] {
            let told = told(words).unwrap();
            let port = if told.port == 0 { 4711 } else { told.port };
            assert_eq!(told.redirect_uri(port), uri);
        }
        for bad in [
            ("port", "65536"),
            ("callbackmethod", "file"),
            ("callbackmode", "other"),
            ("skip_browser", "maybe"),
            ("timeout", "soon"),
            ("username", "ada"),
        ] {
            assert!(told(&[bad]).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_state_is_that_of_the_address() {
        assert_eq!(
            state_of("https://i/a?x=1&state=st_a.b%2Cns%3Dc").as_deref(),
            Some("st_a.b,ns=c")
        );
        for without in
            ["https://i/a", "https://i/a?state=", "https://i/a?nostate=1", "https://i/a?state=%"]
        {
            assert_eq!(state_of(without), None, "{without}");
        }
    }
}
