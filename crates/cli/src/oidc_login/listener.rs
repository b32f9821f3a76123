//! Where a browser comes back to: a listener on the user's machine, for one login.
//!
//! A connection is one request, read by `httparse` within a bound and a deadline, each on a thread of its own: browsers open connections ahead
//! and say nothing on them. What is not the callback of this login is refused, and the listener waits on.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use kallisto_command::client::url::parse_query;

/// The path of the callback, as Vault's command line has it.
pub(super) const PATH: &str = "/oidc/callback";
/// Most bytes of one request.
const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Most headers of one request.
const HEADERS_MAX: usize = 64;
/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most connections at once.
const CONNECTIONS_MAX: usize = 32;

/// A request that came.
pub(super) struct ReceivedRequest {
    /// The fields of the query, or of the form.
    pub(super) fields: Vec<(String, String)>,
    /// Whether the browser posted them.
    pub(super) was_posted: bool,
    stream: TcpStream,
}

impl ReceivedRequest {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Tells the browser how it went.
    pub(super) fn answer(mut self, is_good: bool) {
        let page = if is_good { BrowserPage::Done } else { BrowserPage::Failed };
        // Whoever is gone does not need it.
        let _ = page.send(&mut self.stream);
    }
}

/// What a browser is shown.
#[derive(Clone, Copy)]
enum BrowserPage {
    Done,
    Failed,
    Foreign,
    Unknown,
}

impl BrowserPage {
    /// Sends it. Nothing on it came with a request; no script of it would run.
    fn send(self, stream: &mut TcpStream) -> io::Result<()> {
        let (status, title, text) = match self {
            Self::Done => {
                ("200 OK", "Signed in", "You may close this page and go back to your terminal.")
            }
            Self::Failed => ("400 Bad Request", "Login failed", "Your terminal says why."),
            Self::Foreign => {
                ("400 Bad Request", "Login failed", "This is not the login that was begun.")
            }
            Self::Unknown => ("404 Not Found", "Not found", "There is nothing here."),
        };
        let page = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title></head>\n\
             <body><h1>{title}</h1><p>{text}</p></body>\n</html>\n"
        );
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
             Content-Security-Policy: default-src 'none'; frame-ancestors 'none'; base-uri 'none'\r\n\
             X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n\
             Connection: close\r\n\r\n",
            page.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(page.as_bytes())?;
        stream.flush()
    }
}

/// A listener for one login.
pub(super) struct LoginListener {
    port: u16,
    came: Receiver<ReceivedRequest>,
}

impl LoginListener {
    /// Listens at a name or an address; port 0 stands for any that is free.
    pub(super) fn open(host: &str, port: u16) -> io::Result<Self> {
        let found = (host, port).to_socket_addrs()?;
        let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let (mut port, mut listeners, mut last) = (port, Vec::new(), None);
        // A browser may take any address of a name; one of them is enough.
        for address in addresses {
            match TcpListener::bind(SocketAddr::new(address, port)) {
                Ok(listener) => {
                    port = listener.local_addr()?.port();
                    listeners.push(listener);
                }
                Err(error) => last = Some(error),
            }
        }
        if listeners.is_empty() {
            return Err(last.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()));
        }
        let (tell, came) = sync_channel(CONNECTIONS_MAX);
        let open = Arc::new(AtomicUsize::new(0));
        for listener in listeners {
            let (tell, open) = (tell.clone(), Arc::clone(&open));
            std::thread::spawn(move || accept(&listener, &tell, &open));
        }
        Ok(Self { port, came })
    }

    /// The port it listens on.
    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// Waits for the browser to come back with this state; `None` when it did not in time.
    pub(super) fn wait(&self, state: &str, timeout: Duration) -> Option<ReceivedRequest> {
        let began = super::now();
        loop {
            let left = timeout.checked_sub(began.elapsed())?;
            let mut came = self.came.recv_timeout(left).ok()?;
            if came.field("state") == Some(state) {
                return Some(came);
            }
            let _ = BrowserPage::Foreign.send(&mut came.stream);
        }
    }
}

