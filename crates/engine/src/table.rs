//! Tables of routes, with their handlers.
//!
//! A [`RouteRows`] is what an engine answers by: a request is matched against its rows, and the row has the handler. So no path or operation is
//! answered that the table does not list, and what is not listed is refused in one place.
//!
//! No two rows of a table match the same path with equally many fixed bytes; tests hold that.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use kallisto_api::Error;
use kallisto_auth::Operation;

use crate::pattern::{self, Params};
use crate::route::{Admits, Creates, Rights, Route};

/// One route, and what runs for each of its operations.
#[derive(Clone, Copy, Debug)]
pub struct Row<H: 'static> {
    /// What there is to say of it.
    pub route: Route,
    /// What runs, one for each operation of [`Route::does`].
    pub handlers: &'static [(Operation, H)],
}

/// Rows by subject.
pub type RowGroup<H> = &'static [Row<H>];

/// The routes below one base, and what answers them.
#[derive(Debug)]
pub struct RouteRows<H: 'static> {
    /// Leads the identifiers of its operations.
    pub name: &'static str,
    /// How OpenAPI groups it.
    pub tag: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Its rows.
    pub groups: &'static [RowGroup<H>],
    /// How they are found.
    pub index: RowIndex<H>,
}

/// The rows of a table by the first segment of their patterns; made when a row is first looked up.
#[derive(Debug)]
pub struct RowIndex<H: 'static>(OnceLock<RowLists<H>>);

impl<H> RowIndex<H> {
    /// An index that is not made yet.
    #[expect(clippy::new_without_default, reason = "a default cannot be made in a static")]
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }
}

/// Lists of rows, each in the order in which they are tried.
#[derive(Debug)]
struct RowLists<H: 'static> {
    /// Those without a parameter, in the order of their patterns: a path that is one of them is of no other row that has as many fixed bytes.
    fixed: Vec<&'static Row<H>>,
    /// In the order of the segments.
    by_first_segment: Vec<(&'static str, Vec<&'static Row<H>>)>,
    /// Rows whose patterns begin with a parameter. They are in every list above as well.
    others: Vec<&'static Row<H>>,
    /// What answers where none of the above matches.
    fallback: Option<&'static Row<H>>,
    rights: FirstSegments,
    creating: FirstSegments,
    has_open: bool,
}

/// The first segments below which there are rows of a kind: whether a path can be one of them is known without looking the row up, which
/// costs a read as much as finding its mount.
#[derive(Debug, Default, PartialEq, Eq)]
struct FirstSegments {
    /// Whether such a row begins with a parameter.
    any: bool,
    named: Vec<&'static str>,
}

impl FirstSegments {
    fn of(patterns: impl Iterator<Item = &'static str>) -> Self {
        let mut found = Self::default();
        for first in patterns.map(pattern::first_segment) {
            if first.starts_with('{') {
                found.any = true;
            } else if !found.named.contains(&first) {
                found.named.push(first);
            }
        }
        found
    }

    fn is_empty(&self) -> bool {
        !self.any && self.named.is_empty()
    }

    fn has(&self, path: &str) -> bool {
        let starts = |first: &&str| {
            path.strip_prefix(first).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.any || self.named.iter().any(starts)
    }
}

impl<H> RowLists<H> {
    fn new(groups: &'static [RowGroup<H>]) -> Self {
        let all = || groups.iter().flat_map(|group| group.iter());
        let rows = || all().filter(|row| !row.route.is_fallback);
        let (mut fixed, others): (Vec<_>, Vec<_>) =
            rows().partition(|row| !row.route.pattern.contains('{'));
        fixed.sort_by_key(|row| row.route.pattern);
        let is_parameter = |segment: &str| segment.starts_with('{');
        let in_order = |first: Option<&str>| {
            let mut fitting: Vec<_> = others
                .iter()
                .copied()
                .filter(|row| {
                    let segment = pattern::first_segment(row.route.pattern);
                    is_parameter(segment) || Some(segment) == first
                })
                .collect();
            fitting.sort_by_key(|row| Reverse(pattern::fixed_bytes(row.route.pattern)));
            fitting
        };
        let firsts = others.iter().map(|row| pattern::first_segment(row.route.pattern));
        let firsts = firsts.filter(|segment| !is_parameter(segment));
        let by_first_segment: BTreeMap<_, _> =
            firsts.map(|first| (first, in_order(Some(first)))).collect();
        let by_first_segment = by_first_segment.into_iter().collect();
        let with_rights = rows().filter(|row| row.route.rights != Rights::Plain);
        let rights = FirstSegments::of(with_rights.map(|row| row.route.pattern));
        let creating = rows().filter(|row| !matches!(row.route.creates, Creates::Never));
        let creating = FirstSegments::of(creating.map(|row| row.route.pattern));
        let fallback = all().find(|row| row.route.is_fallback);
        let has_open = rows().any(|row| row.route.admits == Admits::Anyone);
        let others = in_order(None);
        Self { fixed, by_first_segment, others, fallback, rights, creating, has_open }
    }

