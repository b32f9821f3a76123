//! The body of the fuzz target `cuckoo_ops`: bytes become operations on a table and on a
//! `HashMap`, which must agree. libFuzzer, the corpus and the smoke test below all call it.

use std::collections::HashMap;

use crate::{Inserted, Table, Upserted};

/// Operations between two checks of every invariant.
const OPS_PER_CHECK: usize = 64;
/// Distinct keys, few enough to be met again and many enough to make the table grow.
const KEYS: u16 = 512;

/// Runs the operations that `bytes` spell: three bytes each, what to do and to which key.
///
/// # Panics
/// If table and model disagree or an invariant is broken.
pub fn cuckoo_ops(bytes: &[u8]) {
    let table = Table::with_capacity(0).expect("a small table");
    let mut model = HashMap::new();
    let (operations, _) = bytes.as_chunks::<3>();
    for (count, [what, high, low]) in operations.iter().enumerate() {
        let number = u16::from_be_bytes([*high, *low]) % KEYS;
        let key = number.to_be_bytes().repeat(1 + usize::from(number % 20));
        let value = vec![*low; usize::from(*high)];
        run(&table, &mut model, *what, (&key, count as u64, &value));
        if count % OPS_PER_CHECK == 0 {
            assert_eq!(table.check(), Ok(()));
        }
    }
    compare(&table, &model);
}

type Model = HashMap<Vec<u8>, (u64, Vec<u8>)>;

fn run(table: &Table<u64>, model: &mut Model, what: u8, record: (&[u8], u64, &[u8])) {
    let (key, header, value) = record;
    match what {
        0..90 => {
            let new = !model.contains_key(key);
            let expected = if new { Inserted::Inserted } else { Inserted::AlreadyPresent };
            assert_eq!(table.insert(key, header, value), Ok(expected));
            model.entry(key.to_vec()).or_insert((header, value.to_vec()));
        }
        90..150 => {
            let before = model.insert(key.to_vec(), (header, value.to_vec()));
            let expected = if before.is_none() { Upserted::Inserted } else { Upserted::Replaced };
            assert_eq!(table.upsert(key, header, value), Ok(expected));
        }
        150..200 => assert_eq!(table.remove(key), model.remove(key).is_some()),
        200..254 => {
            let guard = table.pin();
            let found =
                table.get(key, &guard).map(|entry| (*entry.header(), entry.value().to_vec()));
            assert_eq!(found.as_ref(), model.get(key));
        }
        254 => assert_eq!(table.finish_growth(), Ok(())),
        255 => {
            table.clear();
            model.clear();
        }
    }
}

fn compare(table: &Table<u64>, model: &Model) {
    assert_eq!(table.check(), Ok(()));
    assert_eq!(table.len(), model.len());
    let guard = table.pin();
    let keys: Vec<&[u8]> = model.keys().map(Vec::as_slice).collect();
    let mut found = Vec::new();
    table.get_many(&keys, &mut found, &guard);
    for (key, entry) in keys.iter().zip(found) {
        let entry = entry.expect("the model has it");
        assert_eq!((entry.key(), entry.value()), (*key, model[*key].1.as_slice()));
    }
    assert_eq!(table.iter(&guard).count(), model.len());
    for entry in table.iter(&guard) {
        assert_eq!(model[entry.key()].0, *entry.header());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #[test]
    fn seeded_smoke() {
        let (runs, operations) = if cfg!(miri) { (2, 60) } else { (200, 4000) };
        for seed in 0..runs {
            let mut random = fastrand::Rng::with_seed(seed);
            // Clearing is rare in half of the runs, so that tables grow.
            let bytes: Vec<u8> = (0..operations)
                .flat_map(|_| {
                    let most = if seed % 2 == 0 { 254 } else { 255 };
                    [random.u8(..=most), random.u8(..), random.u8(..)]
                })
                .collect();
            super::cuckoo_ops(&bytes);
        }
    }

    #[test]
    fn odd_inputs_run() {
        for bytes in [&[][..], &[0], &[255; 7], &[0; 100]] {
            super::cuckoo_ops(bytes);
        }
    }
}
