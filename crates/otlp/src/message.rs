//! Spans in the messages of OTLP: `opentelemetry/proto/{trace,common,resource}/v1` and the call of the trace service, as far as they are used
//! here. Numbers of fields and values of enums are those of the published definitions, version 1.

use prost::Message;

use kallisto_traces::{AttributeValue, FinishedSpan, SpanKind, SpanStatus};

/// `ExportTraceServiceRequest`: what is sent.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExportRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_spans: Vec<ResourceSpans>,
}

/// `ExportTraceServiceResponse`: what is answered.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) partial_success: Option<PartialSuccess>,
}

/// `ExportTracePartialSuccess`: spans that the collector did not take.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    pub(crate) rejected_spans: i64,
}

/// `ResourceSpans`: the spans of one server.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_spans: Vec<ScopeSpans>,
}

/// `Resource`: the server.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(crate) attributes: Vec<OtlpAttribute>,
}

/// `ScopeSpans`: the spans of one library.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) spans: Vec<OtlpSpan>,
}

/// `InstrumentationScope`: what records.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct InstrumentationScope {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
}

/// `Span`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct OtlpSpan {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    pub(crate) trace_state: String,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(crate) name: String,
    #[prost(int32, tag = "6")]
    pub(crate) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(crate) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub(crate) end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub(crate) attributes: Vec<OtlpAttribute>,
    #[prost(message, optional, tag = "15")]
    pub(crate) status: Option<OtlpStatus>,
    #[prost(fixed32, tag = "16")]
    pub(crate) flags: u32,
}

/// `Status`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct OtlpStatus {
    #[prost(string, tag = "2")]
    pub(crate) message: String,
    #[prost(int32, tag = "3")]
    pub(crate) code: i32,
}

/// `KeyValue`: an attribute.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct OtlpAttribute {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AnyValue>,
}

/// `AnyValue`, as far as attributes are any here.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AnyValue {
    #[prost(oneof = "OtlpValue", tags = "1, 2, 3")]
    pub(crate) value: Option<OtlpValue>,
}

/// What an attribute is.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum OtlpValue {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Truth(bool),
    #[prost(int64, tag = "3")]
    Whole(i64),
}

/// `SpanKind`.
const KIND_INTERNAL: i32 = 1;
const KIND_SERVER: i32 = 2;
const KIND_CLIENT: i32 = 3;
/// `STATUS_CODE_ERROR`.
const STATUS_ERROR: i32 = 2;
/// `SpanFlags`: the flags of the trace, that it is known whether the parent is remote, and whether it is.
const FLAG_SAMPLED: u32 = 0x001;
const FLAG_RANDOM: u32 = 0x002;
const FLAG_KNOWS_REMOTE: u32 = 0x100;
const FLAG_REMOTE: u32 = 0x200;

/// What a batch is sent as.
pub(crate) fn request(resource: &[(String, String)], batch: &[FinishedSpan]) -> Vec<u8> {
    let of_server = |(name, value): &(String, String)| OtlpAttribute {
        key: name.clone(),
        value: Some(AnyValue { value: Some(OtlpValue::Text(value.clone())) }),
    };
    let scope = InstrumentationScope {
        name: "kallisto".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let spans = batch.iter().map(OtlpSpan::from).collect();
    let request = ExportRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource { attributes: resource.iter().map(of_server).collect() }),
            scope_spans: vec![ScopeSpans { scope: Some(scope), spans }],
        }],
    };
    request.encode_to_vec()
}

/// How many spans of a batch the collector says that it did not take; none where its answer cannot be read.
pub(crate) fn rejected(answer: &[u8]) -> u64 {
    let answer = ExportResponse::decode(answer).unwrap_or_default();
    let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
    u64::try_from(rejected).unwrap_or(0)
}

