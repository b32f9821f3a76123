//! What a server does for its engines, done by a mount of tests: records, passwords, random bytes, leases, people.

use std::sync::atomic::Ordering;

use jiff::Timestamp;
use kallisto_api::{BoxFuture, Denial, Error, Logical, Response};
use kallisto_engine::context::{LongWork, WorkResult};
use kallisto_engine::lease::{IsRevocation, Make};
use kallisto_engine::storage::Latch;
use kallisto_engine::{
    Backend, Heavy, KeyedHash, Leases, Leftover, MadeCredential, MakeFailure, NewLease, Outbound,
    OutboundAnswer, OutboundCall, Passwords, People, Profile, Random, Stored, TemplateValues,
    Version, WriteOutcome, Writes,
};

use super::{MOUNT, TestMount};

/// Records that are written whole though they were read, by engine: sessions with a broker go on as they are while another connection is
/// tried.
const WRITTEN_WHOLE: [(&str, &str); 1] = [("rabbitmq", "config/connection")];

impl TestMount {
    /// A record that was read is written on the condition that it is still the same, or two writes at once lose one.
    fn check_depends_on_what_was_read(&self, writes: &Writes) {
        let read = self.read.lock().unwrap();
        for (name, _) in &writes.puts {
            let depends = writes.reads.iter().any(|(read, _)| read == name)
                || WRITTEN_WHOLE.contains(&(self.spec.name, name));
            assert!(depends || !read.contains(name), "{name} is read and written without transact");
        }
    }
}

impl Backend for TestMount {
    fn get(&self, name: &str) -> Result<Option<Stored>, Error> {
        self.read.lock().unwrap().insert(name.to_owned());
        let records = self.records.lock().unwrap();
        let found = records.get(name);
        Ok(found.map(|(version, value)| Stored::new(value.clone().into(), Version(*version))))
    }

    fn list(&self, folder: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        let records = self.records.lock().unwrap();
        let below = records.keys().filter_map(|name| name.strip_prefix(folder));
        let mut names: Vec<&str> =
            below.filter_map(|name| name.split_inclusive('/').next()).collect();
        names.sort_unstable();
        names.dedup();
        let later = names.into_iter().filter(|name| after.is_none_or(|after| *name > after));
        later.take(limit).map(str::to_owned).collect()
    }

    fn scan(&self, folder: &str, limit: usize) -> Vec<String> {
        let records = self.records.lock().unwrap();
        let below = records.keys().filter_map(|name| name.strip_prefix(folder));
        below.take(limit).map(str::to_owned).collect()
    }

    fn commit(&self, writes: Writes) -> BoxFuture<'_, Result<WriteOutcome, Error>> {
        self.check_depends_on_what_was_read(&writes);
        self.others_act(&self.before_commit);
        let mut records = self.records.lock().unwrap();
        let is_same = |(name, version): &(String, Version)| {
            records.get(name).map_or(0, |(version, _)| *version) == version.0
        };
        if writes.needs_caller && self.is_caller_gone.load(Ordering::Relaxed) {
            return Box::pin(std::future::ready(Err(Error::Denied(Denial::BadToken))));
        }
        let outcome = if writes.reads.iter().all(is_same) {
            for (name, value) in writes.puts {
                let next = self.next.load(Ordering::Relaxed) + 1;
                let mut written = self.written.lock().unwrap();
                *written = (written.0 + 1, written.1 + value.len());
                if let Some(memory) = &self.memory {
                    assert!(memory.put(&name, &value), "{name} is damaged");
                }
                records.insert(name, (next, value));
                self.next.store(next, Ordering::Relaxed);
            }
            for name in writes.deletes {
                records.remove(&name);
                if let Some(memory) = &self.memory {
                    memory.remove(&name);
                }
            }
            WriteOutcome::Committed
        } else {
            WriteOutcome::Conflict
        };
        Box::pin(std::future::ready(Ok(outcome)))
    }

    fn latch<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Latch<'a>> {
        Box::pin(std::future::ready(Box::new(()) as Latch<'a>))
    }
}

impl Passwords for TestMount {
    fn make(&self, policy: &str) -> Result<String, Error> {
        Ok(format!("by-{policy}"))
    }
}

/// Bytes that count up, and then look random: the same in every run.
impl Random for TestMount {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Error> {
        let mut drawn = self.drawn.lock().unwrap();
        for byte in bytes {
            *drawn += 1;
            let mixed = drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            *byte = if *drawn < 256 { *drawn } else { mixed >> 56 } as u8;
        }
        Ok(())
    }
}

/// Each lease lives as long as the mount says.
impl Leases for TestMount {
    fn issue<'a>(
        &'a self,
        lease: NewLease,
        make: Make<'a>,
    ) -> BoxFuture<'a, Result<Response, Error>> {
        let asked = {
            let mut leased = self.leased.lock().unwrap();
            leased.1.push(lease.revocation);
            leased.0
        };
        let ends = asked + i64::try_from(MOUNT.default_lease_secs).unwrap();
        Box::pin(async move {
            self.others_act(&self.beside_lease);
            let made = make(Timestamp::from_second(ends).unwrap()).await;
            {
                let leased = &mut self.leased.lock().unwrap().1;
                match &made {
                    Ok(MadeCredential { revocation: Some(revocation), .. })
                    | Err(MakeFailure { left: Leftover::Only(revocation), .. }) => {
                        *leased.last_mut().unwrap() = revocation.clone();
                    }
                    Err(MakeFailure { left: Leftover::Nothing, .. }) => drop(leased.pop()),
                    _ => {}
                }
            }
            let made = made.map_err(|failure| failure.error)?;
            Ok(Response::Logical(Logical {
                data: made.data.to_text(),
                warnings: made.warnings,
                ..Logical::default()
            }))
        })
    }

    fn any<'a>(&'a self, is_it: IsRevocation<'a>) -> BoxFuture<'a, Result<bool, Error>> {
        let found = self.leased.lock().unwrap().1.iter().any(|revocation| is_it(revocation));
        self.others_act(&self.beside_lease);
        Box::pin(async move { Ok(found) })
    }
}

impl TemplateValues for TestMount {
    fn value(&self, name: &str) -> Option<String> {
        self.identity.lock().unwrap().get(name).cloned()
    }
}

impl Heavy for TestMount {
    fn run(&self, work: LongWork) -> BoxFuture<'_, Result<WorkResult, Error>> {
        if self.is_waiting.load(Ordering::Relaxed) {
            return Box::pin(std::future::pending());
        }
        self.others_act(&self.meanwhile);
        Box::pin(std::future::ready(Ok(work())))
    }
}

impl People for TestMount {
    fn person(&self, entity_id: &str) -> Option<Profile> {
        self.people.lock().unwrap().get(entity_id).cloned()
    }
}

/// No other server answers.
impl Outbound for TestMount {
    fn call(&self, _: OutboundCall) -> BoxFuture<'_, Result<OutboundAnswer, Error>> {
        Box::pin(std::future::ready(Err(Error::Unavailable("no server is reached".into()))))
    }
}

/// What begins with the text.
impl KeyedHash for TestMount {
    fn hash(&self, text: &str) -> Result<[u8; 32], Error> {
        let mut hash = [0; 32];
        for (place, byte) in hash.iter_mut().zip(text.bytes()) {
            *place = byte;
        }
        Ok(hash)
    }
}
