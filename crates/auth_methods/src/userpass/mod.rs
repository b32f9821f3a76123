//! Login by user name and password.
//!
//! Users are in the engine storage as `user/NAME`. A name has one spelling: ASCII letters in lower case,
//! digits, `_`, and `-`, `.`, `@` within; nothing else is a name, so no two spellings are one user.

mod routes;

use std::future::ready;
use std::sync::Arc;

use kallisto_api::{Denial, Error, Fields, Json, Map, Response, json};
use kallisto_engine::{
    Attempts, Call, EngineSpec, Login, LoginMethod, Params, Renewal, RenewalCall, Storage,
    TokenParams, address,
};
use secrecy::{ExposeSecret, SecretString};

use crate::password::{self, PASSWORD_BYTES_MAX, PasswordSalt};

/// Longest name of a user, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// How often a password is compared in a login, while others change it.
const COMPARISONS_MAX: usize = 3;

/// What every wrong name and password are told.
const WRONG: &str = "invalid username or password";

/// A user as stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct UserpassUser {
    hash: String,
    params: TokenParams,
}

impl UserpassUser {
    fn encode(&self) -> Vec<u8> {
        let mut map = self.params.to_map();
        map.insert("hash".into(), self.hash.as_str().into());
        Json::Object(map).to_text()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let hash = map.get("hash")?.as_str()?.to_owned();
        Some(Self { hash, params: TokenParams::decode(&map).ok()? })
    }
}

/// The one spelling of a user's name; `None` for what is no name.
fn canonical(name: &str) -> Option<String> {
    crate::names::canonical(name, NAME_BYTES_MAX)
}

fn record(name: &str) -> String {
    format!("user/{name}")
}

/// The user that a path names.
fn name_in(params: Params<'_>) -> Result<String, Error> {
    canonical(params.get("name")).ok_or(Error::UnsupportedPath)
}

fn list(run: &Call<'_>) -> Result<Response, Error> {
    run.list("user/")
}

async fn delete(run: &Call<'_>) -> Result<Response, Error> {
    run.storage.delete(&record(&name_in(run.params)?)).await.map(|()| Response::Empty)
}

fn load(storage: &Storage<'_>, name: &str) -> Result<Option<UserpassUser>, Error> {
    storage.get(&record(name))?.map(|record| record.decode(UserpassUser::decode)).transpose()
}

fn read(run: &Call<'_>) -> Result<Response, Error> {
    let user = load(&run.storage, &name_in(run.params)?)?.ok_or(Error::NotFound)?;
    Ok(Response::data(&Json::Object(user.params.to_map())))
}

/// What a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UserPart {
    /// All of a user, who is made when missing.
    User,
    /// The password of a user who is there.
    Password,
    /// The policies of a user who is there.
    Policies,
}

async fn write(run: &Call<'_>, part: UserPart) -> Result<Response, Error> {
    let name = &*name_in(run.params)?;
    let body = run.request.object()?;
    let fields = Fields::new(&body);
    let hash = match part {
        UserPart::Policies => None,
        UserPart::User | UserPart::Password => given_hash(run, fields).await?,
    };
    let missing = || Error::invalid("must provide either password or password_hash");
    let record = record(name);
    let changing = run.storage.transact(&record, |transaction| {
        let mut user = match (transaction.get(&record)?, part) {
            (Some(found), _) => found.decode(UserpassUser::decode)?,
            (None, UserPart::User) => UserpassUser::default(),
            (None, UserPart::Password | UserPart::Policies) => {
                return Err(Error::invalid("username does not exist"));
            }
        };
        if part != UserPart::Password {
            user.params.update(fields)?;
        }
        match &hash {
            Some(hash) => user.hash.clone_from(hash),
            None if part == UserPart::Password || user.hash.is_empty() => return Err(missing()),
            None => {}
        }
        transaction.put(&record, user.encode())
    });
    changing.await.map(|()| Response::Empty)
}

