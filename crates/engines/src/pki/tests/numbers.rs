//! Lists of one number say one thing, whatever happens to what they are made of.

use super::*;

/// RFC 5280, 5.2.3: lists of one number are one list, whatever was tidied since, on whichever server and after whatever restart they are made.
#[test]
fn a_list_of_a_number_says_the_same_after_tidying_and_a_restart() {
    for (auto_rebuild, kept) in [(false, 0), (true, 1)] {
        let (mount, _) = with_root();
        let body = format!(r#"{{"auto_rebuild":{auto_rebuild}}}"#);
        mount.ask(NOW, Update, "config/crl", &body).unwrap();
        revoke(&mount, NOW, &issued_serial(&mount, r#"{"common_name":"a","ttl":"1m"}"#));
        mount.ask(NOW, Read, "crl/rotate", "").unwrap();
        let told = |mount: &TestMount, at| {
            let list = complete(mount, at);
            (list.number, list.revoked.len())
        };
        let before = told(&mount, NOW);
        assert_eq!(before.1, 1);
        let tidy = |at| {
            let body = r#"{"tidy_revoked_certs":true,"safety_buffer":"1s"}"#;
            mount.ask(at, Update, "tidy", body).unwrap();
            mount.run_job(at, "tidy").unwrap();
            mount.names_in("revoked/")
        };
        let later = NOW + 600;
        assert_eq!(tidy(later), kept, "auto_rebuild {auto_rebuild}");
        if auto_rebuild {
            assert_eq!(told(&mount, later), before);
            // It is on a list that was made after its end, and on none after that.
            for at in [later, later + 1] {
                mount.ask(at, Read, "crl/rotate", "").unwrap();
            }
            assert_eq!(tidy(later + 2), 0);
        }
        let after = told(&mount, later + 2);
        assert_eq!(after.1, 0);
        assert!(after.0 > before.0, "another list, and no other number");
        assert_eq!(told(&mount.restarted(), later + 2), after);
    }
}

/// Nobody signs another list for them: what is on the latest one goes when that has ended, and what is on none at once.
#[test]
fn revocations_of_who_may_sign_no_lists_are_tidied() {
    let complete = r#"{"expiry":"1h"}"#;
    let delta = r#"{"expiry":"1h","auto_rebuild":true,"auto_rebuild_grace_period":"1m","enable_delta":true,"delta_rebuild_interval":"10s"}"#;
    for (config, last_at) in [(complete, NOW), (delta, NOW + 10)] {
        let (mount, _) = with_root();
        mount.ask(NOW, Update, "config/crl", config).unwrap();
        let revoke = || {
            let serial = issued_serial(&mount, r#"{"common_name":"a","ttl":"1m"}"#);
            revoke(&mount, NOW, &serial);
        };
        revoke();
        mount.run_job(last_at, "lists").unwrap();
        let usage = r#"{"usage":"read-only,issuing-certificates,ocsp-signing"}"#;
        mount.ask(last_at, Patch, "issuer/root", usage).unwrap();
        revoke();
        for (at, kept) in [(NOW + 600, 1), (last_at + 3600, 1), (last_at + 3601, 0)] {
            mount.run_job(at, "lists").unwrap();
            let body = r#"{"tidy_revoked_certs":true,"safety_buffer":"1s"}"#;
            mount.ask(at, Update, "tidy", body).unwrap();
            assert_eq!(mount.names_in("revoked/"), kept, "{config} {}", at - NOW);
        }
    }
}

/// Of issuers with one name and key one signs, on every server the same, and another one when that leaves.
#[test]
fn a_list_of_a_number_is_signed_by_one_issuer() {
    const LATER: i64 = NOW + 3 * 3600;
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let algorithms = ["SHA256WithRSA", "SHA384WithRSA", "SHA512WithRSA", "SHA384WithRSA"];
    let tidy = r#"{"tidy_expired_issuers":true,"issuer_safety_buffer":"1s"}"#;
    let usage = r#"{"usage":"read-only,issuing-certificates"}"#;
    // Tidying takes all but the default one, and so the one that signs unless it is that.
    for (how, renewals) in [("usage", 1), ("delete", 1), ("tidy", 3)] {
        let mut renewed = 0;
        for (leaves, stays) in NAMES.into_iter().zip(NAMES.into_iter().cycle().skip(1)) {
            let mut mount = TestMount::new(&ENGINE);
            // The first ids of a mount of tests rise.
            for _ in 0..6 {
                let body = r#"{"common_name":"Other","key_type":"ec"}"#;
                mount.ask(NOW, Update, "root/generate/internal", body).unwrap();
                mount.ask(NOW, Delete, "root", "").unwrap();
            }
            let mut lists = std::collections::BTreeMap::new();
            let mut step = |operation, path: &str, body: &str, at| {
                mount.ask(at, operation, path, body).unwrap();
                for _ in 0..2 {
                    let (_, der) = mount.raw(at, Read, "crl", b"").unwrap();
                    let number = crl::ParsedList::from_der(&der).unwrap().number;
                    let known = lists.entry(number).or_insert_with(|| der.clone());
                    assert!(*known == der, "{how} of {leaves}: {path} {number:?}");
                    mount = std::mem::replace(&mut mount, TestMount::new(&ENGINE)).restarted();
                }
                lists.len()
            };
            let mut kind = "internal";
            for (name, algorithm) in NAMES.into_iter().zip(algorithms) {
                let body = format!(
                    r#"{{"common_name":"R","key_type":"rsa","key_ref":"default","ttl":"2h","issuer_name":"{name}"}}"#
                );
                step(Update, &format!("root/generate/{kind}"), &body, NOW);
                let body = format!(r#"{{"revocation_signature_algorithm":"{algorithm}"}}"#);
                step(Patch, &format!("issuer/{name}"), &body, NOW);
                kind = "existing";
            }
            let default = format!(r#"{{"default":"{stays}"}}"#);
            let before = step(Update, "config/issuers", &default, NOW);
            let issuer = format!("issuer/{leaves}");
            let after = match how {
                "usage" => step(Patch, &issuer, usage, NOW),
                "delete" => step(Delete, &issuer, "", NOW),
                _ => step(Update, "tidy", tidy, LATER),
            };
            renewed += after - before;
            assert_eq!(mount.ask(LATER, Read, &issuer, "").is_ok(), how == "usage");
        }
        assert_eq!(renewed, renewals, "{how}");
    }
}

/// How a list is signed, and where its deltas are, is in it.
#[test]
fn what_a_list_says_besides_revocations_is_said_under_a_new_number() {
    let (mount, _) = with_root();
    let mut number = complete(&mount, NOW).number;
    for (operation, path, body, renews) in [
        (Patch, "issuer/root", r#"{"revocation_signature_algorithm":"ECDSAWithSHA256"}"#, true),
        (Patch, "issuer/root", r#"{"revocation_signature_algorithm":"ECDSAWithSHA256"}"#, false),
        (Patch, "issuer/root", r#"{"leaf_not_after_behavior":"permit"}"#, false),
        (Update, "config/urls", r#"{"delta_crl_distribution_points":"http://a.b/d"}"#, true),
        (Update, "config/urls", r#"{"ocsp_servers":"http://a.b/o"}"#, false),
        (Patch, "issuer/root", r#"{"delta_crl_distribution_points":"http://a.b/own"}"#, true),
        (Update, "config/urls", r#"{"delta_crl_distribution_points":""}"#, true),
        (Patch, "issuer/root", r#"{"delta_crl_distribution_points":""}"#, true),
    ] {
        mount.ask(NOW, operation, path, body).unwrap();
        let list = complete(&mount, NOW);
        assert_eq!(list.number > number, renews, "{path} {body}");
        number = list.number;
    }
}
