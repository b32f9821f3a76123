//! Which directory, as whom; asking it, and changing the password that it is asked with.

use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Fields, Response};
use kallisto_engine::far_end::{
    CALL_SECS_MAX, FarEndLogin, LdapAttribute, LdapChange, LdapOperation, LdapScope, LdapSearch,
    LdapValue, LdapWork, MissingEntry, RootPassword, SessionUse,
};
use kallisto_engine::{
    Call, EngineContext, FarEndAnswer, FarEndCall, FarEndFailure, FarEndWork, Storage,
};
use kallisto_ldap::{DirectoryReach, dn, filter};
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use super::static_role;
use crate::leased;
use crate::passwords::make_password;
use crate::rotation::{LoginChecks, RootOutcome, TakenPassword, taken_password};

pub(super) const RECORD: &str = "config";
/// What is told of a change that has to wait.
const PENDING: &str = "the password of binddn is being changed: url, schema, binddn and bindpass stay until rotate-root has settled it (or delete the configuration, and both passwords with it)";
/// What sessions go by: there is one directory in a mount.
const SESSIONS: &str = "directory";
/// How passwords are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LdapSchema {
    /// `userPassword`.
    #[default]
    OpenLdap,
    /// `unicodePwd`, in quotes and UTF-16.
    ActiveDirectory,
    /// `racfPassword`, and that it has not expired.
    Racf,
}

const SCHEMAS: [(&str, LdapSchema, &str); 3] = [
    ("openldap", LdapSchema::OpenLdap, "cn"),
    ("ad", LdapSchema::ActiveDirectory, "userPrincipalName"),
    ("racf", LdapSchema::Racf, "racfid"),
];

/// The directory of a mount.
#[derive(Clone)]
pub(super) struct LdapDirectory {
    reach: DirectoryReach,
    schema: LdapSchema,
    pub(super) password_policy: String,
    pub(super) skips_import: bool,
    pending: SecretString,
    pub(super) pending_since: i64,
    revision: u64,
}

impl LdapDirectory {
    fn new() -> Self {
        Self {
            reach: DirectoryReach::default(),
            schema: LdapSchema::default(),
            password_policy: String::new(),
            skips_import: false,
            pending: SecretString::default(),
            pending_since: 0,
            revision: 0,
        }
    }

    /// The login, and what decides where it is one: what has to stay while the password is being changed.
    fn login(&self) -> (&str, &str, &str, LdapSchema) {
        let reach = &self.reach;
        (&reach.url, &reach.bind_dn, reach.bind_password.expose_secret(), self.schema)
    }

