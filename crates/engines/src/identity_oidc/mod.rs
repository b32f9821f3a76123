//! Identity as an OIDC provider, at `identity/oidc/`: tokens that say who an entity is, and logins of applications.
//!
//! Two things come of one set of named keys. An *identity token* is made for the entity that asks, by a role (`token/ROLE`). A *provider*
//! lets users log in to applications, its clients, with the code flow of OpenID Connect: the page at
//! `/ui/vault/identity/oidc/provider/NAME/authorize` asks `authorize` with the user's token, and the application turns the code into
//! tokens at `token`. What decides is `kallisto-identity-tokens`; here is what is stored and what is answered.
//!
//! It is a part of the engine at `identity/`, whose mount it shares: all records are below `oidc/`, as [`records`] says.
//!
//! Invariants:
//! - A code is taken in one transaction, whatever comes of it; of any number of servers and clients that bring it one is given tokens.
//! - No record holds a code or an access token, but hashes of them.
//! - What refers to a key, a scope or an assignment is counted in one record ([`records::USES`]), on which deleting those depends.

mod answer;
mod assignments;
mod authorize;
mod clients;
mod config;
mod exchange;
mod jobs;
mod keys;
mod providers;
mod published;
mod records;
mod roles;
mod routes;
mod scopes;
#[cfg(test)]
mod tests;
mod tokens;
mod userinfo;

use kallisto_engine::EngineSpec;

/// The engine.
pub static ENGINE: EngineSpec =
    EngineSpec { jobs: jobs::JOBS, ..EngineSpec::secret("identity", &routes::ROUTES) };
