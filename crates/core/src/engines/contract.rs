//! Engines that are crates of their own, driven with what the contract gives them.

use std::borrow::Cow;
use std::future::ready;
use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use kallisto_auth::{Capability, Subject as _, TemplateSubject as _, TokenKind, Variable};
use kallisto_engine::context::{LongWork, WorkResult};
use kallisto_engine::lease::{IsRevocation, Make};
use kallisto_engine::{
    Admits, Call as EngineCall, Caller as EngineCaller, CallerToken, Class, ConditionalReads,
    Dispatch, EngineContext, EngineJob, EngineSpec, Handler, Heavy, KeyedHash, LeaseCall, Leases,
    LightCheck, MountInfo, NewLease, NoTemplateValues, Outbound, OutboundAnswer, OutboundCall,
    Passwords, People, Place, Profile, ProfileAlias, ProfileGroup, Random, Renewal, RenewalCall,
    RoleTtl, Routes, Storage, TemplateValues, UnheardCall,
};
use kallisto_leases::{Owner, TtlLimits, TtlRequest};

use crate::admission::Flow;
use crate::api::BoxFuture;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Json;
use crate::api::response::{LeaseHandle, Logical, Response};
use crate::caller::call::AuthorizedCall;
use crate::caller::policies::CallerPolicies;
use crate::dispatch::server_engine::UnheardAnswer;
use crate::dispatch::server_engine::{
    EngineAnswer, OpenRun, RenewalRequest, RunningRequest, ServerEngine, Weighed, no_leases,
};
use crate::engines::sys::passwords;
use crate::identity::record::IdentityId;
use crate::leases::create::{LeaseRequest, create, nanos};
use crate::leases::lease_run::LeaseRun;
use crate::leases::wire;
use crate::logins::MountLogins;
use crate::platform::engine_services::EngineServices;
use crate::platform::pool::ThreadPool;
use crate::random;
use crate::storage::engine_storage::EngineStorage;
use crate::view::Mount;
use crate::view::NamespaceContext;
use crate::wrapping;

/// The randomness of the operating system.
struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Error> {
        random::fill(bytes)
    }
}

/// Who bears a token, as templates name them; looked up when a template asks.
struct TemplateIdentity<'a> {
    context: &'a NamespaceContext,
    caller: &'a CallerPolicies,
}

impl TemplateValues for TemplateIdentity<'_> {
    fn value(&self, name: &str) -> Option<String> {
        let home = self.caller.home(self.context);
        let person = home.view.person(self.caller.entry())?;
        person.value(&Variable::parse(name)).map(Cow::into_owned)
    }
}

/// The threads that make keys, in the turns of whoever asks.
struct Makers<'a> {
    pool: &'a ThreadPool,
    flow: Flow,
}

impl Heavy for Makers<'_> {
    fn run(&self, work: LongWork) -> BoxFuture<'_, Result<WorkResult, Error>> {
        Box::pin(self.pool.run(self.flow, work))
    }
}

/// Other servers, asked in the turns of whoever asks.
struct OtherServers<'a> {
    services: &'a EngineServices,
    flow: Flow,
    /// How long the calls of this request have taken.
    spent: Mutex<Duration>,
}

impl Outbound for OtherServers<'_> {
    fn call(&self, call: OutboundCall) -> BoxFuture<'_, Result<OutboundAnswer, Error>> {
        Box::pin(self.services.call(self.flow, call, &self.spent))
    }
}

/// Hashes under the key of the cluster's tokens, apart for each mount.
struct MountHash<'a> {
    context: &'a NamespaceContext,
    mount: &'a Mount,
}

impl KeyedHash for MountHash<'_> {
    fn hash(&self, text: &str) -> Result<[u8; 32], Error> {
        let cluster = self.context.view.cluster().ok_or(Error::Sealed)?;
        let entry = &self.mount.entry;
        let text = zeroize::Zeroizing::new(format!("{}/{}/{text}", entry.kind.name(), entry.uuid));
        let tag = cluster.token_key.hash(&text);
        tag.as_ref().try_into().map_err(|_| Error::internal(&"a hash is not of its length"))
    }
}

/// The password policies of a namespace.
struct PolicyPasswords<'a> {
    context: &'a NamespaceContext,
}

