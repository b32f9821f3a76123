//! Issuers that several others sign, and what stands above them.

use kallisto_api::Response;

use super::*;

/// Certificates of an answer, as the common names of who they are of and by whom they are.
fn chain_of(answer: &Map) -> Vec<(String, String)> {
    let Some(Json::Array(texts)) = answer.get("ca_chain") else { panic!("{answer:?}") };
    let name = |der: &[u8]| CertificateSubject::from_der(der).unwrap().common_name;
    let one = |text: &Json| {
        let certificate = ParsedCertificate::from_der(&der_of(text.as_str().unwrap())).unwrap();
        (name(&certificate.subject), name(&certificate.issuer))
    };
    texts.iter().map(one).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(of, by)| ((*of).to_owned(), (*by).to_owned())).collect()
}

fn issuer(mount: &TestMount, reference: &str) -> Map {
    mount.ask(NOW, Read, &format!("issuer/{reference}"), "").unwrap()
}

/// A mount with the root `old`, and the root `new` that replaces it.
fn with_two_roots() -> TestMount {
    let mount = TestMount::new(&ENGINE);
    for (path, name) in [("root/generate/internal", "old"), ("root/rotate/internal", "new")] {
        let body = format!(
            r#"{{"common_name":"{name}","issuer_name":"{name}","key_type":"ec","ttl":"2h"}}"#
        );
        mount.ask(NOW, Update, path, &body).unwrap();
    }
    mount
}

/// Lets one issuer sign the key and the name of another one. The id of what it signed.
fn cross_sign(mount: &TestMount, by: &str, of: &str) -> String {
    let key = TestMount::text(&issuer(mount, of), "key_id");
    let body = format!(r#"{{"common_name":"{of}","key_ref":"{key}"}}"#);
    let asked = mount.ask(NOW, Update, "intermediate/cross-sign", &body).unwrap();
    let csr = quoted(&TestMount::text(&asked, "csr"));
    let body = format!(r#"{{"csr":{csr},"common_name":"{of}","ttl":"1h"}}"#);
    let signed = mount.ask(NOW, Update, &format!("issuer/{by}/sign-intermediate"), &body).unwrap();
    let body = format!(r#"{{"certificate":{}}}"#, quoted(&TestMount::text(&signed, "certificate")));
    let taken = mount.ask(NOW, Update, "intermediate/set-signed", &body).unwrap();
    let Some(Json::Array(ids)) = taken.get("imported_issuers") else { panic!("{taken:?}") };
    ids[0].as_str().unwrap().to_owned()
}

/// Who trusts the old root alone finds the way to it, and who trusts the new one needs no more than before.
#[test]
fn the_chain_of_a_root_goes_on_to_those_who_signed_it_as_well() {
    let mount = with_two_roots();
    let cross = cross_sign(&mount, "old", "new");
    let whole = [("new", "new"), ("new", "old"), ("old", "old")];
    assert_eq!(chain_of(&issuer(&mount, "new")), pairs(&whole));
    assert_eq!(chain_of(&issuer(&mount, &cross)), pairs(&whole[1..]));
    assert_eq!(chain_of(&issuer(&mount, "old")), pairs(&whole[2..]));
    let body = r#"{"allow_any_name":true,"key_type":"ec","ttl":"1h"}"#;
    mount.ask(NOW, Update, "roles/any", body).unwrap();
    let issued = |more: &str| {
        let body = format!(r#"{{"common_name":"a.example.com"{more}}}"#);
        chain_of(&mount.ask(NOW, Update, "issuer/new/issue/any", &body).unwrap())
    };
    assert_eq!(issued(""), pairs(&whole));
    assert_eq!(issued(r#","remove_roots_from_chain":true"#), pairs(&whole[1..2]));
    // What stands below comes first, and the roots above it before who is signed by others.
    let body = r#"{"common_name":"below","key_type":"ec"}"#;
    let asked = mount.ask(NOW, Update, "intermediate/generate/internal", body).unwrap();
    let csr = quoted(&TestMount::text(&asked, "csr"));
    let body = format!(r#"{{"csr":{csr},"common_name":"below","ttl":"1h"}}"#);
    let signed = mount.ask(NOW, Update, "issuer/new/sign-intermediate", &body).unwrap();
    let body = format!(r#"{{"certificate":{}}}"#, quoted(&TestMount::text(&signed, "certificate")));
    let taken = mount.ask(NOW, Update, "intermediate/set-signed", &body).unwrap();
    let Some(Json::Array(ids)) = taken.get("imported_issuers") else { panic!("{taken:?}") };
    let below = issuer(&mount, ids[0].as_str().unwrap());
    assert_eq!(chain_of(&below), pairs(&[&[("below", "new")], &whole[..]].concat()));
    // The same after a start, when records come in the order of their names.
    let mount = mount.restarted();
    assert_eq!(chain_of(&issuer(&mount, "new")), pairs(&whole));
}

/// Two roots that sign each other, and one that is made again and again with the same key: each is there once.
#[test]
fn a_chain_in_a_circle_has_each_once_and_has_an_end() {
    let mount = with_two_roots();
    cross_sign(&mount, "old", "new");
    cross_sign(&mount, "new", "old");
    let mut chain = chain_of(&issuer(&mount, "new"));
    assert_eq!(chain.len(), 4);
    assert_eq!(chain[0], ("new".to_owned(), "new".to_owned()));
    chain.sort();
    assert_eq!(chain, pairs(&[("new", "new"), ("new", "old"), ("old", "new"), ("old", "old")]));
    let key = TestMount::text(&issuer(&mount, "old"), "key_id");
    for _ in 0..40 {
        let body = format!(r#"{{"common_name":"old","key_ref":"{key}","ttl":"2h"}}"#);
        mount.ask(NOW, Update, "root/generate/existing", &body).unwrap();
    }
    let chain = chain_of(&issuer(&mount, "old"));
    assert_eq!(chain.len(), 32, "of 44");
}

#[test]
fn who_revokes_an_issuer_is_told_on_which_list_it_will_not_be() {
    let mount = with_two_roots();
    let revoke = |reference: &str| {
        let path = format!("issuer/{reference}/revoke");
        let answer = mount.answer(NOW, Update, &path, b"").unwrap();
        let Response::Logical(logical) = answer else { panic!("{answer:?}") };
        let begins = |begin: &str| logical.warnings.iter().any(|one| one.starts_with(begin));
        let told = [
            begins("This issuer is a self-signed (potentially root) certificate."),
            begins("This issuer lacks another parent issuer within the mount."),
            begins("This issuer is currently configured as the default issuer"),
        ];
        assert_eq!(logical.warnings.len(), told.iter().filter(|told| **told).count());
        told
    };
    let cross = cross_sign(&mount, "old", "new");
    assert_eq!(revoke(&cross), [false, false, false]);
    assert_eq!(revoke("new"), [true, false, false]);
    assert_eq!(revoke("new"), [false; 3], "it was revoked before");
    assert_eq!(revoke("old"), [true, true, true]);
}
