//! Connections: which database, as whom, for which roles.
//!
//! A record is what an operator gave, field by field, without a password in its URL, and what the server adds: `revision`, which rises with
//! each change, and `pending_password` while the root password is being changed.

use kallisto_api::json::{Json, Map};
use kallisto_api::{Error, Fields, Response};
use kallisto_engine::far_end::{
    FarEndLogin, FarEndPool, FarEndProtocol, FarEndTls, PostgresStart, RootPassword, SessionUse,
};
use kallisto_engine::glob::matches_glob;
use kallisto_engine::{
    AllowedAddresses, Call, EngineContext, FarEnd, FarEndAnswer, FarEndCall, FarEndFailure,
    FarEndWork, Random, Stored,
};
use secrecy::{ExposeSecret, SecretString};

use super::root::settle_root;
use super::sql::SqlDialect;
use super::statements::statements;
use super::{scram, tls, url};
use crate::rotation::LoginChecks;
use crate::username;

/// How long a request waits for a database, in seconds.
pub(super) const CALL_SECS: u64 = 20;
/// How long a new connection is tried for, in seconds, when nobody says.
const CONNECT_SECS: u64 = 5;
/// What decides where a connection logs in, and as whom: what has to stay while its password is being changed.
const LOGIN: [&str; 6] = ["plugin_name", "connection_url", "username", "password", "host", "port"];
/// What is never shown.
const SECRETS: [&str; 5] =
    ["password", "pending_password", "private_key", "tls_certificate_key", "client_key"];
/// What is shown beside the details of a connection.
const OUTER: [&str; 9] = [
    "plugin_name",
    "plugin_version",
    "allowed_roles",
    "root_rotation_statements",
    "password_policy",
    "verify_connection",
    "revision",
    "pending_since",
    "root_rotated",
];
/// What an operator may give.
const GIVEN: &[&str] = &[
    "plugin_name",
    "plugin_version",
    "allowed_roles",
    "root_rotation_statements",
    "password_policy",
    "connection_url",
    "username",
    "password",
    "username_template",
    "max_open_connections",
    "max_idle_connections",
    "max_connection_lifetime",
    "connect_timeout",
    "disable_escaping",
    "host",
    "port",
    "tls",
    "insecure_tls",
    "tls_skip_verify",
    "ca_cert",
    "tls_ca",
    "tls_certificate",
    "tls_certificate_key",
    "private_key",
    "tls_server_name",
    "persistence_mode",
    "password_authentication",
];

/// What kind of database it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plugin {
    Postgres,
    Mysql,
    Redis,
}

impl Plugin {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "postgresql-database-plugin" => Self::Postgres,
            "mysql-database-plugin"
            | "mysql-aurora-database-plugin"
            | "mysql-rds-database-plugin"
            | "mysql-legacy-database-plugin"
            | "mariadb-database-plugin" => Self::Mysql,
            "redis-database-plugin" | "valkey-database-plugin" => Self::Redis,
            _ => return None,
        })
    }

    pub(super) const fn dialect(self) -> SqlDialect {
        match self {
            Self::Mysql => SqlDialect::Mysql,
            Self::Postgres | Self::Redis => SqlDialect::Postgres,
        }
    }
}

/// A connection.
#[derive(Clone)]
pub(super) struct DatabaseConnection {
    pub(super) name: String,
    pub(super) plugin: Plugin,
    pub(super) record: Map,
    place: url::DatabaseAddress,
    pub(super) username: String,
    password: SecretString,
    pub(super) pending: Option<SecretString>,
    pub(super) allowed_roles: Vec<String>,
    pub(super) password_policy: String,
    pub(super) username_template: String,
    pub(super) root_statements: Vec<String>,
    pub(super) persistence: String,
    /// Whether PostgreSQL is told verifiers of passwords, not the passwords.
    hashes_passwords: bool,
    revision: u64,
    tls: FarEndTls,
    pool: FarEndPool,
    connect_secs: u64,
}

