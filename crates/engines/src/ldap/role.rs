//! Dynamic roles, and `creds`: an entry for as long as its lease lives.
//!
//! What deletes the entry is in the lease before the directory is asked for it, so whatever crashes in between, the entry is deleted.
//!
//! Invariants:
//! - Every entry that a creation adds is named by the username, and no two usernames are the same: nobody else's entry is deleted.
//! - Every entry that a creation adds is deleted by `deletion_ldif`.
//! - Where the directory refused the first operation nothing is taken back: what is there was there before.

use jiff::Timestamp;
use kallisto_api::json::{self, Json, Map};
use kallisto_api::{BoxFuture, Error, Fields, Response};
use kallisto_engine::far_end::{LdapOperation, MissingEntry};
use kallisto_engine::{
    Call, EngineContext, LeaseCall, Leftover, MakeFailure, NewLease, RoleTtl, Stored,
};
use kallisto_ldap::{dn, ldif};
use secrecy::{ExposeSecret, SecretString};

use super::directory::{self, LdapDirectory};
use crate::passwords::make_password;
use crate::username::{self, cut, plain, random_text};

/// Random characters of a name: 59 bits.
const RANDOM_CHARS: usize = 10;

/// A role.
#[derive(Clone, Default)]
struct DirectoryRole {
    creation: String,
    deletion: String,
    rollback: String,
    username_template: String,
    default_secs: u64,
    max_secs: u64,
}

/// Whom an entry is made for, and what it is called.
struct DirectoryEntry {
    username: String,
    display_name: String,
    role: String,
}

impl DirectoryEntry {
    /// The operations of a template; without a password where there is none to tell.
    fn operations(
        &self,
        template: &str,
        password: Option<&SecretString>,
        times: (Timestamp, Timestamp),
    ) -> Result<Vec<LdapOperation>, String> {
        let (issued, ends) = times;
        let seconds = |time: Timestamp| time.as_second().to_string();
        let (issued_secs, ends_secs) = (seconds(issued), seconds(ends));
        let (issued, ends) = (issued.to_string(), ends.to_string());
        let mut values = vec![
            ("Username", self.username.as_str()),
            ("DisplayName", &self.display_name),
            ("RoleName", &self.role),
        ];
        if let Some(password) = password {
            values.extend([
                ("Password", password.expose_secret()),
                ("IssueTime", &issued),
                ("IssueTimeSeconds", &issued_secs),
                ("ExpirationTime", &ends),
                ("ExpirationTimeSeconds", &ends_secs),
            ]);
        }
        ldif::operations(template, &values)
    }
}

pub(super) fn record_name(name: &str) -> String {
    format!("role/{name}")
}

impl DirectoryRole {
    fn decode(stored: &Stored) -> Result<Self, Error> {
        stored.decode_object(|map| {
            let mut role = Self::default();
            role.take(Fields::new(map)).map(|()| role)
        })
    }

    fn take(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        for (name, text) in [
            ("creation_ldif", &mut self.creation),
            ("deletion_ldif", &mut self.deletion),
            ("rollback_ldif", &mut self.rollback),
            ("username_template", &mut self.username_template),
        ] {
            if let Some(given) = fields.string(name)? {
                *text = given;
            }
        }
        for (name, secs) in
            [("default_ttl", &mut self.default_secs), ("max_ttl", &mut self.max_secs)]
        {
            if let Some(given) = fields.span(name)? {
                *secs = u64::try_from(given.secs())
                    .map_err(|_| Error::invalid(format!("{name} is negative")))?;
            }
        }
        Ok(())
    }

