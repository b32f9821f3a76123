//! `kv/delete`: a secret or a whole folder, all of it or nothing, with a dry run.
//!
//! Without `purge` the latest versions are deleted softly and can come back, and those of a folder that are deleted already are passed by; with it the
//! secrets go with all their versions.

use crate::records::engine_kind::KvState;
use kallisto_auth::Operation;

use super::judge::BatchJudge;
use super::meter::Meter;
use super::place::{SecretName, SecretPlace};
use super::together;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Json;
use crate::api::response::{Logical, Response, TouchedPath};
use crate::caller::call::AuthorizedCall;
use crate::engines::kv::access::author;
use crate::engines::kv::staged::Staged;
use crate::engines::kv::v2;
use crate::limits::TOGETHER_SECRETS_MAX;
use crate::records::attribution::Author;
use crate::storage::keys;
use crate::view::NamespaceContext;
use kallisto_engine::pace::{ITEMS_PER_TURN, cooperative_yield};

/// How much of a secret goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// The latest version, which can be undeleted. A secret without versions is gone.
    Latest,
    /// Everything, for good.
    All,
}

pub(in crate::engines) async fn remove(
    meter: Meter<'_>,
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let fields = Fields::new(&body);
    let place = SecretPlace::from_field(context, call, fields, "path")?.meant()?;
    let extent =
        if fields.boolean("purge")?.unwrap_or(false) { Extent::All } else { Extent::Latest };
    let is_dry = fields.boolean("dry_run")?.unwrap_or(false);
    let judge = BatchJudge::of(context, call)?;
    let mut secrets = secrets_at(meter, &judge, &place)?;
    let noun = if extent == Extent::All { "metadata" } else { "data" };
    let mut touched = Vec::with_capacity(secrets.len());
    for (at, path) in secrets.iter().enumerate() {
        let path = SecretName::api_path(&place.mount, noun, path);
        if !is_dry {
            meter.take(Operation::Delete, &path)?;
        }
        judge.demand(Operation::Delete, &path)?;
        touched.push(TouchedPath { operation: Operation::Delete, path });
        if at % ITEMS_PER_TURN == 0 {
            cooperative_yield().await;
        }
    }
    // Of a folder, what was deleted before is passed by: it is neither done again nor counted.
    if place.is_folder()
        && extent == Extent::Latest
        && place.mount.entry.kind.kv() == Some(KvState::V2)
    {
        let mut living = Vec::with_capacity(secrets.len());
        for (at, (path, touched)) in secrets.into_iter().zip(touched).enumerate() {
            if v2::stage::lives(context, &place.mount, &path, call.now_ns())? {
                living.push((path, touched));
            }
            if at % ITEMS_PER_TURN == 0 {
                cooperative_yield().await;
            }
        }
        (secrets, touched) = living.into_iter().unzip();
    }
    check_count(fields, secrets.len())?;
    if !is_dry && !secrets.is_empty() {
        let by = (author(context, &place.mount, call), call.now_ns());
        let keys: Vec<_> =
            secrets.iter().map(|path| together::record_key(&place.mount, path)).collect();
        together::commit(context, &keys, secrets.len(), |at, staged| {
            stage(context, &place, &secrets[at], extent, (by.0.as_ref(), by.1), staged)
        })
        .await?;
    }
    let full = |path: &String| Json::from(format!("{}{path}", place.mount.entry.path));
    let data = Json::object([
        ("count", (secrets.len() as u64).into()),
        ("dry_run", is_dry.into()),
        ("paths", Json::Array(secrets.iter().map(full).collect())),
    ]);
    Ok(Response::Logical(Logical { data: data.to_text(), touched, ..Logical::default() }))
}

/// The secrets at a place, by their paths inside the mount: the one, or all in the folder. Who names a
/// folder has to be allowed to list it.
///
/// # Errors
/// [`Error::NotFound`] for an empty folder, [`Error::TooLarge`] with the count for one past the limit.
pub(in crate::engines) fn secrets_at(
    meter: Meter<'_>,
    judge: &BatchJudge<'_>,
    place: &SecretPlace,
) -> Result<Vec<String>, Error> {
    if !place.is_folder() {
        return Ok(vec![place.path.clone()]);
    }
    meter.take_list(place)?;
    let folder = place.path.as_str();
    judge.demand(Operation::List, &SecretName::api_path(&place.mount, "metadata", folder))?;
    let mut names = place.mount.index.scan(folder, None, TOGETHER_SECRETS_MAX + 1);
    if names.len() > TOGETHER_SECRETS_MAX {
        return Err(Error::TooLarge(format!(
            "{} holds {} secrets, and {TOGETHER_SECRETS_MAX} at most change at once; nothing was done",
            place.full(),
            place.mount.index.count(folder)
        )));
    }
    if names.is_empty() {
        return Err(Error::NotFound);
    }
    for name in &mut names {
        name.insert_str(0, folder);
    }
    Ok(names)
}

/// Refuses when the caller said how many secrets there should be, and there are more or fewer.
pub(in crate::engines) fn check_count(fields: Fields<'_>, found: usize) -> Result<(), Error> {
    match fields.int("count")? {
        Some(expected) if usize::try_from(expected) != Ok(found) => Err(Error::invalid(format!(
            "there are {found} secrets, not {expected}; nothing was done"
        ))),
        _ => Ok(()),
    }
}

fn stage(
    context: &NamespaceContext,
    place: &SecretPlace,
    path: &str,
    extent: Extent,
    by: (Option<&Author>, i64),
    staged: &mut Staged,
) -> Result<(), Error> {
    let mount = &place.mount;
    staged.set_essential();
    match (mount.entry.kind.kv(), extent) {
        (Some(KvState::V2), Extent::Latest) => {
            v2::stage::delete_latest(context, mount, path, by, staged).map(drop)
        }
        (Some(KvState::V2), Extent::All) => {
            v2::stage::remove(context, mount, path, staged).map(drop)
        }
        _ if mount.index.contains(path) => staged.delete(keys::kv_one(mount.entry.id, path)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::Update;

    use super::*;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{ROOT, ask, open_core};

    #[test]
    fn as_many_secrets_of_a_folder_go_at_once_as_the_limit_says() {
        let core = open_core(RouteAccess::Token);
        let context = core.context.load_full().unwrap();
        let (mount, _) = context.view.mounts.route("secret/").unwrap();
        for at in 0..TOGETHER_SECRETS_MAX {
            mount.index.insert(&format!("f/{at}")).unwrap();
        }
        let dry = r#"{"path":"secret/f/","purge":true,"dry_run":true}"#;
        let told = || ask(&core, Some(ROOT), Update, "sys/kallisto/kv/delete", dry);
        let Ok(Response::Logical(logical)) = told() else { panic!("{:?}", told()) };
        let counted = format!(r#"{{"count":{TOGETHER_SECRETS_MAX},"#);
        assert!(logical.data.starts_with(counted.as_bytes()));
        mount.index.insert("f/more").unwrap();
        let Err(Error::TooLarge(why)) = told() else { panic!("{:?}", told()) };
        assert!(why.contains(&format!("holds {} secrets", TOGETHER_SECRETS_MAX + 1)), "{why}");
    }
}
