//! What a CA signs besides certificates of roles: other CAs, and revocation lists that somebody else keeps.

use std::collections::BTreeMap;

use data_encoding::BASE64;
use kallisto_api::json::Json;
use kallisto_api::{Error, Fields, Response};
use kallisto_engine::Call;
use kallisto_pki::Serial;
use kallisto_pki::certificate::{
    AltNames, CertificateContents, CertificatePurpose, ParsedCertificate, Urls, sign_again,
};
use kallisto_pki::crl::{CrlContents, ExtraExtension, ParsedList, RevokedEntry};
use kallisto_pki::names::grant;
use kallisto_pki::pem::{self, Label};
use kallisto_pki::request::CertificateRequest;
use kallisto_pki::san::{San, parse_oid};

use super::answer::{self, CertificateFormat};
use super::authority::{SigningAuthority, asked_issuer};
use super::generate::{NO_URLS, asked_ca_usages, free_rules, make_serial, warn_of_no_path};
use super::given::{GivenFields, object, refuse};
use super::issue::{Kept, csr_names, note_unstored, read_request, sign_and_store};
use super::issuer::{Issuer, Outliving};
use super::memory::Pki;
use super::revoked::{StoredCertificate, certificate_record};
use super::role::named_ext_usages;
use super::wanted::{self, Bounds, Validity};

/// Most entries of a list that somebody else keeps.
const ENTRIES_MAX: usize = 1 << 20;

fn authority(call: &Call<'_>, given: GivenFields<'_>) -> Result<SigningAuthority, Error> {
    let memory: &Pki = call.memory()?;
    let reference = asked_issuer(call, given)?;
    SigningAuthority::of(&memory.read(), &reference)
}

/// How many CAs may follow one that is signed: less than may follow who signs it.
fn path_length(asked: Option<u8>, issuer: &ParsedCertificate) -> Result<Option<u8>, Error> {
    let Some(above) = issuer.path_length else { return Ok(asked) };
    let most = above
        .checked_sub(1)
        .ok_or_else(|| Error::invalid("the issuer has a path length of 0: no CA may follow it"))?;
    match asked {
        Some(asked) if asked > most => Err(Error::invalid(format!(
            "max_path_length {asked} is more than the issuer allows: {most} at the most"
        ))),
        Some(asked) => Ok(Some(asked)),
        None => Ok(Some(most)),
    }
}

/// The subject of a CA, as DER, and its other names: what the request's body says, or its CSR.
fn subject_and_names(
    given: GivenFields<'_>,
    request: &CertificateRequest,
) -> Result<(Vec<u8>, Vec<San>), Error> {
    let mut names = wanted::ca_names(given)?;
    if names.common_name.is_empty() {
        names.common_name.clone_from(&request.subject.common_name);
        names.excludes_cn |= !names.common_name.contains('.');
    }
    if names.serial_number.is_empty() {
        names.serial_number.clone_from(&request.subject.serial_number);
    }
    let (subject, alt_names) = if given.flag("use_csr_values", false)? {
        let csr = grant(&free_rules(), &csr_names(request)?).map_err(refuse)?;
        (request.subject_der.clone(), csr.alt_names)
    } else {
        let granted = grant(&free_rules(), &names).map_err(refuse)?;
        let mut subject = wanted::subject(given, &names.common_name)?;
        subject.serial_number = names.serial_number;
        (subject.to_der().map_err(refuse)?, granted.alt_names)
    };
    if subject == kallisto_pki::certificate::EMPTY_NAME {
        return Err(Error::invalid(
            "the common_name field is required: validators reject what is issued by a CA without a \
             subject",
        ));
    }
    Ok((subject, alt_names))
}

