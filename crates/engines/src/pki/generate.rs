//! Making CAs: roots that sign themselves, requests for CAs elsewhere, and keys.

use std::sync::Arc;

use kallisto_api::{Error, Response};
use kallisto_engine::Call;
use kallisto_pki::certificate::{
    AltNames, CertificateContents, CertificatePurpose, CertificateSigner, ParsedCertificate,
    Usages, usage_named,
};
use kallisto_pki::names::{NameRules, grant};
use kallisto_pki::pem::Label;
use kallisto_pki::request::Wish;
use kallisto_pki::{KeyUsages, PrivateKey, Serial, SignatureAlgorithm, SignatureWish};

use super::answer::{self, CertificateFormat, Exported, PrivateKeyFormat};
use super::given::{GivenFields, object, refuse};
use super::ids::IssuerId;
use super::issuer::{Issuer, PkiKey, UrlSettings};
use super::memory::{Pki, is_default};
use super::role::named_ext_usages;
use super::structure::change;
use super::wanted::{self, Bounds};

/// What is said when nothing says where to find what.
pub(super) const NO_URLS: &str = "This mount hasn't configured any authority information access (AIA) fields; this may make it \
     harder for systems to find missing certificates in the chain or to validate revocation status of \
     certificates. Consider updating /config/urls or the newly generated issuer with this information.";
const NO_URLS_ABOVE: &str = " Since this certificate is an intermediate, it might be useful to regenerate this certificate \
     after fixing this problem for the root mount.";

/// What is said of a CA that may sign no other one.
pub(super) fn warn_of_no_path(path_length: Option<u8>, made: &str) -> Option<String> {
    (path_length == Some(0)).then(|| {
        format!(
            "Max path length of the {made} certificate is zero. This certificate cannot be used to \
             issue intermediate CA certificates."
        )
    })
}

/// Where the key of a CA comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaKeySource {
    Internal,
    Exported,
    Existing,
}

impl CaKeySource {
    fn read(call: &Call<'_>) -> Result<Self, Error> {
        match call.params.get("kind") {
            "internal" => Ok(Self::Internal),
            "exported" => Ok(Self::Exported),
            "existing" => Ok(Self::Existing),
            "kms" => Err(Error::invalid(
                "keys of a key management system are not supported: use internal, exported or \
                 existing",
            )),
            _ => Err(Error::invalid(
                "the \"exported\" path parameter must be \"internal\", \"existing\", \"exported\" \
                 or \"kms\"",
            )),
        }
    }
}

/// A random serial number.
pub(super) fn make_serial(call: &Call<'_>) -> Result<Serial, Error> {
    let mut bytes = [0; 20];
    call.random.fill(&mut bytes)?;
    Ok(Serial::of_random(bytes))
}

/// A new key, made elsewhere if it takes long.
pub(super) async fn make_key(
    call: &Call<'_>,
    kind: kallisto_pki::PkiKeyKind,
) -> Result<PrivateKey, Error> {
    if matches!(kind, kallisto_pki::PkiKeyKind::Rsa(_)) {
        return call.run_heavy(move || PrivateKey::make(kind)).await?.map_err(refuse);
    }
    PrivateKey::make(kind).map_err(refuse)
}

/// The rules for names of CAs: there are none, but that they are names.
pub(super) fn free_rules() -> NameRules {
    NameRules {
        allow_any_name: true,
        allow_wildcards: true,
        allow_ip_sans: true,
        uri_sans: vec!["*".to_owned()],
        other_sans: vec!["*".to_owned()],
        serial_numbers: vec!["*".to_owned()],
        user_ids: vec!["*".to_owned()],
        // The common name of a CA is free text.
        cn_validations: vec!["disabled".to_owned()],
        ..NameRules::default()
    }
}

/// What a CA's key may do.
pub(super) fn ca_usages() -> Usages {
    KeyUsages::KeyCertSign | KeyUsages::CRLSign
}

/// The same, and what a request's body asks for besides.
pub(super) fn asked_ca_usages(given: GivenFields<'_>) -> Result<Usages, Error> {
    let asked = given.list("key_usage")?;
    asked.iter().try_fold(ca_usages(), |usages, name| {
        usage_named(name).map(|usage| usages | usage).map_err(refuse)
    })
}

/// The key that a request for a CA is about, and whether it is new.
async fn key_of(
    call: &Call<'_>,
    given: GivenFields<'_>,
    source: CaKeySource,
) -> Result<(Arc<PkiKey>, bool), Error> {
    if source == CaKeySource::Existing {
        let memory: &Pki = call.memory()?;
        let reference = given.text_or("key_ref", "default")?;
        let key = memory.read().key(&reference)?;
        return Ok((key, false));
    }
    let private = make_key(call, wanted::key_kind(given)?).await?;
    let key = PkiKey {
        id: IssuerId::make(call.random)?,
        name: given.text("key_name")?,
        is_imported: false,
        private: Arc::new(private),
    };
    Ok((Arc::new(key), true))
}

