//! Which redirect URIs a role allows.
//!
//! A URI is compared byte by byte, as it is: nothing is decoded, resolved or cut. The one exception is a client on the user's own machine,
//! which listens on whatever port is free (RFC 8252, section 7.3): a loopback URI with `http` is allowed with any port where one is that
//! differs from it in the port alone.

/// Longest redirect URI, in bytes.
pub(super) const URI_BYTES_MAX: usize = 1024;
/// The hosts of a machine for itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Whether a text is an absolute URI without a fragment (RFC 6749, section 3.1.2), in printable ASCII.
pub(in super::super) fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(fits)
        && !rest.is_empty()
        && text.len() <= URI_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
}

/// Whether a role that allows these URIs lets a browser come back to `given`.
pub(in super::super) fn is_allowed(given: &str, allowed: &[String]) -> bool {
    let same_but_for_port = |allowed: &String| {
        let without_port = loopback(given);
        without_port.is_some() && without_port == loopback(allowed)
    };
    is_uri(given) && allowed.iter().any(|allowed| allowed == given || same_but_for_port(allowed))
}

/// Where the page at a redirect URI is that takes what a provider posts: a page of this server cannot, but the server can. `None` for a URI
/// that is no page of this server, or of Vault.
pub(super) fn posting(uri: &str, namespace_path: &str) -> Option<String> {
    if let Some((server, mount)) = uri.split_once("/ui/vault/auth/") {
        return Some(format!("{server}/v1/auth/{mount}"));
    }
    let (server, mount) = uri.split_once("/ui/callback/")?;
    let callback = || format!("{server}/v1/{namespace_path}auth/{mount}/oidc/callback");
    (!mount.contains('?')).then(callback)
}

/// The page of the login that [`posting`] was asked about, by the URI that it gave; `None` for a URI of another kind.
pub(super) fn page_of(posted_to: &str, namespace_path: &str) -> Option<String> {
    let (_, path) = posted_to.split_once("://")?.1.split_once('/')?;
    let path = path.strip_prefix("v1/")?;
    let path = path.strip_prefix(namespace_path).unwrap_or(path);
    let mount = path.strip_prefix("auth/")?.strip_suffix("/oidc/callback")?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./~%".contains(&byte);
    mount.bytes().all(fits).then(|| format!("/ui/callback/{mount}"))
}

