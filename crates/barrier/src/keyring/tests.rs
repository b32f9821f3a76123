//! What the keyring promises its callers.

use super::*;
use crate::limits::STORAGE_KEY_BYTES_MAX;

const CLUSTER: [u8; 16] = *b"a cluster's id..";

fn keyring() -> Keyring {
    Keyring::generate(CLUSTER, 1_000).unwrap()
}

fn seal(keyring: &Keyring, storage_key: &[u8], plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    keyring.seal_record(storage_key, plain, &mut out).unwrap();
    out
}

fn open(keyring: &Keyring, storage_key: &[u8], envelope: &[u8]) -> Result<Vec<u8>> {
    let mut out = b"before".to_vec();
    let opened = keyring.open_record(storage_key, envelope, &mut out);
    assert_eq!(&out[..6], b"before");
    match opened {
        Ok(()) => Ok(out.split_off(6)),
        Err(error) => {
            assert_eq!(out.len(), 6, "a failure leaves nothing behind");
            Err(error)
        }
    }
}

/// The nonce of an envelope.
fn nonce(envelope: &[u8]) -> [u8; 24] {
    *envelope[5..].first_chunk().unwrap()
}

#[test]
fn a_record_comes_back_at_its_place_and_in_its_cluster_only() {
    let keyring = keyring();
    assert_eq!(keyring.cluster_id(), CLUSTER);
    for length in [0, 1, 63, 64, 65, 128, 1_000, 100_000] {
        let plain: Vec<u8> = (0..=255).cycle().take(length).collect();
        let envelope = seal(&keyring, b"place", &plain);
        assert_eq!(envelope.len(), ENVELOPE_OVERHEAD + length);
        assert_eq!(open(&keyring, b"place", &envelope).unwrap(), plain);
        assert!(matches!(open(&keyring, b"other", &envelope), Err(Error::Damaged(_))));
    }
    // The same keys under another cluster's id.
    let bytes = codec::encode(&keyring);
    let moved = codec::decode(&[b"another cluster.", &bytes[16..]].concat()).unwrap();
    let envelope = seal(&keyring, b"place", b"value");
    assert!(matches!(open(&moved, b"place", &envelope), Err(Error::Damaged(_))));
}

#[test]
fn every_flipped_bit_and_every_cut_of_a_record_is_refused() {
    let keyring = keyring().rotated(2_000).unwrap();
    let envelope = seal(&keyring, b"place", b"a value");
    for bit in 0..envelope.len() * 8 {
        let mut flipped = envelope.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(open(&keyring, b"place", &flipped).is_err(), "bit {bit}");
    }
    for length in 0..envelope.len() {
        assert!(open(&keyring, b"place", &envelope[..length]).is_err(), "cut at {length}");
    }
    let mut longer = envelope.clone();
    longer.push(0);
    assert!(open(&keyring, b"place", &longer).is_err());
}

#[test]
fn no_two_records_can_be_swapped() {
    let keyring = keyring();
    let places: Vec<Vec<u8>> = (0..16u8).map(|n| vec![b'p', n]).collect();
    let envelopes: Vec<_> = places.iter().map(|place| seal(&keyring, place, place)).collect();
    for (n, place) in places.iter().enumerate() {
        for (m, envelope) in envelopes.iter().enumerate() {
            assert_eq!(open(&keyring, place, envelope).is_ok(), n == m);
        }
    }
}

#[test]
fn old_records_stay_readable_after_a_rotation_until_their_key_is_dropped() {
    let first = keyring();
    let old = seal(&first, b"place", b"old");
    let second = first.rotated(2_000).unwrap();
    let new = seal(&second, b"place", b"new");
    assert_eq!(envelope_key_version(&old), Some(1));
    assert_eq!(envelope_key_version(&new), Some(2));
    assert_eq!(open(&second, b"place", &old).unwrap(), b"old");
    assert_eq!(open(&first, b"place", &new), Err(Error::UnknownKeyVersion(2)));

    let third = second.without_versions_below(2).unwrap();
    assert_eq!(open(&third, b"place", &old), Err(Error::UnknownKeyVersion(1)));
    assert_eq!(open(&third, b"place", &new).unwrap(), b"new");
    assert_eq!(third.rotated(3_000).unwrap().active_version(), 3);
    assert!(third.without_versions_below(3).is_err());
    let versions: Vec<_> =
        second.versions().iter().map(|v| (v.version, v.installed_at_unix)).collect();
    assert_eq!(versions, [(1, 1_000), (2, 2_000)]);
}

