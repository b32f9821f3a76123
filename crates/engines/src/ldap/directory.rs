//! Which directory, as whom; asking it, and changing the password that it is asked with.

use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Fields, Response};
use kallisto_engine::far_end::{
    CALL_SECS_MAX, FarEndLogin, LdapAttribute, LdapChange, LdapOperation, LdapScope, LdapSearch,
    LdapValue, LdapWork, SessionUse,
};
use kallisto_engine::{
    Call, EngineContext, FarEndAnswer, FarEndCall, FarEndFailure, FarEndWork, Storage,
};
use kallisto_ldap::{DirectoryReach, filter};
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use crate::passwords::make_password;

pub(super) const RECORD: &str = "config";
/// What sessions go by: there is one directory in a mount.
const SESSIONS: &str = "directory";
/// How long a change of the own password may be under way before the job looks which one it is, in seconds.
pub(super) const ROOT_SECS: i64 = 60;

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

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let read = || -> Option<Self> {
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
        };
        read().ok_or_else(|| Error::internal(&"the configuration of a directory is damaged"))
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
        passes_missing: bool,
        secrets: Vec<SecretString>,
    ) -> Result<FarEndCall, Error> {
        let work = FarEndWork::Ldap(LdapWork { operations, passes_missing });
        let password = self.reach.bind_password.clone();
        self.call_as(context, password, work, SessionUse::Pooled, secrets)
    }

    /// A check of the password that is pending.
    pub(super) fn pending_check(&self, context: &EngineContext<'_>) -> Result<FarEndCall, Error> {
        let pending = self.pending.clone();
        self.call_as(context, pending, FarEndWork::Check, SessionUse::Fresh, Vec::new())
    }

    /// Asks, and tries the password that is pending where the other one is not taken.
    pub(super) async fn ask(
        &self,
        context: &EngineContext<'_>,
        call: FarEndCall,
    ) -> Result<FarEndAnswer, FarEndFailure> {
        let again = call.clone();
        let outcome = context.far_ends.ask(call).await;
        if !matches!(outcome, Err(FarEndFailure::LoginRefused(_))) || !self.has_pending() {
            return outcome;
        }
        let Ok(check) = self.pending_check(context) else { return outcome };
        if context.far_ends.ask(check).await.is_err() {
            return outcome;
        }
        let Ok(Some(promoted)) = settle_root(context, self, true).await else { return outcome };
        let password = promoted.reach.bind_password.clone();
        let FarEndCall { work, session, secrets, .. } = again;
        match promoted.call_as(context, password, work, session, secrets) {
            Ok(call) => context.far_ends.ask(call).await,
            Err(_) => outcome,
        }
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

    /// The name of the one entry that is called so.
    pub(super) async fn find_dn(
        &self,
        context: &EngineContext<'_>,
        username: &str,
    ) -> Result<String, Error> {
        let search = LdapOperation::Search(LdapSearch {
            base: self.reach.user_dn.clone(),
            scope: LdapScope::Subtree,
            filter: format!("({}={})", self.reach.user_attr, filter::escape(username)),
            attributes: vec!["1.1".to_owned()],
            entries_max: 2,
            page_size: 0,
            dereference: Default::default(),
        });
        let call = self.call(context, vec![search], false, Vec::new())?;
        let found = self.ask(context, call).await;
        let found =
            found.map_err(|failure| self.failed("failed to search for the entry", &failure))?;
        let entries = match found {
            FarEndAnswer::Entries { entries, is_whole: true } => entries,
            _ => Vec::new(),
        };
        match entries.as_slice() {
            [entry] => Ok(entry.dn.clone()),
            _ => Err(Error::invalid(format!(
                "expected one matching entry in the directory for {username:?} below {:?}, found {}",
                self.reach.user_dn,
                if entries.is_empty() { "none" } else { "several" }
            ))),
        }
    }
}

/// The directory of the mount.
pub(super) fn find(storage: &Storage<'_>) -> Result<LdapDirectory, Error> {
    let found = storage.get(RECORD)?;
    let found = found
        .ok_or_else(|| Error::invalid("the directory is not configured: write config first"))?;
    LdapDirectory::decode(&found.value)
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let found = call.storage.get(RECORD)?.ok_or(Error::NotFound)?;
    let directory = LdapDirectory::decode(&found.value)?;
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
            Some(found) => LdapDirectory::decode(&found.value)?,
            None => LdapDirectory::new(),
        };
        directory.take(fields)?;
        if fields.raw("bindpass").is_some() {
            directory.pending = SecretString::default();
        }
        directory.revision += 1;
        transaction.put(RECORD, directory.encode())
    });
    changing.await.map(|()| Response::Empty)
}

pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    call.storage.delete(RECORD).await?;
    call.far_ends.close(call.mount.accessor, None);
    Ok(Response::Empty)
}

/// Writes down which of the two passwords is the one: the pending one if `is_set`.
pub(super) async fn settle_root(
    context: &EngineContext<'_>,
    directory: &LdapDirectory,
    is_set: bool,
) -> Result<Option<LdapDirectory>, Error> {
    let pending = directory.pending.expose_secret();
    let settled = context.storage.transact(RECORD, |transaction| {
        let Some(found) = transaction.get(RECORD)? else { return Ok(None) };
        let mut directory = LdapDirectory::decode(&found.value)?;
        // Somebody else settled it, or began another.
        if pending.is_empty() || directory.pending.expose_secret() != pending {
            return Ok(Some(directory));
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

/// Changes the password of `binddn`: written down, set, tried, kept.
pub(super) async fn rotate_root(call: Call<'_>) -> Result<Response, Error> {
    let doing = "unable to rotate root credentials";
    let mut directory = find(&call.storage)?;
    // What an earlier rotation left open is settled first: one of the two passwords is the one.
    if directory.has_pending() {
        let is_set = match call.far_ends.ask(directory.pending_check(&call)?).await {
            Ok(_) => true,
            Err(FarEndFailure::LoginRefused(_)) => false,
            Err(failure) => return Err(directory.failed(doing, &failure)),
        };
        directory = settle_root(&call, &directory, is_set).await?.ok_or(Error::NotFound)?;
    }
    let password = make_password(&call, &directory.password_policy)?;
    let since = call.now.as_second();
    let begun = call.storage.transact(RECORD, |transaction| {
        let found = transaction.get(RECORD)?.ok_or(Error::NotFound)?;
        let mut directory = LdapDirectory::decode(&found.value)?;
        if directory.has_pending() {
            return Err(Error::Unavailable(
                "another rotation of this password is under way".into(),
            ));
        }
        directory.pending = password.clone();
        directory.pending_since = since;
        transaction.put(RECORD, directory.encode())?;
        Ok(directory)
    });
    let directory = begun.await?;
    let set = vec![directory.set_password(&directory.reach.bind_dn, &password)];
    let asked = directory.call(&call, set, false, vec![password])?;
    let outcome = call.far_ends.ask(asked).await;
    if let Err(failure) = &outcome
        && !matches!(failure, FarEndFailure::Unknown(_))
    {
        settle_root(&call, &directory, false).await?;
        return Err(directory.failed(doing, failure));
    }
    match call.far_ends.ask(directory.pending_check(&call)?).await {
        Ok(_) => settle_root(&call, &directory, true).await.map(|_| Response::Empty),
        // Both are kept: whichever works is found when the directory answers.
        Err(failure) => Err(directory.failed("the new root password is not confirmed", &failure)),
    }
}
