//! `random` and `hash`, which need no key.

use kallisto_api::{Error, Fields, Response};
use kallisto_engine::tools;
use kallisto_transit::{HashAlgorithm, fill_random};
use zeroize::Zeroizing;

use super::{TransitHandler, refusal};

/// Random bytes; the path may name a source, a count, or both.
pub(super) fn random(
    transit: &TransitHandler<'_>,
    first: Option<&str>,
    second: Option<&str>,
) -> Result<Response, Error> {
    let body = transit.call.request.object()?;
    tools::random(Fields::new(&body), first, second, |bytes| fill_random(bytes).map_err(refusal))
}

/// The hash of an input.
pub(super) fn hash(transit: &TransitHandler<'_>, in_path: Option<&str>) -> Result<Response, Error> {
    let body = transit.call.request.object()?;
    let fields = Fields::new(&body);
    let input = fields.string("input")?.ok_or_else(|| Error::invalid("input missing"))?;
    tools::hash(fields, &Zeroizing::new(input), in_path, |name, input| {
        let known = HashAlgorithm::named(name).filter(|&hash| hash != HashAlgorithm::Sha1);
        known.map(|hash| hash.digest(input))
    })
}
