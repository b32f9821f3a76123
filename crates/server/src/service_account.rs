//! The service account of the pod that this server runs in: a token and an authority, as files that the kubelet replaces before the token ends.
//!
//! For the labels of the pod they are read for every call; for engines, which ask at every request, once in [`FRESH`], which is far less than a
//! token outlives its file. So what is used is what is valid. Nothing of them is logged or told.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kallisto_command::files;
use kallisto_engine::{Pod, PodAccount};
use kallisto_listener::{SystemClock, WallClock};
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

/// How long what engines use is as old as it is at most. The kubelet replaces a token when a fifth of its life is left, which is two minutes of
/// the shortest there is.
const FRESH: Duration = Duration::from_secs(10);
/// Longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 64 << 10;

/// Where the files are.
#[derive(Clone, Debug)]
pub(super) struct ServiceAccountFiles {
    token: PathBuf,
    authorities: PathBuf,
}

/// What the files say at one moment.
pub(super) struct PodCredentials {
    /// What shows who asks.
    pub(super) token: SecretString,
    /// Whom to believe, as PEM.
    pub(super) authorities: String,
}

impl ServiceAccountFiles {
    /// Those of a directory.
    pub(super) fn of(directory: &Path) -> Self {
        Self { token: directory.join("token"), authorities: directory.join("ca.crt") }
    }

    /// Reads both.
    ///
    /// # Errors
    /// Which one cannot be read or holds nothing of its kind.
    pub(super) fn read(&self) -> Result<PodCredentials, String> {
        let text = |path: &Path| {
            let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
            let bytes = files::read(path).map(Zeroizing::new).map_err(|error| failed(&error))?;
            let text = std::str::from_utf8(&bytes).map_err(|error| failed(&error))?;
            Ok::<_, String>(Zeroizing::new(text.trim().to_owned()))
        };
        let token = SecretString::from(text(&self.token)?.as_str());
        let is_token = |byte: u8| byte.is_ascii_graphic();
        let bytes = token.expose_secret().as_bytes();
        if !(1..=TOKEN_BYTES_MAX).contains(&bytes.len()) || !bytes.iter().copied().all(is_token) {
            return Err(format!("{}: it holds no token", self.token.display()));
        }
        let authorities = text(&self.authorities)?.to_string();
        if authorities.is_empty() {
            return Err(format!("{}: it holds no certificate", self.authorities.display()));
        }
        Ok(PodCredentials { token, authorities })
    }
}

/// The pod of this process, for the engines.
pub(super) struct LocalPod {
    api_server: String,
    files: ServiceAccountFiles,
    read: Mutex<LastAccount>,
}

/// What was read last, and when.
#[derive(Default)]
struct LastAccount {
    at: Option<Instant>,
    account: Option<Arc<PodAccount>>,
    revision: u32,
}

impl LocalPod {
    /// The pod with these files, in the cluster of this API server.
    pub(super) fn new(api_server: &str, files: ServiceAccountFiles) -> Self {
        Self { api_server: api_server.to_owned(), files, read: Mutex::default() }
    }

    fn account_at(&self, now: Instant) -> Option<Arc<PodAccount>> {
        let mut last = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if last.at.is_some_and(|at| now.saturating_duration_since(at) < FRESH) {
            return last.account.clone();
        }
        last.at = Some(now);
        match self.files.read() {
            Ok(read) => {
                let is_same = last.account.as_ref().is_some_and(|account| {
                    account.token.expose_secret() == read.token.expose_secret()
                        && account.authorities == read.authorities
                });
                if !is_same {
                    last.revision = last.revision.wrapping_add(1);
                    let PodCredentials { token, authorities } = read;
                    let (api_server, revision) = (self.api_server.clone(), last.revision);
                    let account = PodAccount { api_server, token, authorities, revision };
                    last.account = Some(Arc::new(account));
                }
            }
            // A pod need not mount them. One whose files went away has no account any more.
            Err(error) => {
                if last.account.take().is_some() {
                    tracing::warn!(error, "the files of the pod's service account are gone");
                }
            }
        }
        last.account.clone()
    }
}

impl Pod for LocalPod {
    fn account(&self) -> Option<Arc<PodAccount>> {
        self.account_at(SystemClock.instant())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_use_a_token_that_was_replaced_soon_after() {
        let directory = std::env::temp_dir().join(format!("kallisto-local-{}", fastrand::u64(..)));
        std::fs::create_dir(&directory).unwrap();
        let pod = LocalPod::new("https://10.0.0.1:443", ServiceAccountFiles::of(&directory));
        let start = SystemClock.instant();
        let told = |after: Duration| {
            let account = pod.account_at(start + after)?;
            Some((account.token.expose_secret().to_owned(), account.revision))
        };
        assert_eq!(told(Duration::ZERO), None);
        let issue = |token: &str| {
            files::write_private(&directory.join("token"), token.as_bytes()).unwrap();
            files::write_private(&directory.join("ca.crt"), b"PEM").unwrap();
        };
        issue("canary-of-one");
        assert_eq!(told(FRESH / 2), None, "it looked a moment ago");
        let one = Some(("canary-of-one".to_owned(), 1));
        assert_eq!(told(FRESH), one);
        issue("canary-of-two");
        assert_eq!(told(FRESH * 3 / 2), one);
        assert_eq!(told(FRESH * 2), Some(("canary-of-two".to_owned(), 2)));
        assert_eq!(told(FRESH * 4), Some(("canary-of-two".to_owned(), 2)));
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(told(FRESH * 6), None);
    }

    #[test]
    fn what_is_used_is_what_the_files_say_now() {
        let directory =
            std::env::temp_dir().join(format!("kallisto-account-{}", fastrand::u64(..)));
        std::fs::create_dir(&directory).unwrap();
        let account = ServiceAccountFiles::of(&directory);
        let why = |account: &ServiceAccountFiles| account.read().err().unwrap_or_default();
        assert!(why(&account).contains("token"), "{}", why(&account));
        for token in ["canary-of-one", "canary-of-two"] {
            files::write_private(&directory.join("token"), format!("{token}\n").as_bytes())
                .unwrap();
            files::write_private(&directory.join("ca.crt"), b"PEM\n").unwrap();
            let read = account.read().unwrap();
            assert_eq!((read.token.expose_secret(), read.authorities.as_str()), (token, "PEM"));
        }
        for bad in ["", " \n", "canary a\r\nX: y", "can\u{e9}ry"] {
            files::write_private(&directory.join("token"), bad.as_bytes()).unwrap();
            let why = why(&account);
            assert!(why.ends_with("token: it holds no token") && !why.contains("can"), "{why}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
