//! Who asks for what, as an audit record says it.
//!
//! The decision is asked here once more, before the door acts on it: pure functions of the same
//! view, so they agree but for a token or policy that changes in between, and then the response's
//! record says what became of the request.

use kallisto_audit as audit;
use kallisto_auth::{AclSet, Capability, Operation, Subject as _, TokenKind};

use super::Audit;
use crate::api::json::Json;
use crate::api::request::{Request, TokenText};
use crate::engines::mount::{Class, MountEntry};
use crate::engines::sys;
use crate::namespaces::Home;
use crate::pipeline::authz_request::AuthzRequest;
use crate::pipeline::freshness;
use crate::pipeline::policies::Caller;
use crate::pipeline::state::{Core, NamespaceContext};
use crate::tokens;
use crate::view::{CachedToken, Mount, View};

/// The version of every engine, as records and mounts show it.
pub(super) const ENGINE_VERSION: &str =
    concat!("v", env!("CARGO_PKG_VERSION"), "+builtin.kallisto");
/// What stands between the parts of what a client's id is made of.
const CLIENT_ID_POLICY_SEPARATOR: &str = "\u{1f}";
const CLIENT_ID_NAMESPACE_SEPARATOR: &str = "\0";

/// What the gate has to know of a request besides what its records say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Answering changes nothing.
    None,
    /// It may change something.
    Possible,
}

/// What there is to say of a request, and who serves it.
pub(super) struct Described<'a> {
    pub(super) subject: &'a audit::Subject<'a>,
    /// The error that is known before the handler runs; empty for none.
    pub(super) error: &'static str,
    pub(super) effect: Effect,
}

/// Describes a request to `tell`, which gets all that is borrowed meanwhile.
pub(super) fn with_described<T>(
    core: &Core,
    unsealed: &NamespaceContext,
    request: &Request<'_>,
    tell: impl FnOnce(&Described<'_>) -> T,
) -> T {
    let view = &unsealed.view;
    let path = request.path.as_str();
    let route = view.mounts.route(path);
    let is_login =
        route.as_ref().is_some_and(|(mount, inside)| mount.entry.kind.engine().is_open(inside));
    let mount = route.map(|(mount, _)| mount);
    let home = unsealed.home_of(request.token).ok();
    let token_view = match &home {
        Some(Home::Above { context, .. }) => &context.view,
        Some(Home::Here) | None => view,
    };
    let guard = token_view.tokens.pin();
    let found = home.as_ref().and_then(|_| tokens::find(token_view, request.token, &guard).ok());
    let found = found.filter(|(_, live)| !live.standing().is_expired(request.now));
    let live = found.map(|(_, live)| live);
    let asked = AuthzRequest::new(request, view);
    let operation = match request.asks_help() {
        true => "help",
        false => name_of(request.operation, asked.capability()),
    };
    let decision = match (&home, found) {
        (Some(Home::Above { context, below }), Some((hash, live))) => {
            let caller = Caller::from_above(context, below, hash, live, request.now).ok();
            let acl = caller.as_ref().map(Caller::acl);
            Some(decide(live, |grants| acl.and_then(grants), &asked))
        }
        (_, Some((_, live))) => {
            let by = |grants: Grants<'_>| live.with_acl(view, request.now, grants).flatten();
            Some(decide(live, by, &asked))
        }
        (_, None) => None,
    };
    let error = match refusal(request, live, decision.as_ref()) {
        // What anyone may ask is not judged by the token that is shown.
        refused if !refused.is_empty() && (is_login || is_open(core, request)) => "",
        error => error,
    };
    let effect = effect_of(request, mount.as_deref(), live);

    let id = request.id.text();
    let data = data_of(request);
    let exempt = names_in(mount.as_deref(), "audit_non_hmac_request_keys");
    let headers = headers_of(&core.audit, request);
    let metadata = live.and_then(|live| live.shared().meta.clone());
    let metadata = metadata.map(|map| Json::Object(map).to_text()).unwrap_or_default();
    let bearer = live.map(|live| Bearer::of(token_view, live)).unwrap_or_default();
    let client_id = match (live, bearer.entity_id.as_str()) {
        (Some(live), "") => live.client_id(client_id),
        _ => bearer.entity_id.as_str(),
    };
    let auth = auth_of(live, &bearer, request.token, decision, &metadata);
    let request = audit::Request {
        id: &id,
        client_id,
        operation,
        mount: mount.as_deref().map(|mount| mount_of(&mount.entry)).unwrap_or_default(),
        client_token: request.token.map(TokenText::expose),
        namespace_id: view.namespace_id(),
        namespace_path: view.namespace_path(),
        path,
        data: &data,
        exempt: &exempt,
        remote: request.remote,
        wrap_ttl_secs: request.wrap_ttl_secs,
        headers: &headers,
        is_stale_read: freshness::is_stale_read(unsealed, request),
    };
    tell(&Described { subject: &audit::Subject { auth, request }, error, effect })
}

/// The mount as a record shows it.
pub(super) fn mount_of(entry: &MountEntry) -> audit::Mount<'_> {
    audit::Mount {
        point: &entry.path,
        kind: entry.kind.name(),
        accessor: &entry.accessor,
        version: ENGINE_VERSION,
        class: match entry.kind.class() {
            Class::Secret => "secret",
            Class::Auth => "auth",
        },
    }
}

