//! Certificates that webpki has no chains for, and that OpenSSL, Vault and OpenBao take: those of version 1, as `openssl x509 -req` of
//! OpenSSL 3.0 makes them by itself, and those that say that they are authorities, as `openssl req -x509 -CA` does.
//!
//! Invariants:
//! - Such a certificate is signed by one of the given authorities itself: nothing stands between.
//! - An authority that constrains names signs none of them.
//! - An extension that cannot be read, and a critical one that is not known, stand in the way of both.

use webpki::ALL_VERIFICATION_ALGS;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Whether a certificate is good for a client at a time, in seconds since 1970, and signed by one of the authorities.
pub(super) fn is_signed_by_one(leaf: &[u8], authorities: &[&[u8]], now_secs: i64) -> bool {
    let Ok((rest, leaf)) = X509Certificate::from_der(leaf) else { return false };
    let validity = leaf.validity();
    let (from, until) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    let is_good = rest.is_empty() && (from..=until).contains(&now_secs) && is_for_clients(&leaf);
    is_good && authorities.iter().any(|authority| has_signed(authority, &leaf))
}

/// Whether nothing in a certificate stands in the way of a client that shows it.
fn is_for_clients(leaf: &X509Certificate<'_>) -> bool {
    leaf.extensions().iter().all(|extension| match extension.parsed_extension() {
        ParsedExtension::ExtendedKeyUsage(usage) => usage.client_auth || usage.any,
        ParsedExtension::BasicConstraints(_)
        | ParsedExtension::KeyUsage(_)
        | ParsedExtension::SubjectAlternativeName(_) => true,
        ParsedExtension::ParseError { .. } => false,
        _ => !extension.critical,
    })
}

fn has_signed(authority: &[u8], leaf: &X509Certificate<'_>) -> bool {
    let Ok((_, authority)) = X509Certificate::from_der(authority) else { return false };
    let may_sign =
        authority.extensions().iter().all(|extension| match extension.parsed_extension() {
            ParsedExtension::NameConstraints(_) | ParsedExtension::ParseError { .. } => false,
            ParsedExtension::KeyUsage(usage) => usage.key_cert_sign(),
            ParsedExtension::BasicConstraints(_)
            | ParsedExtension::ExtendedKeyUsage(_)
            | ParsedExtension::SubjectAlternativeName(_) => true,
            // What has to be understood, and is not, may say that it signs nothing of this kind.
            _ => !extension.critical,
        });
    if !may_sign || !authority.is_ca() || authority.subject().as_raw() != leaf.issuer().as_raw() {
        return false;
    }
    let key = &authority.public_key().subject_public_key.data;
    let (told, signature) = (leaf.tbs_certificate.as_ref(), &leaf.signature_value.data);
    // Whichever of them it is, the authority has signed these bytes.
    let mut algorithms = ALL_VERIFICATION_ALGS.iter();
    algorithms.any(|algorithm| algorithm.verify_signature(key, told, signature).is_ok())
}

#[cfg(test)]
mod tests {
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject;

    use super::super::role::CertRole;
    use super::*;

