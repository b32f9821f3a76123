//! One run, every way to do it, paired rounds: nanoseconds per operation, the median of the rounds.
//!
//! `bench-barrier [--rounds N] [--only TEXT] [--operations N]`; `--only` keeps the rows whose name contains the text. The
//! rows of one size take turns within a round, so that drift of the machine hits all alike. `bare` is `aws-lc-rs` alone with
//! a cipher made once, in place and bound to nothing: the floor. `RustCrypto` is XChaCha20-Poly1305 as the crate
//! `chacha20poly1305` gives it, bound to the same additional data.
//!
//! Under `valgrind --tool=callgrind`, `--only "open 128"` and few operations count instructions instead.

use std::hint::black_box;
use std::time::Instant;

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use chacha20poly1305::aead::{AeadInPlace, KeyInit};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use kallisto_barrier::{Keyring, MemoryCipher, RootKey, UnsealKey};

const SIZES: [usize; 4] = [16, 128, 1_024, 10_240];
const STORAGE_KEY: &[u8; 17] = b"kallisto's place.";
const CLUSTER: [u8; 16] = [7; 16];
/// Nonce prefixes among the records of the rows that meet many: more than a keyring keeps ciphers for.
const PREFIXES: usize = 4_096;

struct Options {
    rounds: usize,
    operations: usize,
    only: String,
}

impl Options {
    fn parse() -> Self {
        let mut options = Self { rounds: 11, operations: 50_000, only: String::new() };
        let mut args = std::env::args().skip(1);
        while let Some(name) = args.next() {
            let text = args.next().unwrap_or_else(|| panic!("{name} wants a value"));
            match name.as_str() {
                "--rounds" => options.rounds = text.parse().expect("a number"),
                "--operations" => options.operations = text.parse().expect("a number"),
                "--only" => options.only = text,
                other => panic!("no option {other}"),
            }
        }
        options
    }
}

/// One way to do one thing.
struct Row {
    name: String,
    /// Calls cost so much that they are made less often.
    share: usize,
    call: Box<dyn FnMut()>,
}

fn row(name: impl Into<String>, call: impl FnMut() + 'static) -> Row {
    Row { name: name.into(), share: 1, call: Box::new(call) }
}

fn main() {
    let options = Options::parse();
    let mut groups = vec![names(), shares()];
    groups.extend(SIZES.map(records));
    for mut rows in groups {
        rows.retain(|row| row.name.contains(&options.only));
        measure(&mut rows, &options);
    }
}

fn measure(rows: &mut [Row], options: &Options) {
    let mut times = vec![Vec::new(); rows.len()];
    for _ in 0..options.rounds {
        for (row, times) in rows.iter_mut().zip(&mut times) {
            let operations = (options.operations / row.share).max(1);
            let start = Instant::now();
            (0..operations).for_each(|_| (row.call)());
            times.push(start.elapsed().as_nanos() as f64 / operations as f64);
        }
    }
    for (row, mut times) in rows.iter().zip(times) {
        times.sort_by(f64::total_cmp);
        println!("{:<44} {:>10.0} ns", row.name, times[times.len() / 2]);
    }
}

fn keyring() -> Keyring {
    Keyring::generate(CLUSTER, 0).expect("a keyring")
}

/// Sealing and opening of one size.
fn records(size: usize) -> Vec<Row> {
    let plain: Vec<u8> = (0..=255).cycle().take(size).collect();
    let mut rows = vec![bare_seal(&plain), bare_open(&plain), pure_seal(&plain), pure_open(&plain)];
    let (ring, text) = (keyring(), plain.clone());
    let mut out = Vec::new();
    rows.push(row(format!("keyring, seal {size}"), move || {
        out.clear();
        ring.seal_record(STORAGE_KEY, &text, &mut out).expect("sealed");
        black_box(&out);
    }));
    rows.push(open(format!("keyring, open {size}"), &plain, 1));
    rows.push(open(format!("keyring, open {size}, {PREFIXES} prefixes"), &plain, PREFIXES));
    let (cipher, mut out) = (MemoryCipher::generate().expect("a cipher"), Vec::new());
    let mut sealed = Vec::new();
    cipher.seal(STORAGE_KEY, &plain, &mut sealed);
    rows.push(row(format!("memory cipher, open {size}"), move || {
        out.clear();
        cipher.open(STORAGE_KEY, &sealed, &mut out).expect("opened");
        black_box(&out);
    }));
    rows
}

