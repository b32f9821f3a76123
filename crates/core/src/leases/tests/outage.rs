//! Far ends that are away for long, and leaders that change meanwhile: who is tried when, and what counts as an attempt.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kallisto_auth::Operation::{Read, Update};
use kallisto_leases::{LeaseId, LeasePhase};
use kallisto_store::Batch;

use super::engine::{FarEnd, Mood};
use super::site::{ROOT, Site, data, logical};
use super::{error_of, is_gone, revoke};
use crate::api::json::Json;
use crate::storage::keys::{self, StorageKeys};

#[test]
fn after_six_attempts_a_lease_is_irrevocable_until_an_operator_says_otherwise() {
    let site = Site::open();
    let (id, _) = site.make(ROOT, 0, "short").unwrap();
    site.far_end.set(Mood::Fails);
    for second in 0..1000 {
        site.tick(second);
    }
    assert_eq!(site.far_end.revocations.load(Ordering::Relaxed), 6);
    let answer = site.ask(0, Read, "sys/leases?type=irrevocable", "").unwrap();
    let listed = String::from_utf8(logical(answer).data).unwrap();
    let expected = format!(
        r#"{{"lease_count":1,"leases":[{{"error":"ERROR: the far end is down","lease_id":"{id}"}}]}}"#
    );
    assert_eq!(listed, expected);
    let counted = site.ask(0, Read, "sys/leases/count?type=irrevocable", "").unwrap();
    let text = String::from_utf8(logical(counted).data).unwrap();
    assert!(text.contains(r#""far_"#) && text.ends_with(r#"":1},"lease_count":1}"#), "{text}");
    let none = site.ask(0, Read, "sys/leases?type=irrevocable&limit=0", "").unwrap();
    assert_eq!(data(none, "leases"), Json::Array(Vec::new()));
    site.far_end.set(Mood::Healthy);
    site.tick(2000);
    assert_eq!(site.phases(), [LeasePhase::Irrevocable], "time does not help");
    site.ask(2000, Update, "sys/leases/tidy", "").unwrap();
    site.tick(2001);
    assert!(is_gone(&site, &id) && site.far_end.users().is_empty());
    let counted = site.ask(0, Read, "sys/leases/count?type=irrevocable", "").unwrap();
    assert_eq!(data(counted, "lease_count"), 0_u64.into());
}

#[test]
fn a_far_end_that_is_away_for_a_day_makes_no_lease_irrevocable() {
    const LEASES: usize = 40;
    let site = Site::open();
    for _ in 0..LEASES {
        site.make(ROOT, 0, "short").unwrap();
    }
    site.far_end.set(Mood::Away);
    let day = 86_400;
    for second in (0..day).step_by(5) {
        if second == 120 {
            assert_eq!(site.phases(), [LeasePhase::Revoking; LEASES]);
        }
        let before = site.commits();
        site.tick(second);
        assert!(second < 120 || site.commits() == before, "who waits writes nothing: {second}");
    }
    assert_eq!(site.phases(), [LeasePhase::Revoking; LEASES]);
    // One that is asked for by hand is tried at once, and stays.
    let one = site.records()[0].id.to_string();
    assert!(error_of(revoke(&site, day, &one, true)).contains("connection refused"));
    let tried = site.far_end.revocations.load(Ordering::Relaxed);
    assert!(tried < (LEASES as u64) * (day / 60 + 12).cast_unsigned(), "{tried}");

    site.far_end.set(Mood::Healthy);
    for second in day..day + 76 {
        site.tick(second);
    }
    assert!(site.records().is_empty() && site.far_end.users().is_empty());
}

#[test]
fn who_leads_next_tries_what_waits_and_refusals_count_from_where_they_were() {
    let mut site = Site::open();
    let (id, _) = site.make(ROOT, 0, "short").unwrap();
    site.far_end.set(Mood::Fails);
    for second in 0..100 {
        site.tick(second);
    }
    let refused = site.far_end.revocations.load(Ordering::Relaxed);
    assert_eq!(refused, 4);
    site.far_end.set(Mood::Away);
    for second in 100..10_000 {
        site.tick(second);
    }
    site.restart();
    site.far_end.set(Mood::Fails);
    let before = site.far_end.revocations.load(Ordering::Relaxed);
    for second in 10_000..11_000 {
        site.tick(second);
    }
    assert_eq!(site.far_end.revocations.load(Ordering::Relaxed) - before, 2);
    assert_eq!(site.phases(), [LeasePhase::Irrevocable]);
    assert!(!is_gone(&site, &id));
}

#[test]
fn a_list_of_irrevocable_leases_is_as_long_as_was_asked_over_all_mounts() {
    let site = Site::open();
    site.ask(0, Update, "sys/mounts/other", r#"{"type":"far"}"#).unwrap();
    for path in ["far/creds/short", "other/creds/short"] {
        (0..2).for_each(|_| _ = site.ask(0, Read, path, "").unwrap());
    }
    let accessor = site.core.view().unwrap().mounts.at("other/").unwrap().entry.accessor.clone();
    FarEnd::of(&accessor).set(Mood::Fails);
    site.far_end.set(Mood::Fails);
    (0..1000).for_each(|second| site.tick(second));
    assert_eq!(site.phases(), [LeasePhase::Irrevocable; 4]);
    for (limit, listed) in [("1", 1), ("2", 2), ("3", 3), ("9", 4), ("none", 4)] {
        let path = format!("sys/leases?type=irrevocable&limit={limit}");
        let Json::Array(leases) = data(site.ask(0, Read, &path, "").unwrap(), "leases") else {
            panic!("no list")
        };
        assert_eq!(leases.len(), listed, "{limit}");
    }
    let counted = site.ask(0, Read, "sys/leases/count?type=irrevocable", "").unwrap();
    assert_eq!(data(counted, "lease_count"), 4_u64.into());
}

#[test]
fn a_lease_whose_record_is_damaged_keeps_no_other_from_ending() {
    let site = Site::open();
    let tokens: Vec<_> = (0..8).map(|_| site.token(ROOT, "{}").unwrap()).collect();
    let ids: Vec<_> = tokens.iter().map(|token| site.make(token, 0, "r").unwrap().0).collect();
    let context = site.core.context.load_full().unwrap();
    let keyring = context.store.keys().load_full();
    let record = keys::lease(&LeaseId::parse(&ids[3]).unwrap());
    let mut damage = Batch::new();
    damage.put(StorageKeys::new(&keyring).of(&record), b"damaged".to_vec());
    // On the disk: the view does not hear of it.
    damage.set_companion(Arc::new(crate::view::WrittenSecrets::new(&context.view)));
    pollster::block_on(site.store.commit_as_it_is(damage)).unwrap();
    for token in &tokens {
        let body = format!(r#"{{"token":"{token}"}}"#);
        site.ask(1, Update, "auth/token/revoke", &body).unwrap();
    }
    for secs in 2..6 {
        site.tick(secs);
    }
    assert_eq!(site.far_end.users().len(), 1, "what cannot be read cannot be taken back");
    // Those that come later are ended as well.
    let later = site.token(ROOT, "{}").unwrap();
    site.make(&later, 6, "r").unwrap();
    let body = format!(r#"{{"token":"{later}"}}"#);
    site.ask(6, Update, "auth/token/revoke", &body).unwrap();
    site.tick(7);
    assert_eq!(site.far_end.users().len(), 1);
}
