//! `identity/entity/merge`: several entities become one.
//!
//! The one keeps its own name, policies and metadata, and takes the others' aliases and groups;
//! their tokens are its tokens from then on. Policies and metadata are not taken: no entity gets a
//! right by being merged with somebody. When two have an alias with the same login
//! method, the caller says which stays, or that the one's own do.

use jiff::Timestamp;

use super::draft::{IdentityDraft, change};
use super::wire::Methods;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::response::Response;
use crate::engines::identity::site::IdentityRequest;
use crate::identity::names;
use crate::identity::record::{Entity, IdentityId};

/// Most entities merged at once.
const MERGED_MAX: usize = 256;

/// What is asked.
struct MergeRequest {
    from: Vec<IdentityId>,
    to: IdentityId,
    /// Of aliases in conflict, those that stay.
    keep: Vec<IdentityId>,
    /// Whether of two aliases with one login method the entity's own stays when the caller names neither; the merge is refused
    /// otherwise.
    keeps_own: bool,
}

pub(super) async fn merge(site: &IdentityRequest<'_>) -> Result<Response, Error> {
    let body = site.call.object()?;
    let asked = read(Fields::new(&body))?;
    let methods = Methods::of(&site.context.view);
    let now = site.call.now;
    change(site.context, site.mount, "entities", |draft| unite(draft, &asked, &methods, now))
        .await?;
    Ok(Response::Empty)
}

fn read(fields: Fields<'_>) -> Result<MergeRequest, Error> {
    let to = fields.string("to_entity_id")?.filter(|id| !id.is_empty());
    let to = to.ok_or_else(|| Error::invalid("missing entity id to merge to"))?;
    let invalid = |what: &'static str| move |_: &str| Error::invalid(what);
    let from =
        names::ids(fields, "from_entity_ids", invalid("entity id to merge from is invalid"))?
            .unwrap_or_default();
    if from.is_empty() {
        return Err(Error::invalid("missing entity ids to merge from"));
    }
    if from.len() > MERGED_MAX {
        return Err(Error::invalid(format!("more than {MERGED_MAX} entities to merge")));
    }
    let to =
        IdentityId::parse(&to).ok_or_else(|| Error::invalid("entity id to merge to is invalid"))?;
    if from.contains(&to) {
        return Err(Error::invalid("to_entity_id should not be present in from_entity_ids"));
    }
    let force = fields.boolean("force")?.unwrap_or(false);
    Ok(MergeRequest {
        from,
        to,
        keep: names::ids(
            fields,
            "conflicting_alias_ids_to_keep",
            invalid("alias id to keep is invalid"),
        )?
        .unwrap_or_default(),
        keeps_own: force,
    })
}

fn unite(
    draft: &mut IdentityDraft<'_>,
    asked: &MergeRequest,
    methods: &Methods,
    now: Timestamp,
) -> Result<(), Error> {
    let one = draft.entity(asked.to)?;
    let mut one = one.ok_or_else(|| Error::invalid("entity id to merge to is invalid"))?;
    for id in &asked.from {
        let other = draft.entity(*id)?;
        let other = other.ok_or_else(|| Error::invalid("entity id to merge from is invalid"))?;
        draft.delete_entity(&other)?;
        take_aliases(draft, &mut one, &other, asked, methods)?;
        one.groups.extend(&other.groups);
        one.merged.extend(&other.merged);
        one.merged.push(other.id);
    }
    one.groups.sort_unstable();
    one.groups.dedup();
    one.updated_at = now;
    draft.put_entity(&one)
}

/// Moves the aliases of `other`, whose claims were released, to `one`.
fn take_aliases(
    draft: &mut IdentityDraft<'_>,
    one: &mut Entity,
    other: &Entity,
    asked: &MergeRequest,
    methods: &Methods,
) -> Result<(), Error> {
    for theirs in &other.aliases {
        let mine = one.aliases.iter().position(|alias| alias.accessor == theirs.accessor);
        if let Some(at) = mine {
            let own = asked.keep.contains(&one.aliases[at].id);
            let their = asked.keep.contains(&theirs.id);
            match (own, their, asked.keeps_own) {
                (false, true, _) => {
                    let dropped = one.aliases.remove(at);
                    draft.release_alias(&dropped)?;
                }
                (true, false, _) | (false, false, true) => continue,
                _ => return Err(clash(one, other, &theirs.accessor, methods)),
            }
        }
        let mut alias = theirs.clone();
        alias.merged_from.push(other.id);
        draft.claim_alias(&alias, one.id)?;
        one.aliases.push(alias);
    }
    Ok(())
}

fn clash(one: &Entity, other: &Entity, accessor: &str, methods: &Methods) -> Error {
    let of = |entity: &Entity| {
        let id = entity.alias_at(accessor).map(|alias| alias.id.to_string());
        (entity.id, id.unwrap_or_default())
    };
    let ((to, own), (from, theirs)) = (of(one), of(other));
    let kind = methods.type_of(accessor);
    Error::invalid(format!(
        "toEntity and at least one fromEntity have aliases with the same mount accessor, repeat the \
         merge request specifying exactly one fromEntity, clashes: mountAccessor: {accessor} \
         ({kind} at {}), toEntity ID: {to}, fromEntity ID: {from}, conflicting toEntity alias ID: \
         {own}, conflicting fromEntity alias ID: {theirs}",
        methods.path_of(accessor)
    ))
}
