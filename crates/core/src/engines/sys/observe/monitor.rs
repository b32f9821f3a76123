//! `sys/monitor`: the lines of the server's log as they are written.
//!
//! Whoever runs the core subscribes to the log ([`crate::Host::follow_log`]); here the stream is bound to the token
//! that asked for it: when that ends, loses the right, or the server is sealed or was not told for too long what the cluster committed, so does the stream.

use jiff::Timestamp;

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::response::Response;
use crate::api::stream::{ChangeFuture, NextPiece, Source, Stream};
use crate::caller::call::AuthorizedCall;
use crate::engines::kv_watch::StreamBinding;
use crate::platform::host::{LogForm, LogLevel};
use crate::state::Core;
use crate::view::NamespaceContext;

const PATH: &str = "sys/monitor";

/// The lines for one client.
struct LogMonitor {
    lines: Box<dyn Source>,
    binding: StreamBinding,
}

/// Opens a stream of lines.
pub(in crate::engines::sys) fn open(
    core: &Core,
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    if call.wrap_ttl_secs > 0 {
        return Err(Error::invalid("answers of sys/monitor cannot be wrapped"));
    }
    let query = call.query_fields();
    let fields = Fields::new(&query);
    let level = LogLevel::named(&fields.string("log_level")?.unwrap_or_default());
    let level = level.ok_or_else(|| Error::invalid("unknown log level"))?;
    let (form, content_type) = match fields.string("log_format")?.unwrap_or_default().as_str() {
        "" | "standard" => (LogForm::Standard, "text/plain; charset=utf-8"),
        "json" => (LogForm::Json, "application/x-ndjson"),
        _ => return Err(Error::invalid("unknown log format")),
    };
    let nobody = || Error::Unavailable("the log of this server cannot be followed".to_owned());
    let lines = core.host.as_ref().ok_or_else(nobody)?.follow_log(level, form);
    let lines = lines.ok_or_else(|| {
        Error::Unavailable("as many follow the log of this server as may".to_owned())
    })?;
    let mut binding = StreamBinding::of(core, context, call, PATH.to_owned());
    binding.check(call.now)?;
    let source = Box::new(LogMonitor { lines, binding });
    Ok(Response::Stream(Stream { content_type, source }))
}

impl Source for LogMonitor {
    fn next(&mut self, now: Timestamp) -> NextPiece {
        if !self.binding.holds(now) {
            return NextPiece::End(Vec::new());
        }
        self.lines.next(now)
    }

    fn changed(&mut self) -> ChangeFuture<'_> {
        Box::pin(self.binding.changed_or(self.lines.changed()))
    }

    fn heartbeat(&self) -> &'static [u8] {
        self.lines.heartbeat()
    }

    fn farewell(&mut self) -> Option<Vec<u8>> {
        self.lines.farewell()
    }
}