impl Passwords for PolicyPasswords<'_> {
    fn make(&self, policy: &str) -> Result<String, Error> {
        match passwords::make(self.context, policy) {
            Err(Error::NotFound) => Err(Error::invalid(format!("no password policy {policy:?}"))),
            other => other,
        }
    }
}

/// The entities of a namespace, and of those above it.
struct Residents<'a> {
    context: &'a NamespaceContext,
}

impl People for Residents<'_> {
    fn person(&self, entity_id: &str) -> Option<Profile> {
        let id = IdentityId::parse(entity_id)?;
        let here = self.context.view.person_with(id);
        let found = here.or_else(|| {
            let above = self.context.contexts_above();
            above.iter().find_map(|context| context.view.person_with(id))
        })?;
        let entity = &*found.entity;
        let groups = found.groups.iter().map(|group| ProfileGroup {
            id: group.id.to_string(),
            name: group.name.clone(),
            metadata: group.metadata.clone(),
        });
        let aliases = entity.aliases.iter().map(|alias| ProfileAlias {
            accessor: alias.accessor.clone(),
            id: alias.id.to_string(),
            name: alias.name.clone(),
            metadata: alias.metadata.clone(),
            custom_metadata: alias.custom_metadata.clone(),
        });
        Some(Profile {
            id: entity.id.to_string(),
            name: entity.name.clone(),
            metadata: entity.metadata.clone(),
            is_disabled: entity.disabled,
            groups: groups.collect(),
            aliases: aliases.collect(),
        })
    }
}

/// What an [`EngineContext`] refers to.
struct Grounds<'a> {
    context: &'a NamespaceContext,
    mount: &'a Mount,
    /// What errors call the mount: its path from the root namespace.
    mount_name: Cow<'a, str>,
    now: Timestamp,
    storage: EngineStorage<'a>,
    makers: Makers<'a>,
    others: OtherServers<'a>,
    hash: MountHash<'a>,
    residents: Residents<'a>,
    passwords: PolicyPasswords<'a>,
}

impl<'a> Grounds<'a> {
    /// Those of an engine at a mount, in the turns of `flow`.
    fn new(context: &'a NamespaceContext, mount: &'a Mount, now: Timestamp, flow: Flow) -> Self {
        let services = &*context.services;
        let pool = match mount.entry.kind.class() {
            Class::Secret => &services.makers,
            Class::Auth => &services.hashers,
        };
        let path = mount.entry.path.as_str();
        let mount_name = match context.view.namespace_path() {
            "" => Cow::Borrowed(path),
            namespace => Cow::Owned([namespace, path].concat()),
        };
        Self {
            context,
            mount,
            mount_name,
            now,
            storage: EngineStorage::of(context, mount),
            makers: Makers { pool, flow },
            others: OtherServers { services, flow, spent: Mutex::default() },
            hash: MountHash { context, mount },
            residents: Residents { context },
            passwords: PolicyPasswords { context },
        }
    }

    fn context(&self) -> EngineContext<'_> {
        EngineContext {
            now: self.now,
            mount: mount_info(self.context, self.mount),
            storage: Storage::new(&self.storage, &self.mount_name),
            memory: self.mount.memory.of_engine(),
            random: &SystemRandom,
            heavy: &self.makers,
            outbound: &self.others,
            probes: self.others.services.probes(),
            far_ends: self.others.services.far_ends(),
            pod: self.others.services.pod(),
            passwords: &self.passwords,
            keyed_hash: &self.hash,
            people: &self.residents,
            place: Place {
                api_addr: self.context.info.api_addr.as_deref().unwrap_or_default(),
                namespace_id: self.context.view.namespace_id(),
                namespace_path: self.context.view.namespace_path(),
            },
            conditional_reads: conditional_reads(self.context, self.mount),
        }
    }
}

/// Whether a mount is tuned to be asked for what changed.
fn conditional_reads(context: &NamespaceContext, mount: &Mount) -> Option<ConditionalReads> {
    let names = |list: &str, name: &str| match mount.entry.config.lists.get(list) {
        Some(Json::Array(names)) => {
            names.iter().filter_map(Json::as_str).any(|one| one.eq_ignore_ascii_case(name))
        }
        _ => false,
    };
    names("passthrough_request_headers", "If-Modified-Since").then(|| ConditionalReads {
        tells_date: names("allowed_response_headers", "Last-Modified"),
        staleness_max: context.info.max_staleness,
    })
}

