//! `limits`: the most that clients can make the server hold, all listeners together.
//!
//! Every key has a default that serves a cluster of ten thousand clients; see `docs/operations.md`.
//! Whatever is written here, a single client gets four fifths of it at the most.

use kallisto_core::admission::AdmissionLimits;
use kallisto_core::limits::BODY_BYTES_MAX;

use super::error::Error;
use super::section::ConfigSection;

/// Most of anything that is counted: what a machine could hold at all.
const COUNT_MAX: u64 = 1 << 20;
/// Most memory for bodies or replies.
const BYTES_MAX: u64 = 1 << 40;
/// Least memory for them: with less the largest body that is allowed would never be taken from a client
/// that is alone.
const BYTES_MIN: u64 = 2 * BODY_BYTES_MAX as u64;

/// What of the memory bodies may take, and what replies, where nobody says otherwise: one part in so many, each. Secrets have half of it, and
/// a body takes three to four times its bytes while it is received and parsed.
const MEMORY_PARTS: usize = 16;

/// The most that clients can make the server hold, as far as the configuration says it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfiguredLimits {
    /// All but the memory.
    counts: AdmissionLimits,
    /// Bytes of bodies, where that is said.
    body_bytes_max: Option<usize>,
    /// Bytes of replies, where that is said.
    reply_bytes_max: Option<usize>,
}

impl ConfiguredLimits {
    /// The limits on a machine, or in a container, of `memory_bytes`.
    pub(crate) fn within_memory(self, memory_bytes: usize) -> AdmissionLimits {
        let least = usize::try_from(BYTES_MIN).unwrap_or(usize::MAX);
        let part = (memory_bytes / MEMORY_PARTS).max(least);
        let Self { counts, body_bytes_max, reply_bytes_max } = self;
        AdmissionLimits {
            body_bytes_max: body_bytes_max.unwrap_or(counts.body_bytes_max.min(part)),
            reply_bytes_max: reply_bytes_max.unwrap_or(counts.reply_bytes_max.min(part)),
            ..counts
        }
    }
}

/// Reads the stanza; what it does not say is as it is without one.
pub(super) fn read(
    top: &mut ConfigSection<'_>,
    warnings: &mut Vec<String>,
) -> Result<ConfiguredLimits, Error> {
    let mut limits = AdmissionLimits::default();
    let (mut body_bytes_max, mut reply_bytes_max) = (None, None);
    for mut stanza in top.stanzas("limits")? {
        for (key, least, most, limit) in [
            ("max_connections", 16, COUNT_MAX, &mut limits.connections_max),
            ("reserved_connections", 0, COUNT_MAX, &mut limits.connections_reserved),
            ("max_handshakes", 16, COUNT_MAX, &mut limits.handshakes_max),
            ("max_requests", 16, COUNT_MAX, &mut limits.requests_max),
            ("reserved_requests", 0, COUNT_MAX, &mut limits.requests_reserved),
            ("max_hashes", 2, COUNT_MAX, &mut limits.hashes_max),
            ("max_long_lists", 2, COUNT_MAX, &mut limits.lists_max),
            ("max_computations", 16, COUNT_MAX, &mut limits.computations_max),
        ] {
            if let Some(raw) = stanza.raw_value(key)? {
                *limit = usize::try_from(raw.whole(least..=most)?).unwrap_or(usize::MAX);
            }
        }
        for (key, limit) in
            [("max_body_memory", &mut body_bytes_max), ("max_reply_memory", &mut reply_bytes_max)]
        {
            if let Some(raw) = stanza.raw_value(key)? {
                let bytes = raw.bytes(BYTES_MIN..=BYTES_MAX)?;
                *limit = Some(usize::try_from(bytes).unwrap_or(usize::MAX));
            }
        }
        for (reserved, all, keys) in [
            (
                limits.connections_reserved,
                limits.connections_max,
                "reserved_connections has to be less than max_connections",
            ),
            (
                limits.requests_reserved,
                limits.requests_max,
                "reserved_requests has to be less than max_requests",
            ),
        ] {
            if reserved >= all {
                return Err(stanza.refuse(keys));
            }
        }
        stanza.finish(&[], warnings)?;
    }
    Ok(ConfiguredLimits { counts: limits, body_bytes_max, reply_bytes_max })
}
