//! `tracing "otlp"`: where the spans of requests are sent, and which are recorded.
//!
//! The variables of OpenTelemetry (`OTEL_*`) win over the stanza, as the environment does elsewhere. An endpoint there is enough to turn traces
//! on; a stanza is too, and then without an endpoint spans go to this machine.
//!
//! Invariant: a header's value is in no error and no `Debug`.

use kallisto_otlp::{CollectorEndpoint, ExporterSettings, OtlpProtocol};
use kallisto_traces::{RootSampling, Sampling};
use secrecy::SecretString;

use super::error::Error;
use super::model::TracingConfig;
use super::raw_value::RawValue;
use super::section::ConfigSection;
use super::storage::{last, pair};
use crate::percent;
use kallisto_command::config::Environment;

/// Most headers of a request to the collector.
const HEADERS_MAX: usize = 32;
/// Most attributes of the resource.
const RESOURCE_ATTRIBUTES_MAX: usize = 128;
/// What this server is called when nobody says.
const SERVICE_DEFAULT: &str = "kallisto";
/// The attribute that says so.
const SERVICE_NAME: &str = "service.name";

/// What the files of the client certificate and of its key are called.
const IDENTITY_NAMES: (&str, &str) = (
    "tls_client_cert, OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
    "tls_client_key, OTEL_EXPORTER_OTLP_CLIENT_KEY",
);

/// What decides whether a trace is recorded, under the names of OpenTelemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RootSampler {
    All,
    None,
    Ratio,
}

const SAMPLERS: [(&str, (bool, RootSampler)); 6] = [
    ("always_on", (false, RootSampler::All)),
    ("always_off", (false, RootSampler::None)),
    ("traceidratio", (false, RootSampler::Ratio)),
    ("parentbased_always_on", (true, RootSampler::All)),
    ("parentbased_always_off", (true, RootSampler::None)),
    ("parentbased_traceidratio", (true, RootSampler::Ratio)),
];

const PROTOCOLS: [(&str, OtlpProtocol); 2] =
    [("http/protobuf", OtlpProtocol::Http), ("grpc", OtlpProtocol::Grpc)];

/// Where spans are sent, if anywhere.
pub(super) fn read(
    top: &mut ConfigSection<'_>,
    environment: &Environment<'_>,
    warnings: &mut Vec<String>,
) -> Result<Option<TracingConfig>, Error> {
    let stanza = match last(top.labelled("tracing")?)? {
        Some((kind, stanza)) if kind != "otlp" => {
            return Err(stanza.refuse("the only kind of tracing is otlp"));
        }
        found => found.map(|(_, stanza)| stanza),
    };
    let is_disabled = is_disabled(environment, warnings);
    // Nobody minds what the others say then; the file is read as always.
    let nothing = Environment::of(|_| None);
    let environment = if is_disabled { &nothing } else { environment };
    let mut source = TracingStanza { stanza, environment };
    let endpoint = source.value("endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT")?;
    if endpoint.is_none() && source.stanza.is_none() {
        return Ok(None);
    }
    let config = tracing(&mut source, endpoint, warnings)?;
    if let Some(stanza) = source.stanza {
        stanza.finish(&[], warnings)?;
    }
    Ok((!is_disabled).then_some(config))
}

/// Whether the environment turns traces off. As OpenTelemetry has it, `true` does and no other word.
fn is_disabled(environment: &Environment<'_>, warnings: &mut Vec<String>) -> bool {
    let Some(raw) = RawValue::of_variable(environment, "OTEL_SDK_DISABLED") else { return false };
    let is_word = |word: &str| raw.as_written().eq_ignore_ascii_case(word);
    if !["true", "false"].into_iter().any(is_word) {
        warnings.push(format!("{} has no effect: expected true or false", raw.origin));
    }
    is_word("true")
}

/// A stanza, if there is one, and the environment.
struct TracingStanza<'a, 'e> {
    stanza: Option<ConfigSection<'a>>,
    environment: &'e Environment<'e>,
}

impl TracingStanza<'_, '_> {
    /// The environment, else the file.
    fn value(&mut self, key: &'static str, variable: &str) -> Result<Option<RawValue>, Error> {
        let file = self.stanza.as_mut().map_or(Ok(None), |stanza| stanza.raw_value(key))?;
        Ok(RawValue::of_variable(self.environment, variable).or(file))
    }

    /// Names and values of a stanza inside; those of the environment are added, and win.
    fn pairs(
        &mut self,
        key: &'static str,
        variable: &str,
        most: usize,
    ) -> Result<Vec<(String, RawValue)>, Error> {
        let mut all = Vec::new();
        if let Some(stanza) = &mut self.stanza {
            for inner in stanza.stanzas(key)? {
                all.extend(inner.every()?);
            }
        }
        if let Some(raw) = RawValue::of_variable(self.environment, variable) {
            for (name, value) in listed(&raw)? {
                all.retain(|(known, _): &(String, _)| !known.eq_ignore_ascii_case(&name));
                all.push((name, value));
            }
        }
        match all.get(most) {
            Some((_, raw)) => Err(raw.refuse(format!("there may be {most} at the most"))),
            None => Ok(all),
        }
    }
}

