//! Keys of transit mounts, where the source gives them out.
//!
//! A key that is exportable is exported and imported, version by version, wrapped for the target as its API wants it: nobody between the two
//! servers but this process sees it. Another one that allows a plaintext backup is backed up and restored, which works between servers of one make.
//! Any other key stays where it is, and the report says so. A snapshot has every key in the form of a backup, so that all are restored.

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use super::endpoint::ItemFailure;
use super::mounts::{SourceMount, text};
use super::pass::{Item, Migration, MigrationPass, means_the_same};
use super::pkcs8;
use super::report::Settled;
use crate::wrapped_key;
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};
use kallisto_command::secret::as_u64;

/// What of a key has to be the same at both sides.
pub(super) const FACTS: [&str; 12] = [
    "allow_plaintext_backup",
    AUTO_ROTATE,
    "convergent_encryption",
    "deletion_allowed",
    "derived",
    "exportable",
    KDF,
    "latest_version",
    "min_decryption_version",
    "min_encryption_version",
    SOFT_DELETED,
    "type",
];
/// After how many seconds a key rotates by itself.
pub(super) const AUTO_ROTATE: &str = "auto_rotate_period";
/// How a derived key derives: not the same for keys that their server made and for those that were imported there.
pub(super) const KDF: &str = "kdf";
const SOFT_DELETED: &str = "soft_deleted";
/// What a key has for good.
const NATURE: [&str; 4] = ["convergent_encryption", "derived", KDF, "type"];
/// What is set by the route `config` after the versions are there.
const SETTINGS: [&str; 6] = [
    "allow_plaintext_backup",
    AUTO_ROTATE,
    "deletion_allowed",
    "exportable",
    "min_decryption_version",
    "min_encryption_version",
];
/// Why a key of a snapshot does not replace another one. It may be that of an earlier snapshot, and have versions of its own by now.
const OTHER_KEY: &str =
    "the target has another key of this name, or another version of it: -overwrite replaces it";
/// What is told of a key of a snapshot that reads the same at the target: the settings are what the target tells of it.
const UNPROVEN: &str = "a key of this name and version is at the target, and nobody sees from outside whether it is the same one: decrypt something old with it; -overwrite replaces it";
const TRIMMED: &str = "its first versions are trimmed, so later ones cannot get their numbers";

/// Moves the keys of a mount.
pub(super) fn move_all(
    migration: &Migration<'_>,
    namespace: &str,
    mount: &SourceMount,
) -> Result<(), Error> {
    let path = format!("{}keys", mount.path);
    let all = Item { kind: "transit keys", namespace, path: &path };
    let listed = migration.or_none(all, migration.source.list(namespace, &path))?;
    // OpenBao lists the folder of its wrapping key among the keys.
    let names: Vec<_> = listed.into_iter().filter(|name| !name.ends_with('/')).collect();
    migration.progress.begin(&format!("keys of {namespace}{}", mount.path), names.len());
    for name in &names {
        let path = format!("{}keys/{name}", mount.path);
        let item = Item { kind: "transit keys", namespace, path: &path };
        let key = MovedKey { migration, item, mount: &mount.path, name };
        migration.settle(item, || key.settle())?;
        migration.progress.add(1);
    }
    Ok(())
}

struct MovedKey<'m, 'a> {
    migration: &'m Migration<'a>,
    item: Item<'m>,
    mount: &'m str,
    name: &'m str,
}

