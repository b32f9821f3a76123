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

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";

/// Bytes of a line, which are 64 characters.
const LINE_BYTES: usize = 48;

/// Writes one block, with a newline at its end left out, as the API has it. The text is made in one allocation, so that no part of a key stays behind in
/// another one.
pub fn write(label: Label, bytes: &[u8]) -> String {
    let rest = "-----";
    let around = BEGIN.len() + END.len() + 2 * (label.name().len() + rest.len()) + 1;
    let lines = bytes.len().div_ceil(LINE_BYTES);
    let mut text = String::with_capacity(around + BASE64.encode_len(bytes.len()) + lines);
    for part in [BEGIN, label.name(), rest, "\n"] {
        text.push_str(part);
    }
    for line in bytes.chunks(LINE_BYTES) {
        BASE64.encode_append(line, &mut text);
        text.push('\n');
    }
    for part in [END, label.name(), rest] {
        text.push_str(part);
    }
    text
}

/// A text without the empty lines inside its blocks. The library would take them for the end of headers; in a block with headers the first one is.
fn without_empty_lines(text: &str) -> Zeroizing<String> {
    let mut kept = Zeroizing::new(String::with_capacity(text.len()));
    let (mut is_inside, mut has_headers) = (false, false);
    for line in text.split_inclusive('\n') {
        if is_inside && !has_headers && line.trim().is_empty() {
            continue;
        }
        // Files that were put together may have the end of a block and the beginning of the next in one line.
        match (line.rfind(BEGIN), line.rfind(END)) {
            (Some(begin), end) if end.is_none_or(|end| end < begin) => {
                (is_inside, has_headers) = (true, false);
            }
            (_, Some(_)) => is_inside = false,
            (_, None) => has_headers |= line.contains(':'),
        }
        kept.push_str(line);
    }
    kept
}

/// The blocks of a text, which may be private keys. What is of no label that is known (such as the parameters that openssl writes before a key) is left out.
///
/// # Errors
/// [`Error::Invalid`] for what is no PEM, or too much.
pub fn read(text: &str) -> Result<Blocks> {
    Ok(known(parse(text)?))
}

/// The blocks of a text of which nothing may be left out: of a label that is not known there are only such as OpenBao leaves out too.
///
/// # Errors
/// [`Error::Invalid`] for what is no PEM, too much, or of another label, such as a private key that is encrypted.
pub fn read_bundle(text: &str) -> Result<Blocks> {
    let blocks = parse(text)?;
    let labels = blocks.iter().map(pem::Pem::tag);
    let mut others = labels.filter(|tag| Label::named(tag).is_none() && !LEFT_OUT.contains(tag));
    match others.next() {
        None => Ok(known(blocks)),
        Some(tag) if tag.contains("PRIVATE KEY") => Err(Error::invalid(format!(
            "a private key of the label {tag:?} cannot be read: write it as PKCS #8, without a \
             passphrase, first"
        ))),
        Some(tag) => Err(Error::invalid(format!("a block of PEM has the unknown label {tag:?}"))),
    }
}

/// Labels of what stands in bundles beside certificates and keys, and says nothing that they do not.
const LEFT_OUT: [&str; 3] = ["EC PARAMETERS", "EC PARAMS", "CRL"];

/// Blocks of a text, which may be private keys.
pub type Blocks = Vec<(Label, Zeroizing<Vec<u8>>)>;

fn parse(text: &str) -> Result<Vec<pem::Pem>> {
    let has_empty_lines = text.contains("\n\n") || text.contains("\n\r\n");
    let without = has_empty_lines.then(|| without_empty_lines(text));
    let text = without.as_ref().map_or(text, |without| without.as_str());
    let blocks =
        pem::parse_many(text).map_err(|_| Error::invalid("the data could not be PEM-decoded"))?;
    if blocks.len() > BLOCKS_MAX {
        return Err(Error::invalid(format!("more than {BLOCKS_MAX} blocks of PEM")));
    }
    Ok(blocks)
}

fn known(blocks: Vec<pem::Pem>) -> Blocks {
    let known = blocks.into_iter().filter_map(|block| {
        let label = Label::named(block.tag())?;
        Some((label, Zeroizing::new(block.into_contents())))
    });
    known.collect()
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

    #[test]
    fn blocks_are_read_however_their_lines_end_and_whatever_stands_between_them() {
        let bytes: Vec<u8> = (0..200).collect();
        let (label, block) = (Label::Certificate, write(Label::Certificate, &bytes));
        let both = [(label, Zeroizing::new(bytes.clone())), (label, Zeroizing::new(bytes))];
        let (first, last) = block.split_once("\n-----END").unwrap();
        for text in [
            format!("{block}\n{block}"),
            // As `cat` puts files together that do not end in a line feed.
            format!("{block}{block}"),
            format!("{block}\n\n\n{block}\n"),
            format!("{block}\n{block}\n").replace('\n', "\r\n"),
            // Each line ends twice, as after a conversion too many.
            format!("{block}\n{block}\n").replace('\n', "\n\n"),
            format!("{block}\n{block}\n").replace('\n', "\r\n\r\n"),
            format!("{block}\n{block}\n").replace('\n', "\n \n"),
            format!("{first}\n\n-----END{last}\n\n{block}"),
            format!("Bag Attributes: a\n\nsubject=CN = a\n{block}\nname: b\n\n{block}\n\n"),
            format!("\t{}\n{block}", block.replace('\n', "\n\t")),
        ] {
            assert_eq!(read(&text).unwrap(), both, "{text}");
        }
        // Headers end with an empty line, as those of encrypted keys.
        let headers = "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n";
        let with_headers = block.replacen('\n', headers, 1);
        assert_eq!(read(&with_headers).unwrap(), both[..1]);
        assert!(read(&with_headers.replace("\n\n", "\n")).is_err());
    }
}
