//! Issuing certificates: for keys that are made here, and for those of requests.

use std::sync::Arc;

use kallisto_api::json::{self, Json};
use kallisto_api::{BoxFuture, Error, Response};
use kallisto_engine::{Call, NewLease, WriteOutcome};
use kallisto_pki::certificate::{
    AltNames, CERTIFICATE_BYTES_MAX, CertificateContents, CertificatePurpose, Urls, Usages,
    usage_named,
};
use kallisto_pki::names::{GrantedNames, WantedNames, grant};
use kallisto_pki::pem::{self, Label};
use kallisto_pki::request::CertificateRequest;
use kallisto_pki::{CertificateSubject, PrivateKey, PublicKey, SignatureWish};
use zeroize::Zeroizing;

use super::answer::{self, CertificateFormat, Exported, PrivateKeyFormat};
use super::authority::{SigningAuthority, asked_issuer};
use super::generate::{make_key, make_serial};
use super::given::{GivenFields, refuse};
use super::memory::{Pki, PkiState};
use super::metadata::{WantedMetadata, metadata_record};
use super::revoked::{Lists, StoredCertificate, certificate_record, lists_record};
use super::role::{PkiRole, named_ext_usages};
use super::templates;
use super::wanted::{self, Bounds, Validity};

/// A certificate that was made.
pub(super) struct IssuedCertificate {
    pub(super) contents: CertificateContents,
    pub(super) der: Vec<u8>,
}

/// The request that a body brings.
///
/// # Errors
/// [`Error::Invalid`] for what is none.
pub(super) fn read_request(given: GivenFields<'_>) -> Result<CertificateRequest, Error> {
    let text = given.text("csr")?;
    if text.is_empty() {
        return Err(Error::invalid("\"csr\" is empty"));
    }
    let no_data = || Error::invalid("csr contains no data");
    let blocks = pem::read(&text).map_err(|_| no_data())?;
    let mut requests = blocks.iter().filter(|(label, _)| *label == Label::Request);
    let (_, der) = requests.next().ok_or_else(no_data)?;
    CertificateRequest::from_der(der).map_err(refuse)
}

fn role_of(name: &str, state: &PkiState) -> Result<Arc<PkiRole>, Error> {
    let found = state.roles.get(name).cloned();
    found.ok_or_else(|| Error::invalid(format!("unknown role: {name}")))
}

/// The role that a path names, and the issuer that the path or the role does.
fn role_and_authority(
    call: &Call<'_>,
    memory: &Pki,
) -> Result<(Arc<PkiRole>, SigningAuthority), Error> {
    let state = memory.read();
    let role = role_of(call.params.get("role"), &state)?;
    let authority = SigningAuthority::of(&state, reference(call, &role))?;
    Ok((role, authority))
}

/// The issuer that a path or a role names.
fn reference<'a>(call: &Call<'a>, role: &'a PkiRole) -> &'a str {
    match call.params.get("ref") {
        "" => &role.issuer_ref,
        reference => reference,
    }
}

fn bounds<'a>(
    call: &Call<'_>,
    role: Option<&'a PkiRole>,
    authority: &'a SigningAuthority,
) -> Bounds<'a> {
    Bounds {
        now: call.now,
        role,
        mount_default_secs: call.mount.default_lease_secs,
        mount_max_secs: call.mount.max_lease_secs,
        issuer: Some((&authority.issuer.certificate, authority.issuer.outliving)),
    }
}

/// Whether a key is of the kind that a role wants: of its type, and with bits enough.
pub(super) fn check_key(role: &PkiRole, public: &PublicKey) -> Result<(), Error> {
    let Some(kind) = public.kind() else {
        return Err(Error::invalid("the key is of a type that is not supported"));
    };
    let Some(wanted) = role.key_kind else { return Ok(()) };
    if wanted.type_name() != kind.type_name() {
        return Err(Error::invalid(format!("role requires keys of type {}", wanted.type_name())));
    }
    if kind.bits() < wanted.bits() {
        return Err(Error::invalid(format!(
            "role requires a minimum of a {}-bit key, but CSR's key is {} bits",
            wanted.bits(),
            kind.bits()
        )));
    }
    Ok(())
}

