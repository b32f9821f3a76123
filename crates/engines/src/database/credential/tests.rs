//! Credentials of each type against a database that takes note of what it is told.

use std::sync::{Arc, Mutex};

use kallisto_api::{Error, Json, Map};
use kallisto_auth::Operation::{Read, Update};
use kallisto_engine::{FarEndAnswer, FarEndWork};
use kallisto_pki::certificate::{
    AltNames, CLIENT_AUTH, CertificateContents, CertificatePurpose, CertificateSigner,
    ParsedCertificate, Urls,
};
use kallisto_pki::pem::{self, Label};
use kallisto_pki::{
    CertificateSubject, KeyUsages, ObjectIdentifier, PkiKeyKind, PrivateKey, PrivateKeyForm,
    Serial, SignatureAlgorithm,
};
use secrecy::ExposeSecret;

use super::super::ENGINE;
use crate::testing::TestMount;

const NOW: i64 = 1_700_000_000;

type Told = Arc<Mutex<Vec<String>>>;

fn site() -> (TestMount, Told) {
    let (mount, told) = (TestMount::new(&ENGINE), Told::default());
    let heard = Arc::clone(&told);
    mount.far_ends_do(move |call| {
        if let FarEndWork::Sql(work) = &call.work {
            let statements = work.statements.iter().map(|one| one.expose_secret().to_owned());
            heard.lock().unwrap().extend(statements);
        }
        Ok(FarEndAnswer::Done)
    });
    let config = r#"{"plugin_name":"postgresql-database-plugin","connection_url":"postgresql://h/db",
        "username":"root","password":"rootpw","allowed_roles":"*"}"#;
    mount.ask(NOW, Update, "config/c", config).unwrap();
    (mount, told)
}

/// A certificate and a key of an authority that is good for so long, or of somebody who is none.
fn authority(secs: i64, is_authority: bool) -> (String, String) {
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let name = CertificateSubject { common_name: "ca".to_owned(), ..Default::default() };
    let name = name.to_der().unwrap();
    let contents = CertificateContents {
        serial: Serial::from_bytes(&[7]).unwrap(),
        not_before: NOW - 30,
        not_after: NOW + secs,
        subject: name.clone(),
        public: key.public().clone(),
        purpose: match is_authority {
            true => CertificatePurpose::Ca {
                path_length: None,
                constraints: Default::default(),
                key_id: None,
            },
            false => CertificatePurpose::Leaf { says_so: true },
        },
        usages: match is_authority {
            true => KeyUsages::KeyCertSign.into(),
            false => KeyUsages::DigitalSignature.into(),
        },
        ext_usages: Vec::new(),
        alt_names: AltNames::Names(Vec::new()),
        urls: Urls::default(),
        policies: Vec::new(),
        extra: Vec::new(),
    };
    let algorithm = SignatureAlgorithm::choose(key.kind(), Default::default());
    let key_id = key.public().key_id();
    let signer = CertificateSigner { name: &name, key_id: &key_id, key: &key, algorithm };
    let certificate = pem::write(Label::Certificate, &contents.sign(&signer).unwrap());
    (certificate, key.to_pem(PrivateKeyForm::Pkcs8).unwrap().to_string())
}

