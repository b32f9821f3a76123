//! What a client knows of the root-protected paths without asking: calling one needs `sudo` besides the capability of the operation.
//!
//! The server decides by its tables of routes. A test of the binary holds this list to what the server's OpenAPI document says of them.

use kallisto_auth::Operation;

/// When a path is protected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProtectedWhen {
    /// Always.
    Every,
    /// When it is listed or scanned.
    Listing,
    /// When anything but reading is done there.
    Writing,
}

/// Protected paths, without the slash at the end of a list's. A `*` at the end stands for anything but nothing.
const PROTECTED: [(&str, ProtectedWhen); 47] = [
    ("auth/token/accessors", ProtectedWhen::Every),
    ("auth/token/revoke-orphan", ProtectedWhen::Every),
    ("sys/audit", ProtectedWhen::Every),
    ("sys/audit-head/*", ProtectedWhen::Every),
    ("sys/audit/*", ProtectedWhen::Every),
    ("sys/auth/*", ProtectedWhen::Every),
    ("sys/config/auditing/*", ProtectedWhen::Every),
    ("sys/config/cors", ProtectedWhen::Every),
    ("sys/config/ui/*", ProtectedWhen::Every),
    ("sys/durability", ProtectedWhen::Every),
    ("sys/internal/inspect/*", ProtectedWhen::Every),
    ("sys/kallisto/access/who", ProtectedWhen::Every),
    ("sys/kallisto/audit/*", ProtectedWhen::Every),
    ("sys/kallisto/cluster", ProtectedWhen::Every),
    ("sys/kallisto/far-ends", ProtectedWhen::Every),
    ("sys/kallisto/metrics", ProtectedWhen::Every),
    ("sys/kallisto/tokens", ProtectedWhen::Every),
    ("sys/leases", ProtectedWhen::Every),
    ("sys/leases/lookup", ProtectedWhen::Listing),
    ("sys/leases/lookup/*", ProtectedWhen::Every),
    ("sys/leases/revoke-force/*", ProtectedWhen::Every),
    ("sys/leases/revoke-prefix/*", ProtectedWhen::Every),
    ("sys/leases/tidy", ProtectedWhen::Every),
    ("sys/plugins/catalog/*", ProtectedWhen::Every),
    ("sys/raw", ProtectedWhen::Every),
    ("sys/raw/*", ProtectedWhen::Every),
    ("sys/rekey-recovery-key/*", ProtectedWhen::Every),
    ("sys/rekey/*", ProtectedWhen::Every),
    ("sys/remount", ProtectedWhen::Every),
    ("sys/rotate", ProtectedWhen::Every),
    ("sys/rotate/keyring", ProtectedWhen::Every),
    ("sys/rotate/progress", ProtectedWhen::Every),
    ("sys/rotate/recovery/*", ProtectedWhen::Every),
    ("sys/rotate/root/*", ProtectedWhen::Every),
    ("sys/save", ProtectedWhen::Every),
    ("sys/seal", ProtectedWhen::Every),
    ("sys/step-down", ProtectedWhen::Every),
    ("sys/storage/raft/bootstrap/configuration", ProtectedWhen::Every),
    ("sys/storage/raft/bootstrap/token", ProtectedWhen::Every),
    ("sys/storage/raft/certificate/*", ProtectedWhen::Every),
    ("sys/storage/raft/demote", ProtectedWhen::Every),
    ("sys/storage/raft/promote", ProtectedWhen::Every),
    ("sys/storage/raft/remove-peer", ProtectedWhen::Every),
    ("sys/storage/raft/snapshot", ProtectedWhen::Writing),
    ("sys/storage/raft/snapshot-auto/config", ProtectedWhen::Every),
    ("sys/storage/raft/snapshot-auto/config/*", ProtectedWhen::Every),
    ("sys/storage/raft/snapshot-force", ProtectedWhen::Every),
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
                ProtectedWhen::Every => true,
                ProtectedWhen::Listing => is_listing,
                ProtectedWhen::Writing => operation != Operation::Read,
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
