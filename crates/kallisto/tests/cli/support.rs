//! What the tests of the command line share: a server to speak to, and a way to run `kallisto`.
//!
//! [`Stub`] is a server that answers what it was told to and remembers what it was asked. It
//! speaks just enough HTTP/1.1 for one client at a time and closes after each answer. Tests name
//! their server by its address only, so one that wants the real server takes another address.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::ports::free_address;

/// Longest a connection may hang before the test fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// One answer to give.
#[derive(Clone, Default)]
pub(crate) struct Answer {
    /// HTTP status; 0 breaks the connection instead of answering.
    pub(crate) status: u16,
    /// Extra header lines.
    pub(crate) headers: Vec<(String, String)>,
    /// The body.
    pub(crate) body: String,
}

impl Answer {
    /// An answer with a body.
    pub(crate) fn of(status: u16, body: &str) -> Self {
        Self { status, headers: Vec::new(), body: body.to_owned() }
    }

    /// The same with a header.
    pub(crate) fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// One request that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordedRequest {
    /// The method.
    pub(crate) method: String,
    /// Path and query.
    pub(crate) path: String,
    /// Headers, names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    /// The body.
    pub(crate) body: String,
}

/// A server that gives the answers it was made with, in order, then 599.
pub(crate) struct Stub {
    /// `http://127.0.0.1:<port>`
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl Stub {
    /// Starts one; it ends with the process.
    pub(crate) fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut answers = answers.into_iter();
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                if let Some(request) = read_request(&stream) {
                    log.lock().unwrap().push(request);
                    give(stream, &answers.next().unwrap_or_else(|| Answer::of(599, "")));
                }
            }
        });
        Self { address, asked }
    }

    /// What was asked so far.
    pub(crate) fn asked(&self) -> Vec<RecordedRequest> {
        self.asked.lock().unwrap().clone()
    }
}

fn read_request(stream: &TcpStream) -> Option<RecordedRequest> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.to_owned()),
            None => break,
        };
    }
    let length = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(RecordedRequest { method, path, headers, body: String::from_utf8(body).unwrap() })
}

fn give(mut stream: TcpStream, answer: &Answer) {
    if answer.status == 0 {
        return;
    }
    let mut head = format!("HTTP/1.1 {} Any\r\nConnection: close\r\n", answer.status);
    if answer.status != 204 {
        head.push_str(&format!("Content-Length: {}\r\n", answer.body.len()));
    }
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    // A client that went away has its reasons.
    let _ = stream.write_all(format!("{head}\r\n{}", answer.body).as_bytes());
}

/// A directory of a test's own, empty at first.
pub(crate) fn directory() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("cli-{}-{number}", std::process::id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error without hints.
    pub(crate) stderr: String,
    /// The hints.
    pub(crate) hints: String,
    /// The exit code.
    pub(crate) code: i32,
}

/// Runs `kallisto` with this environment and nothing else, in `home`.
pub(crate) fn kallisto(
    home: &Path,
    environment: &[(&str, &str)],
    stdin: &str,
    args: &[&str],
) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kallisto"))
        .args(args)
        .env_clear()
        .env("HOME", home)
        .envs(environment.iter().copied())
        .current_dir(home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that takes no input may be gone before it is written.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let (hints, rest): (Vec<&str>, Vec<&str>) =
        stderr.split_inclusive('\n').partition(|line| line.starts_with("hint: "));
    Ran {
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: rest.concat(),
        hints: hints.concat(),
        code: output.status.code().unwrap(),
    }
}

/// A `kallisto server -dev` of the test's own; it ends with the value.
pub(crate) struct DevServer {
    /// `http://127.0.0.1:<port>`
    pub(crate) address: String,
    /// The one share of its unseal key.
    pub(crate) unseal_key: String,
    process: Child,
}

impl DevServer {
    /// Starts one whose root token is `root`.
    pub(crate) fn start(home: &Path) -> Self {
        let address = free_address();
        let listen = format!("-dev-listen-address={address}");
        let mut process = Command::new(env!("CARGO_BIN_EXE_kallisto"))
            .args(["server", "-dev", "-dev-root-token-id=root", "-dev-no-store-token", &listen])
            .env_clear()
            .env("HOME", home)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut greeting = String::new();
        // The pipe stays open with the process: the greeting is short enough to fit into it.
        let mut reader = BufReader::new(process.stdout.as_mut().unwrap());
        while !greeting.contains("Root Token:") && reader.read_line(&mut greeting).unwrap() > 0 {}
        let unseal_key = greeting.split("Unseal Key: ").nth(1).unwrap().lines().next().unwrap();
        let unseal_key = unseal_key.to_owned();
        Self { address: format!("http://{address}"), unseal_key, process }
    }

    /// Runs a command line, words apart by one space, as root. The first one waits for the server to
    /// listen.
    pub(crate) fn run(&self, line: &str) -> Ran {
        self.run_words(&line.split(' ').collect::<Vec<_>>())
    }

    /// The same of words that may have blanks in them.
    pub(crate) fn run_words(&self, words: &[&str]) -> Ran {
        let environment = [
            ("VAULT_ADDR", self.address.as_str()),
            ("VAULT_TOKEN", "root"),
            ("VAULT_MAX_RETRIES", "8"),
        ];
        kallisto(&directory(), &environment, "", words)
    }
}

impl Drop for DevServer {
    fn drop(&mut self) {
        // It may have ended by itself; then the test has failed already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
