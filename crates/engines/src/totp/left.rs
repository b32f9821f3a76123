//! What is left of a key that was deleted: which of its codes were taken, for as long as they could come again (RFC 6238, 5.2).
//!
//! The handlers that write and delete keys call it within their transactions. `left/NAME` has the codes and tells of which secret they are, and
//! `ends/UNTIL/NAME` stands for it in the order in which they are past.
//!
//! Invariants:
//! - A key that is made again with the secret that it had knows which of its codes were taken.
//! - There is something left of a name only while it has no key.
//! - Nothing is left of a key whose codes were not taken, or are past. What is past later goes with other writes: each write or deletion of a key
//!   drops up to [`SWEPT_MAX`], the oldest first, and adds one at the most.

use kallisto_api::Error;
use kallisto_api::json::{self, Json};
use kallisto_engine::{Call, Transaction};

use kallisto_totp::{TotpKey, Tries};

/// How many that are past a write of a key drops.
pub(super) const SWEPT_MAX: usize = 8;

const ENDS: &str = "ends/";

/// What is left of a key.
struct LeftTries {
    /// [`TotpKey::fingerprint`].
    of: String,
    /// From when on none of the codes could come again, in seconds since 1970.
    until: u64,
    tries: Tries,
}

impl LeftTries {
    fn encode(&self) -> Vec<u8> {
        let tries = String::from_utf8_lossy(&self.tries.encode()).into_owned();
        let record = Json::object([
            ("of", self.of.as_str().into()),
            ("tries", tries.into()),
            ("until", self.until.into()),
        ]);
        record.to_text()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let Json::Number(until) = map.get("until")? else { return None };
        Some(Self {
            of: map.get("of")?.as_str()?.to_owned(),
            until: until.parse().ok()?,
            tries: Tries::decode(map.get("tries")?.as_str()?.as_bytes())?,
        })
    }
}

fn left_record(name: &str) -> String {
    format!("left/{name}")
}

/// Ends are sorted as texts, so all have as many digits.
fn end_record(until: u64, name: &str) -> String {
    format!("{ENDS}{until:020}/{name}")
}

/// Keeps what was tried with a key that is deleted, if any of it could come again.
pub(super) fn leave(
    transaction: &mut Transaction<'_>,
    name: &str,
    (key, tries): (&TotpKey, Tries),
    now: u64,
) -> Result<(), Error> {
    let Some(until) = tries.used_until(key).filter(|until| *until > now) else { return Ok(()) };
    let left = LeftTries { of: key.fingerprint(), until, tries };
    transaction.put(&left_record(name), left.encode())?;
    transaction.put(&end_record(until, name), Vec::new())
}

/// What is left of the key of a name, for one that is made: what was tried with the same secret. Nothing is left of it then.
pub(super) fn take_back(
    transaction: &mut Transaction<'_>,
    name: &str,
    key: &TotpKey,
) -> Result<Option<Tries>, Error> {
    let record = left_record(name);
    let Some(found) = transaction.get(&record)? else { return Ok(None) };
    let left = found.decode(LeftTries::decode)?;
    transaction.delete(&record)?;
    transaction.delete(&end_record(left.until, name))?;
    Ok((left.of == key.fingerprint()).then_some(left.tries))
}

/// The ends that are past, for [`sweep`]: the time of each, and the name.
pub(super) fn past(call: &Call<'_>, now: u64) -> Vec<(u64, String)> {
    let ends = call.storage.scan_some(ENDS, SWEPT_MAX).into_iter();
    let ends = ends.filter_map(|end| {
        let (until, name) = end.split_once('/')?;
        Some((until.parse().ok()?, name.to_owned()))
    });
    ends.filter(|(until, _)| *until <= now).collect()
}

/// Drops what is left at these ends of other names than `own`.
pub(super) fn sweep(
    transaction: &mut Transaction<'_>,
    ends: &[(u64, String)],
    own: &str,
) -> Result<(), Error> {
    for (until, name) in ends.iter().filter(|(_, name)| name != own) {
        let record = left_record(name);
        // The key may have been made and deleted again since the ends were listed. What is damaged goes too.
        if let Some(found) = transaction.get(&record)?
            && LeftTries::decode(&found.value).is_none_or(|left| left.until == *until)
        {
            transaction.delete(&record)?;
        }
        transaction.delete(&end_record(*until, name))?;
    }
    Ok(())
}
