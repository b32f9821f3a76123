//! Revoking.

use jiff::Timestamp;
use kallisto_api::{Error, Response};
use kallisto_engine::{Call, LeaseCall, Storage};
use kallisto_pki::certificate::ParsedCertificate;
use kallisto_pki::pem::{self, Label};
use kallisto_pki::{PrivateKey, Serial};

use super::answer;
use super::given::{GivenFields, object, refuse, write_time};
use super::ids::ListScope;
use super::lists;
use super::memory::Pki;
use super::revoked::{
    Lists, RevocationRecord, RevokedCertificate, StoredCertificate, certificate_record,
    lists_record, revoked_record,
};

/// The reason that says none.
const UNSPECIFIED: u8 = 0;

/// A certificate of which a request says that it is to be revoked.
pub(super) struct RevokeSubject {
    pub(super) certificate: ParsedCertificate,
    scope: ListScope,
    is_stored: bool,
}

/// Finds what a request wants revoked.
fn find(call: &Call<'_>, given: GivenFields<'_>) -> Result<RevokeSubject, Error> {
    let (serial, text) = (given.text("serial_number")?, given.text("certificate")?);
    match (serial.as_str(), text.as_str()) {
        ("", "") => {
            Err(Error::invalid("The serial number or certificate to revoke must be provided."))
        }
        (serial, "") => {
            let not_found =
                || Error::invalid(format!("certificate with serial {serial} not found."));
            let number = Serial::parse(serial).ok_or_else(not_found)?;
            let record = call.storage.get(&certificate_record(&number))?.ok_or_else(not_found)?;
            let stored =
                StoredCertificate::decode(&record.value).ok_or_else(|| record.damaged())?;
            let certificate = ParsedCertificate::from_der(stored.der).map_err(refuse)?;
            Ok(RevokeSubject { certificate, scope: stored.scope, is_stored: true })
        }
        ("", text) => by_certificate(call, text),
        _ => Err(Error::invalid(
            "Must provide either the certificate or the serial to revoke; not both.",
        )),
    }
}

fn by_certificate(call: &Call<'_>, text: &str) -> Result<RevokeSubject, Error> {
    let blocks = pem::read(text).map_err(|_| not_pem())?;
    // Files have the chain behind a certificate, and maybe its key before it.
    let first = blocks.iter().find(|(label, _)| *label == Label::Certificate);
    let (_, der) = first.ok_or_else(not_pem)?;
    find_der(call, der)
}

/// A certificate that a request brings along. It is of an issuer here: its signature says so.
///
/// # Errors
/// [`Error::Invalid`] for what is none, of another CA, or of the serial number of another one.
pub(super) fn find_der(call: &Call<'_>, der: &[u8]) -> Result<RevokeSubject, Error> {
    let memory: &Pki = call.memory()?;
    let certificate = ParsedCertificate::from_der(der).map_err(refuse)?;
    let scope = {
        let state = memory.read();
        let mut signers = state.issuers_named(&certificate.issuer).filter(|issuer| {
            certificate.names_as_issuer(&issuer.certificate)
                && certificate.is_signed_by(&issuer.certificate.public)
        });
        signers.next().map(|issuer| issuer.scope).ok_or_else(|| {
            Error::invalid("certificate to be revoked was not issued by an issuer of this mount")
        })?
    };
    let name = certificate_record(&certificate.serial);
    let is_stored = match call.storage.get(&name)? {
        None => false,
        Some(record) => {
            let stored = StoredCertificate::decode(&record.value);
            if stored.is_none_or(|stored| stored.der != certificate.der) {
                return Err(Error::invalid(
                    "another certificate of this serial number is stored: revoke that one by its \
                     serial number",
                ));
            }
            true
        }
    };
    Ok(RevokeSubject { certificate, scope, is_stored })
}

fn not_pem() -> Error {
    Error::invalid("certificate could not be PEM-decoded")
}

pub(super) async fn revoke(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let subject = find(&call, GivenFields::of(&body))?;
    revoke_subject(&call, &subject).await
}

/// Revokes for whoever has the private key.
pub(super) async fn revoke_with_key(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let given = GivenFields::of(&body);
    let text = zeroize::Zeroizing::new(given.text("private_key")?);
    if text.is_empty() {
        return Err(Error::invalid("missing required field: private_key"));
    }
    let subject = find(&call, given)?;
    let unreadable = || Error::invalid("failed to parse the provided private key");
    let blocks = pem::read(&text).map_err(|_| unreadable())?;
    let block = blocks.iter().find(|(label, _)| label.is_private());
    let (label, der) = block.ok_or_else(unreadable)?;
    let key = PrivateKey::from_pem(*label, der).map_err(|_| unreadable())?;
    if key.spki() != subject.certificate.public.spki() {
        return Err(Error::invalid("provided private key does not match certificate's public key"));
    }
    revoke_subject(&call, &subject).await
}

async fn revoke_subject(call: &Call<'_>, subject: &RevokeSubject) -> Result<Response, Error> {
    let Some(at_ns) = revoke_for(call, subject, UNSPECIFIED).await? else {
        let certificate = &subject.certificate;
        return Ok(answer::nothing(vec![format!(
            "certificate with serial {} already expired at {}; refusing to add to CRL",
            certificate.serial,
            write_time(certificate.not_after)
        )]));
    };
    let at = timestamp(at_ns);
    let data = object([
        ("revocation_time", at.as_second().into()),
        ("revocation_time_rfc3339", at.to_string().into()),
        ("state", "revoked".into()),
    ]);
    let memory: &Pki = call.memory()?;
    let state = memory.read();
    let unsigned = match state.crl.rebuilds_itself {
        true => None,
        false => lists::warn_of_unsigned_of(&state, subject.scope),
    };
    Ok(answer::data(data, unsigned.into_iter().collect()))
}

