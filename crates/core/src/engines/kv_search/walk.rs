//! Walking the paths of a folder in order, a bounded number at a time.
//!
//! What a walk has looked at may be hidden from who asked for it, so the place where it goes on is
//! given out sealed: it opens on this server and until it is sealed, and reveals nothing.

use std::ops::Bound;

use data_encoding::BASE64URL_NOPAD;
use kallisto_barrier::MEMORY_OVERHEAD;

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::engines::kv_batch::place::SecretPlace;
use crate::limits::{EXAMINED_PATHS_MAX, PAGE_NAMES_MAX};
use crate::storage::keys::MountId;
use crate::view::NamespaceContext;
use crate::view::hot_key;
use kallisto_engine::pace::{ITEMS_PER_TURN, cooperative_yield};

/// What to do after a path was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines) enum WalkStep {
    /// Go to the next path.
    Next,
    /// Go past the folder that so many bytes of the path name, its slash included.
    PastFolder(usize),
    /// Stop in front of this path.
    Stop,
}

/// The page that a request asks for.
pub(in crate::engines) struct SearchPage {
    /// The path after which it begins.
    after: String,
    /// How many names it may hold.
    pub(in crate::engines) limit: usize,
}

impl SearchPage {
    /// The path after which it begins.
    pub(in crate::engines) fn after(&self) -> &str {
        &self.after
    }

    /// Reads `limit`, and `next` as an earlier answer gave it for the same folder.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a `next` that is none of ours.
    pub(in crate::engines) fn from_fields(
        context: &NamespaceContext,
        fields: Fields<'_>,
        folder: &SecretPlace,
    ) -> Result<Self, Error> {
        let limit = limit(fields)?;
        let after = match fields.string("next")?.filter(|next| !next.is_empty()) {
            None => String::new(),
            Some(next) => unseal_cursor(context, folder, &next).ok_or_else(|| {
                Error::invalid("'next' is not what this server gave for this folder; start over")
            })?,
        };
        Ok(Self { after, limit })
    }
}

/// How many names the answer may have.
pub(in crate::engines) fn limit(fields: Fields<'_>) -> Result<usize, Error> {
    let limit = fields.int("limit")?.and_then(|limit| usize::try_from(limit).ok());
    Ok(limit.filter(|&limit| limit > 0).unwrap_or(PAGE_NAMES_MAX).min(PAGE_NAMES_MAX))
}

/// Shows `visit` the paths below `folder`, relative to it. Returns where to go on, or `None` after
/// the last.
pub(in crate::engines) async fn walk(
    folder: &SecretPlace,
    page: &SearchPage,
    visit: impl FnMut(&str) -> Result<WalkStep, Error>,
) -> Result<Option<String>, Error> {
    walk_within(folder, &page.after, &mut { EXAMINED_PATHS_MAX }, visit).await
}

/// The same from behind `after`, where no more than `budget` paths may be looked at; what is left of it stays there.
pub(in crate::engines) async fn walk_within(
    folder: &SecretPlace,
    after: &str,
    budget: &mut usize,
    mut visit: impl FnMut(&str) -> Result<WalkStep, Error>,
) -> Result<Option<String>, Error> {
    let prefix = folder.path.as_str();
    let end = if prefix.is_empty() { Bound::Unbounded } else { Bound::Excluded(past(prefix)) };
    let end = end.as_ref().map(String::as_str);
    let mut last = after.to_owned();
    let mut from = match last.as_str() {
        "" => Bound::Included(prefix.to_owned()),
        after if after.ends_with('/') => Bound::Included(past(&format!("{prefix}{after}"))),
        after => Bound::Excluded(format!("{prefix}{after}")),
    };
    'chunks: loop {
        let bound = from.as_ref().map(String::as_str);
        let paths = folder.mount.index.range(bound, end, ITEMS_PER_TURN);
        let Some(furthest) = paths.last() else { return Ok(None) };
        for path in &paths {
            if *budget == 0 {
                return Ok(Some(last));
            }
            *budget -= 1;
            let name = &path[prefix.len()..];
            match visit(name)? {
                WalkStep::Next => name.clone_into(&mut last),
                WalkStep::Stop => return Ok(Some(last)),
                WalkStep::PastFolder(bytes) => {
                    name[..bytes].clone_into(&mut last);
                    from = Bound::Included(past(&path[..prefix.len() + bytes]));
                    cooperative_yield().await;
                    continue 'chunks;
                }
            }
        }
        from = Bound::Excluded(furthest.clone());
        cooperative_yield().await;
    }
}

