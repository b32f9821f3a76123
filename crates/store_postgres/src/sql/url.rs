//! A connection URL, as `libpq` and OpenBao read one: what of it says how TLS is spoken is taken out, the driver reads the rest.
//!
//! No message quotes the text: it holds a password.

use std::net::IpAddr;
use std::path::PathBuf;

use kallisto_engine::far_end::TlsUse;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use crate::limits::CONNECT;

/// A connection URL that was read.
#[derive(Clone)]
pub struct PostgresUrl {
    pub(crate) config: Config,
    /// How TLS is spoken.
    pub usage: TlsUse,
    /// PEM file of the authorities to believe; `None` for those of the system.
    pub authorities: Option<PathBuf>,
    /// PEM file of the certificate to show.
    pub certificate: Option<PathBuf>,
    /// PEM file of its key.
    pub private_key: Option<PathBuf>,
}

impl std::fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PostgresUrl")
    }
}

impl PostgresUrl {
    /// Reads a URL (`postgres://..`) or a list of words (`host=.. user=..`).
    ///
    /// # Errors
    /// What is wrong with it, without its text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_url = text.starts_with("postgres://") || text.starts_with("postgresql://");
        let (rest, tls) = if is_url { split_url(text)? } else { split_words(text) };
        let mut config: Config = rest.parse().map_err(|error: tokio_postgres::Error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            match cause {
                Some(cause) if !cause.contains('`') => format!("is no connection URL: {cause}"),
                _ => "is no connection URL of PostgreSQL".to_owned(),
            }
        })?;
        if config.get_hosts().is_empty() {
            return Err("names no host".to_owned());
        }
        // A standby that lags would answer for the database: what was committed before would not be there.
        if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
            return Err("has target_session_attrs=read-only: the storage writes".to_owned());
        }
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_application_name().is_none() {
            config.application_name("kallisto");
        }
        let find = |name: &str| {
            tls.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
        };
        let path = |name: &str| find(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        if find("sslpassword").is_some() || find("sslcrl").is_some() {
            return Err("has sslpassword or sslcrl, which are not supported".to_owned());
        }
        let authorities = path("sslrootcert").filter(|path| path.as_os_str() != "system");
        let usage = match find("sslmode").unwrap_or("prefer") {
            "disable" => TlsUse::Never,
            "allow" | "prefer" => TlsUse::WhereOffered,
            // As libpq has it: who names an authority wants it looked at.
            "require" if authorities.is_some() => TlsUse::AuthorityVerified,
            "require" => TlsUse::Unverified,
            "verify-ca" => TlsUse::AuthorityVerified,
            "verify-full" => TlsUse::Verified,
            _ => {
                return Err("has an sslmode that is none of disable, allow, prefer, require, \
                    verify-ca and verify-full"
                    .to_owned());
            }
        };
        config.ssl_mode(match usage {
            TlsUse::Never => SslMode::Disable,
            TlsUse::WhereOffered => SslMode::Prefer,
            TlsUse::Unverified | TlsUse::AuthorityVerified | TlsUse::Verified => SslMode::Require,
        });
        let (certificate, private_key) = (path("sslcert"), path("sslkey"));
        if certificate.is_some() != private_key.is_some() {
            return Err("has one of sslcert and sslkey: they go together".to_owned());
        }
        Ok(Self { config, usage, authorities, certificate, private_key })
    }

    /// Whether the database is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.config.get_hosts().iter().all(is_local)
    }

    /// Where the database is and as whom it is asked, without a password.
    #[must_use]
    pub fn shown(&self) -> String {
        let hosts = self.config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        let ports = self.config.get_ports();
        let port = |at: usize| ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        let places: Vec<_> =
            hosts.enumerate().map(|(at, host)| format!("{host}:{}", port(at))).collect();
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("{}/{database}", places.join(","))
    }
}

/// Whether nothing on the way to a host can be another machine.
fn is_local(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

type ParameterPairs = Vec<(String, String)>;

fn is_tls(key: &str) -> bool {
    matches!(key, "sslmode" | "sslrootcert" | "sslcert" | "sslkey" | "sslpassword" | "sslcrl")
}

fn split_url(text: &str) -> Result<(String, ParameterPairs), String> {
    let Some((before, query)) = text.split_once('?') else {
        return Ok((text.to_owned(), Vec::new()));
    };
    let (mut kept, mut tls) = (Vec::new(), Vec::new());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if is_tls(key) {
            let value = percent_decoded(value).ok_or("has a broken percent escape")?;
            tls.push((key.to_owned(), value));
        } else {
            kept.push(pair);
        }
    }
    let rest = match kept.is_empty() {
        true => before.to_owned(),
        false => format!("{before}?{}", kept.join("&")),
    };
    Ok((rest, tls))
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        out.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(out).ok()
}

/// Words `key=value`; a value in single quotes may hold blanks.
fn split_words(text: &str) -> (String, ParameterPairs) {
    let (mut kept, mut tls) = (String::new(), Vec::new());
    let (mut word, mut is_quoted, mut is_escaped) = (String::new(), false, false);
    let mut words = Vec::new();
    for character in text.chars() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '\'' => is_quoted = !is_quoted,
            _ if character.is_whitespace() && !is_quoted => {
                words.push(std::mem::take(&mut word));
                continue;
            }
            _ => {}
        }
        word.push(character);
    }
    words.push(word);
    for word in words.iter().filter(|word| !word.is_empty()) {
        match word.split_once('=') {
            Some((key, value)) if is_tls(key) => {
                tls.push((key.to_owned(), value.trim_matches('\'').to_owned()));
            }
            _ => {
                kept.push_str(word);
                kept.push(' ');
            }
        }
    }
    (kept, tls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_is_taken_out_of_urls_and_words() {
        for (text, usage, root) in [
            ("postgres://u:p@h:5433/d", TlsUse::WhereOffered, None),
            ("postgres://u:p@h/d?sslmode=disable&application_name=x", TlsUse::Never, None),
            (
                "postgres://h/d?sslmode=verify-full&sslrootcert=%2Fa%20b",
                TlsUse::Verified,
                Some("/a b"),
            ),
            (
                "postgres://h/d?sslmode=require&sslrootcert=/ca",
                TlsUse::AuthorityVerified,
                Some("/ca"),
            ),
            ("postgres://h/d?sslmode=require", TlsUse::Unverified, None),
            (
                "host=h user=u password='a b' sslmode=verify-ca sslrootcert='/c a'",
                TlsUse::AuthorityVerified,
                Some("/c a"),
            ),
        ] {
            let url = PostgresUrl::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(url.usage, usage, "{text}");
            assert_eq!(url.authorities, root.map(PathBuf::from), "{text}");
        }
        assert_eq!(PostgresUrl::parse("postgres://u:p@h:5433/d").unwrap().shown(), "h:5433/d");
    }

    #[test]
    fn what_makes_no_sense_is_refused_without_the_password() {
        for (text, why) in [
            ("postgres://u:hunter2@h/d?sslmode=maybe", "sslmode"),
            ("postgres://u:hunter2@h/d?sslcert=/c", "go together"),
            ("postgres://u:hunter2@h:port/d", "connection URL"),
            ("mysql://u:hunter2@h/d", "connection URL"),
            ("user=u password=hunter2", "no host"),
            ("postgres://u:hunter2@h/d?target_session_attrs=read-only", "the storage writes"),
            ("", "no host"),
        ] {
            let refused = PostgresUrl::parse(text).map(|_| ()).unwrap_err();
            assert!(refused.contains(why) && !refused.contains("hunter2"), "{text}: {refused}");
        }
    }
}