    fn take(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        let before = self.schema;
        if let Some(given) = fields.string("schema")?.filter(|given| !given.is_empty()) {
            let known = SCHEMAS.iter().find(|(name, ..)| *name == given);
            let known = known.ok_or_else(|| {
                Error::invalid(format!("the configured schema {given} is not valid. Supported schemas: [openldap ad racf]"))
            })?;
            self.schema = known.1;
        }
        if self.revision == 0 || before != self.schema {
            let usual = SCHEMAS.iter().find(|(_, schema, _)| *schema == self.schema);
            usual.map_or("cn", |(.., attr)| attr).clone_into(&mut self.reach.user_attr);
        }
        self.reach.take(fields)?;
        if let Some(given) = fields.string("password_policy")? {
            self.password_policy = given;
        }
        if let Some(given) = fields.boolean("skip_static_role_import_rotation")? {
            self.skips_import = given;
        }
        self.reach.check()?;
        match self.reach.has_binder() {
            true => Ok(()),
            false => {
                Err(Error::invalid("binddn and bindpass are needed: they make and change entries"))
            }
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let fields = Fields::new(&map);
        let mut directory = Self::new();
        directory.take(fields).ok()?;
        let number = |name: &str| fields.int(name).ok().flatten().unwrap_or(0);
        directory.revision = u64::try_from(number("revision")).ok()?;
        directory.pending_since = number("pending_since");
        directory.pending =
            SecretString::from(fields.string("pending_password").ok()?.unwrap_or_default());
        Some(directory)
    }

    fn show(&self, map: &mut Map) {
        let named = SCHEMAS.iter().find(|(_, schema, _)| *schema == self.schema);
        map.insert("schema".into(), named.map_or("", |(name, ..)| name).into());
        map.insert("password_policy".into(), self.password_policy.as_str().into());
        map.insert("skip_static_role_import_rotation".into(), self.skips_import.into());
    }

    fn encode(&self) -> Vec<u8> {
        let mut map = Map::new();
        self.show(&mut map);
        self.reach.keep(&mut map);
        map.insert("revision".into(), self.revision.into());
        if self.has_pending() {
            map.insert("pending_password".into(), self.pending.expose_secret().into());
            map.insert("pending_since".into(), self.pending_since.into());
        }
        Json::Object(map).to_text()
    }

    pub(super) fn has_pending(&self) -> bool {
        !self.pending.expose_secret().is_empty()
    }

    fn call_as(
        &self,
        context: &EngineContext<'_>,
        password: SecretString,
        work: FarEndWork,
        session: SessionUse,
        secrets: Vec<SecretString>,
    ) -> Result<FarEndCall, Error> {
        let login = FarEndLogin { user: self.reach.bind_dn.clone(), password };
        let mount = context.mount.accessor;
        Ok(FarEndCall {
            far_end: self.reach.far_end(mount, SESSIONS, self.revision, login)?,
            work,
            session,
            deadline_secs: self.reach.request_secs.min(CALL_SECS_MAX),
            secrets,
        })
    }

    /// The call that asks for work.
    pub(super) fn call(
        &self,
        context: &EngineContext<'_>,
        operations: Vec<LdapOperation>,
        missing: MissingEntry,
        secrets: Vec<SecretString>,
    ) -> Result<FarEndCall, Error> {
        let work = FarEndWork::Ldap(LdapWork { operations, missing });
        let password = self.reach.bind_password.clone();
        self.call_as(context, password, work, SessionUse::Pooled, secrets)
    }

    fn check(
        &self,
        context: &EngineContext<'_>,
        password: &SecretString,
    ) -> Result<FarEndCall, Error> {
        self.call_as(context, password.clone(), FarEndWork::Check, SessionUse::Fresh, Vec::new())
    }

    /// Checks of both passwords while one is pending.
    pub(super) fn login_checks(&self, context: &EngineContext<'_>) -> Result<LoginChecks, Error> {
        let pending = self.check(context, &self.pending)?;
        Ok(LoginChecks { pending, current: self.check(context, &self.reach.bind_password)? })
    }

    /// A check whether an entry logs in with a password.
    pub(super) fn check_entry(
        &self,
        context: &EngineContext<'_>,
        dn: &str,
        password: &SecretString,
    ) -> Result<FarEndCall, Error> {
        let mut directory = self.clone();
        dn.clone_into(&mut directory.reach.bind_dn);
        directory.check(context, password)
    }

    /// Asks, and tries the password that is pending where the other one is not taken.
    pub(super) async fn ask(
        &self,
        context: &EngineContext<'_>,
        call: FarEndCall,
    ) -> Result<FarEndAnswer, FarEndFailure> {
        let again = call.clone();
        let outcome = context.far_ends.ask(call).await;
        let is_wrong = outcome.as_ref().is_err_and(FarEndFailure::is_wrong_password);
        if !is_wrong || !self.has_pending() {
            return outcome;
        }
        let Ok(check) = self.check(context, &self.pending) else { return outcome };
        if context.far_ends.ask(check).await.is_err() {
            return outcome;
        }
        let Ok(Some(promoted)) = settle_root(context, self, RootPassword::Pending).await else {
            return outcome;
        };
        let password = promoted.reach.bind_password.clone();
        let FarEndCall { work, session, secrets, .. } = again;
        match promoted.call_as(context, password, work, session, secrets) {
            Ok(call) => context.far_ends.ask(call).await,
            Err(_) => outcome,
        }
    }

    /// That the change of the own password is open: whatever the directory says, nobody who asks can put it right by asking otherwise.
    fn unclear(&self, doing: &str, failure: &FarEndFailure) -> Error {
        let url = &self.reach.url;
        Error::Unavailable(format!(
            "{doing}: {failure} (directory at {url}); both passwords are kept, and the change is tried again"
        ))
    }

    /// A failure with the directory that it is of.
    pub(super) fn failed(&self, doing: &str, failure: &FarEndFailure) -> Error {
        let url = &self.reach.url;
        failure.clone().map(|words| format!("{words} (directory at {url})")).to_error(doing)
    }

    /// What sets the password of an entry.
    pub(super) fn set_password(&self, dn: &str, password: &SecretString) -> LdapOperation {
        let replace = |name: &str, value: LdapValue| {
            let attribute = LdapAttribute { name: name.to_owned(), values: vec![value] };
            (LdapChange::Replace, attribute)
        };
        let password = password.expose_secret();
        let changes = match self.schema {
            LdapSchema::OpenLdap => vec![replace("userPassword", LdapValue::text(password))],
            LdapSchema::ActiveDirectory => {
                let quoted = Zeroizing::new(format!("\"{password}\""));
                let bytes = quoted.encode_utf16().flat_map(u16::to_le_bytes).collect();
                vec![replace("unicodePwd", LdapValue(Zeroizing::new(bytes)))]
            }
            LdapSchema::Racf => vec![
                replace("racfPassword", LdapValue::text(password)),
                replace("racfAttributes", LdapValue::text("noexpired")),
            ],
        };
        LdapOperation::Modify { dn: dn.to_owned(), changes }
    }

    /// The names of entries that a search finds, at most two.
    async fn found(
        &self,
        context: &EngineContext<'_>,
        base: &str,
        scope: LdapScope,
        filter: String,
    ) -> Result<Vec<String>, Error> {
        let search = LdapOperation::Search(LdapSearch {
            base: base.to_owned(),
            scope,
            filter,
            attributes: vec!["1.1".to_owned()],
            entries_max: 2,
            page_size: 0,
            dereference: Default::default(),
        });
        let call = self.call(context, vec![search], MissingEntry::Fails, Vec::new())?;
        match self.ask(context, call).await {
            Ok(FarEndAnswer::Entries { entries, .. }) => {
                Ok(entries.into_iter().map(|entry| entry.dn).collect())
            }
            Ok(_) => Ok(Vec::new()),
            Err(failure) => Err(self.failed("failed to search for the entry", &failure)),
        }
    }

    /// The name of an entry as the directory spells it: however it is spelled by others, it is one entry.
    pub(super) async fn spelled(
        &self,
        context: &EngineContext<'_>,
        dn: &str,
    ) -> Result<String, Error> {
        let any = "(objectClass=*)".to_owned();
        let found = self.found(context, dn, LdapScope::Base, any).await?;
        match found.as_slice() {
            [spelled] => Ok(spelled.clone()),
            _ => Err(Error::invalid(format!(
                "the directory shows no entry {dn:?} (noSuchObject): its binddn has to see it"
            ))),
        }
    }

    /// Refuses the entry that this engine logs in as: with its password changed by a role nothing else could be done.
    pub(super) async fn check_not_own(
        &self,
        context: &EngineContext<'_>,
        dn: &str,
    ) -> Result<(), Error> {
        let own = self.reach.bind_dn.as_str();
        let spelled = match dn::is_dn(own) {
            // The first administrator of some directories has no entry.
            true => self.spelled(context, own).await.unwrap_or_else(|_| own.to_owned()),
            // Active Directory has logins by other names.
            false => {
                let account = filter::escape(own.rsplit('\\').next().unwrap_or(own));
                let filter = format!(
                    "(|(userPrincipalName={})(sAMAccountName={account}))",
                    filter::escape(own)
                );
                let base = self.reach.user_dn.as_str();
                let found = self.found(context, base, LdapScope::Subtree, filter).await?;
                found.into_iter().next().unwrap_or_default()
            }
        };
        match [own, spelled.as_str()].iter().any(|one| dn::is_same(one, dn)) {
            false => Ok(()),
            true => Err(Error::invalid(format!(
                "{dn:?} is the binddn of this engine: rotate-root changes its password"
            ))),
        }
    }

    /// The name of the one entry that is called so.
    pub(super) async fn find_dn(
        &self,
        context: &EngineContext<'_>,
        username: &str,
    ) -> Result<String, Error> {
        let (base, filter) = (
            self.reach.user_dn.as_str(),
            format!("({}={})", self.reach.user_attr, filter::escape(username)),
        );
        let found = self.found(context, base, LdapScope::Subtree, filter).await?;
        match found.as_slice() {
            [dn] => Ok(dn.clone()),
            _ => Err(Error::invalid(format!(
                "expected one matching entry in the directory for {username:?} below {:?}, found {}",
                self.reach.user_dn,
                if found.is_empty() { "none" } else { "several" }
            ))),
        }
    }
}

/// The directory of the mount.
pub(super) fn find(storage: &Storage<'_>) -> Result<LdapDirectory, Error> {
    let found = storage.get(RECORD)?;
    let found = found
        .ok_or_else(|| Error::invalid("the directory is not configured: write config first"))?;
    found.decode(LdapDirectory::decode)
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let found = call.storage.get(RECORD)?.ok_or(Error::NotFound)?;
    let directory = found.decode(LdapDirectory::decode)?;
    let mut map = Map::new();
    directory.show(&mut map);
    directory.reach.show(&mut map);
    Ok(Response::data(&Json::Object(map)))
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let fields = Fields::new(&body);
    let changing = call.storage.transact(RECORD, |transaction| {
        let mut directory = match transaction.get(RECORD)? {
            Some(found) => found.decode(LdapDirectory::decode)?,
            None => LdapDirectory::new(),
        };
        let before = directory.clone();
        directory.take(fields)?;
        if before.has_pending() && before.login() != directory.login() {
            return Err(Error::Unavailable(PENDING.into()));
        }
        let own = static_role::managed_name(&directory.reach.bind_dn);
        if transaction.get(&own)?.is_some() {
            return Err(Error::invalid(
                "binddn is an entry of a static role or of a set: its password changes without this engine knowing",
            ));
        }
        directory.revision += 1;
        transaction.put(RECORD, directory.encode())
    });
    changing.await.map(|()| Response::Empty)
}

/// Deletes it, but not while there are entries that only it can delete, or accounts that are lent.
pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let what = "entries and accounts that only this directory can take back";
    leased::delete(&call, RECORD, what, |_| true).await?;
    call.far_ends.close(call.mount.accessor, None);
    Ok(Response::Empty)
}

