//! Group commit: writers that come while a commit is under way share the next one.
//!
//! A writer copies its encoded batch into the *forming group* under a short lock. If there is no leader, it becomes the
//! leader: it takes the whole group, commits it (one WAL frame, one sync), wakes everyone in it, and looks again: while
//! it worked, others have formed the next group. After a bounded number of rounds it hands the lead to a writer of that
//! group, so that no caller works for the others for ever.
//!
//! Two buffers change places for ever; nothing is allocated per commit beyond the group's mailbox.

use std::sync::{Arc, Condvar, Mutex};

use crate::batch::EntryBatch;
use crate::error::{Error, Result};
use crate::limits::{
    BATCH_OPS_MAX, GROUP_BYTES_MAX, LEADER_ROUNDS_MAX, POOLED_BUFFER_BYTES_MAX, POOLED_BUFFERS_MAX,
};
use crate::sync::{lock, wait};
use crate::wal::frame;

/// Whether a commit must be on the disk before it returns, whatever the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// As the engine's mode says.
    Mode,
    /// Before it returns.
    Now,
}

/// Batches that will be committed as one.
#[derive(Debug)]
pub(crate) struct CommitGroup {
    /// A started WAL frame with the operations behind its header.
    pub(crate) buffer: Vec<u8>,
    /// How many operations it has.
    pub(crate) ops: usize,
    /// The highest outer position in it.
    pub(crate) position: u64,
    /// Whether someone in it asked for a sync.
    pub(crate) sync: Sync,
    mailbox: Arc<Mailbox>,
}

#[derive(Debug, Default)]
struct Mailbox {
    post: Mutex<Post>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Post {
    mail: Mail,
    /// Someone waits for it. To tell nobody costs a system call too.
    awaited: bool,
}

#[derive(Debug, Default)]
enum Mail {
    #[default]
    None,
    /// One of the group shall lead.
    Lead,
    Done(Result<()>),
}

/// Where writers meet.
#[derive(Debug)]
pub(crate) struct CommitQueue {
    state: Mutex<GroupState>,
    /// A full group was taken: there is room in the next one.
    room: Condvar,
}

#[derive(Debug)]
struct GroupState {
    forming: CommitGroup,
    leading: bool,
    /// Someone waits for room.
    crowded: bool,
    spare: Vec<Vec<u8>>,
}

impl CommitGroup {
    fn new(mut buffer: Vec<u8>) -> Self {
        frame::start(&mut buffer);
        Self { buffer, ops: 0, position: 0, sync: Sync::Mode, mailbox: Arc::default() }
    }

    /// The encoded operations.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.buffer[frame::HEADER_BYTES..]
    }

    fn is_full(&self) -> bool {
        self.buffer.len() >= GROUP_BYTES_MAX || self.ops >= BATCH_OPS_MAX
    }
}

impl CommitQueue {
    /// A queue without writers.
    pub(crate) fn new() -> Self {
        let forming = CommitGroup::new(Vec::new());
        let state = GroupState { forming, leading: false, crowded: false, spare: Vec::new() };
        Self { state: Mutex::new(state), room: Condvar::new() }
    }

    /// Commits a batch together with whoever else is there; `commit` is what a leader does with a group.
    pub(crate) fn submit(
        &self,
        batch: &EntryBatch,
        sync: Sync,
        mut commit: impl FnMut(&mut CommitGroup) -> Result<()>,
    ) -> Result<()> {
        let mut state = lock(&self.state);
        while state.leading && state.forming.is_full() {
            state.crowded = true;
            state = wait(&self.room, state);
        }
        let forming = &mut state.forming;
        forming.buffer.extend_from_slice(batch.bytes());
        forming.ops += batch.len();
        forming.position = forming.position.max(batch.position());
        if sync == Sync::Now {
            forming.sync = Sync::Now;
        }
        let mailbox = forming.mailbox.clone();
        let leads = !std::mem::replace(&mut state.leading, true);
        drop(state);
        if leads || mailbox.wait_for_lead() {
            self.lead(&mut commit);
        }
        mailbox.result()
    }

    fn lead(&self, commit: &mut impl FnMut(&mut CommitGroup) -> Result<()>) {
        for _ in 0..LEADER_ROUNDS_MAX {
            let mut group = self.take_group();
            let mut guard = Deliver { mailbox: &group.mailbox.clone(), result: None };
            guard.result = Some(commit(&mut group));
            drop(guard);
            let mut state = lock(&self.state);
            if group.buffer.capacity() <= POOLED_BUFFER_BYTES_MAX
                && state.spare.len() < POOLED_BUFFERS_MAX
            {
                state.spare.push(group.buffer);
            }
            if state.forming.ops == 0 {
                state.leading = false;
                return;
            }
        }
        let mailbox = lock(&self.state).forming.mailbox.clone();
        mailbox.send(Mail::Lead);
    }

