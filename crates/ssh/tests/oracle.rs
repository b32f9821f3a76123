//! Certificates and keys against another implementation (`ssh-key`), and against keys that `ssh-keygen` made.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA512, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use kallisto_ssh::certificate::{PRINCIPALS_MAX, check_principal};
use kallisto_ssh::wire::{SshReader, SshWriter};
use kallisto_ssh::{
    CertificateKind, KeyType, OptionMap, PkiKeyKind, RsaHash, SshContents, SshPublicKey,
    SshSigningKey,
};

const ED25519_KEY: &str = include_str!("keys/ed25519");
const ED25519_PUB: &str = include_str!("keys/ed25519.pub");
const RSA_1024_PUB: &str = include_str!("keys/rsa1024.pub");
const ENCRYPTED: &str = include_str!("keys/encrypted");

/// Private keys in every form that `ssh-keygen` writes, with their public halves.
const PAIRS: &[(&str, &str)] = &[
    (ED25519_KEY, ED25519_PUB),
    (include_str!("keys/p256"), include_str!("keys/p256.pub")),
    (include_str!("keys/p384"), include_str!("keys/p384.pub")),
    (include_str!("keys/p521"), include_str!("keys/p521.pub")),
    (include_str!("keys/rsa"), include_str!("keys/rsa.pub")),
    (include_str!("keys/rsa3072"), include_str!("keys/rsa3072.pub")),
    (include_str!("keys/rsa_pem"), include_str!("keys/rsa_pem.pub")),
    (include_str!("keys/p256_pem"), include_str!("keys/p256_pem.pub")),
    (include_str!("keys/p384_pkcs8"), include_str!("keys/p384_pkcs8.pub")),
];

/// A key on a security key, of the fields of a plain one.
fn on_security_key(plain: &SshPublicKey, key_type: KeyType) -> SshPublicKey {
    let mut reader = SshReader::new(plain.blob());
    reader.string().unwrap();
    let mut writer = SshWriter::default();
    writer.string(key_type.name().as_bytes()).raw(reader.rest()).string(b"ssh:");
    SshPublicKey::from_blob(&writer.into_bytes()).unwrap()
}

/// A key of each type that users have.
fn user_keys() -> Vec<SshPublicKey> {
    let mut keys: Vec<_> =
        PAIRS.iter().map(|(_, line)| SshPublicKey::parse(line).unwrap()).collect();
    keys.push(on_security_key(&keys[0], KeyType::SkEd25519));
    keys.push(on_security_key(&keys[1], KeyType::SkEcdsaP256));
    keys
}

