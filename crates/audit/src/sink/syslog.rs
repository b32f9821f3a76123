//! Records to the machine's syslog daemon, one datagram a record (RFC 3164 without a time, which
//! the daemon adds when it has none).

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use super::{Group, Sink};
use crate::chain::Head;

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
    fn open(&mut self) -> io::Result<Option<Head>> {
        self.connection = None;
        let connection = UnixDatagram::unbound()?;
        connection.connect(&self.socket)?;
        self.connection = Some(connection);
        Ok(None)
    }

    fn write(&mut self, group: &Group<'_>) -> io::Result<()> {
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
