//! The limits of leases.

/// Longest path of a lease: its mount's and what follows, without the random part of the id.
pub const PATH_BYTES_MAX: usize = 1024;
/// Characters of the random part of an id: 142 bits.
pub const RANDOM_CHARS: usize = 24;
/// Longest id of a lease, without the id of its namespace.
pub const ID_BYTES_MAX: usize = PATH_BYTES_MAX + 1 + RANDOM_CHARS;
/// Longest id of a namespace at the end of a lease's id.
pub const NAMESPACE_ID_BYTES_MAX: usize = 16;
/// Most bytes an engine keeps to revoke a lease: names and the statements of a role.
pub const REVOCATION_BYTES_MAX: usize = 64 << 10;
/// Most bytes kept of the error that made a lease irrevocable.
pub const ERROR_BYTES_MAX: usize = 512;

/// Attempts to revoke a lease that are refused before it is irrevocable.
pub const ATTEMPTS_MAX: u8 = 6;
/// The pause after the first attempt that is refused; each further one is twice as long.
pub const BACKOFF_FIRST_SECS: u64 = 10;
/// While a far end does not answer, a lease waits for this part of the time that it has been due.
pub const UNANSWERED_DIVISOR: u64 = 2;
/// And no longer than this: how long after a far end is back its leases are tried at the latest, the jitter aside.
pub const UNANSWERED_SECS_MAX: u64 = 60;
/// A pause is longer by up to this part of itself, so that leases that failed together are not tried together.
pub const JITTER_DIVISOR: u64 = 4;
/// How long a lease may be pending before its creation is rolled back. Calls to far ends end sooner.
pub const PENDING_SECS_MAX: u64 = 60;
/// How long after its lease was asked for a call to the far end may begin: what is begun later could end behind the roll-back.
pub const BEGIN_SECS_MAX: u64 = 10;

/// Leases of one mount that are revoked at the same time.
pub const MOUNT_AT_WORK_MAX: usize = 8;
/// Leases of all mounts that are revoked at the same time.
pub const AT_WORK_MAX: usize = 256;
/// Leases that are taken up for revocation in a second, by the queue. A server that starts with a million of
/// expired leases works them off at this rate.
pub const TAKEN_PER_SECOND_MAX: u64 = 500;

const _: () = assert!(BACKOFF_FIRST_SECS <= UNANSWERED_SECS_MAX);
const _: () = assert!(MOUNT_AT_WORK_MAX <= AT_WORK_MAX);
const _: () =
    assert!(ATTEMPTS_MAX as u32 <= 32, "a pause is the first one shifted by the attempts");
const _: () = assert!(ID_BYTES_MAX <= u16::MAX as usize, "the length of an id has two bytes");
const _: () = assert!(ERROR_BYTES_MAX <= u16::MAX as usize, "and so has that of an error");
