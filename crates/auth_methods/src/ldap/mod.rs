//! Login at a directory: the password is the directory's, and so are the groups.
//!
//! ```text
//! 1. search   as `binddn` (or nobody) for the one entry of the name; without either the entry's name is made of the user's
//! 2. bind     as that entry, with the password, over a session of its own
//! 3. groups   as `binddn`, as nobody, or over the session of step 2
//! 4. token    with the policies of the configuration, of the groups and of the user
//! ```
//!
//! ```text
//! config   which directory, and what users and groups are found by
//! ```
//!
//! The groups and users that policies are given to here are those of [`crate::local`].
//!
//! Invariants:
//! - No value reaches a filter or the name of an entry unescaped (`kallisto_ldap`).
//! - An empty password is refused before anything is sent; where that is turned off, whoever the directory takes for nobody is refused.
//! - However a name is spelled, the entry that it leads to has one alias, and one count of wrong passwords, by its own name. An entry with
//!   no value of `userattr`, or with several, has no alias and logs nobody in.
//! - Only what the directory says of the password, or of an entry that takes none, is the fault of who logs in, and is counted.
//! - What is wrong with a name or a password is told in one sentence.

mod config;
mod routes;

use kallisto_api::{BoxFuture, Denial, Error, Fields, Json, Map, Response};
use kallisto_engine::far_end::{
    CALL_SECS_MAX, FarEndLogin, LdapEntry, LdapOperation, LdapScope, LdapSearch, LdapWork,
    MissingEntry, SessionUse,
};
use kallisto_engine::{
    Call, EngineContext, EngineSpec, FarEndAnswer, FarEndCall, FarEndFailure, FarEndWork, Login,
    LoginMethod, Renewal, RenewalCall, TokenParams, address,
};
use kallisto_ldap::filter::{self, FilterValues};
use kallisto_ldap::{dn, reach, text};
use secrecy::{ExposeSecret, SecretString};

use crate::local::{LocalGroups, LocalNames};
use crate::password::PASSWORD_BYTES_MAX;
use config::LdapConfig;

/// The groups that policies are given to.
const GROUPS: LocalNames =
    LocalNames { folder: "group/", groups: LocalGroups::Nothing, case_of: config::name_case };
/// The users that policies and groups are given to.
const USERS: LocalNames =
    LocalNames { folder: "user/", groups: LocalGroups::Text, case_of: config::name_case };
/// Longest name that logs in, in bytes.
const NAME_BYTES_MAX: usize = 256;
/// Most groups of a user.
const GROUPS_MAX: u32 = 1000;
/// What every wrong name and password are told.
const WRONG: &str = "ldap operation failed: failed to bind as user";
/// What is asked over one session under one name here: as `binddn`, or as nobody.
const AS_BINDER: &str = "directory";
const AS_NOBODY: &str = "directory (anonymous)";

fn wrong() -> Error {
    Error::invalid(WRONG)
}

/// What went wrong with the directory itself: whoever logs in can do nothing about it.
fn failed(doing: &str, failure: &FarEndFailure) -> Error {
    Error::Unavailable(format!("ldap operation failed: {doing}: {failure}"))
}

/// A user of the directory, found or made up.
struct LdapUser {
    dn: String,
    /// The values of the attribute that users are called by.
    names: Vec<String>,
}

impl LdapUser {
    /// What they are called here, as the directory or they themselves spell it; `None` for an entry that is not called by one name.
    fn own_name<'a>(&'a self, config: &LdapConfig, name: &'a str) -> Option<&'a str> {
        let [own] = self.names.as_slice() else { return None };
        Some(if config.username_as_alias { name } else { own })
    }

    /// What their wrong passwords are counted under.
    fn counted_as(&self) -> String {
        match dn::is_dn(&self.dn) {
            true => dn::normalized(&self.dn),
            false => text::canonical(&self.dn),
        }
    }
}

