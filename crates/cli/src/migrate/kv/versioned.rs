//! A secret with versions: what its metadata says, and the data of each version that can be read.
//!
//! The target takes it as it was, by its route `import/`. Data is read only of versions that the target does not have yet. A deleted version
//! tells its data to nobody, so it arrives as deleted and without data, which the report says.

use std::collections::BTreeMap;

use super::{KvMount, SECRETS};
use crate::migrate::endpoint::{Endpoint, ItemFailure};
use crate::migrate::mounts::text;
use crate::migrate::pass::{Item, Migration, MigrationPass, is_nothing, means_the_same};
use crate::migrate::report::Settled;
use crate::migrate::state::hash;
use kallisto_command::json::{Json, Map};

/// How often a secret is read anew that changes while it is read.
const TRIES: usize = 5;
/// What of a version moves; who wrote it does not.
const OF_VERSION: [&str; 3] = ["created_time", "deletion_time", "destroyed"];
/// What of a secret moves besides its versions.
const OF_SECRET: [&str; 10] = [
    "cas_required",
    "created_time",
    "current_metadata_version",
    "current_version",
    "custom_metadata",
    "delete_version_after",
    "max_versions",
    "metadata_cas_required",
    "oldest_version",
    "updated_time",
];

/// Makes the secret at the target the one of the source.
pub(super) fn settle(
    migration: &Migration<'_>,
    mount: KvMount<'_>,
    path: &str,
) -> Result<Settled, ItemFailure> {
    let secret = VersionedSecret { migration, mount, path };
    for _ in 0..TRIES {
        if let Some(settled) = secret.try_to_settle()? {
            return Ok(settled);
        }
    }
    Ok(Settled::not_moved("it kept changing while it was read"))
}

struct VersionedSecret<'m, 'a> {
    migration: &'m Migration<'a>,
    mount: KvMount<'m>,
    path: &'m str,
}

impl VersionedSecret<'_, '_> {
    /// `None` when it changed meanwhile.
    fn try_to_settle(&self) -> Result<Option<Settled>, ItemFailure> {
        let Migration { source, pass, state, .. } = self.migration;
        let known = self.mount.in_all(self.path);
        let metadata_path = self.mount.api_path(self.path);
        let Some(there) = source.read(self.mount.namespace, &metadata_path)? else {
            return Ok(Some(Settled::not_moved("it is gone at the source")));
        };
        let there = relevant(&there);
        let arrival = hash_of(&there);
        let before = state.as_ref().and_then(|state| state.arrival(&known));
        if *pass != MigrationPass::Compare && before.as_ref() == Some(&arrival) {
            return Ok(Some(Settled::Same));
        }
        let here = self.migration.target_or_nothing(self.mount.namespace, &metadata_path)?;
        let here = here.map(|here| relevant(&here));
        if *pass == MigrationPass::Compare {
            return self.compare(&there, here.as_ref()).map(Some);
        }
        // What stands there arrived from the source, whose secret was made anew since.
        let arrived = here.as_ref().zip(before.as_ref());
        let is_as_it_arrived = arrived.is_some_and(|(here, before)| is_what_arrived(here, before));
        let is_other = here.as_ref().is_some_and(|here| !goes_on_from(&there, here));
        let overwrites = self.migration.overwrites || is_as_it_arrived;
        if is_other && !overwrites {
            let why = "the target has another secret there, or versions of its own: -overwrite replaces it";
            return Ok(Some(Settled::not_moved(why)));
        }
        // A snapshot has data that did not come when the secret was moved live, which nobody sees from outside.
        let brings_all = self.migration.overwrites && source.snapshot().is_some();
        let read_before = here.as_ref().filter(|_| !is_other && !brings_all);
        let wanted = wanted_versions(&there, read_before);
        let is_same = here.as_ref().is_some_and(|here| {
            wanted.is_empty()
                && means_the_same(&Json::Object(there.clone()), &Json::Object(here.clone()))
        });
        match pass {
            _ if is_same => {}
            MigrationPass::Move => {
                let Some(data) = self.read_data(&there, &wanted)? else { return Ok(None) };
                self.import(there, data, is_other)?;
            }
            // What cannot be read is known before anything moves. A snapshot is at hand, so all of it is tried.
            MigrationPass::DryRun if source.snapshot().is_some() => {
                self.read_data(&there, &wanted)?;
            }
            MigrationPass::DryRun | MigrationPass::Compare => {
                let deletable = wanted.iter().filter(|version| is_deletable(&there, version));
                self.read_data(&there, &deletable.copied().collect::<Vec<_>>())?;
            }
        }
        if let (Some(state), MigrationPass::Move) = (state, pass) {
            state.arrived(&known, arrival)?;
        }
        Ok(Some(if is_same { Settled::Same } else { Settled::Moved }))
    }

