//! What is written here piece by piece is what the library writes of the same parts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use der::{Decode as _, Encode as _};
use kallisto_pki::certificate::{
    AltNames, CaNameLimits, CertificateContents, CertificatePurpose, CertificateSigner,
    NameConstraint, ParsedCertificate, Urls, Usages, ext_usage_named, usage_named,
};
use kallisto_pki::policy::CertificatePolicy;
use kallisto_pki::{
    CertificateSubject, PkiKeyKind, PrivateKey, San, Serial, SignatureAlgorithm, SignatureWish,
};
use x509_cert::Certificate;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, CertificatePolicies, ExtendedKeyUsage, KeyUsage,
    SubjectAltName, SubjectKeyIdentifier,
};
use x509_cert::name::Name;

fn subject(organizations: usize) -> CertificateSubject {
    let organization = |at: usize| format!("Organisation {} é", at % 3);
    CertificateSubject {
        common_name: "a.example.com".to_owned(),
        serial_number: "17-a".to_owned(),
        country: vec!["DE".to_owned()],
        organization: (0..organizations).map(organization).collect(),
        ou: vec![String::new(), "Unit".to_owned()],
        user_ids: vec!["bob".to_owned()],
        ..CertificateSubject::default()
    }
}

/// A policy, of which there are two.
fn policy(at: usize) -> CertificatePolicy {
    let id = format!("1.2.3.{}", at % 2).parse().unwrap();
    let (cps, notice) = if at == 1 { ("https://example.com/cps", "Gelesen, ü") } else { ("", "") };
    CertificatePolicy::new(id, cps, notice).unwrap()
}

fn contents(key: &PrivateKey, purpose: CertificatePurpose, many: usize) -> CertificateContents {
    let url = |at: usize| format!("http://pki.example.com/{at}");
    let urls: Vec<String> = (0..many).map(url).collect();
    let is_ca = matches!(purpose, CertificatePurpose::Ca { .. });
    let usages =
        if is_ca { ["CertSign", "CRLSign"] } else { ["DigitalSignature", "DigitalSignature"] };
    let usages = usages.map(|name| Usages::from(usage_named(name).unwrap()));
    CertificateContents {
        serial: Serial::of_random([0x81; 20]),
        not_before: 1_795_413_611,
        not_after: if many == 0 { 2_600_000_000 } else { kallisto_pki::time::LAST },
        subject: subject(many).to_der().unwrap(),
        public: key.public().clone(),
        purpose,
        usages: usages[0] | usages[1],
        ext_usages: ["ServerAuth", "ClientAuth", "TimeStamping"][..many.min(3)]
            .iter()
            .map(|name| ext_usage_named(name).unwrap())
            .collect(),
        alt_names: AltNames::Names(
            (0..many).map(|at| San::Dns(format!("{at}.example.com"))).collect(),
        ),
        urls: Urls {
            issuing_certificates: urls.clone(),
            crl_distribution_points: urls.clone(),
            delta_crl_distribution_points: urls.clone(),
            ocsp_servers: urls,
        },
        policies: (0..many).map(policy).collect(),
        extra: Vec::new(),
    }
}

