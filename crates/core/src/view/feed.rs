//! The feed: what the last committed batches changed, in order, for those who follow secrets.
//!
//! The fold appends; followers pull from where they are, so no follower has a buffer of its own and a
//! slow one costs nothing. What is older than the feed's bounds is forgotten; a follower that was left
//! behind, or comes with a place from elsewhere, gets [`FeedGap`] and starts over.
//!
//! Invariants:
//! - A change is in the feed before the commit that made it is acknowledged, and after the view shows
//!   it: who is woken by it reads what it says.
//! - Places only rise. Everything after `forgotten` and up to `latest` is in the ring.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kallisto_store::Position;
use tokio::sync::watch;

use crate::limits::{FEED_BYTES_MAX, FEED_CHANGES_MAX, STREAMS_MAX, STREAMS_PER_TOKEN_MAX};
use crate::records::token::TokenHash;
use crate::storage::keys::MountId;

/// A place in the order of all changes: everything up to the `part`th change of the batch at
/// `position`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FeedPosition {
    position: u64,
    part: u32,
}

impl FeedPosition {
    const WHOLE: u32 = u32::MAX;

    /// After the whole batch at `position`.
    pub(crate) const fn after(position: Position) -> Self {
        Self { position: position.0, part: Self::WHOLE }
    }

    /// The position of its batch.
    pub(crate) const fn position(self) -> u64 {
        self.position
    }

    /// Reads what [`fmt::Display`] wrote: `12`, or `12.3` within a batch.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| {
            // Only the one spelling that is given out.
            let plain = text.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| text.parse::<u64>().ok()).flatten()
        };
        match text.split_once('.') {
            None => Some(Self { position: number(text)?, part: Self::WHOLE }),
            Some((position, part)) => {
                let part = u32::try_from(number(part)?).ok().filter(|&part| part < Self::WHOLE)?;
                Some(Self { position: number(position)?, part })
            }
        }
    }
}

impl fmt::Display for FeedPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            Self::WHOLE => write!(f, "{}", self.position),
            part => write!(f, "{}.{part}", self.position),
        }
    }
}

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathEvent {
    /// Something of it was written. What is left of its current version: the number, 0 for a secret
    /// without versions; when it is deleted by itself; whether somebody deleted or
    /// destroyed it.
    Written { version: u64, deletion_ns: Option<i64>, gone: bool },
    /// The secret is gone with all its versions.
    Removed,
}

/// One change of one secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FeedChange {
    pub(crate) mount: MountId,
    pub(crate) path: Box<str>,
    pub(crate) what: PathEvent,
}

/// The place asked for is not in the feed: forgotten, or of another history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FeedGap;

/// Changes taken from the feed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TakenChanges {
    /// Those that were asked for, each with its place.
    pub(crate) changes: Vec<(FeedPosition, FeedChange)>,
    /// Where to go on.
    pub(crate) upto: FeedPosition,
    /// Whether that is the end of the feed.
    pub(crate) at_end: bool,
}

/// The last changes, and a channel that notifies those who wait for the next.
pub(crate) struct Feed {
    ring: Mutex<FeedRing>,
    notify: watch::Sender<()>,
    followers: Mutex<HashMap<TokenHash, usize>>,
}

struct FeedRing {
    changes: VecDeque<(FeedPosition, FeedChange)>,
    bytes: usize,
    forgotten: FeedPosition,
    latest: FeedPosition,
}

impl Default for Feed {
    fn default() -> Self {
        let nowhere = FeedPosition::after(Position(0));
        let ring =
            FeedRing { changes: VecDeque::new(), bytes: 0, forgotten: nowhere, latest: nowhere };
        Self { ring: Mutex::new(ring), notify: watch::Sender::new(()), followers: Mutex::default() }
    }
}

impl Feed {
    fn ring(&self) -> MutexGuard<'_, FeedRing> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the history at `position`: nothing before it will ever be known.
    pub(crate) fn start(&self, position: Position) {
        let mut ring = self.ring();
        *ring = FeedRing {
            changes: VecDeque::new(),
            bytes: 0,
            forgotten: FeedPosition::after(position),
            latest: FeedPosition::after(position),
        };
    }

    /// Takes in what the batch at `position` changed, in its order.
    pub(crate) fn append(&self, position: Position, changes: Vec<FeedChange>) {
        let rings = !changes.is_empty();
        {
            let mut ring = self.ring();
            let last = changes.len();
            for (at, change) in changes.into_iter().enumerate() {
                // The last change stands for the whole batch.
                let part = if at + 1 == last { FeedPosition::WHOLE } else { at as u32 };
                ring.bytes += bytes_of(&change);
                ring.make_room();
                ring.changes.push_back((FeedPosition { position: position.0, part }, change));
            }
            ring.latest = FeedPosition::after(position);
        }
        if rings {
            self.notify_watchers();
        }
    }

