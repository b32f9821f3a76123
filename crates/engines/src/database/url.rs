//! Connection URLs. They are read as they were given, with their places for a name and a password: no text with a password in it is made.

use std::net::Ipv6Addr;

use kallisto_api::{Error, parse_bool};
use kallisto_engine::far_end::{PostgresStart, TlsUse};

/// Most hosts of a URL.
const HOSTS_MAX: usize = 16;
/// The ports when nobody says.
const POSTGRES_PORT: u16 = 5432;
const MYSQL_PORT: u16 = 3306;
/// What a session of PostgreSQL begins with where the URL says so; statements may count on it.
const SESSION_SETTINGS: [&str; 4] = ["application_name", "options", "role", "search_path"];

/// Where a database is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DatabaseAddress {
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) database: String,
    pub(super) tls: Option<TlsUse>,
    /// What a session of PostgreSQL begins with.
    pub(super) start: PostgresStart,
}

impl DatabaseAddress {
    /// Takes an option of PostgreSQL that is said in a URL and among words alike.
    fn take_option(&mut self, name: &str, value: String) -> Result<(), Error> {
        match name {
            "sslmode" => self.tls = Some(sslmode(&value)?),
            "dbname" => self.database = value,
            "target_session_attrs" => {
                let writes = matches!(value.as_str(), "read-write" | "primary");
                self.start.needs_writable = writes;
            }
            name if SESSION_SETTINGS.contains(&name) => {
                self.start.settings.push((name.to_owned(), value));
            }
            _ => {}
        }
        Ok(())
    }
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
    let (rest, query) = split_query(rest);
    let rest = rest.rsplit_once('@').map_or(rest, |(_, after)| after);
    let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
    let mut place = DatabaseAddress { database: decoded(database)?, ..DatabaseAddress::default() };
    let (mut named, mut ports) = (String::new(), String::new());
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        let value = decoded(value).unwrap_or_else(|_| value.to_owned());
        match name {
            "user" | "password" => return Err(login_elsewhere()),
            "host" | "hostaddr" => named = value,
            "port" => ports = value,
            _ => place.take_option(name, value)?,
        }
    }
    place.hosts = match hosts {
        "" => hosts_of_words(&named, &ports)?,
        hosts => {
            hosts.split(',').map(|host| host_port(host, POSTGRES_PORT)).collect::<Result<_, _>>()?
        }
    };
    check(place)
}

/// A URL without its query, and the query. A password may have a question mark, and an option an `@`.
fn split_query(url: &str) -> (&str, &str) {
    // With an `@` behind it, it is of a password unless a database was named before it.
    let begins_query = |before: &str, after: &str| {
        let host = before.rsplit_once('@').map(|(_, host)| host);
        !after.contains('@') || host.is_some_and(|host| host.contains('/'))
    };
    let marks = url.match_indices('?').map(|(at, _)| (&url[..at], &url[at + 1..]));
    let found = marks.into_iter().find(|(before, after)| begins_query(before, after));
    found.unwrap_or((url, ""))
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
            "user" | "password" if !value.starts_with("{{") => return Err(login_elsewhere()),
            "user" | "password" => {}
            _ => place.take_option(name, value.to_owned())?,
        }
    }
    place.hosts = hosts_of_words(&host, &port)?;
    check(place)
}

