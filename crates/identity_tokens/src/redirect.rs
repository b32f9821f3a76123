//! Where a browser may be sent with a code.
//!
//! A redirect URI is the one that was registered, byte for byte (RFC 9700, 2.1). The one exception is an application on the user's own
//! machine, which listens where there is room (RFC 8252, 7.3): of a registered URI with `http` and a literal loopback address, or
//! `localhost`, the port may be another. Nothing is normalised: neither case, escapes, dots nor a slash at the end.

use kallisto_api::Error;

/// Longest redirect URI, in bytes.
pub const REDIRECT_URI_BYTES_MAX: usize = 2048;

/// Where programs on the user's own machine listen.
const LOOPBACK: [&str; 3] = ["http://127.0.0.1", "http://[::1]", "http://localhost"];

/// Schemes that make a browser run or open what follows, instead of asking somebody.
const SCHEMES_REFUSED: [&str; 7] =
    ["about", "blob", "data", "file", "filesystem", "javascript", "vbscript"];

/// Refuses what cannot be registered: it has to be absolute, without a fragment (RFC 6749, 3.1.2), in characters of a URI.
///
/// # Errors
/// [`Error::Invalid`] saying which one and why.
pub fn check(uri: &str) -> Result<(), Error> {
    let refuse = |why: &str| Err(Error::invalid(format!("redirect URI {uri:?} {why}")));
    if uri.len() > REDIRECT_URI_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a redirect URI is longer than {REDIRECT_URI_BYTES_MAX} bytes"
        )));
    }
    if !uri.bytes().all(|byte| byte.is_ascii_graphic()) {
        return refuse("has characters that no URI has");
    }
    if uri.contains('#') {
        return refuse("has a fragment");
    }
    let Some((scheme, rest)) = uri.split_once(':') else { return refuse("has no scheme") };
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.bytes().all(is_word) {
        return refuse("has no scheme");
    }
    let scheme = scheme.to_ascii_lowercase();
    if SCHEMES_REFUSED.contains(&scheme.as_str()) {
        return refuse("has a scheme that applications do not answer");
    }
    if matches!(scheme.as_str(), "http" | "https") && host(rest).is_none_or(str::is_empty) {
        return refuse("has no host");
    }
    if rest.is_empty() { refuse("has nothing after its scheme") } else { Ok(()) }
}

/// What stands where a host stands.
fn host(rest: &str) -> Option<&str> {
    let rest = rest.strip_prefix("//")?;
    Some(rest.split(['/', '?', ':']).next().unwrap_or_default()).filter(|_| !rest.starts_with(':'))
}

/// Whether a browser may be sent to `given`, of a client that registered `registered`.
pub fn is_allowed(given: &str, registered: &[String]) -> bool {
    given.len() <= REDIRECT_URI_BYTES_MAX
        && registered.iter().any(|one| one == given || is_same_but_port(given, one))
}

fn is_same_but_port(given: &str, registered: &str) -> bool {
    LOOPBACK.iter().any(|host| {
        let rest = |uri| strip_port(str::strip_prefix(uri, host)?);
        matches!((rest(given), rest(registered)), (Some(given), Some(one)) if given == one)
    })
}

