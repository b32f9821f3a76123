//! Policies, parsed, and what those of a token come to.
//!
//! Policies are stored as they were written and parsed by the fold. What a token's policies grant is
//! compiled once per token and change of policies, and kept with the token: a request compares two numbers and decides.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kallisto_auth::policy::{
    DEFAULT_NAME, DEFAULT_TEXT, RESPONSE_WRAPPING_NAME, RESPONSE_WRAPPING_TEXT,
};
use kallisto_auth::{AclSet, Policy, PolicyName};

use crate::identity::directory::ChangeCounter;
use crate::limits::TOKEN_RULES_MAX;

/// A stored policy: its text, and what it says.
#[derive(Clone)]
pub(crate) struct StoredPolicy {
    pub(crate) text: Arc<str>,
    /// `None` for a text that does not parse any more: nobody knows what it forbids.
    policy: Option<Arc<Policy>>,
}

/// The policies of the view.
pub(crate) struct Policies {
    by_name: Mutex<BTreeMap<PolicyName, StoredPolicy>>,
    /// That of wrapping tokens: part of the server, neither stored nor listed.
    wrapping: StoredPolicy,
    /// Counts changes; what was compiled under another count is compiled anew.
    pub(crate) generation: AtomicU64,
}

/// What the policies of one token grant, as of one generation.
pub(crate) struct Compiled {
    pub(super) generation: u64,
    /// The count of changes of the bearer's entity, as it was.
    pub(super) watched: Option<(Arc<ChangeCounter>, u64)>,
    /// Whether the bearer may do nothing: the entity is disabled or gone, one of the policies cannot be read, or they have too
    /// many rules.
    pub(super) is_barred: bool,
    pub(crate) acl: AclSet,
}

impl Compiled {
    /// What is granted; `None` when the bearer may do nothing: the entity is disabled or gone, one
    /// of the policies cannot be read, or they have too many rules.
    pub(crate) fn acl(&self) -> Option<&AclSet> {
        (!self.is_barred).then_some(&self.acl)
    }

    /// For a bearer who may do nothing.
    pub(crate) fn barred(generation: u64, watched: Option<(Arc<ChangeCounter>, u64)>) -> Self {
        Self { generation, watched, is_barred: true, acl: AclSet::default() }
    }
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            by_name: Mutex::default(),
            wrapping: response_wrapping(),
            generation: AtomicU64::default(),
        }
    }
}

impl Policies {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PolicyName, StoredPolicy>> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a policy in place. False when its name is none.
    ///
    /// What was written under another release and does not parse any more bars those who have it, and
    /// nobody else: it may have forbidden what their other policies grant. Root can write it anew.
    pub(crate) fn put(&self, name: &str, text: &str) -> bool {
        let Ok(name) = PolicyName::parse(name) else { return false };
        let policy = match Policy::parse(name.clone(), text) {
            Ok(policy) => Some(Arc::new(policy)),
            Err(error) => {
                tracing::warn!(%name, %error, "a policy cannot be read: who has it is refused");
                None
            }
        };
        self.lock().insert(name, StoredPolicy { text: text.into(), policy });
        self.changed();
        true
    }

    pub(crate) fn remove(&self, name: &str) {
        if let Ok(name) = PolicyName::parse(name) {
            self.lock().remove(&name);
            self.changed();
        }
    }

