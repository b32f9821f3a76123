//! The table asked as a whole: every row, every operation, every set of capabilities.

mod parameters;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kallisto_auth::{Capability, Operation, Path};
use kallisto_engine::route::Creates;
use kallisto_store::MemoryStore;

use super::{Admits, Route, Routes, openapi, pattern};
use crate::api::error::{Denial, Error};
use crate::api::request::{BodyKind, Request, TokenText};
use crate::api::response::Response;
use crate::engines::sys::routes::SYSTEM;
use crate::engines::sys::routes::raft;
use crate::platform::server_info::{RouteAccess, ServerInfo};
use crate::records::engine_kind::EngineFacts;
use crate::records::engine_kind::EngineKind;
use crate::records::engine_kind::KvState;
use crate::registry;
use crate::state::Core;
use kallisto_engine::{Class, Multiplicity};

pub(crate) const ROOT: &str = "root";
pub(crate) const OPERATIONS: [Operation; 7] = [
    Operation::Read,
    Operation::Update,
    Operation::Patch,
    Operation::Delete,
    Operation::List,
    Operation::Scan,
    Operation::Recover,
];
/// The capabilities a policy can grant, of which every subset is asked with.
const GRANTED: [Capability; 8] = [
    Capability::Create,
    Capability::Read,
    Capability::Update,
    Capability::Patch,
    Capability::Delete,
    Capability::List,
    Capability::Scan,
    Capability::Sudo,
];

/// The routes of every engine, with the base they are asked at: KV version 2 at `secret/`, version 1 at `one/`, all others where their
/// name says.
pub(crate) fn families() -> Vec<(&'static dyn Routes, &'static str)> {
    let asked = EngineKind::all().filter(|kind| kind.kv() != Some(KvState::Upgrading));
    let base_of = |kind: EngineKind| {
        let facts = kind.facts();
        let base = match kind.kv() {
            Some(KvState::V1) => "one/".to_owned(),
            Some(_) => "secret/".to_owned(),
            None if facts.name == "system" => "sys/".to_owned(),
            None => format!("{}{}/", facts.class.prefix(), facts.name),
        };
        (registry::driver(kind).routes(), &*base.leak())
    };
    asked.map(base_of).collect()
}

pub(crate) fn rows() -> impl Iterator<Item = (&'static str, &'static Route)> {
    families().into_iter().flat_map(|(family, base)| family.routes().map(move |row| (base, row)))
}

/// A path of a row's pattern, at which nothing is.
pub(crate) fn sample(base: &str, route: &Route) -> String {
    sample_of(base, route, "sample")
}

/// The same with a name of the caller's.
pub(crate) fn sample_of(base: &str, route: &Route, given: &str) -> String {
    let mut path = format!("{base}{}", route.pattern);
    for name in pattern::parameters(route.pattern) {
        let found = [format!("{{{name}}}"), format!("{{{name}..}}")];
        for parameter in found {
            path = path.replace(&parameter, given);
        }
    }
    path
}

pub(crate) fn open_core(rekey: RouteAccess) -> Core {
    let info = ServerInfo { unauthenticated_rekey: rekey, ..ServerInfo::default() };
    let core = Core::new(Arc::new(MemoryStore::new()), info);
    let root = Some(ROOT.to_owned().into());
    pollster::block_on(core.initialize_dev(root, Timestamp::UNIX_EPOCH)).unwrap();
    mounted(core)
}

