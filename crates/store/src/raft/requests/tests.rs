//! The queue before the driver: what it takes in, whom it wakes, what it refuses.

use kallisto_lsm::clock::{Clock, RealClock};

use super::*;
use crate::Commit;

fn commit(bytes: usize) -> (DriverRequest, Commit) {
    let (promise, commit) = Commit::promised();
    (DriverRequest::Commit { data: vec![0; bytes], need: Need::Usual, promise }, commit)
}

#[test]
fn what_is_over_a_limit_is_refused_as_busy_and_the_rest_stays_in_order() {
    let requests = Requests::default();
    let large = commit(WAITING_BYTES_MAX);
    requests.push(large.0);
    let over = commit(1);
    requests.push(over.0);
    assert_eq!(over.1.wait(), Err(Error::Busy));
    let (save, _saved) = Commit::promised();
    requests.push(DriverRequest::Save(save));
    let mut taken = Vec::new();
    assert_eq!(requests.take(&mut taken, Backpressure::Off), DrainState::Something);
    assert_eq!((taken.len(), requests.len()), (1, 1), "a large one is a group of its own");
    requests.push(commit(1).0);
    assert_eq!(requests.len(), 2);
}

#[test]
fn what_came_meanwhile_is_told_from_what_was_awaited() {
    let requests = Requests::default();
    assert_eq!(
        requests.wait(Some(Duration::ZERO), Backpressure::Off),
        WaitOutcome::Awaited,
        "time passed"
    );
    requests.push(commit(1).0);
    assert_eq!(requests.wait(None, Backpressure::Off), WaitOutcome::Meanwhile);
    assert_eq!(
        requests.wait(Some(Duration::ZERO), Backpressure::On),
        WaitOutcome::Awaited,
        "back-pressure"
    );
    requests.nudge();
    assert_eq!(
        requests.wait(None, Backpressure::On),
        WaitOutcome::Meanwhile,
        "a nudge is something"
    );
    let mut taken = Vec::new();
    assert_eq!(requests.take(&mut taken, Backpressure::On), DrainState::Something);
    assert!(taken.is_empty());
    assert_eq!(
        requests.wait(Some(Duration::ZERO), Backpressure::On),
        WaitOutcome::Awaited,
        "it was heard"
    );
}

#[test]
fn nobody_who_was_awaited_waits_for_more() {
    let requests = Requests::default();
    requests.push(commit(1).0);
    // A wait for a second commit would not end: none comes.
    let gather = Gather::Wait { wanted: 2, patience: Duration::MAX };
    requests.gather(gather, WaitOutcome::Awaited);
    requests.push(commit(1).0);
    requests.gather(gather, WaitOutcome::Meanwhile);
    assert_eq!(requests.len(), 2);
}

#[test]
fn a_closed_queue_is_served_to_its_end() {
    let requests = Requests::default();
    requests.push(commit(1).0);
    requests.close(Error::Unavailable("closed".into()));
    let late = commit(1);
    requests.push(late.0);
    assert_eq!(late.1.wait(), Err(Error::Unavailable("closed".into())));
    let mut taken = Vec::new();
    assert_eq!(requests.take(&mut taken, Backpressure::On), DrainState::Something);
    assert!(taken.is_empty(), "back-pressure");
    assert_eq!(requests.take(&mut taken, Backpressure::Off), DrainState::Something);
    assert_eq!(taken.len(), 1);
    assert_eq!(requests.take(&mut taken, Backpressure::Off), DrainState::Ended);
}

/// A message that counts for so many bytes.
fn message(bytes: usize) -> DriverRequest {
    let entry = raft::eraftpb::Entry { data: vec![0; bytes - 1].into(), ..Default::default() };
    let mut message = Message { msg_type: MessageType::MsgAppend, ..Message::default() };
    message.set_entries(vec![entry].into());
    DriverRequest::Message(message)
}

