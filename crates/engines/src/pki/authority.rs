//! Who signs: the issuer that a path, a body or a role names, with its key and what stands above it.

use std::borrow::Cow;
use std::sync::Arc;

use kallisto_api::Error;
use kallisto_engine::Call;
use kallisto_pki::certificate::Urls;

use super::answer::CertificateFormat;
use super::given::GivenFields;
use super::issuer::{Issuer, PkiKey};
use super::memory::PkiState;

/// Who signs, and what stands above.
pub(super) struct SigningAuthority {
    pub(super) issuer: Arc<Issuer>,
    pub(super) key: Arc<PkiKey>,
    /// It and those above it.
    pub(super) chain: Vec<Arc<Issuer>>,
    pub(super) urls: Urls,
}

impl SigningAuthority {
    /// The issuer that a text names, if it may issue.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is not there or may not.
    pub(super) fn of(state: &PkiState, reference: &str) -> Result<Self, Error> {
        let issuer = state.issuer(reference).map_err(|error| match error {
            Error::Invalid(why) if reference == "default" => {
                Error::invalid(format!("could not fetch the CA certificate (was one set?): {why}"))
            }
            Error::Invalid(why) => Error::invalid(format!("error fetching CA certificate: {why}")),
            other => other,
        })?;
        if !issuer.usage.issues {
            return Err(Error::invalid(format!(
                "error fetching CA certificate: error while attempting to use issuer {id}: \
                 requested usage issuing-certificates for issuer [id:{id}{name}] but only had \
                 usage {usage}",
                id = issuer.id,
                name = match issuer.name.as_str() {
                    "" => String::new(),
                    name => format!(" name:{name}"),
                },
                usage = issuer.usage.text()
            )));
        }
        let key = issuer.key.and_then(|id| state.keys.get(&id)).cloned();
        let key = key.ok_or_else(|| {
            Error::invalid(format!(
                "error fetching CA certificate: issuer {} has no key to sign with",
                issuer.id
            ))
        })?;
        if !issuer.certificate.may_sign_certificates() {
            return Err(Error::invalid(format!(
                "error fetching CA certificate: the certificate of issuer {} is no CA's that may \
                 sign certificates",
                issuer.id
            )));
        }
        let urls = state.urls_of(issuer.id, &issuer.urls)?;
        let chain = state.chain(&issuer);
        Ok(Self { issuer, key, chain, urls })
    }

    /// What is told of the chain.
    pub(super) fn chain_text(
        &self,
        format: CertificateFormat,
        removes_roots: bool,
    ) -> Vec<Cow<'_, str>> {
        let kept = self.chain.iter().filter(|one| {
            let certificate = &one.certificate;
            !removes_roots || certificate.issuer != certificate.subject
        });
        kept.map(|one| format.write_issuer(one)).collect()
    }
}

/// The issuer that a path names, or else the body; `default` where neither does.
///
/// # Errors
/// [`Error::Invalid`] for an empty one.
pub(super) fn asked_issuer(call: &Call<'_>, given: GivenFields<'_>) -> Result<String, Error> {
    let reference = match call.params.get("ref") {
        "" if given.names("issuer_ref") => given.text("issuer_ref")?,
        "" => "default".to_owned(),
        reference => reference.to_owned(),
    };
    match reference.trim() {
        "" => Err(Error::invalid("missing issuer reference")),
        reference => Ok(reference.to_owned()),
    }
}
