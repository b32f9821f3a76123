//! What was answered, as an audit record says it.
//!
//! An error stands twice: its class in the clear, since operators search for it, and its message
//! masked, since it may repeat what the client sent.

use std::sync::Arc;

use kallisto_audit as audit;
use kallisto_auth::{Capability, Operation};

use super::describe::{mount_of, name_of, names_in};
use crate::api::error::Error;
use crate::api::json::{self, Json, Map};
use crate::api::request::Request;
use crate::api::response::{BatchAnswer, Logical, Response};
use crate::view::Mount;
use crate::view::NamespaceContext;

/// What a request is answered.
pub(super) type AuditedAnswer = Result<Response, Error>;

/// What is mounted where a request asks.
pub(super) fn mount_at(context: &NamespaceContext, request: &Request<'_>) -> Option<Arc<Mount>> {
    context.view.mounts.route(request.path.as_str()).map(|(mount, _)| mount)
}

/// Describes the answer of what is at `mount` to `tell`.
pub(super) fn with_described<T>(
    mount: Option<&Mount>,
    request: &Request<'_>,
    answer: &AuditedAnswer,
    tell: impl FnOnce(&audit::AuditResponse<'_>, &str) -> T,
) -> T {
    let exempt = names_in(mount, "audit_non_hmac_response_keys");
    let mut response = audit::AuditResponse {
        mount: mount.map(|mount| mount_of(&mount.entry)).unwrap_or_default(),
        exempt: &exempt,
        is_listing: matches!(request.operation, Operation::List | Operation::Scan),
        ..audit::AuditResponse::default()
    };
    match answer {
        // Text is what the server says of itself; no secret was ever written as one.
        Ok(
            Response::Empty
            | Response::MissingEmpty
            | Response::Text { .. }
            | Response::Page { .. }
            | Response::SeeOther { .. }
            | Response::Foreign { .. }
            | Response::NotModified { .. }
            | Response::Stream(_)
            | Response::Upload(_)
            | Response::Waiting(_),
        ) => tell(&response, ""),
        Ok(Response::Each(answers)) => {
            let data = each(answers);
            response.data = &data;
            let touched = answers.iter().map(|one| touched(one.operation, &one.path));
            response.touched = touched.collect();
            tell(&response, "")
        }
        Ok(Response::Bare { body, .. } | Response::Challenge { body, .. }) => {
            let data = body.to_text();
            response.data = &data;
            tell(&response, "")
        }
        Ok(
            Response::Logical(logical)
            | Response::Accepted(logical)
            | Response::WithStatus { logical, .. }
            | Response::Missing(logical)
            | Response::Merged(logical),
        ) => {
            response.data = &logical.data;
            response.is_version = matches!(answer, Ok(Response::Logical(_)))
                && mount.is_some_and(|mount| reads_version(mount, request));
            response.lease_id = logical.lease.as_ref().map_or("", |lease| &lease.id);
            response.warnings = &logical.warnings;
            let touched = logical.touched.iter().map(|one| touched(one.operation, &one.path));
            response.touched = touched.collect();
            let issued = IssuedParts::read(logical);
            response.auth = issued.as_ref().map(IssuedParts::describe);
            let wrapped = WrappedParts::read(logical);
            response.wrapped = wrapped.as_ref().map(WrappedParts::describe);
            tell(&response, "")
        }
        Err(Error::NotFound) => tell(&response, ""),
        Err(error) => {
            let message = error.to_string();
            response.error = Some(&message);
            tell(&response, class_of(error))
        }
    }
}

/// Whether a request reads a version of a secret that there is. One of a snapshot is there as long as the snapshot is loaded.
pub(super) fn reads_version(mount: &Mount, request: &Request<'_>) -> bool {
    let inside = request.path.as_str().strip_prefix(&*mount.entry.path);
    request.operation == Operation::Read
        && mount.entry.kind.has_versions()
        && request.read_snapshot().is_none()
        && inside.is_some_and(|inside| inside.starts_with("data/"))
}

fn touched(operation: Operation, path: &str) -> audit::AuditTouched<'_> {
    audit::AuditTouched { operation: name_of(operation, Capability::Update), path }
}

