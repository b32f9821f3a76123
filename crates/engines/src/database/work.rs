//! What a database is asked for: users that are made, renewed, dropped, and passwords that are set.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use kallisto_api::Error;
use kallisto_api::json::{self, Json};
use kallisto_engine::FarEndWork;
use kallisto_engine::far_end::{RedisCommand, SqlWork};
use secrecy::{ExposeSecret, SecretString};

use super::connection::{DatabaseConnection, Plugin};
use super::sql::{SqlDialect, fill, literal};
use super::statements::spelled_out;

/// How much longer than its lease the database keeps a user, in seconds: the lease ends it, this is for when nobody does.
const GRACE_SECS: i64 = 5;
/// What a user of Redis may do when the role does not say.
const REDIS_RULES: [&str; 2] = ["~*", "+@read"];

/// Most hosts of a user of MySQL that are dropped when its role does not say how.
const USER_HOSTS_MAX: usize = 32;

/// Drops a role of PostgreSQL after what it was granted was taken back, if it is there. The name comes by a setting of the
/// transaction, and the database quotes it, and cuts it as it did when the role was made.
const POSTGRES_REVOKE: &str = r"DO $kallisto$
DECLARE
  who text := current_setting('kallisto.username')::name::text;
  one record;
BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = who) THEN
    RETURN;
  END IF;
  FOR one IN
    SELECT DISTINCT table_schema AS name FROM information_schema.role_column_grants WHERE grantee = who
    UNION SELECT nspname FROM pg_catalog.pg_namespace WHERE nspname = 'public'
  LOOP
    EXECUTE format('REVOKE ALL PRIVILEGES ON ALL TABLES IN SCHEMA %I FROM %I', one.name, who);
    EXECUTE format('REVOKE ALL PRIVILEGES ON ALL SEQUENCES IN SCHEMA %I FROM %I', one.name, who);
    EXECUTE format('REVOKE USAGE ON SCHEMA %I FROM %I', one.name, who);
  END LOOP;
  EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM %I', current_database(), who);
  EXECUTE format('DROP ROLE IF EXISTS %I', who);
END
$kallisto$";

fn sql(
    statements: &[String],
    values: &[(&str, &str)],
    user: &str,
    dialect: SqlDialect,
) -> Result<FarEndWork, Error> {
    let texts = statements.iter().flat_map(|statement| spelled_out(statement));
    let filled: Result<Vec<SecretString>, Error> =
        texts.map(|text| fill(&text, values, dialect)).collect();
    Ok(FarEndWork::Sql(SqlWork { statements: filled?, exclusive: user.to_owned() }))
}

fn command<const N: usize>(words: [&str; N]) -> RedisCommand {
    RedisCommand(words.into_iter().map(SecretString::from).collect())
}

/// The commands, and that which keeps them over a restart.
fn redis<const N: usize>(
    connection: &DatabaseConnection,
    commands: [RedisCommand; N],
) -> FarEndWork {
    let keep = match connection.persistence.as_str() {
        "REWRITE" => Some(command(["CONFIG", "REWRITE"])),
        "ACLFILE" => Some(command(["ACL", "SAVE"])),
        _ => None,
    };
    FarEndWork::Redis(commands.into_iter().chain(keep).collect())
}

/// When a user ends, as PostgreSQL reads it.
fn expiration(ends: Timestamp) -> String {
    let grace = jiff::SignedDuration::from_secs(GRACE_SECS);
    let ends = ends.checked_add(grace).unwrap_or(ends).to_zoned(TimeZone::UTC);
    ends.strftime("%Y-%m-%d %H:%M:%S+0000").to_string()
}

/// Makes a user, with what its statements call the thing that it logs in with.
pub(super) fn create_user(
    connection: &DatabaseConnection,
    statements: &[String],
    user: &str,
    (name, value): (&str, &SecretString),
    ends: Timestamp,
) -> Result<FarEndWork, Error> {
    let expiration = expiration(ends);
    if connection.plugin == Plugin::Redis {
        if name != "password" {
            return Err(Error::invalid("users of Redis log in with passwords"));
        }
        let rules = redis_rules(statements)?;
        let mut words = vec!["ACL".into(), "SETUSER".into(), user.into(), "reset".into()];
        words.extend(["on".into(), SecretString::from(format!(">{}", value.expose_secret()))]);
        words.extend(rules.into_iter().map(SecretString::from));
        return Ok(redis(connection, [RedisCommand(words)]));
    }
    if statements.is_empty() {
        return Err(Error::invalid("empty creation statements"));
    }
    let values = [
        ("name", user),
        ("username", user),
        (name, value.expose_secret()),
        ("expiration", &expiration),
    ];
    sql(statements, &values, user, connection.plugin.dialect())
}

