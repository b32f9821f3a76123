//! Whose certificates log in, and what their tokens are like.

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, KeyUsage};

use super::direct;
use super::extensions::{self, is_condition, is_oid};
use super::names::CertificateNames;
use crate::records::RoleFields;
use kallisto_api::error::Error;
use kallisto_api::fields::Fields;
use kallisto_api::json::{Json, Map};
use kallisto_engine::TokenParams;
use kallisto_engine::glob::matches_glob;

/// Most certificates in one role, and most patterns in each of its lists.
const ENTRIES_MAX: usize = 64;

/// `anyExtendedKeyUsage` (RFC 5280, section 4.2.1.12), 2.5.29.37.0.
const ANY_USAGE: &[u8] = &[0x55, 0x1d, 0x25, 0x00];

/// The lists of patterns a role may have, by their names on the wire.
const PATTERNS: [&str; 6] = [
    "allowed_common_names",
    "allowed_dns_sans",
    "allowed_email_sans",
    "allowed_names",
    "allowed_organizational_units",
    "allowed_uri_sans",
];

/// A role as stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CertRole {
    /// As PEM: authorities, or certificates of clients themselves.
    pub(super) certificate: String,
    pub(super) display_name: String,
    /// In the order of [`PATTERNS`].
    patterns: [Vec<String>; 6],
    /// `oid:pattern`, or `hex:oid:pattern`.
    required_extensions: Vec<String>,
    /// Object identifiers of what is noted with a login.
    allowed_metadata_extensions: Vec<String>,
    pub(super) params: TokenParams,
}

impl CertRole {
    /// The certificates of the PEM; `None` when one of them is none.
    fn trusted(&self) -> Option<Vec<CertificateDer<'static>>> {
        let found = CertificateDer::pem_slice_iter(self.certificate.as_bytes());
        let found: Vec<_> = found.collect::<Result<_, _>>().ok()?;
        let sound = found.iter().all(|certificate| CertificateNames::read(certificate).is_some());
        (sound && found.len() <= ENTRIES_MAX).then_some(found)
    }

    /// Whether a chain, whose first certificate the client proved to own, is good for this role.
    ///
    /// Either its first certificate is one of the role's byte for byte (key, name
    /// and serial may be another's as well), or it leads to one of the role's authorities; see `direct` for those that webpki reads none of.
    pub(super) fn trusts(&self, chain: &[Vec<u8>], now_secs: i64) -> bool {
        let (Some((leaf, between)), Some(trusted)) = (chain.split_first(), self.trusted()) else {
            return false;
        };
        if trusted.iter().any(|own| own[..] == leaf[..]) {
            let valid = CertificateNames::read(leaf).map(|names| names.valid);
            return valid.is_some_and(|(from, until)| from <= now_secs && now_secs <= until);
        }
        let is_authority = |certificate: &&CertificateDer<'static>| {
            CertificateNames::read(certificate).is_some_and(|names| names.is_authority)
        };
        let authorities: Vec<_> = trusted
            .iter()
            .filter(is_authority)
            .filter_map(|certificate| webpki::anchor_from_trusted_cert(certificate).ok())
            .collect();
        let is_signed_by_one = || {
            let authorities: Vec<&[u8]> =
                trusted.iter().filter(is_authority).map(|der| &der[..]).collect();
            direct::is_signed_by_one(leaf, &authorities, now_secs)
        };
        let leaf_der = CertificateDer::from(leaf.as_slice());
        let between: Vec<CertificateDer<'_>> =
            between.iter().map(|der| CertificateDer::from(der.as_slice())).collect();
        let now = u64::try_from(now_secs).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now));
        let end = match EndEntityCert::try_from(&leaf_der) {
            Err(webpki::Error::UnsupportedCertVersion) => return is_signed_by_one(),
            Err(_) => return false,
            Ok(end) => end,
        };
        let verified = |usage: KeyUsage| {
            let algorithms = ALL_VERIFICATION_ALGS;
            end.verify_for_usage(algorithms, &authorities, &between, now, usage, None, None)
                .map(drop)
        };
        match verified(KeyUsage::client_auth()) {
            // What is good for any usage is good for this one.
            Err(webpki::Error::RequiredEkuNotFoundContext(_)) => {
                verified(KeyUsage::required_if_present(ANY_USAGE)).is_ok()
            }
            Err(webpki::Error::CaUsedAsEndEntity) => is_signed_by_one(),
            outcome => outcome.is_ok(),
        }
    }

    /// Whether the names in a certificate are among those of this role.
    pub(super) fn admits(&self, names: &CertificateNames) -> bool {
        let common = std::slice::from_ref(&names.common_name);
        let any: Vec<String> =
            [common, &names.dns, &names.emails].into_iter().flatten().cloned().collect();
        let found: [&[String]; 6] =
            [common, &names.dns, &names.emails, &any, &names.units, &names.uris];
        self.patterns.iter().zip(found).all(|(patterns, found)| {
            let held = |name: &String| patterns.iter().any(|pattern| matches_glob(pattern, name));
            patterns.is_empty() || found.iter().any(held)
        }) && extensions::hold(&self.required_extensions, &names.extensions)
    }

    /// What is noted of a certificate's extensions, by their object identifiers with dashes for dots, as
    /// templates of policies need them.
    pub(super) fn noted(&self, names: &CertificateNames) -> Vec<(String, Json)> {
        let is_noted = |oid: &String| self.allowed_metadata_extensions.contains(oid);
        let noted = names.extensions.iter().filter(|it| is_noted(&it.oid));
        noted.map(|it| (it.oid.replace('.', "-"), it.text.as_str().into())).collect()
    }
}