    /// Whether the role can work, as far as that can be said without a directory.
    fn check(&self, now: Timestamp) -> Result<(), Error> {
        let entry =
            DirectoryEntry { username: "name".into(), display_name: "x".into(), role: "r".into() };
        let times = (now, now);
        let sample = SecretString::from("sample");
        for (name, text, password) in [
            ("creation_ldif", &self.creation, Some(&sample)),
            ("deletion_ldif", &self.deletion, None),
            ("rollback_ldif", &self.rollback, None),
        ] {
            if text.is_empty() {
                match name {
                    "rollback_ldif" => continue,
                    name => return Err(Error::invalid(format!("missing {name}"))),
                }
            }
            entry
                .operations(text, password, times)
                .map_err(|why| Error::invalid(format!("invalid {name}: {why}")))?;
        }
        if self.max_secs > 0 && self.default_secs > self.max_secs {
            return Err(Error::invalid("default_ttl is longer than max_ttl"));
        }
        if !self.username_template.is_empty() {
            username::check(&self.username_template)?;
        }
        self.check_names(times)
    }

    /// Whether what is added is named by the username, and deleted.
    fn check_names(&self, times: (Timestamp, Timestamp)) -> Result<(), Error> {
        let of = |username: &str, template: &str, password: Option<&SecretString>| {
            let (username, role) = (username.to_owned(), "r".to_owned());
            let entry = DirectoryEntry { username, display_name: "x".into(), role };
            entry.operations(template, password, times).map_err(Error::invalid)
        };
        let sample = SecretString::from("sample");
        let (one, other) = (
            entry_names(&of("one", &self.creation, Some(&sample))?)?,
            entry_names(&of("two", &self.creation, Some(&sample))?)?,
        );
        if let Some(fixed) = one.added.iter().find(|dn| other.added.contains(dn)) {
            return Err(Error::invalid(format!(
                "creation_ldif: the name of an entry that it adds has {{{{.Username}}}} in it, {fixed:?} has not"
            )));
        }
        let deleted = entry_names(&of("one", &self.deletion, None)?)?.deleted;
        match one.added.iter().find(|dn| !deleted.contains(dn)) {
            None => Ok(()),
            Some(left) => Err(Error::invalid(format!(
                "deletion_ldif does not delete {left:?}, which creation_ldif adds"
            ))),
        }
    }

    fn shown(&self) -> Json {
        Json::object([
            ("creation_ldif", self.creation.as_str().into()),
            ("default_ttl", self.default_secs.into()),
            ("deletion_ldif", self.deletion.as_str().into()),
            ("max_ttl", self.max_secs.into()),
            ("rollback_ldif", self.rollback.as_str().into()),
            ("username_template", self.username_template.as_str().into()),
        ])
    }
}

/// The names of entries that operations add and delete.
struct EntryNames {
    added: Vec<String>,
    deleted: Vec<String>,
}

fn entry_names(operations: &[LdapOperation]) -> Result<EntryNames, Error> {
    let mut names = EntryNames { added: Vec::new(), deleted: Vec::new() };
    for operation in operations {
        match operation {
            LdapOperation::Add { dn, .. } => names.added.push(dn::normalized(dn)),
            LdapOperation::Delete { dn } => names.deleted.push(dn::normalized(dn)),
            LdapOperation::Rename { dn, .. } if names.added.contains(&dn::normalized(dn)) => {
                return Err(Error::invalid(format!(
                    "creation_ldif renames {dn:?}: an entry is added under the name that it keeps"
                )));
            }
            _ => {}
        }
    }
    Ok(names)
}

fn find(context: &EngineContext<'_>, name: &str) -> Result<Option<DirectoryRole>, Error> {
    let found = context.storage.get(&record_name(name))?;
    found.map(|found| DirectoryRole::decode(&found)).transpose()
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    let body = call.request.object()?;
    let record = record_name(name);
    let writing = call.storage.transact(&record, |transaction| {
        let before = transaction.get(&record)?.map(|found| DirectoryRole::decode(&found));
        let mut role = before.transpose()?.unwrap_or_default();
        role.take(Fields::new(&body))?;
        role.check(call.now)?;
        transaction.put(&record, role.shown().to_text())
    });
    writing.await.map(|()| Response::Empty)
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    Ok(Response::data(&find(&call, name)?.ok_or(Error::NotFound)?.shown()))
}

