//! Where things are in the storage: namespaces, and the tables of mounts.
//!
//! ```text
//! core/mounts, core/auth              a table in one record, or
//! core/mounts/UUID, core/auth/UUID    a record for each mount; core/local-* are those of one cluster alone
//! core/namespaces/UUID                a namespace right below; what is in it is below namespaces/UUID/
//! ```

use std::collections::BTreeMap;

use kallisto_vault_snapshot::OpenSnapshot;

use super::fields::{seconds, token_type};
use super::leftovers::LeftBehind;
use super::{read_json, records_in};
use crate::migrate::mounts::{LOCKOUT, text};
use kallisto_command::client::url;
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};

/// Most namespaces that are looked at.
const NAMESPACES_MAX: usize = 10_000;
/// The time that is written for none.
pub(super) const NO_TIME: &str = "0001-01-01T00:00:00Z";

/// A namespace and where it is.
pub(super) struct SourceNamespace {
    /// In front of all its paths in the storage.
    prefix: String,
    pub(super) custom_metadata: Json,
    pub(super) mounts: BTreeMap<String, StoredMount>,
    pub(super) methods: BTreeMap<String, StoredMount>,
}

/// A mount of an engine or a login method.
pub(super) struct StoredMount {
    pub(super) kind: String,
    /// Where its records are, ending in a slash.
    pub(super) folder: String,
    /// The name of the folder in there that some engines keep theirs in.
    pub(super) own_folder: String,
    pub(super) has_versions: bool,
    entry: Map,
}

impl SourceNamespace {
    /// A path of its storage.
    pub(super) fn below(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The mount that a path is of, and the rest of the path.
    pub(super) fn mount<'p>(&self, path: &'p str) -> Option<(&StoredMount, &'p str)> {
        longest(&self.mounts, path)
    }

    /// The login method that a path below `auth/` is of, and the rest of the path.
    pub(super) fn method<'p>(&self, path: &'p str) -> Option<(&StoredMount, &'p str)> {
        longest(&self.methods, path)
    }
}

fn longest<'m, 'p>(
    mounts: &'m BTreeMap<String, StoredMount>,
    path: &'p str,
) -> Option<(&'m StoredMount, &'p str)> {
    let found = mounts.iter().filter_map(|(at, mount)| Some((mount, path.strip_prefix(&**at)?)));
    found.min_by_key(|(_, rest)| rest.len())
}

impl StoredMount {
    /// The mount as the API shows it.
    pub(super) fn shown(&self) -> Map {
        let mut shown = Map::new();
        for name in ["accessor", "description", "local", "options", "seal_wrap", "type", "uuid"] {
            shown.extend(self.entry.get(name).map(|value| (name.to_owned(), value.clone())));
        }
        shown.insert("config".to_owned(), shown_config(&self.entry).into());
        shown
    }
}

/// What a mount is tuned to, as the API shows it.
fn shown_config(entry: &Map) -> Map {
    let mut config = entry.get("config").and_then(Json::as_object).cloned().unwrap_or_default();
    for name in ["default_lease_ttl", "max_lease_ttl"] {
        let given = config.get(name).and_then(seconds).unwrap_or(0);
        config.insert(name.to_owned(), given.into());
    }
    config.entry("force_no_cache".to_owned()).or_insert(false.into());
    if let Some(kind) = config.get("token_type").and_then(token_type) {
        config.insert("token_type".to_owned(), kind.into());
    }
    if let Some(Json::Object(stored)) = config.get(LOCKOUT) {
        config.insert(LOCKOUT.to_owned(), shown_lockout(stored).into());
    }
    config
}