/// What the contract says of a mount.
fn mount_info<'a>(context: &NamespaceContext, mount: &'a Mount) -> MountInfo<'a> {
    let lives = mount.entry.config.leases(context.leases);
    MountInfo {
        path: &mount.entry.path,
        accessor: &mount.entry.accessor,
        default_lease_secs: lives.default_secs,
        max_lease_secs: lives.max_secs,
        options: mount.entry.options.as_ref(),
    }
}

/// The leases that a request may ask for.
struct LeaseIssuer<'a> {
    context: &'a NamespaceContext,
    mount: &'a Mount,
    caller: &'a CallerPolicies,
    call: &'a AuthorizedCall<'a, 'a>,
}

impl LeaseIssuer<'_> {
    /// The token that the lease ends with, and when one that is not stored ends.
    fn owner(&self) -> (Option<Owner>, Option<Timestamp>) {
        let entry = self.caller.entry();
        let home = self.caller.home(self.context);
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
        let lives = self.mount.entry.config.leases(self.context.leases);
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
        let granted = create(self.context, request, self.call.now, make).await?;
        Ok(Response::Logical(Logical {
            data: granted.data.to_text(),
            lease: Some(LeaseHandle { id: granted.lease_id, renewable: granted.renewable }),
            lease_secs: granted.lease_secs,
            warnings: granted.warnings,
            ..Logical::default()
        }))
    }
}

impl Leases for LeaseIssuer<'_> {
    fn issue<'a>(
        &'a self,
        lease: NewLease,
        make: Make<'a>,
    ) -> BoxFuture<'a, Result<Response, Error>> {
        Box::pin(self.create(lease, make))
    }

    fn any<'a>(&'a self, is_it: IsRevocation<'a>) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(wire::any_of_mount(self.context, self.mount.entry.id, is_it))
    }
}

/// Those of a lease. What is revoked is nobody's turn.
fn grounds_of<'a>(run: &LeaseRun<'a>) -> Grounds<'a> {
    Grounds::new(run.context, run.mount, run.now, Flow::OWN)
}

/// What an engine is told of a lease.
fn lease_call<'a>(run: &LeaseRun<'a>, grounds: &'a Grounds<'_>) -> LeaseCall<'a> {
    LeaseCall {
        context: grounds.context(),
        path: run.record.id.path(),
        revocation: &run.record.revocation,
    }
}

/// Runs a job at a mount. It is nobody's turn.
pub(crate) async fn run_job(
    job: &EngineJob,
    context: &NamespaceContext,
    mount: &Mount,
    now: Timestamp,
) -> Result<(), Error> {
    let grounds = Grounds::new(context, mount, now, Flow::OWN);
    (job.run)(grounds.context()).await
}

/// What answers an open path, if it is one.
fn open<'p>(spec: &EngineSpec, run: &OpenRun<'p>) -> Result<Dispatch<'p, Handler>, Error> {
    let found = spec.routes.dispatch(run.request.operation, run.path)?;
    if found.route.admits == Admits::Anyone { Ok(found) } else { Err(Error::UnsupportedPath) }
}

