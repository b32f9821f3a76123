//! Mounts of engines, with what they are tuned to.

use super::endpoint::check_target_path;
use super::pass::{Item, Migration, is_nothing};
use super::report::Settled;
use super::scope::ContentKind;
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};

/// What of a mount's settings moves.
const TUNING: [&str; 10] = [
    "allowed_response_headers",
    "audit_non_hmac_request_keys",
    "audit_non_hmac_response_keys",
    "default_lease_ttl",
    "force_no_cache",
    "listing_visibility",
    "max_lease_ttl",
    "passthrough_request_headers",
    "token_type",
    LOCKOUT,
];
/// When logins are locked out. Its parts are written by other names than they are read.
pub(super) const LOCKOUT: &str = "user_lockout_config";
/// What of it is the default where a server shows 0 (OpenBao and Vault, what was not set) or nothing; Kallisto shows the default.
const LOCKOUT_DEFAULTS: [(&str, u64); 3] = [
    ("user_lockout_counter_reset_duration", 900),
    ("user_lockout_duration", 900),
    ("user_lockout_threshold", 5),
];
/// What a server mounts itself.
const BUILT_IN: [&str; 3] = ["cubbyhole", "identity", "system"];

/// A mount of an engine whose content moves.
pub(super) struct SourceMount {
    /// Where, ending in a slash.
    pub(super) path: String,
    pub(super) engine: MountedEngine,
}

/// Engines whose content moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MountedEngine {
    /// Secrets without versions.
    KvV1,
    /// Secrets with versions.
    KvV2,
    /// Keys that encrypt and sign.
    Transit,
    /// Certificate authorities.
    Pki,
}

/// Makes the mounts of a namespace; returns those whose content can move.
pub(super) fn move_all(
    migration: &Migration<'_>,
    namespace: &str,
) -> Result<Vec<SourceMount>, Error> {
    let item = Item { kind: "mounts", namespace, path: "" };
    let read = |from| migration.read_all(item, from, ("sys/mounts", "secret"));
    let Some(there) = read(&migration.source)? else { return Ok(Vec::new()) };
    let Some(here) = read(&migration.target)? else { return Ok(Vec::new()) };
    let mut movable = Vec::new();
    for (path, mount) in &there {
        let Some(mount) = mount.as_object().filter(|_| path.ends_with('/')) else { continue };
        let kind = text(mount, "type").trim_start_matches("ns_");
        if BUILT_IN.contains(&kind) || !migration.scope.reaches(&format!("{namespace}{path}")) {
            continue;
        }
        let full = format!("{namespace}{path}");
        migration.scope.meet(&full);
        let here = here.get(path).and_then(Json::as_object);
        let engine = move_one(migration, (namespace, path), mount, here)?;
        // Only of secrets is each named path looked for.
        let is_searched = matches!(engine, Some(MountedEngine::KvV1 | MountedEngine::KvV2))
            && migration.scope.has(ContentKind::Secrets);
        if !is_searched {
            migration.scope.meet_inside(&full);
        }
        if let Some(engine) = engine {
            movable.push(SourceMount { path: path.clone(), engine });
        }
    }
    Ok(movable)
}

/// Makes a mount. What is in it moves if its engine is returned.
fn move_one(
    migration: &Migration<'_>,
    (namespace, path): (&str, &str),
    there: &Map,
    here: Option<&Map>,
) -> Result<Option<MountedEngine>, Error> {
    let item = Item { kind: "mounts", namespace, path };
    let is_snapshot = migration.source.snapshot().is_some();
    // No API gives out the keys of authorities.
    let engine = engine_of(there).filter(|engine| is_snapshot || *engine != MountedEngine::Pki);
    let Some(engine) = engine else {
        let kind = text(there, "type");
        let how = match is_snapshot {
            true => "is not read from a snapshot",
            false => "cannot be read over the API",
        };
        let why = format!("what an engine {kind:?} keeps {how}: set it up by hand");
        migration.report.count(item, Settled::NotMoved(why));
        return Ok(None);
    };
    if let Some(other) = here.map(engine_of).filter(|other| *other != Some(engine)) {
        let why = match other {
            Some(MountedEngine::KvV1 | MountedEngine::KvV2)
                if matches!(engine, MountedEngine::KvV1 | MountedEngine::KvV2) =>
            {
                "the target has key-value secrets of another version there"
            }
            _ => "the target has another engine there",
        };
        migration.report.count(item, Settled::not_moved(why));
        return Ok(None);
    }
    if !migration.scope.has(ContentKind::Mounts) {
        return Ok(Some(engine));
    }
    let has_moved = migration.settle(item, || {
        let wanted = settings(there);
        let path = format!("sys/mounts/{}", path.trim_end_matches('/'));
        check_target_path(namespace, &path)?;
        let tuned = here.map(settings);
        migration.settle_against(tuned.as_ref(), &wanted, || {
            let (path, body) = match tuned {
                None => (path, creation(there)),
                Some(_) => (format!("{path}/tune"), wanted.clone()),
            };
            migration.target.write(namespace, &path, body).map(drop)
        })
    })?;
    Ok((has_moved || here.is_some()).then_some(engine))
}