pub(super) fn record_name(name: &str) -> String {
    format!("config/{name}")
}

impl DatabaseConnection {
    /// Reads a record.
    pub(super) fn decode(name: &str, stored: &Stored) -> Result<Self, Error> {
        stored.decode_object(|map| Self::read(name, map.clone()))
    }

    /// Reads what was given.
    pub(super) fn read(name: &str, record: Map) -> Result<Self, Error> {
        let creating = |error: Error| match error {
            Error::Invalid(why) => Error::invalid(format!("error creating database object: {why}")),
            other => other,
        };
        let fields = Fields::new(&record);
        let text = |name: &str| Ok::<_, Error>(fields.string(name)?.unwrap_or_default());
        let plugin_name = text("plugin_name")?;
        if plugin_name.is_empty() {
            return Err(Error::invalid("empty plugin name"));
        }
        let plugin = Plugin::named(&plugin_name).ok_or_else(|| {
            Error::invalid(format!("unknown plugin {plugin_name:?}: those here are for PostgreSQL, MySQL, MariaDB, Redis and Valkey"))
        })?;
        let place = match plugin {
            Plugin::Postgres => url::postgres(&text("connection_url")?).map_err(creating)?,
            Plugin::Mysql => url::mysql(&text("connection_url")?).map_err(creating)?,
            Plugin::Redis => {
                let (host, port) = (text("host")?, fields.int("port")?.unwrap_or(6379));
                let port = u16::try_from(port).ok().filter(|port| *port > 0);
                let port = port.ok_or_else(|| Error::invalid("port is no number of a port"))?;
                if host.is_empty() {
                    return Err(creating(Error::invalid("host cannot be empty")));
                }
                url::DatabaseAddress {
                    hosts: vec![(host, port)],
                    ..url::DatabaseAddress::default()
                }
            }
        };
        let count = |name: &str, usual: usize| {
            let given = fields.int(name)?.filter(|count| *count != 0);
            Ok::<_, Error>(given.map_or(usual, |count| usize::try_from(count).unwrap_or(0)))
        };
        let usual = FarEndPool::default();
        let open_max = count("max_open_connections", usual.open_max)?;
        let pool = FarEndPool {
            open_max,
            idle_max: count("max_idle_connections", open_max)?,
            lifetime_secs: span_secs(fields, "max_connection_lifetime")?,
        };
        let tls = tls::read(plugin, place.tls, fields)?;
        let secret = |name: &str| Ok::<_, Error>(SecretString::from(text(name)?));
        let connection = Self {
            name: name.to_owned(),
            plugin,
            place,
            username: text("username")?,
            password: secret("password")?,
            pending: Some(secret("pending_password")?)
                .filter(|one| !one.expose_secret().is_empty()),
            allowed_roles: fields.strings("allowed_roles")?.unwrap_or_default(),
            password_policy: text("password_policy")?,
            username_template: text("username_template")?,
            root_statements: statements(fields, "root_rotation_statements")?.unwrap_or_default(),
            persistence: text("persistence_mode")?.to_uppercase(),
            hashes_passwords: match text("password_authentication")?.as_str() {
                "" | "password" => false,
                "scram-sha-256" => true,
                other => {
                    return Err(creating(Error::invalid(format!(
                        "{other:?} is not a valid password_authentication: password or scram-sha-256"
                    ))));
                }
            },
            revision: fields.int("revision")?.and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
            tls,
            pool,
            connect_secs: match span_secs(fields, "connect_timeout")? {
                0 => CONNECT_SECS,
                given => given,
            },
            record: Map::new(),
        };
        Ok(Self { record, ..connection })
    }

    pub(super) fn encode(record: &Map) -> Vec<u8> {
        Json::Object(record.clone()).to_text()
    }

    pub(super) fn allows(&self, role: &str) -> bool {
        self.allowed_roles.iter().any(|pattern| matches_glob(pattern.trim(), role))
    }