impl RoleFields for CertRole {
    fn take(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        if let Some(pem) = fields.string("certificate")? {
            self.certificate = pem;
        }
        if let Some(name) = fields.string("display_name")? {
            self.display_name = name;
        }
        for (name, list) in PATTERNS.iter().zip(&mut self.patterns) {
            if let Some(given) = fields.strings(name)? {
                *list = given;
            }
            if list.len() > ENTRIES_MAX {
                return Err(Error::invalid(format!("{name} has more than {ENTRIES_MAX} entries")));
            }
        }
        let lists = [
            (
                "required_extensions",
                &mut self.required_extensions,
                is_condition as fn(&str) -> bool,
            ),
            ("allowed_metadata_extensions", &mut self.allowed_metadata_extensions, is_oid),
        ];
        for (name, list, is_known) in lists {
            let Some(given) = fields.strings(name)? else { continue };
            if given.len() > ENTRIES_MAX {
                return Err(Error::invalid(format!("{name} has more than {ENTRIES_MAX} entries")));
            }
            if let Some(bad) = given.iter().find(|text| !is_known(text)) {
                return Err(Error::invalid(format!(
                    "{name} has an entry of another form: {bad:?}"
                )));
            }
            *list = given;
        }
        refuse_ocsp(fields)
    }

    fn check(&self) -> Result<(), Error> {
        match self.trusted() {
            Some(trusted) if !trusted.is_empty() => Ok(()),
            _ => Err(Error::invalid("failed to parse certificate")),
        }
    }

    fn to_map(&self) -> Map {
        let mut map = self.params.to_map();
        for (name, list) in PATTERNS.iter().zip(&self.patterns) {
            map.insert((*name).to_owned(), Json::strings(list.iter().cloned()));
        }
        map.insert("certificate".into(), self.certificate.as_str().into());
        map.insert("display_name".into(), self.display_name.as_str().into());
        for (name, list) in [
            ("required_extensions", &self.required_extensions),
            ("allowed_metadata_extensions", &self.allowed_metadata_extensions),
        ] {
            map.insert(name.into(), Json::strings(list.iter().cloned()));
        }
        map
    }

    fn params_mut(&mut self) -> &mut TokenParams {
        &mut self.params
    }

    fn call(&mut self, name: &str) {
        if self.display_name.is_empty() {
            name.clone_into(&mut self.display_name);
        }
    }
}

