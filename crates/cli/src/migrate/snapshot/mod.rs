//! A raft snapshot of Vault or OpenBao as the source: it answers the reads that the server would have answered, and what no API tells besides.
//!
//! The rest of the command asks it as it asks a server, so that a move from a snapshot is the same walk with the same three ends. What a record
//! means is known here: [`layout`] knows namespaces and mounts, [`methods`] login methods with the tables of [`fields`], [`secrets`] key-value
//! mounts, [`identity`] entities and groups, [`pki`] certificate authorities. A record that is not understood is one item that does not move; [`leftovers`] names what nobody asks for.

mod fields;
mod identity;
mod layout;
mod leftovers;
mod methods;
mod pki;
mod secrets;
mod shares;
mod transit;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use kallisto_vault_snapshot::{Error as SnapshotError, OpenSnapshot, SnapshotFile};
use zeroize::Zeroizing;

use self::identity::IdentityIndex;
use self::layout::{SourceNamespace, StoredMount};
use self::secrets::SecretIndexes;
use super::endpoint::ItemFailure;
use super::policies::EXPIRES;
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_command::json::{Json, Map, parse_object};

pub(super) use self::leftovers::LeftBehind;
pub(super) use self::methods::{SecretIdImport, StoredSecretIds};
pub(super) use self::pki::{
    AuthorityIssuer, AuthorityKey, RevokedAtSource, StoredAuthority, setting_routes,
};

/// Where a server keeps the id of its cluster.
const CLUSTER: &str = "core/cluster/local/info";

/// An opened snapshot and what its namespaces are.
pub(super) struct SnapshotSource {
    opened: OpenSnapshot,
    /// By their paths from the base on, each ending in a slash; the base itself is empty.
    namespaces: BTreeMap<String, SourceNamespace>,
    /// What was found to be not understood while it was opened.
    problems: Vec<LeftBehind>,
    secrets: SecretIndexes,
    identities: BTreeMap<String, OnceLock<Result<IdentityIndex, String>>>,
}

impl SnapshotSource {
    /// Opens a file with shares from a file or a terminal.
    ///
    /// # Errors
    /// Why it cannot be opened; nothing was done then.
    pub(super) fn open(
        file: &Path,
        shares_file: Option<&Path>,
        base: &str,
        memory_mib: u64,
        config: &Config,
    ) -> Result<Self, Error> {
        let named = |error: SnapshotError| match error {
            SnapshotError::Memory(_) => Error::usage(format!(
                "{}: its records take more than {memory_mib} MiB of memory: -snapshot-memory-mib gives more, on a machine that has it",
                file.display()
            )),
            error => Error::usage(format!("{}: {error}", file.display())),
        };
        let input = files::open_lines(file)
            .map_err(|error| Error::usage(format!("{}: {error}", file.display())))?;
        let memory = memory_mib.saturating_mul(1 << 20);
        let snapshot = SnapshotFile::read_within(input, memory).map_err(named)?;
        let facts = snapshot.seal().map_err(named)?;
        let shares = shares::read(shares_file, facts, config)?;
        let opened = snapshot.unseal(&shares).map_err(named)?;
        let (namespaces, problems) = layout::read(&opened, base)?;
        let identities = namespaces.keys().map(|path| (path.clone(), OnceLock::new())).collect();
        Ok(Self { opened, namespaces, problems, secrets: SecretIndexes::default(), identities })
    }

    /// The id of the cluster; empty where it is not told.
    pub(super) fn cluster(&self) -> String {
        let info = self.opened.get(CLUSTER).ok().flatten();
        let info = info.and_then(|info| parse_object(&info).ok()).unwrap_or_default();
        info.get("id").and_then(Json::as_str).unwrap_or_default().to_owned()
    }

    /// What is at a path of a namespace; `None` when nothing is.
    pub(super) fn read(
        &self,
        namespace: &str,
        path: &str,
        version: Option<&str>,
    ) -> Result<Option<Map>, ItemFailure> {
        let at = self.namespace(namespace)?;
        if let Some(name) = path.strip_prefix("sys/") {
            return self.read_system(namespace, at, name);
        }
        if let Some(id) = path.strip_prefix("identity/") {
            return Ok(self.identity(namespace, at)?.read(id));
        }
        if let Some(path) = path.strip_prefix("auth/") {
            return match at.method(path) {
                Some((method, path)) => {
                    Ok(methods::read(&self.opened, at, method, path)?.map(|read| read.shown))
                }
                None => Ok(None),
            };
        }
        let Some((mount, path)) = at.mount(path) else { return Ok(None) };
        match &*mount.kind {
            "transit" => transit::read(&self.opened, mount, path),
            "pki" => pki::read(&self.opened, mount, path),
            _ => self.secrets.read(&self.opened, mount, path, version),
        }
    }

