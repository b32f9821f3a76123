//! `kv/recover`: a secret or a folder from a loaded snapshot, as one batch, with a dry run.
//!
//! It takes the capability `recover` at every secret's own path, as a recovery of its own does; `list` at a folder; `read` at the path
//! in the snapshot where that is another; and `delete` of the metadata where a history may be lost.

use std::sync::Arc;

use kallisto_auth::Operation;
use kallisto_engine::pace::{ITEMS_PER_TURN, cooperative_yield};
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
use crate::dispatch::server_engine::{RecoverSource, RunningRequest};
use crate::engines::kv::access::{author, check_entry_path};
use crate::engines::kv::staged::Staged;
use crate::engines::kv::v2::recover::{RecoverMode, RecoveredSecret, stage};
use crate::records::attribution::Author;
use crate::state::Core;
use crate::view::NamespaceContext;

/// One secret, by its paths inside its mounts.
struct RecoverPair {
    from: String,
    to: String,
}

/// A recovery under way.
struct SecretRecovery<'a> {
    meter: Meter<'a>,
    context: &'a NamespaceContext,
    there: Arc<NamespaceContext>,
    judge: BatchJudge<'a>,
    from: SecretPlace,
    to: SecretPlace,
    mode: RecoverMode,
    author: Option<Author>,
    now_ns: i64,
}

/// `sys/kallisto/kv/recover`.
pub(super) async fn recover(
    meter: Meter<'_>,
    core: &Core,
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let fields = Fields::new(&body);
    let to = SecretPlace::from_field(context, call, fields, "path")?.meant()?;
    let from = fields.string("from")?.filter(|text| !text.is_empty());
    let id = fields.string("snapshot_id")?.filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| Error::invalid("'snapshot_id' must name a loaded snapshot"))?;
    let is_dry = fields.boolean("dry_run")?.unwrap_or(false);
    let mode = match fields.boolean("overwrite")?.unwrap_or(false) {
        true => RecoverMode::Overwrite,
        false => RecoverMode::Merge,
    };
    let there = core.loaded.find(&id, call.now)?;
    let there = there.context_in(context.view.namespace_path()).ok_or(Error::NotFound)?;
    let named = from.unwrap_or_else(|| to.full());
    let from = SecretPlace::at(&there, &named).ok_or(Error::NotFound)?.meant()?;
    let judge = BatchJudge::of(context, call)?;
    let (author, now_ns) = (author(context, &to.mount, call), call.now_ns());
    let recovery = SecretRecovery { meter, context, there, judge, from, to, mode, author, now_ns };
    recovery.check_places()?;
    let pairs = recovery.pairs()?;
    let touched = recovery.judge_all(&pairs, is_dry).await?;
    check_count(fields, pairs.len())?;
    let told = if is_dry { recovery.look(&pairs).await? } else { recovery.run(&pairs).await? };
    let shown = pairs.iter().zip(&told).map(|(pair, told)| recovery.shown(pair, told));
    let data = Json::object([
        ("count", (pairs.len() as u64).into()),
        ("dry_run", is_dry.into()),
        ("secrets", Json::Array(shown.collect())),
    ]);
    Ok(Response::Logical(Logical { data: data.to_text(), touched, ..Logical::default() }))
}

/// A write at the path of a secret that names a snapshot. It was let in at that path.
pub(in crate::engines) async fn recover_one(
    run: RunningRequest<'_>,
    source: RecoverSource,
) -> Result<Response, Error> {
    let RunningRequest { core, context, call, mount, path } = run;
    let context = &*context;
    let place = |full: &str, inside: &str| match inside.strip_prefix("data/") {
        _ if !mount.entry.kind.has_versions() => Ok(inside.to_owned()),
        Some(path) => Ok(path.to_owned()),
        None => Err(Error::invalid(format!("{full}: a secret is recovered at data/:path"))),
    };
    let to = place(call.path.as_str(), path)?;
    check_entry_path(&to)?;
    let judge = BatchJudge::of(context, call)?;
    let named = source.path.as_deref().map(|path| path.trim_start_matches('/'));
    let named = named.unwrap_or(call.path.as_str());
    let there = source.there;
    let found = SecretPlace::at(&there, named).ok_or(Error::NotFound)?;
    let from = SecretPlace { path: place(named, &found.path)?, ..found };
    let to =
        SecretPlace::at(context, &format!("{}{to}", mount.entry.path)).ok_or(Error::NotFound)?;
    let (author, now_ns) = (author(context, mount, call), call.now_ns());
    let (meter, mode) = (Meter::of(core, call), RecoverMode::Merge);
    let recovery = SecretRecovery { meter, context, there, judge, from, to, mode, author, now_ns };
    recovery.check_places()?;
    let pairs = recovery.pairs()?;
    let touched = recovery.judge_all(&pairs, true).await?;
    let told = recovery.run(&pairs).await?;
    let shown = pairs.iter().zip(&told).map(|(pair, told)| recovery.shown(pair, told)).next();
    let data = shown.unwrap_or(Json::Null).to_text();
    Ok(Response::Logical(Logical { data, touched, ..Logical::default() }))
}

