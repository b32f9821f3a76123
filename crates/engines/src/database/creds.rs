//! Credentials of roles: a user at the database for as long as its lease lives.
//!
//! What drops the user is in the lease before the database is asked for it, so whatever crashes in between, the user is dropped.

use jiff::Timestamp;
use kallisto_api::json::{self, Json};
use kallisto_api::{BoxFuture, Error, Fields, Response};
use kallisto_engine::{Call, LeaseCall, Leftover, MakeFailure, NewLease, RoleTtl};
use secrecy::SecretString;

use super::connection::{self, DatabaseConnection, Plugin};
use super::credential::{CredentialPlan, UserCredential};
use super::role::{self, DatabaseRole};
use super::statements::statements;
use super::work;
use crate::leased;
use crate::username::{self, cut, plain, random_text};

/// Random characters of a user's name: 119 bits.
const RANDOM_CHARS: usize = 20;

/// Longest name of a role of PostgreSQL, in bytes.
const POSTGRES_NAME_BYTES_MAX: usize = 63;

/// What drops and renews a user, whatever becomes of its role.
struct UserRevocation {
    connection: String,
    role: String,
    username: String,
    statements: Vec<String>,
}

impl UserRevocation {
    fn encode(&self) -> Vec<u8> {
        Json::object([
            ("connection", self.connection.as_str().into()),
            ("revocation_statements", Json::strings(self.statements.iter().cloned())),
            ("role", self.role.as_str().into()),
            ("username", self.username.as_str().into()),
        ])
        .to_text()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let fields = Fields::new(&map);
        let text = |name: &str| fields.string(name).ok()?;
        Some(Self {
            connection: text("connection")?,
            role: text("role")?,
            username: text("username")?,
            statements: statements(fields, "revocation_statements").ok()??,
        })
    }

    /// Of a lease.
    fn of(call: &LeaseCall<'_>) -> Result<Self, Error> {
        Self::decode(call.revocation).ok_or_else(|| call.damaged())
    }
}

/// The name of a new user.
fn make_username(
    call: &Call<'_>,
    connection: &DatabaseConnection,
    role: &str,
) -> Result<String, Error> {
    let display_name = call.caller.map_or("", |caller| caller.display_name.as_str());
    if !connection.username_template.is_empty() {
        let names = username::UsernameFacts {
            display_name,
            role_name: role,
            now: call.now,
            random: call.random,
        };
        let name = username::make(&connection.username_template, &names)?;
        return Ok(match connection.plugin {
            // It cuts a longer one by itself: the name that is told is the one that is there.
            Plugin::Postgres => cut(&name, POSTGRES_NAME_BYTES_MAX).to_owned(),
            Plugin::Mysql | Plugin::Redis => name,
        });
    }
    let (display, role) = (plain(display_name), plain(role));
    let random = random_text(call.random, RANDOM_CHARS)?;
    let now = call.now.as_second();
    Ok(match connection.plugin {
        Plugin::Postgres => format!("v-{}-{}-{random}-{now}", cut(&display, 8), cut(&role, 8)),
        // 32 characters in all, and none of the random ones is cut.
        Plugin::Mysql => format!("v-{}-{}-{random}", cut(&display, 4), cut(&role, 4)),
        Plugin::Redis => {
            format!("V_{}_{}_{random}_{now}", cut(&display, 8), cut(&role, 8)).to_uppercase()
        }
    })
}

pub(super) async fn make(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    let role = role::find(&call, name)?;
    let role = role.ok_or_else(|| Error::invalid(format!("unknown role: {name}")))?;
    let connection = connection::find(&call, &role.db_name)?;
    if !connection.allows(name) {
        return Err(Error::invalid(format!("{name:?} is not an allowed role")));
    }
    let plan = CredentialPlan::read(&role.credential_type, &role.credential_config)?;
    let renewable = plan.is_renewable();
    let username = make_username(&call, &connection, name)?;
    let credential = plan.make(&call, name, &username, &connection.password_policy).await?;
    let statements = match role.revocation.is_empty() {
        true => work::usual_revocation(&connection, &role.creation)?,
        false => role.revocation.clone(),
    };
    // What cannot be asked is refused before there is a lease of it.
    let (value_name, value) = told(&call, &connection, &credential)?;
    work::create_user(&connection, &role.creation, &username, (value_name, &value), call.now)?;
    work::drop_user(&connection, &statements, &username)?;
    let revocation = UserRevocation {
        connection: role.db_name.clone(),
        role: name.to_owned(),
        username: username.clone(),
        statements,
    };
    let lease = NewLease {
        role_default_secs: role.default_secs,
        role_max_secs: role.max_secs,
        renewable,
        revocation: revocation.encode(),
        ..NewLease::default()
    };
    call.issue(lease, move |ends: Timestamp| -> BoxFuture<'_, Result<Json, MakeFailure>> {
        Box::pin(create(call, connection, role, username, credential, ends))
    })
    .await
}

