//! Sealing, rotation and what the store gets to see.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kallisto_core::json::Json;
use kallisto_core::{AutoSeal, BackgroundTask, Error, Operation, OwnThreads, Response, Threads};
use kallisto_store::{Batch, MemoryStore, Records, Store, Visit};

use crate::member_site;
use crate::support::{Site, ask, data_text, sealed};

/// Every record below the barrier.
fn stored(site: &Site) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    site.store
        .scan(&[], &mut |key, record| {
            all.push((key.to_vec(), record.value.to_vec()));
            Visit::Continue
        })
        .unwrap();
    all
}

#[test]
fn the_store_sees_neither_names_nor_values() {
    let site = Site::open(1 << 20);
    site.put("planted-path/inner-name", "planted-value");
    site.ask(Operation::Delete, "secret/metadata/planted-path/inner-name", "").unwrap();
    site.put("planted-path/second-name", "planted-value");
    for (key, value) in stored(&site) {
        for needle in ["planted", "inner-name", "second-name", "secret/"] {
            let found =
                |bytes: &[u8]| bytes.windows(needle.len()).any(|at| at == needle.as_bytes());
            assert!(!found(&key) && !found(&value), "{needle} is stored in the clear");
        }
    }
}

#[test]
fn a_new_core_over_the_same_store_holds_the_same_secrets() {
    let site = Site::open(1 << 20);
    for n in 0..200 {
        site.put(&format!("a/{n}"), &format!("first {n}"));
        site.put(&format!("a/{n}"), &format!("second {n}"));
    }
    site.ask(Operation::Delete, "secret/data/a/5", "").unwrap();
    site.ask(Operation::Update, "secret/destroy/a/6", r#"{"versions":[2]}"#).unwrap();
    site.ask(Operation::Update, "secret/metadata/only", r#"{"max_versions":3}"#).unwrap();
    let core = sealed(Arc::clone(&site.store), 1 << 20);
    assert_eq!(ask(&core, Operation::Read, "secret/data/a/1", "").map(|_| ()), Err(Error::Sealed));
    let again = Site { store: Arc::clone(&site.store), core, keys: site.keys.clone() };
    again.unseal();
    for n in (0..200).filter(|n| ![5, 6].contains(n)) {
        again.assert_holds(&format!("a/{n}"), &format!("second {n}"));
    }
    for gone in ["a/5", "a/6"] {
        let reply = again.ask(Operation::Read, &format!("secret/data/{gone}"), "").unwrap();
        assert!(matches!(reply, Response::Missing(_)), "{reply:?}");
    }
    assert_eq!(again.get("only"), Err(Error::NotFound));
    let listed = data_text(again.ask(Operation::List, "secret/metadata/", "").unwrap());
    assert_eq!(listed, r#"{"keys":["a/","only"]}"#);
}

#[test]
fn a_wrong_share_is_forgotten_and_the_right_one_opens() {
    let site = Site::open(1 << 20);
    pollster::block_on(site.core.seal()).unwrap();
    let wrong = format!(r#"{{"key":"{}"}}"#, "0123456789abcdef".repeat(4));
    let refused = site.ask(Operation::Update, "sys/unseal", &wrong).unwrap_err().to_string();
    assert!(refused.contains("invalid key"), "{refused}");
    assert!(site.core.is_sealed());
    site.unseal();
}

#[test]
fn rotation_reencrypts_everything_and_old_keys_still_open() {
    let site = Site::open(1 << 20);
    for n in 0..500 {
        site.put(&format!("r/{n}"), &format!("value {n}"));
    }
    let key_status =
        |site: &Site| data_text(site.ask(Operation::Read, "sys/key-status", "").unwrap());
    assert!(key_status(&site).contains(r#""term":1"#));
    site.ask(Operation::Update, "sys/rotate", "").unwrap();
    assert!(key_status(&site).contains(r#""term":2"#));
    // A write between is sealed under the new key at once.
    site.put("r/1", "between");
    let progress =
        |site: &Site| data_text(site.ask(Operation::Read, "sys/rotate/progress", "").unwrap());
    for _ in 0..12_000 {
        if progress(&site).contains(r#""running":false"#) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let ended = progress(&site);
    assert!(ended.contains(r#""running":false"#) && ended.contains(r#""left":0"#), "{ended}");
    assert_eq!(records_under_old_keys(&site), 0);
    pollster::block_on(site.core.seal()).unwrap();
    site.unseal();
    site.assert_holds("r/1", "between");
    for n in 2..500 {
        site.assert_holds(&format!("r/{n}"), &format!("value {n}"));
    }
}

/// Runs re-encryptions to their end at once, if what comes before them lets it: so a test knows that they are over, and waits for none with a lock.
struct Reencrypting<F>(F);

impl<F: Fn() -> std::io::Result<()> + Send + Sync> Threads for Reencrypting<F> {
    fn start(&self, name: &'static str, task: BackgroundTask) -> std::io::Result<()> {
        if name != "reencrypt" {
            return OwnThreads.start(name, task);
        }
        (self.0)()?;
        task();
        Ok(())
    }

    fn pause(&self, duration: std::time::Duration) {
        OwnThreads.pause(duration);
    }

    fn wait(&self, future: std::pin::Pin<&mut dyn Future<Output = ()>>) {
        OwnThreads.wait(future);
    }
}

/// The same site, sealed and opened by a server with these threads.
fn opened_again(site: &Site, threads: impl Threads + 'static) -> Site {
    pollster::block_on(site.core.seal()).unwrap();
    let core = sealed(Arc::clone(&site.store), 1 << 20).with_threads(Arc::new(threads));
    let again = Site { store: Arc::clone(&site.store), core, keys: site.keys.clone() };
    again.unseal();
    again
}

/// How many records are not under the second key, of those that are under any.
fn records_under_old_keys(site: &Site) -> usize {
    let is_old = |value: &[u8]| kallisto_barrier::envelope_key_version(value) != Some(2);
    stored(site).iter().filter(|(key, value)| key[0] != 0 && is_old(value)).count()
}

#[test]
fn who_leads_goes_on_with_a_reencryption_that_was_cut_short() {
    let first = Site::open(1 << 20);
    (0..300).for_each(|n| first.put(&format!("r/{n}"), &format!("value {n}")));
    // There is no thread for the first re-encryptions, as a leader that is gone goes on with none.
    let refuses = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&refuses);
    let site = opened_again(
        &first,
        Reencrypting(move || match asked.load(Ordering::Relaxed) {
            true => Err(std::io::ErrorKind::WouldBlock.into()),
            false => Ok(()),
        }),
    );
    let refused = site.ask(Operation::Update, "sys/rotate", "").unwrap_err();
    assert!(matches!(refused, Error::Unavailable(_)), "{refused:?}");
    assert!(records_under_old_keys(&site) > 300);
    let now = jiff::Timestamp::from_second(2_000_000_000).unwrap();
    assert!(pollster::block_on(site.core.run_due_jobs(now)).is_err());
    refuses.store(false, Ordering::Relaxed);
    pollster::block_on(site.core.run_due_jobs(now)).unwrap();
    assert_eq!(records_under_old_keys(&site), 0);
    // It has seen the end: there is nothing to start any more.
    refuses.store(true, Ordering::Relaxed);
    pollster::block_on(site.core.run_due_jobs(now)).unwrap();
    site.assert_holds("r/7", "value 7");
}

/// Together they are more than one batch holds.
#[test]
fn large_records_are_reencrypted_too() {
    let site = Site::open(1 << 20);
    let large = "x".repeat(700 << 10);
    (0..60).for_each(|n| site.put(&format!("large/{n}"), &large));
    let site = opened_again(&site, Reencrypting(|| Ok(())));
    site.ask(Operation::Update, "sys/rotate", "").unwrap();
    assert_eq!(records_under_old_keys(&site), 0);
    site.assert_holds("large/7", &large);
}

/// Damages two records on the disk, of which the view does not hear.
fn damage_two(store: &MemoryStore) {
    store.detach();
    let mut batch = Batch::new();
    let mut damaged = 0;
    let scanned = store.scan(&[], &mut |key, record| {
        if key[0] != 0 && damaged < 2 {
            let mut value = record.value.to_vec();
            *value.last_mut().unwrap() ^= 1;
            batch.put(key.to_vec(), value);
            damaged += 1;
        }
        Visit::Continue
    });
    scanned.unwrap();
    pollster::block_on(store.commit(batch)).unwrap();
}

#[test]
fn records_that_are_damaged_keep_no_others_from_being_reencrypted() {
    let site = Site::open(1 << 20);
    (0..300).for_each(|n| site.put(&format!("r/{n}"), &format!("value {n}")));
    let store = Arc::clone(&site.store);
    let damaging = Reencrypting(move || {
        damage_two(&store);
        Ok(())
    });
    let site = opened_again(&site, damaging);
    site.ask(Operation::Update, "sys/rotate", "").unwrap();
    assert_eq!(records_under_old_keys(&site), 2);
    let told = data_text(site.ask(Operation::Read, "sys/rotate/progress", "").unwrap());
    assert!(told.contains(r#""left":2"#) && told.contains(r#""damaged":2"#), "{told}");
    assert!(told.contains(r#""running":false"#), "{told}");
}

/// Every pair of a few records swapped below the barrier: nothing opens in another's place. A value is opened when it is
/// read; everything else, at an unseal.
#[test]
fn records_swapped_on_disk_are_refused() {
    const SECRETS: usize = 6;
    let site = Site::open(1 << 20);
    for n in 0..SECRETS {
        site.put(&format!("s/{n}"), &format!("value {n}"));
    }
    // The kind of a secret's records, and the number behind its name.
    let is_value = |key: &[u8]| key[0] == 0x11 && !key.ends_with(&[0; 8]);
    let records: Vec<_> = stored(&site).into_iter().filter(|(key, _)| key[0] != 0).collect();
    assert!(records.len() >= 12);
    pollster::block_on(site.core.seal()).unwrap();
    for one in 0..records.len() {
        for other in one + 1..records.len() {
            let swap = |a: usize, b: usize| {
                let mut batch = Batch::new();
                batch.put(records[a].0.clone(), records[b].1.clone());
                batch.put(records[b].0.clone(), records[a].1.clone());
                pollster::block_on(site.store.commit(batch)).unwrap();
            };
            swap(one, other);
            let body = format!(r#"{{"key":"{}"}}"#, site.keys[0]);
            let opened = site.ask(Operation::Update, "sys/unseal", &body);
            let values = [one, other].into_iter().filter(|&at| is_value(&records[at].0)).count();
            assert!(opened.is_err() || values > 0, "{one} and {other} changed places");
            if opened.is_ok() {
                let refused = (0..SECRETS).filter(|n| match site.get(&format!("s/{n}")) {
                    Ok(value) => {
                        assert!(value.contains(&format!("value {n}")), "{value}");
                        false
                    }
                    Err(_) => true,
                });
                assert_eq!(refused.count(), values, "{one} and {other} changed places");
                pollster::block_on(site.core.seal()).unwrap();
            }
            swap(one, one);
            swap(other, other);
        }
    }
    site.unseal();
}

/// A seal by a service that may not answer.
#[derive(Default)]
struct ServiceSeal {
    answers: AtomicBool,
}

impl AutoSeal for ServiceSeal {
    fn name(&self) -> &str {
        "service"
    }

    fn wrap(&self, key: &[u8]) -> Result<Vec<u8>, String> {
        Ok(key.to_vec())
    }

    fn unwrap(&self, wrapped: &[u8]) -> Result<zeroize::Zeroizing<Vec<u8>>, String> {
        match self.answers.load(Ordering::Acquire) {
            true => Ok(wrapped.to_vec().into()),
            false => Err("no answer".to_owned()),
        }
    }

    fn is_outdated(&self, _: &[u8]) -> bool {
        false
    }
}

#[test]
fn a_seal_that_did_not_open_after_an_initialisation_is_tried_again() {
    let seal = Arc::<ServiceSeal>::default();
    let core = sealed(Arc::default(), 1 << 20).with_auto_seal(Arc::clone(&seal) as _);
    assert!(!core.take_due_seal());
    let shares = r#"{"recovery_shares":1,"recovery_threshold":1}"#;
    assert!(ask(&core, Operation::Update, "sys/init", shares).is_ok());
    assert!(core.is_sealed());
    assert_eq!([core.take_due_seal(), core.take_due_seal()], [true, false]);
    seal.answers.store(true, Ordering::Release);
    pollster::block_on(core.auto_unseal()).unwrap();
    assert!(!core.is_sealed());
    assert!(!core.take_due_seal());
}

/// Otherwise whoever tries it again would take that for done.
#[test]
fn a_seal_is_not_done_while_the_cluster_that_was_joined_has_sent_nothing() {
    for has_seal in [true, false] {
        let seal = Arc::<ServiceSeal>::default();
        let site = member_site::Site::blank(Vec::new(), |core| match has_seal {
            true => core.with_auto_seal(seal as _),
            false => core,
        });
        let opened = pollster::block_on(site.core.auto_unseal());
        assert_eq!(matches!(opened, Err(Error::Unavailable(_))), has_seal, "{opened:?}");
        site.cluster.members.lock().unwrap().push(member_site::member(1, member_site::VOTER, None));
        let opened = pollster::block_on(site.core.auto_unseal());
        assert_eq!(opened, Ok(()), "a new server, which is to be initialised");
    }
}

#[test]
fn storage_of_a_seal_that_is_not_configured_says_which_is_missing() {
    let store: Arc<MemoryStore> = Arc::default();
    let seal = Arc::<ServiceSeal>::default();
    seal.answers.store(true, Ordering::Release);
    let core = sealed(Arc::clone(&store), 1 << 20).with_auto_seal(seal);
    let shares = r#"{"recovery_shares":1,"recovery_threshold":1}"#;
    let Ok(Response::Bare { body, .. }) = ask(&core, Operation::Update, "sys/init", shares) else {
        panic!("not initialised")
    };
    let keys = body.as_object().and_then(|body| body.get("recovery_keys"));
    let Some(Json::Array(keys)) = keys else { panic!("no shares") };
    let share = keys[0].as_str().unwrap().to_owned();
    drop(core);
    let core = sealed(store, 1 << 20);
    let wanted = "initialised with the seal service, and the configuration names none";
    let said = |refused: Error| match refused {
        Error::Invalid(why) => assert!(why.contains(wanted), "{why}"),
        other => panic!("{other:?}"),
    };
    said(pollster::block_on(core.auto_unseal()).unwrap_err());
    let body = format!(r#"{{"key":"{share}"}}"#);
    said(ask(&core, Operation::Update, "sys/unseal", &body).unwrap_err());
    assert!(core.is_sealed());
}
