//! Paths that are in the table and not in their index yet.
//!
//! Records come in the order of hidden names, which is none; sorted paths go into an index several
//! times faster, and into an empty one faster still. So `load` keeps some here and puts them in by mount
//! and path. They are one text and the places in it: a text for each would leave the memory they took in
//! pieces.

use crate::storage::keys::MountId;

/// Paths sorted at a time; bounds the memory of the load.
const PATHS_MAX: usize = 1 << 18;
/// Bytes of paths sorted at a time.
const BYTES_MAX: usize = 64 << 20;

/// Paths that wait for their index.
#[derive(Default)]
pub(super) struct WaitingPaths {
    text: String,
    places: Vec<PathSpan>,
}

/// Where in the text a path is.
#[derive(Clone, Copy)]
struct PathSpan {
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
        self.places.push(PathSpan { mount, start, bytes: path.len() as u32 });
    }

    /// Whether it is time to put them into their indexes.
    pub(super) fn are_many(&self) -> bool {
        self.places.len() >= PATHS_MAX || self.text.len() >= BYTES_MAX
    }

    /// All of them, by mount.
    pub(super) fn sorted(&mut self) -> impl Iterator<Item = OfMount<'_>> {
        let Self { text, places } = self;
        let text = &**text;
        places.sort_unstable_by(|a, b| (a.mount, a.of(text)).cmp(&(b.mount, b.of(text))));
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