impl MovedKey<'_, '_> {
    fn settle(&self) -> Result<Settled, ItemFailure> {
        let Migration { source, pass, .. } = self.migration;
        let Item { namespace, path, .. } = self.item;
        let Some(there) = source.read(namespace, path)? else {
            return Ok(Settled::not_moved("it is gone at the source"));
        };
        let here = self.migration.target_or_nothing(namespace, path)?;
        let facts: Map = FACTS
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), there.get(*name)?.clone())))
            .collect();
        let is_snapshot = source.snapshot().is_some();
        let is_exportable = !is_snapshot && there.get("exportable") == Some(&true.into());
        // One that reads the same may be another, so that all are replaced.
        let is_replaced = is_snapshot && here.is_some() && self.migration.overwrites;
        let obstacle = match is_snapshot {
            true => (here.is_some() && !is_replaced).then_some(OTHER_KEY),
            false => obstacle(&there, here.as_ref()),
        };
        let is_brought = *pass == MigrationPass::Move && obstacle.is_none();
        let settled = match (is_replaced, *pass) {
            (true, MigrationPass::Move) => self.restore().map(|()| Settled::Moved)?,
            (true, MigrationPass::DryRun) => Settled::Moved,
            _ => self.migration.settle_against(here.as_ref(), &facts, || match is_brought {
                true => self.bring(&there, here.as_ref(), is_exportable),
                false => Ok(()),
            })?,
        };
        if is_snapshot && matches!(settled, Settled::Same) {
            self.migration.report.note(self.item, UNPROVEN);
        }
        // A dry run tells it as well.
        if let (Settled::Moved, Some(why)) = (&settled, obstacle) {
            return Ok(Settled::not_moved(why));
        }
        let is_to_prove = *pass == MigrationPass::Compare && matches!(settled, Settled::Same);
        if is_to_prove && is_exportable && !self.is_same_material(&there)? {
            return Ok(Settled::differs("the key itself"));
        }
        if matches!(settled, Settled::Moved) && is_exportable && here.is_none() {
            self.migration.report.note(
                self.item,
                "HMACs made with it are not verified here: its HMAC key is another",
            );
        }
        Ok(settled)
    }

    /// Makes the key, or the versions that are not here yet.
    fn bring(
        &self,
        there: &Map,
        here: Option<&Map>,
        is_exportable: bool,
    ) -> Result<(), ItemFailure> {
        if !is_exportable {
            return self.restore();
        }
        let versions = self.export(&self.migration.source, there)?;
        let latest = versions.keys().last().copied().unwrap_or(0);
        if versions.keys().copied().ne(1..=latest) {
            return Err(ItemFailure::Item(TRIMMED.to_owned()));
        }
        let known = here.and_then(|here| here.get("latest_version")).and_then(as_u64).unwrap_or(0);
        for (version, key) in versions.iter().filter(|(version, _)| **version > known) {
            let mut body = Map::from([("ciphertext".to_owned(), self.wrapped(there, key)?.into())]);
            let mut route = "import_version";
            if *version == 1 {
                route = "import";
                body.extend(imported_as(there));
            }
            self.write(&format!("{}keys/{}/{route}", self.mount, self.name), body)?;
        }
        let settings = SETTINGS
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), there.get(*name)?.clone())));
        self.write(&format!("{}keys/{}/config", self.mount, self.name), settings.collect())
    }

    fn restore(&self) -> Result<(), ItemFailure> {
        if let Some(snapshot) = self.migration.source.snapshot() {
            let mut backup = snapshot.key_backup(self.item.namespace, self.item.path)?;
            if self.migration.overwrites {
                backup.insert("force".to_owned(), true.into());
            }
            return self.write(&format!("{}restore/{}", self.mount, self.name), backup);
        }
        let path = format!("{}backup/{}", self.mount, self.name);
        let backup = self.migration.source.read(self.item.namespace, &path)?.unwrap_or_default();
        let restored = self.write(&format!("{}restore/{}", self.mount, self.name), backup);
        restored.map_err(|failure| match failure {
            ItemFailure::Item(why) => ItemFailure::Item(format!(
                "it is not exportable, and its backup is of another make: {why}"
            )),
            fatal => fatal,
        })
    }

    fn write(&self, path: &str, body: Map) -> Result<(), ItemFailure> {
        self.migration.target.write(self.item.namespace, path, body).map(drop)
    }

    /// The key's versions as an export shows them.
    fn export(
        &self,
        from: &super::endpoint::Endpoint<'_>,
        key: &Map,
    ) -> Result<BTreeMap<u64, Zeroizing<String>>, ItemFailure> {
        let sort = match text(key, "type") {
            "ed25519" => "signing-key",
            "hmac" => "hmac-key",
            kind if kind.starts_with("ecdsa") => "signing-key",
            _ => "encryption-key",
        };
        let path = format!("{}export/{sort}/{}", self.mount, self.name);
        let exported = from.read(self.item.namespace, &path)?.unwrap_or_default();
        let keys = exported.get("keys").and_then(Json::as_object).into_iter().flatten();
        let version = |(number, key): (&String, &Json)| {
            Some((number.parse().ok()?, Zeroizing::new(key.as_str()?.to_owned())))
        };
        Ok(keys.filter_map(version).collect())
    }

    fn is_same_material(&self, there: &Map) -> Result<bool, ItemFailure> {
        let Migration { source, target, .. } = self.migration;
        let bytes = |keys: BTreeMap<u64, Zeroizing<String>>| {
            let material = |(number, key): (u64, Zeroizing<String>)| {
                (number, pkcs8::material(text(there, "type"), &key))
            };
            keys.into_iter().map(material).collect::<BTreeMap<_, _>>()
        };
        Ok(bytes(self.export(source, there)?) == bytes(self.export(target, there)?))
    }

    /// An exported key as the target takes it.
    fn wrapped(&self, there: &Map, exported: &str) -> Result<String, ItemFailure> {
        let kind = text(there, "type");
        let Some(material) = pkcs8::material(kind, exported) else {
            return Err(ItemFailure::Item(format!(
                "an exported key of type {kind:?} is not understood"
            )));
        };
        let path = format!("{}wrapping_key", self.mount);
        let answer = self.migration.target.read(self.item.namespace, &path)?.unwrap_or_default();
        wrapped_key::wrap(&material, text(&answer, "public_key")).ok_or_else(|| {
            ItemFailure::Item("the key could not be wrapped for the target".to_owned())
        })
    }
}

/// How a key is imported, besides its material: what cannot be set later.
fn imported_as(there: &Map) -> Map {
    let given = ["type", "derived", KDF]
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), there.get(*name)?.clone())));
    let says = |name: &str| there.get(name) == Some(&true.into());
    let rotates = !says("imported_key") || says("imported_key_allow_rotation");
    let own = [("allow_rotation", rotates), ("exportable", true)];
    given.chain(own.map(|(name, value)| (name.to_owned(), value.into()))).collect()
}

