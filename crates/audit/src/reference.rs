//! The page of the fields of records, held to what records say: a field without a row here, or a row without a field, fails.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kallisto_reference::{hold, page, table};
use serde_json::Value;

use crate::chain::ChainHead;
use crate::checkpoint::CheckpointSigner;
use crate::mask::{MASK_PREFIX, Masker, SALT_BYTES, Secrecy};
use crate::options::{RecordForm, RecordLayout};
use crate::record::{RecordBody, RecordKind, RecordWriter};
use crate::subject::{
    AuditDecision, AuditMount, AuditRequest, AuditResponse, AuditSubject, AuditTouched, Auth,
    INTENT_HEADER, IssuedToken, RequestHeader, Wrapped,
};

/// Each field in the order of the page, and what it says.
const MEANINGS: &[(&str, &str)] = &[
    ("time", "when the record was written, RFC 3339 in UTC"),
    ("type", "`request`, `response`, `exchange` (both in one, compact only) or `checkpoint`"),
    ("auth.client_token", "the token of the request, where it is live"),
    ("auth.accessor", "its accessor; in the clear with `hmac_accessor=false`"),
    ("auth.display_name", "its name for people"),
    ("auth.policies", "all policies that count for the request"),
    ("auth.token_policies", "those of the token itself"),
    ("auth.identity_policies", "those of its entity and of the groups of that"),
    ("auth.policy_results.allowed", "whether the policies let the request run"),
    ("auth.policy_results.granting_policies[].name", "a policy that let it"),
    (
        "auth.policy_results.granting_policies[].namespace_id",
        "the id of the namespace that the policy is of: the token's",
    ),
    (
        "auth.policy_results.granting_policies[].namespace_path",
        "the path of that namespace, but for the root one",
    ),
    ("auth.policy_results.granting_policies[].type", "always `acl`"),
    ("auth.metadata", "what the login wrote on the token"),
    ("auth.remaining_uses", "requests that the token is good for; absent without such a limit"),
    ("auth.entity_id", "the entity"),
    ("auth.token_type", "`service`, `batch` or `default`"),
    ("auth.token_ttl", "the lifetime of the token when it was made, in seconds"),
    ("auth.token_issue_time", "when it was made"),
    ("request.id", "the request's id, which its answer has too"),
    ("request.client_id", "stands for the client where clients are counted"),
    (
        "request.operation",
        "`read`, `list`, `create`, `update`, `patch`, `delete`, `help` and the like",
    ),
    ("request.mount_point", "the path of the mount that answers"),
    ("request.mount_type", "its type"),
    ("request.mount_accessor", "its accessor"),
    ("request.mount_running_version", "the version of the engine"),
    ("request.mount_class", "`secret` or `auth`"),
    (
        "request.client_token",
        "the token that was shown; in compact records only one that is not live",
    ),
    ("request.client_token_accessor", "its accessor"),
    ("request.namespace.id", "the id of the namespace; in compact records not for `root`"),
    ("request.namespace.path", "its path; absent for `root`"),
    ("request.path", "the path, within the namespace"),
    (
        "request.data",
        "the body or the query; every text in it is masked but for `audit_non_hmac_request_keys`",
    ),
    ("request.remote_address", "the address of the client"),
    ("request.remote_port", "its port"),
    ("request.wrap_ttl", "the lifetime asked for a wrapped answer, in seconds"),
    ("request.consistency", "`stale` where the client asked for a stale read"),
    (
        "request.headers",
        "the headers of `sys/config/auditing/request-headers`, each masked or not as set there",
    ),
    ("response.auth.client_token", "a token that is handed out"),
    ("response.auth.accessor", "its accessor"),
    ("response.auth.display_name", "its name for people"),
    ("response.auth.policies", "all its policies"),
    ("response.auth.token_policies", "those of the token itself"),
    ("response.auth.identity_policies", "those of its entity"),
    ("response.auth.metadata", "what the login wrote on it"),
    ("response.auth.num_uses", "requests that it is good for"),
    ("response.auth.entity_id", "its entity"),
    ("response.auth.token_type", "`service` or `batch`"),
    ("response.auth.token_ttl", "its lifetime in seconds"),
    ("response.mount_point", "as in the request"),
    ("response.mount_type", "as in the request"),
    ("response.mount_accessor", "as in the request"),
    ("response.mount_running_plugin_version", "as in the request"),
    ("response.mount_class", "as in the request"),
    ("response.secret.lease_id", "a lease that is handed out or renewed; it opens nothing"),
    (
        "response.data",
        "the answer; every text in it is masked but for `audit_non_hmac_response_keys`. With `elide_list_responses=true` a listing has numbers in place of names. In compact records, `metadata` of a version of a secret is its number alone, where the mount has no such keys",
    ),
    ("response.data.error", "what the client hears of a request that failed"),
    ("response.warnings", "warnings that the client hears"),
    ("response.wrap_info.ttl", "the lifetime of a wrapped answer in seconds"),
    ("response.wrap_info.token", "the token that unwraps it"),
    ("response.wrap_info.accessor", "its accessor"),
    ("response.wrap_info.creation_time", "when it was made"),
    ("response.wrap_info.creation_path", "the path whose answer it holds"),
    ("response.wrap_info.wrapped_accessor", "the accessor of the token inside"),
    ("response.touched[].operation", "what was done at another path than the request's own"),
    ("response.touched[].path", "that path"),
    ("error", "the class of an error, without values"),
    ("checkpoint.node", "the server that signs"),
    ("checkpoint.device", "the device"),
    ("checkpoint.key", "the id of the key that signs"),
    ("checkpoint.signature", "the signature of the chain up to here"),
    ("chain.seq", "the number of the record, from 1"),
    ("chain.prev", "the hash of the record before"),
    ("chain.hash", "the hash of this one, over the line up to `prev`"),
];
/// Fields whose members are the client's, or what a method wrote.
const WHOLE: &[&str] = &[
    "auth.metadata",
    "request.data",
    "request.headers",
    "response.auth.metadata",
    "response.data",
];