    /// All made by OpenSSL, good for a hundred years: two authorities of one name, and one that signs no certificates.
    const OURS: &str = "-----BEGIN CERTIFICATE-----
MIIBMDCB46ADAgECAhRspBtwZcXqSf/qwqNPMs6NLBpowzAFBgMrZXAwDTELMAkG
A1UEAwwCY2EwIBcNMjYxMTI5MTI1MDExWhgPMjEyNjExMDUxMjUwMTFaMA0xCzAJ
BgNVBAMMAmNhMCowBQYDK2VwAyEA1RYp38WiF+MGR383Vyg5eRZ6CgrX0hdtuC8Q
zkLNs/mjUzBRMB0GA1UdDgQWBBT4inOiAatfjPtiQ7a/VpQ2bHkKZTAfBgNVHSME
GDAWgBT4inOiAatfjPtiQ7a/VpQ2bHkKZTAPBgNVHRMBAf8EBTADAQH/MAUGAytl
cANBADqqVFFmyulI++kxRLaFiWSqKYbm3XBW7ztO+iT62/t7J5oYkp8P2rIs5VD3
iONE/3NZywAAVrRzlbcm+/VKiwk=
-----END CERTIFICATE-----
";
    const THEIRS: &str = "-----BEGIN CERTIFICATE-----
MIIBMDCB46ADAgECAhQHy6hENOE7iPUoEs3qU9DGjAvP5TAFBgMrZXAwDTELMAkG
A1UEAwwCY2EwIBcNMjYxMTI5MTI1MDExWhgPMjEyNjExMDUxMjUwMTFaMA0xCzAJ
BgNVBAMMAmNhMCowBQYDK2VwAyEAvlq64zzOjiZ6qguPuQzSlsDG80hMG1nORgb4
BsxCWW6jUzBRMB0GA1UdDgQWBBQ8pxqg4yGWAklUWeO9jx4zlZ6ZhTAfBgNVHSME
GDAWgBQ8pxqg4yGWAklUWeO9jx4zlZ6ZhTAPBgNVHRMBAf8EBTADAQH/MAUGAytl
cANBAP9ODX/Rjp6OzHnrkBqUug4ogzQH3/eqxkcl/ahL6NkRxFQmckA+T+6T1sYl
Vl5+nXja5u0h8Hv/EHtnTqcLfws=
-----END CERTIFICATE-----
";
    const LISTS_ALONE: &str = "-----BEGIN CERTIFICATE-----
MIIBQDCB86ADAgECAhQ+r3RuoYgim9Z0zQFgAfk3NC7KBDAFBgMrZXAwDTELMAkG
A1UEAwwCY2EwIBcNMjYxMTI5MTI1MDEyWhgPMjEyNjExMDUxMjUwMTJaMA0xCzAJ
BgNVBAMMAmNhMCowBQYDK2VwAyEA0Xl2iWjFkoDPhZ7ov6POjU7cYf2G5karHxj1
8B9rdYajYzBhMB0GA1UdDgQWBBQ+xpJkvfeHgpieKR0g0W3OE26KeTAfBgNVHSME
GDAWgBQ+xpJkvfeHgpieKR0g0W3OE26KeTAPBgNVHRMBAf8EBTADAQH/MA4GA1Ud
DwEB/wQEAwIBAjAFBgMrZXADQQBXKehWSK0ynEux0P+ehvSWMkNlmyfdp7kXUAja
CQdk4pFRsqo55jLwXimuyktwGDrEY3T6NqNxZ1Icp3QkhkMJ
-----END CERTIFICATE-----
";
    /// Of version 1, signed by each.
    const VERSION_1: &str = "-----BEGIN CERTIFICATE-----
MIHXMIGKAhQ/kDBHukeoA5TuU+91r3LN8HH/NDAFBgMrZXAwDTELMAkGA1UEAwwC
Y2EwIBcNMjYxMTI5MTI1MDEyWhgPMjEyNjExMDUxMjUwMTJaMA4xDDAKBgNVBAMM
A2FwcDAqMAUGAytlcAMhANzcUPA7/eW+iOp1kvZxmhs25K6HB/L4MbcVIkBZu9Sq
MAUGAytlcANBAIzYZtZ9vUtMWQEUtIwgkciwHw6EsRC+Qe7eWsfBxvG/Oqohpoh8
t1qCM41lAHlVHvTvUYarAxpGFkXQOrDP6gc=
-----END CERTIFICATE-----
";
    const VERSION_1_OF_THEIRS: &str = "-----BEGIN CERTIFICATE-----
MIHXMIGKAhRPinhxAPIzULw2wZ4Vqrg+bE4rnTAFBgMrZXAwDTELMAkGA1UEAwwC
Y2EwIBcNMjYxMTI5MTI1MDEyWhgPMjEyNjExMDUxMjUwMTJaMA4xDDAKBgNVBAMM
A2FwcDAqMAUGAytlcAMhANzcUPA7/eW+iOp1kvZxmhs25K6HB/L4MbcVIkBZu9Sq
MAUGAytlcANBAB12nFyXfQtFESAUo1p9GaePX99KUJECf5zlZ12I2TQTLsMb2/Qo
h/+gDWnEqj8Fgh6NYP8ku4QnpuxlDWV7cgo=
-----END CERTIFICATE-----
";
    /// They say that they are authorities; the second one is for servers.
    const SAYS_AUTHORITY: &str = "-----BEGIN CERTIFICATE-----
MIIBMTCB5KADAgECAhQtFxYniRrAySCjP+64cN5KgzKgjzAFBgMrZXAwDTELMAkG
A1UEAwwCY2EwIBcNMjYxMTI5MTI1MDEyWhgPMjEyNjExMDUxMjUwMTJaMA4xDDAK
BgNVBAMMA2FwcDAqMAUGAytlcAMhABDA+ZgOHQU5WzgaRtl3uTNsoXsjXmV35hTl
Rg7g2Eqgo1MwUTAdBgNVHQ4EFgQU7s6+LoNTptxtPetv9gEpwpyr1UowHwYDVR0j
BBgwFoAU+IpzogGrX4z7YkO2v1aUNmx5CmUwDwYDVR0TAQH/BAUwAwEB/zAFBgMr
ZXADQQAXoEwKnifAiKAuodsGLj93kt1cCSKkrk5CFdnx4pJaTJI8hXyAKpN6tEC2
tLqpuNxB12Lq6PcgXluYMnnmShkE
-----END CERTIFICATE-----
";
    const FOR_SERVERS: &str = "-----BEGIN CERTIFICATE-----
MIIBRjCB+aADAgECAhQBpVKAWRZCMHr37vuaY8vSM+B8fzAFBgMrZXAwDTELMAkG
A1UEAwwCY2EwIBcNMjYxMTI5MTI1MDEyWhgPMjEyNjExMDUxMjUwMTJaMA4xDDAK
BgNVBAMMA2FwcDAqMAUGAytlcAMhADxIxvg9BWXBeBLjJ6T5Q964aj7yaI1yY9/P
chcHgAlUo2gwZjAdBgNVHQ4EFgQUgmoFO51nTr6zZP0XAe6kv1qd14cwHwYDVR0j
BBgwFoAU+IpzogGrX4z7YkO2v1aUNmx5CmUwDwYDVR0TAQH/BAUwAwEB/zATBgNV
HSUEDDAKBggrBgEFBQcDATAFBgMrZXADQQAHtnWW1q/TrR+lGIwVpcmNFQmNiT+d
Zx1yAG2bNatlvtPJN5OmcZ0wgHRboihS2Z5NExQY8PJiX7y6Su190H8C
-----END CERTIFICATE-----
";
    /// Of one key: an authority, and the same with a critical extension that nobody knows. Both signed a certificate of version 1, and one that says
    /// for what it is in words that cannot be read.
    const PLAIN: &str = "-----BEGIN CERTIFICATE-----
MIIBDzCBwqADAgECAhRCoylHMzYTuXQnRL0CpHzoVSL7XzAFBgMrZXAwDTELMAkG
A1UEAwwCY2EwIBcNMjYxMTI5MTMyNTIwWhgPMjEyNjExMDUxMzI1MjBaMA0xCzAJ
BgNVBAMMAmNhMCowBQYDK2VwAyEAY+Lfi5twQZJcR24gi5d/hW/Dw7kS5X9k3Dln
BG3MD4+jMjAwMA8GA1UdEwEB/wQFMAMBAf8wHQYDVR0OBBYEFBRjk5DZRn7R0s67
08HtmofqYG0hMAUGAytlcANBAHtOSHTMfP/F3At1O7lzyP/qIVT2bp5obc2QnMHV
O6S4W/pCesjzFEzSFf9kUvNdAsc5C8mu92XMdCpS1pSv+QM=
-----END CERTIFICATE-----
";
    const CRITICAL: &str = "-----BEGIN CERTIFICATE-----
MIIBIzCB1qADAgECAhRIB9ptewwYzQy6ZBWrQALlmvE87TAFBgMrZXAwDTELMAkG
A1UEAwwCY2EwIBcNMjYxMTI5MTMyNTIwWhgPMjEyNjExMDUxMzI1MjBaMA0xCzAJ
BgNVBAMMAmNhMCowBQYDK2VwAyEAY+Lfi5twQZJcR24gi5d/hW/Dw7kS5X9k3Dln
BG3MD4+jRjBEMA8GA1UdEwEB/wQFMAMBAf8wEgYJKwYBBAGDsgMBAQH/BAIFADAd
BgNVHQ4EFgQUFGOTkNlGftHSzrvTwe2ah+pgbSEwBQYDK2VwA0EAjkSoVthcQI96
1X5TD4mWO0tsJzguHV0OYeOrpuBxt1QRMUiPHrtIGClbGDi4z8V69+sG2JjyatEG
mALddyHEAQ==
-----END CERTIFICATE-----
";
    const VERSION_1_OF_BOTH: &str = "-----BEGIN CERTIFICATE-----
MIHXMIGKAhRBPI3kZ4bmAoGsJwTKej/cGuNjDzAFBgMrZXAwDTELMAkGA1UEAwwC
Y2EwIBcNMjYxMTI5MTMyNTIwWhgPMjEyNjExMDUxMzI1MjBaMA4xDDAKBgNVBAMM
A2FwcDAqMAUGAytlcAMhAAPxd0ocpZkt1ozGLWdXqNaQ5yaRwM20kaARVXvrAYJJ
MAUGAytlcANBAPPDtofhGzwRMOQ8LUxwSFwgnjQdvOVTScsr9K08WFM2l6/6zmyH
3BT/JoSjUXmg4KEXFp0InPd3wTPsEHK2FAg=
-----END CERTIFICATE-----
";
    const UNREADABLE: &str = "-----BEGIN CERTIFICATE-----
MIIBOTCB7KADAgECAhRy+Bvy9PHd6GRelva27SfpWNoNjDAFBgMrZXAwDTELMAkG
A1UEAwwCY2EwIBcNMjYxMTI5MTMyNTIwWhgPMjEyNjExMDUxMzI1MjBaMA4xDDAK
BgNVBAMMA2FwcDAqMAUGAytlcAMhAAPxd0ocpZkt1ozGLWdXqNaQ5yaRwM20kaAR
VXvrAYJJo1swWTAMBgNVHRMEBTADAQH/MAkGA1UdJQQCBQAwHQYDVR0OBBYEFE0f
k2xfbe8s1M0WnSIrI3qNH47IMB8GA1UdIwQYMBaAFBRjk5DZRn7R0s6708Htmofq
YG0hMAUGAytlcANBANTrl9+mPN44GDK69s4oZfOV1pAhWJFXwwPlyi/XrwXCVFvD
sE3cr/eORIK78ZdMQ95Z/AeUXTrTOYbWbYMSkQM=
-----END CERTIFICATE-----
";
    const NOW: i64 = 1_800_000_000;

