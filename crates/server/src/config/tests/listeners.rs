//! Listeners that do not go together, or would let too many in.

use super::*;
use crate::build_settings::{cluster, refuse_shared_port};

#[test]
fn a_second_listener_where_other_servers_connect_is_refused() {
    let check = |first: &str| {
        let second = "listener \"tcp\" { address = \"127.0.0.1:8201\"\n tls_disable = 1 }";
        let first = format!("listener \"tcp\" {{ tls_disable = 1\n {first} }}");
        let config = read(&format!("storage \"inmem\" {{}}\n{first}\n{second}"));
        refuse_shared_port(&config, &config.listeners[0].cluster_address)
            .map_err(|error| error.to_string())
    };
    let wanted = "a listener has the address 127.0.0.1:8201, where other servers connect";
    assert!(check("").unwrap_err().contains(wanted));
    assert_eq!(check("cluster_address = \"127.0.0.1:8301\""), Ok(()));
    // The port is taken on every interface, so it is on this one.
    let wanted = "a listener has the address 127.0.0.1:8201, where other servers connect";
    assert!(check("address = \"0.0.0.0:8200\"").unwrap_err().contains(wanted));
    assert!(check("address = \"[::]:8200\"").unwrap_err().contains(wanted));
    assert_eq!(check("address = \"10.0.0.1:8200\""), Ok(()));
}

#[test]
fn listeners_that_would_let_too_many_in_are_refused() {
    for (text, wanted) in [
        ("", "TLS needs tls_cert_file and tls_key_file"),
        ("tls_cert_file = \"c\"", "TLS needs"),
        ("address = \"a:b\"\ntls_disable = 1", "address: the port is no number"),
        ("address = \"{{ GetPrivateIP }}:8200\"\ntls_disable = 1", "templates are not supported"),
        (
            "tls_disable = 1\nmax_request_size = \"64MiB\"",
            "max_request_size: expected 0 to 33554432 bytes",
        ),
        ("tls_disable = 1\nhttp_idle_timeout = \"2h\"", "http_idle_timeout: expected at most 1h"),
        (
            "tls_disable = 1\ntls_min_version = \"tls10\"",
            "tls_min_version: expected one of: tls12, tls13",
        ),
        ("tls_min_version = \"tls13\"\ntls_max_version = \"tls12\"", "tls_min_version: is newer"),
        ("tls_require_and_verify_client_cert = 1", "needs tls_client_ca_file"),
        ("tls_require_and_verify_client_cert = 1\ntls_disable_client_certs = 1", "contradict"),
        (
            "tls_disable = 1\ntls_client_ca_file = \"c\"\ntls_require_and_verify_client_cert = 1",
            "needs TLS",
        ),
        (
            "tls_disable = 1\nx_forwarded_for_client_cert_keep_unauthorized = true",
            "is not supported",
        ),
        ("tls_disable = 1\nproxy_protocol_behavior = \"use_always\"", "name the proxies"),
        ("tls_disable = 1\nproxy_protocol_behavior = \"yes\"", "expected one of: allow_authorized"),
        (
            "tls_disable = 1\nproxy_protocol_behavior = \"deny_unauthorized\"",
            "needs proxy_protocol_authorized_addrs",
        ),
        (
            "tls_disable = 1\nproxy_protocol_authorized_addrs = \"10.0.0.0/8\"",
            "needs proxy_protocol_behavior",
        ),
        ("tls_disable = 1\nchroot_namespace = \"team\"", "is not supported"),
        (
            "tls_disable = 1\nx_forwarded_for_authorized_addrs = [\"10/8\"]",
            "expected addresses such as",
        ),
        ("tls_disable = 1\nx_forwarded_for_hop_skips = 99", "expected a whole number from 0 to 16"),
    ] {
        let error = refusal(&format!("listener \"tcp\" {{\n{text}\n}}"));
        assert!(error.contains(wanted), "{text}: {error}");
        assert!(error.starts_with("VAULT_LOCAL_CONFIG:"), "{error}");
    }
    let error = refusal("listener \"unix\" { address = \"/run/s\" }");
    assert!(error.contains("only \"tcp\""), "{error}");
    let error = read_with("storage \"inmem\" {}", &[]).unwrap_err();
    assert!(error.contains("no listener"), "{error}");
}

