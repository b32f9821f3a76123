//! How long a listener's certificates are good.

use std::path::Path;

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::report::DiagnoseCheck;
use kallisto_command::files;

/// Seconds before its end from which on a certificate is worth a word: thirty days.
const SOON_SECS: i64 = 30 * 24 * 60 * 60;

/// Looks at every certificate of a file; the first that is not good is told.
pub(super) fn check(name: &'static str, path: &Path, now: Timestamp) -> DiagnoseCheck {
    let shown = path.display();
    let bytes = match files::read(path) {
        Ok(bytes) => bytes,
        Err(error) => return DiagnoseCheck::fail(name, format!("{shown}: {error}")),
    };
    let mut soonest = i64::MAX;
    for (place, der) in (1..).zip(CertificateDer::pem_slice_iter(&bytes)) {
        let Some((from, until)) = der.ok().and_then(|der| validity(&der)) else {
            return DiagnoseCheck::fail(
                name,
                format!("{shown}: certificate {place} cannot be read"),
            );
        };
        let spoken = |secs| Timestamp::from_second(secs).unwrap_or(Timestamp::MAX);
        if until <= now.as_second() {
            let why = format!("{shown}: certificate {place} expired at {}", spoken(until));
            return DiagnoseCheck::fail(name, why);
        }
        if from > now.as_second() {
            let why = format!("{shown}: certificate {place} is not good before {}", spoken(from));
            return DiagnoseCheck::fail(name, why);
        }
        soonest = soonest.min(until);
    }
    let left_secs = soonest.saturating_sub(now.as_second());
    match Timestamp::from_second(soonest) {
        Err(_) => DiagnoseCheck::fail(name, format!("{shown}: there is no certificate in it")),
        Ok(end) if left_secs < SOON_SECS => {
            DiagnoseCheck::warn(name, format!("{shown}: expires at {end}"))
        }
        Ok(end) => DiagnoseCheck::ok(name, format!("{shown}: good until {end}")),
    }
}

/// When the first of a file's certificates ends, in seconds since 1970; `None` where none can be read.
pub(crate) fn ends(path: &Path) -> Option<i64> {
    let bytes = files::read(path).ok()?;
    let certificates = CertificateDer::pem_slice_iter(&bytes).filter_map(Result::ok);
    certificates.filter_map(|der| Some(validity(&der)?.1)).min()
}

/// From when until when a certificate is good, in seconds since 1970.
fn validity(der: &[u8]) -> Option<(i64, i64)> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
    let validity = certificate.validity();
    Some((validity.not_before.timestamp(), validity.not_after.timestamp()))
}
