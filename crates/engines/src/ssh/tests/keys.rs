//! Which keys are signed, and how.

use super::*;

/// A key of each type, as a line; those on security keys have the fields of plain ones.
fn key_of(key_type: KeyType) -> String {
    let plain = match key_type {
        KeyType::Rsa => PkiKeyKind::Rsa(2048),
        KeyType::EcdsaP256 | KeyType::SkEcdsaP256 => PkiKeyKind::P256,
        KeyType::EcdsaP384 => PkiKeyKind::P384,
        KeyType::EcdsaP521 => PkiKeyKind::P521,
        KeyType::Ed25519 | KeyType::SkEd25519 => PkiKeyKind::Ed25519,
    };
    let plain = SshSigningKey::make(plain).unwrap();
    let mut reader = SshReader::new(plain.public().blob());
    reader.string().unwrap();
    let mut writer = SshWriter::default();
    writer.string(key_type.name().as_bytes()).raw(reader.rest());
    if key_type.name().starts_with("sk-") {
        writer.string(b"ssh:");
    }
    SshPublicKey::from_blob(&writer.into_bytes()).unwrap().line().trim().to_owned()
}

/// RSA with 1024 bits, which `ssh-keygen` made.
const RSA_1024: &str = include_str!("../../../../ssh/tests/keys/rsa1024.pub");