#[test]
fn a_limit_of_zero_is_the_built_in_one() {
    let limits = |zero: &str| {
        let keys = ["max_request_size", "http_read_header_timeout", "http_idle_timeout"];
        let keys = keys.map(|key| format!("{key} = {zero}")).join("\n");
        let config = read(&format!(
            "storage \"inmem\" {{}}\nlistener \"tcp\" {{\ntls_disable = 1\n{keys}\n}}"
        ));
        let [listener] = &config.listeners[..] else { panic!("one listener") };
        (listener.max_request_bytes, listener.header_timeout, listener.idle_timeout)
    };
    let second = Some(std::time::Duration::from_secs(1));
    assert_eq!(limits("1"), (Some(1), second, second));
    for zero in ["0", "\"0\""] {
        assert_eq!(limits(zero), (None, None, None), "{zero}");
    }
}

#[test]
fn one_open_group_of_two_is_not_open() {
    for (text, access) in [
        ("disable_unauthed_rekey_endpoints = false", RouteAccess::Open),
        ("disable_unauthed_rekey_endpoints = true", RouteAccess::Token),
        ("disable_unauthed_generate_root_endpoints = false", RouteAccess::Token),
        (
            "disable_unauthed_rekey_endpoints = false\ndisable_unauthed_generate_root_endpoints = true",
            RouteAccess::Token,
        ),
        (
            "disable_unauthed_rekey_endpoints = false\nunauthenticated_rekey = false",
            RouteAccess::Token,
        ),
    ] {
        let config = read(&format!(
            "storage \"inmem\" {{}}\nlistener \"tcp\" {{\ntls_disable = 1\n{text}\n}}"
        ));
        assert_eq!(config.listeners[0].unauthenticated_rekey, access, "{text}");
    }
}

#[test]
fn a_listener_that_opens_rekey_in_vain_is_told() {
    let told = |first: &str, second: &str| {
        let listener = |text: &str| format!("listener \"tcp\" {{\ntls_disable = 1\n{text}\n}}\n");
        let (first, second) = (listener(first), listener(second));
        let text = format!("storage \"inmem\" {{}}\n{first}{second}");
        read_with(&text, &[]).unwrap().warnings.join("\n")
    };
    let (open, closed) = ("unauthenticated_rekey = true", "address = \"127.0.0.1:8300\"");
    assert_eq!(told("", closed), "");
    assert_eq!(told(open, &format!("{closed}\n{open}")), "");
    let wanted = "VAULT_LOCAL_CONFIG:2: unauthenticated_rekey has no effect: another listener";
    assert!(told(open, closed).starts_with(wanted), "{}", told(open, closed));
    let older = "disable_unauthed_rekey_endpoints = false";
    assert!(told(older, closed).starts_with(wanted), "{}", told(older, closed));
}

/// Where other servers are told to connect.
fn told(listener: &str, addresses: &str) -> String {
    let text = format!(
        "storage \"raft\" {{ path = \"p\" }}\nlistener \"tcp\" {{ tls_disable = 1\n {listener} }}\n{addresses}"
    );
    cluster(&read(&text)).unwrap_or_else(|error| panic!("{error} in {text}")).own.cluster_address
}

#[test]
fn other_servers_connect_where_a_listener_says_whichever_it_is() {
    let bound = |first: &str, second: &str| {
        let listener = |text: &str| format!("listener \"tcp\" {{\ntls_disable = 1\n{text}\n}}\n");
        let (first, second) = (listener(first), listener(second));
        let text = format!("storage \"raft\" {{ path = \"p\" }}\n{first}{second}");
        let Loaded { config, warnings } = read_with(&text, &[]).unwrap();
        let cluster = cluster(&config).unwrap_or_else(|error| panic!("{error}"));
        (cluster.address.to_string(), cluster.own.api_address, warnings.join("\n"))
    };
    let (local, public) = ("address = \"127.0.0.1:8200\"", "address = \"10.0.0.5:8300\"");
    let named = format!("{public}\ncluster_address = \"10.0.0.5:8301\"");
    let api = "http://127.0.0.1:8200".to_owned();
    let said = |address: &str, warnings: &str| (address.to_owned(), api.clone(), warnings.into());
    assert_eq!(bound(local, public), said("127.0.0.1:8201", ""));
    assert_eq!(bound(local, &named), said("10.0.0.5:8301", ""));
    let first = format!("{local}\ncluster_address = \"127.0.0.1:8401\"");
    let warning =
        "VAULT_LOCAL_CONFIG:7: cluster_address has no effect: a listener before this one has it";
    assert_eq!(bound(&first, &named), said("127.0.0.1:8401", warning));
}

