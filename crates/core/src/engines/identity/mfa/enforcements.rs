//! Rules: of which logins a second factor is asked.

use kallisto_engine::{Class, Storage};

use super::methods;
use super::records::{
    Contexts, LAST_METHOD, LAST_RULE, RULES, RULES_MAX, place, read_record, rules, storage, text,
    texts,
};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::dispatch::route_handler::RouteCall;
use crate::engines::identity::site::list_reply;
use crate::identity::record::IdentityId;
use crate::random;
use crate::records::engine_kind::EngineKind;
use crate::storage::engine_storage::IDENTITY_MOUNT;
use crate::view::{NamespaceContext, View};

/// Most methods, mounts, groups or entities of a rule.
const ITEMS_MAX: usize = 256;
/// What a login can be named by.
const NAMED_BY: [&str; 4] =
    ["auth_method_accessors", "auth_method_types", "identity_group_ids", "identity_entity_ids"];

pub(super) fn list(run: &RouteCall<'_>) -> Result<Response, Error> {
    let found = rules(&storage(&run.context)?)?;
    list_reply(
        found
            .into_iter()
            .map(|rule| (text(&rule, "name").to_owned(), Json::Object(place(rule, &run.context)))),
    )
}

pub(super) fn read(run: &RouteCall<'_>) -> Result<Response, Error> {
    let name = run.params.get("name");
    kallisto_engine::names::check(name)?;
    let rule = read_record(&storage(&run.context)?, &format!("{RULES}{name}"))?;
    let rule = rule.ok_or(Error::NotFound)?;
    Ok(Response::data(&Json::Object(place(rule, &run.context))))
}

/// What a request says of a rule. It has to be for something that is there: a rule for nobody would look like one that works.
fn given(run: &RouteCall<'_>, body: &Map) -> Result<Map, Error> {
    let fields = Fields::new(body);
    let mut rule = Map::new();
    let methods = fields.strings("mfa_method_ids")?.unwrap_or_default();
    if methods.is_empty() {
        return Err(Error::invalid("missing method ids"));
    }
    let contexts = Contexts::of(&run.context);
    for id in &methods {
        if methods::find(&contexts, id)?.is_none() {
            return Err(Error::invalid(format!(
                "one of the provided method ids doesn't exist: {id}"
            )));
        }
    }
    let all = run.context.view.mounts.all();
    let mut lists = vec![("mfa_method_ids", methods)];
    for name in NAMED_BY {
        lists.push((name, fields.strings(name)?.unwrap_or_default()));
    }
    if lists.iter().skip(1).all(|(_, items)| items.is_empty()) {
        return Err(Error::invalid(
            "One of auth_method_accessors, auth_method_types, identity_group_ids, identity_entity_ids must be specified",
        ));
    }
    for (name, items) in lists {
        if items.len() > ITEMS_MAX {
            return Err(Error::invalid(format!("more than {ITEMS_MAX} {name}")));
        }
        let is_known = |item: &str| match name {
            "auth_method_accessors" => all.iter().any(|mount| mount.entry.accessor == item),
            "auth_method_types" => EngineKind::mountable(item, Class::Auth).is_some(),
            "identity_group_ids" => is_there(&run.context, item, |view, id| {
                view.ask_directory(|directory| directory.group(id)).flatten().is_some()
            }),
            "identity_entity_ids" => {
                is_there(&run.context, item, |view, id| view.person_with(id).is_some())
            }
            _ => true,
        };
        if let Some(unknown) = items.iter().find(|item| !is_known(item)) {
            return Err(Error::invalid(format!("{name}: there is no {unknown:?}")));
        }
        rule.insert(name.to_owned(), Json::strings(items));
    }
    Ok(rule)
}

/// Whether a namespace, or one below, has what an id of the identity engine is of: a rule is for logins there.
fn is_there(here: &NamespaceContext, id: &str, has: impl Fn(&View, IdentityId) -> bool) -> bool {
    IdentityId::parse(id).is_some_and(|id| {
        has(&here.view, id) || here.contexts_below().iter().any(|below| has(&below.view, id))
    })
}

pub(super) async fn write(run: &RouteCall<'_>) -> Result<Response, Error> {
    let name = run.params.get("name").to_owned();
    kallisto_engine::names::check(&name)?;
    let rule = given(run, &run.call.object()?)?;
    let kept = storage(&run.context)?;
    let record = format!("{RULES}{name}");
    let drawn = random::make_uuid()?;
    Storage::new(&kept, IDENTITY_MOUNT)
        .transact(LAST_METHOD, |transaction| {
            // A method that is deleted meanwhile is missed here, and one that is being deleted sees this rule come.
            for method in texts(&rule, "mfa_method_ids") {
                transaction.get(&format!("{}{method}", methods::METHODS))?;
            }
            // Nor does another rule come between the count and the commit.
            transaction.get(LAST_RULE)?;
            let before = transaction.get(&record)?;
            let before = before.map(|before| before.object()).transpose()?;
            if before.is_none() && kept.list_some(RULES, RULES_MAX).len() >= RULES_MAX {
                return Err(Error::invalid(format!("more than {RULES_MAX} login enforcements")));
            }
            let id = before.as_ref().map_or(drawn.as_str(), |before| text(before, "id"));
            transaction.put(LAST_RULE, id.as_bytes().to_vec())?;
            let mut rule = rule.clone();
            rule.insert("name".to_owned(), name.as_str().into());
            rule.insert("id".to_owned(), id.into());
            transaction.put(&record, Json::Object(rule).to_text())
        })
        .await?;
    Ok(Response::Empty)
}

pub(super) async fn delete(run: &RouteCall<'_>) -> Result<Response, Error> {
    let name = run.params.get("name");
    kallisto_engine::names::check(name)?;
    let kept = storage(&run.context)?;
    let known = read_record(&kept, &format!("{RULES}{name}"))?;
    if known.is_some() {
        kept.delete(&format!("{RULES}{name}")).await?;
    }
    Ok(Response::Empty)
}