/// Opening records of `prefixes` runs in turn.
fn open(name: String, plain: &[u8], prefixes: usize) -> Row {
    let ring = keyring();
    let envelopes: Vec<Vec<u8>> = (0..prefixes)
        .map(|_| {
            let mut out = Vec::new();
            ring.redraw_nonces().expect("randomness");
            ring.seal_record(STORAGE_KEY, plain, &mut out).expect("sealed");
            out
        })
        .collect();
    let (mut out, mut at) = (Vec::new(), 0);
    row(name, move || {
        out.clear();
        at = (at + 1) % envelopes.len();
        ring.open_record(STORAGE_KEY, &envelopes[at], &mut out).expect("opened");
        black_box(&out);
    })
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&counter.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn bare() -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &[9; 32]).expect("a key"))
}

fn bare_seal(plain: &[u8]) -> Row {
    let (key, mut buffer, mut counter) = (bare(), plain.to_vec(), 0);
    row(format!("bare, seal {}", plain.len()), move || {
        counter += 1;
        let tag = key.seal_in_place_separate_tag(nonce(counter), Aad::empty(), &mut buffer);
        let _ = black_box(tag.expect("sealed"));
    })
}

fn bare_open(plain: &[u8]) -> Row {
    let (key, mut buffer) = (bare(), plain.to_vec());
    let tag = key.seal_in_place_separate_tag(nonce(1), Aad::empty(), &mut buffer).expect("sealed");
    let mut out = plain.to_vec();
    row(format!("bare, open {}", plain.len()), move || {
        let opened =
            key.open_separate_gather(nonce(1), Aad::empty(), &buffer, tag.as_ref(), &mut out);
        opened.expect("opened");
        black_box(&out);
    })
}

/// What a record is bound to, as the envelope binds it.
fn aad() -> Vec<u8> {
    [[1, 1, 0, 0, 0].as_slice(), &CLUSTER, STORAGE_KEY].concat()
}

fn pure_seal(plain: &[u8]) -> Row {
    let (cipher, aad, mut buffer) =
        (XChaCha20Poly1305::new(&[9; 32].into()), aad(), plain.to_vec());
    row(format!("RustCrypto, seal {}", plain.len()), move || {
        let tag = cipher.encrypt_in_place_detached(XNonce::from_slice(&[5; 24]), &aad, &mut buffer);
        black_box(tag.expect("sealed"));
    })
}

fn pure_open(plain: &[u8]) -> Row {
    let (cipher, aad, mut buffer) =
        (XChaCha20Poly1305::new(&[9; 32].into()), aad(), plain.to_vec());
    let nonce = *XNonce::from_slice(&[5; 24]);
    let tag = cipher.encrypt_in_place_detached(&nonce, &aad, &mut buffer).expect("sealed");
    let mut out = buffer.clone();
    row(format!("RustCrypto, open {}", plain.len()), move || {
        out.copy_from_slice(&buffer);
        cipher.decrypt_in_place_detached(&nonce, &aad, &mut out, &tag).expect("opened");
        black_box(&out);
    })
}

/// Names hidden.
fn names() -> Vec<Row> {
    let ring = keyring();
    let name = b"team-0042/service-07/production/database-password";
    let key = hmac::Key::new(hmac::HMAC_SHA256, &[3; 32]);
    vec![
        row("bare, HMAC of a name", move || {
            black_box(hmac::sign(&key, name));
        }),
        row("keyring, name hash", move || {
            black_box(ring.name_hash(b"\x01\x00\x00\x00", name));
        }),
    ]
}

/// What happens once in a while.
fn shares() -> Vec<Row> {
    let unseal_key = UnsealKey::generate().expect("a key");
    let root_key = RootKey::generate().expect("a key");
    let sealed = keyring().seal(&root_key).expect("sealed");
    let shares = unseal_key.split(5, 3).expect("shares");
    let mut rows = vec![
        row("split into 5 shares, 3 needed", move || {
            black_box(unseal_key.split(5, 3).expect("shares"));
        }),
        row("combine 3 shares", move || {
            black_box(UnsealKey::combine(&shares[..3]).expect("a key"));
        }),
        row("open a keyring of one key", move || {
            black_box(Keyring::open(&sealed, &root_key).expect("a keyring"));
        }),
    ];
    rows.iter_mut().for_each(|row| row.share = 200);
    rows
}
