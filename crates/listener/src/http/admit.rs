//! Who of those that ask at once is answered, before any work is done for them.
//!
//! A request is one of three kinds. Operators' routes have a part of every turn and of the places that
//! nobody else can take. A read that memory answers is over before anything else runs, so it holds no
//! place and costs the gate one number, unless the worker cannot keep up; then it waits for its turn in a
//! place. Everything else may wait for a disk or another server and holds a place from the start.

use std::net::SocketAddr;

use kallisto_core::admission::{Admission, Cost, Crowd, Flow, Held};
use kallisto_core::{Core, Operation, Request, TokenText, is_for_operators};

use crate::gate::{Gate, GateClient};

/// What a read of a secret costs: the unit.
pub(crate) const READ: Cost = 1;
/// Bytes of a reply that are decrypted, written and sent in the time that a read takes by itself.
const READ_BYTES: usize = 16 << 10;
/// What a list costs, however short.
const LIST: Cost = 4;
/// What a write costs: it is parsed, encrypted, logged and applied.
pub(crate) const WRITE: Cost = 4;
/// What a login costs: a proof is checked and a token made.
const LOGIN: Cost = 8;
/// What a TLS handshake costs: a signature and a key exchange.
pub(crate) const HANDSHAKE: Cost = 16;

/// What a request asks for, as far as it matters who goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdmissionKind {
    Operators,
    /// It ends before anything else runs.
    Brief,
    /// It may wait.
    Lasting,
}

/// Lets a request in when it is its turn; what is returned is held until it is answered.
///
/// # Errors
/// [`Crowd`] when too many wait already.
pub(super) async fn admit(
    core: &Core,
    gate: Option<&Gate>,
    request: &Request<'_>,
) -> Result<Option<Held>, Crowd> {
    let Some(gate) = gate else { return Ok(None) };
    let (kind, cost) = judge(request);
    match kind {
        AdmissionKind::Brief if gate.try_pass(asker(request.flow(), request.token), cost) => {
            Ok(None)
        }
        AdmissionKind::Operators if gate.try_pass_operator() => {
            // Even these are bounded, and by a bound that others cannot reach.
            core.admission().requests.take_reserved(request.flow(), 1).map(Some)
        }
        AdmissionKind::Operators | AdmissionKind::Brief | AdmissionKind::Lasting => {
            let flow = known_flow(core, request);
            let place = core.admission().requests.take(flow, 1)?;
            if kind != AdmissionKind::Lasting
                || !gate.try_pass(asker(request.flow(), request.token), cost)
            {
                gate.wait(asker(request.flow(), request.token), flow, cost).await;
            }
            Ok(Some(place))
        }
    }
}

/// Lets a few reads pass that came together, as one: true when they need not wait for their turn.
pub(super) fn lets_read(gate: &Gate, asker: GateClient) -> bool {
    gate.try_pass(asker, READ)
}

/// Waits for the turn of a few reads that came together.
///
/// # Errors
/// [`Crowd`] when too many wait already.
pub(super) async fn wait_to_read(
    core: &Core,
    gate: &Gate,
    asker: GateClient,
    flow: Flow,
) -> Result<(), Crowd> {
    let _place = core.admission().requests.take(flow, 1)?;
    gate.wait(asker, flow, READ).await;
    Ok(())
}

/// Who asks, to the gate.
pub(super) fn asker(flow: Flow, token: Option<TokenText<'_>>) -> GateClient {
    match token {
        Some(token) => GateClient::new(flow, token.expose()),
        None => GateClient::of_address(flow),
    }
}

/// Waits until a client may go on that was just sent so many bytes: what they took is paid for afterwards, since
/// how large a secret is nobody knows before it is read.
pub(crate) async fn settle(admission: &Admission, gate: &Gate, flow: Flow, bytes: usize) {
    let cost = Cost::try_from(bytes / READ_BYTES).unwrap_or(Cost::MAX);
    if gate.spend(flow, cost) {
        return;
    }
    // Without a place there is nowhere to wait. What it asks next is refused if that is still so.
    if let Ok(_place) = admission.requests.take(flow, 1) {
        gate.wait(GateClient::of_address(flow), flow, cost).await;
    }
}

