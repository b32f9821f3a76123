//! Reads while a token with many children is revoked.
//!
//! A few connections read at a steady pace; a read's time counts from when it was due, so that a
//! stall is felt by every read it delays and not by one.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;

use super::fill::{PARENT, secret};
use super::served::{RootConnection, ServedProcess};
use super::{ScalePlan, clock};

/// Connections that read.
const READERS: usize = 4;
/// A connection's time between two reads.
const PACE: Duration = Duration::from_millis(1);
/// How long reads go on before the revocation.
const QUIET: Duration = Duration::from_secs(2);
/// Longest latency told apart, in nanoseconds: a minute.
const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// Phases of the measurement.
const BEFORE: u8 = 0;
const DURING: u8 = 1;
const OVER: u8 = 2;

/// What the readers saw.
pub(super) struct ReadFigures {
    /// Latencies before the revocation, in nanoseconds.
    pub(super) before: Histogram<u64>,
    /// And while it ran.
    pub(super) during: Histogram<u64>,
    /// What the revocation took.
    pub(super) revocation: Duration,
    /// Tokens it ended, by the server's own count.
    pub(super) ended: u64,
}

/// Revokes the parent and measures reads meanwhile.
pub(super) fn while_revoking(
    server: &ServedProcess,
    plan: ScalePlan,
) -> Result<ReadFigures, String> {
    let phase = AtomicU8::new(BEFORE);
    let address = server.address;
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                let phase = &phase;
                scope.spawn(move || read_on(address, reader, plan, phase))
            })
            .collect();
        let revoked = revoke(address, &phase);
        phase.store(OVER, Ordering::Relaxed);
        let (mut before, mut during) = (histogram()?, histogram()?);
        for reader in readers {
            let (quiet, loud) = reader.join().map_err(|_| "a reader panicked".to_owned())??;
            before.add(quiet).map_err(|error| error.to_string())?;
            during.add(loud).map_err(|error| error.to_string())?;
        }
        let (revocation, ended) = revoked?;
        Ok(ReadFigures { before, during, revocation, ended })
    })
}

fn histogram() -> Result<Histogram<u64>, String> {
    Histogram::new_with_max(LATENCY_MAX_NS, 3).map_err(|error| error.to_string())
}

/// Waits, revokes, and says how long that took and how many tokens it ended.
fn revoke(address: SocketAddr, phase: &AtomicU8) -> Result<(Duration, u64), String> {
    let mut wire = RootConnection::connect(address)?;
    let tokens = count(&mut wire)?;
    std::thread::sleep(QUIET);
    phase.store(DURING, Ordering::Relaxed);
    let begin = clock();
    let body = format!("{{\"token\":\"{PARENT}\"}}");
    let (status, _) = wire.send("POST", "auth/token/revoke", &body)?;
    let took = clock() - begin;
    phase.store(OVER, Ordering::Relaxed);
    if status != 204 {
        return Err(format!("the revocation was answered with {status}"));
    }
    let left = count(&mut wire)?;
    Ok((took, tokens.saturating_sub(left)))
}

/// The live tokens, by the server's own count.
fn count(wire: &mut RootConnection) -> Result<u64, String> {
    let (status, body) = wire.send("GET", "sys/internal/counters/tokens", "")?;
    let digits = std::str::from_utf8(body).ok().and_then(|text| {
        let (_, rest) = text.split_once("\"total\":")?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    });
    digits.ok_or_else(|| format!("the tokens were not counted: status {status}"))
}

/// Reads secrets at the set pace until it is over: latencies before and during.
fn read_on(
    address: SocketAddr,
    reader: usize,
    plan: ScalePlan,
    phase: &AtomicU8,
) -> Result<(Histogram<u64>, Histogram<u64>), String> {
    let mut wire = RootConnection::connect(address)?;
    let mut order = fastrand::Rng::with_seed(reader as u64);
    let (mut before, mut during) = (histogram()?, histogram()?);
    let mut due = clock();
    loop {
        let at = phase.load(Ordering::Relaxed);
        let into = match at {
            BEFORE => &mut before,
            DURING => &mut during,
            _ => return Ok((before, during)),
        };
        std::thread::sleep(due.saturating_duration_since(clock()));
        let path = secret(order.u64(..plan.secrets));
        let (status, _) = wire.send("GET", &path, "")?;
        if status != 200 {
            return Err(format!("a read was answered with {status}"));
        }
        let took = clock().saturating_duration_since(due);
        into.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(LATENCY_MAX_NS));
        due += PACE;
    }
}
