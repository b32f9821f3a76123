//! The contract of engines: what an engine is, and what it may ask of the server.
//!
//! An engine is one constant, an [`EngineSpec`]: its name, its routes with a handler each, how its names are spelled, what it keeps
//! decoded, what it does by the clock. The server has a list of them and knows nothing else of any.
//!
//! A handler takes a [`Call`], which has what an engine may use and nothing else: the request, the [`Storage`] of its mount, who asks, the
//! time, randomness, and threads for work that takes long. An engine cannot name the rest of the server: this crate stands below it.
//!
//! Invariants:
//! - A handler of a route that policies admit to runs only after they did.
//! - What an engine keeps is in its mount's storage, and nowhere else: a [`Memory`] is made of it again at any time.
//! - Time and randomness are arguments.
#![forbid(unsafe_code)]

pub mod address;
pub mod call;
pub mod class;
pub mod context;
pub mod destination;
pub mod far_end;
pub mod glob;
pub mod lease;
pub mod limits;
pub mod login;
pub mod memory;
pub mod names;
pub mod open_read;
pub mod outbound;
pub mod pace;
pub mod pattern;
pub mod people;
pub mod pod;
pub mod probe;
pub mod route;
pub mod shared_fetch;
pub mod spec;
pub mod storage;
pub mod table;
pub mod time;
pub mod token_params;
pub mod token_type;
pub mod tools;
pub mod wrapped;
pub mod yaml;

pub use address::AddressRange;
pub use call::{Call, Caller, CallerToken, Handler, NoTemplateValues, TemplateValues};
pub use class::{BuiltinMount, Class, Multiplicity};
pub use context::{
    ConditionalReads, EngineContext, Heavy, KeyedHash, MountInfo, Passwords, Place, Random,
};
pub use destination::AllowedAddresses;
pub use far_end::{
    FarEnd, FarEndAnswer, FarEndCall, FarEndFailure, FarEndOutcome, FarEndWork, FarEnds, NoFarEnds,
};
pub use kallisto_api::BoxFuture;
pub use lease::{
    EngineLeases, LeaseCall, Leases, Leftover, MadeCredential, MakeFailure, NewLease, RoleTtl,
};
pub use login::{Attempts, Login, LoginMethod, Logins, Renewal, RenewalCall};
pub use memory::Memory;
pub use open_read::{OpenRead, OpenReadCall};
pub use outbound::{Authorization, Outbound, OutboundAnswer, OutboundCall, Payload};
pub use pattern::Params;
pub use people::{Nobody, People, Profile, ProfileAlias, ProfileGroup};
pub use pod::{NoPod, Pod, PodAccount};
pub use probe::{
    NoProbes, Probe, ProbeAnswer, ProbeFailure, ProbeHost, ProbeKind, ProbeRunner, ProbeState,
};
pub use route::{Admits, Body, Field, FieldKind, FieldPlace, Rights, Route, Scope, ServedBy};
pub use shared_fetch::SharedFetch;
pub use spec::{EngineJob, EngineSpec, LightCheck, Unheard, UnheardCall};
pub use storage::{Backend, Storage, Stored, Transaction, Version, WriteOutcome, Writes};
pub use table::{Dispatch, RouteRows, Routes, Row, RowGroup, RowIndex};
pub use token_params::TokenParams;
pub use token_type::TokenType;
