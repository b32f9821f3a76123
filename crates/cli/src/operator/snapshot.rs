//! `operator raft snapshot`: everything in a file, and a file in the place of everything.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};

use kallisto_command::client::error::ClientError;
use kallisto_command::client::{Client, ClientRequest, Method, url};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_command::flags::{CommonFlags, FieldFlag};
use kallisto_command::json::Json;
use kallisto_command::outcome::Outcome;
use kallisto_command::output;
use kallisto_command::secret::Secret;

use crate::progress::{CountedBytes, Progress};

const PATH: &str = "sys/storage/raft/snapshot";
const LOAD: &str = "sys/storage/raft/snapshot-load";
/// How a whole file ends: an empty last block, then eight bytes of checksum and length. One that broke off does not.
const LAST_BLOCK: [u8; 5] = [1, 0, 0, 0xff, 0xff];
const TAIL_BYTES: usize = LAST_BLOCK.len() + 8;

/// The verbs of `operator raft snapshot`.
#[derive(Subcommand, Debug)]
pub(crate) enum Snapshot {
    /// Save everything to a file
    Save(Save),
    /// Put a file in the place of everything
    Restore(Restore),
    /// Load a file next to what is there, to read and recover secrets from it
    Load(Load),
    /// Print what is loaded, and until when
    Loaded(Loaded),
    /// Unload what was loaded
    Unload(Unload),
}

impl Snapshot {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        match self {
            Self::Save(save) => save.run(),
            Self::Restore(restore) => restore.run(),
            Self::Load(load) => load.run(),
            Self::Loaded(loaded) => loaded.run(),
            Self::Unload(unload) => unload.run(),
        }
    }
}

/// Saves everything that is committed, encrypted as it is stored. Only the unseal shares of now open it.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  kallisto operator raft snapshot save backup.snap")]
pub(crate) struct Save {
    #[command(flatten)]
    common: CommonFlags,
    /// Where to: a file that appears once it is whole
    file: PathBuf,
}

impl Save {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let name = self.file.display();
        let progress = Arc::new(Progress::start());
        progress.begin_bytes("saving", 0);
        // Only a whole file takes the place of what is there.
        let saved = files::fill_private(&self.file, |file| {
            let mut tail = TailWriter { to: file, last: Vec::new(), failed: None };
            let mut counted = CountedBytes { file: &mut tail, progress: Arc::clone(&progress) };
            let saved = client.download(&ClientRequest::get(PATH), &mut counted);
            // The client takes a write that failed for its own trouble.
            if let Some(error) = tail.failed.take() {
                return Err(Unsaved::File(error));
            }
            let bytes = saved.map_err(Unsaved::Refused)?;
            if tail.is_whole() { Ok(bytes) } else { Err(Unsaved::BrokeOff) }
        });
        progress.end();
        match saved {
            Ok(bytes) if !files::is_replaceable(&self.file) => {
                // What it was written to may be standard output.
                let told = format!("Success! Wrote {bytes} bytes to {name}\n");
                Ok(Outcome::default().with_notice(&told))
            }
            Ok(bytes) => Ok(Outcome::line(format!("Success! Saved {bytes} bytes to {name}"))),
            Err(Unsaved::File(error)) => {
                Err(Error::unusable(format!("cannot write the snapshot to {name}: {error}")))
            }
            Err(Unsaved::Refused(error)) => Err(Error::doing("Error saving the snapshot")(error)),
            Err(Unsaved::BrokeOff) => {
                Err(Error::unusable(format!("{name}: the snapshot broke off, nothing is saved")))
            }
        }
    }
}

/// Why there is no file.
enum Unsaved {
    File(io::Error),
    Refused(ClientError),
    BrokeOff,
}

impl From<io::Error> for Unsaved {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

/// Writes through, and remembers the last bytes, and what kept it from writing.
struct TailWriter<'f> {
    to: &'f mut dyn Write,
    last: Vec<u8>,
    failed: Option<io::Error>,
}

impl TailWriter<'_> {
    fn is_whole(&self) -> bool {
        self.last.len() == TAIL_BYTES && self.last.starts_with(&LAST_BLOCK)
    }
}

