//! What the decision knows of a request, and how it refuses one.
//!
//! What it is not told counts against the request: a rule that limits parameters refuses one whose parameters are unknown.

use std::time::Duration;

use crate::policy::Literal;
use crate::{Capability, Operation, Path};

/// A request as the decision sees it.
pub trait Subject {
    /// What is asked.
    fn operation(&self) -> Operation;

    /// Where; the same value is acted on afterwards.
    fn path(&self) -> &Path<'_>;

    /// The path as one that says the same whatever the case of its letters, where what it names is one thing in every case;
    /// `None` for paths that name another thing by another case. Such a request has to be granted by the most specific rule that
    /// matches without case, too.
    fn caseless_path(&self) -> Option<&str> {
        None
    }

    /// The capability it takes. An endpoint that can tell whether the entry exists answers
    /// [`Capability::Create`] for a write of one that does not.
    fn capability(&self) -> Capability {
        self.operation().capability()
    }

    /// True when it takes [`Capability::Sudo`] as well.
    fn needs_sudo(&self) -> bool;

    /// How long the answer is to be wrapped; `None` for an open one.
    fn wrap_ttl(&self) -> Option<Duration> {
        None
    }

    /// How many entries of a listing are asked for at most; `None` when the request does not say. A
    /// number that is none counts as the largest.
    fn page_entries(&self) -> Option<u64> {
        None
    }

    /// The parameters: the top level of a body, or the query of a read. `None` when they cannot be
    /// read. Asked only when a rule limits them.
    fn parameters(&self) -> Option<Vec<(String, Literal)>> {
        None
    }
}

/// The refusal. It carries no reason on purpose: a reason would tell what exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied;