fn taken(requests: &Requests) -> usize {
    let mut taken = Vec::new();
    requests.take(&mut taken, Backpressure::Off);
    taken.len()
}

fn outcome(commit: &mut Commit) -> Option<Result<crate::Position, Error>> {
    use std::future::Future;
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(commit).poll(&mut context) {
        std::task::Poll::Ready(outcome) => Some(outcome),
        std::task::Poll::Pending => None,
    }
}

#[test]
fn messages_wait_up_to_their_bytes_and_more_are_lost() {
    let requests = Requests::default();
    for _ in 0..2 {
        for bytes in [2, MESSAGES_BYTES_MAX - 3, 2, 1, 1] {
            requests.push(message(bytes));
        }
        let mut taken = Vec::new();
        requests.take(&mut taken, Backpressure::On);
        let bytes: Vec<_> = taken.iter().map(DriverRequest::message_bytes).collect();
        assert_eq!(bytes, [2, MESSAGES_BYTES_MAX - 3, 1], "what was taken counts no more");
    }
}

#[test]
fn as_many_messages_wait_as_may_and_what_is_no_message_besides() {
    let requests = Requests::default();
    for _ in 0..=MESSAGES_MAX {
        requests.push(message(1));
    }
    let (promise, mut read) = Commit::promised();
    requests.push(DriverRequest::ReadIndex(promise));
    assert_eq!(outcome(&mut read), None, "it is no message");
    assert_eq!(taken(&requests), MESSAGES_MAX + 1);
}

#[test]
fn as_many_commits_wait_as_may_and_what_is_no_commit_besides() {
    let requests = Requests::default();
    let mut waiting: Vec<_> = (0..=WAITING_MAX)
        .map(|_| {
            let (request, waits) = commit(1);
            requests.push(request);
            waits
        })
        .collect();
    let (promise, mut saved) = Commit::promised();
    requests.push(DriverRequest::Save(promise));
    assert_eq!(outcome(&mut saved), None, "it takes no room");
    assert_eq!(outcome(waiting.last_mut().unwrap()), Some(Err(Error::Busy)));
    assert_eq!(outcome(&mut waiting[WAITING_MAX - 1]), None);
    assert_eq!(requests.len(), WAITING_MAX + 1);
    assert_eq!(taken(&requests), GROUP_MAX);
}

#[test]
fn commits_wait_up_to_their_bytes() {
    let requests = Requests::default();
    for _ in 0..2 {
        let mut fits = [commit(WAITING_BYTES_MAX - 1), commit(1)];
        let mut over = commit(1);
        for (request, _) in fits.iter_mut().chain([&mut over]) {
            requests.push(std::mem::replace(request, message(1)));
        }
        assert!(fits.iter_mut().all(|(_, waits)| outcome(waits).is_none()));
        assert_eq!(outcome(&mut over.1), Some(Err(Error::Busy)));
        assert_eq!((taken(&requests), requests.len()), (1, 1), "a group has its bytes");
        assert_eq!(taken(&requests), 1);
    }
}

#[test]
fn a_group_is_closed_once_it_has_its_bytes() {
    let requests = Requests::default();
    for bytes in [GROUP_BYTES_MAX - 1, 1, 1] {
        requests.push(commit(bytes).0);
    }
    assert_eq!(taken(&requests), 2);
    assert_eq!(taken(&requests), 1);
}

