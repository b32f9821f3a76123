//! Whose certificates log in, and what their tokens are like.

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, KeyUsage};

use super::names::Names;
use crate::error::Error;
use crate::fields::Fields;
use crate::json::{Json, Map};
use crate::login::TokenParams;
use crate::login::glob::glob;
use crate::login::records::RoleFields;

/// Most certificates in one role, and most patterns in each of its lists.
const ENTRIES_MAX: usize = 64;

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
pub(super) struct Role {
    /// As PEM: authorities, or certificates of clients themselves.
    pub(super) certificate: String,
    pub(super) display_name: String,
    /// In the order of [`PATTERNS`].
    patterns: [Vec<String>; 6],
    pub(super) params: TokenParams,
}

impl Role {
    /// The certificates of the PEM; `None` when one of them is none.
    fn trusted(&self) -> Option<Vec<CertificateDer<'static>>> {
        let found = CertificateDer::pem_slice_iter(self.certificate.as_bytes());
        let found: Vec<_> = found.collect::<Result<_, _>>().ok()?;
        let sound = found.iter().all(|certificate| Names::read(certificate).is_some());
        (sound && found.len() <= ENTRIES_MAX).then_some(found)
    }

    /// Whether a chain, whose first certificate the client proved to own, is good for this role.
    ///
    /// Either its first certificate is one of the role's byte for byte (lesson 22: no comparison by
    /// key, name or serial), or it leads to one of the role's authorities.
    pub(super) fn trusts(&self, chain: &[Vec<u8>], now_secs: i64) -> bool {
        let (Some((leaf, between)), Some(trusted)) = (chain.split_first(), self.trusted()) else {
            return false;
        };
        if trusted.iter().any(|own| own[..] == leaf[..]) {
            let valid = Names::read(leaf).map(|names| names.valid);
            return valid.is_some_and(|(from, until)| from <= now_secs && now_secs <= until);
        }
        let is_authority = |certificate: &&CertificateDer<'static>| {
            Names::read(certificate).is_some_and(|names| names.is_authority)
        };
        let authorities: Vec<_> = trusted
            .iter()
            .filter(is_authority)
            .filter_map(|certificate| webpki::anchor_from_trusted_cert(certificate).ok())
            .collect();
        let leaf = CertificateDer::from(leaf.as_slice());
        let between: Vec<CertificateDer<'_>> =
            between.iter().map(|der| CertificateDer::from(der.as_slice())).collect();
        let now = u64::try_from(now_secs).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now));
        let Ok(leaf) = EndEntityCert::try_from(&leaf) else { return false };
        let usage = KeyUsage::client_auth();
        leaf.verify_for_usage(ALL_VERIFICATION_ALGS, &authorities, &between, now, usage, None, None)
            .is_ok()
    }

    /// Whether the names in a certificate are among those of this role.
    pub(super) fn admits(&self, names: &Names) -> bool {
        let common = std::slice::from_ref(&names.common_name);
        let any: Vec<String> =
            [common, &names.dns, &names.emails].into_iter().flatten().cloned().collect();
        let found: [&[String]; 6] =
            [common, &names.dns, &names.emails, &any, &names.units, &names.uris];
        self.patterns.iter().zip(found).all(|(patterns, found)| {
            let held = |name: &String| patterns.iter().any(|pattern| glob(pattern, name));
            patterns.is_empty() || found.iter().any(held)
        })
    }
}

impl RoleFields for Role {
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
        for name in ["required_extensions", "allowed_metadata_extensions"] {
            if fields.strings(name)?.is_some_and(|given| !given.is_empty()) {
                return Err(Error::invalid(format!("{name} is not available")));
            }
        }
        if fields.boolean("ocsp_enabled")? == Some(true) {
            return Err(Error::invalid("ocsp_enabled is not available"));
        }
        self.params.update(fields)
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
        map.insert("required_extensions".into(), Json::Array(Vec::new()));
        map.insert("allowed_metadata_extensions".into(), Json::Array(Vec::new()));
        map
    }

    fn params_mut(&mut self) -> &mut TokenParams {
        &mut self.params
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
        KeyPair, SanType,
    };

    use super::*;
    use crate::json;
    use crate::login::records::Record;

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

    fn role(certificate: &str, more: &str) -> Result<Role, Error> {
        let pem = String::from_utf8(Json::from(certificate).to_text()).unwrap();
        let body = format!(r#"{{"certificate":{pem}{more}}}"#);
        let body = json::parse_object(body.as_bytes()).unwrap();
        Role::written(None, Fields::new(&body))
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

    /// Lesson 22: another certificate of the same names is not the pinned one.
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
        let names = Names::read(&client(&ours, "web-1")).unwrap();
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
        assert_eq!(Role::decode(&found.encode()), Ok(found));
        assert!(role("", "").is_err() && role("bogus", "").is_err());
        assert!(role(&ours.pem, r#","required_extensions":"1.2.3:x""#).is_err());
    }
}
