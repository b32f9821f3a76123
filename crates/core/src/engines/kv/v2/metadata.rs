//! `metadata/:path`: a secret's settings and versions, its removal, and the lists.

use super::commit::{Plan, load, run};
use super::custom;
use super::decide::{WriteDecision, new_metadata};
use crate::api::Span;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map, write_string};
use crate::api::response::{Logical, Response};
use crate::engines::kv::access::Kv;
use crate::engines::kv::access::check_entry_path;
use crate::engines::kv::list::{ListDepth, ListPage, keys_object, names};
use crate::engines::kv::time;
use crate::limits::VERSIONS_KEPT_MAX;
use crate::records::kv::{KvConfig, SecretMetadata};

/// The fields a metadata write may carry.
const SETTINGS: [&str; 5] = [
    "cas_required",
    "custom_metadata",
    "delete_version_after",
    "max_versions",
    "metadata_cas_required",
];

/// How `custom_metadata` is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Custom {
    /// The whole map is replaced.
    Replace,
    /// The map is merged; `null` clears.
    Merge,
}

/// Reads the metadata of a secret; `None` when it takes more than [`Kv`] lets it.
pub(super) fn read(kv: &Kv<'_>, path: &str) -> Option<Result<Response, Error>> {
    kv.lets_read().then(|| shown(kv, path))
}

fn shown(kv: &Kv<'_>, path: &str) -> Result<Response, Error> {
    if !kv.mount.index.may_contain(path) {
        return Err(Error::NotFound);
    }
    let metadata = load(kv, path)?.ok_or(Error::NotFound)?;
    Ok(Response::data(&to_wire(&metadata)?))
}

/// The metadata object as reads and detailed lists show it.
fn to_wire(metadata: &SecretMetadata) -> Result<Json, Error> {
    let versions: Map = metadata
        .versions
        .iter()
        .map(|info| {
            let mut shown = Map::new();
            shown.insert("created_time".into(), time::text(info.created_ns).into());
            shown.insert("deletion_time".into(), time::optional_text(info.deletion_ns).into());
            shown.insert("destroyed".into(), info.destroyed.into());
            metadata.attribution.show(info.version, &mut shown);
            (info.version.to_string(), shown.into())
        })
        .collect();
    Ok(Json::object([
        ("cas_required", metadata.cas_required.into()),
        ("created_time", time::text(metadata.created_ns).into()),
        ("current_metadata_version", metadata.metadata_version.into()),
        ("current_version", metadata.current_version.into()),
        ("custom_metadata", custom::to_json(metadata.custom.as_deref())?),
        ("delete_version_after", Span::from_nanos(metadata.delete_after_ns).to_go().into()),
        ("max_versions", u64::from(metadata.max_versions).into()),
        ("metadata_cas_required", metadata.metadata_cas_required.into()),
        ("oldest_version", metadata.oldest_version.into()),
        ("updated_time", time::text(metadata.updated_ns).into()),
        ("versions", versions.into()),
    ]))
}

pub(super) async fn write(kv: &Kv<'_>, path: &str) -> Result<Response, Error> {
    check_entry_path(path)?;
    let body = kv.call.object()?;
    if !names_setting(&body) {
        return Ok(Response::Empty);
    }
    let config = kv.mount.kv_config.load();
    let now_ns = kv.call.now_ns();
    run(kv, path, |metadata| {
        let metadata = metadata.unwrap_or_else(|| new_metadata(now_ns));
        change(metadata, &config, &body, Custom::Replace, now_ns)
    })
    .await
}

pub(super) async fn patch(kv: &Kv<'_>, path: &str) -> Result<Response, Error> {
    check_entry_path(path)?;
    let body = kv.call.merge_patch()?;
    let config = kv.mount.kv_config.load();
    let now_ns = kv.call.now_ns();
    run(kv, path, |metadata| match metadata {
        None => Ok(Plan::Reply(Response::MissingEmpty)),
        Some(_) if !names_setting(&body) => Ok(Plan::Reply(Response::Empty)),
        Some(metadata) => change(metadata, &config, &body, Custom::Merge, now_ns),
    })
    .await
}