    fn take_group(&self) -> CommitGroup {
        let mut state = lock(&self.state);
        let fresh = CommitGroup::new(state.spare.pop().unwrap_or_default());
        let group = std::mem::replace(&mut state.forming, fresh);
        let crowded = std::mem::take(&mut state.crowded);
        drop(state);
        if crowded {
            self.room.notify_all();
        }
        group
    }
}

impl Mailbox {
    fn send(&self, mail: Mail) {
        let lead = matches!(mail, Mail::Lead);
        let mut post = lock(&self.post);
        post.mail = mail;
        match (post.awaited, lead) {
            (false, _) => {}
            (true, true) => self.arrived.notify_one(),
            (true, false) => self.arrived.notify_all(),
        }
    }

    /// Waits for mail; true if the reader shall lead.
    fn wait_for_lead(&self) -> bool {
        let mut post = lock(&self.post);
        loop {
            match post.mail {
                Mail::None => {
                    post.awaited = true;
                    post = wait(&self.arrived, post);
                }
                Mail::Lead => {
                    post.mail = Mail::None;
                    return true;
                }
                Mail::Done(_) => return false,
            }
        }
    }

    fn result(&self) -> Result<()> {
        match &lock(&self.post).mail {
            Mail::Done(result) => result.clone(),
            Mail::None | Mail::Lead => unreachable!("a leader commits its own group first"),
        }
    }
}

/// Delivers a group's result, also when its leader panics: nobody may wait for ever.
struct Deliver<'a> {
    mailbox: &'a Mailbox,
    result: Option<Result<()>>,
}

impl Drop for Deliver<'_> {
    fn drop(&mut self) {
        let panicked = || Err(Error::Poisoned("a committing thread panicked".to_owned()));
        self.mailbox.send(Mail::Done(self.result.take().unwrap_or_else(panicked)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::batch::Operations;

    #[test]
    fn every_batch_is_committed_once_and_whole() {
        let queue = CommitQueue::new();
        let seen = Mutex::new(Vec::new());
        let groups = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for writer in 0..8u32 {
                let (queue, seen, groups) = (&queue, &seen, &groups);
                scope.spawn(move || {
                    for n in 0..200u32 {
                        let mut batch = EntryBatch::new();
                        batch.put(&writer.to_be_bytes(), &n.to_be_bytes()).unwrap();
                        batch.put(&writer.to_be_bytes(), b"second").unwrap();
                        let commit = |group: &mut CommitGroup| {
                            let mut seen = lock(seen);
                            let all: Vec<_> = Operations::new(group.payload()).collect();
                            assert_eq!(all.len(), group.ops);
                            for pair in all.chunks(2) {
                                let (first, second) = (pair[0].unwrap(), pair[1].unwrap());
                                assert_eq!((first.key, second.value), (second.key, &b"second"[..]));
                                seen.push((first.key.to_vec(), first.value.to_vec()));
                            }
                            groups.fetch_add(1, Ordering::Relaxed);
                            std::thread::yield_now();
                            Ok(())
                        };
                        queue.submit(&batch, Sync::Mode, commit).unwrap();
                        let mine = (writer.to_be_bytes().to_vec(), n.to_be_bytes().to_vec());
                        assert!(lock(seen).contains(&mine), "committed before it returns");
                    }
                });
            }
        });
        let mut seen = lock(&seen);
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 1600);
        assert!(groups.load(Ordering::Relaxed) <= 1600);
    }

    #[test]
    fn everyone_in_a_group_hears_its_error() {
        let queue = CommitQueue::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut batch = EntryBatch::new();
                    batch.delete(b"k").unwrap();
                    let result = queue.submit(&batch, Sync::Now, |group| {
                        assert!(group.sync == Sync::Now);
                        Err(Error::Closed)
                    });
                    assert_eq!(result, Err(Error::Closed));
                });
            }
        });
    }

    #[test]
    fn a_group_is_full_at_its_bytes_or_its_operations() {
        let mut group = CommitGroup::new(Vec::new());
        group.buffer.resize(GROUP_BYTES_MAX - 1, 0);
        group.ops = BATCH_OPS_MAX - 1;
        assert!(!group.is_full());
        group.ops += 1;
        assert!(group.is_full());
        group.ops = 1;
        group.buffer.push(0);
        assert!(group.is_full());
    }

    #[test]
    fn buffers_of_the_usual_size_are_used_again() {
        let queue = CommitQueue::new();
        let commit = |value: usize| {
            let mut batch = EntryBatch::new();
            batch.put(b"k", &vec![0; value]).unwrap();
            queue.submit(&batch, Sync::Mode, |_| Ok(())).unwrap();
            lock(&queue.state).spare.len()
        };
        assert_eq!([1, 1000, 1].map(commit), [1, 1, 1]);
        assert_eq!(commit(POOLED_BUFFER_BYTES_MAX + 1), 0, "so large a one is not kept");
        assert_eq!(commit(1), 1);
        lock(&queue.state).spare = vec![Vec::new(); POOLED_BUFFERS_MAX];
        assert_eq!(commit(1), POOLED_BUFFERS_MAX);
    }
}
