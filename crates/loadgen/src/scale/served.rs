//! A server process on the store of a run, and a connection to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{ROOT, clock};
use kallisto_command::files;

/// Longest wait for one answer: a large revocation is one request.
const ANSWER_PATIENCE: Duration = Duration::from_secs(300);
/// Longest wait for a server that was told to end.
const END_PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two looks at whether something has come about.
const LOOK_PAUSE: Duration = Duration::from_millis(1);
/// Lines of a server's greeting that are read for its address.
const GREETING_LINES_MAX: usize = 32;
/// Parts of a second in which Linux counts the time of processes.
const TICKS_PER_SECOND: u64 = 100;
/// Largest answer taken.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// How a start went.
#[derive(Clone, Copy)]
pub(super) struct Ready {
    /// From the start of the process until it listens, its storage open and sealed.
    pub(super) listening: Duration,
    /// From the share until it answers as the active server.
    pub(super) unsealing: Duration,
    /// Time of processors for the one and the other: steadier where others use the machine too.
    pub(super) listening_cpu: Duration,
    pub(super) unsealing_cpu: Duration,
    /// Memory of the sealed server.
    pub(super) sealed: Resident,
    /// Memory of the unsealed one.
    pub(super) unsealed: Resident,
}

/// What a process holds in memory, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Resident {
    /// All of it, pages of files included.
    pub(super) all: u64,
    /// Without pages of files.
    pub(super) own: u64,
}

/// A server; it is killed with the value.
pub(super) struct ServedProcess {
    process: Child,
    /// Kept open: a server may go on to write to it.
    _greeting: BufReader<ChildStdout>,
    pub(super) address: SocketAddr,
}

impl ServedProcess {
    /// Starts a server on the store in `directory` and unseals it.
    pub(super) fn start(directory: &Path, share: &str) -> Result<(Self, Ready), String> {
        let config = directory.join("server.hcl");
        let text = format!(
            "storage \"raft\" {{\n  path = \"{}\"\n}}\n\
             listener \"tcp\" {{\n  address = \"127.0.0.1:0\"\n  tls_disable = true\n}}\n",
            directory.join("data").display()
        );
        files::write_private(&config, text.as_bytes())
            .map_err(|error| format!("cannot write {}: {error}", config.display()))?;
        let begin = clock();
        let server = Self::spawn(&config)?;
        let listening = clock() - begin;
        let sealed = server.resident()?;
        let listening_cpu = server.cpu()?;
        let begin = clock();
        let mut wire = RootConnection::connect(server.address)?;
        let (status, _) = wire.send("PUT", "sys/unseal", &format!("{{\"key\":\"{share}\"}}"))?;
        if status != 200 {
            return Err(format!("unsealing was answered with {status}"));
        }
        // 200 is said by a server that is active: one that takes writes too.
        while wire.send("GET", "sys/health", "")?.0 != 200 {
            if clock() - begin > ANSWER_PATIENCE {
                return Err("the server did not become active".into());
            }
            std::thread::sleep(LOOK_PAUSE);
        }
        let unsealing = clock() - begin;
        let unsealed = server.resident()?;
        let unsealing_cpu = server.cpu()?.saturating_sub(listening_cpu);
        let ready = Ready { listening, unsealing, listening_cpu, unsealing_cpu, sealed, unsealed };
        Ok((server, ready))
    }