/// The hash of the password that was given, or the one that was given itself.
async fn given_hash(run: &Call<'_>, fields: Fields<'_>) -> Result<Option<String>, Error> {
    let given = |name: &str| fields.string(name).map(|given| given.filter(|text| !text.is_empty()));
    match (given("password")?, given("password_hash")?) {
        (Some(_), Some(_)) => {
            Err(Error::invalid("only one of password or password_hash may be provided"))
        }
        (Some(password), None) => {
            check_length(&password)?;
            make_hash(run, SecretString::from(password)).await.map(Some)
        }
        (None, Some(hash)) => {
            // From a file it may have a line end, which is no part of it.
            let hash = hash.trim();
            password::check_bcrypt(hash)?;
            Ok(Some(hash.to_owned()))
        }
        (None, None) => Ok(None),
    }
}

/// The hash of a password, made on the threads for that.
async fn make_hash(run: &Call<'_>, password: SecretString) -> Result<String, Error> {
    let mut salt = PasswordSalt::default();
    run.random.fill(&mut salt)?;
    run.run_heavy(move || password::make_hash(password.expose_secret(), salt)).await?
}

fn check_length(password: &str) -> Result<(), Error> {
    if password.len() > PASSWORD_BYTES_MAX {
        return Err(Error::invalid(format!("password is over {PASSWORD_BYTES_MAX} bytes")));
    }
    Ok(())
}

async fn log_in(run: Call<'_>) -> Result<Response, Error> {
    let request = run.request;
    let name = name_in(run.params)?;
    let body = request.object()?;
    let password = Fields::new(&body).string("password")?.filter(|text| !text.is_empty());
    let password = password.ok_or_else(|| Error::invalid("missing password"))?;
    check_length(&password)?;
    let password = SecretString::from(password);
    let user = proven(&run, &name, &password).await?;
    address::check(&user.params.bound_cidrs, request.remote)?;
    if password::is_outdated(&user.hash) {
        renew_hash(&run, &name, (&user.hash, password)).await?;
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
    run.logins()?.grant(login).await
}

/// The user of a name, if the password is theirs when the comparison is done. It waits for those that were asked for before, and meanwhile
/// the user may have gone, or have got another password.
///
/// # Errors
/// What a wrong password hears; a denial while the name is locked.
async fn proven(
    run: &Call<'_>,
    name: &str,
    password: &SecretString,
) -> Result<UserpassUser, Error> {
    for _ in 0..COMPARISONS_MAX {
        let user = load(&run.storage, name)?;
        let attempts = run.logins()?.attempts(name);
        let compared = match (judge(run, attempts, user.as_ref(), password.clone()).await?, user) {
            (PasswordVerdict::Locked, _) => return Err(Error::Denied(Denial::BadToken)),
            (PasswordVerdict::Good, Some(user)) => user,
            (PasswordVerdict::Good | PasswordVerdict::Wrong, _) => {
                return Err(Error::invalid(WRONG));
            }
        };
        let now = load(&run.storage, name)?;
        if let Some(user) = now.filter(|user| user.hash == compared.hash) {
            return Ok(user);
        }
    }
    Err(Error::Conflict)
}

/// A user who is gone renews no token, nor one whose policies changed.
///
/// # Errors
/// [`Error::Invalid`] saying which.
fn check_renewal(renewal: &RenewalCall<'_>) -> Result<Renewal, Error> {
    let name = renewal.path.strip_prefix("login/").and_then(canonical);
    let user = name.map_or(Ok(None), |name| load(&renewal.storage, &name))?;
    let user = user.ok_or_else(|| Error::invalid("the user does not exist any more"))?;
    renewal.with_same_policies(user.params)
}

/// How a password was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PasswordVerdict {
    Good,
    Wrong,
    /// It was not looked at.
    Locked,
}

