//! Logins through a browser (OpenID Connect Core 1.0, section 3.1, with PKCE, RFC 7636).
//!
//! | step | where |
//! |---|---|
//! | a client asks for an address to log in at | [`mod@auth_url`] |
//! | the user logs in at the provider, which sends the browser back | [`mod@callback`] |
//! | the code is exchanged, and who it is found out | [`proof`], [`exchange`], [`id_token`] |
//! | a client that the provider does not tell asks whether it is done | [`mod@poll`] |
//!
//! What is between the steps is in the [`state`], and in the [`record`]s of the mount where somebody has to act first. Which addresses a
//! browser may come back to is in [`redirect`], and what it is shown in [`pages`].
//!
//! Invariants:
//! - A login gives one token, whatever comes back how often, on whichever server.
//! - Before a provider vouched for somebody nothing is written, but for a login by device.
//! - No error has a code, a token or a text of the provider in it.

mod auth_url;
mod callback;
mod exchange;
pub(super) mod id_token;
mod pages;
mod poll;
mod proof;
pub(super) mod record;
pub(super) mod redirect;
pub(super) mod state;

use kallisto_api::{BoxFuture, Error};
use kallisto_engine::EngineContext;

use super::config::{JwtConfig, OidcClient};
use super::memory::JwtMemory;

pub(super) use auth_url::auth_url;
pub(super) use callback::callback;
pub(super) use poll::poll;

/// Most records that are deleted in one run of the job.
const SWEPT_MAX: usize = 4096;

fn failed(why: &str) -> Error {
    Error::invalid(format!("Vault login failed. {why}"))
}

fn expired() -> Error {
    failed("Expired or missing OAuth state.")
}

/// This server as a client, and where its provider describes itself.
fn parties(config: &JwtConfig) -> Result<(&OidcClient, (&str, &str)), Error> {
    let parties = config.client.as_ref().zip(config.discovery());
    parties.ok_or_else(|| Error::invalid("OIDC login is not configured for this mount"))
}

/// Deletes the records of logins that have ended.
pub(super) fn sweep(context: EngineContext<'_>) -> BoxFuture<'_, Result<(), Error>> {
    Box::pin(async move {
        let ended = context.memory::<JwtMemory>()?.ended(context.now, SWEPT_MAX);
        context.storage.delete_all(ended).await
    })
}
