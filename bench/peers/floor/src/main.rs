//! What `GET` and `SET` of an encrypted store take at the least. One thread looks at all sockets, reads what came, parses commands of the Redis protocol,
//! finds the key in a hash table, opens or seals the value (AES-256-GCM, as values in Kallisto's memory are), appends what was set to a log, syncs the log
//! once for all commands of a turn where that is asked for, and answers. There is no token, no policy, no version, no metadata, no JSON, no path index, no
//! Raft, no second copy and no other thread. `run.sh` asks it as it asks the servers, so that its rate beside theirs says what the rest costs.
//!
//! With `versions`, a write makes a version of a secret ([`versions`]): two records and what belongs to them, still without everything else. What the
//! log holds at the start is there again.
//!
//! With `audit` or `audit-compact`, a `GET` is written down in the log before its reply leaves ([`audit`]).
//!
//! `bench-peers-floor PORT LOG none|always|everysec [versions|audit|audit-compact]`, until it is killed.

mod audit;
mod versions;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rustix::event::epoll;

use self::audit::{Audit, Form};
use self::versions::{StorageKey, Versions};

/// Bytes that one look at a socket takes.
const READ_BYTES: usize = 64 << 10;
/// Largest input of a connection that is kept while a command is not whole.
const INPUT_BYTES_MAX: usize = 4 << 20;
const EVENTS_MAX: usize = 1_024;
const LISTENER: u64 = u64::MAX;
const SYNC_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq)]
enum Durability {
    None,
    Always,
    EverySecond,
}

struct Floor {
    key: LessSafeKey,
    sealed: u64,
    table: HashMap<Vec<u8>, Held>,
    /// The records, where secrets have versions.
    versions: Option<Versions>,
    audit: Option<Audit>,
    log: Option<File>,
    /// What this turn appends to the log.
    appended: Vec<u8>,
    durability: Durability,
    opened: Vec<u8>,
}

/// A value as the table keeps it.
struct Held {
    number: u64,
    sealed: Vec<u8>,
    /// The record it is, as it was read from a log; it is bound to its name otherwise.
    place: Option<StorageKey>,
}

pub(crate) fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl Floor {
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) {
        let Some(Held { number, sealed, place }) = self.table.get(key) else {
            out.extend_from_slice(b"$-1\r\n");
            return;
        };
        self.opened.clear();
        self.opened.extend_from_slice(sealed);
        let value = self
            .key
            .open_in_place(
                nonce(*number),
                Aad::from(place.as_ref().map_or(key, |place| &place[..])),
                &mut self.opened,
            )
            .expect("what was sealed here");
        if let Some(audit) = &mut self.audit {
            audit.read(key, value);
        }
        write!(out, "${}\r\n", value.len()).expect("memory");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }

    fn set(&mut self, key: &[u8], value: &[u8]) {
        self.sealed += 1;
        let number = self.sealed;
        let mut sealed = value.to_vec();
        self.key
            .seal_in_place_append_tag(nonce(number), Aad::from(key), &mut sealed)
            .expect("it is short");
        if let Some(versions) = &mut self.versions {
            let now =
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
            versions.put(&self.key, &mut self.sealed, (key, value, now), &mut self.appended);
        } else if self.log.is_some() {
            self.appended.extend_from_slice(&(key.len() as u32).to_le_bytes());
            self.appended.extend_from_slice(&(sealed.len() as u32).to_le_bytes());
            self.appended.extend_from_slice(&number.to_le_bytes());
            self.appended.extend_from_slice(key);
            self.appended.extend_from_slice(&sealed);
        }
        self.table.insert(key.to_vec(), Held { number, sealed, place: None });
    }

    fn run(&mut self, words: &[&[u8]], out: &mut Vec<u8>) {
        match words {
            [name, key] if name.eq_ignore_ascii_case(b"GET") => self.get(key, out),
            [name, key, value] if name.eq_ignore_ascii_case(b"SET") => {
                self.set(key, value);
                out.extend_from_slice(b"+OK\r\n");
            }
            [name, pairs @ ..] if name.eq_ignore_ascii_case(b"MSET") && pairs.len() % 2 == 0 => {
                for pair in pairs.chunks_exact(2) {
                    self.set(pair[0], pair[1]);
                }
                out.extend_from_slice(b"+OK\r\n");
            }
            [name, ..] if name.eq_ignore_ascii_case(b"PING") => out.extend_from_slice(b"+PONG\r\n"),
            _ => out.extend_from_slice(b"+OK\r\n"),
        }
    }

    /// Hands the turn's writes to the system, and to the disk where each turn has to.
    fn commit(&mut self, synced: &mut Instant) -> io::Result<()> {
        if let Some(audit) = &mut self.audit {
            audit.write()?;
        }
        let Some(log) = &mut self.log else { return Ok(()) };
        if self.appended.is_empty() {
            return Ok(());
        }
        log.write_all(&self.appended)?;
        self.appended.clear();
        let due = match self.durability {
            Durability::None => false,
            Durability::Always => true,
            Durability::EverySecond => synced.elapsed() >= SYNC_EVERY,
        };
        if due {
            log.sync_data()?;
            *synced = Instant::now();
        }
        Ok(())
    }
}

