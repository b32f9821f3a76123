//! Saving: a thread reads the state, and the answer is made of what it reads.
//!
//! The thread gives way to requests, is ahead of the client by [`PIECES_MAX`] pieces at the most, and ends when the client goes. A state that
//! cannot be read to its end leaves the file without its sums, by which every reader knows that it is none.

use data_encoding::BASE64;
use kallisto_backup::{FORMAT, FileWriter, TAG};
use kallisto_store::{Chunks, Position, Replicated};
use tokio::sync::mpsc;

use crate::api::error::Error;
use crate::api::json::Json;
use crate::api::response::Response;
use crate::api::stream::{ChangeFuture, NextPiece, Source, Stream};
use crate::platform::threads::give_way;
use crate::state::Core;
use crate::view::NamespaceContext;

/// Pieces that wait to be sent.
const PIECES_MAX: usize = 32;

/// Answers with everything that was committed before.
///
/// # Errors
/// [`Error::NotLeader`] while nobody leads, [`Error::Unavailable`] when too many are read at once.
pub(crate) async fn save(core: &Core, context: &NamespaceContext) -> Result<Response, Error> {
    let cluster = core.store.replicated().ok_or(Error::UnsupportedPath)?;
    let permit = std::sync::Arc::clone(&core.saves).try_acquire_owned();
    let permit = permit.map_err(|_| Error::Unavailable("other backups are being read".into()))?;
    cluster.read_index().await?;
    let tag_key = context.root.tag_key(TAG).map_err(|error| Error::internal(&error))?;
    let (position, chunks) = cluster.backup()?;
    let meta = meta(&cluster.store_id(), cluster.leadership().term, position);
    let (to, pieces) = mpsc::channel(PIECES_MAX);
    let run = move || {
        give_way();
        match write(chunks, &meta, &|sums| tag_key.sign(sums), &to) {
            Ok(()) => tracing::info!(index = position.0, "a backup was read"),
            Err(error) => tracing::error!(%error, "a backup was not read to its end"),
        }
        drop(permit);
    };
    let spawned = std::thread::Builder::new().name("backup".into()).spawn(run);
    spawned.map_err(|error| Error::Unavailable(format!("no thread to read on: {error}")))?;
    let source = Box::new(Pieces { pieces, heard: None });
    Ok(Response::Stream(Stream { content_type: "application/gzip", source }))
}

/// A cluster's store as its files name it.
pub(super) fn store_name(cluster: &dyn Replicated) -> String {
    BASE64.encode(&cluster.store_id())
}

/// What a file says of itself.
pub(super) fn meta(store_id: &[u8; 16], term: u64, position: Position) -> Vec<u8> {
    Json::object([
        ("Format", FORMAT.into()),
        ("ID", format!("{term}-{}", position.0).into()),
        ("Index", position.0.into()),
        ("Store", BASE64.encode(store_id).into()),
        ("Term", term.into()),
        ("Version", 1_u64.into()),
    ])
    .to_text()
}

/// Makes the file; ends early, without an error, when nobody takes it any more.
fn write(
    mut chunks: Box<dyn Chunks>,
    meta: &[u8],
    sign: &dyn Fn(&[u8]) -> [u8; 32],
    to: &mpsc::Sender<FilePiece>,
) -> Result<(), kallisto_store::Error> {
    let mut out = Vec::new();
    let mut file = FileWriter::begin(meta, &mut out);
    while let Some(chunk) = chunks.next_chunk()? {
        file.put_chunk(&chunk, &mut out);
        if to.blocking_send(FilePiece::Part(std::mem::take(&mut out))).is_err() {
            return Ok(());
        }
    }
    file.end(sign, &mut out);
    // The client may have gone.
    let _ = to.blocking_send(FilePiece::Last(out));
    Ok(())
}

/// A piece of the file.
enum FilePiece {
    Part(Vec<u8>),
    /// With it the file is whole.
    Last(Vec<u8>),
}

/// The pieces as they are read.
struct Pieces {
    pieces: mpsc::Receiver<FilePiece>,
    /// What was waited for.
    heard: Option<Option<FilePiece>>,
}

impl Source for Pieces {
    fn next(&mut self, _now: jiff::Timestamp) -> NextPiece {
        let next = match self.heard.take() {
            Some(heard) => heard,
            None => match self.pieces.try_recv() {
                Ok(piece) => Some(piece),
                Err(mpsc::error::TryRecvError::Empty) => return NextPiece::Wait,
                Err(mpsc::error::TryRecvError::Disconnected) => None,
            },
        };
        match next {
            Some(FilePiece::Part(bytes)) => NextPiece::Bytes(bytes),
            Some(FilePiece::Last(bytes)) => NextPiece::End(bytes),
            // It was not read to its end.
            None => NextPiece::Cut,
        }
    }

    fn changed(&mut self) -> ChangeFuture<'_> {
        Box::pin(async {
            if self.heard.is_none() {
                self.heard = Some(self.pieces.recv().await);
            }
        })
    }

    fn heartbeat(&self) -> &'static [u8] {
        b""
    }

    fn farewell(&mut self) -> Option<Vec<u8>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a source of these pieces says, until it says that it is over.
    fn said(given: Vec<FilePiece>) -> Vec<NextPiece> {
        let (to, pieces) = mpsc::channel(PIECES_MAX.max(given.len()));
        given.into_iter().for_each(|piece| to.try_send(piece).ok().unwrap());
        drop(to);
        let mut source = Pieces { pieces, heard: None };
        let mut said = Vec::new();
        loop {
            said.push(source.next(jiff::Timestamp::UNIX_EPOCH));
            if matches!(said.last(), Some(NextPiece::End(_) | NextPiece::Cut)) {
                return said;
            }
        }
    }

    #[test]
    fn a_backup_that_was_not_read_to_its_end_is_cut() {
        let (part, last) = (|| FilePiece::Part(vec![1]), || FilePiece::Last(vec![2]));
        assert_eq!(
            said(vec![part(), last()]),
            [NextPiece::Bytes(vec![1]), NextPiece::End(vec![2])]
        );
        assert_eq!(said(vec![part()]), [NextPiece::Bytes(vec![1]), NextPiece::Cut]);
        assert_eq!(said(Vec::new()), [NextPiece::Cut]);
    }
}