    /// Whether a change of the root password has begun and is not settled, and since when.
    pub(super) fn pending_since(&self) -> Option<i64> {
        self.pending.as_ref()?;
        Some(Fields::new(&self.record).int("pending_since").ok().flatten().unwrap_or(0))
    }

    /// A password as statements say it.
    pub(super) fn written_password(
        &self,
        random: &dyn Random,
        password: &SecretString,
    ) -> Result<SecretString, Error> {
        if self.plugin != Plugin::Postgres || !self.hashes_passwords {
            return Ok(password.clone());
        }
        let mut salt = [0; scram::SALT_BYTES];
        random.fill(&mut salt)?;
        Ok(SecretString::from(scram::verifier(password.expose_secret(), &salt)))
    }

    /// What people find it by.
    pub(super) fn described(&self) -> String {
        let hosts: Vec<String> =
            self.place.hosts.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        let kind = self.protocol(SecretString::default()).name();
        format!("connection {:?}, {kind} at {}", self.name, hosts.join(","))
    }

    /// That the change of the root password is open: whatever the database says, nobody who asks can put it right by asking otherwise.
    pub(super) fn unclear(&self, doing: &str, failure: &FarEndFailure) -> Error {
        let described = self.described();
        Error::Unavailable(format!(
            "{doing}: {failure} ({described}); both passwords are kept, and the change is tried again"
        ))
    }

    /// A failure with the connection that it is of.
    pub(super) fn failed(&self, doing: &str, failure: &FarEndFailure) -> Error {
        let described = self.described();
        failure.clone().map(|words| format!("{words} ({described})")).to_error(doing)
    }

    fn protocol(&self, password: SecretString) -> FarEndProtocol {
        let login = FarEndLogin { user: self.username.clone(), password };
        let database = self.place.database.clone();
        match self.plugin {
            Plugin::Postgres => {
                FarEndProtocol::Postgres { login, database, start: self.place.start.clone() }
            }
            Plugin::Mysql => FarEndProtocol::Mysql { login, database },
            Plugin::Redis => FarEndProtocol::Redis { login },
        }
    }

    /// The call that asks for work.
    pub(super) fn call(
        &self,
        context: &EngineContext<'_>,
        work: FarEndWork,
        session: SessionUse,
        secrets: Vec<SecretString>,
    ) -> FarEndCall {
        self.call_as(context, self.password.clone(), work, session, secrets)
    }

    fn call_as(
        &self,
        context: &EngineContext<'_>,
        password: SecretString,
        work: FarEndWork,
        session: SessionUse,
        secrets: Vec<SecretString>,
    ) -> FarEndCall {
        FarEndCall {
            far_end: FarEnd {
                mount: context.mount.accessor.to_owned(),
                name: self.name.clone(),
                revision: self.revision,
                hosts: self.place.hosts.clone(),
                addresses: AllowedAddresses::default(),
                connect_secs: self.connect_secs,
                protocol: self.protocol(password),
                tls: self.tls.clone(),
                pool: self.pool,
            },
            work,
            session,
            deadline_secs: CALL_SECS,
            secrets,
        }
    }

    fn check(&self, context: &EngineContext<'_>, password: &SecretString) -> FarEndCall {
        self.call_as(context, password.clone(), FarEndWork::Check, SessionUse::Fresh, Vec::new())
    }

    /// Checks of both passwords while one is pending.
    pub(super) fn login_checks(&self, context: &EngineContext<'_>) -> Option<LoginChecks> {
        let pending = self.check(context, self.pending.as_ref()?);
        Some(LoginChecks { pending, current: self.check(context, &self.password) })
    }

    /// A check whether a user logs in with a password.
    pub(super) fn check_user(
        &self,
        context: &EngineContext<'_>,
        user: &str,
        password: &SecretString,
    ) -> FarEndCall {
        let mut connection = self.clone();
        user.clone_into(&mut connection.username);
        // What sessions of the connection begin with, another user may not be allowed to.
        connection.place.start = PostgresStart::default();
        connection.check(context, password)
    }

