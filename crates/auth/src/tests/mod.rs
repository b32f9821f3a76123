//! The decision against an oracle, against what broke elsewhere, and in the cases of the contract.

mod attacks;
mod caseless;
mod contract;
mod naive;
mod oracle;
mod patterns;

use std::sync::Arc;

use jiff::Timestamp;

use crate::{
    AclSet, Capability, Literal, NoIdentity, Operation, Path, Policy, PolicyName, Subject,
    TemplateSubject,
};

/// Reads policies named `p0`, `p1`, ...
pub(crate) fn policies(texts: &[impl AsRef<str>]) -> Vec<Arc<Policy>> {
    let read = |(number, text): (usize, &str)| {
        let name = PolicyName::parse(&format!("p{number}")).unwrap();
        let policy = Policy::parse(name, text);
        Arc::new(policy.unwrap_or_else(|error| panic!("{error} in {text}")))
    };
    texts.iter().map(AsRef::as_ref).enumerate().map(read).collect()
}

/// Compiles policies for a caller without an entity.
pub(crate) fn set(texts: &[impl AsRef<str>]) -> AclSet {
    set_for(texts, &NoIdentity)
}

/// Compiles policies for `identity`.
pub(crate) fn set_for(texts: &[impl AsRef<str>], identity: &dyn TemplateSubject) -> AclSet {
    AclSet::compile(&policies(texts), identity, Timestamp::UNIX_EPOCH)
}

/// A request that a test asks about.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) path: Path<'static>,
    pub(crate) capability: Capability,
    pub(crate) needs_sudo: bool,
    pub(crate) wrap_secs: Option<u64>,
    pub(crate) page: Option<u64>,
    pub(crate) caseless: Option<&'static str>,
    pub(crate) parameters: Option<Vec<(String, Literal)>>,
}

impl Ask {
    pub(crate) fn new(capability: Capability, path: &str) -> Self {
        let path = Path::decode(&path.replace('%', "%25")).map(Path::into_owned);
        Self {
            path: path.unwrap(),
            capability,
            needs_sudo: false,
            wrap_secs: None,
            page: None,
            caseless: None,
            parameters: None,
        }
    }

    pub(crate) fn with(mut self, name: &str, value: Literal) -> Self {
        self.parameters.get_or_insert_default().push((name.to_owned(), value));
        self
    }
}

impl Subject for Ask {
    fn operation(&self) -> Operation {
        match self.capability {
            Capability::List => Operation::List,
            Capability::Scan => Operation::Scan,
            Capability::Read => Operation::Read,
            Capability::Delete => Operation::Delete,
            Capability::Patch => Operation::Patch,
            _ => Operation::Update,
        }
    }

    fn path(&self) -> &Path<'_> {
        &self.path
    }

    fn caseless_path(&self) -> Option<&str> {
        self.caseless
    }

    fn capability(&self) -> Capability {
        self.capability
    }

    fn needs_sudo(&self) -> bool {
        self.needs_sudo
    }

    fn wrap_ttl(&self) -> Option<std::time::Duration> {
        self.wrap_secs.map(std::time::Duration::from_secs)
    }

    fn page_entries(&self) -> Option<u64> {
        self.page
    }

    fn parameters(&self) -> Option<Vec<(String, Literal)>> {
        self.parameters.clone()
    }
}

/// Draws for tests: small, seeded, the same everywhere.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) % end as u64) as usize
    }

    pub(crate) fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}
