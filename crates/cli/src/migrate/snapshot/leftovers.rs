//! What is in a snapshot, does not move, and is asked for by nobody: it is named, by what it is or by where it is.

use std::collections::BTreeMap;

use kallisto_vault_snapshot::OpenSnapshot;

use super::layout::SourceNamespace;

/// Something that does not move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::migrate) struct LeftBehind {
    pub(in crate::migrate) kind: &'static str,
    pub(in crate::migrate) namespace: String,
    pub(in crate::migrate) path: String,
    pub(in crate::migrate) why: String,
}

/// Folders of a namespace whose content is known: what it is and why it stays, or nothing for what moves and for the server's own.
const FOLDERS: &[(&str, Option<(&str, &str)>)] = &[
    ("core/", None),
    ("sys/counters/", None),
    ("sys/expire/", None),
    ("sys/login-mfa/", Some(("second factors", BY_HAND))),
    ("sys/mfa/", Some(("second factors", BY_HAND))),
    ("sys/password_policy/", None),
    ("sys/policy/", None),
    ("sys/quotas/", Some(("quotas", BY_HAND))),
    ("sys/token/", None),
];
const BY_HAND: &str = "they are not moved: set them up by hand";
/// What a server has in its identity mount of its own.
const OWN_OIDC: [&str; 3] = [
    "oidc_provider/assignment/allow_all",
    "oidc_provider/provider/default",
    "oidc_tokens/named_keys/default",
];

/// What does not move, counted by folder.
pub(super) fn find(
    opened: &OpenSnapshot,
    namespaces: &BTreeMap<String, SourceNamespace>,
) -> Vec<LeftBehind> {
    let mut found = Vec::new();
    let passed_by = opened.passed_by;
    for (kind, count) in [("tokens", passed_by.tokens), ("leases", passed_by.leases)] {
        if count > 0 {
            let why = format!("{count} of them: they belong to the server that made them");
            found.push(LeftBehind { kind, namespace: String::new(), path: String::new(), why });
        }
    }
    for (namespace, at) in namespaces {
        let mut counts: BTreeMap<(&'static str, String, &'static str), usize> = BTreeMap::new();
        for path in opened.below(at.prefix()) {
            let rest = path.strip_prefix(at.prefix()).unwrap_or_default();
            if let Some(stays) = classify(at, path, rest) {
                *counts.entry(stays).or_default() += 1;
            }
        }
        found.extend(counts.into_iter().map(|((kind, folder, why), count)| LeftBehind {
            kind,
            namespace: namespace.clone(),
            path: folder,
            why: format!("{count} of them: {why}"),
        }));
    }
    found
}

/// What a record is that stays, the folder it is counted by, and why; nothing for those that move.
fn classify(
    at: &SourceNamespace,
    path: &str,
    rest: &str,
) -> Option<(&'static str, String, &'static str)> {
    // Other namespaces are below the first one's prefix, which is empty.
    if rest.starts_with("namespaces/") {
        return None;
    }
    if let Some((folder, stays)) = FOLDERS.iter().find(|(folder, _)| rest.starts_with(folder)) {
        return stays.map(|(kind, why)| (kind, (*folder).to_owned(), why));
    }
    let mount =
        at.mounts.values().chain(at.methods.values()).find(|it| path.starts_with(&it.folder));
    match mount {
        Some(mount) if mount.kind == "identity" => {
            let own = path.strip_prefix(&mount.folder).unwrap_or_default();
            let stays = !own.starts_with("packer/") && !OWN_OIDC.contains(&own);
            let folder = own.split('/').next().unwrap_or_default();
            stays.then(|| ("OIDC and others of identity", format!("{folder}/"), BY_HAND))
        }
        Some(_) => None,
        None => {
            let folder: Vec<&str> = rest.split('/').take(2).collect();
            Some(("records", folder.join("/"), "what they are is not understood"))
        }
    }
}
