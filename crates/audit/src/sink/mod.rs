//! Where records end up: one trait, and one file per kind of destination.
//!
//! A sink belongs to the writer thread of its device, which alone calls it and which may block in
//! it: nothing else waits there (see `device`). It is opened when it is first needed and again after
//! every failure and every SIGHUP.

mod discard;
mod file;
mod follow;
mod look;
mod socket;
mod syslog;

use std::io;
use std::path::{Path, PathBuf};

use crate::anchor::Sought;
use crate::chain::ChainHead;
use crate::options::{AuditDestination, DeviceSpec};

pub use file::check_path;
pub use follow::{BLOCK_BYTES as FOLLOWED_BLOCK_BYTES, LinesAhead};
pub use look::{LineBack, LinesBack};

/// Lines that are written together.
pub struct LineGroup<'a> {
    /// All bytes; every line ends in a newline.
    pub bytes: &'a [u8],
    /// Where each line ends.
    pub ends: &'a [usize],
}

impl<'a> LineGroup<'a> {
    /// The lines, without their newlines.
    pub fn lines(&self) -> impl Iterator<Item = &'a [u8]> {
        let (bytes, mut start) = (self.bytes, 0);
        self.ends.iter().map(move |&end| {
            let line = &bytes[start..end];
            start = end;
            line.strip_suffix(b"\n").unwrap_or(line)
        })
    }
}

/// A destination of records.
pub trait Sink: Send {
    /// Opens the destination anew; what was open before is closed. Tells the last record that is
    /// there already, where the destination can know.
    ///
    /// # Errors
    /// What the operating system says, or that what is there is no audit file.
    fn open(&mut self) -> io::Result<Option<ChainHead>>;

    /// The record of this number, of an open destination that keeps what it is given.
    ///
    /// # Errors
    /// What the operating system says.
    fn seek(&mut self, seq: u64) -> io::Result<Sought> {
        let _ = seq;
        Ok(Sought::Unknown)
    }

    /// The longest line that an open destination takes, without its newline. A longer one fails by itself, and no other with it.
    fn line_bytes_max(&self) -> usize {
        usize::MAX
    }

    /// Writes a group: all of it, or, as far as the destination allows, nothing.
    ///
    /// # Errors
    /// What the operating system says. The destination is opened again before the next group.
    fn write(&mut self, group: &LineGroup<'_>) -> io::Result<()>;
}

/// Makes sinks. The real one is [`Real`]; tests bring destinations that fail and hang.
pub trait Destinations: Send + Sync {
    /// The sink of a device. Nothing is opened yet.
    fn sink(&self, spec: &DeviceSpec) -> Box<dyn Sink>;
}

/// The destinations of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Real;

impl Destinations for Real {
    fn sink(&self, spec: &DeviceSpec) -> Box<dyn Sink> {
        match &spec.destination {
            AuditDestination::File { path, mode } => {
                let sink = file::FileSink::new(path.clone(), *mode);
                Box::new(sink.with_prefix(&spec.form.prefix))
            }
            AuditDestination::Stdout => Box::new(discard::Stdout),
            AuditDestination::Discard => Box::new(discard::Discard),
            AuditDestination::Socket { transport, address } => {
                Box::new(socket::SocketSink::new(*transport, address.clone(), spec.deadline))
            }
            AuditDestination::Syslog { socket, priority, tag } => {
                Box::new(syslog::SyslogSink::new(socket.clone(), *priority, tag.clone()))
            }
        }
    }
}

/// Whether the file of a device, which is there, could be gone on with. Nothing of it is changed.
///
/// # Errors
/// What the operating system says, or that it is no audit file.
pub fn check_file(spec: &DeviceSpec) -> io::Result<()> {
    spec.destination.file().map_or(Ok(()), |path| file::check_file(path, &spec.form.prefix))
}

/// The file that a device writes, if it writes one: no two devices may share it.
pub fn file_of(spec: &DeviceSpec) -> Option<PathBuf> {
    spec.destination.file().map(file::resolved)
}

/// Whether `path` lies in one of `directories`, all resolved.
fn lies_within(path: &Path, directories: &[PathBuf]) -> bool {
    directories.iter().any(|directory| path.starts_with(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_device_that_writes_a_file_has_one() {
        let file_of = |kind: &str, name: &str, text: &str| {
            let options = [(name.to_owned(), text.to_owned())].into();
            super::file_of(&DeviceSpec::parse(kind, &options).unwrap())
        };
        assert_eq!(file_of("file", "path", "/nowhere/a.log"), Some("/nowhere/a.log".into()));
        assert_eq!(file_of("file", "path", "stdout"), None);
        assert_eq!(file_of("socket", "address", "127.0.0.1:1"), None);
    }
}
