//! What can be found without keys: in the files at any time, in the memory after a seal.
//!
//! Everything planted begins with a marker, so that a fragment is found too, and is looked for as
//! it is, as hexadecimal text and as base64 at each of its three places. Each search is first tried
//! on what it must find: a search that finds nothing anywhere proves nothing.
//!
//! Reading another process's memory takes root or `CAP_SYS_PTRACE`; without it the tests say that
//! they skipped that part.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use data_encoding::{BASE64, BASE64_NOPAD, HEXLOWER, HEXUPPER};
use kallisto_barrier::UnsealKey;
use kallisto_barrier::shamir::Share;
use memchr::memmem::Finder;
use rustix::process::{Pid, Signal};

use crate::support::{Client, Directory, Keys, Server};

/// Secrets to plant.
const SECRETS: usize = 50;
/// Bytes looked at at a time, and how much two looks share: more than any needle.
const BLOCK_BYTES: usize = 64 << 10;
const OVERLAP_BYTES: usize = 256;
/// What wiped memory and the unused part of a file look like: nothing to search there.
static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// How long a connection that its client has closed may be unnoticed.
const GOES_WITHIN: Duration = Duration::from_secs(5);

/// Names that stacks may hold after a seal: of the last few requests, in the block of a digest that
/// was not wiped, or in vector registers that a build without optimisation spills.
const NAMES_LEFT_MAX: usize = 40;

const VALUE: &str = "pLnTvALue%7Q";
const NAME: &str = "pLnTnAMe_9zK";
const CUSTOM: &str = "pLnTcUStom4x";
const POLICY: &str = "plntpolicy3w";
const MOUNT: &str = "pLnTmOUnt-2c";

/// Something to look for.
struct Needle {
    what: String,
    finder: Finder<'static>,
}

/// All the forms of one text.
fn forms(what: &str, bytes: &[u8]) -> Vec<Needle> {
    let mut forms = vec![
        (what.to_owned(), bytes.to_vec()),
        (format!("{what}, hex"), HEXLOWER.encode(bytes).into_bytes()),
        (format!("{what}, HEX"), HEXUPPER.encode(bytes).into_bytes()),
    ];
    for place in 0..3 {
        // Characters that the text alone decides: those before and after depend on its neighbours.
        let text = BASE64_NOPAD.encode(&[&vec![0; place][..], bytes].concat());
        let (first, last) = ((place * 8).div_ceil(6), (place + bytes.len()) * 8 / 6);
        forms.push((format!("{what}, base64"), text.as_bytes()[first..last].to_vec()));
    }
    let needle = |(what, bytes): (String, Vec<u8>)| Needle {
        what,
        finder: Finder::new(&bytes).into_owned(),
    };
    forms.into_iter().map(needle).collect()
}

/// What was planted.
struct Planted {
    /// Values of secrets and of custom metadata: in the clear nowhere but in a request's hands.
    values: Vec<Needle>,
    /// Names of paths, mounts and policies: in memory while unsealed.
    names: Vec<Needle>,
    /// Tokens' texts.
    tokens: Vec<Needle>,
}

impl Planted {
    fn all(&self) -> Vec<&Needle> {
        self.values.iter().chain(&self.names).chain(&self.tokens).collect()
    }
}

