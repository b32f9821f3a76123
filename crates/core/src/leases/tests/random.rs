//! Random histories: operations, moods of the far end and crashes between any two commits.

use kallisto_auth::Operation::Update;
use kallisto_leases::LeasePhase;

use super::engine::Mood;
use super::site::{ROOT, Site};

const SEEDS: u64 = 12;
const STEPS: usize = 150;
const MOODS: [Mood; 6] =
    [Mood::Healthy, Mood::Healthy, Mood::Healthy, Mood::Fails, Mood::Lies, Mood::Hangs];

/// One history; what holds is checked after each step, and at the end what was to go is gone.
fn run(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut site = Site::open();
    let mut tokens = vec![ROOT.to_owned()];
    let mut told: Vec<(String, String)> = Vec::new();
    let mut now = 0;
    for _ in 0..STEPS {
        now += random.i64(0..20);
        site.far_end.set(*random.choice(&MOODS).unwrap());
        if random.u8(..8) == 0 {
            site.cut_power_after(random.u64(..4));
        }
        let token = random.choice(&tokens).unwrap().clone();
        match random.u8(..10) {
            0..=3 => {
                let role = *random.choice(["r", "short", "r2"]).as_ref().unwrap();
                told.extend(site.make(&token, now, role));
            }
            4 => tokens.extend(site.token(&token, r#"{"policies":["root"]}"#)),
            5 if token != ROOT => {
                let body = format!(r#"{{"token":"{token}"}}"#);
                let _ = site.ask(now, Update, "auth/token/revoke", &body);
            }
            6 => {
                if let Some((id, _)) = random.choice(&told) {
                    let body = format!(r#"{{"lease_id":"{id}","sync":{}}}"#, random.bool());
                    let _ = site.ask(now, Update, "sys/leases/revoke", &body);
                }
            }
            7 => {
                if let Some((id, _)) = random.choice(&told) {
                    let body = format!(r#"{{"lease_id":"{id}","increment":"1h"}}"#);
                    let _ = site.ask(now, Update, "sys/leases/renew", &body);
                }
            }
            8 if random.u8(..4) == 0 => {
                let _ = site.ask(now, Update, "sys/leases/revoke-prefix/far/creds/r", "");
            }
            _ => site.tick(now),
        }
        site.check();
        if site.store_is_dead() || random.u8(..20) == 0 {
            site.restart();
            site.check();
        }
    }
    end(&mut site, now, &told);
}

/// A healthy far end, an operator's word, and time enough for everything to end.
fn end(site: &mut Site, now: i64, told: &[(String, String)]) {
    site.restart();
    site.settle(now + 1000);
    site.ask(now + 2000, Update, "sys/leases/tidy", "").unwrap();
    site.settle(now + 2000);
    site.check();
    let records = site.records();
    assert!(records.iter().all(|record| record.state.phase() == LeasePhase::Live));
    // Every lease that is left has its user, and was told to a client.
    let users = site.far_end.users();
    assert_eq!(users.len(), records.len());
    for record in &records {
        assert!(told.iter().any(|(id, _)| id == record.id.as_str()));
        let live = site.core.view().unwrap();
        let owner = record.owner.unwrap();
        let last = jiff::Timestamp::from_second(now + 2700).unwrap();
        assert!(live.tokens.lives(&owner.hash, last), "a lease outlived its token");
    }
    site.settle(now + 200_000);
    assert!(site.records().is_empty() && site.far_end.users().is_empty());
}

#[test]
fn no_user_is_without_a_record_and_every_ended_lease_ends_its_user() {
    for seed in 0..SEEDS {
        run(20_261_123 + seed);
    }
}