/// The host and what follows the port, of a loopback URI with `http`.
fn loopback(uri: &str) -> Option<(&str, &str)> {
    let rest = uri.strip_prefix("http://")?;
    let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let host = LOOPBACK.iter().find(|host| authority.starts_with(**host))?;
    let port = &authority[host.len()..];
    let is_port = |digits: &str| {
        digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok()
    };
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some((host, tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(allowed: &str, given: &str) -> bool {
        is_allowed(given, &[allowed.to_owned()])
    }

    #[test]
    fn a_loopback_uri_may_have_any_port_and_nothing_else_may_differ() {
        for allowed in ["http://localhost:8250/oidc/callback", "http://localhost/oidc/callback"] {
            for port in ["", ":1", ":80", ":8250", ":65535"] {
                assert!(
                    allows(allowed, &format!("http://localhost{port}/oidc/callback")),
                    "{port}"
                );
            }
        }
        assert!(allows("http://127.0.0.1:8250/oidc/callback", "http://127.0.0.1:1/oidc/callback"));
        assert!(allows("http://[::1]:8250/oidc/callback", "http://[::1]:1/oidc/callback"));
        for given in [
            "http://127.0.0.1:8250/oidc/callback",
            "http://[::1]:8250/oidc/callback",
            "https://localhost:8250/oidc/callback",
            "http://localhost:8250/oidc/callback/",
            "http://localhost:8250/oidc/callback?x=1",
            "http://localhost:8250/oidc/callbacK",
            "http://localhost:8250/oidc%2fcallback",
            "http://localhost:8250/oidc/../oidc/callback",
            "http://localhost:8250//oidc/callback",
            "http://localhost:8250",
            "http://LOCALHOST:8250/oidc/callback",
            "http://localhost.:8250/oidc/callback",
            "http://localhost.evil.example/oidc/callback",
            "http://localhost:@evil.example/oidc/callback",
            "http://localhost:8250@evil.example/oidc/callback",
            "http://user@localhost:8250/oidc/callback",
            "http://localhost:65536/oidc/callback",
            "http://localhost:+80/oidc/callback",
            "http://localhost:/oidc/callback",
            "http://localhost:80:80/oidc/callback",
            "http://localhost\\@evil.example/oidc/callback",
            "http://localhost:8250/oidc/callback#f",
            "http://localhost:8250 /oidc/callback",
            "HTTP://localhost:8250/oidc/callback",
            "//localhost:8250/oidc/callback",
            "http:/localhost:8250/oidc/callback",
        ] {
            assert!(!allows("http://localhost:8250/oidc/callback", given), "{given}");
        }
    }

    #[test]
    fn what_a_provider_posts_goes_by_the_server_to_the_page_that_began() {
        for (page, namespace, to, back) in [
            (
                "https://k/ui/callback/oidc",
                "",
                "https://k/v1/auth/oidc/oidc/callback",
                "/ui/callback/oidc",
            ),
            (
                "https://k/ui/callback/a/b%20c",
                "",
                "https://k/v1/auth/a/b%20c/oidc/callback",
                "/ui/callback/a/b%20c",
            ),
            (
                "https://k/ui/callback/oidc",
                "team/",
                "https://k/v1/team/auth/oidc/oidc/callback",
                "/ui/callback/oidc",
            ),
            (
                "https://k/ui/vault/auth/oidc/oidc/callback",
                "team/",
                "https://k/v1/auth/oidc/oidc/callback",
                "/ui/callback/oidc",
            ),
        ] {
            assert_eq!(posting(page, namespace).as_deref(), Some(to), "{page}");
            assert_eq!(page_of(to, namespace).as_deref(), Some(back), "{page}");
        }
        for other in ["http://localhost:8250/oidc/callback", "https://k/ui/callback/oidc?x=y"] {
            assert_eq!(posting(other, ""), None, "{other}");
        }
        for other in [
            "http://localhost:8250/oidc/callback",
            "https://k/v1/auth/oidc/oidc/callback?x",
            "https://k/v1/auth/\"/oidc/callback",
            "https://k/v1/other/auth/oidc/oidc/callback",
            "https://k",
        ] {
            assert_eq!(page_of(other, "team/"), None, "{other}");
        }
    }

    /// Every other spelling of an address that a browser or a server may take for the same one.
    #[test]
    fn a_uri_of_another_host_is_allowed_byte_by_byte_alone() {
        let allowed = "https://vault.example:8200/ui/vault/auth/oidc/oidc/callback";
        assert!(allows(allowed, allowed));
        let mut refused = 0;
        let mut refuse = |given: String| {
            assert!(!allows(allowed, &given), "{given}");
            refused += 1;
        };
        // One byte more, one byte less, one in the other case, or escaped, at each place.
        for at in 0..allowed.len() {
            let (before, after) = allowed.split_at(at);
            let (byte, rest) = after.split_at(1);
            refuse(format!("{before}{rest}"));
            refuse(format!("{before}.{after}"));
            let upper = byte.to_ascii_uppercase();
            if upper != byte {
                refuse(format!("{before}{upper}{rest}"));
            }
            refuse(format!("{before}%{:02x}{rest}", byte.as_bytes()[0]));
        }
        for given in [
            "https://vault.example:8201/ui/vault/auth/oidc/oidc/callback",
            "https://vault.example/ui/vault/auth/oidc/oidc/callback",
            "http://vault.example:8200/ui/vault/auth/oidc/oidc/callback",
            "https://vault.example:8200.evil.example/ui/vault/auth/oidc/oidc/callback",
            "https://evil.example/?https://vault.example:8200/ui/vault/auth/oidc/oidc/callback",
            "https://vault.example:8200/ui/vault/auth/oidc/oidc/callback?next=//evil.example",
            "https://vault.example:8200/ui/vault/auth/oidc/oidc/callback/",
            "",
        ] {
            refuse(given.to_owned());
        }
        assert!(refused > 200, "{refused} variants");
    }
}
