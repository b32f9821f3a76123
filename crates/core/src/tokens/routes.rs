//! `auth/token/*`.

use crate::api::request::Request;
use crate::engines::server_engine::Renewal;
use std::sync::Arc;

use kallisto_auth::{Operation, TokenKind};
use secrecy::{ExposeSecret, SecretString};

use super::create::{Parent, create, seconds};
use super::entry::{Hash, TokenEntry};
use super::lookup::{auth_object, describe};
use super::renew::renew;
use super::revoke::{Children, finish, revoke, revoke_tree};
use super::roles;
use crate::api::error::{Denial, Error};
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::request::TokenText;
use crate::api::response::{Logical, Response};
use crate::namespaces::Home;
use crate::pipeline::policies::Caller;
use crate::pipeline::state::{Call, NamespaceContext};

/// Runs a token route; `path` is what follows `auth/token/`.
pub(crate) async fn handle(
    unsealed: &NamespaceContext,
    call: &Call<'_, '_>,
    path: &str,
) -> Result<Response, Error> {
    use Operation::{Delete, List, Read, Update};
    let elsewhere = place_of_subject(unsealed, call, path)?;
    let unsealed = elsewhere.as_deref().unwrap_or(unsealed);
    if let Some(name) = path.strip_prefix("roles/") {
        return match call.operation {
            Read => roles::read(unsealed, name),
            Update => roles::write(unsealed, call, name).await,
            Delete => roles::delete(unsealed, name).await,
            _ => Err(Error::UnsupportedOperation),
        };
    }
    if let Some(name) = path.strip_prefix("create/")
        && call.operation == Update
    {
        call.object()?;
        let role = roles::load(unsealed, name)?;
        let role = role.ok_or_else(|| Error::invalid(format!("unknown role {name}")))?;
        return create(unsealed, call, Parent::Caller, Some(&role)).await;
    }
    match (path, call.operation) {
        ("create", Update) => create(unsealed, call, Parent::Caller, None).await,
        ("create-orphan", Update) => create(unsealed, call, Parent::None, None).await,
        ("lookup-self" | "lookup", Read) => look_up(unsealed, call, None),
        ("lookup-self", Update) => {
            call.object()?;
            look_up(unsealed, call, None)
        }
        ("lookup", Update) => look_up(unsealed, call, given_token(call)?.as_ref()),
        ("lookup-accessor", Update) => {
            let (_, entry) = by_accessor(unsealed, call)?;
            Ok(Response::data(&describe(&unsealed.view, &entry, "", call.now)))
        }
        ("renew-self", Update) => {
            let caller = Caller::of(unsealed, call)?;
            refuse_batch(caller.token().kind, "renewed")?;
            answer_renewal(unsealed, call, &caller.hash, Shown::Token).await
        }
        ("renew", Update) => {
            let given = given_token(call)?.ok_or_else(|| Error::invalid("missing token ID"))?;
            let hash = stored_hash(unsealed, &given, "renewed")?;
            let hash = hash.ok_or_else(|| Error::invalid("token not found"))?;
            answer_renewal(unsealed, call, &hash, Shown::Token).await
        }
        ("renew-accessor", Update) => {
            let (hash, _) = by_accessor(unsealed, call)?;
            answer_renewal(unsealed, call, &hash, Shown::Nothing).await
        }
        ("revoke-self", Update) => {
            let caller = Caller::of(unsealed, call)?;
            refuse_batch(caller.token().kind, "revoked")?;
            revoke_tree(unsealed, caller.hash).await.map(|()| Response::Empty)
        }
        ("revoke", Update) => revoke_given(unsealed, call, Children::Revoke).await,
        ("revoke-orphan", Update) => revoke_given(unsealed, call, Children::Orphan).await,
        ("revoke-accessor", Update) => revoke_accessor(unsealed, call).await,
        ("accessors", List) => {
            let keys = Json::strings(unsealed.view.tokens.accessors());
            Ok(Response::data(&Json::object([("keys", keys)])))
        }
        ("roles", List) => roles::list(unsealed),
        ("tidy", Update) => Ok(Response::Accepted(Logical {
            warnings: vec![
                "Nothing to tidy: expired tokens and their children are removed as they expire."
                    .to_owned(),
            ],
            ..Logical::default()
        })),
        (
            "create" | "create-orphan" | "lookup" | "lookup-self" | "lookup-accessor" | "renew"
            | "renew-self" | "renew-accessor" | "revoke" | "revoke-self" | "revoke-orphan"
            | "revoke-accessor" | "accessors" | "roles" | "tidy",
            _,
        ) => Err(Error::UnsupportedOperation),
        _ => Err(Error::UnsupportedPath),
    }
}

/// The namespace of the token that a request is about, when that is another than the request's: for the
/// token that asks one above, for one that is named one below.
fn place_of_subject(
    unsealed: &NamespaceContext,
    call: &Call<'_, '_>,
    path: &str,
) -> Result<Option<Arc<NamespaceContext>>, Error> {
    let is_about_itself = match path {
        "lookup-self" | "renew-self" | "revoke-self" => true,
        "lookup" => given_token(call)?.is_none(),
        _ => false,
    };
    if is_about_itself {
        return Ok(match unsealed.home_of(call.token)? {
            Home::Here => None,
            Home::Above { context, .. } => Some(context),
        });
    }
    match path {
        "lookup" | "renew" | "revoke" | "revoke-orphan" => {
            let given = given_token(call)?;
            Ok(given.and_then(|text| unsealed.holder_of(text.expose_secret())))
        }
        "lookup-accessor" | "renew-accessor" | "revoke-accessor" => {
            let body = call.object()?;
            let given = Fields::new(&body).string("accessor")?;
            Ok(given.and_then(|text| unsealed.holder_of(&text)))
        }
        _ => Ok(None),
    }
}

