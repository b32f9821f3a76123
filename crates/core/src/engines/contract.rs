//! Engines that are crates of their own, driven with what the contract gives them.

use std::future::ready;

use jiff::Timestamp;
use kallisto_auth::{Capability, Identity as _, Subject as _, TokenKind, Variable};
use kallisto_engine::call::{Made, Work};
use kallisto_engine::lease::Make;
use kallisto_engine::{
    Admits, Call as EngineCall, Caller as EngineCaller, Dispatch, EngineSpec, Handler, Heavy,
    JobCall, LeaseCall, Leases, MountInfo, NewLease, NoTemplateValues, Random, Routes, Storage,
    TemplateValues,
};
use kallisto_leases::{Owner, TtlLimits, TtlRequest};

use super::jobs::{MountJob, MountJobCall};
use super::server_engine::{Answer, EngineFacts, OpenRun, Run, ServerEngine, Weighed, no_leases};
use crate::admission::Flow;
use crate::api::BoxFuture;
use crate::api::error::Error;
use crate::api::response::{LeaseHandle, Logical, Response};
use crate::leases::create::{LeaseRequest, create, nanos};
use crate::leases::far_end::LeaseRun;
use crate::leases::wire;
use crate::pipeline::compute::Pool;
use crate::pipeline::policies::Caller;
use crate::pipeline::state::{Call, NamespaceContext};
use crate::pipeline::unheard::Unheard;
use crate::platform::random;
use crate::storage::engine_storage::EngineStorage;
use crate::view::{Memory, Mount};

/// The randomness of the operating system.
struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Error> {
        random::fill(bytes)
    }
}

/// Who bears a token, as templates name them; looked up when a template asks.
struct Bearer<'a> {
    unsealed: &'a NamespaceContext,
    caller: &'a Caller,
}

impl TemplateValues for Bearer<'_> {
    fn value(&self, name: &str) -> Option<String> {
        let home = self.caller.home(self.unsealed);
        let person = home.view.person(self.caller.entry())?;
        person.value(&Variable::parse(name)).map(std::borrow::Cow::into_owned)
    }
}

/// The threads that make keys, in the turns of whoever asks.
struct Makers<'a> {
    pool: &'a Pool,
    flow: Flow,
}

impl Heavy for Makers<'_> {
    fn run(&self, work: Work) -> BoxFuture<'_, Result<Made, Error>> {
        Box::pin(self.pool.run(self.flow, work))
    }
}

/// What the contract says of a mount.
fn mount_info<'a>(unsealed: &NamespaceContext, mount: &'a Mount) -> MountInfo<'a> {
    let lives = mount.entry.config.leases(unsealed.leases);
    MountInfo {
        path: &mount.entry.path,
        accessor: &mount.entry.accessor,
        default_lease_secs: lives.default_secs,
        max_lease_secs: lives.max_secs,
        options: mount.entry.options.as_ref(),
    }
}

/// The leases that a request may ask for.
struct Issuer<'a> {
    unsealed: &'a NamespaceContext,
    mount: &'a Mount,
    caller: &'a Caller,
    call: &'a Call<'a, 'a>,
}