/// Refuses to be asked for OCSP: certificates that were taken back are known by lists here, and a role that
/// thought otherwise would let them in.
fn refuse_ocsp(fields: Fields<'_>) -> Result<(), Error> {
    const OCSP: [&str; 7] = [
        "ocsp_ca_certificates",
        "ocsp_enabled",
        "ocsp_fail_open",
        "ocsp_max_retries",
        "ocsp_query_all_servers",
        "ocsp_servers_override",
        "ocsp_this_update_max_age",
    ];
    let says_nothing = |value: &Json| match value {
        Json::Null | Json::Bool(false) => true,
        Json::Bool(true) | Json::Object(_) => false,
        Json::Number(text) => &**text == "0",
        Json::String(text) => matches!(text.as_str(), "" | "0" | "0s" | "false"),
        Json::Array(items) => items.is_empty(),
    };
    match OCSP.iter().find(|name| fields.raw(name).is_some_and(|it| !says_nothing(it))) {
        Some(name) => Err(Error::invalid(format!(
            "{name} is not available: bring a list of certificates that were taken back at crls/"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
        KeyPair, SanType,
    };

    use super::*;
    use crate::records::FieldsRecord;
    use kallisto_api::json;

    const NOW: i64 = 1_800_000_000;

    struct Authority {
        issuer: Issuer<'static, KeyPair>,
        pem: String,
    }

    fn authority(name: &str) -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::new(vec!["host.example".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationalUnitName, "ops");
        params.subject_alt_names.push(SanType::Rfc822Name("a@example.org".try_into().unwrap()));
        params.subject_alt_names.push(SanType::URI("spiffe://x/y".try_into().unwrap()));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params
    }

    fn client(authority: &Authority, name: &str) -> Vec<u8> {
        let key = KeyPair::generate().unwrap();
        params(name).signed_by(&key, &authority.issuer).unwrap().der().to_vec()
    }

    fn role(certificate: &str, more: &str) -> Result<CertRole, Error> {
        let pem = String::from_utf8(Json::from(certificate).to_text()).unwrap();
        let body = format!(r#"{{"certificate":{pem}{more}}}"#);
        let body = json::parse_object(body.as_bytes()).unwrap();
        CertRole::written(None, Fields::new(&body))
    }

    #[test]
    fn a_chain_must_lead_to_an_authority_of_the_role() {
        let (ours, theirs) = (authority("ours"), authority("theirs"));
        let role = role(&ours.pem, "").unwrap();
        assert!(role.trusts(&[client(&ours, "a")], NOW));
        assert!(!role.trusts(&[client(&theirs, "a")], NOW));
        assert!(!role.trusts(&[], NOW));
        assert!(!role.trusts(&[b"no certificate".to_vec()], NOW));
        // An authority of the same name with another key is another authority.
        assert!(!role.trusts(&[client(&authority("ours"), "a")], NOW));
        // rcgen's certificates are valid from 1975 to 4096.
        assert!(!role.trusts(&[client(&ours, "a")], 1));
    }

    #[test]
    fn a_certificate_is_for_clients_for_anything_or_does_not_say() {
        use ExtendedKeyUsagePurpose::{Any, ClientAuth, ServerAuth};
        let ours = authority("ours");
        let role = role(&ours.pem, "").unwrap();
        for (usages, good) in [
            (vec![], true),
            (vec![ClientAuth], true),
            (vec![Any], true),
            (vec![ServerAuth, Any], true),
            (vec![ServerAuth], false),
        ] {
            let key = KeyPair::generate().unwrap();
            let mut asked = params("a");
            asked.extended_key_usages = usages.clone();
            let leaf = asked.signed_by(&key, &ours.issuer).unwrap().der().to_vec();
            assert_eq!(role.trusts(&[leaf], NOW), good, "{usages:?}");
        }
    }

    /// Another certificate of the same names is not the pinned one.
    #[test]
    fn a_pinned_certificate_is_compared_whole() {
        let key = KeyPair::generate().unwrap();
        let pinned = params("a").self_signed(&key).unwrap();
        let role = role(&pinned.pem(), "").unwrap();
        assert!(role.trusts(&[pinned.der().to_vec()], NOW));
        let same_key = params("a").self_signed(&key).unwrap().der().to_vec();
        assert_ne!(same_key, pinned.der().to_vec());
        assert!(!role.trusts(&[same_key], NOW));
        // It is no authority: what its key signs is not trusted.
        let mallory = Authority { issuer: Issuer::new(params("a"), key), pem: pinned.pem() };
        assert!(!role.trusts(&[client(&mallory, "b")], NOW));
        assert!(!role.trusts(&[client(&mallory, "b"), pinned.der().to_vec()], NOW));
    }

    #[test]
    fn names_must_be_among_those_of_the_role() {
        let ours = authority("ours");
        let names = CertificateNames::read(&client(&ours, "web-1")).unwrap();
        assert_eq!((names.common_name.as_str(), names.is_authority), ("web-1", false));
        for (more, good) in [
            ("", true),
            (r#","allowed_common_names":"web-*""#, true),
            (r#","allowed_common_names":"db-*""#, false),
            (r#","allowed_names":"host.example""#, true),
            (r#","allowed_names":"x""#, false),
            (r#","allowed_dns_sans":"*.example""#, true),
            (r#","allowed_email_sans":"*@example.org""#, true),
            (r#","allowed_uri_sans":"spiffe://x/*""#, true),
            (r#","allowed_uri_sans":"spiffe://z/*""#, false),
            (r#","allowed_organizational_units":"ops""#, true),
            (r#","allowed_organizational_units":"dev""#, false),
            (r#","allowed_organizational_units":"ops","allowed_common_names":"x""#, false),
        ] {
            assert_eq!(role(&ours.pem, more).unwrap().admits(&names), good, "{more}");
        }
    }

    #[test]
    fn a_role_reads_back_and_has_a_certificate() {
        let ours = authority("ours");
        let found = role(&ours.pem, r#","policies":"p","allowed_names":"a,b""#).unwrap();
        assert_eq!(CertRole::decode(&found.encode()), Some(found));
        assert!(role("", "").is_err() && role("bogus", "").is_err());
        for refused in [
            r#","required_extensions":"bogus""#,
            r#","required_extensions":"1.2.3""#,
            r#","allowed_metadata_extensions":"bogus""#,
            r#","ocsp_enabled":true"#,
            r#","ocsp_servers_override":"http://ocsp.example""#,
            r#","ocsp_ca_certificates":"PEM""#,
            r#","ocsp_fail_open":"true""#,
            r#","ocsp_query_all_servers":1"#,
            r#","ocsp_max_retries":4"#,
        ] {
            assert!(role(&ours.pem, refused).is_err(), "{refused}");
        }
        let nothing =
            r#","ocsp_enabled":false,"ocsp_servers_override":[],"ocsp_ca_certificates":"""#;
        assert!(role(&ours.pem, nothing).is_ok());
    }

    #[test]
    fn extensions_must_be_as_the_role_says_and_are_noted() {
        let ours = authority("ours");
        let key = KeyPair::generate().unwrap();
        let mut asked = params("web-1");
        let content = b"\x0c\x06team-a".to_vec();
        asked.custom_extensions =
            vec![rcgen::CustomExtension::from_oid_content(&[1, 2, 3], content)];
        let leaf = asked.signed_by(&key, &ours.issuer).unwrap().der().to_vec();
        let names = CertificateNames::read(&leaf).unwrap();
        for (conditions, good) in [
            ("1.2.3:team-a", true),
            ("1.2.3:team-*,2.5.29.17:*", true),
            ("hex:1.2.3:0c067465616d2d61", true),
            ("1.2.3:team-b", false),
            ("1.2.3:team-a,1.2.4:*", false),
        ] {
            let role = role(&ours.pem, &format!(r#","required_extensions":"{conditions}""#));
            assert_eq!(role.unwrap().admits(&names), good, "{conditions}");
        }
        let more =
            r#","required_extensions":"1.2.3:a","allowed_metadata_extensions":"1.2.3,1.2.4""#;
        let found = role(&ours.pem, more).unwrap();
        assert_eq!(found.noted(&names), [("1-2-3".to_owned(), Json::from("team-a"))]);
        assert_eq!(CertRole::decode(&found.encode()), Some(found));
    }

    #[test]
    fn a_role_is_shown_under_its_name_unless_it_has_another() {
        let ours = authority("ours");
        let shown = |more: &str| {
            let mut role = role(&ours.pem, more).unwrap();
            role.call("web");
            role.to_map()["display_name"].clone()
        };
        assert_eq!((shown(""), shown(r#","display_name":"d""#)), ("web".into(), "d".into()));
    }
}