/// A login that goes on.
struct LdapAttempt<'a> {
    context: EngineContext<'a>,
    config: LdapConfig,
    name: String,
}

impl LdapAttempt<'_> {
    fn call(
        &self,
        (session_name, login): (&str, FarEndLogin),
        session: SessionUse,
        operations: Vec<LdapOperation>,
    ) -> Result<FarEndCall, Error> {
        let LdapConfig { reach, revision, .. } = &self.config;
        let secrets = vec![login.password.clone()];
        let mount = self.context.mount.accessor;
        Ok(FarEndCall {
            far_end: reach.far_end(mount, session_name, *revision, login)?,
            work: match operations.is_empty() {
                true => FarEndWork::Check,
                false => FarEndWork::Ldap(LdapWork { operations, missing: MissingEntry::Fails }),
            },
            session,
            deadline_secs: reach.request_secs.min(CALL_SECS_MAX),
            secrets,
        })
    }

    /// As whom searches are made.
    fn searcher(&self) -> (&'static str, FarEndLogin) {
        match self.config.reach.has_binder() {
            true => (AS_BINDER, self.config.reach.binder()),
            false => (AS_NOBODY, reach::nobody()),
        }
    }

    async fn entries(
        &self,
        (session_name, login): (&str, FarEndLogin),
        session: SessionUse,
        search: LdapSearch,
    ) -> Result<(Vec<LdapEntry>, bool), FarEndFailure> {
        let call = self.call((session_name, login), session, vec![LdapOperation::Search(search)]);
        let call = call.map_err(|error| FarEndFailure::Unreachable(error.to_string()))?;
        match self.context.far_ends.ask(call).await? {
            FarEndAnswer::Entries { entries, is_whole } => Ok((entries, is_whole)),
            _ => Ok((Vec::new(), true)),
        }
    }

    fn search(&self, base: &str, filter: String, attribute: &str, most: u32) -> LdapSearch {
        LdapSearch {
            base: base.to_owned(),
            scope: LdapScope::Subtree,
            filter,
            attributes: vec![attribute.to_owned()],
            entries_max: most,
            page_size: 0,
            dereference: self.config.dereference,
        }
    }

    fn user_search(&self) -> Result<LdapSearch, Error> {
        let LdapConfig { reach, user_filter, .. } = &self.config;
        let principal = format!("{}@{}", self.name, reach.upn_domain);
        let (user_attr, username) = match reach.upn_domain.is_empty() {
            true => (reach.user_attr.as_str(), self.name.as_str()),
            false => ("userPrincipalName", principal.as_str()),
        };
        let filter = filter::fill(user_filter, &FilterValues { user_attr, username, user_dn: "" });
        let filter = filter.map_err(|why| Error::invalid(format!("userfilter: {why}")))?;
        Ok(self.search(&reach.user_dn, filter, &reach.user_attr, 2))
    }

    /// Whether the entry of a user is looked for before anybody binds as it.
    fn looks(&self) -> bool {
        self.config.discover_dn || self.config.reach.has_binder()
    }

    /// The entry of the user; `None` when there is not just one.
    async fn look(&self) -> Result<Option<LdapUser>, Error> {
        let found = self.entries(self.searcher(), SessionUse::Pooled, self.user_search()?).await;
        let (entries, is_whole) = found.map_err(|failure| match failure {
            FarEndFailure::LoginRefused(_) | FarEndFailure::LoginBarred(_) => {
                failed("the directory refuses binddn", &failure)
            }
            other => failed("the search for the user failed", &other),
        })?;
        let [entry] = entries.as_slice() else { return Ok(None) };
        let names = entry.values(&self.config.reach.user_attr).to_vec();
        Ok(is_whole.then(|| LdapUser { dn: entry.dn.clone(), names }))
    }

    /// The name of the user's entry as it is without a search.
    fn made_up(&self) -> LdapUser {
        let LdapConfig { reach, .. } = &self.config;
        let dn = match reach.upn_domain.is_empty() {
            true => format!("{}={},{}", reach.user_attr, dn::escape(&self.name), reach.user_dn),
            false => format!("{}@{}", self.name, reach.upn_domain),
        };
        LdapUser { dn, names: Vec::new() }
    }

    /// What has to be asked as the user, since nobody else may: their entry, then their groups.
    async fn bind(
        &self,
        found: &mut LdapUser,
        password: SecretString,
    ) -> Result<Option<Vec<String>>, FarEndFailure> {
        let is_null = password.expose_secret().is_empty();
        let login = || FarEndLogin { user: found.dn.clone(), password: password.clone() };
        let operations = if is_null { vec![LdapOperation::WhoAmI] } else { Vec::new() };
        let call = self.call((AS_BINDER, login()), SessionUse::Fresh, operations);
        let call = call.map_err(|error| FarEndFailure::Unreachable(error.to_string()))?;
        match self.context.far_ends.ask(call).await? {
            // Many directories take a bind without a password for one of nobody.
            FarEndAnswer::Identity(nobody) if matches!(nobody.as_str(), "" | "dn:") => {
                return Err(FarEndFailure::LoginRefused("it is nobody there".into()));
            }
            _ => {}
        }
        let session = || (AS_BINDER, login());
        if !self.looks() {
            let own = match self.config.reach.upn_domain.is_empty() {
                true => LdapSearch {
                    scope: LdapScope::Base,
                    ..self.search(
                        &found.dn,
                        "(objectClass=*)".to_owned(),
                        &self.config.reach.user_attr,
                        2,
                    )
                },
                false => {
                    self.user_search().map_err(|error| FarEndFailure::Refused(error.to_string()))?
                }
            };
            // Who may not read their own entry is called by nothing.
            if let Ok((entries, _)) = self.entries(session(), SessionUse::Fresh, own).await
                && let [entry] = entries.as_slice()
            {
                found.names = entry.values(&self.config.reach.user_attr).to_vec();
                entry.dn.clone_into(&mut found.dn);
            }
        }
        if self.config.reach.has_binder() || self.config.anonymous_group_search {
            return Ok(None);
        }
        let login = FarEndLogin { user: found.dn.clone(), password: password.clone() };
        self.groups(&found.dn, (AS_BINDER, login), SessionUse::Fresh).await.map(Some)
    }

    /// The groups of an entry.
    async fn groups(
        &self,
        user_dn: &str,
        as_whom: (&str, FarEndLogin),
        session: SessionUse,
    ) -> Result<Vec<String>, FarEndFailure> {
        let LdapConfig { group_dn, group_filter, group_attr, page_size, .. } = &self.config;
        if group_dn.is_empty() || group_filter.is_empty() {
            return Ok(Vec::new());
        }
        let user_attr = self.config.reach.user_attr.as_str();
        let values = FilterValues { user_attr, username: &self.name, user_dn };
        let filter = filter::fill(group_filter, &values).map_err(FarEndFailure::Refused)?;
        let search = LdapSearch {
            page_size: *page_size,
            ..self.search(group_dn, filter, group_attr, GROUPS_MAX)
        };
        let (entries, is_whole) = self.entries(as_whom, session, search).await?;
        // Without all of them a login would be given less than it should, and nobody would know why.
        if !is_whole {
            return Err(FarEndFailure::Refused(format!(
                "the directory does not list all groups: more than {GROUPS_MAX}, or than it lists at a time (max_page_size)"
            )));
        }
        let mut groups = Vec::new();
        for entry in &entries {
            let values = entry.values(group_attr);
            let names: Vec<String> = match values.is_empty() {
                true => vec![dn::common_name(&entry.dn)],
                false => values.iter().map(|value| dn::common_name(value)).collect(),
            };
            groups.extend(names.into_iter().filter(|name| !name.is_empty()));
        }
        groups.sort();
        groups.dedup();
        Ok(groups)
    }

    /// The groups of an entry, asked as whoever asks when the user does not.
    async fn groups_of(&self, user_dn: &str) -> Result<Vec<String>, Error> {
        let as_whom = match self.config.anonymous_group_search {
            true => (AS_NOBODY, reach::nobody()),
            false => self.searcher(),
        };
        let found = self.groups(user_dn, as_whom, SessionUse::Pooled).await;
        found.map_err(|failure| failed("the search for groups failed", &failure))
    }
}

