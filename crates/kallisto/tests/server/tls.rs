//! TLS of a running server: versions, client certificates, and a change of certificate by SIGHUP.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_RSA_SHA256, RsaKeySize,
    date_time_ymd,
};
use rustix::process::Signal;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
};

use crate::support::{Directory, PATIENCE, Server, read_reply, refuse, until};

const BOTH: &[&SupportedProtocolVersion] = &[&TLS12, &TLS13];

/// An authority of the test's own.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: CertificateDer<'static>,
}

/// A certificate and its key.
struct Identity {
    pem: String,
    key_pem: String,
    der: CertificateDer<'static>,
    key: KeyPair,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let (pem, der) = (certificate.pem(), certificate.der().clone());
        Self { issuer: Issuer::new(params, key), pem, der }
    }

    fn identity(&self) -> Identity {
        self.identity_until(4096)
    }

    /// One whose certificate ends with a year.
    fn identity_until(&self, year: i32) -> Identity {
        self.identity_with(KeyPair::generate().unwrap(), year)
    }

    fn identity_with(&self, key: KeyPair, year: i32) -> Identity {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (pem, der) = (certificate.pem(), certificate.der().clone());
        Identity { pem, key_pem: key.serialize_pem(), der, key }
    }
}

/// What a client saw of a server.
struct Seen {
    status: u16,
    body: String,
    certificate: CertificateDer<'static>,
    handshake: HandshakeKind,
}

/// Asks for the seal's status over TLS.
fn ask(
    address: SocketAddr,
    authority: &Authority,
    identity: Option<&Identity>,
    versions: &[&'static SupportedProtocolVersion],
) -> std::io::Result<Seen> {
    ask_as(address, client(authority, identity, versions))
}

/// A client that trusts an authority; it remembers its sessions.
fn client(
    authority: &Authority,
    identity: Option<&Identity>,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    Arc::new(match identity {
        None => config.with_no_client_auth(),
        Some(identity) => {
            // Certificates that a client of ours would not take are shown too.
            let key = PrivateKeyDer::try_from(identity.key.serialize_der()).unwrap();
            let key = default_provider().key_provider.load_private_key(key).unwrap();
            let shown = CertifiedKey::new(vec![identity.der.clone()], key);
            config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(shown)))
        }
    })
}

fn ask_as(address: SocketAddr, client: Arc<ClientConfig>) -> std::io::Result<Seen> {
    ask_for("seal-status", address, client)
}

