//! The seals: where their keys come from, and which cannot work.

use super::sources::directory;
use super::*;

/// 32 different bytes.
const KEY_HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const KEY_BASE64: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn seal_of(text: &str, variables: &[(&str, &str)]) -> Result<SealSettings, String> {
    read_with(&format!("{MINIMUM}{text}"), variables).map(|loaded| loaded.config.seal)
}

fn static_key(text: &str, variables: &[(&str, &str)]) -> [u8; 32] {
    match seal_of(text, variables) {
        Ok(SealSettings::Static(seal)) => *seal.current.key.expose_secret(),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_static_key_is_found_wherever_it_is_kept() {
    let key: [u8; 32] = std::array::from_fn(|at| at as u8);
    let directory = directory();
    let (raw, armoured) = (directory.join("raw.key"), directory.join("text.key"));
    files::write_private(&raw, &key).unwrap();
    files::write_private(&armoured, format!("{KEY_BASE64}\n").as_bytes()).unwrap();
    let id = "current_key_id = \"one\"";
    for line in [
        format!("current_key = \"{KEY_HEX}\""),
        format!("current_key = \"{KEY_BASE64}\""),
        format!("current_key = \"file://{}\"", raw.display()),
        format!("current_key_file = \"{}\"", raw.display()),
        format!("key_file = \"{}\"", armoured.display()),
        "current_key = \"env://APP_KEY\"".to_owned(),
    ] {
        let text = format!("seal \"static\" {{ {id} {line} }}");
        assert_eq!(static_key(&text, &[("APP_KEY", KEY_HEX)]), key, "{text}");
    }
    let text = format!("seal \"static\" {{ {id} }}");
    assert_eq!(static_key(&text, &[("VAULT_STATIC_SEAL_CURRENT_KEY", KEY_HEX)]), key);
    let variables = [
        ("KALLISTO_SEAL_TYPE", "static"),
        ("KALLISTO_STATIC_SEAL_CURRENT_KEY", KEY_BASE64),
        ("KALLISTO_STATIC_SEAL_CURRENT_KEY_ID", "one"),
    ];
    assert_eq!(static_key("", &variables), key);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn seals_that_cannot_work_are_refused_without_showing_their_keys() {
    let canary = "hunter2-hunter2";
    for (text, wanted) in [
        ("seal \"awskms\" {}".to_owned(), "the kinds of seal are"),
        ("seal \"shamir\" {}\nseal \"shamir\" {}".to_owned(), "there can be only one"),
        ("seal \"transit\" { disabled = true }".to_owned(), "moving from one seal to another"),
        (
            format!("seal \"static\" {{ current_key = \"{canary}\" }}"),
            "a current_key_id is missing",
        ),
        (
            format!("seal \"static\" {{ current_key_id = \"a\" current_key = \"{canary}\" }}"),
            "expected a key of 32 bytes",
        ),
        (
            "seal \"static\" { current_key_id = \"a\" }".to_owned(),
            "a current_key or current_key_file is missing",
        ),
        (
            "seal \"static\" { current_key_id = \"a\" current_key = \"env://NOT_SET\" }".to_owned(),
            "NOT_SET is not set",
        ),
        (
            "seal \"static\" { current_key_id = \"a\" key_file = \"/no/such/file\" }".to_owned(),
            "reading the key",
        ),
        (
            format!(
                "seal \"static\" {{ current_key_id = \"a\" key_file = \"/x\" current_key = \"{KEY_HEX}\" }}"
            ),
            "the key is given twice",
        ),
        (
            format!(
                "seal \"static\" {{ current_key_id = \"a\" current_key = \"{KEY_HEX}\" previous_key = \"{KEY_HEX}\" }}"
            ),
            "go together",
        ),
        ("seal \"transit\" {}".to_owned(), "an address is missing"),
        (
            format!(
                "seal \"transit\" {{ address = \"https://k\" token = \"{canary} b\" key_name = \"k\" }}"
            ),
            "characters that no token has",
        ),
        (
            format!(
                "seal \"transit\" {{ address = \"https://k\" token = \"{canary}\" key_name = \"../sys\" }}"
            ),
            "key_name: expected a name",
        ),
        (
            format!(
                "seal \"transit\" {{ address = \"https://k\" token = \"{canary}\" key_name = \"k\" tls_client_cert = \"c\" }}"
            ),
            "must be given together",
        ),
    ] {
        let error = seal_of(&text, &[]).unwrap_err();
        assert!(error.contains(wanted), "{text}: {error}");
        assert!(!error.contains(canary) && !error.contains(KEY_HEX), "{error}");
    }
}

#[test]
fn transit_takes_from_the_environment_what_vault_does() {
    let variables = [
        ("VAULT_ADDR", "https://env:8200"),
        ("VAULT_TOKEN", "env-token"),
        ("VAULT_TRANSIT_SEAL_KEY_NAME", "env-key"),
        ("VAULT_TRANSIT_SEAL_MOUNT_PATH", "env-mount/"),
        ("VAULT_TRANSIT_SEAL_DISABLE_RENEWAL", "true"),
        ("VAULT_NAMESPACE", "env"),
        ("VAULT_CACERT", "/env/ca.pem"),
        ("VAULT_SKIP_VERIFY", "true"),
        ("VAULT_SEAL_TYPE", "transit"),
    ];
    let Ok(SealSettings::Transit(seal)) = seal_of("", &variables) else {
        panic!("no transit seal")
    };
    assert_eq!((seal.address.as_str(), seal.key_name.as_str()), ("https://env:8200", "env-key"));
    assert_eq!((seal.mount_path.as_str(), seal.namespace.as_deref()), ("env-mount", Some("env/")));
    assert!(seal.disable_renewal);
    let usual = &variables.map(|(name, value)| match name {
        "VAULT_TRANSIT_SEAL_DISABLE_RENEWAL" => ("VAULT_TRANSIT_SEAL_OTHER", ""),
        _ => (name, value),
    });
    let Ok(SealSettings::Transit(unsaid)) = seal_of("", usual) else { panic!("no transit seal") };
    assert!(!unsaid.disable_renewal, "as the reference says");
    assert_eq!(
        (seal.tls.ca_cert.as_deref(), seal.tls.trusts_anyone),
        (Some(Path::new("/env/ca.pem")), true)
    );
    for half in [("VAULT_CLIENT_CERT", "/c.pem"), ("BAO_CLIENT_KEY", "/k.pem")] {
        let refused = seal_of("", &[&variables[..], &[half]].concat()).unwrap_err();
        assert!(refused.starts_with(half.0) && refused.contains("given together"), "{refused}");
    }
    let file = "seal \"transit\" {\naddress = \"https://file\"\ntoken = \"file-token\"\nkey_name = \"file-key\"\ntls_server_name = \"file\"\n}";
    let Ok(SealSettings::Transit(seal)) = seal_of(file, &variables) else {
        panic!("no transit seal")
    };
    assert_eq!((seal.address.as_str(), seal.token.expose_secret()), ("https://file", "file-token"));
    assert_eq!(seal.key_name, "env-key");
    let tls = TransitTls { server_name: Some("file".to_owned()), ..TransitTls::default() };
    assert_eq!(seal.tls, tls);
}

#[test]
fn the_environment_may_name_another_seal() {
    let text = format!("{MINIMUM}seal \"transit\" {{}}");
    let loaded = read_with(&text, &[("VAULT_SEAL_TYPE", "shamir")]).unwrap();
    assert!(matches!(loaded.config.seal, SealSettings::Shamir));
    let place = "VAULT_LOCAL_CONFIG:3: the environment names another seal than this";
    assert_eq!(loaded.warnings, [place]);
    let error = read_with(&text, &[("VAULT_SEAL_TYPE", "awskms")]).unwrap_err();
    assert_eq!(error, "VAULT_SEAL_TYPE: expected one of: shamir, static, transit");
}
