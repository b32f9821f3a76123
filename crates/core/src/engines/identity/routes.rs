//! The routes of identity, at `identity/`.

use kallisto_engine::FieldKind::{Flag, Map, Text, Texts};
use kallisto_engine::route::{Field, ServedBy, field};
use kallisto_engine::{RouteRows, RowGroup, RowIndex, row};

use super::{aliases, entities, group_aliases, groups, lookup, merge, mfa};
use crate::dispatch::route_handler::{RouteHandler, RouteTable, runs};
use crate::engines::identity::site::IdentityRequest;

/// `identity/`.
pub(crate) static IDENTITY: RouteTable = RouteRows {
    name: "identity",
    tag: "identity",
    about: "Who the bearers of tokens are: entities, their aliases with login methods, groups.",
    groups: &[ENTITIES, ENTITY_ALIASES, GROUPS, GROUP_ALIASES, LOOKUPS, mfa::MFA],
    index: RowIndex::new(),
};

const OF_AN_ENTITY: &[Field] = &[
    field("id", Text, "Its id."),
    field("name", Text, "Its name; drawn when absent."),
    field("policies", Texts, "Policies that its tokens have besides their own."),
    field("metadata", Map, "Names and texts, for people and for templates in policies."),
    field("disabled", Flag, "Whether its tokens may do nothing."),
];
const OF_A_MERGE: &[Field] = &[
    field("from_entity_ids", Texts, "The entities that become part of the other."),
    field("to_entity_id", Text, "The entity that they become part of."),
    field("force", Flag, "Keep its own alias where two are with one login method."),
    field("conflicting_alias_ids_to_keep", Texts, "The aliases to keep where two are in conflict."),
];
const ENTITIES: RowGroup<RouteHandler> = &[
    row!("entity", OF_AN_ENTITY, {
        Update => "Make an entity, or change the one named.",
            runs!(async |run| entities::write(&IdentityRequest::of(&run)?, entities::EntityTarget::Body).await);
    }),
    row!("entity/id", &[], {
        List => "List entities by id.", runs!(|run| entities::list_ids(&IdentityRequest::of(&run)?));
    }),
    row!("entity/id/{id}", OF_AN_ENTITY, {
        Read => "Read an entity.", runs!(|run| entities::read_id(&IdentityRequest::of(&run)?, run.params.get("id")));
        Update => "Change an entity.",
            runs!(async |run| entities::write(&IdentityRequest::of(&run)?, entities::EntityTarget::Id(run.params.get("id"))).await);
        Delete => "Delete an entity.",
            runs!(async |run| entities::delete_id(&IdentityRequest::of(&run)?, run.params.get("id")).await);
    }),
    row!("entity/name", &[], {
        List => "List the names of entities.", runs!(|run| entities::list_names(&IdentityRequest::of(&run)?));
    }),
    row!("entity/name/{name..}", OF_AN_ENTITY, {
        Read => "Read an entity.", runs!(|run| entities::read_name(&IdentityRequest::of(&run)?, run.params.get("name")));
        Update => "Make or change an entity.",
            runs!(async |run| entities::write(&IdentityRequest::of(&run)?, entities::EntityTarget::Name(run.params.get("name"))).await);
        Delete => "Delete an entity.",
            runs!(async |run| entities::delete_name(&IdentityRequest::of(&run)?, run.params.get("name")).await);
    }),
    row!("entity/merge", OF_A_MERGE, {
        Update => "Make several entities one.", runs!(async |run| merge::merge(&IdentityRequest::of(&run)?).await);
    }),
    row!("entity/batch-delete", &[field("entity_ids", Texts, "Their ids.")], {
        Update => "Delete entities.", runs!(async |run| entities::batch_delete(&IdentityRequest::of(&run)?).await);
    }),
];

const OF_AN_ALIAS: &[Field] = &[
    field("id", Text, "Its id."),
    field("name", Text, "What the login method calls the entity."),
    field("mount_accessor", Text, "The accessor of the login method's mount."),
    field("canonical_id", Text, "The id of the entity; a new one when absent."),
    field("custom_metadata", Map, "Names and texts, for people and for templates in policies."),
];
const ENTITY_ALIASES: RowGroup<RouteHandler> = &[
    row!("entity-alias", OF_AN_ALIAS, {
        Update => "Make or change an alias.", runs!(async |run| aliases::write(&IdentityRequest::of(&run)?, None).await);
    }),
    row!("entity-alias/id", &[], {
        List => "List aliases by id.", runs!(|run| aliases::list(&IdentityRequest::of(&run)?));
    }),
    row!("entity-alias/id/{id}", OF_AN_ALIAS, {
        Read => "Read an alias.", runs!(|run| aliases::read(&IdentityRequest::of(&run)?, run.params.get("id")));
        Update => "Change an alias.",
            runs!(async |run| aliases::write(&IdentityRequest::of(&run)?, Some(run.params.get("id"))).await);
        Delete => "Delete an alias.",
            runs!(async |run| aliases::delete(&IdentityRequest::of(&run)?, run.params.get("id")).await);
    }),
    row!("alias", OF_AN_ALIAS, {
        Update => "Make or change an alias.", runs!(async |run| aliases::write(&IdentityRequest::of(&run)?, None).await);
    } .alias_of("entity-alias")),
    row!("alias/id", &[], {
        List => "List aliases by id.", runs!(|run| aliases::list(&IdentityRequest::of(&run)?));
    } .alias_of("entity-alias/id")),
    row!("alias/id/{id}", OF_AN_ALIAS, {
        Read => "Read an alias.", runs!(|run| aliases::read(&IdentityRequest::of(&run)?, run.params.get("id")));
        Update => "Change an alias.",
            runs!(async |run| aliases::write(&IdentityRequest::of(&run)?, Some(run.params.get("id"))).await);
        Delete => "Delete an alias.",
            runs!(async |run| aliases::delete(&IdentityRequest::of(&run)?, run.params.get("id")).await);
    } .alias_of("entity-alias/id/{id}")),
];

