//! Making batch tokens; what they are is in [`batch_token`](crate::records::batch_token).

use jiff::{SignedDuration, Timestamp};
use kallisto_auth::{Token, TokenKind};
use secrecy::{ExposeSecret, SecretString};

use crate::api::error::{Denial, Error};
use crate::api::json::Map;
use crate::records::batch_token::{TEXT_BYTES_MAX, seal};
use crate::records::time_marks::TimeMarks;
use crate::records::token::TokenEntry;
use crate::tokens::spec::TokenSpec;
use crate::view::NamespaceContext;

/// Makes a batch token.
///
/// # Errors
/// [`Error::Invalid`] when it is asked to be what only a stored token can be, or says too much;
/// [`Denial::BadToken`] when its parent is gone.
pub(crate) fn issue(
    context: &NamespaceContext,
    spec: TokenSpec,
    now: Timestamp,
) -> Result<(TokenEntry, SecretString), Error> {
    let asked = [
        (spec.uses != 0, "num_uses"),
        (spec.times.period_secs != 0, "period"),
        (spec.times.explicit_max_secs != 0, "explicit_max_ttl"),
    ];
    if let Some((_, what)) = asked.into_iter().find(|(asked, _)| *asked) {
        return Err(Error::invalid(format!("batch tokens cannot have \"{what}\" set")));
    }
    if spec.parent_above.is_some() {
        return Err(Error::invalid(
            "a batch token whose parent is of another namespace must be an orphan",
        ));
    }
    if let Some(parent) = &spec.parent
        && !context.view.tokens.lives(parent, now)
    {
        return Err(Error::Denied(Denial::BadToken));
    }
    // Milliseconds are what the text has room for. The one that has begun: no token lives longer than it was given.
    let created_at = Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now);
    let ttl_secs = match spec.times.ttl_secs {
        0 => super::spec::leases(context).default_secs,
        ttl => ttl,
    };
    let ttl = SignedDuration::from_secs(i64::try_from(ttl_secs).unwrap_or(i64::MAX));
    let entry = TokenEntry {
        auth: Token {
            accessor: String::new(),
            kind: TokenKind::Batch,
            policies: spec.policies,
            display_name: spec.display_name,
            path: spec.path,
            created_at,
            expires_at: Some(created_at.saturating_add(ttl).unwrap_or(Timestamp::MAX)),
            orphan: spec.parent.is_none(),
        },
        parent: spec.parent,
        parent_above: None,
        meta: spec.meta,
        uses_left: 0,
        ttl_secs,
        period_secs: 0,
        explicit_max_ttl_secs: 0,
        max_ttl_secs: 0,
        renewable: false,
        role: spec.role,
        entity_id: spec.entity_id,
        bound_cidrs: spec.bound_cidrs,
        kept: Map::new(),
        renewed_at: None,
    };
    let generation = generation_for(&context.view.marks, &entry)?;
    let number = context.view.namespace_number();
    let text = seal((&entry, generation), number, &context.store.keys().load())?;
    let text = context.view.marked(text.expose_secret().to_owned());
    if text.len() > TEXT_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a batch token of {} bytes is over the limit of {TEXT_BYTES_MAX}: fewer policies or \
             less metadata make it shorter",
            text.len()
        )));
    }
    Ok((entry, text.into()))
}

/// The generation of time that a token is made in; from now on it is known when it ends.
///
/// # Errors
/// [`Error::Unavailable`] when the clock was just set back, so that it would have ended already.
pub(crate) fn generation_for(marks: &TimeMarks, entry: &TokenEntry) -> Result<u64, Error> {
    let (generation, end) = (marks.generation(), entry.auth.expires_at);
    let end = end.unwrap_or(Timestamp::MAX);
    if marks.has_ended(generation, end) {
        return Err(Error::Unavailable("the clock was set back; ask again in a second".into()));
    }
    marks.meet(end);
    Ok(generation)
}
