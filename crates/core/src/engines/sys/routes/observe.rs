//! What the server says of itself.

use kallisto_engine::FieldKind::{Flag, Text, Texts};
use kallisto_engine::route::{Admits, Scope, ServedBy, field, query};
use kallisto_engine::{Row, row};

use crate::dispatch::route_handler::{RouteHandler, any_token, at_once, runs};
use crate::engines::sys::observe::{counters, host, jobs, loggers, metrics, monitor, plugins};
use crate::engines::sys::{locked_users, namespaces, status, ui};
use crate::routes::openapi;

pub(super) const STATE: &[Row<RouteHandler>] = &[
    row!("ha-status", &[], {
        Read => "List the servers of the cluster.", runs!(|run| Ok(status::ha_status(run.core)));
    }),
    row!("locked-users", &[query("mount_accessor", Text, "Those of one login method only.")], {
        Read => "List who is locked out after wrong passwords.",
            runs!(|run| locked_users::read(run.core, &run.context, run.call));
    } .served_by(ServedBy::Leader).scope(Scope::Namespace)),
    row!("locked-users/{accessor}/unlock/{name..}", &[
        field("accessor", Text, "The accessor of the login method."),
        field("name", Text, "What the method calls them."),
    ], {
        Update => "Let somebody log in again.",
            runs!(|run| {
                locked_users::unlock(run.core, &run.context, run.path.trim_start_matches("locked-users/"))
            });
    } .served_by(ServedBy::Leader).scope(Scope::Namespace)),
    row!("metrics", &[query("format", Text, "`prometheus` for its text; JSON when absent.")], {
        Read => "Read the counters and gauges of the server.",
            runs!(|run| metrics::answer(run.core, run.call));
    } .for_operators().admitting(Admits::AnyoneAtListener)),
    row!("monitor", &[
        query("log_level", Text, "`trace`, `debug`, `info`, `warn` or `error`."),
        query("log_format", Text, "`standard` or `json`."),
    ], {
        Read => "Follow the log of this server, line by line.",
            runs!(|run| monitor::open(run.core, &run.context, run.call));
    } .with_streams()),
    row!("host-info", &[], {
        Read => "Describe the machine.", runs!(|run| host::info(run.core, run.call.now));
    }),
    row!("in-flight-req", &[], {
        Read => "List the requests that wait for something.",
            runs!(|run| Ok(host::in_flight(run.core)));
    } .for_operators()),
    row!("loggers", &[field("level", Text, "`trace`, `debug`, `info`, `warn` or `error`.")], {
        Read => "List the levels at which events are logged.",
            runs!(|run| loggers::read_all(run.core));
        Update => "Log events of this level and above, everywhere.",
            runs!(|run| loggers::write(run.core, run.call, None));
        Delete => "Log as the configuration says.", runs!(|run| loggers::reset(run.core, None));
    }),
    row!("loggers/{name}", &[
        field("name", Text, "Name of the logger."),
        field("level", Text, "`trace`, `debug`, `info`, `warn` or `error`."),
    ], {
        Read => "Read the level of one logger.",
            runs!(|run| loggers::read(run.core, run.params.get("name")));
        Update => "Log events of this level and above in one room of the server.",
            runs!(|run| loggers::write(run.core, run.call, Some(run.params.get("name"))));
        Delete => "Log there as the configuration says.",
            runs!(|run| loggers::reset(run.core, Some(run.params.get("name"))));
    }),
    row!("version-history", &[], {
        List => "List the versions that served this storage.",
            runs!(|run| counters::versions(&run.context));
    }),
    row!("replication/status", &[], {
        Read => "Say that nothing is replicated elsewhere.",
            runs!(|_run| Ok(counters::replication()));
    }),
    row!("config/state/sanitized", &[], {
        Read => "Read the configuration without secrets.",
            runs!(|run| Ok(counters::configuration(run.core)));
    }),
    row!("plugins/catalog", &[], {
        Read => "List the engines.", runs!(|_run| Ok(plugins::catalog()));
    }),
    row!("plugins/catalog/{type}", &[field("type", Text, "`auth`, `secret` or `database`.")], {
        List => "List the engines of a type.",
            runs!(|run| plugins::of_type(run.params.get("type")));
    } .with_sudo()),
    row!("plugins/catalog/{type}/{name}", &[
        field("type", Text, "`auth`, `secret` or `database`."),
        field("name", Text, "Its name."),
    ], {
        Read => "Describe an engine.",
            runs!(|run| plugins::read(run.params.get("type"), run.params.get("name")));
        Update => "Refused: every engine is built in.", runs!(|_run| plugins::register());
        Delete => "Refused: every engine is built in.", runs!(|_run| plugins::remove());
    } .with_sudo()),
    row!("plugins/reload/backend", &[
        field("plugin", Text, "Its name."),
        field("mounts", Texts, "The paths of mounts instead; a login method's with `auth/`."),
        field("scope", Text, "Empty, or `global`."),
    ], {
        Update => "Answer as if the engine had been loaded anew: every engine is built in.",
            runs!(|run| plugins::reload(&run.context, run.call));
    }),
];

pub(super) const INTERNAL: &[Row<RouteHandler>] = &[
    row!("internal/ui/mounts", &[], {
        Read => "List the mounts the token reaches; without one, those shown before login.",
            any_token!(|run| Some(Ok(ui::all_mounts(run.context, run.caller))))
                .or_anyone(|run| at_once(move || ui::public_mounts(run.core, run.request)));
    } .scope(Scope::Namespace).admitting(Admits::AnyTokenOrNone)),
    row!("internal/ui/mounts/{path..}", &[
        field("path", Text, "A path of a secret, or a mount's own."),
    ], {
        Read => "Describe the mount that serves a path.",
            any_token!(|run| Some(ui::preflight(run.context, run.params.get("path"), run.caller)));
    } .scope(Scope::Namespace).admitting(Admits::AnyToken)),
    row!("internal/ui/resultant-acl", &[], {
        Read => "List what the policies of the token that asks come to.",
            any_token!(|run| Some(Ok(ui::resultant_acl(run.caller))));
    } .scope(Scope::Namespace).admitting(Admits::AnyToken)),
    row!("internal/ui/namespaces", &[], {
        Read => "List the namespaces the token reaches.",
            any_token!(|run| Some(Ok(namespaces::reached(run.context, run.caller))));
    } .scope(Scope::Namespace).admitting(Admits::AnyToken)),
    row!("internal/counters/tokens", &[], {
        Read => "Count the tokens.", runs!(|run| Ok(counters::tokens(&run.context)));
    }),
    row!("internal/counters/entities", &[], {
        Read => "Count the entities.", runs!(|run| Ok(counters::entities(&run.context)));
    }),
    row!("internal/jobs", &[], {
        Read => "List what this server does by the clock, and what came of it last.",
            runs!(|run| Ok(jobs::read(run.core, run.call.now)));
    }),
    row!("internal/specs/openapi", &[
        query("generic_mount_paths", Flag, "Name engines by a parameter, not by their path."),
    ], {
        Read => "Describe the routes the token reaches as an OpenAPI document.", any_token!(|run| {
            Some(openapi::answer(run.context, &run.context.info, run.request, Some(run.caller)))
        })
        .or_anyone(|run| at_once(move || openapi::public(run.core, run.request)));
    } .scope(Scope::Namespace).admitting(Admits::AnyTokenOrNone)),
];
