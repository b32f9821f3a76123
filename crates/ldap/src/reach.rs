//! The settings that say which directory, and as whom: those that the login method and the secrets engine share.

use std::net::IpAddr;

use kallisto_api::{Error, Fields, Map};
use kallisto_engine::far_end::{
    FarEndLogin, FarEndPool, FarEndProtocol, FarEndTls, FarEndTlsVersion, TlsUse,
};
use kallisto_engine::{AllowedAddresses, FarEnd};
use secrecy::{ExposeSecret, SecretString};

use crate::dn;
use crate::filter::is_attribute;
use crate::url;

/// Where a directory is when nobody says.
const URL: &str = "ldap://127.0.0.1";
/// How long a connection is tried for, in seconds, when nobody says.
const CONNECT_SECS: u64 = 30;
/// How long a request takes at the most, in seconds, when nobody says.
const REQUEST_SECS: u64 = 90;
/// The longest that either can be, in seconds.
const SECS_MAX: u64 = 300;

/// Which directory, and as whom.
#[derive(Clone)]
pub struct DirectoryReach {
    /// The URLs, as they were given.
    pub url: String,
    /// Whether TLS begins on an open connection.
    pub starts_tls: bool,
    /// Whether no certificate is checked.
    pub is_insecure: bool,
    /// The authorities to believe, as PEM; empty for those of the machine.
    pub certificate: String,
    /// A certificate for us, as PEM.
    pub client_certificate: String,
    /// Its key.
    pub client_key: SecretString,
    /// The lowest and the highest version of TLS.
    pub tls_versions: (FarEndTlsVersion, FarEndTlsVersion),
    /// As whom searches are made; empty for nobody.
    pub bind_dn: String,
    /// With which password.
    pub bind_password: SecretString,
    /// Where users are looked for.
    pub user_dn: String,
    /// What users are called by.
    pub user_attr: String,
    /// What follows the `@` of a name by which users log in at an Active Directory.
    pub upn_domain: String,
    /// How long a request takes at the most, in seconds.
    pub request_secs: u64,
    /// How long a connection is tried for, in seconds.
    pub connect_secs: u64,
}

impl Default for DirectoryReach {
    fn default() -> Self {
        Self {
            url: URL.to_owned(),
            starts_tls: false,
            is_insecure: false,
            certificate: String::new(),
            client_certificate: String::new(),
            client_key: SecretString::default(),
            tls_versions: (FarEndTlsVersion::V12, FarEndTlsVersion::V13),
            bind_dn: String::new(),
            bind_password: SecretString::default(),
            user_dn: String::new(),
            user_attr: "cn".to_owned(),
            upn_domain: String::new(),
            request_secs: REQUEST_SECS,
            connect_secs: CONNECT_SECS,
        }
    }
}

fn version(name: &str, given: &str) -> Result<FarEndTlsVersion, Error> {
    match given {
        "tls12" => Ok(FarEndTlsVersion::V12),
        "tls13" => Ok(FarEndTlsVersion::V13),
        other => Err(Error::invalid(format!("invalid '{name}': {other:?}; tls12 or tls13"))),
    }
}

const fn version_name(version: FarEndTlsVersion) -> &'static str {
    match version {
        FarEndTlsVersion::V12 => "tls12",
        FarEndTlsVersion::V13 => "tls13",
    }
}

impl DirectoryReach {
    /// Applies the fields that are there.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the field that cannot be taken.
    pub fn take(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        for (name, text) in [
            ("url", &mut self.url),
            ("certificate", &mut self.certificate),
            ("client_tls_cert", &mut self.client_certificate),
            ("binddn", &mut self.bind_dn),
            ("userdn", &mut self.user_dn),
            ("userattr", &mut self.user_attr),
            ("upndomain", &mut self.upn_domain),
        ] {
            if let Some(given) = fields.string(name)? {
                *text = given;
            }
        }
        for (name, secret) in
            [("bindpass", &mut self.bind_password), ("client_tls_key", &mut self.client_key)]
        {
            if let Some(given) = fields.string(name)? {
                *secret = SecretString::from(given);
            }
        }
        for (name, flag) in
            [("starttls", &mut self.starts_tls), ("insecure_tls", &mut self.is_insecure)]
        {
            if let Some(given) = fields.boolean(name)? {
                *flag = given;
            }
        }
        for (name, one) in [
            ("tls_min_version", &mut self.tls_versions.0),
            ("tls_max_version", &mut self.tls_versions.1),
        ] {
            if let Some(given) = fields.string(name)?.filter(|given| !given.is_empty()) {
                *one = version(name, &given)?;
            }
        }
        for (name, secs, usual) in [
            ("request_timeout", &mut self.request_secs, REQUEST_SECS),
            ("connection_timeout", &mut self.connect_secs, CONNECT_SECS),
        ] {
            if let Some(given) = fields.span(name)? {
                let given = u64::try_from(given.secs()).ok().filter(|secs| *secs <= SECS_MAX);
                let given = given.ok_or_else(|| {
                    Error::invalid(format!("'{name}' is between 0 and {SECS_MAX} seconds"))
                })?;
                *secs = if given == 0 { usual } else { given };
            }
        }
        if self.url.is_empty() {
            URL.clone_into(&mut self.url);
        }
        if self.user_attr.is_empty() {
            "cn".clone_into(&mut self.user_attr);
        }
        self.user_attr.make_ascii_lowercase();
        Ok(())
    }

