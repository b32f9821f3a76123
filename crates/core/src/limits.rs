//! The named limits of the core. Those of JSON, paths, tokens and queries stand with their parsers; those that engines share, with the
//! engines' contract.

use std::time::Duration;

pub use kallisto_engine::limits::{CONFLICT_RETRIES_MAX, ENTRY_BYTES_MAX, LIST_ENTRIES_MAX};

/// Largest request body, in bytes; the listener enforces it.
pub const BODY_BYTES_MAX: usize = 32 << 20;
/// Most records one sweep batch deletes.
pub const SWEEP_RECORDS_MAX: usize = 4096;
/// Most tokens ended in one batch: what a thread does before it lets others run.
pub const REVOKE_TOKENS_MAX: usize = 256;
/// Lease given when neither secret nor mount says, in seconds: 32 days, as Vault's default.
pub const DEFAULT_LEASE_SECS: u64 = 2_764_800;
/// How far in the past the view of a server may be that answers, when the configuration does not say.
pub const MAX_STALENESS_DEFAULT: Duration = Duration::from_secs(10);
/// Versions a KV v2 secret keeps when neither it nor its mount says.
pub const VERSIONS_KEPT_DEFAULT: u32 = 10;
/// Most versions a secret or mount may be told to keep; bounds the metadata record.
pub const VERSIONS_KEPT_MAX: u32 = 10_000;
/// Most keys of custom metadata.
pub const CUSTOM_KEYS_MAX: usize = 64;
/// Longest key of custom metadata, in bytes.
pub const CUSTOM_KEY_BYTES_MAX: usize = 128;
/// Longest value of custom metadata, in bytes.
pub const CUSTOM_VALUE_BYTES_MAX: usize = 512;
/// Longest mount path, in bytes.
pub const MOUNT_PATH_BYTES_MAX: usize = 256;
/// Most namespaces in a cluster; each costs memory for tables of its own.
pub const NAMESPACES_MAX: usize = 1_000;
/// Deepest namespace, in segments.
pub const NAMESPACE_DEPTH_MAX: usize = 8;
/// Longest name of a namespace, in bytes.
pub const NAMESPACE_NAME_BYTES_MAX: usize = 64;
/// Most rules that the policies of a token may have together, those of its entity and groups among them: compiling them
/// takes a second, and memory for each.
pub const TOKEN_RULES_MAX: usize = 1 << 18;
/// Longest answer that can be wrapped, in bytes.
pub const WRAPPED_BYTES_MAX: usize = 16 << 20;
/// Longest description of a mount, in bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 4096;
/// Changes that those who follow secrets can catch up on, and their bytes in memory.
pub const FEED_CHANGES_MAX: usize = 1 << 15;
/// See [`FEED_CHANGES_MAX`].
pub const FEED_BYTES_MAX: usize = 8 << 20;
/// Streams and waiting requests at once, in all.
pub const STREAMS_MAX: usize = 1024;
/// Streams and waiting requests of one token at once.
pub const STREAMS_PER_TOKEN_MAX: usize = 64;
/// Longest a request may ask to wait, in seconds.
pub const WAIT_SECS_MAX: u64 = 120;
/// Most paths of one bulk read.
pub const BULK_PATHS_MAX: usize = 512;
/// Bytes of secrets in the answer to one bulk read; what comes after is to be asked for again.
pub const BULK_BYTES_MAX: usize = 16 << 20;
/// Most secrets written, deleted, copied or moved at once.
pub const TOGETHER_SECRETS_MAX: usize = 4096;
/// Most records changed at once by those: a secret is one, and one more for every version; what is
/// moved counts where it comes from and where it goes.
pub const TOGETHER_RECORDS_MAX: usize = 32 << 10;
/// Most bytes of records written at once by those.
pub const TOGETHER_BYTES_MAX: usize = 16 << 20;
/// Most writes that came together and are committed as one: nobody else has a turn while they are staged, which for short values is a part of a millisecond: each is sealed when it joins.
pub const RUN_WRITES_MAX: usize = 128;
/// Most pairs of a path and a capability that one explanation answers.
pub const EXPLAINED_CELLS_MAX: usize = 1_024;
/// Most rules that one explanation looks at: those of the subject, once for each pair.
pub const EXPLAINED_RULES_MAX: usize = 1 << 22;
/// Most policies that an explanation names besides those of its subject, and most drafts it brings.
pub const EXPLAINED_POLICIES_MAX: usize = 128;
/// Most lost and dropped rules that are shown of each decision; the rest is counted.
pub const EXPLAINED_LOST_MAX: usize = 64;
/// Paths that one filtered list or search looks at; past it the answer says where to go on.
pub const EXAMINED_PATHS_MAX: usize = 20_000;
/// Bytes of secrets' data that one search for a key looks through; past it the answer says where to go on.
pub const SEARCH_DATA_BYTES_MAX: usize = 64 << 20;
/// Most names in one answer of a list with details, each of which takes a read of a record.
pub const PAGE_DETAILS_MAX: usize = 1_000;
/// Most names in one answer of a filtered list or search, and how many come when nobody says.
pub const PAGE_NAMES_MAX: usize = 10_000;
/// Longest pattern of a search, in bytes.
pub const SEARCH_PATTERN_BYTES_MAX: usize = 1024;
/// Bytes of audit records that reads of one connection gather before they are written. With so many from every
/// connection that one address may have (four fifths of 16,384), and a record more each, a device still takes those
/// of others.
pub const GATHERED_BYTES: usize = 15 << 10;
/// The same for as many connections at a time as [`LARGE_BATCHES_MAX`] says: what comes together on one is then written at once.
pub const LARGE_BATCH_BYTES: usize = 64 << 10;
/// Most connections that gather more than [`GATHERED_BYTES`] at a time.
pub const LARGE_BATCHES_MAX: usize = 128;

