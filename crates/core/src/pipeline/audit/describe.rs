//! Who asks for what, as an audit record says it: what [`crate::authz::judge`] found out of a request.

use kallisto_audit as audit;
use kallisto_auth::{Capability, Operation, TokenKind};

use crate::api::json::Json;
use crate::api::request::{Request, TokenText};
use crate::audit::Audit;
use crate::authz::judge::{Judgement, PolicyDecision};
use crate::pipeline::freshness;
use crate::records::mount::MountEntry;
use crate::state::Core;
use crate::view::NamespaceContext;
use crate::view::{CachedToken, Mount, View};
use kallisto_engine::Class;

/// The version of every engine, as records and mounts show it.
pub(super) const ENGINE_VERSION: &str =
    concat!("v", env!("CARGO_PKG_VERSION"), "+builtin.kallisto");
/// What stands between the parts of what a client's id is made of.
const CLIENT_ID_POLICY_SEPARATOR: &str = "\u{7f}";
const CLIENT_ID_NAMESPACE_SEPARATOR: &str = "\0";

/// Describes a request that was judged to `tell`, which gets all that is borrowed meanwhile.
pub(super) fn with_described<T>(
    core: &Core,
    context: &NamespaceContext,
    request: &Request<'_>,
    judgement: Judgement<'_>,
    tell: impl FnOnce(&audit::AuditSubject<'_>) -> T,
) -> T {
    let view = &context.view;
    let path = request.path.as_str();
    let Judgement { mount, bearer: live, capability, decision, .. } = judgement;
    let operation = match request.asks_help() {
        true => "help",
        false => name_of(request.operation, capability),
    };
    // Its policies are of the namespace that has the token.
    let home = live.map_or(&**view, |(_, home)| home);
    let (namespace_id, namespace_path) = (home.namespace_id(), home.namespace_path());
    let decision = decision.map(|PolicyDecision { is_allowed, granted_by }| audit::AuditDecision {
        allowed: is_allowed,
        granted_by,
        namespace_id,
        namespace_path,
    });

    let id = request.id.text();
    let data = data_of(request);
    let exempt = names_in(mount, "audit_non_hmac_request_keys");
    let headers = headers_of(&core.audit, request);
    let bearer = live.map(|(live, view)| AuditEntity::of(view, live)).unwrap_or_default();
    let live = live.map(|(live, _)| live);
    let metadata = live.and_then(|live| live.shared().meta.clone());
    let metadata = metadata.map(|map| Json::Object(map).to_text()).unwrap_or_default();
    let client_id = match (live, bearer.entity_id.as_str()) {
        (Some(live), "") => live.client_id(|policies| client_id(policies, namespace_id)),
        _ => bearer.entity_id.as_str(),
    };
    let auth = auth_of(live, &bearer, request.token, decision, &metadata);
    let request = audit::AuditRequest {
        id: &id,
        client_id,
        operation,
        mount: mount.map(|mount| mount_of(&mount.entry)).unwrap_or_default(),
        client_token: request.token.map(TokenText::expose),
        namespace_id: view.namespace_id(),
        namespace_path: view.namespace_path(),
        path,
        data: &data,
        exempt: &exempt,
        remote: request.remote,
        wrap_ttl_secs: request.wrap_ttl_secs,
        headers: &headers,
        is_stale_read: freshness::is_stale_read(context, request),
    };
    tell(&audit::AuditSubject { auth, request })
}

/// The mount as a record shows it.
pub(super) fn mount_of(entry: &MountEntry) -> audit::AuditMount<'_> {
    audit::AuditMount {
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
        Operation::Recover => "recover",
    }
}

/// The body of a write or the query of everything else, as JSON text; empty for neither, and for a
/// body that does not parse, which the handler refuses.
fn data_of(request: &Request<'_>) -> Vec<u8> {
    let map = match request.operation {
        Operation::Update | Operation::Patch => request.object().unwrap_or_default(),
        Operation::Recover => {
            let mut map = request.object().unwrap_or_default();
            if let Ok(id) = request.recover_snapshot() {
                map.insert("recover_snapshot_id".to_owned(), id.into());
            }
            map
        }
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

/// What a client may say in [`audit::INTENT_HEADER`]. Anything else is not written down: what clients make up is no fact.
const INTENTS: [&str; 5] = ["copy", "diff", "edit", "export", "reveal"];

/// The headers that are audited: those that operators named, and the intent in its few words unless they named that one too.
fn headers_of(audit: &Audit, request: &Request<'_>) -> Vec<audit::RequestHeader> {
    let wanted = audit.headers();
    let mut intent = match wanted.contains_key(audit::INTENT_HEADER) {
        true => Vec::new(),
        false => request.headers.values(audit::INTENT_HEADER),
    };
    intent.retain(|word| INTENTS.contains(&word.as_str()));
    intent.truncate(1);
    if wanted.is_empty() && intent.is_empty() {
        return Vec::new();
    }
    let intent = audit::RequestHeader {
        name: audit::INTENT_HEADER.to_owned(),
        values: intent,
        masked: false,
    };
    let given = wanted.iter().map(|(name, record)| audit::RequestHeader {
        name: name.clone(),
        values: request.headers.values(name),
        masked: record.hmac,
    });
    given.chain([intent]).filter(|header| !header.values.is_empty()).collect()
}

/// What the entity that bears a token adds to it.
#[derive(Default)]
struct AuditEntity {
    entity_id: String,
    identity_policies: Vec<String>,
    /// These and the token's own: sorted, each once.
    policies: Vec<String>,
}

impl AuditEntity {
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
    bearer: &'a AuditEntity,
    token: Option<TokenText<'a>>,
    decision: Option<audit::AuditDecision<'a>>,
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

/// Stands for a client without an entity where clients are counted: a hash of its policies, and of the id of the namespace that
/// they are of.
fn client_id(policies: &[String], namespace_id: &str) -> String {
    let mut sorted: Vec<&str> = policies.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    let mut text = sorted.join(CLIENT_ID_POLICY_SEPARATOR);
    text.push_str(CLIENT_ID_NAMESPACE_SEPARATOR);
    text.push_str(namespace_id);
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
            (vec!["default", "all"], "PI1fk+N5FZxZ/PGXkWNoQEH3QTGdCJ4Z+Eg4bMzqLzw="),
        ] {
            let policies: Vec<String> = policies.into_iter().map(str::to_owned).collect();
            assert_eq!(client_id(&policies, "root"), id);
        }
        let inside = client_id(&["default".to_owned(), "all".to_owned()], "krVSc6");
        assert_eq!(inside, "QFnS3wC0TZOuhZN4wdEfN3qjE1zEnxTMHlKJ9j6y2Z8=");
    }
}