/// The answers of a request that named many paths, each with its path: their values are masked as
/// those of an answer of its own.
fn each(answers: &[BatchAnswer]) -> Vec<u8> {
    let mut out = b"{\"results\":[".to_vec();
    for (at, answered) in answers.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"path\":");
        json::write_string(&answered.path, &mut out);
        match &answered.answer {
            Ok(part) if part.data().is_empty() => {}
            Ok(part) => {
                out.extend_from_slice(b",\"data\":");
                out.extend_from_slice(part.data());
            }
            Err(error) => {
                out.extend_from_slice(b",\"error\":");
                json::write_string(class_of(error), &mut out);
            }
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
    out
}

/// The class of a request that ended before its answer.
pub(super) const ENDED_EARLY: &str = "the request ended before its answer";

/// The class of an error: nothing of it comes from the client.
const fn class_of(error: &Error) -> &'static str {
    match error {
        Error::Invalid(_)
        | Error::InvalidSilently
        | Error::CasMismatch
        | Error::Expected(_)
        | Error::TooLarge(_)
        | Error::UnsupportedMedia(_) => "1 error occurred:\n\t* invalid request\n\n",
        Error::NotFound => "",
        Error::NoNamespace => "namespace not found",
        Error::NoRoute(_) | Error::UnsupportedPath => "1 error occurred:\n\t* unsupported path\n\n",
        Error::UnsupportedOperation => "1 error occurred:\n\t* unsupported operation\n\n",
        Error::Denied(_) => "1 error occurred:\n\t* permission denied\n\n",
        Error::Sealed => "Vault is sealed",
        Error::Conflict => "the entry kept changing",
        Error::Stale(_) => "the server is behind",
        Error::NotLeader => "not the leader",
        Error::OverQuota(over) => over.exceeded(),
        Error::TooManyTries { .. } => "too many wrong tries",
        Error::Busy(_) => "too many requests at once",
        Error::Unavailable(_) => "service unavailable",
        Error::Internal(_) | Error::Unaudited => "internal error",
    }
}

/// The token that an answer hands out, taken out of the text that says so.
pub(super) struct IssuedParts {
    auth: Map,
    policies: Vec<String>,
    token_policies: Vec<String>,
    identity_policies: Vec<String>,
    metadata: Vec<u8>,
}

impl IssuedParts {
    /// `None` for an answer that hands out none.
    pub(super) fn read(logical: &Logical) -> Option<Self> {
        if logical.auth.is_empty() {
            return None;
        }
        let auth = json::parse_object(&logical.auth).ok()?;
        let list = |name: &str| match auth.get(name) {
            Some(Json::Array(items)) => {
                items.iter().filter_map(Json::as_str).map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        Some(Self {
            policies: list("policies"),
            token_policies: list("token_policies"),
            identity_policies: list("identity_policies"),
            metadata: match auth.get("metadata") {
                Some(map @ Json::Object(_)) => map.to_text(),
                _ => Vec::new(),
            },
            auth,
        })
    }

    fn text(&self, name: &str) -> &str {
        self.auth.get(name).and_then(Json::as_str).unwrap_or_default()
    }

    fn number(&self, name: &str) -> i64 {
        match self.auth.get(name) {
            Some(Json::Number(text)) => text.parse().unwrap_or_default(),
            _ => 0,
        }
    }

    /// The accessor of the token.
    pub(super) fn accessor(&self) -> &str {
        self.text("accessor")
    }

    fn describe(&self) -> audit::IssuedToken<'_> {
        audit::IssuedToken {
            client_token: self.text("client_token"),
            accessor: self.accessor(),
            display_name: self.text("display_name"),
            policies: &self.policies,
            token_policies: &self.token_policies,
            identity_policies: &self.identity_policies,
            metadata: &self.metadata,
            entity_id: self.text("entity_id"),
            token_type: self.text("token_type"),
            token_ttl_secs: self.number("lease_duration"),
            num_uses: self.number("num_uses"),
        }
    }
}

/// The wrapped answer that an answer hands out, taken out of the text that says so.
pub(super) struct WrappedParts(Map);

impl WrappedParts {
    /// `None` for an answer that hands out none.
    pub(super) fn read(logical: &Logical) -> Option<Self> {
        if logical.wrap_info.is_empty() {
            return None;
        }
        json::parse_object(&logical.wrap_info).ok().map(Self)
    }

    fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Json::as_str).unwrap_or_default()
    }

    /// The accessor of the wrapping token.
    pub(super) fn accessor(&self) -> &str {
        self.text("accessor")
    }

    fn describe(&self) -> audit::Wrapped<'_> {
        audit::Wrapped {
            token: self.text("token"),
            accessor: self.accessor(),
            ttl_secs: match self.0.get("ttl") {
                Some(Json::Number(text)) => text.parse().unwrap_or_default(),
                _ => 0,
            },
            creation_time: self.text("creation_time"),
            creation_path: self.text("creation_path"),
            wrapped_accessor: self.text("wrapped_accessor"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::response::BatchPart;

    fn one(path: &str, answer: AuditedAnswer) -> BatchAnswer {
        let answer = answer.and_then(BatchPart::of);
        BatchAnswer { operation: Operation::Read, path: path.to_owned(), answer }
    }

    #[test]
    fn the_answers_of_a_batch_are_told_by_their_paths() {
        let found = |data: &str| Logical { data: data.into(), ..Logical::default() };
        let told = each(&[
            one("secret/\"a", Ok(Response::Logical(found(r#"{"v":1}"#)))),
            one("secret/gone", Ok(Response::Missing(found(r#"{"v":null}"#)))),
            one("secret/empty", Ok(Response::Logical(found("")))),
            one("secret/no", Err(Error::NoNamespace)),
            one("secret/odd", Ok(Response::SeeOther { location: "elsewhere".into() })),
        ]);
        let expected = r#"{"results":[{"path":"secret/\"a","data":{"v":1}},{"path":"secret/gone","data":{"v":null}},{"path":"secret/empty"},{"path":"secret/no","error":"namespace not found"},{"path":"secret/odd","error":"internal error"}]}"#;
        assert_eq!(String::from_utf8(told).unwrap(), expected);
        assert_eq!(each(&[]), br#"{"results":[]}"#);
    }

    #[test]
    fn what_a_token_that_is_handed_out_is_stands_in_the_record() {
        let text = r#"{"client_token":"hvs.a","accessor":"acc","display_name":"token-job","policies":["a","b",7],"token_policies":["a"],"identity_policies":["b"],"metadata":{"team":"x"},"entity_id":"e-1","token_type":"service","lease_duration":3600,"num_uses":5}"#;
        let parts =
            IssuedParts::read(&Logical { auth: text.into(), ..Logical::default() }).unwrap();
        assert_eq!(parts.accessor(), "acc");
        let told = parts.describe();
        assert_eq!(
            [told.client_token, told.accessor, told.display_name, told.entity_id, told.token_type],
            ["hvs.a", "acc", "token-job", "e-1", "service"]
        );
        assert_eq!((told.token_ttl_secs, told.num_uses), (3600, 5));
        assert_eq!(
            (told.policies, told.token_policies),
            (&["a", "b"].map(str::to_owned)[..], &["a".to_owned()][..])
        );
        assert_eq!(told.identity_policies, ["b"]);
        assert_eq!(told.metadata, br#"{"team":"x"}"#);
        let bare = Logical { auth: br#"{"metadata":null}"#.into(), ..Logical::default() };
        let bare = IssuedParts::read(&bare).unwrap();
        assert!(bare.describe().metadata.is_empty() && bare.accessor().is_empty());
        assert!(IssuedParts::read(&Logical::default()).is_none(), "it hands out none");
    }

    #[test]
    fn what_a_wrapping_token_that_is_handed_out_is_stands_in_the_record() {
        let text = r#"{"token":"hvs.w","accessor":"acc","ttl":60,"creation_time":"now","creation_path":"secret/data/a","wrapped_accessor":"inner"}"#;
        let parts =
            WrappedParts::read(&Logical { wrap_info: text.into(), ..Logical::default() }).unwrap();
        let told = parts.describe();
        assert_eq!(
            [
                told.token,
                told.accessor,
                told.creation_time,
                told.creation_path,
                told.wrapped_accessor
            ],
            ["hvs.w", "acc", "now", "secret/data/a", "inner"]
        );
        assert_eq!((told.ttl_secs, parts.accessor()), (60, "acc"));
    }
}