fn tracing(
    source: &mut TracingStanza<'_, '_>,
    endpoint: Option<RawValue>,
    warnings: &mut Vec<String>,
) -> Result<TracingConfig, Error> {
    let protocol = source.value("protocol", "OTEL_EXPORTER_OTLP_PROTOCOL")?;
    let protocol = protocol.map_or(Ok(OtlpProtocol::Http), |raw| raw.choice(&PROTOCOLS))?;
    let endpoint = match &endpoint {
        None => CollectorEndpoint::parse(None, protocol)
            .map_err(|why| Error::Missing(format!("tracing \"otlp\": {why}")))?,
        Some(raw) => CollectorEndpoint::parse(Some(raw.expose()?), protocol)
            .map_err(|why| raw.refuse(why))?,
    };
    let ca_cert = source.value("tls_ca_cert", "OTEL_EXPORTER_OTLP_CERTIFICATE")?;
    let cert = source.value("tls_client_cert", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE")?;
    let key = source.value("tls_client_key", "OTEL_EXPORTER_OTLP_CLIENT_KEY")?;
    if !endpoint.is_tls() {
        for raw in [&ca_cert, &cert, &key].into_iter().flatten() {
            warnings.push(format!("{} has no effect: the endpoint is not https", raw.origin));
        }
    }
    let client_identity = pair(source.stanza.as_ref(), (cert, key), IDENTITY_NAMES)?;
    Ok(TracingConfig {
        endpoint,
        headers: headers(source)?,
        resource: resource(source)?,
        sampling: sampling(source, warnings)?,
        ca_cert: ca_cert.map(|raw| raw.path()).transpose()?,
        client_identity,
    })
}

fn headers(source: &mut TracingStanza<'_, '_>) -> Result<Vec<(String, SecretString)>, Error> {
    let pairs = source.pairs("headers", "OTEL_EXPORTER_OTLP_HEADERS", HEADERS_MAX)?;
    let header =
        |(name, raw): (String, RawValue)| match ExporterSettings::is_header(&name, raw.expose()?) {
            true => Ok((name, raw.secret()?)),
            false => Err(raw.refuse(
                "expected the name and the value of a header that a request has not by itself",
            )),
        };
    pairs.into_iter().map(header).collect()
}

/// What is told of this server.
fn resource(source: &mut TracingStanza<'_, '_>) -> Result<Vec<(String, String)>, Error> {
    let attributes =
        source.pairs("resource_attributes", "OTEL_RESOURCE_ATTRIBUTES", RESOURCE_ATTRIBUTES_MAX)?;
    let told = |(name, raw): (String, RawValue)| (name, raw.as_written().to_owned());
    let mut resource: Vec<(String, String)> = attributes.into_iter().map(told).collect();
    let named = source.value("service_name", "OTEL_SERVICE_NAME")?;
    match named {
        Some(raw) => {
            resource.retain(|(name, _)| name != SERVICE_NAME);
            resource.insert(0, (SERVICE_NAME.to_owned(), raw.text()?));
        }
        None if resource.iter().all(|(name, _)| name != SERVICE_NAME) => {
            resource.insert(0, (SERVICE_NAME.to_owned(), SERVICE_DEFAULT.to_owned()));
        }
        None => {}
    }
    Ok(resource)
}

fn sampling(
    source: &mut TracingStanza<'_, '_>,
    warnings: &mut Vec<String>,
) -> Result<Sampling, Error> {
    let sampler = source.value("sampler", "OTEL_TRACES_SAMPLER")?;
    let ratio = source.value("sampling_ratio", "OTEL_TRACES_SAMPLER_ARG")?;
    let (follows_parent, root) = match &sampler {
        Some(raw) => raw.choice(&SAMPLERS)?,
        None if ratio.is_some() => (true, RootSampler::Ratio),
        None => (true, RootSampler::All),
    };
    let part = match &ratio {
        None => 1.0,
        Some(raw) => {
            let part: Option<f64> = raw.as_written().trim().parse().ok();
            let part = part.filter(|part| (0.0..=1.0).contains(part));
            part.ok_or_else(|| raw.refuse("expected a number from 0 to 1"))?
        }
    };
    if let (Some(raw), true) = (&ratio, root != RootSampler::Ratio) {
        warnings.push(format!("{} has no effect: sampler is another one", raw.origin));
    }
    let root = match root {
        RootSampler::All => RootSampling::All,
        RootSampler::None => RootSampling::None,
        RootSampler::Ratio => RootSampling::Ratio(part),
    };
    Ok(Sampling { follows_parent, root })
}

/// Names and values as OpenTelemetry writes them into one variable: `a=b,c=d`, with percent signs for what would part them.
fn listed(raw: &RawValue) -> Result<Vec<(String, RawValue)>, Error> {
    let parts = raw.expose()?.split(',').map(str::trim).filter(|part| !part.is_empty());
    let one = |part: &str| {
        let wrong = || raw.refuse("expected names and values such as a=b,c=d");
        let (name, value) = part.split_once('=').ok_or_else(wrong)?;
        let name = name.trim();
        let value = percent::decoded(value.trim());
        let value = std::str::from_utf8(&value).ok().filter(|_| !name.is_empty());
        Ok((name.to_owned(), raw.with_text(value.ok_or_else(wrong)?)))
    };
    parts.map(one).collect()
}
