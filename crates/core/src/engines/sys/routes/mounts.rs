//! Secrets engines and where they are mounted.

use kallisto_engine::FieldKind::{Flag, Map, Span, Text, Texts};
use kallisto_engine::route::{Field, Scope, field, query};
use kallisto_engine::{Params, Row, row};

use crate::dispatch::route_handler::{RouteHandler, runs};
use crate::engines::sys::{mounts, remount, tune};
use kallisto_engine::Class;

const PATH: Field = field("path", Text, "The mount's path.");

/// The path of the mount that is tuned. The command line tunes a login method at `sys/mounts/auth/:path/tune`.
fn mount_of(class: Class, params: Params<'_>) -> String {
    format!("{}{}", class.prefix(), params.get("path"))
}

/// The rows of mounting and tuning below `$base`.
macro_rules! mounted {
    ($base:literal, $class:ident, $what:literal $(, $sudo:ident)?) => {
        &[
            row!($base, &[], {
                Read => concat!("List the mounted ", $what, "s."),
                    runs!(|run| Ok(mounts::read_all(&run.context, Class::$class)));
            } .scope(Scope::Namespace)),
            row!(concat!($base, "/{path..}"), &[
                    PATH,
                    query("force", Flag, "Whether it goes although credentials of it stay."),
                    field("type", Text, "The engine."),
                    field("description", Text, "For people."),
                    field("config", Map, "The fields that tuning takes."),
                    field("options", Map, "Options of the engine, such as `version`."),
                    field("local", Flag, "Never replicated elsewhere."),
                    field("seal_wrap", Flag, "Shown back."),
                    field("external_entropy_access", Flag, "Shown back."),
                ], {
                Read => concat!("Describe the ", $what, " mounted at a path."),
                    runs!(|run| mounts::read(&run.context, Class::$class, run.params.get("path")));
                Update => concat!("Mount a ", $what, " at a path."), runs!(async |run| {
                    mounts::mount(&run.context, run.call, Class::$class, run.params.get("path")).await
                });
                Delete => concat!("Unmount a ", $what, " and delete what it holds."), runs!(async |run| {
                    mounts::unmount(&run.context, Class::$class, run.params.get("path"), run.call).await
                });
            } .scope(Scope::Namespace)$(.$sudo())?),
            row!(concat!($base, "/{path..}/tune"), &[
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
                ], {
                Read => "Read how a mount behaves.",
                    runs!(|run| tune::read(&run.context, &mount_of(Class::$class, run.params)));
                Update => "Change how a mount behaves.", runs!(async |run| {
                    let mount = mount_of(Class::$class, run.params);
                    tune::write(&run.context, run.call, &mount).await
                });
            } .scope(Scope::Namespace)$(.$sudo())?),
        ]
    };
}

pub(super) const MOUNTS: &[Row<RouteHandler>] = mounted!("mounts", Secret, "secrets engine");
pub(super) const MOVES: &[Row<RouteHandler>] = &[
    row!("remount", &[
        field("from", Text, "The mount's path; a login method's begins with `auth/`."),
        field("to", Text, "Its path from then on."),
    ], {
        Update => "Move a mount to another path.",
            runs!(async |run| remount::remount(&run.context, run.call).await);
    }
    .scope(Scope::Namespace)
    .with_sudo()
    .more("Nothing is copied: the mount is renamed, and its secrets are reached by the rules for the new path.")),
    row!("remount/status/{migration_id}", &[
        field("migration_id", Text, "What the move was answered with."),
    ], {
        Read => "Read how far a move is.",
            runs!(|run| remount::status(&run.context, run.params.get("migration_id")));
    } .scope(Scope::Namespace)),
];
pub(super) const LOGINS: &[Row<RouteHandler>] = mounted!("auth", Auth, "login method", with_sudo);
