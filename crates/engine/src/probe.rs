//! Probes: a look at what stands at a name or an address, to see whether whoever asks for a certificate holds it (RFC 8555, section 8;
//! RFC 8737).
//!
//! An engine does no I/O. It says what to look at, as a [`Probe`], under an id of its own, and asks later what came of it: the server looks,
//! on a thread that keeps neither requests nor jobs waiting. Nothing of a probe is stored: whoever leads next begins it again.
//!
//! Invariants, which hold for whatever implements [`ProbeRunner`]:
//! - A name is resolved once for each connection, as it stands: no search domains, no files of hosts.
//! - Every address that it resolved to is within [`Probe::destinations`], or there is no connection; the connection goes to one of those
//!   addresses. The same holds at each redirect.
//! - All of a probe ends within one deadline, and what it reads is bounded.
//! - A failure is one of [`ProbeFailure`]: it has no byte of what was read.

use std::net::{IpAddr, SocketAddr};

use crate::destination::AllowedAddresses;

/// Longest body of an answer that is read, in bytes.
pub const PROBE_BODY_BYTES_MAX: usize = 512;
/// Most redirects that are followed.
pub const PROBE_REDIRECTS_MAX: usize = 10;
/// Longest that a probe takes, in seconds.
pub const PROBE_SECS_MAX: u64 = 10;
/// Most texts of a name that are read.
pub const PROBE_TEXTS_MAX: usize = 64;

/// What to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Where.
    pub host: ProbeHost,
    /// What.
    pub what: ProbeKind,
    /// The server that resolves names; `None` for those of the machine.
    pub resolver: Option<SocketAddr>,
    /// Where connections may go.
    pub destinations: AllowedAddresses,
}

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeHost {
    /// A name, in A-labels.
    Name(String),
    /// An address.
    Address(IpAddr),
}

/// What to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// What is served by HTTP at port 80, at this path and query. Redirects are followed, to ports 80 and 443 alone, and certificates on the
    /// way are not checked.
    Http {
        /// The path, with a leading slash.
        path: String,
    },
    /// The texts of the name itself.
    Texts,
    /// The certificate that is shown at port 443 to who speaks `acme-tls/1`.
    TlsAlpn {
        /// The name that is asked for (RFC 6066, 3): of an address the one of RFC 8738, section 6.
        server_name: String,
    },
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeAnswer {
    /// The body of an answer with status 200.
    Body(Vec<u8>),
    /// The texts.
    Texts(Vec<Vec<u8>>),
    /// The certificate, in DER. Whoever showed it has its key.
    Certificate(Vec<u8>),
}

/// Why nothing was found. It says nothing of what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeFailure {
    /// The name does not resolve.
    NoName,
    /// The name has an address that is not among the destinations, or the address itself is not.
    Refused,
    /// Nobody took the connection, or it broke.
    NoConnection,
    /// The deadline passed.
    TooLate,
    /// The status was another one.
    Status(u16),
    /// The answer is longer than [`PROBE_BODY_BYTES_MAX`].
    TooLong,
    /// There were more than [`PROBE_REDIRECTS_MAX`] redirects.
    TooManyRedirects,
    /// A redirect goes to no place that may be asked: another scheme, another port.
    BadRedirect,
    /// The peer does not speak HTTP.
    NoHttp,
    /// The peer does not speak TLS, or not `acme-tls/1`.
    NoTls,
}

/// What came of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeState {
    /// There is none under this id.
    Unknown,
    /// It is under way.
    UnderWay,
    /// It has ended; it is forgotten with this.
    Done(Result<ProbeAnswer, ProbeFailure>),
}

/// Looks at what engines say.
pub trait ProbeRunner: Send + Sync {
    /// Begins a probe under an id that no other has: its first segment is the mount, its second who asks there. False when too many are under way,
    /// of all, of the mount or of who asks; then it can be begun later.
    fn begin(&self, id: &str, probe: Probe) -> bool;

    /// What came of the probe of an id.
    fn take(&self, id: &str) -> ProbeState;
}

/// Where nothing looks: every probe fails at once.
#[derive(Clone, Copy, Debug)]
pub struct NoProbes;

impl ProbeRunner for NoProbes {
    fn begin(&self, _: &str, _: Probe) -> bool {
        true
    }

    fn take(&self, _: &str) -> ProbeState {
        ProbeState::Done(Err(ProbeFailure::NoConnection))
    }
}