const OF_A_GROUP: &[Field] = &[
    field("id", Text, "Its id."),
    field("name", Text, "Its name; drawn when absent."),
    field("type", Text, "`internal`, or `external`: filled by a login method."),
    field("policies", Texts, "Policies that its members' tokens have besides their own."),
    field("metadata", Map, "Names and texts, for people and for templates in policies."),
    field("member_entity_ids", Texts, "The entities directly in it."),
    field("member_group_ids", Texts, "The groups directly in it."),
];
const GROUPS: RowGroup<RouteHandler> = &[
    row!("group", OF_A_GROUP, {
        Update => "Make a group, or change the one named.",
            runs!(async |run| groups::write(&IdentityRequest::of(&run)?, groups::GroupTarget::Body).await);
    }),
    row!("group/id", &[], {
        List => "List groups by id.", runs!(|run| groups::list_ids(&IdentityRequest::of(&run)?));
    }),
    row!("group/id/{id}", OF_A_GROUP, {
        Read => "Read a group.", runs!(|run| groups::read_id(&IdentityRequest::of(&run)?, run.params.get("id")));
        Update => "Change a group.",
            runs!(async |run| groups::write(&IdentityRequest::of(&run)?, groups::GroupTarget::Id(run.params.get("id"))).await);
        Delete => "Delete a group.",
            runs!(async |run| groups::delete_id(&IdentityRequest::of(&run)?, run.params.get("id")).await);
    }),
    row!("group/name", &[], {
        List => "List the names of groups.", runs!(|run| groups::list_names(&IdentityRequest::of(&run)?));
    }),
    row!("group/name/{name..}", OF_A_GROUP, {
        Read => "Read a group.", runs!(|run| groups::read_name(&IdentityRequest::of(&run)?, run.params.get("name")));
        Update => "Make or change a group.",
            runs!(async |run| groups::write(&IdentityRequest::of(&run)?, groups::GroupTarget::Name(run.params.get("name"))).await);
        Delete => "Delete a group.",
            runs!(async |run| groups::delete_name(&IdentityRequest::of(&run)?, run.params.get("name")).await);
    }),
];

const OF_A_GROUP_ALIAS: &[Field] = &[
    field("id", Text, "Its id."),
    field("name", Text, "What the login method calls the group."),
    field("mount_accessor", Text, "The accessor of the login method's mount."),
    field("canonical_id", Text, "The id of an external group; a new one when absent."),
];
const GROUP_ALIASES: RowGroup<RouteHandler> = &[
    row!("group-alias", OF_A_GROUP_ALIAS, {
        Update => "Make or change an alias.", runs!(async |run| group_aliases::write(&IdentityRequest::of(&run)?, None).await);
    }),
    row!("group-alias/id", &[], {
        List => "List aliases by id.", runs!(|run| group_aliases::list(&IdentityRequest::of(&run)?));
    }),
    row!("group-alias/id/{id}", OF_A_GROUP_ALIAS, {
        Read => "Read an alias.", runs!(|run| group_aliases::read(&IdentityRequest::of(&run)?, run.params.get("id")));
        Update => "Change an alias.",
            runs!(async |run| group_aliases::write(&IdentityRequest::of(&run)?, Some(run.params.get("id"))).await);
        Delete => "Delete an alias.",
            runs!(async |run| group_aliases::delete(&IdentityRequest::of(&run)?, run.params.get("id")).await);
    }),
];

const OF_A_LOOKUP: &[Field] = &[
    field("id", Text, "Its id."),
    field("name", Text, "Its name."),
    field("alias_id", Text, "The id of an alias of its."),
    field("alias_name", Text, "The name of an alias of its, with `alias_mount_accessor`."),
    field("alias_mount_accessor", Text, "The accessor of that alias's login method."),
];
const LOOKUPS: RowGroup<RouteHandler> = &[
    row!("lookup/entity", OF_A_LOOKUP, {
        Update => "Find an entity.", runs!(|run| lookup::entity(&IdentityRequest::of(&run)?));
    } .served_by(ServedBy::LeaderOrRecentView)),
    row!("lookup/group", OF_A_LOOKUP, {
        Update => "Find a group.", runs!(|run| lookup::group(&IdentityRequest::of(&run)?));
    } .served_by(ServedBy::LeaderOrRecentView)),
];
