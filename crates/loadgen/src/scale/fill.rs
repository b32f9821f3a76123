//! Putting much into a store: requests through the core, many under way at a time.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use kallisto_core::{
    Core, InitSpec, Initialized, KvVersion, Operation, Path as RequestPath, Request, ServerInfo,
    TokenText,
};
use kallisto_listener::{SystemClock, WallClock};
use kallisto_lsm::disk::RealDisk;
use kallisto_store::{Durability, RaftOptions, RaftStore, Store};
use tokio::task::LocalSet;

use super::super::workload::progress;
use super::{ROOT, ScalePlan, clock};

/// Requests under way at a time: enough for the store to commit them in groups.
const IN_FLIGHT: u64 = 512;
/// Requests between two updates of the progress bar.
const PROGRESS_STEP: u64 = 1 << 12;
/// Folders the secrets are spread over.
const FOLDERS: u64 = 1_000;
/// The token that many hang on.
pub(super) const PARENT: &str = "bench-scale-parent";
/// What lets it make tokens.
const POLICY: &str = r#"{"policy":"path \"auth/token/create\" { capabilities = [\"update\"] }"}"#;

/// What is put in, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FillStage {
    /// KV version 2, one version each.
    Secrets,
    /// Service tokens that end in a month: children of one token, and others.
    Tokens,
    /// Mounts of KV version 2, empty.
    Mounts,
}

/// One request of a fill.
struct FillJob {
    path: String,
    token: &'static str,
    body: String,
}

impl FillStage {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Secrets, Self::Tokens, Self::Mounts];

    /// Its name in reports.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Secrets => "secrets",
            Self::Tokens => "tokens",
            Self::Mounts => "mounts",
        }
    }

    /// How many things it puts in.
    pub(super) const fn count(self, plan: ScalePlan) -> u64 {
        match self {
            Self::Secrets => plan.secrets,
            Self::Tokens => plan.children + plan.tokens,
            Self::Mounts => plan.mounts,
        }
    }

    fn job(self, at: u64, plan: ScalePlan) -> FillJob {
        match self {
            Self::Secrets => FillJob {
                path: secret(at),
                token: ROOT,
                body: format!("{{\"data\":{{\"value\":\"{}\"}}}}", value(at, plan.value_bytes)),
            },
            Self::Tokens => FillJob {
                path: "auth/token/create".into(),
                token: if at < plan.children { PARENT } else { ROOT },
                body: r#"{"policies":["default"],"ttl":"768h"}"#.into(),
            },
            Self::Mounts => FillJob {
                path: format!("sys/mounts/team-{at}"),
                token: ROOT,
                body: r#"{"type":"kv-v2"}"#.into(),
            },
        }
    }
}

/// The value of a secret: its number, filled up with zeros. Not by a width in a format, which ends at 65,535.
fn value(at: u64, bytes: u64) -> String {
    let number = at.to_string();
    "0".repeat((bytes as usize).saturating_sub(number.len())) + &number
}

/// The path of a secret.
pub(super) fn secret(at: u64) -> String {
    format!("secret/data/team-{}/service-{}", at % FOLDERS, at / FOLDERS)
}

/// A core over the store in `directory`.
struct OpenedCore {
    core: Arc<Core>,
    store: Arc<RaftStore>,
}

impl OpenedCore {
    fn open(directory: &Path) -> Result<Self, String> {
        let options = RaftOptions {
            // A fill that is cut short is thrown away, so nothing depends on the disk's word.
            durability: Durability::BATCH,
            seed: fastrand::u64(..),
            ..RaftOptions::default()
        };
        let directory = directory.join("data");
        let store = RaftStore::open(Arc::new(RealDisk), &directory, options)
            .map_err(|error| format!("storage at {}: {error}", directory.display()))?;
        let info = ServerInfo {
            version: kallisto_command::VAULT_API_VERSION.to_owned(),
            ..ServerInfo::default()
        };
        let core = Arc::new(Core::new(Arc::clone(&store) as Arc<dyn Store>, info));
        Ok(Self { core, store })
    }

    /// Ends what the core has under way, which holds the store, and frees it for the server that is next.
    async fn close(self) -> Result<(), String> {
        self.core.seal().await.map_err(|error| format!("sealing the core: {error}"))?;
        self.store.close().map_err(|error| format!("closing the store: {error}"))
    }
}