impl Write for TailWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self.to.write(bytes) {
            // Which is asked again.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => {
                let kind = error.kind();
                self.failed = Some(error);
                return Err(kind.into());
            }
            Ok(written) => written,
        };
        let new = bytes.get(..written).unwrap_or_default();
        self.last
            .extend_from_slice(new.get(new.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default());
        let over = self.last.len().saturating_sub(TAIL_BYTES);
        self.last.drain(..over);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Puts what a file holds in the place of everything, on every server. Nothing changes unless the whole file is sound.
///
/// It is the leader that has to be asked; another server says where that is.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  kallisto operator raft snapshot restore backup.snap")]
pub(crate) struct Restore {
    #[command(flatten)]
    common: CommonFlags,
    /// Restore one that other unseal keys open. From then on the unseal shares and the seal of the file count, in the same
    /// cluster too: the server is sealed, and wants the shares that were valid when the file was saved
    #[arg(long)]
    force: bool,
    /// The file
    file: PathBuf,
}

impl Restore {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let path = if self.force { format!("{PATH}-force") } else { PATH.to_owned() };
        let request = ClientRequest::new(Method::Post, &path);
        let doing = Error::doing("Error restoring the snapshot");
        upload(&config, &request, &self.file)?.map_err(doing)?;
        Ok(Outcome::line(match self.force {
            false => "Success! The snapshot is restored.",
            true => {
                "Success! The snapshot is restored. Where its unseal keys are others, the server is sealed now:\n\
                 kallisto operator unseal, with the shares of the snapshot's day. If the snapshot is of a server that unseals\n\
                 automatically, it opens with the same seal in its configuration. Its tokens count, and those of before do not."
            }
        }))
    }
}

/// Sends a file to the server, and shows how far that is.
fn upload(
    config: &Config,
    request: &ClientRequest,
    path: &Path,
) -> Result<Result<Option<Secret>, ClientError>, Error> {
    let unreadable = |error| Error::unusable(format!("{}: {error}", path.display()));
    let file = files::open_lines(path).map_err(unreadable)?;
    // Of a pipe nobody knows.
    let total = std::fs::metadata(path).map_or(0, |data| data.len());
    let progress = Arc::new(Progress::start());
    progress.begin_bytes("sending", usize::try_from(total).unwrap_or(0));
    let counted = CountedBytes { file, progress: Arc::clone(&progress) };
    let answer = Client::new(config)?.upload(request, counted);
    progress.end();
    Ok(answer)
}

/// Loads a snapshot of this cluster next to what is there. Nothing changes; `kallisto recover` takes secrets out of it.
///
/// It is in the memory of the server that leads, one at a time, and gone when that leads no more, after 72 hours, or by `unload`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  kallisto operator raft snapshot load backup.snap")]
pub(crate) struct Load {
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    field: FieldFlag,
    /// The file
    file: PathBuf,
}

impl Load {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let request = ClientRequest::new(Method::Post, LOAD);
        let doing = Error::doing("Error loading the snapshot");
        let loaded = upload(&config, &request, &self.file)?.map_err(doing)?;
        let loaded = loaded.ok_or_else(|| Error::no_value(LOAD))?;
        output::secret(&loaded, &config, self.field.field.as_deref())
    }
}

/// Prints which snapshot is loaded, what it holds, and until when.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  kallisto operator raft snapshot loaded")]
pub(crate) struct Loaded {
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    field: FieldFlag,
}

impl Loaded {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let doing = || Error::doing("Error asking for loaded snapshots");
        let none = || Error::usage("no snapshot is loaded");
        let listed = client.send(&ClientRequest::get(LOAD)).map_err(doing())?.ok_or_else(none)?;
        let Some(Json::Array(ids)) = listed.datum("keys") else { return Err(none()) };
        let id = ids.first().and_then(Json::as_str).ok_or_else(none)?;
        let request = ClientRequest::get(&format!("{LOAD}/{id}"));
        let loaded = client.send(&request).map_err(doing())?.ok_or_else(none)?;
        output::secret(&loaded, &config, self.field.field.as_deref())
    }
}

/// Unloads a snapshot that was loaded.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  kallisto operator raft snapshot unload 2403d301-94f2-46a1-a39d-02be83e2831a"
)]
pub(crate) struct Unload {
    #[command(flatten)]
    common: CommonFlags,
    /// Its id
    id: String,
}

impl Unload {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let path = url::clean(&format!("{LOAD}/{}", self.id))?;
        let request = ClientRequest::new(Method::Delete, &path);
        let doing = Error::doing("Error unloading the snapshot");
        Client::new(&config)?.send(&request).map_err(doing)?;
        Ok(output::done(&config, &format!("Success! Unloaded snapshot {}", self.id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_file_is_told_from_one_that_broke_off() {
        let whole = [&[7; 40][..], &LAST_BLOCK, &[1; 8]].concat();
        for piece in [1, 5, 13, whole.len()] {
            let mut to = Vec::new();
            let mut tail = TailWriter { to: &mut to, last: Vec::new(), failed: None };
            for piece in whole.chunks(piece) {
                assert_eq!(tail.write(piece).unwrap(), piece.len());
            }
            assert!(tail.is_whole());
            assert_eq!(tail.write(b"x").unwrap(), 1);
            assert!(!tail.is_whole());
        }
    }
}
