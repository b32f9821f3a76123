//! How much a server holds for its clients, as the `limits` stanza says it.

/// The most of everything that clients can make a server hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Connections, over all listeners.
    pub connections_max: usize,
    /// Connections of those that only an address with few of them may have.
    pub connections_reserved: usize,
    /// TLS handshakes under way.
    pub handshakes_max: usize,
    /// Bytes of request bodies.
    pub body_bytes_max: usize,
    /// Bytes of large replies.
    pub reply_bytes_max: usize,
    /// Requests that wait.
    pub requests_max: usize,
    /// Requests of those that only operators' routes may have.
    pub requests_reserved: usize,
    /// Logins that wait for a hashing thread.
    pub hashes_max: usize,
    /// Long lists at once.
    pub lists_max: usize,
    /// Requests that wait for a view that is recent enough.
    pub behind_max: usize,
    /// The same of tokens that this server does not know.
    pub strangers_max: usize,
    /// Heavy requests that are worked on or wait for that.
    pub computations_max: usize,
}

impl Default for AdmissionLimits {
    /// One address alone gets four fifths of what is not reserved: more than 10,000 connections and
    /// requests, which is what a whole cluster behind one proxy asks for when it restarts.
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            connections_reserved: 256,
            handshakes_max: 16_384,
            body_bytes_max: 512 << 20,
            reply_bytes_max: 512 << 20,
            requests_max: 16_384,
            requests_reserved: 64,
            hashes_max: 256,
            lists_max: 32,
            behind_max: 1024,
            strangers_max: 64,
            computations_max: 1024,
        }
    }
}

impl AdmissionLimits {
    /// The limits with no more connections than `files_max` open files allow, with room left for the
    /// server's own.
    #[must_use]
    pub fn within_files(self, files_max: usize) -> Self {
        /// Files of the store, of audit devices, and of connections to other servers.
        const OWN_FILES: usize = 512;
        let room = files_max.saturating_sub(OWN_FILES).max(1);
        let connections_max = self.connections_max.min(room);
        let connections_reserved = self.connections_reserved.min(connections_max / 2);
        Self { connections_max, connections_reserved, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_files_make_few_connections() {
        let limits = AdmissionLimits::default().within_files(1024);
        assert_eq!((limits.connections_max, limits.connections_reserved), (512, 256));
        let usual = AdmissionLimits::default();
        assert_eq!(usual.clone().within_files(1 << 20), usual);
    }
}