#[test]
fn who_gathers_waits_its_time_for_those_who_are_missing_and_for_nothing_else() {
    const PATIENCE: Duration = Duration::from_millis(20);
    let clock = RealClock::new();
    let took = |requests: &Requests, gather| {
        let begun = clock.now();
        requests.gather(gather, WaitOutcome::Meanwhile);
        clock.now() - begun
    };
    // A busy machine may take this thread off its core for a while.
    let waits = |requests: &Requests, gather| took(requests, gather) >= Duration::from_secs(60);
    let gather = |wanted| Gather::Wait { wanted, patience: PATIENCE };
    let requests = Requests::default();
    // Longer than any test: whoever waits here fails by its time.
    let never = Gather::Wait { wanted: 2, patience: Duration::from_secs(3600) };
    assert!(!waits(&requests, never), "there is nothing to serve");
    requests.push(commit(1).0);
    assert!(took(&requests, gather(2)) >= PATIENCE, "one is missing");
    assert!(!lock(&requests.state).idle, "nobody waits any more");
    assert!(!waits(&requests, Gather::Nothing) && !waits(&requests, Gather::Turn));
    requests.push(message(1));
    assert!(!waits(&requests, never), "a message is served at once");
    let requests = Requests::default();
    requests.push(commit(1).0);
    requests.close(Error::Busy);
    assert!(!waits(&requests, never), "nobody will come");
}

#[test]
fn who_gathers_is_woken_by_the_last_who_was_missing() {
    let requests = Requests::default();
    requests.push(commit(1).0);
    let gather = Gather::Wait { wanted: 3, patience: Duration::from_secs(3600) };
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| requests.gather(gather, WaitOutcome::Meanwhile));
        while !lock(&requests.state).idle {
            std::thread::yield_now();
        }
        requests.push(commit(1).0);
        assert!(lock(&requests.state).idle, "one is missing still");
        requests.push(commit(1).0);
        waits.join().unwrap();
    });
    assert_eq!(requests.len(), 3);
}

#[test]
fn who_waits_is_woken_by_whatever_there_is_to_do() {
    let wakes = |backpressure, what: &dyn Fn(&Requests)| {
        let requests = Requests::default();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| requests.wait(None, backpressure));
            while !lock(&requests.state).idle {
                std::thread::yield_now();
            }
            what(&requests);
            assert_eq!(waits.join().unwrap(), WaitOutcome::Awaited);
        });
        assert!(!lock(&requests.state).idle);
    };
    wakes(Backpressure::Off, &|requests| requests.push(commit(1).0));
    wakes(Backpressure::On, &|requests| requests.push(message(1)));
    wakes(Backpressure::On, &Requests::nudge);
    wakes(Backpressure::On, &|requests| requests.close(Error::Busy));
    wakes(Backpressure::On, &|requests| requests.abandon(&Error::Busy));
}

#[test]
fn what_waits_when_all_is_given_up_hears_why_and_so_does_what_comes_later() {
    let requests = Requests::default();
    let why = Error::Poisoned("a disk".into());
    let (save, saved) = Commit::promised();
    let (read, answered) = Commit::promised();
    let first = commit(WAITING_BYTES_MAX);
    requests.push(first.0);
    requests.push(DriverRequest::Save(save));
    requests.push(DriverRequest::ReadIndex(read));
    requests.push(message(MESSAGES_BYTES_MAX));
    requests.abandon(&why);
    for waits in [first.1, saved, answered] {
        assert_eq!(waits.wait(), Err(why.clone()));
    }
    let late = commit(1);
    requests.push(late.0);
    assert_eq!(late.1.wait(), Err(why));
    let mut taken = Vec::new();
    assert_eq!(requests.take(&mut taken, Backpressure::On), DrainState::Ended);
    assert!(taken.is_empty());
}

#[test]
fn a_message_without_entries_is_heard_while_the_applier_is_behind() {
    assert!(message(1).brings_entries());
    let of = |msg_type, entries: Vec<_>| {
        let mut message = Message { msg_type, ..Message::default() };
        message.set_entries(entries.into());
        DriverRequest::Message(message)
    };
    assert!(!of(MessageType::MsgAppend, Vec::new()).brings_entries());
    let read = of(MessageType::MsgReadIndex, vec![raft::eraftpb::Entry::default()]);
    assert!(!read.brings_entries(), "its number is no entry");
    assert!(!commit(1).0.brings_entries());
}
