//! `listener "tcp"` and `listener "resp"`: where to listen, with which certificate, whose word counts,
//! and which mounts a Redis client sees.
//!
//! A listener speaks TLS unless it says `tls_disable`. What would silently let more people in when
//! ignored (a namespace to be confined to, a proxy whose header anybody could send) is refused.

use kallisto_core::limits::BODY_BYTES_MAX;
use kallisto_core::{AddressRange, RouteAccess};
use kallisto_listener::ProxyProtocol;
use kallisto_listener::http::ForwardedFor;

use super::Of;
use super::address::HostPort;
use super::error::{Error, FilePosition};
use super::model::{
    ClientCertificates, ListenerConfig, RespConfig, RespPlace, TlsConfig, TlsVersion,
};
use super::raw_value::RawValue;
use super::section::ConfigSection;
use super::section::Unused::{self, Ignored, Refused, Silent};

/// The port when an address names none.
const PORT_DEFAULT: u16 = 8200;
/// The port of a `resp` listener when its address names none: Redis's.
const RESP_PORT_DEFAULT: u16 = 6379;
/// The mount behind database 0 when a `resp` listener does not say.
const RESP_MOUNT_DEFAULT: &str = "secret";
/// The login method behind `AUTH user password` when a `resp` listener does not say.
const RESP_USERPASS_DEFAULT: &str = "userpass";
/// Who may open the socket of a `resp` listener when it does not say: the server's own user.
const SOCKET_MODE_DEFAULT: u32 = 0o600;
/// Longest time a connection may take or be idle.
const TIMEOUT_MAX_SECS: u64 = 3600;
/// Most proxies in front of the proxy.
const HOP_SKIPS_MAX: u64 = 16;
/// Where to listen when a listener does not say.
const ADDRESS_DEFAULT: &str = "127.0.0.1";

/// Keys of a listener that nothing reads.
const UNUSED: [(&str, Unused); 21] = [
    ("http_read_timeout", Ignored),
    ("http_write_timeout", Ignored),
    ("max_request_duration", Ignored),
    ("max_request_json_*", Ignored),
    ("max_json_*", Ignored),
    ("require_request_header", Refused),
    // rustls offers only suites that are sound, in its own order.
    ("tls_cipher_suites", Ignored),
    ("tls_prefer_server_cipher_suites", Silent),
    ("tls_acme_*", Refused),
    ("x_forwarded_for_client_cert_*", Refused),
    ("chroot_namespace", Refused),
    ("role", Refused),
    ("purpose", Silent),
    ("profiling", Ignored),
    ("inflight_requests_logging", Ignored),
    ("custom_response_headers", Ignored),
    ("cors_*", Ignored),
    ("redact_*", Refused),
    ("disable_replication_status_endpoints", Silent),
    ("disable_request_limiter", Silent),
    ("socket_*", Ignored),
];

/// Every listener of every file: those of HTTP, and those of the Redis protocol.
pub(super) fn read(
    top: &mut ConfigSection<'_>,
    of: Of,
    warnings: &mut Vec<String>,
) -> Result<(Vec<ListenerConfig>, Vec<RespConfig>), Error> {
    let (mut listeners, mut places, mut resp) = (Vec::new(), Vec::new(), Vec::new());
    let mut addresses: Vec<HostPort> = Vec::new();
    for (kind, stanza) in top.labelled("listener")? {
        let whole = stanza.clone();
        let address = match kind.to_ascii_lowercase().as_str() {
            "tcp" => {
                places.push(stanza.place().clone());
                let config = one(stanza, warnings)?;
                let address = config.address.clone();
                listeners.push(config);
                Some(address)
            }
            "resp" => {
                let config = one_resp(stanza, warnings)?;
                let address = match &config.place {
                    RespPlace::Tcp(address) => Some(address.clone()),
                    RespPlace::Unix { .. } => None,
                };
                resp.push(config);
                address
            }
            _ => return Err(stanza.refuse("only \"tcp\" and \"resp\" listeners are served")),
        };
        // Port 0 is a free one each time.
        if let Some(address) = address.filter(|address| address.port != 0) {
            if addresses.contains(&address) {
                return Err(whole.refuse("another listener has this address"));
            }
            addresses.push(address);
        }
    }
    if listeners.is_empty() && of == Of::Server {
        let text = "no listener is configured: add listener \"tcp\" { address = \"..\" }";
        return Err(Error::Missing(text.to_owned()));
    }
    warn_of_rekey(&listeners, &places, warnings);
    let naming = listeners.iter().zip(&places).filter(|(one, _)| one.names_cluster_address);
    warnings.extend(naming.skip(1).map(|(_, place)| {
        format!("{place}: cluster_address has no effect: a listener before this one has it")
    }));
    Ok((listeners, resp))
}