/// Takes connections, a thread each, for as long as the command runs.
fn accept(listener: &TcpListener, tell: &SyncSender<ReceivedRequest>, open: &Arc<AtomicUsize>) {
    for stream in listener.incoming().map_while(Result::ok) {
        if open.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS_MAX {
            open.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let (tell, open) = (tell.clone(), Arc::clone(open));
        std::thread::spawn(move || {
            // One that says nothing, or breaks off, is nobody's callback.
            if let Ok(Some(came)) = read(stream) {
                let _ = tell.try_send(came);
            }
            open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

/// Reads one request; `None` when it was answered here.
fn read(mut stream: TcpStream) -> io::Result<Option<ReceivedRequest>> {
    let deadline = super::now() + PATIENCE;
    let mut bytes = Vec::new();
    let asked = loop {
        if let Some(asked) = parse(&bytes) {
            break asked;
        }
        let left = deadline.saturating_duration_since(super::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk)?;
        bytes.extend_from_slice(&chunk[..count]);
        if count == 0 || bytes.len() > REQUEST_BYTES_MAX || super::now() >= deadline {
            break BrowserRequest::Nothing;
        }
    };
    stream.set_write_timeout(Some(PATIENCE))?;
    match asked {
        BrowserRequest::Callback { fields, was_posted } => {
            Ok(Some(ReceivedRequest { fields, was_posted, stream }))
        }
        BrowserRequest::Nothing => BrowserPage::Unknown.send(&mut stream).map(|()| None),
    }
}

/// What a request asks.
#[derive(Debug, PartialEq, Eq)]
enum BrowserRequest {
    Callback { fields: Vec<(String, String)>, was_posted: bool },
    Nothing,
}

/// Reads what came so far; `None` when more is to come.
fn parse(bytes: &[u8]) -> Option<BrowserRequest> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let head = match request.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) => return None,
        Err(_) => return Some(BrowserRequest::Nothing),
    };
    let (path, query) = request.path?.split_once('?').unwrap_or((request.path?, ""));
    if path != PATH {
        return Some(BrowserRequest::Nothing);
    }
    let fields = match request.method? {
        "GET" => parse_query(query),
        "POST" => {
            let length = request.headers.iter().find_map(|header| {
                let is_length = header.name.eq_ignore_ascii_case("content-length");
                let value = is_length.then(|| std::str::from_utf8(header.value).ok())??;
                value.trim().parse::<usize>().ok()
            });
            let body = &bytes[head..];
            match length {
                Some(length) if length > REQUEST_BYTES_MAX => return Some(BrowserRequest::Nothing),
                Some(length) if body.len() < length => return None,
                Some(length) => std::str::from_utf8(&body[..length]).ok().and_then(parse_query),
                None => None,
            }
        }
        _ => None,
    };
    let was_posted = request.method == Some("POST");
    Some(
        fields.map_or(BrowserRequest::Nothing, |fields| BrowserRequest::Callback {
            fields,
            was_posted,
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn came(text: &str) -> Option<BrowserRequest> {
        parse(text.as_bytes())
    }

    #[test]
    fn a_callback_is_read_whole_or_not_at_all() {
        let get = "GET /oidc/callback?code=a%2Fb&state=s HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let fields = vec![("code".to_owned(), "a/b".to_owned()), ("state".into(), "s".into())];
        let read = Some(BrowserRequest::Callback { fields: fields.clone(), was_posted: false });
        assert_eq!(came(get), read);
        for at in 0..get.len() {
            assert_eq!(came(&get[..at]), None, "{at}");
        }
        let post = "POST /oidc/callback HTTP/1.1\r\nContent-Length: 16\r\n\r\ncode=a/b&state=s";
        assert_eq!(came(post), Some(BrowserRequest::Callback { fields, was_posted: true }));
        assert_eq!(came(&post[..post.len() - 1]), None);
        for nothing in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET /oidc/callback/?state=s HTTP/1.1\r\n\r\n",
            "GET /oidc/callback?state=%zz HTTP/1.1\r\n\r\n",
            "DELETE /oidc/callback?state=s HTTP/1.1\r\n\r\n",
            "POST /oidc/callback HTTP/1.1\r\n\r\n",
            "POST /oidc/callback HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
            "\x16\x03\x01 hello\r\n\r\n",
        ] {
            assert_eq!(came(nothing), Some(BrowserRequest::Nothing), "{nothing}");
        }
    }

    #[test]
    fn what_is_not_of_this_login_is_refused_and_waited_on() {
        let listener = LoginListener::open("127.0.0.1", 0).unwrap();
        let port = listener.port();
        let send = |target: &str| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            write!(stream, "GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            stream
        };
        let read = |stream: &mut TcpStream| {
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        };
        let mut silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
        // The callback that is waited for comes last: nobody is answered once it was taken.
        let (came, (refused, unknown, mut own)) = std::thread::scope(|scope| {
            let browser = scope.spawn(|| {
                let refused = read(&mut send("/oidc/callback?state=other&code=%3Cscript%3E"));
                let unknown = read(&mut send("/favicon.ico"));
                (refused, unknown, send("/oidc/callback?state=mine&code=c"))
            });
            let came = listener.wait("mine", PATIENCE).unwrap();
            (came, browser.join().unwrap())
        });
        assert_eq!(came.field("code"), Some("c"));
        came.answer(true);
        assert!(read(&mut own).starts_with("HTTP/1.1 200"));
        assert!(refused.starts_with("HTTP/1.1 400") && !refused.contains("script"), "{refused}");
        assert!(unknown.starts_with("HTTP/1.1 404"));
        silent.write_all(b"\r\n").unwrap();
        assert!(listener.wait("mine", Duration::from_millis(1)).is_none());
    }
}