    /// The names at a path of a namespace.
    pub(super) fn list(&self, namespace: &str, path: &str) -> Result<Vec<String>, ItemFailure> {
        let at = self.namespace(namespace)?;
        match path {
            "sys/namespaces" => return Ok(self.children(namespace)),
            "sys/policies/acl" => return Ok(records_in(&self.opened, &at.below("sys/policy/"))),
            "sys/policies/password" => {
                return Ok(records_in(&self.opened, &at.below("sys/password_policy/")));
            }
            _ => {}
        }
        if let Some(path) = path.strip_prefix("identity/") {
            return Ok(self.identity(namespace, at)?.list(path));
        }
        if let Some(path) = path.strip_prefix("auth/") {
            return match at.method(path) {
                Some((method, path)) => methods::list(&self.opened, at, method, path),
                None => Ok(Vec::new()),
            };
        }
        let Some((mount, path)) = at.mount(path) else { return Ok(Vec::new()) };
        match &*mount.kind {
            "transit" => Ok(transit::list(&self.opened, mount)),
            "pki" => Ok(pki::list(&self.opened, mount, path)),
            _ => self.secrets.list(&self.opened, mount, path),
        }
    }

    /// Fields of what is at a path of a login method that no API tells.
    pub(super) fn hidden(&self, namespace: &str, path: &str) -> Result<Map, ItemFailure> {
        let at = self.namespace(namespace)?;
        let found = path.strip_prefix("auth/").and_then(|path| at.method(path));
        let Some((method, path)) = found else { return Ok(Map::new()) };
        let read = methods::read(&self.opened, at, method, path)?;
        Ok(read.map(|read| read.hidden).unwrap_or_default())
    }

    /// The secret ids of the role at this path, as the target takes them.
    pub(super) fn secret_ids(
        &self,
        namespace: &str,
        role: &str,
    ) -> Result<StoredSecretIds, ItemFailure> {
        let at = self.namespace(namespace)?;
        let found = role.strip_prefix("auth/").and_then(|path| at.method(path));
        let Some((method, path)) = found else { return Ok(StoredSecretIds::default()) };
        methods::secret_ids(&self.opened, method, path)
    }

    /// Records of the mount at this path that were not read, by their paths in it, and why.
    pub(super) fn unread(&self, namespace: &str, mount: &str) -> Vec<(String, String)> {
        let at = self.namespace(namespace).ok().and_then(|at| at.mount(mount));
        at.map(|(mount, _)| self.secrets.unread(&self.opened, mount)).unwrap_or_default()
    }

    /// Keys, issuers and certificates of the mount at this path.
    pub(super) fn authority(&self, namespace: &str, mount: &str) -> StoredAuthority {
        let at = self.namespace(namespace).ok().and_then(|at| at.mount(mount));
        at.map(|(mount, _)| pki::authority(&self.opened, mount)).unwrap_or_default()
    }

    /// A backup of the transit key at this path.
    pub(super) fn key_backup(&self, namespace: &str, path: &str) -> Result<Map, ItemFailure> {
        match self.namespace(namespace)?.mount(path) {
            Some((mount, path)) => transit::backup(&self.opened, mount, path),
            None => Err(item("it is gone at the source")),
        }
    }

    /// What does not move and nobody asks for.
    pub(super) fn leftovers(&self) -> Vec<LeftBehind> {
        let mut all = self.problems.clone();
        all.extend(leftovers::find(&self.opened, &self.namespaces));
        for (namespace, at) in &self.namespaces {
            if let Ok(identities) = self.identity(namespace, at) {
                all.extend(identities.leftovers(namespace));
            }
        }
        all
    }

    fn namespace(&self, namespace: &str) -> Result<&SourceNamespace, ItemFailure> {
        let found = self.namespaces.get(namespace);
        found.ok_or_else(|| item("the snapshot has no such namespace"))
    }

    /// Names of the namespaces right below one, ending in a slash.
    fn children(&self, namespace: &str) -> Vec<String> {
        let below = self.namespaces.keys().filter_map(|path| path.strip_prefix(namespace));
        let direct = below.filter(|name| name.split('/').count() == 2);
        direct.map(str::to_owned).collect()
    }

    fn identity(
        &self,
        namespace: &str,
        at: &SourceNamespace,
    ) -> Result<&IdentityIndex, ItemFailure> {
        let Some(slot) = self.identities.get(namespace) else {
            return Err(item("the snapshot has no such namespace"));
        };
        let index = slot.get_or_init(|| IdentityIndex::unpacked(&self.opened, at));
        index.as_ref().map_err(|why| ItemFailure::Item(why.clone()))
    }