/// Why a key cannot be brought to the target, which has this of it.
fn obstacle(there: &Map, here: Option<&Map>) -> Option<&'static str> {
    let says = |name: &str| there.get(name) == Some(&true.into());
    if says(SOFT_DELETED) {
        return Some("it is soft-deleted: restore it at the source first");
    }
    if !says("exportable") {
        let can_be_restored = says("allow_plaintext_backup") && here.is_none();
        return (!can_be_restored).then_some("it is not exportable: no API gives it out");
    }
    if says("convergent_encryption") {
        return Some("a key with convergent encryption cannot be imported");
    }
    let of = |map: &Map, name: &str| map.get(name).cloned().unwrap_or(Json::Null);
    let is_same =
        |here: &Map| NATURE.iter().all(|name| means_the_same(&of(here, name), &of(there, name)));
    if here.is_some_and(|here| !is_same(here)) {
        return Some("the target has a key there of another type or derivation");
    }
    let oldest = there.get("min_available_version").and_then(as_u64).unwrap_or(0);
    (oldest > 1).then_some(TRIMMED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate::scope::ContentKind;
    use crate::migrate::testing::{TestPass, TestServer, counts, lines};
    use kallisto_command::json::parse_object;

    #[test]
    fn what_cannot_be_brought_is_known_before_anything_is_done() {
        let of = |there: &str, here: Option<&str>| {
            let map = |text: &str| parse_object(text.as_bytes()).unwrap();
            obstacle(&map(there), here.map(map).as_ref()).unwrap_or("none")
        };
        for (there, here, why) in [
            (r#"{"exportable":true,"min_available_version":0}"#, None, "none"),
            (r#"{"exportable":true,"type":"a"}"#, Some(r#"{"type":"a"}"#), "none"),
            (r#"{"exportable":true,"type":"a"}"#, Some(r#"{"type":"b"}"#), "another type"),
            (
                r#"{"exportable":true,"derived":true,"kdf":"hmac-sha256-counter"}"#,
                Some(r#"{"derived":true,"kdf":"hkdf_sha256"}"#),
                "another type or derivation",
            ),
            (r#"{"exportable":true,"soft_deleted":true}"#, None, "soft-deleted"),
            (r#"{"exportable":true,"min_available_version":3}"#, None, "trimmed"),
            (r#"{"exportable":true,"convergent_encryption":true}"#, None, "convergent"),
            (r#"{"exportable":false}"#, None, "not exportable"),
            (r#"{"exportable":false,"allow_plaintext_backup":true}"#, None, "none"),
            (r#"{"exportable":false,"allow_plaintext_backup":true}"#, Some("{}"), "not exportable"),
        ] {
            assert!(of(there, here).contains(why), "{there} {here:?}: {}", of(there, here));
        }
    }

    /// The target imports a derived key as OpenBao does, unless it is told otherwise.
    #[test]
    fn a_key_is_imported_as_what_it_is() {
        let as_text = |there: &str| {
            Json::Object(imported_as(&parse_object(there.as_bytes()).unwrap())).to_text()
        };
        assert_eq!(
            as_text(r#"{"type":"aes256-gcm96","derived":true,"kdf":"hkdf_sha256","name":"k"}"#),
            br#"{"allow_rotation":true,"derived":true,"exportable":true,"kdf":"hkdf_sha256","type":"aes256-gcm96"}"#
        );
        let imported = as_text(r#"{"imported_key":true,"imported_key_allow_rotation":false}"#);
        assert_eq!(imported, br#"{"allow_rotation":false,"exportable":true}"#);
    }

    #[test]
    fn a_key_that_derives_otherwise_is_another_and_a_folder_is_none() {
        let server = |kdf: &str| {
            let server = TestServer::start();
            server.put("sys/mounts", r#"{"t/":{"type":"transit"}}"#);
            let key = r#"{"type":"aes256-gcm96","derived":true,"exportable":true,"kdf":"KDF"}"#;
            server.put("t/keys/k", &key.replace("KDF", kdf));
            server.put("t/export/encryption-key/k", r#"{"keys":{"1":"AAAA"}}"#);
            server
        };
        let (counter, hkdf) = (server("hmac-sha256-counter"), server("hkdf_sha256"));
        counter.put("t/keys/import/wrapping-key", "{}");
        let pass = |pass| TestPass::of(pass, &[ContentKind::TransitKeys]);
        let run = |pass: TestPass<'_>, to| pass.run(counter.endpoint("source"), to).1;
        let report = run(pass(MigrationPass::Compare), &counter);
        assert_eq!(counts(&report, "transit keys"), [0, 1, 0, 0]);
        let report = run(pass(MigrationPass::Compare), &hkdf);
        assert_eq!(lines(&report, "differing"), ["t/keys/k: other: kdf"]);
        let report = run(pass(MigrationPass::Move), &hkdf);
        assert_eq!(
            lines(&report, "not_moved"),
            ["t/keys/k: the target has a key there of another type or derivation"]
        );
    }
}
