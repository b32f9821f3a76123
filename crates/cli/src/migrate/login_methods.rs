//! Login methods: their mounts, settings, roles and users.
//!
//! What proves somebody (passwords, secret ids, a method's own credentials elsewhere) is told by no API. Users with passwords are made with one
//! that is drawn and told to nobody, so their policies are there and a new password lets them in. A snapshot has all of it: hashes of passwords
//! are given with the user, secret ids by what their server keeps of them.

use std::sync::atomic::{AtomicUsize, Ordering};

use data_encoding::BASE64URL_NOPAD;

use super::endpoint::{ItemFailure, check_target_path};
use super::mounts::{settings, text, written};
use super::pass::{Item, Migration, MigrationPass, is_nothing};
use super::pool;
use super::report::Settled;
use super::scope::ContentKind;
use super::secret_ids;
use super::translations::Translations;
use crate::login_kind::LoginKind;
use crate::wrapped_key::random;
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};

/// Bytes of a password that nobody is told.
const PASSWORD_BYTES: usize = 32;
/// The path of the method of tokens, which every server has.
const TOKEN: &str = "token/";

/// What a kind of method keeps, by the routes below its mount.
#[derive(Clone, Copy)]
struct MethodContent {
    /// One object.
    settings: Option<&'static str>,
    /// Lists of objects.
    lists: &'static [&'static str],
    /// What does not move.
    lacks: &'static str,
}

/// What a method of a kind keeps; nothing of a kind that no server here has.
const fn content_of(kind: LoginKind) -> Option<MethodContent> {
    let (settings, lists, lacks): (_, &[&str], _) = match kind {
        LoginKind::Approle => (None, &["role"], "secret ids"),
        LoginKind::Userpass => (None, &["users"], "passwords"),
        LoginKind::Token => (None, &["roles"], "tokens"),
        LoginKind::Jwt | LoginKind::Oidc => (Some("config"), &["role"], "the client's secret"),
        LoginKind::Kubernetes => (Some("config"), &["role"], "the reviewer's token"),
        LoginKind::Ldap => (Some("config"), &["groups", "users"], "the password of binddn"),
        LoginKind::Github => (Some("config"), &["map/teams", "map/users"], ""),
        LoginKind::Okta => (Some("config"), &["groups", "users"], "the API token"),
        LoginKind::Cert => (Some("config"), &["certs"], ""),
        LoginKind::Radius => return None,
    };
    Some(MethodContent { settings, lists, lacks })
}

/// A method, at its path below `auth/`, which ends in a slash.
#[derive(Clone, Copy)]
struct MovedMethod<'m> {
    namespace: &'m str,
    path: &'m str,
    kind: LoginKind,
    content: MethodContent,
}

/// Moves the login methods of a namespace, if they are in scope, and notes what their accessors are at the target.
pub(super) fn move_all(
    migration: &Migration<'_>,
    namespace: &str,
    translations: &mut Translations,
) -> Result<(), Error> {
    if ![ContentKind::LoginMethods, ContentKind::Identity, ContentKind::Policies]
        .iter()
        .any(|kind| migration.scope.has(*kind))
    {
        return Ok(());
    }
    let all = Item { kind: "login methods", namespace, path: "" };
    let read = |from| migration.read_all(all, from, ("sys/auth", "auth"));
    let Some(there) = read(&migration.source)? else { return Ok(()) };
    let Some(here) = read(&migration.target)? else { return Ok(()) };
    let mut moved = Vec::new();
    for (path, method) in there.iter().filter(|_| migration.scope.has(ContentKind::LoginMethods)) {
        let Some(method) = method.as_object().filter(|_| path.ends_with('/')) else { continue };
        let name = text(method, "type").trim_start_matches("ns_");
        let item = Item { path, ..all };
        let known = LoginKind::named(name).and_then(|kind| Some((kind, content_of(kind)?)));
        let Some((kind, content)) = known else {
            let why = format!("the target has no login method {name:?}");
            migration.report.count(item, Settled::NotMoved(why));
            continue;
        };
        let here = here.get(path).and_then(Json::as_object);
        if path == TOKEN || move_mount(migration, item, method, here)? {
            moved.push(MovedMethod { namespace, path, kind, content });
        }
    }
    let here = read(&migration.target)?.unwrap_or_default();
    let accessor = |of: &Map, path: &str| {
        let method = of.get(path).and_then(Json::as_object)?;
        Some(text(method, "accessor").to_owned())
    };
    for path in there.keys() {
        if let (Some(there), Some(here)) = (accessor(&there, path), accessor(&here, path)) {
            translations.add(&there, &here);
        }
    }
    moved.into_iter().try_for_each(|method| move_content(migration, method))
}

