//! What arrived, for the next pass: of each secret the hash of its path, and what of it arrived.
//!
//! The file holds no value, and no path but as a hash. It is written anew beside the old one and renamed, now and then and at the end,
//! so a pass that is killed leaves a whole one that knows a little less. It belongs to two clusters and is refused for others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use data_encoding::HEXLOWER;

use super::endpoint::ClusterPair;
use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_command::json::{Json, Map, parse_object};

/// Shortest time between two writes; and so many times as long as a write takes.
const SAVE_PAUSE: Duration = Duration::from_secs(2);
const SAVE_SHARE: u32 = 10;
/// The layout of the file.
const FORMAT: u64 = 1;
/// Bytes of a hash that are kept.
const HASH_BYTES: usize = 16;

/// The file.
pub(super) struct StateFile {
    path: PathBuf,
    ends: ClusterPair,
    known: Mutex<Arrived>,
}

struct Arrived {
    /// Hashes of what the metadata said, by hashes of paths.
    secrets: BTreeMap<String, String>,
    saved: Instant,
    pause: Duration,
}

impl StateFile {
    /// Reads the file, if there is one.
    ///
    /// # Errors
    /// It cannot be read, is none, or is about other clusters.
    pub(super) fn open(path: &Path, ends: &ClusterPair) -> Result<Self, Error> {
        let wrong = |why: &str| Error::unusable(format!("state file {}: {why}", path.display()));
        let ends = ClusterPair { source: ends.source.clone(), target: ends.target.clone() };
        let secrets = match files::read(path) {
            Ok(bytes) => {
                let (known, secrets) = decode(&bytes).ok_or_else(|| wrong("it is none"))?;
                if known != ends {
                    return Err(wrong("it is about other clusters; name another file"));
                }
                secrets
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(wrong(&error.to_string())),
        };
        let known = Arrived { secrets, saved: clock(), pause: SAVE_PAUSE };
        Ok(Self { path: path.to_owned(), ends, known: Mutex::new(known) })
    }

    fn lock(&self) -> MutexGuard<'_, Arrived> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hash of what arrived of a secret.
    pub(super) fn arrival(&self, path: &str) -> Option<String> {
        self.lock().secrets.get(&hash(path.as_bytes())).cloned()
    }

    /// Notes what arrived, and writes the file where that is due.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn arrived(&self, path: &str, arrival: String) -> Result<(), Error> {
        let mut known = self.lock();
        known.secrets.insert(hash(path.as_bytes()), arrival);
        if clock().duration_since(known.saved) < known.pause {
            return Ok(());
        }
        self.write(&mut known)
    }

    /// Forgets a secret that is gone.
    pub(super) fn forget(&self, path: &str) {
        self.lock().secrets.remove(&hash(path.as_bytes()));
    }

    /// Writes the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn save(&self) -> Result<(), Error> {
        self.write(&mut self.lock())
    }

    fn write(&self, known: &mut Arrived) -> Result<(), Error> {
        let begun = clock();
        let written = files::write_private(&self.path, &encode(&self.ends, &known.secrets));
        written.map_err(|error| {
            Error::unusable(format!("state file {}: {error}", self.path.display()))
        })?;
        known.saved = clock();
        known.pause = SAVE_PAUSE.max(known.saved.duration_since(begun) * SAVE_SHARE);
        Ok(())
    }
}

fn encode(ends: &ClusterPair, secrets: &BTreeMap<String, String>) -> Vec<u8> {
    let entry = |(path, arrival): (&String, &String)| (path.clone(), arrival.as_str().into());
    Json::object([
        ("format", FORMAT.into()),
        ("source", ends.source.as_str().into()),
        ("target", ends.target.as_str().into()),
        ("secrets", Json::Object(secrets.iter().map(entry).collect())),
    ])
    .to_text()
}

fn decode(bytes: &[u8]) -> Option<(ClusterPair, BTreeMap<String, String>)> {
    let object = parse_object(bytes).ok()?;
    let text = |name: &str| object.get(name)?.as_str().map(str::to_owned);
    if object.get("format")? != &Json::from(FORMAT) {
        return None;
    }
    let entry = |(path, text): (&String, &Json)| Some((path.clone(), text.as_str()?.to_owned()));
    let secrets: &Map = object.get("secrets")?.as_object()?;
    let secrets = secrets.iter().map(entry).collect::<Option<_>>()?;
    Some((ClusterPair { source: text("source")?, target: text("target")? }, secrets))
}

/// The hash of some bytes, as it stands in the file.
pub(super) fn hash(bytes: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA256, bytes);
    HEXLOWER.encode(&hash.as_ref()[..HASH_BYTES])
}

/// The clock by which the file is written.
#[expect(clippy::disallowed_methods, reason = "this is the clock seam of a migration's state")]
fn clock() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What arrived between two clusters says nothing of others, and would have secrets passed over.
    #[test]
    fn a_file_about_other_clusters_or_of_another_kind_is_refused_and_stays() {
        let name = format!("kallisto-migrate-state-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let ends = |source: &str, target: &str| ClusterPair {
            source: source.to_owned(),
            target: target.to_owned(),
        };
        let state = StateFile::open(&path, &ends("one", "other")).unwrap();
        state.arrived("secret/a", "h".to_owned()).unwrap();
        state.save().unwrap();
        let again = StateFile::open(&path, &ends("one", "other")).unwrap();
        assert_eq!(again.arrival("secret/a").as_deref(), Some("h"));
        assert_eq!(again.arrival("secret/b"), None);
        for (source, target) in [("other", "one"), ("one", "third"), ("third", "other")] {
            let refused = StateFile::open(&path, &ends(source, target)).err().unwrap().to_string();
            assert!(refused.contains("about other clusters"), "{refused}");
        }
        let before = files::read(&path).unwrap();
        files::write_private(&path, b"no state").unwrap();
        let refused = StateFile::open(&path, &ends("one", "other")).err().unwrap().to_string();
        assert!(refused.contains("it is none"), "{refused}");
        assert_eq!(files::read(&path).unwrap(), b"no state");
        files::write_private(&path, &before).unwrap();
        state.forget("secret/a");
        state.save().unwrap();
        let again = StateFile::open(&path, &ends("one", "other")).unwrap();
        assert_eq!(again.arrival("secret/a"), None);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_reads_back_and_nothing_else_does() {
        let ends = ClusterPair { source: "one".to_owned(), target: "other".to_owned() };
        let secrets = BTreeMap::from([(hash(b"secret/a"), hash(b"metadata"))]);
        let bytes = encode(&ends, &secrets);
        assert!(!String::from_utf8_lossy(&bytes).contains("secret/a"));
        assert_eq!(decode(&bytes), Some((ends, secrets)));
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end]).is_none(), "cut at {end}");
        }
        assert!(decode(br#"{"format":2,"source":"","target":"","secrets":{}}"#).is_none());
    }
}
