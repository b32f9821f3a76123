//! `sys/generate-root/*`, `sys/decode-token`: a root token by consent of the share holders.

use secrecy::{ExposeSecret, SecretString};

use super::pgp;
use super::rekey::{given_nonce, share_and_nonce};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::request::Request;
use crate::api::response::Response;
use crate::engines::sys::rekey::Asker;
use crate::seal::{OTP_CHARS, RootProgress, RootResult, decode_token};
use crate::state::Core;

const OK: u16 = 200;

pub(super) fn read(core: &Core) -> Result<Response, Error> {
    let (progress, required) = core.root_progress()?;
    Ok(bare(status(progress.as_ref(), required)))
}

pub(super) fn cancel(core: &Core, request: &Request<'_>, caller: Asker) -> Result<Response, Error> {
    core.cancel_root(given_nonce(request, caller)?.as_deref())?;
    Ok(Response::Empty)
}

pub(super) async fn start(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    let body = request.object()?;
    pgp::refuse(&body, &["pgp_keys", "recovery_pgp_keys", "root_token_pgp_key"])?;
    let otp = Fields::new(&body).string("otp")?.filter(|otp| !otp.is_empty());
    let holder = pgp::holder(&body, "pgp_key", request.now)?;
    let (progress, drawn) = core.start_root(otp.map(SecretString::from), holder).await?;
    let mut reply = status(Some(&progress), progress.required);
    if let Some(otp) = drawn {
        reply.insert("otp".into(), otp.expose_secret().into());
    }
    Ok(bare(reply))
}

pub(super) async fn update(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    let (share, nonce) = share_and_nonce(request)?;
    match core.give_root_share(share, &nonce, (request.id, request.now)).await? {
        RootResult::Progress(progress) => Ok(bare(status(Some(&progress), progress.required))),
        RootResult::Token { progress, encoded } => {
            let mut reply = status(Some(&progress), progress.required);
            reply.insert("complete".into(), true.into());
            reply.insert("encoded_token".into(), encoded.as_str().into());
            reply.insert("encoded_root_token".into(), encoded.into());
            Ok(bare(reply))
        }
    }
}

/// Takes the one-time password off a generated token.
pub(super) fn decode(request: &Request<'_>) -> Result<Response, Error> {
    let body = request.object()?;
    let fields = Fields::new(&body);
    let encoded = fields.string("encoded_token")?.unwrap_or_default();
    let otp = fields.string("otp")?.unwrap_or_default();
    if encoded.is_empty() || otp.is_empty() {
        return Err(Error::invalid("provided 'encoded_token' or 'otp' is empty"));
    }
    let token = decode_token(&encoded, &otp)?;
    Ok(Response::data(&Json::object([("token", token.expose_secret().into())])))
}

fn status(progress: Option<&RootProgress>, required: u8) -> Map {
    [
        ("nonce".to_owned(), Json::from(progress.map_or("", |root| root.nonce.as_str()))),
        ("started".to_owned(), progress.is_some().into()),
        ("progress".to_owned(), (progress.map_or(0, |root| root.given) as u64).into()),
        ("required".to_owned(), u64::from(required).into()),
        ("complete".to_owned(), false.into()),
        ("encoded_token".to_owned(), "".into()),
        ("encoded_root_token".to_owned(), "".into()),
        (
            "pgp_fingerprint".to_owned(),
            progress.map_or("", |root| root.fingerprint.as_str()).into(),
        ),
        ("otp".to_owned(), "".into()),
        ("otp_length".to_owned(), (OTP_CHARS as u64).into()),
    ]
    .into_iter()
    .collect()
}

fn bare(body: Map) -> Response {
    Response::Bare { code: OK, body: body.into() }
}
