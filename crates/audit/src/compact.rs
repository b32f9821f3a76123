//! What a record says at a device of `format=compact`: everything once, and nothing that its ids lead to.
//!
//! Names and their places are those of the full layout, so that who reads one reads the other. A token is told by its masks, an
//! entity and a mount by their ids; policies, metadata and lifetimes are what these had. A version of a secret is told by its number, and what it
//! holds by its masks; times, deletion and custom metadata are what that version has. A request and its answer that are
//! written at once are one record, `exchange`. Otherwise the record of the answer names its request by the id,
//! and says besides what a search asks of both at once: who, in which namespace, at which path, from which address and with which intent.
//!
//! Invariant: what is masked in the full layout is masked here, by the same functions.

use crate::mask::MalformedJson;
use crate::record::{Masks, RecordWriter, RequestPlaces, push_mask};
use crate::subject::{AuditRequest, AuditSubject, Auth, INTENT_HEADER};
use crate::text::ObjectWriter;

/// The namespace that goes without saying.
const ROOT_NAMESPACE: &str = "root";

impl RecordWriter<'_> {
    /// What the records of a request say of it.
    pub(crate) fn compact_whole(
        &self,
        subject: &AuditSubject<'_>,
        who: &Masks,
        out: &mut Vec<u8>,
    ) -> Result<RequestPlaces, MalformedJson> {
        let AuditSubject { auth, request } = subject;
        out.extend_from_slice(b",\"auth\":");
        compact_auth(auth, who, out);
        out.extend_from_slice(b",\"request\":");
        let is_live = auth.client_token.is_some();
        self.compact_request(request, (!is_live).then_some(&who.token), out)
    }

    /// `unknown` is the mask of a token that was shown and is not live.
    fn compact_request(
        &self,
        request: &AuditRequest<'_>,
        unknown: Option<&Vec<u8>>,
        out: &mut Vec<u8>,
    ) -> Result<RequestPlaces, MalformedJson> {
        let mut members = ObjectWriter::open(out);
        let id = members.placed_text("id", request.id);
        members.text("operation", request.operation);
        members.text("mount_accessor", request.mount.accessor);
        if let Some(mask) = unknown {
            push_mask(&mut members, "client_token", mask);
        }
        push_namespace(request, &mut members);
        let path = self.asked(request, &mut members)?;
        members.close();
        Ok(RequestPlaces { id, path })
    }

    /// What a record of the answer says: the request's id, and enough to be found by who looks for a path, a person, an address or an intent.
    pub(crate) fn reference(&self, subject: &AuditSubject<'_>) -> Vec<u8> {
        let AuditSubject { auth, request } = subject;
        let mut out = b",\"auth\":".to_vec();
        let mut members = ObjectWriter::open(&mut out);
        members.text("display_name", auth.display_name);
        members.text("entity_id", auth.entity_id);
        members.close();
        out.extend_from_slice(b",\"request\":");
        let mut members = ObjectWriter::open(&mut out);
        members.text("id", request.id);
        members.text("operation", request.operation);
        push_namespace(request, &mut members);
        members.text("path", request.path);
        if let Some(remote) = request.remote {
            members.address("remote_address", remote.ip());
        }
        if let Some(intent) = request.headers.iter().find(|header| header.name == INTENT_HEADER) {
            self.headers(std::slice::from_ref(intent), members.name("headers"));
        }
        members.close();
        out
    }
}

/// Which namespace a path is in; nothing of the root one.
fn push_namespace(request: &AuditRequest<'_>, members: &mut ObjectWriter<'_>) {
    if request.namespace_id == ROOT_NAMESPACE {
        return;
    }
    let mut namespace = ObjectWriter::open(members.name("namespace"));
    namespace.text("id", request.namespace_id);
    namespace.text("path", request.namespace_path);
    namespace.close();
}

