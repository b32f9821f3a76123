//! Which engines there are, as the record of a mount names them. What drives each is in [`crate::registry`].

use std::fmt;

use kallisto_engine::{Class, EngineJob, EngineSpec, Multiplicity};

use super::engine_set::engine_set;
use crate::storage::keys::MountId;

/// The engine behind a mount.
#[derive(Clone, Copy)]
pub struct EngineKind(EngineSource);

/// Where an engine is from.
#[derive(Clone, Copy)]
pub(crate) enum EngineSource {
    /// It is a part of the server.
    Server(ServerEngineKind),
    /// It knows the server by the contract alone.
    Contract(&'static EngineSpec),
}

/// The engines that are parts of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerEngineKind {
    /// What is at `sys/`.
    System,
    /// Entities and groups.
    Identity,
    /// Tokens.
    Token,
    /// Key-value secrets.
    Kv(KvState),
}

/// How the secrets of a key-value engine are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KvState {
    /// Without versions.
    V1,
    /// With versions.
    V2,
    /// On their way from the one to the other.
    Upgrading,
}

/// What every engine says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EngineFacts {
    /// In the record of a mount.
    pub(crate) stored: &'static str,
    /// On the wire.
    pub(crate) name: &'static str,
    pub(crate) class: Class,
    pub(crate) multiplicity: Multiplicity,
    /// The folders whose names are compared without case.
    pub(crate) caseless_folders: &'static [&'static str],
    /// Whether space around such a name is none of it.
    pub(crate) trims_names: bool,
    /// Where every namespace has it, if the server itself mounts it.
    pub(crate) builtin: Option<BuiltinKind>,
    /// Whether a path inside a mount may end in a slash: an engine that keeps secrets by path knows folders.
    pub(crate) has_folders: bool,
}

/// Where every namespace has an engine from the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuiltinKind {
    pub(crate) id: MountId,
    /// Its path, with an ending slash.
    pub(crate) path: &'static str,
    /// For people.
    pub(crate) description: &'static str,
}

impl BuiltinKind {
    /// That of an engine of the contract.
    const fn of(mount: kallisto_engine::BuiltinMount) -> Self {
        Self { id: MountId(mount.number), path: mount.path, description: mount.description }
    }
}

impl EngineFacts {
    /// An engine that operators mount.
    const fn mountable(name: &'static str, class: Class) -> Self {
        Self {
            stored: name,
            name,
            class,
            multiplicity: Multiplicity::Any,
            caseless_folders: &[],
            trims_names: false,
            builtin: None,
            has_folders: false,
        }
    }

    /// An engine that the server itself mounts.
    const fn builtin(name: &'static str, class: Class, mount: BuiltinKind) -> Self {
        let multiplicity = Multiplicity::Builtin;
        Self { multiplicity, builtin: Some(mount), ..Self::mountable(name, class) }
    }
}

impl ServerEngineKind {
    const ALL: [Self; 6] = [
        Self::System,
        Self::Identity,
        Self::Kv(KvState::V1),
        Self::Kv(KvState::V2),
        Self::Kv(KvState::Upgrading),
        Self::Token,
    ];

    fn facts(self) -> EngineFacts {
        match self {
            Self::System => EngineFacts {
                caseless_folders: &[
                    "policies/acl/",
                    "policy/",
                    "config/ui/headers/",
                    "config/auditing/request-headers/",
                    "locked-users/",
                ],
                ..EngineFacts::builtin(
                    "system",
                    Class::Secret,
                    BuiltinKind {
                        id: MountId::SYSTEM,
                        path: "sys/",
                        description: "system endpoints used for control, policy and debugging",
                    },
                )
            },
            Self::Identity => EngineFacts {
                caseless_folders: &["entity/name/", "group/name/"],
                trims_names: true,
                ..EngineFacts::builtin(
                    "identity",
                    Class::Secret,
                    BuiltinKind {
                        id: MountId::IDENTITY,
                        path: "identity/",
                        description: "identity store",
                    },
                )
            },
            Self::Token => EngineFacts::builtin(
                "token",
                Class::Auth,
                BuiltinKind {
                    id: MountId::TOKEN,
                    path: "auth/token/",
                    description: "token based credentials",
                },
            ),
            Self::Kv(state) => EngineFacts {
                stored: match state {
                    KvState::V1 => "kv-v1",
                    KvState::V2 => "kv-v2",
                    KvState::Upgrading => "kv-upgrading",
                },
                has_folders: true,
                ..EngineFacts::mountable("kv", Class::Secret)
            },
        }
    }
}

impl EngineKind {
    /// What is at `sys/`.
    pub(crate) const SYSTEM: Self = Self::of_server(ServerEngineKind::System);
    /// Key-value secrets without versions.
    pub const KV_V1: Self = Self::of_server(ServerEngineKind::Kv(KvState::V1));
    /// Key-value secrets with versions.
    pub const KV_V2: Self = Self::of_server(ServerEngineKind::Kv(KvState::V2));
    /// Key-value secrets on their way from the one to the other.
    pub(crate) const KV_UPGRADING: Self = Self::of_server(ServerEngineKind::Kv(KvState::Upgrading));

    const fn of_server(kind: ServerEngineKind) -> Self {
        Self(EngineSource::Server(kind))
    }