/// Waits for the turn of a handshake.
pub(crate) async fn admit_handshake(gate: &Gate, remote: SocketAddr) {
    let flow = Flow::of_address(remote.ip());
    let asker = GateClient::of_address(flow);
    if !gate.try_pass(asker, HANDSHAKE) {
        gate.wait(asker, flow, HANDSHAKE).await;
    }
}

/// Lets the next commands of a connection of the Redis protocol run when it is their turn. They cost as much as a read over HTTP;
/// `owed` is what those before them took beyond that.
///
/// # Errors
/// [`Crowd`] when too many wait already.
pub(crate) async fn admit_commands(
    admission: &Admission,
    gate: &Gate,
    (asker, owed): (GateClient, Cost),
    flow: impl FnOnce() -> Flow,
) -> Result<(), Crowd> {
    let cost = READ.saturating_add(owed);
    if !gate.try_pass(asker, cost) {
        let flow = flow();
        let _place = admission.requests.take(flow, 1)?;
        gate.wait(asker, flow, cost).await;
    }
    Ok(())
}

/// Who asks: the token counts when the server knows it.
pub(super) fn known_flow(core: &Core, request: &Request<'_>) -> Flow {
    request.token.map_or(request.flow(), |token| known(core, request.flow(), token))
}

/// The bearer of a token at an address.
pub(super) fn known(core: &Core, flow: Flow, token: TokenText<'_>) -> Flow {
    if core.knows(token) { flow.with_token(token.expose()) } else { flow }
}

fn judge(request: &Request<'_>) -> (AdmissionKind, Cost) {
    let path = request.path.as_str();
    if is_for_operators(path) {
        return (AdmissionKind::Operators, READ);
    }
    let is_plain = request.query.is_empty() && request.wrap_ttl_secs == 0;
    let is_brief = request.operation == Operation::Read && is_plain;
    let kind = if is_brief { AdmissionKind::Brief } else { AdmissionKind::Lasting };
    (kind, cost_of(request.operation, path))
}

/// What a request costs by what it asks for.
pub(crate) fn cost_of(operation: Operation, path: &str) -> Cost {
    match operation {
        Operation::Read => READ,
        Operation::List | Operation::Scan => LIST,
        Operation::Update if path.starts_with("auth/") => LOGIN,
        Operation::Update | Operation::Patch | Operation::Delete | Operation::Recover => WRITE,
    }
}

#[cfg(test)]
mod tests {
    use kallisto_core::Path;

    use super::*;

    fn judged(operation: Operation, path: &str) -> (AdmissionKind, Cost) {
        kallisto_core::set_engines(kallisto_core::EngineSet {
            engines: &[kallisto_engines::ENGINES, kallisto_auth_methods::METHODS],
            identity_oidc: &kallisto_engines::IDENTITY_OIDC,
        });
        judge(&Request::new(operation, Path::decode(path).unwrap(), jiff::Timestamp::UNIX_EPOCH))
    }

    #[test]
    fn operators_routes_are_named_and_nothing_near_them_is_one() {
        for path in ["sys/health", "sys/seal", "sys/metrics", "sys/generate-root/attempt"] {
            assert_eq!(judged(Operation::Read, path).0, AdmissionKind::Operators, "{path}");
        }
        for path in ["sys/healthy", "sys/mounts", "secret/data/sys/health", "sys/seal-statuses"] {
            assert_ne!(judged(Operation::Read, path).0, AdmissionKind::Operators, "{path}");
        }
    }

    #[test]
    fn what_may_wait_holds_a_place_and_dear_things_cost_more() {
        assert_eq!(judged(Operation::Read, "secret/data/a"), (AdmissionKind::Brief, READ));
        assert_eq!(judged(Operation::Update, "secret/data/a"), (AdmissionKind::Lasting, WRITE));
        assert_eq!(
            judged(Operation::Update, "auth/approle/login"),
            (AdmissionKind::Lasting, LOGIN)
        );
        assert_eq!(judged(Operation::List, "secret/metadata/"), (AdmissionKind::Lasting, LIST));
    }
}
