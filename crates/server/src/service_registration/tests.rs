//! What is told when, and the call itself against a stand-in for an API server, which checks the token, refuses and hangs.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Mutex;

use kallisto_command::files;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;
use crate::own_certificate::{self, LOCAL_NAMES, OwnCertificate};

const LEADS: PodState = PodState { is_active: true, is_initialized: true, is_sealed: false };
const FOLLOWS: PodState = PodState { is_active: false, ..LEADS };

#[test]
fn labels_say_what_a_server_is_in_the_names_of_both_charts() {
    let text = String::from_utf8(LEADS.patch("1.2.3+x/y")).unwrap();
    let map = json::parse_object(text.as_bytes()).unwrap();
    let labels = map["metadata"].as_object().unwrap()["labels"].as_object().unwrap();
    let told: Vec<_> = labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let expected = [
        ("active", "true"),
        ("initialized", "true"),
        ("perf-standby", "false"),
        ("sealed", "false"),
        ("version", "1.2.3-x-y"),
    ];
    assert_eq!(told.len(), 2 * expected.len());
    for prefix in PREFIXES {
        for (name, value) in expected {
            let name = format!("{prefix}-{name}");
            assert!(told.contains(&(name.as_str(), Some(value))), "{name} in {text}");
        }
    }
    assert_eq!(label_value(&format!("+{}", "a".repeat(80))), "a".repeat(62));
}

#[test]
fn a_failure_is_tried_again_with_growing_pauses_and_news_sooner() {
    let start = SystemClock.instant();
    let at = |secs: u64| start + Duration::from_secs(secs);
    let mut pacing = LabelPacing::default();
    assert!(pacing.is_due(FOLLOWS, at(0)));
    let mut now = 0;
    // Each pause is at least three quarters of what it grew to.
    for pause in [1, 2, 4, 8, 16, 30, 30] {
        pacing.note(FOLLOWS, Err("no".into()), at(now));
        let least = at(now) + Duration::from_secs(pause) * 3 / 4;
        assert!(!pacing.is_due(FOLLOWS, least - Duration::from_millis(1)), "{pause}");
        now += pause;
        assert!(pacing.is_due(FOLLOWS, at(now)), "{pause}");
    }
    pacing.note(FOLLOWS, Err("no".into()), at(now));
    assert!(!pacing.is_due(LEADS, at(now)) && pacing.is_due(LEADS, at(now + 1)));
    pacing.note(LEADS, Ok(()), at(now + 1));
    assert!(!pacing.is_due(LEADS, at(now + 1000)));
    assert!(pacing.is_due(FOLLOWS, at(now + 1)));
    // What failed may have arrived: what was told before is told again.
    pacing.note(FOLLOWS, Err("no".into()), at(now + 1));
    assert!(pacing.is_due(LEADS, at(now + 2)));
}

#[test]
fn the_newest_state_is_told_and_the_end_once() {
    let states = Mutex::new(vec![FOLLOWS, LEADS, LEADS, FOLLOWS]);
    let (stop, stopped) = sync_channel(1);
    let told = Mutex::new(Vec::new());
    let look = || {
        let mut states = states.lock().unwrap();
        if states.len() == 1 {
            stop.try_send(()).ok();
        }
        states.pop().unwrap_or(FOLLOWS)
    };
    let tell = |state| {
        told.lock().unwrap().push(state);
        Ok(())
    };
    follow(&look, &tell, &stopped);
    assert_eq!(*told.lock().unwrap(), [FOLLOWS, LEADS, FOLLOWS, PodState::ENDED]);
}

/// What a stand-in does with a request.
#[derive(Clone, Copy)]
enum Answer {
    Good,
    Refuse,
    Hang,
}

/// An API server of one pod: it takes `token`, and notes what it was sent.
struct StandIn {
    port: u16,
    directory: PathBuf,
    heard: Arc<Mutex<Vec<String>>>,
    answer: Arc<Mutex<(String, Answer)>>,
}