/// What a token of a user of this name in these groups is like, and all groups that they are in.
fn granted(
    context: &EngineContext<'_>,
    config: &LdapConfig,
    name: &str,
    found: &[String],
) -> Result<(TokenParams, Vec<String>), Error> {
    let case = config.name_case();
    let user = USERS.find(&context.storage, case, name)?.unwrap_or_default();
    let mut groups: Vec<String> = user.groups.iter().chain(found).cloned().collect();
    groups.sort();
    groups.dedup();
    let mut params = config.params.clone();
    for group in &groups {
        if let Some(known) = GROUPS.find(&context.storage, case, group)? {
            params.policies.extend(known.policies);
        }
    }
    params.policies.extend(user.policies);
    params.policies.sort();
    params.policies.dedup();
    Ok((params, groups))
}

async fn log_in(run: Call<'_>) -> Result<Response, Error> {
    let config = config::find(&run.storage)?
        .ok_or_else(|| Error::invalid("ldap operation failed: the method is not configured"))?;
    let name = run.params.get("name").trim().to_owned();
    let body = run.request.object()?;
    let password = Fields::new(&body).string("password")?.unwrap_or_default();
    if password.is_empty() && config.denies_null_bind {
        return Err(Error::invalid(
            "password cannot be of zero length when passwordless binds are being denied",
        ));
    }
    if password.len() > PASSWORD_BYTES_MAX {
        return Err(Error::invalid(format!("password is over {PASSWORD_BYTES_MAX} bytes")));
    }
    if name.len() > NAME_BYTES_MAX || !text::is_name(&name) {
        return Err(wrong());
    }
    let attempt = LdapAttempt { context: run.context, config, name };
    let password = SecretString::from(password);
    let (mut found, is_there) = match attempt.looks() {
        true => match attempt.look().await? {
            Some(found) => (found, true),
            None => (attempt.made_up(), false),
        },
        false => (attempt.made_up(), true),
    };
    let attempts = run.logins()?.attempts(&found.counted_as());
    if attempts.is_locked() {
        return Err(Error::Denied(Denial::BadToken));
    }
    // A name of nobody is bound with as well: the directory is asked the same. How long it takes for that is the directory's.
    let bound = attempt.bind(&mut found, password).await;
    let own_groups = match bound {
        Ok(groups) if is_there => groups,
        Ok(_) | Err(FarEndFailure::LoginRefused(_) | FarEndFailure::LoginBarred(_)) => {
            attempts.fail(is_there && attempt.looks());
            return Err(wrong());
        }
        Err(failure) => return Err(failed("the directory was not asked as the user", &failure)),
    };
    attempts.forget();
    let LdapAttempt { config, name, .. } = &attempt;
    let own_name = found.own_name(config, name).ok_or_else(|| nameless(config, &found))?;
    let directory_groups = match own_groups {
        Some(groups) => groups,
        None => attempt.groups_of(&found.dn).await?,
    };
    let shown = config.name_case().spelled(name);
    let (params, groups) = granted(&run, config, own_name, &directory_groups)?;
    address::check(&params.bound_cidrs, run.request.remote)?;
    let is_asked_again = config.reach.has_binder() || config.anonymous_group_search;
    let mut kept = Map::from([
        ("dn".to_owned(), found.dn.as_str().into()),
        ("name".to_owned(), name.as_str().into()),
        ("own_name".to_owned(), own_name.into()),
    ]);
    if !is_asked_again {
        // Those of `users/` are looked up again.
        kept.insert("groups".to_owned(), Json::strings(directory_groups));
    }
    let login = Login {
        alias: text::canonical(own_name),
        display_name: shown.clone(),
        metadata: Map::from([("username".to_owned(), shown.into())]),
        groups,
        params,
        kept,
    };
    run.logins()?.grant(login).await
}

