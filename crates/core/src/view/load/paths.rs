//! Paths that are not in their index yet.
//!
//! Records come in the order of hidden names, which is none; sorted paths go into an index several
//! times faster, and into an empty one faster still. So `load` keeps some here and puts them in by mount
//! and path. They are one text and the places in it: a text for each would leave the memory they took in
//! pieces.
//!
//! Comparing paths is a look at two places of that text, which are in no cache, and many begin alike. So they are sorted by
//! eight bytes at a time, as numbers that stand beside the places: first by the first eight, then those that have these in
//! common by the next.

use crate::storage::keys::MountId;

/// Paths sorted at a time; bounds the memory of the load. An index that holds some already takes in each one by one, which is
/// several times slower, so it is more than most servers have.
const PATHS_MAX: usize = 1 << 22;
/// Bytes of paths sorted at a time. They take less than their index and their values will, once those are in memory.
const BYTES_MAX: usize = 256 << 20;

/// Bytes of paths that are compared at once.
const HEAD_BYTES: usize = size_of::<u64>();
/// So few paths are compared as they are.
const FEW: usize = 16;
/// So are those that have so many bytes in common, as long as the longest path: what bounds the recursion.
const COMMON_BYTES_MAX: usize = 4_096;
const _: () = assert!(COMMON_BYTES_MAX >= kallisto_index::PATH_BYTES_MAX);

/// Paths that wait for their index.
#[derive(Default)]
pub(super) struct WaitingPaths {
    text: String,
    places: Vec<PathSpan>,
}

/// Where in the text a path is.
#[derive(Clone, Copy)]
struct PathSpan {
    /// The bytes that it is sorted by at the moment. No path holds a NUL, so what a shorter one lacks comes before everything.
    head: u64,
    mount: MountId,
    start: u32,
    bytes: u32,
}

/// The paths of one mount, ascending; there is at least one.
pub(super) struct OfMount<'p> {
    text: &'p str,
    places: &'p [PathSpan],
}

impl WaitingPaths {
    pub(super) fn push(&mut self, mount: MountId, path: &str) {
        // One path is far below what is left of 4 GiB.
        let start = self.text.len() as u32;
        self.text.push_str(path);
        self.places.push(PathSpan { head: 0, mount, start, bytes: path.len() as u32 });
    }

    /// Whether it is time to put them into their indexes.
    pub(super) fn are_many(&self) -> bool {
        self.places.len() >= PATHS_MAX || self.text.len() >= BYTES_MAX
    }

    /// All of them, by mount.
    pub(super) fn sorted(&mut self) -> impl Iterator<Item = OfMount<'_>> {
        let Self { text, places } = self;
        let text = &**text;
        // They come mount by mount but for a few.
        places.sort_by_key(|place| place.mount);
        for of_mount in places.chunk_by_mut(|a, b| a.mount == b.mount) {
            sort_paths(text, of_mount, 0);
        }
        // Two kinds of records may have one path in a mount; an index has it once.
        places.dedup_by(|a, b| a.mount == b.mount && a.of(text) == b.of(text));
        let mounts = places.chunk_by(|a, b| a.mount == b.mount);
        mounts.map(move |places| OfMount { text, places })
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.places.clear();
    }
}

impl PathSpan {
    fn of(self, text: &str) -> &str {
        &text[self.start as usize..][..self.bytes as usize]
    }
}