/// Fills a server with secrets, versions, deletes, a policy, tokens.
fn plant(client: &mut Client, root: &str) -> Planted {
    client.put(&format!("sys/mounts/{MOUNT}"), r#"{"type":"kv","options":{"version":"2"}}"#);
    client.put("sys/mounts/one", r#"{"type":"kv"}"#);
    for number in 0..SECRETS {
        let path = format!("{NAME}/{number}/{NAME}{number}");
        for version in 0..3 {
            let body = format!(r#"{{"data":{{"{VALUE}":"{VALUE}{number}v{version}"}}}}"#);
            client.put(&format!("{MOUNT}/data/{path}"), &body);
        }
        client.put(&format!("one/{path}"), &format!(r#"{{"k":"{VALUE}{number}"}}"#));
        client.get(&format!("{MOUNT}/data/{path}")).good();
        client.get(&format!("{MOUNT}/data/{path}?version=1")).good();
    }
    let custom = format!(r#"{{"custom_metadata":{{"k":"{CUSTOM}"}}}}"#);
    client.put(&format!("{MOUNT}/metadata/{NAME}/0/{NAME}0"), &custom);
    client.send("DELETE", &format!("{MOUNT}/data/{NAME}/1/{NAME}1"), "").good();
    client.put(&format!("{MOUNT}/destroy/{NAME}/2/{NAME}2"), r#"{"versions":[3]}"#);
    client.send("DELETE", &format!("{MOUNT}/metadata/{NAME}/3/{NAME}3"), "").good();
    client.send("DELETE", &format!("one/{NAME}/4/{NAME}4"), "").good();
    client.send("LIST", &format!("{MOUNT}/metadata/{NAME}"), "").good();
    let rules = format!(r#"{{"policy":"path \"{NAME}/*\" {{ capabilities = [\"read\"] }}"}}"#);
    client.put(&format!("sys/policies/acl/{POLICY}"), &rules);
    let body = format!(r#"{{"policies":["{POLICY}"],"meta":{{"who":"{NAME}"}}}}"#);
    let token = client.put("auth/token/create", &body).at("auth.client_token");
    // What a request leaves on a stack, the next one overwrites: a secret comes last.
    client.put(&format!("one/{NAME}/5/{NAME}5"), &format!(r#"{{"k":"{VALUE}5"}}"#));
    client.get(&format!("one/{NAME}/5/{NAME}5")).good();
    let mut values = forms("a value", VALUE.as_bytes());
    values.extend(forms("custom metadata", CUSTOM.as_bytes()));
    let names = [("a path", NAME), ("a policy", POLICY), ("a mount", MOUNT)];
    let mut tokens = forms("the root token", root.as_bytes());
    tokens.extend(forms("a token", token.as_bytes()));
    let names = names.iter().flat_map(|(what, text)| forms(what, text.as_bytes())).collect();
    Planted { values, names, tokens }
}

/// What of `needles` is in `bytes`, and where.
fn found_in<'n>(
    needles: impl IntoIterator<Item = &'n Needle> + Clone,
    bytes: &[u8],
) -> Vec<(&'n str, usize)> {
    let mut found = Vec::new();
    for start in (0..bytes.len()).step_by(BLOCK_BYTES - OVERLAP_BYTES) {
        let block = &bytes[start..(start + BLOCK_BYTES).min(bytes.len())];
        if block == &ZEROS[..block.len()] {
            continue;
        }
        for needle in needles.clone() {
            let places = needle.finder.find_iter(block);
            found.extend(places.map(|place| (needle.what.as_str(), start + place)));
        }
    }
    found
}

/// The same without the places.
fn kinds_in<'n>(needles: &'n [Needle], bytes: &[u8]) -> Vec<&'n str> {
    found_in(needles, bytes).into_iter().map(|(what, _)| what).collect()
}

/// Fails when anything planted is in a file below `directory`; returns how many bytes it read.
fn expect_clean(directory: &Path, planted: &Planted) -> usize {
    let mut read = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = found_in(planted.all(), path.to_string_lossy().as_bytes());
        assert!(name.is_empty(), "{name:?} in the name {}", path.display());
        if path.is_dir() {
            read += expect_clean(&path, planted);
            continue;
        }
        // A server that runs may have removed it meanwhile.
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            bytes => bytes.unwrap(),
        };
        let found = found_in(planted.all(), &bytes);
        assert!(found.is_empty(), "{found:?} in {}", path.display());
        read += bytes.len();
    }
    read
}

#[test]
fn the_search_finds_every_form() {
    let needles = forms("it", VALUE.as_bytes());
    for before in ["", "a", "ab", "abc"] {
        let text = format!("{before}{VALUE}xyz");
        assert_eq!(kinds_in(&needles, text.as_bytes()), ["it"]);
        let hex = HEXLOWER.encode(text.as_bytes());
        assert_eq!(kinds_in(&needles, hex.as_bytes()), ["it, hex"]);
        let base64 = BASE64.encode(text.as_bytes());
        assert_eq!(kinds_in(&needles, base64.as_bytes()), ["it, base64"], "{before}");
    }
    assert!(kinds_in(&needles, b"pLnTvALu").is_empty());
}

#[test]
fn files_hold_nothing_that_was_planted() {
    let directory = Directory::new("rest");
    let config = directory.config("log_level = \"debug\"");
    let server = Server::start(&directory, &config);
    let keys = server.initialize(1, 1);
    server.unseal(&keys);
    let planted = plant(&mut server.client(&keys.root), &keys.root);
    let data = directory.join("data");
    let running = expect_clean(&data, &planted);
    server.client(&keys.root).put("sys/rotate", "");
    server.end(Signal::KILL);
    let killed = expect_clean(&data, &planted);
    let server = Server::start(&directory, &config);
    server.unseal(&keys);
    let read = server.client(&keys.root).get(&format!("one/{NAME}/5/{NAME}5"));
    assert_eq!(read.at("data.k"), format!("{VALUE}5"));
    server.stop();
    let stopped = expect_clean(&data, &planted);
    println!("bytes without a find: {running} running, {killed} killed, {stopped} stopped");
    assert!(running > SECRETS * 100 && killed > SECRETS * 100 && stopped > SECRETS * 100);
    let log = std::fs::read(directory.join("log")).unwrap();
    let found = found_in(planted.values.iter().chain(&planted.tokens), &log);
    assert!(found.is_empty(), "{found:?} in the log");
}

/// Where in a process's memory needles are, with what is around them; an error when it cannot be
/// read.
fn search_memory<'n>(pid: Pid, needles: &[&'n Needle]) -> io::Result<Vec<(&'n str, String)>> {
    let pid = pid.as_raw_nonzero();
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    let maps = std::fs::read_to_string(format!("/proc/{pid}/smaps"))?;
    let mut found = Vec::new();
    for (range, name) in resident(&maps) {
        let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap()];
        if memory.read_exact_at(&mut bytes, range.start).is_err() {
            // Regions of the kernel's own, such as its clock's, are not to be read.
            continue;
        }
        for (what, place) in found_in(needles.iter().copied(), &bytes) {
            let around = &bytes[place.saturating_sub(48)..(place + 80).min(bytes.len())];
            found.push((what, format!("{name} +{place:#x}: {}", around.escape_ascii())));
        }
    }
    Ok(found)
}

/// Writable regions that have pages, from the text of `smaps`.
fn resident(maps: &str) -> Vec<(std::ops::Range<u64>, String)> {
    let mut regions = Vec::new();
    let mut region = None;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        if let Some((start, end)) = first.split_once('-')
            && let (Ok(start), Ok(end)) =
                (u64::from_str_radix(start, 16), u64::from_str_radix(end, 16))
        {
            let writable = words.next().is_some_and(|access| access.starts_with("rw"));
            let name = words.nth(3).unwrap_or("anonymous").to_owned();
            region = writable.then_some((start..end, name));
        } else if first == "Rss:" && words.next() != Some("0") {
            regions.extend(region.take());
        }
    }
    regions
}

/// Bytes of locked memory, where keys live.
fn locked_kib(pid: Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// The unseal key and its shares, in every form.
fn key_needles(keys: &Keys) -> Vec<Needle> {
    let bytes: Vec<Vec<u8>> =
        keys.shares.iter().map(|share| HEXLOWER.decode(share.as_bytes()).unwrap()).collect();
    let shares: Vec<Share> = bytes.iter().map(|share| Share::from_bytes(share).unwrap()).collect();
    let key = UnsealKey::combine(&shares[..2]).unwrap();
    let mut needles = forms("the unseal key", key.expose());
    for share in &bytes {
        // Without its last byte, its place, which would make it a needle of a share alone.
        needles.extend(forms("a share", &share[..32]));
    }
    needles
}

/// Fails unless needles go from a process's memory: a thread that has not run since holds what its last request brought.
#[track_caller]
fn expect_none(what: &str, pid: Pid, needles: &[&Needle]) {
    let begin = Instant::now();
    loop {
        let found = search_memory(pid, needles).unwrap();
        if found.is_empty() {
            return;
        }
        assert!(begin.elapsed() < GOES_WITHIN, "{what}: {found:#?}");
    }
}

#[test]
fn memory_holds_no_key_and_no_secret_after_a_seal() {
    let directory = Directory::new("memory");
    let server = Server::start(&directory, &directory.config(""));
    let keys = server.initialize(3, 2);
    server.unseal(&keys);
    let planted = {
        // The connection ends here, and with it what its buffers held.
        let mut client = server.client(&keys.root);
        plant(&mut client, &keys.root)
    };
    let key_needles = key_needles(&keys);
    let pid = server.pid();
    let values: Vec<&Needle> = planted.values.iter().collect();
    let names: Vec<&Needle> = planted.names.iter().collect();

    // Let the server see that the connection is gone.
    server.anyone().get("sys/health").good();
    let found = match search_memory(pid, &names) {
        Ok(found) => found,
        Err(error) => {
            println!("*** SKIPPED: the memory of another process cannot be read: {error}");
            return;
        }
    };
    // The index keeps its paths compressed; what the table keeps is enough to prove the search.
    assert!(found.len() > NAMES_LEFT_MAX, "{} names while unsealed", found.len());
    let locked = locked_kib(pid);
    expect_none("values while unsealed", pid, &values);
    let mut secrets: Vec<&Needle> = planted.tokens.iter().collect();
    secrets.extend(&key_needles);
    expect_none("tokens and shares while unsealed", pid, &secrets);

    server.client(&keys.root).put("sys/seal", "");
    assert!(server.is_sealed());
    println!("locked memory: {locked} KiB unsealed, {} KiB sealed", locked_kib(pid));
    assert_eq!(locked_kib(pid), 0, "keys live in locked memory; unsealed it was {locked} KiB");
    for needles in [&values, &secrets] {
        expect_none("after the seal", pid, needles);
    }
    let left = search_memory(pid, &names).unwrap();
    println!("names: {} places unsealed, {} sealed", found.len(), left.len());
    assert!(left.len() <= NAMES_LEFT_MAX, "{left:#?}");

    server.unseal(&keys);
    let read = server.client(&keys.root).get(&format!("one/{NAME}/5/{NAME}5"));
    assert_eq!(read.at("data.k"), format!("{VALUE}5"));
    server.stop();
}

#[test]
fn a_crash_leaves_no_core_file() {
    let directory = Directory::new("core");
    let home = directory.join("");
    // What a process without our care leaves here, so that it is known whether anything would be.
    let control = Command::new("sh")
        .args(["-c", "ulimit -c unlimited && kill -ABRT $$"])
        .current_dir(&home)
        .status()
        .unwrap();
    let config = directory.config("");
    // Not by SIGQUIT, which is ignored where a shell runs the tests in its background, nor by SIGSEGV, which the
    // standard library looks at first.
    for signal in [Signal::TRAP, Signal::ABORT] {
        let server = Server::start(&directory, &config);
        let limits = format!("/proc/{}/limits", server.pid().as_raw_nonzero());
        let limits = std::fs::read_to_string(limits).unwrap();
        let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        assert!(core.split_whitespace().nth(4) == Some("0"), "{core}");
        let status = server.end(signal);
        assert_eq!(status.signal(), Some(signal.as_raw()));
        assert!(!status.core_dumped());
    }
    println!("a process without care dumps core here: {}", control.core_dumped());
}
