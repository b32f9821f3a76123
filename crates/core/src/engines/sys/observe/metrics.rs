//! `sys/metrics`: JSON, or the text that Prometheus scrapes.

use kallisto_auth::Operation;

use crate::api::error::Error;
use crate::api::request::Request;
use crate::api::response::Response;
use crate::metrics::{json, prometheus};
use crate::state::Core;
use crate::state::metrics::collect;

const OK: u16 = 200;

impl Core {
    /// Whether a request is for the metrics. A token that it shows does not matter where they are for anyone: it may have ended, or the server be
    /// sealed, which knows none.
    pub fn is_for_open_metrics(request: &Request<'_>) -> bool {
        request.path.as_str() == "sys/metrics"
            && request.operation == Operation::Read
            && !request.asks_help()
    }

    /// Answers with the metrics, sealed or not, for a listener that shows them to anyone.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a format that is none.
    pub fn open_metrics(&self, request: &Request<'_>) -> Result<Response, Error> {
        answer(self, request)
    }
}

/// How the media types begin by which scrapers of Prometheus say what they take, without `format` in the query.
const SCRAPED: [&str; 2] = ["application/openmetrics-text", "prometheus/telemetry"];

/// The format that a request asks for: by its query, else by what it says it takes.
fn format<'r>(request: &'r Request<'_>) -> &'r str {
    let asked = request.query.iter().find(|(name, _)| name == "format");
    if let Some((_, asked)) = asked.filter(|(_, asked)| !asked.is_empty()) {
        return asked;
    }
    let takes = request.headers.values("accept");
    let is_scraped = |text: &String| SCRAPED.iter().any(|kind| text.trim_start().starts_with(kind));
    if takes.iter().any(is_scraped) { "prometheus" } else { "" }
}

/// Answers in the format that is asked for.
pub(in crate::engines::sys) fn answer(
    core: &Core,
    request: &Request<'_>,
) -> Result<Response, Error> {
    match format(request) {
        "prometheus" if !core.info.serves_prometheus => {
            Err(Error::invalid("prometheus is not enabled"))
        }
        "prometheus" => Ok(Response::Text {
            code: OK,
            content_type: prometheus::CONTENT_TYPE,
            body: prometheus::write(&collect(core, request.now)).into_bytes(),
        }),
        "" => {
            let body = json::write(&collect(core, request.now), request.now);
            Ok(Response::Bare { code: OK, body })
        }
        _ => Err(Error::invalid("metric response format unknown: leave it out or say prometheus")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::tests::request;

    #[test]
    fn a_read_of_the_metrics_is_for_anyone_whatever_token_it_shows() {
        let asked = |token, operation, path| {
            Core::is_for_open_metrics(&request(token, operation, path, ""))
        };
        assert!(asked(None, Operation::Read, "sys/metrics"));
        assert!(asked(Some("t"), Operation::Read, "sys/metrics"));
        assert!(!asked(None, Operation::Update, "sys/metrics"));
        assert!(!asked(None, Operation::Read, "sys/metrics/json"));
        let mut help = request(None, Operation::Read, "sys/metrics", "");
        help.query = vec![("help".to_owned(), "1".to_owned())];
        assert!(!Core::is_for_open_metrics(&help));
    }
}
