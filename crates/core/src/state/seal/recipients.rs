//! Whom new shares and root tokens are encrypted to: holders of OpenPGP keys, so that nobody else ever sees them.
//!
//! Keys are checked when they are given, before anything depends on them. What is encrypted is the text that people type,
//! as Vault does it: a share in hexadecimal digits, a token as it is.

use data_encoding::{BASE64, HEXLOWER};
use jiff::Timestamp;
use kallisto_openpgp::Recipient;
use zeroize::Zeroizing;

use crate::api::error::Error;
use crate::api::json::{Json, Map};
use crate::state::seal::attempt::ShareBytes;
use crate::state::seal::progress::ShareTarget;

/// How the names of keys at Keybase begin, which are not looked up here: that would ask another party for a key to trust.
const KEYBASE: &str = "keybase:";

/// Whom the shares of a key are encrypted to, one after another.
#[derive(Debug)]
pub(crate) struct ShareRecipients {
    pub(crate) recipients: Vec<Recipient>,
    /// Whether the encrypted shares are kept, to be asked for again.
    pub(crate) are_kept: bool,
}

impl ShareRecipients {
    /// The fingerprints of their keys.
    pub(crate) fn fingerprints(&self) -> Vec<String> {
        self.recipients.iter().map(|one| one.fingerprint().to_owned()).collect()
    }

    /// Each share for its holder.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when there is no randomness.
    pub(crate) fn encrypt(&self, shares: &[ShareBytes]) -> Result<Vec<ShareBytes>, Error> {
        assert_eq!(shares.len(), self.recipients.len(), "each share has a holder");
        let pairs = shares.iter().zip(&self.recipients);
        pairs.map(|(share, one)| encrypt(one, &share_text(share)).map(Zeroizing::new)).collect()
    }
}

fn share_text(share: &ShareBytes) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(HEXLOWER.encode(share).into_bytes())
}

/// A text for one holder.
///
/// # Errors
/// [`Error::Unavailable`] when there is no randomness.
pub(crate) fn encrypt(recipient: &Recipient, text: &[u8]) -> Result<Vec<u8>, Error> {
    recipient.encrypt(text).map_err(|error| Error::Unavailable(error.to_string()))
}

/// A public key from its text in a request: base64 of its binary form. `field` is where it stands.
///
/// # Errors
/// [`Error::Invalid`] saying what is wrong with it.
pub(crate) fn recipient(field: &str, text: &str, now: Timestamp) -> Result<Recipient, Error> {
    let text = text.trim();
    if text.starts_with(KEYBASE) {
        return Err(Error::invalid(format!(
            "{field}: keys are not fetched from Keybase: give the public key itself"
        )));
    }
    let bytes = BASE64
        .decode(text.split_ascii_whitespace().collect::<String>().as_bytes())
        .map_err(|_| Error::invalid(format!("{field}: error decoding given PGP key: no base64")))?;
    let now = u64::try_from(now.as_second()).unwrap_or_default();
    Recipient::parse(&bytes, now)
        .map_err(|why| Error::invalid(format!("{field}: error parsing given PGP key: {why}")))
}

/// Encrypted shares that are to be kept.
pub(crate) struct KeptShares {
    pub(crate) target: ShareTarget,
    pub(crate) text: Vec<u8>,
}

impl KeptShares {
    pub(crate) fn of(
        target: ShareTarget,
        nonce: &str,
        holders: &ShareRecipients,
        shares: &[ShareBytes],
    ) -> Self {
        let mut keys = Map::new();
        for (fingerprint, share) in holders.fingerprints().into_iter().zip(shares) {
            let held = keys.entry(fingerprint).or_insert_with(|| Json::Array(Vec::new()));
            if let Json::Array(all) = held {
                all.push(HEXLOWER.encode(share).into());
            }
        }
        let kept = Json::object([("nonce", nonce.into()), ("keys", Json::Object(keys))]);
        Self { target, text: kept.to_text() }
    }
}

/// What was kept until other shares took its place; nothing for the first.
pub(crate) struct ReplacedShares {
    pub(crate) target: ShareTarget,
    pub(crate) text: Option<Vec<u8>>,
}