/// The same core with all that [`families`] are asked at.
pub(crate) fn mounted(core: Core) -> Core {
    for kind in EngineKind::all() {
        let EngineFacts { name, class, multiplicity, .. } = kind.facts();
        let path = match (kind.kv(), class) {
            _ if multiplicity == Multiplicity::Builtin => continue,
            (Some(KvState::V1), _) => "mounts/one".to_owned(),
            // Version 2 is there from the start.
            (Some(KvState::V2 | KvState::Upgrading), _) => continue,
            (None, Class::Secret) => format!("mounts/{name}"),
            (None, Class::Auth) => format!("auth/{name}"),
        };
        let body = format!(r#"{{"type":"{name}"}}"#);
        ask(&core, Some(ROOT), Operation::Update, &format!("sys/{path}"), &body).unwrap();
    }
    core
}

pub(crate) fn request<'a>(
    token: Option<&'a str>,
    operation: Operation,
    path: &'a str,
    body: &'a str,
) -> Request<'a> {
    Request {
        token: token.map(TokenText::new),
        body: body.as_bytes(),
        body_kind: BodyKind::MergePatch,
        ..Request::new(operation, Path::decode(path).unwrap(), Timestamp::UNIX_EPOCH)
    }
}

pub(crate) fn ask(
    core: &Core,
    token: Option<&str>,
    operation: Operation,
    path: &str,
    body: &str,
) -> Result<Response, Error> {
    pollster::block_on(core.handle(&request(token, operation, path, body)))
}

/// What stands in the code as the path of a route, beside the tables: a row that is renamed, or that goes, takes it along.
#[test]
fn paths_that_the_code_names_are_routes() {
    let rows: Vec<String> =
        rows().map(|(base, route)| format!("{base}{}", route.pattern)).collect();
    let is_path = |text: &str| {
        text.bytes()
            .all(|b| b.is_ascii_lowercase() || matches!(b, b'/' | b'-' | b'_' | b'{' | b'}'))
    };
    // What is filled in, and a folder, stand for whatever follows.
    let is_there = |path: &str| match path.split_once('{').map(|(before, _)| before) {
        Some(before) => rows.iter().any(|row| row.starts_with(before)),
        None if path.ends_with('/') => rows.iter().any(|row| row.starts_with(path)),
        None => registry::builtin_route(path).is_some(),
    };
    let mut seen = 0;
    let mut folders = vec![
        std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src")),
        std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../listener/src")),
    ];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("tests") {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs")
                && !path.ends_with("tests.rs")
            {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
                for named in lines.flat_map(|line| line.split('"').skip(1).step_by(2)) {
                    // What a root token says of where it was made is no path of a request.
                    let is_route = (named.starts_with("sys/") || named.starts_with("auth/token/"))
                        && named != crate::records::token::ROOT_PATH;
                    if is_route && is_path(named) {
                        seen += 1;
                        assert!(is_there(named), "{}: {named} is no route", path.display());
                    }
                }
            }
        }
    }
    assert!(seen > 5, "{seen}");
}

/// Programs that are made from the description name their functions so.
#[test]
fn every_operation_has_an_identifier_of_its_own() {
    for (family, _) in families() {
        let mut seen = BTreeSet::new();
        for route in family.routes() {
            for (operation, _) in route.does {
                let identifier = openapi::identifier(family, "", route, *operation);
                assert!(seen.insert(identifier.clone()), "{identifier} stands twice");
            }
        }
    }
}

#[test]
fn patterns_are_unambiguous_and_aliases_lead_somewhere() {
    for (family, _) in families() {
        let mut seen = BTreeSet::new();
        for route in family.routes() {
            let shape = pattern::template(route.pattern);
            assert!(seen.insert(shape), "{} stands twice", route.pattern);
            let path = sample("", route);
            let found = family.find(&path).unwrap();
            assert_eq!(found.pattern, route.pattern, "{path} leads elsewhere");
            assert!(!route.does.is_empty(), "{} does nothing", route.pattern);
            if let Some(canonical) = route.alias_of {
                let canonical = family.routes().find(|row| row.pattern == canonical).unwrap();
                assert_eq!(canonical.alias_of, None, "{} is an alias of an alias", route.pattern);
            }
        }
    }
}

