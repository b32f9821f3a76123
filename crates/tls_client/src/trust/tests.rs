//! Which certificates are trusted, and which only look alike.

use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::*;

/// A moment within what certificates of these tests are good for, in seconds since 1970.
const NOW: u64 = 1_800_000_000;
const DAY: u64 = 86_400;

fn key() -> KeyPair {
    KeyPair::generate().unwrap()
}

/// What signs itself and says that it is an authority, as `openssl req -x509` makes it.
fn self_signed(name: &str, key: &KeyPair) -> (CertificateParams, CertificateDer<'static>) {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_before = rcgen::date_time_ymd(2026, 1, 1);
    params.not_after = rcgen::date_time_ymd(2028, 1, 1);
    let certificate = params.self_signed(key).unwrap();
    (params, certificate.der().clone())
}

fn verify(
    trust: ServerTrust,
    end: &CertificateDer<'static>,
    name: &str,
    at: u64,
) -> Result<(), String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = trust.verifier(provider);
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(at));
    let verified = verifier.verify_server_cert(end, &[], &name, &[], now);
    verified.map(drop).map_err(|error| format!("{error:?}"))
}

fn listed(certificates: &[&CertificateDer<'static>]) -> CertificateAuthorities {
    CertificateAuthorities(certificates.iter().map(|&one| one.clone()).collect())
}

#[test]
fn a_certificate_that_is_listed_itself_is_trusted_for_its_names_while_it_is_good() {
    let key = key();
    let (_, own) = self_signed("vault.example", &key);
    let trust = || ServerTrust::Authorities(listed(&[&own]));
    assert_eq!(verify(trust(), &own, "vault.example", NOW), Ok(()));
    let refused = |name: &str, at: u64| verify(trust(), &own, name, at).unwrap_err();
    assert!(refused("other.example", NOW).contains("NotValidForName"));
    assert!(refused("vault.example", NOW + 1_000 * DAY).contains("Expired"));
    assert!(refused("vault.example", NOW - 1_000 * DAY).contains("NotValidYet"));
}

#[test]
fn another_self_signed_certificate_of_the_same_name_and_key_is_refused() {
    let key = key();
    let (_, own) = self_signed("vault.example", &key);
    // A second one: another serial number, the same key.
    let (_, twin) = self_signed("vault.example", &key);
    let (_, stranger) = self_signed("vault.example", &KeyPair::generate().unwrap());
    assert_ne!(own, twin);
    for other in [twin, stranger] {
        let trust = ServerTrust::Authorities(listed(&[&own]));
        assert!(verify(trust, &other, "vault.example", NOW).is_err());
    }
}

#[test]
fn an_authority_vouches_for_what_it_signed_and_not_at_the_end_of_a_chain_of_others() {
    let (root_key, leaf_key, inner_key) = (key(), key(), key());
    let (params, root) = self_signed("root.example", &root_key);
    let issuer = Issuer::new(params, root_key);
    let leaf = CertificateParams::new(vec!["vault.example".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&leaf_key, &issuer).unwrap();
    let trust = || ServerTrust::Authorities(listed(&[&root]));
    assert_eq!(verify(trust(), leaf.der(), "vault.example", NOW), Ok(()));
    // An authority below the root is not listed, so it cannot be a server.
    let mut inner = CertificateParams::new(vec!["vault.example".to_owned()]).unwrap();
    inner.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let inner = inner.signed_by(&inner_key, &issuer).unwrap();
    assert!(verify(trust(), inner.der(), "vault.example", NOW).is_err());
}

#[test]
fn any_name_is_only_where_it_was_asked_for_and_nobody_vouches_for_all_without_authorities() {
    let (_, own) = self_signed("vault.example", &key());
    let any_name = ServerTrust::AuthoritiesOfAnyName(listed(&[&own]));
    assert_eq!(verify(any_name.clone(), &own, "other.example", NOW), Ok(()));
    assert!(verify(any_name, &own, "vault.example", NOW + 1_000 * DAY).is_err());
    let (_, stranger) = self_signed("vault.example", &key());
    let any_name = ServerTrust::AuthoritiesOfAnyName(listed(&[&own]));
    assert!(verify(any_name, &stranger, "vault.example", NOW).is_err());
    let nobody = ServerTrust::Authorities(CertificateAuthorities::default());
    assert!(verify(nobody, &own, "vault.example", NOW).is_err());
    assert_eq!(verify(ServerTrust::Anyone, &own, "other.example", 0), Ok(()));
}

#[test]
fn what_is_no_certificate_is_said() {
    assert!(CertificateAuthorities::from_pem(b"").is_none());
    let broken = b"-----BEGIN CERTIFICATE-----\nAAA\n";
    assert!(CertificateAuthorities::from_pem(broken).is_none());
}

const VERSION_1: &[u8] = include_bytes!("../../../../tests/certificates/version_1.pem");
const KEY_OF_VERSION_1: &[u8] = include_bytes!("../../../../tests/certificates/version_1.key.pem");

#[test]
fn a_client_shows_a_certificate_of_version_1_and_none_with_the_key_of_another() {
    let old = CertificateAuthorities::from_pem(VERSION_1).unwrap().certificates().to_vec();
    let old_key = || PrivateKeyDer::from_pem_slice(KEY_OF_VERSION_1).unwrap();
    let with = |chain, key| {
        let config = ServerTrust::Anyone.client_config(Some((chain, key)));
        config.map(|config| config.client_auth_cert_resolver.has_certs())
    };
    let key = key();
    let own = || PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    assert_eq!(with(old.clone(), old_key()), Ok(true));
    assert_eq!(with(old, own()), Err(InconsistentKeys::KeyMismatch.into()));
    let (_, new) = self_signed("client.example", &key);
    assert_eq!(with(vec![new.clone()], own()), Ok(true));
    assert!(with(vec![new], old_key()).is_err());
}