fn options(pairs: &[(&str, &str)]) -> OptionMap {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn contents(public: SshPublicKey) -> SshContents {
    SshContents {
        public,
        serial: 0x0f30_9cb5_e191_b2b4,
        kind: CertificateKind::User,
        key_id: "vault-token-abc".to_owned(),
        principals: vec!["bob".to_owned(), "ubuntu".to_owned()],
        valid_after: 1_795_413_580,
        valid_before: 1_795_415_410,
        critical_options: options(&[("force-command", "/bin/true"), ("verify-required", "")]),
        extensions: options(&[("login@github.com", "bob"), ("permit-pty", "")]),
        nonce: [7; 32],
    }
}

/// Checks a signature: the blob has the name of its algorithm before it.
fn verifies(ca: &SshPublicKey, message: &[u8], blob: &[u8]) -> bool {
    let mut reader = SshReader::new(blob);
    let (name, signature) = (reader.text().unwrap(), reader.string().unwrap());
    reader.finish().unwrap();
    let mut key = SshReader::new(ca.blob());
    key.string().unwrap();
    if ca.key_type() == KeyType::Rsa {
        let (e, n) = (key.positive().unwrap(), key.positive().unwrap());
        let parameters = match name {
            "rsa-sha2-256" => &RSA_PKCS1_2048_8192_SHA256,
            "rsa-sha2-512" => &RSA_PKCS1_2048_8192_SHA512,
            other => panic!("{other}"),
        };
        return RsaPublicKeyComponents { n, e }.verify(parameters, message, signature).is_ok();
    }
    assert_eq!(name, ca.key_type().name());
    let (algorithm, bytes): (&dyn VerificationAlgorithm, usize) = match ca.key_type() {
        KeyType::Ed25519 => {
            let public = key.string().unwrap();
            return UnparsedPublicKey::new(&ED25519, public).verify(message, signature).is_ok();
        }
        KeyType::EcdsaP256 => (&ECDSA_P256_SHA256_FIXED, 32),
        KeyType::EcdsaP384 => (&ECDSA_P384_SHA384_FIXED, 48),
        KeyType::EcdsaP521 => (&ECDSA_P521_SHA512_FIXED, 66),
        other => panic!("{other:?}"),
    };
    key.string().unwrap();
    let mut numbers = SshReader::new(signature);
    let mut fixed = Vec::new();
    for _ in 0..2 {
        let number = numbers.positive().unwrap();
        fixed.extend(std::iter::repeat_n(0, bytes - number.len()).chain(number.iter().copied()));
    }
    numbers.finish().unwrap();
    let point = key.string().unwrap();
    algorithm.verify_sig(point, message, &fixed).is_ok()
}

#[test]
fn every_ca_signs_every_type_of_key_and_another_implementation_reads_what_was_said() {
    let kinds = [
        PkiKeyKind::Ed25519,
        PkiKeyKind::P256,
        PkiKeyKind::P384,
        PkiKeyKind::P521,
        PkiKeyKind::Rsa(2048),
    ];
    for kind in kinds {
        let ca = SshSigningKey::make(kind).unwrap();
        for public in user_keys() {
            for hash in [RsaHash::Sha256, RsaHash::Sha512] {
                let said = contents(public.clone());
                let signed = said.sign(&ca, hash).unwrap();
                let read = ssh_key::Certificate::from_openssh(signed.line().trim()).unwrap();
                assert_eq!(read.serial(), said.serial);
                assert_eq!(read.cert_type(), ssh_key::certificate::CertType::User);
                assert_eq!(read.key_id(), said.key_id);
                assert_eq!(read.valid_principals(), said.principals);
                assert_eq!(
                    (read.valid_after(), read.valid_before()),
                    (1_795_413_580, 1_795_415_410)
                );
                assert_eq!(read.nonce(), said.nonce);
                let own = ssh_key::PublicKey::from_openssh(public.line().trim()).unwrap();
                assert_eq!(read.public_key(), own.key_data(), "{public:?}");
                let signer = ssh_key::PublicKey::from_openssh(ca.public().line().trim()).unwrap();
                assert_eq!(read.signature_key(), signer.key_data());
                let told = |map: &ssh_key::certificate::OptionsMap| -> Vec<String> {
                    map.iter().map(|(name, value)| format!("{name}={value}")).collect()
                };
                assert_eq!(
                    told(read.critical_options()),
                    ["force-command=/bin/true", "verify-required="]
                );
                assert_eq!(told(read.extensions()), ["login@github.com=bob", "permit-pty="]);
                let blob: Vec<u8> = {
                    let mut writer = SshWriter::default();
                    let signature = read.signature();
                    writer.string(signature.algorithm().as_str().as_bytes());
                    writer.string(signature.as_bytes());
                    writer.into_bytes()
                };
                let message = &signed.bytes()[..signed.bytes().len() - blob.len() - 4];
                assert!(verifies(ca.public(), message, &blob), "{kind:?} for {public:?}");
                let mut other = message.to_vec();
                other[60] ^= 1;
                assert!(!verifies(ca.public(), &other, &blob), "whatever is changed is refused");
            }
        }
    }
}

#[test]
fn private_keys_of_every_form_are_the_halves_of_their_public_keys() {
    for (private, public) in PAIRS {
        let key = SshSigningKey::from_pem(private).unwrap();
        assert_eq!(*key.public(), SshPublicKey::parse(public).unwrap(), "{public}");
        let stored = SshSigningKey::from_pkcs8(key.pkcs8()).unwrap();
        assert_eq!(stored.public(), key.public());
        // What is written is read again, and as the same key.
        let written = key.to_pem().unwrap();
        assert!(written.ends_with("-----\n"), "ssh wants a newline at the end");
        assert_eq!(SshSigningKey::from_pem(&written).unwrap().public(), key.public());
    }
    let made = SshSigningKey::make(PkiKeyKind::Ed25519).unwrap();
    let read = ssh_key::PrivateKey::from_openssh(made.to_pem().unwrap().as_bytes()).unwrap();
    assert_eq!(read.public_key().to_openssh().unwrap(), made.public().line().trim());
}

#[test]
fn private_keys_that_are_damaged_or_have_a_passphrase_are_refused() {
    let refused = |text: &str| SshSigningKey::from_pem(text).unwrap_err().to_string();
    assert!(refused(ENCRYPTED).contains("has a passphrase"), "{}", refused(ENCRYPTED));
    let encrypted = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
    assert!(refused(encrypted).contains("has a passphrase"));
    for text in ["", "rubbish", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n", ED25519_PUB] {
        assert!(refused(text).starts_with("ssh: "), "{text}");
    }
    assert!(refused(&"A".repeat(40_000)).contains("too long"));
    assert!(SshSigningKey::from_pem(&format!("{ED25519_KEY}{ED25519_KEY}")).is_err());
    // Each byte that is changed makes it another key, or none: never one that signs for the public half it says.
    let block = pem_of(ED25519_KEY);
    let own = SshPublicKey::parse(ED25519_PUB).unwrap();
    for at in 0..block.len() {
        let mut changed = block.clone();
        changed[at] ^= 0x20;
        let text = ssh_text(&changed);
        if let Ok(key) = SshSigningKey::from_pem(&text) {
            assert_eq!(*key.public(), own, "byte {at}");
        }
    }
}

fn pem_of(text: &str) -> Vec<u8> {
    let lines: String = text.lines().filter(|line| !line.starts_with('-')).collect();
    data_encoding::BASE64.decode(lines.as_bytes()).unwrap()
}

fn ssh_text(bytes: &[u8]) -> String {
    let body = data_encoding::BASE64.encode(bytes);
    format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----\n")
}

#[test]
fn keys_of_users_are_read_as_another_implementation_reads_them() {
    for key in user_keys() {
        let line = key.line();
        let other = ssh_key::PublicKey::from_openssh(line.trim()).unwrap();
        assert_eq!(other.to_bytes().unwrap(), key.blob());
        assert_eq!(SshPublicKey::parse(&line).as_ref(), Ok(&key));
        let encoded = line.split(' ').nth(1).unwrap();
        assert_eq!(SshPublicKey::parse(encoded).as_ref(), Ok(&key), "base 64 alone");
    }
    let words = [
        (ED25519_PUB.replace("ssh-ed25519", "ssh-rsa"), "the line says \"ssh-rsa\""),
        (format!("from=\"a\" {ED25519_PUB}"), "illegal base64 data at input byte 3"),
        (format!("{ED25519_PUB}{ED25519_PUB}"), "more than one line"),
        ("rubbish".to_owned(), "illegal base64 data at input byte 4"),
        (String::new(), "no key"),
        ("AAAA".to_owned(), "ssh: short read"),
        ("A".repeat(20_000), "a key of more than 16384 bytes"),
    ];
    for (text, why) in words {
        let refused = SshPublicKey::parse(&text).unwrap_err().to_string();
        assert!(refused.contains(why), "{text}: {refused}");
    }
    // A certificate is no key, and DSA signs nothing any more.
    let ca = SshSigningKey::make(PkiKeyKind::Ed25519).unwrap();
    let certificate = contents(user_keys().remove(0)).sign(&ca, RsaHash::Sha256).unwrap();
    let refused = SshPublicKey::parse(&certificate.line()).unwrap_err().to_string();
    assert!(refused.contains("it is a certificate"), "{refused}");
    let mut dsa = SshWriter::default();
    dsa.string(b"ssh-dss").positive(&[1]).positive(&[1]).positive(&[1]).positive(&[1]);
    let refused = SshPublicKey::from_blob(&dsa.into_bytes()).unwrap_err().to_string();
    assert!(refused.contains("unknown key algorithm: \"ssh-dss\""), "{refused}");
    assert_eq!(SshPublicKey::parse(RSA_1024_PUB).unwrap().bits(), 1024, "a role may want it");
}

#[test]
fn a_key_with_any_byte_changed_is_another_key_or_none() {
    for key in user_keys() {
        for at in 0..key.blob().len() {
            let mut changed = key.blob().to_vec();
            changed[at] ^= 1;
            if let Ok(read) = SshPublicKey::from_blob(&changed) {
                assert_ne!(read, key);
                assert_eq!(read.blob(), changed);
            }
            assert!(SshPublicKey::from_blob(&key.blob()[..at]).is_err());
        }
        assert!(SshPublicKey::from_blob(&[key.blob(), &[0]].concat()).is_err());
    }
}

#[test]
fn what_is_taken_of_changed_keys_is_taken_by_another_implementation_and_as_the_same() {
    let keys = user_keys();
    let mut random = fastrand::Rng::with_seed(20_261_124);
    let mut taken = 0;
    for _ in 0..20_000 {
        let mut blob = random.choice(&keys).unwrap().blob().to_vec();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..blob.len());
            match random.u8(..4) {
                0 => drop(blob.remove(at)),
                1 => blob.insert(at, random.u8(..)),
                _ => blob[at] = random.u8(..),
            }
        }
        let Ok(key) = SshPublicKey::from_blob(&blob) else { continue };
        let other = ssh_key::PublicKey::from_bytes(&blob).unwrap();
        assert_eq!(other.to_bytes().unwrap(), key.blob());
        assert_eq!(other.algorithm().as_str(), key.key_type().name());
        taken += 1;
    }
    assert!(taken > 1000, "{taken} of 20,000 were keys: too few to say anything");
}