/// That the directory says of nobody who they are. Told to who gave the right password.
fn nameless(config: &LdapConfig, found: &LdapUser) -> Error {
    Error::invalid(format!(
        "ldap operation failed: the entry of the user shows {} values of {:?}, and who it is takes just one",
        found.names.len(),
        config.reach.user_attr
    ))
}

/// A user who is gone from the directory renews no token, nor one whose policies are others now.
async fn check_renewal(renewal: RenewalCall<'_>) -> Result<Renewal, Error> {
    let config = config::find(&renewal.storage)?
        .ok_or_else(|| Error::invalid("the method is not configured any more"))?;
    let kept = Fields::new(renewal.kept);
    let dn = kept.string("dn")?.unwrap_or_default();
    let name = kept.string("name")?.unwrap_or_default();
    let known = kept.strings("groups")?;
    let own_name = kept.string("own_name")?.unwrap_or_else(|| name.clone());
    let attempt = LdapAttempt { context: renewal.context, config, name };
    if attempt.looks() {
        let found = attempt.look().await?.filter(|found| dn::is_same(&found.dn, &dn));
        found.ok_or_else(|| Error::invalid("the user is not in the directory any more"))?;
    }
    // What only the user may look up is as it was found at the login.
    let groups = match known {
        Some(groups) => groups,
        None => attempt.groups_of(&dn).await?,
    };
    let (params, groups) = granted(&renewal, &attempt.config, &own_name, &groups)?;
    Ok(renewal.with_same_policies(params)?.in_groups(groups))
}