/// What statements call a credential, and what they say for it.
fn told(
    call: &Call<'_>,
    connection: &DatabaseConnection,
    credential: &UserCredential,
) -> Result<(&'static str, SecretString), Error> {
    let (name, value) = credential.value();
    match name {
        "password" => Ok((name, connection.written_password(call.random, &value)?)),
        _ => Ok((name, value)),
    }
}

async fn create(
    call: Call<'_>,
    connection: DatabaseConnection,
    role: DatabaseRole,
    username: String,
    credential: UserCredential,
    ends: Timestamp,
) -> Result<Json, MakeFailure> {
    let nothing = |error: Error| MakeFailure { error, left: Leftover::Nothing };
    // Behind the lease: see `leased`.
    connection::find(&call, &role.db_name).map_err(nothing)?;
    let answer = credential.answer(&call, &username, ends).map_err(nothing)?;
    let (name, value) = told(&call, &connection, &credential).map_err(nothing)?;
    let work = work::create_user(&connection, &role.creation, &username, (name, &value), ends);
    let work = work.map_err(nothing)?;
    let mut secrets = credential.secrets();
    if !secrets.is_empty() {
        // A verifier of the password is no better than it to be told.
        secrets.push(value);
    }
    let asked = connection.ask(&call, work, secrets).await;
    if let Err(failure) = asked {
        let error = connection.failed("failed to execute query", &failure);
        if failure.did_nothing() {
            // The database was not reached, or a user of this name was there before: a lease would have nothing to end.
            return Err(MakeFailure { error, left: Leftover::Nothing });
        }
        if let Some(back) = work::roll_back(&connection, &role.rollback, &username)?
            && let Err(error) = connection.ask(&call, back, Vec::new()).await
        {
            // The revocation of the lease comes after it.
            tracing::debug!(%error, "statements that roll back a database user failed");
        }
        return Err(error.into());
    }
    Ok(answer)
}

/// Deletes a connection, but not while there are users that only it can drop.
pub(super) async fn delete_connection(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    let is_of_it = |revocation: &[u8]| {
        UserRevocation::decode(revocation).is_some_and(|revocation| revocation.connection == name)
    };
    let what = format!("users that only the connection {name:?} can drop");
    leased::delete(&call, &connection::record_name(name), &what, is_of_it).await?;
    call.far_ends.close(call.mount.accessor, Some(name));
    Ok(Response::Empty)
}

/// The end of a lease: its user is dropped, if there is one.
pub(super) async fn end_lease(call: LeaseCall<'_>) -> Result<(), Error> {
    let revocation = UserRevocation::of(&call)?;
    let connection = connection::find(&call, &revocation.connection)?;
    let work = work::drop_user(&connection, &revocation.statements, &revocation.username)?;
    let asked = connection.ask(&call, work, Vec::new()).await;
    asked.map(drop).map_err(|failure| connection.failed("failed to drop the user", &failure))
}

/// A lease lives longer: the database is told so.
pub(super) async fn renew_lease(call: LeaseCall<'_>, ends: Timestamp) -> Result<(), Error> {
    let revocation = UserRevocation::of(&call)?;
    let role = role_of(&call, &revocation)?;
    let connection = connection::find(&call, &revocation.connection)?;
    let work = work::renew_user(&connection, &role.renew, &revocation.username, ends)?;
    let Some(work) = work else { return Ok(()) };
    let asked = connection.ask(&call, work, Vec::new()).await;
    asked.map(drop).map_err(|failure| connection.failed("failed to renew the user", &failure))
}

/// How long users of a lease's role may live by now.
pub(super) fn role_ttl(call: &LeaseCall<'_>) -> Result<RoleTtl, Error> {
    let role = role_of(call, &UserRevocation::of(call)?)?;
    Ok(RoleTtl { default_secs: role.default_secs, max_secs: role.max_secs })
}

fn role_of(call: &LeaseCall<'_>, revocation: &UserRevocation) -> Result<DatabaseRole, Error> {
    let role = role::find(call, &revocation.role)?;
    role.ok_or_else(|| {
        Error::invalid(format!("could not find role with name {:?}", revocation.role))
    })
}