/// Whether a body names a setting. One that names none, such as one whose names are all mistyped, makes no secret.
fn names_setting(body: &Map) -> bool {
    SETTINGS.iter().any(|name| body.contains_key(*name))
}

/// Applies the settings a body carries; absent ones keep their value, and a `null` of a patch resets one.
fn change(
    mut metadata: SecretMetadata,
    config: &KvConfig,
    body: &Map,
    how: Custom,
    now_ns: i64,
) -> Result<Plan<'static, Response>, Error> {
    let fields = Fields::new(body);
    check_metadata_cas(&metadata, config, fields)?;
    let is_reset = |name: &str| how == Custom::Merge && body.get(name) == Some(&Json::Null);
    if let Some(kept) = max_versions(fields)?.or(is_reset("max_versions").then_some(0)) {
        metadata.max_versions = kept;
    }
    let mut warnings = Vec::new();
    for (name, setting, is_mandated) in [
        ("cas_required", &mut metadata.cas_required, config.cas_required),
        (
            "metadata_cas_required",
            &mut metadata.metadata_cas_required,
            config.metadata_cas_required,
        ),
    ] {
        let given = fields.boolean(name)?.or(is_reset(name).then_some(false));
        let Some(required) = given else { continue };
        *setting = required;
        if is_mandated && !required {
            warnings.push(format!(
                "\"{name}\" set to false, but is mandated by backend config. This value will be \
                 ignored."
            ));
        }
    }
    if let Some(life_ns) = delete_after(fields)?.or(is_reset("delete_version_after").then_some(0)) {
        metadata.delete_after_ns = life_ns;
    }
    match (fields.map("custom_metadata")?, how) {
        (Some(map), Custom::Replace) => metadata.custom = custom::replace(map)?,
        (Some(map), Custom::Merge) => {
            metadata.custom = custom::merge(metadata.custom.as_deref(), map)?;
        }
        (None, Custom::Merge) if is_reset("custom_metadata") => metadata.custom = None,
        (None, _) => {}
    }
    metadata.metadata_version += 1;
    metadata.updated_ns = now_ns;
    let decision = WriteDecision { metadata, dropped: Vec::new() };
    let reply = match warnings.is_empty() {
        true => Response::Empty,
        false => Response::Logical(Logical { warnings, ..Logical::default() }),
    };
    Ok(Plan::Write { decision, data: None, reply })
}

fn check_metadata_cas(
    metadata: &SecretMetadata,
    config: &KvConfig,
    fields: Fields<'_>,
) -> Result<(), Error> {
    match fields.int("metadata_cas")? {
        None if metadata.metadata_cas_required || config.metadata_cas_required => {
            Err(Error::invalid("metadata check-and-set parameter required for this call"))
        }
        Some(cas) if u64::try_from(cas) != Ok(metadata.metadata_version) => Err(Error::invalid(
            "metadata check-and-set parameter does not match the current version",
        )),
        _ => Ok(()),
    }
}

/// The `max_versions` field, within its limits.
///
/// # Errors
/// [`Error::Invalid`] for a negative number or one over [`VERSIONS_KEPT_MAX`].
pub(super) fn max_versions(fields: Fields<'_>) -> Result<Option<u32>, Error> {
    let Some(given) = fields.int("max_versions")? else { return Ok(None) };
    let kept = u32::try_from(given).ok().filter(|&kept| kept <= VERSIONS_KEPT_MAX);
    kept.map(Some).ok_or_else(|| {
        Error::invalid(format!("max_versions must be from 0 to {VERSIONS_KEPT_MAX}"))
    })
}

