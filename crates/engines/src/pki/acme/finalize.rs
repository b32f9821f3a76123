//! Finalizing an order (RFC 8555, 7.4), and the certificate that comes of it (7.4.2).
//!
//! Invariants:
//! - The names of the certificate are those of the order, no more and no fewer, and the role allowed them at this moment too.
//! - The certificate, the order that has it, and that the account was issued it are one commit. Of two who finalize an order at once one does;
//!   what the other signed is told to nobody.
//! - The key of an account is no certificate's (11.1).

use std::collections::BTreeSet;
use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;
use kallisto_api::Error;
use kallisto_api::json::Json;
use kallisto_pki::Serial;
use kallisto_pki::certificate::ParsedCertificate;
use kallisto_pki::names::{WantedNames, grant};
use kallisto_pki::pem::{self, Label};
use kallisto_pki::request::CertificateRequest;
use kallisto_pki::san::parse_oid;

use super::exchange::{AcmeCall, AcmeReply, IssuingPolicy, SignedRequest};
use super::orders::{self, AcmeIdentifier, AcmeOrder, Fulfilled, OrderStatus};
use super::problem::{Failure, Kind, fail, malformed};
use super::{accounts, expiry};
use crate::pki::given::{GivenFields, refuse};
use crate::pki::ids::IssuerId;
use crate::pki::issue::{check_key, contents, csr_names, note_unstored, sign_contents};
use crate::pki::issuer::{Issuer, Outliving};
use crate::pki::memory::PkiState;
use crate::pki::revoked::{StoredCertificate, certificate_record};
use crate::pki::role::PkiRole;
use crate::pki::templates;
use crate::pki::wanted::{Bounds, Validity};

const CHAIN: &str = "application/pem-certificate-chain";
/// What a certificate is for where the role does not say.
const SERVER_AUTH: &str = "1.3.6.1.5.5.7.3.1";

/// The names of a request, as those of orders are.
fn names_of(request: &CertificateRequest) -> Result<BTreeSet<String>, Failure> {
    let names = csr_names(request).map_err(bad_csr)?;
    let has_others = !names.uris.is_empty() || !names.others.is_empty();
    if has_others || names.names.iter().any(|name| name.contains('@')) {
        return Err(fail(Kind::BadCsr, "the CSR has names that are neither hosts nor addresses"));
    }
    let mut all: BTreeSet<String> = names.names.iter().map(|n| n.to_ascii_lowercase()).collect();
    all.extend(names.ips.iter().map(ToString::to_string));
    match request.subject.common_name.as_str() {
        "" => {}
        name => {
            all.insert(name.to_ascii_lowercase());
        }
    }
    Ok(all)
}

/// Whether a request asks for what an order is of.
fn check_request(order: &AcmeOrder, request: &CertificateRequest) -> Result<(), Failure> {
    if request.wants_ca {
        let why = "refusing to accept CSR with Basic Constraints extension with CA set to true";
        return Err(fail(Kind::BadCsr, why));
    }
    let names = names_of(request)?;
    for identifier in &order.identifiers {
        let (kind, value) = match identifier {
            AcmeIdentifier::Dns(name) => ("DNS", name.clone()),
            AcmeIdentifier::Ip(address) => ("IP", address.to_string()),
        };
        if !names.contains(&value) {
            let why = format!("CSR is missing order {kind} identifier {value}");
            return Err(fail(Kind::BadCsr, why));
        }
    }
    if names.len() > order.identifiers.len() {
        return Err(fail(Kind::BadCsr, "the CSR has names that are not of the order"));
    }
    Ok(())
}

/// The role by which the certificate is issued.
fn role(acme: &AcmeCall<'_>, policy: &IssuingPolicy) -> Result<PkiRole, Failure> {
    let mut role = PkiRole::clone(&policy.role);
    role.rules.require_cn = false;
    let max_ttl = match role.max_ttl {
        0 => i64::try_from(acme.call.mount.max_lease_secs).unwrap_or(i64::MAX),
        max_ttl => max_ttl,
    };
    role.max_ttl = max_ttl.min(acme.config.max_ttl_secs);
    let says_usages = acme.config.allows_role_usages && !policy.role_name.is_empty();
    if !says_usages {
        role.ext_usages = vec![parse_oid(SERVER_AUTH).map_err(refuse)?];
    }
    Ok(role)
}

