//! A protocol: how a session is opened, and what is done over it.
//!
//! To add one: a file with its [`FarEndSession`], a variant each of `FarEndProtocol` and `FarEndWork` with what stands beside it there, an
//! arm in [`open`]. The sessions of the others ask for their own work alone, and need no change.

use kallisto_engine::far_end::FarEndProtocol;
use kallisto_engine::{BoxFuture, FarEnd, FarEndAnswer, FarEndFailure, FarEndWork};
use tokio::time::Instant;

use crate::{http, ldap, mysql, postgres, redis};

/// A session with a far end, logged in.
pub(crate) trait FarEndSession: Send {
    /// Does what is asked.
    ///
    /// # Errors
    /// [`FarEndFailure::Refused`] and [`FarEndFailure::NothingDone`] when the session can go on; [`FarEndFailure::Unreachable`] when it had ended before.
    fn run<'a>(
        &'a mut self,
        work: &'a FarEndWork,
    ) -> BoxFuture<'a, Result<FarEndAnswer, FarEndFailure>>;

    /// Whether it is known to have ended.
    fn is_closed(&self) -> bool;

    /// Asks whether it is still there.
    fn check(&mut self) -> BoxFuture<'_, bool>;
}

/// Opens a session; whoever has several hosts to try divides the time until `until` among them.
///
/// # Errors
/// [`FarEndFailure::Unreachable`], [`FarEndFailure::LoginRefused`], or [`FarEndFailure::LoginBarred`].
pub(crate) async fn open(
    far_end: &FarEnd,
    until: Instant,
) -> Result<Box<dyn FarEndSession>, FarEndFailure> {
    match &far_end.protocol {
        FarEndProtocol::Postgres { login, database, start } => {
            postgres::open(far_end, login, (database, start), until).await
        }
        FarEndProtocol::Mysql { login, database } => mysql::open(far_end, login, database).await,
        FarEndProtocol::Redis { login } => redis::open(far_end, login).await,
        FarEndProtocol::Ldap { login, starts_tls } => {
            ldap::open(far_end, login, *starts_tls, until).await
        }
        FarEndProtocol::Http { login } => http::open(far_end, login).await,
    }
}

/// The number of a lock: FNV-1a, 64 bits. Two words with one number wait for each other, and nothing else.
pub(crate) fn lock_number(word: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    word.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// That a protocol has no such work.
pub(crate) fn no_such_work() -> FarEndFailure {
    FarEndFailure::Refused("the protocol of this far end has no such work".into())
}