/// The `delete_version_after` field in nanoseconds.
///
/// # Errors
/// [`Error::Invalid`] for a negative one.
pub(super) fn delete_after(fields: Fields<'_>) -> Result<Option<i64>, Error> {
    let Some(life) = fields.span("delete_version_after")? else { return Ok(None) };
    if life.is_negative() {
        let secs = life.secs();
        return Err(Error::invalid(format!(
            "error converting input for field \"delete_version_after\": cannot provide \
             negative value '{secs}'"
        )));
    }
    Ok(Some(life.nanos()))
}

pub(super) async fn delete(kv: &Kv<'_>, path: &str) -> Result<Response, Error> {
    run(kv, path, |metadata| {
        Ok(match metadata {
            None => Plan::Reply(Response::Empty),
            Some(metadata) => Plan::Remove { metadata, reply: Response::Empty },
        })
    })
    .await
}

/// LIST and SCAN; `None` when it takes more than [`Kv`] lets it.
pub(super) fn list(kv: &Kv<'_>, folder: &str) -> Option<Result<Response, Error>> {
    let listed = || Ok(Response::data(&keys_object(asked_names(kv, folder)?)));
    kv.lets_read().then(listed)
}

/// The same with each entry's metadata beside its name.
pub(super) fn list_detailed(kv: &Kv<'_>, folder: &str) -> Option<Result<Response, Error>> {
    kv.lets_read().then(|| detailed(kv, folder))
}

fn asked_names(kv: &Kv<'_>, folder: &str) -> Result<Vec<String>, Error> {
    names(kv, folder, ListDepth::of(kv.call.operation), &ListPage::from_query(kv)?)
}

fn detailed(kv: &Kv<'_>, folder: &str) -> Result<Response, Error> {
    let names = asked_names(kv, folder)?;
    let folder = folder.trim_end_matches('/');
    let mut info = Map::new();
    for name in names.iter().filter(|name| !name.ends_with('/')) {
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        // A name that vanished since it was listed keeps its place in the list only.
        if let Some(metadata) = load(kv, &path)? {
            info.insert(name.clone(), to_wire(&metadata)?);
        }
    }
    Ok(Response::data(&Json::object([
        ("key_info", Json::Object(info)),
        ("keys", Json::strings(names)),
    ])))
}

