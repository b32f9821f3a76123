//! The token of a request.

use crate::records::batch_token;
use jiff::Timestamp;
use kallisto_cuckoo::Guard;
use secrecy::{ExposeSecret, SecretString};

use crate::api::error::{Denial, Error};
use crate::api::request::TokenText;
use crate::records::token::{TOKEN_BYTES_MAX, TokenHash, make_text};
use crate::view::{CachedToken, View};

/// The same for a token of the namespace that the view is of.
pub(crate) fn make_text_in(view: &View) -> Result<SecretString, Error> {
    let text = make_text()?;
    Ok(view.marked(text.expose_secret().to_owned()).into())
}

/// Finds a live token by its text; at `now`, which is asked for the parent of a batch token. Its own time is for who asks to look at.
///
/// # Errors
/// [`Denial::BadToken`] when there is none.
pub(crate) fn find<'g>(
    view: &View,
    text: Option<TokenText<'_>>,
    now: Timestamp,
    guard: &'g Guard,
) -> Result<(TokenHash, &'g CachedToken), Error> {
    let bad = || Error::Denied(Denial::BadToken);
    let text = text.ok_or_else(bad)?;
    let cluster = view.cluster().ok_or(Error::Sealed)?;
    if text.expose().starts_with(batch_token::PREFIX) {
        let sealed = view.unmarked(text.expose()).ok_or_else(bad)?;
        let (namespace, text) = (view.namespace_number(), (text, sealed));
        let found = view.batch_tokens.find(cluster, &view.tokens, namespace, text, now, guard);
        return found.ok_or_else(bad);
    }
    if text.expose().is_empty() || text.expose().len() > TOKEN_BYTES_MAX {
        return Err(bad());
    }
    view.tokens.find(cluster, text, guard).ok_or_else(bad)
}
