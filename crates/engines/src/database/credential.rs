//! What a user of a database logs in with: a password, a key of RSA whose public half the database keeps, or a certificate of a client.
//!
//! ```text
//! password              {{password}}
//! rsa_private_key       {{public_key}}   PEM of the SubjectPublicKeyInfo
//! client_certificate    {{subject}}      "CN=" and the common name, which is the user's name when no template says otherwise
//! ```
//!
//! Invariants:
//! - A private key is in the answer of whoever asked, and is kept nowhere.
//! - A certificate is good for as long as its lease, which is not renewed, and no longer than its authority.
//! - The key of an authority is never read back.

use data_encoding::BASE64;
use jiff::Timestamp;
use kallisto_api::json::{Json, Map};
use kallisto_api::{Error, Fields};
use kallisto_engine::Call;
use kallisto_pki::certificate::{
    AltNames, CLIENT_AUTH, CertificateContents, CertificatePurpose, CertificateSigner, Urls,
};
use kallisto_pki::pem::{self, Label};
use kallisto_pki::{
    CertificateSubject, Hash, KeyUsages, ObjectIdentifier, PkiKeyKind, PrivateKey, PrivateKeyForm,
    Serial, SignatureAlgorithm, SignatureWish, certificate::ParsedCertificate, serial,
};
use secrecy::{ExposeSecret, SecretString};

use crate::passwords::make_password;
use crate::username::{self, UsernameFacts};

/// The field with the key of an authority.
const AUTHORITY_KEY: &str = "ca_private_key";
/// Bytes of a line of PEM: 64 characters.
const PEM_LINE_BYTES: usize = 48;
/// How long before it is issued a certificate is good, in seconds: clocks differ.
const BACKDATE_SECS: i64 = 30;

/// How the credentials of a role are made.
#[derive(Debug)]
pub(super) enum CredentialPlan {
    Password { policy: String },
    RsaKey(PkiKeyKind),
    Certificate(Box<CertificatePlan>),
}

/// How certificates are made.
#[derive(Debug)]
pub(super) struct CertificatePlan {
    kind: PkiKeyKind,
    /// Of the common name; empty for the name of the user.
    template: String,
    authority: ParsedCertificate,
    key: PrivateKey,
    algorithm: SignatureAlgorithm,
}

/// A credential, before the lease says when it ends.
pub(super) enum UserCredential {
    Password(SecretString),
    RsaKey { private: SecretString, public: String },
    Certificate { key: Box<PrivateKey>, common_name: String, plan: Box<CertificatePlan> },
}

fn refused(error: kallisto_pki::Error) -> Error {
    match error {
        kallisto_pki::Error::Invalid(why) => Error::Invalid(why),
        kallisto_pki::Error::Machine(what) => Error::internal(&what),
    }
}

/// The type that a role names.
///
/// # Errors
/// [`Error::Invalid`] for another one.
pub(super) fn credential_type(given: &str) -> Result<String, Error> {
    match given {
        "" => Ok("password".to_owned()),
        "password" | "rsa_private_key" | "client_certificate" => Ok(given.to_owned()),
        other => Err(Error::invalid(format!("invalid credential_type {other:?}"))),
    }
}

/// What a configuration of a type says; other fields are not kept.
pub(super) fn config_fields(credential_type: &str) -> &'static [&'static str] {
    match credential_type {
        "rsa_private_key" => &["format", "key_bits"],
        "client_certificate" => &[
            "ca_cert",
            AUTHORITY_KEY,
            "common_name_template",
            "key_bits",
            "key_type",
            "signature_bits",
        ],
        _ => &["password_policy"],
    }
}

/// A configuration as it is shown: without the key of its authority, and with what keys of RSA are where it does not say.
pub(super) fn shown(credential_type: &str, config: &Map) -> Map {
    let mut shown = config.clone();
    shown.retain(|name, _| config_fields(credential_type).contains(&name.as_str()));
    shown.remove(AUTHORITY_KEY);
    if let Ok(CredentialPlan::RsaKey(PkiKeyKind::Rsa(bits))) =
        CredentialPlan::read(credential_type, config)
    {
        shown.insert("key_bits".to_owned(), u64::from(bits).into());
        let is_open = |format: &Json| *format == Json::from("");
        if shown.get("format").is_none_or(is_open) {
            shown.insert("format".to_owned(), "pkcs8".into());
        }
    }
    shown
}

/// A configuration that was given, with the key that was there before where it names the same authority and no key.
pub(super) fn with_key_before(mut given: Map, before: &Map) -> Map {
    let is_same = given.get("ca_cert") == before.get("ca_cert");
    if is_same
        && !given.contains_key(AUTHORITY_KEY)
        && let Some(key) = before.get(AUTHORITY_KEY)
    {
        given.insert(AUTHORITY_KEY.to_owned(), key.clone());
    }
    given
}