    /// Whether the settings can work.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying what is wrong with them.
    pub fn check(&self) -> Result<(), Error> {
        let places = url::parse(&self.url).map_err(|why| Error::invalid(format!("url: {why}")))?;
        if places.has_tls && self.starts_tls {
            return Err(Error::invalid("starttls is for ldap URLs: ldaps begins with TLS"));
        }
        if !is_attribute(&self.user_attr) {
            return Err(Error::invalid(format!("userattr: {:?} is no attribute", self.user_attr)));
        }
        if !self.user_dn.is_empty() && !dn::is_dn(&self.user_dn) {
            return Err(Error::invalid(format!(
                "userdn: {:?} is no name of an entry",
                self.user_dn
            )));
        }
        if self.tls_versions.0 > self.tls_versions.1 {
            return Err(Error::invalid(
                "'tls_max_version' must be greater than or equal to 'tls_min_version'",
            ));
        }
        if self.upn_domain.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(Error::invalid("upndomain is no domain"));
        }
        for (name, pem) in
            [("certificate", &self.certificate), ("client_tls_cert", &self.client_certificate)]
        {
            if !pem.trim().is_empty() && !pem.contains("-----BEGIN CERTIFICATE-----") {
                return Err(Error::invalid(format!("{name} is no certificate in PEM form")));
            }
        }
        if self.client_certificate.is_empty() != self.client_key.expose_secret().is_empty() {
            return Err(Error::invalid("both client_tls_cert and client_tls_key must be set"));
        }
        Ok(())
    }

    /// What is shown of them.
    pub fn show(&self, map: &mut Map) {
        for (name, text) in [
            ("url", &self.url),
            ("certificate", &self.certificate),
            ("binddn", &self.bind_dn),
            ("userdn", &self.user_dn),
            ("userattr", &self.user_attr),
            ("upndomain", &self.upn_domain),
        ] {
            map.insert(name.to_owned(), text.as_str().into());
        }
        map.insert("starttls".into(), self.starts_tls.into());
        map.insert("insecure_tls".into(), self.is_insecure.into());
        map.insert("tls_min_version".into(), version_name(self.tls_versions.0).into());
        map.insert("tls_max_version".into(), version_name(self.tls_versions.1).into());
        map.insert("request_timeout".into(), self.request_secs.into());
        map.insert("connection_timeout".into(), self.connect_secs.into());
    }

    /// What is stored of them: all that is shown, and the secrets.
    pub fn keep(&self, map: &mut Map) {
        self.show(map);
        for (name, text) in [
            ("bindpass", self.bind_password.expose_secret()),
            ("client_tls_key", self.client_key.expose_secret()),
            ("client_tls_cert", self.client_certificate.as_str()),
        ] {
            map.insert(name.to_owned(), text.into());
        }
    }

    /// Whether passwords leave this machine without TLS.
    pub fn sends_in_clear(&self) -> bool {
        let Ok(places) = url::parse(&self.url) else { return false };
        let is_here = |host: &str| {
            host.eq_ignore_ascii_case("localhost")
                || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
        };
        !places.has_tls && !self.starts_tls && !places.hosts.iter().all(|(host, _)| is_here(host))
    }

    /// Whether searches are made as somebody.
    pub fn has_binder(&self) -> bool {
        !self.bind_dn.is_empty() && !self.bind_password.expose_secret().is_empty()
    }

    /// The login of searches; that of nobody when there is none.
    pub fn binder(&self) -> FarEndLogin {
        match self.has_binder() {
            true => {
                FarEndLogin { user: self.bind_dn.clone(), password: self.bind_password.clone() }
            }
            false => nobody(),
        }
    }

    /// The directory as a far end.
    ///
    /// # Errors
    /// When the URLs are none.
    pub fn far_end(
        &self,
        mount: &str,
        name: &str,
        revision: u64,
        login: FarEndLogin,
    ) -> Result<FarEnd, Error> {
        let places = url::parse(&self.url).map_err(|why| Error::invalid(format!("url: {why}")))?;
        let usage = match (places.has_tls || self.starts_tls, self.is_insecure) {
            (false, _) => TlsUse::Never,
            (true, true) => TlsUse::Unverified,
            (true, false) => TlsUse::Verified,
        };
        Ok(FarEnd {
            mount: mount.to_owned(),
            name: name.to_owned(),
            revision,
            hosts: places.hosts,
            addresses: AllowedAddresses::default(),
            connect_secs: self.connect_secs,
            protocol: FarEndProtocol::Ldap { login, starts_tls: self.starts_tls },
            tls: FarEndTls {
                usage,
                versions: Some(self.tls_versions),
                authorities: self.certificate.clone(),
                server_name: String::new(),
                certificate: self.client_certificate.clone(),
                private_key: Some(self.client_key.clone())
                    .filter(|key| !key.expose_secret().is_empty()),
            },
            pool: FarEndPool::default(),
        })
    }
}

