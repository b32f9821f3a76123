//! A server that hears from nobody asks a member whether it is still one.
//!
//! A member that was let go while it was down is sent nothing, and if it may not lead (it has no vote, or it is sealed) it
//! sends nothing either, so nobody would tell it. It opens the lane of messages without a message: a member it speaks to answers on that what it
//! answers any server that was let go, and is silent else.
//!
//! Invariants:
//! - One question at a time, and a pause between two. Who hears messages asks nobody.
//! - Who was told asks again, each time after twice as long: a server does not believe it before it has heard no leader for a while
//!   (`store::Replicated::told_removed`), so the first word may come too early.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::{sleep, timeout};

use crate::frame::LinkPurpose;
use crate::limits::{ANSWER_TIMEOUT, SILENCE, TOLD_PAUSE_MAX};
use crate::link::{Heard, dial, hear};
use crate::port::PortShared;

/// Asks member after member whenever there was silence; ends with the port.
pub(crate) async fn ask_in_silence(shared: Arc<PortShared>) {
    let (mut asked, mut pause) = (0, SILENCE);
    loop {
        sleep(pause).await;
        // Relaxed: it says nothing about other memory.
        let has_heard = shared.has_heard.swap(false, Ordering::Relaxed);
        if has_heard || shared.upper.get().is_none() {
            pause = SILENCE;
            continue;
        }
        let Some(peer) = shared.peer_behind(asked) else { continue };
        asked = peer;
        match ask(&shared, peer).await {
            Ok(Heard::Removed) => pause = (2 * pause).min(TOLD_PAUSE_MAX),
            Ok(Heard::End) => {}
            Err(error) => tracing::debug!(peer, %error, "asked whether this server is a member"),
        }
    }
}

/// What a peer says to a connection over which it hears nothing.
pub(crate) async fn ask(shared: &PortShared, peer: u64) -> io::Result<Heard> {
    let stream = dial(shared, peer, LinkPurpose::Messages).await?;
    // The other half is kept: its end would be that of the question.
    let (reader, _writer) = tokio::io::split(stream);
    let heard = timeout(ANSWER_TIMEOUT, hear(reader, shared)).await;
    heard.unwrap_or(Ok(Heard::End))
}
