//! Credentials on their way: what becomes of them when the power goes, the client leaves, or something ends them meanwhile.

use std::sync::atomic::Ordering;

use jiff::Timestamp;
use kallisto_auth::Operation::{Delete, Read, Update};
use kallisto_auth::Path;
use kallisto_leases::LeasePhase;

use super::engine::Mood;
use super::site::{ROOT, Site, logical, poll_some};
use super::{error_of, is_gone};
use crate::api::error::{Denial, Error};
use crate::api::request::{Request, TokenText};
use crate::api::response::Response;
use crate::wrapping::unheard;

/// A credential is on its way for a token below root while `meanwhile` runs; gives back the answer to who asked.
fn make_while(site: &Site, meanwhile: impl FnOnce(&Site, &str)) -> Result<Response, Error> {
    let token = site.token(ROOT, r#"{"policies":["root"]}"#).unwrap();
    let path = Path::decode("far/creds/r").unwrap();
    let request = Request {
        token: Some(TokenText::new(&token)),
        ..Request::new(Read, path, Timestamp::UNIX_EPOCH)
    };
    site.far_end.set(Mood::Waits);
    let mut answer = Box::pin(site.core.handle(&request));
    assert!(poll_some(&mut answer).is_none());
    assert_eq!(site.phases(), [LeasePhase::Pending]);
    meanwhile(site, &token);
    site.far_end.set(Mood::Healthy);
    poll_some(&mut answer).unwrap()
}

#[test]
fn wherever_the_power_goes_in_a_creation_no_user_is_without_a_record() {
    for mood in [Mood::Healthy, Mood::Fails, Mood::Lies, Mood::Hangs] {
        let mut commits = 0;
        loop {
            let mut site = Site::open();
            site.far_end.set(mood);
            site.cut_power_after(commits);
            let answer = site.make(ROOT, 0, "r");
            site.check();
            let was_cut = site.store_is_dead();
            site.restart();
            site.check();
            site.tick(59);
            if let Ok((id, user)) = &answer {
                assert!(!is_gone(&site, id) && site.far_end.users().contains(user));
            }
            site.settle(60);
            site.check();
            // A pending lease is rolled back; one that was told to a client, and no other, is there.
            let expected = usize::from(answer.is_ok());
            assert_eq!((site.records().len(), site.far_end.users().len()), (expected, expected));
            if !was_cut {
                assert!(commits > 0, "a creation commits");
                break;
            }
            commits += 1;
        }
    }
}

#[test]
fn a_client_that_leaves_while_the_far_end_hangs_leaves_a_pending_lease() {
    let site = Site::open();
    site.far_end.set(Mood::Hangs);
    assert!(site.make(ROOT, 0, "r").is_err());
    assert_eq!(site.phases(), [LeasePhase::Pending]);
    let id = site.records()[0].id.to_string();
    assert!(is_gone(&site, &id), "a client knows nothing of it");
    site.far_end.set(Mood::Healthy);
    site.tick(59);
    assert_eq!(site.phases(), [LeasePhase::Pending]);
    site.tick(60);
    assert!(site.phases().is_empty() && site.far_end.users().is_empty());
}

#[test]
fn what_is_being_made_is_ended_by_who_makes_it() {
    let site = Site::open();
    let made = make_while(&site, |site, token| {
        site.ask(0, Update, "auth/token/revoke", &format!(r#"{{"token":"{token}"}}"#)).unwrap();
        site.tick(1);
    });
    assert_eq!(made.unwrap_err(), Error::Denied(Denial::BadToken));
    assert!(site.phases().is_empty() && site.far_end.users().is_empty());

    let site = Site::open();
    let made = make_while(&site, |site, _| {
        site.tick(100);
        site.ask(0, Update, "sys/leases/revoke-prefix/far", "").unwrap();
        site.ask(0, Update, "sys/leases/revoke-prefix/far", r#"{"sync":true}"#).unwrap();
        let refused = error_of(site.ask(0, Delete, "sys/mounts/far", ""));
        assert_eq!(refused, "credentials are being made at this mount");
        assert_eq!(site.far_end.revocations.load(Ordering::Relaxed), 0);
    });
    assert!(!is_gone(&site, &logical(made.unwrap()).lease.unwrap().id));
    assert_eq!((site.phases(), site.far_end.users().len()), (vec![LeasePhase::Live], 1));
}

#[test]
fn what_fails_is_rolled_back_at_once_or_by_the_queue() {
    let site = Site::open();
    site.far_end.set(Mood::Lies);
    let refused = site.make(ROOT, 0, "r").unwrap_err();
    assert_eq!(refused, Error::invalid("ERROR: the far end hung up"));
    assert_eq!(site.phases(), [LeasePhase::Revoking]);
    site.settle(10);
    assert!(site.phases().is_empty() && site.far_end.users().is_empty());
}

#[test]
fn a_credential_that_no_client_hears_of_is_taken_back() {
    let site = Site::open();
    let now = Timestamp::from_second(5).unwrap();
    let request = Request::new(Read, Path::decode("far/creds/r").unwrap(), now);
    let answer = site.ask(5, Read, "far/creds/r", "").unwrap();
    let (heard, _) = site.make(ROOT, 5, "r").unwrap();
    let context = site.core.context.load_full().unwrap();
    pollster::block_on(unheard::end(&site.core, &context, &request, &answer));
    drop(context);
    site.tick(6);
    assert!(is_gone(&site, &logical(answer).lease.unwrap().id) && !is_gone(&site, &heard));
    assert_eq!(site.far_end.users().len(), 1);
}