#[test]
fn a_keyring_comes_back_under_its_root_key_only() {
    let (root_key, other) = (RootKey::generate().unwrap(), RootKey::generate().unwrap());
    let keyring = keyring().rotated(2_000).unwrap();
    let envelope = seal(&keyring, b"place", b"value");
    let sealed = keyring.seal(&root_key).unwrap();
    let opened = Keyring::open(&sealed, &root_key).unwrap();
    assert_eq!(open(&opened, b"place", &envelope).unwrap(), b"value");
    assert_eq!(opened.name_hash(b"s", b"n"), keyring.name_hash(b"s", b"n"));
    let (a, b) =
        (opened.derive("token-hmac/v1").unwrap(), keyring.derive("token-hmac/v1").unwrap());
    assert_eq!(a.expose(), b.expose());
    assert_eq!(Keyring::open(&sealed, &other).err(), Some(Error::WrongKey));
}

#[test]
fn names_of_different_scopes_never_meet_and_need_the_key() {
    let keyring = keyring();
    let reference = keyring.name_hash(b"mount", b"name");
    assert_eq!(reference, keyring.rotated(1).unwrap().name_hash(b"mount", b"name"));
    assert_ne!(reference, keyring.name_hash(b"mountn", b"ame"));
    assert_ne!(reference, keyring.name_hash(b"", b"mountname"));
    assert_ne!(reference, keyring.name_hash(b"mount", b"other"));
    assert_ne!(reference, Keyring::generate(CLUSTER, 0).unwrap().name_hash(b"mount", b"name"));
}

#[test]
fn purposes_have_their_own_keys() {
    let keyring = keyring();
    let (a, b) =
        (keyring.derive("token-hmac/v1").unwrap(), keyring.derive("audit-hmac/v1").unwrap());
    assert_ne!(a.expose(), b.expose());
    // Not even a label that spells out one of ours gives that key.
    let name_key = subkey(&keyring.base.key, &CLUSTER, NAME_KEY_LABEL).unwrap();
    assert_ne!(keyring.derive("index-hash/v1").unwrap().expose(), name_key.expose());
}

#[test]
fn what_is_too_long_is_refused_and_nothing_is_written() {
    let keyring = keyring();
    let mut out = b"before".to_vec();
    let long = vec![0; STORAGE_KEY_BYTES_MAX + 1];
    assert!(matches!(keyring.seal_record(&long, b"", &mut out), Err(Error::Invalid(_))));
    let long = vec![0; PLAIN_BYTES_MAX + 1];
    assert!(matches!(keyring.seal_record(b"", &long, &mut out), Err(Error::Invalid(_))));
    assert_eq!(out, b"before");
    let envelope = seal(&keyring, &[1; STORAGE_KEY_BYTES_MAX], b"value");
    assert_eq!(open(&keyring, &[1; STORAGE_KEY_BYTES_MAX], &envelope).unwrap(), b"value");
}

#[test]
fn the_longest_record_is_64_mib_with_its_envelope_and_comes_back() {
    let keyring = keyring();
    let plain = vec![7; PLAIN_BYTES_MAX];
    let envelope = seal(&keyring, b"place", &plain);
    assert_eq!(envelope.len(), 64 * 1024 * 1024);
    assert!(envelope.capacity() <= 2 * envelope.len(), "{}", envelope.capacity());
    // Not `assert_eq`: nobody reads 64 MiB of a difference.
    assert!(open(&keyring, b"place", &envelope).unwrap() == plain);
}

#[test]
fn a_keyring_is_locked_when_each_of_its_keys_is() {
    let key = |byte: u8| std::array::from_fn(|n| byte ^ u8::try_from(n).unwrap());
    let locked = |byte| SecretKey::from_bytes(&key(byte)).unwrap();
    let unlocked = |byte| SecretKey::unlocked(&key(byte));
    let keyring = |base, first, second| Keyring {
        base: Base::new(CLUSTER, base).unwrap(),
        data_keys: vec![
            Arc::new(DataKey::new(1, 0, 0, first).unwrap()),
            Arc::new(DataKey::new(2, 0, 0, second).unwrap()),
        ],
    };
    // The limit on locked memory may be used up before the last of them.
    let keys = [locked(1), locked(2), locked(3)];
    let are_locked = keys.iter().all(SecretKey::is_locked);
    let [base, first, second] = keys;
    assert_eq!(keyring(base, first, second).is_locked(), are_locked);
    assert!(!keyring(unlocked(1), locked(2), locked(3)).is_locked());
    assert!(!keyring(locked(1), unlocked(2), locked(3)).is_locked());
    assert!(!keyring(locked(1), locked(2), unlocked(3)).is_locked());
    assert!(!unlocked(1).is_locked());
}

/// A process dies at any point and a new one opens the keyring it had stored: whatever was sealed meanwhile, no nonce
/// comes again. Nothing is stored between the cycles, which is the worst a crash can do.
#[test]
fn no_nonce_twice_over_a_thousand_crashes() {
    const CYCLES: usize = 1_000;
    const RECORDS: usize = 20;
    let root_key = RootKey::generate().unwrap();
    let stored = keyring().seal(&root_key).unwrap();
    let mut nonces = std::collections::HashSet::new();
    for _ in 0..CYCLES {
        let keyring = Keyring::open(&stored, &root_key).unwrap();
        for _ in 0..RECORDS {
            nonces.insert(nonce(&seal(&keyring, b"place", b"value")));
        }
    }
    assert_eq!(nonces.len(), CYCLES * RECORDS);
}