/// Sorts paths of one mount that have their first `common` bytes in common.
fn sort_paths(text: &str, places: &mut [PathSpan], common: usize) {
    let rest = |place: &PathSpan| place.of(text).as_bytes().get(common..).unwrap_or_default();
    if places.len() <= FEW || common >= COMMON_BYTES_MAX {
        places.sort_unstable_by(|a, b| rest(a).cmp(rest(b)));
        return;
    }
    for place in places.iter_mut() {
        let mut head = [0; HEAD_BYTES];
        let rest = rest(place);
        let bytes = rest.len().min(HEAD_BYTES);
        head[..bytes].copy_from_slice(&rest[..bytes]);
        place.head = u64::from_be_bytes(head);
    }
    places.sort_unstable_by_key(|place| place.head);
    for alike in places.chunk_by_mut(|a, b| a.head == b.head) {
        // Those that have ended are one path, which may come twice.
        if alike.len() > 1 && alike.iter().any(|place| rest(place).len() > HEAD_BYTES) {
            sort_paths(text, alike, common + HEAD_BYTES);
        }
    }
}

impl<'p> OfMount<'p> {
    /// The mount.
    pub(super) fn id(&self) -> MountId {
        self.places[0].mount
    }

    /// Its paths.
    pub(super) fn iter(&self) -> impl Iterator<Item = &'p str> + Clone {
        let text = self.text;
        self.places.iter().map(move |place| place.of(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_by_mount_and_in_order() {
        let mut paths = WaitingPaths::default();
        for (mount, path) in [(9, "b"), (7, "z/ä"), (9, "a/b"), (9, "b"), (7, "z"), (9, "a")] {
            paths.push(MountId(mount), path);
        }
        let sorted = |paths: &mut WaitingPaths| -> Vec<(u32, Vec<String>)> {
            let of = |of: OfMount<'_>| (of.id().0, of.iter().map(str::to_owned).collect());
            paths.sorted().map(of).collect()
        };
        let expected = [
            (7, vec!["z".to_owned(), "z/ä".to_owned()]),
            (9, vec!["a".to_owned(), "a/b".to_owned(), "b".to_owned()]),
        ];
        assert_eq!(sorted(&mut paths), expected);
        assert!(!paths.are_many());
        paths.clear();
        assert!(sorted(&mut paths).is_empty());
    }

    #[test]
    fn paths_that_begin_alike_are_in_the_order_of_all_their_bytes() {
        let ends = ["", "/", "0", "1234567", "12345678", "123456789", "12345678/ab", "ä", "~"];
        let middles = ["", "x", "long-name", "much-longer-name/of/a/folder"];
        let all = ["team/app", "team/apple", "t", "user"].iter().flat_map(|begin| {
            let middles = middles.iter().map(move |middle| format!("{begin}/{middle}"));
            middles.flat_map(|middle| ends.iter().map(move |end| format!("{middle}{end}")))
        });
        let mut expected: Vec<String> = all.collect();
        assert!(expected.len() > 5 * FEW);
        let mut paths = WaitingPaths::default();
        // Some come twice.
        let again = expected.iter().step_by(3);
        expected.iter().rev().chain(again).for_each(|path| paths.push(MountId(1), path));
        expected.sort_unstable();
        expected.dedup();
        let of_mount = paths.sorted().next().expect("there are some");
        assert_eq!(of_mount.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn paths_longer_than_any_index_takes_are_sorted_too() {
        let long = "a".repeat(3 * COMMON_BYTES_MAX);
        let mut paths = WaitingPaths::default();
        (0..2 * FEW).rev().for_each(|at| paths.push(MountId(1), &format!("{long}{at:02}")));
        let of_mount = paths.sorted().next().expect("there are some");
        let expected: Vec<String> = (0..2 * FEW).map(|at| format!("{long}{at:02}")).collect();
        assert_eq!(of_mount.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn paths_are_many_by_their_number_or_by_their_bytes() {
        let mut paths = WaitingPaths::default();
        (1..PATHS_MAX).for_each(|_| paths.push(MountId(1), "a"));
        assert!(!paths.are_many());
        paths.push(MountId(1), "a");
        assert!(paths.are_many());
        paths.clear();
        let large = "a".repeat(BYTES_MAX - 1);
        paths.push(MountId(1), &large);
        assert!(!paths.are_many());
        paths.push(MountId(1), "a");
        assert!(paths.are_many());
    }
}