/// When logins are locked out, as the API shows it: by other names, and in seconds.
fn shown_lockout(stored: &Map) -> Map {
    let mut shown = Map::new();
    for (name, is_span, shown_name) in [
        ("disable_lockout", false, "user_lockout_disable"),
        ("lockout_counter_reset", true, "user_lockout_counter_reset_duration"),
        ("lockout_duration", true, "user_lockout_duration"),
        ("lockout_threshold", false, "user_lockout_threshold"),
    ] {
        let Some(value) = stored.get(name) else { continue };
        let value = match is_span {
            true => seconds(value).unwrap_or(0).into(),
            false => value.clone(),
        };
        shown.insert(shown_name.to_owned(), value);
    }
    shown
}

/// Reads the namespaces from one on, and what of them is not understood.
pub(super) fn read(
    opened: &OpenSnapshot,
    base: &str,
) -> Result<(BTreeMap<String, SourceNamespace>, Vec<LeftBehind>), Error> {
    let mut walk = LayoutWalk { opened, problems: Vec::new(), all: BTreeMap::new() };
    walk.read_namespaces()?;
    let base = match base.trim_matches('/') {
        "" => String::new(),
        base => format!("{}/", url::clean(base)?),
    };
    if !walk.all.contains_key(&base) {
        return Err(Error::usage(format!("the snapshot has no namespace {base:?}")));
    }
    let below = walk.all.into_iter();
    let below = below.filter_map(|(path, at)| Some((path.strip_prefix(&base)?.to_owned(), at)));
    Ok((below.collect(), walk.problems))
}

struct LayoutWalk<'s> {
    opened: &'s OpenSnapshot,
    problems: Vec<LeftBehind>,
    all: BTreeMap<String, SourceNamespace>,
}

impl LayoutWalk<'_> {
    /// Reads the root namespace and those below, level by level.
    fn read_namespaces(&mut self) -> Result<(), Error> {
        let mut waiting = vec![(String::new(), String::new(), Json::Null)];
        while let Some((path, prefix, custom_metadata)) = waiting.pop() {
            if self.all.len() >= NAMESPACES_MAX {
                return Err(Error::usage(format!("more than {NAMESPACES_MAX} namespaces")));
            }
            waiting.extend(self.read_children(&prefix));
            let mounts = self.read_tables(&path, &prefix, ("mounts", "logical"));
            let methods = self.read_tables(&path, &prefix, ("auth", "auth"));
            let at = SourceNamespace { prefix, custom_metadata, mounts, methods };
            self.all.insert(path, at);
        }
        Ok(())
    }

    /// The namespaces right below: path, prefix and metadata of each.
    fn read_children(&mut self, prefix: &str) -> Vec<(String, String, Json)> {
        let folder = format!("{prefix}core/namespaces/");
        let mut children = Vec::new();
        for name in records_in(self.opened, &folder) {
            let read = read_json(self.opened, &format!("{folder}{name}"));
            let Ok(Some(entry)) = read else {
                self.problem("namespaces", "", &name, "its record is not understood");
                continue;
            };
            let (path, uuid) = (text(&entry, "path").to_owned(), text(&entry, "uuid"));
            let own = format!("namespaces/{uuid}/");
            if path.is_empty() || uuid.is_empty() || url::clean(&path).is_err() {
                self.problem("namespaces", "", &name, "its record is not understood");
            } else if entry.get("tainted") == Some(&true.into()) {
                self.problem("namespaces", "", &path, "it was being deleted");
            } else if self.opened.below(&own).any(|at| at.ends_with("/core/seal-config")) {
                let why = "it is sealed by keys of its own, which the shares do not open";
                self.problem("namespaces", "", &path, why);
            } else {
                let metadata = entry.get("custom_metadata").cloned().unwrap_or(Json::Null);
                children.push((path, own, metadata));
            }
        }
        children
    }

    fn read_tables(
        &mut self,
        namespace: &str,
        prefix: &str,
        (table, folder): (&str, &str),
    ) -> BTreeMap<String, StoredMount> {
        let mut mounts = BTreeMap::new();
        for table in [table.to_owned(), format!("local-{table}")] {
            let at = format!("{prefix}core/{table}");
            let read = read_table(self.opened, &at);
            for (record, why) in read.unread {
                self.problem("mounts", namespace, &record, &why);
            }
            for entry in read.entries {
                let path = text(&entry, "path").to_owned();
                match mount_of(entry, namespace.is_empty(), &format!("{prefix}{folder}/")) {
                    Ok(mount) => drop(mounts.insert(path, mount)),
                    Err(why) => self.problem("mounts", namespace, &path, why),
                }
            }
        }
        mounts
    }

    fn problem(&mut self, kind: &'static str, namespace: &str, path: &str, why: &str) {
        self.problems.push(LeftBehind {
            kind,
            namespace: namespace.to_owned(),
            path: path.to_owned(),
            why: why.to_owned(),
        });
    }
}

