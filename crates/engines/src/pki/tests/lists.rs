//! Revocation, its lists and what OCSP answers.

use data_encoding::BASE64URL_NOPAD;

use super::*;

#[test]
fn no_valid_revocation_leaves_whatever_the_clock_says() {
    let (mount, _) = with_root();
    let serial = issued_serial(&mount, r#"{"common_name":"a"}"#);
    revoke(&mount, NOW, &serial);
    let all = r#"{"tidy_cert_store":true,"tidy_revoked_certs":true,"safety_buffer":"1s"}"#;
    const YEAR: i64 = 365 * 86_400;
    for at in [NOW - YEAR, NOW, NOW + 3600, NOW + 3601] {
        mount.ask(at, Update, "tidy", all).unwrap();
        mount.run_job(at, "lists").unwrap();
        mount.run_job(at, "tidy").unwrap();
        assert_eq!(mount.names_in("revoked/"), 1, "{}", at - NOW);
    }
    mount.ask(NOW + YEAR, Update, "tidy", all).unwrap();
    assert_eq!(mount.names_in("revoked/"), 0);
}

#[test]
fn what_was_never_issued_is_unknown() {
    const GOOD: u8 = 0x80;
    const REVOKED: u8 = 0xa1;
    const UNKNOWN: u8 = 0x82;
    let (mount, root) = with_root();
    let ask = |serial: &Serial| {
        let (code, answer) = mount.raw(NOW, Update, "ocsp", &ocsp_request(&root, serial)).unwrap();
        assert_eq!(code, 200);
        ocsp_state(&answer, serial)
    };
    let issued = Serial::parse(&issued_serial(&mount, r#"{"common_name":"a"}"#)).unwrap();
    let never = Serial::of_random([0x77; 20]);
    assert_eq!((ask(&issued), ask(&never)), (GOOD, UNKNOWN));
    revoke(&mount, NOW, &issued.to_string());
    assert_eq!(ask(&issued), REVOKED);
    // A CA that issues what is not stored cannot know.
    let body = r#"{"allow_any_name":true,"key_type":"ec","no_store":true}"#;
    mount.ask(NOW, Update, "roles/ns", body).unwrap();
    issue(&mount, "ns", r#"{"common_name":"n"}"#).unwrap();
    assert_eq!((ask(&issued), ask(&never)), (REVOKED, GOOD));
    for malformed in [&b""[..], b"\x30\x00", b"rubbish", &[0x30; 400]] {
        let answer = mount.raw(NOW, Update, "ocsp", malformed).unwrap();
        assert_eq!(answer, (400, kallisto_pki::ocsp::MALFORMED.to_vec()));
    }
    mount.ask(NOW, Update, "config/crl", r#"{"ocsp_disable":true}"#).unwrap();
    let answer = mount.raw(NOW, Update, "ocsp", &ocsp_request(&root, &issued)).unwrap();
    assert_eq!(answer, (401, kallisto_pki::ocsp::UNAUTHORIZED.to_vec()));
}

/// Complete lists and deltas together are what is revoked, over restarts, in any order of what happens.
#[test]
fn complete_and_delta_lists_are_what_is_revoked() {
    let (mut mount, root) = with_root();
    let body = r#"{"auto_rebuild":true,"enable_delta":true,"delta_rebuild_interval":"10s"}"#;
    mount.ask(NOW, Update, "config/crl", body).unwrap();
    let mut revoked = std::collections::BTreeSet::new();
    let (mut complete_number, mut delta_number) = (0, 0);
    let mut at = NOW;
    // A fixed history that looks random.
    for step in 0..120u32 {
        at += 3;
        match step * 7 % 10 {
            0..=4 => {
                let serial = issued_serial(&mount, r#"{"common_name":"a","ttl":"1h"}"#);
                revoke(&mount, at, &serial);
                revoked.insert(Serial::parse(&serial).unwrap());
            }
            5 => mount = mount.restarted(),
            6 => drop(mount.ask(at, Read, "crl/rotate", "").unwrap()),
            7 => drop(mount.ask(at, Read, "crl/rotate-delta", "").unwrap()),
            _ => mount.run_job(at, "lists").unwrap(),
        }
        let complete = complete(&mount, at);
        let (_, der) = mount.raw(at, Read, "crl/delta", b"").unwrap();
        let delta = crl::ParsedList::from_der(&der).unwrap();
        assert!(complete.is_signed_by(&root.public) && delta.is_signed_by(&root.public));
        let (number, delta_is) = (complete.number.unwrap(), delta.number.unwrap());
        assert!(number >= complete_number && delta_is >= delta_number, "numbers rise");
        (complete_number, delta_number) = (number, delta_is);
        assert_eq!(delta.base, Some(number), "a delta names the complete list");
        assert!(delta_is >= number);
        let listed: std::collections::BTreeSet<Serial> =
            complete.revoked.iter().chain(&delta.revoked).map(|one| one.serial).collect();
        assert!(listed.is_subset(&revoked));
        assert_eq!(listed.len(), complete.revoked.len() + delta.revoked.len(), "none is on both");
        // When a delta is due, nothing is missing after it.
        mount.run_job(at + 10, "lists").unwrap();
        let (_, der) = mount.raw(at + 10, Read, "crl/delta", b"").unwrap();
        let delta = crl::ParsedList::from_der(&der).unwrap();
        let complete = self::complete(&mount, at + 10);
        let listed: std::collections::BTreeSet<Serial> =
            complete.revoked.iter().chain(&delta.revoked).map(|one| one.serial).collect();
        assert_eq!(listed, revoked, "step {step}");
        delta_number = delta_number.max(delta.number.unwrap());
        complete_number = complete_number.max(complete.number.unwrap());
        at += 10;
    }
    assert!(revoked.len() > 40);
}

/// `bao pki health-check` reads the lists of every issuer, also of the root that came along with an intermediate.
#[test]
fn an_issuer_that_nobody_here_signs_for_has_no_list_and_says_so() {
    let (_, root) = with_root();
    let mount = TestMount::new(&ENGINE);
    let body = r#"{"common_name":"Here","key_type":"ec","issuer_name":"here"}"#;
    mount.ask(NOW, Update, "root/generate/internal", body).unwrap();
    let bundle = Json::from(pem::write(Label::Certificate, &root.der).as_str()).to_text();
    let body = format!(r#"{{"pem_bundle":{}}}"#, String::from_utf8(bundle).unwrap());
    let imported = mount.ask(NOW, Update, "issuers/import/cert", &body).unwrap();
    let Json::Array(ids) = &imported["imported_issuers"] else { panic!("a list of issuers") };
    let id = ids[0].as_str().unwrap();
    for inside in ["crl", "crl/der", "crl/pem", "crl/delta", "crl/delta/der", "crl/delta/pem"] {
        assert!(mount.answer(NOW, Read, &format!("issuer/here/{inside}"), b"").is_ok(), "{inside}");
        let refused = mount.answer(NOW, Read, &format!("issuer/{id}/{inside}"), b"");
        let why = format!("unable to find CRL for issuer: id:{id}/ref:{id}");
        assert!(matches!(refused, Err(Error::Invalid(said)) if said == why), "{inside}");
    }
}

/// `bao pki health-check` reads the delta of every mount, and stops at bytes that are no list.
#[test]
fn where_deltas_are_off_the_delta_is_signed_and_empty() {
    let (mount, root) = with_root();
    let revoke = |at: i64| {
        let issued = issue(&mount, "any", r#"{"common_name":"a.example.com"}"#).unwrap();
        let serial = TestMount::text(&issued, "serial_number");
        mount.ask(at, Update, "revoke", &format!(r#"{{"serial_number":"{serial}"}}"#)).unwrap();
    };
    let check = |at: i64| {
        let complete = complete(&mount, at);
        let paths = ["crl/delta", "issuer/root/crl/delta/der", "cert/delta-crl/raw"];
        let ders = paths.map(|path| mount.raw(at, Read, path, b"").unwrap().1);
        assert!(ders.iter().all(|der| *der == ders[0]), "one list by every name");
        let delta = crl::ParsedList::from_der(&ders[0]).unwrap();
        assert!(delta.is_signed_by(&root.public) && delta.revoked.is_empty());
        assert_eq!(delta.base, complete.number);
        assert_eq!(delta.number, complete.number, "lists of one time have one number");
        complete.revoked.len()
    };
    assert_eq!(check(NOW), 0);
    revoke(NOW + 1);
    assert_eq!(check(NOW + 2), 1);
    // What a delta said while there were deltas is on the next complete list.
    let body = r#"{"auto_rebuild":true,"enable_delta":true,"delta_rebuild_interval":"10s"}"#;
    mount.ask(NOW + 3, Update, "config/crl", body).unwrap();
    revoke(NOW + 4);
    mount.ask(NOW + 5, Read, "crl/rotate-delta", "").unwrap();
    let (_, der) = mount.raw(NOW + 5, Read, "crl/delta", b"").unwrap();
    assert_eq!(crl::ParsedList::from_der(&der).unwrap().revoked.len(), 1);
    mount.ask(NOW + 6, Update, "config/crl", r#"{"enable_delta":false}"#).unwrap();
    assert_eq!(check(NOW + 7), 2);
}

#[test]
fn a_crash_between_a_revocation_and_its_list_is_made_good() {
    let (mount, _) = with_root();
    let serial = issued_serial(&mount, r#"{"common_name":"a"}"#);
    revoke(&mount, NOW, &serial);
    // As if the server had stopped before it decided on a list: the record of the lists is as it was before.
    let lists = mount.names().into_iter().find(|name| name.starts_with("crl/")).unwrap();
    let before = super::super::revoked::Lists::default().with_complete(NOW);
    mount.put(&lists, &before.encode());
    let mount = mount.restarted();
    assert!(complete(&mount, NOW + 1).revoked.is_empty());
    mount.run_job(NOW + 1, "lists").unwrap();
    assert_eq!(complete(&mount, NOW + 1).revoked.len(), 1);
}

/// What a revocation writes, and what is made of it, does not depend on how much is revoked.
#[test]
fn revoking_writes_the_same_whatever_is_revoked() {
    const MANY: u32 = 50_000;
    let (mount, root) = with_root();
    let scope = super::super::ids::ListScope::of(&root.subject, root.public.spki());
    let serials: Vec<String> =
        (0..4).map(|_| issued_serial(&mount, r#"{"common_name":"a"}"#)).collect();
    let written = |serial: &str| {
        let before = mount.written();
        revoke(&mount, NOW, serial);
        let after = mount.written();
        (after.0 - before.0, after.1 - before.1)
    };
    let first = written(&serials[0]);
    assert_eq!(first.0, 2, "what is revoked, and that there is another list");
    for number in 0..MANY {
        let mut bytes = [0x11; 20];
        bytes[16..].copy_from_slice(&number.to_be_bytes());
        let serial = Serial::of_random(bytes);
        let revoked = super::super::revoked::RevokedCertificate {
            reason: 0,
            serial,
            at_ns: NOW * 1_000_000_000,
            // One in ten is over when the list of an hour later is made.
            not_after: if number % 10 == 0 { NOW + 60 } else { NOW + 7200 },
            after: 1,
        };
        let record = super::super::revoked::RevocationRecord { scope, revoked };
        mount.put(&super::super::revoked::revoked_record(&serial), &record.encode());
    }
    let many = written(&serials[1]);
    // The numbers of lists have a digit more or less.
    assert!(many.0 == first.0 && many.1.abs_diff(first.1) <= 4, "{first:?} {many:?}");
    assert_eq!(complete(&mount, NOW).revoked.len(), MANY as usize + 2);
    // Made once: who asks again gets the same, until there is another and it is worth making.
    let (_, once) = mount.raw(NOW, Read, "crl", b"").unwrap();
    revoke(&mount, NOW, &serials[2]);
    assert_eq!(mount.raw(NOW, Read, "crl", b"").unwrap().1, once);
    assert_eq!(complete(&mount, NOW + 1).revoked.len(), MANY as usize + 3);
    let mount = mount.restarted();
    assert_eq!(complete(&mount, NOW + 1).revoked.len(), MANY as usize + 3);
    // What has ended was on a list after its end, and is on none after that.
    for at in [NOW + 3600, NOW + 3700] {
        mount.ask(at, Read, "crl/rotate", "").unwrap();
    }
    let left = complete(&mount, NOW + 3700).revoked.len();
    assert!(left < MANY as usize && left > (MANY / 10 * 8) as usize, "{left}");
    let body = r#"{"tidy_revoked_certs":true,"safety_buffer":"1s"}"#;
    mount.ask(NOW + 3700, Update, "tidy", body).unwrap();
    for _ in 0..10 {
        mount.run_job(NOW + 3700, "tidy").unwrap();
    }
    assert_eq!(mount.names_in("revoked/"), MANY as usize / 10 * 9, "those issued here have ended");
}

/// Answers are kept for those who ask again, and a revocation is told at once all the same.
#[test]
fn an_answer_is_given_again_while_it_is_true() {
    const GOOD: u8 = 0x80;
    const REVOKED: u8 = 0xa1;
    let (mount, root) = with_root();
    let serial = Serial::parse(&issued_serial(&mount, r#"{"common_name":"a"}"#)).unwrap();
    let request = ocsp_request(&root, &serial);
    let ask = |at: i64| mount.raw(at, Update, "ocsp", &request).unwrap().1;
    // A signature over P-256 is another one each time it is made.
    let first = ask(NOW);
    assert_eq!(ask(NOW + 59), first);
    assert_ne!(ask(NOW + 60), first);
    assert_ne!(ask(NOW - 1), first);
    // An answer that holds for a short time is given again for half of it.
    mount.ask(NOW, Update, "config/crl", r#"{"ocsp_expiry":"10s"}"#).unwrap();
    let short = ask(NOW + 200);
    assert_eq!(ask(NOW + 204), short);
    assert_ne!(ask(NOW + 205), short);
    // It does not hold for longer than the settings say, once they say so: produced, this update and next update, or no next one.
    let times = |answer: &[u8]| {
        answer
            .windows(4)
            .filter(|part| part.starts_with(&[0x18, 15]) && part.ends_with(b"20"))
            .count()
    };
    let long = r#"{"ocsp_expiry":"12h"}"#;
    mount.ask(NOW, Update, "config/crl", long).unwrap();
    let held = ask(NOW + 250);
    assert_eq!((times(&held), ask(NOW + 251)), (3, held));
    mount.ask(NOW, Update, "config/crl", r#"{"ocsp_expiry":"0"}"#).unwrap();
    assert_eq!(times(&ask(NOW + 252)), 2);
    mount.ask(NOW, Update, "config/crl", long).unwrap();
    assert_eq!(times(&ask(NOW + 253)), 3);
    // What is known comes first.
    let before = ask(NOW + 300);
    assert_eq!(ocsp_state(&before, &serial), GOOD);
    revoke(&mount, NOW + 300, &serial.to_string());
    let after = ask(NOW + 300);
    assert_eq!(ocsp_state(&after, &serial), REVOKED);
    assert_eq!(ask(NOW + 301), after);
    // What was never issued is signed anew each time.
    let never = ocsp_request(&root, &Serial::of_random([0x77; 20]));
    let asked = |request: &[u8]| mount.raw(NOW, Update, "ocsp", request).unwrap().1;
    assert_ne!(asked(&never), asked(&never));
    // Nobody answers when nobody may sign any more.
    mount.ask(NOW, Update, "issuer/root", r#"{"usage":"read-only,issuing-certificates"}"#).unwrap();
    assert_eq!(ask(NOW + 301), kallisto_pki::ocsp::UNAUTHORIZED);
}

/// Whatever changes, an answer that memory gives at once says what one that is signed for this request says.
#[test]
fn an_answer_at_once_says_what_is_known_after_every_change() {
    let mut mount = with_root().0;
    let mut roots = Vec::new();
    let mut serials: Vec<(usize, Serial)> = Vec::new();
    let body = r#"{"allow_any_name":true,"key_type":"ec","no_store":true}"#;
    mount.ask(NOW, Update, "roles/unstored", body).unwrap();
    let mut state = 17_u64;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % limit
    };
    let (mut at_once, mut denied) = (0, 0);
    let read_root = |mount: &TestMount| {
        let (_, der) = mount.raw(NOW, Read, "ca", b"").unwrap();
        ParsedCertificate::from_der(&der).unwrap()
    };
    for turn in 0..400 {
        let at = NOW + turn;
        let root = read_root(&mount);
        if !roots.contains(&root) {
            roots.push(root.clone());
        }
        let of_root = roots.iter().position(|known| *known == root).unwrap();
        let ask = |path: &str, body: &str| drop(mount.ask(at, Update, path, body));
        match below(16) {
            0..4 => {
                let body = if below(2) == 0 {
                    r#"{"common_name":"a","ttl":"30s"}"#
                } else {
                    r#"{"common_name":"a"}"#
                };
                let issued = mount.ask(at, Update, "issue/any", body).unwrap();
                let serial = Serial::parse(&TestMount::text(&issued, "serial_number")).unwrap();
                serials.push((of_root, serial));
            }
            4..6 if !serials.is_empty() => {
                let (_, serial) = serials[below(serials.len())];
                ask("revoke", &format!(r#"{{"serial_number":"{serial}"}}"#));
            }
            6 => ask(
                "tidy",
                r#"{"tidy_cert_store":true,"tidy_revoked_certs":true,"safety_buffer":"1s"}"#,
            ),
            7 if below(4) == 0 => ask("config/crl", r#"{"ocsp_disable":true}"#),
            8..10 => ask("config/crl", r#"{"ocsp_disable":false}"#),
            10 if below(4) == 0 => {
                ask("issuer/default", r#"{"usage":"read-only,issuing-certificates"}"#)
            }
            11 => ask(
                "issuer/default",
                r#"{"usage":"read-only,issuing-certificates,crl-signing,ocsp-signing"}"#,
            ),
            12 if below(4) == 0 => {
                ask("root/rotate/internal", r#"{"common_name":"Next","key_type":"ec","ttl":"2h"}"#);
                ask("root/replace", r#"{"default":"next"}"#);
            }
            13 if below(8) == 0 => ask("issue/unstored", r#"{"common_name":"n"}"#),
            14 if below(8) == 0 => mount = mount.restarted(),
            15 if of_root > 0 => drop(mount.ask(at, Delete, "issuer/root", "")),
            _ => {}
        }
        for (of_root, serial) in serials.iter().rev().take(12) {
            let root = &roots[*of_root];
            let path = format!("ocsp/{}", BASE64URL_NOPAD.encode(&ocsp_request(root, serial)));
            let is_at_once = mount.reads_at_once(at, &path);
            at_once += usize::from(is_at_once);
            let once = mount.raw(at, Update, "ocsp", &ocsp_request_once(root, serial)).unwrap();
            let again = mount.raw(at, Read, &path, b"").unwrap();
            assert_eq!(once.0, again.0, "{turn}");
            match once.0 {
                200 => {
                    assert_eq!(ocsp_state(&once.1, serial), ocsp_state(&again.1, serial), "{turn}")
                }
                _ => {
                    assert!(!is_at_once, "{turn}");
                    denied += 1;
                }
            }
        }
    }
    assert!(at_once > 200 && denied > 50 && roots.len() > 1, "{at_once} {denied} {}", roots.len());
}

/// What anyone reads is read at once when it is in memory and has nothing to wait for, and no list before there is a new one. What it says is what the
/// handler says, which every read of these tests compares.
#[test]
fn lists_and_certificates_are_read_at_once_while_they_are_the_latest() {
    let (mount, _) = with_root();
    let lists = [
        "crl",
        "crl/pem",
        "crl/delta",
        "crl/delta/pem",
        "issuer/root/crl/der",
        "issuer/root/crl/pem",
    ];
    let lists = [&lists[..], &["issuer/root/crl/delta/der", "issuer/root/crl/delta/pem"]].concat();
    for path in ["ca", "ca/pem", "issuer/root/der", "issuer/root/pem"] {
        assert!(mount.reads_at_once(NOW, path), "{path}");
        mount.raw(NOW, Read, path, b"").unwrap();
    }
    let serial = issued_serial(&mount, r#"{"common_name":"a"}"#);
    for turn in 0..2 {
        assert!(lists.iter().all(|path| !mount.reads_at_once(NOW, path)), "none is made");
        for path in &lists {
            let made = mount.raw(NOW, Read, path, b"").unwrap();
            assert!(mount.reads_at_once(NOW, path), "{path}");
            assert_eq!(mount.raw(NOW, Read, path, b"").unwrap(), made);
        }
        if turn == 0 {
            revoke(&mount, NOW, &serial);
        }
    }
    mount.ask(NOW, Patch, "issuer/root", r#"{"usage":"read-only,issuing-certificates"}"#).unwrap();
    assert!(lists.iter().all(|path| mount.reads_at_once(NOW, path)), "the latest stay");
    mount.ask(NOW, Delete, "issuer/root", "").unwrap();
    assert!(lists.iter().all(|path| !mount.reads_at_once(NOW, path)), "nobody signs them");
    for path in ["ca", "ca/pem", "crl", "crl/pem", "issuer/nobody/der", "issuer/nobody/crl/der"] {
        assert!(!TestMount::new(&ENGINE).reads_at_once(NOW, path), "{path}");
    }
}

/// As recorded of OpenBao: files of PEM below `issuer/` end in a line feed, and the older ones do not.
#[test]
fn files_of_pem_end_as_the_ones_of_openbao() {
    let (mount, _) = with_root();
    for (path, ends_in_a_line) in [
        ("issuer/root/pem", true),
        ("issuer/root/crl/pem", true),
        ("issuer/root/crl/delta/pem", true),
        ("ca/pem", false),
        ("ca_chain", false),
        ("crl/pem", false),
        ("crl/delta/pem", false),
        ("cert/ca/raw/pem", false),
    ] {
        // Made, and then read at once where it can be.
        for _ in 0..2 {
            let (_, text) = mount.raw(NOW, Read, path, b"").unwrap();
            assert_eq!(text.ends_with(b"-----\n"), ends_in_a_line, "{path}");
        }
    }
}

/// A list that names an algorithm is signed by it: one that the issuer's key has not is refused, and is not signed by where it was kept before it was refused.
#[test]
fn a_list_is_signed_by_the_algorithm_that_it_names() {
    const NAMES: [&str; 8] = [
        "ECDSAWithSHA256",
        "ECDSAWithSHA384",
        "ECDSAWithSHA512",
        "SHA256WithRSA",
        "SHA384WithRSA",
        "SHA512WithRSAPSS",
        "PureEd25519",
        "Ed25519",
    ];
    for (key, fitting) in [
        (r#""key_type":"ec""#, &NAMES[..1]),
        (r#""key_type":"ec","key_bits":384"#, &NAMES[1..2]),
        (r#""key_type":"rsa""#, &NAMES[3..6]),
        (r#""key_type":"ed25519""#, &NAMES[6..]),
    ] {
        let mount = TestMount::new(&ENGINE);
        let body = format!(r#"{{"common_name":"Root",{key},"ttl":"2h","issuer_name":"root"}}"#);
        let root = mount.ask(NOW, Update, "root/generate/internal", &body).unwrap();
        let root = parsed(&root, "certificate");
        for name in NAMES {
            let body = format!(r#"{{"revocation_signature_algorithm":"{name}"}}"#);
            let answer = mount.ask(NOW, Patch, "issuer/root", &body);
            assert_eq!(answer.is_ok(), fitting.contains(&name), "{key} {name}");
            mount.ask(NOW, Read, "crl/rotate", "").unwrap();
            assert!(complete(&mount, NOW).is_signed_by(&root.public), "{key} {name}");
        }
        let names = mount.names();
        let record = names.iter().find(|name| name.starts_with("issuer/")).unwrap();
        let mut kept = mount.record(record).unwrap();
        for name in NAMES {
            kept.insert("crl_algorithm".to_owned(), name.into());
            mount.put(record, &Json::Object(kept.clone()).to_text());
            mount.ask(NOW, Read, "crl/rotate", "").unwrap();
            assert!(complete(&mount, NOW).is_signed_by(&root.public), "{key} {name} kept");
        }
    }
}

/// The name of the operation that scripts have from older versions of Vault.
#[test]
fn revocations_that_ended_are_tidied_by_an_older_name_too() {
    let (mount, _) = with_root();
    let serial = issued_serial(&mount, r#"{"common_name":"a","ttl":"1m"}"#);
    revoke(&mount, NOW, &serial);
    let later = NOW + 600;
    let body = r#"{"tidy_revocation_list":true,"safety_buffer":"1s"}"#;
    mount.ask(later, Update, "tidy", body).unwrap();
    mount.run_job(later, "tidy").unwrap();
    let status = mount.ask(later, Read, "tidy-status", "").unwrap();
    assert_eq!(TestMount::text(&status, "tidy_revoked_certs"), "true");
    assert_eq!(TestMount::text(&status, "revoked_cert_deleted_count"), "1");
    assert_eq!(mount.ask(later, List, "certs/revoked", ""), Err(Error::NotFound));
}

/// What tells of a revocation has its time as a number.
#[test]
fn a_list_is_signed_of_times_as_they_are_told() {
    let (mount, _) = with_root();
    let serial = issued_serial(&mount, r#"{"common_name":"a"}"#);
    revoke(&mount, NOW, &serial);
    let told = mount.ask(NOW, Read, &format!("cert/{serial}"), "").unwrap();
    let number = TestMount::text(&told, "revocation_time");
    let text = quoted(&TestMount::text(&told, "revocation_time_rfc3339"));
    for time in [&number, &quoted(&number), &text] {
        let body = format!(
            r#"{{"crl_number":1,"revoked_certs":[{{"serial_number":"{serial}","revocation_time":{time}}}]}}"#
        );
        let signed = mount.ask(NOW, Update, "issuer/root/sign-revocation-list", &body).unwrap();
        let list = crl::ParsedList::from_der(&der_of(&TestMount::text(&signed, "crl"))).unwrap();
        assert_eq!(list.revoked[0].at, NOW, "{time}");
    }
    for time in ["0", "-5", "\"\"", "\"yesterday\"", "null"] {
        let body = format!(
            r#"{{"crl_number":1,"revoked_certs":[{{"serial_number":"{serial}","revocation_time":{time}}}]}}"#
        );
        refusal(mount.ask(NOW, Update, "issuer/root/sign-revocation-list", &body));
    }
}

/// Requests name an issuer by any hash of SHA-1 and SHA-2.
#[test]
fn an_issuer_is_found_by_whatever_hash_a_request_names_it() {
    use aws_lc_rs::digest::{SHA256, SHA384, SHA512, digest};
    let (mount, root) = with_root();
    let serial = Serial::parse(&issued_serial(&mount, r#"{"common_name":"a"}"#)).unwrap();
    // Lengths of 128 and more take a byte more.
    let tlv = |tag: u8, parts: &[&[u8]]| {
        let content = parts.concat();
        let length = u8::try_from(content.len()).unwrap();
        let head: &[u8] = if length < 0x80 { &[tag, length] } else { &[tag, 0x81, length] };
        [head, &content].concat()
    };
    for (last, hash) in [(1, &SHA256), (2, &SHA384), (3, &SHA512)] {
        let oid = [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, last];
        let name = digest(hash, &root.subject_as_written);
        let key = digest(hash, root.public.bits());
        let request = |name: &[u8]| {
            let algorithm = tlv(0x30, &[&tlv(6, &[&oid]), &[5, 0]]);
            let hashes = [tlv(4, &[name]), tlv(4, &[key.as_ref()])].concat();
            let id = tlv(0x30, &[&algorithm, &hashes, &tlv(2, &[serial.as_bytes()])]);
            tlv(0x30, &[&tlv(0x30, &[&tlv(0x30, &[&tlv(0x30, &[&id])])])])
        };
        let state = |request: &[u8]| {
            let (code, answer) = mount.raw(NOW, Update, "ocsp", request).unwrap();
            (code, ocsp_state(&answer, &serial))
        };
        assert_eq!(state(&request(name.as_ref())), (200, 0x80), "good, by {last}");
        assert_eq!(state(&request(key.as_ref())), (200, 0x82), "of another, by {last}");
    }
}
