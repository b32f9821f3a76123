//! Secrets and folders as people name them: mount and path, without the engine's nouns.

use std::sync::Arc;

use kallisto_auth::Path;

use crate::api::error::{Denial, Error};
use crate::api::fields::Fields;
use crate::caller::call::AuthorizedCall;
use crate::caller::policies::CallerPolicies;
use crate::records::engine_kind::KvState;
use crate::view::Mount;
use crate::view::NamespaceContext;

/// A secret or a folder of a KV mount.
#[derive(Clone)]
pub(in crate::engines) struct SecretPlace {
    pub(in crate::engines) mount: Arc<Mount>,
    /// The path inside the mount; that of a folder ends in a slash, and the mount's own is empty.
    pub(in crate::engines) path: String,
    /// Whether it was named with a slash at its end.
    pub(super) has_slash: bool,
}

/// Names of secrets.
pub(in crate::engines) struct SecretName;

impl SecretName {
    /// The path at which a request of its own finds a secret: version 2 wants a noun, version 1 none.
    pub(in crate::engines) fn api_path(mount: &Mount, noun: &str, path: &str) -> String {
        let at = &mount.entry.path;
        if mount.entry.kind.has_versions() {
            format!("{at}{noun}/{path}")
        } else {
            format!("{at}{path}")
        }
    }
}

impl SecretPlace {
    /// The place that the field `name` names.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no path or none of a KV mount. Which mounts there are is told to root
    /// only: to others, an unknown one is refused as one they may not use.
    pub(in crate::engines) fn from_field(
        context: &NamespaceContext,
        call: &AuthorizedCall<'_, '_>,
        fields: Fields<'_>,
        name: &str,
    ) -> Result<Self, Error> {
        let text = fields.string(name)?.unwrap_or_default();
        if text.is_empty() {
            return Err(Error::invalid(format!(
                "'{name}' must name a secret, or a folder by a final /"
            )));
        }
        let has_slash = text.ends_with('/');
        let path =
            Path::literal(&text).map_err(|error| Error::invalid(format!("'{name}': {error}")))?;
        if let Some((mount, inside)) = context.view.mounts.route(path.as_str())
            && matches!(mount.entry.kind.kv(), Some(KvState::V1 | KvState::V2))
        {
            return Ok(Self { mount, path: inside.to_owned(), has_slash });
        }
        let path = path.as_str().to_owned();
        if CallerPolicies::of(context, call)?.is_root() {
            return Err(Error::invalid(format!("'{name}': no KV engine is mounted at \"{path}\"")));
        }
        Err(Error::Denied(Denial::At(path)))
    }

    /// The place at a path of any state; `None` where no KV engine is mounted.
    pub(in crate::engines) fn at(context: &NamespaceContext, text: &str) -> Option<Self> {
        let path = Path::literal(text).ok()?;
        let (mount, inside) = context.view.mounts.route(path.as_str())?;
        let is_kv = matches!(mount.entry.kind.kv(), Some(KvState::V1 | KvState::V2));
        is_kv.then(|| Self { mount, path: inside.to_owned(), has_slash: text.ends_with('/') })
    }

    /// All that is in a mount.
    pub(in crate::engines) const fn whole(mount: Arc<Mount>) -> Self {
        Self { mount, path: String::new(), has_slash: true }
    }

    /// The same place, for what would be too much when only a slash was forgotten.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a mount without its slash: no secret, and the folder of all of them.
    pub(in crate::engines) fn meant(self) -> Result<Self, Error> {
        if self.path.is_empty() && !self.has_slash {
            return Err(Error::invalid(format!(
                "\"{}\" is a mount: end it in / to mean everything in it",
                self.mount.entry.path.trim_end_matches('/')
            )));
        }
        Ok(self)
    }

    pub(in crate::engines) fn is_folder(&self) -> bool {
        self.path.is_empty() || self.path.ends_with('/')
    }

    /// The path here of what lies at `path` in `from`: below this place where both are folders, else this place itself.
    pub(super) fn counterpart(&self, from: &Self, path: &str) -> String {
        match path.strip_prefix(&from.path) {
            Some(below) if from.is_folder() => format!("{}{below}", self.path),
            _ => self.path.clone(),
        }
    }

    /// Mount and path, as a person writes it.
    pub(in crate::engines) fn full(&self) -> String {
        format!("{}{}", self.mount.entry.path, self.path)
    }
}
