//! Revoking certificates by ACME (RFC 8555, 7.6): by the account that was issued it, by whoever has its key, and by an account that holds
//! authorizations for all of its names.

use std::collections::BTreeSet;

use data_encoding::BASE64URL_NOPAD;
use kallisto_api::json::Json;
use kallisto_pki::certificate::ParsedCertificate;

use super::accounts::AcmeAccount;
use super::exchange::{AcmeCall, AcmeReply, SignedRequest};
use super::expiry;
use super::finalize::names_of_certificate;
use super::orders::{self, AcmeAuthorization, AuthorizationStatus};
use super::problem::{Failure, Kind, fail, malformed};
use crate::pki::given::object;
use crate::pki::revoke::{find_der, revoke_for};
use crate::pki::revoked::revoked_record;

/// Most authorizations of an account that are looked at.
const AUTHORIZATIONS_MAX: usize = 10_000;
/// The last of the reasons that a client may give: cessationOfOperation (RFC 5280, 5.3.1).
const REASON_LAST: u64 = 5;

/// Revokes a certificate.
pub(super) async fn revoke(
    acme: &AcmeCall<'_>,
    signed: &SignedRequest,
) -> Result<AcmeReply, Failure> {
    let payload = signed.object()?;
    let text = payload.get("certificate").and_then(Json::as_str);
    let text = text.ok_or_else(|| malformed("the request has no certificate"))?;
    let der = BASE64URL_NOPAD.decode(text.as_bytes());
    let der = der.map_err(|_| malformed("the certificate is no base64url"))?;
    let reason = reason(payload.get("reason"))?;
    let subject = find_der(&acme.call, &der)?;
    let certificate = &subject.certificate;
    match signed.account_if_any() {
        None if signed.key.public().spki() == certificate.public.spki() => {}
        None => {
            return Err(fail(Kind::Unauthorized, "the request is signed by another key"));
        }
        Some(account) if holds(acme, account, certificate)? => {}
        Some(_) => {
            let why = "the account was not issued the certificate, and is not authorized for its \
                       names";
            return Err(fail(Kind::Unauthorized, why));
        }
    }
    if acme.call.storage.get(&revoked_record(&certificate.serial))?.is_some() {
        return Err(fail(Kind::AlreadyRevoked, ""));
    }
    let entered = revoke_for(&acme.call, &subject, reason).await?;
    let Some(at_ns) = entered else {
        return Err(malformed("the certificate has expired"));
    };
    let at = crate::pki::revoke::timestamp(at_ns);
    Ok(AcmeReply::json(
        200,
        object([
            ("revocation_time", at.as_second().into()),
            ("revocation_time_rfc3339", at.to_string().into()),
            ("state", "revoked".into()),
        ]),
    ))
}

fn reason(given: Option<&Json>) -> Result<u8, Failure> {
    let bad = || fail(Kind::BadRevocationReason, "the reasons are 0 to 5");
    match given {
        None => Ok(0),
        Some(number @ Json::Number(_)) => {
            let text = String::from_utf8(number.to_text()).unwrap_or_default();
            let number: u64 = text.parse().map_err(|_| bad())?;
            if number > REASON_LAST {
                return Err(bad());
            }
            u8::try_from(number).map_err(|_| bad())
        }
        Some(_) => Err(malformed("the reason is no number")),
    }
}

/// Whether an account may revoke a certificate: it was issued it, or it is authorized for every name of it.
fn holds(
    acme: &AcmeCall<'_>,
    account: &AcmeAccount,
    certificate: &ParsedCertificate,
) -> Result<bool, Failure> {
    let storage = acme.call.storage;
    if storage.get(&expiry::certificate_record(&account.id, &certificate.serial))?.is_some() {
        return Ok(true);
    }
    let names: BTreeSet<String> = names_of_certificate(certificate).into_iter().collect();
    if names.is_empty() || names.len() != certificate.alt_names.len() {
        return Ok(false);
    }
    let mut held = BTreeSet::new();
    for id in storage.list_some(&orders::authorization_folder(&account.id), AUTHORIZATIONS_MAX) {
        let Some(one) = AcmeAuthorization::find(storage, &account.id, &id)? else { continue };
        if one.status(acme.now()) == AuthorizationStatus::Valid {
            held.insert(one.identifier.value());
        }
    }
    Ok(names.is_subset(&held))
}
