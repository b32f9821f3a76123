//! A caller's mistakes that are told with another status than 400, because a client that exists
//! decides by it.
//!
//! The rule is that whoever asks wrongly hears of a 4xx: 5xx are for what the server did wrong, and
//! are counted and alarmed on as such. Vault answers some mistakes with a 500 or a 404, and a few
//! clients act on just that. Those are listed here, each with who looks at it; docs/api.md has the same
//! list for users. Nothing else may answer a mistake with a 5xx.

use std::fmt;

/// A mistake whose status clients know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A secret id, a role id or a part of an AppRole role that is not there is to be written: 404.
    /// Clients make the role then.
    NoRole(String),
    /// A secret id of an AppRole role that is not there is looked up or destroyed: 500. Terraform's
    /// provider takes a secret id out of its state by the status and the words, and fails for ever on
    /// anything else.
    NoRoleOfSecretId(String),
    /// A transit key may not be backed up; the message says why: 500. Tests of hvac and of other
    /// clients expect their error for a server's.
    NoBackup(String),
    /// A backup would replace a transit key that is there: 500, for the same clients.
    KeyExists(String),
    /// Somebody logs in by GitHub who is in another organization: 500. Tests of hvac expect their error for a server's.
    NotInOrganization,
}

impl Expected {
    /// The status on the wire.
    pub const fn status(&self) -> u16 {
        match self {
            Self::NoRole(_) => 404,
            Self::NoRoleOfSecretId(_)
            | Self::NoBackup(_)
            | Self::KeyExists(_)
            | Self::NotInOrganization => 500,
        }
    }

    /// Whether its message is told as one of a list of errors with one member.
    pub const fn is_counted(&self) -> bool {
        self.status() == 500
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRole(name) | Self::NoRoleOfSecretId(name) => {
                write!(f, "role {name:?} does not exist")
            }
            Self::NoBackup(why) => f.write_str(why),
            Self::KeyExists(name) => write!(f, "key {name:?} already exists"),
            Self::NotInOrganization => f.write_str("user is not part of required org"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row of the table in docs/api.md, and no other.
    #[test]
    fn the_document_lists_every_one_with_its_status() {
        let documented = include_str!("../../../docs/api.md");
        for (mistake, row) in [
            (
                Expected::NoRole(String::new()),
                "write a secret id, a role id or another part of an AppRole role",
            ),
            (
                Expected::NoRoleOfSecretId(String::new()),
                "look up or destroy a secret id (or its accessor)",
            ),
            (Expected::NoBackup(String::new()), "back up a transit key that does not allow it"),
            (Expected::KeyExists(String::new()), "restore a backup over an existing transit key"),
            (Expected::NotInOrganization, "log in with GitHub from outside the organization"),
        ] {
            let line = documented.lines().find(|line| line.contains(row));
            let line = line.unwrap_or_else(|| panic!("docs/api.md has no row {row:?}"));
            assert!(line.contains(&format!("| {} |", mistake.status())), "{line}");
            assert_eq!(mistake.is_counted(), mistake.status() == 500);
        }
    }
}
