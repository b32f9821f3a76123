//! What a mount signs, hands out and refuses.

mod issuers;
mod keys;
mod names;

use kallisto_api::Error;
use kallisto_api::json::Map;
use kallisto_auth::Operation::{Delete, List, Read, Update};
use kallisto_ssh::wire::{SshReader, SshWriter};
use kallisto_ssh::{KeyType, PkiKeyKind, SshPublicKey, SshSigningKey};

use super::ENGINE;
use super::otp_tests::with_otp;
use crate::testing::TestMount;

pub(super) const NOW: i64 = 1_795_413_611;
const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKX3+zrQ9GRJOkjabqqcJjz3W1mXU73mSewfLIzdzAcU u@h";

fn mount() -> TestMount {
    let mount = TestMount::new(&ENGINE);
    ask(&mount, "config/ca", r#"{"key_type":"ed25519"}"#).unwrap();
    mount
}

pub(super) fn ask(mount: &TestMount, path: &str, body: &str) -> Result<Map, Error> {
    mount.ask(NOW, Update, path, body)
}

pub(super) fn refusal(answer: Result<Map, Error>) -> String {
    answer.unwrap_err().to_string()
}

/// A mount with a CA and the role `r`, which signs for users.
fn with_role(more: &str) -> TestMount {
    let mount = mount();
    role(&mount, more);
    mount
}

fn role(mount: &TestMount, more: &str) {
    let body = format!(r#"{{"key_type":"ca","allow_user_certificates":true{more}}}"#);
    ask(mount, "roles/r", &body).unwrap();
}

fn sign(mount: &TestMount, more: &str) -> Result<Map, Error> {
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
    let line = TestMount::text(answer, "signed_key");
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
    assert_eq!(TestMount::text(answer, "serial_number"), format!("{serial:x}"));
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

/// The mount's default is longer than what the role allows at the most.
#[test]
fn a_certificate_that_says_no_time_lives_no_longer_than_its_role_allows() {
    let mount = with_role(r#","allowed_users":"*","default_user":"ubuntu","max_ttl":"2m""#);
    assert_eq!(said(&sign(&mount, "").unwrap()).lives.1, NOW as u64 + 120);
    assert_eq!(refusal(sign(&mount, r#","ttl":"121s""#)), "ttl is larger than maximum allowed 120");
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
        assert_eq!(TestMount::text(&shown, name), value, "{name}");
    }
    role(&mount, "");
    let shown = mount.ask(NOW, Read, "roles/r", "").unwrap();
    assert_eq!(
        (TestMount::text(&shown, "ttl"), TestMount::text(&shown, "allowed_users")),
        ("0".into(), String::new())
    );
    let listed = mount.ask(NOW, List, "roles", "").unwrap();
    let info = r#"{"otp":{"key_type":"otp"},"r":{"issuer_ref":"default","key_type":"ca"}}"#;
    assert_eq!(TestMount::text(&listed, "key_info"), info);
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

/// Guides for Vault write options as lists of one object, as HCL has them.
#[test]
fn options_may_be_lists_of_one_object_and_their_values_true_or_false() {
    let mount = with_role(
        r#","default_user":"u","allowed_extensions":"*","default_extensions":[{"permit-pty":""}],"default_critical_options":[],"allowed_user_key_lengths":[{"ed25519":256}]"#,
    );
    let signed = said(&sign(&mount, "").unwrap());
    assert_eq!(
        (signed.extensions, signed.critical_options),
        (vec![pair("permit-pty", "")], vec![])
    );
    let more =
        r#","extensions":[{"x@example.com":true}],"critical_options":{"y@example.com":false}"#;
    let signed = said(&sign(&mount, more).unwrap());
    assert_eq!(signed.extensions, [pair("x@example.com", "true")]);
    assert_eq!(signed.critical_options, [pair("y@example.com", "false")]);
}