/// The login of nobody.
pub fn nobody() -> FarEndLogin {
    FarEndLogin { user: String::new(), password: SecretString::default() }
}

impl std::fmt::Debug for DirectoryReach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectoryReach").field("url", &self.url).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kallisto_api::json::parse_object;

    fn read(body: &str) -> Result<DirectoryReach, Error> {
        let mut reach = DirectoryReach::default();
        reach.take(Fields::new(&parse_object(body.as_bytes()).unwrap()))?;
        reach.check()?;
        Ok(reach)
    }

    #[test]
    fn what_is_kept_reads_back_and_what_is_shown_has_no_secret() {
        let reach = read(
            r#"{"url":"ldap://a,ldap://b:1389","starttls":true,"binddn":"cn=b","bindpass":"canary",
                "userdn":"ou=p,dc=x","userattr":"UID","request_timeout":"30","tls_min_version":"tls13"}"#,
        )
        .unwrap();
        let (mut kept, mut shown) = (Map::new(), Map::new());
        reach.keep(&mut kept);
        reach.show(&mut shown);
        let mut again = DirectoryReach::default();
        again.take(Fields::new(&kept)).unwrap();
        assert_eq!(again.bind_password.expose_secret(), "canary");
        assert_eq!((again.user_attr.as_str(), again.request_secs), ("uid", 30));
        assert_eq!(again.tls_versions, (FarEndTlsVersion::V13, FarEndTlsVersion::V13));
        assert!(!format!("{shown:?} {reach:?}").contains("canary"));
    }

    #[test]
    fn what_leaves_the_machine_in_clear_is_known_by_its_hosts() {
        let clear = |url: &str, starts_tls: bool| {
            let (url, reach) = (url.to_owned(), DirectoryReach::default());
            DirectoryReach { url, starts_tls, ..reach }.sends_in_clear()
        };
        for url in [
            "ldap://d.example",
            "LDAP://d.example",
            "ldap://127.0.0.1,ldap://d.example",
            "ldap://127.evil.example",
            "ldap://localhost.example",
        ] {
            assert!(clear(url, false), "{url}");
            assert!(!clear(url, true), "{url}");
        }
        for url in [
            "ldap://127.0.0.1",
            "ldap://127.1.2.3:1389",
            "ldap://LOCALHOST",
            "ldap://[::1]",
            "ldaps://d.example",
        ] {
            assert!(!clear(url, false), "{url}");
        }
    }

    #[test]
    fn what_cannot_work_is_refused_when_it_is_written() {
        for bad in [
            r#"{"url":"bogus://x"}"#,
            r#"{"url":"ldaps://x","starttls":true}"#,
            r#"{"userattr":"a b"}"#,
            r#"{"userattr":"uid)(cn"}"#,
            r#"{"userdn":"nonsense"}"#,
            r#"{"tls_min_version":"tls10"}"#,
            r#"{"tls_min_version":"tls13","tls_max_version":"tls12"}"#,
            r#"{"certificate":"x"}"#,
            r#"{"client_tls_cert":"-----BEGIN CERTIFICATE-----"}"#,
            r#"{"request_timeout":"1h"}"#,
        ] {
            assert!(matches!(read(bad), Err(Error::Invalid(_))), "{bad}");
        }
    }
}
