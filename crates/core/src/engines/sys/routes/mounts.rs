//! Secrets engines and where they are mounted.

use kallisto_auth::Operation::{Delete, Read, Update};

use kallisto_engine::FieldKind::{Flag, Map, Span, Text, Texts};
use kallisto_engine::route::{Field, Route, Scope, field, query};

const PATH: Field = field("path", Text, "The mount's path.");

/// The rows of mounting and tuning below `$base`.
macro_rules! mounted {
    ($base:literal, $what:literal $(, $sudo:ident)?) => {
        &[
            Route::new($base, &[(Read, concat!("List the mounted ", $what, "s."))], &[]).scope(Scope::Namespace),
            Route::new(
                concat!($base, "/{path..}"),
                &[
                    (Read, concat!("Describe the ", $what, " mounted at a path.")),
                    (Update, concat!("Mount a ", $what, " at a path.")),
                    (Delete, concat!("Unmount a ", $what, " and delete what it holds.")),
                ],
                &[
                    PATH,
                    query("force", Flag, "Whether it goes although credentials of it stay."),
                    field("type", Text, "The engine."),
                    field("description", Text, "For people."),
                    field("config", Map, "The fields that tuning takes."),
                    field("options", Map, "Options of the engine, such as `version`."),
                    field("local", Flag, "Never replicated elsewhere."),
                    field("seal_wrap", Flag, "Shown back."),
                    field("external_entropy_access", Flag, "Shown back."),
                ],
            ).scope(Scope::Namespace)$(.$sudo())?,
            Route::new(
                concat!($base, "/{path..}/tune"),
                &[(Read, "Read how a mount behaves."), (Update, "Change how a mount behaves.")],
                &[
                    PATH,
                    field("default_lease_ttl", Span, "Lease given when nothing else says."),
                    field("max_lease_ttl", Span, "Longest lease given."),
                    field("description", Text, "For people."),
                    field("options", Map, "Options of the engine."),
                    field("token_type", Text, "What kind of tokens a login method makes."),
                    field("user_lockout_config", Map, "When a login method refuses a name after wrong passwords."),
                    field("listing_visibility", Text, "`unauth` to be shown before login, or `hidden`."),
                    field("audit_non_hmac_request_keys", Texts, "Request fields audited in the clear."),
                    field("audit_non_hmac_response_keys", Texts, "Response fields audited in the clear."),
                    field("passthrough_request_headers", Texts, "Request headers the engine may see."),
                    field("allowed_response_headers", Texts, "Response headers the engine may set."),
                ],
            ).scope(Scope::Namespace)$(.$sudo())?,
        ]
    };
}

pub(super) const MOUNTS: &[Route] = mounted!("mounts", "secrets engine");
pub(super) const MOVES: &[Route] = &[
    Route::new(
        "remount",
        &[(Update, "Move a mount to another path.")],
        &[
            field("from", Text, "The mount's path; a login method's begins with `auth/`."),
            field("to", Text, "Its path from then on."),
        ],
    ).scope(Scope::Namespace)
    .with_sudo()
    .more("Nothing is copied: the mount is renamed, and its secrets are reached by the rules for the new path."),
    Route::new(
        "remount/status/{migration_id}",
        &[(Read, "Read how far a move is.")],
        &[field("migration_id", Text, "What the move was answered with.")],
    ).scope(Scope::Namespace),
];
pub(super) const LOGINS: &[Route] = mounted!("auth", "login method", with_sudo);
