//! What a view makes of batches and of records, one at a time.

use kallisto_auth::Operation::{Read, Update};

use super::*;
use crate::platform::server_info::RouteAccess;
use crate::routes::tests::{ROOT, ask, open_core};

#[test]
fn nothing_is_served_from_memory_after_a_batch_that_does_not_open() {
    let core = open_core(RouteAccess::Token);
    for name in ["a", "b"] {
        let data = r#"{"data":{"v":1}}"#;
        ask(&core, Some(ROOT), Update, &format!("secret/data/{name}"), data).unwrap();
    }
    let view = Arc::clone(&core.context.load_full().unwrap().view);
    assert_eq!(view.hot_stats().0, 2);
    let (before, folds) = (view.feed.latest(), view.folds());
    let mut batch = Batch::new();
    batch.put(vec![0x7f; 40], vec![1; 40]);
    let position = pollster::block_on(core.store.commit(batch)).unwrap();
    assert_ne!(view.folds(), folds, "what was read before may not come back");
    assert_eq!(view.hot_stats(), (0, 0.0));
    assert_eq!(view.feed.latest(), crate::view::FeedPosition::after(position));
    assert!(view.feed.take(before, 9, |_| true).is_err(), "nobody knows what it changed");
    assert!(ask(&core, Some(ROOT), Read, "secret/data/a", "").is_ok());
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
