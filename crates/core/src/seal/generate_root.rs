//! A new root token by the consent of those who hold shares.
//!
//! The token leaves the server only as its exclusive or with a one-time password that the one who
//! started the attempt holds.

use crate::records::token::TEXT_CHARS;
use crate::records::token::make_root;
use crate::records::token::make_text;
use crate::state::seal::progress::{RootAttempt, TokenHiding};
use crate::state::seal::recipients::encrypt;
use data_encoding::{BASE64, BASE64_NOPAD};
use jiff::Timestamp;
use kallisto_openpgp::Recipient;
use kallisto_store::Batch;
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use super::rekey::check_nonce;
use super::unseal::prove;
use crate::api::error::Error;
use crate::api::request_id::RequestId;
use crate::random;
use crate::state::Core;
use crate::state::seal::attempt::{ShareAttempt, ShareBytes};
use crate::state::seal::progress::SealOutcome;
use crate::state::seal::progress::ShareOutcome;
use crate::storage::keys;

/// Length of a one-time password, in characters: that of a token.
pub(crate) const OTP_CHARS: usize = TEXT_CHARS;

/// What is known of a generation.
#[derive(Clone, Debug)]
pub(crate) struct RootProgress {
    pub(crate) nonce: String,
    pub(crate) given: usize,
    pub(crate) required: u8,
    /// The fingerprint of the key that the token is encrypted to; empty for none.
    pub(crate) fingerprint: String,
}

/// What giving a share led to.
pub(crate) enum RootResult {
    /// More are needed.
    Progress(RootProgress),
    /// The token, hidden by the one-time password or encrypted.
    Token { progress: RootProgress, encoded: String },
}

impl Core {
    /// Begins a generation, for a holder of a key or under a one-time password; returns that when it was drawn here.
    ///
    /// # Errors
    /// [`Error::Invalid`] when one is under way or the password has another length,
    /// [`Error::Sealed`] on a sealed server.
    pub(crate) async fn start_root(
        &self,
        otp: Option<SecretString>,
        holder: Option<Recipient>,
    ) -> Result<(RootProgress, Option<SecretString>), Error> {
        let _turn = self.seal.turn().await;
        if self.is_sealed() {
            return Err(Error::Sealed);
        }
        let required = self.expect_seal_config()?.threshold;
        let mut progress = self.seal.progress();
        if progress.root.is_some() {
            return Err(Error::invalid("root generation already in progress"));
        }
        let (hiding, drawn) = match (otp, holder) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid("otp and pgp_key exclude each other"));
            }
            (None, Some(holder)) => (TokenHiding::Recipient(holder), None),
            (Some(otp), None) if otp.expose_secret().len() == OTP_CHARS => {
                (TokenHiding::Password(otp), None)
            }
            (Some(_), None) => return Err(Error::invalid("OTP string has incorrect length")),
            (None, None) => {
                let otp = SecretString::from(random::make_base62(OTP_CHARS)?);
                (TokenHiding::Password(otp.clone()), Some(otp))
            }
        };
        let root = progress.root.insert(RootAttempt { attempt: ShareAttempt::start()?, hiding });
        Ok((root.progress(required), drawn))
    }

    /// The generation under way.
    ///
    /// # Errors
    /// When the seal's record cannot be read.
    pub(crate) fn root_progress(&self) -> Result<(Option<RootProgress>, u8), Error> {
        let required = self.seal_config()?.map_or(0, |config| config.threshold);
        Ok((self.seal.progress().root.as_ref().map(|root| root.progress(required)), required))
    }

    /// Ends a generation; `nonce` must be its own unless the caller is known (`None`).
    ///
    /// # Errors
    /// [`Error::Invalid`] for another nonce.
    pub(crate) fn cancel_root(&self, nonce: Option<&str>) -> Result<(), Error> {
        let mut progress = self.seal.progress();
        if let (Some(root), Some(given)) = (&progress.root, nonce)
            && root.attempt.nonce != given
        {
            return Err(Error::invalid("cancelling a root generation needs its nonce"));
        }
        progress.root = None;
        Ok(())
    }

    /// Takes a share; with enough of them, makes a root token.
    ///
    /// # Errors
    /// [`Error::Invalid`] without a generation, for another nonce, and when the shares make the
    /// wrong key (they are forgotten then).
    pub(crate) async fn give_root_share(
        &self,
        share: ShareBytes,
        nonce: &str,
        (by, now): (RequestId, Timestamp),
    ) -> Result<RootResult, Error> {
        let _turn = self.seal.turn().await;
        let context = self.context.load_full().ok_or(Error::Sealed)?;
        let config = self.expect_seal_config()?;
        let (key, hiding, progress) = {
            let mut progress = self.seal.progress();
            let root = progress.root.as_mut();
            let root = root.ok_or_else(|| Error::invalid("no root generation in progress"))?;
            check_nonce(&root.attempt.nonce, nonce, "root generation")?;
            root.attempt.add(share);
            let so_far = root.progress(config.threshold);
            if so_far.given < usize::from(config.threshold) {
                return Ok(RootResult::Progress(so_far));
            }
            let key = root.attempt.combine();
            root.attempt.clear();
            (key?, root.hiding.clone(), so_far)
        };
        prove(config.proof(), &key)?;
        let text = make_text()?;
        // Before there is such a token: one that nobody can read would stay.
        let encoded = hide(&text, &hiding)?;
        let cluster = context.view.cluster().ok_or(Error::Sealed)?;
        let hash = cluster.token_key.hash(text.expose_secret());
        let mut batch = Batch::new();
        let entry = make_root(now)?;
        batch.put(keys::token(hash.as_ref()), entry.encode());
        context.store.commit(batch).await?;
        {
            let mut progress = self.seal.progress();
            let accessor = entry.auth.accessor;
            progress.root = None;
            progress.brought = Some(ShareOutcome { by, what: SealOutcome::Root(accessor) });
        }
        tracing::info!("root token generated");
        Ok(RootResult::Token { progress, encoded })
    }
}

