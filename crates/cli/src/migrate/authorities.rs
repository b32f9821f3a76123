//! Certificate authorities, out of a snapshot: keys, issuers, settings, roles, and what was revoked. No API gives the keys out.
//!
//! Issuers are known by their certificates, since ids are each server's own: what names an issuer of the source by its id names that of the target
//! here. A certificate that was revoked is revoked at the target too, where its time is the one of the move; one that is good needs no record to be
//! verified, and stays behind.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::endpoint::ItemFailure;
use super::mounts::{SourceMount, text};
use super::pass::{Item, Migration, MigrationPass};
use super::report::Settled;
use super::snapshot::{AuthorityIssuer, AuthorityKey, RevokedAtSource, setting_routes};
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};

/// An issuer of the target: its id, and whether its key is there.
type IssuerHere = (String, bool);

/// Moves a mount of certificate authorities; a server as the source gives no keys out, and its mounts are named with the others.
pub(super) fn move_all(
    migration: &Migration<'_>,
    namespace: &str,
    mount: &SourceMount,
) -> Result<(), Error> {
    let Some(snapshot) = migration.source.snapshot() else { return Ok(()) };
    let mut there = snapshot.authority(namespace, &mount.path);
    let moved = MovedAuthority { migration, namespace, mount: &mount.path };
    for (record, why) in there.unread {
        moved.count("certificate authorities", &record, Settled::NotMoved(why));
    }
    let here = moved.issuers_here()?;
    // A mount that has none takes the first key for its default, and the first issuer that has one: these go first.
    there.keys.sort_by_key(|key| key.id != there.default_key);
    there.issuers.sort_by_key(|issuer| issuer.id != there.default_issuer);
    let has_key = |id: &str| there.keys.iter().any(|key| key.id == id);
    let becomes_default = here.is_empty()
        && !there.default_follows
        && there.issuers.first().is_some_and(|issuer| has_key(&issuer.key));
    let is_key_default = here.is_empty() && has_key(&there.default_key);
    for key in there.keys {
        let users: Vec<&AuthorityIssuer> =
            there.issuers.iter().filter(|issuer| issuer.key == key.id).collect();
        let has_key = users
            .iter()
            .any(|issuer| here.get(issuer.certificate.trim()).is_some_and(|(_, has_key)| *has_key));
        moved.move_key(key, has_key)?;
    }
    let mut ids = BTreeMap::new();
    for issuer in &there.issuers {
        if let Some(id) = moved.move_issuer(issuer, here.get(issuer.certificate.trim()))? {
            ids.insert(issuer.id.clone(), id);
        }
    }
    for issuer in there.issuers.iter().filter(|issuer| !issuer.chain.is_empty()) {
        moved.move_chain(issuer, &ids)?;
    }
    for route in setting_routes() {
        moved.move_object("certificate settings", route, &ids)?;
    }
    if let Some(id) = ids.get(&there.default_issuer) {
        let wanted = Map::from([
            ("default".to_owned(), Json::from(id.as_str())),
            ("default_follows_latest_issuer".to_owned(), there.default_follows.into()),
        ]);
        moved.settle("certificate settings", "config/issuers", |path| match migration.pass {
            MigrationPass::DryRun if becomes_default => Ok(Settled::Same),
            _ => migration.settle_object(namespace, path, wanted),
        })?;
    }
    moved.move_default_key(&there.default_key, is_key_default, &there.issuers, &ids)?;
    let roles = format!("{}roles", mount.path);
    for name in migration.list("certificate roles", namespace, &roles)? {
        moved.move_object("certificate roles", &format!("roles/{name}"), &ids)?;
    }
    moved.move_revoked(&there.revoked)?;
    if there.good > 0 {
        let why = format!(
            "{} certificates that are good are not stored at the target: they verify as before, and are revoked there by the certificate itself",
            there.good
        );
        moved.note(why);
    }
    Ok(())
}

struct MovedAuthority<'m, 'a> {
    migration: &'m Migration<'a>,
    namespace: &'m str,
    /// Its path, ending in a slash.
    mount: &'m str,
}

impl MovedAuthority<'_, '_> {
    /// The issuers of the target, by their certificates.
    fn issuers_here(&self) -> Result<BTreeMap<String, IssuerHere>, Error> {
        let mut here = BTreeMap::new();
        let target = &self.migration.target;
        // One that is not there yet has none.
        let ids = match target.list(self.namespace, &format!("{}issuers", self.mount)) {
            Ok(ids) => ids,
            Err(ItemFailure::Item(_) | ItemFailure::Denied(_)) => Vec::new(),
            Err(ItemFailure::Fatal(error)) => return Err(error),
        };
        for id in ids {
            match target.read(self.namespace, &format!("{}issuer/{id}", self.mount)) {
                Ok(Some(issuer)) => {
                    let has_key = !text(&issuer, "key_id").is_empty();
                    here.insert(text(&issuer, "certificate").trim().to_owned(), (id, has_key));
                }
                Ok(None) | Err(ItemFailure::Item(_) | ItemFailure::Denied(_)) => {}
                Err(ItemFailure::Fatal(error)) => return Err(error),
            }
        }
        Ok(here)
    }

