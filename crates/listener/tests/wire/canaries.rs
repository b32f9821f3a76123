//! What the tests share that look for secrets in the records of an audit device.

use std::cell::RefCell;

use kallisto_core::json::Json;

use crate::support::{Recorder, Reply, Running, of_request};

/// Shortest secret that is looked for: the last lines of keys may be anybody's.
const SECRET_BYTES_MIN: usize = 17;

/// A text as JSON has it.
pub(crate) fn quoted(text: &str) -> String {
    String::from_utf8(Json::from(text).to_text()).unwrap()
}

/// A server, and an audit device that keeps all that it hears.
pub(crate) struct AuditedServer {
    pub(crate) server: Running,
    recorder: Recorder,
}

impl AuditedServer {
    pub(crate) fn start() -> Self {
        let (server, recorder) = (Running::start(), Recorder::start());
        assert_eq!(server.ask("POST", "sys/audit/socket", &recorder.device()).status, 204);
        Self { server, recorder }
    }

    /// Asks for what is not refused.
    pub(crate) fn done(&self, path: &str, body: &str) -> Reply {
        let reply = self.server.ask("POST", path, body);
        assert!(reply.status < 300, "{path}: {}", reply.text());
        reply
    }

    /// Checks that no record has a secret in clear, once there are so many records of requests at the path that was asked last.
    pub(crate) fn assert_unheard(self, secrets: &[String], (path, count): (&str, usize)) {
        let heard = RefCell::new(String::new());
        self.recorder.wait(|records| {
            let texts = records.iter().map(|record| String::from_utf8(record.to_text()).unwrap());
            *heard.borrow_mut() = texts.collect();
            records.iter().filter(|record| of_request(record, "path") == path).count() == count
        });
        let heard = heard.into_inner();
        assert!(heard.contains("hmac-sha256:"));
        for secret in secrets.iter().filter(|secret| secret.len() >= SECRET_BYTES_MIN) {
            assert!(!heard.contains(secret), "{secret} is in a record");
        }
        self.recorder.stop();
    }
}
