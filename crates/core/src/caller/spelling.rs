//! One spelling of a request's path, settled once: where its namespace is settled, before the request is counted, audited
//! or judged.
//!
//! A `/` at the end says "the folder", and a folder is listed. So each operation has one form of a path:
//!
//! | operation | form | the other form |
//! |---|---|---|
//! | list, scan | ends in `/` | the slash is added |
//! | write, patch, recover | does not | refused |
//! | read, delete below `sys/` | does not | the slash is taken off |
//! | read, delete elsewhere | as given | names a folder, where no entry is: [`inside`] answers so |
//!
//! Below `sys/` clients write the paths of mounts, policies and namespaces both ways, and mean the same.
//!
//! Names that have no case (of policies, users, roles, entities and such) keep the case they are sent in, as in Vault; what
//! is decided and counted does not hang on it ([`caseless`]).
//!
//! Invariants:
//! - Rate limits, audit records, the decision and the handler get one and the same path.
//! - A handler takes no slash off a request's path, so what it acts on is what was judged. But for the engines that keep
//!   secrets by path, it gets none at the end of one.
//!
//! Called by `namespaces::resolve` ([`canonical`]), by `engines` ([`inside`]), and by the decision and the
//! rate limits ([`caseless`]).

use std::borrow::Cow;

use kallisto_auth::Operation;

use crate::api::error::Error;
use crate::records::engine_kind::EngineKind;
use crate::view::{Mount, View};

/// Below which names have no case: what is there is kept under one spelling of each, or found by any.
const CASELESS: [&str; 3] = ["auth/", "identity/", SYSTEM];

/// The path, where what it names is one thing whatever the case of its letters: names of policies, users, roles,
/// certificates, headers, entities and groups. Rules and rate limits are looked up for it without case; `None` for all
/// other paths.
pub(crate) fn caseless(path: &str, view: &View) -> Option<Box<str>> {
    if !may_be_caseless(path) {
        return None;
    }
    let (mount, inside) = view.mounts.route(path)?;
    caseless_below(&mount, inside, path)
}

fn may_be_caseless(path: &str) -> bool {
    CASELESS.iter().any(|folder| path.starts_with(folder))
}

/// The same of a path that leads to `inside` of a mount.
pub(crate) fn caseless_below(mount: &Mount, inside: &str, path: &str) -> Option<Box<str>> {
    if !may_be_caseless(path) {
        return None;
    }
    let facts = mount.entry.kind.facts();
    let is_below = |folder: &&&str| inside.len() > folder.len() && inside.starts_with(**folder);
    let folder = facts.caseless_folders.iter().find(is_below)?;
    let name = &inside[folder.len()..];
    let name = if facts.trims_names { name.trim() } else { name };
    Some(format!("{}{folder}{name}", &path[..path.len() - inside.len()]).into())
}

/// What a write to a folder is told.
const NO_FOLDER_WRITES: &str = "cannot write to a path ending in '/'";
/// Where the server's own routes are. A final slash means nothing below it.
pub(crate) const SYSTEM: &str = "sys/";

/// The one spelling of `path`, which begins in the namespace that `operation` is for.
///
/// # Errors
/// [`Error::Invalid`] for a write to a folder.
pub(crate) fn canonical(operation: Operation, path: &str) -> Result<Cow<'_, str>, Error> {
    use Operation::{Delete, List, Patch, Read, Recover, Scan, Update};
    let Some(bare) = path.strip_suffix('/') else {
        let is_folder = matches!(operation, List | Scan) && !path.is_empty();
        return Ok(if is_folder { format!("{path}/").into() } else { path.into() });
    };
    match operation {
        Update | Patch | Recover => Err(Error::invalid(NO_FOLDER_WRITES)),
        Read | Delete if bare.starts_with(SYSTEM) => Ok(bare.into()),
        Read | Delete | List | Scan => Ok(path.into()),
    }
}

/// The path that an engine's handler gets for a [`canonical`] one inside its mount.
///
/// # Errors
/// [`Error::UnsupportedPath`] for a folder that is not listed. Engines that keep secrets by path know folders: there, one
/// is no entry.
pub(crate) fn inside(operation: Operation, kind: EngineKind, path: &str) -> Result<&str, Error> {
    let Some(bare) = path.strip_suffix('/') else { return Ok(path) };
    match operation {
        _ if kind.facts().has_folders => Ok(path),
        Operation::List | Operation::Scan => Ok(bare),
        _ => Err(Error::UnsupportedPath),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kallisto_engine::Class;

    #[test]
    fn each_operation_has_one_form_of_a_path() {
        use Operation::{Delete, List, Patch, Read, Scan, Update};
        for (operations, given, settled) in [
            (&[List, Scan][..], "secret/metadata", Some("secret/metadata/")),
            (&[List, Scan], "secret/metadata/", Some("secret/metadata/")),
            (&[List, Scan], "sys/policies/acl", Some("sys/policies/acl/")),
            (&[List, Scan], "", Some("")),
            (&[Update, Patch], "transit/decrypt/k", Some("transit/decrypt/k")),
            (&[Update, Patch], "transit/decrypt/k/", None),
            (&[Update, Patch], "sys/config/cors/", None),
            (&[Read, Delete], "sys/config/cors/", Some("sys/config/cors")),
            (&[Read, Delete], "sys/config/cors", Some("sys/config/cors")),
            (&[Read, Delete], "sys/", Some("sys/")),
            (&[Read, Delete], "secret/data/a/", Some("secret/data/a/")),
            (&[Read, Delete, Update, Patch], "", Some("")),
        ] {
            for &operation in operations {
                let answer = canonical(operation, given);
                assert_eq!(answer.as_deref().ok(), settled, "{operation:?} {given}");
                if let Ok(settled) = answer {
                    assert_eq!(
                        canonical(operation, &settled),
                        Ok(settled.clone()),
                        "twice: {given}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_folder_is_listed_and_nothing_else() {
        use Operation::{Delete, List, Read};
        assert_eq!(
            inside(List, EngineKind::mountable("transit", Class::Secret).unwrap(), "keys/"),
            Ok("keys")
        );
        assert_eq!(
            inside(Read, EngineKind::mountable("transit", Class::Secret).unwrap(), "keys/k"),
            Ok("keys/k")
        );
        assert_eq!(
            inside(Read, EngineKind::mountable("transit", Class::Secret).unwrap(), "keys/k/"),
            Err(Error::UnsupportedPath)
        );
        assert_eq!(
            inside(Delete, EngineKind::mountable("userpass", Class::Auth).unwrap(), "users/bob/"),
            Err(Error::UnsupportedPath)
        );
        assert_eq!(inside(Delete, EngineKind::KV_V2, "metadata/a/"), Ok("metadata/a/"));
        assert_eq!(inside(List, EngineKind::KV_V1, ""), Ok(""));
    }
}
