//! Folders as the index sees them: prefixes that end in a slash.
//!
//! The tree keeps full paths in bytewise order, so everything below a folder is one unbroken run
//! and a listing is that run with each sub-folder's part of it jumped over. `list`, `scan` and
//! `has_folder` are written against [`IndexCursor`] alone.
//!
//! Invariants:
//! - printed names come in bytewise order, a folder's name with its slash: `b`, `b-x`, `b/`. That
//!   is the order of the paths behind them, so no listing ever sorts;
//! - the end of a folder's run is its prefix with the slash raised to [`AFTER_SLASH`];
//! - nothing here recurses: a scan keeps one frame per segment it is inside of.

use std::ops::Bound;

use crate::cursor::IndexCursor;

/// The character right after `/`: `f0` is the first string after everything below `f/`.
const AFTER_SLASH: char = '0';
const _: () = assert!(AFTER_SLASH as u32 == '/' as u32 + 1);

/// The prefix all paths below `folder` share: empty for the root, else ending in one slash.
pub(crate) fn prefix_of(folder: &str) -> String {
    match folder {
        "" | "/" => String::new(),
        _ if folder.ends_with('/') => folder.to_owned(),
        _ => format!("{folder}/"),
    }
}

/// The first string after everything below the folder whose prefix is `prefix`; `None` for the
/// root, which nothing follows.
pub(crate) fn end_of(prefix: &str) -> Option<String> {
    let name = prefix.strip_suffix('/')?;
    Some(format!("{name}{AFTER_SLASH}"))
}

