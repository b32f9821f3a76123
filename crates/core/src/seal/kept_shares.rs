//! Shares that were encrypted to OpenPGP keys, kept after a rekey that asked for it, so that a holder who lost theirs gets it again.
//!
//! ```text
//! rekey/kept/unseal, rekey/kept/recovery (of `sys/`) := {"nonce": .., "keys": {fingerprint: [share in hexadecimal digits, ..], ..}}
//! ```
//!
//! What is kept opens nothing without the private keys. A later rekey that keeps its shares replaces it once its shares count; it is deleted on request.

use data_encoding::{BASE64, HEXLOWER};

use crate::api::error::Error;
use crate::api::json::{self, Json, Map};
use crate::state::Core;
use crate::state::seal::progress::ShareTarget;
use crate::state::seal::recipients::{KeptShares, ReplacedShares};
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::MountId;

impl Core {
    /// Keeps encrypted shares in the place of those that are kept.
    pub(super) async fn keep_shares(&self, shares: &KeptShares) -> Result<ReplacedShares, Error> {
        let context = self.context.load_full().ok_or(Error::Sealed)?;
        let storage = EngineStorage::builtin(&context, MountId::SYSTEM)?;
        let name = shares.target.kept_record();
        let before = storage.get(name)?.map(|found| found.value.to_vec());
        storage.put(name, shares.text.clone()).await?;
        Ok(ReplacedShares { target: shares.target, text: before })
    }

    /// Keeps again what was kept before.
    pub(super) async fn keep_replaced(&self, shares: ReplacedShares) -> Result<(), Error> {
        let context = self.context.load_full().ok_or(Error::Sealed)?;
        let storage = EngineStorage::builtin(&context, MountId::SYSTEM)?;
        match shares.text {
            Some(text) => storage.put(shares.target.kept_record(), text).await,
            None => storage.delete(shares.target.kept_record()).await,
        }
    }

    /// What is kept, as an answer has it.
    ///
    /// # Errors
    /// [`Error::Invalid`] when nothing is.
    pub(crate) fn kept_shares(&self, target: ShareTarget) -> Result<Json, Error> {
        let context = self.context.load_full().ok_or(Error::Sealed)?;
        let storage = EngineStorage::builtin(&context, MountId::SYSTEM)?;
        let kept = storage.get(target.kept_record())?;
        let kept = kept.ok_or_else(|| Error::invalid("no backed-up keys found"))?;
        let damaged = || Error::internal(&"the record of kept shares is damaged");
        let mut map = json::parse_object(&kept.value).map_err(|_| damaged())?;
        let keys = map.get("keys").and_then(Json::as_object).ok_or_else(damaged)?;
        let mut in_base64 = Map::new();
        for (fingerprint, shares) in keys {
            let Json::Array(shares) = shares else { return Err(damaged()) };
            let share = |share: &Json| {
                let bytes = HEXLOWER.decode(share.as_str()?.as_bytes()).ok()?;
                Some(BASE64.encode(&bytes))
            };
            let shares: Option<Vec<String>> = shares.iter().map(share).collect();
            in_base64.insert(fingerprint.clone(), Json::strings(shares.ok_or_else(damaged)?));
        }
        map.insert("keys_base64".into(), Json::Object(in_base64));
        Ok(Json::Object(map))
    }

    /// Deletes what is kept.
    ///
    /// # Errors
    /// What the store says.
    pub(crate) async fn forget_kept_shares(&self, target: ShareTarget) -> Result<(), Error> {
        let context = self.context.load_full().ok_or(Error::Sealed)?;
        EngineStorage::builtin(&context, MountId::SYSTEM)?.delete(target.kept_record()).await
    }
}