/// A list of names in the configuration of a mount.
pub(super) fn names_in<'m>(mount: Option<&'m Mount>, list: &str) -> Vec<&'m str> {
    match mount.and_then(|mount| mount.entry.config.lists.get(list)) {
        Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    }
}

/// What an operation is called in a record.
pub(super) fn name_of(operation: Operation, capability: Capability) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Update if capability == Capability::Create => "create",
        Operation::Update => "update",
        Operation::Patch => "patch",
        Operation::Delete => "delete",
        Operation::List => "list",
        Operation::Scan => "scan",
    }
}

/// The policies that grant a request, asked of what a token's policies come to.
type Grants<'g> = &'g dyn Fn(&AclSet) -> Option<Vec<String>>;

fn decide(
    live: &CachedToken,
    ask: impl FnOnce(Grants<'_>) -> Option<Vec<String>>,
    asked: &AuthzRequest<'_, '_>,
) -> audit::Decision {
    if live.standing().kind == TokenKind::Root {
        return audit::Decision { allowed: true, granted_by: vec!["root".to_owned()] };
    }
    let granted = ask(&|acl| {
        let grant = acl.decide(asked).ok()?;
        Some(grant.policies().iter().map(|name| name.to_string()).collect())
    });
    match granted {
        Some(granted_by) => audit::Decision { allowed: true, granted_by },
        None => audit::Decision { allowed: false, granted_by: Vec::new() },
    }
}

/// What is known to be refused before anything runs. A request without a token may be a login, and
/// one that any token may make needs no policy: theirs is in the response's record.
fn refusal(
    request: &Request<'_>,
    live: Option<&CachedToken>,
    decision: Option<&audit::Decision>,
) -> &'static str {
    let refused = match (request.token, live, decision) {
        (Some(_), None, _) => true,
        (_, Some(_), Some(decision)) => !decision.allowed && !sys::ui::is_for_any_token(request),
        _ => false,
    };
    if refused { "permission denied" } else { "" }
}

/// Whether the route answers whoever asks.
fn is_open(core: &Core, request: &Request<'_>) -> bool {
    let path = request.path.as_str().strip_prefix("sys/");
    path.is_some_and(|path| sys::open_route(core, path, request).is_some())
}

/// Only what is known to change nothing is said to: reads of KV by a token with no count of uses.
fn effect_of(request: &Request<'_>, mount: Option<&Mount>, live: Option<&CachedToken>) -> Effect {
    let is_kv = mount.is_some_and(|mount| mount.entry.kind.kv().is_some());
    let counts = live.is_none_or(CachedToken::is_limited);
    if request.operation.writes() || request.wrap_ttl_secs > 0 || !is_kv || counts {
        Effect::Possible
    } else {
        Effect::None
    }
}

