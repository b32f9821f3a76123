//! What the policies of a token grant its bearer, compiled and kept with the token.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::Guard;
use jiff::Timestamp;
use kallisto_auth::{AclSet, NoIdentity};

use super::View;
use super::cached_token::CachedToken;
use super::policies::Compiled;
use crate::identity::directory::Person;
use crate::identity::record::IdentityId;
use crate::records::token::TokenEntry;

/// What asking a token for what it grants takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// A look-up.
    Ready,
    /// A look-up among so many patterns that it takes long.
    Wide,
    /// Its policies have to be compiled first.
    Stale,
}

impl View {
    /// What a token grants its bearer now: by its own policies, and by those of the entity that bears
    /// it and of the entity's groups.
    pub(crate) fn compile(&self, entry: &TokenEntry, now: Timestamp) -> Compiled {
        self.compile_below(entry, "", now)
    }

    /// The same for requests in the namespace that is `below` this one.
    pub(crate) fn compile_below(
        &self,
        entry: &TokenEntry,
        below: &str,
        now: Timestamp,
    ) -> Compiled {
        // The counts before what they count: a change in between makes this stale, not wrong.
        let generation = self.policies.generation.load(Ordering::Acquire);
        let own = entry.auth.policies.iter();
        let Some(id) = entry.entity_id else {
            let Some(policies) = self.policies.named(own) else {
                return Compiled::barred(generation, None);
            };
            let acl = AclSet::compile_below(&policies, &NoIdentity, below, now);
            return Compiled { generation, watched: None, is_barred: false, acl };
        };
        let watch = self.ask_directory(|directory| directory.watch(id));
        let watched = watch.map(|watch| {
            let count = watch.count();
            (watch, count)
        });
        let person = self.person(entry).filter(|person| !person.entity.disabled);
        let Some(person) = person else { return Compiled::barred(generation, watched) };
        let names: BTreeSet<String> = person.policies().into_iter().chain(own.cloned()).collect();
        let Some(policies) = self.policies.named(names.iter()) else {
            return Compiled::barred(generation, watched);
        };
        let acl = AclSet::compile_below(&policies, &person, below, now);
        Compiled { generation, watched, is_barred: false, acl }
    }

    /// Who bears a token; `None` when nobody is known to, or they are gone.
    pub(crate) fn person(&self, entry: &TokenEntry) -> Option<Person> {
        self.person_with(entry.entity_id?)
    }

    /// Who an entity is; `None` when there is none in this namespace.
    pub(crate) fn person_with(&self, id: IdentityId) -> Option<Person> {
        self.ask_directory(|directory| directory.person(id)).flatten()
    }
}

impl CachedToken {
    /// What it grants at `now`; compiled anew only after a change of policies, groups, or the entity
    /// that bears it.
    pub(crate) fn compiled(&self, view: &View, now: Timestamp) -> Arc<Compiled> {
        if let Some(compiled) = &*self.shape.compiled.load()
            && view.policies.holds(compiled, now)
        {
            return Arc::clone(compiled);
        }
        let compiled = Arc::new(view.compile(self.shared(), now));
        self.shape.compiled.store(Some(Arc::clone(&compiled)));
        compiled
    }

    /// Whether asking for what it grants is a look-up and nothing more.
    pub(crate) fn readiness(&self, view: &View, now: Timestamp) -> Readiness {
        match &*self.shape.compiled.load() {
            Some(compiled) if view.policies.holds(compiled, now) => match compiled.acl() {
                Some(acl) if acl.is_wide() => Readiness::Wide,
                _ => Readiness::Ready,
            },
            _ => Readiness::Stale,
        }
    }

    /// The same without a count of references; never `None`.
    pub(crate) fn granted(&self, view: &View, now: Timestamp) -> Guard<Option<Arc<Compiled>>> {
        let loaded = self.shape.compiled.load();
        match &*loaded {
            Some(compiled) if view.policies.holds(compiled, now) => loaded,
            _ => Guard::from_inner(Some(self.compiled(view, now))),
        }
    }
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::Update;

    use super::*;
    use crate::platform::server_info::RouteAccess;
    use crate::records::token::make_root;
    use crate::routes::tests::{ROOT, ask, open_core};

    #[test]
    fn what_a_token_grants_is_ready_until_a_policy_changes() {
        let core = open_core(RouteAccess::Token);
        let policy = r#"{"policy":"path \"a\" { capabilities = [\"read\"] }"}"#;
        let write = || ask(&core, Some(ROOT), Update, "sys/policies/acl/p", policy).unwrap();
        write();
        let view = &core.context.load_full().unwrap().view;
        let now = Timestamp::UNIX_EPOCH;
        let mut entry = make_root(now).unwrap();
        entry.auth.policies = vec!["p".to_owned()];
        let token = view.tokens.live(entry);
        let readiness = || token.readiness(view, now);
        assert!(matches!(readiness(), Readiness::Stale), "it was never asked for");
        let compiled = token.compiled(view, now);
        assert!(matches!(readiness(), Readiness::Ready));
        assert!(Arc::ptr_eq(&compiled, &token.compiled(view, now)));
        write();
        assert!(matches!(readiness(), Readiness::Stale));
    }

    #[test]
    fn a_token_with_very_many_patterns_takes_long() {
        let core = open_core(RouteAccess::Token);
        let rules: String = (0..5_000)
            .map(|at| format!("path \\\"{at}/+/x\\\" {{ policy = \\\"read\\\" }} "))
            .collect();
        let policy = format!(r#"{{"policy":"{rules}"}}"#);
        ask(&core, Some(ROOT), Update, "sys/policies/acl/p", &policy).unwrap();
        let view = &core.context.load_full().unwrap().view;
        let mut entry = make_root(Timestamp::UNIX_EPOCH).unwrap();
        entry.auth.policies = vec!["p".to_owned()];
        let token = view.tokens.live(entry);
        token.compiled(view, Timestamp::UNIX_EPOCH);
        let readiness = token.readiness(view, Timestamp::UNIX_EPOCH);
        assert!(matches!(readiness, Readiness::Wide));
    }
}
