//! Named keys through the pipeline.

use kallisto_core::json::{self, Json, Map};
use kallisto_core::{Denial, Error, Operation, Response};

use crate::support::{Site, ask_as};

use Operation::{Delete, List, Read, Update};

fn site() -> Site {
    let site = Site::open(1 << 20);
    site.ask(Update, "sys/mounts/transit", r#"{"type":"transit"}"#).unwrap();
    site
}

#[track_caller]
fn data(answer: Result<Response, Error>) -> Map {
    match answer.unwrap() {
        Response::Logical(reply) => json::parse_object(&reply.data).unwrap(),
        Response::WithStatus { logical, .. } => json::parse_object(&logical.data).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn text(map: &Map, name: &str) -> String {
    match &map[name] {
        Json::String(text) => text.clone(),
        Json::Number(text) => text.to_string(),
        other => panic!("{name} is a {other:?}"),
    }
}

fn encrypt(site: &Site, name: &str) -> String {
    let answer = site.ask(Update, &format!("transit/encrypt/{name}"), r#"{"plaintext":"aGk="}"#);
    text(&data(answer), "ciphertext")
}

fn decrypt(site: &Site, name: &str, ciphertext: &str) -> Result<Response, Error> {
    let body = format!(r#"{{"ciphertext":"{ciphertext}"}}"#);
    site.ask(Update, &format!("transit/decrypt/{name}"), &body)
}

#[test]
fn a_key_serves_over_rotation_seal_and_change_and_no_longer_than_it_is_there() {
    let site = site();
    site.ask(Update, "transit/keys/k", "{}").unwrap();
    let first = encrypt(&site, "k");
    assert_eq!(text(&data(decrypt(&site, "k", &first)), "plaintext"), "aGk=");
    assert_eq!(text(&data(site.ask(Update, "transit/keys/k/rotate", "")), "latest_version"), "2");
    let second = encrypt(&site, "k");
    assert!(second.starts_with("vault:v2:"));

    site.ask(Update, "sys/seal", "").unwrap();
    site.unseal();
    for ciphertext in [&first, &second] {
        assert_eq!(text(&data(decrypt(&site, "k", ciphertext)), "plaintext"), "aGk=");
    }

    site.ask(Update, "transit/keys/k/config", r#"{"min_decryption_version":2}"#).unwrap();
    assert!(decrypt(&site, "k", &first).unwrap_err().to_string().contains("too old"));
    assert!(decrypt(&site, "k", &second).is_ok());

    let refused = site.ask(Delete, "transit/keys/k", "").unwrap_err().to_string();
    assert_eq!(refused, "error deleting policy k: deletion is not allowed for this key");
    site.ask(Update, "transit/keys/k/config", r#"{"deletion_allowed":true}"#).unwrap();
    site.ask(Delete, "transit/keys/k", "").unwrap();
    let refused = decrypt(&site, "k", &second).unwrap_err().to_string();
    assert_eq!(refused, "encryption key not found");
    assert_eq!(site.ask(Read, "transit/keys/k", "").unwrap_err(), Error::NotFound);
    assert_eq!(site.ask(List, "transit/keys", "").unwrap_err(), Error::NotFound);
}

#[test]
fn mounts_keep_their_keys_apart_and_take_them_along() {
    let site = site();
    site.ask(Update, "sys/mounts/other", r#"{"type":"transit"}"#).unwrap();
    let ciphertext = encrypt(&site, "k");
    site.ask(Update, "other/keys/k", "{}").unwrap();
    let body = format!(r#"{{"ciphertext":"{ciphertext}"}}"#);
    assert!(site.ask(Update, "other/decrypt/k", &body).is_err());
    site.ask(Delete, "sys/mounts/transit", "").unwrap();
    site.ask(Update, "sys/mounts/transit", r#"{"type":"transit"}"#).unwrap();
    let refused = decrypt(&site, "k", &ciphertext).unwrap_err().to_string();
    assert_eq!(refused, "encryption key not found");
}

#[test]
fn encrypting_makes_a_key_only_for_who_may_create_it() {
    let site = site();
    let policy = r#"path "transit/encrypt/*" { capabilities = ["update"] }
        path "transit/encrypt/new" { capabilities = ["create"] }"#;
    let body = String::from_utf8(Json::object([("policy", policy.into())]).to_text()).unwrap();
    site.ask(Update, "sys/policies/acl/p", &body).unwrap();
    site.ask(Update, "auth/token/create", r#"{"id":"t","policies":["p"]}"#).unwrap();
    let ask = |name: &str| {
        let path = format!("transit/encrypt/{name}");
        ask_as(&site.core, "t", 0, Update, &path, r#"{"plaintext":"aGk="}"#)
    };
    assert_eq!(ask("old").unwrap_err(), Error::Denied(Denial::Policy));
    assert!(ask("new").is_ok());
    assert_eq!(ask("new").unwrap_err(), Error::Denied(Denial::Policy), "update is not granted");
    site.ask(Update, "transit/keys/old", "{}").unwrap();
    assert!(ask("old").is_ok());
    site.ask(Update, "transit/config/keys", r#"{"disable_upsert":true}"#).unwrap();
    let refused = site.ask(Update, "transit/encrypt/third", r#"{"plaintext":"aGk="}"#);
    assert_eq!(refused.unwrap_err().to_string(), "encryption key not found");
}

#[test]
fn a_nonce_of_the_callers_is_not_used() {
    let site = site();
    site.ask(Update, "transit/keys/k", "{}").unwrap();
    let ask = || {
        let body = r#"{"plaintext":"aGk=","nonce":"AAAAAAAAAAAAAAAA"}"#;
        match site.ask(Update, "transit/encrypt/k", body).unwrap() {
            Response::Logical(reply) => (reply.data, reply.warnings),
            other => panic!("{other:?}"),
        }
    };
    let ((one, warnings), (other, _)) = (ask(), ask());
    assert_ne!(one, other);
    assert_eq!(warnings, ["Endpoint ignored these unrecognized parameters: [nonce]"]);
}

#[test]
fn a_batch_is_worked_off_item_by_item() {
    let site = site();
    let body = r#"{"batch_input":[{"plaintext":"aGk=","reference":"r"},{"plaintext":"!"}]}"#;
    let Response::WithStatus { code, logical } =
        site.ask(Update, "transit/encrypt/k", body).unwrap()
    else {
        panic!("one of them failed");
    };
    assert_eq!(code, 400);
    let reply = json::parse_object(&logical.data).unwrap();
    let Json::Array(items) = &reply["batch_results"] else { panic!("a list") };
    let (good, bad) = (items[0].as_object().unwrap(), items[1].as_object().unwrap());
    assert_eq!(text(good, "reference"), "r");
    assert_eq!(text(bad, "error"), "illegal base64 data at input byte 0");
    assert!(decrypt(&site, "k", &text(good, "ciphertext")).is_ok());
}

#[test]
fn a_backup_restores_under_another_name_and_over_no_key_unless_forced() {
    let site = site();
    let body = r#"{"exportable":true,"allow_plaintext_backup":true,"type":"ecdsa-p256"}"#;
    site.ask(Update, "transit/keys/k", body).unwrap();
    let signed = data(site.ask(Update, "transit/sign/k", r#"{"input":"aGk="}"#));
    let backup = text(&data(site.ask(Read, "transit/backup/k", "")), "backup");
    let body = format!(r#"{{"backup":"{backup}"}}"#);
    let refused = site.ask(Update, "transit/restore", &body).unwrap_err().to_string();
    assert_eq!(refused, "key \"k\" already exists");
    site.ask(Update, "transit/restore/copy", &body).unwrap();
    let signature = text(&signed, "signature");
    let verify = format!(r#"{{"input":"aGk=","signature":"{signature}"}}"#);
    let verified = data(site.ask(Update, "transit/verify/copy", &verify));
    assert_eq!(verified["valid"], Json::Bool(true));
    let forced = format!(r#"{{"backup":"{backup}","force":true}}"#);
    assert!(site.ask(Update, "transit/restore", &forced).is_ok());
    assert!(data(site.ask(Read, "transit/keys/k", "")).contains_key("restore_info"));
}

#[test]
fn a_public_half_serves_over_seal_and_takes_no_second_one() {
    let site = site();
    let options = r#"{"type":"ecdsa-p256"}"#;
    data(site.ask(Update, "transit/keys/whole", options));
    let exported = data(site.ask(Read, "transit/export/public-key/whole", ""));
    let Json::Object(keys) = &exported["keys"] else { panic!("{exported:?}") };
    let body = |more: &[(&str, Json)]| {
        let mut map = Map::from([("public_key".to_owned(), text(keys, "1").as_str().into())]);
        map.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        String::from_utf8(Json::Object(map).to_text()).unwrap()
    };
    let made =
        site.ask(Update, "transit/keys/half/import", &body(&[("type", "ecdsa-p256".into())]));
    assert!(matches!(made, Ok(Response::Empty)), "{made:?}");
    let signed = data(site.ask(Update, "transit/sign/whole", r#"{"input":"aGk="}"#));
    pollster::block_on(site.core.seal()).unwrap();
    site.unseal();
    let proof = format!(r#"{{"input":"aGk=","signature":"{}"}}"#, text(&signed, "signature"));
    let verified = data(site.ask(Update, "transit/verify/half", &proof));
    assert_eq!(verified["valid"], Json::Bool(true));
    let version = |number: u64| body(&[("version", number.into())]);
    for (path, body, why) in [
        (
            "transit/sign/half",
            r#"{"input":"aGk="}"#.to_owned(),
            "requested version for signing does not contain a private part",
        ),
        (
            "transit/keys/half/import_version",
            version(1),
            "cannot add a public key to a key version that already has a public key set",
        ),
        ("transit/keys/half/import_version", version(2), "no such key version"),
        (
            "transit/keys/whole/import_version",
            version(1),
            "the import_version endpoint can only be used with an imported key",
        ),
        (
            "transit/keys/other/import",
            body(&[("type", "ecdsa-p384".into())]),
            "error importing key: invalid curve: expected P-384, got P-256",
        ),
        (
            "transit/keys/other/import",
            body(&[]),
            "provided type does not support public_key import",
        ),
    ] {
        assert_eq!(site.ask(Update, path, &body).unwrap_err(), Error::invalid(why), "{path}");
    }
    site.ask(Update, "transit/keys/half/import_version", &body(&[])).unwrap();
    let shown = data(site.ask(Read, "transit/keys/half", ""));
    assert_eq!(text(&shown, "latest_version"), "2");
}

#[test]
fn rsa_keys_are_made_once_however_many_ask() {
    let site = site();
    site.ask(Update, "transit/keys/r", r#"{"type":"rsa-2048"}"#).unwrap();
    let key = |site: &Site| data(site.ask(Read, "transit/keys/r", ""))["keys"].clone();
    let first = key(&site);
    site.ask(Update, "transit/keys/r", r#"{"type":"rsa-2048"}"#).unwrap();
    assert_eq!(key(&site), first);
    let ciphertext = encrypt(&site, "r");
    assert_eq!(text(&data(decrypt(&site, "r", &ciphertext)), "plaintext"), "aGk=");
}

#[test]
fn a_key_with_a_period_gets_a_version_when_its_time_has_come_and_no_other_does() {
    let site = site();
    let body = r#"{"auto_rotate_period":"1h"}"#;
    site.ask(Update, "transit/keys/hourly", body).unwrap();
    site.ask(Update, "transit/keys/still", "{}").unwrap();
    let tick = |secs| {
        let now = jiff::Timestamp::from_second(secs).unwrap();
        pollster::block_on(site.core.run_due_jobs(now)).unwrap();
    };
    let latest = |name: &str| {
        text(&data(site.ask(Read, &format!("transit/keys/{name}"), "")), "latest_version")
    };
    let before = encrypt(&site, "hourly");
    tick(3_599);
    assert_eq!(latest("hourly"), "1");
    tick(3_659);
    assert_eq!((latest("hourly"), latest("still")), ("2".to_owned(), "1".to_owned()));
    assert!(encrypt(&site, "hourly").starts_with("vault:v2:"));
    assert_eq!(text(&data(decrypt(&site, "hourly", &before)), "plaintext"), "aGk=");
    // The period counts from the last version.
    tick(7_258);
    assert_eq!(latest("hourly"), "2");
    tick(7_318);
    assert_eq!(latest("hourly"), "3");
}

#[test]
fn an_item_of_a_batch_whose_plaintext_is_no_text_is_not_encrypted_as_something_else() {
    let site = site();
    site.ask(Update, "transit/keys/k", "{}").unwrap();
    for (plaintext, kind) in
        [("null", "nil"), ("1234", "json.Number"), ("true", "bool"), ("[]", "[]interface {}")]
    {
        let body =
            format!(r#"{{"batch_input":[{{"plaintext":"aGk="}},{{"plaintext":{plaintext}}}]}}"#);
        let refused = site.ask(Update, "transit/encrypt/k", &body).unwrap_err().to_string();
        assert!(refused.contains("'[1].plaintext' expected type 'string'"), "{refused}");
        assert!(refused.ends_with(&format!("unconvertible type '{kind}'")), "{refused}");
    }
}

#[test]
fn who_signs_no_digest_needs_no_hash() {
    let site = site();
    for kind in ["ed25519", "ecdsa-p256", "rsa-2048"] {
        let body = format!(r#"{{"type":"{kind}"}}"#);
        site.ask(Update, &format!("transit/keys/{kind}"), &body).unwrap();
    }
    let digest = "n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=";
    let none = |more: &str| format!(r#"{{"input":"{digest}","hash_algorithm":"none"{more}}}"#);
    let signed = data(site.ask(Update, "transit/sign/ed25519", &none("")));
    let signature = format!(r#","signature":"{}""#, text(&signed, "signature"));
    let verified = data(site.ask(Update, "transit/verify/ed25519/none", &none(&signature)));
    assert_eq!(verified["valid"], true.into());

    let refused = site.ask(Update, "transit/sign/ecdsa-p256", &none("")).unwrap_err().to_string();
    assert!(refused.starts_with("hash_algorithm=none requires both"), "{refused}");
    let prehashed = r#","prehashed":true,"signature_algorithm":"pkcs1v15""#;
    let signed = data(site.ask(Update, "transit/sign/ecdsa-p256", &none(prehashed)));
    let signature = format!(r#","prehashed":true,"signature":"{}""#, text(&signed, "signature"));
    let body = format!(r#"{{"input":"{digest}","hash_algorithm":"sha2-256"{signature}}}"#);
    assert_eq!(data(site.ask(Update, "transit/verify/ecdsa-p256", &body))["valid"], true.into());
    let refused = site.ask(Update, "transit/sign/rsa-2048", &none(prehashed));
    assert!(refused.unwrap_err().to_string().contains("is not available for keys of RSA"));
}