#[test]
fn a_prefix_serves_its_number_of_records_and_no_nonce_comes_twice_between_threads() {
    const THREADS: usize = 4;
    const EACH: usize = 5_000;
    const PER_RUN: u64 = 64;
    let key = DataKey::new(1, 0, 0, SecretKey::generate().unwrap()).unwrap();
    let keyring = Keyring {
        base: Base::new(CLUSTER, SecretKey::generate().unwrap()).unwrap(),
        data_keys: vec![Arc::new(key.with_records_per_run(PER_RUN))],
    };
    let seal_many = || (0..EACH).map(|_| nonce(&seal(&keyring, b"p", b"v"))).collect::<Vec<_>>();
    let mut nonces: Vec<[u8; 24]> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(seal_many)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    nonces.sort_unstable();
    nonces.dedup();
    assert_eq!(nonces.len(), THREADS * EACH);
    for run in nonces.chunk_by(|a, b| a[..16] == b[..16]) {
        assert!(run.len() as u64 <= PER_RUN);
    }
    let total = (THREADS * EACH) as u64;
    assert_eq!(keyring.versions()[0].seals, total);
}

/// A counter that kept fewer bits than its run has records would come back to its first nonces: at every power of two the
/// whole number is in the nonce, and the last record of a run is the last under its prefix.
#[test]
fn the_counter_of_a_run_never_wraps_and_ends_with_its_prefix() {
    let data_key = Arc::new(DataKey::new(1, 0, 0, SecretKey::generate().unwrap()).unwrap());
    let keyring = Keyring {
        base: Base::new(CLUSTER, SecretKey::generate().unwrap()).unwrap(),
        data_keys: vec![Arc::clone(&data_key)],
    };
    let first = nonce(&seal(&keyring, b"p", b"v"));
    let (prefix, last) = (&first[..16], crate::limits::RECORDS_PER_PREFIX_MAX - 1);
    for number in (1..64).map(|bit| (1 << bit) - 1).take_while(|number| *number < last) {
        data_key.skip_to(number);
        for expected in [number, number + 1] {
            let envelope = seal(&keyring, b"p", b"v");
            let nonce = nonce(&envelope);
            assert_eq!((&nonce[..16], &nonce[16..]), (prefix, &expected.to_le_bytes()[..]));
            assert_eq!(open(&keyring, b"p", &envelope).unwrap(), b"v");
        }
    }
    data_key.skip_to(last);
    let at_end = nonce(&seal(&keyring, b"p", b"v"));
    assert_eq!((&at_end[..16], &at_end[16..]), (prefix, &last.to_le_bytes()[..]));
    let behind = nonce(&seal(&keyring, b"p", b"v"));
    assert_ne!(&behind[..16], prefix);
    assert_eq!(behind[16..], [0; 8]);
}

#[test]
fn records_of_more_runs_than_there_are_places_for_open_all() {
    let key = DataKey::new(1, 0, 0, SecretKey::generate().unwrap()).unwrap();
    let keyring = Keyring {
        base: Base::new(CLUSTER, SecretKey::generate().unwrap()).unwrap(),
        data_keys: vec![Arc::new(key.with_records_per_run(1))],
    };
    let envelopes: Vec<_> = (0..2_000u32).map(|n| seal(&keyring, b"p", &n.to_le_bytes())).collect();
    for _ in 0..2 {
        for (n, envelope) in (0u32..).zip(&envelopes) {
            assert_eq!(open(&keyring, b"p", envelope).unwrap(), n.to_le_bytes());
        }
    }
}

#[test]
fn redrawing_starts_a_fresh_prefix_and_keeps_the_count() {
    let keyring = keyring();
    keyring.redraw_nonces().unwrap();
    let before = nonce(&seal(&keyring, b"p", b"v"));
    keyring.redraw_nonces().unwrap();
    let after = nonce(&seal(&keyring, b"p", b"v"));
    assert_ne!(before[..16], after[..16]);
    assert_eq!(keyring.versions()[0].seals, 2);
}

#[test]
fn the_count_of_seals_is_stored() {
    let root_key = RootKey::generate().unwrap();
    let keyring = keyring();
    for _ in 0..3 {
        seal(&keyring, b"p", b"v");
    }
    let opened = Keyring::open(&keyring.seal(&root_key).unwrap(), &root_key).unwrap();
    seal(&opened, b"p", b"v");
    assert_eq!(opened.versions()[0].seals, 4);
}

#[test]
fn debug_shows_no_key() {
    let text = format!("{:?}", keyring());
    assert_eq!(
        text,
        "Keyring { versions: [KeyVersion { version: 1, installed_at_unix: 1000, seals: 0 }], .. }"
    );
}
