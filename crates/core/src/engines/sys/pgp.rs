//! The OpenPGP keys of `sys/init`, `sys/rekey` and `sys/generate-root`: which fields they are in, and how many there have to be.

use jiff::Timestamp;
use kallisto_engine::pace::TurnPace;
use kallisto_openpgp::Recipient;

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::state::seal::recipients::{ShareRecipients, recipient};

/// The holders of so many shares, if a list of keys is given.
///
/// # Errors
/// [`Error::Invalid`] for a key that cannot be used, and for more or fewer keys than shares.
pub(super) async fn holders(
    body: &Map,
    name: &str,
    shares: u8,
    now: Timestamp,
) -> Result<Option<ShareRecipients>, Error> {
    let texts = Fields::new(body).strings(name)?.unwrap_or_default();
    if texts.is_empty() {
        // Blanks and commas are no list without keys: shares in the clear are not what was asked for.
        let is_blank = matches!(body.get(name), Some(Json::String(text)) if !text.is_empty());
        return if is_blank {
            Err(Error::invalid(format!("{name}: no key is in it")))
        } else {
            Ok(None)
        };
    }
    if texts.len() != usize::from(shares) {
        return Err(Error::invalid(format!(
            "invalid seal configuration: count mismatch between number of provided PGP keys ({name}: {}) and \
             number of shares ({shares})",
            texts.len()
        )));
    }
    let (mut recipients, mut pace) = (Vec::with_capacity(texts.len()), TurnPace::default());
    for (at, text) in texts.iter().enumerate() {
        let field = format!("{name}, key {}", at + 1);
        recipients.push(recipient(&field, text, now)?);
        // Each may have many signatures to verify.
        pace.spend(TurnPace::TURN).await;
    }
    Ok(Some(ShareRecipients { recipients, are_kept: false }))
}

/// The holder of a token, if a key is given.
///
/// # Errors
/// [`Error::Invalid`] for a key that cannot be used.
pub(super) fn holder(body: &Map, name: &str, now: Timestamp) -> Result<Option<Recipient>, Error> {
    let text = Fields::new(body).string(name)?.unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    recipient(name, &text, now).map(Some)
}

/// Refuses fields of another operation, whose keys would go unheard and what they are for be handed out in the clear.
///
/// # Errors
/// [`Error::Invalid`] naming the field.
pub(super) fn refuse(body: &Map, names: &[&str]) -> Result<(), Error> {
    let is_given = |name: &&&str| match body.get(**name) {
        None | Some(Json::Null) => false,
        Some(Json::String(text)) => !text.is_empty(),
        Some(Json::Array(keys)) => !keys.is_empty(),
        Some(_) => true,
    };
    match names.iter().find(is_given) {
        None => Ok(()),
        Some(name) => Err(Error::invalid(format!("{name}: no parameter of this operation"))),
    }
}

/// The fingerprints as answers have them.
pub(super) fn fingerprints(all: Option<Vec<String>>) -> Json {
    all.map_or(Json::Null, Json::strings)
}
