//! What a record says, as an allow-list: a field that is not here is in no record.
//!
//! The core describes a request once ([`AuditSubject`]); every device writes it under its own salt. What
//! a request's two records have in common is written once per device ([`CommonFields`]) and used for both.
//! In the clear stand: paths, operations, mounts, policy and display names, the metadata of tokens,
//! addresses, times, numbers, the names of members, and the class of an error. Everything else that
//! is text is masked.

use std::ops::Range;

use jiff::Timestamp;

use crate::mask::{Elision, MalformedJson, Masker};
use crate::options::{RecordForm, RecordLayout};
use crate::subject::{
    AuditDecision, AuditMount, AuditRequest, AuditResponse, AuditSubject, AuditTouched, Auth,
    IssuedToken, RequestHeader, Wrapped,
};
use crate::text::{ObjectWriter, push_number, push_string, push_time, put_string};

/// The kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Request,
    Response,
    /// A request and its answer, at a device that writes everything once.
    Exchange,
}

impl RecordKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
            Self::Exchange => "exchange",
        }
    }
}

/// What both records of a request say, as one device writes it.
pub struct CommonFields {
    /// Who asks, and for what.
    whole: WholeFields,
    /// What a record of the answer says of that, where that is less.
    reference: Option<Vec<u8>>,
}

impl CommonFields {
    /// What a record of the request says, and one of both the request and its answer.
    pub const fn whole(&self) -> &WholeFields {
        &self.whole
    }

    /// What a record of this kind says.
    pub(crate) fn text_in(&self, kind: RecordKind) -> &[u8] {
        match (kind, &self.reference) {
            (RecordKind::Response, Some(reference)) => reference,
            _ => &self.whole.bytes,
        }
    }
}

/// Who asks, and for what, as one device writes it.
pub struct WholeFields {
    pub(crate) bytes: Vec<u8>,
    /// Where the id and the path of the request are in it, with their quotes; nowhere for none.
    places: RequestPlaces,
}

/// Where what two requests of a caller differ in stands in a text.
#[derive(Clone, Default)]
pub(crate) struct RequestPlaces {
    pub(crate) id: Range<usize>,
    pub(crate) path: Range<usize>,
}

impl WholeFields {
    /// Makes these what is said of another request, which differs from the first in its id and its path and in nothing else. False when that cannot
    /// be, and then nothing was done.
    pub fn rename(&mut self, id: &str, path: &str) -> bool {
        let RequestPlaces { id: id_at, path: path_at } = self.places.clone();
        if [id, path].contains(&"") || id_at.is_empty() || path_at.is_empty() {
            return false;
        }
        // The later first, so that the place of the other is right.
        let path_len = put_string(&mut self.bytes, path_at.clone(), path);
        let id_len = put_string(&mut self.bytes, id_at.clone(), id);
        let path_start = path_at.start - id_at.len() + id_len;
        self.places.id.end = id_at.start + id_len;
        self.places.path = path_start..path_start + path_len;
        true
    }
}

/// Who asks, as it stands twice in a record: each costs an HMAC.
pub(crate) struct Masks {
    pub(crate) token: Vec<u8>,
    pub(crate) accessor: Vec<u8>,
}

/// What the body of a record is made of, as it is there.
pub(crate) struct RecordBody<'b> {
    pub(crate) kind: RecordKind,
    pub(crate) now: Timestamp,
    /// What the device wrote of the request.
    pub(crate) common: &'b [u8],
    pub(crate) response: Option<&'b AuditResponse<'b>>,
    /// How the request failed; empty where it did not.
    pub(crate) error: &'b str,
}

/// Bytes of a usual record.
const RECORD_BYTES_USUAL: usize = 2048;

/// Writes records for one device.
pub(crate) struct RecordWriter<'d> {
    pub(crate) masker: &'d Masker,
    pub(crate) form: &'d RecordForm,
}