fn move_mount(
    migration: &Migration<'_>,
    item: Item<'_>,
    there: &Map,
    here: Option<&Map>,
) -> Result<bool, Error> {
    if here.is_some_and(|here| text(here, "type") != text(there, "type")) {
        migration
            .report
            .count(item, Settled::not_moved("the target has a method of another kind there"));
        return Ok(false);
    }
    migration.settle(item, || {
        let wanted = settings(there);
        let tuned = here.map(settings);
        let path = format!("sys/auth/{}", item.path.trim_end_matches('/'));
        check_target_path(item.namespace, &path)?;
        migration.settle_against(tuned.as_ref(), &wanted, || {
            let (path, body) = match tuned {
                None => (path, super::mounts::creation(there)),
                Some(_) => (format!("{path}/tune"), written(wanted.clone())),
            };
            migration.target.write(item.namespace, &path, body).map(drop)
        })
    })
}

fn move_content(migration: &Migration<'_>, method: MovedMethod<'_>) -> Result<(), Error> {
    let base = format!("auth/{}", method.path);
    if let Some(route) = method.content.settings {
        let path = format!("{base}{route}");
        let item = Item { kind: "login settings", namespace: method.namespace, path: &path };
        migration.settle(item, || {
            let Some(there) = migration.source.read(method.namespace, &path)? else {
                return Ok(Settled::Same);
            };
            let hidden = hidden(migration, item)?;
            let mut wanted = writable(there);
            // The target has them in any case.
            if method.kind == LoginKind::Cert {
                wanted.remove("enable_identity_alias_metadata");
            }
            let here = migration.target_or_nothing(method.namespace, &path)?;
            let write = || {
                let mut body = wanted.clone();
                body.extend(hidden.clone());
                write_settings(migration, method, item, body)
            };
            let settled = match (is_rewritten(migration, &hidden), migration.pass) {
                (true, MigrationPass::DryRun) => Settled::Moved,
                (true, _) => write().map(|()| Settled::Moved)?,
                (false, _) => migration.settle_against(here.as_ref(), &wanted, write)?,
            };
            let lacks = !method.content.lacks.is_empty() && migration.source.snapshot().is_none();
            if matches!(settled, Settled::Moved) && lacks {
                let why = format!(
                    "{} cannot be read: write it again if there was one",
                    method.content.lacks
                );
                migration.report.note(item, why);
            }
            Ok(settled)
        })?;
    }
    for list in method.content.lists {
        let names = migration.list("login roles", method.namespace, &format!("{base}{list}"))?;
        migration.progress.begin(&format!("{}{base}{list}", method.namespace), names.len());
        let moved = AtomicUsize::new(0);
        pool::for_each(&names, migration.workers, |name| {
            let path = format!("{base}{list}/{name}");
            let item = Item { kind: "login roles", namespace: method.namespace, path: &path };
            migration.settle(item, || {
                let settled = move_role(migration, method, item)?;
                moved.fetch_add(usize::from(matches!(settled, Settled::Moved)), Ordering::Relaxed);
                Ok(settled)
            })?;
            if method.kind == LoginKind::Approle {
                secret_ids::move_all(migration, item)?;
            }
            migration.progress.add(1);
            Ok(())
        })?;
        let moved = moved.into_inner();
        let lacks = migration.source.snapshot().is_none();
        if lacks && moved > 0 && matches!(method.kind, LoginKind::Approle | LoginKind::Userpass) {
            let item =
                Item { kind: "login methods", namespace: method.namespace, path: method.path };
            let why = format!(
                "{} of {moved} roles or users cannot be read: give out new ones",
                method.content.lacks
            );
            migration.report.note(item, why);
        }
    }
    Ok(())
}