    /// Asks, and tries the password that is pending where the other one is not taken.
    pub(super) async fn ask(
        &self,
        context: &EngineContext<'_>,
        work: FarEndWork,
        secrets: Vec<SecretString>,
    ) -> Result<FarEndAnswer, FarEndFailure> {
        let call = self.call(context, work.clone(), SessionUse::Pooled, secrets.clone());
        let outcome = context.far_ends.ask(call).await;
        let is_wrong = outcome.as_ref().is_err_and(FarEndFailure::is_wrong_password);
        let Some(pending) = self.pending.as_ref().filter(|_| is_wrong) else { return outcome };
        if context.far_ends.ask(self.check(context, pending)).await.is_err() {
            return outcome;
        }
        let Ok(Some(promoted)) = settle_root(context, self, RootPassword::Pending).await else {
            return outcome;
        };
        let call = promoted.call(context, work, SessionUse::Pooled, secrets);
        context.far_ends.ask(call).await
    }
}

/// A span of time in whole seconds; 0 for none.
pub(super) fn span_secs(fields: Fields<'_>, name: &str) -> Result<u64, Error> {
    let span = fields.span(name)?;
    let secs = span.map_or(0, |span| span.secs());
    u64::try_from(secs).map_err(|_| Error::invalid(format!("{name} is negative")))
}

/// The connection of a name.
pub(super) fn find(context: &EngineContext<'_>, name: &str) -> Result<DatabaseConnection, Error> {
    let missing =
        || Error::invalid(format!("failed to find entry for connection with name: {name:?}"));
    let record = context.storage.get(&record_name(name))?.ok_or_else(missing)?;
    DatabaseConnection::decode(name, &record)
}

/// What a new record says.
fn merged(before: Option<Map>, given: &Map) -> Result<Map, Error> {
    let mut record = before.unwrap_or_default();
    let before = record.clone();
    for name in GIVEN {
        // What is null is not given.
        if let Some(value) = given.get(*name).filter(|value| !matches!(value, Json::Null)) {
            record.insert((*name).to_owned(), value.clone());
        }
    }
    if let Some(url) = Fields::new(&record).string("connection_url")?
        && let Some(apart) = url::without_login(&url)
    {
        record.insert("connection_url".to_owned(), apart.url.into());
        record.insert("username".to_owned(), apart.username.into());
        if let Some(password) = apart.password {
            record.insert("password".to_owned(), password.into());
        }
    }
    let is_changed = |name: &&str| before.get(*name) != record.get(*name);
    if before.contains_key("pending_password") && LOGIN.iter().any(is_changed) {
        return Err(Error::Unavailable(format!(
            "the root password is being changed: {} stay until rotate-root has settled it (or delete the connection, and both passwords with it)",
            LOGIN.join(", ")
        )));
    }
    let revision = Fields::new(&record).int("revision")?.unwrap_or(0);
    record.insert("revision".to_owned(), (revision + 1).into());
    Ok(record)
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    let body = call.request.object()?;
    let record_key = record_name(name);
    let before = call.storage.get(&record_key)?;
    let record = merged(before.map(|record| record.object()).transpose()?, &body)?;
    let connection = DatabaseConnection::read(name, record.clone())?;
    if !connection.username_template.is_empty() {
        username::check(&connection.username_template)?;
    }
    // It is said of this write, and not kept.
    if Fields::new(&body).boolean("verify_connection")?.unwrap_or(true) {
        let check = connection.call(&call, FarEndWork::Check, SessionUse::Fresh, Vec::new());
        call.far_ends.ask(check).await.map_err(|failure| {
            let doing = "error creating database object: error verifying connection";
            Error::invalid(connection.failed(doing, &failure).to_string())
        })?;
    }
    call.storage
        .transact(&record_key, |transaction| {
            let before = transaction.get(&record_key)?;
            let record = merged(before.map(|record| record.object()).transpose()?, &body)?;
            transaction.put(&record_key, DatabaseConnection::encode(&record))
        })
        .await?;
    Ok(Response::Empty)
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    let record = call.storage.get(&record_name(name))?.ok_or(Error::NotFound)?;
    let connection = DatabaseConnection::decode(name, &record)?;
    let is_detail =
        |name: &&String| !SECRETS.contains(&name.as_str()) && !OUTER.contains(&name.as_str());
    let details = connection.record.iter().filter(|(name, _)| is_detail(name));
    let details: Map = details.map(|(name, value)| (name.clone(), value.clone())).collect();
    let given = |name: &str| connection.record.get(name).cloned().unwrap_or_else(|| "".into());
    Ok(Response::data(&Json::object([
        ("allowed_roles", Json::strings(connection.allowed_roles.clone())),
        ("connection_details", Json::Object(details)),
        ("password_policy", connection.password_policy.as_str().into()),
        ("plugin_name", given("plugin_name")),
        ("plugin_version", given("plugin_version")),
        ("root_credentials_rotate_statements", Json::strings(connection.root_statements.clone())),
    ])))
}

