//! What a run did, in numbers that a person can hold against each other.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// What runs did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Seeds.
    pub seeds: u64,
    /// Time that passed in the simulation.
    pub simulated: Duration,
    /// Events: messages that came, turns of servers, steps of clients, faults.
    pub events: u64,
    /// Messages that were sent.
    pub messages: u64,
    /// Messages that came.
    pub delivered: u64,
    /// Faults, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Operations of which nothing came, and those whose end the client does not know.
    pub refused: u64,
    /// See [`Self::refused`].
    pub unknown: u64,
    /// Reads through a majority, and from any server.
    pub linear_reads: u64,
    /// See [`Self::linear_reads`].
    pub local_reads: u64,
    /// Tokens that were made, requests that bore one and were let in, and those that were not.
    pub tokens: u64,
    /// See [`Self::tokens`].
    pub borne: u64,
    /// See [`Self::tokens`].
    pub turned_away: u64,
    /// Wrapped answers that were opened, and logins by an id of few uses.
    pub single_uses: u64,
    /// Credentials with leases that were made.
    pub credentials: u64,
    /// Terms that had a leader.
    pub leaders: u64,
    /// Snapshots that were taken in.
    pub snapshots: u64,
    /// Fetches of snapshots that went on where one broke off.
    pub resumed: u64,
    /// Times that a server's whole state was compared.
    pub compared: u64,
}

impl Figures {
    /// Counts a fault.
    pub(crate) fn fault(&mut self, kind: &'static str) {
        *self.faults.entry(kind).or_default() += 1;
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.simulated += other.simulated;
        self.events += other.events;
        self.messages += other.messages;
        self.delivered += other.delivered;
        for (kind, count) in &other.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.linear_reads += other.linear_reads;
        self.local_reads += other.local_reads;
        self.tokens += other.tokens;
        self.borne += other.borne;
        self.turned_away += other.turned_away;
        self.single_uses += other.single_uses;
        self.credentials += other.credentials;
        self.leaders += other.leaders;
        self.snapshots += other.snapshots;
        self.resumed += other.resumed;
        self.compared += other.compared;
    }

    /// Lines for a person.
    #[must_use]
    pub fn tell(&self) -> String {
        let hours = self.simulated.as_secs_f64() / 3600.0;
        let mut text = format!(
            "{} seeds, {hours:.2} simulated hours, {} events, {} messages sent, {} delivered\n\
             {} writes acknowledged, {} refused, {} of unknown outcome, {} linearizable reads, {} reads anywhere\n\
             {} leaders, {} snapshots taken in, {} fetches resumed, {} states compared, {} credentials\nfaults:",
            self.seeds,
            self.events,
            self.messages,
            self.delivered,
            self.acknowledged,
            self.refused,
            self.unknown,
            self.linear_reads,
            self.local_reads,
            self.leaders,
            self.snapshots,
            self.resumed,
            self.compared,
            self.credentials,
        );
        for (kind, count) in &self.faults {
            // Writing to a String cannot fail.
            let _ = write!(text, " {kind} {count},");
        }
        text.pop();
        text
    }

    /// A row of the ledger.
    #[must_use]
    pub fn row(&self, date: &str, first: u64) -> String {
        format!(
            "| {date} | {first}..{} | {:.2} | {} | {} | {} | {} | {} | {} |",
            first + self.seeds,
            self.simulated.as_secs_f64() / 3600.0,
            self.events,
            self.faults.values().sum::<u64>(),
            self.acknowledged,
            self.unknown,
            self.leaders,
            self.snapshots,
        )
    }
}
