//! `import/:path`: a secret of another server with its versions as they were there.
//!
//! Called by whoever has `sudo` there; `kallisto migrate` does. What is given is what a read of the metadata shows at the other server, and the
//! data of versions by their numbers. All of it becomes the secret in one batch, or nothing.
//!
//! A secret that is here already is replaced where the given history goes on from its own: it was made at the same time, no version here is newer,
//! and each has the time that the given one of its number has, unless that is trimmed by now. Then data that is here need not come again, so what changed since
//! the last import is all that travels. Any other secret stays, unless `overwrite` says otherwise.
//!
//! Who wrote the versions is not taken over: entities and requests of another server mean nothing here.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::commit::{Plan, run};
use super::custom;
use super::decide::WriteDecision;
use super::metadata::{delete_after, max_versions};
use crate::api::error::Error;
use crate::api::fields::{Fields, unconvertible};
use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::engines::kv::access::Kv;
use crate::engines::kv::access::check_entry_path;
use crate::engines::kv::access::check_entry_size;
use crate::engines::kv::time;
use crate::limits::VERSIONS_KEPT_MAX;
use crate::records::kv::{SecretMetadata, VersionInfo};

/// What is kept of a version whose data could not be read.
const NO_DATA: &[u8] = b"null";

/// A secret as it is at another server.
#[derive(Debug)]
struct SecretHistory {
    metadata: SecretMetadata,
    /// Data texts by version.
    data: BTreeMap<u64, Vec<u8>>,
    /// Whether a secret with other versions is replaced.
    overwrites: bool,
}

pub(super) async fn import(kv: &Kv<'_>, path: &str) -> Result<Response, Error> {
    check_entry_path(path)?;
    let history = SecretHistory::parse(&kv.call.object()?, kv.call.now_ns())?;
    run(kv, path, |here| decide(here, &history)).await
}

/// What becomes of the secret that is here.
fn decide(
    here: Option<SecretMetadata>,
    history: &SecretHistory,
) -> Result<Plan<'_, Response>, Error> {
    let other = here.as_ref().and_then(|here| difference(here, &history.metadata));
    if let (Some(what), false) = (&other, history.overwrites) {
        return Err(Error::invalid(format!(
            "another secret is here: {what}; nothing was done, and overwrite=true would replace it"
        )));
    }
    let known = here.as_ref().filter(|_| other.is_none());
    let mut metadata = history.metadata.clone();
    let mut data = Vec::new();
    for info in &mut metadata.versions {
        if let Some(text) = history.data.get(&info.version) {
            data.push((info.version, Cow::Borrowed(text.as_slice())));
        } else if !info.destroyed {
            let kept = known.and_then(|known| known.version(info.version));
            let kept = kept.filter(|kept| !kept.destroyed);
            info.has_no_data = kept.is_none_or(|kept| kept.has_no_data);
            if info.has_no_data && !info.deleted {
                return Err(Error::invalid(format!(
                    "version {}: its data is missing",
                    info.version
                )));
            }
            if kept.is_none() {
                data.push((info.version, Cow::Borrowed(NO_DATA)));
            }
        }
    }
    // The fold looks for the current version among the first records of a batch.
    data.reverse();
    if let Some(known) = known {
        metadata.attribution = known.attribution.clone();
        metadata.attribute_current(None);
    }
    let is_same = data.is_empty() && here.as_ref() == Some(&metadata);
    let reply = Response::data(&Json::object([
        ("changed", (!is_same).into()),
        ("current_version", metadata.current_version.into()),
    ]));
    if is_same {
        return Ok(Plan::Reply(reply));
    }
    let stays = |version| metadata.version(version).is_some_and(|info| !info.destroyed);
    let records = here.iter().flat_map(|here| &here.versions).filter(|info| !info.destroyed);
    let dropped = records.map(|info| info.version).filter(|&version| !stays(version)).collect();
    Ok(Plan::WriteVersions { decision: WriteDecision { metadata, dropped }, data, reply })
}