/// How long a CA is good that this issuer signs, and what is to say of it.
fn validity(
    call: &Call<'_>,
    given: GivenFields<'_>,
    issuer: &Issuer,
) -> Result<(Validity, Vec<String>), Error> {
    // An issuer that refuses leaves which outlive it does not refuse a CA, unless the request says so: the usual lifetimes of both are
    // the same, so that a CA signed a second later than its root was made would outlive it.
    let outliving = match issuer.outliving {
        Outliving::Refuse if !given.flag("enforce_leaf_not_after_behavior", false)? => {
            Outliving::Permit
        }
        said => said,
    };
    let bounds = Bounds {
        now: call.now,
        role: None,
        mount_default_secs: call.mount.default_lease_secs,
        mount_max_secs: call.mount.max_lease_secs,
        issuer: Some((&issuer.certificate, outliving)),
    };
    let (validity, of_ttl) = bounds.validity(given)?;
    let mut warnings = Vec::new();
    if validity.not_after > issuer.certificate.not_after {
        warnings.push(
            "The expiration time for the signed certificate is after the CA's expiration time. If \
             the new certificate is not treated as a root, validation paths with the certificate \
             past the issuing CA's expiration time will fail."
                .to_owned(),
        );
    }
    warnings.extend(of_ttl);
    Ok((validity, warnings))
}

pub(super) async fn sign_intermediate(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let given = GivenFields::of(&body);
    let authority = authority(&call, given)?;
    let format = CertificateFormat::read(given)?;
    let request = read_request(given)?;
    let (subject, alt_names) = subject_and_names(given, &request)?;
    let issuer = &authority.issuer.certificate;
    let (validity, mut warnings) = validity(&call, given, &authority.issuer)?;
    let mut contents = CertificateContents {
        serial: make_serial(&call)?,
        not_before: validity.not_before,
        not_after: validity.not_after,
        subject,
        public: request.public.clone(),
        purpose: CertificatePurpose::Ca {
            path_length: path_length(wanted::path_length(given)?, issuer)?,
            constraints: wanted::constraints(given)?,
            key_id: wanted::key_id(given)?,
        },
        usages: asked_ca_usages(given)?,
        ext_usages: named_ext_usages(given)?,
        alt_names: AltNames::Names(alt_names),
        urls: authority.urls.clone(),
        policies: Vec::new(),
        extra: Vec::new(),
    };
    if contents.urls == Urls::default() {
        warnings.push(NO_URLS.to_owned());
    }
    if let CertificatePurpose::Ca { path_length, .. } = contents.purpose {
        warnings.extend(warn_of_no_path(path_length, "signed"));
    }
    if given.flag("use_csr_values", false)? {
        let left_out = request.give_ca(&mut contents).map_err(refuse)?;
        warnings.extend(left_out.iter().map(|id| {
            format!(
                "the extension {id} of the CSR was left out: the certificate says what the request \
                 to sign it says, or the issuer"
            )
        }));
    }
    let wish = wanted::signature(given)?;
    let kept = Kept { certificate: true, metadata: None };
    let issued = sign_and_store(&call, &authority, contents, wish, kept).await?;
    let own = format.write(Label::Certificate, &issued.der);
    let above = authority.chain_text(format, false);
    let mut data = object([
        ("expiration", issued.contents.not_after.into()),
        ("issuing_ca", format.write(Label::Certificate, &issuer.der).into()),
        ("serial_number", issued.contents.serial.to_string().into()),
        ("ca_chain", Json::strings([own.into()].into_iter().chain(above.iter().cloned()))),
    ]);
    answer::certificate(
        &mut data,
        format,
        ("certificate", Label::Certificate, &issued.der),
        None,
        &above,
    )?;
    Ok(answer::data(data, warnings))
}

pub(super) async fn sign_self_issued(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let given = GivenFields::of(&body);
    let not_pem = || Error::invalid("certificate could not be PEM-decoded");
    let blocks = pem::read(&given.text("certificate")?).map_err(|_| not_pem())?;
    let [(Label::Certificate, der)] = &blocks[..] else { return Err(not_pem()) };
    let certificate = ParsedCertificate::from_der(der).map_err(refuse)?;
    if !certificate.is_ca {
        return Err(Error::invalid("given certificate is not a CA certificate"));
    }
    if certificate.subject != certificate.issuer {
        return Err(Error::invalid("given certificate is not self-issued"));
    }
    let authority = authority(&call, given)?;
    let kinds = (certificate.public.kind(), authority.key.private.kind());
    let same = kinds.0.is_some_and(|kind| kind.type_name() == kinds.1.type_name());
    if !same && given.flag("require_matching_certificate_algorithms", false)? {
        return Err(Error::invalid(
            "the given certificate's key type does not match that of the signing CA",
        ));
    }
    let issuer = &authority.issuer.certificate;
    if certificate.not_after > issuer.not_after && authority.issuer.outliving != Outliving::Permit {
        return Err(Error::invalid("the given certificate would outlive the signing CA"));
    }
    check_unused(&call, &authority, &certificate.serial)?;
    // One that sets itself no limit has that of who signs it.
    path_length(certificate.path_length, issuer)?;
    let signer = authority.issuer.signer(&authority.key, wanted::signature(given)?);
    let der = sign_again(&certificate.der, &signer, &authority.urls).map_err(refuse)?;
    note_unstored(&call, &authority).await?;
    let format = CertificateFormat::Pem;
    let data = object([
        ("certificate", format.write(Label::Certificate, &der).into()),
        ("issuing_ca", authority.issuer.pem().into()),
    ]);
    Ok(answer::data(data, Vec::new()))
}

