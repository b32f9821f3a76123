//! How certificates and keys are told.

use std::borrow::Cow;

use data_encoding::BASE64;
use kallisto_api::json::{Json, Map, write_string, write_u64};
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
    pub(super) fn write_issuer(self, issuer: &Issuer) -> Cow<'_, str> {
        match self {
            Self::Der => self.write(Label::Certificate, &issuer.certificate.der).into(),
            Self::Pem | Self::PemBundle => (&*issuer.certificate_pem).into(),
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

/// What is told of a certificate and its key, as texts.
pub(super) struct ToldTexts {
    /// The certificate, and in a bundle its key before it and what stands above behind it.
    pub(super) certificate: Zeroizing<String>,
    /// The key, and its type.
    pub(super) private_key: Option<(Zeroizing<String>, &'static str)>,
}

/// A certificate, and with it a key and what stands above it, as a format wants it.
pub(super) fn told(
    format: CertificateFormat,
    label: Label,
    der: &[u8],
    exported: Option<&Exported<'_>>,
    above: &[Cow<'_, str>],
) -> Result<ToldTexts, Error> {
    let mut certificate = Zeroizing::new(format.write(label, der));
    let mut private_key = None;
    if let Some(Exported { key, format: key_format }) = exported {
        private_key = Some((key_format.write(format, key)?, key.kind().type_name()));
        if format == CertificateFormat::PemBundle {
            let first = key.to_pem(PrivateKeyForm::Traditional).map_err(refuse)?;
            certificate = Zeroizing::new(format!("{}\n{}", first.as_str(), certificate.as_str()));
        }
    }
    if format == CertificateFormat::PemBundle {
        for one in above {
            certificate = Zeroizing::new(format!("{}\n{one}", certificate.as_str()));
        }
    }
    Ok(ToldTexts { certificate, private_key })
}

/// Adds what is [`told`] to an answer.
pub(super) fn certificate(
    data: &mut Map,
    format: CertificateFormat,
    (field, label, der): (&str, Label, &[u8]),
    exported: Option<&Exported<'_>>,
    above: &[Cow<'_, str>],
) -> Result<(), Error> {
    let told = told(format, label, der, exported, above)?;
    if let Some((private_key, type_name)) = &told.private_key {
        data.insert("private_key".to_owned(), private_key.as_str().into());
        data.insert("private_key_type".to_owned(), (*type_name).into());
    }
    data.insert(field.to_owned(), told.certificate.as_str().into());
    Ok(())
}

/// The text of an object, written field by field in the order of their names.
pub(super) struct DataText(Vec<u8>);

impl DataText {
    /// Bytes that a certificate with its key and its chain has, as a rule: more room would be made by copying what is there, and leaving it behind.
    const BYTES_USUAL: usize = 6 << 10;

    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(Self::BYTES_USUAL))
    }

    fn name(&mut self, name: &str) {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        write_string(name, &mut self.0);
        self.0.push(b':');
    }

    pub(super) fn text(&mut self, name: &str, text: &str) {
        self.name(name);
        write_string(text, &mut self.0);
    }

    pub(super) fn texts(&mut self, name: &str, texts: &[Cow<'_, str>]) {
        self.name(name);
        for (at, text) in texts.iter().enumerate() {
            self.0.push(if at == 0 { b'[' } else { b',' });
            write_string(text, &mut self.0);
        }
        self.0.extend_from_slice(if texts.is_empty() { b"[]" } else { b"]" });
    }

    pub(super) fn number(&mut self, name: &str, number: i64) {
        self.name(name);
        if number < 0 {
            self.0.push(b'-');
        }
        write_u64(number.unsigned_abs(), &mut self.0);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.0.extend_from_slice(if self.0.is_empty() { b"{}" } else { b"}" });
        self.0
    }
}

/// An answer with data and warnings.
pub(super) fn data(data: Map, warnings: Vec<String>) -> Response {
    data_text(Json::Object(data).to_text(), warnings)
}

/// An answer with data that is text already.
pub(super) fn data_text(data: Vec<u8>, warnings: Vec<String>) -> Response {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_written_as_a_tree_of_it_would_be() {
        let chain = ["a\nb".into(), "\"".into()];
        let mut text = DataText::new();
        text.texts("chain", &chain);
        text.texts("empty", &[]);
        text.number("most", i64::MAX);
        text.number("never", i64::MIN);
        text.text("text", "x\n");
        let tree = super::super::given::object([
            ("chain", Json::strings(chain.iter().map(ToString::to_string))),
            ("empty", Json::Array(Vec::new())),
            ("most", i64::MAX.into()),
            ("never", i64::MIN.into()),
            ("text", "x\n".into()),
        ]);
        assert_eq!(text.finish(), Json::Object(tree).to_text());
        assert_eq!(DataText::new().finish(), b"{}");
    }
}