#[test]
fn certificates_are_encoded_as_the_library_encodes_them() {
    let issuer = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let (name, key_id) = (subject(2).to_der().unwrap(), issuer.public().key_id());
    let algorithm = SignatureAlgorithm::choose(issuer.kind(), SignatureWish::default());
    let signer = CertificateSigner { name: &name, key_id: &key_id, key: &issuer, algorithm };
    let constraints = CaNameLimits {
        permitted: vec![NameConstraint::dns(".example.com").unwrap()],
        excluded: vec![NameConstraint::Ip(vec![10, 0, 0, 0, 255, 0, 0, 0])],
    };
    for kind in [PkiKeyKind::P256, PkiKeyKind::P384, PkiKeyKind::Ed25519, PkiKeyKind::Rsa(2048)] {
        let key = PrivateKey::make(kind).unwrap();
        // The longest has extensions of more than a page, and lengths of one, two and three bytes.
        for many in [0, 1, 3, 20, 1_000] {
            for purpose in [
                CertificatePurpose::Leaf { says_so: many % 2 == 1 },
                CertificatePurpose::Ca {
                    path_length: None,
                    constraints: CaNameLimits::default(),
                    key_id: None,
                },
                CertificatePurpose::Ca {
                    path_length: Some(3),
                    constraints: constraints.clone(),
                    key_id: Some(vec![1, 2, 3]),
                },
            ] {
                let contents = contents(&key, purpose, many.min(60));
                let names = (0..many).map(|at| San::Dns(format!("{at}.example.com"))).collect();
                let contents =
                    CertificateContents { alt_names: AltNames::Names(names), ..contents };
                let der = contents.sign(&signer).unwrap();
                let read = Certificate::from_der(&der).unwrap();
                assert_eq!(read.to_der().unwrap(), der, "{kind:?} {many}");
                let tbs = read.tbs_certificate();
                for (bytes, name) in [(&contents.subject, tbs.subject()), (&name, tbs.issuer())] {
                    assert_eq!(*bytes, name.to_der().unwrap());
                    assert_eq!(Name::from_der(bytes).unwrap(), *name);
                }
                for extension in tbs.extensions().unwrap() {
                    let value = extension.extn_value.as_bytes();
                    let again = match extension.extn_id.to_string().as_str() {
                        "2.5.29.14" => SubjectKeyIdentifier::from_der(value).unwrap().to_der(),
                        "2.5.29.15" => KeyUsage::from_der(value).unwrap().to_der(),
                        "2.5.29.17" => SubjectAltName::from_der(value).unwrap().to_der(),
                        "2.5.29.19" => BasicConstraints::from_der(value).unwrap().to_der(),
                        "2.5.29.32" => CertificatePolicies::from_der(value).unwrap().to_der(),
                        "2.5.29.35" => AuthorityKeyIdentifier::from_der(value).unwrap().to_der(),
                        "2.5.29.37" => ExtendedKeyUsage::from_der(value).unwrap().to_der(),
                        _ => continue,
                    };
                    assert_eq!(again.unwrap(), value, "{}", extension.extn_id);
                }
                let parsed = ParsedCertificate::from_der(&der).unwrap();
                assert!(parsed.is_signed_by(issuer.public()));
                assert_eq!(parsed.public, *key.public());
                assert_eq!(parsed.authority_key_id.as_deref(), Some(&key_id[..]));
                let limits = match contents.purpose {
                    CertificatePurpose::Ca { constraints, .. } => constraints,
                    CertificatePurpose::Leaf { .. } => CaNameLimits::default(),
                };
                assert_eq!(parsed.name_limits, Some(limits));
            }
        }
    }
}

#[test]
fn policies_say_what_can_stand_in_them() {
    let id = "1.2.3".parse().unwrap();
    let (longest, longer) = ("ü".repeat(200), "ü".repeat(201));
    for (cps, notice) in
        [("https://a/ b", ""), ("https://ü/", ""), ("", "a\nb"), ("", longer.as_str())]
    {
        assert!(CertificatePolicy::new(id, cps, notice).is_err(), "{cps} {notice}");
    }
    CertificatePolicy::new(id, "https://example.com/cps?a=b#c", &longest).unwrap();
}

#[test]
fn a_value_that_stands_twice_in_a_subject_is_written_once() {
    let written = subject(6).to_der().unwrap();
    assert_eq!(written, subject(3).to_der().unwrap());
    let read = CertificateSubject::from_der(&written).unwrap();
    assert_eq!(read.organization.len(), 3);
    assert_eq!(read.ou, ["Unit"]);
    assert_eq!(CertificateSubject::default().to_der().unwrap(), [0x30, 0]);
}