impl SecretRecovery<'_> {
    /// What is wrong with going from there to here whatever lies there.
    fn check_places(&self) -> Result<(), Error> {
        let (from, to) = (&self.from, &self.to);
        if from.mount.entry.kind != to.mount.entry.kind {
            return Err(Error::invalid(format!(
                "{} is of another kind now than {} was in the snapshot",
                to.mount.entry.path, from.mount.entry.path
            )));
        }
        match (from.is_folder(), to.is_folder()) {
            (true, false) => Err(Error::invalid("'from' is a folder, so 'path' must end in / too")),
            (false, true) => Err(Error::invalid("'path' is a folder, so 'from' must end in / too")),
            (true, true) | (false, false) => Ok(()),
        }
    }

    fn pairs(&self) -> Result<Vec<RecoverPair>, Error> {
        let pair = |path: String| {
            let to = self.to.counterpart(&self.from, &path);
            RecoverPair { from: path, to }
        };
        Ok(secrets_at(self.meter, &self.judge, &self.from)?.into_iter().map(pair).collect())
    }

    /// Asks for every right. What is only looked at is not counted, nor what was counted when it came.
    async fn judge_all(
        &self,
        pairs: &[RecoverPair],
        is_counted: bool,
    ) -> Result<Vec<TouchedPath>, Error> {
        let mut touched = Vec::with_capacity(pairs.len());
        for (at, pair) in pairs.iter().enumerate() {
            let path = SecretName::api_path(&self.to.mount, "data", &pair.to);
            if !is_counted {
                self.meter.take(Operation::Update, &path)?;
            }
            self.judge.demand(Operation::Recover, &path)?;
            let source = SecretName::api_path(&self.from.mount, "data", &pair.from);
            if source != path {
                self.judge.demand(Operation::Read, &source)?;
                touched.push(TouchedPath { operation: Operation::Read, path: source });
            }
            if self.mode == RecoverMode::Overwrite {
                let metadata = SecretName::api_path(&self.to.mount, "metadata", &pair.to);
                self.judge.demand(Operation::Delete, &metadata)?;
            }
            touched.push(TouchedPath { operation: Operation::Update, path });
            if at % ITEMS_PER_TURN == 0 {
                cooperative_yield().await;
            }
        }
        Ok(touched)
    }

    /// What would happen.
    async fn look(&self, pairs: &[RecoverPair]) -> Result<Vec<RecoveredSecret>, Error> {
        let mut unused = Staged::default();
        let mut told = Vec::with_capacity(pairs.len());
        for (at, pair) in pairs.iter().enumerate() {
            told.push(self.stage(pair, &mut unused)?);
            if at % ITEMS_PER_TURN == 0 {
                cooperative_yield().await;
            }
        }
        Ok(told)
    }

    async fn run(&self, pairs: &[RecoverPair]) -> Result<Vec<RecoveredSecret>, Error> {
        let keys: Vec<_> =
            pairs.iter().map(|pair| together::record_key(&self.to.mount, &pair.to)).collect();
        let stage = |at: usize, staged: &mut Staged| self.stage(&pairs[at], staged);
        together::commit(self.context, &keys, pairs.len(), stage).await
    }

    fn stage(&self, pair: &RecoverPair, staged: &mut Staged) -> Result<RecoveredSecret, Error> {
        let (from, to) = (&*self.from.mount, &*self.to.mount);
        if to.entry.kind.has_versions() {
            return stage(
                (&self.there, from, &pair.from),
                (self.context, to, &pair.to),
                self.mode,
                (self.author.as_ref(), self.now_ns),
                staged,
            );
        }
        let record = self.there.store.get(&together::record_key(from, &pair.from))?;
        let record = record.ok_or(Error::NotFound)?;
        let key = together::record_key(to, &pair.to);
        let here = self.context.store.get(&key)?;
        let outcome = match &here {
            None => "created",
            Some(here) if here.value == record.value => "unchanged",
            Some(_) => "replaced",
        };
        if outcome != "unchanged" {
            staged.expect(key.clone(), here.map_or(Seqno::ABSENT, |here| here.seqno));
            staged.put(key, record.value)?;
        }
        Ok(RecoveredSecret { outcome, ..RecoveredSecret::default() })
    }

    fn shown(&self, pair: &RecoverPair, told: &RecoveredSecret) -> Json {
        let full = |place: &SecretPlace, path: &str| {
            Json::from(format!("{}{path}", place.mount.entry.path))
        };
        let mut members = vec![
            ("path", full(&self.to, &pair.to)),
            ("from", full(&self.from, &pair.from)),
            ("outcome", told.outcome.into()),
        ];
        if self.to.mount.entry.kind.has_versions() {
            let versions = told.versions.iter().map(|&version| version.into()).collect();
            members.push(("restored_versions", Json::Array(versions)));
            members.push(("new_version", told.new_version.map_or(Json::Null, Json::from)));
            members.push(("current_version", told.current_version.into()));
        }
        Json::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}
