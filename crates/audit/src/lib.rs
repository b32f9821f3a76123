//! Audit devices: who asked for what and what came of it, written down before anybody acts on it.
//!
//! The core describes a request ([`AuditSubject`], [`AuditResponse`]) and gives its records to every device;
//! a device masks values under its own salt, links its records into a chain, and writes them in
//! groups on a thread of its own. `docs/format.md` says what is in a record.
//!
//! ```text
//! core --Subject--> Device::common --bodies--> Device::submit --group--> Sink: file, socket, syslog
//! ```
//! Invariants:
//! - A record holds no value in the clear but those of the allow-list in `record`, unless the device
//!   was made to (`log_raw`).
//! - A chain is signed every so many records and seconds, and where it stands is kept elsewhere.
//! - A ticket resolves within the device's deadline, whatever the destination does.
//! - Nothing here decides whether a request may go on: that is the core's, by what tickets say.
//! - This room knows nothing of HTTP, storage or policies.
#![forbid(unsafe_code)]

mod anchor;
mod chain;
mod checkpoint;
mod clock;
mod compact;
mod device;
mod devices;
pub mod limits;
mod mask;
mod mask_cache;
mod options;
mod record;
#[cfg(test)]
mod reference;
mod sink;
mod subject;
mod text;
mod verify;

pub use anchor::{AnchorFiles, AnchorVerdict, Anchors, Sought};
pub use chain::ChainHead;
pub use checkpoint::DevicePublicKey;
pub use device::{Device, FinishedRecords, Health, Origin, Surroundings, Ticket};
pub use devices::Devices;
pub use mask::{MASK_PREFIX, SALT_BYTES, Secrecy};
pub use options::{
    AuditDestination, DeviceOptions, DeviceSpec, RecordForm, RecordLayout, SocketTransport,
};
pub use record::{CommonFields, WholeFields};
pub use sink::{
    Destinations, FOLLOWED_BLOCK_BYTES, LineBack, LineGroup, LinesAhead, LinesBack, Real, Sink,
    check_file, check_path, file_of,
};
pub use subject::{
    AuditDecision, AuditMount, AuditRequest, AuditResponse, AuditSubject, AuditTouched, Auth,
    INTENT_HEADER, IssuedToken, RequestHeader, Wrapped,
};
pub use verify::{ChainFault, VerifiedChain, Verifier, VerifyFailure};
