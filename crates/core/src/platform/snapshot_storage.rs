//! Where scheduled snapshots are put: a directory of this machine, or a bucket of an S3 service.
//!
//! The core does no I/O: whoever runs it gives it something that stores. It is called on a thread that is the snapshot's alone,
//! so a far end that hangs delays no other call; each call ends within a time that the storage bounds.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Mutex;

use kallisto_store::Seqno;
use secrecy::SecretString;

/// A place for snapshots.
#[derive(Clone, Debug)]
pub enum SnapshotTarget {
    /// A directory of the server that leads.
    Local {
        /// Its absolute path.
        directory: String,
    },
    /// A bucket.
    S3(Box<S3Target>),
}

/// A bucket of an S3 service, and who asks.
#[derive(Clone, Debug)]
pub struct S3Target {
    /// URL of the service; empty for that of Amazon.
    pub endpoint: String,
    /// Its region.
    pub region: String,
    /// The bucket.
    pub bucket: String,
    /// What stands before the names of objects; empty, or ending in a slash.
    pub prefix: String,
    /// Who asks.
    pub access_key_id: String,
    /// What proves it.
    pub secret_access_key: SecretString,
    /// What goes with keys that end; empty for those that do not.
    pub session_token: SecretString,
    /// Whether the bucket stands in the path, not in the name of the host.
    pub path_style: bool,
}

/// Where files of a target lie, in one spelling: two targets whose places are equal write to the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotPlace {
    /// A directory. Paths are equal by their parts: neither `/./` nor a slash more makes another one.
    Directory(PathBuf),
    /// A part of a bucket.
    Bucket {
        /// Host and port; for Amazon its domain.
        service: String,
        /// The bucket.
        bucket: String,
        /// What stands before the names of objects.
        prefix: String,
    },
}

/// Until when schedules wait, in seconds since 1970, and since when they are as they are: of those alone whose status could not be kept.
pub(crate) type SchedulePauses = Mutex<BTreeMap<String, (Seqno, i64)>>;

/// The domain of Amazon's services, which have one name for a bucket in all of their regions.
const AMAZON: &str = "amazonaws.com";

impl SnapshotTarget {
    /// Its place, as far as its fields tell.
    pub fn place(&self) -> SnapshotPlace {
        match self {
            Self::Local { directory } => SnapshotPlace::Directory(directory.into()),
            Self::S3(target) => SnapshotPlace::Bucket {
                service: target.service(),
                bucket: target.bucket.to_ascii_lowercase(),
                prefix: target.prefix.clone(),
            },
        }
    }
}

impl S3Target {
    /// Host and port of the service. A host has no case and may end in a dot, and a port that is not there is that of the scheme. The
    /// scheme itself says nothing more: one port speaks one protocol.
    fn service(&self) -> String {
        let lower = self.endpoint.trim_end_matches('/').to_ascii_lowercase();
        let (scheme, authority) = lower.split_once("://").unwrap_or(("https", &lower));
        let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if is_port(port) => (host, port.parse().ok()),
            _ => (authority, None),
        };
        let host = host.strip_suffix('.').unwrap_or(host);
        let of_amazon = host.strip_suffix(AMAZON).is_some_and(|rest| rest.ends_with('.'));
        if host.is_empty() || of_amazon {
            return AMAZON.to_owned();
        }
        let port: u16 = port.unwrap_or(if scheme == "http" { 80 } else { 443 });
        format!("{host}:{port}")
    }
}

/// Something that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSnapshot {
    /// Its name, without the directory or prefix.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// A snapshot on its way. Dropped before [`SnapshotSink::finish`] it leaves nothing that is taken for one.
pub trait SnapshotSink: Send {
    /// Takes more of it.
    ///
    /// # Errors
    /// What went wrong, without secrets.
    fn write(&mut self, bytes: &[u8]) -> Result<(), String>;

    /// Makes it appear, whole and durable.
    ///
    /// # Errors
    /// What went wrong, without secrets.
    fn finish(self: Box<Self>) -> Result<(), String>;
}

/// Stores snapshots. Errors say what went wrong, without secrets.
pub trait SnapshotStorage: Send + Sync {
    /// Begins one.
    ///
    /// # Errors
    /// What went wrong.
    fn create(&self, target: &SnapshotTarget, name: &str) -> Result<Box<dyn SnapshotSink>, String>;

    /// Reads one of so many bytes.
    ///
    /// # Errors
    /// What went wrong.
    fn open(
        &self,
        target: &SnapshotTarget,
        name: &str,
        bytes: u64,
    ) -> Result<Box<dyn Read + Send>, String>;

    /// Those whose names begin with `prefix`, sorted by name.
    ///
    /// # Errors
    /// What went wrong.
    fn list(&self, target: &SnapshotTarget, prefix: &str) -> Result<Vec<StoredSnapshot>, String>;

    /// Deletes one, if it is there.
    ///
    /// # Errors
    /// What went wrong.
    fn delete(&self, target: &SnapshotTarget, name: &str) -> Result<(), String>;

    /// Where the files of a target lie. Whoever sees more of it than its fields say so here.
    fn place(&self, target: &SnapshotTarget) -> SnapshotPlace {
        target.place()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(endpoint: &str, region: &str, bucket: &str, prefix: &str) -> SnapshotPlace {
        let target = S3Target {
            endpoint: endpoint.to_owned(),
            region: region.to_owned(),
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            access_key_id: "id".to_owned(),
            secret_access_key: "secret".into(),
            session_token: "".into(),
            path_style: false,
        };
        SnapshotTarget::S3(Box::new(target)).place()
    }

    #[test]
    fn a_bucket_is_the_same_however_its_service_is_spelled() {
        let own = bucket("https://s3.example", "r", "b", "p/");
        for endpoint in [
            "https://s3.example/",
            "https://S3.Example",
            "https://s3.example.",
            "https://s3.example:443",
            "https://s3.example:0443/",
            "http://s3.example:443",
        ] {
            assert_eq!(bucket(endpoint, "other", "B", "p/"), own, "{endpoint}");
        }
        for (endpoint, name, prefix) in [
            ("https://s3.example:9000", "b", "p/"),
            ("http://s3.example", "b", "p/"),
            ("https://other.example", "b", "p/"),
            ("https://s3.example", "c", "p/"),
            ("https://s3.example", "b", ""),
        ] {
            assert_ne!(bucket(endpoint, "r", name, prefix), own, "{endpoint} {name} {prefix}");
        }
        assert_eq!(
            bucket("http://[2001:DB8::1]:80", "r", "b", ""),
            bucket("http://[2001:db8::1]", "r", "b", "")
        );
        let amazon = bucket("", "eu-central-1", "b", "");
        for endpoint in ["https://s3.amazonaws.com", "https://s3.EU-central-1.amazonaws.com:443"] {
            assert_eq!(bucket(endpoint, "us-east-1", "b", ""), amazon, "{endpoint}");
        }
        assert_ne!(bucket("https://notamazonaws.com", "r", "b", ""), amazon);
    }
}
