//! What a handler takes.

use std::fmt;
use std::ops::Deref;

use jiff::Timestamp;
use kallisto_api::{BoxFuture, Error, Json, Request, Response};

use crate::context::EngineContext;
use crate::lease::{Leases, MadeCredential, MakeFailure, NewLease};
use crate::login::Logins;
use crate::names;
use crate::pattern::Params;
use crate::storage::Page;

/// What runs for an operation of a route.
pub type Handler = for<'a> fn(Call<'a>) -> BoxFuture<'a, Result<Response, Error>>;

/// A request that may run, and what the engine may use to answer it: all of its [`EngineContext`], and this.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// What the engine may use at any time.
    pub context: EngineContext<'a>,
    /// The request. Its path is that of the whole server.
    pub request: &'a Request<'a>,
    /// What the path has in the places of the route's parameters.
    pub params: Params<'a>,
    /// Whether the request makes something new and the caller may do just that; false where an engine does not tell.
    pub creates: bool,
    /// Most names of a list that the caller may see at a time.
    pub page_entries_max: Option<u64>,
    /// Who asks; `None` where a route admits anyone.
    pub caller: Option<&'a Caller>,
    /// What templates of identity say of who asks.
    pub identity: &'a dyn TemplateValues,
    /// Credentials with leases; `None` where a route admits anyone.
    pub leases: Option<&'a dyn Leases>,
    /// Tokens for who proved who they are; `None` where a route does not admit anyone.
    pub logins: Option<&'a dyn Logins>,
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// What people see of them, such as `userpass-bob`.
    pub display_name: String,
    /// Their entity; empty for none.
    pub entity_id: String,
    /// Their token.
    pub token: CallerToken,
    /// When their token was made: when they last proved who they are.
    pub proven_at: Option<Timestamp>,
}

/// A token as engines know it: never its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallerToken {
    /// What tells it from all others, and opens nothing.
    pub id: [u8; 32],
    /// Whether it is stored, so that something can be kept for as long as it lives.
    pub is_stored: bool,
    /// Whether it is of a namespace above the mount's.
    pub is_from_above: bool,
    /// Whether it is there to be unwrapped, and for nothing else.
    pub is_wrapping: bool,
}

/// What templates of identity stand for, such as `identity.entity.name`.
pub trait TemplateValues: Sync {
    /// What a name stands for; `None` for what who asks has not, or nobody has.
    fn value(&self, name: &str) -> Option<String>;
}

/// Nobody: no template stands for anything.
#[derive(Clone, Copy, Debug)]
pub struct NoTemplateValues;

impl TemplateValues for NoTemplateValues {
    fn value(&self, _: &str) -> Option<String> {
        None
    }
}

impl<'a> Call<'a> {
    /// Makes a credential by `make`, which is told when it ends, and hands it out with a lease: [`Leases::issue`].
    ///
    /// # Errors
    /// What `make` says; [`Error::Internal`] at a route that admits anyone.
    pub async fn issue<E: Into<MakeFailure> + 'a>(
        &self,
        lease: NewLease,
        make: impl FnOnce(Timestamp) -> BoxFuture<'a, Result<Json, E>> + Send + 'a,
    ) -> Result<Response, Error> {
        self.issue_credential(lease, move |ends| {
            let making = make(ends);
            Box::pin(async move { making.await.map(Into::into).map_err(Into::into) })
        })
        .await
    }

    /// The same for a credential of which more is known once it is made, or once it could not be.
    ///
    /// # Errors
    /// What `make` says; [`Error::Internal`] at a route that admits anyone.
    pub async fn issue_credential(
        &self,
        lease: NewLease,
        make: impl FnOnce(Timestamp) -> BoxFuture<'a, Result<MadeCredential, MakeFailure>> + Send + 'a,
    ) -> Result<Response, Error> {
        let leases = self.leases.ok_or_else(|| Error::internal(&"a lease without an owner"))?;
        leases.issue(lease, Box::new(make)).await
    }

    /// Whether the mount has a lease for whose revocation `is_it` is true.
    ///
    /// # Errors
    /// When a lease cannot be read; [`Error::Internal`] at a route that admits anyone.
    pub async fn has_lease(
        &self,
        is_it: impl Fn(&[u8]) -> bool + Send + Sync + 'a,
    ) -> Result<bool, Error> {
        let leases = self.leases.ok_or_else(|| Error::internal(&"leases without an owner"))?;
        leases.any(Box::new(is_it)).await
    }

    /// Tokens for who proved who they are.
    ///
    /// # Errors
    /// [`Error::Internal`] at a route that does not admit anyone.
    pub fn logins(&self) -> Result<&'a dyn Logins, Error> {
        self.logins.ok_or_else(|| Error::internal(&"a login at a route with a token"))
    }

    /// The page of a list that is asked for.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the limit is no number.
    pub fn page(&self) -> Result<Page, Error> {
        Page::asked(self.request, self.page_entries_max)
    }

    /// The name that stands in the path in the place of a parameter, checked: nothing else becomes a part of a record's name.
    ///
    /// # Errors
    /// As of [`names::check`].
    pub fn name(&self, parameter: &str) -> Result<&'a str, Error> {
        let name = self.params.get(parameter);
        names::check(name)?;
        Ok(name)
    }

    /// The names in a folder of the mount's storage, as many as the page that is asked for has.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there are none: so the contract has it of lists. [`Error::Invalid`] when the limit is no number.
    pub fn names_in(&self, folder: &str) -> Result<Vec<String>, Error> {
        let names = self.storage.list_page(folder, &self.page()?)?;
        if names.is_empty() { Err(Error::NotFound) } else { Ok(names) }
    }

    /// The answer to a list of which nothing is told but the names.
    ///
    /// # Errors
    /// As of [`Self::names_in`].
    pub fn list(&self, folder: &str) -> Result<Response, Error> {
        let names = self.names_in(folder)?;
        Ok(Response::data(&Json::object([("keys", Json::strings(names))])))
    }
}

impl<'a> Deref for Call<'a> {
    type Target = EngineContext<'a>;

    fn deref(&self) -> &Self::Target {
        &self.context
    }
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("path", &self.request.path).finish_non_exhaustive()
    }
}