/// The body of a write or the query of everything else, as JSON text; empty for neither, and for a
/// body that does not parse, which the handler refuses.
fn data_of(request: &Request<'_>) -> Vec<u8> {
    let map = match request.operation {
        Operation::Update | Operation::Patch => request.object().unwrap_or_default(),
        Operation::Read | Operation::Delete | Operation::List | Operation::Scan => {
            if request.query.is_empty() {
                return Vec::new();
            }
            let mut map = request.query_fields();
            // These say what the operation is and are no data.
            map.retain(|name, _| !matches!(name.as_str(), "list" | "scan" | "help"));
            map
        }
    };
    if map.is_empty() { Vec::new() } else { Json::Object(map).to_text() }
}

fn headers_of(audit: &Audit, request: &Request<'_>) -> Vec<audit::Header> {
    let wanted = audit.headers();
    let given = wanted.iter().map(|(name, record)| audit::Header {
        name: name.clone(),
        values: request.headers.values(name),
        masked: record.hmac,
    });
    given.filter(|header| !header.values.is_empty()).collect()
}

/// What the entity that bears a token adds to it.
#[derive(Default)]
struct Bearer {
    entity_id: String,
    identity_policies: Vec<String>,
    /// These and the token's own: sorted, each once.
    policies: Vec<String>,
}

impl Bearer {
    fn of(view: &View, live: &CachedToken) -> Self {
        let entry = live.shared();
        let Some(id) = entry.entity_id else { return Self::default() };
        let person = view.person(entry);
        let identity_policies = person.map(|person| person.policies()).unwrap_or_default();
        let mut policies = [entry.auth.policies.as_slice(), &identity_policies].concat();
        policies.sort();
        policies.dedup();
        Self { entity_id: id.to_string(), identity_policies, policies }
    }
}

fn auth_of<'a>(
    live: Option<&'a CachedToken>,
    bearer: &'a Bearer,
    token: Option<TokenText<'a>>,
    decision: Option<audit::Decision>,
    metadata: &'a [u8],
) -> audit::Auth<'a> {
    let Some(live) = live else {
        return audit::Auth { token_type: "default", ..audit::Auth::default() };
    };
    let entry = live.shared();
    audit::Auth {
        client_token: token.map(TokenText::expose),
        accessor: live.accessor(),
        display_name: &entry.auth.display_name,
        policies: match bearer.policies.as_slice() {
            [] => &entry.auth.policies,
            all => all,
        },
        token_policies: &entry.auth.policies,
        identity_policies: &bearer.identity_policies,
        decision,
        metadata,
        entity_id: &bearer.entity_id,
        token_type: match entry.auth.kind {
            TokenKind::Root | TokenKind::Service => "service",
            TokenKind::Batch => "batch",
        },
        token_ttl_secs: i64::try_from(entry.ttl_secs).unwrap_or(i64::MAX),
        issued_at: Some(live.created_at()),
        remaining_uses: live.uses_left().max(0),
    }
}

/// Stands for a client without an entity where clients are counted: a hash of its policies.
fn client_id(policies: &[String]) -> String {
    let mut sorted: Vec<&str> = policies.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    let mut text = sorted.join(CLIENT_ID_POLICY_SEPARATOR);
    text.push_str(CLIENT_ID_NAMESPACE_SEPARATOR);
    text.push_str("root");
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    data_encoding::BASE64.encode(hash.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_ids_are_those_that_a_real_server_showed() {
        for (policies, id) in [
            (vec!["root"], "0DHqvq2D77kL2/JTPSZkTMJbkFVmUu0TzMi0jiXcFy8="),
            (vec!["default"], "g0A6QFkmfBoCzvwgAWlrwXxqmnxezsz9P+RmbKWtbTM="),
        ] {
            let policies: Vec<String> = policies.into_iter().map(str::to_owned).collect();
            assert_eq!(client_id(&policies), id);
        }
    }
}
