//! Where a collector is.

use hyper::Uri;

/// How a collector is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// Messages in bodies of HTTP/1.1.
    Http,
    /// gRPC, over HTTP/2.
    Grpc,
}

/// Where spans are sent when nobody says, by the protocol.
const HTTP_DEFAULT: &str = "http://localhost:4318";
const GRPC_DEFAULT: &str = "http://localhost:4317";
/// The path of spans below an endpoint of HTTP.
const HTTP_PATH: &str = "/v1/traces";
/// The call of gRPC.
const GRPC_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// Where a collector is, and how it is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorEndpoint {
    pub(crate) protocol: OtlpProtocol,
    pub(crate) is_tls: bool,
    /// Without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Host and port as in the URL.
    pub(crate) authority: String,
    pub(crate) path: String,
}

impl CollectorEndpoint {
    /// The endpoint that a URL names, or the usual one on this machine. As everywhere with OTLP, spans go to `v1/traces` below a URL of HTTP.
    ///
    /// # Errors
    /// What is wrong with the URL, without a part of it.
    pub fn parse(url: Option<&str>, protocol: OtlpProtocol) -> Result<Self, &'static str> {
        let usual = match protocol {
            OtlpProtocol::Http => HTTP_DEFAULT,
            OtlpProtocol::Grpc => GRPC_DEFAULT,
        };
        let expected = "expected a URL such as http://collector.example:4318, without a user, a password or a query";
        let url: Uri = url.unwrap_or(usual).parse().map_err(|_| expected)?;
        let is_tls = match url.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(expected),
        };
        let authority = url.authority().ok_or(expected)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || authority.as_str().contains('@') || url.query().is_some() {
            return Err(expected);
        }
        let base = url.path().trim_end_matches('/');
        let path = match protocol {
            OtlpProtocol::Http => format!("{base}{HTTP_PATH}"),
            OtlpProtocol::Grpc if base.is_empty() => GRPC_PATH.to_owned(),
            OtlpProtocol::Grpc => {
                return Err("expected a URL without a path, since protocol is grpc");
            }
        };
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let (host, authority) = (host.to_owned(), authority.as_str().to_owned());
        Ok(Self { protocol, is_tls, host, port, authority, path })
    }

    /// How it is spoken to.
    pub const fn protocol(&self) -> OtlpProtocol {
        self.protocol
    }

    /// Whether it is spoken to by TLS.
    pub const fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// The whole URL, as the requests of HTTP/2 have it.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_what_others_make_of_the_same_url() {
        let of = |url: Option<&str>, protocol| {
            CollectorEndpoint::parse(url, protocol).map(|at| (at.url(), at.host, at.port))
        };
        let grpc = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
        for (url, protocol, expected, host, port) in [
            (
                None,
                OtlpProtocol::Http,
                "http://localhost:4318/v1/traces".to_owned(),
                "localhost",
                4318,
            ),
            (None, OtlpProtocol::Grpc, format!("http://localhost:4317{grpc}"), "localhost", 4317),
            (Some("http://c:1/"), OtlpProtocol::Http, "http://c:1/v1/traces".into(), "c", 1),
            (
                Some("https://c/otlp/"),
                OtlpProtocol::Http,
                "https://c/otlp/v1/traces".into(),
                "c",
                443,
            ),
            (Some("http://[::1]:9"), OtlpProtocol::Grpc, format!("http://[::1]:9{grpc}"), "::1", 9),
            (Some("http://c"), OtlpProtocol::Grpc, format!("http://c{grpc}"), "c", 80),
        ] {
            assert_eq!(of(url, protocol), Ok((expected, host.to_owned(), port)), "{url:?}");
        }
        for bad in
            ["", "c:4317", "ftp://c", "http://", "http://u:hunter2@c", "http://c?k=hunter2", "/a"]
        {
            let refused = of(Some(bad), OtlpProtocol::Http).unwrap_err();
            assert!(!refused.contains("hunter2"), "{bad}");
        }
        assert!(of(Some("http://c/path"), OtlpProtocol::Grpc).is_err());
    }
}