#[test]
fn every_parameter_of_a_path_is_described() {
    for (_, route) in rows() {
        for name in pattern::parameters(route.pattern) {
            let described = route.fields.iter().any(|field| field.name == name);
            assert!(described, "{} does not describe {name}", route.pattern);
        }
    }
}

#[test]
fn a_handler_answers_every_row_and_nothing_else() {
    let mut core = open_core(RouteAccess::Token);
    for (base, route) in rows() {
        let path = sample(base, route);
        for operation in OPERATIONS {
            // Some seal the server or end the token that asks.
            if ask(&core, Some(ROOT), Operation::Read, "auth/token/lookup-self", "").is_err() {
                core = open_core(RouteAccess::Token);
            }
            let answer = ask(&core, Some(ROOT), operation, &path, "{}");
            let is_stream = matches!(answer, Ok(Response::Stream(_)));
            assert!(!is_stream || route.streams && operation == Operation::Read, "{path}");
            let refused = match &answer {
                Err(Error::UnsupportedOperation | Error::UnsupportedPath) => true,
                // KV's word for a path that is none of its.
                Ok(Response::Missing(_)) => true,
                // No row takes it: what recovers names a snapshot, and is asked of that.
                Err(Error::Invalid(_)) => operation == Operation::Recover,
                _ => false,
            };
            // The store of these tests does not replicate; a server's tests ask these rows.
            let is_there =
                !route.pattern.starts_with(raft::BASE) && route.pattern != "kallisto/cluster";
            let takes = is_there && route.takes(operation);
            assert_eq!(refused, !takes, "{operation:?} {path}: {answer:?}");
        }
    }
}

#[test]
fn without_a_token_only_open_rows_answer() {
    for rekey in [RouteAccess::Token, RouteAccess::Open] {
        let core = open_core(rekey);
        for (base, route) in rows() {
            let path = sample(base, route);
            let is_open = match route.admits {
                Admits::Policy
                | Admits::AnyToken
                | Admits::AnyoneAtListener
                | Admits::AnyoneWhileSealed => false,
                Admits::AnyTokenOrNone | Admits::Anyone | Admits::WrappingToken => true,
                Admits::AnyoneIfConfigured => rekey == RouteAccess::Open,
            };
            for &(operation, _) in route.does {
                for token in [None, Some("hvs.nobodyhasthistoken000000")] {
                    let answer = ask(&core, token, operation, &path, "{}");
                    let denied = matches!(answer, Err(Error::Denied(Denial::BadToken)));
                    // A token that is given has to be good, but where nobody looks at it.
                    let looks = !is_for_anyone(route) && token.is_some();
                    assert_eq!(denied, !is_open || looks, "{operation:?} {path}: {answer:?}");
                }
            }
        }
    }
}

/// Whether no policy is asked at a route.
fn is_for_anyone(route: &Route) -> bool {
    matches!(route.admits, Admits::Anyone | Admits::WrappingToken)
}

