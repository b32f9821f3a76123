//! Login by user name and password.
//!
//! Users are in the engine storage as `user/NAME`. A name has one spelling: ASCII letters in lower case,
//! digits, `_`, and `-`, `.`, `@` within; nothing else is a name, so no two spellings are one user.

mod routes;

use crate::engines::route_handler::{self, OpenCall, RouteCall};
use crate::engines::server_engine::{
    Answer, EngineFacts, OpenRun, Renewal, Run, ServerEngine, Weighed,
};
use kallisto_engine::{Class, Params, Routes};
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

use super::lockout::{Known, LockoutRules, Lockouts};
use super::password::{self, PASSWORD_BYTES_MAX};
use super::{Login, TokenParams, check_policies, grant};
use crate::admission::Flow;
use crate::api::error::{Denial, Error};
use crate::api::fields::Fields;
use crate::api::json::{self, Json, Map};
use crate::api::request::Request;
use crate::api::response::Response;
use crate::pipeline::address;
use crate::pipeline::state::Core;
use crate::storage::engine_storage::{Change, EngineStorage};
use crate::view::Mount;

/// Longest name of a user, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// What every wrong name and password are told.
const WRONG: &str = "invalid username or password";

/// A user as stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct User {
    hash: String,
    params: TokenParams,
}

impl User {
    fn encode(&self) -> Vec<u8> {
        let mut map = self.params.to_map();
        map.insert("hash".into(), self.hash.as_str().into());
        Json::Object(map).to_text()
    }

    fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let damaged = || Error::internal(&"a user's record is damaged");
        let map = json::parse_object(bytes).map_err(|_| damaged())?;
        let hash = map.get("hash").and_then(Json::as_str).ok_or_else(damaged)?.to_owned();
        Ok(Self { hash, params: TokenParams::decode(&map).map_err(|_| damaged())? })
    }
}

/// The one spelling of a user's name; `None` for what is no name.
fn canonical(name: &str) -> Option<String> {
    super::canonical(name, NAME_BYTES_MAX)
}

fn record(name: &str) -> String {
    format!("user/{name}")
}

/// The user that a path names.
fn name_in(params: Params<'_>) -> Result<String, Error> {
    canonical(params.get("name")).ok_or(Error::UnsupportedPath)
}

fn list(run: &RouteCall<'_>) -> Result<Response, Error> {
    super::list(&run.storage(), run.call, "user/")
}

async fn delete(run: &RouteCall<'_>) -> Result<Response, Error> {
    run.storage().delete(&record(&name_in(run.params)?)).await.map(|()| Response::Empty)
}

fn load(storage: &EngineStorage<'_>, name: &str) -> Result<Option<User>, Error> {
    storage.get(&record(name))?.map(|record| User::decode(&record.value)).transpose()
}

fn read(run: &RouteCall<'_>) -> Result<Response, Error> {
    let user = load(&run.storage(), &name_in(run.params)?)?.ok_or(Error::NotFound)?;
    Ok(Response::data(&Json::Object(user.params.to_map())))
}

/// What a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// All of a user, who is made when missing.
    User,
    /// The password of a user who is there.
    Password,
    /// The policies of a user who is there.
    Policies,
}

async fn write(run: &RouteCall<'_>, part: Part) -> Result<Response, Error> {
    let name = &*name_in(run.params)?;
    let (core, call, storage) = (run.core, run.call, run.storage());
    let body = call.object()?;
    let fields = Fields::new(&body);
    let hash = match part {
        Part::Policies => None,
        Part::User | Part::Password => given_hash(core, call.flow(), fields).await?,
    };
    let missing = || Error::invalid("must provide either password or password_hash");
    let decide = |found: Option<&[u8]>| {
        let mut user = match (found, part) {
            (Some(bytes), _) => User::decode(bytes)?,
            (None, Part::User) => User::default(),
            (None, Part::Password | Part::Policies) => {
                return Err(Error::invalid("username does not exist"));
            }
        };
        if part != Part::Password {
            user.params.update(fields)?;
        }
        match &hash {
            Some(hash) => user.hash.clone_from(hash),
            None if part == Part::Password || user.hash.is_empty() => return Err(missing()),
            None => {}
        }
        Ok(Change::Put(user.encode(), ()))
    };
    storage.change(&record(name), decide).await?;
    Ok(Response::Empty)
}

