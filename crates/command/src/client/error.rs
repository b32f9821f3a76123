//! What a request can come back with instead of an answer.
//!
//! Either the server said no ([`ApiError`], worded as Vault's clients word it, because scripts
//! match on that text) or it was never heard ([`ClientError::Transport`]). The hints name the knob
//! that most often is the wrong one.

use std::fmt;

use crate::json::{Json, parse_object};
use crate::secret::Secret;

/// Most bytes of an answer that is no JSON which an error repeats.
const RAW_BYTES_MAX: usize = 4096;

/// Why there is no answer to use.
#[derive(Debug)]
pub enum ClientError {
    /// The server answered with an error.
    Api(Box<ApiError>),
    /// No answer came: `method url: what happened`.
    Transport {
        /// Method and address.
        request: String,
        /// What kind of failure.
        kind: TransportKind,
        /// What happened, in the words of who noticed.
        text: String,
    },
    /// An answer came and is not what a server sends.
    Answer(String),
    /// A flag has no meaning for the request; it was not sent.
    Usage(String),
    /// The settings allow no client.
    Settings(String),
    /// The request as a curl command; it was not sent.
    Shown(String),
}

/// What kind of failure kept the answer away, as far as retries and hints care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// Nobody listened, or no connection was made: the request never left.
    Connect,
    /// The connection broke: the server may have acted.
    Broken,
    /// TLS did not come about.
    Tls,
    /// Time ran out.
    Timeout,
    /// Anything else.
    Other,
}

/// An answer with an error status.
#[derive(Debug)]
pub struct ApiError {
    method: &'static str,
    url: String,
    namespace: Option<String>,
    /// The HTTP status.
    pub status: u16,
    said: ErrorReply,
    /// The body as an answer, where it was one in spite of the status.
    pub secret: Option<Secret>,
}

#[derive(Debug)]
enum ErrorReply {
    Errors(Vec<String>),
    Raw(String),
}

impl ApiError {
    /// Whether one of the errors is this text.
    pub fn says(&self, text: &str) -> bool {
        matches!(&self.said, ErrorReply::Errors(errors) if errors.iter().any(|error| error == text))
    }

    /// Whether it is a 404 without a word, which means that there is nothing.
    pub fn is_bare_not_found(&self) -> bool {
        self.status == 404 && self.words().is_empty()
    }

    /// What the server said, in a line.
    pub fn summary(&self) -> String {
        let method = self.method;
        let path = self.url.split_once("/v1/").map_or(self.url.as_str(), |(_, path)| path);
        format!("{method} {path}: {}: {}", self.status, self.words())
    }

    /// The server's words, in a line.
    pub fn words(&self) -> String {
        let said = match &self.said {
            ErrorReply::Errors(errors) => errors.join("; "),
            ErrorReply::Raw(text) => text.clone(),
        };
        said.split_whitespace().collect::<Vec<&str>>().join(" ")
    }

    /// Makes an error of an answer.
    pub fn new(
        method: &'static str,
        url: String,
        namespace: Option<String>,
        status: u16,
        body: &[u8],
    ) -> Self {
        let secret = Secret::parse(body).ok().flatten().filter(Secret::says_something);
        Self { method, url, namespace, status, said: said(body), secret }
    }

    fn mentions(&self, what: &str) -> bool {
        match &self.said {
            ErrorReply::Errors(errors) => errors.iter().any(|text| text.contains(what)),
            ErrorReply::Raw(_) => false,
        }
    }

    pub(crate) fn hint(&self) -> Option<String> {
        let text = match self.status {
            403 => return Some(self.denied_hint()),
            400 | 503 if self.mentions("not initialized") => {
                "the server has no keys yet: kallisto operator init makes them, kallisto operator raft join has it join a cluster"
            }
            503 if self.mentions("sealed") => {
                "the server is sealed, or has no keys yet: kallisto status says which. Next is kallisto operator init or unseal; a server whose seal opens by itself is restarted instead, if somebody sealed it"
            }
            404 if self.url.contains("/v1/v1/") => {
                "VAULT_ADDR ends in /v1, which is put behind it by itself: leave it out there"
            }
            400 if self.mentions("not found in the catalog") => {
                "kallisto plugin list names the engines and login methods that there are"
            }
            429 => "a rate limit was reached: wait, or ask for a higher one",
            _ => return None,
        };
        Some(text.to_owned())
    }
}