/// A number and a line end at `at`, as commands have it behind `*` and `$`; where it ends.
fn number(input: &[u8], at: usize) -> Option<(usize, usize)> {
    let end = at + input.get(at..)?.iter().position(|byte| *byte == b'\r')?;
    (input.len() > end + 1).then_some(())?;
    let digits = input[at..end].iter();
    Some((digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0')), end + 2))
}

/// The words of the command at the beginning of `input` and how long it is; `None` while it has not come whole.
fn command<'a>(input: &'a [u8], words: &mut Vec<&'a [u8]>) -> Option<usize> {
    words.clear();
    let (count, mut at) = number(input, 1)?;
    for _ in 0..count {
        let (length, begin) = number(input, at + 1)?;
        words.push(input.get(begin..begin + length)?);
        at = begin + length + 2;
    }
    (input.len() >= at).then_some(at)
}

struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Connection {
    /// Reads what came and runs it; whether the connection goes on.
    fn take(&mut self, floor: &mut Floor, scratch: &mut [u8]) -> bool {
        let read = match self.stream.read(scratch) {
            Ok(0) => return false,
            Ok(read) => read,
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        };
        self.input.extend_from_slice(&scratch[..read]);
        if self.input.len() > INPUT_BYTES_MAX {
            return false;
        }
        let (mut at, mut words) = (0, Vec::new());
        while at < self.input.len() {
            let Some(length) = command(&self.input[at..], &mut words) else { break };
            floor.run(&words, &mut self.output);
            at += length;
        }
        drop(words);
        self.input.drain(..at);
        true
    }

    /// Sends all replies of the turn; a client that does not take them holds everybody up, which a load does not do.
    fn send(&mut self) -> bool {
        let mut sent = 0;
        while sent < self.output.len() {
            match self.stream.write(&self.output[sent..]) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(_) => return false,
            }
        }
        self.output.clear();
        true
    }
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let (port, path, durability, more) = match arguments.as_slice() {
        [_, port, path, durability] => (port, path, durability, ""),
        [_, port, path, durability, more] => (port, path, durability, more.as_str()),
        _ => {
            eprintln!(
                "bench-peers-floor PORT LOG none|always|everysec [versions|audit|audit-compact]"
            );
            std::process::exit(1);
        }
    };
    let form = match more {
        "audit" => Some(Form::Full),
        "audit-compact" => Some(Form::Compact),
        _ => None,
    };
    let durability = match durability.as_str() {
        "always" => Durability::Always,
        "everysec" => Durability::EverySecond,
        _ => Durability::None,
    };
    let logged = (durability != Durability::None && more == "versions")
        .then(|| std::fs::read(path).unwrap_or_default());
    let log = (durability != Durability::None)
        .then(|| OpenOptions::new().create(true).append(true).open(path))
        .transpose()?;
    let mut floor = Floor {
        key: LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[7; 32]).expect("32 bytes")),
        sealed: 0,
        table: HashMap::new(),
        versions: (more == "versions").then(Versions::default),
        audit: form.map(|form| Audit::new(form, path)).transpose()?,
        log,
        appended: Vec::new(),
        durability,
        opened: Vec::new(),
    };
    if let (Some(versions), Some(logged)) = (&mut floor.versions, logged) {
        let (secrets, sealed) = versions.load(&floor.key, logged);
        floor.sealed = sealed;
        floor.table.reserve(secrets.len());
        for (name, place, number, sealed) in secrets {
            floor.table.insert(name, Held { number, sealed, place: Some(place) });
        }
    }
    let listener = TcpListener::bind(("127.0.0.1", port.parse().expect("a port")))?;
    listener.set_nonblocking(true)?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut connections: HashMap<u64, Connection> = HashMap::new();
    let (mut next, mut scratch, mut synced) = (0, vec![0; READ_BYTES], Instant::now());
    let mut events = Vec::with_capacity(EVENTS_MAX);
    let mut turn = Vec::new();
    loop {
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None)?;
        turn.clear();
        for event in &events {
            let id = event.data.u64();
            if id == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    epoll::add(
                        &poll,
                        &stream,
                        epoll::EventData::new_u64(next),
                        epoll::EventFlags::IN,
                    )?;
                    connections
                        .insert(next, Connection { stream, input: Vec::new(), output: Vec::new() });
                    next += 1;
                }
                continue;
            }
            turn.push(id);
        }
        let mut taken = Vec::with_capacity(turn.len());
        for id in turn.drain(..) {
            let Some(connection) = connections.get_mut(&id) else { continue };
            if connection.take(&mut floor, &mut scratch) {
                taken.push(id);
            } else {
                connections.remove(&id);
            }
        }
        floor.commit(&mut synced)?;
        for id in taken {
            if connections.get_mut(&id).is_some_and(|connection| !connection.send()) {
                connections.remove(&id);
            }
        }
    }
}