/// Hosts and ports that stand apart: a port for each host, one for all, or none.
fn hosts_of_words(hosts: &str, ports: &str) -> Result<Vec<(String, u16)>, Error> {
    let number = |port: &str| match port.trim() {
        "" => Ok(POSTGRES_PORT),
        port => port.parse().map_err(|_| bad("a bad port")),
    };
    let ports: Vec<u16> = ports.split(',').map(number).collect::<Result<_, _>>()?;
    let hosts: Vec<&str> = hosts.split(',').map(str::trim).collect();
    if ports.len() > 1 && ports.len() != hosts.len() {
        return Err(bad("there are as many ports as hosts, or one"));
    }
    let place = |(at, host): (usize, &str)| {
        let port = ports.get(at).or(ports.last()).copied().unwrap_or(POSTGRES_PORT);
        // An address of IPv6 stands without brackets here.
        match host.parse::<Ipv6Addr>() {
            Ok(_) => Ok((host.to_owned(), port)),
            Err(_) => host_port(host, port),
        }
    };
    hosts.into_iter().enumerate().map(place).collect()
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
    let (before, rest) = split_at_database(url);
    let place = before.rsplit_once('@').map_or(before, |(_, after)| after);
    // Without a kind of network it is TCP, and without an address this machine.
    let host = match place.strip_prefix("tcp").unwrap_or(place) {
        "" => "127.0.0.1",
        place => {
            let inside = place.strip_prefix('(').and_then(|inside| inside.strip_suffix(')'));
            inside.ok_or_else(form)?
        }
    };
    let (database, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut tls = None;
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        if name == "tls" {
            tls = Some(match (parse_bool(value), value.to_ascii_lowercase().as_str()) {
                (Some(false), _) => TlsUse::Never,
                (Some(true), _) | (None, "custom") => TlsUse::Verified,
                (None, "skip-verify") => TlsUse::Unverified,
                (None, "preferred") => TlsUse::WhereOffered,
                (None, _) => return Err(bad("tls is true, false, skip-verify or preferred")),
            });
        }
    }
    let database = database.strip_prefix('/').unwrap_or_default();
    check(DatabaseAddress {
        hosts: vec![host_port(host, MYSQL_PORT)?],
        database: decoded(database)?,
        tls,
        ..DatabaseAddress::default()
    })
}

