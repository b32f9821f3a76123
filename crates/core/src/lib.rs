//! The core of the server: takes a [`Request`] and returns a [`Response`] or an [`Error`], through [`Core::handle`].
//!
//! Listeners turn bytes into requests and answers into bytes. In between, this crate authenticates the caller,
//! authorizes the request (`kallisto_auth` decides), runs the handler of its route, and commits what the handler
//! decided through the store. Reads are answered from memory: the [`View`] holds mounts, the path index, current
//! secrets and tokens. Only the fold writes it, by applying each committed batch, in order, on every server.
//!
//! Invariants:
//! - A handler takes an authorized request, except for the few routes that anyone may use.
//! - A handler decides in a pure function of record, settings, request and time, and acts by one batch with
//!   preconditions. If another writer was faster, it decides again.
//! - Time is an argument: nothing here reads a clock.
//! - Everything goes to the store through `storage::barrier_store`, which encrypts it. While the server is sealed,
//!   no handler runs except for a few open routes of `sys`.
//!
//! Each folder is a *room* with a place in the order of dependencies; ARCHITECTURE.md has the picture.
#![forbid(unsafe_code)]

pub mod admission;
mod audit;
mod authz;
mod backup;
mod caller;
mod cluster;
mod counts;
mod dispatch;
mod engines;
mod identity;
mod jobs;
mod leases;
pub mod limits;
mod logins;
pub mod metrics;
mod namespaces;
mod pipeline;
mod platform;
mod quotas;
mod random;
mod records;
mod registry;
mod routes;
mod seal;
mod state;
mod storage;
mod timers;
mod tokens;
mod view;
mod wrapping;

use kallisto_api as api;

pub use api::json;

pub use api::Span;
pub use api::error::{Denial, Error, OverQuota, Stale};
pub use api::etag::{ETAG_BYTES_MAX, Etag};
pub use api::expected::Expected;
pub use api::json::{Json, Map};
pub use api::request::{
    BodyKind, HeaderSource, Headers, QUERY_PAIRS_MAX, Request, TokenText, no_snapshot_named,
    parse_query, snapshot_to_recover,
};
pub use api::request_id::RequestId;
pub use api::response::{BatchAnswer, BatchPart, Logical, Response, TouchedPath, Upload};
pub use api::stream::{ChangeFuture, NextPiece, Source, Stream, Waiting};
pub use audit::{AuditSettings, DeclaredDevice};
pub use cluster::SeenIndex;
pub use engines::kv::fields::{ExpectedVersion, FieldsWrite, deletion_body, fields_body};
pub use jobs::{FailedJob, FailedJobs};
pub use kallisto_engine::destination::{is_loopback, special_range};
pub use kallisto_engine::{AddressRange, Class, Multiplicity};
pub use pipeline::audit::AuditBatch;
pub use pipeline::compute::Weight;
pub use pipeline::fast_path::{FastPathCaller, FastReads};
pub use pipeline::freshness::{CONSISTENCY_HEADER, STALE};
pub use pipeline::patience::Patience;
pub use pipeline::route_facts::RouteFacts;
pub use pipeline::stages::ServedRequest;
pub use pipeline::write_run::{
    BusyWrite, JoinOutcome, ReadyWrite, RunUnderWay, RunWriter, WriteRun,
};
pub use platform::auto_seal::AutoSeal;
pub use platform::cluster_port::{
    AuthorityKeys, ClusterPort, JoinTarget, MemberReport, Membership, Reports,
};
pub use platform::host::{
    Cpu, DiskSpace, Host, HostMachine, HostMemory, HostProcess, LogForm, LogLevel,
};
pub use platform::metrics_settings::MetricsSettings;
pub use platform::outbound::{
    ANSWER_BYTES_MAX, Authorization, OutboundAnswer, OutboundCall, OutboundCalls, Payload,
    form_component,
};
pub use platform::server_info::{RouteAccess, ServerInfo};
pub use platform::snapshot_storage::{
    S3Target, SnapshotPlace, SnapshotSink, SnapshotStorage, SnapshotTarget, StoredSnapshot,
};
pub use platform::threads::{BackgroundTask, OwnThreads, Threads};
pub use platform::web::{Origins, PageHeaders};
pub use quotas::Allowance;
pub use records::engine_kind::EngineKind;
pub use records::engine_set::{EngineSet, set_engines};
pub use records::mount::{LeaseTimes, MountConfig, MountEntry, MountMove};
pub use registry::{is_for_operators, takes_upload};
pub use seal::tickets::{TICKET_LIFETIME_SECS, Tickets};
pub use seal::{InitSpec, Initialized, KvVersion};
pub use state::Core;
pub use storage::cluster_identity::ClusterIdentity;
pub use storage::keys::MountId;
pub use view::{Mount, Mounts, View};

pub use api::fields::parse_bool;
pub use kallisto_auth::{Operation, PATH_BYTES_MAX, Path, PathError};