/// The hash of the password that was given, or the one that was given itself.
async fn given_hash(core: &Core, flow: Flow, fields: Fields<'_>) -> Result<Option<String>, Error> {
    let given = |name: &str| fields.string(name).map(|given| given.filter(|text| !text.is_empty()));
    match (given("password")?, given("password_hash")?) {
        (Some(_), Some(_)) => {
            Err(Error::invalid("only one of password or password_hash may be provided"))
        }
        (Some(password), None) => {
            check_length(&password)?;
            let password = SecretString::from(password);
            let hash = move || password::make_hash(password.expose_secret());
            core.logins.hashers.run(flow, hash).await?.map(Some)
        }
        (None, Some(hash)) => {
            password::check_bcrypt(&hash)?;
            Ok(Some(hash))
        }
        (None, None) => Ok(None),
    }
}

fn check_length(password: &str) -> Result<(), Error> {
    if password.len() > PASSWORD_BYTES_MAX {
        return Err(Error::invalid(format!("password is over {PASSWORD_BYTES_MAX} bytes")));
    }
    Ok(())
}

async fn log_in(run: &OpenCall<'_>) -> Result<Response, Error> {
    let OpenCall { core, unsealed, request, mount, params, .. } = *run;
    let name = name_in(params)?;
    let body = request.object()?;
    let password = Fields::new(&body).string("password")?.filter(|text| !text.is_empty());
    let password = password.ok_or_else(|| Error::invalid("missing password"))?;
    check_length(&password)?;
    let password = SecretString::from(password);
    let storage = EngineStorage::of(unsealed, mount);
    let user = load(&storage, &name)?;
    let attempt = Attempt {
        lockouts: Arc::clone(&core.logins.lockouts),
        rules: mount.entry.config.lockout.unwrap_or_default(),
        request,
        mount,
        name: &name,
    };
    let outcome = attempt.judge(core, user.as_ref(), password.clone()).await?;
    let user = match (outcome, user) {
        (Outcome::Locked, _) => return Err(Error::Denied(Denial::BadToken)),
        (Outcome::Good, Some(user)) => user,
        (Outcome::Good | Outcome::Wrong, _) => return Err(Error::invalid(WRONG)),
    };
    address::check(&user.params.bound_cidrs, request.remote)?;
    if password::is_outdated(&user.hash) {
        renew_hash(core, request.flow(), &storage, &name, (&user.hash, password)).await?;
    }
    let username = Map::from([("username".to_owned(), name.as_str().into())]);
    let login = Login {
        alias: name.clone(),
        display_name: name,
        metadata: username,
        groups: Vec::new(),
        params: user.params,
        kept: Map::new(),
    };
    grant(unsealed, request, mount, login).await
}

/// A user who is gone renews no token, nor one whose policies changed.
///
/// # Errors
/// [`Error::Invalid`] saying which.
fn check_renewal(renewal: &Renewal<'_, '_>) -> Result<(), Error> {
    let name = renewal.path.strip_prefix("login/").and_then(canonical);
    let storage = EngineStorage::of(renewal.unsealed, renewal.mount);
    let user = name.map_or(Ok(None), |name| load(&storage, &name))?;
    let user = user.ok_or_else(|| Error::invalid("the user does not exist any more"))?;
    check_policies(renewal, &user.params)
}

/// How a password was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Good,
    Wrong,
    /// It was not looked at.
    Locked,
}

/// One try of a password.
struct Attempt<'a, 'r> {
    lockouts: Arc<Lockouts>,
    rules: LockoutRules,
    request: &'a Request<'r>,
    mount: &'a Mount,
    name: &'a str,
}

