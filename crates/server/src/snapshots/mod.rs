//! Where scheduled snapshots are put: a directory, or a bucket of an S3 service.

mod local;
mod s3;
mod sigv4;

use std::io::Read;
use std::sync::Arc;

use kallisto_core::{SnapshotPlace, SnapshotSink, SnapshotStorage, SnapshotTarget, StoredSnapshot};

/// Stores snapshots where their schedules say.
#[derive(Default)]
pub(super) struct Snapshots {
    unfinished: Arc<s3::UnfinishedObjects>,
}

impl SnapshotStorage for Snapshots {
    fn create(&self, target: &SnapshotTarget, name: &str) -> Result<Box<dyn SnapshotSink>, String> {
        match target {
            SnapshotTarget::Local { directory } => local::create(directory, name),
            SnapshotTarget::S3(target) => s3::create(target, name, &self.unfinished),
        }
    }

    fn open(
        &self,
        target: &SnapshotTarget,
        name: &str,
        bytes: u64,
    ) -> Result<Box<dyn Read + Send>, String> {
        match target {
            SnapshotTarget::Local { directory } => local::open(directory, name),
            SnapshotTarget::S3(target) => s3::open(target, name, bytes),
        }
    }

    fn list(&self, target: &SnapshotTarget, prefix: &str) -> Result<Vec<StoredSnapshot>, String> {
        let mut files = match target {
            SnapshotTarget::Local { directory } => local::list(directory, prefix),
            SnapshotTarget::S3(target) => s3::list(target, prefix),
        }?;
        files.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(files)
    }

    fn delete(&self, target: &SnapshotTarget, name: &str) -> Result<(), String> {
        match target {
            SnapshotTarget::Local { directory } => local::delete(directory, name),
            SnapshotTarget::S3(target) => s3::delete(target, name),
        }
    }

    fn place(&self, target: &SnapshotTarget) -> SnapshotPlace {
        match target {
            SnapshotTarget::Local { directory } => {
                SnapshotPlace::Directory(local::place(directory))
            }
            SnapshotTarget::S3(_) => target.place(),
        }
    }
}