    fn move_key(&self, key: AuthorityKey, has_key: bool) -> Result<(), Error> {
        let name = if key.name.is_empty() { &key.id } else { &key.name };
        self.settle("certificate keys", &format!("key/{name}"), |_| {
            let route = format!("{}keys/import", self.mount);
            match (has_key, self.migration.pass) {
                (true, _) => Ok(Settled::Same),
                (false, MigrationPass::DryRun) => Ok(Settled::Moved),
                (false, MigrationPass::Compare) => {
                    Ok(Settled::differs("no issuer of the target has it"))
                }
                (false, MigrationPass::Move) => {
                    self.migration.target.write(self.namespace, &route, key.body)?;
                    Ok(Settled::Moved)
                }
            }
        })
    }

    /// Moves an issuer with its settings; its id at the target.
    fn move_issuer(
        &self,
        issuer: &AuthorityIssuer,
        here: Option<&IssuerHere>,
    ) -> Result<Option<String>, Error> {
        let mut id = here.map(|(id, _)| id.clone());
        let name = match text(&issuer.settings, "issuer_name") {
            "" => &issuer.id,
            name => name,
        };
        self.settle("certificate authorities", &format!("issuer/{name}"), |_| {
            let imported = match (&id, self.migration.pass) {
                (Some(_), _) => Settled::Same,
                (None, MigrationPass::DryRun) => {
                    // For what names it: it has no other id yet.
                    id = Some(issuer.id.clone());
                    return Ok(Settled::Moved);
                }
                (None, MigrationPass::Compare) => {
                    return Ok(Settled::differs("it is not at the target"));
                }
                (None, MigrationPass::Move) => {
                    id = Some(self.import(issuer)?);
                    Settled::Moved
                }
            };
            let Some(id) = &id else { return Ok(imported) };
            let path = format!("{}issuer/{id}", self.mount);
            let settled =
                self.migration.settle_object(self.namespace, &path, issuer.settings.clone())?;
            Ok(imported.and(settled).and(self.revoke_issuer(issuer, &path)?))
        })?;
        Ok(id)
    }

    fn import(&self, issuer: &AuthorityIssuer) -> Result<String, ItemFailure> {
        let route = format!("{}issuers/import/cert", self.mount);
        let body = Map::from([("pem_bundle".to_owned(), Json::from(issuer.certificate.as_str()))]);
        let answer = self.migration.target.write(self.namespace, &route, body)?;
        let answer = answer.unwrap_or_default();
        let first = |name: &str| match answer.get(name) {
            Some(Json::Array(ids)) => ids.first().and_then(Json::as_str).map(str::to_owned),
            _ => None,
        };
        let id = first("imported_issuers").or_else(|| first("existing_issuers"));
        id.ok_or_else(|| ItemFailure::Item("the target did not say which issuer it is".to_owned()))
    }

    fn revoke_issuer(&self, issuer: &AuthorityIssuer, path: &str) -> Result<Settled, ItemFailure> {
        if !issuer.is_revoked {
            return Ok(Settled::Same);
        }
        let here = self.migration.target_or_nothing(self.namespace, path)?.unwrap_or_default();
        match (here.get("revoked") == Some(&true.into()), self.migration.pass) {
            (true, _) => Ok(Settled::Same),
            (false, MigrationPass::DryRun) => Ok(Settled::Moved),
            (false, MigrationPass::Compare) => Ok(Settled::differs("it is not revoked")),
            (false, MigrationPass::Move) => {
                let route = format!("{path}/revoke");
                self.migration.target.write(self.namespace, &route, Map::new())?;
                Ok(Settled::Moved)
            }
        }
    }

    /// A chain that somebody gave, once all issuers of it have ids.
    fn move_chain(
        &self,
        issuer: &AuthorityIssuer,
        ids: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let Some(id) = ids.get(&issuer.id) else { return Ok(()) };
        self.settle("certificate authorities", &format!("issuer/{id}"), |path| {
            let chain: Option<Vec<&String>> = issuer.chain.iter().map(|id| ids.get(id)).collect();
            let Some(chain) = chain else {
                return Ok(Settled::not_moved(
                    "its manual_chain names an issuer that did not move",
                ));
            };
            let mut wanted = issuer.settings.clone();
            wanted.insert("manual_chain".to_owned(), Json::strings(chain));
            self.migration.settle_object(self.namespace, path, wanted)
        })
    }