#[test]
fn a_cluster_addr_without_a_port_has_that_of_the_listener() {
    for (url, wanted) in [
        ("https://one.example", "one.example:8201"),
        ("https://[2001:db8::1]", "[2001:db8::1]:8201"),
        ("https://10.0.0.1:9201", "10.0.0.1:9201"),
    ] {
        assert_eq!(told("", &format!("cluster_addr = \"{url}\"")), wanted, "{url}");
    }
    let other = "cluster_address = \"127.0.0.1:8301\"";
    assert_eq!(told(other, "cluster_addr = \"https://one.example\""), "one.example:8301");
    for url in ["https://one.example:8201/sub", "https://one.example/sub"] {
        let error = refusal(&format!("cluster_addr = \"{url}\""));
        assert!(error.contains("cluster_addr: expected a URL without a path"), "{error}");
    }
}

#[test]
fn other_servers_are_told_the_host_of_api_addr_rather_than_every_interface() {
    let api = "api_addr = \"https://one.example:443\"";
    for (listener, addresses, wanted) in [
        ("address = \"0.0.0.0:8200\"", api, "one.example:8201"),
        ("address = \"[::]:8200\"", api, "one.example:8201"),
        ("address = \":9200\"", "api_addr = \"http://[2001:db8::1]:9200\"", "[2001:db8::1]:9201"),
        ("address = \"10.0.0.1:8200\"", api, "10.0.0.1:8201"),
        ("address = \"0.0.0.0:8200\"\ncluster_address = \"10.0.0.1:8301\"", api, "10.0.0.1:8301"),
        (
            "address = \"10.0.0.1:8200\"\ncluster_address = \"0.0.0.0:8301\"",
            api,
            "one.example:8301",
        ),
        ("address = \"0.0.0.0:8200\"", "", "0.0.0.0:8201"),
    ] {
        assert_eq!(told(listener, addresses), wanted, "{listener} {addresses}");
    }
}

#[test]
fn a_refused_key_that_asks_for_nothing_is_no_error() {
    for text in [
        "redact_addresses = false\nrequire_request_header = \"false\"\ntls_acme_domains = []",
        "chroot_namespace = \"\"\ntelemetry { disallow_metrics = false\n metrics_only = 0 }",
    ] {
        assert_eq!(
            warnings(&format!(
                "listener \"tcp\" {{ address = \"127.0.0.1:1\"\ntls_disable = 1\n{text} }}"
            )),
            [""; 0]
        );
    }
    for text in [
        "enable_multiseal = false",
        "telemetry {\n statsd_address = \"\"\n enable_hostname_label = false\n circonus_api_token = \"\"\n}",
    ] {
        assert_eq!(warnings(text), [""; 0], "{text}");
    }
    assert!(refusal("enable_multiseal = true").contains("enable_multiseal is not supported"));
}

#[test]
fn two_listeners_at_one_address_are_refused_before_anything_is_made() {
    let one = "listener \"tcp\" { address = \"127.0.0.1:9200\"\ntls_disable = 1 }\n";
    for second in [one, &one.replace("\"tcp\"", "\"resp\"")] {
        let error = refusal(&format!("{one}{second}"));
        assert!(error.contains("another listener has this address"), "{error}");
    }
    let free = one.replace("9200", "0");
    read(&format!("{MINIMUM}{free}{free}{one}"));
}

/// Read as if there were none, the port of the listener stood behind it, in the name by which members know the server.
#[test]
fn the_port_of_a_url_is_one() {
    for port in ["99999", "0", "x", "", "1:2"] {
        for key in ["cluster_addr", "api_addr"] {
            let error = refusal(&format!("{key} = \"https://127.0.0.1:{port}\""));
            assert!(error.contains("expected a URL"), "{key} {port}: {error}");
        }
    }
    for host in ["a.example", "a.example:1", "[::1]", "[::1]:65535"] {
        read(&format!("{MINIMUM}api_addr = \"https://{host}\""));
    }
}
