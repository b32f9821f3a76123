//! What a cluster under faults must hold, and the means to see whether it does.
//!
//! `world` runs the servers' own store, Raft driver and engine on simulated wires, clocks and disks, from one seed: the same seed is the
//! same run, to the last message. `invariants` says what must hold, one file each. [`campaign`] runs many seeds and counts. [`history`] judges
//! what clients saw, of whatever made it: the simulated cluster or servers under real faults.
//!
//! ```text
//! campaign > world > server (store, disk, clock) . network . clients . faults
//!                  > invariants > oracle, history
//! ```
//!
//! Invariants:
//! - nothing here draws from anything but the seed's dice, reads a clock or starts a thread;
//! - what judges knows nothing of how the store works: [`history`] knows a register, the oracle a log of batches.
#![forbid(unsafe_code)]

pub mod campaign;
mod clients;
mod clock;
mod database;
mod disk;
mod estate;
mod figures;
pub mod history;
mod invariants;
mod mirror;
mod network;
mod oracle;
mod sabotage;
mod server;
mod site;
mod wire;
mod world;

pub use figures::Figures;
pub use sabotage::Sabotage;