#[test]
fn the_types_and_sizes_of_keys_are_those_that_the_role_names() {
    let rsa_1024 = RSA_1024.trim().to_owned();
    let keys: Vec<(&str, String)> = KeyType::ALL
        .iter()
        .map(|key_type| (key_type.name(), key_of(*key_type)))
        .chain([("weak", rsa_1024)])
        .collect();
    let signed = |lengths: &str| -> Vec<&str> {
        let mount =
            with_role(&format!(r#","default_user":"x","allowed_user_key_lengths":{lengths}"#));
        let does = |key: &str| ask(&mount, "sign/r", &format!(r#"{{"public_key":"{key}"}}"#));
        keys.iter().filter(|(_, key)| does(key).is_ok()).map(|(name, _)| *name).collect()
    };
    let (rsa, p256, p384) = ("ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384");
    let (p521, ed25519) = ("ecdsa-sha2-nistp521", "ssh-ed25519");
    let sk_p256 = "sk-ecdsa-sha2-nistp256@openssh.com";
    let sk_ed25519 = "sk-ssh-ed25519@openssh.com";
    for (lengths, names) in [
        ("{}", &[rsa, p256, p384, p521, ed25519, sk_p256, sk_ed25519][..]),
        (r#"{"rsa":2048}"#, &[rsa]),
        (r#"{"ssh-rsa":[2048,4096]}"#, &[rsa]),
        (r#"{"rsa":"4096"}"#, &[]),
        (r#"{"rsa":[1024]}"#, &["weak"]),
        (r#"{"ec":256}"#, &[p256, sk_p256]),
        (r#"{"ecdsa":[384,521]}"#, &[p384, p521]),
        (r#"{"ecdsa-sha2-nistp256":0}"#, &[p256]),
        (r#"{"ed25519":0}"#, &[ed25519, sk_ed25519]),
        (r#"{"ssh-ed25519":0}"#, &[ed25519]),
        (
            r#"{"sk-ssh-ed25519@openssh.com":0,"sk-ecdsa-sha2-nistp256@openssh.com":0}"#,
            &[sk_p256, sk_ed25519],
        ),
        (r#"{"dsa":1024}"#, &[]),
    ] {
        assert_eq!(signed(lengths), names, "{lengths}");
    }
    let mount =
        with_role(r#","default_user":"x","allowed_user_key_lengths":{"rsa":4096,"ed25519":0}"#);
    let does = |key: &str| refusal(ask(&mount, "sign/r", &format!(r#"{{"public_key":"{key}"}}"#)));
    let before = "public_key failed to meet the key requirements: ";
    assert_eq!(does(&keys[1].1), format!("{before}key of type ecdsa is not allowed"));
    assert_eq!(does(&keys[0].1), format!("{before}key is of an invalid size: 2048"));
    let mount = with_role(r#","default_user":"x""#);
    let refused = refusal(ask(&mount, "sign/r", &format!(r#"{{"public_key":"{}"}}"#, keys[7].1)));
    assert!(refused.starts_with(&format!("{before}RSA with 1024 bits is weak")), "{refused}");
    let refused = refusal(ask(&mount, "sign/r", r#"{"public_key":"rubbish"}"#));
    assert_eq!(
        refused,
        "failed to parse public_key as SSH key: illegal base64 data at input byte 4"
    );
}

#[test]
fn rsa_signs_with_sha_2_and_nothing_with_sha_1() {
    let mount = TestMount::new(&ENGINE);
    ask(&mount, "config/ca", r#"{"key_type":"rsa","key_bits":2048}"#).unwrap();
    role(&mount, r#","default_user":"x""#);
    assert_eq!(said(&sign(&mount, "").unwrap()).signature, "rsa-sha2-256");
    role(&mount, r#","default_user":"x","algorithm_signer":"rsa-sha2-512""#);
    assert_eq!(said(&sign(&mount, "").unwrap()).signature, "rsa-sha2-512");
    let with = |name: &str| {
        let body = format!(
            r#"{{"key_type":"ca","allow_user_certificates":true,"algorithm_signer":"{name}"}}"#
        );
        ask(&mount, "roles/r", &body)
    };
    assert!(refusal(with("ssh-rsa")).contains("OpenSSH refuses since 8.8"));
    assert_eq!(refusal(with("md5")), "unknown algorithm signer \"md5\"");
}

#[test]
fn a_key_is_made_and_signed_where_the_role_allows_its_kind() {
    let mount = with_role(r#","default_user":"x""#);
    for (body, type_name, private_type) in [
        (r#"{"key_type":"ed25519"}"#, "ssh-ed25519-cert-v01@openssh.com", "ed25519"),
        (r#"{"key_type":"ec"}"#, "ecdsa-sha2-nistp256-cert-v01@openssh.com", "ec"),
        (r#"{"key_type":"ec","key_bits":521}"#, "ecdsa-sha2-nistp521-cert-v01@openssh.com", "ec"),
        ("{}", "ssh-rsa-cert-v01@openssh.com", "rsa"),
        // As `ssh-keygen -l` and the CA's own `key_type` have them.
        (r#"{"key_type":"ssh-ed25519"}"#, "ssh-ed25519-cert-v01@openssh.com", "ed25519"),
        (r#"{"key_type":"ssh-rsa"}"#, "ssh-rsa-cert-v01@openssh.com", "rsa"),
        (r#"{"key_type":"ecdsa-sha2-nistp384"}"#, "ecdsa-sha2-nistp384-cert-v01@openssh.com", "ec"),
    ] {
        let answer = ask(&mount, "issue/r", body).unwrap();
        let told = said(&answer);
        assert_eq!(told.type_name, type_name);
        assert_eq!(TestMount::text(&answer, "private_key_type"), private_type);
        let key = SshSigningKey::from_pem(&TestMount::text(&answer, "private_key")).unwrap();
        assert!(told.key_id.ends_with(&key.public().hash()), "the key id is of the key");
    }
    for (body, why) in [
        (r#"{"key_type":"dsa"}"#, "key_type \"dsa\" is none: it is \"rsa\", \"ec\" or \"ed25519\""),
        (r#"{"key_bits":1024}"#, "refusing to generate weak rsa key: 1024 bits < 2048 bits"),
        (r#"{"key_type":"ec","key_bits":1}"#, "unknown ECDSA key pair algorithm and bits: ec / 1"),
    ] {
        assert_eq!(refusal(ask(&mount, "issue/r", body)), why);
    }
    role(&mount, r#","default_user":"x","allowed_user_key_lengths":{"rsa":4096}"#);
    let refused = refusal(ask(&mount, "issue/r", r#"{"key_type":"ec"}"#));
    assert_eq!(refused, "provided key_type value not in allowed_user_key_types");
    let refused = refusal(ask(&mount, "issue/r", "{}"));
    assert_eq!(refused, "provided key_bits value not in list of role's allowed_user_key_types");
}