/// Why `given` does not go on from what is here; `None` when it does.
fn difference(here: &SecretMetadata, given: &SecretMetadata) -> Option<String> {
    if here.created_ns != given.created_ns {
        return Some(format!("it was made at {}", time::text(here.created_ns)));
    }
    let oldest = given.versions.first().map_or(0, |info| info.version);
    let is_other = |info: &&VersionInfo| match given.version(info.version) {
        Some(theirs) => theirs.created_ns != info.created_ns,
        None => info.version >= oldest,
    };
    let other = here.versions.iter().find(is_other)?;
    Some(format!("its version {} was written at {}", other.version, time::text(other.created_ns)))
}

impl SecretHistory {
    /// Reads a body.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying what of it is no secret; [`Error::TooLarge`] for data over its limit.
    fn parse(body: &Map, now_ns: i64) -> Result<Self, Error> {
        let fields = Fields::new(body);
        let given = fields.map("metadata")?.ok_or_else(|| missing("metadata"))?;
        let metadata = metadata_of(given, now_ns)?;
        let mut data = BTreeMap::new();
        for (number, value) in fields.map("data")?.into_iter().flatten() {
            let version = number_of(number)?;
            let info = metadata.version(version).filter(|info| !info.destroyed);
            if info.is_none() {
                return Err(Error::invalid(format!(
                    "data: the secret has no version {version} with data"
                )));
            }
            if !matches!(value, Json::Object(_) | Json::Null) {
                return Err(unconvertible("data", value, "map[string]interface {}"));
            }
            let text = value.to_text();
            check_entry_size(&text)?;
            data.insert(version, text);
        }
        let overwrites = fields.boolean("overwrite")?.unwrap_or(false);
        Ok(Self { metadata, data, overwrites })
    }
}

fn metadata_of(given: &Map, now_ns: i64) -> Result<SecretMetadata, Error> {
    let fields = Fields::new(given);
    let shown = fields.map("versions")?.ok_or_else(|| missing("metadata.versions"))?;
    if shown.len() > VERSIONS_KEPT_MAX as usize {
        return Err(Error::invalid(format!("more than {VERSIONS_KEPT_MAX} versions")));
    }
    let mut versions = shown
        .iter()
        .map(|(number, version)| version_of(number_of(number)?, version, now_ns))
        .collect::<Result<Vec<_>, _>>()?;
    versions.sort_unstable_by_key(|info| info.version);
    if !versions.is_sorted_by(|a, b| a.version < b.version) {
        return Err(Error::invalid("metadata.versions: a version is named twice"));
    }
    let current_version = whole(fields, "current_version")?;
    if versions.last().map_or(0, |info| info.version) != current_version {
        return Err(Error::invalid(
            "metadata.current_version is not the last of metadata.versions",
        ));
    }
    let oldest_version = whole(fields, "oldest_version")?;
    if versions.first().is_some_and(|info| info.version < oldest_version) {
        return Err(Error::invalid(
            "metadata.oldest_version is not the first of metadata.versions",
        ));
    }
    Ok(SecretMetadata {
        created_ns: time_of(fields, "created_time")?
            .ok_or_else(|| missing("metadata.created_time"))?,
        updated_ns: time_of(fields, "updated_time")?
            .ok_or_else(|| missing("metadata.updated_time"))?,
        current_version,
        oldest_version,
        max_versions: max_versions(fields)?.unwrap_or(0),
        cas_required: fields.boolean("cas_required")?.unwrap_or(false),
        metadata_cas_required: fields.boolean("metadata_cas_required")?.unwrap_or(false),
        delete_after_ns: delete_after(fields)?.unwrap_or(0),
        metadata_version: whole(fields, "current_metadata_version")?,
        custom: fields.map("custom_metadata")?.map_or(Ok(None), custom::replace)?,
        versions,
        ..SecretMetadata::default()
    })
}