impl From<&FinishedSpan> for OtlpSpan {
    fn from(span: &FinishedSpan) -> Self {
        let context = &span.context;
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        Self {
            trace_id: context.trace_id.to_vec(),
            span_id: context.span_id.to_vec(),
            trace_state: context.state.as_deref().unwrap_or_default().to_owned(),
            parent_span_id: span.parent.map_or_else(Vec::new, |parent| parent.to_vec()),
            name: span.name.clone().into_owned(),
            kind: match span.kind {
                SpanKind::Internal => KIND_INTERNAL,
                SpanKind::Server => KIND_SERVER,
                SpanKind::Client => KIND_CLIENT,
            },
            start_time_unix_nano: span.start_nanos,
            end_time_unix_nano: span.end_nanos,
            attributes: span.attributes.iter().map(attribute).collect(),
            status: match &span.status {
                SpanStatus::Unset => None,
                SpanStatus::Failed(why) => {
                    Some(OtlpStatus { message: (*why).to_owned(), code: STATUS_ERROR })
                }
            },
            flags: FLAG_KNOWS_REMOTE
                | flag(context.is_sampled, FLAG_SAMPLED)
                | flag(context.is_random, FLAG_RANDOM)
                | flag(span.has_remote_parent, FLAG_REMOTE),
        }
    }
}

fn attribute((name, value): &(&'static str, AttributeValue)) -> OtlpAttribute {
    let value = match value {
        AttributeValue::Text(text) => OtlpValue::Text(text.clone().into_owned()),
        AttributeValue::Whole(number) => OtlpValue::Whole(*number),
        AttributeValue::Truth(truth) => OtlpValue::Truth(*truth),
    };
    OtlpAttribute { key: (*name).to_owned(), value: Some(AnyValue { value: Some(value) }) }
}

#[cfg(test)]
mod tests {
    use kallisto_traces::TraceContext;

    use super::*;

    fn span() -> FinishedSpan {
        FinishedSpan {
            context: TraceContext {
                trace_id: [1; 16],
                span_id: [2; 8],
                is_sampled: true,
                is_random: false,
                state: Some("a=b".into()),
            },
            parent: Some([3; 8]),
            has_remote_parent: true,
            name: "n".into(),
            kind: SpanKind::Server,
            start_nanos: 1,
            end_nanos: 2,
            attributes: vec![("w", 7_i64.into()), ("t", true.into()), ("s", "v".into())],
            status: SpanStatus::Failed("e"),
        }
    }

    #[test]
    fn a_span_has_the_bytes_of_the_published_definition() {
        // Put together by hand from trace.proto: a tag is the field's number times 8, and 0 for a varint, 1 for 64 bits, 2 for bytes, 5
        // for 32 bits.
        let mut expected = vec![0x0a, 16];
        expected.extend([1; 16]);
        expected.extend([0x12, 8]);
        expected.extend([2; 8]);
        expected.extend(b"\x1a\x03a=b\x22\x08");
        expected.extend([3; 8]);
        expected.extend(b"\x2a\x01n\x30\x02\x39\x01\0\0\0\0\0\0\0\x41\x02\0\0\0\0\0\0\0");
        expected.extend(b"\x4a\x07\x0a\x01w\x12\x02\x18\x07");
        expected.extend(b"\x4a\x07\x0a\x01t\x12\x02\x10\x01");
        expected.extend(b"\x4a\x08\x0a\x01s\x12\x03\x0a\x01v");
        expected.extend(b"\x7a\x05\x12\x01e\x18\x02");
        expected.extend(b"\x85\x01\x01\x03\0\0");
        assert_eq!(OtlpSpan::from(&span()).encode_to_vec(), expected);
    }

    #[test]
    fn a_batch_can_be_read_again_and_an_answer_told_from_none() {
        let resource = [("service.name".to_owned(), "kallisto".to_owned())];
        let bytes = request(&resource, &[span(), span()]);
        let read = ExportRequest::decode(&bytes[..]).unwrap();
        let of_server = &read.resource_spans[0];
        assert_eq!(of_server.resource.as_ref().unwrap().attributes[0].key, "service.name");
        assert_eq!(of_server.scope_spans[0].spans, [OtlpSpan::from(&span()), (&span()).into()]);
        assert_eq!(rejected(b""), 0);
        assert_eq!(rejected(b"no message"), 0);
        assert_eq!(rejected(b"\x0a\x02\x08\x05"), 5);
        let minus_one = PartialSuccess { rejected_spans: -1 };
        let answer = ExportResponse { partial_success: Some(minus_one) };
        assert_eq!(rejected(&answer.encode_to_vec()), 0);
    }
}