impl Issuer<'_> {
    /// The token that the lease ends with, and when one that is not stored ends.
    fn owner(&self) -> (Option<Owner>, Option<Timestamp>) {
        let entry = self.caller.entry();
        let home = self.caller.home(self.unsealed);
        let owner = |hash| Owner { namespace: home.view.namespace_number().0, hash };
        match entry.auth.kind {
            // Nothing that is stored can hang on it: its parent ends the lease, or its own time.
            TokenKind::Batch => (entry.parent.map(owner), entry.auth.expires_at),
            TokenKind::Root | TokenKind::Service => (Some(owner(self.caller.hash)), None),
        }
    }

    async fn create(&self, lease: NewLease, make: Make<'_>) -> Result<Response, Error> {
        if self.caller.entry().uses_left < 0 {
            // It ends with this request, and its leases with it.
            return Err(Error::invalid(
                "Secret cannot be returned; token had one use left, so leased credentials were \
                 immediately revoked.",
            ));
        }
        let (owner, owner_ends) = self.owner();
        let lives = self.mount.entry.config.leases(self.unsealed.leases);
        let request = LeaseRequest {
            mount: self.mount.entry.id,
            path: self.call.path.as_str(),
            owner,
            ttl: TtlRequest {
                ttl_secs: lease.ttl_secs,
                limits: TtlLimits {
                    role_default_secs: lease.role_default_secs,
                    role_max_secs: lease.role_max_secs,
                    mount_default_secs: lives.default_secs,
                    mount_max_secs: lives.max_secs,
                    // What the mount is not tuned to is the server's.
                    system_default_secs: lives.default_secs,
                    system_max_secs: lives.max_secs,
                },
                owner_ends_ns: owner_ends.map(nanos),
            },
            renewable: lease.renewable,
            revocation: lease.revocation,
        };
        let granted = create(self.unsealed, request, self.call.now, make);
        let (granted, data) = granted.await?;
        Ok(Response::Logical(Logical {
            data: data.to_text(),
            lease: Some(LeaseHandle { id: granted.lease_id, renewable: granted.renewable }),
            lease_secs: granted.lease_secs,
            warnings: granted.warning.into_iter().collect(),
            ..Logical::default()
        }))
    }
}

impl Leases for Issuer<'_> {
    fn issue<'a>(
        &'a self,
        lease: NewLease,
        make: Make<'a>,
    ) -> BoxFuture<'a, Result<Response, Error>> {
        Box::pin(self.create(lease, make))
    }
}

/// What an engine is told of a lease.
fn lease_call<'a>(run: LeaseRun<'a>, storage: Storage<'a>) -> LeaseCall<'a> {
    LeaseCall {
        now: run.now,
        path: run.record.id.path(),
        revocation: &run.record.revocation,
        mount: mount_info(run.unsealed, run.mount),
        storage,
        memory: run.mount.memory.of_engine(),
        random: &SystemRandom,
    }
}

/// What answers an open path, if it is one.
fn open<'p>(spec: &EngineSpec, run: &OpenRun<'p>) -> Result<Dispatch<'p, Handler>, Error> {
    let found = spec.routes.dispatch(run.request.operation, run.path)?;
    if found.route.admits == Admits::Anyone { Ok(found) } else { Err(Error::UnsupportedPath) }
}

/// Runs a job of an engine at a mount.
///
/// # Errors
/// Those of the job.
pub(super) async fn run_job(
    run: for<'a> fn(JobCall<'a>) -> BoxFuture<'a, Result<(), Error>>,
    call: MountJobCall<'_>,
) -> Result<(), Error> {
    let MountJobCall { core, unsealed, mount, now } = call;
    let storage = EngineStorage::of(unsealed, mount);
    let makers = Makers { pool: &core.compute.makers, flow: Flow::OWN };
    let running = run(JobCall {
        now,
        mount: mount_info(unsealed, mount),
        storage: Storage::new(&storage),
        memory: mount.memory.of_engine(),
        random: &SystemRandom,
        heavy: &makers,
    });
    running.await
}

impl ServerEngine for EngineSpec {
    fn facts(&self) -> EngineFacts {
        EngineFacts {
            stored: self.name,
            name: self.name,
            class: self.class,
            multiplicity: self.multiplicity,
            caseless_folders: self.caseless_folders,
            trims_names: false,
            builtin: None,
            has_folders: false,
        }
    }

