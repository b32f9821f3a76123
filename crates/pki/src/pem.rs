//! PEM: blocks of base 64 with a label.

use pem::{EncodeConfig, LineEnding, Pem};

use crate::error::{Error, Result};

/// Most blocks that are read of one text.
pub const BLOCKS_MAX: usize = 256;

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// An X.509 certificate.
    Certificate,
    /// A PKCS #10 request.
    Request,
    /// A revocation list.
    Crl,
    /// PKCS #8.
    PrivateKey,
    /// PKCS #1.
    RsaPrivateKey,
    /// SEC 1.
    EcPrivateKey,
}

impl Label {
    const fn name(self) -> &'static str {
        match self {
            Self::Certificate => "CERTIFICATE",
            Self::Request => "CERTIFICATE REQUEST",
            Self::Crl => "X509 CRL",
            Self::PrivateKey => "PRIVATE KEY",
            Self::RsaPrivateKey => "RSA PRIVATE KEY",
            Self::EcPrivateKey => "EC PRIVATE KEY",
        }
    }

    /// Whether it is a secret.
    pub const fn is_private(self) -> bool {
        matches!(self, Self::PrivateKey | Self::RsaPrivateKey | Self::EcPrivateKey)
    }

    fn named(name: &str) -> Option<Self> {
        match name {
            "CERTIFICATE" | "X509 CERTIFICATE" | "TRUSTED CERTIFICATE" => Some(Self::Certificate),
            "CERTIFICATE REQUEST" | "NEW CERTIFICATE REQUEST" => Some(Self::Request),
            "X509 CRL" => Some(Self::Crl),
            "PRIVATE KEY" => Some(Self::PrivateKey),
            "RSA PRIVATE KEY" => Some(Self::RsaPrivateKey),
            "EC PRIVATE KEY" => Some(Self::EcPrivateKey),
            _ => None,
        }
    }
}

/// Writes one block, with a newline at its end left out, as the API has it.
pub fn write(label: Label, bytes: &[u8]) -> String {
    let block = Pem::new(label.name(), bytes);
    let mut text = pem::encode_config(&block, EncodeConfig::new().set_line_ending(LineEnding::LF));
    text.truncate(text.trim_end().len());
    text
}

/// The blocks of a text. What is of no label that is known (such as the parameters that openssl writes before a key) is left out.
///
/// # Errors
/// [`Error::Invalid`] for what is no PEM, or too much.
pub fn read(text: &str) -> Result<Vec<(Label, Vec<u8>)>> {
    let blocks =
        pem::parse_many(text).map_err(|_| Error::invalid("the data could not be PEM-decoded"))?;
    if blocks.len() > BLOCKS_MAX {
        return Err(Error::invalid(format!("more than {BLOCKS_MAX} blocks of PEM")));
    }
    let known = blocks.into_iter().filter_map(|block| {
        let label = Label::named(block.tag())?;
        Some((label, block.into_contents()))
    });
    Ok(known.collect())
}
