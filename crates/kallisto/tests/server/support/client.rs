//! One connection that asks and waits for the answer: HTTP/1.1 by hand, kept open.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use kallisto_core::{Json, json};

use super::PATIENCE;

/// A client with one connection, opened when it is needed.
pub(crate) struct Client {
    address: SocketAddr,
    token: String,
    /// Lines of every head, each with its end.
    headers: String,
    stream: Option<BufReader<TcpStream>>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    /// HTTP status.
    pub(crate) status: u16,
    /// The body.
    pub(crate) body: String,
}

impl Reply {
    /// The value behind a path of keys and places such as `data.keys.0`; empty when there is none.
    pub(crate) fn at(&self, path: &str) -> String {
        match self.find(path) {
            Some(Json::String(text)) => text,
            Some(Json::Number(text)) => text.into(),
            Some(Json::Bool(value)) => value.to_string(),
            _ => String::new(),
        }
    }

    /// The strings of an array.
    pub(crate) fn strings(&self, path: &str) -> Vec<String> {
        match self.find(path) {
            Some(Json::Array(items)) => {
                items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn find(&self, path: &str) -> Option<Json> {
        let mut here = json::parse(self.body.as_bytes()).ok()?;
        for step in path.split('.') {
            here = match here {
                Json::Object(mut map) => map.remove(step)?,
                Json::Array(items) => items.into_iter().nth(step.parse().ok()?)?,
                _ => return None,
            };
        }
        Some(here)
    }

    /// The answer itself, if it is a success.
    #[track_caller]
    pub(crate) fn good(self) -> Self {
        assert!((200..300).contains(&self.status), "{} {}", self.status, self.body);
        self
    }
}

impl Client {
    /// A client of the server at `address`.
    pub(crate) fn new(address: SocketAddr, token: &str) -> Self {
        Self { address, token: token.to_owned(), headers: String::new(), stream: None }
    }

    /// The same, whose requests have these headers besides.
    pub(crate) fn with_headers(self, headers: &[(&str, &str)]) -> Self {
        let lines = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        Self { headers: lines, ..self }
    }

    /// Sends a request and waits for the answer; an error leaves it unknown what the server did.
    pub(crate) fn try_send(&mut self, method: &str, path: &str, body: &str) -> io::Result<Reply> {
        let outcome = self.exchange(method, path, body);
        if outcome.is_err() {
            self.stream = None;
        }
        outcome
    }

    /// Sends a request that must be answered.
    #[track_caller]
    pub(crate) fn send(&mut self, method: &str, path: &str, body: &str) -> Reply {
        match self.try_send(method, path, body) {
            Ok(reply) => reply,
            Err(error) => panic!("{method} {path}: {error}"),
        }
    }

    /// Reads a path.
    #[track_caller]
    pub(crate) fn get(&mut self, path: &str) -> Reply {
        self.send("GET", path, "")
    }

    /// Writes to a path, which must succeed.
    #[track_caller]
    pub(crate) fn put(&mut self, path: &str, body: &str) -> Reply {
        self.send("PUT", path, body).good()
    }

    fn exchange(&mut self, method: &str, path: &str, body: &str) -> io::Result<Reply> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                none.insert(BufReader::new(stream))
            }
        };
        let request = format!(
            "{method} /v1/{path} HTTP/1.1\r\nHost: test\r\nX-Vault-Token: {}\r\n\
             {}Content-Length: {}\r\n\r\n{body}",
            self.token,
            self.headers,
            body.len()
        );
        stream.get_mut().write_all(request.as_bytes())?;
        read_reply(stream)
    }
}

/// Reads one answer with a `Content-Length` or without a body.
pub(crate) fn read_reply(stream: &mut impl BufRead) -> io::Result<Reply> {
    let broken = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(broken)?;
    let mut length = 0;
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Err(broken());
        }
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().map_err(|_| broken())?;
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(Reply { status, body: String::from_utf8(body).map_err(|_| broken())? })
}

/// The body that gives a share.
pub(crate) fn share_of(key: &str) -> String {
    format!(r#"{{"key":"{key}"}}"#)
}
