//! `sys/monitor`: the lines of the server's log as they are written.
//!
//! Whoever runs the core subscribes to the log ([`crate::Host::follow_log`]); here the stream is bound to the token
//! that asked for it: when that ends, loses the right, or the server is sealed, so does the stream.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use jiff::Timestamp;

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::response::Response;
use crate::api::stream::{ChangeFuture, NextPiece, Source, Stream};
use crate::caller::call::AuthorizedCall;
use crate::engines::kv_watch::WatchCaller;
use crate::platform::host::{LogForm, LogLevel};
use crate::state::Core;
use crate::view::NamespaceContext;

const PATH: &str = "sys/monitor";

/// The lines for one client.
struct LogMonitor {
    lines: Box<dyn Source>,
    bearer: WatchCaller,
    slot: Arc<ArcSwapOption<NamespaceContext>>,
}

/// Opens a stream of lines.
pub(in crate::engines::sys) fn open(
    core: &Core,
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
    let slot = Arc::clone(&core.context);
    let source = Box::new(LogMonitor { lines, bearer: WatchCaller::of(call), slot });
    Ok(Response::Stream(Stream { content_type, source }))
}

impl Source for LogMonitor {
    fn next(&mut self, now: Timestamp) -> NextPiece {
        let context = self.slot.load();
        let may = |context: &Arc<NamespaceContext>| self.bearer.may_read(context, PATH, now);
        if !context.as_ref().is_some_and(may) {
            return NextPiece::End(Vec::new());
        }
        self.lines.next(now)
    }

    fn changed(&mut self) -> ChangeFuture<'_> {
        self.lines.changed()
    }

    fn heartbeat(&self) -> &'static [u8] {
        self.lines.heartbeat()
    }

    fn farewell(&mut self) -> Option<Vec<u8>> {
        self.lines.farewell()
    }
}