fn version_of(version: u64, shown: &Json, now_ns: i64) -> Result<VersionInfo, Error> {
    let Json::Object(shown) = shown else {
        return Err(unconvertible("metadata.versions", shown, "map[string]interface {}"));
    };
    let fields = Fields::new(shown);
    let named = |error| match error {
        Error::Invalid(what) => Error::invalid(format!("metadata.versions: {version}: {what}")),
        other => other,
    };
    let created_ns = time_of(fields, "created_time").map_err(named)?;
    let deletion_ns = time_of(fields, "deletion_time").map_err(named)?;
    Ok(VersionInfo {
        version,
        created_ns: created_ns.ok_or_else(|| named(missing("created_time")))?,
        deletion_ns,
        // What is deleted by now stays so, whatever the clock of another server of this cluster says.
        deleted: deletion_ns.is_some_and(|deletion| deletion <= now_ns),
        destroyed: fields.boolean("destroyed").map_err(named)?.unwrap_or(false),
        has_no_data: false,
    })
}

/// The number of a version, from its text.
fn number_of(text: &str) -> Result<u64, Error> {
    let number = text.parse().ok().filter(|&number| number > 0 && i64::try_from(number).is_ok());
    number.ok_or_else(|| Error::invalid(format!("{text:?} is no number of a version")))
}

/// A whole number that is not negative; 0 where there is none.
fn whole(fields: Fields<'_>, name: &str) -> Result<u64, Error> {
    let number = u64::try_from(fields.int(name)?.unwrap_or(0));
    number.map_err(|_| Error::invalid(format!("metadata.{name} must not be negative")))
}

/// A time; an empty text is none.
fn time_of(fields: Fields<'_>, name: &str) -> Result<Option<i64>, Error> {
    let Some(text) = fields.string(name)?.filter(|text| !text.is_empty()) else { return Ok(None) };
    time::parse(&text)
        .map(Some)
        .ok_or_else(|| Error::invalid(format!("{name}: {text:?} is no time")))
}

