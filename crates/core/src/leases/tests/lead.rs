//! Leases of a server that has lost leadership, or is about to, and does not know it yet.
//!
//! What such a server reads is of the past: its successor may have renewed what looks over, and roll back what is still being made.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kallisto_auth::Operation::{Delete, Update};
use kallisto_leases::LeasePhase;

use super::engine::Mood;
use super::site::{ROOT, Site};
use super::{error_of, is_gone};
use crate::api::error::Error;

#[test]
fn a_server_that_lost_the_lead_over_the_intent_does_not_ask_the_far_end() {
    let mut site = Site::open();
    site.store.deposed_after.store(1, Ordering::SeqCst);
    assert_eq!(site.make(ROOT, 0, "r").unwrap_err(), Error::NotLeader);
    assert_eq!(site.phases(), [LeasePhase::Pending], "its successor committed the intent");
    assert_eq!(site.far_end.at_once_max(), 0);
    site.restart();
    site.settle(60);
    assert!(site.phases().is_empty() && site.far_end.users().is_empty());
}

/// Found by a model: its call could arrive when the lease was rolled back, and leave a credential that no record knows.
#[test]
fn a_server_that_stood_still_behind_the_intent_does_not_ask_the_far_end() {
    use kallisto_leases::limits::BEGIN_SECS_MAX;
    for (secs_each_look, is_asked) in [(0, true), (BEGIN_SECS_MAX + 1, false)] {
        let mut site = Site::open();
        let looked = AtomicU64::new(0);
        site.core.services.timers.measure_by(Arc::new(move || {
            Duration::from_secs(looked.fetch_add(secs_each_look, Ordering::SeqCst))
        }));
        let made = site.make(ROOT, 0, "r");
        assert_eq!(made.is_ok(), is_asked, "{made:?}");
        assert_eq!(site.far_end.at_once_max() > 0, is_asked);
        if !is_asked {
            assert_eq!(site.phases(), [LeasePhase::Pending]);
            site.restart();
            site.settle(60);
            assert!(site.phases().is_empty() && site.far_end.users().is_empty());
        }
    }
}

/// Found by the simulator (`--core`, seed 81023): the job looked for what is left in a view that shows nothing new, without an end and without
/// letting anybody else run.
#[test]
fn a_view_of_the_past_does_not_keep_the_job_looking_for_ever() {
    let site = Site::open();
    let token = site.token(ROOT, "{}").unwrap();
    site.make(&token, 0, "r").unwrap();
    let live = site.records().remove(0);
    assert_eq!(live.state.phase(), LeasePhase::Live);
    site.ask_as(&token, "", 1, Update, "auth/token/revoke-self", "").unwrap();
    site.settle(60);
    assert!(site.records().is_empty());
    let context = site.core.context.load_full().unwrap();
    let id = live.id.as_str().to_owned();
    assert!(context.view.leases.put(0, &id, &live.encode()), "as a view has it that was overtaken");
    context.view.leases.look_at_all_owners();
    site.tick(200);
    assert!(site.records().is_empty() && site.far_end.users().is_empty());
}

/// Its maker lets go of a lease a moment after it is there. An owner whose end was seen in between is not asked about by anybody else.
#[test]
fn leases_that_the_job_passed_by_are_looked_at_again() {
    let site = Site::open();
    let token = site.token(ROOT, "{}").unwrap();
    site.make(&token, 0, "r").unwrap();
    (1..4).for_each(|secs| site.tick(secs));
    let live = site.records().remove(0);
    assert_eq!(live.state.phase(), LeasePhase::Live);
    let context = site.core.context.load_full().unwrap();
    let held = (0, live.id);
    context.view.leases.work().creating.insert(held.clone());
    site.ask_as(&token, "", 4, Update, "auth/token/revoke-self", "").unwrap();
    (5..8).for_each(|secs| site.tick(secs));
    assert_eq!(site.phases(), [LeasePhase::Live]);
    context.view.leases.work().creating.remove(&held);
    (8..11).for_each(|secs| site.tick(secs));
    assert!(site.records().is_empty() && site.far_end.users().is_empty());
}

#[test]
fn a_leader_that_cannot_commit_takes_nothing_back() {
    let mut site = Site::open();
    let (id, user) = site.make(ROOT, 0, "short").unwrap();
    // It was cut off: what it reads is of the past, and the lease may have been renewed by its successor.
    site.cut_power_after(0);
    site.tick(100);
    assert_eq!(site.far_end.revocations.load(Ordering::Relaxed), 0);
    assert!(site.far_end.users().contains(&user));
    site.restart();
    site.settle(200);
    assert!(is_gone(&site, &id) && site.far_end.users().is_empty());
}

#[test]
fn a_creation_under_way_on_another_server_is_left_to_it_for_its_time() {
    let mut site = Site::open();
    let token = site.token(ROOT, r#"{"policies":["root"]}"#).unwrap();
    site.far_end.set(Mood::Hangs);
    site.make(&token, 0, "r").unwrap_err();
    site.restart();
    site.far_end.set(Mood::Healthy);
    site.ask(1, Update, "auth/token/revoke", &format!(r#"{{"token":"{token}"}}"#)).unwrap();
    site.ask(1, Update, "sys/leases/revoke-prefix/far", "").unwrap();
    site.ask(1, Update, "sys/leases/revoke-prefix/far", r#"{"sync":true}"#).unwrap();
    site.tick(59);
    let refused = error_of(site.ask(59, Delete, "sys/mounts/far", ""));
    assert_eq!(refused, "credentials are being made at this mount");
    assert_eq!(site.phases(), [LeasePhase::Pending]);
    assert_eq!(site.far_end.revocations.load(Ordering::Relaxed), 0);
    site.tick(60);
    assert!(site.phases().is_empty() && site.far_end.users().is_empty());
    site.ask(60, Delete, "sys/mounts/far", "").unwrap();
}