fn engine_of(mount: &Map) -> Option<MountedEngine> {
    let version = mount.get("options").and_then(Json::as_object).and_then(|it| it.get("version"));
    match text(mount, "type") {
        "kv" if version.and_then(Json::as_str) == Some("2") => Some(MountedEngine::KvV2),
        "kv" | "generic" => Some(MountedEngine::KvV1),
        "transit" => Some(MountedEngine::Transit),
        "pki" => Some(MountedEngine::Pki),
        _ => None,
    }
}

/// What a mount is tuned to, in one form for both servers.
pub(super) fn settings(mount: &Map) -> Map {
    let config = mount.get("config").and_then(Json::as_object);
    let of = |name: &str| config.and_then(|config| config.get(name)).cloned().unwrap_or(Json::Null);
    let mut settings: Map = TUNING.iter().map(|name| ((*name).to_owned(), of(name))).collect();
    settings.retain(|_, value| *value != Json::Null);
    if let Some(Json::Object(lockout)) = settings.get_mut(LOCKOUT) {
        for (name, default) in LOCKOUT_DEFAULTS {
            if lockout.get(name).is_none_or(is_nothing) {
                lockout.insert(name.to_owned(), default.into());
            }
        }
    }
    settings.insert("description".to_owned(), text(mount, "description").into());
    settings
}

/// Settings as they are written.
pub(super) fn written(mut settings: Map) -> Map {
    if let Some(lockout) = settings.get(LOCKOUT).and_then(Json::as_object) {
        let parts = lockout.iter().map(|(name, value)| {
            (name.strip_prefix("user_").unwrap_or(name).to_owned(), value.clone())
        });
        let parts: Map = parts.collect();
        settings.insert(LOCKOUT.to_owned(), parts.into());
    }
    settings
}

/// The body that makes such a mount.
pub(super) fn creation(mount: &Map) -> Map {
    let mut config = written(settings(mount));
    config.remove("description");
    let mut body = Map::from([("config".to_owned(), Json::Object(config))]);
    for name in ["type", "description", "options", "local", "seal_wrap"] {
        if let Some(value) = mount.get(name) {
            body.insert(name.to_owned(), value.clone());
        }
    }
    body
}

/// A text of an object; empty where there is none.
pub(super) fn text<'m>(map: &'m Map, name: &str) -> &'m str {
    map.get(name).and_then(Json::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate::pass::means_the_same;
    use kallisto_command::json::parse_object;

    /// Else a method would be written, and called another, by each pass.
    #[test]
    fn what_was_not_set_of_lockouts_is_the_default_that_the_target_shows() {
        let of = |lockout: &str| {
            let mount = format!(r#"{{"config":{{"user_lockout_config":{lockout}}}}}"#);
            Json::Object(settings(&parse_object(mount.as_bytes()).unwrap()))
        };
        let partial = of(
            r#"{"user_lockout_counter_reset_duration":0,"user_lockout_threshold":3,"user_lockout_duration":0,"user_lockout_disable":true}"#,
        );
        let here = |threshold: u64, disabled: bool| {
            of(&format!(
                r#"{{"user_lockout_counter_reset_duration":900,"user_lockout_threshold":{threshold},"user_lockout_duration":900,"user_lockout_disable":{disabled}}}"#
            ))
        };
        assert!(means_the_same(&partial, &here(3, true)));
        assert!(means_the_same(&of(r#"{"user_lockout_threshold":0}"#), &here(5, false)));
        for other in [here(5, true), here(3, false)] {
            assert!(!means_the_same(&partial, &other));
        }
    }
}
