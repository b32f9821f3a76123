//! Waiting for many sockets at once: epoll, level-triggered.

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

/// Events taken at once.
const EVENTS_MAX: usize = 1024;

/// What a socket is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PollInterest {
    /// Something to read.
    Input,
    /// That, or room to write.
    InputAndRoom,
}

/// The sockets of one thread.
pub(super) struct Poll {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl PollInterest {
    const fn flags(self) -> EventFlags {
        match self {
            Self::Input => EventFlags::IN,
            Self::InputAndRoom => EventFlags::IN.union(EventFlags::OUT),
        }
    }
}

impl Poll {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS_MAX) })
    }

    /// Waits for `socket` too; `id` is what [`Poll::wait`] calls it. It leaves when it is closed.
    pub(super) fn add(
        &self,
        socket: &TcpStream,
        id: usize,
        interest: PollInterest,
    ) -> io::Result<()> {
        let id = EventData::new_u64(id as u64);
        Ok(epoll::add(&self.epoll, socket, id, interest.flags())?)
    }

    pub(super) fn change(
        &self,
        socket: &TcpStream,
        id: usize,
        interest: PollInterest,
    ) -> io::Result<()> {
        let id = EventData::new_u64(id as u64);
        Ok(epoll::modify(&self.epoll, socket, id, interest.flags())?)
    }

    /// Waits for at most `longest` and appends the ids of the sockets something happened to.
    pub(super) fn wait(&mut self, longest: Duration, ready: &mut Vec<usize>) -> io::Result<()> {
        let longest = Timespec {
            tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(longest.subsec_nanos()),
        };
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&longest)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        ready.extend(self.events.iter().map(|event| {
            let data = event.data;
            data.u64() as usize
        }));
        Ok(())
    }
}
