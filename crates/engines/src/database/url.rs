//! Connection URLs. They are read as they were given, with their places for a name and a password: no text with a password in it is made.

use kallisto_api::Error;
use kallisto_engine::far_end::TlsUse;

/// Most hosts of a URL.
const HOSTS_MAX: usize = 16;

/// Where a database is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DatabaseAddress {
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) database: String,
    pub(super) tls: Option<TlsUse>,
}

/// A URL that had a name and a password in it, and both.
pub(super) struct Apart {
    pub(super) url: String,
    pub(super) username: String,
    pub(super) password: Option<String>,
}

fn bad(why: &str) -> Error {
    Error::invalid(format!("connection_url: {why}"))
}

fn check_given(url: &str) -> Result<(), Error> {
    if url.is_empty() {
        return Err(Error::invalid("connection_url cannot be empty"));
    }
    Ok(())
}

/// `postgresql://user:password@host:port,host/database?sslmode=…`, or `host=… port=… dbname=… sslmode=…`.
pub(super) fn postgres(url: &str) -> Result<DatabaseAddress, Error> {
    check_given(url)?;
    let rest = url.strip_prefix("postgresql://").or_else(|| url.strip_prefix("postgres://"));
    let Some(rest) = rest else { return postgres_words(url) };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let rest = rest.rsplit_once('@').map_or(rest, |(_, after)| after);
    let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
    let mut place = DatabaseAddress {
        hosts: hosts.split(',').map(|host| host_port(host, 5432)).collect::<Result<_, _>>()?,
        database: decoded(database)?,
        tls: None,
    };
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        match name {
            "sslmode" => place.tls = Some(sslmode(value)?),
            "dbname" => place.database = decoded(value)?,
            "user" | "password" => return Err(login_elsewhere()),
            _ => {}
        }
    }
    check(place)
}

/// A password that stands in a URL is taken out; one that stands elsewhere would be shown.
fn login_elsewhere() -> Error {
    bad("a user and a password are given as username and password")
}

fn postgres_words(text: &str) -> Result<DatabaseAddress, Error> {
    let (mut host, mut port, mut place) =
        (String::new(), String::new(), DatabaseAddress::default());
    for word in text.split_whitespace() {
        let (name, value) = word
            .split_once('=')
            .ok_or_else(|| bad("it is neither a URL nor words as name=value"))?;
        let value = value.trim_matches('\'');
        match name {
            "host" | "hostaddr" => value.clone_into(&mut host),
            "port" => value.clone_into(&mut port),
            "dbname" => value.clone_into(&mut place.database),
            "sslmode" => place.tls = Some(sslmode(value)?),
            "user" | "password" if !value.starts_with("{{") => return Err(login_elsewhere()),
            _ => {}
        }
    }
    let usual = if port.is_empty() { 5432 } else { port.parse().map_err(|_| bad("a bad port"))? };
    place.hosts = host.split(',').map(|host| host_port(host, usual)).collect::<Result<_, _>>()?;
    check(place)
}

fn sslmode(mode: &str) -> Result<TlsUse, Error> {
    Ok(match mode {
        "disable" => TlsUse::Never,
        "allow" | "prefer" => TlsUse::WhereOffered,
        "require" => TlsUse::Unverified,
        "verify-ca" => TlsUse::AuthorityVerified,
        "verify-full" => TlsUse::Verified,
        _ => {
            return Err(bad(
                "sslmode is disable, allow, prefer, require, verify-ca or verify-full",
            ));
        }
    })
}

/// `user:password@tcp(host:port)/database?tls=…`.
pub(super) fn mysql(url: &str) -> Result<DatabaseAddress, Error> {
    check_given(url)?;
    let form = || bad("for MySQL it is user:password@tcp(host:port)/database");
    let (_, rest) = url.rsplit_once('@').unwrap_or(("", url));
    let rest = rest.strip_prefix("tcp(").ok_or_else(form)?;
    let (host, rest) = rest.split_once(')').ok_or_else(form)?;
    let (database, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut tls = None;
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        if name == "tls" {
            tls = Some(match value {
                "false" => TlsUse::Never,
                "true" | "custom" => TlsUse::Verified,
                "skip-verify" => TlsUse::Unverified,
                "preferred" => TlsUse::Never,
                _ => return Err(bad("tls is true, false, skip-verify or preferred")),
            });
        }
    }
    let database = database.strip_prefix('/').unwrap_or_default();
    check(DatabaseAddress {
        hosts: vec![host_port(host, 3306)?],
        database: decoded(database)?,
        tls,
    })
}