    /// Lets everything that was compiled be compiled anew.
    pub(crate) fn changed(&self) {
        // Release: a reader that sees the count sees the policies it counts.
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The stored policy called `name`, which is in lower case.
    pub(crate) fn get(&self, name: &str) -> Option<StoredPolicy> {
        if name == RESPONSE_WRAPPING_NAME {
            return Some(self.wrapping.clone());
        }
        let name = PolicyName::parse(name).ok()?;
        self.lock().get(&name).cloned()
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// How many rules the policies of these names have.
    pub(crate) fn rule_count(&self, names: &[String]) -> usize {
        let found = names.iter().filter_map(|name| self.get(name)?.policy);
        found.map(|policy| policy.rule_count()).sum()
    }

    /// All names, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().keys().map(|name| name.to_string()).collect()
    }

    /// Whether something compiled earlier still holds.
    pub(crate) fn holds(&self, compiled: &Compiled, now: Timestamp) -> bool {
        compiled.generation == self.generation.load(Ordering::Acquire)
            && compiled.watched.as_ref().is_none_or(|(watch, count)| watch.count() == *count)
            && compiled.acl.stale_at().is_none_or(|end| end > now)
    }

    /// The policies of these names; names that no policy has stand for nothing. `None` when one of them
    /// cannot be read, or they have more rules than a token may have.
    pub(crate) fn named<'n>(
        &self,
        names: impl Iterator<Item = &'n String>,
    ) -> Option<Vec<Arc<Policy>>> {
        let found = names.filter_map(|name| self.get(name)).map(|stored| stored.policy);
        let policies: Vec<_> = found.collect::<Option<_>>()?;
        let rules: usize = policies.iter().map(|policy| policy.rule_count()).sum();
        if rules > TOKEN_RULES_MAX {
            tracing::warn!(
                rules,
                most = TOKEN_RULES_MAX,
                "a token has too many rules: it is refused"
            );
            return None;
        }
        Some(policies)
    }
}

/// The policy of wrapping tokens, which is what it is.
pub(crate) fn response_wrapping() -> StoredPolicy {
    let parsed = PolicyName::parse(RESPONSE_WRAPPING_NAME).ok();
    let policy = parsed.and_then(|name| Policy::parse(name, RESPONSE_WRAPPING_TEXT).ok());
    let policy = policy.unwrap_or_else(|| unreachable!("a policy of our own parses"));
    StoredPolicy { text: RESPONSE_WRAPPING_TEXT.into(), policy: Some(Arc::new(policy)) }
}

/// The policies a server starts with, by name.
pub(crate) fn builtin() -> [(&'static str, &'static str); 1] {
    [(DEFAULT_NAME, DEFAULT_TEXT)]
}

#[cfg(test)]
mod tests {
    use kallisto_auth::NoIdentity;

    use super::*;

    #[test]
    fn what_was_compiled_holds_until_a_policy_changes_or_a_rule_ends() {
        let policies = Policies::default();
        let text = r#"path "a" { capabilities = ["read"] expiration = "60" }"#;
        assert!(policies.put("p", text));
        let at = |second| Timestamp::from_second(second).unwrap();
        let named = policies.named(["p".to_owned()].iter()).unwrap();
        let compiled = |second| Compiled {
            generation: policies.generation.load(Ordering::Acquire),
            watched: None,
            is_barred: false,
            acl: AclSet::compile_below(&named, &NoIdentity, "", at(second)),
        };
        let early = compiled(0);
        assert!(policies.holds(&early, at(0)) && policies.holds(&early, at(59)));
        assert!(!policies.holds(&early, at(60)) && !policies.holds(&early, at(61)));
        assert!(policies.holds(&compiled(60), at(1_000)), "nothing of it ends any more");
        assert!(policies.exists("p") && !policies.exists("q"));
        assert!(policies.exists(RESPONSE_WRAPPING_NAME), "which is not listed");
        assert_eq!(policies.names(), ["p"]);
        assert_eq!(policies.rule_count(&["p".to_owned(), "q".to_owned()]), 1);
        assert_eq!(policies.rule_count(&["q".to_owned()]), 0);
        let watch = Arc::new(ChangeCounter::default());
        let watched =
            |count| Compiled { watched: Some((Arc::clone(&watch), count)), ..compiled(0) };
        assert!(policies.holds(&watched(watch.count()), at(0)));
        assert!(!policies.holds(&watched(watch.count() + 1), at(0)), "its bearer has changed");
        policies.remove("p");
        assert!(!policies.holds(&early, at(0)));
        assert!(!policies.exists("p") && policies.names().is_empty());
    }

    #[test]
    fn a_token_has_only_so_many_rules() {
        const RULES: usize = 1 << 14;
        let text: String =
            (0..RULES).map(|at| format!("path \"{at}\" {{ policy = \"read\" }}\n")).collect();
        let policies = Policies::default();
        let names: Vec<String> = (0..=TOKEN_RULES_MAX / RULES).map(|at| format!("p{at}")).collect();
        assert!(names.iter().all(|name| policies.put(name, &text)));
        assert!(policies.named(names[1..].iter()).is_some());
        assert!(policies.named(names.iter()).is_none(), "who has more is barred");
    }
}