/// What a role and its names make of a certificate.
pub(super) fn contents(
    call: &Call<'_>,
    role: &PkiRole,
    (public, names): (PublicKey, GrantedNames),
    (wanted, validity): (&WantedNames, Validity),
    urls: Urls,
) -> Result<CertificateContents, Error> {
    let subject = CertificateSubject {
        common_name: names.common_name,
        serial_number: wanted.serial_number.clone(),
        user_ids: wanted.user_ids.clone(),
        ..role.subject.clone()
    };
    Ok(CertificateContents {
        serial: make_serial(call)?,
        not_before: validity.not_before,
        not_after: validity.not_after,
        subject: subject.to_der().map_err(refuse)?,
        public,
        purpose: CertificatePurpose::Leaf { says_so: role.says_no_ca },
        usages: role.usages,
        ext_usages: role.ext_usages.clone(),
        alt_names: AltNames::Names(names.alt_names),
        urls,
        policies: role.policies.clone(),
        extra: Vec::new(),
    })
}

/// What is kept of a certificate.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    /// Whether the certificate is.
    pub(super) certificate: bool,
    /// What is kept with its number.
    pub(super) metadata: Option<WantedMetadata>,
}

/// Signs a certificate and keeps it, if it is to be kept.
pub(super) async fn sign_and_store(
    call: &Call<'_>,
    authority: &SigningAuthority,
    contents: CertificateContents,
    wish: SignatureWish,
    kept: Kept,
) -> Result<IssuedCertificate, Error> {
    let (contents, der) = sign_contents(call, authority, contents, wish).await?;
    let scope = authority.issuer.scope;
    if !kept.certificate {
        note_unstored(call, authority).await?;
    }
    let mut records = Vec::new();
    if kept.certificate {
        let record = StoredCertificate { scope, not_after: contents.not_after, der: &der };
        records.push((certificate_record(&contents.serial), record.encode()));
    }
    if let Some(metadata) = kept.metadata {
        let record = metadata.encode(authority.issuer.id, contents.not_after);
        records.push((metadata_record(&contents.serial), record));
    }
    if !records.is_empty() && call.storage.create(records).await? == WriteOutcome::Conflict {
        return Err(Error::internal(&"a random serial number was drawn twice"));
    }
    Ok(IssuedCertificate { contents, der })
}

/// Signs a certificate, elsewhere if it takes long.
pub(super) async fn sign_contents(
    call: &Call<'_>,
    authority: &SigningAuthority,
    contents: CertificateContents,
    wish: SignatureWish,
) -> Result<(CertificateContents, Vec<u8>), Error> {
    let (issuer, key) = (Arc::clone(&authority.issuer), Arc::clone(&authority.key));
    let signs_slowly = key.private.signs_slowly();
    let work = move || {
        let der = contents.sign(&issuer.signer(&key, wish));
        der.map(|der| (contents, der))
    };
    let signed = if signs_slowly { call.run_heavy(work).await? } else { work() };
    let (contents, der) = signed.map_err(refuse)?;
    // A longer one is not read any more, so it could not be revoked.
    if der.len() > CERTIFICATE_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a certificate of more than {CERTIFICATE_BYTES_MAX} bytes"
        )));
    }
    Ok((contents, der))
}

/// Writes down, once, that a CA issued what is not stored: then a serial number that nobody knows may be one of its.
pub(super) async fn note_unstored(
    call: &Call<'_>,
    authority: &SigningAuthority,
) -> Result<(), Error> {
    let memory: &Pki = call.memory()?;
    let scope = authority.issuer.scope;
    let is_noted = {
        let state = memory.read();
        state.signing.get(&scope).is_some_and(|signing| signing.lists.has_unstored)
    };
    if is_noted {
        return Ok(());
    }
    let name = lists_record(scope);
    call.storage
        .transact(&name, |transaction| {
            let lists = match transaction.get(&name)? {
                Some(record) => record.decode(Lists::decode)?,
                None => Lists::default(),
            };
            transaction.put(&name, Lists { has_unstored: true, ..lists }.encode())
        })
        .await
}