    /// The row that serves `path`: of those that match the one with the most fixed bytes.
    fn find(&self, path: &str) -> Option<&'static Row<H>> {
        if let Ok(at) = self.fixed.binary_search_by_key(&path, |row| row.route.pattern) {
            return self.fixed.get(at).copied();
        }
        let first = pattern::first_segment(path);
        let listed = self.by_first_segment.binary_search_by_key(&first, |(first, _)| first);
        let listed = listed.ok().and_then(|at| self.by_first_segment.get(at));
        let mut tried = listed.map_or(&self.others, |(_, rows)| rows).iter();
        tried.find(|row| row.route.matches(path)).copied()
    }
}

/// What there is to say of the routes below one base.
pub trait Routes: Sync {
    /// Leads the identifiers of its operations.
    fn name(&self) -> &'static str;

    /// How OpenAPI groups it.
    fn tag(&self) -> &'static str;

    /// What it is for.
    fn about(&self) -> &'static str;

    /// Every row, but for those that answer where no other does.
    fn routes(&self) -> Box<dyn Iterator<Item = &'static Route>>;

    /// The row that serves `path`: of those that match the one with the most fixed bytes.
    fn find(&self, path: &str) -> Option<&'static Route>;

    /// Whether any of its rows needs more than the capability of the operation.
    fn has_rights(&self) -> bool {
        self.routes().any(|route| route.rights != Rights::Plain)
    }

    /// Whether a row that serves `path` may need more than the capability of the operation; cheaper than finding the row.
    fn may_need_rights(&self, _path: &str) -> bool {
        self.has_rights()
    }

    /// Whether an update at `path` may take `create` instead of `update`; cheaper than finding the row.
    fn may_create(&self, _path: &str) -> bool {
        true
    }

    /// Whether any of its rows admits anyone.
    fn has_open(&self) -> bool {
        self.routes().any(|route| route.admits == Admits::Anyone)
    }

    /// Whether asking at `path` needs `sudo` besides the capability of `operation`. What no row serves is never run.
    fn needs_sudo(&self, operation: Operation, path: &str) -> bool {
        self.may_need_rights(path) && {
            let route = self.find(path.strip_suffix('/').unwrap_or(path));
            route.is_some_and(|route| route.rights.need_sudo(operation))
        }
    }

    /// Why a request is refused that no handler took: a path that does not exist, or an operation that it does not take. A list is of
    /// the folder at its path: it is an operation of routes that list and of paths of open length, and no other path has a folder.
    fn refusal(&self, path: &str, operation: Operation) -> Error {
        let bare = path.strip_suffix('/').unwrap_or(path);
        let found = self.find(bare).or_else(|| self.find(path));
        let Some(route) = found else { return Error::UnsupportedPath };
        // It was asked with a slash at its end, as a folder that is none.
        if route.takes(operation) {
            return Error::UnsupportedPath;
        }
        let lists = matches!(operation, Operation::List | Operation::Scan);
        let has_folder = route.takes(Operation::List) || self.find(&format!("{bare}/")).is_some();
        if lists && !has_folder { Error::UnsupportedPath } else { Error::UnsupportedOperation }
    }
}

/// What answers a request.
#[derive(Clone, Copy, Debug)]
pub struct Dispatch<'p, H> {
    /// What runs.
    pub handler: H,
    /// What the path has in the places of the pattern's parameters.
    pub params: Params<'p>,
    /// What there is to say of the route.
    pub route: &'static Route,
}

impl<H> RouteRows<H> {
    /// Every row.
    pub fn rows(&self) -> impl Iterator<Item = &'static Row<H>> + use<H> {
        self.groups.iter().flat_map(|group| group.iter())
    }

    fn index(&self) -> &RowLists<H> {
        self.index.0.get_or_init(|| RowLists::new(self.groups))
    }

    fn row(&self, path: &str) -> Option<&'static Row<H>> {
        self.index().find(path)
    }
}

impl<H: Copy> RouteRows<H> {
    /// Finds what answers an operation at a path inside the mount. The empty path is the folder of everything in the mount, which an engine
    /// whose paths are of open length lists.
    ///
    /// # Errors
    /// [`Error::UnsupportedPath`] and [`Error::UnsupportedOperation`] for what the table does not list.
    pub fn dispatch<'p>(
        &self,
        operation: Operation,
        path: &'p str,
    ) -> Result<Dispatch<'p, H>, Error>
    where
        H: Send + Sync,
    {
        let lists = matches!(operation, Operation::List | Operation::Scan);
        let of_any_path = || self.rows().find(|row| pattern::is_any_path(row.route.pattern));
        let row = if lists && path.is_empty() { of_any_path() } else { self.row(path) };
        let fallback = || self.index().fallback.filter(|row| row.route.matches(path));
        let found = row.or_else(fallback).and_then(|row| {
            let (_, handler) = row.handlers.iter().find(|(takes, _)| *takes == operation)?;
            let params = Params::new(row.route.pattern, path);
            Some(Dispatch { handler: *handler, params, route: &row.route })
        });
        found.ok_or_else(|| self.refusal(path, operation))
    }
}

