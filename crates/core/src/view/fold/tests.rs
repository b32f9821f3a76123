//! What a view makes of batches and of records, one at a time.

use kallisto_auth::Operation::{Read, Update};

use super::*;
use crate::api::error::Error;
use crate::platform::server_info::RouteAccess;
use crate::routes::tests::{ROOT, ask, open_core};
use crate::state::Core;
use crate::storage::keys::StorageKeys;

/// Waits until somebody has the turn at the seal no more, and then for `done`.
fn wait_for(core: &Core, done: impl Fn() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "the patience of a test")]
    let begin = std::time::Instant::now();
    while !done() {
        assert!(begin.elapsed() < std::time::Duration::from_secs(60));
        drop(pollster::block_on(core.seal.turn()));
        std::thread::yield_now();
    }
}

#[test]
fn a_token_that_a_batch_which_does_not_open_revokes_is_not_honoured_any_more() {
    let core = open_core(RouteAccess::Token);
    let view = Arc::clone(&core.context.load().as_ref().unwrap().view);
    let before = view.tokens.hashes();
    let body = r#"{"id":"revoked","policies":["root"]}"#;
    ask(&core, Some(ROOT), Update, "auth/token/create", body).unwrap();
    let asked = |token| ask(&core, Some(token), Read, "auth/token/lookup-self", "");
    assert!(asked("revoked").is_ok());
    let hash = view.tokens.hashes().into_iter().find(|hash| !before.contains(hash)).unwrap();
    let mut batch = Batch::new();
    let note = vec![1; 40];
    batch.delete_noted(StorageKeys::new(&view.keys.load()).of(&keys::token(&hash)), note);
    pollster::block_on(core.store.commit(batch)).unwrap();
    assert!(matches!(asked("revoked"), Err(Error::Sealed | Error::Denied(_))));
    wait_for(&core, || !core.is_sealed());
    assert!(matches!(asked("revoked"), Err(Error::Denied(_))));
    assert!(asked(ROOT).is_ok(), "it serves from its records again");
    assert!(!core.take_due_seal());
}

#[test]
fn nothing_is_served_after_a_record_that_does_not_open() {
    let core = open_core(RouteAccess::Token);
    let context = core.context.load_full().unwrap();
    let (mut followers, sealings) = (context.view.feed.listen(), core.sealings());
    let mut batch = Batch::new();
    batch.put(vec![0x7f; 40], vec![1; 40]);
    pollster::block_on(core.store.commit(batch)).unwrap();
    assert!(core.is_sealed(), "before the commit is acknowledged");
    assert!(followers.has_changed().unwrap() && sealings.has_changed().unwrap());
    assert!(context.check_follows().is_err());
    // The record is there still, so there is no view of it; a seal that opens by itself is tried again.
    wait_for(&core, || core.take_due_seal());
    let refused = ask(&core, Some(ROOT), Read, "secret/data/a", "");
    assert!(matches!(refused, Err(Error::Sealed)), "{refused:?}");
    followers.mark_unchanged();
}

#[test]
fn what_an_upgrade_passed_by_is_nobodys() {
    let core = open_core(RouteAccess::Token);
    ask(&core, Some(ROOT), Update, "secret/data/a", r#"{"data":{"v":1}}"#).unwrap();
    let context = core.context.load_full().unwrap();
    let (mount, _) = context.view.mounts.route("secret/").unwrap();
    let (held, latest) = (context.view.hot_stats().0, context.view.feed.latest());
    let mut batch = Batch::new();
    batch.put(keys::kv_one(mount.entry.id, "late"), crate::records::kv::encode_one(None, b"{}"));
    batch.delete(keys::kv_one(mount.entry.id, "a"));
    pollster::block_on(context.store.commit(batch)).unwrap();
    assert!(mount.index.contains("a") && !mount.index.contains("late"));
    assert_eq!(context.view.hot_stats().0, held);
    let heard = context.view.feed.take(latest, 9, |_| true).unwrap();
    assert!(!heard.changes.iter().any(|(_, change)| &*change.path == "late"));
}

#[test]
fn a_change_says_whether_the_current_version_is_gone() {
    use kallisto_auth::Operation::Delete;
    let core = open_core(RouteAccess::Token);
    let view = Arc::clone(&core.context.load_full().unwrap().view);
    let data = r#"{"data":{"v":1}}"#;
    let last = |change: &dyn Fn()| {
        let before = view.feed.latest();
        change();
        let heard = view.feed.take(before, 9, |_| true).unwrap();
        heard.changes.into_iter().last().unwrap().1.what
    };
    let write = |name: &str| {
        ask(&core, Some(ROOT), Update, &format!("secret/data/{name}"), data).unwrap();
    };
    let is_gone = |what: PathEvent| matches!(what, PathEvent::Written { gone: true, .. });
    assert!(!is_gone(last(&|| write("a"))));
    let deleted = || _ = ask(&core, Some(ROOT), Delete, "secret/data/a", "").unwrap();
    assert!(is_gone(last(&deleted)));
    write("b");
    let destroyed = || {
        ask(&core, Some(ROOT), Update, "secret/destroy/b", r#"{"versions":[1]}"#).unwrap();
    };
    assert!(is_gone(last(&destroyed)));
    let described = || {
        let body = r#"{"custom_metadata":{"a":"b"}}"#;
        ask(&core, Some(ROOT), Update, "secret/metadata/b", body).unwrap();
    };
    assert!(is_gone(last(&described)), "its metadata may change still");
    assert!(view.hot_stats().0 >= 2, "nothing was forgotten over it");
}

#[test]
fn records_of_the_system_are_heard_of_the_system_alone() {
    let core = open_core(RouteAccess::Token);
    let view = Arc::clone(&core.context.load_full().unwrap().view);
    let (mount, _) = view.mounts.route("secret/").unwrap();
    for name in ["config/cors", "time/marks"] {
        let nonsense = |id| view.put_shelf(id, name, b"nonsense").is_err();
        assert!(!nonsense(mount.entry.id), "{name} of an engine is its own");
        assert!(nonsense(MountId::SYSTEM), "{name}");
    }
}

#[test]
fn what_policies_grant_is_compiled_anew_where_anybodys_may_have_changed() {
    use crate::view::compile::Readiness;
    let core = open_core(RouteAccess::Token);
    let view = Arc::clone(&core.context.load_full().unwrap().view);
    let now = jiff::Timestamp::UNIX_EPOCH;
    let token = view.tokens.live(crate::records::token::make_root(now).unwrap());
    token.compiled(&view, now);
    view.follow(Effect::Told);
    assert!(matches!(token.readiness(&view, now), Readiness::Ready), "who is watched was told");
    view.follow(Effect::Anybody);
    assert!(matches!(token.readiness(&view, now), Readiness::Stale));
}