/// What the cursor stands on, as seen from one folder.
enum Child<'a> {
    Leaf(&'a str),
    /// Name of the sub-folder, slash included.
    Folder(&'a str),
    Outside,
}

fn child<'a>(prefix: &str, cursor: &'a IndexCursor<'_>) -> Child<'a> {
    let Some(rest) = cursor.peek_behind(prefix) else { return Child::Outside };
    match rest.find('/') {
        Some(slash) => Child::Folder(&rest[..=slash]),
        None => Child::Leaf(rest),
    }
}

/// Children of a folder: leaf names and sub-folder names with a slash, at most `limit`.
pub(crate) fn list(
    cursor: &mut IndexCursor<'_>,
    folder: &str,
    after: Option<&str>,
    limit: usize,
) -> Vec<String> {
    let mut names = Vec::new();
    list_each(cursor, folder, after, limit, |name| names.push(name.to_owned()));
    names
}

/// Shows the same names to `each` instead, in their order; how many they were.
pub(crate) fn list_each(
    cursor: &mut IndexCursor<'_>,
    folder: &str,
    after: Option<&str>,
    limit: usize,
    mut each: impl FnMut(&str),
) -> usize {
    let prefix = prefix_of(folder);
    seek_child_after(cursor, &prefix, after);
    for count in 0..limit {
        match child(&prefix, cursor) {
            Child::Outside => return count,
            Child::Leaf(name) => {
                each(name);
                cursor.advance();
            }
            Child::Folder(name) => {
                each(name);
                let name = name.to_owned();
                pass_child(cursor, &prefix, &name);
            }
        }
    }
    limit
}

/// Puts the cursor on the first child whose printed name is greater than `after`.
fn seek_child_after(cursor: &mut IndexCursor<'_>, prefix: &str, after: Option<&str>) {
    let Some(after) = after else {
        cursor.seek(Bound::Included(prefix));
        return;
    };
    match after.find('/') {
        // A folder's printed name ends at its first slash: what lies below is the same child.
        Some(slash) => pass_child(cursor, prefix, &after[..=slash]),
        None => cursor.seek(Bound::Excluded(&format!("{prefix}{after}"))),
    }
}

/// Moves from the child called `name` to the next one.
fn pass_child(cursor: &mut IndexCursor<'_>, prefix: &str, name: &str) {
    match end_of(name) {
        Some(end) => cursor.seek(Bound::Included(&format!("{prefix}{end}"))),
        None => cursor.advance(),
    }
}

/// Where a scan is inside one folder.
enum FolderPhase {
    /// Giving out the folder's own leaves, those after this name.
    Leaves { after: String },
    /// Entering sub-folders, those whose printed name is greater than this.
    Folders { after: String },
}

struct FolderFrame {
    prefix: String,
    phase: FolderPhase,
}

/// All leaves below a folder, relative to it: a folder's leaves before its sub-folders.
pub(crate) fn scan(
    cursor: &mut IndexCursor<'_>,
    folder: &str,
    after: Option<&str>,
    limit: usize,
) -> Vec<String> {
    let root = prefix_of(folder);
    let mut paths = Vec::new();
    let mut frames = frames_after(&root, after.unwrap_or(""));
    while paths.len() < limit {
        let Some(frame) = frames.last_mut() else { break };
        match &mut frame.phase {
            FolderPhase::Leaves { after } => {
                seek_child_after(cursor, &frame.prefix, Some(after.as_str()));
                let beside = take_leaves(cursor, &frame.prefix, root.len(), limit, &mut paths);
                // Leaves that began in the middle say nothing of the sub-folders before them.
                if after.is_empty() && beside == Beside::NoFolder {
                    frames.pop();
                } else {
                    frame.phase = FolderPhase::Folders { after: String::new() };
                }
            }
            FolderPhase::Folders { after } => {
                seek_child_after(cursor, &frame.prefix, Some(after.as_str()));
                match next_folder(cursor, &frame.prefix) {
                    None => drop(frames.pop()),
                    Some(name) => {
                        let prefix = format!("{}{name}", frame.prefix);
                        *after = name;
                        frames.push(FolderFrame {
                            prefix,
                            phase: FolderPhase::Leaves { after: String::new() },
                        });
                    }
                }
            }
        }
    }
    paths
}

/// The frames of a scan that has just given out `after`, a path relative to `root`.
fn frames_after(root: &str, after: &str) -> Vec<FolderFrame> {
    let mut frames = Vec::new();
    let mut start = 0;
    while let Some(slash) = after[start..].find('/') {
        let name = after[start..=start + slash].to_owned();
        let prefix = format!("{root}{}", &after[..start]);
        frames.push(FolderFrame { prefix, phase: FolderPhase::Folders { after: name } });
        start += slash + 1;
    }
    let prefix = format!("{root}{}", &after[..start]);
    frames.push(FolderFrame {
        prefix,
        phase: FolderPhase::Leaves { after: after[start..].to_owned() },
    });
    frames
}

/// What the leaves a scan took have beside them in their folder.
#[derive(PartialEq, Eq)]
enum Beside {
    NoFolder,
    Folders,
}

/// Pushes the folder's own leaves from the cursor on, as they read from `root_bytes` on.
fn take_leaves(
    cursor: &mut IndexCursor<'_>,
    prefix: &str,
    root_bytes: usize,
    limit: usize,
    paths: &mut Vec<String>,
) -> Beside {
    let mut beside = Beside::NoFolder;
    while paths.len() < limit {
        match child(prefix, cursor) {
            Child::Outside => break,
            Child::Leaf(name) => {
                paths.push(format!("{}{name}", &prefix[root_bytes..]));
                cursor.advance();
            }
            Child::Folder(name) => {
                let name = name.to_owned();
                pass_child(cursor, prefix, &name);
                beside = Beside::Folders;
            }
        }
    }
    beside
}

/// The next sub-folder from the cursor on, leaves passed over.
fn next_folder(cursor: &mut IndexCursor<'_>, prefix: &str) -> Option<String> {
    loop {
        match child(prefix, cursor) {
            Child::Outside => return None,
            Child::Leaf(_) => cursor.advance(),
            Child::Folder(name) => return Some(name.to_owned()),
        }
    }
}

/// Whether any path lies below the folder.
pub(crate) fn has_folder(cursor: &mut IndexCursor<'_>, folder: &str) -> bool {
    let prefix = prefix_of(folder);
    cursor.seek(Bound::Included(&prefix));
    cursor.peek_behind(&prefix).is_some()
}
