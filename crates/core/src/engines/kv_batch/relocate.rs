//! `kv/copy` and `kv/move`: a secret or a folder to another place, with all versions and metadata, as
//! one batch and without a value leaving the server.
//!
//! Who has a secret elsewhere can read it there. So the caller must be one who may read it where it
//! is, with its metadata, and bring back its deleted versions if there are any; where it goes the
//! caller must be one who may create it. Nothing is overwritten.

use kallisto_auth::Operation;
use kallisto_store::Seqno;

use super::judge::BatchJudge;
use super::meter::Meter;
use super::place::{SecretName, SecretPlace};
use super::remove::{check_count, secrets_at};
use super::together;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Json;
use crate::api::response::{Logical, Response, TouchedPath};
use crate::caller::call::AuthorizedCall;
use crate::engines::kv::access::check_entry_path;
use crate::engines::kv::staged::Staged;
use crate::engines::kv::v2;
use crate::records::kv::SecretMetadata;
use crate::storage::keys;
use crate::view::NamespaceContext;
use kallisto_engine::pace::{ITEMS_PER_TURN, cooperative_yield};

/// What stays where the secrets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines) enum RelocateKeep {
    /// Everything: a copy.
    Source,
    /// Nothing: a move.
    Nothing,
}

/// One secret and where it goes, by their paths inside their mounts.
struct RelocatePair {
    from: String,
    to: String,
}

/// A relocation that was let in, but for what only a secret's metadata can tell.
struct Relocation<'a> {
    meter: Meter<'a>,
    context: &'a NamespaceContext,
    judge: BatchJudge<'a>,
    from: SecretPlace,
    to: SecretPlace,
    keep: RelocateKeep,
    is_dry: bool,
    now_ns: i64,
}

pub(in crate::engines) async fn relocate(
    meter: Meter<'_>,
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    keep: RelocateKeep,
) -> Result<Response, Error> {
    let body = call.object()?;
    let fields = Fields::new(&body);
    let from = SecretPlace::from_field(context, call, fields, "from")?.meant()?;
    let to = SecretPlace::from_field(context, call, fields, "to")?.meant()?;
    check_places(&from, &to)?;
    let is_dry = fields.boolean("dry_run")?.unwrap_or(false);
    let judge = BatchJudge::of(context, call)?;
    let relocation =
        Relocation { meter, context, judge, from, to, keep, is_dry, now_ns: call.now_ns() };
    let pairs = relocation.pairs()?;
    let mut touched = Vec::with_capacity(3 * pairs.len());
    for (at, pair) in pairs.iter().enumerate() {
        relocation.judge_pair(pair, &mut touched)?;
        if at % ITEMS_PER_TURN == 0 {
            cooperative_yield().await;
        }
    }
    check_count(fields, pairs.len())?;
    if is_dry {
        let mut unused = Staged::default();
        for pair in &pairs {
            relocation.stage(pair, &mut unused)?;
        }
    } else {
        relocation.run(&pairs).await?;
    }
    let shown = |pair: &RelocatePair| {
        let full = |place: &SecretPlace, path: &str| {
            Json::from(format!("{}{path}", place.mount.entry.path))
        };
        Json::object([
            ("from", full(&relocation.from, &pair.from)),
            ("to", full(&relocation.to, &pair.to)),
        ])
    };
    let data = Json::object([
        ("count", (pairs.len() as u64).into()),
        ("dry_run", is_dry.into()),
        ("secrets", Json::Array(pairs.iter().map(shown).collect())),
    ]);
    Ok(Response::Logical(Logical { data: data.to_text(), touched, ..Logical::default() }))
}

/// What is wrong with going from here to there whatever lies here.
fn check_places(from: &SecretPlace, to: &SecretPlace) -> Result<(), Error> {
    let wrong = |what: &str| Err(Error::invalid(what));
    if from.mount.entry.kind != to.mount.entry.kind {
        return wrong("'from' and 'to' must be in mounts of one version");
    }
    match (from.is_folder(), to.is_folder()) {
        (true, false) => return wrong("'from' is a folder, so 'to' must end in / as well"),
        (false, true) => return wrong("'from' is a secret, so 'to' must name one as well"),
        (false, false) => check_entry_path(&to.path)?,
        (true, true) => {}
    }
    let is_one_mount = from.mount.entry.id == to.mount.entry.id;
    if is_one_mount && from.path == to.path {
        return wrong("'from' and 'to' are the same");
    }
    if is_one_mount && from.is_folder() && to.path.starts_with(&from.path) {
        return wrong("a folder cannot go into itself");
    }
    Ok(())
}

