//! Where a rule holds: everything, a namespace, a mount, a path that may end in `*`, or the logins by a role.
//!
//! Rules of both kinds have one, for requests and for leases. Of those that match, the one of the highest rank counts: the role's before
//! the path's before the mount's before the namespace's before the one for everything, the longer path first.

/// Where a rule holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QuotaScope {
    /// From the root namespace on: empty for everything; a mount's or a namespace's path ends in a slash.
    pub(crate) path: String,
    /// The namespace that its path is in, or that it is: how its path begins.
    pub(crate) namespace: String,
    /// The role whose logins at the mount it holds for; empty for all of the path.
    pub(crate) role: String,
    /// Whether a rule for a whole namespace holds in those below it too.
    pub(crate) is_inheritable: bool,
}

impl QuotaScope {
    /// Whether it is for all of its namespace.
    pub(crate) fn is_for_namespace(&self) -> bool {
        self.path == self.namespace
    }

    /// Whether it is for what is in this namespace, path aside.
    pub(crate) fn holds_in(&self, namespace: &str) -> bool {
        match self.is_inheritable && self.is_for_namespace() {
            true => namespace.starts_with(&self.namespace),
            false => namespace == self.namespace,
        }
    }

    /// Higher is tried first: roles, then paths, then mounts, then namespaces, the root one last.
    pub(super) fn rank(&self) -> (u8, usize) {
        let kind = match self.path.as_str() {
            _ if !self.role.is_empty() => 4,
            _ if self.is_for_namespace() => 0,
            mount if mount.ends_with('/') => 1,
            prefix if prefix.ends_with('*') => 2,
            _ => 3,
        };
        (kind, self.path.len())
    }

    /// The part of its path that is inside the namespace of this path, without a `*`: what everything it holds for there begins with.
    pub(crate) fn prefix_in(&self, namespace: &str) -> &str {
        let inside = self.path.get(namespace.len()..).unwrap_or_default();
        inside.strip_suffix('*').unwrap_or(inside)
    }

    /// Whether it is for a path inside a namespace that it holds in.
    pub(crate) fn fits_in(&self, namespace: &str, path: &str) -> bool {
        match self.is_for_namespace() {
            true => true,
            false => fits(self.path.get(namespace.len()..).unwrap_or_default(), path),
        }
    }

    /// Whether it is for a mount of this namespace, or for paths in it; with an empty mount, for anything of the namespace.
    pub(crate) fn is_of(&self, namespace: &str, mount: &str) -> bool {
        let inside = self.path.strip_prefix(namespace).filter(|_| self.namespace == namespace);
        inside.is_some_and(|inside| inside.starts_with(mount))
    }

    /// The same scope once the mount at `from` of a namespace is at `to`; `None` where that changes nothing of it.
    pub(crate) fn moved(&self, namespace: &str, from: &str, to: &str) -> Option<Self> {
        if self.namespace != namespace {
            return None;
        }
        let rest = self.path.strip_prefix(namespace)?.strip_prefix(from)?;
        Some(Self { path: format!("{namespace}{to}{rest}"), ..self.clone() })
    }

    /// Whether two rules of one kind would hold for the same.
    pub(super) fn is_twin(&self, other: &Self) -> bool {
        (&self.path, &self.role) == (&other.path, &other.role)
    }
}

/// Whether a rule's path is for `path`: the same, or all that begins with it. The path of a list ends in a slash, which
/// a rule for it may leave out.
pub(super) fn fits(rule: &str, path: &str) -> bool {
    match rule.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None if rule.is_empty() || rule.ends_with('/') => path.starts_with(rule),
        None => path.strip_suffix('/').unwrap_or(path) == rule,
    }
}

/// Whether a path is exempt from all rules by what the settings have: it begins with that. An empty text is no exemption.
pub(super) fn exempts(exempt: &str, path: &str) -> bool {
    !exempt.is_empty() && path.starts_with(exempt.strip_suffix('*').unwrap_or(exempt))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_for_itself_and_a_folder_or_a_star_for_what_begins_with_it() {
        for (rule, path, is_for) in [
            ("kv/data/a", "kv/data/a", true),
            ("kv/data/a", "kv/data/a/", true),
            ("kv/data/a", "kv/data/ab", false),
            ("kv/data/a", "kv/data/a/b", false),
            ("kv/data/a*", "kv/data/ab", true),
            ("kv/", "kv/data/a", true),
            ("kv/", "kvs/data/a", false),
            ("", "kv/data/a", true),
        ] {
            assert_eq!(fits(rule, path), is_for, "{rule} {path}");
        }
    }

    #[test]
    fn what_a_rule_holds_for_begins_with_its_path_in_its_namespace() {
        let prefix = |path: &str| {
            let scope = QuotaScope { path: path.to_owned(), ..QuotaScope::default() };
            scope.prefix_in("team/").to_owned()
        };
        assert_eq!(["team/kv/a*", "team/kv/", "team/"].map(prefix), ["kv/a", "kv/", ""]);
    }
}