/// Writes down which of the two passwords holds.
///
/// # Errors
/// When somebody wrote another one meanwhile although the pending one holds.
pub(super) async fn settle_root(
    context: &EngineContext<'_>,
    directory: &LdapDirectory,
    holds: RootPassword,
) -> Result<Option<LdapDirectory>, Error> {
    let pending = directory.pending.expose_secret();
    let is_set = holds == RootPassword::Pending;
    let settled = context.storage.transact(RECORD, |transaction| {
        let Some(found) = transaction.get(RECORD)? else { return Ok(None) };
        let mut directory = found.decode(LdapDirectory::decode)?;
        if pending.is_empty() || directory.pending.expose_secret() != pending {
            // Somebody else settled it.
            let is_kept = directory.reach.bind_password.expose_secret() == pending;
            return match is_set && !pending.is_empty() && !is_kept {
                true => Err(Error::Unavailable(
                    "the configuration was changed while its password was: write bindpass".into(),
                )),
                false => Ok(Some(directory)),
            };
        }
        if is_set {
            directory.reach.bind_password = directory.pending.clone();
            directory.revision += 1;
        }
        directory.pending = SecretString::default();
        transaction.put(RECORD, directory.encode())?;
        Ok(Some(directory))
    });
    settled.await
}

/// The configuration with a password that is pending: a new one, or the one that an earlier rotation left.
async fn begin_root(call: &Call<'_>) -> Result<LdapDirectory, Error> {
    let password = make_password(call, &find(&call.storage)?.password_policy)?;
    let since = call.now.as_second();
    let begun = call.storage.transact(RECORD, |transaction| {
        let found = transaction.get(RECORD)?.ok_or(Error::NotFound)?;
        let mut directory = found.decode(LdapDirectory::decode)?;
        if !directory.has_pending() {
            directory.pending = password.clone();
        }
        // The job waits for this one.
        directory.pending_since = since;
        transaction.put(RECORD, directory.encode())?;
        Ok(directory)
    });
    begun.await
}

