//! Records to the machine's syslog daemon, one datagram a record (RFC 3164 without a time, which
//! the daemon adds when it has none).

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use rustix::net::sockopt::socket_send_buffer_size;

use super::{LineGroup, Sink};
use crate::chain::ChainHead;

/// Bytes of a socket's buffer that no datagram may have.
const KERNEL_BYTES: usize = 32;

pub(super) struct SyslogSink {
    socket: PathBuf,
    header: Vec<u8>,
    connection: Option<UnixDatagram>,
}

impl SyslogSink {
    pub(super) fn new(socket: PathBuf, priority: u8, tag: String) -> Self {
        let header = format!("<{priority}>{tag}[{}]: ", std::process::id()).into_bytes();
        Self { socket, header, connection: None }
    }
}

impl Sink for SyslogSink {
    fn open(&mut self) -> io::Result<Option<ChainHead>> {
        self.connection = None;
        let connection = UnixDatagram::unbound()?;
        connection.connect(&self.socket)?;
        self.connection = Some(connection);
        Ok(None)
    }

    fn line_bytes_max(&self) -> usize {
        // What does not fit there at once is refused (`unix_dgram_sendmsg` of Linux).
        let room = self.connection.as_ref().map(socket_send_buffer_size);
        match room {
            Some(Ok(room)) => room.saturating_sub(KERNEL_BYTES + self.header.len()),
            Some(Err(_)) | None => usize::MAX,
        }
    }

    fn write(&mut self, group: &LineGroup<'_>) -> io::Result<()> {
        let connection = self.connection.as_ref().ok_or(ErrorKind::NotConnected)?;
        let mut message = self.header.clone();
        for line in group.lines() {
            message.truncate(self.header.len());
            message.extend_from_slice(line);
            connection.send(&message)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_goes_out_with_its_priority_and_tag() {
        let directory = std::env::temp_dir().join(format!("kallisto-log-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("log");
        let daemon = UnixDatagram::bind(&path).unwrap();
        let mut sink = SyslogSink::new(path.clone(), 38, "kallisto".to_owned());
        assert_eq!(sink.open().unwrap(), None);
        sink.write(&LineGroup { bytes: b"one\ntwo\n", ends: &[4, 8] }).unwrap();
        let mut buffer = [0; 64];
        for line in ["one", "two"] {
            let taken = daemon.recv(&mut buffer).unwrap();
            let expected = format!("<38>kallisto[{}]: {line}", std::process::id());
            assert_eq!(std::str::from_utf8(&buffer[..taken]).unwrap(), expected);
        }
        drop(sink.connection.take());
        assert_eq!(sink.line_bytes_max(), usize::MAX, "it is not known before");
        sink.open().unwrap();
        let most = sink.line_bytes_max();
        let mut write =
            |bytes: usize| sink.write(&LineGroup { bytes: &vec![b'x'; bytes], ends: &[bytes] });
        write(most).unwrap();
        assert!(write(most + 1).is_err());
        drop(daemon);
        std::fs::remove_file(&path).unwrap();
        assert!(sink.write(&LineGroup { bytes: b"one\n", ends: &[4] }).is_err());
        assert!(sink.open().is_err(), "there is no daemon any more");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
