//! How certificates and keys are told.

use data_encoding::BASE64;
use kallisto_api::json::{Json, Map};
use kallisto_api::response::Logical;
use kallisto_api::{Error, Response};
use kallisto_pki::pem::{self, Label};
use kallisto_pki::{PrivateKey, PrivateKeyForm};
use zeroize::Zeroizing;

use super::given::{GivenFields, refuse};
use super::issuer::Issuer;

/// How certificates are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CertificateFormat {
    Pem,
    Der,
    PemBundle,
}

impl CertificateFormat {
    pub(super) fn read(given: GivenFields<'_>) -> Result<Self, Error> {
        match given.text("format")?.as_str() {
            "" | "pem" => Ok(Self::Pem),
            "der" => Ok(Self::Der),
            "pem_bundle" => Ok(Self::PemBundle),
            _ => Err(Error::invalid(
                "the \"format\" path parameter must be \"pem\", \"der\", or \"pem_bundle\"",
            )),
        }
    }

    pub(super) fn write(self, label: Label, der: &[u8]) -> String {
        match self {
            Self::Der => BASE64.encode(der),
            Self::Pem | Self::PemBundle => pem::write(label, der),
        }
    }

    /// The certificate of an issuer.
    pub(super) fn write_issuer(self, issuer: &Issuer) -> String {
        match self {
            Self::Der => self.write(Label::Certificate, &issuer.certificate.der),
            Self::Pem | Self::PemBundle => issuer.pem(),
        }
    }
}

/// How a private key is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PrivateKeyFormat {
    form: PrivateKeyForm,
    /// `None` for that of the certificate.
    is_pem: Option<bool>,
}

impl PrivateKeyFormat {
    /// # Errors
    /// [`Error::Invalid`] for a format that there is not.
    pub(super) fn read(given: GivenFields<'_>) -> Result<Self, Error> {
        let (form, is_pem) = match given.text("private_key_format")?.as_str() {
            "" | "der" => (PrivateKeyForm::Traditional, None),
            "pem" => (PrivateKeyForm::Traditional, Some(true)),
            "pkcs8" => (PrivateKeyForm::Pkcs8, None),
            _ => {
                return Err(Error::invalid(
                    "the \"private_key_format\" path parameter must be \"der\", \"pem\", or \
                     \"pkcs8\"",
                ));
            }
        };
        Ok(Self { form, is_pem })
    }

    /// The key as text.
    pub(super) fn write(
        self,
        format: CertificateFormat,
        key: &PrivateKey,
    ) -> Result<Zeroizing<String>, Error> {
        if self.is_pem.unwrap_or(format != CertificateFormat::Der) {
            return key.to_pem(self.form).map_err(refuse);
        }
        let (_, der) = key.write(self.form).map_err(refuse)?;
        Ok(Zeroizing::new(BASE64.encode(&der)))
    }
}

/// What is told of a key that is handed out.
pub(super) struct Exported<'a> {
    pub(super) key: &'a PrivateKey,
    pub(super) format: PrivateKeyFormat,
}

/// Tells a certificate, and with it a key and what stands above it, as a format wants it.
pub(super) fn certificate(
    data: &mut Map,
    format: CertificateFormat,
    (field, label, der): (&str, Label, &[u8]),
    exported: Option<&Exported<'_>>,
    above: &[String],
) -> Result<(), Error> {
    let mut text = Zeroizing::new(format.write(label, der));
    if let Some(Exported { key, format: key_format }) = exported {
        let written = key_format.write(format, key)?;
        data.insert("private_key".to_owned(), written.as_str().into());
        data.insert("private_key_type".to_owned(), key.kind().type_name().into());
        if format == CertificateFormat::PemBundle {
            let first = key.to_pem(PrivateKeyForm::Traditional).map_err(refuse)?;
            text = Zeroizing::new(format!("{}\n{}", first.as_str(), text.as_str()));
        }
    }
    if format == CertificateFormat::PemBundle {
        for one in above {
            text = Zeroizing::new(format!("{}\n{one}", text.as_str()));
        }
    }
    data.insert(field.to_owned(), text.as_str().into());
    Ok(())
}

/// An answer with data and warnings.
pub(super) fn data(data: Map, warnings: Vec<String>) -> Response {
    let data = Json::Object(data).to_text();
    Response::Logical(Logical { data, warnings, ..Logical::default() })
}

/// An answer without data.
pub(super) fn nothing(warnings: Vec<String>) -> Response {
    Response::Logical(Logical { warnings, ..Logical::default() })
}

/// Bytes as they are; nothing of their kind where there are none.
pub(super) fn raw(content_type: &'static str, body: Vec<u8>) -> Response {
    let code = if body.is_empty() { 204 } else { 200 };
    Response::Text { code, content_type, body }
}