impl Relocation<'_> {
    fn pairs(&self) -> Result<Vec<RelocatePair>, Error> {
        let pair = |path: String| {
            let to = self.to.counterpart(&self.from, &path);
            RelocatePair { from: path, to }
        };
        Ok(secrets_at(self.meter, &self.judge, &self.from)?.into_iter().map(pair).collect())
    }

    /// Asks for every right that can be asked for without looking at the secret.
    fn judge_pair(&self, pair: &RelocatePair, touched: &mut Vec<TouchedPath>) -> Result<(), Error> {
        use Operation::{Delete, Read, Update};
        let is_v2 = self.from.mount.entry.kind.has_versions();
        let mut asked = vec![(Read, &self.from, "data", &pair.from)];
        if is_v2 {
            asked.push((Read, &self.from, "metadata", &pair.from));
            asked.push((Update, &self.to, "metadata", &pair.to));
        }
        if self.keep == RelocateKeep::Nothing {
            asked.push((Delete, &self.from, "metadata", &pair.from));
        }
        asked.push((Update, &self.to, "data", &pair.to));
        for (operation, place, noun, path) in asked {
            let path = SecretName::api_path(&place.mount, noun, path);
            if !self.is_dry {
                self.meter.take(operation, &path)?;
            }
            self.judge.demand(operation, &path)?;
            touched.push(TouchedPath { operation, path });
        }
        Ok(())
    }

    async fn run(&self, pairs: &[RelocatePair]) -> Result<(), Error> {
        let keys: Vec<_> = pairs
            .iter()
            .flat_map(|pair| {
                [(&self.from, &pair.from), (&self.to, &pair.to)]
                    .map(|(place, path)| together::record_key(&place.mount, path))
            })
            .collect();
        let stage = |at: usize, staged: &mut Staged| self.stage(&pairs[at], staged);
        together::commit(self.context, &keys, pairs.len(), stage).await.map(drop)
    }

    fn stage(&self, pair: &RelocatePair, staged: &mut Staged) -> Result<(), Error> {
        let to_key = together::record_key(&self.to.mount, &pair.to);
        if self.to.mount.index.contains(&pair.to) {
            return Err(Error::invalid(format!(
                "{}{} exists already; nothing was done",
                self.to.mount.entry.path, pair.to
            )));
        }
        staged.expect(to_key.clone(), Seqno::ABSENT);
        if !self.from.mount.entry.kind.has_versions() {
            return self.stage_whole(pair, to_key, staged);
        }
        let (from, path) = (&*self.from.mount, pair.from.as_str());
        let (metadata, seqno) = v2::stage::metadata(self.context, from, path)?;
        let metadata = metadata.ok_or(Error::NotFound)?;
        self.judge_deleted(path, &metadata)?;
        staged.expect(keys::kv_meta(from.entry.id, path), seqno);
        v2::stage::copy(self.context, (from, path), (&self.to.mount, &pair.to), &metadata, staged)?;
        if self.keep == RelocateKeep::Nothing {
            v2::stage::remove_known(from, path, &metadata, staged)?;
        }
        Ok(())
    }

    /// A secret without versions.
    fn stage_whole(
        &self,
        pair: &RelocatePair,
        to_key: Vec<u8>,
        staged: &mut Staged,
    ) -> Result<(), Error> {
        let from_key = together::record_key(&self.from.mount, &pair.from);
        let record = self.context.store.get(&from_key)?.ok_or(Error::NotFound)?;
        staged.expect(from_key.clone(), record.seqno);
        staged.put(to_key, record.value)?;
        match self.keep {
            RelocateKeep::Source => Ok(()),
            RelocateKeep::Nothing => staged.delete(from_key),
        }
    }

    /// Deleted versions that can come back go along, so it takes the right to bring them back.
    fn judge_deleted(&self, path: &str, metadata: &SecretMetadata) -> Result<(), Error> {
        let mut versions = metadata.versions.iter();
        if versions.any(|info| !info.destroyed && !info.is_live(self.now_ns)) {
            let path = SecretName::api_path(&self.from.mount, "undelete", path);
            self.judge.demand(Operation::Update, &path)?;
        }
        Ok(())
    }
}