/// Refuses a serial number that the issuer gave to another certificate: whoever revokes one of the two would revoke both.
fn check_unused(
    call: &Call<'_>,
    authority: &SigningAuthority,
    serial: &Serial,
) -> Result<(), Error> {
    let Some(record) = call.storage.get(&certificate_record(serial))? else { return Ok(()) };
    let known = StoredCertificate::decode(&record.value);
    match known {
        Some(known) if known.scope == authority.issuer.scope => Err(Error::invalid(format!(
            "the issuer has signed another certificate with the serial number {serial}"
        ))),
        _ => Ok(()),
    }
}

/// What a request says of a list that somebody else keeps.
struct ListRequest {
    number: u64,
    base: Option<u64>,
    this_update: i64,
    next_update: i64,
    format: CertificateFormat,
}

fn asked(call: &Call<'_>, given: GivenFields<'_>) -> Result<ListRequest, Error> {
    let number = given.whole("crl_number", -1)?;
    let number = u64::try_from(number)
        .map_err(|_| Error::invalid("crl_number is required, and is not negative"))?;
    let base = match given.whole("delta_crl_base_number", -1)? {
        -1 => None,
        base => Some(u64::try_from(base).ok().filter(|base| *base < number).ok_or_else(|| {
            Error::invalid("delta_crl_base_number must be -1, or at least 0 and below crl_number")
        })?),
    };
    let format = match given.text("format")?.as_str() {
        "" | "pem" => CertificateFormat::Pem,
        "der" => CertificateFormat::Der,
        other => {
            return Err(Error::invalid(format!(
                "unknown format value of {other}, expected pem or der"
            )));
        }
    };
    let this_update = call.now.as_second();
    let secs = given.secs("next_update", 72 * 3600)?;
    if secs <= 0 {
        return Err(Error::invalid("next_update must be greater than zero"));
    }
    Ok(ListRequest {
        number,
        base,
        this_update,
        next_update: this_update.saturating_add(secs),
        format,
    })
}

fn extensions(value: Option<&Json>) -> Result<Vec<ExtraExtension>, Error> {
    let items = match value {
        None | Some(Json::Null) => return Ok(Vec::new()),
        Some(Json::Array(items)) => items,
        Some(_) => return Err(Error::invalid("extensions is a list of objects")),
    };
    let read = |item: &Json| {
        let map = item.as_object();
        let map = map.ok_or_else(|| Error::invalid("extensions is a list of objects"))?;
        let given = GivenFields(Fields::new(map));
        let value = BASE64.decode(given.text("value")?.as_bytes());
        Ok(ExtraExtension {
            id: parse_oid(&given.text("id")?).map_err(refuse)?,
            critical: given.flag("critical", false)?,
            value: value.map_err(|_| Error::invalid("the value of an extension is no base64"))?,
        })
    };
    items.iter().map(read).collect()
}

fn entry(item: &Json) -> Result<(RevokedEntry, Vec<ExtraExtension>), Error> {
    let wrong = || Error::invalid("revoked_certs is a list of objects");
    let map = item.as_object().ok_or_else(wrong)?;
    let given = GivenFields(Fields::new(map));
    let text = given.text("serial_number")?;
    let serial = Serial::parse(&text).ok_or_else(|| {
        Error::invalid(format!("failed parsing serial_number from entry: {text}"))
    })?;
    // As `cert/SERIAL` and `revoke` tell it: in seconds since 1970, or in RFC 3339.
    let at = match given.text("revocation_time")?.parse() {
        Ok(at) => at,
        Err(_) => given.time("revocation_time")?.unwrap_or(0),
    };
    if at <= 0 {
        return Err(Error::invalid("revocation_time is required of every entry"));
    }
    Ok((RevokedEntry { serial, at }, extensions(map.get("extensions"))?))
}

