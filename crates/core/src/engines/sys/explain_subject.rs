//! Whom an explanation is about: a token, an entity, or a set of policies, and what their policies come to with drafts in place.
//!
//! | asked with | the subject's policies |
//! |---|---|
//! | nothing | those of the token that asks |
//! | `accessor` | those of that token, with its entity's and groups' |
//! | `entity_id` | those of the entity and its groups |
//! | `policies` | these, besides those of a named token or entity |
//!
//! `draft` has texts by name: each stands in for the stored policy of its name, and the subject is taken to have it. Nothing is stored.
//!
//! Invariant: what is decided here is decided by an `AclSet` made as that of a request is. A root token and a disabled entity have none.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use kallisto_auth::{AclSet, NoIdentity, Policy, PolicyName, TokenKind};

use super::capabilities::caller_with_accessor;
use super::explain::{self, ExplainQuestion};
use super::policies;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::caller::call::AuthorizedCall;
use crate::caller::policies::CallerPolicies;
use crate::identity::directory::Person;
use crate::identity::record::IdentityId;
use crate::limits::{EXPLAINED_POLICIES_MAX, TOKEN_RULES_MAX};
use crate::view::NamespaceContext;

/// The subject of a question.
pub(super) struct SubjectQuery {
    standing: SubjectStanding,
    policies: Vec<String>,
    entity_id: Option<IdentityId>,
}

/// What decides about a subject.
enum SubjectStanding {
    /// Nothing is refused.
    Root,
    /// Everything is refused, for this reason.
    Barred(&'static str),
    /// Its policies.
    Acl(Box<AclSet>),
}

impl SubjectQuery {
    /// The caller itself, with the drafts of the body.
    pub(super) fn by_itself(
        context: &NamespaceContext,
        body: &Map,
        caller: &CallerPolicies,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let drafts = drafts(body)?;
        let person = caller.home(context).view.person(caller.entry());
        ExplainSubject { caller: Some(caller), person, extra: Vec::new() }
            .resolve(context, drafts, now)
    }

    /// Whom the body names.
    pub(super) fn named(
        context: &NamespaceContext,
        body: &Map,
        call: &AuthorizedCall<'_, '_>,
    ) -> Result<Self, Error> {
        let fields = Fields::new(body);
        let accessor = fields.string("accessor")?.unwrap_or_default();
        let entity = fields.string("entity_id")?.unwrap_or_default();
        let extra = fields.strings("policies")?.unwrap_or_default();
        if !accessor.is_empty() && !entity.is_empty() {
            return Err(Error::invalid("'accessor' and 'entity_id' name two subjects"));
        }
        if extra.len() > EXPLAINED_POLICIES_MAX {
            let most = EXPLAINED_POLICIES_MAX;
            return Err(Error::invalid(format!("'policies' may have {most} names")));
        }
        let caller = match accessor.as_str() {
            "" => None,
            accessor => Some(caller_with_accessor(context, call, accessor)?),
        };
        let person = match (&caller, entity.as_str()) {
            (Some(caller), _) => context.view.person(caller.entry()),
            (None, "") => None,
            (None, entity) => {
                let id = IdentityId::parse(entity);
                let found = id.and_then(|id| context.view.ask_directory(|all| all.person(id)));
                let missing = || Error::invalid(format!("no entity has the id {entity:?}"));
                Some(found.flatten().ok_or_else(missing)?)
            }
        };
        let extra = extra.iter().map(|name| name.to_lowercase()).collect();
        let subject = ExplainSubject { caller: caller.as_ref(), person, extra };
        subject.resolve(context, drafts(body)?, call.now)
    }

    /// Decides and says why, with at most `lost_max` of the rules that were not asked.
    pub(super) fn explain(&self, question: &ExplainQuestion, lost_max: usize) -> Map {
        match &self.standing {
            SubjectStanding::Root => said(true, "the token is a root token"),
            SubjectStanding::Barred(reason) => said(false, reason),
            SubjectStanding::Acl(acl) => explain::cell(&acl.explain(question), lost_max),
        }
    }

    /// The rules that say nothing about it; `None` where no rules decide.
    pub(super) fn dropped(&self, most: usize) -> Option<Map> {
        let SubjectStanding::Acl(acl) = &self.standing else { return None };
        Some(explain::dropped(&acl.dropped().collect::<Vec<_>>(), most))
    }

    pub(super) fn rule_count(&self) -> usize {
        match &self.standing {
            SubjectStanding::Root | SubjectStanding::Barred(_) => 0,
            SubjectStanding::Acl(acl) => acl.rule_count(),
        }
    }

