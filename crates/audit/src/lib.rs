//! Audit devices: who asked for what and what came of it, written down before anybody acts on it.
//!
//! The core describes a request ([`Subject`], [`Response`]) and gives its records to every device;
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
mod device;
mod devices;
pub mod limits;
mod mask;
mod options;
mod record;
mod sink;
mod text;
mod verify;

pub use anchor::{AnchorFiles, AnchorVerdict, Anchors, Sought};
pub use chain::Head;
pub use checkpoint::PublicKey;
pub use device::{Device, Health, Origin, Records, Surroundings, Ticket};
pub use devices::Devices;
pub use mask::{MASK_PREFIX, SALT_BYTES, Secrecy};
pub use options::{Destination, Options, RecordForm, Spec, Transport};
pub use record::{
    Auth, Common, Decision, Header, Issued, Mount, Request, Response, Subject, Touched, Wrapped,
};
pub use sink::{Destinations, Group, LineBack, LinesBack, Real, Sink, check_path, file_of};
pub use verify::{ChainFault, Verified, Verifier, VerifyFailure};