pub(super) async fn list(call: Call<'_>) -> Result<Response, Error> {
    call.list("role/")
}

pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    call.storage.delete(&record_name(name)).await?;
    Ok(Response::Empty)
}

/// The name of a new entry.
fn make_username(
    call: &Call<'_>,
    role: &DirectoryRole,
    display_name: &str,
    role_name: &str,
) -> Result<String, Error> {
    let (random, now) = (call.random, call.now);
    if !role.username_template.is_empty() {
        let names = username::UsernameFacts { display_name, role_name, now, random };
        return username::make(&role.username_template, &names);
    }
    let (display, role) = (plain(display_name), plain(role_name));
    let text = random_text(random, RANDOM_CHARS)?;
    Ok(format!("v_{}_{}_{text}_{}", cut(&display, 8), cut(&role, 8), now.as_second()))
}

pub(super) async fn make(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    let role = find(&call, name)?;
    let role = role.ok_or_else(|| Error::invalid(format!("unknown role: {name}")))?;
    // One that was written before this was checked makes nothing.
    role.check(call.now)?;
    let directory = directory::find(&call.storage)?;
    let display_name = call.caller.map_or("", |caller| caller.display_name.as_str());
    let username = make_username(&call, &role, display_name, name)?;
    let entry =
        DirectoryEntry { username, display_name: plain(display_name), role: name.to_owned() };
    let password = make_password(&call, &directory.password_policy)?;
    let revocation = Json::object([
        ("deletion_ldif", role.deletion.as_str().into()),
        ("display_name", entry.display_name.as_str().into()),
        ("role", name.into()),
        ("username", entry.username.as_str().into()),
    ]);
    let lease = NewLease {
        role_default_secs: role.default_secs,
        role_max_secs: role.max_secs,
        renewable: true,
        revocation: revocation.to_text(),
        ..NewLease::default()
    };
    call.issue(lease, move |ends: Timestamp| -> BoxFuture<'_, Result<Json, MakeFailure>> {
        Box::pin(create(call, directory, role, entry, password, ends))
    })
    .await
}

async fn create(
    call: Call<'_>,
    directory: LdapDirectory,
    role: DirectoryRole,
    entry: DirectoryEntry,
    password: SecretString,
    ends: Timestamp,
) -> Result<Json, MakeFailure> {
    // Behind the lease: see `leased`.
    let nothing = |error: Error| MakeFailure { error, left: Leftover::Nothing };
    directory::find(&call.storage).map_err(nothing)?;
    let times = (call.now, ends);
    let bad = |why: String| Error::invalid(format!("failed to execute the LDIF: {why}"));
    let operations = entry
        .operations(&role.creation, Some(&password), times)
        .map_err(|why| nothing(bad(why)))?;
    let dns = ldif::names(&operations);
    let asked = directory
        .call(&call, operations, MissingEntry::Fails, vec![password.clone()])
        .map_err(nothing)?;
    if let Err(failure) = directory.ask(&call, asked).await {
        let error = directory.failed("failed to make the entry", &failure);
        if failure.did_nothing() {
            return Err(nothing(error));
        }
        if !role.rollback.is_empty() {
            let back = entry.operations(&role.rollback, None, times).map_err(bad)?;
            let back = directory.call(&call, back, MissingEntry::Passes, Vec::new())?;
            if let Err(error) = directory.ask(&call, back).await {
                // The revocation of the lease comes after it.
                tracing::debug!(%error, "a rollback at a directory failed");
            }
        }
        return Err(error.into());
    }
    Ok(Json::object([
        ("distinguished_names", Json::strings(dns)),
        ("password", password.expose_secret().into()),
        ("username", entry.username.into()),
    ]))
}

/// What a lease keeps: the entry, and what deletes it.
fn kept(call: &LeaseCall<'_>) -> Result<(DirectoryEntry, String), Error> {
    let read = || -> Option<(DirectoryEntry, String)> {
        let map: Map = json::parse_object(call.revocation).ok()?;
        let text = |name: &str| map.get(name).and_then(Json::as_str).map(str::to_owned);
        let entry = DirectoryEntry {
            username: text("username")?,
            display_name: text("display_name")?,
            role: text("role")?,
        };
        Some((entry, text("deletion_ldif")?))
    };
    read().ok_or_else(|| call.damaged())
}