fn ask_for(path: &str, address: SocketAddr, client: Arc<ClientConfig>) -> std::io::Result<Seen> {
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(client, name).unwrap();
    let socket = TcpStream::connect_timeout(&address, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut stream = StreamOwned::new(connection, socket);
    let request = format!("GET /v1/sys/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut reader = BufReader::new(stream);
    let reply = read_reply(&mut reader)?;
    let certificates = reader.get_ref().conn.peer_certificates().unwrap();
    Ok(Seen {
        status: reply.status,
        body: reply.body.clone(),
        certificate: certificates[0].clone(),
        handshake: reader.get_ref().conn.handshake_kind().unwrap(),
    })
}

/// A configuration with TLS from `cert.pem` and `key.pem`.
fn config(directory: &Directory, more: &str) -> String {
    let files = ["cert.pem", "key.pem"].map(|name| directory.join(name).display().to_string());
    let tls =
        format!("tls_cert_file = \"{}\"\n  tls_key_file = \"{}\"\n{more}", files[0], files[1]);
    directory.config("").replace("tls_disable = true", &tls)
}

fn place(directory: &Directory, identity: &Identity) {
    directory.write("cert.pem", &identity.pem);
    directory.write("key.pem", &identity.key_pem);
}

#[test]
fn a_certificate_that_has_ended_is_told_at_the_start_and_at_a_reload() {
    let directory = Directory::new("ended");
    let authority = Authority::new();
    let (ended, good) = (authority.identity_until(2020), authority.identity());
    place(&directory, &ended);
    let server = Server::start(&directory, &config(&directory, ""));
    let told = || server.log().matches("a listener's certificate has ended").count();
    until("told at the start", || told() == 1);
    assert!(server.log().contains("2020-01-01T00:00:00Z"), "{}", server.log());
    for (identity, reloads, wanted) in [(&good, 1, 1), (&ended, 2, 2)] {
        place(&directory, identity);
        server.signal(Signal::HUP);
        until("reloaded", || server.log().matches("audit files opened anew").count() == reloads);
        assert_eq!(told(), wanted);
    }
    server.stop();
}

#[test]
fn a_hangup_changes_the_certificate_and_a_broken_file_does_not() {
    let directory = Directory::new("reload");
    let authority = Authority::new();
    let (old, new) = (authority.identity(), authority.identity());
    place(&directory, &old);
    let server = Server::start(&directory, &config(&directory, ""));
    let served = || ask(server.address, &authority, None, BOTH).unwrap().certificate;
    assert_eq!(served(), old.der);

    let log_says = |what: &str, times: usize| {
        until(what, || server.log().matches(what).count() == times);
    };
    place(&directory, &new);
    assert_eq!(served(), old.der, "nobody asked for the new one yet");
    server.signal(Signal::HUP);
    log_says("certificate reloaded", 1);
    assert_eq!(served(), new.der);

    // Half a file, a key that is another's, and no file at all.
    directory.write("cert.pem", &old.pem[..old.pem.len() / 2]);
    server.signal(Signal::HUP);
    log_says("certificate not reloaded", 1);
    directory.write("cert.pem", &old.pem);
    server.signal(Signal::HUP);
    log_says("certificate not reloaded", 2);
    std::fs::remove_file(directory.join("cert.pem")).unwrap();
    server.signal(Signal::HUP);
    log_says("certificate not reloaded", 3);
    assert_eq!(served(), new.der);

    place(&directory, &old);
    server.signal(Signal::HUP);
    log_says("certificate reloaded", 2);
    assert_eq!(served(), old.der);
    server.stop();
}

/// A client that was given `http://` for `https://` is told so in its own protocol.
#[test]
fn http_without_tls_is_told_what_is_wrong() {
    let directory = Directory::new("plain");
    let authority = Authority::new();
    place(&directory, &authority.identity());
    let server = Server::start(&directory, &config(&directory, ""));
    let long = format!(
        "POST /v1/secret/a HTTP/1.1\r\nHost: h\r\nContent-Length: 500000\r\n\r\n{}",
        "a".repeat(500_000)
    );
    for sent in ["GET /v1/sys/health HTTP/1.1\r\nHost: h\r\n\r\n", "L", &long] {
        let mut socket = TcpStream::connect_timeout(&server.address, PATIENCE).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(sent.as_bytes()).unwrap();
        let mut reader = BufReader::new(socket);
        let reply = read_reply(&mut reader).unwrap();
        assert_eq!(reply.status, 400);
        let text = r#"{"errors":["Client sent an HTTP request to an HTTPS server."]}"#;
        assert_eq!(reply.body, text);
        assert_eq!(std::io::copy(&mut reader, &mut std::io::sink()).unwrap(), 0, "it is closed");
    }
    // What is neither of the two is closed as before.
    let mut socket = TcpStream::connect_timeout(&server.address, PATIENCE).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
    let mut rest = Vec::new();
    let _ = std::io::Read::read_to_end(&mut socket, &mut rest);
    assert!(rest.len() < 10 && !rest.starts_with(b"HTTP"), "{rest:?}");
    assert_eq!(ask(server.address, &authority, None, BOTH).unwrap().status, 200);
    server.stop();
}

#[test]
fn sessions_are_resumed_until_more_is_asked_of_clients() {
    let directory = Directory::new("resume");
    let authority = Authority::new();
    place(&directory, &authority.identity());
    let own = authority.identity();
    let ca = directory.join("ca.pem");
    directory.write("ca.pem", &authority.pem);
    let asked = format!(
        "tls_client_ca_file = \"{}\"\ntls_require_and_verify_client_cert = true",
        ca.display()
    );
    let server = Server::start(&directory, &config(&directory, &asked));
    for versions in [&[&TLS13][..], &[&TLS12]] {
        let client = client(&authority, Some(&own), versions);
        let handshake = || ask_as(server.address, Arc::clone(&client)).unwrap().handshake;
        assert_ne!(handshake(), HandshakeKind::Resumed);
        assert_eq!(handshake(), HandshakeKind::Resumed);
        // A certificate is not what a session stands on; who is trusted is.
        place(&directory, &authority.identity());
        let reloads = server.log().matches("certificate reloaded").count();
        server.signal(Signal::HUP);
        until("reload", || server.log().matches("certificate reloaded").count() > reloads);
        assert_eq!(handshake(), HandshakeKind::Resumed);
        let both = format!("{}{}", authority.pem, Authority::new().pem);
        directory.write("ca.pem", &both);
        let reloads = server.log().matches("certificate reloaded").count();
        server.signal(Signal::HUP);
        until("reload", || server.log().matches("certificate reloaded").count() > reloads);
        assert_ne!(handshake(), HandshakeKind::Resumed);
    }
    server.stop();
}

#[test]
fn versions_are_what_the_configuration_says() {
    let directory = Directory::new("versions");
    let authority = Authority::new();
    place(&directory, &authority.identity());
    for (more, with_12, with_13) in [
        ("", true, true),
        ("tls_min_version = \"tls13\"", false, true),
        ("tls_max_version = \"tls12\"", true, false),
    ] {
        let server = Server::start(&directory, &config(&directory, more));
        let takes = |version| ask(server.address, &authority, None, &[version]).is_ok();
        assert_eq!((takes(&TLS12), takes(&TLS13)), (with_12, with_13), "{more}");
        server.stop();
    }
    for old in ["tls10", "tls11"] {
        let more = format!("tls_min_version = \"{old}\"");
        let said = refuse(&directory, &config(&directory, &more), &[]);
        assert!(said.contains("tls_min_version"), "{said}");
    }
}

#[test]
fn client_certificates_are_asked_for_as_configured() {
    let directory = Directory::new("clients");
    let (authority, stranger) = (Authority::new(), Authority::new());
    place(&directory, &authority.identity());
    let ca = directory.write("clients.pem", &authority.pem);
    let (known, unknown) = (authority.identity(), stranger.identity());
    let ended = authority.identity_until(2000);
    let old_form = as_version_1(authority.identity());
    let garbage = Identity { der: b"no certificate".to_vec().into(), ..authority.identity() };
    // Shown with a key that is another's.
    let stolen = Identity { der: known.der.clone(), ..authority.identity() };
    let asked = format!("tls_client_ca_file = \"{}\"", ca.display());
    let required = format!("{asked}\ntls_require_and_verify_client_cert = true");
    // Without a word of who is required, any certificate comes in that is one and its bearer's: what it is
    // good for is a login's to say (as the reference server has it, also with an authority's file).
    for (more, any) in [("", true), (&asked, true), (&required, false)] {
        let server = Server::start(&directory, &config(&directory, more));
        for version in BOTH {
            let comes_in = |identity| match ask(server.address, &authority, identity, &[version]) {
                Ok(seen) => {
                    assert_eq!(seen.status, 200);
                    true
                }
                Err(_) => false,
            };
            assert!(comes_in(Some(&known)), "{more}");
            assert_eq!(comes_in(None), any, "{more}");
            assert_eq!(comes_in(Some(&unknown)), any, "{more}");
            assert_eq!(comes_in(Some(&ended)), any, "{more}");
            assert_eq!(comes_in(Some(&old_form)), any, "{more}");
            assert!(!comes_in(Some(&garbage)), "{more}");
            assert!(!comes_in(Some(&stolen)), "{more}");
        }
        server.stop();
    }
}

/// The same with a certificate of version 1, which is one that does not say its version. Nobody checks who
/// signed it.
fn as_version_1(identity: Identity) -> Identity {
    let mut der = identity.der.to_vec();
    // Two sequences with lengths of two bytes, and the version: [0] INTEGER 2.
    assert_eq!((&der[..2], &der[4..6]), (&[0x30, 0x82][..], &[0x30, 0x82][..]));
    assert_eq!(der.drain(8..13).as_slice(), [0xa0, 3, 2, 1, 2]);
    for at in [2, 6] {
        let length = u16::from_be_bytes([der[at], der[at + 1]]) - 5;
        der[at..at + 2].copy_from_slice(&length.to_be_bytes());
    }
    Identity { der: der.into(), ..identity }
}

#[test]
fn a_missing_certificate_is_named() {
    let directory = Directory::new("nocert");
    let said = refuse(&directory, &config(&directory, ""), &[]);
    assert!(said.contains("cert.pem"), "{said}");
}

#[test]
fn a_key_that_cannot_be_used_is_told_as_what_it_is() {
    let directory = Directory::new("badkey");
    let authority = Authority::new();
    place(&directory, &authority.identity());
    directory.write("key.pem", authority.identity().key_pem);
    let said = refuse(&directory, &config(&directory, ""), &[]);
    assert!(said.contains("key.pem: it is the key of another certificate"), "{said}");
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIBvTBXBgkqhkiG9w0B\n-----END ENCRYPTED PRIVATE KEY-----\n";
    directory.write("key.pem", encrypted);
    let said = refuse(&directory, &config(&directory, ""), &[]);
    assert!(said.contains("key.pem: no private key in it that is not encrypted"), "{said}");
}

#[test]
fn a_dev_server_makes_certificates_that_curl_takes() {
    let directory = Directory::new("devtls");
    std::fs::create_dir(directory.join("tls")).unwrap();
    let made = format!("-dev-tls-cert-dir={}", directory.join("tls").display());
    let arguments =
        ["-dev-tls", "-dev-no-store-token", "-dev-listen-address=127.0.0.1:0", made.as_str()];
    let server = Server::spawn(&directory, &[], &arguments);
    let authority = std::fs::read_dir(directory.join("tls")).unwrap();
    let authority = authority
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().unwrap().to_string_lossy().contains("ca"))
        .unwrap();
    let Some((code, status)) = curl(&authority, server.address) else {
        println!("*** SKIPPED: there is no curl to try");
        return;
    };
    assert_eq!((code, status.as_str()), (Some(0), "200"));
    // Without the authority it is not trusted.
    let refused = curl(Path::new("/dev/null"), server.address).unwrap();
    assert_ne!(refused.0, Some(0));
    server.stop();
}

/// Asks a server with `curl`; `None` when there is none.
fn curl(authority: &Path, address: SocketAddr) -> Option<(Option<i32>, String)> {
    let output = Command::new("curl")
        .args(["-sS", "--max-time", "20", "-o", "/dev/null", "-w", "%{http_code}", "--cacert"])
        .arg(authority)
        .arg(format!("https://{address}/v1/sys/health"))
        .stderr(Stdio::null())
        .output()
        .ok()?;
    Some((output.status.code(), String::from_utf8(output.stdout).unwrap()))
}

/// What is signed with a long key takes milliseconds, in which a worker would serve nobody.
#[test]
fn handshakes_under_a_long_key_are_done_beside_the_workers() {
    let directory = Directory::new("long-key");
    let authority = Authority::new();
    place(&directory, &authority.identity());
    let metrics = "telemetry { unauthenticated_metrics_access = true }";
    let server = Server::start(&directory, &config(&directory, metrics));
    let counted = || {
        let seen =
            ask_for("metrics?format=prometheus", server.address, client(&authority, None, BOTH));
        let text = seen.unwrap().body;
        let line = text.lines().find(|line| line.starts_with("kallisto_compute_handshakes_total "));
        line.unwrap().rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    counted();
    assert_eq!(counted(), 0, "a key on a curve signs in no time");
    let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_3072).unwrap();
    let long = authority.identity_with(key, 4096);
    place(&directory, &long);
    server.signal(Signal::HUP);
    until("reload", || server.log().contains("certificate reloaded"));
    for versions in [&[&TLS13][..], &[&TLS12]] {
        let client = client(&authority, None, versions);
        let seen = ask_as(server.address, Arc::clone(&client)).unwrap();
        assert_eq!((seen.status, seen.certificate), (200, long.der.clone()));
        assert_eq!(ask_as(server.address, client).unwrap().handshake, HandshakeKind::Resumed);
    }
    // A resumed one is only known once it is under way.
    assert_eq!(counted(), 5);
    server.stop();
}