impl<H: Copy + Send + Sync> Routes for RouteRows<H> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn tag(&self) -> &'static str {
        self.tag
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn routes(&self) -> Box<dyn Iterator<Item = &'static Route>> {
        let routes = self.rows().map(|row| &row.route);
        Box::new(routes.filter(|route| !route.is_fallback))
    }

    fn find(&self, path: &str) -> Option<&'static Route> {
        self.row(path).map(|row| &row.route)
    }

    fn has_rights(&self) -> bool {
        !self.index().rights.is_empty()
    }

    fn may_need_rights(&self, path: &str) -> bool {
        self.index().rights.has(path)
    }

    fn may_create(&self, path: &str) -> bool {
        self.index().creating.has(path)
    }

    fn has_open(&self) -> bool {
        self.index().has_open
    }
}

/// One row of a table: a [`Route`] and what runs for each of its operations.
///
/// ```ignore
/// row!("keys/{name}", &[NAME], {
///     Read => "Reads a key, without its secret.", handler!(read);
///     Delete => "Deletes a key.", handler!(delete);
/// } .with_sudo())
/// ```
/// What follows the operations are methods of [`Route`].
#[macro_export]
macro_rules! row {
    ($pattern:expr, $fields:expr, { $($operation:ident => $about:expr, $handler:expr);+ $(;)? } $($facts:tt)*) => {
        $crate::Row {
            route: $crate::Route::new(
                $pattern,
                &[$(($crate::route::Operation::$operation, $about)),+],
                $fields,
            )$($facts)*,
            handlers: &[$(($crate::route::Operation::$operation, $handler)),+],
        }
    };
}

/// A [`Handler`](crate::Handler): an `async fn(Call<'_>) -> Result<Response, Error>`, or an expression of a call.
#[macro_export]
macro_rules! handler {
    (async |$call:ident| $body:expr) => {
        |$call| ::std::boxed::Box::pin(async move { $body })
    };
    (|$call:ident| $body:expr) => {
        |$call| ::std::boxed::Box::pin(::std::future::ready((move || $body)()))
    };
    ($function:path) => {
        |call| ::std::boxed::Box::pin($function(call))
    };
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::{Delete, List, Read};

    use super::*;
    use crate::route::field;

    static KEPT: RouteRows<&str> = RouteRows {
        name: "kept",
        tag: "",
        about: "",
        groups: &[&[
            row!("data/{path..}", &[], { Read => "", "read"; } .with_root().with_sudo()),
            row!("config", &[field("a", crate::FieldKind::Text, "")], { Read => "", "config"; }),
            row!("{path..}", &[], {
                Read => "", "missing";
                List => "", "no list";
            } .with_root().as_fallback()),
        ]],
        index: RowIndex::new(),
    };

    #[test]
    fn rights_are_looked_for_only_below_the_segments_that_have_some() {
        let rights = &KEPT.index().rights;
        assert_eq!(*rights, FirstSegments { any: false, named: vec!["data"] });
        for (path, may) in [("data", true), ("data/", true), ("data/a/b", true), ("data2/a", false)]
        {
            assert_eq!(KEPT.may_need_rights(path), may, "{path}");
        }
        for path in ["config", "", "datum", "other/data"] {
            assert!(!KEPT.may_need_rights(path) && !KEPT.needs_sudo(Read, path), "{path}");
        }
        let any = FirstSegments::of(["a/{b}", "{c}/d"].into_iter());
        assert!(any.has("x") && !any.is_empty() && FirstSegments::default().is_empty());
    }

    #[test]
    fn a_fallback_answers_what_no_other_row_matches_and_nobody_else_sees_it() {
        for (operation, path, answer) in [
            (Read, "data/a", Some("read")),
            (Read, "data/", Some("read")),
            (Read, "data", Some("missing")),
            (Read, "config", Some("config")),
            (Read, "config/", Some("missing")),
            (Read, "", Some("missing")),
            (List, "", Some("no list")),
            (List, "data/", None),
            (List, "data/a/", None),
            (Delete, "config", None),
            (Delete, "other", None),
        ] {
            let found = KEPT.dispatch(operation, path).ok().map(|found| found.handler);
            assert_eq!(found, answer, "{operation:?} {path}");
        }
        for (operation, path, is_path) in
            [(Delete, "data/", true), (List, "data/", true), (Delete, "other", false)]
        {
            let refused = KEPT.dispatch(operation, path).unwrap_err();
            let says_path = matches!(refused, Error::UnsupportedPath);
            assert_eq!(says_path, !is_path, "{operation:?} {path}");
        }
        assert_eq!(KEPT.routes().count(), 2);
        assert!(KEPT.find("other").is_none());
    }
}