impl RecordWriter<'_> {
    /// What both records say.
    pub(crate) fn common(&self, subject: &AuditSubject<'_>) -> Result<CommonFields, MalformedJson> {
        let whole = self.whole(subject)?;
        let is_compact = self.form.layout == RecordLayout::Compact;
        Ok(CommonFields { whole, reference: is_compact.then(|| self.reference(subject)) })
    }

    /// What a record of the request says of it, or one of both.
    pub(crate) fn whole(&self, subject: &AuditSubject<'_>) -> Result<WholeFields, MalformedJson> {
        let who = Masks {
            token: self.mask_of_token(subject.request.client_token),
            accessor: self.mask_of_accessor(subject.auth.accessor),
        };
        let mut bytes = Vec::with_capacity(RECORD_BYTES_USUAL);
        let places = match self.form.layout {
            RecordLayout::Full => {
                bytes.extend_from_slice(b",\"auth\":");
                self.auth(&subject.auth, &who, &mut bytes);
                bytes.extend_from_slice(b",\"request\":");
                self.request(&subject.request, &who, &mut bytes)?
            }
            RecordLayout::Compact => self.compact_whole(subject, &who, &mut bytes)?,
        };
        Ok(WholeFields { bytes, places })
    }

    /// Appends the body of a record (see `chain`): everything but its links and its end. What fails leaves a part.
    pub(crate) fn body(
        &self,
        body: &RecordBody<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), MalformedJson> {
        let RecordBody { kind, now, common, response, error } = *body;
        let extra = response.map_or(0, |response| response.data.len() + 512);
        out.reserve(common.len() + extra + 256);
        out.extend_from_slice(self.form.prefix.as_bytes());
        out.extend_from_slice(b"{\"time\":\"");
        push_time(now, out);
        out.extend_from_slice(b"\",\"type\":\"");
        out.extend_from_slice(kind.name().as_bytes());
        out.push(b'"');
        out.extend_from_slice(common);
        if let Some(response) = response {
            out.extend_from_slice(b",\"response\":");
            self.response(response, out)?;
        }
        if !error.is_empty() {
            out.extend_from_slice(b",\"error\":");
            push_string(error, out);
        }
        Ok(())
    }

    /// An accessor as it stands in a record; nothing for none.
    fn mask_of_accessor(&self, accessor: &str) -> Vec<u8> {
        let mut out = Vec::new();
        match accessor {
            "" => {}
            accessor if self.form.masks_accessors => self.masker.push_again(accessor, &mut out),
            accessor => push_string(accessor, &mut out),
        }
        out
    }

    /// A token's text as it stands in a record; nothing for none.
    fn mask_of_token(&self, token: Option<&str>) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(token) = token.filter(|text| !text.is_empty()) {
            self.masker.push_again(token, &mut out);
        }
        out
    }

    fn accessor(&self, members: &mut ObjectWriter<'_>, name: &str, accessor: &str) {
        push_mask(members, name, &self.mask_of_accessor(accessor));
    }

    fn token(&self, members: &mut ObjectWriter<'_>, token: Option<&str>) {
        push_mask(members, "client_token", &self.mask_of_token(token));
    }

    fn auth(&self, auth: &Auth<'_>, who: &Masks, out: &mut Vec<u8>) {
        let mut members = ObjectWriter::open(out);
        // One that is live is the one that was shown.
        if auth.client_token.is_some() {
            push_mask(&mut members, "client_token", &who.token);
        }
        push_mask(&mut members, "accessor", &who.accessor);
        members.text("display_name", auth.display_name);
        members.texts("policies", auth.policies);
        members.texts("token_policies", auth.token_policies);
        members.texts("identity_policies", auth.identity_policies);
        if let Some(decision) = &auth.decision {
            push_decision(decision, members.name("policy_results"));
        }
        if !auth.metadata.is_empty() {
            members.name("metadata").extend_from_slice(auth.metadata);
        }
        members.number("remaining_uses", auth.remaining_uses);
        members.text("entity_id", auth.entity_id);
        members.text("token_type", auth.token_type);
        members.number("token_ttl", auth.token_ttl_secs);
        if let Some(issued) = auth.issued_at {
            let whole = Timestamp::from_second(issued.as_second()).unwrap_or(issued);
            let out = members.name("token_issue_time");
            out.push(b'"');
            push_time(whole, out);
            out.push(b'"');
        }
        members.close();
    }

    fn request(
        &self,
        request: &AuditRequest<'_>,
        who: &Masks,
        out: &mut Vec<u8>,
    ) -> Result<RequestPlaces, MalformedJson> {
        let mut members = ObjectWriter::open(out);
        let id = members.placed_text("id", request.id);
        members.text("client_id", request.client_id);
        members.text("operation", request.operation);
        push_mount(&mut members, &request.mount, "mount_running_version");
        push_mask(&mut members, "client_token", &who.token);
        push_mask(&mut members, "client_token_accessor", &who.accessor);
        let mut namespace = ObjectWriter::open(members.name("namespace"));
        namespace.text("id", request.namespace_id);
        namespace.text("path", request.namespace_path);
        namespace.close();
        let path = self.asked(request, &mut members)?;
        members.close();
        Ok(RequestPlaces { id, path })
    }

    /// Where, what with, from where and how. Returns the place of the path.
    pub(crate) fn asked(
        &self,
        request: &AuditRequest<'_>,
        members: &mut ObjectWriter<'_>,
    ) -> Result<Range<usize>, MalformedJson> {
        let path = members.placed_text("path", request.path);
        if !request.data.is_empty() {
            let place = members.name("data");
            self.masker.sent_json(request.data, request.exempt, place)?;
        }
        if let Some(remote) = request.remote {
            members.address("remote_address", remote.ip());
            members.number("remote_port", remote.port().into());
        }
        members.number("wrap_ttl", i64::try_from(request.wrap_ttl_secs).unwrap_or(i64::MAX));
        if request.is_stale_read {
            members.text("consistency", "stale");
        }
        if !request.headers.is_empty() {
            self.headers(request.headers, members.name("headers"));
        }
        Ok(path)
    }

    pub(crate) fn headers(&self, headers: &[RequestHeader], out: &mut Vec<u8>) {
        out.push(b'{');
        for (at, header) in headers.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            push_string(&header.name, out);
            out.extend_from_slice(b":[");
            for (at, value) in header.values.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                if header.masked { self.masker.push(value, out) } else { push_string(value, out) }
            }
            out.push(b']');
        }
        out.push(b'}');
    }

    fn response(
        &self,
        response: &AuditResponse<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), MalformedJson> {
        let mut members = ObjectWriter::open(out);
        if let Some(auth) = &response.auth {
            self.issued(auth, members.name("auth"));
        }
        if self.form.layout == RecordLayout::Full {
            push_mount(&mut members, &response.mount, "mount_running_plugin_version");
        }
        if !response.lease_id.is_empty() {
            let mut secret = ObjectWriter::open(members.name("secret"));
            secret.text("lease_id", response.lease_id);
            secret.close();
        }
        if let Some(error) = response.error {
            let mut data = ObjectWriter::open(members.name("data"));
            self.masker.push(error, data.name("error"));
            data.close();
        } else if !response.data.is_empty() && response.data != b"null" {
            let elision = match self.form.layout {
                _ if response.is_listing && self.form.elides_listings => Elision::ListedNames,
                // Whoever names what stays in the clear wants to see it.
                RecordLayout::Compact if response.is_version && response.exempt.is_empty() => {
                    Elision::VersionMetadata
                }
                _ => Elision::Nothing,
            };
            // Those of tokens, as look-ups tell them: what a secret calls so is a secret.
            let tells = !self.form.masks_accessors && response.mount.class == "auth";
            let accessor: &[&str] = if tells { &["accessor"] } else { &[] };
            let exempt = [response.exempt, accessor].concat();
            self.masker.json(response.data, &exempt, elision, members.name("data"))?;
        }
        members.texts("warnings", response.warnings);
        if let Some(wrapped) = &response.wrapped {
            self.wrapped(wrapped, members.name("wrap_info"));
        }
        if !response.touched.is_empty() {
            push_touched(&response.touched, members.name("touched"));
        }
        members.close();
        Ok(())
    }

    fn issued(&self, auth: &IssuedToken<'_>, out: &mut Vec<u8>) {
        let mut members = ObjectWriter::open(out);
        self.token(&mut members, Some(auth.client_token));
        self.accessor(&mut members, "accessor", auth.accessor);
        members.text("display_name", auth.display_name);
        members.texts("policies", auth.policies);
        members.texts("token_policies", auth.token_policies);
        members.texts("identity_policies", auth.identity_policies);
        if !auth.metadata.is_empty() {
            members.name("metadata").extend_from_slice(auth.metadata);
        }
        members.number("num_uses", auth.num_uses);
        members.text("entity_id", auth.entity_id);
        members.text("token_type", auth.token_type);
        members.number("token_ttl", auth.token_ttl_secs);
        members.close();
    }

    fn wrapped(&self, wrapped: &Wrapped<'_>, out: &mut Vec<u8>) {
        let mut members = ObjectWriter::open(out);
        push_number(i64::try_from(wrapped.ttl_secs).unwrap_or(i64::MAX), members.name("ttl"));
        self.masker.push(wrapped.token, members.name("token"));
        self.accessor(&mut members, "accessor", wrapped.accessor);
        members.text("creation_time", wrapped.creation_time);
        members.text("creation_path", wrapped.creation_path);
        self.accessor(&mut members, "wrapped_accessor", wrapped.wrapped_accessor);
        members.close();
    }
}

