//! Issuers of a mount.

use super::*;

#[test]
fn issuers_are_made_named_chosen_and_deleted_and_outlive_a_start() {
    let mount = TestMount::new(&ENGINE);
    let none = "no default issuer currently configured";
    assert_eq!(refusal(mount.ask(NOW, Read, "config/ca", "")), none);
    assert_eq!(mount.raw(NOW, Read, "public_key", b"").unwrap_err().to_string(), none);
    assert_eq!(mount.ask(NOW, List, "issuers", ""), Err(Error::NotFound));
    let first = ask(&mount, "config/ca", r#"{"key_type":"ed25519"}"#).unwrap();
    let body = r#"{"key_type":"ec","set_default":true}"#;
    let second = ask(&mount, "issuers/import/second", body).unwrap();
    let (first_id, second_id) =
        (TestMount::text(&first, "issuer_id"), TestMount::text(&second, "issuer_id"));
    assert_eq!(mount.ask(NOW, Read, "config/ca", "").unwrap(), second);
    for (path, body, why) in [
        ("issuers/import/second", r#"{"key_type":"ec"}"#, "issuer name already in use"),
        (
            "issuers/import/default",
            r#"{"key_type":"ec"}"#,
            "reserved keyword 'default' can not be used as issuer name",
        ),
        (
            "config/ca",
            r#"{"key_type":"ec","issuer_name":"a b"}"#,
            "issuer name contained invalid characters",
        ),
        ("issuer/second", r#"{"issuer_name":""}"#, "expected non-empty issuer name"),
        ("issuer/none", r#"{"issuer_name":"x"}"#, "unable to find issuer for reference: none"),
        (
            "config/issuers",
            r#"{"default":"default"}"#,
            "Invalid issuer specification; must be non-empty and can't be 'default'.",
        ),
        ("config/issuers", r#"{"default":"none"}"#, "unable to find issuer for reference: none"),
        ("config/ca", r#"{"generate_signing_key":false}"#, "missing public_key"),
        (
            "config/ca",
            r#"{"key_type":"rsa","key_bits":1024}"#,
            "refusing to generate weak rsa key: 1024 bits < 2048 bits",
        ),
        ("config/ca", r#"{"key_type":"dsa"}"#, "unknown ssh key pair algorithm: dsa"),
        (
            "config/ca",
            r#"{"public_key":"x"}"#,
            "only one of public_key and private_key set; both must be set to use, or both must be blank to auto-generate",
        ),
        (
            "config/ca",
            r#"{"public_key":"x","generate_signing_key":true}"#,
            "public_key and private_key must not be set when generate_signing_key is set to true",
        ),
        (
            "config/ca",
            r#"{"public_key":"x","private_key":"y"}"#,
            "could not parse public_key provided value: illegal base64 data at input byte 0",
        ),
    ] {
        assert_eq!(refusal(ask(&mount, path, body)), why, "{path} {body}");
    }
    ask(&mount, &format!("issuer/{first_id}"), r#"{"issuer_name":"first"}"#).unwrap();
    let chosen = ask(&mount, "config/issuers", r#"{"default":"first"}"#).unwrap();
    assert_eq!(TestMount::text(&chosen, "default"), first_id);
    let mount = mount.restarted();
    let line = TestMount::text(&first, "public_key").into_bytes();
    assert_eq!(mount.raw(NOW, Read, "public_key", b""), Ok((200, line)));
    let line = TestMount::text(&second, "public_key").into_bytes();
    assert_eq!(
        mount.raw(NOW, Read, &format!("issuer/{second_id}/public_key"), b""),
        Ok((200, line))
    );
    let listed = mount.ask(NOW, List, "issuers", "").unwrap();
    assert!(
        TestMount::text(&listed, "key_info").contains(r#""is_default":true,"issuer_name":"first""#)
    );
    role(&mount, r#","default_user":"x","issuer_ref":"second""#);
    let renamed = ask(&mount, "issuer/second", r#"{"issuer_name":"other"}"#).unwrap();
    assert_eq!(TestMount::text(&renamed, "issuer_name"), "other");
    assert_eq!(refusal(sign(&mount, "")), "unable to find issuer for reference: second");
    role(&mount, r#","default_user":"x""#);
    assert_eq!(said(&sign(&mount, "").unwrap()).signature, "ssh-ed25519");
    mount.ask(NOW, Delete, "issuer/first", "").unwrap();
    assert_eq!(refusal(sign(&mount, "")), none);
    mount.ask(NOW, Delete, "issuer/none", "").unwrap();
    mount.ask(NOW, Delete, "config/ca", "").unwrap();
    assert_eq!(mount.ask(NOW, List, "issuers", ""), Err(Error::NotFound));
    let none = refusal(mount.ask(NOW, Read, "config/issuers", ""));
    assert_eq!(none, "no default issuer currently configured");
    assert_eq!(mount.names(), ["config/issuers", "role/r"], "no key is left");
}

#[test]
fn a_ca_that_is_taken_in_signs_and_is_refused_with_the_half_of_another() {
    let text = |key: &SshSigningKey| key.to_pem().unwrap().replace('\n', "\\n");
    let (key, other) = (
        SshSigningKey::make(PkiKeyKind::P384).unwrap(),
        SshSigningKey::make(PkiKeyKind::P384).unwrap(),
    );
    let mount = TestMount::new(&ENGINE);
    let body = |public: &SshSigningKey| {
        let line = public.public().line();
        format!(r#"{{"private_key":"{}","public_key":"{}"}}"#, text(&key), line.trim())
    };
    let refused = refusal(ask(&mount, "config/ca", &body(&other)));
    assert_eq!(refused, "public_key is not the public key of private_key");
    let made = ask(&mount, "config/ca", &body(&key)).unwrap();
    assert_eq!(TestMount::text(&made, "public_key"), key.public().line());
    role(&mount, r#","default_user":"x""#);
    assert_eq!(said(&sign(&mount, "").unwrap()).signature, "ecdsa-sha2-nistp384");
}
