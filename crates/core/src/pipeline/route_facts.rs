//! What is told of a request in traces: the row that answers it, the mount and the namespace. Nothing of it is the request's own: names of
//! mounts and namespaces are those that there are, and what stands in the place of a parameter is left out.

use kallisto_engine::pattern;

use crate::api::request::Request;
use crate::caller::spelling::SYSTEM;
use crate::metrics;
use crate::registry;
use crate::state::Core;
use crate::state::metrics::namespace_of;

/// What is told of a request in traces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteFacts {
    /// The pattern of the row behind the path of its mount, such as `/v1/secret/data/{path}`; `None` for a path that no row answers.
    pub route: Option<String>,
    /// The path of the mount, with an ending slash.
    pub mount: Option<String>,
    /// What is mounted there.
    pub mount_type: Option<&'static str>,
    /// The path of the namespace with an ending slash; `root` for that one, `None` while sealed.
    pub namespace: Option<String>,
    /// What is done.
    pub operation: &'static str,
}

impl Core {
    /// What is told of a request in traces, before it is answered.
    pub fn route_facts(&self, request: &Request<'_>) -> RouteFacts {
        let operation = metrics::operation_name(request.operation);
        let Ok(placed) = self.place(request) else {
            return Self::sealed_facts(request, operation);
        };
        let inside;
        let request = match &placed {
            None => request,
            Some(placed) => {
                inside = placed.request(request);
                &inside
            }
        };
        let path = request.path.as_str();
        let Ok(context) = self.namespace_context(request.namespace) else {
            return Self::sealed_facts(request, operation);
        };
        let namespace = Some(namespace_of(&context.view));
        let Some((mount, inside)) = context.view.mounts.route(path) else {
            return RouteFacts { namespace, operation, ..RouteFacts::default() };
        };
        let kind = mount.entry.kind;
        let row = registry::driver(kind).routes().find(inside.strip_suffix('/').unwrap_or(inside));
        let base = &mount.entry.path;
        RouteFacts {
            route: row.map(|row| format!("/v1/{base}{}", pattern::template(row.pattern))),
            mount: Some(base.to_string()),
            mount_type: Some(kind.name()),
            namespace,
            operation,
        }
    }

    /// The same where only the rows count that are at the same place everywhere.
    fn sealed_facts(request: &Request<'_>, operation: &'static str) -> RouteFacts {
        let path = request.path.as_str();
        let row = path.starts_with(SYSTEM).then(|| registry::builtin_route(path)).flatten();
        let route = row.map(|row| format!("/v1/sys/{}", pattern::template(row.pattern)));
        RouteFacts { route, operation, ..RouteFacts::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kallisto_auth::Operation;
    use kallisto_store::MemoryStore;

    use super::*;
    use crate::platform::server_info::{RouteAccess, ServerInfo};
    use crate::routes::tests::{open_core, request};

    #[test]
    fn traces_name_the_row_and_the_mount_and_nothing_of_the_path_itself() {
        let core = open_core(RouteAccess::Token);
        let facts = |path| core.route_facts(&request(None, Operation::Read, path, ""));
        let expected = RouteFacts {
            route: Some("/v1/secret/data/{path}".to_owned()),
            mount: Some("secret/".to_owned()),
            mount_type: Some("kv"),
            namespace: Some("root".to_owned()),
            operation: "read",
        };
        assert_eq!(facts("secret/data/private/name"), expected);
        let nowhere = facts("private/name");
        assert_eq!((nowhere.route, nowhere.mount), (None, None));
        assert_eq!(nowhere.namespace.as_deref(), Some("root"));
    }

    #[test]
    fn a_sealed_server_names_the_rows_that_are_at_the_same_place_everywhere() {
        let core = Core::new(Arc::new(MemoryStore::new()), ServerInfo::default());
        let facts = |path| core.route_facts(&request(None, Operation::Read, path, ""));
        let health = facts("sys/health");
        assert_eq!(health.route.as_deref(), Some("/v1/sys/health"));
        assert_eq!((health.namespace, health.operation), (None, "read"));
        assert_eq!(facts("secret/data/a").route, None);
    }
}