fn missing(name: &str) -> Error {
    Error::invalid(format!("'{name}' is missing"))
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::{Patch, Read, Update};

    use super::*;
    use crate::api::json;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{ROOT, ask, open_core};
    use crate::state::Core;

    const PATH: &str = "secret/import/team/a";
    /// Four versions, of which the second is deleted and the third destroyed.
    const METADATA: &str = r#"{"cas_required":true,"created_time":"1960-01-01T00:00:00.5Z","current_version":5,
        "custom_metadata":{"owner":"ada"},"delete_version_after":"3h25m19s","max_versions":7,"oldest_version":2,
        "updated_time":"1961-01-01T00:00:00Z","versions":{
        "2":{"created_time":"1960-01-01T00:00:00.123456789Z","deletion_time":"1960-02-01T00:00:00Z","destroyed":false},
        "3":{"created_time":"1960-01-02T00:00:00Z","deletion_time":"1960-02-01T00:00:00Z","destroyed":true},
        "4":{"created_time":"1960-01-03T00:00:00Z","deletion_time":"","destroyed":false},
        "5":{"created_time":"1960-01-04T01:00:00+01:00","deletion_time":"2100-01-01T00:00:00Z","destroyed":false}}}"#;

    fn body(metadata: &str, data: &str) -> String {
        format!(r#"{{"metadata":{metadata},"data":{data}}}"#)
    }

    /// The data of an answer, or of the answer that says that there is none any more.
    fn shown(core: &Core, path: &str) -> String {
        match ask(core, Some(ROOT), Read, path, "") {
            Ok(Response::Logical(logical) | Response::Missing(logical)) => {
                String::from_utf8(logical.data).unwrap()
            }
            answer => panic!("{path}: {answer:?}"),
        }
    }

    fn told(core: &Core, body: &str) -> Result<String, String> {
        match ask(core, Some(ROOT), Update, PATH, body) {
            Ok(Response::Logical(logical)) => Ok(String::from_utf8(logical.data).unwrap()),
            Err(Error::Invalid(why) | Error::TooLarge(why)) => Err(why),
            answer => panic!("{answer:?}"),
        }
    }

    const CHANGED: &str = r#"{"changed":true,"current_version":5}"#;

    #[test]
    fn a_secret_arrives_as_it_was() {
        let core = open_core(RouteAccess::Token);
        assert_eq!(
            told(&core, &body(METADATA, r#"{"4":{"n":1.50},"5":{"n":2}}"#)),
            Ok(CHANGED.into())
        );
        let metadata = shown(&core, "secret/metadata/team/a");
        for part in [
            r#""cas_required":true,"created_time":"1960-01-01T00:00:00.5Z""#,
            r#""current_version":5,"custom_metadata":{"owner":"ada"},"delete_version_after":"3h25m19s","max_versions":7"#,
            r#""oldest_version":2,"updated_time":"1961-01-01T00:00:00Z""#,
            r#""2":{"created_time":"1960-01-01T00:00:00.123456789Z","deletion_time":"1960-02-01T00:00:00Z","destroyed":false}"#,
            r#""3":{"created_time":"1960-01-02T00:00:00Z","deletion_time":"1960-02-01T00:00:00Z","destroyed":true}"#,
            r#""5":{"created_time":"1960-01-04T00:00:00Z","deletion_time":"2100-01-01T00:00:00Z","destroyed":false}"#,
        ] {
            assert!(metadata.contains(part), "{part} in {metadata}");
        }
        assert!(shown(&core, "secret/data/team/a").starts_with(r#"{"data":{"n":2}"#));
        // The next write goes on from there.
        let put = ask(
            &core,
            Some(ROOT),
            Update,
            "secret/data/team/a",
            r#"{"data":{},"options":{"cas":5}}"#,
        );
        assert!(put.is_ok(), "{put:?}");
        assert!(shown(&core, "secret/metadata/team/a").contains(r#""current_version":6"#));
    }

    #[test]
    fn a_deleted_version_without_data_stays_deleted() {
        let core = open_core(RouteAccess::Token);
        told(&core, &body(METADATA, r#"{"4":{},"5":{}}"#)).unwrap();
        let undelete = |versions: &str| {
            ask(
                &core,
                Some(ROOT),
                Update,
                "secret/undelete/team/a",
                &format!(r#"{{"versions":[{versions}]}}"#),
            )
        };
        assert!(
            matches!(undelete("4,2"), Err(Error::Invalid(why)) if why.contains("version 2 was imported"))
        );
        assert!(matches!(undelete("4"), Ok(Response::Empty)));
        // Its data may come later, and then it can.
        told(&core, &body(METADATA, r#"{"2":{"late":true}}"#)).unwrap();
        assert!(matches!(undelete("2"), Ok(Response::Empty)));
        // As a current version it is a secret that is gone, for all who read.
        let last = METADATA.replace(r#"2100-01-01T00:00:00Z"#, "1960-02-01T00:00:00Z");
        let body = body(&last, r#"{"4":{}}"#);
        assert!(ask(&core, Some(ROOT), Update, "secret/import/gone", &body).is_ok());
        assert!(shown(&core, "secret/data/gone").starts_with(r#"{"data":null"#));
        assert!(matches!(
            ask(&core, Some(ROOT), Patch, "secret/data/gone", r#"{"data":{}}"#),
            Ok(Response::Missing(_))
        ));
        let copy = ask(
            &core,
            Some(ROOT),
            Update,
            "sys/kallisto/kv/copy",
            r#"{"from":"secret/gone","to":"secret/copy"}"#,
        );
        assert!(copy.is_ok(), "{copy:?}");
    }

    #[test]
    fn what_changed_since_is_all_that_has_to_come() {
        let core = open_core(RouteAccess::Token);
        told(&core, &body(METADATA, r#"{"4":{"n":4},"5":{"n":5}}"#)).unwrap();
        let position = core.store.position();
        let same = r#"{"changed":false,"current_version":5}"#;
        assert_eq!(told(&core, &body(METADATA, "{}")), Ok(same.into()));
        assert_eq!(core.store.position(), position);
        // The second is trimmed, the fourth destroyed, a sixth written.
        let later = METADATA
            .replace(r#""current_version":5"#, r#""current_version":6"#)
            .replace(r#""oldest_version":2"#, r#""oldest_version":3"#)
            .replace(r#""deletion_time":"","destroyed":false"#, r#""deletion_time":"","destroyed":true"#)
            .replace(
                r#""2":{"created_time":"1960-01-01T00:00:00.123456789Z","deletion_time":"1960-02-01T00:00:00Z","destroyed":false}"#,
                r#""6":{"created_time":"1960-01-05T00:00:00Z","deletion_time":"","destroyed":false}"#,
            );
        let missing = told(&core, &body(&later, "{}"));
        assert_eq!(missing, Err("version 6: its data is missing".into()));
        let changed = r#"{"changed":true,"current_version":6}"#;
        assert_eq!(told(&core, &body(&later, r#"{"6":{"n":6}}"#)), Ok(changed.into()));
        assert!(shown(&core, "secret/data/team/a").starts_with(r#"{"data":{"n":6}"#));
        let metadata = shown(&core, "secret/metadata/team/a");
        assert!(
            !metadata.contains(r#""2":"#) && metadata.contains(r#""oldest_version":3"#),
            "{metadata}"
        );
        // An older state of it would lose the sixth.
        let older = told(&core, &body(METADATA, r#"{"4":{},"5":{}}"#));
        assert!(
            older
                .unwrap_err()
                .starts_with("another secret is here: its version 6 was written at 1960-01-05")
        );
    }

    #[test]
    fn settings_that_changed_need_no_data() {
        let core = open_core(RouteAccess::Token);
        told(&core, &body(METADATA, r#"{"4":{},"5":{}}"#)).unwrap();
        let changed = METADATA.replace(r#""max_versions":7"#, r#""max_versions":8"#);
        assert_eq!(told(&core, &body(&changed, "{}")), Ok(CHANGED.into()));
        assert!(shown(&core, "secret/metadata/team/a").contains(r#""max_versions":8"#));
    }

    #[test]
    fn the_data_of_versions_that_go_goes_with_them() {
        let core = open_core(RouteAccess::Token);
        for at in 1..=7 {
            let data = format!(r#"{{"data":{{"mine":{at}}}}}"#);
            ask(&core, Some(ROOT), Update, "secret/data/team/a", &data).unwrap();
        }
        let forced = body(METADATA, r#"{"4":{},"5":{}},"overwrite":true"#);
        assert_eq!(told(&core, &forced), Ok(CHANGED.into()));
        let context = core.context.load_full().unwrap();
        let (mount, _) = context.view.mounts.route("secret/").unwrap();
        let is_kept = |version| {
            let key = crate::storage::keys::kv_version(mount.entry.id, "team/a", version);
            context.store.get(&key).unwrap().is_some()
        };
        assert_eq!((1..=8).filter(|version| is_kept(*version)).collect::<Vec<_>>(), [2, 4, 5]);
    }

    #[test]
    fn what_is_to_be_deleted_by_now_is_deleted() {
        let core = open_core(RouteAccess::Token);
        let now = METADATA.replace("2100-01-01T00:00:00Z", "1970-01-01T00:00:00Z");
        told(&core, &body(&now, r#"{"4":{}}"#)).unwrap();
        assert!(shown(&core, "secret/data/team/a").starts_with(r#"{"data":null"#));
    }

    #[test]
    fn as_many_versions_arrive_as_a_secret_may_keep() {
        let history = |versions: u32| {
            let one = r#"{"created_time":"1960-01-01T00:00:00Z","destroyed":true}"#;
            let shown: Vec<String> = (1..=versions).map(|at| format!(r#""{at}":{one}"#)).collect();
            let metadata = format!(
                r#"{{"created_time":"1960-01-01T00:00:00Z","updated_time":"1960-01-01T00:00:00Z",
                "current_version":{versions},"versions":{{{}}}}}"#,
                shown.join(",")
            );
            let body = json::parse_object(body(&metadata, "{}").as_bytes()).unwrap();
            SecretHistory::parse(&body, 0).map(|history| history.metadata.versions.len())
        };
        assert_eq!(history(VERSIONS_KEPT_MAX), Ok(VERSIONS_KEPT_MAX as usize));
        assert!(history(VERSIONS_KEPT_MAX + 1).is_err());
    }

    #[test]
    fn other_versions_stay_unless_told() {
        let core = open_core(RouteAccess::Token);
        let mine = ask(&core, Some(ROOT), Update, "secret/data/team/a", r#"{"data":{"mine":1}}"#);
        assert!(mine.is_ok());
        let position = core.store.position();
        let refused = told(&core, &body(METADATA, r#"{"4":{},"5":{}}"#)).unwrap_err();
        assert_eq!(
            refused,
            "another secret is here: it was made at 1970-01-01T00:00:00Z; nothing was done, and overwrite=true would replace it"
        );
        assert_eq!(core.store.position(), position);
        let forced = body(METADATA, r#"{"4":{},"5":{}},"overwrite":true"#);
        assert_eq!(told(&core, &forced), Ok(CHANGED.into()));
        let metadata = shown(&core, "secret/metadata/team/a");
        assert!(!metadata.contains(r#""1":"#) && metadata.contains(r#""5":"#), "{metadata}");
    }

    #[test]
    fn what_is_no_secret_is_refused_by_name() {
        let core = open_core(RouteAccess::Token);
        let data = r#"{"4":{},"5":{}}"#;
        let with = |from: &str, to: &str| body(&METADATA.replace(from, to), data);
        let big = format!(r#"{{"4":{{"x":"{}"}},"5":{{}}}}"#, "x".repeat(1 << 20));
        for (body, why) in [
            ("{}".to_owned(), "'metadata' is missing"),
            (body("{}", data), "'metadata.versions' is missing"),
            (body(METADATA, r#"{"5":{}}"#), "version 4: its data is missing"),
            (body(METADATA, r#"{"3":{}}"#), "no version 3 with data"),
            (body(METADATA, r#"{"9":{}}"#), "no version 9 with data"),
            (body(METADATA, r#"{"x":{}}"#), "\"x\" is no number"),
            (body(METADATA, r#"{"4":[]}"#), "\"data\""),
            (body(METADATA, &big), "over the limit"),
            (
                with(r#""current_version":5"#, r#""current_version":6"#),
                "current_version is not the last",
            ),
            (
                with(r#""oldest_version":2"#, r#""oldest_version":3"#),
                "oldest_version is not the first",
            ),
            (
                with(r#""max_versions":7"#, r#""max_versions":10001"#),
                "max_versions must be from 0 to 10000",
            ),
            (with("3h25m19s", "-5s"), "negative"),
            (
                with("1960-01-03T00:00:00Z", "yesterday"),
                "metadata.versions: 4: created_time: \"yesterday\" is no time",
            ),
            (with("1960-01-03T00:00:00Z", ""), "metadata.versions: 4: 'created_time' is missing"),
            (with("1961-01-01T00:00:00Z", "2300-01-01T00:00:00Z"), "updated_time"),
            (with(r#""4":{"#, r#""05":{"#), "named twice"),
            (with(r#""4":{"#, r#""0":{"#), "\"0\" is no number of a version"),
            (with(r#""4":{"#, r#""9223372036854775808":{"#), "is no number of a version"),
            (with(r#""owner":"ada""#, r#""owner":{}"#), "custom_metadata"),
        ] {
            let refused = told(&core, &body);
            assert!(refused.as_ref().is_err_and(|text| text.contains(why)), "{why}: {refused:?}");
        }
        assert!(!shown_exists(&core));
    }

    fn shown_exists(core: &Core) -> bool {
        ask(core, Some(ROOT), Read, "secret/metadata/team/a", "").is_ok()
    }
}