impl ServerEngine for EngineSpec {
    fn routes(&self) -> &'static dyn Routes {
        self.routes
    }

    fn handle<'a>(&self, run: RunningRequest<'a>) -> EngineAnswer<'a> {
        let found = match self.routes.dispatch(run.call.operation, run.path) {
            Ok(found) => found,
            Err(refusal) => return Box::pin(ready(Err(refusal))),
        };
        Box::pin(async move {
            let RunningRequest { context, call, mount, .. } = run;
            let caller = CallerPolicies::of(&context, call)?;
            let issuer = LeaseIssuer { context: &context, mount, caller: &caller, call };
            let identity = TemplateIdentity { context: &context, caller: &caller };
            let told = EngineCaller {
                display_name: caller.entry().auth.display_name.clone(),
                entity_id: caller.entry().entity_id.map(|id| id.to_string()).unwrap_or_default(),
                token: CallerToken {
                    id: caller.hash,
                    is_stored: caller.token().kind != TokenKind::Batch,
                    is_from_above: caller.above().is_some(),
                    is_wrapping: wrapping::is_wrapping(caller.entry()),
                },
                proven_at: Some(caller.entry().auth.created_at),
            };
            let grounds = Grounds::new(&context, mount, call.now, call.client());
            let grounds = Grounds { storage: grounds.storage.asked_by(caller.hash), ..grounds };
            let answering = (found.handler)(EngineCall {
                context: grounds.context(),
                request: call,
                params: found.params,
                creates: call.capability() == Capability::Create,
                page_entries_max: call.page_entries_max(),
                caller: Some(&told),
                identity: &identity,
                leases: Some(&issuer),
                logins: None,
            });
            answering.await
        })
    }

    fn handle_open<'a>(&self, run: OpenRun<'a>) -> EngineAnswer<'a> {
        let found = match open(self, &run) {
            Ok(found) => found,
            Err(refusal) => return Box::pin(ready(Err(refusal))),
        };
        Box::pin(async move {
            let OpenRun { context, request, mount, .. } = run;
            let grounds = Grounds::new(context, mount, request.now, request.flow());
            let logins = MountLogins { context, request, mount };
            let answering = (found.handler)(EngineCall {
                context: grounds.context(),
                request,
                params: found.params,
                creates: false,
                page_entries_max: None,
                caller: None,
                identity: &NoTemplateValues,
                leases: None,
                logins: Some(&logins),
            });
            answering.await
        })
    }

    fn check_renewal<'a>(
        &self,
        renewal: RenewalRequest<'a, 'a>,
    ) -> BoxFuture<'a, Result<Option<Renewal>, Error>> {
        let Some(login) = self.login else { return Box::pin(ready(Ok(None))) };
        Box::pin(async move {
            let RenewalRequest { context, request, mount, path, entry } = renewal;
            let grounds = Grounds::new(context, mount, request.now, request.flow());
            let judging = (login.check_renewal)(RenewalCall {
                context: grounds.context(),
                request,
                path,
                policies: &entry.auth.policies,
                kept: &entry.kept,
            });
            judging.await.map(Some)
        })
    }

    fn has_roles(&self) -> bool {
        self.login.is_some_and(|login| login.role_of.is_some())
    }

    fn role_of(&self, login: &OpenRun<'_>, fields: Fields<'_>) -> Option<String> {
        let OpenRun { context, request, mount, .. } = *login;
        let role_of = self.login?.role_of?;
        let grounds = Grounds::new(context, mount, request.now, request.flow());
        role_of(&grounds.context(), request, fields)
    }

    fn end_unheard<'a>(
        &self,
        context: &'a NamespaceContext,
        mount: &'a Mount,
        path: &'a str,
        told: UnheardAnswer<'a>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let unheard = self.unheard;
        Box::pin(async move {
            if let Some(id) = told.lease.and_then(|lease| wire::find(context, &lease.id)) {
                wire::revoke(context, &id, false, told.since).await?;
            }
            let Some(unheard) = unheard else { return Ok(()) };
            let grounds = Grounds::new(context, mount, told.since, Flow::OWN);
            unheard(UnheardCall { context: grounds.context(), path, data: told.data }).await
        })
    }

    fn revoke_lease<'a>(&self, run: LeaseRun<'a>) -> BoxFuture<'a, Result<(), Error>> {
        let Some(leases) = self.leases else { return Box::pin(ready(Err(no_leases()))) };
        Box::pin(async move {
            let grounds = grounds_of(&run);
            (leases.revoke)(lease_call(&run, &grounds)).await
        })
    }

    fn renew_lease<'a>(
        &self,
        run: LeaseRun<'a>,
        end: Timestamp,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let Some(leases) = self.leases else { return Box::pin(ready(Err(no_leases()))) };
        Box::pin(async move {
            let grounds = grounds_of(&run);
            (leases.renew)(lease_call(&run, &grounds), end).await
        })
    }

    fn role_ttl(&self, run: &LeaseRun<'_>) -> Result<RoleTtl, Error> {
        let leases = self.leases.ok_or_else(no_leases)?;
        (leases.role_ttl)(lease_call(run, &grounds_of(run)))
    }

    fn is_light(&self, weighed: &Weighed<'_>) -> bool {
        if weighed.lists {
            return false;
        }
        let memory = || weighed.mount.memory.of_engine();
        let by_memory =
            |light: LightCheck| memory().is_some_and(|memory| light(memory, weighed.path));
        let route = self.routes.find(weighed.path);
        route.is_some_and(|route| route.is_light) || self.light.is_some_and(by_memory)
    }
}
