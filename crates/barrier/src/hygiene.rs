//! What this process's memory holds of the keys, looked at through `/proc/self/mem`.
//!
//! The bytes that are looked for are computed as the search goes and never stand in memory as such, or every search would
//! find itself. A first search while the key lives shows that the search finds.
#![cfg(target_os = "linux")]

use std::io::{Read, Seek, SeekFrom};

use zeroize::{Zeroize, Zeroizing};

use crate::{Keyring, MemoryCipher, RootKey, SecretKey, UnsealKey};

/// Xored onto what is remembered of a key.
const MASK: u8 = 0x5c;

/// Smallest page of a system that this runs on; reading in smaller steps than it has is only slower.
const PAGE_BYTES: u64 = 4096;

/// A key that is remembered without being there.
struct Masked([u8; 32]);

impl Masked {
    fn of(key: &[u8; 32]) -> Self {
        Self(std::array::from_fn(|n| key[n] ^ MASK))
    }

    fn is_at(&self, bytes: &[u8]) -> bool {
        bytes.iter().zip(&self.0).all(|(byte, masked)| *byte == masked ^ MASK)
    }
}

/// How often each key is found in memory that can be read.
fn count(keys: &[Masked]) -> Vec<usize> {
    count_within(&readable_regions(), keys)
}

/// How often each key is found in `regions`. The buffer that memory is read into is one place of it: it is wiped before
/// each read, and what is in it is not counted.
fn count_within(regions: &[(u64, u64)], keys: &[Masked]) -> Vec<usize> {
    let mut counts = vec![0; keys.len()];
    // Nearly all places fall at the first byte.
    let mut starts = [false; 256];
    keys.iter().for_each(|key| starts[usize::from(key.0[0] ^ MASK)] = true);
    let mut buffer = Zeroizing::new(vec![0u8; 1 << 16]);
    let own = buffer.as_ptr() as u64..buffer.as_ptr() as u64 + buffer.len() as u64;
    for &(start, end) in regions {
        let mut at = start;
        while at < end {
            let length = usize::try_from(end - at).unwrap().min(buffer.len());
            buffer.zeroize();
            buffer.resize(1 << 16, 0);
            if read_present(at, &mut buffer[..length]) {
                let windows = buffer[..length].windows(32).enumerate();
                for (place, window) in windows.filter(|(_, w)| starts[usize::from(w[0])]) {
                    let elsewhere = !own.contains(&(at + place as u64));
                    for (key, count) in keys.iter().zip(&mut counts) {
                        *count += usize::from(elsewhere && key.is_at(window));
                    }
                }
            }
            // Windows overlap from one read to the next.
            at += if length as u64 == end - at { length as u64 } else { length as u64 - 31 };
        }
    }
    counts
}

fn readable_regions() -> Vec<(u64, u64)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let regions = maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let wanted = rest.starts_with("rw") && !rest.ends_with("[vvar]");
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        wanted.then(|| (number(start), number(end)))
    });
    regions.collect()
}

/// Reads what is there of `at..`, and says whether anything is. Other tests run meanwhile and give back the pages of their
/// keys, which lie beside those that are looked for: a page that is gone is zeros here and hides none of those around it.
fn read_present(at: u64, out: &mut [u8]) -> bool {
    if read_memory(at, out) {
        return true;
    }
    let mut is_any = false;
    let mut done = 0;
    while done < out.len() {
        let from = at + done as u64;
        let within_page = usize::try_from(from % PAGE_BYTES).unwrap();
        let page_end = done + usize::try_from(PAGE_BYTES).unwrap() - within_page;
        let end = page_end.min(out.len());
        let page = &mut out[done..end];
        match read_memory(from, page) {
            true => is_any = true,
            false => page.fill(0),
        }
        done = end;
    }
    is_any
}

#[expect(clippy::disallowed_methods, reason = "the process's own memory is what is tested")]
fn read_memory(at: u64, out: &mut [u8]) -> bool {
    let mut memory = std::fs::File::open("/proc/self/mem").unwrap();
    memory.seek(SeekFrom::Start(at)).is_ok() && memory.read_exact(out).is_ok()
}