    fn routes(&self) -> &'static dyn Routes {
        self.routes
    }

    fn handle<'a>(&self, run: Run<'a>) -> Answer<'a> {
        let found = match self.routes.dispatch(run.call.operation, run.path) {
            Ok(found) => found,
            Err(refusal) => return Box::pin(ready(Err(refusal))),
        };
        Box::pin(async move {
            let Run { core, unsealed, call, mount, .. } = run;
            let caller = Caller::of(&unsealed, call)?;
            let issuer = Issuer { unsealed: &unsealed, mount, caller: &caller, call };
            let identity = Bearer { unsealed: &unsealed, caller: &caller };
            let told = EngineCaller {
                display_name: caller.entry().auth.display_name.clone(),
                entity_id: caller.entry().entity_id.map(|id| id.to_string()).unwrap_or_default(),
            };
            let storage = EngineStorage::of(&unsealed, mount);
            let makers = Makers { pool: &core.compute.makers, flow: call.client() };
            let answering = (found.handler)(EngineCall {
                request: call,
                params: found.params,
                creates: call.capability() == Capability::Create,
                page_entries_max: call.page_entries_max(),
                caller: Some(&told),
                identity: &identity,
                mount: mount_info(&unsealed, mount),
                storage: Storage::new(&storage),
                memory: mount.memory.of_engine(),
                random: &SystemRandom,
                heavy: &makers,
                leases: Some(&issuer),
            });
            answering.await
        })
    }

    fn handle_open<'a>(&self, run: OpenRun<'a>) -> Answer<'a> {
        let found = match open(self, &run) {
            Ok(found) => found,
            Err(refusal) => return Box::pin(ready(Err(refusal))),
        };
        Box::pin(async move {
            let OpenRun { core, unsealed, request, mount, .. } = run;
            let storage = EngineStorage::of(unsealed, mount);
            let makers = Makers { pool: &core.compute.makers, flow: request.flow() };
            let answering = (found.handler)(EngineCall {
                request,
                params: found.params,
                creates: false,
                page_entries_max: None,
                caller: None,
                identity: &NoTemplateValues,
                mount: mount_info(unsealed, mount),
                storage: Storage::new(&storage),
                memory: mount.memory.of_engine(),
                random: &SystemRandom,
                heavy: &makers,
                leases: None,
            });
            answering.await
        })
    }

    fn creates(&self, mount: &Mount, path: &str) -> bool {
        let creates = self.creates.filter(|_| {
            let route = self.routes.find(path);
            route.is_some_and(|route| route.creates)
        });
        creates.is_some_and(|creates| creates(&|name| mount.index.contains(name), path))
    }

    fn jobs(&self) -> Vec<MountJob> {
        self.jobs.iter().map(MountJob::of_contract).collect()
    }

    fn memory(&self) -> Memory {
        self.memory.map_or(Memory::None, |make| Memory::Engine(make()))
    }

    fn end_unheard<'a>(
        &self,
        unsealed: &'a NamespaceContext,
        _mount: &'a Mount,
        _path: &'a str,
        told: Unheard<'a>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let lease = told.lease.and_then(|lease| wire::find(unsealed, &lease.id));
            let Some(id) = lease else { return Ok(()) };
            wire::revoke(unsealed, &id, false, told.since).await
        })
    }

    fn revoke_lease<'a>(&self, run: LeaseRun<'a>) -> BoxFuture<'a, Result<(), Error>> {
        let Some(leases) = self.leases else { return Box::pin(ready(Err(no_leases()))) };
        Box::pin(async move {
            let storage = EngineStorage::of(run.unsealed, run.mount);
            (leases.revoke)(lease_call(run, Storage::new(&storage))).await
        })
    }

    fn renew_lease<'a>(
        &self,
        run: LeaseRun<'a>,
        end: Timestamp,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let Some(leases) = self.leases else { return Box::pin(ready(Err(no_leases()))) };
        Box::pin(async move {
            let storage = EngineStorage::of(run.unsealed, run.mount);
            (leases.renew)(lease_call(run, Storage::new(&storage)), end).await
        })
    }

    fn is_light(&self, weighed: &Weighed<'_>) -> bool {
        !weighed.lists && self.routes.find(weighed.path).is_some_and(|route| route.is_light)
    }
}
