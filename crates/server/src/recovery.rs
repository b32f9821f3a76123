//! `raft/peers.json` in the storage's directory: an operator's word that this server is all that is left of its cluster.
//!
//! The file is Vault's, an array of `{"id", "address", "non_voter"}`, and here it names this server and nobody else: others
//! join again, empty. It is read once, before the store opens, and renamed when that is done, before anybody is served.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kallisto_core::json::parse;
use kallisto_store::Peer;

use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_command::json::Json;

/// The file that is still to be taken.
pub(super) struct PeersFile(PathBuf);

impl PeersFile {
    /// What the operator of the storage in `directory` asks for, if anything.
    pub(super) fn read(directory: &Path, own: &Peer) -> Result<Option<Self>, Error> {
        let path = directory.join("raft").join("peers.json");
        let bytes = match files::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(refused(&path, &error.to_string())),
        };
        check(&bytes, own).map_err(|why| refused(&path, &why))?;
        Ok(Some(Self(path)))
    }

    /// The store is open with this server as its only member.
    pub(super) fn done(self) -> Result<(), Error> {
        let taken = self.0.with_extension("json.taken");
        std::fs::rename(&self.0, &taken).map_err(|error| refused(&self.0, &error.to_string()))?;
        tracing::warn!(
            file = %taken.display(),
            "this server is the only member of its cluster now: empty the directories of all others before they join again"
        );
        Ok(())
    }
}

fn refused(path: &Path, why: &str) -> Error {
    Error::usage(format!("{}: {why}", path.display()))
}

/// Whether these are the bytes of an array that names `own`, as a voter, and nobody else.
fn check(bytes: &[u8], own: &Peer) -> Result<(), String> {
    let form = || "an array of one {\"id\", \"address\", \"non_voter\"} is expected".to_owned();
    let Ok(Json::Array(servers)) = parse(bytes) else { return Err(form()) };
    let [Json::Object(server)] = &servers[..] else {
        return Err(format!(
            "it has to name this server, {:?}, and nobody else: the others join again, with empty directories",
            own.name
        ));
    };
    let text = |key: &str| match server.get(key) {
        Some(Json::String(text)) => Ok(text.to_string()),
        _ => Err(form()),
    };
    let (id, address) = (text("id")?, text("address")?);
    if id != own.name {
        return Err(format!("it names {id:?}, and this server is {:?}", own.name));
    }
    if address != own.cluster_address {
        return Err(format!("the cluster address is {:?}, not {address:?}", own.cluster_address));
    }
    match server.get("non_voter") {
        None | Some(Json::Bool(false)) => Ok(()),
        Some(_) => Err("the only member has to vote".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_names_this_server_and_nobody_else() {
        let own = Peer {
            name: "one".to_owned(),
            cluster_address: "127.0.0.1:8201".to_owned(),
            ..Peer::default()
        };
        for (text, taken) in [
            (r#"[{"id":"one","address":"127.0.0.1:8201"}]"#, true),
            (r#"[{"id":"one","address":"127.0.0.1:8201","non_voter":false}]"#, true),
            (r#"[{"id":"one","address":"127.0.0.1:8201","non_voter":true}]"#, false),
            (r#"[{"id":"two","address":"127.0.0.1:8201"}]"#, false),
            (r#"[{"id":"one","address":"127.0.0.1:9"}]"#, false),
            (r#"[{"id":"one","address":"127.0.0.1:8201"},{"id":"two","address":"h:1"}]"#, false),
            (r#"[{"id":"one"}]"#, false),
            ("[]", false),
            ("{}", false),
            ("", false),
        ] {
            assert_eq!(check(text.as_bytes(), &own).is_ok(), taken, "{text}");
        }
    }
}
