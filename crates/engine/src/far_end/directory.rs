//! What a directory is asked, and what it answers.

use std::collections::BTreeMap;
use std::fmt;

use zeroize::Zeroizing;

/// Operations of LDAP, one after another; the first that the directory refuses ends it. A directory has no transactions: those before it
/// were done.
#[derive(Clone, Debug)]
pub struct LdapWork {
    /// The operations.
    pub operations: Vec<LdapOperation>,
    /// What a missing entry or attribute means.
    pub missing: MissingEntry,
}

/// What it means that an entry or an attribute is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingEntry {
    /// It counts as deleted: work that takes something back may be done twice.
    Passes,
    /// The work fails there.
    Fails,
}

/// An operation of LDAP (RFC 4511).
#[derive(Clone, Debug)]
pub enum LdapOperation {
    /// Finds entries.
    Search(LdapSearch),
    /// Makes an entry.
    Add {
        /// Its name.
        dn: String,
        /// What it has.
        attributes: Vec<LdapAttribute>,
    },
    /// Changes an entry.
    Modify {
        /// Its name.
        dn: String,
        /// The changes, all of them or none.
        changes: Vec<(LdapChange, LdapAttribute)>,
    },
    /// Gives an entry another name.
    Rename {
        /// Its name.
        dn: String,
        /// The first part of its new name.
        rdn: String,
        /// Whether the values of the old one go.
        deletes_old: bool,
        /// Below which entry it goes, if it goes elsewhere.
        parent: Option<String>,
    },
    /// Deletes an entry.
    Delete {
        /// Its name.
        dn: String,
    },
    /// Says as whom the session is logged in (RFC 4532).
    WhoAmI,
}

/// How an attribute is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LdapChange {
    /// It has these values besides.
    Add,
    /// It has these values no longer; no values at all for none given.
    Delete,
    /// It has these values.
    Replace,
}

/// An attribute.
#[derive(Clone, Debug)]
pub struct LdapAttribute {
    /// Its name.
    pub name: String,
    /// Its values.
    pub values: Vec<LdapValue>,
}

/// A value of an attribute, which may be a password.
#[derive(Clone)]
pub struct LdapValue(pub Zeroizing<Vec<u8>>);

/// What is looked for.
#[derive(Clone, Debug)]
pub struct LdapSearch {
    /// The entry at which it begins.
    pub base: String,
    /// How far it goes.
    pub scope: LdapScope,
    /// Which entries, as RFC 4515 writes it.
    pub filter: String,
    /// Which attributes of them.
    pub attributes: Vec<String>,
    /// How many entries at the most.
    pub entries_max: u32,
    /// How many of them at a time; 0 for all at once.
    pub page_size: u32,
    /// Whether aliases are followed.
    pub dereference: LdapDereference,
}

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LdapScope {
    /// The entry itself.
    Base,
    /// All below it, and itself.
    Subtree,
}

/// Whether aliases are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LdapDereference {
    /// They are not.
    #[default]
    Never,
    /// When the entry at which a search begins is found.
    Finding,
    /// Below that entry.
    Searching,
    /// Both.
    Always,
}

/// An entry. Values that are no text are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LdapEntry {
    /// Its name.
    pub dn: String,
    /// Its attributes, by their names in lower case.
    pub attributes: BTreeMap<String, Vec<String>>,
}

impl LdapEntry {
    /// The values of an attribute, whatever the case of its name.
    pub fn values(&self, name: &str) -> &[String] {
        self.attributes.get(&name.to_ascii_lowercase()).map_or(&[], Vec::as_slice)
    }
}

impl LdapValue {
    /// The value that a text is.
    pub fn text(text: &str) -> Self {
        Self(Zeroizing::new(text.as_bytes().to_vec()))
    }
}

impl fmt::Debug for LdapValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LdapValue")
    }
}
