//! A table with less memory than the secrets need: slower, never wrong.

use std::sync::atomic::{AtomicBool, Ordering};

use kallisto_core::{Error, Operation};

use crate::support::Site;

const BUDGET: usize = 64 << 10;
const SECRETS: usize = 3000;

fn filled() -> Site {
    let site = Site::open(BUDGET);
    for n in 0..SECRETS {
        site.put(&format!("app/{n}"), &format!("value {n}"));
    }
    site
}

#[test]
fn secrets_that_left_the_table_are_read_from_the_store_and_come_back() {
    let site = filled();
    let view = site.core.view().unwrap();
    assert!(view.evicted() > SECRETS / 2, "{} evicted", view.evicted());
    for n in 0..SECRETS {
        site.assert_holds(&format!("app/{n}"), &format!("value {n}"));
    }
    // What was read twice lately is in memory: reading it again evicts nothing.
    let evicted = view.evicted();
    for _ in 0..3 {
        for n in 0..20 {
            site.assert_holds(&format!("app/{n}"), &format!("value {n}"));
        }
    }
    assert!(view.evicted() - evicted < 100, "{} evicted", view.evicted() - evicted);
}

#[test]
fn cold_secrets_are_overwritten_deleted_and_listed_like_any_other() {
    let site = filled();
    for n in (0..SECRETS).step_by(7) {
        site.put(&format!("app/{n}"), "new");
    }
    for n in (0..SECRETS).step_by(7) {
        site.assert_holds(&format!("app/{n}"), "new");
    }
    for n in (1..SECRETS).step_by(7) {
        site.ask(Operation::Delete, &format!("secret/metadata/app/{n}"), "").unwrap();
    }
    for n in (1..SECRETS).step_by(7) {
        assert_eq!(site.get(&format!("app/{n}")), Err(Error::NotFound));
    }
    for n in (2..SECRETS).step_by(7) {
        site.assert_holds(&format!("app/{n}"), &format!("value {n}"));
    }
}

#[test]
fn a_table_under_its_budget_survives_a_seal() {
    let site = filled();
    pollster::block_on(site.core.seal()).unwrap();
    assert_eq!(site.get("app/1"), Err(Error::Sealed));
    site.unseal();
    for n in 0..SECRETS {
        site.assert_holds(&format!("app/{n}"), &format!("value {n}"));
    }
    assert!(site.core.view().unwrap().evicted() > SECRETS / 2);
}

/// A reader that takes a cold secret back while it is overwritten must never put the old one there:
/// after each acknowledged write, reads see it or something newer.
#[test]
fn an_offer_never_brings_an_old_version_back() {
    const ROUNDS: usize = 20_000;
    const HOT: usize = 8;
    let site = filled();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (site, done) = (&site, &done);
            scope.spawn(move || {
                // Reads of everything keep pushing the contested ones out.
                for n in (0..SECRETS).cycle().skip(reader * SECRETS / 2) {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    site.get(&format!("app/{n}")).unwrap();
                    site.get(&format!("app/{}", n % HOT)).unwrap();
                }
            });
        }
        for round in 0..ROUNDS {
            let path = format!("app/{}", round % HOT);
            site.put(&path, &format!("round {round}"));
            site.assert_holds(&path, &format!("round {round}"));
        }
        done.store(true, Ordering::Relaxed);
    });
}
