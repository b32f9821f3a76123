//! What a mount signs, hands out and refuses.

use kallisto_api::Error;
use kallisto_api::json::Map;
use kallisto_auth::Operation::{Delete, List, Read, Update};
use kallisto_ssh::wire::{SshReader, SshWriter};
use kallisto_ssh::{KeyType, PkiKeyKind, SshPublicKey, SshSigningKey};

use super::ENGINE;
use super::otp_tests::with_otp;
use crate::testing::Mount;

pub(super) const NOW: i64 = 1_795_413_611;
const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKX3+zrQ9GRJOkjabqqcJjz3W1mXU73mSewfLIzdzAcU u@h";

fn mount() -> Mount {
    let mount = Mount::new(&ENGINE);
    ask(&mount, "config/ca", r#"{"key_type":"ed25519"}"#).unwrap();
    mount
}

pub(super) fn ask(mount: &Mount, path: &str, body: &str) -> Result<Map, Error> {
    mount.ask(NOW, Update, path, body)
}

pub(super) fn refusal(answer: Result<Map, Error>) -> String {
    answer.unwrap_err().to_string()
}

/// A mount with a CA and the role `r`, which signs for users.
fn with_role(more: &str) -> Mount {
    let mount = mount();
    role(&mount, more);
    mount
}

fn role(mount: &Mount, more: &str) {
    let body = format!(r#"{{"key_type":"ca","allow_user_certificates":true{more}}}"#);
    ask(mount, "roles/r", &body).unwrap();
}

fn sign(mount: &Mount, more: &str) -> Result<Map, Error> {
    ask(mount, "sign/r", &format!(r#"{{"public_key":"{KEY}"{more}}}"#))
}

/// What a certificate says, read field by field.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    type_name: String,
    kind: u32,
    key_id: String,
    principals: Vec<String>,
    lives: (u64, u64),
    critical_options: Vec<(String, String)>,
    extensions: Vec<(String, String)>,
    signature: String,
}

fn said(answer: &Map) -> Said {
    let line = Mount::text(answer, "signed_key");
    assert!(line.ends_with('\n'));
    let bytes = data_encoding::BASE64.decode(line.trim().split(' ').nth(1).unwrap().as_bytes());
    let bytes = bytes.unwrap();
    let mut reader = SshReader::new(&bytes);
    let uint64 = |reader: &mut SshReader<'_>| {
        u64::from_be_bytes(reader.take(8).unwrap().try_into().unwrap())
    };
    let type_name = reader.text().unwrap().to_owned();
    reader.string().unwrap();
    let fields = match type_name.split("-cert").next().unwrap() {
        "ssh-ed25519" => 1,
        _ => 2,
    };
    for _ in 0..fields {
        reader.string().unwrap();
    }
    let serial = uint64(&mut reader);
    assert_eq!(Mount::text(answer, "serial_number"), format!("{serial:x}"));
    let kind = reader.uint32().unwrap();
    let key_id = reader.text().unwrap().to_owned();
    let mut names = SshReader::new(reader.string().unwrap());
    let mut principals = Vec::new();
    while !names.rest().is_empty() {
        principals.push(names.text().unwrap().to_owned());
    }
    let lives = (uint64(&mut reader), uint64(&mut reader));
    let options = |bytes: &[u8]| {
        let mut reader = SshReader::new(bytes);
        let mut options = Vec::new();
        while !reader.rest().is_empty() {
            let name = reader.text().unwrap().to_owned();
            let data = reader.string().unwrap();
            let value = if data.is_empty() { "" } else { SshReader::new(data).text().unwrap() };
            options.push((name, value.to_owned()));
        }
        options
    };
    let critical_options = options(reader.string().unwrap());
    let extensions = options(reader.string().unwrap());
    reader.string().unwrap();
    SshPublicKey::from_blob(reader.string().unwrap()).unwrap();
    let mut signature = SshReader::new(reader.string().unwrap());
    reader.finish().unwrap();
    let signature = signature.text().unwrap().to_owned();
    Said { type_name, kind, key_id, principals, lives, critical_options, extensions, signature }
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn a_key_is_signed_as_the_role_says() {
    let mount = with_role(
        r#","allowed_users":"*","default_user":"ubuntu","default_extensions":{"permit-pty":""},"allowed_extensions":"permit-pty,permit-port-forwarding","ttl":"30m","max_ttl":"1h""#,
    );
    let answer = sign(&mount, "").unwrap();
    let hash = "fce9b05813fd7e29029383a3e56f4697e57a7c5ccac6c6fec9385aad503771eb";
    let (now, pty) = (NOW as u64, pair("permit-pty", ""));
    let expected = Said {
        type_name: "ssh-ed25519-cert-v01@openssh.com".to_owned(),
        kind: 1,
        key_id: format!("vault-{hash}"),
        principals: vec!["ubuntu".to_owned()],
        lives: (now - 30, now + 1800),
        critical_options: Vec::new(),
        extensions: vec![pty.clone()],
        signature: "ssh-ed25519".to_owned(),
    };
    assert_eq!(said(&answer), expected);
    let other = sign(
        &mount,
        r#","valid_principals":" bob ,alice,,bob","ttl":"5m","extensions":{"permit-port-forwarding":""}"#,
    );
    let other = said(&other.unwrap());
    assert_eq!(other.principals, ["alice", "bob"], "sorted, each once");
    assert_eq!(other.extensions, [pair("permit-port-forwarding", "")], "they replace the defaults");
    assert_eq!(other.lives, (now - 30, now + 300));
    for (more, why) in [
        (r#","ttl":"2h""#, "ttl is larger than maximum allowed 3600"),
        (r#","ttl":-5"#, "ttl cannot be negative"),
        (r#","extensions":{"x":"","a":""}"#, "extensions [a x] are not on allowed list"),
        (r#","cert_type":"host""#, "cert_type 'host' is not allowed by role"),
        (r#","cert_type":"both""#, "cert_type must be either 'user' or 'host'"),
        (r#","key_id":"mine""#, "setting key_id is not allowed by role"),
        (
            r#","extensions":{"permit-pty":{}}"#,
            "the value of \"permit-pty\" in extensions is no text",
        ),
    ] {
        assert_eq!(refusal(sign(&mount, more)), why, "{more}");
    }
    assert_eq!(refusal(ask(&mount, "sign/none", "{}")), "Unknown role: none");
    assert_eq!(refusal(ask(&mount, "issue/none", "{}")), "unknown role: none");
    assert_eq!(refusal(ask(&mount, "sign/r", "{}")), "missing public_key");
}

#[test]
fn a_certificate_without_principals_is_refused_unless_the_role_says_so() {
    let refused = "refusing to issue unsafe, globally-valid certificate with no principals specified; \
                   set valid_principals or default_user";
    for more in [
        "",
        r#","allowed_users":"*""#,
        r#","allowed_users":"bob""#,
        r#","allow_host_certificates":true,"allowed_domains":"*""#,
    ] {
        let mount = with_role(more);
        for none in [
            "",
            r#","valid_principals":"""#,
            r#","valid_principals":" , ""#,
            r#","valid_principals":[]"#,
        ] {
            assert_eq!(refusal(sign(&mount, none)), refused, "{more}{none}");
        }
        if more.contains("host") {
            assert_eq!(refusal(sign(&mount, r#","cert_type":"host""#)), refused, "{more}");
        }
    }
    let mount = with_role(r#","allow_empty_principals":true"#);
    assert_eq!(said(&sign(&mount, "").unwrap()).principals, Vec::<String>::new());
    // An empty text names nobody: the default user is meant, never everybody.
    let mount = with_role(r#","allowed_users":"*","default_user":"ubuntu""#);
    assert_eq!(said(&sign(&mount, r#","valid_principals":"""#).unwrap()).principals, ["ubuntu"]);
}

#[test]
fn users_are_those_of_the_list_and_the_default_one() {
    let mount = with_role(r#","allowed_users":"bob,al*","default_user":"carol""#);
    for (asked, why) in [
        ("eve", "eve is not a valid value for valid_principals"),
        ("bob,eve", "eve is not a valid value for valid_principals"),
        ("alice", "alice is not a valid value for valid_principals"),
        ("BOB", "BOB is not a valid value for valid_principals"),
    ] {
        let more = format!(r#","valid_principals":"{asked}""#);
        assert_eq!(refusal(sign(&mount, &more)), why, "{asked}");
    }
    let more = r#","valid_principals":"al*,bob,carol""#;
    assert_eq!(said(&sign(&mount, more).unwrap()).principals, ["al*", "bob", "carol"]);
    let mount = with_role(r#","default_user":"carol""#);
    assert_eq!(said(&sign(&mount, "").unwrap()).principals, ["carol"]);
    let refused = refusal(sign(&mount, r#","valid_principals":"bob""#));
    assert_eq!(refused, "role is not configured to allow any principals");
}

#[test]
fn no_principal_is_two_for_a_server_that_splits_it() {
    let mount = with_role(r#","allowed_users":"*""#);
    for name in
        [r"a,root", r"a root", r"a\nroot", r"a\u0000root", r"a\rroot", r"\troot", r"a\u2028b"]
    {
        let refused = refusal(sign(&mount, &format!(r#","valid_principals":["{name}"]"#)));
        assert!(refused.contains("a principal has no comma, space or control character"), "{name}");
    }
    for name in [r"a\nroot", r"a\u0000root"] {
        let refused = refusal(sign(&mount, &format!(r#","valid_principals":"{name}""#)));
        assert!(refused.contains("a principal has no comma, space or control character"), "{name}");
    }
    let names: Vec<String> = (0..257).map(|at| format!("u{at}")).collect();
    let more = format!(r#","valid_principals":"{}""#, names.join(","));
    assert_eq!(refusal(sign(&mount, &more)), "more than 256 valid_principals");
}

#[test]
fn hosts_are_domains_or_below_them_as_the_role_says_whatever_their_case() {
    let ask_host = |flags: &str, host: &str| {
        let mount = mount();
        let body = format!(
            r#"{{"key_type":"ca","allow_host_certificates":true,"allowed_domains":"example.com,Glob.ORG"{flags}}}"#
        );
        ask(&mount, "roles/r", &body).unwrap();
        sign(&mount, &format!(r#","cert_type":"host","valid_principals":"{host}""#))
            .map(|answer| said(&answer).principals)
    };
    let bare = r#","allow_bare_domains":true"#;
    let below = r#","allow_subdomains":true"#;
    for (flags, host, is_allowed) in [
        ("", "example.com", false),
        (bare, "example.com", true),
        (bare, "EXAMPLE.com", true),
        (bare, "glob.org", true),
        (bare, "a.example.com", false),
        (below, "a.example.com", true),
        (below, "A.Example.COM", true),
        (below, "a.b.example.com", true),
        (below, "example.com", false),
        (below, ".example.com", false),
        (below, "evilexample.com", false),
        (below, "example.com.evil.org", false),
        (below, "a.example.com.", false),
    ] {
        let answer = ask_host(flags, host);
        assert_eq!(answer.is_ok(), is_allowed, "{flags} {host}: {answer:?}");
        if let Ok(names) = answer {
            assert_eq!(names, [host.to_ascii_lowercase()]);
        }
    }
    let twice = ask_host(below, "A.example.com,a.EXAMPLE.com,b.glob.org");
    assert_eq!(twice.unwrap(), ["a.example.com", "b.glob.org"], "each host once");
}

#[test]
fn what_identity_is_called_never_allows_more_than_the_literal_name() {
    let mount = with_role(
        r#","allowed_users":"{{identity.entity.name}},ops-{{identity.entity.metadata.team}}","allowed_users_template":true"#,
    );
    let asks = |mount: &Mount, user: &str| sign(mount, &format!(r#","valid_principals":"{user}""#));
    let refused = "root is not a valid value for valid_principals";
    assert_eq!(refusal(asks(&mount, "root")), refused, "who has no entity is no user");
    assert_eq!(refusal(asks(&mount, "ops-")), "ops- is not a valid value for valid_principals");
    for name in [
        "*",
        "a*",
        "root,admin",
        ",root",
        "a b",
        "root ",
        "a\nroot",
        "{{identity.entity.id}}",
        "}}root",
        "root\0",
        "\u{202e}toor",
        "root\u{200b}",
        "",
    ] {
        mount.say_identity("identity.entity.name", name);
        for user in ["root", "admin", "*", "a", "x", "ops-"] {
            assert!(asks(&mount, user).is_err(), "{name:?} is no {user}");
        }
    }
    mount.say_identity("identity.entity.name", "bob");
    mount.say_identity("identity.entity.metadata.team", "db");
    assert!(asks(&mount, "bob").is_ok());
    assert!(asks(&mount, "ops-db").is_ok());
    assert_eq!(refusal(asks(&mount, "root")), refused);
    // A role may want a value to be several, or any.
    mount.say_identity("identity.entity.name", "root,admin");
    role(
        &mount,
        r#","allowed_users":"{{identity.entity.name}}","allowed_users_template":true,"allow_commas_in_identity_templates":true"#,
    );
    assert!(asks(&mount, "root").is_ok() && asks(&mount, "admin").is_ok());
    assert!(asks(&mount, "bob").is_err());
    mount.say_identity("identity.entity.name", "*");
    assert!(asks(&mount, "bob").is_err());
    role(
        &mount,
        r#","allowed_users":"{{identity.entity.name}}","allowed_users_template":true,"allow_wildcards_in_identity_templates":true"#,
    );
    assert!(asks(&mount, "bob").is_ok());
}

#[test]
fn a_default_user_and_extensions_are_filled_in_or_left_out() {
    let mount = with_role(
        r#","allowed_users":"bob","default_user":"{{identity.entity.name}}","default_user_template":true,"default_extensions":{"permit-pty":"","login@github.com":"{{identity.entity.name}}"},"default_extensions_template":true"#,
    );
    let refused = refusal(sign(&mount, ""));
    assert!(
        refused.starts_with("refusing to issue unsafe"),
        "nobody has no default user: {refused}"
    );
    let answer = sign(&mount, r#","valid_principals":"bob""#).unwrap();
    assert_eq!(said(&answer).extensions, [pair("permit-pty", "")]);
    mount.say_identity("identity.entity.name", "alice");
    let told = said(&sign(&mount, "").unwrap());
    assert_eq!(told.principals, ["alice"], "the default user is always allowed");
    assert_eq!(told.extensions, [pair("login@github.com", "alice"), pair("permit-pty", "")]);
    mount.say_identity("identity.entity.name", "root,alice");
    assert!(sign(&mount, "").is_err());
}

#[test]
fn critical_options_are_those_of_the_list_or_any() {
    let mount = with_role(
        r#","default_user":"x","default_critical_options":{"force-command":"/bin/true"},"allowed_critical_options":"force-command,source-address""#,
    );
    let told = said(&sign(&mount, "").unwrap());
    assert_eq!(told.critical_options, [pair("force-command", "/bin/true")]);
    let told =
        said(&sign(&mount, r#","critical_options":{"source-address":"10.0.0.0/8"}"#).unwrap());
    assert_eq!(told.critical_options, [pair("source-address", "10.0.0.0/8")]);
    let refused = refusal(sign(&mount, r#","critical_options":{"verify-required":""}"#));
    assert_eq!(refused, "critical options not on allowed list: [verify-required]");
    let mount = with_role(r#","default_user":"x""#);
    let told = said(&sign(&mount, r#","critical_options":{"verify-required":""}"#).unwrap());
    assert_eq!(told.critical_options, [pair("verify-required", "")]);
}

#[test]
fn a_key_id_is_the_format_of_the_role_filled_in_once() {
    let mount = with_role(
        r#","default_user":"x","allow_user_key_ids":true,"key_id_format":"{{role_name}}/{{nothing}}/{{public_key_hash}}""#,
    );
    let told = said(&sign(&mount, "").unwrap());
    assert!(told.key_id.starts_with("r/{{nothing}}/fce9b058"), "{}", told.key_id);
    let told = said(&sign(&mount, r#","key_id":"{{role_name}}""#).unwrap());
    assert_eq!(told.key_id, "{{role_name}}", "what a request says is no format");
    let refused = refusal(sign(&mount, r#","key_id":"a\nAccepted password for root""#));
    assert_eq!(refused, "a key_id with a control character");
}

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
const RSA_1024: &str = include_str!("../../../ssh/tests/keys/rsa1024.pub");

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
    let mount = Mount::new(&ENGINE);
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
    ] {
        let answer = ask(&mount, "issue/r", body).unwrap();
        let told = said(&answer);
        assert_eq!(told.type_name, type_name);
        assert_eq!(Mount::text(&answer, "private_key_type"), private_type);
        let key = SshSigningKey::from_pem(&Mount::text(&answer, "private_key")).unwrap();
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

#[test]
fn issuers_are_made_named_chosen_and_deleted_and_outlive_a_start() {
    let mount = Mount::new(&ENGINE);
    let none = "no default issuer currently configured";
    assert_eq!(refusal(mount.ask(NOW, Read, "config/ca", "")), none);
    assert_eq!(mount.raw(NOW, Read, "public_key", b"").unwrap_err().to_string(), none);
    assert_eq!(mount.ask(NOW, List, "issuers", ""), Err(Error::NotFound));
    let first = ask(&mount, "config/ca", r#"{"key_type":"ed25519"}"#).unwrap();
    let body = r#"{"key_type":"ec","set_default":true}"#;
    let second = ask(&mount, "issuers/import/second", body).unwrap();
    let (first_id, second_id) =
        (Mount::text(&first, "issuer_id"), Mount::text(&second, "issuer_id"));
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
    assert_eq!(Mount::text(&chosen, "default"), first_id);
    let mount = mount.restarted();
    let line = Mount::text(&first, "public_key").into_bytes();
    assert_eq!(mount.raw(NOW, Read, "public_key", b""), Ok((200, line)));
    let line = Mount::text(&second, "public_key").into_bytes();
    assert_eq!(
        mount.raw(NOW, Read, &format!("issuer/{second_id}/public_key"), b""),
        Ok((200, line))
    );
    let listed = mount.ask(NOW, List, "issuers", "").unwrap();
    assert!(
        Mount::text(&listed, "key_info").contains(r#""is_default":true,"issuer_name":"first""#)
    );
    role(&mount, r#","default_user":"x","issuer_ref":"second""#);
    let renamed = ask(&mount, "issuer/second", r#"{"issuer_name":"other"}"#).unwrap();
    assert_eq!(Mount::text(&renamed, "issuer_name"), "other");
    assert_eq!(refusal(sign(&mount, "")), "unable to find issuer for reference: second");
    role(&mount, r#","default_user":"x""#);
    assert_eq!(said(&sign(&mount, "").unwrap()).signature, "ssh-ed25519");
    mount.ask(NOW, Delete, "issuer/first", "").unwrap();
    assert_eq!(refusal(sign(&mount, "")), none);
    mount.ask(NOW, Delete, "issuer/none", "").unwrap();
    mount.ask(NOW, Delete, "config/ca", "").unwrap();
    assert_eq!(mount.ask(NOW, List, "issuers", ""), Err(Error::NotFound));
    assert_eq!(mount.names(), ["config/issuers", "role/r"], "no key is left");
}

#[test]
fn a_ca_that_is_taken_in_signs_and_is_refused_with_the_half_of_another() {
    let text = |key: &SshSigningKey| key.to_pem().unwrap().replace('\n', "\\n");
    let (key, other) = (
        SshSigningKey::make(PkiKeyKind::P384).unwrap(),
        SshSigningKey::make(PkiKeyKind::P384).unwrap(),
    );
    let mount = Mount::new(&ENGINE);
    let body = |public: &SshSigningKey| {
        let line = public.public().line();
        format!(r#"{{"private_key":"{}","public_key":"{}"}}"#, text(&key), line.trim())
    };
    let refused = refusal(ask(&mount, "config/ca", &body(&other)));
    assert_eq!(refused, "public_key is not the public key of private_key");
    let made = ask(&mount, "config/ca", &body(&key)).unwrap();
    assert_eq!(Mount::text(&made, "public_key"), key.public().line());
    role(&mount, r#","default_user":"x""#);
    assert_eq!(said(&sign(&mount, "").unwrap()).signature, "ecdsa-sha2-nistp384");
}

#[test]
fn roles_are_shown_as_they_were_written_and_replaced_whole() {
    let mount = with_otp();
    let shown = mount.ask(NOW, Read, "roles/otp", "").unwrap();
    let names: Vec<&str> = shown.keys().map(String::as_str).collect();
    let fields =
        ["allowed_users", "cidr_list", "default_user", "exclude_cidr_list", "key_type", "port"];
    assert_eq!(names, fields);
    role(
        &mount,
        r#","ttl":"30m","max_ttl":3600,"allowed_users":["a","b"],"allowed_user_key_lengths":{"rsa":4096,"ed25519":0}"#,
    );
    let shown = mount.ask(NOW, Read, "roles/r", "").unwrap();
    assert_eq!(shown.len(), 27);
    for (name, value) in [
        ("ttl", "1800"),
        ("max_ttl", "3600"),
        ("allowed_users", "a,b"),
        ("not_before_duration", "30"),
        ("algorithm_signer", "default"),
        ("issuer_ref", "default"),
        ("default_extensions", "{}"),
        ("allowed_user_key_lengths", r#"{"ed25519":[0],"rsa":[4096]}"#),
    ] {
        assert_eq!(Mount::text(&shown, name), value, "{name}");
    }
    role(&mount, "");
    let shown = mount.ask(NOW, Read, "roles/r", "").unwrap();
    assert_eq!(
        (Mount::text(&shown, "ttl"), Mount::text(&shown, "allowed_users")),
        ("0".into(), String::new())
    );
    let listed = mount.ask(NOW, List, "roles", "").unwrap();
    let info = r#"{"otp":{"key_type":"otp"},"r":{"issuer_ref":"default","key_type":"ca"}}"#;
    assert_eq!(Mount::text(&listed, "key_info"), info);
    let with = |body: &str| refusal(ask(&mount, "roles/r", body));
    for (body, why) in [
        ("{}", "missing key type"),
        (r#"{"key_type":"x"}"#, "invalid key type"),
        (r#"{"key_type":"dynamic"}"#, "dynamic key type roles are no longer supported"),
        (r#"{"key_type":"otp"}"#, "missing default user"),
        (
            r#"{"key_type":"otp","default_user":"x","cidr_list":"10.0.0.0/33"}"#,
            "failed to validate cidr_list",
        ),
        (
            r#"{"key_type":"otp","default_user":"x","exclude_cidr_list":"x"}"#,
            "failed to validate exclude_cidr_list entry",
        ),
        (
            r#"{"key_type":"otp","default_user":"x","port":70000}"#,
            "port 70000 is none: it is 65535 at most",
        ),
        (
            r#"{"key_type":"ca"}"#,
            "Either 'allow_user_certificates' or 'allow_host_certificates' must be set to 'true'",
        ),
        (
            r#"{"key_type":"ca","allow_user_certificates":true,"ttl":"2h","max_ttl":"1h"}"#,
            "\"ttl\" value must be less than \"max_ttl\" when both are specified",
        ),
        (r#"{"key_type":"ca","allow_user_certificates":true,"ttl":-1}"#, "ttl cannot be negative"),
        (
            r#"{"key_type":"ca","allow_user_certificates":true,"not_before_duration":"9000h"}"#,
            "not_before_duration is a year at most",
        ),
        (
            r#"{"key_type":"ca","allow_user_certificates":true,"default_extensions":{"a\n":""}}"#,
            "\"a\\n\" is no name for default_extensions",
        ),
    ] {
        assert_eq!(with(body), why, "{body}");
    }
    let refused = with(
        r#"{"key_type":"ca","allow_user_certificates":true,"allowed_user_key_lengths":{"rsa":"big"}}"#,
    );
    assert!(refused.starts_with("error processing allowed_user_key_lengths: "), "{refused}");
    assert_eq!(
        refusal(ask(&mount, "issue/otp", "{}")),
        "role key type 'otp' not allowed to issue key pairs"
    );
    assert_eq!(
        refusal(ask(&mount, "creds/r", r#"{"ip":"10.0.0.1"}"#)),
        "role key type 'ca' has no one-time passwords"
    );
    assert_eq!(mount.ask(NOW, Delete, "roles/r", ""), Ok(Map::new()));
    assert_eq!(mount.ask(NOW, Delete, "roles/none", ""), Ok(Map::new()));
    assert_eq!(mount.ask(NOW, Read, "roles/r", ""), Err(Error::NotFound));
}
