//! A client that says what became of each request: answered, never sent, or nobody knows.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use kallisto_core::{Json, json};

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// `X-Vault-Index`.
    pub(crate) index: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// The server never had the request.
    NotSent,
    /// It may have.
    Lost,
}

/// One connection to one server, opened when it is needed.
pub(crate) struct Client {
    address: SocketAddr,
    token: String,
    patience: Duration,
    stream: Option<BufReader<TcpStream>>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr, token: &str, patience: Duration) -> Self {
        Self { address, token: token.to_owned(), patience, stream: None }
    }

    /// Sends a request with further headers, each with its line end, and waits for the answer.
    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> Result<Reply, Unanswered> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                none.insert(connect(self.address, self.patience).map_err(|_| Unanswered::NotSent)?)
            }
        };
        let head = format!(
            "{method} /v1/{path} HTTP/1.1\r\nHost: chaos\r\nX-Vault-Token: {}\r\n{headers}\
             Content-Length: {}\r\n\r\n",
            self.token,
            body.len()
        );
        let request = [head.as_bytes(), body].concat();
        let outcome = stream.get_mut().write_all(&request).and_then(|()| read_reply(stream));
        match outcome {
            Ok(reply) => Ok(reply),
            Err(_) => {
                // Also where a connection that was kept open had died before: nobody knows.
                self.stream = None;
                Err(Unanswered::Lost)
            }
        }
    }

    /// The same for what must be answered, and well.
    #[track_caller]
    pub(crate) fn good(&mut self, method: &str, path: &str, body: &str) -> Reply {
        let reply = self.send(method, path, "", body.as_bytes()).unwrap();
        let text = String::from_utf8_lossy(&reply.body);
        assert!((200..300).contains(&reply.status), "{method} {path}: {} {text}", reply.status);
        reply
    }
}

fn connect(address: SocketAddr, patience: Duration) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(patience))?;
    Ok(BufReader::new(stream))
}

fn read_reply(stream: &mut BufReader<TcpStream>) -> io::Result<Reply> {
    let broken = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(broken)?;
    let (mut length, mut index) = (Some(0), None);
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Err(broken());
        }
        match line.trim_end().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().ok(),
            Some(("transfer-encoding", _)) => length = None,
            Some(("x-vault-index", value)) => index = Some(value.to_owned()),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = Vec::new();
    match length {
        Some(length) => {
            body.resize(length, 0);
            stream.read_exact(&mut body)?;
        }
        None => read_chunks(stream, &mut body)?,
    }
    Ok(Reply { status, index, body })
}

fn read_chunks(stream: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> io::Result<()> {
    let broken = |_| io::Error::from(io::ErrorKind::InvalidData);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim(), 16).map_err(broken)?;
        let start = body.len();
        body.resize(start + length + 2, 0);
        stream.read_exact(&mut body[start..])?;
        body.truncate(start + length);
        if length == 0 {
            return Ok(());
        }
    }
}

impl Reply {
    /// The value behind a path of keys and places such as `data.keys.0`.
    pub(crate) fn find(&self, path: &str) -> Option<Json> {
        let mut here = json::parse(&self.body).ok()?;
        for step in path.split('.') {
            here = match here {
                Json::Object(mut map) => map.remove(step)?,
                Json::Array(items) => items.into_iter().nth(step.parse().ok()?)?,
                _ => return None,
            };
        }
        Some(here)
    }

    /// The same as text; empty when there is none.
    pub(crate) fn at(&self, path: &str) -> String {
        match self.find(path) {
            Some(Json::String(text)) => text,
            Some(Json::Number(text)) => text.into(),
            Some(Json::Bool(value)) => value.to_string(),
            _ => String::new(),
        }
    }

    /// What went wrong, in the server's words.
    pub(crate) fn error(&self) -> String {
        self.at("errors.0")
    }
}