impl RootAttempt {
    fn progress(&self, required: u8) -> RootProgress {
        let fingerprint = match &self.hiding {
            TokenHiding::Password(_) => String::new(),
            TokenHiding::Recipient(holder) => holder.fingerprint().to_owned(),
        };
        let (nonce, given) = (self.attempt.nonce.clone(), self.attempt.count());
        RootProgress { nonce, given, required, fingerprint }
    }
}

/// A token as it leaves the server.
fn hide(token: &SecretString, hiding: &TokenHiding) -> Result<String, Error> {
    let token = token.expose_secret().as_bytes();
    Ok(match hiding {
        TokenHiding::Password(otp) => {
            BASE64_NOPAD.encode(&exclusive_or(token, otp.expose_secret().as_bytes()))
        }
        TokenHiding::Recipient(holder) => BASE64.encode(&encrypt(holder, token)?),
    })
}

/// The token that a one-time password hides.
///
/// # Errors
/// [`Error::Invalid`] when the two do not belong together.
pub(crate) fn decode_token(encoded: &str, otp: &str) -> Result<SecretString, Error> {
    let bytes = BASE64_NOPAD
        .decode(encoded.as_bytes())
        .or_else(|_| BASE64.decode(encoded.as_bytes()))
        .map_err(|_| Error::invalid("error decoding base64'd token"))?;
    if bytes.len() != otp.len() {
        return Err(Error::invalid("the token and the OTP differ in length"));
    }
    let text = String::from_utf8(exclusive_or(&bytes, otp.as_bytes()).to_vec());
    text.map(SecretString::from).map_err(|_| Error::invalid("the OTP does not fit the token"))
}

fn exclusive_or(a: &[u8], b: &[u8]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(a.iter().zip(b).map(|(a, b)| a ^ b).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_from_its_password() {
        let hidden = exclusive_or(b"hvs.token", b"otp-otp-o");
        let encoded = BASE64_NOPAD.encode(&hidden);
        assert_eq!(decode_token(&encoded, "otp-otp-o").unwrap().expose_secret(), "hvs.token");
        assert!(decode_token(&encoded, "short").is_err());
        assert!(decode_token("!", "otp").is_err());
    }
}