/// Says that rekey needs a token at every listener where one of them does not open it: the server does not know by which a request came.
fn warn_of_rekey(
    listeners: &[ListenerConfig],
    places: &[FilePosition],
    warnings: &mut Vec<String>,
) {
    let is_open = |one: &ListenerConfig| one.unauthenticated_rekey == RouteAccess::Open;
    if listeners.iter().all(is_open) {
        return;
    }
    let open = listeners.iter().zip(places).filter(|(one, _)| is_open(one));
    warnings.extend(open.map(|(_, place)| {
        format!("{place}: unauthenticated_rekey has no effect: another listener \"tcp\" does not have it")
    }));
}

fn one_resp(
    mut stanza: ConfigSection<'_>,
    warnings: &mut Vec<String>,
) -> Result<RespConfig, Error> {
    let (place, tls, proxies) = match stanza.raw_value("path")? {
        Some(path) => (resp_path(&mut stanza, &path)?, None, ProxyProtocol::default()),
        None => {
            let (place, tls) = resp_address(&mut stanza, warnings)?;
            (place, tls, proxies(&mut stanza)?)
        }
    };
    let mut mounts = Vec::new();
    for raw in stanza.list("mounts")? {
        mounts.push(raw.expose()?.to_owned());
    }
    if mounts.is_empty() {
        mounts.push(RESP_MOUNT_DEFAULT.to_owned());
    }
    let userpass = stanza.raw_value("userpass_path")?;
    let userpass = match &userpass {
        Some(raw) => raw.expose()?.to_owned(),
        None => RESP_USERPASS_DEFAULT.to_owned(),
    };
    stanza.finish(&[], warnings)?;
    Ok(RespConfig { place, tls, mounts, userpass, proxies })
}

/// A socket's file; who may open it is what protects it, so TLS and an address have no place beside.
fn resp_path(stanza: &mut ConfigSection<'_>, path: &RawValue) -> Result<RespPlace, Error> {
    for key in [
        "address",
        "tls_disable",
        "tls_cert_file",
        "tls_key_file",
        "proxy_protocol_behavior",
        "proxy_protocol_authorized_addrs",
    ] {
        if let Some(raw) = stanza.raw_value(key)? {
            return Err(raw.refuse("has no meaning beside path"));
        }
    }
    let mode = match stanza.raw_value("socket_mode")? {
        None => SOCKET_MODE_DEFAULT,
        Some(raw) => {
            let mode = u32::from_str_radix(raw.expose()?, 8).ok();
            let mode = mode.filter(|mode| mode & !0o777 == 0);
            mode.ok_or_else(|| raw.refuse("expected permissions such as \"660\""))?
        }
    };
    Ok(RespPlace::Unix { path: path.path()?, mode })
}

fn resp_address(
    stanza: &mut ConfigSection<'_>,
    warnings: &mut Vec<String>,
) -> Result<(RespPlace, Option<TlsConfig>), Error> {
    let address = address(stanza, "address", RESP_PORT_DEFAULT)?
        .unwrap_or(HostPort { host: ADDRESS_DEFAULT.to_owned(), port: RESP_PORT_DEFAULT });
    let tls = tls(stanza, warnings)?;
    if tls.is_none() && !address.is_loopback() {
        return Err(stanza.refuse(
            "without TLS a \"resp\" listener has to be on a loopback address: commands carry tokens \
             and secrets",
        ));
    }
    Ok((RespPlace::Tcp(address), tls))
}

fn one(mut stanza: ConfigSection<'_>, warnings: &mut Vec<String>) -> Result<ListenerConfig, Error> {
    let address = address(&mut stanza, "address", PORT_DEFAULT)?
        .unwrap_or(HostPort { host: ADDRESS_DEFAULT.to_owned(), port: PORT_DEFAULT });
    // Port 0 takes a free one, and the cluster's does too then.
    let port = if address.port == 0 { 0 } else { address.port.checked_add(1).unwrap_or(0) };
    let named = self::address(&mut stanza, "cluster_address", port)?;
    let config = ListenerConfig {
        names_cluster_address: named.is_some(),
        cluster_address: named.unwrap_or_else(|| HostPort { host: address.host.clone(), port }),
        address,
        tls: tls(&mut stanza, warnings)?,
        max_request_bytes: stanza
            .raw_value("max_request_size")?
            .map(|raw| raw.bytes(0..=BODY_BYTES_MAX as u64))
            .transpose()?
            .filter(|bytes| *bytes != 0),
        header_timeout: timeout(&mut stanza, "http_read_header_timeout")?,
        idle_timeout: timeout(&mut stanza, "http_idle_timeout")?,
        unauthenticated_rekey: rekey_access(&mut stanza)?,
        unauthenticated_metrics: metrics_access(&mut stanza, warnings)?,
        forwarded_for: forwarded_for(&mut stanza, warnings)?,
        proxies: proxies(&mut stanza)?,
    };
    stanza.finish(&UNUSED, warnings)?;
    Ok(config)
}

