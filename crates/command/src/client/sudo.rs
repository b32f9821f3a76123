//! What a client knows of the root-protected paths without asking: calling one needs `sudo` besides the capability of the operation.
//!
//! The server decides by its tables of routes. A test of the binary holds this list to what the server's OpenAPI document says of them.

use kallisto_auth::Operation;

/// When a path is protected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Always.
    Every,
    /// When it is listed or scanned.
    Listing,
    /// When anything but reading is done there.
    Writing,
}

/// Protected paths, without the slash at the end of a list's. A `*` at the end stands for anything but nothing.
const PROTECTED: [(&str, Of); 40] = [
    ("auth/token/accessors", Of::Every),
    ("auth/token/revoke-orphan", Of::Every),
    ("sys/audit", Of::Every),
    ("sys/audit-head/*", Of::Every),
    ("sys/audit/*", Of::Every),
    ("sys/auth/*", Of::Every),
    ("sys/config/auditing/*", Of::Every),
    ("sys/config/cors", Of::Every),
    ("sys/config/ui/*", Of::Every),
    ("sys/durability", Of::Every),
    ("sys/internal/inspect/*", Of::Every),
    ("sys/leases", Of::Every),
    ("sys/leases/lookup", Of::Listing),
    ("sys/leases/lookup/*", Of::Every),
    ("sys/leases/revoke-force/*", Of::Every),
    ("sys/leases/revoke-prefix/*", Of::Every),
    ("sys/leases/tidy", Of::Every),
    ("sys/plugins/catalog/*", Of::Every),
    ("sys/raw", Of::Every),
    ("sys/raw/*", Of::Every),
    ("sys/rekey-recovery-key/*", Of::Every),
    ("sys/rekey/*", Of::Every),
    ("sys/remount", Of::Every),
    ("sys/rotate", Of::Every),
    ("sys/rotate/keyring", Of::Every),
    ("sys/rotate/progress", Of::Every),
    ("sys/rotate/recovery/*", Of::Every),
    ("sys/rotate/root/*", Of::Every),
    ("sys/save", Of::Every),
    ("sys/seal", Of::Every),
    ("sys/step-down", Of::Every),
    ("sys/storage/raft/bootstrap/configuration", Of::Every),
    ("sys/storage/raft/bootstrap/token", Of::Every),
    ("sys/storage/raft/certificate/*", Of::Every),
    ("sys/storage/raft/demote", Of::Every),
    ("sys/storage/raft/promote", Of::Every),
    ("sys/storage/raft/remove-peer", Of::Every),
    ("sys/storage/raft/snapshot", Of::Writing),
    ("sys/storage/raft/snapshot-auto/*", Of::Every),
    ("sys/storage/raft/snapshot-force", Of::Every),
];

/// True when `operation` at `path` needs `sudo`.
pub fn needs_sudo(operation: Operation, path: &str) -> bool {
    // Most requests end here.
    if !path.starts_with("sys/") && !path.starts_with("auth/token/") {
        return false;
    }
    let is_listing = matches!(operation, Operation::List | Operation::Scan);
    let path = path.strip_suffix('/').unwrap_or(path);
    PROTECTED.iter().any(|(pattern, of)| {
        let is_path = match pattern.strip_suffix('*') {
            Some(prefix) => path.len() > prefix.len() && path.starts_with(prefix),
            None => path == *pattern,
        };
        is_path
            && match of {
                Of::Every => true,
                Of::Listing => is_listing,
                Of::Writing => operation != Operation::Read,
            }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_names_no_path_twice() {
        assert!(PROTECTED.is_sorted_by(|(one, _), (other, _)| one < other));
    }

    #[test]
    fn protected_paths_and_their_neighbours() {
        use Operation::{List, Read, Update};
        for (operation, path, is_protected) in [
            (List, "auth/token/accessors", true),
            (Update, "auth/token/create", false),
            (Update, "auth/token/revoke-orphan", true),
            (Read, "sys/audit", true),
            (Update, "sys/audit/file", true),
            (Read, "sys/auth", false),
            (Read, "sys/auth/token", true),
            (Update, "sys/auth/token/tune", true),
            (Update, "sys/leases/lookup", false),
            (List, "sys/leases/lookup", true),
            (List, "sys/leases/lookup/", true),
            (List, "sys/leases/lookup/auth/", true),
            (Update, "sys/leases/revoke-prefix/auth/", true),
            (Update, "sys/leases/revoke", false),
            (Update, "sys/seal", true),
            (Read, "sys/storage/raft/autopilot/configuration", false),
            (Read, "sys/storage/raft/snapshot", false),
            (Update, "sys/storage/raft/snapshot", true),
            (Update, "sys/storage/raft/snapshot-force", true),
            (Read, "sys/rotate/config", false),
            (Update, "sys/rotate/root/init", true),
            (List, "auth/token/accessors/", true),
            (Update, "sys/unseal", false),
            (Update, "sys/sealed", false),
            (Read, "secret/data/sys/seal", false),
            (Read, "sys/mounts", false),
        ] {
            assert_eq!(needs_sudo(operation, path), is_protected, "{operation:?} {path}");
        }
    }
}