    fn spawn(config: &Path) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut process = Command::new(program)
            .args(["server", "-log-level=error"])
            .arg(format!("-config={}", config.display()))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start a server: {error}"))?;
        let out = process.stdout.take().ok_or("a server without output")?;
        let mut greeting = BufReader::new(out);
        match read_address(&mut greeting) {
            Some(address) => Ok(Self { process, _greeting: greeting, address }),
            None => {
                // It says why by itself.
                let _ = process.kill();
                let _ = process.wait();
                Err("the server did not start".into())
            }
        }
    }

    /// What the server holds in memory now.
    pub(super) fn resident(&self) -> Result<Resident, String> {
        let path = format!("/proc/{}/status", self.process.id());
        let status = files::read(Path::new(&path)).map_err(|error| format!("{path}: {error}"))?;
        let status = String::from_utf8_lossy(&status);
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            let kib: u64 = line.trim_start_matches(':').split_whitespace().next()?.parse().ok()?;
            Some(kib * 1_024)
        };
        match (bytes("VmRSS"), bytes("RssAnon")) {
            (Some(all), Some(own)) => Ok(Resident { all, own }),
            _ => Err(format!("{path} does not tell the memory")),
        }
    }

    /// The time of processors that the server has taken so far.
    fn cpu(&self) -> Result<Duration, String> {
        let path = format!("/proc/{}/stat", self.process.id());
        let stat = files::read(Path::new(&path)).map_err(|error| format!("{path}: {error}"))?;
        let stat = String::from_utf8_lossy(&stat);
        // Behind the name, which may hold anything: user and system time are the 12th and 13th.
        let (_, rest) = stat.rsplit_once(')').ok_or("a process without a name")?;
        let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
        let ticks: u64 = ticks.sum::<Result<_, _>>().map_err(|error| error.to_string())?;
        Ok(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
    }

    /// Ends the server and waits until its store is closed.
    pub(super) fn stop(mut self) -> Result<(), String> {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, Signal::TERM).map_err(|error| format!("cannot end a server: {error}"))?;
        let begin = clock();
        while clock() - begin < END_PATIENCE {
            if self.process.try_wait().map_err(|error| error.to_string())?.is_some() {
                return Ok(());
            }
            std::thread::sleep(LOOK_PAUSE);
        }
        Err("a server did not end".into())
    }
}

impl Drop for ServedProcess {
    fn drop(&mut self) {
        // Gone already, after `stop`.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn read_address(greeting: &mut impl BufRead) -> Option<SocketAddr> {
    let mut lines = greeting.lines().take(GREETING_LINES_MAX).map_while(Result::ok);
    lines.find_map(|line| {
        let (_, rest) = line.split_once("Listener: ")?;
        rest.split_whitespace().next()?.parse().ok()
    })
}

/// A connection that sends one request at a time, as root.
pub(super) struct RootConnection {
    stream: TcpStream,
    host: SocketAddr,
    answer: Vec<u8>,
}

impl RootConnection {
    pub(super) fn connect(address: SocketAddr) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot reach {address}: {error}");
        let stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(ANSWER_PATIENCE)).map_err(failed)?;
        Ok(Self { stream, host: address, answer: Vec::new() })
    }

    /// Sends a request and waits for its answer: status and body.
    pub(super) fn send(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<(u16, &[u8]), String> {
        let request = format!(
            "{method} /v1/{path} HTTP/1.1\r\nHost: {}\r\nX-Vault-Token: {ROOT}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        );
        let failed = |error: std::io::Error| format!("{method} {path}: {error}");
        self.stream.write_all(request.as_bytes()).map_err(failed)?;
        self.answer.clear();
        let mut chunk = [0; 16 << 10];
        loop {
            if let Some((status, start, end)) = frame(&self.answer)
                && self.answer.len() >= end
            {
                return Ok((status, &self.answer[start..end]));
            }
            let read = self.stream.read(&mut chunk).map_err(failed)?;
            if read == 0 || self.answer.len() > ANSWER_BYTES_MAX {
                return Err(format!("{method} {path}: not an answer"));
            }
            self.answer.extend_from_slice(&chunk[..read]);
        }
    }
}

/// Status, start and end of the body of an answer whose head is there.
fn frame(answer: &[u8]) -> Option<(u16, usize, usize)> {
    let head = memchr::memmem::find(answer, b"\r\n\r\n")?;
    let text = std::str::from_utf8(&answer[..head]).ok()?;
    let status = text.split(' ').nth(1)?.parse().ok()?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let start = head + 4;
    Some((status, start, start + length.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_where_its_head_says() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nx: y\r\n\r\nabcd";
        assert_eq!(frame(answer), Some((200, 44, 47)));
        assert_eq!(frame(b"HTTP/1.1 204 No Content\r\n\r\n"), Some((204, 27, 27)));
        assert_eq!(frame(b"HTTP/1.1 200 OK\r\n"), None);
    }

    #[test]
    fn the_address_is_found_in_a_greeting() {
        let greeting = b"Kallisto 0.1.0\n\n     Listener: 127.0.0.1:4321 (tls: disabled)\n";
        assert_eq!(read_address(&mut &greeting[..]), "127.0.0.1:4321".parse().ok());
        assert_eq!(read_address(&mut &b"nothing\n"[..]), None);
    }
}