    fn der(pem: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
    }

    fn is_good(leaf: &str, authorities: &[&str], now_secs: i64) -> bool {
        let authorities: Vec<_> = authorities.iter().map(|pem| der(pem)).collect();
        let authorities: Vec<&[u8]> = authorities.iter().map(|der| &der[..]).collect();
        is_signed_by_one(&der(leaf), &authorities, now_secs)
    }

    #[test]
    fn what_an_authority_itself_signed_is_good_for_a_client() {
        for leaf in [VERSION_1, SAYS_AUTHORITY] {
            assert!(is_good(leaf, &[THEIRS, OURS], NOW));
            assert!(!is_good(leaf, &[THEIRS, LISTS_ALONE], NOW));
            assert!(!is_good(leaf, &[], NOW));
            assert!(!is_good(leaf, &[OURS], 1), "it has not begun");
            assert!(!is_good(leaf, &[OURS], i64::MAX), "it has ended");
        }
        assert!(is_good(VERSION_1_OF_THEIRS, &[THEIRS], NOW));
        assert!(!is_good(VERSION_1_OF_THEIRS, &[OURS], NOW), "the key is another one");
        assert!(!is_good(FOR_SERVERS, &[OURS], NOW));
        let mut changed = der(VERSION_1).to_vec();
        let last = changed.len() - 1;
        changed[last] ^= 1;
        assert!(!is_signed_by_one(&changed, &[&der(OURS)], NOW));
        assert!(!is_signed_by_one(b"no certificate", &[&der(OURS)], NOW));
    }

    #[test]
    fn what_is_not_understood_of_a_certificate_or_its_authority_lets_nobody_in() {
        assert!(is_good(VERSION_1_OF_BOTH, &[PLAIN], NOW));
        assert!(!is_good(VERSION_1_OF_BOTH, &[CRITICAL], NOW));
        assert!(!is_good(UNREADABLE, &[PLAIN], NOW));
    }

    #[test]
    fn such_a_certificate_logs_in_by_a_role_of_its_authority() {
        let role = |pem: &str| {
            let mut role = CertRole::default();
            pem.clone_into(&mut role.certificate);
            role
        };
        for leaf in [VERSION_1, SAYS_AUTHORITY] {
            assert!(role(OURS).trusts(&[der(leaf).to_vec()], NOW));
            assert!(!role(THEIRS).trusts(&[der(leaf).to_vec()], NOW));
        }
        assert!(!role(OURS).trusts(&[der(FOR_SERVERS).to_vec()], NOW));
    }
}