/// The answer's data for a certificate that was just issued, as text: most of what is issued is told so, and a tree of it would be made for nothing.
fn issued_data(
    authority: &SigningAuthority,
    issued: &IssuedCertificate,
    format: CertificateFormat,
    exported: Option<&Exported<'_>>,
    given: GivenFields<'_>,
) -> Result<Vec<u8>, Error> {
    let removes_roots = given.flag("remove_roots_from_chain", false)?;
    let chain = authority.chain_text(format, removes_roots);
    let told = answer::told(format, Label::Certificate, &issued.der, exported, &chain)?;
    let mut data = answer::DataText::new();
    // In the order of their names, as all objects are told.
    if !chain.is_empty() {
        data.texts("ca_chain", &chain);
    }
    data.text("certificate", &told.certificate);
    data.number("expiration", issued.contents.not_after);
    data.text("issuing_ca", &format.write_issuer(&authority.issuer));
    data.number("not_before", issued.contents.not_before);
    if let Some((private_key, type_name)) = &told.private_key {
        data.text("private_key", private_key);
        data.text("private_key_type", type_name);
    }
    data.text("serial_number", &issued.contents.serial.to_string());
    Ok(data.finish())
}

pub(super) async fn issue(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let given = GivenFields::of(&body);
    let memory: &Pki = call.memory()?;
    let (role, authority) = role_and_authority(&call, memory)?;
    let format = CertificateFormat::read(given)?;
    let key_format = PrivateKeyFormat::read(given)?;
    let kind = match role.key_kind {
        Some(kind) => kind,
        None => wanted::key_kind(given)?,
    };
    let names = wanted::names(given)?;
    let granted = grant(templates::rules(&call, &role)?.as_ref(), &names).map_err(refuse)?;
    let (validity, mut warnings) = bounds(&call, Some(&role), &authority).validity(given)?;
    warnings.extend(ignored_key(&role, given)?);
    let metadata = WantedMetadata::read(&call, &role, given)?;
    let ready = memory.pool.take(kind, call.now.as_second());
    let private = match ready {
        Some(private) => private,
        None => make_key(&call, kind).await?,
    };
    let public = private.public().clone();
    let urls = authority.urls.clone();
    let contents = contents(&call, &role, (public, granted), (&names, validity), urls)?;
    let key = Some((private, key_format));
    let handout = Handout { role, authority, contents, format, key, metadata };
    handout.finish(call, given, warnings).await
}

/// A certificate that is about to be handed out.
struct Handout {
    role: Arc<PkiRole>,
    authority: SigningAuthority,
    contents: CertificateContents,
    format: CertificateFormat,
    key: Option<(PrivateKey, PrivateKeyFormat)>,
    metadata: Option<WantedMetadata>,
}

impl Handout {
    async fn finish(
        self,
        call: Call<'_>,
        given: GivenFields<'_>,
        warnings: Vec<String>,
    ) -> Result<Response, Error> {
        if !self.role.generates_lease {
            let data = self.make(&call, given).await?;
            return Ok(answer::data_text(data, warnings));
        }
        let lives = self.contents.not_after.saturating_sub(call.now.as_second());
        let lives = u64::try_from(lives).unwrap_or(0);
        let lease = NewLease {
            ttl_secs: lives,
            role_max_secs: lives,
            renewable: false,
            revocation: self.contents.serial.as_bytes().to_vec(),
            ..NewLease::default()
        };
        let body = call.request.object()?;
        let leased = call.issue(lease, move |_| -> BoxFuture<'_, Result<Json, Error>> {
            Box::pin(async move {
                let data = Zeroizing::new(self.make(&call, GivenFields::of(&body)).await?);
                json::parse(&data).map_err(|error| Error::internal(&error))
            })
        });
        Ok(match leased.await? {
            Response::Logical(mut logical) => {
                logical.warnings.extend(warnings);
                Response::Logical(logical)
            }
            other => other,
        })
    }

    async fn make(self, call: &Call<'_>, given: GivenFields<'_>) -> Result<Vec<u8>, Error> {
        let kept = Kept { certificate: !self.role.stores_nothing, metadata: self.metadata };
        let wish = self.role.signature;
        let issued = sign_and_store(call, &self.authority, self.contents, wish, kept).await?;
        let exported = self.key.as_ref().map(|(key, format)| Exported { key, format: *format });
        issued_data(&self.authority, &issued, self.format, exported.as_ref(), given)
    }
}

