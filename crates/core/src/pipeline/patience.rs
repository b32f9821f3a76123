//! Who may wait for a view that is recent enough.
//!
//! A request can ask for a view that holds what its client has seen, or everything. To wait for that is not for everybody: who shows
//! no token, and who has nothing left of a rate limit, is refused at once, and counted there, once. A token that
//! this view does not know may be one that the view has yet to hear of, so it may wait too, with few others of its kind.

use kallisto_auth::Operation;

use crate::api::request::{Request, TokenText};
use crate::authz::judge::authenticate;
use crate::caller::spelling::SYSTEM;
use crate::cluster::leading;
use crate::registry;
use crate::state::Core;
use crate::view::NamespaceContext;

/// Whether a request may wait, and among whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// It is to be answered now: it is refused, or another server answers it.
    None,
    /// Its token is not known here, or not yet.
    Stranger,
    /// Its token is known.
    Known,
}

impl Core {
    /// Whether a request may wait for a view that is recent enough. Nothing is counted or written down by asking.
    pub fn patience(&self, request: &Request<'_>) -> Patience {
        let context = self.context.load();
        let (Some(context), Some(token)) = (context.as_ref(), request.token) else {
            return Patience::None;
        };
        if leading::check(self, request).is_err() {
            return Patience::None;
        }
        let has_left = match self.place(request) {
            Ok(Some(placed)) => self.has_allowance(&placed.request(request)),
            // A namespace that is not known here may be one that the view has yet to hear of.
            Ok(None) | Err(_) => self.has_allowance(request),
        };
        match has_left {
            false => Patience::None,
            true if is_live(context, request, token) => Patience::Known,
            true => Patience::Stranger,
        }
    }

    /// Whether the answer to a request takes time by itself, so that no other server can give it in this one's place.
    pub fn takes_time(request: &Request<'_>) -> bool {
        let waits = || request.query.iter().any(|(name, _)| name == "wait");
        let path = request.path.as_str();
        !request.operation.writes()
            && (waits() || request.operation == Operation::Read && may_stream(path))
    }
}

/// Whether a path, in whatever namespace, is one whose reads may be answered by a stream.
fn may_stream(path: &str) -> bool {
    let is_segment = |at: usize| at == 0 || path.as_bytes()[at - 1] == b'/';
    let mut bases = path.match_indices(SYSTEM).map(|(at, _)| at).filter(|&at| is_segment(at));
    bases.any(|at| registry::builtin_route(&path[at..]).is_some_and(|route| route.streams))
}

fn is_live(root: &NamespaceContext, request: &Request<'_>, token: TokenText<'_>) -> bool {
    let inside = root.holder_of(token.expose());
    let holder = inside.as_deref().unwrap_or(root);
    let guard = holder.view.tokens.pin();
    authenticate(holder, Some(token), request.remote, request.now, &guard).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::tests::request;

    #[test]
    fn only_reads_that_are_asked_to_wait_and_streams_take_time_by_themselves() {
        let takes = |operation, path: &str, query: &str| {
            let query = vec![(query.to_owned(), "1".to_owned())];
            Core::takes_time(&Request { query, ..request(None, operation, path, "") })
        };
        for (operation, path, query, takes_time) in [
            (Operation::Read, "secret/data/a", "", false),
            (Operation::Read, "secret/data/a", "wait", true),
            (Operation::List, "secret/metadata", "wait", true),
            (Operation::Update, "secret/data/a", "wait", false),
            (Operation::Read, "sys/kallisto/kv/watch", "", true),
            (Operation::Read, "team/sys/kallisto/kv/watch", "", true),
            (Operation::Read, "sys/monitor", "", true),
            (Operation::Read, "sys/storage/raft/snapshot", "", true),
            (Operation::Read, "teamsys/monitor", "", false),
            (Operation::Read, "sys/mounts", "", false),
            (Operation::List, "sys/kallisto/kv/watch", "", false),
            (Operation::Update, "sys/kallisto/kv/watch", "", false),
        ] {
            assert_eq!(takes(operation, path, query), takes_time, "{operation:?} {path} {query}");
        }
    }
}
