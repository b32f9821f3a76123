//! The life of a request, behind one door: [`Core::handle`].
//!
//! Listeners parse bytes into a [`Request`] and give a [`Response`] or an [`Error`] its form on the
//! wire. In between, this crate authenticates, authorises (the decision is `auth`'s), runs the
//! handler of the route, and commits what it decides through the store. Reads are served from the
//! [`View`]: mounts, path index, hot table, tokens. The view is written by the fold alone.
//!
//! Invariants:
//! - Every handler but those on the short unauthenticated list takes an authorised request.
//! - Handlers decide in pure functions of (record, settings, request, now) and act by one batch
//!   with preconditions; a lost race decides again.
//! - Time is an argument: nothing here reads a clock.
//! - Nothing reaches the store but through the `clear` side of the barrier, and no handler runs
//!   while the server is sealed.
#![forbid(unsafe_code)]

mod address;
pub mod admission;
mod asked;
mod at_once;
mod audit;
mod backup;
mod beyond;
mod breathe;
mod clear;
mod cluster;
mod compute;
mod cubbyhole;
mod door;
mod duration;
mod engines;
mod error;
mod etag;
mod expected;
mod fields;
mod freshness;
mod host;
mod identity;
pub mod json;
mod keys;
mod kv;
mod latches;
pub mod limits;
mod login;
pub mod metrics;
mod mount;
mod namespace;
mod outbound;
mod page;
mod patience;
mod peers;
mod policies;
mod quotas;
mod random;
mod request;
mod response;
mod routes;
mod seal;
mod shelf;
mod spelling;
mod state;
mod stream;
mod sys;
mod threads;
mod tickets;
mod token;
mod transit;
mod unheard;
mod versions;
mod view;
mod web;
mod wrapping;

pub use address::AddressRange;
pub use at_once::{AtOnce, Bearer};
pub use audit::{AuditSettings, DeclaredDevice, Gathered};
pub use backup::Upload;
pub use cluster::Cluster;
pub use compute::Weight;
pub use door::Served;
pub use duration::Span;
pub use error::{Denial, Error, OverQuota, Stale};
pub use etag::{ETAG_BYTES_MAX, Etag};
pub use expected::Expected;
pub use freshness::{CONSISTENCY_HEADER, STALE};
pub use host::{Cpu, Host, LogForm, LogLevel, Machine, Memory, Process};
pub use json::{Json, Map};
pub use keys::MountId;
pub use mount::{Class, EngineKind, MountConfig, MountEntry, Moved, Multiplicity};
pub use outbound::{ANSWER_BYTES_MAX, CALL_SECS_MAX, Outbound, OutboundAnswer, OutboundCall};
pub use patience::Patience;
pub use peers::{AuthorityKeys, ClusterPort, JoinOrigin, JoinTarget, Membership, Seen};
pub use quotas::Allowance;
pub use random::RequestId;
pub use request::{
    BodyKind, HeaderSource, Headers, QUERY_PAIRS_MAX, Request, TokenText, parse_query,
};
pub use response::{Answered, Logical, Response, Touched};
pub use seal::{AutoSeal, InitSpec, Initialized, KvVersion};
pub use state::{Access, Core, Leases, Offer, ServerInfo};
pub use stream::{Bell, Next, Source, Stream, Waiting};
pub use threads::{Job, OwnThreads, Threads};
pub use tickets::{TICKET_LIFETIME_SECS, Tickets};
pub use token::TOKEN_BYTES_MAX;
pub use view::{Mount, Mounts, View};
pub use web::{Origins, PageHeaders};

pub use fields::parse_bool;
pub use kallisto_auth::{Operation, PATH_BYTES_MAX, Path, PathError};