/// Makes a store in `directory`; the share that unseals it, as text.
pub(super) fn create(directory: &Path) -> Result<String, String> {
    let data = directory.join("data");
    std::fs::create_dir(&data)
        .map_err(|error| format!("cannot make {}: {error}", data.display()))?;
    let opened = OpenedCore::open(directory)?;
    let spec = InitSpec {
        shares: 1,
        threshold: 1,
        root_token: Some(ROOT.to_owned().into()),
        mount_kv: Some(KvVersion::V2),
    };
    let made = pollster::block_on(opened.core.initialize(&spec, SystemClock.now()))
        .map_err(|error| error.to_string())?;
    pollster::block_on(opened.close())?;
    Initialized::hex(&made.keys).pop().ok_or_else(|| "no share was made".into())
}

/// Puts a stage into the store in `directory`, and says what it took.
pub(super) fn fill(
    directory: &Path,
    share: &str,
    stage: FillStage,
    plan: ScalePlan,
    watched: bool,
) -> Result<Duration, String> {
    let opened = OpenedCore::open(directory)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    let took = LocalSet::new().block_on(&runtime, async {
        let key = format!("{{\"key\":\"{share}\"}}");
        send(&opened.core, FillJob { path: "sys/unseal".into(), token: "", body: key }).await?;
        if stage == FillStage::Tokens {
            make_parent(&opened.core).await?;
        }
        pump(&opened.core, stage, plan, watched).await
    })?;
    pollster::block_on(opened.close())?;
    Ok(took)
}

/// The token that the children hang on.
async fn make_parent(core: &Core) -> Result<(), String> {
    let body = format!("{{\"id\":\"{PARENT}\",\"policies\":[\"bench-scale\"],\"ttl\":\"768h\"}}");
    let policy = "sys/policies/acl/bench-scale".into();
    send(core, FillJob { path: policy, token: ROOT, body: POLICY.into() }).await?;
    send(core, FillJob { path: "auth/token/create".into(), token: ROOT, body }).await
}

/// Sends every request of a stage, [`IN_FLIGHT`] at a time.
async fn pump(
    core: &Arc<Core>,
    stage: FillStage,
    plan: ScalePlan,
    watched: bool,
) -> Result<Duration, String> {
    let count = stage.count(plan);
    let bar = progress(count, stage.name(), watched);
    let begin = clock();
    let next = Rc::new(Cell::new(0));
    let workers = (0..IN_FLIGHT.min(count)).map(|_| {
        let (core, next, bar) = (Arc::clone(core), Rc::clone(&next), bar.clone());
        tokio::task::spawn_local(async move {
            loop {
                let at = next.replace(next.get() + 1);
                if at >= count {
                    return Ok::<(), String>(());
                }
                if at.is_multiple_of(PROGRESS_STEP) {
                    bar.set_position(at);
                }
                send(&core, stage.job(at, plan)).await?;
            }
        })
    });
    // All are started before the first is waited for.
    for worker in workers.collect::<Vec<_>>() {
        worker.await.map_err(|error| error.to_string())??;
    }
    bar.finish_and_clear();
    Ok(clock() - begin)
}

async fn send(core: &Core, job: FillJob) -> Result<(), String> {
    let request = Request {
        token: (!job.token.is_empty()).then(|| TokenText::new(job.token)),
        body: job.body.as_bytes(),
        ..Request::new(
            Operation::Update,
            RequestPath::decode(&job.path).map_err(|error| error.to_string())?,
            SystemClock.now(),
        )
    };
    let sent = core.handle(&request).await;
    sent.map(|_| ()).map_err(|error| format!("{}: {error}", job.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_as_long_as_was_asked_for() {
        for bytes in [1, 128, super::super::VALUE_BYTES_MAX] {
            let plan =
                ScalePlan { secrets: 1, value_bytes: bytes, tokens: 1, children: 1, mounts: 1 };
            let body = FillStage::Secrets.job(7, plan).body;
            assert_eq!(body.len() as u64, bytes + r#"{"data":{"value":""}}"#.len() as u64);
        }
        assert_eq!((value(123, 1), value(7, 3)), ("123".to_owned(), "007".to_owned()));
    }
}
