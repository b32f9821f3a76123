//! TLS with databases: what the settings of a connection, and its URL, say of it.

use kallisto_api::{Error, Fields};
use kallisto_engine::far_end::{FarEndTls, TlsUse};
use secrecy::{ExposeSecret, SecretString};

use super::connection::Plugin;

/// Reads the settings; `in_url` is what the URL says.
pub(super) fn read(
    plugin: Plugin,
    in_url: Option<TlsUse>,
    fields: Fields<'_>,
) -> Result<FarEndTls, Error> {
    let text = |name: &str| Ok::<_, Error>(fields.string(name)?.unwrap_or_default());
    let flag = |name: &str| Ok::<_, Error>(fields.boolean(name)?.unwrap_or(false));
    let authorities = joined(text("tls_ca")?, &text("ca_cert")?);
    let key = joined(text("private_key")?, &text("tls_certificate_key")?);
    let certificate = match (text("tls_certificate")?, key.contains("BEGIN CERTIFICATE")) {
        (given, false) => given,
        (given, true) => joined(given, &key),
    };
    let settings = DatabaseTls {
        in_url,
        is_on: flag("tls")?,
        is_insecure: flag("insecure_tls")? || flag("tls_skip_verify")?,
        has_authorities: !authorities.trim().is_empty(),
        has_certificate: !certificate.trim().is_empty(),
    };
    Ok(FarEndTls {
        usage: settings.usage(plugin),
        versions: None,
        authorities,
        server_name: text("tls_server_name")?,
        certificate,
        private_key: Some(SecretString::from(key)).filter(|key| !key.expose_secret().is_empty()),
    })
}

/// Two texts of PEM as one; a block ends with its line.
fn joined(one: String, other: &str) -> String {
    match (one.trim().is_empty(), other.trim().is_empty()) {
        (true, true) => String::new(),
        (true, false) => other.to_owned(),
        (false, true) => one,
        (false, false) => format!("{}\n{other}", one.trim_end()),
    }
}

/// What decides whether TLS is spoken, and what is checked.
#[derive(Clone, Copy, Debug)]
struct DatabaseTls {
    in_url: Option<TlsUse>,
    is_on: bool,
    is_insecure: bool,
    has_authorities: bool,
    has_certificate: bool,
}

impl DatabaseTls {
    fn usage(self, plugin: Plugin) -> TlsUse {
        let usage = match (self.in_url, self.is_on) {
            (Some(usage), is_on) if usage != TlsUse::Never || !is_on => usage,
            (_, true) if self.is_insecure => TlsUse::Unverified,
            (_, true) => TlsUse::Verified,
            (None, false) if plugin == Plugin::Postgres => TlsUse::WhereOffered,
            _ => TlsUse::Never,
        };
        // Who names an authority means it to be checked, and who has a certificate, that it is shown.
        match (plugin, usage) {
            (_, TlsUse::Unverified) if self.has_authorities && !self.is_insecure => {
                TlsUse::AuthorityVerified
            }
            (Plugin::Postgres, TlsUse::WhereOffered)
                if self.in_url.is_none() && self.has_authorities && !self.is_insecure =>
            {
                TlsUse::AuthorityVerified
            }
            (Plugin::Mysql, TlsUse::Never | TlsUse::WhereOffered)
                if self.has_authorities || self.has_certificate =>
            {
                match self.is_insecure {
                    true => TlsUse::Unverified,
                    false => TlsUse::Verified,
                }
            }
            (_, usage) => usage,
        }
    }
}

#[cfg(test)]
mod tests {
    use kallisto_api::json;

    use super::*;

    fn usage(plugin: Plugin, in_url: Option<TlsUse>, body: &str) -> TlsUse {
        let map = json::parse_object(body.as_bytes()).unwrap();
        read(plugin, in_url, Fields::new(&map)).unwrap().usage
    }

    #[test]
    fn an_authority_or_a_certificate_turns_tls_on_for_mysql() {
        use TlsUse::{AuthorityVerified, Never, Unverified, Verified, WhereOffered};
        for (in_url, body, expected) in [
            (None, "{}", Never),
            (None, r#"{"tls_ca":"PEM"}"#, Verified),
            (Some(Never), r#"{"tls_ca":"PEM"}"#, Verified),
            (Some(WhereOffered), r#"{"tls_ca":"PEM"}"#, Verified),
            (None, r#"{"tls_certificate_key":"BEGIN CERTIFICATE"}"#, Verified),
            (None, r#"{"tls_ca":"PEM","tls_skip_verify":"true"}"#, Unverified),
            (None, r#"{"tls_ca":"PEM","insecure_tls":true}"#, Unverified),
            (Some(WhereOffered), "{}", WhereOffered),
            (Some(Unverified), r#"{"tls_ca":"PEM"}"#, AuthorityVerified),
            (Some(Unverified), r#"{"tls_ca":"PEM","tls_skip_verify":true}"#, Unverified),
            (Some(Verified), "{}", Verified),
            (None, r#"{"tls":true}"#, Verified),
        ] {
            assert_eq!(usage(Plugin::Mysql, in_url, body), expected, "{in_url:?} {body}");
        }
    }

    #[test]
    fn an_authority_is_checked_by_postgresql_unless_the_url_says_otherwise() {
        use TlsUse::{AuthorityVerified, Never, Unverified, WhereOffered};
        for (in_url, body, expected) in [
            (None, "{}", WhereOffered),
            (None, r#"{"tls_ca":"PEM"}"#, AuthorityVerified),
            (None, r#"{"tls_ca":" \n"}"#, WhereOffered),
            (None, r#"{"tls_ca":"PEM","insecure_tls":true}"#, WhereOffered),
            (Some(WhereOffered), r#"{"tls_ca":"PEM"}"#, WhereOffered),
            (Some(Never), r#"{"tls_ca":"PEM"}"#, Never),
            (Some(Unverified), r#"{"tls_ca":"PEM"}"#, AuthorityVerified),
        ] {
            assert_eq!(usage(Plugin::Postgres, in_url, body), expected, "{in_url:?} {body}");
        }
        assert_eq!(usage(Plugin::Redis, None, r#"{"ca_cert":"PEM"}"#), Never);
    }

    #[test]
    fn texts_of_pem_are_joined_at_the_end_of_a_line() {
        for (one, other, both) in [
            ("", "", ""),
            (" ", "b", "b"),
            ("a", "", "a"),
            ("a", "b\n", "a\nb\n"),
            ("a\r\n", "b", "a\nb"),
        ] {
            assert_eq!(joined(one.to_owned(), other), both, "{one:?} {other:?}");
        }
    }
}