/// Issues the certificate of an order.
pub(super) async fn finalize(
    acme: &AcmeCall<'_>,
    signed: &SignedRequest,
) -> Result<AcmeReply, Failure> {
    let account = signed.account()?;
    let (order, authorizations) = orders::load(acme, &account.id)?;
    let csr = csr_of(signed)?;
    match order.status(&authorizations, acme.now()) {
        OrderStatus::Ready => {}
        status => return Err(not_ready(status)),
    }
    let request = CertificateRequest::from_der(&csr)
        .map_err(|error| fail(Kind::BadCsr, format!("failed to parse csr: {error}")))?;
    check_request(&order, &request)?;
    if request.public.spki() == account.key.public().spki() {
        return Err(fail(Kind::BadCsr, "the key of the CSR is that of the account"));
    }
    let policy = acme.policy()?;
    let role = role(acme, &policy)?;
    check_key(&role, &request.public).map_err(bad_csr)?;
    let names = wanted_names(&order, &role, &request);
    let granted = grant(templates::rules(&acme.call, &role)?.as_ref(), &names);
    let granted = granted.map_err(|error| fail(Kind::RejectedIdentifier, error.to_string()))?;
    let authority = policy.authority;
    let contents = contents(
        &acme.call,
        &role,
        (request.public.clone(), granted),
        (&names, validity(acme, &role, &authority.issuer)?),
        authority.urls.clone(),
    )?;
    let (contents, der) = sign_contents(&acme.call, &authority, contents, role.signature).await?;
    if role.stores_nothing {
        note_unstored(&acme.call, &authority).await?;
    }
    let issued = IssuedForOrder {
        issuer: &authority.issuer,
        serial: contents.serial,
        not_after: contents.not_after,
        der: &der,
        is_stored: !role.stores_nothing,
    };
    match fulfill(acme, &account.id, &order.id, &issued).await? {
        Some(order) => Ok(order.reply(acme, 200, OrderStatus::Valid)),
        None => Err(not_ready(OrderStatus::Valid)),
    }
}

fn not_ready(status: OrderStatus) -> Failure {
    let why = format!("order is status {}, needs to be in ready state", status.name());
    fail(Kind::OrderNotReady, why)
}

/// The CSR that a request has, as DER.
fn csr_of(signed: &SignedRequest) -> Result<Vec<u8>, Failure> {
    let payload = signed.object()?;
    let csr = payload.get("csr").and_then(Json::as_str);
    let csr = csr.ok_or_else(|| malformed("the request has no csr"))?;
    let csr = BASE64URL_NOPAD.decode(csr.as_bytes());
    csr.map_err(|_| malformed("failed to parse csr: it is no base64url"))
}

/// The names of the order, and the common name of the CSR where the role takes that.
fn wanted_names(order: &AcmeOrder, role: &PkiRole, request: &CertificateRequest) -> WantedNames {
    let mut names = orders::wanted(&order.identifiers);
    // An address is no common name: it stands where addresses are looked for.
    let common_name = request.subject.common_name.as_str();
    if role.uses_csr_common_name && common_name.parse::<std::net::IpAddr>().is_err() {
        names.common_name = common_name.to_ascii_lowercase();
    }
    names
}

/// How long the certificate is good: what the role says, within what the mount's settings for ACME allow.
fn validity(acme: &AcmeCall<'_>, role: &PkiRole, issuer: &Issuer) -> Result<Validity, Failure> {
    let outliving = match issuer.outliving {
        // A client of ACME cannot ask for less.
        Outliving::Refuse => Outliving::Truncate,
        other => other,
    };
    let bounds = Bounds {
        now: acme.call.now,
        role: Some(role),
        mount_default_secs: acme.call.mount.default_lease_secs,
        mount_max_secs: acme.call.mount.max_lease_secs,
        issuer: Some((&issuer.certificate, outliving)),
    };
    let empty = kallisto_api::Map::new();
    let (mut validity, _) = bounds.validity(GivenFields::of(&empty))?;
    validity.not_after =
        validity.not_after.min(acme.now().saturating_add(acme.config.max_ttl_secs));
    Ok(validity)
}

/// A certificate that was signed for an order.
struct IssuedForOrder<'i> {
    issuer: &'i Issuer,
    serial: Serial,
    not_after: i64,
    der: &'i [u8],
    /// Whether the mount keeps it among its certificates too.
    is_stored: bool,
}

