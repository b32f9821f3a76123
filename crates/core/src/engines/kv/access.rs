//! What a KV handler works with.

use crate::api::error::Error;
use crate::caller::call::AuthorizedCall;
use crate::caller::policies::CallerPolicies;
use crate::dispatch::route_handler::ReadCall;
use crate::dispatch::route_handler::RouteCall;
use crate::records::attribution::Author;
use crate::view::Mount;
use crate::view::NamespaceContext;

/// What a KV handler works with.
pub(crate) struct Kv<'a> {
    pub(crate) context: &'a NamespaceContext,
    pub(crate) call: &'a AuthorizedCall<'a, 'a>,
    pub(crate) mount: &'a Mount,
    /// The path inside the mount.
    pub(crate) path: &'a str,
    /// The longest secret that is read now: whoever asks has a longer one read beside the workers.
    pub(crate) secret_bytes_max: usize,
}

impl<'a> Kv<'a> {
    pub(crate) fn of(run: &'a RouteCall<'_>) -> Self {
        let RouteCall { context, call, mount, path, .. } = run;
        Self { context, call, mount, path, secret_bytes_max: usize::MAX }
    }

    pub(crate) fn reading(read: ReadCall<'a>) -> Self {
        let ReadCall { context, call, mount, path, secret_bytes_max } = read;
        Self { context, call, mount, path, secret_bytes_max }
    }
}

impl Kv<'_> {
    /// Who asks, if the mount keeps who writes.
    pub(crate) fn author(&self) -> Option<Author> {
        author(self.context, self.mount, self.call)
    }
}

/// Who asks, if the mount keeps who writes.
pub(crate) fn author(
    context: &NamespaceContext,
    mount: &Mount,
    call: &AuthorizedCall<'_, '_>,
) -> Option<Author> {
    let is_kept = !mount.kv_config.load().is_anonymous;
    is_kept.then(|| caller_as_author(context, call)).flatten()
}

/// Who asks; `None` when the token ended meanwhile.
pub(crate) fn caller_as_author(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Option<Author> {
    let caller = CallerPolicies::of(context, call).ok()?;
    let token = caller.token();
    let made_at = caller.home(context).view.mounts.route(&token.path);
    let mount = made_at.as_ref().map_or("", |(mount, _)| mount.entry.path.as_str());
    Some(Author::new(caller.entity_id(), &token.display_name, mount, call.id.bits()))
}

/// Refuses a write to a folder.
pub(crate) fn check_entry_path(path: &str) -> Result<(), Error> {
    if path.is_empty() || path.ends_with('/') {
        return Err(Error::invalid("cannot write to a path ending in '/'"));
    }
    Ok(())
}

/// Refuses an entry over its limit.
pub(crate) fn check_entry_size(text: &[u8]) -> Result<(), Error> {
    kallisto_engine::storage::check_entry_size("entry", text)
}

/// The failure of a record that was stored by us and cannot be read back.
pub(crate) fn damaged(error: crate::records::kv::MalformedKv) -> Error {
    Error::internal(&error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ENTRY_BYTES_MAX;

    #[test]
    fn the_longest_entry_is_taken_and_a_longer_one_refused() {
        assert_eq!(check_entry_size(&vec![b'x'; ENTRY_BYTES_MAX]), Ok(()));
        let refused = check_entry_size(&vec![b'x'; ENTRY_BYTES_MAX + 1]);
        assert!(matches!(refused, Err(Error::TooLarge(_))), "{refused:?}");
    }
}