pub(super) async fn list(call: Call<'_>) -> Result<Response, Error> {
    call.list("config/")
}

pub(super) async fn reset(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    find(&call, name)?;
    call.far_ends.close(call.mount.accessor, Some(name));
    Ok(Response::Empty)
}

/// Closes the sessions of every connection of a plugin.
pub(super) async fn reload(call: Call<'_>) -> Result<Response, Error> {
    let plugin = call.params.get("plugin_name");
    let mut reset = Vec::new();
    for name in call.storage.list("config/")? {
        let connection = find(&call, &name)?;
        if connection.record.get("plugin_name").and_then(Json::as_str) == Some(plugin) {
            call.far_ends.close(call.mount.accessor, Some(&name));
            reset.push(name);
        }
    }
    let count = reset.len();
    Ok(Response::data(&Json::object([
        ("connections", Json::strings(reset)),
        ("count", (count as u64).into()),
    ])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kallisto_api::json;

    #[test]
    fn what_decides_the_login_stays_while_its_password_is_changed() {
        let read = |text: &str| json::parse_object(text.as_bytes()).unwrap();
        let stored = r#"{"plugin_name":"redis-database-plugin","host":"h","username":"u","password":"p","pending_password":"q"}"#;
        for change in [r#"{"password":"r"}"#, r#"{"username":"v"}"#, r#"{"host":"i"}"#] {
            let refused = merged(Some(read(stored)), &read(change)).unwrap_err();
            assert!(matches!(refused, Error::Unavailable(_)), "{change}: {refused:?}");
        }
        let same = merged(Some(read(stored)), &read(r#"{"host":"h","allowed_roles":"*"}"#));
        assert_eq!(same.unwrap().get("pending_password"), Some(&Json::from("q")));
        let settled = stored.replace(r#","pending_password":"q""#, "");
        assert!(merged(Some(read(&settled)), &read(r#"{"password":"r"}"#)).is_ok());
    }

    #[test]
    fn roles_are_allowed_by_name_and_by_pattern() {
        for (pattern, role, allowed) in [
            ("*", "any", true),
            ("app-*", "app-1", true),
            ("app-*", "bapp-1", false),
            ("*-ro", "x-ro", true),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abde", false),
            ("app", "app", true),
            ("app", "apps", false),
        ] {
            let stored = format!(
                r#"{{"plugin_name":"redis-database-plugin","host":"h","allowed_roles":["web"," {pattern}"]}}"#
            );
            let connection =
                DatabaseConnection::read("c", json::parse_object(stored.as_bytes()).unwrap())
                    .unwrap();
            assert_eq!(connection.allows(role), allowed, "{pattern} {role}");
        }
    }
}