    /// The data of these versions; `None` when one of them was deleted meanwhile.
    fn read_data(&self, there: &Map, wanted: &[&str]) -> Result<Option<Map>, ItemFailure> {
        let mut data = Map::new();
        for version in wanted {
            match self.read_version(&self.migration.source, version)? {
                Some(text) => drop(data.insert((*version).to_owned(), text)),
                None if is_deletable(there, version) => self.note_without_data(version),
                None => return Ok(None),
            }
        }
        Ok(Some(data))
    }

    /// The data of a version; `None` when it is deleted or destroyed.
    fn read_version(
        &self,
        from: &Endpoint<'_>,
        version: &str,
    ) -> Result<Option<Json>, ItemFailure> {
        let path = format!("{}data/{}", self.mount.path, self.path);
        let Some(mut answer) = from.read_version(self.mount.namespace, &path, version)? else {
            return Ok(None);
        };
        let data = answer.remove("data").unwrap_or(Json::Null);
        let metadata = answer.get("metadata").and_then(Json::as_object);
        let is_gone = metadata.is_none_or(|metadata| {
            !text(metadata, "deletion_time").is_empty()
                || metadata.get("destroyed") == Some(&true.into())
        });
        Ok((data != Json::Null || !is_gone).then_some(data))
    }

    fn note_without_data(&self, version: &str) {
        let full = self.mount.full(self.path);
        let item = Item { kind: SECRETS, namespace: self.mount.namespace, path: &full };
        let why = format!(
            "version {version} is deleted, and nobody can read its data: it arrives as deleted and cannot be undeleted"
        );
        self.migration.report.note(item, why);
    }

    fn import(&self, there: Map, data: Map, overwrites: bool) -> Result<(), ItemFailure> {
        let mut body = Map::from([
            ("metadata".to_owned(), Json::Object(there)),
            ("data".to_owned(), Json::Object(data)),
        ]);
        if overwrites {
            body.insert("overwrite".to_owned(), true.into());
        }
        let path = format!("{}import/{}", self.mount.path, self.path);
        self.migration.target.write(self.mount.namespace, &path, body).map(drop)
    }

    /// Whether both sides say the same of it, and of each version.
    fn compare(&self, there: &Map, here: Option<&Map>) -> Result<Settled, ItemFailure> {
        let Some(here) = here else { return Ok(Settled::differs("it is not at the target")) };
        let of = |map: &Map, name: &str| map.get(name).cloned().unwrap_or(Json::Null);
        let is_other = |name: &&str| !means_the_same(&of(there, name), &of(here, name));
        let names: Vec<&str> =
            OF_SECRET.into_iter().chain(["versions"]).filter(|name| is_other(name)).collect();
        if !names.is_empty() {
            return Ok(Settled::Differs(format!("other: {}", names.join(", "))));
        }
        for (version, info) in versions(there) {
            if info.get("destroyed") == Some(&true.into()) {
                continue;
            }
            let Migration { source, target, .. } = self.migration;
            let in_target = self.read_version(target, version)?;
            // A snapshot tells the data of a deleted version, and the target tells it to nobody.
            if in_target.is_none()
                && source.snapshot().is_some()
                && !text(info, "deletion_time").is_empty()
            {
                continue;
            }
            let in_source = self.read_version(source, version)?;
            if in_source != in_target {
                return Ok(Settled::Differs(format!("the data of version {version}")));
            }
        }
        Ok(Settled::Same)
    }
}

/// Whether a secret of the target is still as it arrived: nobody there has changed it since.
///
/// # Errors
/// The target does not tell.
pub(super) fn is_as_it_arrived(
    migration: &Migration<'_>,
    mount: KvMount<'_>,
    path: &str,
    arrival: &str,
) -> Result<bool, ItemFailure> {
    let here = migration.target.read(mount.namespace, &mount.api_path(path))?;
    Ok(here.is_some_and(|here| is_what_arrived(&relevant(&here), arrival)))
}

/// Whether this is what of the metadata arrived. Versions up to 0.2.0 hashed it with what is not set, which not every server shows.
fn is_what_arrived(relevant: &Map, arrival: &str) -> bool {
    let of_old = || hash(&Json::Object(relevant.clone()).to_text());
    hash_of(relevant) == arrival || of_old() == arrival
}

/// The hash of what of the metadata moves. What is not set is left out: servers show it in more than one way, or not at all.
fn hash_of(relevant: &Map) -> String {
    let mut set = relevant.clone();
    set.retain(|_, value| !is_nothing(value));
    if let Some(Json::Object(versions)) = set.get_mut("versions") {
        let infos = versions.values_mut().filter_map(|info| match info {
            Json::Object(info) => Some(info),
            _ => None,
        });
        infos.for_each(|info| info.retain(|_, value| !is_nothing(value)));
    }
    hash(&Json::Object(set).to_text())
}

