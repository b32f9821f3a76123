//! Whom to join at the first start: what `retry_join` of the configuration says, with its files read.
//!
//! A join token is good once. So a file of one that is not there is no error: a member that starts again has used it up.

use std::path::Path;

use kallisto_core::JoinTarget;
use kallisto_store::Role;
use secrecy::SecretString;
use zeroize::Zeroizing;

use super::config::{JoinToken, RetryJoin};
use crate::cli::error::Error;
use crate::cli::files;

/// Whom to join, with the files read.
pub(super) fn target(join: &RetryJoin, wants: Role) -> Result<JoinTarget, Error> {
    let read = |path: &Path| {
        let bytes = files::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        bytes.map_err(|error| Error::usage(format!("{}: {error}", path.display())))
    };
    let client_identity = match &join.client_identity {
        Some((certificate, key)) => Some((read(certificate)?, read(key)?)),
        None => None,
    };
    Ok(JoinTarget {
        api_address: join.leader_api_addr.clone(),
        ca_cert: join.ca_cert_file.as_deref().map(read).transpose()?.unwrap_or_default(),
        client_identity,
        server_name: join.tls_server_name.clone(),
        token: join.join_token.as_ref().map(join_token).transpose()?.unwrap_or_default(),
        wants,
    })
}

/// The token to join with. Where its file is gone there is none: a cluster that wants one says so.
fn join_token(token: &JoinToken) -> Result<SecretString, Error> {
    let path = match token {
        JoinToken::Text(token) => return Ok(token.clone()),
        JoinToken::File(path) => path,
    };
    let unreadable = |what: &dyn std::fmt::Display| {
        Error::usage(format!("join_token_file {}: {what}", path.display()))
    };
    let bytes = match files::read(path) {
        Ok(bytes) => Zeroizing::new(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(SecretString::default());
        }
        Err(error) => return Err(unreadable(&error)),
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| unreadable(&"it holds no token"))?;
    Ok(SecretString::from(text.trim()))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn a_token_comes_from_its_file_and_may_be_gone() {
        let path = std::env::temp_dir().join(format!("kallisto-join-{}", std::process::id()));
        let token = JoinToken::File(path.clone());
        assert_eq!(join_token(&token).unwrap().expose_secret(), "");
        files::write_private(&path, b"kjt.canary\n").unwrap();
        assert_eq!(join_token(&token).unwrap().expose_secret(), "kjt.canary");
        files::write_private(&path, b"\xffcan").unwrap();
        let refused = join_token(&token).unwrap_err().to_string();
        assert!(refused.ends_with("it holds no token"), "{refused}");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(join_token(&token).is_err());
        std::fs::remove_dir(&path).unwrap();
    }
}
