//! What a client may hear when a request fails.
//!
//! Grouped by what the caller does next; each listener maps it in one exhaustive `match`. Texts are
//! those the wire contract asks for, since clients match on them; none ever holds a value, a key or
//! a token. `Internal` sends an id outside and keeps the detail inside.

use std::fmt;

use kallisto_store as store;

use crate::crowd::Crowd;
use crate::expected::Expected;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The request is wrong; the message says what and where.
    Invalid(String),
    /// The request is wrong, and the wire contract wants no message with it.
    InvalidSilently,
    /// The request is wrong, and clients look for another status than 400.
    Expected(Expected),
    /// A write expected another version than the secret has.
    CasMismatch,
    /// The body or the stored entry would be over its limit.
    TooLarge(String),
    /// The body is of a kind this operation does not take.
    UnsupportedMedia(String),
    /// Nothing there, or nothing the caller may know of.
    NotFound,
    /// There is no such namespace.
    NoNamespace,
    /// No engine is mounted there (told to root only).
    NoRoute(String),
    /// A known engine does not know this path.
    UnsupportedPath,
    /// The path is known and does not take this operation.
    UnsupportedOperation,
    /// No token, an unknown one, or one without the right; deliberately the same.
    Denied(Denial),
    /// The barrier is sealed.
    Sealed,
    /// Others kept writing the same entry; the same request may be sent again.
    Conflict,
    /// This server has not heard for too long what the cluster committed, and its answer could be of the past.
    Stale(Stale),
    /// Another server leads, and only it can do this; nothing happened here.
    NotLeader,
    /// The address that asks went over a rate limit.
    OverQuota(Box<OverQuota>),
    /// Too many tries of something that can be guessed.
    TooManyTries {
        /// When to come back.
        retry_after_secs: u64,
    },
    /// Too much is asked of the server at once; see [`Crowd`] for by whom.
    Busy(Crowd),
    /// The server cannot do this now.
    Unavailable(String),
    /// No audit device took its record; the client hears of an internal error.
    Unaudited,
    /// Our mistake; the detail is in the server's log under this id.
    Internal(u64),
}

/// Which limit a request went over, and when to come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverQuota {
    /// Whether there are too many leases, and not too many requests in a time.
    pub counts_leases: bool,
    /// What was asked for.
    pub path: String,
    /// When to come back.
    pub retry_after_secs: u64,
    /// Requests that pass in an interval, or leases that there may be.
    pub limit: u64,
    /// Whether the client is told so in headers.
    pub is_told: bool,
}

impl OverQuota {
    /// That there is too much of it, in the contract's words.
    pub const fn exceeded(&self) -> &'static str {
        if self.counts_leases { "lease count quota exceeded" } else { "rate limit quota exceeded" }
    }
}

/// How old the view of a server is that does not answer from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    /// How old it may be; `None` if nothing was heard since the server started.
    pub age_secs: Option<u64>,
    /// How old it may be to answer.
    pub max_secs: u64,
    /// Who of the cluster is reached, as far as whoever asks may know.
    pub reached: Option<String>,
}

/// The wordings of a refusal that clients tell apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The token is missing, unknown or expired.
    BadToken,
    /// `token lookup` of a token that does not exist.
    UnknownToken,
    /// A question about a wrapping token that names none.
    NoWrappingToken,
    /// The decision said no.
    Policy,
    /// The decision said no to one of the paths that a request names.
    At(String),
    /// A login's second factor was not shown, or was not good; the text says which.
    SecondFactor(String),
    /// The preflight of the `kv` commands found nothing reachable under this path.
    Preflight(String),
}

impl Error {
    /// An [`Error::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// That a write may have happened or not, and whoever asked for it has to look.
    pub fn outcome_unknown() -> Self {
        Self::Unavailable("the write may have happened: read before sending it again".into())
    }

