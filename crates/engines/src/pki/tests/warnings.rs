//! What is done otherwise than whoever asks may expect, and said.

use super::*;

fn told(
    mount: &TestMount,
    operation: kallisto_auth::Operation,
    path: &str,
    body: &str,
) -> Vec<String> {
    match mount.answer(NOW, operation, path, body.as_bytes()).unwrap() {
        Response::Logical(logical) => logical.warnings,
        Response::Empty => Vec::new(),
        other => panic!("{other:?}"),
    }
}

const TTL: &str =
    r#"TTL "1h30m0s" is longer than permitted maxTTL "5m0s", so maxTTL is being used"#;
const CONSTRAINTS: &str =
    "specified CSR contained a Basic Constraints extension that was ignored during issuance";

#[test]
fn what_a_certificate_gets_otherwise_than_asked_is_said() {
    let (mount, _) = with_root();
    let body = r#"{"allow_any_name":true,"key_type":"ec","max_ttl":"5m"}"#;
    mount.ask(NOW, Update, "roles/short", body).unwrap();
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let csr = |says_ca| quoted(&request(&key, "a.example.com", &[], says_ca));
    let told = |path: &str, says_ca: bool, more: &str| {
        told(&mount, Update, path, &format!(r#"{{"csr":{}{more}}}"#, csr(says_ca)))
    };
    let long = r#","ttl":"90m","common_name":"a.example.com""#;
    assert_eq!(told("issue/short", false, long), [TTL]);
    assert_eq!(told("sign/short", true, long), [TTL, CONSTRAINTS]);
    assert_eq!(told("sign/short", false, r#","ttl":"5m""#), [""; 0]);
    let names = r#","ttl":"90m","common_name":"b.example.com","alt_names":"b.example.com""#;
    let ignored = |field: &str, by: &str| {
        format!("the {field} field was provided but the role is set with {by:?} set to true")
    };
    let both = [
        ignored("common_name", "use_csr_common_name"),
        ignored("alt_names", "use_csr_sans"),
        TTL.to_owned(),
        CONSTRAINTS.to_owned(),
    ];
    assert_eq!(told("sign-verbatim/short", true, names), both);
    let says_no_ca = r#","ttl":"5m","basic_constraints_valid_for_non_ca":true"#;
    assert_eq!(told("sign-verbatim", true, says_no_ca), [""; 0]);
}

#[test]
fn what_a_ca_lacks_is_said() {
    let (mount, _) = with_root();
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let csr = quoted(&request(&key, "Below", &[], true));
    let sign = |more: &str| {
        let body = format!(r#"{{"csr":{csr},"ttl":"10m"{more}}}"#);
        told(&mount, Update, "root/sign-intermediate", &body)
    };
    let no_urls = crate::pki::generate::NO_URLS;
    let no_path = |made: &str| {
        format!(
            "Max path length of the {made} certificate is zero. This certificate cannot be used to \
             issue intermediate CA certificates."
        )
    };
    assert_eq!(sign(""), [no_urls]);
    assert_eq!(sign(r#","max_path_length":0"#), [no_urls, &no_path("signed")]);
    let root = r#"{"common_name":"R","key_type":"ec","ttl":"1h","max_path_length":0}"#;
    let root = told(&mount, Update, "issuers/generate/root/internal", root);
    assert_eq!(root, [no_urls, &no_path("generated")]);
    mount.ask(NOW, Update, "config/urls", r#"{"ocsp_servers":"http://a.b/o"}"#).unwrap();
    assert_eq!(sign(""), [""; 0]);
}

#[test]
fn templates_that_cannot_be_filled_and_roles_that_lose_their_issuer_are_said() {
    let (mount, _) = with_root();
    let body = r#"{"allow_any_name":true,"key_type":"ec","issuer_ref":"root"}"#;
    mount.ask(NOW, Update, "roles/by-name", body).unwrap();
    let template = r#"{"enable_aia_url_templating":true,"ocsp_servers":"{{cluster_path}}/o"}"#;
    let said = told(&mount, Patch, "issuer/root", template);
    assert!(said.len() == 1 && said[0].starts_with("issuance may fail: unable to template"));
    let path = r#"{"path":"http://a.b/v1/pki"}"#;
    mount.ask(NOW, Update, "config/cluster", path).unwrap();
    assert_eq!(told(&mount, Patch, "issuer/root", template), [""; 0]);
    let renamed = told(&mount, Patch, "issuer/root", r#"{"issuer_name":"other"}"#);
    assert_eq!(renamed, ["1 roles reference root"]);
    mount.ask(NOW, Patch, "issuer/other", r#"{"issuer_name":"root"}"#).unwrap();
    let deleted = told(&mount, Delete, "issuer/root", "");
    assert_eq!(deleted.len(), 3);
    assert_eq!(deleted[0], "1 roles reference root");
    assert!(deleted[1].contains("this was configured as the default issuer"));
    assert_eq!(deleted[2], "1 roles reference default");
}

/// Clients that find no list where there was one let everybody in, or nobody.
#[test]
fn the_latest_list_stays_when_no_other_one_may_be_signed() {
    let (mount, _) = with_root();
    let serials: Vec<String> = (0..2)
        .map(|_| {
            let issued = issue(&mount, "any", r#"{"common_name":"a"}"#).unwrap();
            TestMount::text(&issued, "serial_number")
        })
        .collect();
    let revoke = |at: usize| format!(r#"{{"serial_number":"{}"}}"#, serials[at]);
    assert_eq!(told(&mount, Update, "revoke", &revoke(0)), [""; 0]);
    let list = |mount: &TestMount| {
        let list = complete(mount, NOW);
        (list.number, list.revoked.len())
    };
    let before = list(&mount);
    let usage = r#"{"usage":"read-only,issuing-certificates"}"#;
    mount.ask(NOW, Patch, "issuer/root", usage).unwrap();
    for (operation, path, body) in [
        (Update, "revoke", revoke(1)),
        (Read, "crl/rotate", String::new()),
        (Update, "config/crl", r#"{"enable_delta":true,"auto_rebuild":true}"#.to_owned()),
        (Update, "config/crl", r#"{"enable_delta":false,"auto_rebuild":false}"#.to_owned()),
    ] {
        let said = told(&mount, operation, path, &body);
        let lacks = "Issuer equivalency set with associated keys lacked an issuer with CRL Signing";
        assert!(said.len() == 1 && said[0].contains(lacks), "{path}: {said:?}");
        mount.run_job(NOW, "lists").unwrap();
        assert_eq!(list(&mount), before, "{path}");
    }
    let mount = mount.restarted();
    assert_eq!(list(&mount), before, "on a server that made none");
    // What was revoked meanwhile is on the next one.
    let usage = r#"{"usage":"read-only,issuing-certificates,crl-signing"}"#;
    mount.ask(NOW, Patch, "issuer/root", usage).unwrap();
    assert_eq!(list(&mount), (before.0.map(|number| number + 1), 2));
}