impl CredentialPlan {
    /// How credentials of a type are made by a configuration.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying which field is wrong.
    pub(super) fn read(credential_type: &str, config: &Map) -> Result<Self, Error> {
        let fields = Fields::new(config);
        match credential_type {
            "rsa_private_key" => {
                let format = text(fields, "format")?;
                if !format.is_empty() && !format.eq_ignore_ascii_case("pkcs8") {
                    return Err(Error::invalid(format!("invalid format: {format}")));
                }
                match number(fields, "key_bits")? {
                    0 | 2048 => Ok(Self::RsaKey(PkiKeyKind::Rsa(2048))),
                    3072 => Ok(Self::RsaKey(PkiKeyKind::Rsa(3072))),
                    4096 => Ok(Self::RsaKey(PkiKeyKind::Rsa(4096))),
                    bits => Err(Error::invalid(format!("invalid key_bits: {bits}"))),
                }
            }
            "client_certificate" => {
                CertificatePlan::read(fields).map(Box::new).map(Self::Certificate)
            }
            _ => Ok(Self::Password { policy: text(fields, "password_policy").unwrap_or_default() }),
        }
    }

    /// Whether a renewal lets the credential live longer.
    pub(super) const fn is_renewable(&self) -> bool {
        !matches!(self, Self::Certificate(_))
    }

    /// Makes a credential of a user; the policy is that of the connection, where the role names none.
    ///
    /// # Errors
    /// What the policy, the template or the machine says.
    pub(super) async fn make(
        self,
        call: &Call<'_>,
        role: &str,
        user: &str,
        connection_policy: &str,
    ) -> Result<UserCredential, Error> {
        match self {
            Self::Password { policy } => {
                let policy = if policy.is_empty() { connection_policy } else { &policy };
                make_password(call, policy).map(UserCredential::Password)
            }
            Self::RsaKey(kind) => {
                let key = make_key(call, kind).await?;
                let private = key.to_pem(PrivateKeyForm::Pkcs8).map_err(refused)?;
                Ok(UserCredential::RsaKey {
                    private: SecretString::from(private.as_str()),
                    public: public_pem(key.spki()),
                })
            }
            Self::Certificate(plan) => {
                let common_name = match plan.template.as_str() {
                    "" => user.to_owned(),
                    template => username::make(template, &facts(call, role))?,
                };
                let key = Box::new(make_key(call, plan.kind).await?);
                Ok(UserCredential::Certificate { key, common_name, plan })
            }
        }
    }
}

fn facts<'a>(call: &Call<'a>, role_name: &'a str) -> UsernameFacts<'a> {
    let display_name = call.caller.map_or("", |caller| caller.display_name.as_str());
    UsernameFacts { display_name, role_name, now: call.now, random: call.random }
}

async fn make_key(call: &Call<'_>, kind: PkiKeyKind) -> Result<PrivateKey, Error> {
    match kind {
        PkiKeyKind::Rsa(_) => call.run_heavy(move || PrivateKey::make(kind)).await?,
        _ => PrivateKey::make(kind),
    }
    .map_err(refused)
}

/// A SubjectPublicKeyInfo as PEM (RFC 7468, section 13).
fn public_pem(spki: &[u8]) -> String {
    let mut out = String::from("-----BEGIN PUBLIC KEY-----\n");
    for line in spki.chunks(PEM_LINE_BYTES) {
        out.push_str(&BASE64.encode(line));
        out.push('\n');
    }
    out.push_str("-----END PUBLIC KEY-----");
    out
}

fn text(fields: Fields<'_>, name: &str) -> Result<String, Error> {
    Ok(fields.string(name)?.unwrap_or_default())
}

fn number(fields: Fields<'_>, name: &str) -> Result<i64, Error> {
    // A configuration is a map of texts for those who give it as pairs.
    match fields.raw(name) {
        Some(Json::String(text)) if text.is_empty() => Ok(0),
        Some(Json::String(text)) => {
            text.parse().map_err(|_| Error::invalid(format!("invalid {name}: {text}")))
        }
        _ => Ok(fields.int(name)?.unwrap_or(0)),
    }
}

impl CertificatePlan {
    fn read(fields: Fields<'_>) -> Result<Self, Error> {
        let given = |name: &str| match text(fields, name)? {
            given if given.is_empty() => Err(Error::invalid(format!("missing required {name}"))),
            given => Ok(given),
        };
        let key_type = text(fields, "key_type")?;
        if !matches!(key_type.as_str(), "rsa" | "ec" | "ed25519") {
            return Err(Error::invalid("invalid key_type: it is rsa, ec or ed25519"));
        }
        let kind = PkiKeyKind::named(&key_type, number(fields, "key_bits")?).map_err(refused)?;
        let template = text(fields, "common_name_template")?;
        if !template.is_empty() {
            username::check_readable(&template)?;
        }
        let (authority, key) = authority(&given("ca_cert")?, &given(AUTHORITY_KEY)?)?;
        let hash = match number(fields, "signature_bits")? {
            0 => None,
            bits => Some(Hash::of_bits(bits).map_err(refused)?),
        };
        let wish = SignatureWish { hash, use_pss: false };
        let algorithm = SignatureAlgorithm::choose(key.kind(), wish);
        Ok(Self { kind, template, authority, key, algorithm })
    }