const MOUNT: AuditMount<'_> =
    AuditMount { point: "m/", kind: "kv", accessor: "kv_1", version: "v1", class: "secret" };

/// Where a field was seen.
#[derive(Default)]
struct Seen {
    /// Types of records, each once.
    types: Vec<String>,
    is_compact: bool,
    is_full: bool,
    is_masked: bool,
}

/// Every field of a record, by its path.
fn walk<'v>(path: &str, value: &'v Value, found: &mut Vec<(String, &'v Value)>) {
    match value {
        Value::Object(members) if !WHOLE.contains(&path) => {
            for (name, value) in members {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                walk(&below, value, found);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items.iter().for_each(|item| walk(&format!("{path}[]"), item, found));
        }
        value => found.push((path.to_owned(), value)),
    }
}

/// A request with everything that one can say, and its answers: one that went well, and one that failed.
fn lines(layout: RecordLayout) -> Vec<Vec<u8>> {
    let names = ["p".to_owned()];
    let headers = [RequestHeader {
        name: INTENT_HEADER.to_owned(),
        values: vec!["reveal".to_owned()],
        masked: false,
    }];
    let subject = AuditSubject {
        auth: Auth {
            client_token: Some("tok"),
            accessor: "acc",
            display_name: "d",
            policies: &names,
            token_policies: &names,
            identity_policies: &names,
            decision: Some(AuditDecision {
                allowed: true,
                granted_by: names.to_vec(),
                namespace_id: "n",
                namespace_path: "n/",
            }),
            metadata: br#"{"k":"v"}"#,
            entity_id: "e",
            token_type: "service",
            token_ttl_secs: 60,
            issued_at: Some(Timestamp::UNIX_EPOCH),
            remaining_uses: 2,
        },
        request: AuditRequest {
            id: "i",
            client_id: "c",
            operation: "read",
            mount: MOUNT,
            client_token: Some("tok"),
            namespace_id: "n",
            namespace_path: "n/",
            path: "m/a",
            data: br#"{"k":"v"}"#,
            exempt: &[],
            remote: Some("192.0.2.7:4711".parse().unwrap()),
            wrap_ttl_secs: 60,
            is_stale_read: true,
            headers: &headers,
        },
    };
    let answer = AuditResponse {
        mount: MOUNT,
        lease_id: "m/a/1",
        data: br#"{"k":"v"}"#,
        auth: Some(IssuedToken {
            client_token: "new",
            accessor: "acc2",
            display_name: "d",
            policies: &names,
            token_policies: &names,
            identity_policies: &names,
            metadata: br#"{"k":"v"}"#,
            entity_id: "e",
            token_type: "service",
            token_ttl_secs: 60,
            num_uses: 2,
        }),
        wrapped: Some(Wrapped {
            token: "wrap",
            accessor: "acc3",
            ttl_secs: 60,
            creation_time: "1970-01-01T00:00:00Z",
            creation_path: "m/a",
            wrapped_accessor: "acc4",
        }),
        warnings: &names,
        touched: vec![AuditTouched { operation: "delete", path: "m/b" }],
        ..AuditResponse::default()
    };
    let failed = AuditResponse { mount: MOUNT, error: Some("bad"), ..AuditResponse::default() };
    let stranger = AuditSubject {
        request: AuditRequest { client_token: Some("gone"), ..AuditRequest::default() },
        ..AuditSubject::default()
    };
    let masker = Masker::new(&[1; SALT_BYTES], Secrecy::Masked);
    let form =
        RecordForm { layout, prefix: String::new(), masks_accessors: true, elides_listings: false };
    let writer = RecordWriter { masker: &masker, form: &form };
    let line = |subject, kind, response| {
        let common = writer.common(subject).unwrap();
        let mut line = Vec::new();
        let common = common.text_in(kind);
        let now = Timestamp::UNIX_EPOCH;
        let body = RecordBody { kind, now, common, response, error: "e" };
        writer.body(&body, &mut line).unwrap();
        ChainHead::default().link(0, &mut line);
        line
    };
    let mut lines = vec![
        line(&subject, RecordKind::Request, None),
        line(&subject, RecordKind::Response, Some(&answer)),
        line(&subject, RecordKind::Response, Some(&failed)),
        line(&stranger, RecordKind::Request, None),
    ];
    if layout == RecordLayout::Compact {
        lines.push(line(&subject, RecordKind::Exchange, Some(&answer)));
    }
    let mut checkpoint = Vec::new();
    let signer = CheckpointSigner::new(&[1; SALT_BYTES], "node", "device").unwrap();
    signer.add(ChainHead::default(), "", Timestamp::UNIX_EPOCH, &mut checkpoint);
    lines.push(checkpoint);
    lines
}

/// What is seen in records of both layouts.
fn fields() -> BTreeMap<String, Seen> {
    let mut fields: BTreeMap<String, Seen> = BTreeMap::new();
    for layout in [RecordLayout::Full, RecordLayout::Compact] {
        for line in lines(layout) {
            let record: Value = serde_json::from_slice(&line).unwrap();
            let kind = record["type"].as_str().unwrap();
            let mut found = Vec::new();
            walk("", &record, &mut found);
            for (path, value) in found {
                // Both are `response.data`; a failure's stands on a row of its own.
                let is_failure = path == "response.data" && value.get("error").is_some();
                let name = if is_failure { "response.data.error".to_owned() } else { path };
                let seen = fields.entry(name).or_default();
                if !seen.types.iter().any(|seen| seen == kind) {
                    seen.types.push(kind.to_owned());
                }
                seen.is_masked |= value.to_string().contains(MASK_PREFIX);
                match layout {
                    RecordLayout::Full => seen.is_full = true,
                    RecordLayout::Compact => seen.is_compact = true,
                }
            }
        }
    }
    fields
}

#[test]
fn the_page_of_fields_is_what_records_say() {
    let mut fields = fields();
    let rows: Vec<Vec<String>> = MEANINGS
        .iter()
        .map(|(name, meaning)| {
            let seen = fields.remove(*name).unwrap_or_else(|| panic!("no record says {name}"));
            let layouts = match (seen.is_full, seen.is_compact) {
                (true, true) => "both",
                (true, false) => "`json`",
                _ => "`compact`",
            };
            let masked = if seen.is_masked { "masked" } else { "clear" };
            vec![
                format!("`{name}`"),
                seen.types.join(", "),
                layouts.to_owned(),
                masked.to_owned(),
                (*meaning).to_owned(),
            ]
        })
        .collect();
    assert!(fields.is_empty(), "without a row: {:?}", fields.keys());
    let about = "Each record of an audit device is one line of JSON with these fields and no others; a field that has nothing to say is left \
        out. *Masked* stands for `hmac-sha256:` and the HMAC of the text under the salt of the device (`sys/audit-hash`), unless the device \
        has `log_raw=true`; numbers and names of members stay. `format` of the device is `json` or `compact`. How to work with devices is in \
        [Audit devices](../operations/audit.md), the bytes are in [Formats on disk and wire](../format.md).";
    let mut text = page("Fields of audit records", about, "records with everything in them");
    table(&mut text, &["Field", "Records", "`format`", "Text", "Meaning"], rows);
    hold("audit-fields.md", &text);
}