    /// Wakes everyone who waits: something besides secrets changed that they may have to hear of.
    pub(crate) fn notify_watchers(&self) {
        self.notify.send_replace(());
    }

    /// Is notified from now on.
    pub(crate) fn listen(&self) -> watch::Receiver<()> {
        self.notify.subscribe()
    }

    /// The last place.
    pub(crate) fn latest(&self) -> FeedPosition {
        self.ring().latest
    }

    /// Looks at no more than `examined_max` changes after `after` and takes those that `wants`.
    ///
    /// # Errors
    /// [`FeedGap`] when something after that place is not known any more, or the place is none of ours.
    pub(crate) fn take(
        &self,
        after: FeedPosition,
        examined_max: usize,
        wants: impl Fn(&FeedChange) -> bool,
    ) -> Result<TakenChanges, FeedGap> {
        let ring = self.ring();
        if after < ring.forgotten || after > ring.latest {
            return Err(FeedGap);
        }
        let start = ring.changes.partition_point(|(place, _)| *place <= after);
        let looked_at = ring.changes.range(start..).take(examined_max);
        let at_end = ring.changes.len() - start <= examined_max;
        let upto = match at_end {
            true => ring.latest,
            false => ring.changes[start + examined_max - 1].0,
        };
        let changes = looked_at.filter(|(_, change)| wants(change)).cloned().collect();
        Ok(TakenChanges { changes, upto, at_end })
    }

    /// A place among the followers, given back when it is dropped; `None` when there are too many, in
    /// all or of this token.
    pub(crate) fn admit(self: &std::sync::Arc<Self>, token: TokenHash) -> Option<Permit> {
        let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = followers.values().sum();
        let own = followers.entry(token).or_default();
        if all >= STREAMS_MAX || *own >= STREAMS_PER_TOKEN_MAX {
            if *own == 0 {
                followers.remove(&token);
            }
            return None;
        }
        *own += 1;
        Some(Permit { feed: std::sync::Arc::clone(self), token })
    }
}

/// One follower's place.
pub(crate) struct Permit {
    feed: std::sync::Arc<Feed>,
    token: TokenHash,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut followers = self.feed.followers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = followers.get_mut(&self.token) {
            *own -= 1;
            if *own == 0 {
                followers.remove(&self.token);
            }
        }
    }
}

impl FeedRing {
    /// Forgets the oldest changes for the next, whose bytes are counted already. Before it comes, not after: a queue one
    /// longer than the bound would take twice the memory.
    fn make_room(&mut self) {
        while self.changes.len() >= FEED_CHANGES_MAX || self.bytes > FEED_BYTES_MAX {
            let Some((place, change)) = self.changes.pop_front() else { return };
            self.bytes -= bytes_of(&change);
            self.forgotten = place;
        }
    }
}

