//! Seals that open by themselves: a key in a file or the environment, and another server's transit
//! engine.

mod static_key;
mod transit;

pub(super) use static_key::{SealKey, StaticKeySeal};
pub(super) use transit::{TransitSettings, TransitUnsealer};
