//! `random` and `hash`, which need no key.

use super::refusal;
use data_encoding::{BASE64, HEXLOWER};
use kallisto_api::{Error, Fields, Json, Logical, Response};
use kallisto_transit::{HashAlgorithm, fill_random};
use zeroize::Zeroizing;

use super::RANDOM_BYTES_MAX;
use super::TransitHandler;

const SOURCES: [&str; 3] = ["platform", "seal", "all"];

/// How bytes are written.
#[derive(Clone, Copy)]
enum Form {
    Hex,
    Base64,
}

impl Form {
    fn write(self, bytes: &[u8]) -> String {
        match self {
            Self::Hex => HEXLOWER.encode(bytes),
            Self::Base64 => BASE64.encode(bytes),
        }
    }
}

/// Random bytes; the path may name a source, a count, or both.
pub(super) fn random(
    transit: &TransitHandler<'_>,
    first: Option<&str>,
    second: Option<&str>,
) -> Result<Response, Error> {
    let body = transit.call.request.object()?;
    let fields = Fields::new(&body);
    let (source, in_path) = match (first, second) {
        (Some(source), Some(count)) => (source, Some(count)),
        (Some(source), None) if SOURCES.contains(&source) => (source, None),
        (count, _) => (SOURCES[0], count),
    };
    let count = match in_path {
        Some(text) => text.parse().map_err(|_| {
            Error::invalid("error parsing url-set byte count: it is no whole number")
        })?,
        None => fields.int("bytes")?.unwrap_or(32),
    };
    let count = match usize::try_from(count) {
        Ok(count @ 1..=RANDOM_BYTES_MAX) => count,
        _ if count < 1 => return Err(Error::invalid("'bytes' cannot be less than 1")),
        _ => {
            return Err(Error::invalid(format!("'bytes' should be less than {RANDOM_BYTES_MAX}")));
        }
    };
    let form = match fields.string("format")?.as_deref() {
        None | Some("base64") => Form::Base64,
        Some("hex") => Form::Hex,
        Some(other) => {
            return Err(Error::invalid(format!(
                "unsupported encoding format {other:?}; must be \"hex\" or \"base64\""
            )));
        }
    };
    if !SOURCES.contains(&source) {
        return Err(Error::invalid(format!(
            "unsupported entropy source {source:?}; must be \"platform\" or \"seal\", or \"all\""
        )));
    }
    let mut bytes = Zeroizing::new(vec![0; count]);
    fill_random(&mut bytes).map_err(refusal)?;
    let data = Json::object([("random_bytes", form.write(&bytes).into())]).to_text();
    let warning = "no seal/entropy augmentation available, using platform entropy source";
    let warnings = if source == "seal" { vec![warning.to_owned()] } else { Vec::new() };
    Ok(Response::Logical(Logical { data, warnings, ..Logical::default() }))
}

/// The hash of an input.
pub(super) fn hash(transit: &TransitHandler<'_>, in_path: Option<&str>) -> Result<Response, Error> {
    let body = transit.call.request.object()?;
    let fields = Fields::new(&body);
    let input = fields.string("input")?.ok_or_else(|| Error::invalid("input missing"))?;
    let input = kallisto_transit::decode_base64(&input)
        .map_err(|error| Error::invalid(format!("unable to decode input as base64: {error}")))?;
    let form = match fields.string("format")?.as_deref() {
        None | Some("hex") => Form::Hex,
        Some("base64") => Form::Base64,
        Some(other) => {
            return Err(Error::invalid(format!(
                "unsupported encoding format {other}; must be \"hex\" or \"base64\""
            )));
        }
    };
    let named = match in_path {
        Some(named) => named.to_owned(),
        None => fields.string("algorithm")?.unwrap_or_else(|| "sha2-256".to_owned()),
    };
    let known = HashAlgorithm::named(&named).filter(|&hash| hash != HashAlgorithm::Sha1);
    let hash = known.ok_or_else(|| Error::invalid(format!("unsupported algorithm {named}")))?;
    Ok(Response::data(&Json::object([("sum", form.write(&hash.digest(&input)).into())])))
}
