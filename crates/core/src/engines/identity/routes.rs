//! The routes of identity, at `identity/`.

use kallisto_auth::Operation::{Delete, List, Read, Update};

use kallisto_engine::Family;
use kallisto_engine::FieldKind::{Flag, Map, Text, Texts};
use kallisto_engine::route::{Field, Route, field};

/// `identity/`.
pub(crate) static IDENTITY: Family = Family {
    name: "identity",
    tag: "identity",
    about: "Who the bearers of tokens are: entities, their aliases with login methods, groups.",
    groups: &[ENTITIES, ENTITY_ALIASES, GROUPS, GROUP_ALIASES, LOOKUPS],
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
const ENTITIES: &[Route] = &[
    Route::new("entity", &[(Update, "Make an entity, or change the one named.")], OF_AN_ENTITY),
    Route::new("entity/id", &[(List, "List entities by id.")], &[]),
    Route::new(
        "entity/id/{id}",
        &[(Read, "Read an entity."), (Update, "Change an entity."), (Delete, "Delete an entity.")],
        OF_AN_ENTITY,
    ),
    Route::new("entity/name", &[(List, "List the names of entities.")], &[]),
    Route::new(
        "entity/name/{name..}",
        &[
            (Read, "Read an entity."),
            (Update, "Make or change an entity."),
            (Delete, "Delete an entity."),
        ],
        OF_AN_ENTITY,
    ),
    Route::new("entity/merge", &[(Update, "Make several entities one.")], OF_A_MERGE),
    Route::new(
        "entity/batch-delete",
        &[(Update, "Delete entities.")],
        &[field("entity_ids", Texts, "Their ids.")],
    ),
];

const OF_AN_ALIAS: &[Field] = &[
    field("id", Text, "Its id."),
    field("name", Text, "What the login method calls the entity."),
    field("mount_accessor", Text, "The accessor of the login method's mount."),
    field("canonical_id", Text, "The id of the entity; a new one when absent."),
    field("custom_metadata", Map, "Names and texts, for people and for templates in policies."),
];
const ONE_ALIAS: &[(kallisto_auth::Operation, &str)] =
    &[(Read, "Read an alias."), (Update, "Change an alias."), (Delete, "Delete an alias.")];
const ENTITY_ALIASES: &[Route] = &[
    Route::new("entity-alias", &[(Update, "Make or change an alias.")], OF_AN_ALIAS),
    Route::new("entity-alias/id", &[(List, "List aliases by id.")], &[]),
    Route::new("entity-alias/id/{id}", ONE_ALIAS, OF_AN_ALIAS),
    Route::new("alias", &[(Update, "Make or change an alias.")], OF_AN_ALIAS)
        .alias_of("entity-alias"),
    Route::new("alias/id", &[(List, "List aliases by id.")], &[]).alias_of("entity-alias/id"),
    Route::new("alias/id/{id}", ONE_ALIAS, OF_AN_ALIAS).alias_of("entity-alias/id/{id}"),
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
const GROUPS: &[Route] = &[
    Route::new("group", &[(Update, "Make a group, or change the one named.")], OF_A_GROUP),
    Route::new("group/id", &[(List, "List groups by id.")], &[]),
    Route::new(
        "group/id/{id}",
        &[(Read, "Read a group."), (Update, "Change a group."), (Delete, "Delete a group.")],
        OF_A_GROUP,
    ),
    Route::new("group/name", &[(List, "List the names of groups.")], &[]),
    Route::new(
        "group/name/{name..}",
        &[
            (Read, "Read a group."),
            (Update, "Make or change a group."),
            (Delete, "Delete a group."),
        ],
        OF_A_GROUP,
    ),
];

const OF_A_GROUP_ALIAS: &[Field] = &[
    field("id", Text, "Its id."),
    field("name", Text, "What the login method calls the group."),
    field("mount_accessor", Text, "The accessor of the login method's mount."),
    field("canonical_id", Text, "The id of an external group; a new one when absent."),
];
const GROUP_ALIASES: &[Route] = &[
    Route::new("group-alias", &[(Update, "Make or change an alias.")], OF_A_GROUP_ALIAS),
    Route::new("group-alias/id", &[(List, "List aliases by id.")], &[]),
    Route::new("group-alias/id/{id}", ONE_ALIAS, OF_A_GROUP_ALIAS),
];

const OF_A_LOOKUP: &[Field] = &[
    field("id", Text, "Its id."),
    field("name", Text, "Its name."),
    field("alias_id", Text, "The id of an alias of its."),
    field("alias_name", Text, "The name of an alias of its, with `alias_mount_accessor`."),
    field("alias_mount_accessor", Text, "The accessor of that alias's login method."),
];
const LOOKUPS: &[Route] = &[
    Route::new("lookup/entity", &[(Update, "Find an entity.")], OF_A_LOOKUP),
    Route::new("lookup/group", &[(Update, "Find a group.")], OF_A_LOOKUP),
];