/// The first text that is greater than everything in a folder, whose name ends in a slash: `0`
/// follows `/` in the order of bytes.
fn past(folder: &str) -> String {
    let mut text = folder.trim_end_matches('/').to_owned();
    text.push('0');
    text
}

/// What `next` is bound to: a place in one folder is none in another.
fn cursor_key(folder: &SecretPlace) -> Vec<u8> {
    hot_key(folder.mount.entry.id, &format!("\0{}", folder.path))
}

/// The same for the folder of all mounts. No path of a mount has this byte.
fn everywhere_key() -> Vec<u8> {
    hot_key(MountId::SYSTEM, "\0everywhere")
}

/// The text that leads back to a place in `folder`.
pub(in crate::engines) fn seal_cursor(
    context: &NamespaceContext,
    folder: &SecretPlace,
    at: &str,
) -> String {
    seal_at(context, &cursor_key(folder), at)
}

/// The text that leads back to a place in a mount, of a walk through all of them.
pub(in crate::engines) fn seal_everywhere(
    context: &NamespaceContext,
    mount: &str,
    at: &str,
) -> String {
    seal_at(context, &everywhere_key(), &format!("{mount}\0{at}"))
}

/// The path of a mount and the place in it where a walk through all of them goes on.
///
/// # Errors
/// [`Error::Invalid`] for a text that is none of ours.
pub(in crate::engines) fn unseal_everywhere(
    context: &NamespaceContext,
    text: &str,
) -> Result<(String, String), Error> {
    let opened = unseal_at(context, &everywhere_key(), text);
    let place = opened.and_then(|text| {
        text.split_once('\0').map(|(mount, at)| (mount.to_owned(), at.to_owned()))
    });
    place.ok_or_else(|| {
        Error::invalid("'next' is not what this server gave for this search; start over")
    })
}

fn unseal_cursor(context: &NamespaceContext, folder: &SecretPlace, text: &str) -> Option<String> {
    unseal_at(context, &cursor_key(folder), text)
}

fn seal_at(context: &NamespaceContext, key: &[u8], at: &str) -> String {
    let mut sealed = Vec::with_capacity(at.len() + MEMORY_OVERHEAD);
    context.view.cipher.seal(key, at.as_bytes(), &mut sealed);
    BASE64URL_NOPAD.encode(&sealed)
}

fn unseal_at(context: &NamespaceContext, key: &[u8], text: &str) -> Option<String> {
    let sealed = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
    let mut opened = Vec::with_capacity(sealed.len());
    context.view.cipher.open(key, &sealed, &mut opened).ok()?;
    String::from_utf8(opened).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::open_core;

    #[test]
    fn a_walk_looks_at_no_more_paths_than_its_budget_and_goes_on_where_it_ended() {
        let core = open_core(RouteAccess::Token);
        let context = core.context.load_full().unwrap();
        let (mount, _) = context.view.mounts.route("secret/").unwrap();
        for name in ["f/a", "f/b/1", "f/b/2", "f/c", "f/d", "g"] {
            mount.index.insert(name).unwrap();
        }
        let mut folder = SecretPlace::whole(mount);
        folder.path.push_str("f/");
        let walked = |after: &str, mut budget: usize| {
            let mut seen = Vec::new();
            let next = pollster::block_on(walk_within(&folder, after, &mut budget, |name| {
                seen.push(name.to_owned());
                Ok(match name.find('/') {
                    Some(at) => WalkStep::PastFolder(at + 1),
                    None => WalkStep::Next,
                })
            }));
            (seen.join(" "), next.unwrap(), budget)
        };
        assert_eq!(walked("", 100), ("a b/1 c d".to_owned(), None, 96));
        assert_eq!(walked("", 4), ("a b/1 c d".to_owned(), None, 0));
        assert_eq!(walked("", 3), ("a b/1 c".to_owned(), Some("c".to_owned()), 0));
        assert_eq!(walked("", 2), ("a b/1".to_owned(), Some("b/".to_owned()), 0));
        assert_eq!(walked("b/", 1), ("c".to_owned(), Some("c".to_owned()), 0));
        assert_eq!(walked("c", 9), ("d".to_owned(), None, 8));
        assert_eq!(walked("", 0), (String::new(), Some(String::new()), 0));
    }
}