/// The end of a lease: its entry is deleted, if it is there.
pub(super) async fn end_lease(call: &LeaseCall<'_>) -> Result<(), Error> {
    let (entry, deletion) = kept(call)?;
    let directory = directory::find(&call.storage)?;
    let operations = entry.operations(&deletion, None, (call.now, call.now));
    let operations = operations.map_err(|why| Error::invalid(format!("deletion_ldif: {why}")))?;
    let asked = directory.call(call, operations, MissingEntry::Passes, Vec::new())?;
    let asked = directory.ask(call, asked).await;
    asked.map(drop).map_err(|failure| directory.failed("failed to delete the entry", &failure))
}

/// A lease lives longer while its role is there; the directory knows of no end.
pub(super) fn renew_lease(call: &LeaseCall<'_>) -> Result<(), Error> {
    role_of(call).map(drop)
}

/// How long entries of a lease's role may live by now.
pub(super) fn lease_ttl(call: &LeaseCall<'_>) -> Result<RoleTtl, Error> {
    let role = role_of(call)?;
    Ok(RoleTtl { default_secs: role.default_secs, max_secs: role.max_secs })
}

fn role_of(call: &LeaseCall<'_>) -> Result<DirectoryRole, Error> {
    let (entry, _) = kept(call)?;
    let role = find(call, &entry.role)?;
    role.ok_or_else(|| Error::invalid(format!("could not find role with name {:?}", entry.role)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = "dn: cn={{.Username}},ou=p,dc=x\nobjectClass: person\ncn: {{.Username}}\n";
    const GONE: &str = "dn: CN={{.Username}}, OU=p,dc=x\nchangetype: delete\n";

    fn checked(creation: &str, deletion: &str, template: &str) -> Result<(), Error> {
        let role = DirectoryRole {
            creation: creation.to_owned(),
            deletion: deletion.to_owned(),
            username_template: template.to_owned(),
            ..DirectoryRole::default()
        };
        role.check(Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn what_is_added_is_named_by_the_username_and_deleted() {
        let second = ENTRY.replace("{{.Username}},", "{{.Username}}-2,");
        let both = format!("{ENTRY}\n{second}");
        let second_gone = "dn: cn={{.Username}}-2,ou=p,dc=x\nchangetype: delete\n";
        let both_gone = format!("{GONE}\n{second_gone}");
        assert_eq!(checked(ENTRY, GONE, ""), Ok(()));
        assert_eq!(checked(&both, &both_gone, "{{random 8}}"), Ok(()));
        let joins = format!(
            "{ENTRY}\ndn: cn=group,dc=x\nchangetype: modify\nadd: member\nmember: cn={{{{.Username}}}},ou=p,dc=x\n-\n"
        );
        assert_eq!(checked(&joins, GONE, ""), Ok(()), "what is there is not added");
        let fixed = ENTRY.replace("{{.Username}},", "fixed,");
        let renamed = format!(
            "{ENTRY}\ndn: cn={{{{.Username}}}},ou=p,dc=x\nchangetype: modrdn\nnewrdn: cn=other\n"
        );
        for (creation, deletion, template, why) in [
            (ENTRY, GONE.replace("ou=p", "ou=q").replace("OU=p", "OU=q"), "", "does not delete"),
            (ENTRY, GONE.replace("{{.Username}}", "{{.RoleName}}"), "", "does not delete"),
            (&both, GONE.to_owned(), "", "does not delete"),
            (&fixed, GONE.to_owned(), "", "has not"),
            (&renamed, GONE.to_owned(), "", "renames"),
            (ENTRY, GONE.to_owned(), "v-{{.RoleName}}", "same name each time"),
        ] {
            let refused = checked(creation, &deletion, template).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