fn check(place: DatabaseAddress) -> Result<DatabaseAddress, Error> {
    if place.hosts.len() > HOSTS_MAX {
        return Err(bad("too many hosts"));
    }
    Ok(place)
}

fn host_port(text: &str, usual: u16) -> Result<(String, u16), Error> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, after)) => (host, after.strip_prefix(':')),
        None => match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() || host.starts_with('/') || host.starts_with('%') {
        return Err(bad("a host is missing (sockets of this machine are not connected to)"));
    }
    let port = match port {
        Some(port) => port.parse().map_err(|_| bad("a port is no number"))?,
        None => usual,
    };
    Ok((host.to_owned(), port))
}

/// A text with `%XX` decoded.
fn decoded(text: &str) -> Result<String, Error> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => out.push(u8::try_from(high * 16 + low).unwrap_or(0)),
            _ => return Err(bad("a % without two digits")),
        }
    }
    String::from_utf8(out).map_err(|_| bad("it is not UTF-8"))
}

/// Takes a name and a password out of a URL; `None` where it has none.
pub(super) fn without_login(url: &str) -> Option<Apart> {
    let start = url.find("://").map_or(0, |at| at + 3);
    let (login, rest) = url[start..].rsplit_once('@')?;
    let (user, password) = match login.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (login, None),
    };
    let is_place = |text: &str| text.trim_start().starts_with("{{");
    if is_place(user) && password.is_none_or(is_place) {
        return None;
    }
    let is_url = start > 0;
    let plain = |text: &str| if is_url { decoded(text).ok() } else { Some(text.to_owned()) };
    Some(Apart {
        url: format!("{}{{{{username}}}}:{{{{password}}}}@{rest}", &url[..start]),
        username: plain(user)?,
        password: match password.filter(|password| !is_place(password)) {
            Some(password) => Some(plain(password)?),
            None => None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(host: &str, port: u16) -> (String, u16) {
        (host.to_owned(), port)
    }

    #[test]
    fn urls_of_the_field_are_read() {
        let place = postgres(
            "postgresql://{{username}}:{{password}}@db:5433,[::1]/a%20b?sslmode=verify-full",
        )
        .unwrap();
        assert_eq!(place.hosts, [host("db", 5433), host("::1", 5432)]);
        assert_eq!((place.database.as_str(), place.tls), ("a b", Some(TlsUse::Verified)));
        let place = postgres(
            "host=db port=1 user={{username}} password={{password}} dbname=x sslmode=disable",
        )
        .unwrap();
        assert_eq!((place.hosts, place.database), (vec![host("db", 1)], "x".to_owned()));
        let place =
            mysql("{{username}}:{{password}}@tcp(127.0.0.1:8651)/x?tls=skip-verify").unwrap();
        assert_eq!(place.hosts, [host("127.0.0.1", 8651)]);
        assert_eq!((place.database.as_str(), place.tls), ("x", Some(TlsUse::Unverified)));
    }

    #[test]
    fn a_url_that_cannot_be_read_is_refused_in_words() {
        for url in [
            "",
            "postgres://u:p@/x",
            "postgres://h:x/x",
            "postgres://h/x?sslmode=maybe",
            "postgres:///x",
            "nonsense",
            "postgres://h/%zz",
        ] {
            assert!(postgres(url).is_err(), "{url}");
        }
        for url in ["", "u:p@unix(/s)/", "u:p@tcp(h:3306/", "u:p@tcp(h)/?tls=x"] {
            assert!(mysql(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_password_in_a_url_is_taken_out() {
        let apart = without_login("postgresql://bob:p%40ss:w@h/x").unwrap();
        assert_eq!(apart.url, "postgresql://{{username}}:{{password}}@h/x");
        assert_eq!((apart.username.as_str(), apart.password.as_deref()), ("bob", Some("p@ss:w")));
        let apart = without_login("root:a@b@tcp(h:1)/").unwrap();
        assert_eq!((apart.username.as_str(), apart.password.as_deref()), ("root", Some("a@b")));
        assert!(without_login("postgresql://{{username}}:{{password}}@h/x").is_none());
        assert!(without_login("postgresql://h/x").is_none());
    }
}