    /// Logs `detail` under a fresh id and keeps only the id.
    pub fn internal(detail: &dyn fmt::Display) -> Self {
        let id = fastrand::u64(..);
        tracing::error!(id = format_args!("{id:016x}"), %detail, "internal error");
        Self::Internal(id)
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Conflict => Self::Conflict,
            store::Error::TooLarge(what) => {
                Self::TooLarge(format!("request over the limit: {what}"))
            }
            store::Error::NotLeader => Self::NotLeader,
            store::Error::Unavailable(why) => Self::Unavailable(why),
            store::Error::Busy => Self::Unavailable("too many writes are waiting".into()),
            store::Error::Full(_) => {
                if let Some(writes) = error.worth_telling() {
                    tracing::error!(%error, writes, "refused a write");
                }
                Self::Unavailable("the disk is full: reads go on, writes are refused".into())
            }
            store::Error::Io(_) => {
                if let Some(requests) = error.worth_telling() {
                    tracing::error!(%error, requests, "a file could not be read or made");
                }
                Self::Unavailable(
                    "a file of the server could not be read or made: its log names it".into(),
                )
            }
            store::Error::Unknown(_) => {
                if let Some(writes) = error.worth_telling() {
                    tracing::error!(%error, writes, "lost sight of a write");
                }
                Self::outcome_unknown()
            }
            // Paths and places on the disk are for the operator's log, not for clients.
            store::Error::Poisoned(_)
            | store::Error::Locked(_)
            | store::Error::Damaged(_)
            | store::Error::Lost(_) => Self::internal(&error),
        }
    }
}

impl From<Crowd> for Error {
    fn from(crowd: Crowd) -> Self {
        Self::Busy(crowd)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(message)
            | Self::TooLarge(message)
            | Self::UnsupportedMedia(message)
            | Self::Unavailable(message) => f.write_str(message),
            Self::Expected(mistake) => mistake.fmt(f),
            Self::OverQuota(over) => {
                write!(f, "request path \"{}\": {}", over.path, over.exceeded())
            }
            Self::TooManyTries { retry_after_secs } => {
                write!(f, "too many wrong tries: try again in {retry_after_secs} seconds")
            }
            Self::Busy(Crowd::Own) => {
                f.write_str("too much of what this client asked for is under way; try again")
            }
            Self::Busy(Crowd::All) => f.write_str("too much is under way; try again"),
            Self::InvalidSilently => f.write_str("invalid request"),
            Self::CasMismatch => {
                f.write_str("check-and-set parameter did not match the current version")
            }
            Self::NotFound => f.write_str("not found"),
            Self::NoNamespace => f.write_str("namespace not found"),
            Self::NoRoute(path) => {
                write!(f, "no handler for route \"{path}\". route entry not found.")
            }
            Self::UnsupportedPath => f.write_str("unsupported path"),
            Self::UnsupportedOperation => f.write_str("unsupported operation"),
            Self::Denied(Denial::BadToken | Denial::Policy) => f.write_str("permission denied"),
            Self::Denied(Denial::NoWrappingToken) => {
                f.write_str("error validating wrapping token: token is empty")
            }
            Self::Denied(Denial::At(path)) => write!(f, "permission denied at \"{path}\""),
            Self::Denied(Denial::SecondFactor(why)) => f.write_str(why),
            Self::Denied(Denial::UnknownToken) => f.write_str("bad token"),
            Self::Denied(Denial::Preflight(path)) => write!(
                f,
                "preflight capability check returned 403, please ensure client's policies grant \
                 access to path \"{path}/\""
            ),
            Self::Sealed => f.write_str("Vault is sealed"),
            Self::Stale(stale) => stale.fmt(f),
            Self::NotLeader => f.write_str("no server leads: send the request again"),
            Self::Conflict => f.write_str("the entry kept changing; send the request again"),
            Self::Unaudited => f.write_str("internal error"),
            Self::Internal(id) => write!(f, "internal error (id {id:016x})"),
        }
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.age_secs {
            Some(age) => write!(
                f,
                "this server was last told {age} seconds ago what the cluster committed, and does not \
                 answer after {}: ask another server",
                self.max_secs
            ),
            None => f.write_str(
                "this server was not told yet what the cluster committed, and does not answer before: \
                 ask another server",
            ),
        }?;
        match &self.reached {
            Some(reached) => write!(f, " (no server leads: {reached})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_do_not_hear_where_files_are() {
        let at = || "create /var/lib/kallisto/raft_log/2.wal: Too many open files".to_owned();
        for error in
            [store::Error::Io(at()), store::Error::Full(at()), store::Error::Poisoned(at())]
        {
            let told = Error::from(error);
            assert!(!told.to_string().contains("/var"), "{told}");
        }
    }
}