/// Adds what stands in place of a value, unless it is nothing.
pub(crate) fn push_mask(members: &mut ObjectWriter<'_>, name: &str, mask: &[u8]) {
    if !mask.is_empty() {
        members.name(name).extend_from_slice(mask);
    }
}

fn push_mount(members: &mut ObjectWriter<'_>, mount: &AuditMount<'_>, version: &str) {
    members.text("mount_point", mount.point);
    members.text("mount_type", mount.kind);
    members.text("mount_accessor", mount.accessor);
    members.text(version, mount.version);
    members.text("mount_class", mount.class);
}

fn push_touched(touched: &[AuditTouched<'_>], out: &mut Vec<u8>) {
    out.push(b'[');
    for (at, touched) in touched.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let mut one = ObjectWriter::open(out);
        one.text("operation", touched.operation);
        one.text("path", touched.path);
        one.close();
    }
    out.push(b']');
}

fn push_decision(decision: &AuditDecision<'_>, out: &mut Vec<u8>) {
    let mut members = ObjectWriter::open(out);
    members.name("allowed").extend_from_slice(if decision.allowed { b"true" } else { b"false" });
    if !decision.granted_by.is_empty() {
        let out = members.name("granting_policies");
        out.push(b'[');
        for (at, name) in decision.granted_by.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            let mut policy = ObjectWriter::open(out);
            policy.text("name", name);
            policy.text("namespace_id", decision.namespace_id);
            policy.text("namespace_path", decision.namespace_path);
            policy.text("type", "acl");
            policy.close();
        }
        out.push(b']');
    }
    members.close();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::{SALT_BYTES, Secrecy};

    fn form() -> RecordForm {
        RecordForm {
            layout: RecordLayout::Full,
            prefix: String::new(),
            masks_accessors: true,
            elides_listings: false,
        }
    }

    fn subject() -> AuditSubject<'static> {
        AuditSubject {
            auth: Auth { client_token: Some("tok"), accessor: "acc", ..Auth::default() },
            request: AuditRequest {
                id: "i",
                operation: "read",
                client_token: Some("tok"),
                namespace_id: "root",
                path: "a/b",
                data: br#"{"v":"x"}"#,
                ..AuditRequest::default()
            },
        }
    }

    fn text(form: &RecordForm, response: &AuditResponse<'_>, error: &str) -> String {
        let masker = Masker::new(&[1; SALT_BYTES], Secrecy::Masked);
        let writer = RecordWriter { masker: &masker, form };
        let common = writer.common(&subject()).unwrap();
        let now = Timestamp::UNIX_EPOCH;
        let mut body = Vec::new();
        let (kind, response) = (RecordKind::Response, Some(response));
        let common = common.text_in(kind);
        writer.body(&RecordBody { kind, now, common, response, error }, &mut body).unwrap();
        let mut text = String::from_utf8(body).unwrap() + "}";
        for value in ["tok", "acc", "x", "y", "k"] {
            text = text.replace(&masker.hash(value), &format!("#{value}"));
        }
        text
    }

    #[test]
    fn a_record_has_its_fields_in_the_order_of_the_contract() {
        let response = AuditResponse { data: br#"{"keys":["y"]}"#, ..AuditResponse::default() };
        assert_eq!(
            text(&form(), &response, "e"),
            r##"{"time":"1970-01-01T00:00:00Z","type":"response","auth":{"client_token":"#tok","accessor":"#acc"},"request":{"id":"i","operation":"read","client_token":"#tok","client_token_accessor":"#acc","namespace":{"id":"root"},"path":"a/b","data":{"v":"#x"}},"response":{"data":{"keys":["#y"]}},"error":"e"}"##
        );
    }

    #[test]
    fn what_else_was_touched_stands_in_the_clear() {
        let touched = vec![AuditTouched { operation: "delete", path: "secret/data/y" }];
        let response = AuditResponse { touched, ..AuditResponse::default() };
        let text = text(&form(), &response, "");
        let expected = r#""response":{"touched":[{"operation":"delete","path":"secret/data/y"}]}"#;
        assert!(text.contains(expected), "{text}");
    }

    /// What there may be several of is a list that any reader of JSON takes, of none, one or more.
    #[test]
    fn lists_of_a_record_hold_any_number() {
        let masker = Masker::new(&[1; SALT_BYTES], Secrecy::Masked);
        let form = form();
        let writer = RecordWriter { masker: &masker, form: &form };
        let names = |count: usize| (0..count).map(|at| format!("n{at}")).collect::<Vec<_>>();
        for count in 0..4 {
            let header = |name| RequestHeader { name, values: names(count), masked: false };
            let headers: Vec<_> = names(count).into_iter().map(header).collect();
            let decision = AuditDecision {
                allowed: true,
                granted_by: names(count),
                namespace_id: "root",
                namespace_path: "",
            };
            let mut asked = subject();
            (asked.request.headers, asked.auth.decision) = (&headers, Some(decision));
            let paths = names(count);
            let touched = paths.iter().map(|path| AuditTouched { operation: "delete", path });
            let response = AuditResponse { touched: touched.collect(), ..AuditResponse::default() };
            let common = writer.common(&asked).unwrap();
            let (now, mut body) = (Timestamp::UNIX_EPOCH, Vec::new());
            let (kind, response) = (RecordKind::Response, Some(&response));
            let common = common.text_in(kind);
            let parts = RecordBody { kind, now, common, response, error: "" };
            writer.body(&parts, &mut body).unwrap();
            body.push(b'}');
            let record: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let length = |pointer: &str| match record.pointer(pointer) {
                Some(serde_json::Value::Array(list)) => list.len(),
                Some(serde_json::Value::Object(members)) => members.len(),
                _ => 0,
            };
            assert_eq!(length("/request/headers"), count);
            assert!((0..count).all(|at| length(&format!("/request/headers/n{at}")) == count));
            assert_eq!(length("/response/touched"), count);
            assert_eq!(length("/auth/policy_results/granting_policies"), count);
        }
    }

    #[test]
    fn names_are_counted_where_a_listing_answers_a_device_that_elides_it() {
        for (is_listing, elides_listings) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let form = RecordForm { elides_listings, ..form() };
            let data = br#"{"keys":["y"]}"#;
            let response = AuditResponse { data, is_listing, ..AuditResponse::default() };
            let counted = text(&form, &response, "").contains(r#""keys":1"#);
            assert_eq!(counted, is_listing && elides_listings);
        }
    }

    #[test]
    fn an_answer_without_data_shows_none() {
        for (data, shown) in [(&b""[..], false), (b"null", false), (b"{}", true), (b"1", true)] {
            let response = AuditResponse { data, ..AuditResponse::default() };
            let text = text(&form(), &response, "");
            let answer = text.split_once("\"response\":").map_or("", |(_, answer)| answer);
            assert_eq!(answer.contains("\"data\":"), shown, "{text}");
        }
    }

    #[test]
    fn a_lease_is_told_by_its_id() {
        let response =
            AuditResponse { lease_id: "db/creds/r/x", data: b"{}", ..AuditResponse::default() };
        let text = text(&form(), &response, "");
        let expected = r#""response":{"secret":{"lease_id":"db/creds/r/x"},"data":{}}"#;
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn the_options_of_a_device_form_its_records() {
        let of = |class| AuditResponse {
            mount: AuditMount { class, ..AuditMount::default() },
            data: br#"{"keys":["y"],"accessor":"k"}"#,
            is_listing: true,
            exempt: &["z"],
            ..AuditResponse::default()
        };
        let form = RecordForm {
            layout: RecordLayout::Full,
            prefix: "@cee: ".to_owned(),
            masks_accessors: false,
            elides_listings: true,
        };
        let looked_up = text(&form, &of("auth"), "");
        assert!(looked_up.starts_with("@cee: {\"time\""), "{looked_up}");
        for kind in [RecordKind::Request, RecordKind::Response, RecordKind::Exchange] {
            let line = format!(r#"{{"time":"1970-01-01T00:00:00Z","type":"{}""#, kind.name());
            assert!(crate::chain::begins_a_record(line.as_bytes(), ""), "{line}");
        }
        assert!(crate::chain::begins_a_record(looked_up.as_bytes(), "@cee: "), "{looked_up}");
        assert!(looked_up.contains(r#""data":{"keys":1,"accessor":"k"}"#), "{looked_up}");
        assert!(looked_up.contains(r#""accessor":"acc""#), "{looked_up}");
        // What a secret calls so is no token's accessor.
        let secret = text(&form, &of("secret"), "");
        assert!(secret.contains(r##""data":{"keys":1,"accessor":"#k"}"##), "{secret}");
    }
}
