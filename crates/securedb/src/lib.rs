//! An embedded, encrypted, crash-safe store: names and values, one directory, one key, no server.
//!
//! ```
//! # fn main() -> Result<(), kallisto_securedb::Error> {
//! # let dir = std::env::temp_dir().join(format!("kallisto-securedb-doc-{}", std::process::id()));
//! use kallisto_securedb::SecureDb;
//!
//! let key: [u8; 32] = std::array::from_fn(|n| n as u8); // from a keeper of keys, not from a formula
//! let db = SecureDb::open(&dir, &key)?;
//! db.insert("team/app/db-password", b"hunter2")?;
//! assert_eq!(db.get("team/app/db-password")?.unwrap().as_slice(), b"hunter2");
//! db.close()?;
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok(())
//! # }
//! ```
//!
//! It is `kallisto-lsm` below `kallisto-barrier`, and an index of the names in memory. On the disk a record's key is a hash of its
//! name under a secret key, its value a sealed envelope bound to that place: the files show how many records there are
//! and how long, no name and no value. The order of names, which hashing destroys, is the index's; it is built when the store
//! is opened, by opening every record once.
//!
//! Invariants:
//! - A wrong key is told before anything but the file of keys is opened, and nothing is written.
//! - A record opens under its own name only; what is stored inside says the name, too, and must agree.
//! - What [`SecureDb::insert`] and its kin acknowledged is on the disk if the store is [`WriteDurability::Strict`], and after
//!   [`SecureDb::flush`] in any case.
//! - The keyring on the disk holds every key that any record is under: it is stored before a new key is used, and a key is
//!   dropped only after a pass that left no record under it.
#![forbid(unsafe_code)]

mod batch;
mod db;
mod error;
mod keys;
mod options;
mod record;

pub use batch::WriteBatch;
pub use db::{DbScan, DbStats, Reencrypted, SecureDb};
pub use error::{Error, Result};
pub use kallisto_barrier::KeyVersion;
pub use kallisto_index::{PATH_BYTES_MAX as NAME_BYTES_MAX, SEGMENTS_MAX as NAME_SEGMENTS_MAX};
pub use options::{DbOptions, WriteDurability};
pub use record::VALUE_BYTES_MAX;