fn signed_list(
    call: &Call<'_>,
    asked: &ListRequest,
    entries: &[(RevokedEntry, Vec<ExtraExtension>)],
    extra: &[ExtraExtension],
) -> Result<Response, Error> {
    let memory: &Pki = call.memory()?;
    let (issuer, key) = {
        let state = memory.read();
        let issuer = state.issuer(call.params.get("ref"))?;
        let key = issuer.key.and_then(|id| state.keys.get(&id)).cloned();
        (issuer, key)
    };
    let key = key.filter(|_| issuer.usage.signs_crls && issuer.certificate.may_sign_crls());
    let key = key.ok_or_else(|| {
        Error::invalid(format!("issuer {} has no key, or may not sign revocation lists", issuer.id))
    })?;
    let list = CrlContents {
        number: asked.number,
        this_update: asked.this_update,
        next_update: asked.next_update,
        base: asked.base,
        freshest: &[],
    };
    let entries = entries.iter().map(|(revoked, extra)| (*revoked, &extra[..]));
    let der = list.sign_all(entries, extra, &issuer.crl_signer(&key)).map_err(refuse)?;
    let text = asked.format.write(Label::Crl, &der);
    Ok(answer::data(object([("crl", text.into())]), Vec::new()))
}

pub(super) async fn sign_revocation_list(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let asked = asked(&call, GivenFields::of(&body))?;
    let items = match body.get("revoked_certs") {
        None | Some(Json::Null) => &[][..],
        Some(Json::Array(items)) => items,
        Some(_) => return Err(Error::invalid("revoked_certs is a list of objects")),
    };
    if items.len() > ENTRIES_MAX {
        return Err(Error::invalid(format!("more than {ENTRIES_MAX} revoked certificates")));
    }
    let mut entries = BTreeMap::new();
    for item in items {
        let (revoked, extra) = entry(item)?;
        if entries.insert(revoked.serial, (revoked, extra)).is_some() {
            return Err(Error::invalid(format!(
                "the serial number {} is listed twice",
                revoked.serial
            )));
        }
    }
    let entries: Vec<_> = entries.into_values().collect();
    let extra = extensions(body.get("extensions"))?;
    signed_list(&call, &asked, &entries, &extra)
}

/// Signs one list of what several lists of the same issuer say.
pub(super) async fn resign_crls(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let given = GivenFields::of(&body);
    let asked = asked(&call, given)?;
    let memory: &Pki = call.memory()?;
    let public = memory.read().issuer(call.params.get("ref"))?.certificate.public.clone();
    let mut entries: BTreeMap<Serial, (RevokedEntry, Vec<ExtraExtension>)> = BTreeMap::new();
    let texts = given.list("crls")?;
    if texts.is_empty() {
        return Err(Error::invalid("no CRLs were provided"));
    }
    for (at, text) in texts.iter().enumerate() {
        let unreadable = || Error::invalid(format!("unable to parse CRL at index {at}"));
        let der = match pem::read(text).map_err(|_| unreadable())?.into_iter().next() {
            Some((Label::Crl, der)) => der.to_vec(),
            Some(_) => return Err(unreadable()),
            None => BASE64.decode(text.as_bytes()).map_err(|_| unreadable())?,
        };
        let list = ParsedList::from_der(&der).map_err(|_| unreadable())?;
        if !list.is_signed_by(&public) {
            return Err(Error::invalid(format!(
                "the CRL at index {at} was not signed by the issuer"
            )));
        }
        for (revoked, extra) in list.revoked.into_iter().zip(list.extensions) {
            let known = entries.entry(revoked.serial).or_insert((revoked, extra));
            known.0.at = known.0.at.min(revoked.at);
        }
        if entries.len() > ENTRIES_MAX {
            return Err(Error::invalid(format!("more than {ENTRIES_MAX} revoked certificates")));
        }
    }
    let entries: Vec<_> = entries.into_values().collect();
    signed_list(&call, &asked, &entries, &[])
}
