//! `sys/init`: whether there are keys yet, and making them.

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::request::Request;
use crate::api::response::Response;
use crate::seal::{InitSpec, Initialized};
use crate::state::Core;

const OK: u16 = 200;

/// Fields that ask for what this server does not do: shares encrypted to OpenPGP keys.
const PGP_FIELDS: [&str; 3] = ["pgp_keys", "recovery_pgp_keys", "root_token_pgp_key"];

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
    refuse_pgp(&body)?;
    let (shares, threshold) = match core.auto_seal {
        None => ("secret_shares", "secret_threshold"),
        Some(_) => ("recovery_shares", "recovery_threshold"),
    };
    let spec = InitSpec {
        shares: count(fields, shares)?,
        threshold: count(fields, threshold)?,
        root_token: None,
        mount_kv: None,
    };
    let made = core.initialize(&spec, request.now).await?;
    if core.auto_seal.is_some() {
        core.auto_unseal().await?;
    }
    Ok(Response::Bare { code: OK, body: reply(&made) })
}

fn reply(made: &Initialized) -> Json {
    use secrecy::ExposeSecret;
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

/// Refuses requests for shares encrypted to OpenPGP keys, rather than hand them out in the clear.
pub(super) fn refuse_pgp(body: &Map) -> Result<(), Error> {
    for name in PGP_FIELDS {
        let asked = match body.get(name) {
            None | Some(Json::Null) => false,
            Some(Json::String(text)) => !text.is_empty(),
            Some(Json::Array(keys)) => !keys.is_empty(),
            Some(_) => true,
        };
        if asked {
            return Err(Error::invalid(format!("{name}: OpenPGP encryption is not available")));
        }
    }
    Ok(())
}