    /// The certificate of a user, as DER.
    fn sign(
        &self,
        common_name: &str,
        key: &PrivateKey,
        number: Serial,
        now: Timestamp,
        ends: Timestamp,
    ) -> Result<Vec<u8>, Error> {
        if ends.as_second() > self.authority.not_after {
            return Err(Error::invalid(
                "the certificate of ca_cert ends before the lease would: choose a shorter default_ttl",
            ));
        }
        let subject =
            CertificateSubject { common_name: common_name.to_owned(), ..Default::default() };
        let contents = CertificateContents {
            serial: number,
            not_before: now.as_second() - BACKDATE_SECS,
            not_after: ends.as_second(),
            subject: subject.to_der().map_err(refused)?,
            public: key.public().clone(),
            purpose: CertificatePurpose::Leaf { says_so: false },
            usages: KeyUsages::DigitalSignature.into(),
            ext_usages: vec![ObjectIdentifier::new_unwrap(CLIENT_AUTH)],
            alt_names: AltNames::Names(Vec::new()),
            urls: Urls::default(),
            policies: Vec::new(),
            extra: Vec::new(),
        };
        let signer = CertificateSigner {
            name: &self.authority.subject_as_written,
            key_id: &self.authority.subject_key_id(),
            key: &self.key,
            algorithm: self.algorithm,
        };
        contents.sign(&signer).map_err(refused)
    }
}

/// The certificate of an authority and its key.
fn authority(certificate: &str, key: &str) -> Result<(ParsedCertificate, PrivateKey), Error> {
    let block = |name: &str, text: &str, is_wanted: fn(Label) -> bool| {
        let blocks = pem::read(text).map_err(refused)?;
        let found = blocks.into_iter().find(|(label, _)| is_wanted(*label));
        found.ok_or_else(|| Error::invalid(format!("{name} has no such block of PEM")))
    };
    let (_, der) = block("ca_cert", certificate, |label| label == Label::Certificate)?;
    let certificate = ParsedCertificate::from_der(&der).map_err(refused)?;
    if !certificate.is_ca || !certificate.may_sign_certificates() {
        return Err(Error::invalid("the given certificate is not marked for CA use"));
    }
    let (label, bytes) = block(AUTHORITY_KEY, key, Label::is_private)?;
    let key = PrivateKey::from_pem(label, &bytes).map_err(refused)?;
    if key.spki() != certificate.public.spki() {
        return Err(Error::invalid("ca_private_key is not the key of ca_cert"));
    }
    Ok((certificate, key))
}

impl UserCredential {
    /// What its statements may name, and with which value.
    pub(super) fn value(&self) -> (&'static str, SecretString) {
        match self {
            Self::Password(password) => ("password", password.clone()),
            Self::RsaKey { public, .. } => ("public_key", SecretString::from(public.as_str())),
            Self::Certificate { common_name, .. } => {
                ("subject", SecretString::from(format!("CN={common_name}")))
            }
        }
    }

    /// What the database's words may not repeat.
    pub(super) fn secrets(&self) -> Vec<SecretString> {
        match self {
            Self::Password(password) => vec![password.clone()],
            Self::RsaKey { .. } | Self::Certificate { .. } => Vec::new(),
        }
    }

    /// The answer of who asked: the user's name and what it logs in with until `ends`.
    ///
    /// # Errors
    /// When a certificate cannot be signed.
    pub(super) fn answer(
        &self,
        call: &Call<'_>,
        user: &str,
        ends: Timestamp,
    ) -> Result<Json, Error> {
        let user = ("username", Json::from(user));
        Ok(match self {
            Self::Password(password) => {
                Json::object([("password", password.expose_secret().into()), user])
            }
            Self::RsaKey { private, .. } => {
                Json::object([("rsa_private_key", private.expose_secret().into()), user])
            }
            Self::Certificate { key, common_name, plan } => {
                let mut bytes = [0; serial::SERIAL_BYTES];
                call.random.fill(&mut bytes)?;
                let number = Serial::of_random(bytes);
                let der = plan.sign(common_name, key, number, call.now, ends)?;
                let private = key.to_pem(PrivateKeyForm::Pkcs8).map_err(refused)?;
                Json::object([
                    ("client_certificate", pem::write(Label::Certificate, &der).into()),
                    ("private_key", private.as_str().into()),
                    ("private_key_type", plan.kind.type_name().into()),
                    user,
                ])
            }
        })
    }
}

#[cfg(test)]
mod tests;