impl StandIn {
    fn start() -> Self {
        let names = LOCAL_NAMES.map(str::to_owned).to_vec();
        let made = own_certificate::make("Cluster", "kubernetes", names, None).unwrap();
        let OwnCertificate { authority, certificate, key } = made;
        let directory = std::env::temp_dir().join(format!("kallisto-pod-{}", fastrand::u64(..)));
        std::fs::create_dir(&directory).unwrap();
        files::write_private(&directory.join("ca.crt"), authority.as_bytes()).unwrap();
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
        let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let answer = Arc::new(Mutex::new(("canary-of-one".to_owned(), Answer::Good)));
        let (hears, answers) = (Arc::clone(&heard), Arc::clone(&answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let wanted = answers.lock().unwrap().clone();
                serve(StreamOwned::new(connection, stream.unwrap()), &wanted, &hears);
            }
        });
        let made = Self { port, directory, heard, answer };
        made.issue("canary-of-one");
        made
    }

    /// Replaces the token of the pod, and makes the one before it invalid.
    fn issue(&self, token: &str) {
        files::write_private(&self.directory.join("token"), token.as_bytes()).unwrap();
        self.answer.lock().unwrap().0 = token.to_owned();
    }

    fn answers(&self, answer: Answer) {
        self.answer.lock().unwrap().1 = answer;
    }

    fn pod(&self) -> LabelledPod {
        let api_server = format!("https://127.0.0.1:{}", self.port);
        let config =
            PodConfig { api_server, namespace: "secrets".into(), pod: "kallisto-0".into() };
        LabelledPod::of(&config, ServiceAccountFiles::of(&self.directory))
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.directory).ok();
    }
}

fn serve(
    mut stream: StreamOwned<ServerConnection, TcpStream>,
    (token, answer): &(String, Answer),
    heard: &Mutex<Vec<String>>,
) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.ends_with(b"}}}") {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(count) => request.extend_from_slice(&buffer[..count]),
        }
    }
    let text = String::from_utf8(request).unwrap();
    let bearer = format!("bearer {token}\r\n");
    let known = text.to_ascii_lowercase().contains(&format!("authorization: {bearer}"));
    heard.lock().unwrap().push(text);
    let (status, body) = match answer {
        Answer::Hang => return std::thread::sleep(Duration::from_secs(10)),
        Answer::Good if known => ("200 OK", "{\"kind\":\"Pod\"}".to_owned()),
        Answer::Good => ("401 Unauthorized", "{\"kind\":\"Status\"}".to_owned()),
        Answer::Refuse => {
            let body = format!("{{\"kind\":\"Status\",\"message\":\"pods is forbidden {token}\"}}");
            ("403 Forbidden", body)
        }
    };
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}").ok();
}

#[test]
fn a_pod_is_patched_with_the_token_of_the_moment() {
    let server = StandIn::start();
    let pod = server.pod();
    assert_eq!(pod.label(LEADS), Ok(()));
    server.issue("canary-of-two");
    assert_eq!(pod.label(FOLLOWS), Ok(()));
    let heard = server.heard.lock().unwrap().clone();
    for (request, active) in heard.iter().zip(["true", "false"]) {
        let head = "PATCH /api/v1/namespaces/secrets/pods/kallisto-0 HTTP/1.1\r\n";
        assert!(request.starts_with(head), "{request}");
        let lower = request.to_ascii_lowercase();
        assert!(lower.contains("content-type: application/merge-patch+json\r\n"), "{request}");
        assert!(request.contains(&format!("\"vault-active\":\"{active}\"")), "{request}");
    }
    assert_eq!(heard.len(), 2);
}

#[test]
fn what_is_refused_and_who_is_not_believed_is_told_without_the_token() {
    let server = StandIn::start();
    let pod = server.pod();
    server.answers(Answer::Refuse);
    let why = pod.label(LEADS).unwrap_err();
    assert!(why.ends_with("status 403: pods is forbidden ***"), "{why}");
    server.answers(Answer::Good);
    files::write_private(&server.directory.join("token"), b"canary-of-another").unwrap();
    assert!(pod.label(LEADS).unwrap_err().ends_with("status 401"));
    // An authority that did not sign its certificate: nothing is sent.
    let other = own_certificate::make("Other", "x", vec!["localhost".into()], None).unwrap();
    files::write_private(&server.directory.join("ca.crt"), other.authority.as_bytes()).unwrap();
    let asked = server.heard.lock().unwrap().len();
    let why = pod.label(LEADS).unwrap_err();
    assert!(why.contains("certificate") && !why.contains("canary"), "{why}");
    assert_eq!(server.heard.lock().unwrap().len(), asked);
}

#[test]
fn an_api_server_that_hangs_is_given_up() {
    let server = StandIn::start();
    server.answers(Answer::Hang);
    let start = SystemClock.instant();
    let why = server.pod().label(LEADS).unwrap_err();
    assert!(why.contains("timeout"), "{why}");
    assert!(SystemClock.instant() - start < CALL_TIMEOUT * 2);
}
