//! `sys/rekey/*`, `sys/rekey-recovery-key/*` and their twins under `sys/rotate/`: new shares.

use zeroize::Zeroizing;

use super::init::count;
use super::pgp;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::request::Request;
use crate::api::response::Response;
use crate::seal::{Initialized, RekeyProgress, RekeyResult, VerifyOutcome};
use crate::state::Core;
use crate::state::seal::parse_share;
use crate::state::seal::progress::RekeySpec;
use crate::state::seal::progress::ShareTarget;

/// Who asks for an operation that exists with and without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// Somebody with a token that may.
    Known,
    /// Anyone who reaches the listener.
    Anyone,
}

const OK: u16 = 200;

pub(super) fn read(core: &Core) -> Result<Response, Error> {
    Ok(bare(status(core.rekey_progress()?.as_ref(), required(core)?)))
}

pub(super) fn cancel(core: &Core, request: &Request<'_>, caller: Asker) -> Result<Response, Error> {
    let nonce = given_nonce(request, caller)?;
    core.cancel_rekey(nonce.as_deref())?;
    Ok(Response::Empty)
}

/// Begins to prove again, under a nonce that whoever goes on has to hear.
pub(super) fn restart(core: &Core) -> Result<Response, Error> {
    core.restart_verification()?;
    verification_status(core)
}

/// Shares that were encrypted to OpenPGP keys and kept.
pub(super) fn kept_shares(core: &Core, target: ShareTarget) -> Result<Response, Error> {
    core.kept_shares(target).map(|kept| Response::data(&kept))
}

/// Deletes them.
pub(super) async fn forget_kept_shares(
    core: &Core,
    target: ShareTarget,
) -> Result<Response, Error> {
    core.forget_kept_shares(target).await.map(|()| Response::Empty)
}

/// The nonce a stranger has to know to cancel; those with a token need none.
pub(super) fn given_nonce(request: &Request<'_>, caller: Asker) -> Result<Option<String>, Error> {
    if caller == Asker::Known {
        return Ok(None);
    }
    let body = request.object()?;
    let in_body = Fields::new(&body).string("nonce")?;
    let query = request.query_fields();
    let in_query = Fields::new(&query).string("nonce")?;
    Ok(Some(in_body.or(in_query).unwrap_or_default()))
}

pub(super) async fn start(
    core: &Core,
    request: &Request<'_>,
    target: ShareTarget,
) -> Result<Response, Error> {
    let body = request.object()?;
    let fields = Fields::new(&body);
    pgp::refuse(&body, &["recovery_pgp_keys", "root_token_pgp_key", "pgp_key"])?;
    let spec = RekeySpec {
        target,
        shares: count(fields, "secret_shares")?,
        threshold: count(fields, "secret_threshold")?,
        requires_verification: fields.boolean("require_verification")?.unwrap_or(false),
    };
    let mut holders = pgp::holders(&body, "pgp_keys", spec.shares, request.now).await?;
    match (fields.boolean("backup")?.unwrap_or(false), &mut holders) {
        (true, None) => {
            return Err(Error::invalid(
                "cannot request a backup of the new keys without providing PGP keys for encryption",
            ));
        }
        (are_kept, Some(holders)) => holders.are_kept = are_kept,
        (false, None) => {}
    }
    let progress = core.start_rekey(spec, holders).await?;
    Ok(bare(status(Some(&progress), progress.required)))
}

pub(super) async fn update(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    let (share, nonce) = share_and_nonce(request)?;
    match core.give_rekey_share(share, &nonce, request.id).await? {
        RekeyResult::Progress(progress) => Ok(bare(status(Some(&progress), progress.required))),
        RekeyResult::Keys { nonce, keys, holders, verification } => {
            let fingerprints = holders.as_ref().map(|holders| holders.fingerprints());
            let are_kept = holders.is_some_and(|holders| holders.are_kept);
            let mut body: Map = [
                ("nonce".to_owned(), Json::from(nonce)),
                ("complete".to_owned(), true.into()),
                ("keys".to_owned(), Json::strings(Initialized::hex(&keys))),
                ("keys_base64".to_owned(), Json::strings(Initialized::base64(&keys))),
                ("pgp_fingerprints".to_owned(), pgp::fingerprints(fingerprints)),
                ("backup".to_owned(), are_kept.into()),
                ("verification_required".to_owned(), verification.is_some().into()),
            ]
            .into_iter()
            .collect();
            if let Some(nonce) = verification {
                body.insert("verification_nonce".into(), nonce.into());
            }
            Ok(bare(body.into()))
        }
    }
}

pub(super) async fn verify(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    let (share, nonce) = share_and_nonce(request)?;
    match core.verify_rekey(share, &nonce).await? {
        VerifyOutcome::Done(nonce) => {
            Ok(bare(Json::object([("nonce", nonce.into()), ("complete", true.into())])))
        }
        VerifyOutcome::Waiting => verification_status(core),
    }
}

pub(super) fn verification_status(core: &Core) -> Result<Response, Error> {
    let progress = core.rekey_progress()?;
    let waiting = progress.as_ref().and_then(|rekey| Some((rekey, rekey.verification.as_ref()?)));
    let Some((rekey, (nonce, given, needed))) = waiting else {
        return Err(Error::invalid("no rekey verification in progress"));
    };
    Ok(bare(Json::object([
        ("nonce", nonce.as_str().into()),
        ("started", true.into()),
        ("t", u64::from(*needed).into()),
        ("n", u64::from(rekey.spec.shares).into()),
        ("progress", (*given as u64).into()),
    ])))
}

/// The share and the nonce of a body.
pub(super) fn share_and_nonce(
    request: &Request<'_>,
) -> Result<(Zeroizing<Vec<u8>>, String), Error> {
    let body = request.object()?;
    let fields = Fields::new(&body);
    let key = Zeroizing::new(fields.string("key")?.unwrap_or_default());
    if key.is_empty() {
        return Err(Error::invalid("'key' must be specified in request body as JSON"));
    }
    Ok((parse_share(&key)?, fields.string("nonce")?.unwrap_or_default()))
}

fn required(core: &Core) -> Result<u8, Error> {
    Ok(core.seal_status()?.threshold)
}

fn status(progress: Option<&RekeyProgress>, required: u8) -> Json {
    let verification = progress.and_then(|rekey| rekey.verification.as_ref());
    let spec = progress.map(|rekey| rekey.spec);
    let mut body: Map = [
        ("nonce".to_owned(), Json::from(progress.map_or("", |rekey| rekey.nonce.as_str()))),
        ("started".to_owned(), progress.is_some().into()),
        ("t".to_owned(), u64::from(spec.map_or(0, |spec| spec.threshold)).into()),
        ("n".to_owned(), u64::from(spec.map_or(0, |spec| spec.shares)).into()),
        ("progress".to_owned(), (progress.map_or(0, |rekey| rekey.given) as u64).into()),
        ("required".to_owned(), u64::from(required).into()),
        (
            "pgp_fingerprints".to_owned(),
            pgp::fingerprints(progress.and_then(|rekey| rekey.fingerprints.clone())),
        ),
        ("backup".to_owned(), progress.is_some_and(|rekey| rekey.are_kept).into()),
        (
            "verification_required".to_owned(),
            spec.is_some_and(|spec| spec.requires_verification).into(),
        ),
    ]
    .into_iter()
    .collect();
    if let Some((nonce, ..)) = verification {
        body.insert("verification_nonce".into(), nonce.as_str().into());
    }
    body.into()
}

fn bare(body: Json) -> Response {
    Response::Bare { code: OK, body }
}