fn role(statement: &str, credential_type: &str, config: &[(&'static str, &str)]) -> String {
    let config = config.iter().map(|(name, value)| ((*name).to_owned(), Json::from(*value)));
    let role = Json::object([
        ("creation_statements", statement.into()),
        ("credential_config", Json::Object(config.collect())),
        ("credential_type", credential_type.into()),
        ("db_name", "c".into()),
        ("default_ttl", "1h".into()),
    ]);
    String::from_utf8(role.to_text()).unwrap()
}

fn refusal(answer: Result<Map, Error>) -> String {
    answer.unwrap_err().to_string()
}

#[test]
fn a_database_is_told_the_public_half_of_a_key_and_the_client_has_the_private_one() {
    let (mount, told) = site();
    let statement = "CALL keep('{{name}}', '{{public_key}}')";
    mount.ask(NOW, Update, "roles/r", &role(statement, "rsa_private_key", &[])).unwrap();
    let made = mount.ask(NOW, Read, "creds/r", "").unwrap();
    let text = TestMount::text(&made, "rsa_private_key");
    assert!(!made.contains_key("password"));
    let blocks = pem::read(&text).unwrap();
    let key = PrivateKey::from_pem(blocks[0].0, &blocks[0].1).unwrap();
    assert_eq!((blocks[0].0, key.kind()), (Label::PrivateKey, PkiKeyKind::Rsa(2048)));
    let sql = told.lock().unwrap().pop().unwrap();
    let public = sql.split('\'').nth(3).unwrap();
    let lines: Vec<&str> = public.lines().collect();
    assert_eq!(
        (lines[0], lines[lines.len() - 1]),
        ("-----BEGIN PUBLIC KEY-----", "-----END PUBLIC KEY-----")
    );
    let spki = lines[1..lines.len() - 1].concat();
    assert_eq!(data_encoding::BASE64.decode(spki.as_bytes()).unwrap(), key.spki());
    assert!(sql.contains(&TestMount::text(&made, "username")));
    let config = |of: &str| mount.ask(NOW, Read, of, "").unwrap().get("credential_config").cloned();
    let shown = |bits: u64, format: &str| {
        Some(Json::object([("format", format.into()), ("key_bits", bits.into())]))
    };
    assert_eq!(config("roles/r"), shown(2048, "pkcs8"));
    let given = [("key_bits", "3072"), ("format", "PKCS8"), ("password_policy", "p")];
    mount.ask(NOW, Update, "roles/s", &role(statement, "rsa_private_key", &given)).unwrap();
    assert_eq!(config("roles/s"), shown(3072, "PKCS8"));
    mount.ask(NOW, Update, "roles/s", &role(statement, "password", &given)).unwrap();
    assert_eq!(config("roles/s"), Some(Json::object([("password_policy", "p".into())])));
    mount.ask(NOW, Update, "roles/s", &role(statement, "password", &[("x", "y")])).unwrap();
    assert_eq!(config("roles/s"), None);
    for (name, value, why) in [
        ("key_bits", "1024", "invalid key_bits: 1024"),
        ("format", "pkcs1", "invalid format: pkcs1"),
    ] {
        let bad = role(statement, "rsa_private_key", &[(name, value)]);
        assert_eq!(refusal(mount.ask(NOW, Update, "roles/bad", &bad)), why);
    }
}

#[test]
fn a_certificate_is_of_the_user_for_as_long_as_the_lease() {
    let (mount, told) = site();
    let (certificate, key) = authority(86_400, true);
    let config = [("ca_cert", certificate.as_str()), ("ca_private_key", &key), ("key_type", "ec")];
    let statement = "CREATE ROLE \"{{name}}\" LOGIN; COMMENT ON ROLE \"{{name}}\" IS '{{subject}}'";
    mount.ask(NOW, Update, "roles/r", &role(statement, "client_certificate", &config)).unwrap();
    let made = mount.ask(NOW, Read, "creds/r", "").unwrap();
    let user = TestMount::text(&made, "username");
    let read = |text: &str| pem::read(text).unwrap().remove(0);
    let leaf = ParsedCertificate::from_der(&read(&TestMount::text(&made, "client_certificate")).1)
        .unwrap();
    let issuer = ParsedCertificate::from_der(&read(&certificate).1).unwrap();
    assert!(leaf.is_signed_by(&issuer.public) && leaf.names_as_issuer(&issuer) && !leaf.is_ca);
    assert_eq!(CertificateSubject::from_der(&leaf.subject).unwrap().common_name, user);
    assert_eq!((leaf.not_before, leaf.not_after), (NOW - 30, NOW + 3600));
    let client_auth = ObjectIdentifier::new_unwrap(CLIENT_AUTH).as_bytes().to_vec();
    assert!(leaf.der.windows(client_auth.len()).any(|part| part == client_auth));
    let (label, bytes) = read(&TestMount::text(&made, "private_key"));
    assert_eq!(PrivateKey::from_pem(label, &bytes).unwrap().spki(), leaf.public.spki());
    assert_eq!(TestMount::text(&made, "private_key_type"), "ec");
    assert!(told.lock().unwrap().last().unwrap().contains(&format!("'CN={user}'")));
    // By a template the name is another one, and a renewal of the role keeps the key that is never shown.
    let shown = mount.ask(NOW, Read, "roles/r", "").unwrap();
    let shown = shown["credential_config"].as_object().unwrap().clone();
    assert!(shown.contains_key("ca_cert") && !shown.contains_key("ca_private_key"));
    let mut again: Vec<(&'static str, &str)> = config.to_vec();
    again.retain(|(name, _)| *name != "ca_private_key");
    again.push(("common_name_template", "{{.RoleName}}.example"));
    mount.ask(NOW, Update, "roles/r", &role(statement, "client_certificate", &again)).unwrap();
    let made = mount.ask(NOW, Read, "creds/r", "").unwrap();
    let leaf = ParsedCertificate::from_der(&read(&TestMount::text(&made, "client_certificate")).1)
        .unwrap();
    assert_eq!(CertificateSubject::from_der(&leaf.subject).unwrap().common_name, "r.example");
}

#[test]
fn an_authority_that_is_none_or_ends_too_soon_signs_nothing() {
    let (mount, told) = site();
    let (certificate, key) = authority(86_400, true);
    let (leaf, leaf_key) = authority(86_400, false);
    for (config, why) in [
        (vec![("key_type", "ec")], "missing required ca_cert"),
        (vec![("key_type", "ec"), ("ca_cert", &*certificate)], "missing required ca_private_key"),
        (
            vec![("ca_cert", &*certificate), ("ca_private_key", &*key)],
            "invalid key_type: it is rsa, ec or ed25519",
        ),
        (
            vec![("key_type", "ec"), ("ca_cert", &*certificate), ("ca_private_key", &*leaf_key)],
            "ca_private_key is not the key of ca_cert",
        ),
        (
            vec![("key_type", "ec"), ("ca_cert", &*leaf), ("ca_private_key", &*leaf_key)],
            "the given certificate is not marked for CA use",
        ),
    ] {
        let bad = role("X", "client_certificate", &config);
        assert_eq!(refusal(mount.ask(NOW, Update, "roles/bad", &bad)), why);
    }
    let (short, key) = authority(600, true);
    let config = [("ca_cert", &*short), ("ca_private_key", &*key), ("key_type", "ed25519")];
    mount.ask(NOW, Update, "roles/r", &role("X", "client_certificate", &config)).unwrap();
    let refused = refusal(mount.ask(NOW, Read, "creds/r", ""));
    assert!(refused.contains("ends before the lease would"), "{refused}");
    assert!(told.lock().unwrap().is_empty(), "the database was not asked");
}