/// Users of a directory.
pub(crate) const METHOD: EngineSpec = EngineSpec {
    caseless_folders: &["login/", "groups/", "users/"],
    ..EngineSpec::login_method(
        "ldap",
        &routes::LDAP,
        LoginMethod {
            check_renewal: |call| -> BoxFuture<'_, Result<Renewal, Error>> {
                Box::pin(check_renewal(call))
            },
            role_of: None,
        },
    )
};

#[cfg(test)]
mod tests {
    use super::*;

    fn user(dn: &str, names: &[&str]) -> LdapUser {
        LdapUser { dn: dn.to_owned(), names: names.iter().map(|name| (*name).to_owned()).collect() }
    }

    #[test]
    fn an_entry_has_one_name_or_none() {
        let config = LdapConfig::default();
        let by_name = LdapConfig { username_as_alias: true, ..LdapConfig::default() };
        let found = user("cn=Alice A,dc=x", &["Alice  A"]);
        for name in ["alice a", "ALICE A", "Alice  A", "mail@x"] {
            let own = found.own_name(&config, name).unwrap();
            assert_eq!(
                (text::canonical(own).as_str(), config.name_case().spelled(own).as_str()),
                ("alice a", "alice a")
            );
            assert_eq!(found.own_name(&by_name, name), Some(name));
        }
        for names in [&[][..], &["alice", "a1"]] {
            let found = user("cn=Alice A,dc=x", names);
            assert_eq!(found.own_name(&config, "alice"), None);
            assert_eq!(found.own_name(&by_name, "alice"), None);
        }
    }

    #[test]
    fn wrong_passwords_are_counted_by_the_entry() {
        let counted = |dn: &str| user(dn, &["a", "b"]).counted_as();
        assert_eq!(counted("cn=Alice A,dc=X"), counted("CN=alice  a, dc=x"));
        assert_ne!(counted("cn=alice,ou=a,dc=x"), counted("cn=alice,ou=b,dc=x"));
        assert_eq!(counted("Alice@example.org"), counted("alice@EXAMPLE.org"));
    }
}
