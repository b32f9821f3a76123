//! `?help=1`: what a path is for, as text for people and as OpenAPI for programs.
//!
//! Every valid token may ask: help says what the documentation says, and only for mounts that the
//! token reaches.

use std::fmt::Write;

use kallisto_engine::Multiplicity;

use super::{Admits, Rights, Route, Routes, openapi};
use crate::api::error::{Denial, Error};
use crate::api::json::Json;
use crate::api::request::Request;
use crate::api::response::Response;
use crate::caller::policies::CallerPolicies;
use crate::platform::server_info::ServerInfo;
use crate::records::engine_kind::EngineKind;
use crate::registry;
use crate::view::NamespaceContext;

const OK: u16 = 200;
const INDENT: &str = "    ";
const BELOW: &str = "The following paths are supported below this one. To read the help of one of \
                     them, ask for help at any path of its pattern. What a token may do there is \
                     for its policies to say.";

/// The help of what `request` names, for the bearer of a valid token.
pub(crate) fn answer(
    context: &NamespaceContext,
    info: &ServerInfo,
    request: &Request<'_>,
    caller: &CallerPolicies,
) -> Result<Response, Error> {
    let path = request.path.as_str();
    let (family, inside) = family_of(context, path, caller)?;
    document(family, inside, info)
}

/// The help of a path below `sys/` at which anyone may ask.
pub(crate) fn open_answer(path: &str, info: &ServerInfo) -> Result<Response, Error> {
    document(registry::driver(EngineKind::SYSTEM).routes(), path, info)
}

/// The family that serves `path`, and what is left of the path. Mounts that the caller does not
/// reach are as good as absent.
fn family_of<'p>(
    context: &NamespaceContext,
    path: &'p str,
    caller: &CallerPolicies,
) -> Result<(&'static dyn Routes, &'p str), Error> {
    let found = context.view.mounts.route(path);
    // Those of the server itself are everywhere, and no secret.
    let found = found.filter(|(mount, _)| {
        mount.entry.kind.multiplicity() == Multiplicity::Builtin
            || caller.reaches(&mount.entry.path)
    });
    match found {
        Some((mount, inside)) => Ok((registry::driver(mount.entry.kind).routes(), inside)),
        None if caller.is_root() => Err(Error::NoRoute(path.to_owned())),
        None => Err(Error::Denied(Denial::Policy)),
    }
}

fn document(
    family: &'static dyn Routes,
    inside: &str,
    info: &ServerInfo,
) -> Result<Response, Error> {
    let (text, routes): (String, Vec<&'static Route>) = if inside.is_empty() {
        (of_family(family), family.routes().collect())
    } else {
        let route = family.find(inside).ok_or(Error::UnsupportedPath)?;
        (of_route(route, inside), vec![route])
    };
    let mut paths = openapi::PathItems::default();
    paths.add(family, "/", routes.into_iter());
    let body = Json::object([
        ("help", text.into()),
        ("openapi", paths.into_document(info)),
        ("see_also", Json::Null),
    ]);
    Ok(Response::Bare { code: OK, body })
}

fn of_route(route: &Route, asked: &str) -> String {
    let mut text = format!("Request:        {asked}\nMatching Route: {}\n", route.pattern);
    if let Some(canonical) = route.alias_of {
        let _ = writeln!(text, "Alias Of:       {canonical}");
    }
    let _ = write!(text, "\n{}\n", route.summary());
    if !route.fields.is_empty() {
        text.push_str("\n## PARAMETERS\n");
        for field in route.fields {
            let _ = write!(text, "\n{INDENT}{} ({})\n", field.name, field.kind.name());
            let _ = write!(text, "\n{INDENT}{INDENT}{}\n", field.about);
        }
    }
    text.push_str("\n## DESCRIPTION\n\nThis path takes the following operations.\n");
    for (operation, about) in route.does {
        let _ = write!(text, "\n{INDENT}{}\n{INDENT}{INDENT}{about}\n", openapi::verb(*operation));
    }
    for line in [needs(route), route.more].iter().filter(|line| !line.is_empty()) {
        let _ = write!(text, "\n{line}\n");
    }
    text
}

/// Who may ask, where it is not for the policies alone to say.
fn needs(route: &Route) -> &'static str {
    match (route.admits, route.rights) {
        (Admits::Policy, Rights::Plain) => "",
        (Admits::Policy, Rights::SudoToWrite) => "Writing needs the capability `sudo` besides.",
        (Admits::Policy, Rights::SudoToList) => "Listing needs the capability `sudo` besides.",
        (Admits::Policy, Rights::Sudo) => "It needs the capability `sudo` besides.",
        (Admits::AnyToken, _) => "Any valid token may ask.",
        (Admits::AnyTokenOrNone, _) => {
            "Any valid token may ask; without one the answer is smaller."
        }
        (Admits::Anyone | Admits::WrappingToken, _) => "It answers without a token.",
        (Admits::AnyoneAtListener, _) => {
            "It answers without a token where the listener says `unauthenticated_metrics_access`."
        }
        (Admits::AnyoneWhileSealed, _) => {
            "It needs the capability `sudo` besides, and no token while the server is sealed."
        }
        (Admits::AnyoneIfConfigured, _) => {
            "It answers without a token where the listener says `unauthenticated_rekey`."
        }
    }
}

fn of_family(family: &dyn Routes) -> String {
    let mut text = format!("## DESCRIPTION\n\n{}\n\n## PATHS\n\n{BELOW}\n", family.about());
    let mut routes: Vec<&Route> = family.routes().collect();
    routes.sort_by_key(|route| route.pattern);
    for route in routes {
        let _ = write!(text, "\n{INDENT}{}\n{INDENT}{INDENT}{}\n", route.pattern, route.summary());
    }
    text
}