/// What follows the port, and the host where there is none; `None` when neither ends there.
fn strip_port(after_host: &str) -> Option<&str> {
    let rest = match after_host.strip_prefix(':') {
        None => after_host,
        Some(port) => {
            let digits = port.bytes().take_while(u8::is_ascii_digit).count();
            let (port, rest) = port.split_at(digits);
            if port.starts_with('0') || port.parse::<u16>().is_err() {
                return None;
            }
            rest
        }
    };
    let ends = rest.is_empty() || rest.starts_with(['/', '?']);
    ends.then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(given: &str, registered: &[&str]) -> bool {
        let registered: Vec<String> = registered.iter().map(|uri| (*uri).to_owned()).collect();
        is_allowed(given, &registered)
    }

    /// Ways in which a URI is written that some parser takes for another.
    fn variants(uri: &str) -> Vec<String> {
        let (scheme, rest) = uri.split_once("://").unwrap();
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.rfind(':') {
            Some(at) if !authority.ends_with(']') => authority.split_at(at),
            _ => (authority, ""),
        };
        let with_scheme = |scheme: &str| format!("{scheme}://{rest}");
        let with_host = |host: &str| format!("{scheme}://{host}{port}{path}");
        let with_port = |port: &str| format!("{scheme}://{host}{port}{path}");
        let with_path = |path: &str| format!("{scheme}://{authority}{path}");
        let mut all = vec![
            String::new(),
            " ".to_owned(),
            rest.to_owned(),
            format!("//{rest}"),
            format!("{scheme}:/{rest}"),
            format!("{scheme}:{rest}"),
            format!("{scheme}:///{rest}"),
            format!("{scheme}:\\\\{rest}"),
            format!("{scheme}:/\\{rest}"),
            format!(" {uri}"),
            format!("{uri} "),
            format!("\t{uri}"),
            format!("{uri}\n"),
            format!("{uri}\0"),
            format!("{uri}\r\nX: y"),
            format!("\u{feff}{uri}"),
            uri.to_uppercase(),
            format!("url:{uri}"),
            format!("<{uri}>"),
            format!("{uri},{uri}"),
            format!("{uri} {uri}"),
        ];
        for other in ["HTTP", "Http", "https", "httpS", "ftp", "ws", "javascript", "data", "x"] {
            if other != scheme {
                all.push(with_scheme(other));
            }
        }
        for other in [
            host.to_uppercase(),
            format!("{host}."),
            format!("{host}.."),
            format!(".{host}"),
            format!("x.{host}"),
            format!("{host}.evil.example"),
            format!("{host}evil.example"),
            format!("{host}%2eevil.example"),
            format!("{host}%00"),
            format!("{host}%20"),
            format!("{host}\\evil.example"),
            format!("{host}\\.evil.example"),
            format!("user@{host}"),
            format!("user:pw@{host}"),
            format!("@{host}"),
            format!("{host}@evil.example"),
            format!("{host}:80@evil.example"),
            format!("{host}#@evil.example"),
            format!("{host}?@evil.example"),
            format!("evil.example#{host}"),
            format!("evil.example\\@{host}"),
            format!("[{host}]"),
            format!("{host}%23"),
            format!("{host}\u{3002}"),
            host.replace('.', "%2e"),
            host.replace('.', "%2E"),
            host.replace('.', "\u{3002}"),
            host.replace('1', "%31"),
            host.replace('1', "\u{ff11}"),
            "evil.example".to_owned(),
            "127.1".to_owned(),
            "127.0.0.2".to_owned(),
            "127.000.000.001".to_owned(),
            "0177.0.0.1".to_owned(),
            "0x7f.0.0.1".to_owned(),
            "0x7f000001".to_owned(),
            "2130706433".to_owned(),
            "0.0.0.0".to_owned(),
            "0".to_owned(),
            "[::]".to_owned(),
            "[0:0:0:0:0:0:0:1]".to_owned(),
            "[::0001]".to_owned(),
            "[::1%25lo]".to_owned(),
            "[::ffff:127.0.0.1]".to_owned(),
            "::1".to_owned(),
            "localhost.localdomain".to_owned(),
            "LOCALHOST".to_owned(),
            "localhos\u{165}".to_owned(),
        ] {
            if other != host {
                all.push(with_host(&other));
            }
        }
        for other in [
            ":",
            ":0",
            ":00080",
            ":080",
            ":65536",
            ":99999",
            ":8250x",
            ":x",
            ":-1",
            ":+80",
            ": 80",
            ":80:80",
            ":80@evil.example",
            ":80.evil.example",
            ":%38%30",
            ":\u{ff18}0",
            ":1e3",
            ":0x50",
            "::80",
            ":8250\\",
            ":8250 ",
            ":8250#",
            ":8250%2f",
        ] {
            all.push(with_port(other));
        }
        for other in [
            String::new(),
            "/".to_owned(),
            format!("{path}/"),
            format!("{path}//"),
            format!("/{path}"),
            format!("/.{path}"),
            format!("/x/..{path}"),
            format!("{path}/."),
            format!("{path}/.."),
            format!("{path}/../evil"),
            format!("{path}%2f..%2fevil"),
            format!("{path}%2F"),
            format!("{path}%00"),
            format!("{path}%20"),
            format!("{path};x"),
            format!("{path}?"),
            format!("{path}?x=y"),
            format!("{path}&x=y"),
            format!("{path}#"),
            format!("{path}#x"),
            format!("{path}evil"),
            format!("{path}.evil"),
            format!("{path}\\"),
            path.to_uppercase(),
            path.replace('/', "%2f"),
            path.replace('/', "\\"),
            path.replace('a', "%61"),
            path.replace('a', "%2561"),
            path.replace('a', "\u{430}"),
            path.replace('c', "C"),
        ] {
            if other != path {
                all.push(with_path(&other));
            }
        }
        all
    }

    #[test]
    fn of_a_hundred_spellings_none_but_the_registered_one_is_allowed() {
        let mut tried = 0;
        for registered in [
            "https://app.example/oidc/callback",
            "https://app.example:8443/oidc/callback",
            "http://app.example/oidc/callback",
            "http://127.0.0.1:8250/oidc/callback",
            "http://[::1]:8250/oidc/callback",
            "http://localhost/oidc/callback",
            "https://127.0.0.1:8250/oidc/callback",
        ] {
            assert!(allowed(registered, &[registered]));
            let variants = variants(registered);
            assert!(variants.len() > 120, "{}", variants.len());
            tried += variants.len();
            for given in variants {
                // The one thing that a loopback URI may leave open: no port at all is one as well.
                assert!(!allowed(&given, &[registered]), "{given:?} for {registered}");
            }
        }
        assert!(tried > 800, "{tried}");
    }

    #[test]
    fn only_a_literal_loopback_address_with_http_may_have_another_port() {
        for host in ["127.0.0.1", "[::1]", "localhost"] {
            let uri = |port: &str| format!("http://{host}{port}/cb?x=y");
            for registered in [uri(""), uri(":8250"), uri(":1")] {
                for port in ["", ":1", ":80", ":8250", ":49152", ":65535"] {
                    assert!(allowed(&uri(port), &[&registered]), "{port} for {registered}");
                }
                let https = |port: &str| uri(port).replace("http:", "https:");
                assert!(!allowed(&https(":80"), &[&registered]));
                assert!(!allowed(&https(":80"), &[&https(":81")]));
            }
        }
        assert!(!allowed("http://localhost:80/cb", &["http://127.0.0.1:80/cb"]));
        assert!(!allowed("http://127.0.0.1:80/cb", &["http://[::1]:80/cb"]));
        assert!(!allowed("http://app.example:81/cb", &["http://app.example:80/cb"]));
        assert!(!allowed("http://127.0.0.10:80/cb", &["http://127.0.0.10:81/cb"]));
        assert!(allowed("http://127.0.0.1:80", &["http://127.0.0.1"]));
    }

    #[test]
    fn what_no_browser_should_be_sent_to_cannot_be_registered() {
        for good in [
            "https://app.example/cb",
            "https://app.example",
            "http://127.0.0.1:8250/oidc/callback?x=y",
            "http://[::1]:8250/cb",
            "com.example.app:/oidc",
            "myapp://callback",
        ] {
            assert!(check(good).is_ok(), "{good}");
        }
        let long = format!("https://app.example/{}", "x".repeat(REDIRECT_URI_BYTES_MAX));
        for bad in [
            "",
            "/cb",
            "app.example/cb",
            "//app.example/cb",
            "https:",
            "https:/cb",
            "https:///cb",
            "https://:80/cb",
            "https://?x",
            "https://app.example/cb#x",
            "https://app.example/c b",
            "https://app.example/\u{e9}",
            "https://app.example/\n",
            "javascript:alert(1)",
            "JavaScript:alert(1)",
            "data:text/html,x",
            "vbscript:x",
            "file:///etc/passwd",
            "1x:/cb",
            ":x",
            &long,
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_redirect_uri_is_as_long_as_it_may() {
        let uri = |bytes: usize| format!("https://a.example/{}", "x".repeat(bytes - 18));
        let (longest, longer) = (uri(REDIRECT_URI_BYTES_MAX), uri(REDIRECT_URI_BYTES_MAX + 1));
        assert!(check(&longest).is_ok() && check(&longer).is_err());
        assert!(allowed(&longest, &[&longest]) && !allowed(&longer, &[&longer]));
    }
}