pub(super) async fn generate_root(call: Call<'_>) -> Result<Response, Error> {
    make_root(&call, None).await
}

pub(super) async fn rotate_root(call: Call<'_>) -> Result<Response, Error> {
    make_root(&call, Some("next")).await
}

async fn make_root(call: &Call<'_>, usual_name: Option<&str>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let given = GivenFields::of(&body);
    let source = CaKeySource::read(call)?;
    let memory: &Pki = call.memory()?;
    let format = CertificateFormat::read(given)?;
    let key_format = PrivateKeyFormat::read(given)?;
    let (name, takes_name) = match (given.text("issuer_name")?, usual_name) {
        (asked, Some(usual)) if asked.is_empty() => (usual.to_owned(), true),
        (asked, _) => (asked, false),
    };
    let names = wanted::ca_names(given)?;
    if names.common_name.is_empty() {
        return Err(Error::invalid(
            "the common_name field is required: validators reject what is issued by a CA without a \
             subject",
        ));
    }
    let granted = grant(&free_rules(), &names).map_err(refuse)?;
    let subject = wanted::subject(given, &names.common_name)?.to_der().map_err(refuse)?;
    let bounds = Bounds {
        now: call.now,
        role: None,
        mount_default_secs: call.mount.default_lease_secs,
        mount_max_secs: call.mount.max_lease_secs,
        issuer: None,
    };
    let (validity, mut warnings) = bounds.validity(given)?;
    let wish = wanted::signature(given)?;
    let path_length = wanted::path_length(given)?;
    let constraints = wanted::constraints(given)?;
    let (usages, ext_usages) = (asked_ca_usages(given)?, named_ext_usages(given)?);
    // A name that is taken is refused before a key is made, which takes long.
    check_free(memory, &name, takes_name, &given.text("key_name")?)?;
    let (key, is_new) = key_of(call, given, source).await?;
    let id = IssuerId::make(call.random)?;
    let urls = memory.read().urls_of(id, &UrlSettings::default())?;
    if urls == kallisto_pki::certificate::Urls::default() {
        warnings.push(NO_URLS.to_owned());
    }
    warnings.extend(warn_of_no_path(path_length, "generated"));
    let contents = CertificateContents {
        serial: make_serial(call)?,
        not_before: validity.not_before,
        not_after: validity.not_after,
        subject,
        public: key.private.public().clone(),
        purpose: CertificatePurpose::Ca { path_length, constraints, key_id: None },
        usages,
        ext_usages,
        alt_names: AltNames::Names(granted.alt_names),
        urls,
        policies: Vec::new(),
        extra: Vec::new(),
    };
    let der = sign_by_itself(&contents, &key.private, wish)?;
    let certificate = ParsedCertificate::from_der(&der).map_err(refuse)?;
    let issuer = Issuer::new(id, name, Some(key.id), certificate);
    keep_root(call, &issuer, takes_name, is_new.then_some(&key)).await?;
    let mut data = object([
        ("expiration", validity.not_after.into()),
        ("issuer_id", issuer.id.to_string().into()),
        ("issuer_name", issuer.name.as_str().into()),
        ("issuing_ca", format.write(Label::Certificate, &der).into()),
        ("key_id", key.id.to_string().into()),
        ("key_name", key.name.as_str().into()),
        ("serial_number", contents.serial.to_string().into()),
    ]);
    let exported = Exported { key: &key.private, format: key_format };
    let exported = (source == CaKeySource::Exported).then_some(&exported);
    answer::certificate(
        &mut data,
        format,
        ("certificate", Label::Certificate, &der),
        exported,
        &[],
    )?;
    Ok(answer::data(data, warnings))
}

/// Signs the certificate of a root with its own key.
fn sign_by_itself(
    contents: &CertificateContents,
    key: &PrivateKey,
    wish: SignatureWish,
) -> Result<Vec<u8>, Error> {
    let signer = CertificateSigner {
        name: &contents.subject,
        key_id: &contents.public.key_id(),
        key,
        algorithm: SignatureAlgorithm::choose(key.kind(), wish),
    };
    contents.sign(&signer).map_err(refuse)
}

