//! PEM: blocks of base 64 with a label.

use data_encoding::BASE64;
use zeroize::Zeroizing;

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

/// Bytes of a line, which are 64 characters.
const LINE_BYTES: usize = 48;

/// Writes one block, with a newline at its end left out, as the API has it. The text is made in one allocation, so that no part of a key stays behind in
/// another one.
pub fn write(label: Label, bytes: &[u8]) -> String {
    let (begin, end, rest) = ("-----BEGIN ", "-----END ", "-----");
    let around = begin.len() + end.len() + 2 * (label.name().len() + rest.len()) + 1;
    let lines = bytes.len().div_ceil(LINE_BYTES);
    let mut text = String::with_capacity(around + BASE64.encode_len(bytes.len()) + lines);
    for part in [begin, label.name(), rest, "\n"] {
        text.push_str(part);
    }
    for line in bytes.chunks(LINE_BYTES) {
        BASE64.encode_append(line, &mut text);
        text.push('\n');
    }
    for part in [end, label.name(), rest] {
        text.push_str(part);
    }
    text
}

/// The blocks of a text, which may be private keys. What is of no label that is known (such as the parameters that openssl writes before a key) is left out.
///
/// # Errors
/// [`Error::Invalid`] for what is no PEM, or too much.
pub fn read(text: &str) -> Result<Vec<(Label, Zeroizing<Vec<u8>>)>> {
    let blocks =
        pem::parse_many(text).map_err(|_| Error::invalid("the data could not be PEM-decoded"))?;
    if blocks.len() > BLOCKS_MAX {
        return Err(Error::invalid(format!("more than {BLOCKS_MAX} blocks of PEM")));
    }
    let known = blocks.into_iter().filter_map(|block| {
        let label = Label::named(block.tag())?;
        Some((label, Zeroizing::new(block.into_contents())))
    });
    Ok(known.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_written_as_the_library_writes_them_and_fill_their_allocation() {
        let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
        for label in [Label::Certificate, Label::Request, Label::EcPrivateKey, Label::Crl] {
            for len in (0..200).chain([1_000, 4_800]) {
                let bytes: Vec<u8> = (0..len).map(|at: usize| (at % 251) as u8).collect();
                let block = pem::Pem::new(label.name(), bytes.as_slice());
                let theirs = pem::encode_config(&block, config);
                let text = write(label, &bytes);
                assert_eq!(text, theirs.trim_end(), "{len} bytes");
                assert_eq!(text.capacity(), text.len(), "{len} bytes");
                assert_eq!(read(&text).unwrap(), [(label, Zeroizing::new(bytes))]);
            }
        }
    }
}