    /// Who it is.
    pub(super) fn describe(&self) -> Map {
        let mut map = Map::new();
        map.insert("policies".into(), Json::strings(self.policies.iter().cloned()));
        map.insert("root".into(), matches!(self.standing, SubjectStanding::Root).into());
        let entity_id = self.entity_id.map_or(Json::Null, |id| id.to_string().into());
        map.insert("entity_id".into(), entity_id);
        map
    }
}

fn said(allowed: bool, reason: &str) -> Map {
    let mut map = Map::new();
    map.insert("allowed".into(), allowed.into());
    map.insert("reason".into(), reason.into());
    map
}

/// A subject before its policies are looked up.
struct ExplainSubject<'c> {
    caller: Option<&'c CallerPolicies>,
    person: Option<Person>,
    extra: Vec<String>,
}

impl ExplainSubject<'_> {
    fn resolve(
        self,
        context: &NamespaceContext,
        drafts: Vec<Policy>,
        now: Timestamp,
    ) -> Result<SubjectQuery, Error> {
        let Self { caller, person, extra } = self;
        let entity_id = person.as_ref().map(|person| person.entity.id);
        let own = caller.map_or(&[][..], CallerPolicies::policies);
        let of_person = person.as_ref().map(Person::policies).unwrap_or_default();
        let drafted = drafts.iter().map(|draft| draft.name().to_string());
        let names: BTreeSet<String> =
            own.iter().cloned().chain(of_person).chain(extra).chain(drafted).collect();
        let asked = |standing| SubjectQuery {
            standing,
            policies: names.iter().cloned().collect(),
            entity_id,
        };
        let is_root = caller.is_some_and(|caller| caller.token().kind == TokenKind::Root);
        if is_root {
            return Ok(asked(SubjectStanding::Root));
        }
        if person.as_ref().is_some_and(|person| person.entity.disabled) {
            return Ok(asked(SubjectStanding::Barred("the entity is disabled")));
        }
        if let Some(above) = caller.and_then(CallerPolicies::above) {
            if !drafts.is_empty() {
                return Err(Error::invalid(
                    "the token's policies are those of a namespace above: a draft is tried there",
                ));
            }
            let below = context.view.namespace_path();
            let below = below.strip_prefix(above.view.namespace_path()).unwrap_or(below);
            let entry = caller.map(CallerPolicies::entry);
            let compiled = entry.map(|entry| above.view.compile_below(entry, below, now));
            let acl = compiled.map(|compiled| compiled.acl).unwrap_or_default();
            return Ok(asked(SubjectStanding::Acl(Box::new(acl))));
        }
        let is_drafted = |name: &str| drafts.iter().any(|draft| &**draft.name() == name);
        let stored = context.view.policies.named(names.iter().filter(|name| !is_drafted(name)));
        let Some(mut all) = stored else {
            let reason = "a policy of the subject cannot be read, or it has too many rules";
            return Ok(asked(SubjectStanding::Barred(reason)));
        };
        let rules: usize = all.iter().map(|policy| policy.rule_count()).sum();
        let drafted: usize = drafts.iter().map(Policy::rule_count).sum();
        if rules + drafted > TOKEN_RULES_MAX {
            return Err(Error::invalid(format!(
                "{} rules are more than a token may have ({TOKEN_RULES_MAX})",
                rules + drafted
            )));
        }
        all.extend(drafts.into_iter().map(Arc::new));
        let acl = match &person {
            Some(person) => AclSet::compile(&all, person, now),
            None => AclSet::compile(&all, &NoIdentity, now),
        };
        Ok(asked(SubjectStanding::Acl(Box::new(acl))))
    }
}

/// The drafts of a body: texts by the name of the policy.
fn drafts(body: &Map) -> Result<Vec<Policy>, Error> {
    let drafts = match body.get("draft") {
        None | Some(Json::Null) => return Ok(Vec::new()),
        Some(Json::Object(drafts)) => drafts,
        Some(_) => return Err(Error::invalid("'draft' must be an object of policies by name")),
    };
    if drafts.len() > EXPLAINED_POLICIES_MAX {
        return Err(Error::invalid(format!("'draft' may have {EXPLAINED_POLICIES_MAX} policies")));
    }
    let parse = |(name, text): (&String, &Json)| {
        let wrong =
            |what: &dyn std::fmt::Display| Error::invalid(format!("draft {name:?}: {what}"));
        let text = text.as_str().ok_or_else(|| wrong(&"it must be a text"))?;
        let parsed = PolicyName::parse(name).map_err(|error| wrong(&error))?;
        Policy::parse(parsed, &policies::decoded(text.to_owned()))
            .map_err(|error| wrong(&format!("failed to parse policy: {error}")))
    };
    drafts.iter().map(parse).collect()
}