/// Gives an order its certificate, and returns it; `None` where it has one already.
async fn fulfill(
    acme: &AcmeCall<'_>,
    account: &str,
    order: &str,
    issued: &IssuedForOrder<'_>,
) -> Result<Option<AcmeOrder>, Failure> {
    let IssuedForOrder { issuer, serial, not_after, der, is_stored } = *issued;
    let stored = StoredCertificate { scope: issuer.scope, not_after, der }.encode();
    let fulfilled = Fulfilled { der: der.to_vec(), issuer: issuer.id.to_string() };
    let name = orders::record(account, order);
    let done = acme.call.storage.transact(&name, |transaction| {
        let known = transaction.get(&name)?.ok_or(Error::NotFound)?;
        let mut known = AcmeOrder::decode(order, &known)?;
        if known.certificate.is_some() {
            return Ok(None);
        }
        accounts::need_valid(transaction, account)?;
        let certificate = certificate_record(&serial);
        if transaction.get(&certificate)?.is_some() {
            return Err(Error::internal(&"a random serial number was drawn twice"));
        }
        if is_stored {
            transaction.put(&certificate, stored.clone())?;
        }
        expiry::enter_certificate(transaction, account, &known, &serial, not_after)?;
        known.certificate = Some(fulfilled.clone());
        transaction.put(&name, known.encode())?;
        Ok(Some(known))
    });
    done.await.map_err(accounts::ended)
}

fn bad_csr(error: Error) -> Failure {
    match error {
        Error::Invalid(why) => fail(Kind::BadCsr, why),
        other => other.into(),
    }
}

/// The issuers whose chains a certificate has: the one that signed it, and those of the same name and key.
fn issuers(state: &PkiState, fulfilled: &Fulfilled) -> Vec<Arc<Issuer>> {
    let Some(first) = IssuerId::parse(&fulfilled.issuer).and_then(|id| state.issuers.get(&id))
    else {
        return Vec::new();
    };
    let others = state.issuers_of(first.scope).filter(|other| other.id != first.id);
    let mut others: Vec<_> = others.cloned().collect();
    others.sort_by_key(|issuer| issuer.id);
    [vec![Arc::clone(first)], others].concat()
}

/// Tells the certificate with its chain (7.4.2); other chains are linked.
pub(super) async fn certificate(
    acme: &AcmeCall<'_>,
    signed: &SignedRequest,
) -> Result<AcmeReply, Failure> {
    let account = signed.account()?;
    let (order, _) = orders::load(acme, &account.id)?;
    let missing = || malformed("the order has no certificate").not_found();
    let fulfilled = order.certificate.as_ref().ok_or_else(missing)?;
    let memory = acme.memory()?;
    let state = memory.read();
    let issuers = issuers(&state, fulfilled);
    let which: usize = match acme.call.params.get("chain") {
        "" => 0,
        number => number.parse().ok().filter(|number| *number > 0).ok_or_else(missing)?,
    };
    let mut text = pem::write(Label::Certificate, &fulfilled.der);
    match issuers.get(which) {
        Some(issuer) => {
            for one in state.chain(issuer) {
                text.push('\n');
                text.push_str(&pem::write(Label::Certificate, &one.certificate.der));
            }
        }
        // The issuer was deleted: its own certificate is all that is left.
        None if which == 0 => {}
        None => return Err(missing()),
    }
    text.push('\n');
    let url = format!("{}/cert", order.url(&acme.directory));
    let mut reply = AcmeReply::bytes(200, CHAIN, text.into_bytes());
    for number in (0..issuers.len()).filter(|number| *number != which) {
        let alternate = if number == 0 { url.clone() } else { format!("{url}/{number}") };
        reply = reply.linked(&alternate, "alternate");
    }
    Ok(reply)
}

/// The names that a certificate is for, as orders have them.
pub(super) fn names_of_certificate(certificate: &ParsedCertificate) -> Vec<String> {
    let names = certificate.alt_names.iter().filter_map(|san| match san {
        kallisto_pki::San::Dns(name) => Some(name.to_ascii_lowercase()),
        kallisto_pki::San::Ip(address) => Some(address.to_string()),
        _ => None,
    });
    names.collect()
}