    /// The default key. It is known by an issuer that has it, since ids of keys are each server's own too; a dry run, before which none has,
    /// has to be told whether it is the default by being imported.
    fn move_default_key(
        &self,
        default: &str,
        is_default_already: bool,
        issuers: &[AuthorityIssuer],
        ids: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        if default.is_empty() {
            return Ok(());
        }
        self.settle("certificate settings", "config/keys", |path| {
            let mut users = issuers.iter().filter(|issuer| issuer.key == default);
            let user = users.find_map(|issuer| ids.get(&issuer.id));
            let user = match user {
                None => None,
                Some(id) => {
                    let issuer = format!("{}issuer/{id}", self.mount);
                    self.migration.target_or_nothing(self.namespace, &issuer)?
                }
            };
            let key = user.as_ref().map_or("", |issuer| text(issuer, "key_id"));
            let key = match (key, self.migration.pass) {
                ("", MigrationPass::DryRun) if is_default_already => return Ok(Settled::Same),
                // For what names it: it has no other id yet.
                ("", MigrationPass::DryRun) => default,
                ("", MigrationPass::Move | MigrationPass::Compare) => {
                    return Ok(Settled::not_moved(
                        "no issuer that moved has the default key: say at the target which it is",
                    ));
                }
                (key, _) => key,
            };
            let wanted = Map::from([("default".to_owned(), Json::from(key))]);
            self.migration.settle_object(self.namespace, path, wanted)
        })
    }

    /// Settings or a role. An issuer that is named by its id there is named by that of the target.
    fn move_object(
        &self,
        kind: &'static str,
        route: &str,
        ids: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        self.settle_if_there(kind, route, |path| {
            let Some(mut wanted) = self.migration.source.read(self.namespace, path)? else {
                return Ok(None);
            };
            if let Some(Json::String(issuer)) = wanted.get_mut("issuer_ref")
                && let Some(id) = ids.get(issuer.as_str())
            {
                issuer.clone_from(id);
            }
            if let Some(Json::Array(issuers)) = wanted.get_mut("allowed_issuers") {
                for issuer in issuers {
                    let id = issuer.as_str().and_then(|issuer| ids.get(issuer));
                    if let Some(id) = id {
                        *issuer = id.as_str().into();
                    }
                }
            }
            self.migration.settle_object(self.namespace, path, wanted).map(Some)
        })
    }

    fn move_revoked(&self, revoked: &[RevokedAtSource]) -> Result<(), Error> {
        let now = Timestamp::now().as_second();
        let (ended, alive): (Vec<_>, Vec<_>) =
            revoked.iter().partition(|entry| entry.not_after < now);
        self.migration.progress.begin(&format!("revoked of {}", self.mount), alive.len());
        let mut moved = 0;
        for entry in &alive {
            self.settle("revoked certificates", &format!("cert/{}", entry.serial), |path| {
                let here = self.migration.target_or_nothing(self.namespace, path);
                // What is not there may be told as an error.
                let here = match here {
                    Ok(here) => here.unwrap_or_default(),
                    Err(ItemFailure::Item(_)) => Map::new(),
                    Err(failure) => return Err(failure),
                };
                let is_revoked =
                    here.get("revocation_time").is_some_and(|time| !super::pass::is_nothing(time));
                match (is_revoked, self.migration.pass) {
                    (true, _) => Ok(Settled::Same),
                    (false, MigrationPass::DryRun) => Ok(Settled::Moved),
                    (false, MigrationPass::Compare) => {
                        Ok(Settled::differs("it is not revoked at the target"))
                    }
                    (false, MigrationPass::Move) => {
                        let body =
                            Map::from([("certificate".to_owned(), Json::from(entry.pem.as_str()))]);
                        let route = format!("{}revoke", self.mount);
                        self.migration.target.write(self.namespace, &route, body)?;
                        moved += 1;
                        Ok(Settled::Moved)
                    }
                }
            })?;
            self.migration.progress.add(1);
        }
        if moved > 0 {
            self.note(format!(
                "{moved} certificates are revoked as of now: the target takes no other time"
            ));
        }
        if !ended.is_empty() {
            self.note(format!(
                "{} revoked certificates have ended, and no list has to name them",
                ended.len()
            ));
        }
        Ok(())
    }

    fn settle(
        &self,
        kind: &'static str,
        route: &str,
        work: impl FnOnce(&str) -> Result<Settled, ItemFailure>,
    ) -> Result<(), Error> {
        self.settle_if_there(kind, route, |path| work(path).map(Some))
    }

    fn settle_if_there(
        &self,
        kind: &'static str,
        route: &str,
        work: impl FnOnce(&str) -> Result<Option<Settled>, ItemFailure>,
    ) -> Result<(), Error> {
        let path = format!("{}{route}", self.mount);
        match work(&path) {
            Ok(None) => {}
            Ok(Some(settled)) => self.count(kind, route, settled),
            Err(ItemFailure::Item(why) | ItemFailure::Denied(why)) => {
                self.count(kind, route, Settled::NotMoved(why));
            }
            Err(ItemFailure::Fatal(error)) => return Err(error),
        }
        Ok(())
    }

    fn count(&self, kind: &'static str, route: &str, settled: Settled) {
        let path = format!("{}{route}", self.mount);
        self.migration.report.count(Item { kind, namespace: self.namespace, path: &path }, settled);
    }

    fn note(&self, why: String) {
        let item =
            Item { kind: "certificate authorities", namespace: self.namespace, path: self.mount };
        self.migration.report.note(item, why);
    }
}
