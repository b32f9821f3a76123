//! Policies: their texts, in which ids of login methods, entities and groups become those of the target.

use super::endpoint::ItemFailure;
use super::pass::{Item, Migration, MigrationPass, is_nothing};
use super::report::Settled;
use super::translations::Translations;
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};

/// Policies that every server has of its own.
const BUILT_IN: [&str; 2] = ["root", "response-wrapping"];
/// What the report calls policies for passwords.
const PASSWORD_POLICIES: &str = "password policies";
/// Why a policy that ends by itself does not move: it would stay for ever.
pub(super) const EXPIRES: &str =
    "it expires by itself, which policies here do not: write it by hand";
/// A policy that every server has, and that may have been changed.
const DEFAULT: &str = "default";

/// Moves the policies of a namespace.
pub(super) fn move_all(
    migration: &Migration<'_>,
    namespace: &str,
    translations: &Translations,
) -> Result<(), Error> {
    for (kind, route) in
        [("policies", "sys/policies/acl"), (PASSWORD_POLICIES, "sys/policies/password")]
    {
        let names = migration.list(kind, namespace, route)?;
        for name in names.iter().filter(|name| !BUILT_IN.contains(&name.as_str())) {
            let item = Item { kind, namespace, path: name };
            if (kind, name.as_str()) == ("policies", DEFAULT) {
                migration.settle_quietly(item, || look_at_default(migration, item, route))?;
                continue;
            }
            migration.settle(item, || move_one(migration, item, route, translations))?;
        }
    }
    Ok(())
}

fn move_one(
    migration: &Migration<'_>,
    item: Item<'_>,
    route: &str,
    translations: &Translations,
) -> Result<Settled, ItemFailure> {
    let path = format!("{route}/{}", item.path);
    let there = migration.source.read(item.namespace, &path)?;
    let text = there.as_ref().and_then(|there| there.get("policy")).and_then(Json::as_str);
    let Some(text) = text else { return Ok(Settled::not_moved("it is gone at the source")) };
    if there.as_ref().and_then(|there| there.get("expiration")).is_some_and(|at| !is_nothing(at)) {
        return Ok(Settled::not_moved(EXPIRES));
    }
    // Reading such a name is answered as if nothing were there, so a dry run would not see that writing it is refused.
    let is_refused = item.kind == PASSWORD_POLICIES && item.path.contains('/');
    if is_refused && migration.pass != MigrationPass::Compare {
        return Ok(Settled::not_moved(
            "the target takes no password policy with a slash in its name: write it by another name",
        ));
    }
    let here = migration.target_or_nothing(item.namespace, &path)?;
    let wanted = Map::from([("policy".to_owned(), translations.in_text(text).into())]);
    migration.settle_against(here.as_ref(), &wanted, || {
        migration.target.write(item.namespace, &path, wanted.clone()).map(drop)
    })
}

/// Says where the policy that every server has of its own is another one. It stays as it is, and counts for nothing.
fn look_at_default(
    migration: &Migration<'_>,
    item: Item<'_>,
    route: &str,
) -> Result<(), ItemFailure> {
    let path = format!("{route}/{}", item.path);
    let there = migration.source.read(item.namespace, &path)?.unwrap_or_default();
    let here = migration.target_or_nothing(item.namespace, &path)?.unwrap_or_default();
    if there.get("policy") != here.get("policy") {
        let why = "the target keeps its own, which differs: write it by hand if you had changed it";
        migration.report.note(item, why);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::migrate::pass::MigrationPass;
    use crate::migrate::scope::ContentKind;
    use crate::migrate::testing::{TestPass, TestServer, lines};

    /// OpenBao's policies may have an end, after which what they allow would still be allowed here.
    #[test]
    fn a_policy_that_expires_does_not_move() {
        let (source, target) = (TestServer::start(), TestServer::start());
        let text = r#"path \"a\" {}"#;
        for (name, expiration) in [("ends", r#""2026-11-30T19:53:26Z""#), ("stays", "null")] {
            let policy = format!(r#"{{"policy":"{text}","expiration":{expiration}}}"#);
            source.put(&format!("sys/policies/acl/{name}"), &policy);
        }
        let pass = TestPass::of(MigrationPass::Move, &[ContentKind::Policies]);
        let (code, report) = pass.run(source.endpoint("source"), &target);
        assert_eq!(code, 2);
        let [why] = &lines(&report, "not_moved")[..] else { panic!("{report:?}") };
        assert!(why.starts_with("ends: it expires by itself"), "{why}");
        assert!(target.has("sys/policies/acl/stays") && !target.has("sys/policies/acl/ends"));
    }
}