/// The life of a barrier: unseal key, root key, keyring, records. Gives back the keys it used and asks in between.
fn live(keys: &mut Vec<Masked>, while_unsealed: impl FnOnce(&[Masked])) {
    let unseal_key = UnsealKey::generate().unwrap();
    let root_key = RootKey::generate().unwrap();
    let keyring = Keyring::generate([3; 16], 0).unwrap().rotated(1).unwrap();
    let cipher = MemoryCipher::generate().unwrap();
    let shares = unseal_key.split(5, 3).unwrap();
    let unseal_key = UnsealKey::combine(&shares[..3]).unwrap();
    let wrapped = root_key.wrap(&unseal_key).unwrap();
    let root_key = RootKey::unwrap(&wrapped, &unseal_key).unwrap();
    let keyring = Keyring::open(&keyring.seal(&root_key).unwrap(), &root_key).unwrap();
    let token_key = keyring.derive("token-hmac/v1").unwrap();
    let (mut sealed, mut opened) = (Vec::new(), Vec::new());
    keyring.seal_record(b"place", b"value", &mut sealed).unwrap();
    keyring.open_record(b"place", &sealed, &mut opened).unwrap();
    cipher.seal(b"", b"value", &mut sealed);
    assert_ne!(keyring.name_hash(b"scope", b"name"), [0; 16]);

    keys.extend([Masked::of(unseal_key.expose()), Masked::of(root_key.key().expose())]);
    keys.push(Masked::of(token_key.expose()));
    keys.extend(keyring.key_material().map(Masked::of));
    while_unsealed(keys);
}

#[test]
fn no_key_is_left_in_memory_after_a_seal() {
    let mut keys = Vec::new();
    live(&mut keys, |keys| {
        let found = count(keys);
        assert!(found.iter().all(|&times| times > 0), "the search finds keys: {found:?}");
    });
    let found = count(&keys);
    assert_eq!(found, vec![0; keys.len()]);
}

/// Every second page of a region is given back after the region was listed, as other tests do it while one searches.
#[test]
fn the_search_finds_keys_between_pages_that_are_gone() {
    let (mut kept, mut gone) = (Vec::new(), Vec::new());
    for n in 0..64 {
        let key = SecretKey::generate().unwrap();
        if n % 2 == 0 { kept.push(key) } else { gone.push(key) }
    }
    let place = |key: &SecretKey| key.expose().as_ptr() as u64 / PAGE_BYTES * PAGE_BYTES;
    let keys: Vec<Masked> = kept.iter().map(|key| Masked::of(key.expose())).collect();
    // Where the kernel put them close together, one region; else one a key.
    let (first, last) =
        (kept.iter().map(place).min().unwrap(), kept.iter().map(place).max().unwrap());
    let is_close = last - first < 1 << 24;
    let regions = match is_close {
        true => vec![(first, last + PAGE_BYTES)],
        false => kept.iter().map(|key| (place(key), place(key) + (1 << 16))).collect(),
    };
    drop(gone);
    let found = count_within(&regions, &keys);
    assert!(found.iter().all(|&times| times > 0), "{found:?}");
}

/// What the kernel says about the region of a key: locked, not dumped, not inherited.
#[test]
fn a_key_is_locked_and_kept_from_dumps_and_children() {
    let key = SecretKey::generate().unwrap();
    let at = key.expose().as_ptr() as u64;
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut inside = false;
    let mut flags = None;
    for line in maps.lines() {
        if let Some((start, end)) =
            line.split_once(' ').and_then(|(range, _)| range.split_once('-'))
        {
            let number = |text| u64::from_str_radix(text, 16).unwrap();
            inside = (number(start)..number(end)).contains(&at);
        } else if inside && let Some(found) = line.strip_prefix("VmFlags: ") {
            flags = Some(found.to_owned());
        }
    }
    let flags = flags.expect("the kernel knows the region");
    let has = |flag| flags.split(' ').any(|word| word == flag);
    assert!(has("dd"), "left out of dumps: {flags}");
    assert!(has("dc"), "not copied on fork: {flags}");
    assert_eq!(has("lo"), key.is_locked(), "locked: {flags}");
}