fn address(
    stanza: &mut ConfigSection<'_>,
    key: &'static str,
    port_default: u16,
) -> Result<Option<HostPort>, Error> {
    let Some(raw) = stanza.raw_value(key)? else { return Ok(None) };
    let parsed = HostPort::parse(raw.expose()?, port_default);
    parsed.map(Some).map_err(|what| raw.refuse(what))
}

/// How long something may take; zero stands for the built-in limit, as in Vault.
fn timeout(
    stanza: &mut ConfigSection<'_>,
    key: &'static str,
) -> Result<Option<std::time::Duration>, Error> {
    let Some(raw) = stanza.raw_value(key)? else { return Ok(None) };
    let timeout = raw.span()?;
    match timeout.as_secs() > TIMEOUT_MAX_SECS {
        true => Err(raw.refuse("expected at most 1h")),
        false => Ok(Some(timeout).filter(|timeout| !timeout.is_zero())),
    }
}

/// Certificate, key and what is asked of clients; `None` is plain HTTP.
fn tls(
    stanza: &mut ConfigSection<'_>,
    warnings: &mut Vec<String>,
) -> Result<Option<TlsConfig>, Error> {
    let disabled = stanza.switch("tls_disable")?.unwrap_or(false);
    let cert_file = stanza.raw_value("tls_cert_file")?.map(|raw| raw.path()).transpose()?;
    let key_file = stanza.raw_value("tls_key_file")?.map(|raw| raw.path()).transpose()?;
    let (min_version, max_version) = versions(stanza)?;
    let client_certificates = client_certificates(stanza, warnings)?;
    if disabled {
        return match client_certificates {
            ClientCertificates::Required(_) => {
                Err(stanza.refuse("tls_require_and_verify_client_cert needs TLS"))
            }
            ClientCertificates::NotAsked | ClientCertificates::Any => Ok(None),
        };
    }
    let (Some(cert_file), Some(key_file)) = (cert_file, key_file) else {
        let text = "TLS needs tls_cert_file and tls_key_file (or say tls_disable = true)";
        return Err(stanza.refuse(text));
    };
    Ok(Some(TlsConfig { cert_file, key_file, min_version, max_version, client_certificates }))
}

fn versions(stanza: &mut ConfigSection<'_>) -> Result<(TlsVersion, TlsVersion), Error> {
    let words = [("tls12", TlsVersion::Tls12), ("tls13", TlsVersion::Tls13)];
    let min = stanza.raw_value("tls_min_version")?;
    let max = stanza.raw_value("tls_max_version")?;
    let least = min.as_ref().map_or(Ok(TlsVersion::Tls12), |raw| raw.choice(&words))?;
    let most = max.map_or(Ok(TlsVersion::Tls13), |raw| raw.choice(&words))?;
    match min {
        Some(raw) if least > most => Err(raw.refuse("is newer than tls_max_version")),
        _ => Ok((least, most)),
    }
}

fn client_certificates(
    stanza: &mut ConfigSection<'_>,
    warnings: &mut Vec<String>,
) -> Result<ClientCertificates, Error> {
    let raw = stanza.raw_value("tls_client_ca_file")?;
    let authority = raw.as_ref().map(RawValue::path).transpose()?;
    let required = stanza.switch("tls_require_and_verify_client_cert")?.unwrap_or(false);
    let never = stanza.switch("tls_disable_client_certs")?.unwrap_or(false);
    match (authority, required, never) {
        (_, true, true) => Err(stanza.refuse(
            "tls_require_and_verify_client_cert and tls_disable_client_certs contradict each other",
        )),
        (Some(authority), true, false) => Ok(ClientCertificates::Required(authority)),
        (None, true, false) => {
            Err(stanza.refuse("tls_require_and_verify_client_cert needs tls_client_ca_file"))
        }
        (_, false, never) => {
            if let Some(raw) = raw {
                let without = "tls_require_and_verify_client_cert is not set";
                warnings.push(format!("{} has no effect: {without}", raw.origin));
            }
            Ok(if never { ClientCertificates::NotAsked } else { ClientCertificates::Any })
        }
    }
}