/// The rules of a user of Redis: a JSON list of words.
pub(super) fn redis_rules(statements: &[String]) -> Result<Vec<String>, Error> {
    if statements.is_empty() {
        return Ok(REDIS_RULES.map(str::to_owned).to_vec());
    }
    let mut rules = Vec::new();
    for statement in statements {
        let bad = || {
            Error::invalid("the creation statement of a role of Redis is a JSON list of ACL rules")
        };
        let Ok(Json::Array(items)) = json::parse(statement.as_bytes()) else { return Err(bad()) };
        for item in items {
            let rule = item.as_str().ok_or_else(bad)?;
            // A rule sets what a user may do; who it is and with which password is not its business.
            let is_password =
                rule.starts_with(['>', '<', '#', '!']) || rule.eq_ignore_ascii_case("nopass");
            if is_password || rule.is_empty() {
                return Err(Error::invalid("an ACL rule of a role sets no password"));
            }
            rules.push(rule.to_owned());
        }
    }
    Ok(rules)
}

/// Takes back what a failed creation left, where the database cannot do it by itself.
pub(super) fn roll_back(
    connection: &DatabaseConnection,
    statements: &[String],
    user: &str,
) -> Result<Option<FarEndWork>, Error> {
    if statements.is_empty() || connection.plugin == Plugin::Redis {
        return Ok(None);
    }
    let values = [("name", user), ("username", user)];
    sql(statements, &values, user, connection.plugin.dialect()).map(Some)
}

/// Drops a user, if it is there.
pub(super) fn drop_user(
    connection: &DatabaseConnection,
    statements: &[String],
    user: &str,
) -> Result<FarEndWork, Error> {
    let values = [("name", user), ("username", user)];
    match connection.plugin {
        Plugin::Redis => Ok(redis(connection, [command(["ACL", "DELUSER", user])])),
        Plugin::Postgres if statements.is_empty() => {
            let named = literal(user, SqlDialect::Postgres)?;
            let set = format!("SELECT set_config('kallisto.username', {named}, true)");
            sql(&[set, POSTGRES_REVOKE.to_owned()], &[], user, SqlDialect::Postgres)
        }
        Plugin::Mysql if statements.is_empty() => {
            let drop = format!("DROP USER IF EXISTS {}@'%'", literal(user, SqlDialect::Mysql)?);
            sql(&[drop], &[], user, SqlDialect::Mysql)
        }
        Plugin::Postgres | Plugin::Mysql => {
            sql(statements, &values, user, connection.plugin.dialect())
        }
    }
}

/// What drops a user whose role does not say how, where more than `'%'` may be its hosts: those that its creation names. MySQL has a
/// user of each host, and dropping one that is not there is no failure.
pub(super) fn usual_revocation(
    connection: &DatabaseConnection,
    creation: &[String],
) -> Result<Vec<String>, Error> {
    if connection.plugin != Plugin::Mysql {
        return Ok(Vec::new());
    }
    let mut hosts = Vec::new();
    for statement in creation.iter().flat_map(|statement| spelled_out(statement)) {
        hosts_of_user(&statement, &mut hosts);
    }
    if hosts.iter().all(|host| host == "%") {
        return Ok(Vec::new());
    }
    hosts.truncate(USER_HOSTS_MAX);
    if !hosts.iter().any(|host| host == "%") {
        hosts.push("%".to_owned());
    }
    let user = |host: &String| {
        literal(host, SqlDialect::Mysql).map(|host| format!("'{{{{username}}}}'@{host}"))
    };
    let users: Vec<String> = hosts.iter().map(user).collect::<Result<_, _>>()?;
    Ok(vec![format!("DROP USER IF EXISTS {}", users.join(", "))])
}