/// Adds an entry's metadata to the inside of `key_info`. Folders have none, and of a name that
/// vanished since it was listed there is nothing to say.
pub(crate) fn detail(
    kv: &Kv<'_>,
    folder: &str,
    name: &str,
    info: &mut Vec<u8>,
) -> Result<(), Error> {
    if name.ends_with('/') {
        return Ok(());
    }
    let folder = folder.trim_end_matches('/');
    let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
    let Some(metadata) = load(kv, &path)? else { return Ok(()) };
    if !info.is_empty() {
        info.push(b',');
    }
    write_string(name, info);
    info.push(b':');
    info.extend_from_slice(&to_wire(&metadata)?.to_text());
    Ok(())
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::{self, Patch, Read, Update};

    use super::*;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{ROOT, ask, open_core};
    use crate::state::Core;

    const PATH: &str = "secret/metadata/a";

    fn write(core: &Core, operation: Operation, body: &str) -> Result<(), String> {
        match ask(core, Some(ROOT), operation, PATH, body) {
            Ok(Response::Empty) => Ok(()),
            Err(Error::Invalid(why)) => Err(why),
            answer => panic!("{answer:?}"),
        }
    }

    fn shown(core: &Core) -> String {
        match ask(core, Some(ROOT), Read, PATH, "").unwrap() {
            Response::Logical(logical) => String::from_utf8(logical.data).unwrap(),
            answer => panic!("{answer:?}"),
        }
    }

    /// RFC 7396, section 1: a null removes what there is, so what nobody set holds again.
    #[test]
    fn a_null_in_a_patch_resets_a_setting_and_in_a_write_leaves_it() {
        const SET: &str = r#"{"cas_required":true,"custom_metadata":{"a":"b"},
            "delete_version_after":"1h","max_versions":3,"metadata_cas_required":true}"#;
        let core = open_core(RouteAccess::Token);
        let shown = |operation, body: &str| {
            ask(&core, Some(ROOT), Update, "secret/data/a", r#"{"data":{},"options":{"cas":0}}"#)
                .ok();
            ask(&core, Some(ROOT), operation, PATH, body).unwrap();
            let answer = ask(&core, Some(ROOT), Read, PATH, "").unwrap();
            let Response::Logical(logical) = answer else { panic!("{answer:?}") };
            crate::api::json::parse_object(&logical.data).unwrap()
        };
        let set = shown(Update, SET);
        let same = |field: &str, body: &str| shown(Update, body).get(field) == set.get(field);
        assert!(same("max_versions", r#"{"max_versions":null,"metadata_cas":1}"#));
        for (at, (field, reset)) in [
            ("cas_required", Json::from(false)),
            ("custom_metadata", Json::Null),
            ("delete_version_after", "0s".into()),
            ("max_versions", 0_u64.into()),
            ("metadata_cas_required", false.into()),
        ]
        .into_iter()
        .enumerate()
        {
            let body = format!(r#"{{"{field}":null,"metadata_cas":{}}}"#, at + 2);
            assert_ne!(set.get(field), Some(&reset), "{field}");
            assert_eq!(shown(Patch, &body).get(field), Some(&reset), "{field}");
        }
    }

    #[test]
    fn a_write_without_a_setting_makes_no_secret() {
        let core = open_core(RouteAccess::Token);
        for body in ["{}", r#"{"max_version":3,"metadata_cas":0}"#] {
            let answer = ask(&core, Some(ROOT), Update, "secret/metadata/typo", body);
            assert!(matches!(answer, Ok(Response::Empty)), "{body}: {answer:?}");
            let read = ask(&core, Some(ROOT), Read, "secret/metadata/typo", "");
            assert!(matches!(read, Err(Error::NotFound)), "{body}: {read:?}");
            let answer = ask(&core, Some(ROOT), Patch, "secret/metadata/typo", body);
            assert!(matches!(answer, Ok(Response::MissingEmpty)), "{body}: {answer:?}");
        }
        ask(&core, Some(ROOT), Update, "secret/metadata/typo", r#"{"max_versions":3}"#).unwrap();
        assert!(ask(&core, Some(ROOT), Read, "secret/metadata/typo", "").is_ok());
        let before = core.store.position();
        for operation in [Update, Patch] {
            ask(&core, Some(ROOT), operation, "secret/metadata/typo", "{}").unwrap();
        }
        assert_eq!(core.store.position(), before, "nothing is written");
    }

    #[test]
    fn a_patch_leaves_what_it_does_not_name_and_clears_what_it_names_null() {
        let core = open_core(RouteAccess::Token);
        write(&core, Update, r#"{"custom_metadata":{"a":"1","b":"2"},"max_versions":3}"#).unwrap();
        write(&core, Patch, r#"{"cas_required":true}"#).unwrap();
        assert!(shown(&core).contains(r#""custom_metadata":{"a":"1","b":"2"}"#));
        write(&core, Patch, r#"{"custom_metadata":{"a":null,"c":"3"}}"#).unwrap();
        assert!(shown(&core).contains(r#""custom_metadata":{"b":"2","c":"3"}"#));
        write(&core, Patch, r#"{"custom_metadata":null}"#).unwrap();
        let left = shown(&core);
        assert!(left.contains(r#""custom_metadata":null"#) && left.contains(r#""max_versions":3"#));
        assert!(left.contains(r#""cas_required":true"#));
    }

    #[test]
    fn a_change_of_metadata_may_have_to_name_the_one_that_it_changes() {
        const REQUIRED: &str = "metadata check-and-set parameter required for this call";
        const OTHER: &str = "metadata check-and-set parameter does not match the current version";
        let core = open_core(RouteAccess::Token);
        write(&core, Update, r#"{"metadata_cas":0,"max_versions":3}"#).unwrap();
        write(&core, Update, r#"{"max_versions":4}"#).unwrap();
        for wrong in [0, 1, 3, -1] {
            let body = format!(r#"{{"metadata_cas":{wrong},"max_versions":9}}"#);
            assert_eq!(write(&core, Update, &body), Err(OTHER.to_owned()), "{wrong}");
        }
        write(&core, Update, r#"{"metadata_cas":2,"metadata_cas_required":true}"#).unwrap();
        assert_eq!(write(&core, Update, r#"{"max_versions":5}"#), Err(REQUIRED.to_owned()));
        write(&core, Patch, r#"{"metadata_cas":3,"metadata_cas_required":false}"#).unwrap();
        write(&core, Update, r#"{"max_versions":5}"#).unwrap();
        let mount = r#"{"metadata_cas_required":true}"#;
        ask(&core, Some(ROOT), Update, "secret/config", mount).unwrap();
        assert_eq!(write(&core, Update, r#"{"max_versions":6}"#), Err(REQUIRED.to_owned()));
        assert!(shown(&core).contains(r#""max_versions":5"#));
    }

    /// What the mount requires is required, whatever a secret says.
    #[test]
    fn who_would_lift_what_the_mount_requires_is_told_that_it_holds() {
        let core = open_core(RouteAccess::Token);
        let told = |operation, body: &str| match ask(&core, Some(ROOT), operation, PATH, body) {
            Ok(Response::Empty) => Vec::new(),
            Ok(Response::Logical(logical)) if logical.data.is_empty() => logical.warnings,
            answer => panic!("{answer:?}"),
        };
        let warning = |field: &str| {
            format!(
                "\"{field}\" set to false, but is mandated by backend config. This value will be \
                 ignored."
            )
        };
        let no = r#"{"cas_required":false,"metadata_cas_required":false,"metadata_cas":0}"#;
        assert_eq!(told(Update, no), [""; 0], "the mount requires nothing");
        let mount = r#"{"cas_required":true}"#;
        ask(&core, Some(ROOT), Update, "secret/config", mount).unwrap();
        for (operation, body) in [
            (Update, r#"{"cas_required":false}"#),
            (Patch, r#"{"cas_required":false}"#),
            (Patch, r#"{"cas_required":null}"#),
        ] {
            assert_eq!(told(operation, body), [warning("cas_required")], "{body}");
        }
        for body in
            [r#"{"cas_required":true}"#, r#"{"cas_required":null}"#, r#"{"max_versions":3}"#]
        {
            assert_eq!(told(Update, body), [""; 0], "{body}");
        }
        let mount = r#"{"metadata_cas_required":true}"#;
        ask(&core, Some(ROOT), Update, "secret/config", mount).unwrap();
        let both = [warning("cas_required"), warning("metadata_cas_required")];
        let version = |at: u64| {
            format!("{},\"metadata_cas\":{at}}}", no.split_once(r#","metadata_cas":"#).unwrap().0)
        };
        assert_eq!(told(Update, &version(7)), both);
        assert_eq!(told(Patch, &version(8)), both);
        // It is not said of what is refused.
        assert!(ask(&core, Some(ROOT), Update, PATH, no).is_err());
    }

    #[test]
    fn as_many_versions_are_kept_as_the_limit_lets_them() {
        let core = open_core(RouteAccess::Token);
        let keep = |count: i64| write(&core, Update, &format!(r#"{{"max_versions":{count}}}"#));
        for taken in [0, 1, i64::from(VERSIONS_KEPT_MAX)] {
            assert_eq!(keep(taken), Ok(()), "{taken}");
        }
        for refused in [-1, i64::from(VERSIONS_KEPT_MAX) + 1, 1 << 32] {
            assert!(keep(refused).is_err(), "{refused}");
        }
    }
}