/// Our own key, or OpenBao's pair: both of its groups must be open, because ours are one.
fn rekey_access(stanza: &mut ConfigSection<'_>) -> Result<RouteAccess, Error> {
    let ours = stanza.switch("unauthenticated_rekey")?;
    let rekey_closed = stanza.switch("disable_unauthed_rekey_endpoints")?;
    let root_closed = stanza.switch("disable_unauthed_generate_root_endpoints")?;
    let open = ours.unwrap_or(rekey_closed == Some(false) && root_closed != Some(true));
    Ok(if open { RouteAccess::Open } else { RouteAccess::Token })
}

fn metrics_access(
    stanza: &mut ConfigSection<'_>,
    warnings: &mut Vec<String>,
) -> Result<RouteAccess, Error> {
    let Some(mut telemetry) = stanza.stanzas("telemetry")?.pop() else {
        return Ok(RouteAccess::Token);
    };
    let open = telemetry.switch("unauthenticated_metrics_access")?.unwrap_or(false);
    telemetry.finish(&[("disallow_metrics", Refused), ("metrics_only", Refused)], warnings)?;
    Ok(if open { RouteAccess::Open } else { RouteAccess::Token })
}

fn forwarded_for(
    stanza: &mut ConfigSection<'_>,
    warnings: &mut Vec<String>,
) -> Result<ForwardedFor, Error> {
    let mut authorized = Vec::new();
    for raw in stanza.list("x_forwarded_for_authorized_addrs")? {
        authorized.push(range(&raw)?);
    }
    for key in [
        "x_forwarded_for_hop_skips",
        "x_forwarded_for_reject_not_present",
        "x_forwarded_for_reject_not_authorized",
    ] {
        if let (Some(raw), true) = (stanza.raw_value(key)?, authorized.is_empty()) {
            let without = "x_forwarded_for_authorized_addrs names nobody";
            warnings.push(format!("{} has no effect: {without}", raw.origin));
        }
    }
    let hop_skips = stanza
        .raw_value("x_forwarded_for_hop_skips")?
        .map_or(Ok(0), |raw| raw.whole(0..=HOP_SKIPS_MAX))?;
    let reject_not_present = stanza.switch("x_forwarded_for_reject_not_present")?.unwrap_or(true);
    let reject_not_authorized =
        stanza.switch("x_forwarded_for_reject_not_authorized")?.unwrap_or(true);
    Ok(ForwardedFor {
        authorized,
        hop_skips: u32::try_from(hop_skips).unwrap_or(u32::MAX),
        reject_not_present,
        reject_not_authorized,
    })
}

/// An address or a range of them.
fn range(raw: &RawValue) -> Result<AddressRange, Error> {
    let range = AddressRange::parse(raw.expose()?);
    range.ok_or_else(|| raw.refuse("expected addresses such as 10.0.0.0/8"))
}

/// Which proxies speak the PROXY protocol. Vault's `use_always` would believe whoever connects.
fn proxies(stanza: &mut ConfigSection<'_>) -> Result<ProxyProtocol, Error> {
    const ADDRESSES: &str = "proxy_protocol_authorized_addrs";
    let mut authorized = Vec::new();
    for raw in stanza.list(ADDRESSES)? {
        authorized.push(range(&raw)?);
    }
    let Some(behavior) = stanza.raw_value("proxy_protocol_behavior")? else {
        return match stanza.raw_value(ADDRESSES)? {
            Some(_) => {
                Err(stanza.refuse("proxy_protocol_authorized_addrs needs proxy_protocol_behavior"))
            }
            None => Ok(ProxyProtocol::default()),
        };
    };
    let refuses_others = match behavior.expose()? {
        "allow_authorized" => false,
        "deny_unauthorized" => true,
        "use_always" => {
            return Err(behavior.refuse(
                "use_always would let every client say that it is another: name the proxies in \
                 proxy_protocol_authorized_addrs, with allow_authorized or deny_unauthorized",
            ));
        }
        _ => return Err(behavior.refuse("expected one of: allow_authorized, deny_unauthorized")),
    };
    if authorized.is_empty() {
        let needs = "proxy_protocol_behavior needs proxy_protocol_authorized_addrs";
        return Err(stanza.refuse(needs));
    }
    Ok(ProxyProtocol { authorized: authorized.into(), refuses_others })
}