    fn read_system(
        &self,
        namespace: &str,
        at: &SourceNamespace,
        path: &str,
    ) -> Result<Option<Map>, ItemFailure> {
        let shown = |mounts: &BTreeMap<String, StoredMount>| {
            let all = mounts.iter().map(|(path, mount)| (path.clone(), mount.shown().into()));
            Some(all.collect())
        };
        match path {
            "mounts" => return Ok(shown(&at.mounts)),
            "auth" => return Ok(shown(&at.methods)),
            _ => {}
        }
        if let Some(name) = path.strip_prefix("namespaces/") {
            let child = self.namespaces.get(&format!("{namespace}{name}/"));
            let metadata = |child: &SourceNamespace| {
                Map::from([("custom_metadata".to_owned(), child.custom_metadata.clone())])
            };
            return Ok(child.map(metadata));
        }
        if let Some(name) = path.strip_prefix("policies/acl/") {
            return read_policy(&self.opened, &at.below(&format!("sys/policy/{name}")), "Raw");
        }
        if let Some(name) = path.strip_prefix("policies/password/") {
            let path = at.below(&format!("sys/password_policy/{name}"));
            return read_policy(&self.opened, &path, "policy");
        }
        Ok(None)
    }
}

/// The text of a policy. One that expires by itself is refused: it would stay for ever.
fn read_policy(opened: &OpenSnapshot, path: &str, field: &str) -> Result<Option<Map>, ItemFailure> {
    let Some(mut policy) = read_json(opened, path)? else { return Ok(None) };
    let says = |name: &str| policy.get(name).and_then(Json::as_str).unwrap_or_default();
    if !matches!(says("Expiration"), "" | layout::NO_TIME) {
        return Err(item(EXPIRES));
    }
    if !matches!(policy.get("Type"), None | Some(Json::Null))
        && !super::pass::is_nothing(&policy["Type"])
    {
        return Err(item("it is a policy of another kind, which is not understood"));
    }
    let text = policy.remove(field).filter(|text| matches!(text, Json::String(_)));
    let text = text.ok_or_else(|| item("its record is not understood"))?;
    Ok(Some(Map::from([("policy".to_owned(), text)])))
}

/// An object at a path of the storage. Tables of mounts are compressed; the byte that says so is not one that an object begins with.
fn read_json(opened: &OpenSnapshot, path: &str) -> Result<Option<Map>, ItemFailure> {
    let Some(bytes) = read_bytes(opened, path)? else { return Ok(None) };
    let bytes = kallisto_vault_snapshot::expand(bytes).map_err(|error| refused(&error))?;
    let parsed = parse_object(&bytes);
    parsed.map(Some).map_err(|_| item("its record is not understood: it is no object"))
}

fn read_bytes(
    opened: &OpenSnapshot,
    path: &str,
) -> Result<Option<Zeroizing<Vec<u8>>>, ItemFailure> {
    opened.get(path).map_err(|error| refused(&error))
}

/// The names of all records below a folder of the storage. A name may have slashes, as those of policies: what looks like a folder is part of it.
fn records_in(opened: &OpenSnapshot, folder: &str) -> Vec<String> {
    opened.below(folder).filter_map(|path| path.strip_prefix(folder)).map(str::to_owned).collect()
}

fn refused(error: &SnapshotError) -> ItemFailure {
    ItemFailure::Item(format!("its record is not understood: {error}"))
}

fn item(why: &str) -> ItemFailure {
    ItemFailure::Item(why.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::migrate::pass::MigrationPass;
    use crate::migrate::scope::ContentKind;
    use crate::migrate::testing::{TestPass, TestServer, counts, lines, snapshot};

    #[test]
    fn policies_with_slashes_in_their_names_move() {
        let target = TestServer::start();
        let run = |pass| TestPass::of(pass, &[ContentKind::Policies]).run(snapshot(), &target);
        for pass in [MigrationPass::DryRun, MigrationPass::Move] {
            let (code, report) = run(pass);
            assert_eq!((code, counts(&report, "policies")), (2, [2, 0, 0, 0]), "{pass:?}");
            // Which the target has no route for.
            assert_eq!(counts(&report, "password policies"), [1, 0, 0, 1], "{pass:?}");
            let told = lines(&report, "not_moved").join("\n");
            assert!(told.starts_with("team/read: ") && told.contains("slash in its name"));
        }
        assert!(target.has("sys/policies/acl/team/read"));
        target.remove("sys/policies/acl/team/read");
        let (code, report) = run(MigrationPass::Compare);
        let told = lines(&report, "differing");
        assert_eq!(code, 2);
        assert_eq!(told, ["team/read: it is not at the target"; 2]);
    }
}