/// Judges a password, unless the name is locked, and counts the outcome.
///
/// Whether it is locked is asked again, and the outcome counted, on the thread that compares: of any number of guesses at once only as
/// many pass the threshold as there are threads.
async fn judge(
    run: &Call<'_>,
    attempts: Arc<dyn Attempts>,
    user: Option<&UserpassUser>,
    password: SecretString,
) -> Result<PasswordVerdict, Error> {
    if attempts.is_locked() {
        return Ok(PasswordVerdict::Locked);
    }
    let hash = user.map(|user| user.hash.clone());
    let compare = move || {
        if attempts.is_locked() {
            return PasswordVerdict::Locked;
        }
        if password::matches(password.expose_secret(), hash.as_deref()) {
            attempts.forget();
            return PasswordVerdict::Good;
        }
        attempts.fail(hash.is_some());
        PasswordVerdict::Wrong
    };
    run.run_heavy(compare).await
}

/// Makes a hash of today's kind of a password that was just found good.
async fn renew_hash(
    run: &Call<'_>,
    name: &str,
    (old, password): (&str, SecretString),
) -> Result<(), Error> {
    let hash = make_hash(run, password).await?;
    let record = record(name);
    let changing = run.storage.transact(&record, |transaction| {
        let Some(found) = transaction.get(&record)? else { return Ok(()) };
        let mut user = found.decode(UserpassUser::decode)?;
        if user.hash != old {
            return Ok(());
        }
        user.hash.clone_from(&hash);
        transaction.put(&record, user.encode())
    });
    changing.await
}

/// Users with passwords.
pub(crate) const METHOD: EngineSpec = EngineSpec {
    caseless_folders: &["login/", "users/"],
    ..EngineSpec::login_method(
        "userpass",
        &routes::USERPASS,
        LoginMethod { check_renewal: |call| Box::pin(ready(check_renewal(&call))), role_of: None },
    )
};

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::Update;
    use kallisto_engine_testing::TestMount;

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
        let mut user = UserpassUser { hash: "h".into(), ..UserpassUser::default() };
        let body = json::parse_object(br#"{"policies":"a","token_ttl":60}"#).unwrap();
        user.params.update(Fields::new(&body)).unwrap();
        assert_eq!(UserpassUser::decode(&user.encode()), Some(user));
        assert!(UserpassUser::decode(b"{}").is_none());
    }

    fn refused(mount: &TestMount, path: &str, password: &str) -> Error {
        let body = format!(r#"{{"password":"{password}"}}"#);
        mount.ask(0, Update, path, &body).unwrap_err()
    }

    #[test]
    fn a_good_password_is_a_login_and_all_others_are_told_the_same() {
        let mount = TestMount::new(&METHOD);
        mount.ask(0, Update, "users/bob", r#"{"password":"good","token_ttl":60}"#).unwrap();
        mount.ask(0, Update, "login/Bob", r#"{"password":"good"}"#).unwrap();
        let login = mount.granted().unwrap();
        assert_eq!((login.alias.as_str(), login.display_name.as_str()), ("bob", "bob"));
        assert_eq!(login.metadata.get("username").and_then(Json::as_str), Some("bob"));
        assert_eq!(login.params.to_map().get("token_ttl"), Some(&60_u64.into()));
        for path in ["login/bob", "login/nobody"] {
            assert_eq!(refused(&mount, path, "wrong"), Error::invalid(WRONG), "{path}");
        }
        assert_eq!(mount.wrong_passwords(), (1, 1));
        mount.lock_names(true);
        assert_eq!(refused(&mount, "login/bob", "good"), Error::Denied(Denial::BadToken));
        assert!(mount.granted().is_none());
    }

    #[test]
    fn a_password_that_changes_during_the_comparison_is_compared_again() {
        let mount = TestMount::new(&METHOD);
        mount.ask(0, Update, "users/bob", r#"{"password":"old"}"#).unwrap();
        mount.meanwhile(|mount| {
            drop(mount.ask(0, Update, "users/bob/password", r#"{"password":"new"}"#).unwrap());
        });
        assert_eq!(refused(&mount, "login/bob", "old"), Error::invalid(WRONG));
        assert!(mount.granted().is_none());
    }
}
