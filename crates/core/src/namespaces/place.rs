//! Where in the tree of namespaces something runs, and where the token that asks is at home.

use std::sync::Arc;

use crate::api::error::{Denial, Error};
use crate::api::request::TokenText;
use crate::state::Core;
use crate::storage::keys::NamespaceNumber;
use crate::view::NamespaceContext;
use crate::view::namespaces::Namespaces;

/// Whose token asks.
pub(crate) enum TokenHome {
    /// The namespace's own.
    Here,
    /// That of a namespace above.
    Above {
        context: Arc<NamespaceContext>,
        /// The way from there to here: whole segments with an ending slash.
        below: String,
    },
}

impl NamespaceContext {
    /// Whether this is the root namespace.
    pub(crate) fn is_top(&self) -> bool {
        self.view.inside.is_none()
    }

    /// Asks what namespaces there are; none once the server is sealed.
    pub(crate) fn ask_namespaces<T>(&self, ask: impl FnOnce(&Namespaces) -> T) -> T {
        if self.is_top() {
            return ask(&self.view.namespaces);
        }
        match self.top.upgrade() {
            Some(top) => ask(&top.view.namespaces),
            None => ask(&Namespaces::default()),
        }
    }

    /// Those below that live.
    pub(crate) fn contexts_below(&self) -> Vec<Arc<Self>> {
        let Some(top) = self.top.upgrade().filter(|top| !top.view.namespaces.is_empty()) else {
            return Vec::new();
        };
        let below = top.view.namespaces.below(self.view.namespace_path());
        below.iter().filter_map(|space| space.context(&top)).collect()
    }

    /// Those above it, the nearest first.
    pub(crate) fn contexts_above(&self) -> Vec<Arc<Self>> {
        let Some(top) = self.top.upgrade().filter(|_| !self.is_top()) else { return Vec::new() };
        let path = self.view.namespace_path().trim_end_matches('/');
        let slashes = path.rmatch_indices('/').map(|(at, _)| &path[..=at]);
        let spaces = slashes.filter_map(|path| top.view.namespaces.at(path)?.context(&top));
        let mut above: Vec<_> = spaces.collect();
        above.push(top);
        above
    }

    /// The namespace with this number, where a token's parent may be.
    pub(crate) fn context_with(&self, number: NamespaceNumber) -> Option<Arc<Self>> {
        let top = self.top.upgrade()?;
        match number {
            NamespaceNumber::ROOT => Some(top),
            number => top.view.namespaces.with_number(number)?.context(&top),
        }
    }

    /// Where the token that asks is at home.
    ///
    /// # Errors
    /// [`Denial::BadToken`] for the token of a namespace that is not above.
    pub(crate) fn home_of(&self, text: Option<TokenText<'_>>) -> Result<TokenHome, Error> {
        let Some(inside) = &self.view.inside else { return Ok(TokenHome::Here) };
        let bad = || Error::Denied(Denial::BadToken);
        let text = text.ok_or_else(bad)?.expose();
        if self.view.unmarked(text).is_some() {
            return Ok(TokenHome::Here);
        }
        let top = self.top.upgrade().ok_or_else(bad)?;
        let mark = text.rsplit_once('.').map_or("", |(_, mark)| mark);
        let Some(space) = top.view.namespaces.with_id(mark) else {
            return Ok(TokenHome::Above { context: top, below: inside.path.clone() });
        };
        let below = inside.path.strip_prefix(&space.namespace.path).ok_or_else(bad)?;
        let context = space.context(&top).ok_or_else(bad)?;
        Ok(TokenHome::Above { context, below: below.to_owned() })
    }

    /// The namespace below that a token's text or accessor belongs to, or the id of a lease; `None` for all others.
    pub(crate) fn holder_of(&self, marked: &str) -> Option<Arc<Self>> {
        let top = self.top.upgrade().filter(|top| !top.view.namespaces.is_empty())?;
        let (_, mark) = marked.rsplit_once('.')?;
        let space = top.view.namespaces.with_id(mark)?;
        let below = space.namespace.path.strip_prefix(self.view.namespace_path())?;
        if below.is_empty() { None } else { space.context(&top) }
    }
}

impl Core {
    /// What a request runs with; its namespace is settled.
    ///
    /// # Errors
    /// [`Error::Sealed`]; [`Error::NoNamespace`] when it is gone.
    pub(crate) fn namespace_context(
        &self,
        namespace: &str,
    ) -> Result<Arc<NamespaceContext>, Error> {
        let root = self.context.load_full().ok_or(Error::Sealed)?;
        if namespace.is_empty() {
            return Ok(root);
        }
        let space = root.view.namespaces.at(namespace);
        space.and_then(|space| space.context(&root)).ok_or(Error::NoNamespace)
    }
}