#[test]
fn a_principal_is_one_name_wherever_it_is_read() {
    for name in ["a", "root", "a.example.com", "*", "DOMAIN\\bob", "bob@example.com", "zoë"] {
        assert_eq!(check_principal(name), Ok(()), "{name}");
    }
    for name in
        ["", "a,b", "a b", "a\nb", "a\r", "a\0", "\ta", "a\u{a0}b", "a\u{85}b", "a\u{2028}b"]
    {
        assert!(check_principal(name).is_err(), "{name:?}");
        let mut said = contents(user_keys().remove(0));
        said.principals = vec!["bob".to_owned(), name.to_owned()];
        let ca = SshSigningKey::from_pem(ED25519_KEY).unwrap();
        assert!(said.sign(&ca, RsaHash::Sha256).is_err(), "{name:?}");
    }
}

#[test]
fn what_a_certificate_says_has_limits() {
    let ca = SshSigningKey::from_pem(ED25519_KEY).unwrap();
    let refused = |change: &dyn Fn(&mut SshContents)| {
        let mut said = contents(user_keys().remove(0));
        change(&mut said);
        said.sign(&ca, RsaHash::Sha256).map(drop).unwrap_err().to_string()
    };
    let many = |count: usize| (0..count).map(|at| format!("user{at}")).collect::<Vec<_>>();
    let why = refused(&|said| said.principals = many(PRINCIPALS_MAX + 1));
    assert_eq!(why, "more than 256 valid_principals");
    assert!(refused(&|said| said.key_id = "a\nb".to_owned()).contains("control character"));
    assert!(refused(&|said| said.key_id = "a".repeat(1025)).contains("more than 1024 bytes"));
    assert!(refused(&|said| said.valid_before = said.valid_after).contains("end before"));
    let why = refused(&|said| said.extensions = options(&[("permit-pty\n", "")]));
    assert!(why.contains("is no name for extensions"), "{why}");
    let why = refused(&|said| said.critical_options = options(&[("force-command", "a\nb")]));
    assert!(why.contains("control character"), "{why}");
    let long = "a".repeat(9000);
    assert!(refused(&|said| said.extensions = options(&[("a", &long)])).contains("8192 bytes"));
    let some = many(65).into_iter().map(|name| (name, String::new())).collect::<OptionMap>();
    assert_eq!(refused(&|said| said.extensions = some.clone()), "more than 64 extensions");
    // The largest that is allowed is read by another implementation.
    let mut said = contents(user_keys().remove(4));
    said.principals = (0..PRINCIPALS_MAX).map(|at| format!("{at:0>255}")).collect();
    let line = said.sign(&ca, RsaHash::Sha256).unwrap().line();
    let read = ssh_key::Certificate::from_openssh(line.trim()).unwrap();
    assert_eq!(read.valid_principals().len(), PRINCIPALS_MAX);
}
