//! What a policy can grant, and sets of it.

use std::fmt;

/// One right on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capability {
    /// Write an entry that does not exist yet.
    Create,
    /// Delete.
    Delete,
    /// Nothing at all, whatever else is granted for the pattern.
    Deny,
    /// See the names of direct children.
    List,
    /// Change parts of an entry.
    Patch,
    /// Read.
    Read,
    /// Recover an entry from a loaded snapshot.
    Recover,
    /// See the names of everything below.
    Scan,
    /// Follow events of a path. Read in policies; no route asks for it.
    Subscribe,
    /// Use a root-protected path, in addition to the right that the operation needs.
    Sudo,
    /// Write an entry that exists, or call an endpoint.
    Update,
}

impl Capability {
    /// Every capability, sorted by name.
    pub const ALL: [Self; 11] = [
        Self::Create,
        Self::Delete,
        Self::Deny,
        Self::List,
        Self::Patch,
        Self::Read,
        Self::Recover,
        Self::Scan,
        Self::Subscribe,
        Self::Sudo,
        Self::Update,
    ];

    /// Its name in policies and on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Deny => "deny",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Read => "read",
            Self::Recover => "recover",
            Self::Scan => "scan",
            Self::Subscribe => "subscribe",
            Self::Sudo => "sudo",
            Self::Update => "update",
        }
    }

    /// The capability called `name`; names are lower case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|capability| capability.name() == name)
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// A set of capabilities.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Capabilities(u16);

impl Capabilities {
    /// The set of nothing.
    pub const NONE: Self = Self(0);
    /// The set of [`Capability::Deny`], which has room for nothing else.
    pub const DENY: Self = Self(Capability::Deny.bit());

    /// This set and `capability`. A denial takes everything else away and lets nothing in.
    #[must_use]
    pub const fn with(self, capability: Capability) -> Self {
        self.union(Self(capability.bit()))
    }

    /// What is in either set. A denial takes everything else away.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        let both = Self(self.0 | other.0);
        if both.is_denial() { Self::DENY } else { both }
    }

    /// What is in both sets. A denial takes everything else away.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        if self.is_denial() || other.is_denial() { Self::DENY } else { Self(self.0 & other.0) }
    }

    /// True when `capability` is in the set.
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & capability.bit() != 0
    }

    /// True when the set is the denial.
    pub const fn is_denial(self) -> bool {
        self.0 & Self::DENY.0 != 0
    }

    /// True when nothing is granted: the set is empty or the denial.
    pub const fn grants_nothing(self) -> bool {
        self.0 == 0 || self.is_denial()
    }

    /// The names, sorted, as the wire shows them: `deny` when nothing is granted.
    pub fn names(self) -> Vec<&'static str> {
        if self.grants_nothing() {
            return vec![Capability::Deny.name()];
        }
        let held = Capability::ALL.into_iter().filter(|capability| self.has(*capability));
        held.map(Capability::name).collect()
    }
}

impl FromIterator<Capability> for Capabilities {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Self {
        capabilities.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = Capability::ALL.into_iter().filter(|capability| self.has(*capability));
        f.debug_set().entries(held).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_leaves_room_for_nothing_else() {
        let set: Capabilities =
            [Capability::Read, Capability::Deny, Capability::List].into_iter().collect();
        assert_eq!(set, Capabilities::DENY);
        assert_eq!(set.with(Capability::Read).names(), ["deny"]);
        assert_eq!(Capabilities::NONE.names(), ["deny"]);
        assert!(!set.has(Capability::Read));
    }

    #[test]
    fn names_are_sorted_and_read_back() {
        let all = Capability::ALL.into_iter().filter(|c| *c != Capability::Deny);
        let names = all.collect::<Capabilities>().names();
        assert!(names.is_sorted());
        assert_eq!(names.len(), Capability::ALL.len() - 1);
        for capability in Capability::ALL {
            assert_eq!(Capability::named(capability.name()), Some(capability));
            assert_eq!(Capability::named(&capability.name().to_uppercase()), None);
        }
    }
}