/// A token whose policy grants `granted` at the sample path of every row.
fn token_with(core: &Core, granted: &[Capability]) -> String {
    let names: Vec<String> = granted.iter().map(|one| format!("\"{}\"", one.name())).collect();
    let names = names.join(",");
    let paths: BTreeSet<String> = rows().map(|(base, route)| sample(base, route)).collect();
    let rules: Vec<String> = paths
        .iter()
        .map(|path| format!("path \"{path}\" {{ capabilities = [{names}] }}"))
        .collect();
    let name = format!("p{}", granted.iter().fold(0, |set, one| set | 1 << (*one as u32)));
    let mut body = crate::api::json::Map::new();
    body.insert("policy".into(), rules.join("\n").into());
    let body = String::from_utf8(crate::api::json::Json::Object(body).to_text()).unwrap();
    ask(core, Some(ROOT), Operation::Update, &format!("sys/policies/acl/{name}"), &body).unwrap();
    let id = format!("token-{name}");
    let body = format!(r#"{{"id":"{id}","policies":["{name}"],"no_default_policy":true}}"#);
    ask(core, Some(ROOT), Operation::Update, "auth/token/create", &body).unwrap();
    id
}

/// What a set of capabilities comes to at a row, by the documentation.
fn documented(route: &Route, operation: Operation, granted: &[Capability]) -> bool {
    // Nothing is at a sample path: where an engine can tell, a write there creates.
    let creates = operation == Operation::Update && !matches!(route.creates, Creates::Never);
    let needed = if creates { Capability::Create } else { operation.capability() };
    let has_sudo = !route.rights.need_sudo(operation) || granted.contains(&Capability::Sudo);
    granted.contains(&needed) && has_sudo
}

#[test]
fn every_row_with_every_set_of_capabilities_is_decided_as_documented() {
    let core = open_core(RouteAccess::Token);
    let mut decisions: BTreeMap<(String, usize), Vec<bool>> = BTreeMap::new();
    for subset in 0..1_usize << GRANTED.len() {
        let chosen = GRANTED.into_iter().enumerate().filter(|(at, _)| subset & 1 << at != 0);
        let granted: Vec<Capability> = chosen.map(|(_, one)| one).collect();
        let token = token_with(&core, &granted);
        for (base, route) in rows().filter(|(_, row)| !is_for_anyone(row)) {
            let path = sample(base, route);
            for &(operation, _) in route.does {
                let request = request(Some(&token), operation, &path, "{}");
                let allowed = core.would_admit(&request).unwrap();
                let any = matches!(route.admits, Admits::AnyToken | Admits::AnyTokenOrNone);
                let expected = any || documented(route, operation, &granted);
                assert_eq!(allowed, expected, "{operation:?} {path} with {granted:?}");
                decisions.entry((path.clone(), subset)).or_default().push(allowed);
            }
        }
    }
    for (base, route) in rows() {
        let Some(canonical) = route.alias_of else { continue };
        let family = families().into_iter().find(|(_, found)| *found == base).unwrap().0;
        let canonical = family.routes().find(|row| row.pattern == canonical).unwrap();
        for &(operation, _) in route.does {
            // `policy` is listed by a plain read too, as its twin is not.
            let is_old_list = route.pattern == "policy" && operation == Operation::Read;
            assert!(is_old_list || canonical.takes(operation), "{} {operation:?}", route.pattern);
        }
        assert_eq!(route.rights, canonical.rights, "{}", route.pattern);
        for subset in 0..1_usize << GRANTED.len() {
            let of = |route| &decisions[&(sample(base, route), subset)];
            let shared = of(route).iter().zip(of(canonical));
            if route.does.len() == canonical.does.len() {
                assert!(shared.clone().all(|(one, other)| one == other), "{}", route.pattern);
            }
        }
    }
}

/// Who a row of the server's own engines admits, it has a handler for.
#[test]
fn every_row_has_a_handler_for_whom_it_admits() {
    let tables = [&SYSTEM, &crate::tokens::table::TOKEN];
    for row in tables.into_iter().flat_map(|table| table.rows()) {
        let (authorized, any_token, anyone) = match row.route.admits {
            Admits::Policy | Admits::AnyoneAtListener => (true, false, false),
            Admits::AnyToken => (false, true, false),
            Admits::AnyTokenOrNone => (false, true, true),
            Admits::Anyone => (false, false, true),
            Admits::AnyoneIfConfigured | Admits::AnyoneWhileSealed | Admits::WrappingToken => {
                (true, false, true)
            }
        };
        assert_eq!(row.handlers.len(), row.route.does.len(), "{}", row.route.pattern);
        for (operation, handler) in row.handlers {
            let (mut runs, about) = (handler.runs_for(), (operation, row.route.pattern));
            // What a token asks about itself any may, and about another one policies allow.
            runs.0 &= row.route.admits != Admits::AnyToken;
            assert_eq!(runs, (authorized, any_token, anyone), "{about:?}");
        }
    }
}