impl ApiError {
    /// What whoever was refused looks at next: which token it was, and which rule decided.
    fn denied_hint(&self) -> String {
        let path = self.url.split_once("/v1/").map_or("", |(_, path)| path);
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let (path, is_preflight) = match path.strip_prefix("sys/internal/ui/mounts/") {
            Some(path) if self.mentions("preflight") => (path, true),
            _ => (path, false),
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.+@".contains(&byte);
        if path.is_empty() || !path.bytes().all(is_plain) {
            return "is the token right? set VAULT_TOKEN or run: kallisto login".to_owned();
        }
        let capability = match self.method {
            "GET" => "read",
            "LIST" => "list",
            "SCAN" => "scan",
            "RECOVER" => "recover",
            "PATCH" => "patch",
            "DELETE" => "delete",
            _ => "update",
        };
        let what = match is_preflight {
            true => "does the mount exist, and may this token use it?",
            false => "is the token right, and may it do this?",
        };
        format!(
            "{what} kallisto token lookup tells whose it is, kallisto policy explain -capability={capability} -path={path} which rule decides"
        )
    }
}

/// The messages of `{"errors": [...]}`, or the text itself if it is something else.
fn said(body: &[u8]) -> ErrorReply {
    let object = match parse_object(body) {
        Ok(object) if !body.is_empty() => object,
        _ => {
            let end = body.len().min(RAW_BYTES_MAX);
            return ErrorReply::Raw(String::from_utf8_lossy(&body[..end]).into_owned());
        }
    };
    match object.get("errors") {
        Some(Json::Array(items)) => {
            ErrorReply::Errors(items.iter().filter_map(Json::as_str).map(str::to_owned).collect())
        }
        _ => ErrorReply::Errors(Vec::new()),
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Error making API request.\n\n")?;
        if let Some(namespace) = &self.namespace {
            writeln!(f, "Namespace: {namespace}")?;
        }
        let what = match self.said {
            ErrorReply::Errors(_) => "Errors",
            ErrorReply::Raw(_) => "Raw Message",
        };
        write!(f, "URL: {} {}\nCode: {}. {what}:\n\n", self.method, self.url, self.status)?;
        match &self.said {
            ErrorReply::Errors(errors) => {
                let lines: Vec<String> = errors.iter().map(|text| format!("* {text}")).collect();
                f.write_str(&lines.join("\n"))
            }
            ErrorReply::Raw(text) => f.write_str(text),
        }
    }
}

impl ClientError {
    /// The server's answer, if there was one.
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Api(error) => Some(error),
            _ => None,
        }
    }

    /// The knob to turn.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Api(error) => return error.hint(),
            Self::Transport { kind, text, .. } => match kind {
                TransportKind::Connect => "is a server listening there? set VAULT_ADDR or -address",
                TransportKind::Tls => tls_hint(text),
                TransportKind::Timeout => "VAULT_CLIENT_TIMEOUT allows more time",
                TransportKind::Broken | TransportKind::Other => return None,
            },
            Self::Answer(_) | Self::Usage(_) | Self::Settings(_) | Self::Shown(_) => return None,
        };
        Some(text.to_owned())
    }
}

/// The knob to turn after an error of TLS, by what rustls says of the server's certificate.
fn tls_hint(text: &str) -> &'static str {
    if text.contains("certificate expired") || text.contains("certificate not valid yet") {
        return "the server needs a new certificate (SIGHUP has it read again), unless a clock is wrong";
    }
    if text.contains("certificate not valid for name") {
        return "put a name of the certificate into VAULT_ADDR, or into VAULT_TLS_SERVER_NAME";
    }
    "a server without TLS needs http:// in VAULT_ADDR; a private authority goes into VAULT_CACERT"
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api(error) => write!(f, "{error}"),
            Self::Transport { request, text, .. } => write!(f, "{request}: {text}"),
            Self::Answer(text) | Self::Usage(text) | Self::Settings(text) | Self::Shown(text) => {
                f.write_str(text)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_about_certificates_name_what_is_wrong_with_them() {
        let hint = |text: &str| {
            let (request, kind) = ("GET https://h".to_owned(), TransportKind::Tls);
            ClientError::Transport { request, kind, text: text.to_owned() }.hint().unwrap()
        };
        // As rustls words them.
        for (text, wanted) in [
            (
                "io: invalid peer certificate: certificate expired: verification time 1795941805 (UNIX), but certificate is not valid after 1795855404 (86401 seconds ago)",
                "new certificate",
            ),
            (
                "io: invalid peer certificate: certificate not valid yet: verification time 1795941807 (UNIX), but certificate is not valid before 1796028204 (86397 seconds in future)",
                "a clock is wrong",
            ),
            (
                "io: invalid peer certificate: certificate not valid for name \"foo\"; certificate is only valid for DnsName(\"localhost\")",
                "VAULT_TLS_SERVER_NAME",
            ),
            ("io: invalid peer certificate: UnknownIssuer", "VAULT_CACERT"),
            ("io: received corrupt message of type InvalidContentType", "http://"),
        ] {
            assert!(hint(text).contains(wanted), "{text}: {}", hint(text));
        }
    }
}