pub(super) async fn sign(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let given = GivenFields::of(&body);
    let memory: &Pki = call.memory()?;
    let (role, authority) = role_and_authority(&call, memory)?;
    let format = CertificateFormat::read(given)?;
    let request = read_request(given)?;
    check_key(&role, &request.public)?;
    let names = names_of(&role, &request, given)?;
    let granted = grant(templates::rules(&call, &role)?.as_ref(), &names).map_err(refuse)?;
    let mut warnings = ignored_names(&role, &names, given)?;
    let (validity, of_ttl) = bounds(&call, Some(&role), &authority).validity(given)?;
    warnings.extend(of_ttl);
    warnings.extend(ignored_constraints(&request, role.says_no_ca));
    let public = request.public.clone();
    let urls = authority.urls.clone();
    let contents = contents(&call, &role, (public, granted), (&names, validity), urls)?;
    let metadata = WantedMetadata::read(&call, &role, given)?;
    let handout = Handout { role, authority, contents, format, key: None, metadata };
    handout.finish(call, given, warnings).await
}

/// The names that a role takes of a request, and else of the body: one list, which is judged as a whole.
fn names_of(
    role: &PkiRole,
    request: &CertificateRequest,
    given: GivenFields<'_>,
) -> Result<WantedNames, Error> {
    let mut names = wanted::names(given)?;
    let subject = &request.subject;
    if names.serial_number.is_empty() {
        names.serial_number.clone_from(&subject.serial_number);
    }
    if names.user_ids.is_empty() {
        names.user_ids.clone_from(&subject.user_ids);
    }
    if role.uses_csr_common_name && !subject.common_name.is_empty() {
        names.common_name.clone_from(&subject.common_name);
    }
    if role.uses_csr_names {
        let body = names;
        names = WantedNames { is_of_csr: true, ..csr_names(request)? };
        names.common_name = body.common_name;
        names.serial_number = body.serial_number;
        names.user_ids = body.user_ids;
        names.excludes_cn = body.excludes_cn;
    }
    Ok(names)
}

/// What is said of names in the body that are not in the certificate, because the role takes those of the request.
fn ignored_names(
    role: &PkiRole,
    taken: &WantedNames,
    given: GivenFields<'_>,
) -> Result<Vec<String>, Error> {
    let mut ignored = Vec::new();
    let common_name = given.text("common_name")?;
    if !common_name.is_empty() && common_name != taken.common_name {
        ignored.push(("common_name", "use_csr_common_name"));
    }
    if role.uses_csr_names {
        for field in ["alt_names", "ip_sans", "uri_sans", "other_sans"] {
            if !given.list(field)?.is_empty() {
                ignored.push((field, "use_csr_sans"));
            }
        }
    }
    let warn = |(field, flag)| {
        format!("the {field} field was provided but the role is set with {flag:?} set to true")
    };
    Ok(ignored.into_iter().map(warn).collect())
}

/// What is said of a request that says whether it is for a CA: what is issued for it says that it is not, or nothing.
fn ignored_constraints(request: &CertificateRequest, says_no_ca: bool) -> Option<String> {
    let is_ignored = request.has_basic_constraints && !says_no_ca;
    is_ignored.then(|| {
        "specified CSR contained a Basic Constraints extension that was ignored during issuance"
            .to_owned()
    })
}

/// What is said of a kind of key in the body that is not that of the role.
fn ignored_key(role: &PkiRole, given: GivenFields<'_>) -> Result<Option<String>, Error> {
    let Some(kind) = role.key_kind else { return Ok(None) };
    let (name, bits) = (given.text("key_type")?, given.whole("key_bits", 0)?);
    let is_other = (!name.is_empty() && name != kind.type_name())
        || (bits != 0 && bits != i64::from(kind.bits()));
    let warning = "parameters key_type and key_bits ignored as role had specific values";
    Ok(is_other.then(|| warning.to_owned()))
}

/// The common name of a request, as what was taken of it.
fn csr_subject(request: &CertificateRequest) -> WantedNames {
    let common_name = request.subject.common_name.clone();
    WantedNames { common_name, ..WantedNames::default() }
}

/// The alternative names of a request.
///
/// # Errors
/// [`Error::Invalid`] when it has one that no rule is about.
pub(super) fn csr_names(request: &CertificateRequest) -> Result<WantedNames, Error> {
    let mut names = WantedNames::default();
    for san in request.alt_names.clone().map_err(refuse)? {
        match san {
            kallisto_pki::San::Dns(name) | kallisto_pki::San::Email(name) => names.names.push(name),
            kallisto_pki::San::Ip(ip) => names.ips.push(ip),
            kallisto_pki::San::Uri(uri) => names.uris.push(uri),
            kallisto_pki::San::Other(oid, text) => names.others.push((oid, text)),
        }
    }
    Ok(names)
}