/// A table of mounts, as much of it as was read.
#[derive(Default)]
struct MountTable {
    entries: Vec<Map>,
    /// Paths of records that were not, and why.
    unread: Vec<(String, String)>,
}

/// The entries of a table, in one record or in many.
fn read_table(opened: &OpenSnapshot, at: &str) -> MountTable {
    const NOT_UNDERSTOOD: &str = "a table of mounts is not understood";
    let mut table = MountTable::default();
    let mut unread = |record: &str, why: String| table.unread.push((record.to_owned(), why));
    match read_json(opened, at).map(|found| found.and_then(|mut all| all.remove("entries"))) {
        Ok(Some(Json::Array(all))) => {
            for entry in all {
                match entry {
                    Json::Object(entry) => table.entries.push(entry),
                    _ => unread(at, NOT_UNDERSTOOD.to_owned()),
                }
            }
        }
        Ok(None | Some(Json::Null)) => {}
        Ok(Some(_)) => unread(at, NOT_UNDERSTOOD.to_owned()),
        Err(failure) => unread(at, failure.text()),
    }
    let folder = format!("{at}/");
    for name in records_in(opened, &folder) {
        let record = format!("{folder}{name}");
        match read_json(opened, &record) {
            Ok(entry) => table.entries.extend(entry),
            Err(failure) => unread(&record, failure.text()),
        }
    }
    table
}

fn mount_of(entry: Map, is_root: bool, folder: &str) -> Result<StoredMount, &'static str> {
    let uuid = text(&entry, "uuid");
    if uuid.is_empty() || uuid.contains('/') || text(&entry, "path").is_empty() {
        return Err("its record is not understood");
    }
    // Other servers have one table for the mounts of all namespaces.
    if is_root && !matches!(text(&entry, "namespace_id"), "" | "root") {
        return Err("it is in a namespace that is kept in a way that is not understood");
    }
    let options = entry.get("options").and_then(Json::as_object);
    Ok(StoredMount {
        kind: text(&entry, "type").trim_start_matches("ns_").to_owned(),
        folder: format!("{folder}{uuid}/"),
        own_folder: text(&entry, "backend_aware_uuid").to_owned(),
        has_versions: options.is_some_and(|options| text(options, "version") == "2"),
        entry,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate::mounts::{settings, written};
    use kallisto_command::json::parse_object;

    /// The names and units in which lockouts are stored, shown and written are three.
    #[test]
    fn lockouts_of_a_stored_mount_are_written_by_their_names() {
        let entry = r#"{"config":{"user_lockout_config":{"lockout_threshold":3,"lockout_duration":300000000000,"lockout_counter_reset":360000000000,"disable_lockout":true}}}"#;
        let shown = shown_config(&parse_object(entry.as_bytes()).unwrap());
        let mount = Map::from([("config".to_owned(), Json::Object(shown))]);
        let text = Json::Object(written(settings(&mount))).to_text();
        let wanted = r#""user_lockout_config":{"lockout_counter_reset_duration":360,"lockout_disable":true,"lockout_duration":300,"lockout_threshold":3}"#;
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(wanted), "{text}");
    }
}