    /// Every engine there is.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let of_contract = engine_set().engines.iter().copied().flatten();
        let of_contract = of_contract.map(|spec| Self(EngineSource::Contract(spec)));
        ServerEngineKind::ALL.into_iter().map(Self::of_server).chain(of_contract)
    }

    /// Where it is from.
    pub(crate) const fn source(self) -> EngineSource {
        self.0
    }

    /// What it says of itself.
    pub(crate) fn facts(self) -> EngineFacts {
        match self.0 {
            EngineSource::Server(kind) => kind.facts(),
            EngineSource::Contract(spec) => EngineFacts {
                multiplicity: spec.multiplicity,
                caseless_folders: spec.caseless_folders,
                builtin: spec.builtin.map(BuiltinKind::of),
                has_folders: spec.has_folders,
                ..EngineFacts::mountable(spec.name, spec.class)
            },
        }
    }

    /// What it does by the clock at each of its mounts, on the server that leads.
    pub(crate) fn jobs(self) -> &'static [EngineJob] {
        match self.0 {
            EngineSource::Server(ServerEngineKind::Identity) => engine_set().identity_oidc.jobs,
            EngineSource::Server(_) => &[],
            EngineSource::Contract(spec) => spec.jobs,
        }
    }

    /// The engine that may be mounted under this name in this class, if there is one. The versions
    /// of `kv` are told apart elsewhere.
    pub fn mountable(name: &str, class: Class) -> Option<Self> {
        let fits = |engine: &Self| {
            let facts = engine.facts();
            facts.name == name && facts.class == class && facts.multiplicity == Multiplicity::Any
        };
        Self::all().find(fits)
    }

    /// Every engine, once per name on the wire, with its class.
    pub fn catalog() -> impl Iterator<Item = (&'static str, Class)> {
        let listed = |engine: &Self| !matches!(engine.kv(), Some(KvState::V1 | KvState::Upgrading));
        Self::all().filter(listed).map(|engine| (engine.name(), engine.class()))
    }

    /// The engine's type on the wire.
    pub fn name(self) -> &'static str {
        match self.0 {
            EngineSource::Server(kind) => kind.facts().name,
            EngineSource::Contract(spec) => spec.name,
        }
    }

    /// The public handle of a mount of it.
    pub(crate) fn accessor(self, uuid: &str) -> String {
        let class = match self.class() {
            Class::Secret => "",
            Class::Auth => "auth_",
        };
        format!("{class}{}_{}", self.name(), &uuid[..8])
    }

    /// What the engine is for.
    pub fn class(self) -> Class {
        self.facts().class
    }

    /// Whether the server itself mounts it.
    pub fn multiplicity(self) -> Multiplicity {
        self.facts().multiplicity
    }

    /// Whether it keeps versions of secrets.
    pub fn has_versions(self) -> bool {
        self.kv() == Some(KvState::V2)
    }

    /// Whether its paths are secrets, with fields that a client chooses.
    pub fn keeps_secrets(self) -> bool {
        let is_cubbyhole = |mount: BuiltinKind| mount.id == MountId::CUBBYHOLE;
        self.kv().is_some() || self.facts().builtin.is_some_and(is_cubbyhole)
    }

    /// How the secrets of a key-value engine are kept; `None` for all others.
    pub(crate) const fn kv(self) -> Option<KvState> {
        match self.0 {
            EngineSource::Server(ServerEngineKind::Kv(state)) => Some(state),
            EngineSource::Server(_) | EngineSource::Contract(_) => None,
        }
    }

    /// In the record of a mount.
    pub(crate) fn stored(self) -> &'static str {
        self.facts().stored
    }

    /// The engine of a record of a mount: a login method and an engine for secrets may have one name, such as `ldap`.
    pub(super) fn from_stored(stored: &str, class: Class) -> Option<Self> {
        Self::all().find(|engine| engine.stored() == stored && engine.class() == class)
    }
}

impl PartialEq for EngineKind {
    fn eq(&self, other: &Self) -> bool {
        match (self.0, other.0) {
            (EngineSource::Server(one), EngineSource::Server(other)) => one == other,
            (EngineSource::Contract(one), EngineSource::Contract(other)) => {
                (one.name, one.class) == (other.name, other.class)
            }
            (EngineSource::Server(_), EngineSource::Contract(_))
            | (EngineSource::Contract(_), EngineSource::Server(_)) => false,
        }
    }
}

impl Eq for EngineKind {}

impl fmt::Debug for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.stored())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_mount_has_a_number_of_its_own_that_the_server_knows() {
        let builtin = EngineKind::all().filter_map(|kind| kind.facts().builtin);
        let mut numbers: Vec<u32> = builtin.map(|mount| mount.id.0).collect();
        numbers.sort_unstable();
        let mut known =
            [MountId::SYSTEM, MountId::CUBBYHOLE, MountId::IDENTITY, MountId::TOKEN].map(|id| id.0);
        known.sort_unstable();
        assert_eq!(numbers, known);
    }

    #[test]
    fn every_engine_has_a_name_of_its_own() {
        let all: Vec<EngineKind> = EngineKind::all().collect();
        for (at, engine) in all.iter().enumerate() {
            assert_eq!(EngineKind::from_stored(engine.stored(), engine.class()), Some(*engine));
            assert!(all.iter().skip(at + 1).all(|other| other != engine));
        }
        assert_eq!(EngineKind::mountable("token", Class::Auth), None);
        assert_eq!(EngineKind::mountable("kv", Class::Auth), None);
    }
}