/// Whether a renewal's answer carries the token's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Token,
    Nothing,
}

/// Refuses to renew a token whose login would not be good any more.
fn check_renewal(
    unsealed: &NamespaceContext,
    request: &Request<'_>,
    entry: &TokenEntry,
) -> Result<(), Error> {
    let Some((mount, path)) = unsealed.view.mounts.route(&entry.auth.path) else { return Ok(()) };
    let renewal = Renewal { unsealed, request, mount: &mount, path, entry };
    mount.entry.kind.engine().check_renewal(&renewal)
}

async fn answer_renewal(
    unsealed: &NamespaceContext,
    call: &Call<'_, '_>,
    hash: &Hash,
    shown: Shown,
) -> Result<Response, Error> {
    let body = call.object()?;
    let increment = seconds(Fields::new(&body), "increment")?;
    if let Some(entry) = unsealed.view.tokens.entry(hash) {
        check_renewal(unsealed, call, &entry)?;
    }
    let (entry, warning) = renew(unsealed, hash, increment, call.now).await?;
    let given = given_token(call)?;
    let text = match (shown, &given) {
        (Shown::Nothing, _) => "",
        (Shown::Token, Some(given)) => given.expose_secret(),
        (Shown::Token, None) => call.token.map(TokenText::expose).unwrap_or_default(),
    };
    let auth = auth_object(&unsealed.view, &entry, text, call.now).to_text();
    let warnings = warning.into_iter().collect();
    Ok(Response::Logical(Logical { auth, warnings, ..Logical::default() }))
}

fn look_up(
    unsealed: &NamespaceContext,
    call: &Call<'_, '_>,
    given: Option<&SecretString>,
) -> Result<Response, Error> {
    let guard = unsealed.view.tokens.pin();
    let given = given.map(|text| TokenText::new(text.expose_secret()));
    let asked = given.or(call.token);
    let found = super::find(&unsealed.view, asked, &guard);
    let (_, live) = found.map_err(|_| Error::Denied(Denial::UnknownToken))?;
    if live.standing().is_expired(call.now) {
        return Err(Error::Denied(Denial::UnknownToken));
    }
    let id = asked.map(TokenText::expose).unwrap_or_default();
    Ok(Response::data(&describe(&unsealed.view, &live.entry(), id, call.now)))
}

async fn revoke_given(
    unsealed: &NamespaceContext,
    call: &Call<'_, '_>,
    children: Children,
) -> Result<Response, Error> {
    let given = given_token(call)?.ok_or_else(|| Error::invalid("missing token ID"))?;
    match (stored_hash(unsealed, &given, "revoked")?, children) {
        (Some(hash), _) => revoke(unsealed, hash, children).await?,
        // It is gone; what hung on it may not be, if whoever ended it was cut short. Children that were to stay are not known.
        (None, Children::Revoke) => {
            let cluster = unsealed.view.cluster().ok_or(Error::Sealed)?;
            let tag = cluster.token_key.hash(given.expose_secret());
            if let Ok(gone) = tag.as_ref().try_into() {
                finish(unsealed, &gone).await?;
            }
        }
        (None, Children::Orphan) => return Err(Error::invalid("token to revoke not found")),
    }
    Ok(Response::Empty)
}

async fn revoke_accessor(
    unsealed: &NamespaceContext,
    call: &Call<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let accessor = accessor_of(&body)?;
    match unsealed.view.tokens.with_accessor(&accessor) {
        Some(hash) => revoke_tree(unsealed, hash).await.map(|()| Response::Empty),
        None => Ok(Response::Logical(Logical {
            warnings: vec!["No token found with this accessor".to_owned()],
            ..Logical::default()
        })),
    }
}

/// The storage hash of a live token; what cannot be done to a batch token is refused.
fn stored_hash(
    unsealed: &NamespaceContext,
    text: &SecretString,
    deed: &str,
) -> Result<Option<Hash>, Error> {
    let guard = unsealed.view.tokens.pin();
    match super::find(&unsealed.view, Some(TokenText::new(text.expose_secret())), &guard) {
        Ok((hash, live)) => refuse_batch(live.standing().kind, deed).map(|()| Some(hash)),
        Err(Error::Denied(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Batch tokens are stored nowhere, so there is nothing to change about them.
fn refuse_batch(kind: TokenKind, deed: &str) -> Result<(), Error> {
    match kind {
        TokenKind::Batch => Err(Error::invalid(format!("batch tokens cannot be {deed}"))),
        TokenKind::Root | TokenKind::Service => Ok(()),
    }
}

fn given_token(call: &Call<'_, '_>) -> Result<Option<SecretString>, Error> {
    let body = call.object()?;
    let given = Fields::new(&body).string("token")?.filter(|text| !text.is_empty());
    Ok(given.map(SecretString::from))
}

fn by_accessor(
    unsealed: &NamespaceContext,
    call: &Call<'_, '_>,
) -> Result<(Hash, TokenEntry), Error> {
    let body = call.object()?;
    let accessor = accessor_of(&body)?;
    let invalid = || Error::invalid("1 error occurred:\n\t* invalid accessor\n\n");
    let hash = unsealed.view.tokens.with_accessor(&accessor).ok_or_else(invalid)?;
    let entry = unsealed.view.tokens.entry(&hash).filter(|e| !e.auth.is_expired(call.now));
    Ok((hash, entry.ok_or_else(invalid)?))
}

fn accessor_of(body: &Map) -> Result<String, Error> {
    let accessor = Fields::new(body).string("accessor")?.filter(|text| !text.is_empty());
    accessor.ok_or_else(|| Error::invalid("1 error occurred:\n\t* missing accessor\n\n"))
}
