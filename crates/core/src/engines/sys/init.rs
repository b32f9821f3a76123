//! `sys/init`: whether there are keys yet, and making them.

use data_encoding::BASE64;
use kallisto_openpgp::Recipient;
use secrecy::ExposeSecret;

use super::pgp;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::request::Request;
use crate::api::response::Response;
use crate::seal::{InitSpec, Initialized};
use crate::state::Core;
use crate::state::seal::recipients::{ShareRecipients, encrypt};

const OK: u16 = 200;
/// The fields about shares of the key that opens the storage: how many, how many it takes, and whose they are.
const OF_UNSEAL_KEY: [&str; 3] = ["secret_shares", "secret_threshold", "pgp_keys"];
/// Those of the key of recovery, which a seal that opens by itself leaves to people.
const OF_RECOVERY_KEY: [&str; 3] = ["recovery_shares", "recovery_threshold", "recovery_pgp_keys"];

pub(super) fn read(core: &Core) -> Result<Response, Error> {
    let initialized = core.seal_status()?.initialized;
    Ok(Response::Bare { code: OK, body: Json::object([("initialized", initialized.into())]) })
}

pub(super) async fn write(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    let body = request.object()?;
    let fields = Fields::new(&body);
    if core.seal_status()?.initialized {
        return Err(Error::invalid("Vault is already initialized"));
    }
    let ([shares, threshold, keys], others) = match core.auto_seal {
        None => (OF_UNSEAL_KEY, OF_RECOVERY_KEY),
        Some(_) => (OF_RECOVERY_KEY, OF_UNSEAL_KEY),
    };
    refuse(fields, others, core.auto_seal.as_ref().map_or("shamir", |seal| seal.name()))?;
    pgp::refuse(&body, &["pgp_key"])?;
    let spec = InitSpec {
        shares: count(fields, shares)?,
        threshold: count(fields, threshold)?,
        root_token: None,
        mount_kv: None,
    };
    // All of them are tried before there is anything to encrypt.
    let holders = pgp::holders(&body, keys, spec.shares, request.now).await?;
    let root_holder = pgp::holder(&body, "root_token_pgp_key", request.now)?;
    let encrypted = |made| for_holders(made, holders.as_ref(), root_holder.as_ref());
    let made = core.initialize_encrypted(&spec, request.now, encrypted).await?;
    // It is initialised: whatever else fails, the shares are handed out.
    if core.auto_seal.is_some()
        && let Err(error) = core.auto_unseal().await
    {
        tracing::error!(%error, "initialized, but not unsealed by its seal; trying again");
        core.try_seal_again();
    }
    Ok(Response::Bare { code: OK, body: reply(&made) })
}

/// Refuses what is about a key that the seal has no shares of. Whoever asks for three recovery keys would get other shares otherwise, of another key.
fn refuse(fields: Fields<'_>, others: [&str; 3], seal: &str) -> Result<(), Error> {
    let [shares, threshold, keys] = others;
    let mut given = Vec::new();
    for name in [shares, threshold] {
        given.extend((fields.int(name)?.unwrap_or_default() != 0).then_some(name));
    }
    given.extend(fields.strings(keys)?.is_some_and(|keys| !keys.is_empty()).then_some(keys));
    match given.is_empty() {
        true => Ok(()),
        false => {
            let given = given.join(",");
            Err(Error::invalid(format!("parameters {given} not applicable to seal type {seal}")))
        }
    }
}

/// What is handed out, encrypted to those it is for.
fn for_holders(
    mut made: Initialized,
    holders: Option<&ShareRecipients>,
    root_holder: Option<&Recipient>,
) -> Result<Initialized, Error> {
    if let Some(holders) = holders {
        // There are shares of one key: that which opens the storage, or with auto-unseal that of recovery.
        let shares = if made.keys.is_empty() { &mut made.recovery_keys } else { &mut made.keys };
        *shares = holders.encrypt(shares)?;
    }
    if let Some(holder) = root_holder {
        let sealed = encrypt(holder, made.root_token.expose_secret().as_bytes())?;
        made.root_token = BASE64.encode(&sealed).into();
    }
    Ok(made)
}

fn reply(made: &Initialized) -> Json {
    let mut body: Map = [
        ("keys".to_owned(), Json::strings(Initialized::hex(&made.keys))),
        ("keys_base64".to_owned(), Json::strings(Initialized::base64(&made.keys))),
        ("root_token".to_owned(), made.root_token.expose_secret().into()),
    ]
    .into_iter()
    .collect();
    if !made.recovery_keys.is_empty() {
        let hex = Initialized::hex(&made.recovery_keys);
        let base64 = Initialized::base64(&made.recovery_keys);
        body.insert("recovery_keys".into(), Json::strings(hex));
        body.insert("recovery_keys_base64".into(), Json::strings(base64));
    }
    body.into()
}

/// A number of shares; absent is none.
pub(super) fn count(fields: Fields<'_>, name: &str) -> Result<u8, Error> {
    let count = fields.int(name)?.unwrap_or_default();
    u8::try_from(count)
        .map_err(|_| Error::invalid(format!("invalid seal configuration: {name} must be 0 to 255")))
}
