//! What is said of a key besides its versions. Plain values; `key` decides which go together.

/// Whether a caller's context makes a key of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Derivation {
    /// The version's key is used as it is.
    #[default]
    None,
    /// A key is derived for each context.
    ByContext(Kdf),
    /// The same, and equal plaintexts in equal contexts have equal ciphertexts.
    Convergent,
}

/// How a context's key is derived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kdf {
    /// HKDF-SHA-256 (RFC 5869), for keys that are made here.
    #[default]
    HkdfSha256,
    /// HMAC-SHA-256 in counter mode (NIST SP 800-108): what Vault and OpenBao use for derived keys that are imported.
    HmacSha256Counter,
}

impl Kdf {
    /// The function with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::HkdfSha256, Self::HmacSha256Counter].into_iter().find(|kdf| kdf.name() == name)
    }

    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HkdfSha256 => "hkdf_sha256",
            Self::HmacSha256Counter => "hmac-sha256-counter",
        }
    }
}

impl Derivation {
    /// How keys are derived, if they are.
    #[must_use]
    pub const fn kdf(self) -> Option<Kdf> {
        match self {
            Self::None => None,
            Self::ByContext(kdf) => Some(kdf),
            Self::Convergent => Some(Kdf::HkdfSha256),
        }
    }
}

/// Where a key's versions came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyOrigin {
    /// They were made here.
    #[default]
    Made,
    /// They were brought from elsewhere, and this server makes none.
    Imported,
    /// The latest was brought from elsewhere, and this server may make the next.
    ImportedRotatable,
}

/// A thing that happened to a key once: when, and what the latest version was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds since 1970.
    pub at_ns: i64,
    /// The latest version then.
    pub version: u32,
}

/// What may be changed of a key, and what is noted of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySettings {
    /// Whether the key may be deleted.
    pub deletion_allowed: bool,
    /// Whether its material may leave; once set it stays.
    pub exportable: bool,
    /// Whether a backup in the clear may be made; once set it stays.
    pub allow_plaintext_backup: bool,
    /// Set aside: kept, and refused for every use.
    pub soft_deleted: bool,
    /// The oldest version that decrypts and verifies; from 1.
    pub min_decryption_version: u32,
    /// The oldest version that encrypts and signs when asked for by number; 0 for any.
    pub min_encryption_version: u32,
    /// The oldest version that is kept; 0 until some were trimmed.
    pub min_available_version: u32,
    /// After how many seconds the key should be rotated; 0 for never.
    pub auto_rotate_secs: u64,
    /// Where the versions came from.
    pub origin: KeyOrigin,
    /// The last backup.
    pub backup: Option<Stamp>,
    /// The restore that made this key.
    pub restore: Option<Stamp>,
}

impl Default for KeySettings {
    fn default() -> Self {
        Self {
            deletion_allowed: false,
            exportable: false,
            allow_plaintext_backup: false,
            soft_deleted: false,
            min_decryption_version: 1,
            min_encryption_version: 0,
            min_available_version: 0,
            auto_rotate_secs: 0,
            origin: KeyOrigin::Made,
            backup: None,
            restore: None,
        }
    }
}