/// Revokes a certificate for a reason (RFC 5280, 5.3.1). When it was revoked, in nanoseconds since 1970; `None` if it has expired, and what has expired
/// is not revoked here.
///
/// # Errors
/// [`Error::Invalid`] for an issuer's own; the store's refusal.
pub(super) async fn revoke_for(
    call: &Call<'_>,
    subject: &RevokeSubject,
    reason: u8,
) -> Result<Option<i64>, Error> {
    let memory: &Pki = call.memory()?;
    let certificate = &subject.certificate;
    let now = call.now;
    {
        let state = memory.read();
        let own = state.issuers_of(subject.scope).find(|issuer| {
            issuer.certificate.serial == certificate.serial
                && issuer.certificate.der == certificate.der
                && issuer.certificate.issuer == issuer.certificate.subject
        });
        if let Some(issuer) = own {
            return Err(Error::invalid(format!(
                "adding issuer (id: {}) to its own CRL is not allowed",
                issuer.id
            )));
        }
        if certificate.not_after < now.as_second() && !state.crl.allows_expired {
            return Ok(None);
        }
    }
    let stored = (!subject.is_stored).then(|| {
        let not_after = certificate.not_after;
        let certificate =
            StoredCertificate { scope: subject.scope, not_after, der: &certificate.der };
        certificate.encode()
    });
    let at = enter(&call.storage, subject, (now, reason), stored).await?;
    if at.is_new {
        let (of, after) = ((&call.storage, memory), at.revoked.after);
        lists::decide_for_revocation(of, subject.scope, after, now.as_second()).await?;
    }
    Ok(Some(at.revoked.at_ns))
}

/// Revokes the certificate of an issuer, if who signed it is here and is not itself.
pub(super) async fn revoke_issuer(
    call: &Call<'_>,
    certificate: &ParsedCertificate,
) -> Result<(), Error> {
    let memory: &Pki = call.memory()?;
    let scope = {
        let state = memory.read();
        let mut signers = state.issuers_named(&certificate.issuer).filter(|issuer| {
            certificate.names_as_issuer(&issuer.certificate)
                && certificate.is_signed_by(&issuer.certificate.public)
        });
        let scope = signers.next().map(|issuer| issuer.scope);
        let own = ListScope::of(&certificate.subject, certificate.public.spki());
        scope.filter(|scope| *scope != own && state.crl_signer(*scope).is_some())
    };
    let Some(scope) = scope else { return Ok(()) };
    let subject = RevokeSubject { certificate: certificate.clone(), scope, is_stored: false };
    revoke_subject(call, &subject).await.map(drop)
}

pub(super) fn timestamp(at_ns: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(at_ns)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// What there is of a revocation.
struct EnteredRevocation {
    revoked: RevokedCertificate,
    is_new: bool,
}

/// Enters a revocation, if it is not there.
async fn enter(
    storage: &Storage<'_>,
    subject: &RevokeSubject,
    (now, reason): (Timestamp, u8),
    stored: Option<Vec<u8>>,
) -> Result<EnteredRevocation, Error> {
    let serial = subject.certificate.serial;
    let name = revoked_record(&serial);
    let lists = lists_record(subject.scope);
    storage
        .transact(&name, |transaction| {
            if let Some(record) = transaction.get(&name)? {
                let known = record.decode(|bytes| RevocationRecord::decode(serial, bytes))?;
                if known.scope != subject.scope {
                    return Err(Error::invalid(
                        "another certificate of this serial number, of another CA, is revoked",
                    ));
                }
                return Ok(EnteredRevocation { revoked: known.revoked, is_new: false });
            }
            // The lists that there are do not have it: that holds as long as there is no other list, which this depends on.
            let after = match transaction.get(&lists)? {
                Some(record) => record.decode(Lists::decode)?.number,
                None => 0,
            };
            let revoked = RevokedCertificate {
                serial,
                at_ns: i64::try_from(now.as_nanosecond()).unwrap_or(i64::MAX),
                not_after: subject.certificate.not_after,
                after,
                reason,
            };
            let record = RevocationRecord { scope: subject.scope, revoked };
            transaction.put(&name, record.encode())?;
            if let Some(stored) = &stored {
                let certificate = certificate_record(&serial);
                if transaction.get(&certificate)?.is_none() {
                    transaction.put(&certificate, stored.clone())?;
                }
            }
            Ok(EnteredRevocation { revoked, is_new: true })
        })
        .await
}

/// Revokes the certificate of a lease that ended early; one that ended with the certificate has nothing left to revoke.
pub(super) async fn end_lease(call: LeaseCall<'_>) -> Result<(), Error> {
    let serial = Serial::from_bytes(call.revocation).map_err(refuse)?;
    let Some(record) = call.storage.get(&certificate_record(&serial))? else { return Ok(()) };
    let stored = StoredCertificate::decode(&record.value).ok_or_else(|| record.damaged())?;
    let certificate = ParsedCertificate::from_der(stored.der).map_err(refuse)?;
    if certificate.not_after <= call.now.as_second() {
        return Ok(());
    }
    let subject = RevokeSubject { certificate, scope: stored.scope, is_stored: true };
    let entered = enter(&call.storage, &subject, (call.now, UNSPECIFIED), None).await?;
    let memory = call.memory.and_then(|memory| {
        let memory: &dyn std::any::Any = memory;
        memory.downcast_ref::<Pki>()
    });
    if let Some(memory) = memory.filter(|_| entered.is_new) {
        let (of, after) = ((&call.storage, memory), entered.revoked.after);
        lists::decide_for_revocation(of, subject.scope, after, call.now.as_second()).await?;
    }
    Ok(())
}