/// Changes the password of `binddn`: written down, set, tried, kept. One that is pending is set again, until a login says that it is set, or
/// that it is not.
pub(super) async fn rotate_root(call: Call<'_>) -> Result<Response, Error> {
    let doing = "unable to rotate root credentials";
    let left = find(&call.storage)?;
    if left.has_pending() {
        match taken_password(&call, left.login_checks(&call)?).await {
            TakenPassword::Pending => drop(settle_root(&call, &left, RootPassword::Pending).await?),
            TakenPassword::Current => {}
            TakenPassword::Unclear(failure) => return Err(left.unclear(doing, &failure)),
        }
    }
    let directory = begin_root(&call).await?;
    let pending = directory.pending.clone();
    let set = vec![directory.set_password(&directory.reach.bind_dn, &pending)];
    let asked = directory.call(&call, set, MissingEntry::Fails, vec![pending])?;
    let outcome = call.far_ends.ask(asked).await;
    let taken = taken_password(&call, directory.login_checks(&call)?).await;
    match RootOutcome::of(outcome.map(drop), taken) {
        RootOutcome::Set => {
            settle_root(&call, &directory, RootPassword::Pending).await.map(|_| Response::Empty)
        }
        RootOutcome::Refused(failure) => {
            settle_root(&call, &directory, RootPassword::Current).await?;
            Err(directory.failed(doing, &failure))
        }
        RootOutcome::Unclear(failure) => Err(directory.unclear(doing, &failure)),
    }
}