/// Adds the hosts that a statement of MySQL gives the user that is made: `'{{name}}'@'localhost'`.
fn hosts_of_user(statement: &str, hosts: &mut Vec<String>) {
    let mut rest = statement;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, after)) = after.split_once("}}") else { return };
        rest = after;
        if !["name", "username"].contains(&name.trim()) {
            continue;
        }
        let quote = before.chars().next_back().filter(|last| ['\'', '"', '`'].contains(last));
        // With more between the quotes it is another user, which may have an `@` in its name.
        let Some(after) = quote.map_or(Some(after), |quote| after.strip_prefix(quote)) else {
            continue;
        };
        let after = after.trim_start();
        let Some(host) = after.strip_prefix('@').map(str::trim_start) else { continue };
        let host = match host.chars().next() {
            Some(quote @ ('\'' | '"' | '`')) => host[1..].split(quote).next(),
            _ => host.split(|c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c)).next(),
        };
        let host = host.unwrap_or_default();
        let is_new = !hosts.iter().any(|known| known == host);
        if is_new && !host.is_empty() && !host.contains(['{', '\\']) {
            hosts.push(host.to_owned());
        }
    }
}

/// Lets a user live longer; `None` where the database knows of no end.
pub(super) fn renew_user(
    connection: &DatabaseConnection,
    statements: &[String],
    user: &str,
    ends: Timestamp,
) -> Result<Option<FarEndWork>, Error> {
    let expiration = expiration(ends);
    let values = [("name", user), ("username", user), ("expiration", expiration.as_str())];
    let usual = [r#"ALTER ROLE "{{name}}" VALID UNTIL '{{expiration}}'"#.to_owned()];
    let statements = match connection.plugin {
        Plugin::Redis => return Ok(None),
        Plugin::Mysql if statements.is_empty() => return Ok(None),
        Plugin::Postgres if statements.is_empty() => &usual,
        Plugin::Postgres | Plugin::Mysql => statements,
    };
    sql(statements, &values, user, connection.plugin.dialect()).map(Some)
}

/// Sets the password of a user that is there.
pub(super) fn set_password(
    connection: &DatabaseConnection,
    statements: &[String],
    user: &str,
    password: &SecretString,
) -> Result<FarEndWork, Error> {
    let values = [("name", user), ("username", user), ("password", password.expose_secret())];
    let usual = match connection.plugin {
        Plugin::Redis => {
            let words = ["ACL", "SETUSER", user, "resetpass"].map(SecretString::from);
            let mut words = words.to_vec();
            words.push(SecretString::from(format!(">{}", password.expose_secret())));
            // A user that is not there would be made, and be off.
            let known = command(["ACL", "GETUSER", user]);
            return Ok(redis(connection, [known, RedisCommand(words)]));
        }
        Plugin::Postgres => r#"ALTER ROLE "{{username}}" WITH PASSWORD '{{password}}'"#,
        Plugin::Mysql => "ALTER USER '{{username}}'@'%' IDENTIFIED BY '{{password}}'",
    };
    let usual = [usual.to_owned()];
    let statements = if statements.is_empty() { &usual } else { statements };
    sql(statements, &values, user, connection.plugin.dialect())
}

/// Sets the password that the connection itself logs in with.
pub(super) fn set_root_password(
    connection: &DatabaseConnection,
    password: &SecretString,
) -> Result<FarEndWork, Error> {
    // MariaDB takes `ALTER USER CURRENT_USER()` and changes nothing for a user of `%`: the user is named.
    set_password(connection, &connection.root_statements, &connection.username, password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_of_a_user_are_those_that_its_creation_names() {
        for (statement, expected) in [
            ("CREATE USER '{{name}}'@'%' IDENTIFIED BY '{{password}}'", &["%"][..]),
            (
                "CREATE USER '{{name}}'@'localhost'; GRANT a TO '{{name}}'@'localhost'",
                &["localhost"],
            ),
            ("CREATE USER `{{ username }}` @ `10.0.0.%`, \"{{name}}\"@\"%\"", &["10.0.0.%", "%"]),
            ("CREATE USER {{name}}@localhost IDENTIFIED BY 'a@b'", &["localhost"]),
            ("CREATE USER '{{name}}' IDENTIFIED BY '{{password}}'@'x'", &[]),
            ("CREATE USER '{{name}}@x'@'localhost', \"{{name}}@y\"", &[]),
            ("CREATE USER '{{name}}'@'{{host}}', '{{name}}'@, '{{name}}'@''", &[]),
        ] {
            let mut hosts = Vec::new();
            hosts_of_user(statement, &mut hosts);
            assert_eq!(hosts, expected, "{statement}");
        }
    }
}