/// Stores a root that was made, with its key if that is new too.
async fn keep_root(
    call: &Call<'_>,
    issuer: &Issuer,
    takes_name: bool,
    new_key: Option<&Arc<PkiKey>>,
) -> Result<(), Error> {
    let name = &issuer.name;
    change(call, |change| {
        if takes_name && let Ok(holder) = change.state.issuer(name) {
            // The latest rotation has the name; the one before keeps its id.
            change.put_issuer(&Issuer { name: String::new(), ..(*holder).clone() })?;
        } else if !name.is_empty() {
            change.check_issuer_name(name, None)?;
        }
        if let Some(key) = new_key {
            if !key.name.is_empty() {
                change.check_key_name(&key.name, None)?;
            }
            change.put_key(key)?;
        }
        change.put_new_issuer(issuer)?;
        change.put_certificate(&issuer.certificate, issuer.scope)
    })
    .await
}

/// Checks names early, without a promise that they are free later.
fn check_free(memory: &Pki, issuer: &str, takes_name: bool, key: &str) -> Result<(), Error> {
    let state = memory.read();
    if is_default(issuer) || is_default(key) {
        let what = if is_default(issuer) { "issuer" } else { "key" };
        return Err(Error::invalid(format!(
            "reserved keyword 'default' can not be used as {what} name"
        )));
    }
    if !takes_name && !issuer.is_empty() && state.has_issuer_name(issuer) {
        return Err(Error::invalid("issuer name already in use"));
    }
    if !key.is_empty() && state.has_key_name(key) {
        return Err(Error::invalid("key name already in use"));
    }
    Ok(())
}

pub(super) async fn generate_intermediate(call: Call<'_>) -> Result<Response, Error> {
    let source = CaKeySource::read(&call)?;
    make_intermediate(&call, source).await
}

/// A request for a key that there is, to be signed by another CA as well.
pub(super) async fn cross_sign(call: Call<'_>) -> Result<Response, Error> {
    make_intermediate(&call, CaKeySource::Existing).await
}

async fn make_intermediate(call: &Call<'_>, source: CaKeySource) -> Result<Response, Error> {
    let body = call.request.object()?;
    let given = GivenFields::of(&body);
    let memory: &Pki = call.memory()?;
    let format = CertificateFormat::read(given)?;
    let key_format = PrivateKeyFormat::read(given)?;
    let names = wanted::ca_names(given)?;
    let granted = grant(&free_rules(), &names).map_err(refuse)?;
    let subject = wanted::subject(given, &names.common_name)?.to_der().map_err(refuse)?;
    let wish = wanted::signature(given)?;
    check_free(memory, "", false, &given.text("key_name")?)?;
    let (key, is_new) = key_of(call, given, source).await?;
    let asked = Wish {
        subject,
        alt_names: granted.alt_names,
        says_ca: given.flag("add_basic_constraints", false)?,
    };
    let algorithm = SignatureAlgorithm::choose(key.private.kind(), wish);
    let der = asked.sign(&key.private, algorithm).map_err(refuse)?;
    if is_new {
        change(call, |change| {
            if !key.name.is_empty() {
                change.check_key_name(&key.name, None)?;
            }
            change.put_key(&key)
        })
        .await?;
    }
    let mut data = object([("key_id", key.id.to_string().into())]);
    let exported = Exported { key: &key.private, format: key_format };
    let exported = (source == CaKeySource::Exported).then_some(&exported);
    answer::certificate(&mut data, format, ("csr", Label::Request, &der), exported, &[])?;
    let mut warnings = Vec::new();
    if memory.read().urls.is_empty() {
        warnings.push(format!("{NO_URLS}{NO_URLS_ABOVE}"));
    }
    Ok(answer::data(data, warnings))
}

pub(super) async fn generate_key(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let given = GivenFields::of(&body);
    let source = CaKeySource::read(&call)?;
    if source == CaKeySource::Existing {
        return Err(Error::UnsupportedPath);
    }
    let memory: &Pki = call.memory()?;
    wanted::key_kind(given).map_err(|error| match error {
        Error::Invalid(why) => {
            Error::invalid(format!("Validation for key_type, key_bits failed: {why}"))
        }
        other => other,
    })?;
    check_free(memory, "", false, &given.text("key_name")?)?;
    let (key, _) = key_of(&call, given, source).await?;
    change(&call, |change| {
        if !key.name.is_empty() {
            change.check_key_name(&key.name, None)?;
        }
        change.put_key(&key)
    })
    .await?;
    let mut data = key.shown();
    if source == CaKeySource::Exported {
        let written = PrivateKeyFormat::read(given)?.write(CertificateFormat::Pem, &key.private)?;
        data.insert("private_key".to_owned(), written.as_str().into());
    }
    Ok(answer::data(data, Vec::new()))
}