const _: () = assert!(
    (GATHERED_BYTES + 4096) * (16_384 * 4 / 5) + LARGE_BATCH_BYTES * LARGE_BATCHES_MAX
        < kallisto_audit::limits::QUEUE_BYTES_MAX
);
const _: () = assert!(ENTRY_BYTES_MAX < BODY_BYTES_MAX);
const _: () = assert!(MOUNT_PATH_BYTES_MAX < kallisto_auth::PATH_BYTES_MAX);
const _: () =
    assert!(NAMESPACE_DEPTH_MAX * (NAMESPACE_NAME_BYTES_MAX + 1) < kallisto_auth::PATH_BYTES_MAX);
const _: () = assert!(NAMESPACE_DEPTH_MAX < kallisto_auth::SEGMENTS_MAX);
const _: () = assert!(WRAPPED_BYTES_MAX < kallisto_store::VALUE_BYTES_MAX);
const _: () = assert!(REVOKE_TOKENS_MAX <= SWEEP_RECORDS_MAX);
const _: () = assert!(SWEEP_RECORDS_MAX <= kallisto_store::BATCH_OPS_MAX);
const _: () = assert!(TOGETHER_RECORDS_MAX <= kallisto_store::BATCH_OPS_MAX);
const _: () = assert!(TOGETHER_BYTES_MAX < kallisto_store::BATCH_BYTES_MAX);
// Six bytes are the longest spelling of one in JSON; as much again for metadata.
const _: () =
    assert!(2 * 6 * RUN_WRITES_MAX * LIGHT_BODY_BYTES_MAX < kallisto_store::BATCH_BYTES_MAX);
const _: () = assert!(STREAMS_PER_TOKEN_MAX < STREAMS_MAX);
/// Blocks of audit files that are read and judged at once for streams that follow them: how many of those catch up at a time, in turns.
pub const RECORD_READS_MAX: usize = 2;
/// Bytes that a loaded snapshot may take in memory: of its records that can be recovered, with [`LOADED_RECORD_BYTES`] for each besides.
pub const LOADED_BYTES_MAX: usize = 512 << 20;
/// What a record of a loaded snapshot takes besides its bytes: its place in two trees, and an entry of the index.
pub const LOADED_RECORD_BYTES: usize = 192;
/// How long a snapshot stays loaded, in seconds: three days, as in Vault.
pub const LOADED_SECS: i64 = 72 * 3600;
/// Backups that are read at once.
pub const SAVES_MAX: usize = 2;
/// Longest body that is parsed where it arrived: it is parsed up to five times, by the decision, by the audit and by its
/// handler, and all of it takes less than a millisecond.
pub const LIGHT_BODY_BYTES_MAX: usize = 16 << 10;
/// Longest secret that is read where it was asked for: it is decrypted and copied, and never parsed, which takes an eighth
/// of a millisecond (decision 0179). Where reads are audited, each of its values is hashed besides, so it is no longer
/// than a body.
pub const LIGHT_SECRET_BYTES_MAX: usize = 256 << 10;
