//! What the server says of itself.

use kallisto_auth::Operation::{Delete, List, Read, Update};

use kallisto_engine::FieldKind::{Flag, Text, Texts};
use kallisto_engine::route::{Admits, Route, Scope, ServedBy, field, query};

pub(super) const STATE: &[Route] = &[
    Route::new("ha-status", &[(Read, "List the servers of the cluster.")], &[]),
    Route::new(
        "locked-users",
        &[(Read, "List who is locked out after wrong passwords.")],
        &[query("mount_accessor", Text, "Those of one login method only.")],
    )
    .served_by(ServedBy::Leader)
    .scope(Scope::Namespace),
    Route::new(
        "locked-users/{accessor}/unlock/{name}",
        &[(Update, "Let somebody log in again.")],
        &[
            field("accessor", Text, "The accessor of the login method."),
            field("name", Text, "What the method calls them."),
        ],
    )
    .served_by(ServedBy::Leader)
    .scope(Scope::Namespace),
    Route::new(
        "metrics",
        &[(Read, "Read the counters and gauges of the server.")],
        &[query("format", Text, "`prometheus` for its text; JSON when absent.")],
    )
    .for_operators()
    .admitting(Admits::AnyoneAtListener),
    Route::new(
        "monitor",
        &[(Read, "Follow the log of this server, line by line.")],
        &[
            query("log_level", Text, "`trace`, `debug`, `info`, `warn` or `error`."),
            query("log_format", Text, "`standard` or `json`."),
        ],
    ),
    Route::new("host-info", &[(Read, "Describe the machine.")], &[]),
    Route::new("in-flight-req", &[(Read, "List the requests that wait for something.")], &[])
        .for_operators(),
    Route::new(
        "loggers",
        &[
            (Read, "List the levels at which events are logged."),
            (Update, "Log events of this level and above, everywhere."),
            (Delete, "Log as the configuration says."),
        ],
        &[field("level", Text, "`trace`, `debug`, `info`, `warn` or `error`.")],
    ),
    Route::new(
        "loggers/{name}",
        &[
            (Read, "Read the level of one logger."),
            (Update, "Log events of this level and above in one room of the server."),
            (Delete, "Log there as the configuration says."),
        ],
        &[
            field("name", Text, "Name of the logger."),
            field("level", Text, "`trace`, `debug`, `info`, `warn` or `error`."),
        ],
    ),
    Route::new("version-history", &[(List, "List the versions that served this storage.")], &[]),
    Route::new("replication/status", &[(Read, "Say that nothing is replicated elsewhere.")], &[]),
    Route::new("config/state/sanitized", &[(Read, "Read the configuration without secrets.")], &[]),
    Route::new("plugins/catalog", &[(Read, "List the engines.")], &[]),
    Route::new(
        "plugins/catalog/{type}",
        &[(List, "List the engines of a type.")],
        &[field("type", Text, "`auth`, `secret` or `database`.")],
    )
    .with_sudo(),
    Route::new(
        "plugins/catalog/{type}/{name}",
        &[
            (Read, "Describe an engine."),
            (Update, "Refused: every engine is built in."),
            (Delete, "Refused: every engine is built in."),
        ],
        &[field("type", Text, "`auth`, `secret` or `database`."), field("name", Text, "Its name.")],
    )
    .with_sudo(),
    Route::new(
        "plugins/reload/backend",
        &[(Update, "Answer as if the engine had been loaded anew: every engine is built in.")],
        &[
            field("plugin", Text, "Its name."),
            field("mounts", Texts, "The paths of mounts instead; a login method's with `auth/`."),
            field("scope", Text, "Empty, or `global`."),
        ],
    ),
];

pub(super) const INTERNAL: &[Route] = &[
    Route::new(
        "internal/ui/mounts",
        &[(Read, "List the mounts the token reaches; without one, those shown before login.")],
        &[],
    )
    .scope(Scope::Namespace)
    .admitting(Admits::AnyTokenOrNone),
    Route::new(
        "internal/ui/mounts/{path..}",
        &[(Read, "Describe the mount that serves a path.")],
        &[field("path", Text, "A path of a secret, or a mount's own.")],
    )
    .scope(Scope::Namespace)
    .admitting(Admits::AnyToken),
    Route::new(
        "internal/ui/resultant-acl",
        &[(Read, "List what the policies of the token that asks come to.")],
        &[],
    )
    .scope(Scope::Namespace)
    .admitting(Admits::AnyToken),
    Route::new("internal/ui/namespaces", &[(Read, "List the namespaces the token reaches.")], &[])
        .scope(Scope::Namespace)
        .admitting(Admits::AnyToken),
    Route::new("internal/counters/tokens", &[(Read, "Count the tokens.")], &[]),
    Route::new("internal/counters/entities", &[(Read, "Count the entities.")], &[]),
    Route::new(
        "internal/jobs",
        &[(Read, "List what this server does by the clock, and what came of it last.")],
        &[],
    ),
    Route::new(
        "internal/specs/openapi",
        &[(Read, "Describe the routes the token reaches as an OpenAPI document.")],
        &[query("generic_mount_paths", Flag, "Name engines by a parameter, not by their path.")],
    )
    .scope(Scope::Namespace)
    .admitting(Admits::AnyTokenOrNone),
];