/// Writes the settings of a method. A provider that the target does not reach now may be reached when somebody logs in: its settings are written
/// without asking it, and a note says so.
fn write_settings(
    migration: &Migration<'_>,
    method: MovedMethod<'_>,
    item: Item<'_>,
    mut body: Map,
) -> Result<(), ItemFailure> {
    let write = |body| migration.target.write(item.namespace, item.path, body).map(drop);
    match write(body.clone()) {
        Err(ItemFailure::Item(why)) if matches!(method.kind, LoginKind::Jwt | LoginKind::Oidc) => {
            body.insert("skip_jwks_validation".to_owned(), true.into());
            write(body)?;
            migration.report.note(item, format!("written without asking the provider: {why}"));
            Ok(())
        }
        written => written,
    }
}

fn move_role(
    migration: &Migration<'_>,
    method: MovedMethod<'_>,
    item: Item<'_>,
) -> Result<Settled, ItemFailure> {
    let Item { namespace, path, .. } = item;
    let Some(there) = migration.source.read(namespace, path)? else {
        return Ok(Settled::not_moved("it is gone at the source"));
    };
    let wanted = writable(there);
    let here = migration.target_or_nothing(namespace, path)?;
    let hidden = hidden(migration, item)?;
    let is_rewritten = is_rewritten(migration, &hidden);
    let write = || {
        let mut body = wanted.clone();
        if here.is_none() || is_rewritten {
            body.extend(hidden.clone());
        }
        if method.kind == LoginKind::Userpass && here.is_none() && hidden.is_empty() {
            body.insert(
                "password".to_owned(),
                BASE64URL_NOPAD.encode(&random::<PASSWORD_BYTES>()?).into(),
            );
        }
        migration.target.write(namespace, path, body).map(drop)
    };
    let settled = match (is_rewritten, migration.pass) {
        (true, MigrationPass::DryRun) => Settled::Moved,
        (true, _) => write().map(|()| Settled::Moved)?,
        (false, _) => migration.settle_against(here.as_ref(), &wanted, write)?,
    };
    if here.is_some()
        && !hidden.is_empty()
        && !is_rewritten
        && migration.pass != MigrationPass::Compare
    {
        let why = "it is there already, and its password stays the one that it has there: -overwrite sets that of the snapshot";
        migration.report.note(item, why);
    }
    if method.kind != LoginKind::Approle || migration.pass == MigrationPass::DryRun {
        return Ok(settled);
    }
    // The id is an object of its own below the role.
    let path = format!("{path}/role-id");
    let Some(id) = migration.source.read(namespace, &path)? else { return Ok(settled) };
    Ok(settled.and(migration.settle_object(namespace, &path, id)?))
}

/// What no API tells of an object; nothing where the source is a server.
fn hidden(migration: &Migration<'_>, item: Item<'_>) -> Result<Map, ItemFailure> {
    match migration.source.snapshot() {
        Some(snapshot) => snapshot.hidden(item.namespace, item.path),
        None => Ok(Map::new()),
    }
}

/// Whether an object is written though it reads the same: what it hides may be another.
fn is_rewritten(migration: &Migration<'_>, hidden: &Map) -> bool {
    migration.overwrites && migration.pass != MigrationPass::Compare && !hidden.is_empty()
}

/// What of an object that was read can be written. Nulls say nothing, and neither does the old name of a field beside its new one, `period` beside
/// `token_period`, which some servers show as nothing and others as the same.
fn writable(read: Map) -> Map {
    let is_old_name =
        |name: &str, value: &Json| is_nothing(value) && read.contains_key(&format!("token_{name}"));
    let kept =
        read.iter().filter(|(name, value)| **value != Json::Null && !is_old_name(name, value));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kallisto_command::json::parse_object;

    #[test]
    fn nulls_and_old_names_of_fields_are_not_written() {
        let read = parse_object(
            br#"{"a":null,"period":0,"token_period":9,"token_ttl":0,"ttl":0,"name":"n"}"#,
        );
        let names: Vec<String> = writable(read.unwrap()).into_keys().collect();
        assert_eq!(names, ["name", "token_period", "token_ttl"]);
    }
}