/// The role that the path names, if it does, and the issuer: that of the path, of the role, or of the body.
fn verbatim_role_and_authority(
    call: &Call<'_>,
    given: GivenFields<'_>,
) -> Result<(Option<Arc<PkiRole>>, SigningAuthority), Error> {
    let memory: &Pki = call.memory()?;
    let state = memory.read();
    let role = match call.params.get("role") {
        "" => None,
        name => Some(role_of(name, &state)?),
    };
    let authority = match &role {
        Some(role) => SigningAuthority::of(&state, reference(call, role))?,
        None => SigningAuthority::of(&state, &asked_issuer(call, given)?)?,
    };
    Ok((role, authority))
}

/// What is said of a role in the body, where a path without one stands for signing by none.
fn ignored_role(given: GivenFields<'_>) -> Option<String> {
    given.has("role").then(|| {
        "Endpoint replaced the value of these parameters with the values captured from the \
         endpoint's path: [role]"
            .to_owned()
    })
}

pub(super) async fn sign_verbatim(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let given = GivenFields::of(&body);
    let (named, authority) = verbatim_role_and_authority(&call, given)?;
    let format = CertificateFormat::read(given)?;
    let request = read_request(given)?;
    let mut role = PkiRole::verbatim()?;
    // Of a role its times, its issuer and what is kept count, and nothing else.
    if let Some(named) = &named {
        role.ttl = named.ttl;
        role.max_ttl = named.max_ttl;
        // Who may sign as it is may also say until when; its bound holds even so.
        let says_when = given.has("ttl") || given.has("not_after");
        role.not_after = named.not_after.filter(|_| !says_when);
        role.not_after_bound = named.not_after_bound.clone();
        role.not_before = named.not_before;
        role.not_before_bound = named.not_before_bound;
        role.not_before_secs = named.not_before_secs;
        role.stores_nothing = named.stores_nothing;
        role.stores_no_metadata = named.stores_no_metadata;
        role.generates_lease = named.generates_lease;
    } else if given.has("not_before_duration") {
        role.not_before_secs = given.secs("not_before_duration", 30)?;
    }
    check_key(&role, &request.public)?;
    if let Some(usages) = given.list_given("key_usage")? {
        let usages = usages.iter().map(|name| usage_named(name).map_err(refuse));
        let usages = usages.collect::<Result<Vec<_>, _>>()?;
        role.usages = usages.into_iter().fold(Usages::default(), |all, one| all | one);
    } else if let Some(usages) = request.usages().map_err(refuse)? {
        role.usages = usages;
    }
    role.ext_usages = named_ext_usages(given)?;
    if role.ext_usages.is_empty() {
        role.ext_usages = request.ext_usages().map_err(refuse)?.unwrap_or_default();
    }
    role.signature = wanted::signature(given)?;
    let says_no_ca = given.flag("basic_constraints_valid_for_non_ca", false)?;
    let mut warnings = ignored_names(&role, &csr_subject(&request), given)?;
    let (validity, of_ttl) = bounds(&call, Some(&role), &authority).validity(given)?;
    warnings.extend(of_ttl);
    warnings.extend(ignored_constraints(&request, says_no_ca));
    warnings.extend(ignored_role(given));
    let contents = CertificateContents {
        serial: make_serial(&call)?,
        not_before: validity.not_before,
        not_after: validity.not_after,
        subject: request.subject_der.clone(),
        public: request.public.clone(),
        purpose: CertificatePurpose::Leaf { says_so: says_no_ca },
        usages: role.usages,
        ext_usages: role.ext_usages.clone(),
        alt_names: AltNames::Names(request.alt_names.clone().map_err(refuse)?),
        urls: authority.urls.clone(),
        policies: Vec::new(),
        extra: request.extra(),
    };
    let metadata = WantedMetadata::read(&call, &role, given)?;
    let role = Arc::new(role);
    let handout = Handout { role, authority, contents, format, key: None, metadata };
    handout.finish(call, given, warnings).await
}
