//! The service account of the pod that this server runs in: a token and an authority, as files that the kubelet replaces before the token ends.
//!
//! They are read each time they are needed, so that what is used is what is valid. Nothing of them is kept, logged or told.

use std::path::{Path, PathBuf};

use kallisto_command::files;
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

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

#[cfg(test)]
mod tests {
    use super::*;

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
