//! Leases: the lives of tokens, under the ids that operators know them by.
//!
//! A token is the only thing here that has a lease: key-value secrets have none, and no engine makes
//! credentials elsewhere yet. The id of a lease is the path its token was made at and `h` with the
//! hash it is stored under, which names the token and opens nothing. Ending a token needs nobody else's
//! help, so no lease is ever irrevocable.
//!
//! A root token that initialisation or `generate-root` made has no lease, as in Vault; one that
//! `auth/token/create` made has, so that revoking that prefix ends it.

use data_encoding::HEXLOWER;
use kallisto_auth::Operation;

use super::TokenEntry;
use super::entry::{Hash, ROOT_PATH};
use super::expire::take_up_revocations;
use super::revoke::{revoke_made_below, revoke_tree};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Json;
use crate::api::response::{Logical, Response};
use crate::limits::LIST_ENTRIES_MAX;
use crate::pipeline::state::{Call, Unsealed};

/// What stands in front of the hash in an id.
const MARK: char = 'h';

/// Runs a lease route; `path` is what follows `sys/leases`, without its first slash.
pub(crate) async fn handle(
    unsealed: &Unsealed,
    call: &Call<'_, '_>,
    path: &str,
) -> Result<Response, Error> {
    use Operation::{List, Read, Update};
    let (verb, rest) = path.split_once('/').unwrap_or((path, ""));
    match (verb, call.operation) {
        ("lookup", Update) if rest.is_empty() => look_up(unsealed, call),
        ("lookup", List) => list(unsealed, rest),
        ("renew", Update) => renew(unsealed, call, rest),
        ("revoke", Update) => revoke(unsealed, call, rest).await,
        ("revoke-prefix" | "revoke-force", Update) if !rest.is_empty() => {
            Fields::new(&call.object()?).boolean("sync")?;
            revoke_prefix(unsealed, rest).await
        }
        ("tidy", Update) if rest.is_empty() => {
            call.object()?;
            tidy(unsealed).await
        }
        ("", Read) => irrevocable(call, "leases", Json::Array(Vec::new())),
        ("count", Read) if rest.is_empty() => irrevocable(call, "counts", Json::object([])),
        ("lookup" | "renew" | "revoke", _) => Err(Error::UnsupportedOperation),
        ("revoke-prefix" | "revoke-force", _) if !rest.is_empty() => {
            Err(Error::UnsupportedOperation)
        }
        ("tidy" | "" | "count", _) if rest.is_empty() => Err(Error::UnsupportedOperation),
        _ => Err(Error::UnsupportedPath),
    }
}

/// The id of the lease of a token made at `path`.
fn id_of(path: &str, hash: &Hash) -> String {
    format!("{path}/{}", name_of(hash))
}

/// The last segment of an id.
fn name_of(hash: &Hash) -> String {
    format!("{MARK}{}", HEXLOWER.encode(hash))
}

/// The live token whose lease has this id.
fn find(unsealed: &Unsealed, call: &Call<'_, '_>, id: &str) -> Option<(Hash, TokenEntry)> {
    let (path, name) = id.rsplit_once('/')?;
    let hash = HEXLOWER.decode(name.strip_prefix(MARK)?.as_bytes()).ok()?.try_into().ok()?;
    let entry = unsealed.view.tokens.entry(&hash)?;
    let fits = entry.auth.path == path && path != ROOT_PATH && !entry.auth.is_expired(call.now);
    fits.then_some((hash, entry))
}

/// The id in the path or, without one there, in the body.
fn given_id(call: &Call<'_, '_>, in_path: &str) -> Result<String, Error> {
    if !in_path.is_empty() {
        return Ok(in_path.to_owned());
    }
    let body = call.object()?;
    let given = Fields::new(&body).string("lease_id")?.filter(|id| !id.is_empty());
    given.ok_or_else(|| Error::invalid("lease_id must be specified"))
}

fn look_up(unsealed: &Unsealed, call: &Call<'_, '_>) -> Result<Response, Error> {
    let found = find(unsealed, call, &given_id(call, "")?);
    let (hash, entry) = found.ok_or_else(|| Error::invalid("invalid lease"))?;
    let time = |at: Option<jiff::Timestamp>| at.map_or(Json::Null, |at| at.to_string().into());
    Ok(Response::data(&Json::object([
        ("expire_time", time(entry.auth.expires_at)),
        ("id", id_of(&entry.auth.path, &hash).into()),
        ("issue_time", time(Some(entry.auth.created_at))),
        ("last_renewal", time(entry.renewed_at)),
        ("path", entry.auth.path.as_str().into()),
        ("renewable", entry.renewable.into()),
        ("ttl", entry.ttl_left_secs(call.now).into()),
    ])))
}

/// The ids below a folder, as a tree.
fn list(unsealed: &Unsealed, folder: &str) -> Result<Response, Error> {
    let tokens = &unsealed.view.tokens;
    let inside = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let mut names = tokens.folders(&inside, LIST_ENTRIES_MAX + 1);
    names.extend(tokens.made_at(folder, LIST_ENTRIES_MAX + 1).iter().map(name_of));
    if names.is_empty() {
        return Err(Error::NotFound);
    }
    if names.len() > LIST_ENTRIES_MAX {
        return Err(Error::invalid(format!("more than {LIST_ENTRIES_MAX} entries")));
    }
    names.sort();
    Ok(Response::data(&Json::object([("keys", Json::strings(names))])))
}

/// Refuses: tokens are renewed as tokens.
fn renew(unsealed: &Unsealed, call: &Call<'_, '_>, in_path: &str) -> Result<Response, Error> {
    let found = find(unsealed, call, &given_id(call, in_path)?);
    let (_, entry) = found.ok_or_else(|| Error::invalid("lease not found"))?;
    Err(Error::invalid(match entry.renewable {
        true => "tokens cannot be renewed through this endpoint",
        false => "lease is not renewable",
    }))
}

async fn revoke(
    unsealed: &Unsealed,
    call: &Call<'_, '_>,
    in_path: &str,
) -> Result<Response, Error> {
    Fields::new(&call.object()?).boolean("sync")?;
    // A lease that is not there is as revoked as can be.
    if let Some((hash, _)) = find(unsealed, call, &given_id(call, in_path)?) {
        revoke_tree(unsealed, hash).await?;
    }
    Ok(Response::Empty)
}

/// Ends every token whose lease id starts with the whole segments of `prefix`.
async fn revoke_prefix(unsealed: &Unsealed, prefix: &str) -> Result<Response, Error> {
    super::revoke::revoke_made_at(unsealed, prefix).await?;
    revoke_made_below(unsealed, &format!("{prefix}/")).await?;
    Ok(Response::Empty)
}

async fn tidy(unsealed: &Unsealed) -> Result<Response, Error> {
    take_up_revocations(unsealed).await?;
    let warnings = vec![
        "Leases end by themselves and by revocation; what a crash left behind was cleared."
            .to_owned(),
    ];
    Ok(Response::Accepted(Logical { warnings, ..Logical::default() }))
}

/// Answers how many leases could not be revoked, and which: none ever is.
fn irrevocable(call: &Call<'_, '_>, name: &'static str, none: Json) -> Result<Response, Error> {
    let kind = call.query.iter().find(|(name, _)| name == "type");
    if kind.is_none_or(|(_, kind)| kind != "irrevocable") {
        return Err(Error::NotFound);
    }
    Ok(Response::data(&Json::object([("lease_count", 0_u64.into()), (name, none)])))
}
