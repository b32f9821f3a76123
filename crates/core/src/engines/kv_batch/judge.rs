//! Whether the caller may do to one path what a request that names many asks for.
//!
//! The question goes to the function that decides a request of its own, with the same kind of path.
//! What such a request would carry besides is not known here: a rule that limits parameters or asks
//! for wrapping refuses, as it does whatever it cannot check.

use jiff::Timestamp;
use kallisto_auth::{Capability, Literal, Operation, Path, Subject, authorize_by};

use super::place::SecretName;
use crate::api::error::{Denial, Error};
use crate::authz::authz_request;
use crate::caller::call::AuthorizedCall;
use crate::caller::policies::CallerPolicies;
use crate::dispatch::server_engine::JudgedTarget;
use crate::registry;
use crate::view::NamespaceContext;
use crate::view::{Mount, View};

/// A request that was not made, as the decision sees it.
struct BatchQuestion<'p> {
    operation: Operation,
    capability: Capability,
    needs_sudo: bool,
    path: Path<'p>,
    parameters: Option<&'p [(String, Literal)]>,
}

impl Subject for BatchQuestion<'_> {
    fn operation(&self) -> Operation {
        self.operation
    }

    fn path(&self) -> &Path<'_> {
        &self.path
    }

    fn capability(&self) -> Capability {
        self.capability
    }

    fn needs_sudo(&self) -> bool {
        self.needs_sudo
    }

    fn parameters(&self) -> Option<Vec<(String, Literal)>> {
        self.parameters.map(<[_]>::to_vec)
    }
}

/// Asks for one caller.
pub(in crate::engines) struct BatchJudge<'u> {
    caller: CallerPolicies,
    view: &'u View,
    now: Timestamp,
}

impl<'u> BatchJudge<'u> {
    /// For the caller of a request.
    pub(in crate::engines) fn of(
        context: &'u NamespaceContext,
        call: &AuthorizedCall<'_, '_>,
    ) -> Result<Self, Error> {
        Ok(Self::for_caller(context, CallerPolicies::of(context, call)?, call.now))
    }

    pub(in crate::engines) fn for_caller(
        context: &'u NamespaceContext,
        caller: CallerPolicies,
        now: Timestamp,
    ) -> Self {
        Self { caller, view: &context.view, now }
    }

    /// Whether a request for `operation` at `path` would be let in.
    pub(in crate::engines) fn may(&self, operation: Operation, path: &str) -> bool {
        self.allows(operation, path, None)
    }

    /// The same for a read that was asked for with these parameters.
    pub(in crate::engines) fn may_still_read(
        &self,
        path: &str,
        parameters: &[(String, Literal)],
    ) -> bool {
        self.allows(Operation::Read, path, Some(parameters))
    }

    fn allows(
        &self,
        operation: Operation,
        path: &str,
        parameters: Option<&[(String, Literal)]>,
    ) -> bool {
        // A path that no request could name is nobody's.
        let Ok(path) = Path::literal(path) else { return false };
        let (capability, needs_sudo) = match self.view.mounts.route(path.as_str()) {
            Some((mount, path)) => {
                let token = Some(&self.caller.hash);
                let target = JudgedTarget { view: self.view, mount: &mount, path, token };
                (
                    authz_request::capability_below(target, operation),
                    registry::driver(mount.entry.kind).routes().needs_sudo(operation, path),
                )
            }
            None => (operation.capability(), false),
        };
        let question = BatchQuestion { operation, capability, needs_sudo, path, parameters };
        authorize_by(self.caller.token(), self.caller.acl(), question, self.now).is_ok()
    }

    /// Refuses unless a request for `operation` at `path` would be let in.
    ///
    /// # Errors
    /// [`Denial::Policy`], which does not name the path: the caller may not have known it.
    pub(in crate::engines) fn demand(&self, operation: Operation, path: &str) -> Result<(), Error> {
        if self.may(operation, path) { Ok(()) } else { Err(Error::Denied(Denial::Policy)) }
    }

    /// Whether the caller may know that this secret exists: by reading or changing it.
    pub(in crate::engines) fn may_see(&self, mount: &Mount, path: &str) -> bool {
        use Operation::{Delete, Patch, Read, Update};
        let data = SecretName::api_path(mount, "data", path);
        self.may(Read, &data)
            || self.may_read_metadata(mount, path)
            || [Update, Patch, Delete].into_iter().any(|operation| self.may(operation, &data))
    }

    /// Whether the caller may read what is known of the secret besides its data. A read of the data
    /// shows the custom metadata too.
    pub(in crate::engines) fn may_see_metadata(&self, mount: &Mount, path: &str) -> bool {
        self.may(Operation::Read, &SecretName::api_path(mount, "data", path))
            || self.may_read_metadata(mount, path)
    }

    /// Whether the caller may know which keys the secret has: by reading its data, or its shape.
    pub(in crate::engines) fn may_see_keys(&self, mount: &Mount, path: &str) -> bool {
        self.may(Operation::Read, &SecretName::api_path(mount, "data", path))
            || (mount.entry.kind.has_versions()
                && self.may(Operation::Read, &SecretName::api_path(mount, "subkeys", path)))
    }

    /// Whether a request of its own would show the caller the metadata of the secret.
    pub(in crate::engines) fn may_read_metadata(&self, mount: &Mount, path: &str) -> bool {
        mount.entry.kind.has_versions()
            && self.may(Operation::Read, &SecretName::api_path(mount, "metadata", path))
    }

    /// Whether some rule speaks of anything in this folder; false saves looking into it.
    pub(in crate::engines) fn reaches(&self, mount: &Mount, folder: &str) -> bool {
        self.caller.is_root()
            || ["data", "metadata", "subkeys"]
                .iter()
                .any(|noun| self.caller.acl().reaches(&SecretName::api_path(mount, noun, folder)))
    }
}