fn bytes_of(change: &FeedChange) -> usize {
    size_of::<(FeedPosition, FeedChange)>() + change.path.len()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn change(path: &str) -> FeedChange {
        FeedChange { mount: MountId(1), path: path.into(), what: PathEvent::Removed }
    }

    #[test]
    fn places_read_back_and_only_in_one_spelling() {
        for (text, position, part) in
            [("0", 0, FeedPosition::WHOLE), ("12", 12, FeedPosition::WHOLE), ("12.3", 12, 3)]
        {
            let place = FeedPosition::parse(text).unwrap();
            assert_eq!(place, FeedPosition { position, part });
            assert_eq!(place.to_string(), text);
        }
        for junk in ["", ".", "1.", ".1", "-1", "+1", "1.2.3", "1.4294967295", "x", " 1"] {
            assert_eq!(FeedPosition::parse(junk), None, "{junk}");
        }
    }

    /// Whatever the bounds of a look and the place one starts from, each change comes once, in order.
    #[test]
    fn every_change_after_a_place_comes_once() {
        let feed = Feed::default();
        feed.start(Position(5));
        let mut all = Vec::new();
        for (position, parts) in [(6, 1), (9, 3), (10, 0), (12, 2)] {
            let changes: Vec<_> =
                (0..parts).map(|at| change(&format!("{position}/{at}"))).collect();
            all.extend(changes.iter().map(|change| change.path.clone()));
            feed.append(Position(position), changes);
        }
        let starts: Vec<FeedPosition> = std::iter::once(FeedPosition::after(Position(5)))
            .chain(
                feed.take(FeedPosition::after(Position(5)), 99, |_| true)
                    .unwrap()
                    .changes
                    .into_iter()
                    .map(|(place, _)| place),
            )
            .collect();
        for (seen, start) in starts.iter().enumerate() {
            for step in 1..4 {
                let (mut place, mut got) = (*start, Vec::new());
                loop {
                    let taken = feed.take(place, step, |_| true).unwrap();
                    got.extend(taken.changes.into_iter().map(|(_, change)| change.path));
                    place = taken.upto;
                    if taken.at_end {
                        break;
                    }
                }
                assert_eq!(got, all[seen..], "from {start} in steps of {step}");
                assert_eq!(place, feed.latest());
            }
        }
        assert_eq!(feed.take(FeedPosition::after(Position(4)), 9, |_| true), Err(FeedGap));
        assert_eq!(feed.take(FeedPosition::after(Position(13)), 9, |_| true), Err(FeedGap));
    }

    #[test]
    fn the_feed_is_bounded_and_says_what_it_forgot() {
        let feed = Feed::default();
        feed.start(Position(0));
        let count = FEED_CHANGES_MAX as u64 + 10;
        for position in 1..=count {
            feed.append(Position(position), vec![change("a")]);
        }
        assert_eq!(feed.ring().changes.len(), FEED_CHANGES_MAX);
        assert!(feed.ring().changes.capacity() < 2 * FEED_CHANGES_MAX, "it never was longer");
        assert_eq!(feed.take(FeedPosition::after(Position(9)), 1, |_| true), Err(FeedGap));
        let rest = feed.take(FeedPosition::after(Position(10)), usize::MAX, |_| true).unwrap();
        assert_eq!(rest.changes.len(), FEED_CHANGES_MAX);
        let long = "x".repeat(1000);
        for position in count + 1..=2 * count {
            feed.append(Position(position), vec![change(&long)]);
        }
        let ring = feed.ring();
        let bytes_of =
            |change: &FeedChange| size_of::<(FeedPosition, FeedChange)>() + change.path.len();
        let bytes: usize = ring.changes.iter().map(|(_, change)| bytes_of(change)).sum();
        assert_eq!(ring.bytes, bytes);
        assert!(bytes <= FEED_BYTES_MAX && bytes + 2_000 > FEED_BYTES_MAX, "{bytes}");
    }

    #[test]
    fn a_look_that_meets_the_last_change_is_at_the_end() {
        let feed = Feed::default();
        feed.start(Position(1));
        feed.append(Position(2), vec![change("a"), change("b"), change("c")]);
        let taken = feed.take(FeedPosition::after(Position(1)), 3, |_| true).unwrap();
        assert!(taken.at_end);
        assert_eq!(taken.upto, FeedPosition::after(Position(2)));
        let places: Vec<_> = taken.changes.iter().map(|(place, _)| place.to_string()).collect();
        assert_eq!(places, ["2.0", "2.1", "2"], "the last stands for the whole batch");
        let taken = feed.take(FeedPosition::after(Position(1)), 2, |_| true).unwrap();
        assert!(!taken.at_end && taken.upto.to_string() == "2.1");
    }

    #[test]
    fn who_listens_is_notified_of_changes_and_of_no_empty_batch() {
        let feed = Feed::default();
        let mut heard = feed.listen();
        let mut is_notified = || {
            let is_notified = heard.has_changed().unwrap();
            heard.mark_unchanged();
            is_notified
        };
        assert!(!is_notified());
        feed.append(Position(1), Vec::new());
        assert!(!is_notified());
        feed.append(Position(2), vec![change("a")]);
        assert!(is_notified() && !is_notified());
        feed.notify_watchers();
        assert!(is_notified());
    }

    #[test]
    fn followers_are_counted_in_all_and_who_is_refused_leaves_nothing_behind() {
        let feed = Arc::new(Feed::default());
        let token = |at: usize| {
            let mut token = [0; 32];
            token[..8].copy_from_slice(&at.to_be_bytes());
            token
        };
        let held: Vec<_> = (0..STREAMS_MAX).map(|at| feed.admit(token(at)).unwrap()).collect();
        assert!(feed.admit(token(STREAMS_MAX)).is_none() && feed.admit(token(0)).is_none());
        assert_eq!(feed.followers.lock().unwrap().len(), STREAMS_MAX);
        drop(held);
        assert!(feed.followers.lock().unwrap().is_empty());
    }

    #[test]
    fn followers_are_counted_per_token() {
        let feed = Arc::new(Feed::default());
        let mut held: Vec<_> =
            (0..STREAMS_PER_TOKEN_MAX).map(|_| feed.admit([1; 32]).unwrap()).collect();
        assert!(feed.admit([1; 32]).is_none());
        assert!(feed.admit([2; 32]).is_some());
        held.pop();
        assert!(feed.admit([1; 32]).is_some());
        drop(held);
        assert!(feed.followers.lock().unwrap().is_empty());
    }
}
