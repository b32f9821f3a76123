//! Logins: a proof of who somebody is goes in, a token comes out.
//!
//! A login method is an engine of the class [`Auth`](crate::Class::Auth) with a route that admits anyone. Whatever the proof is, it ends
//! in a [`Login`], and [`Logins::grant`] makes the token of it: no login makes a root token, and its times are bounded by the role, the
//! mount and the server, in that order.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use kallisto_api::{BoxFuture, Error, Fields, Map, Request, Response};

use crate::context::EngineContext;
use crate::token_params::{TokenParams, login_policies};

/// A proof that was good: who it is, and what their token is to be.
#[derive(Clone, Debug)]
pub struct Login {
    /// What the method calls them: a user name, a role id, a subject. Never empty.
    pub alias: String,
    /// What people see of them, after the mount's path; may be empty.
    pub display_name: String,
    /// What is written on the token.
    pub metadata: Map,
    /// The groups the method has them in.
    pub groups: Vec<String>,
    /// What the role says of the token.
    pub params: TokenParams,
    /// What the method needs to judge a renewal; kept with the token, shown to nobody.
    pub kept: Map,
}

/// What the server does for a login.
pub trait Logins: Sync {
    /// Makes the token of a good login and answers with it.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the role asks for what no login may have; the store's refusal.
    fn grant(&self, login: Login) -> BoxFuture<'_, Result<Response, Error>>;

    /// The wrong passwords of a name in its one spelling, counted by the rules of user lockout that the mount is tuned to.
    fn attempts(&self, name: &str) -> Arc<dyn Attempts>;
}

/// The tries at the password of one name. Asked and told on the thread that compares, so that of any number of guesses at once only as
/// many pass the threshold as there are threads.
pub trait Attempts: Send + Sync {
    /// Whether the name is locked: nothing is to be compared.
    fn is_locked(&self) -> bool;

    /// Counts a wrong password. Names of users and names of nobody are counted apart.
    fn fail(&self, is_user: bool);

    /// Forgets the wrong ones, after a good one.
    fn forget(&self);
}

/// What a method says of a login that would still be good.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// What the role says of tokens by now; its times count from here on.
    pub params: TokenParams,
    /// The groups the method has them in; `None` where it did not ask again.
    pub groups: Option<Vec<String>>,
}

/// What a login method says of its logins.
#[derive(Clone, Copy)]
pub struct LoginMethod {
    /// Refuses to renew a token whose login would not be good any more.
    pub check_renewal: CheckRenewal,
    /// The role by which a request would log in, for rate limits by role; `None` for a method without roles.
    pub role_of: Option<RoleOf>,
}

/// Refuses to renew a token whose login would not be good any more; it may ask a directory.
pub type CheckRenewal = for<'a> fn(RenewalCall<'a>) -> BoxFuture<'a, Result<Renewal, Error>>;

/// The role by which a request with these fields would log in; `None` when it names none. Nothing is proven by it.
pub type RoleOf = fn(&EngineContext<'_>, &Request<'_>, Fields<'_>) -> Option<String>;

/// A renewal that is asked for, and what the engine may use to judge it.
#[derive(Clone, Copy)]
pub struct RenewalCall<'a> {
    /// What the engine may use at any time.
    pub context: EngineContext<'a>,
    /// The request to renew.
    pub request: &'a Request<'a>,
    /// The path of the token's login, inside the mount.
    pub path: &'a str,
    /// The policies of the token.
    pub policies: &'a [String],
    /// As in [`Login::kept`].
    pub kept: &'a Map,
}

impl RenewalCall<'_> {
    /// The renewal of a token by what a role or user says by now; refused when the policies are not those of the token any more.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying so.
    pub fn with_same_policies(&self, params: TokenParams) -> Result<Renewal, Error> {
        if login_policies(&params)? == self.policies {
            return Ok(Renewal::by(params));
        }
        Err(Error::invalid("policies have changed, not renewing"))
    }
}

impl Renewal {
    /// A renewal by what a role says, of a method that did not ask for groups again.
    pub const fn by(params: TokenParams) -> Self {
        Self { params, groups: None }
    }

    /// The same, in these groups.
    #[must_use]
    pub fn in_groups(self, groups: Vec<String>) -> Self {
        Self { groups: Some(groups), ..self }
    }
}

impl<'a> Deref for RenewalCall<'a> {
    type Target = EngineContext<'a>;

    fn deref(&self) -> &Self::Target {
        &self.context
    }
}

impl fmt::Debug for RenewalCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RenewalCall").field("path", &self.path).finish_non_exhaustive()
    }
}

impl fmt::Debug for LoginMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoginMethod")
    }
}
