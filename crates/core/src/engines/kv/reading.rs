//! Reads and lists that may ask to wait, or be too long to be made in one go.

use super::long;
use crate::api::error::Error;
use crate::api::response::Response;
use crate::dispatch::route_handler::RouteCall;
use crate::dispatch::server_engine::EngineAnswer;
use crate::engines::kv::access::Kv;
use crate::engines::kv_watch;

/// What answers a read or a list; `None` when it takes more than [`Kv`] lets it. The path is of the secret or the folder.
pub(crate) type KvRead = fn(&Kv<'_>, &str) -> Option<Result<Response, Error>>;

/// Answers a read or a list that may ask to wait, or be too long to be made in one go.
pub(crate) fn answer_read(run: RouteCall<'_>, read: KvRead) -> EngineAnswer<'_> {
    Box::pin(async move {
        let kv = Kv::of(&run);
        let now = || {
            let answer = read(&kv, run.params.get("path"));
            answer.expect("no secret is over the largest number")
        };
        let is_long = long::is_long(run.call, run.mount, run.path);
        match kv_watch::asks_to_wait(run.call) {
            true if is_long => {
                Err(Error::invalid("a list this long has to be waited for in pages: limit"))
            }
            true => kv_watch::wait(run.core, &kv, now),
            false if is_long => Box::pin(long::list(run.core, &kv)).await,
            false => now(),
        }
    })
}