/// Whether the history of a secret goes on from what is at the target, as its route for imports asks.
fn goes_on_from(there: &Map, here: &Map) -> bool {
    let numbered = |map| -> BTreeMap<u64, &Map> {
        versions(map).filter_map(|(version, info)| Some((version.parse().ok()?, info))).collect()
    };
    let (there_by_number, here_by_number) = (numbered(there), numbered(here));
    let oldest = there_by_number.keys().next().copied().unwrap_or(0);
    let is_known = |(version, info): (&u64, &&Map)| match there_by_number.get(version) {
        Some(known) => text(known, "created_time") == text(info, "created_time"),
        None => *version < oldest,
    };
    text(there, "created_time") == text(here, "created_time") && here_by_number.iter().all(is_known)
}

/// What of the metadata moves.
fn relevant(metadata: &Map) -> Map {
    let pick = |from: &Map, names: &[&str]| -> Map {
        let named = |name: &&str| Some(((*name).to_owned(), from.get(*name)?.clone()));
        names.iter().filter_map(named).collect()
    };
    let mut picked = pick(metadata, &OF_SECRET);
    let shown = versions(metadata)
        .map(|(version, info)| (version.to_owned(), Json::Object(pick(info, &OF_VERSION))));
    picked.insert("versions".to_owned(), Json::Object(shown.collect()));
    picked
}

fn versions(metadata: &Map) -> impl Iterator<Item = (&str, &Map)> {
    let versions = metadata.get("versions").and_then(Json::as_object);
    let shown = versions.into_iter().flatten();
    shown.filter_map(|(version, info)| Some((version.as_str(), info.as_object()?)))
}

/// The versions whose data the target wants: those it does not have in this state.
fn wanted_versions<'t>(there: &'t Map, here: Option<&Map>) -> Vec<&'t str> {
    let same_secret = here.filter(|here| here.get("created_time") == there.get("created_time"));
    let has = |version: &str, info: &Map| {
        let known = same_secret
            .and_then(|here| here.get("versions")?.as_object()?.get(version)?.as_object());
        known.is_some_and(|known| {
            OF_VERSION
                .iter()
                .all(|name| known.get(*name).is_some_and(|it| Some(it) == info.get(*name)))
        })
    };
    let is_wanted = |(version, info): &(&str, &Map)| {
        info.get("destroyed").is_none_or(is_nothing) && !has(version, info)
    };
    versions(there).filter(is_wanted).map(|(version, _)| version).collect()
}

/// Whether a version has a time of deletion, and so may be deleted.
fn is_deletable(metadata: &Map, version: &str) -> bool {
    versions(metadata)
        .any(|(known, info)| known == version && !text(info, "deletion_time").is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kallisto_command::json::parse_object;

    fn map(text: &str) -> Map {
        parse_object(text.as_bytes()).unwrap()
    }

    const THERE: &str = r#"{"created_time":"c","versions":{
        "9":{"created_time":"9","deletion_time":"","destroyed":false,"created_by":{"who":"x"}},
        "10":{"created_time":"10","deletion_time":"d","destroyed":false},
        "11":{"created_time":"11","deletion_time":"","destroyed":true}}}"#;

    #[test]
    fn data_is_wanted_of_versions_that_are_not_there_as_they_are() {
        let there = relevant(&map(THERE));
        assert!(!format!("{:?}", there.keys()).contains("created_by"));
        assert_eq!(wanted_versions(&there, None), ["10", "9"]);
        assert!(wanted_versions(&there, Some(&there)).is_empty());
        let live =
            relevant(&map(&THERE.replace(r#""deletion_time":"d""#, r#""deletion_time":"""#)));
        assert_eq!(wanted_versions(&there, Some(&live)), ["10"]);
        let other =
            relevant(&map(&THERE.replace(r#""created_time":"c""#, r#""created_time":"o""#)));
        assert_eq!(wanted_versions(&there, Some(&other)), ["10", "9"]);
    }

    #[test]
    fn a_history_goes_on_from_its_beginning_and_from_nothing_else() {
        let there = map(THERE);
        for (here, goes_on) in [
            (r#"{"created_time":"c","versions":{}}"#, true),
            (r#"{"created_time":"o","versions":{}}"#, false),
            (
                r#"{"created_time":"c","versions":{"8":{"created_time":"8"},"9":{"created_time":"9"}}}"#,
                true,
            ),
            (r#"{"created_time":"c","versions":{"9":{"created_time":"8"}}}"#, false),
            (r#"{"created_time":"c","versions":{"12":{"created_time":"12"}}}"#, false),
        ] {
            assert_eq!(goes_on_from(&there, &map(here)), goes_on, "{here}");
        }
    }
}
