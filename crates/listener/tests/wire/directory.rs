//! Stands in for the directory that was there when exchanges with the login method and the engine for directories were recorded.

use std::collections::BTreeMap;

use kallisto_engine::far_end::{
    FarEndLogin, LdapAttribute, LdapChange, LdapEntry, LdapOperation, LdapScope, LdapSearch,
    LdapWork,
};
use kallisto_engine::{FarEnd, FarEndAnswer, FarEndFailure};
use secrecy::ExposeSecret;

const BASE: &str = "dc=example,dc=org";
const PORT: u16 = 8660;

/// Entries by their names in lower case: each with its name, and its attributes.
#[derive(Default)]
pub(crate) struct Directory(BTreeMap<String, LdapEntry>);

impl Directory {
    /// As it was when it was recorded.
    pub(crate) fn recorded() -> Self {
        let mut directory = Self::default();
        let person = |cn: &str| format!("cn={cn},ou=people,{BASE}");
        let group = |cn: &str| format!("cn={cn},ou=groups,{BASE}");
        let (engineers, staff) = (group("engineers"), group("all staff"));
        for (name, password) in [("admin", "adminpw"), ("binder", "binderpw")] {
            directory.add(&format!("cn={name},{BASE}"), &[("userPassword", password)]);
        }
        for (cn, uid, password, groups) in [
            ("Alice A", "alice", "alicepw", vec![&engineers, &staff]),
            ("Bob (B)", "bob", "bobpw", vec![&staff]),
            ("svc1", "svc1", "svc1pw", Vec::new()),
            ("svc2", "svc2", "svc2pw", Vec::new()),
        ] {
            let mail = format!("{uid}@example.org");
            let mut attributes = vec![
                ("objectClass", "inetOrgPerson"),
                ("cn", cn),
                ("uid", uid),
                ("mail", &mail),
                ("userPassword", password),
            ];
            attributes.extend(groups.iter().map(|group| ("memberOf", group.as_str())));
            directory.add(&person(cn), &attributes);
        }
        let (alice, bob) = (person("Alice A"), person("Bob (B)"));
        directory.add(&engineers, &[("cn", "engineers"), ("member", &alice)]);
        directory.add(&staff, &[("cn", "all staff"), ("member", &alice), ("member", &bob)]);
        directory
    }

    fn add(&mut self, dn: &str, attributes: &[(&str, &str)]) {
        let mut entry = LdapEntry { dn: dn.to_owned(), attributes: BTreeMap::new() };
        for (name, value) in attributes {
            let values = entry.attributes.entry(name.to_ascii_lowercase()).or_default();
            values.push((*value).to_owned());
        }
        self.0.insert(dn.to_lowercase(), entry);
    }

    /// Logs in, and does what is asked.
    pub(crate) fn act(
        &mut self,
        far_end: &FarEnd,
        login: &FarEndLogin,
        work: Option<&LdapWork>,
    ) -> Result<FarEndAnswer, FarEndFailure> {
        if !far_end.hosts.iter().any(|(_, port)| *port == PORT) {
            return Err(FarEndFailure::Unreachable("connection refused".into()));
        }
        let password = login.password.expose_secret();
        let entry = self.0.get(&login.user.to_lowercase());
        let is_known =
            entry.is_some_and(|it| it.values("userPassword").iter().any(|it| it == password));
        if !login.user.is_empty() && !password.is_empty() && !is_known {
            return Err(FarEndFailure::LoginRefused("Invalid credentials (49)".into()));
        }
        let mut answer = FarEndAnswer::Done;
        for operation in work.map_or(&[][..], |work| &work.operations) {
            match operation {
                LdapOperation::Search(search) => {
                    let entries = self.search(search);
                    answer = FarEndAnswer::Entries { entries, is_whole: true };
                }
                LdapOperation::Add { dn, attributes } => {
                    self.add(dn, &[]);
                    self.change(dn, LdapChange::Replace, attributes.iter());
                }
                LdapOperation::Modify { dn, changes } => {
                    for (change, attribute) in changes {
                        self.change(dn, *change, std::iter::once(attribute));
                    }
                }
                LdapOperation::Delete { dn } => drop(self.0.remove(&dn.to_lowercase())),
                LdapOperation::WhoAmI => {
                    answer = FarEndAnswer::Identity(format!("dn:{}", login.user));
                }
                LdapOperation::Rename { .. } => panic!("nothing that was recorded renames"),
            }
        }
        Ok(answer)
    }

    fn change<'a>(
        &mut self,
        dn: &str,
        change: LdapChange,
        attributes: impl Iterator<Item = &'a LdapAttribute>,
    ) {
        let entry = self.0.get_mut(&dn.to_lowercase()).unwrap();
        for attribute in attributes {
            let values = attribute.values.iter();
            let values =
                values.map(|value| String::from_utf8_lossy(&value.0).into_owned()).collect();
            assert_ne!(change, LdapChange::Delete, "nothing that was recorded deletes a value");
            entry.attributes.insert(attribute.name.to_ascii_lowercase(), values);
        }
    }

    fn search(&self, search: &LdapSearch) -> Vec<LdapEntry> {
        let base = search.base.to_lowercase();
        let is_in = |dn: &String| match search.scope {
            LdapScope::Base => *dn == base,
            LdapScope::Subtree => dn.ends_with(&base),
        };
        let mut filter = search.filter.as_str();
        let wanted = Filter::read(&mut filter);
        let found = self.0.iter().filter(|(dn, entry)| is_in(dn) && wanted.holds(entry));
        found.map(|(_, entry)| entry.clone()).collect()
    }
}

/// A filter of RFC 4515, as far as what was recorded needs it.
enum Filter {
    All(Vec<Self>),
    Any(Vec<Self>),
    Is(String, String),
}

impl Filter {
    fn read(text: &mut &str) -> Self {
        let take = |text: &mut &str, c: char| *text = text.strip_prefix(c).unwrap();
        take(text, '(');
        let first = text.chars().next().unwrap();
        if !matches!(first, '&' | '|') {
            let (inside, rest) = text.split_once(')').unwrap();
            *text = rest;
            let (name, value) = inside.split_once('=').unwrap();
            return Self::Is(name.to_owned(), plain(value));
        }
        take(text, first);
        let mut parts = Vec::new();
        while text.starts_with('(') {
            parts.push(Self::read(text));
        }
        take(text, ')');
        if first == '&' { Self::All(parts) } else { Self::Any(parts) }
    }

    fn holds(&self, entry: &LdapEntry) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.holds(entry)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(entry)),
            Self::Is(name, value) if value == "*" => {
                name.eq_ignore_ascii_case("objectClass") || !entry.values(name).is_empty()
            }
            Self::Is(name, value) => {
                entry.values(name).iter().any(|found| found.eq_ignore_ascii_case(value))
            }
        }
    }
}

/// A value without its escapes.
fn plain(value: &str) -> String {
    let mut parts = value.split('\\');
    let mut out = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        out.push(u8::from_str_radix(&part[..2], 16).unwrap());
        out.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(out).unwrap()
}