/// A URL of MySQL up to the slash before its database, and from there on. A password may have slashes, and so may the query.
fn split_at_database(url: &str) -> (&str, &str) {
    let close = url.rfind(")/").or_else(|| url.rfind(")?")).map(|at| at + 1);
    let slash = || url.rfind('/').filter(|_| !url.ends_with(')'));
    url.split_at(close.or_else(slash).unwrap_or(url.len()))
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
        None | Some("") => usual,
        Some(port) => port.parse().map_err(|_| bad("a port is no number"))?,
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
    let is_url = start > 0;
    let inside = &url[start..];
    // Behind the hosts an `@` begins none.
    let ends = if is_url { split_query(inside).0 } else { split_at_database(inside).0 };
    let (login, _) = ends.rsplit_once('@')?;
    let rest = &inside[login.len() + 1..];
    let (user, password) = match login.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (login, None),
    };
    let is_place = |text: &str| text.trim_start().starts_with("{{");
    if is_place(user) && password.is_none_or(is_place) {
        return None;
    }
    // What is not percent-encoded is as it stands.
    let decoded = |text: &str| decoded(text).ok().filter(|_| is_url);
    let plain = |text: &str| decoded(text).unwrap_or_else(|| text.to_owned());
    Some(Apart {
        url: format!("{}{{{{username}}}}:{{{{password}}}}@{rest}", &url[..start]),
        username: plain(user),
        password: password.filter(|password| !is_place(password)).map(plain),
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
    fn hosts_of_postgresql_stand_in_the_url_in_its_query_or_among_words() {
        let hosts = |url: &str| postgres(url).unwrap().hosts;
        assert_eq!(hosts("postgresql://db:/x"), [host("db", 5432)]);
        for two in [
            "postgresql://u:p@a:1,b:2/x",
            "postgresql:///x?host=a,b&port=1,2",
            "host=a,b port=1,2 dbname=x",
        ] {
            assert_eq!(hosts(two), [host("a", 1), host("b", 2)], "{two}");
        }
        assert_eq!(
            hosts("host=::1,10.0.0.1 port=5433"),
            [host("::1", 5433), host("10.0.0.1", 5433)]
        );
        assert_eq!(hosts("hostaddr=fe80::1"), [host("fe80::1", 5432)]);
        assert!(postgres("host=a,b,c port=1,2").is_err() && postgres("host=a port=x").is_err());
    }

    #[test]
    fn what_a_session_of_postgresql_begins_with_is_taken_from_the_url() {
        let url = "postgresql://u:p@a/x?search_path=app%2Cpublic&application_name=v@prod&connect_timeout=3&target_session_attrs=read-write";
        let place = postgres(url).unwrap();
        let settings = [("search_path", "app,public"), ("application_name", "v@prod")];
        let expected = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!((&place.start.settings[..], place.start.needs_writable), (&expected[..], true));
        assert_eq!(place.hosts, [host("a", 5432)]);
        let words = postgres("host=a search_path='app' target_session_attrs=any").unwrap();
        assert_eq!(words.start.settings, [("search_path".to_owned(), "app".to_owned())]);
        assert!(!words.start.needs_writable);
    }

    #[test]
    fn a_login_in_an_option_is_refused_and_one_that_is_filled_in_is_not() {
        for url in [
            "postgresql://h/x?user=bob",
            "postgresql://h/x?password=pw",
            "host=h user=bob",
            "host=h password=pw",
        ] {
            let refused = postgres(url).unwrap_err().to_string();
            assert!(refused.contains("given as username and password"), "{url}: {refused}");
        }
        assert!(postgres("host=h user={{username}} password='{{password}}'").is_ok());
    }

    #[test]
    fn each_mode_of_tls_has_its_name() {
        for (mode, tls) in [
            ("disable", TlsUse::Never),
            ("allow", TlsUse::WhereOffered),
            ("prefer", TlsUse::WhereOffered),
            ("require", TlsUse::Unverified),
            ("verify-ca", TlsUse::AuthorityVerified),
            ("verify-full", TlsUse::Verified),
        ] {
            let place = postgres(&format!("postgresql://h/x?sslmode={mode}")).unwrap();
            assert_eq!(place.tls, Some(tls), "{mode}");
        }
    }

    #[test]
    fn there_are_as_many_hosts_as_there_may_be_and_none_is_a_socket() {
        let hosts = |count: usize| vec!["h"; count].join(",");
        let of = |count: usize| postgres(&format!("postgresql://{}/x", hosts(count))).is_ok();
        assert!(of(HOSTS_MAX) && !of(HOSTS_MAX + 1));
        for url in [
            "postgresql://%2Frun/x",
            "postgresql://h,/x",
            "postgresql://:5432/x",
            "host=/run",
            "host=h,/run",
        ] {
            let refused = postgres(url).unwrap_err().to_string();
            assert!(refused.contains("a host is missing"), "{url}: {refused}");
        }
    }

    #[test]
    fn urls_of_mysql_are_what_its_driver_reads() {
        for (url, expected, tls) in [
            ("u:p@tcp(h:1)/x?tls=preferred", host("h", 1), Some(TlsUse::WhereOffered)),
            ("u:p@(h)/x?tls=TRUE", host("h", 3306), Some(TlsUse::Verified)),
            ("u:p@tcp([::1]:3307)/x?tls=0", host("::1", 3307), Some(TlsUse::Never)),
            ("u:p@tcp/x?tls=Skip-Verify", host("127.0.0.1", 3306), Some(TlsUse::Unverified)),
            ("u:p@/x", host("127.0.0.1", 3306), None),
            ("u:a/b)/c@d@tcp(h:1)/x?a=b@c/d", host("h", 1), None),
        ] {
            let place = mysql(url).unwrap();
            assert_eq!((place.hosts, place.tls), (vec![expected], tls), "{url}");
            assert_eq!(place.database, "x", "{url}");
        }
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
        for (url, password, left) in [
            ("postgresql://bob:100%@h/x", "100%", "postgresql://{{username}}:{{password}}@h/x"),
            ("postgres://bob:a?b@h/x", "a?b", "postgres://{{username}}:{{password}}@h/x"),
            ("postgres://bob:p@h/x?o=a@b", "p", "postgres://{{username}}:{{password}}@h/x?o=a@b"),
            ("bob:a/b@tcp(h:1)/x?o=a@b", "a/b", "{{username}}:{{password}}@tcp(h:1)/x?o=a@b"),
            ("bob:p/w@tcp(h)", "p/w", "{{username}}:{{password}}@tcp(h)"),
            // That of MySQL is as it stands.
            ("bob:a%40b@tcp(h:1)/x", "a%40b", "{{username}}:{{password}}@tcp(h:1)/x"),
            ("postgres://{{username}}:pw@h/x", "pw", "postgres://{{username}}:{{password}}@h/x"),
        ] {
            let apart = without_login(url).unwrap();
            assert_eq!((apart.url.as_str(), apart.password.as_deref()), (left, Some(password)));
        }
        // Characters that should be encoded, and are not: no piece of a password may stay.
        for url in ["postgresql://bob:P@ss?w@h/x?o=a", "postgresql://bob:P?s@s?w@h/x?o=a@b"] {
            let apart = without_login(url).unwrap();
            assert!(
                apart.url.starts_with("postgresql://{{username}}:{{password}}@h/x?o=a"),
                "{url}"
            );
        }
        assert!(without_login("postgresql://{{username}}:{{password}}@h/x?o=a@b").is_none());
        assert!(without_login("postgresql://{{username}}:{{password}}@h/x").is_none());
        assert!(without_login("postgresql://h/x").is_none());
    }
}