impl Attempt<'_, '_> {
    /// Judges a password, unless the name is locked, and counts the outcome.
    ///
    /// Whether it is locked is asked again, and the outcome counted, on the thread that compares: of
    /// any number of guesses at once only as many pass the threshold as there are threads.
    async fn judge(
        &self,
        core: &Core,
        user: Option<&User>,
        password: SecretString,
    ) -> Result<Outcome, Error> {
        let (id, rules, now) = (self.mount.entry.id, self.rules, self.request.now);
        if self.lockouts.is_locked(id, self.name, rules, now) {
            return Ok(Outcome::Locked);
        }
        let (lockouts, name) = (Arc::clone(&self.lockouts), self.name.to_owned());
        let hash = user.map(|user| user.hash.clone());
        let compare = move || {
            if lockouts.is_locked(id, &name, rules, now) {
                return Outcome::Locked;
            }
            if password::matches(password.expose_secret(), hash.as_deref()) {
                lockouts.forget(id, &name);
                return Outcome::Good;
            }
            let known = if hash.is_some() { Known::User } else { Known::Nobody };
            lockouts.failed(id, &name, known, rules, now);
            Outcome::Wrong
        };
        core.logins.hashers.run(self.request.flow(), compare).await
    }
}

/// Makes a hash of today's kind of a password that was just found good.
async fn renew_hash(
    core: &Core,
    flow: Flow,
    storage: &EngineStorage<'_>,
    name: &str,
    (old, password): (&str, SecretString),
) -> Result<(), Error> {
    let hash = move || password::make_hash(password.expose_secret());
    let hash = core.logins.hashers.run(flow, hash).await??;
    let decide = |found: Option<&[u8]>| {
        let Some(bytes) = found else { return Ok(Change::Keep(())) };
        let mut user = User::decode(bytes)?;
        if user.hash != old {
            return Ok(Change::Keep(()));
        }
        user.hash.clone_from(&hash);
        Ok(Change::Put(user.encode(), ()))
    };
    storage.change(&record(name), decide).await
}

/// Users with passwords.
pub(crate) struct Userpass;

impl ServerEngine for Userpass {
    fn facts(&self) -> EngineFacts {
        let caseless_folders = &["login/", "users/"];
        EngineFacts { caseless_folders, ..EngineFacts::mountable("userpass", Class::Auth) }
    }

    fn routes(&self) -> &'static dyn Routes {
        &routes::USERPASS
    }

    fn handle<'a>(&self, run: Run<'a>) -> Answer<'a> {
        route_handler::answer(&routes::USERPASS, run)
    }

    fn handle_open<'a>(&self, run: OpenRun<'a>) -> Answer<'a> {
        route_handler::answer_open(&routes::USERPASS, run)
    }

    fn check_renewal(&self, renewal: &Renewal<'_, '_>) -> Result<(), Error> {
        check_renewal(renewal)
    }

    /// What tidies looks at every record there is.
    fn is_light(&self, weighed: &Weighed<'_>) -> bool {
        !weighed.lists && !weighed.path.starts_with("tidy")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_spelling() {
        for (given, name) in [("Bob", "bob"), ("a.b@C-d_e", "a.b@c-d_e"), ("x", "x")] {
            assert_eq!(canonical(given).as_deref(), Some(name));
        }
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        for bad in ["", " bob", "bob ", "b b", "-bob", "bob.", "böb", "bob\u{200b}", "a/b", &long]
        {
            assert_eq!(canonical(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_user_reads_back() {
        let mut user = User { hash: "h".into(), ..User::default() };
        let body = json::parse_object(br#"{"policies":"a","token_ttl":60}"#).unwrap();
        user.params.update(Fields::new(&body)).unwrap();
        assert_eq!(User::decode(&user.encode()), Ok(user));
        assert!(User::decode(b"{}").is_err());
    }
}
