//! What a login needs, and whether the codes that came for it are good.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kallisto_engine::Storage;
use kallisto_totp::{FactorOutcome, TotpKey, Tries, judge_factor};

use super::methods;
use super::records::{Contexts, ids_of, rules, storage, text, texts};
use super::secrets::{secret_record, tries_record};
use crate::api::error::{Denial, Error};
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::identity::record::IdentityId;
use crate::storage::engine_storage::IDENTITY_MOUNT;
use crate::view::Mount;
use crate::view::NamespaceContext;

/// Codes, by the id or name of the method that they are for.
pub(crate) type FactorCodes = BTreeMap<String, String>;

/// A rule that holds for a login: one of its methods has to be satisfied.
pub(crate) struct MfaConstraint {
    name: String,
    methods: Vec<Map>,
}

/// The rules that hold for a login, of its namespace and of those above.
///
/// # Errors
/// When a rule, or a method that it names, cannot be read.
pub(crate) fn requirement(
    context: &NamespaceContext,
    mount: &Mount,
    entity: IdentityId,
) -> Result<Vec<MfaConstraint>, Error> {
    let contexts = Contexts::of(context);
    let here = context;
    let mut known = None;
    let mut held = Vec::new();
    for context in contexts.iter() {
        for rule in rules(&storage(context)?)? {
            let (ids, groups) = known.get_or_insert_with(|| {
                let person = here.view.person_with(entity);
                let groups = person.map(|person| person.groups).unwrap_or_default();
                let groups: Vec<_> = groups.iter().map(|group| group.id.to_string()).collect();
                let ids = ids_of(&contexts, entity);
                (ids.iter().map(IdentityId::to_string).collect::<Vec<_>>(), groups)
            });
            if !holds_for(&rule, mount, ids, groups) {
                continue;
            }
            let ids = texts(&rule, "mfa_method_ids");
            let found: Result<Vec<_>, Error> =
                ids.map(|id| methods::find(&contexts, id)).filter_map(Result::transpose).collect();
            let methods = found?.into_iter().map(|found| found.method).collect();
            // Two namespaces may have a rule of one name each.
            let name = text(&rule, "name").to_owned();
            let is_taken = held.iter().any(|other: &MfaConstraint| other.name == name);
            let path = context.view.namespace_path();
            let name = if is_taken { format!("{path}{name}") } else { name };
            held.push(MfaConstraint { name, methods });
        }
    }
    Ok(held)
}

fn holds_for(rule: &Map, mount: &Mount, ids: &[String], groups: &[String]) -> bool {
    let kind = mount.entry.kind.name();
    texts(rule, "auth_method_accessors").any(|of| of == mount.entry.accessor)
        || texts(rule, "auth_method_types").any(|of| of == kind)
        || texts(rule, "identity_entity_ids").any(|of| ids.iter().any(|id| id == of))
        || texts(rule, "identity_group_ids").any(|of| groups.iter().any(|group| group == of))
}

impl MfaConstraint {
    /// What clients are told of it.
    pub(crate) fn shown(&self) -> (String, Json) {
        let methods = self.methods.iter().map(|method| {
            Json::object([
                ("type", text(method, "type").into()),
                ("id", text(method, "id").into()),
                ("uses_passcode", true.into()),
                ("name", text(method, "name").into()),
            ])
        });
        (self.name.clone(), Json::object([("any", Json::Array(methods.collect()))]))
    }
}

/// Judges codes against the rules that hold for a login: each rule needs one good code. A code is looked at once, whatever number of rules
/// its method is in.
///
/// # Errors
/// [`Denial::SecondFactor`] naming the rule that is not satisfied; [`Error::TooManyTries`].
pub(crate) async fn satisfy(
    context: &NamespaceContext,
    constraints: &[MfaConstraint],
    entity: IdentityId,
    codes: &FactorCodes,
    now: Timestamp,
) -> Result<(), Error> {
    let contexts = Contexts::of(context);
    let mut judged: BTreeMap<String, Result<(), Error>> = BTreeMap::new();
    for constraint in constraints {
        let mut refusals = Vec::new();
        let mut is_satisfied = false;
        for method in &constraint.methods {
            let (id, name) = (text(method, "id"), text(method, "name"));
            let code = codes.get(id).or_else(|| codes.get(name).filter(|_| !name.is_empty()));
            let Some(code) = code else { continue };
            if !judged.contains_key(id) {
                let verdict = judge(&contexts, id, entity, code, now).await;
                judged.insert(id.to_owned(), verdict);
            }
            match judged.get(id) {
                Some(Ok(())) => is_satisfied = true,
                Some(Err(Error::Denied(Denial::SecondFactor(why)))) => refusals.push(why.clone()),
                Some(Err(error)) => return Err(error.clone()),
                None => {}
            }
        }
        if is_satisfied {
            continue;
        }
        let name = &constraint.name;
        let why = if refusals.is_empty() {
            "no passcode was given for any of its methods".to_owned()
        } else {
            refusals.join("; ")
        };
        return Err(refused(format!("failed to satisfy enforcement {name}. error: {why}")));
    }
    Ok(())
}

fn refused(why: String) -> Error {
    Error::Denied(Denial::SecondFactor(why))
}

/// Judges a code of somebody with a method, and writes down that it was tried.
async fn judge(
    contexts: &Contexts<'_>,
    id: &str,
    entity: IdentityId,
    code: &str,
    now: Timestamp,
) -> Result<(), Error> {
    let found = methods::find(contexts, id)?;
    let found = found.ok_or_else(|| refused(format!("no MFA method with ID {id:?}")))?;
    let wrong_max = Fields::new(&found.method).int("max_validation_attempts")?.unwrap_or(1);
    let wrong_max = u64::try_from(wrong_max).unwrap_or(1);
    let kept = storage(found.context)?;
    let mut holder = entity;
    for one in ids_of(contexts, entity) {
        if kept.get(&secret_record(id, one))?.is_some() {
            holder = one;
            break;
        }
    }
    let (secret, tries) = (secret_record(id, holder), tries_record(id, holder));
    let seconds = u64::try_from(now.as_second()).unwrap_or(0);
    let verdict = Storage::new(&kept, IDENTITY_MOUNT).transact(&tries, |transaction| {
        let Some(key) = transaction.get(&secret)? else { return Ok(None) };
        let key = key.decode(TotpKey::decode)?;
        let before = transaction.get(&tries)?.map(|before| before.decode(Tries::decode));
        let before = before.transpose()?.unwrap_or_default();
        let verdict = judge_factor(&key, &before, code, wrong_max, seconds);
        if let Some(after) = verdict.tries {
            transaction.put(&tries, after)?;
        }
        Ok(Some(verdict.outcome))
    });
    match verdict.await? {
        None => Err(refused(format!("MFA secret for method ID {id:?} not present in entity"))),
        Some(FactorOutcome::Valid) => Ok(()),
        Some(FactorOutcome::Wrong | FactorOutcome::Malformed) => {
            Err(refused("failed to validate TOTP passcode".to_owned()))
        }
        Some(FactorOutcome::Used) => {
            Err(refused("code already used; wait until the next time period".to_owned()))
        }
        Some(FactorOutcome::TooMany { retry_after_secs }) => {
            Err(Error::TooManyTries { retry_after_secs })
        }
    }
}
