//! Where spans are sent, by the file and by the variables of OpenTelemetry.

use kallisto_otlp::{CollectorEndpoint, OtlpProtocol};
use kallisto_traces::{RootSampling, Sampling};

use super::*;

fn tracing(text: &str, variables: &[(&str, &str)]) -> Option<TracingConfig> {
    let loaded = read_with(&format!("{MINIMUM}{text}"), variables);
    let loaded = loaded.unwrap_or_else(|error| panic!("{error} in {text}"));
    assert_eq!(loaded.warnings, [""; 0], "{text}");
    loaded.config.tracing
}

fn endpoint(url: Option<&str>, protocol: OtlpProtocol) -> CollectorEndpoint {
    CollectorEndpoint::parse(url, protocol).unwrap()
}

#[test]
fn traces_are_off_until_a_stanza_or_an_endpoint_says_so() {
    assert!(tracing("", &[]).is_none());
    assert!(tracing("", &[("OTEL_SERVICE_NAME", "a"), ("OTEL_TRACES_SAMPLER", "b")]).is_none());
    let usual = tracing("tracing \"otlp\" {}", &[]).unwrap();
    assert_eq!(usual.endpoint, endpoint(None, OtlpProtocol::Http));
    assert_eq!(usual.sampling, Sampling { follows_parent: true, root: RootSampling::All });
    assert_eq!(usual.resource, [("service.name".to_owned(), "kallisto".to_owned())]);
    let grpc = tracing("tracing \"otlp\" { protocol = \"grpc\" }", &[]).unwrap();
    assert_eq!(grpc.endpoint, endpoint(None, OtlpProtocol::Grpc));
    let by_variable = tracing("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1")]).unwrap();
    assert_eq!(by_variable.endpoint, endpoint(Some("http://c:1"), OtlpProtocol::Http));
    let disabled = ("OTEL_SDK_DISABLED", "true");
    assert!(tracing("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1"), disabled]).is_none());
    assert!(tracing("tracing \"otlp\" {}", &[disabled]).is_none());
}

#[test]
fn no_word_but_true_turns_traces_off() {
    let stanza = format!("{MINIMUM}tracing \"otlp\" {{}}");
    for (word, is_on, is_told) in [
        ("true", false, false),
        ("TRUE", false, false),
        ("false", true, false),
        ("False", true, false),
        ("", true, false),
        ("1", true, true),
        ("t", true, true),
        ("maybe", true, true),
        (" true", true, true),
    ] {
        let loaded = read_with(&stanza, &[("OTEL_SDK_DISABLED", word)]).unwrap();
        assert_eq!(loaded.config.tracing.is_some(), is_on, "{word}");
        let told = ["OTEL_SDK_DISABLED has no effect: expected true or false"];
        assert_eq!(loaded.warnings, &told[..usize::from(is_told)], "{word}");
    }
    // What is turned off keeps no server from starting; a file is what it says all the same.
    let bad = [
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/key.pem"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a"),
        ("OTEL_TRACES_SAMPLER", "most"),
        ("OTEL_TRACES_SAMPLER_ARG", "2"),
    ];
    for text in ["", "tracing \"otlp\" {}"] {
        assert!(tracing(text, &bad).is_none(), "{text}");
    }
    let wrong = format!("{MINIMUM}tracing \"otlp\" {{ sampling_ratio = 2 }}");
    assert!(read_with(&wrong, &bad[..1]).is_err());
}

#[test]
fn a_client_certificate_and_its_key_are_given_together_wherever_they_are() {
    let url = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c:1");
    let cert = ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/cert.pem");
    let key = ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/key.pem");
    let pair = Some((Path::new("/cert.pem").to_owned(), Path::new("/key.pem").to_owned()));
    assert_eq!(tracing("", &[url, cert, key]).unwrap().client_identity, pair);
    let half = "tracing \"otlp\" { tls_client_cert = \"/cert.pem\" }";
    assert_eq!(tracing(half, &[url, key]).unwrap().client_identity, pair);
    for (text, variables) in
        [("", &[url, cert][..]), ("", &[url, key]), (half, &[url]), ("tracing \"otlp\" {}", &[key])]
    {
        let refused = read_with(&format!("{MINIMUM}{text}"), variables).unwrap_err();
        for name in ["tls_client_cert", "tls_client_key", cert.0, key.0] {
            assert!(refused.contains(name), "{name}: {refused}");
        }
        assert!(refused.contains("must be given together"), "{refused}");
    }
}

