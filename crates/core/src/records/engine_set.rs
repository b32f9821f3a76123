//! The engines that know the server by the contract alone, as the program was put together.
//!
//! The core names none of them. The program says once, before it makes a core, which there are; whoever asks before that has made a mistake
//! that no request can make, and the process ends with a word about it.

use std::sync::OnceLock;

use kallisto_engine::EngineSpec;

/// Engines and login methods.
#[derive(Clone, Copy)]
pub struct EngineSet {
    /// Those that operators mount, and those that every namespace has, in any order.
    pub engines: &'static [&'static [&'static EngineSpec]],
    /// What is at `identity/oidc/`: a part of the engine at `identity/`.
    pub identity_oidc: &'static EngineSpec,
}

static ENGINES: OnceLock<EngineSet> = OnceLock::new();

/// Says which engines there are in this process. The first word counts: a mount's record names its engine, and what it names must not change.
pub fn set_engines(engines: EngineSet) {
    let _ = ENGINES.set(engines);
}

/// Which engines there are.
///
/// # Panics
/// When nobody said so.
#[cfg(not(test))]
pub(crate) fn engine_set() -> &'static EngineSet {
    ENGINES.get().expect("kallisto_core::set_engines is called before a core is made")
}

/// Which engines there are: the server's, and those of tests.
#[cfg(test)]
pub(crate) fn engine_set() -> &'static EngineSet {
    const OF_TESTS: &[&EngineSpec] =
        &[&crate::engines::test_engine::ENGINE, &crate::leases::tests::engine::ENGINE];
    ENGINES.get_or_init(|| EngineSet {
        engines: &[kallisto_engines::ENGINES, kallisto_auth_methods::METHODS, OF_TESTS],
        identity_oidc: &kallisto_engines::IDENTITY_OIDC,
    })
}
