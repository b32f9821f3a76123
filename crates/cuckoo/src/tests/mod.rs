//! Tests of the table as a whole: what it promises, against the obvious twin (`twin`), under
//! threads (`stress`), under floods (`flood`), and when memory is freed (`lifetime`). Every
//! interleaving of the protocols, within bounds, is `interleavings`, under `--cfg loom`.

#[cfg(not(loom))]
mod flood;
#[cfg(loom)]
mod interleavings;
#[cfg(not(loom))]
mod lifetime;
#[cfg(not(loom))]
mod load;
#[cfg(not(loom))]
mod stress;
#[cfg(not(loom))]
mod twin;