#[test]
fn variables_win_over_the_stanza_and_add_to_its_lists() {
    let stanza = r#"tracing "otlp" {
  endpoint       = "http://file:1"
  protocol       = "http/protobuf"
  service_name   = "file"
  sampling_ratio = 0.5
  headers {
    x-key  = "of the file"
    x-kept = "kept"
  }
  resource_attributes { zone = "a" }
}"#;
    let by_file = tracing(stanza, &[]).unwrap();
    let half = Sampling { follows_parent: true, root: RootSampling::Ratio(0.5) };
    assert_eq!(by_file.sampling, half);
    assert_eq!(by_file.resource[0].1, "file");
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c:2"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "X-Key=a%2Cb%20c, x-more = d=e,"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
        ("OTEL_SERVICE_NAME", "variable"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=lost,rack=r%201"),
        ("OTEL_TRACES_SAMPLER", "traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
    ];
    let read = tracing(stanza, &variables).unwrap();
    assert_eq!(read.endpoint, endpoint(Some("https://c:2"), OtlpProtocol::Grpc));
    let headers: Vec<_> =
        read.headers.iter().map(|(name, value)| (name.as_str(), value.expose_secret())).collect();
    assert_eq!(headers, [("x-kept", "kept"), ("X-Key", "a,b c"), ("x-more", "d=e")]);
    let told: Vec<_> =
        read.resource.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(told, [("service.name", "variable"), ("zone", "a"), ("rack", "r 1")]);
    assert_eq!(read.sampling, Sampling { follows_parent: false, root: RootSampling::Ratio(0.25) });
    assert_eq!(read.ca_cert.as_deref(), Some(Path::new("/ca.pem")));
    assert!(!format!("{read:?}").contains("of the file"));
}

#[test]
fn what_cannot_be_meant_is_refused_and_what_has_no_effect_is_told() {
    for (variable, value, told) in [
        ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2", "OTEL_EXPORTER_OTLP_HEADERS: expected names"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "te=hunter2", "OTEL_EXPORTER_OTLP_HEADERS: expected the"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=hunter2%0a", "OTEL_EXPORTER_OTLP_HEADERS: expected the"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "expected one of: http/protobuf, grpc"),
        ("OTEL_TRACES_SAMPLER_ARG", "1.5", "expected a number from 0 to 1"),
    ] {
        let text = format!("{MINIMUM}tracing \"otlp\" {{}}");
        let refused = read_with(&text, &[(variable, value)]).unwrap_err();
        assert!(refused.contains(told) && !refused.contains("hunter2"), "{refused}");
    }
    let many: Vec<String> = (0..40).map(|at| format!("x-{at}=v")).collect();
    let variables = [("OTEL_EXPORTER_OTLP_HEADERS", many.join(","))];
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let text = format!("{MINIMUM}tracing \"otlp\" {{}}");
    let refused = read_with(&text, &variables).unwrap_err();
    assert!(refused.contains("there may be 32 at the most"), "{refused}");
    for (lines, told) in [
        ("tls_ca_cert = \"/ca\"", "tls_ca_cert has no effect: the endpoint is not https"),
        ("sampler = \"always_on\"\nsampling_ratio = 0.5", "sampling_ratio has no effect"),
    ] {
        let warnings = warnings(&format!("tracing \"otlp\" {{\n{lines}\n}}"));
        assert!(warnings.iter().any(|warning| warning.contains(told)), "{warnings:?}");
    }
}