fn compact_auth(auth: &Auth<'_>, who: &Masks, out: &mut Vec<u8>) {
    let mut members = ObjectWriter::open(out);
    if auth.client_token.is_some() {
        push_mask(&mut members, "client_token", &who.token);
    }
    push_mask(&mut members, "accessor", &who.accessor);
    members.text("display_name", auth.display_name);
    members.number("remaining_uses", auth.remaining_uses);
    members.text("entity_id", auth.entity_id);
    members.close();
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use crate::mask::{Masker, SALT_BYTES, Secrecy};
    use crate::options::{RecordForm, RecordLayout};
    use crate::record::{RecordBody, RecordKind, RecordWriter};
    use crate::subject::{
        AuditDecision, AuditMount, AuditRequest, AuditResponse, AuditSubject, Auth, INTENT_HEADER,
        IssuedToken, RequestHeader,
    };

    const MOUNT: AuditMount<'_> = AuditMount {
        point: "secret/",
        kind: "kv",
        accessor: "kv_1",
        version: "v1",
        class: "secret",
    };

    fn subject(is_live: bool) -> AuditSubject<'static> {
        AuditSubject {
            auth: Auth {
                client_token: is_live.then_some("tok"),
                accessor: if is_live { "acc" } else { "" },
                display_name: "token",
                decision: Some(AuditDecision {
                    allowed: true,
                    granted_by: vec!["p".into()],
                    namespace_id: "root",
                    namespace_path: "",
                }),
                entity_id: "e-1",
                token_type: "service",
                token_ttl_secs: 60,
                ..Auth::default()
            },
            request: AuditRequest {
                id: "i",
                operation: "read",
                mount: MOUNT,
                client_token: Some("tok"),
                namespace_id: "root",
                path: "secret/data/b",
                data: br#"{"v":"x"}"#,
                ..AuditRequest::default()
            },
        }
    }

    fn text(
        kind: RecordKind,
        subject: &AuditSubject<'_>,
        response: Option<&AuditResponse<'_>>,
        error: &str,
    ) -> String {
        let masker = Masker::new(&[1; SALT_BYTES], Secrecy::Masked);
        let form = RecordForm {
            layout: RecordLayout::Compact,
            prefix: String::new(),
            masks_accessors: true,
            elides_listings: false,
        };
        let writer = RecordWriter { masker: &masker, form: &form };
        let common = writer.common(subject).unwrap();
        let common = common.text_in(kind);
        let mut body = Vec::new();
        let now = Timestamp::UNIX_EPOCH;
        writer.body(&RecordBody { kind, now, common, response, error }, &mut body).unwrap();
        let mut text = String::from_utf8(body).unwrap() + "}";
        for value in ["tok", "acc", "x", "y", "new"] {
            text = text.replace(&masker.hash(value), &format!("#{value}"));
        }
        text
    }

    #[test]
    fn a_read_is_one_record_with_everything_once() {
        let response =
            AuditResponse { mount: MOUNT, data: br#"{"v":"y"}"#, ..AuditResponse::default() };
        assert_eq!(
            text(RecordKind::Exchange, &subject(true), Some(&response), ""),
            r##"{"time":"1970-01-01T00:00:00Z","type":"exchange","auth":{"client_token":"#tok","accessor":"#acc","display_name":"token","entity_id":"e-1"},"request":{"id":"i","operation":"read","mount_accessor":"kv_1","path":"secret/data/b","data":{"v":"#x"}},"response":{"data":{"v":"#y"}}}"##
        );
    }

    #[test]
    fn a_version_is_told_by_its_number_unless_something_of_it_is_to_be_seen() {
        let data = br#"{"data":{"v":"y"},"metadata":{"created_time":"x","version":4}}"#;
        let response = AuditResponse { is_version: true, data, ..AuditResponse::default() };
        let record = text(RecordKind::Exchange, &subject(true), Some(&response), "");
        let told = r##""response":{"data":{"data":{"v":"#y"},"metadata":{"version":4}}}}"##;
        assert!(record.ends_with(told), "{record}");
        let whole = r##""metadata":{"created_time":"#x","version":4}"##;
        let other = AuditResponse { data, ..AuditResponse::default() };
        let record = text(RecordKind::Exchange, &subject(true), Some(&other), "");
        assert!(record.contains(whole), "{record}");
        let named = AuditResponse { exempt: &["created_time"], ..response };
        let record = text(RecordKind::Exchange, &subject(true), Some(&named), "");
        assert!(record.contains(r#""metadata":{"created_time":"x","version":4}"#), "{record}");
    }

    #[test]
    fn the_answer_of_a_write_names_its_request_by_id() {
        let request = text(RecordKind::Request, &subject(true), None, "");
        assert!(request.contains(r##""request":{"id":"i","##), "{request}");
        let auth =
            IssuedToken { client_token: "new", policies: &["p".into()], ..IssuedToken::default() };
        let response = AuditResponse { mount: MOUNT, auth: Some(auth), ..AuditResponse::default() };
        assert_eq!(
            text(RecordKind::Response, &subject(true), Some(&response), "e"),
            r##"{"time":"1970-01-01T00:00:00Z","type":"response","auth":{"display_name":"token","entity_id":"e-1"},"request":{"id":"i","operation":"read","path":"secret/data/b"},"response":{"auth":{"client_token":"#new","policies":["p"]}},"error":"e"}"##
        );
    }

    #[test]
    fn what_a_search_asks_of_both_records_is_in_both() {
        let headers = ["user-agent", INTENT_HEADER].map(|name| RequestHeader {
            name: name.to_owned(),
            values: vec!["reveal".to_owned()],
            masked: false,
        });
        let mut subject = subject(true);
        (subject.request.namespace_id, subject.request.namespace_path) = ("n1", "team/");
        subject.request.remote = Some("192.0.2.7:4711".parse().unwrap());
        subject.request.headers = &headers;
        let response = AuditResponse { mount: MOUNT, ..AuditResponse::default() };
        let answer = text(RecordKind::Response, &subject, Some(&response), "");
        assert!(answer.contains(
            r#""request":{"id":"i","operation":"read","namespace":{"id":"n1","path":"team/"},"path":"secret/data/b","remote_address":"192.0.2.7","headers":{"x-kallisto-intent":["reveal"]}}"#
        ), "{answer}");
    }

    #[test]
    fn what_is_said_of_another_request_of_a_caller_is_as_if_it_was_described() {
        let masker = Masker::new(&[1; SALT_BYTES], Secrecy::Masked);
        for layout in [RecordLayout::Full, RecordLayout::Compact] {
            let form = RecordForm {
                layout,
                prefix: String::new(),
                masks_accessors: true,
                elides_listings: false,
            };
            let writer = RecordWriter { masker: &masker, form: &form };
            let of = |id, path| {
                let mut subject = subject(true);
                (subject.request.id, subject.request.path) = (id, path);
                subject.request.remote = Some("192.0.2.7:4711".parse().unwrap());
                writer.whole(&subject).unwrap()
            };
            let others = [
                ("i", "a/b"),
                ("j", "a/c"),
                ("k", "a/longer"),
                ("another", "a"),
                ("i", "\"quoted\\\n"),
                ("l", "a/b"),
                ("", "a/b"),
                ("m", ""),
                ("n", "a/\u{e9}"),
            ];
            let mut renamed = of("i", "a/b");
            for (id, path) in others {
                let before = renamed.bytes.clone();
                if renamed.rename(id, path) {
                    assert_eq!(renamed.bytes, of(id, path).bytes, "{layout:?} {id} {path}");
                } else {
                    assert!(id.is_empty() || path.is_empty());
                    assert_eq!(renamed.bytes, before);
                }
            }
            assert!(!of("", "a/b").rename("i", "a/b") && !of("i", "").rename("i", "a/b"));
        }
    }

    #[test]
    fn a_token_that_is_not_live_and_another_namespace_are_told() {
        let mut subject = subject(false);
        (subject.request.namespace_id, subject.request.namespace_path) = ("n1", "team/");
        let text = text(RecordKind::Request, &subject, None, "permission denied");
        assert!(text.contains(r##""client_token":"#tok","namespace":{"id":"n1","path":"team/"}"##));
        assert!(text.contains(r##""auth":{"display_name":"token","entity_id":"e-1"}"##), "{text}");
        assert!(text.ends_with(r#","error":"permission denied"}"#), "{text}");
    }
}
