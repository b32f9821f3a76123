//! Examining a file to its end: its sums, its checksums, the form of every record, and, with a key, every record's seal.

use std::sync::Arc;

use kallisto_api::json::{self, Map};
use kallisto_barrier::{Keyring, RootKey, UnsealKey};

use crate::TAG;
use crate::contents::{BackupContents, name};
use crate::file::{FilePart, FileReader, NotWhole};

/// With what the records are opened.
pub enum KeyGiven {
    /// Nothing: what is sealed stays unread.
    Nothing,
    /// The unseal key, which opens the root key that the file holds.
    Unseal(UnsealKey),
    /// The root key, of a server that is unsealed.
    Root(Arc<RootKey>),
}

/// Examines a file as its bytes come.
pub struct Examiner {
    key: KeyGiven,
    reader: FileReader,
    meta: Map,
    contents: BackupContents,
    keyring: Option<Keyring>,
    authenticated: u64,
    tag: Vec<u8>,
    bytes: u64,
}

/// What a whole file holds.
#[derive(Debug)]
pub struct Report {
    /// What the file says of itself.
    pub meta: Map,
    /// Records of all kinds.
    pub records: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// What the records are.
    pub contents: BackupContents,
    /// Records that were opened under the key that was given; `None` where none was.
    pub authenticated: Option<u64>,
}

impl Examiner {
    /// Begins.
    pub fn new(key: KeyGiven) -> Self {
        Self {
            key,
            reader: FileReader::default(),
            meta: Map::new(),
            contents: BackupContents::default(),
            keyring: None,
            authenticated: 0,
            tag: Vec::new(),
            bytes: 0,
        }
    }

    /// Takes what comes next.
    ///
    /// # Errors
    /// What is wrong with the file, or that the key is not its key.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), NotWhole> {
        self.bytes += bytes.len() as u64;
        for part in self.reader.take(bytes)? {
            match part {
                FilePart::Meta(bytes) => {
                    let map = json::parse_object(&bytes);
                    self.meta = map.map_err(|_| NotWhole::from("it is of another kind"))?;
                }
                FilePart::Records(records) => {
                    for (key, value) in &records {
                        self.record(key, value)?;
                    }
                }
                FilePart::Tag(tag) => self.tag = tag,
            }
        }
        Ok(())
    }

    /// What the file says of itself, as far as that has come.
    pub const fn meta(&self) -> &Map {
        &self.meta
    }

    /// What the file held, when it is whole.
    ///
    /// # Errors
    /// That it is not, or that its tag is not one of this key.
    pub fn finish(self) -> Result<Report, NotWhole> {
        let records = self.reader.records()?;
        let root = match &self.key {
            KeyGiven::Nothing => None,
            KeyGiven::Root(root) => Some(Arc::clone(root)),
            KeyGiven::Unseal(key) => Some(Arc::new(self.unwrap_root(key)?)),
        };
        let authenticated = match root {
            None => None,
            Some(root) => {
                let key = root.tag_key(TAG).map_err(|error| NotWhole::new(error.to_string()))?;
                if !key.verify(self.reader.sums().as_bytes(), &self.tag) {
                    return Err(
                        "its tag is not one of this key: it was changed or put together".into()
                    );
                }
                Some(self.authenticated)
            }
        };
        let Self { meta, contents, bytes, .. } = self;
        Ok(Report { meta, records, bytes, contents, authenticated })
    }

    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<(), NotWhole> {
        if !self.contents.add(key, value)? || matches!(self.key, KeyGiven::Nothing) {
            return Ok(());
        }
        if self.keyring.is_none() {
            self.keyring = Some(self.open_keyring()?);
        }
        let Some(keyring) = &self.keyring else { return Ok(()) };
        let mut plain = wiped_buffer(value.len());
        let opened = keyring.open_record(key, value, &mut plain);
        opened.map_err(|error| NotWhole::new(format!("record {}: {error}", name(key))))?;
        self.authenticated += 1;
        Ok(())
    }

    /// The keyring of the file: its record comes before all that it seals.
    fn open_keyring(&self) -> Result<Keyring, NotWhole> {
        let sealed = self.contents.keyring.as_deref();
        let sealed = sealed.ok_or_else(|| NotWhole::from("it holds no keyring"))?;
        let unwrapped;
        let root = match &self.key {
            KeyGiven::Root(root) => &**root,
            KeyGiven::Unseal(key) => {
                unwrapped = self.unwrap_root(key)?;
                &unwrapped
            }
            KeyGiven::Nothing => return Err("there is no key".into()),
        };
        Keyring::open(sealed, root)
            .map_err(|error| NotWhole::new(format!("its keyring does not open: {error}")))
    }

    fn unwrap_root(&self, key: &UnsealKey) -> Result<RootKey, NotWhole> {
        let seal = self.contents.seal.as_ref().ok_or_else(|| NotWhole::from("it holds no seal"))?;
        RootKey::unwrap(&seal.root, key)
            .map_err(|error| NotWhole::new(format!("its root key does not open: {error}")))
    }
}

/// Room for a plaintext, wiped when dropped: a buffer that grows would leave a copy behind.
fn wiped_buffer(bytes: usize) -> zeroize::Zeroizing<Vec<u8>> {
    zeroize::Zeroizing::new(Vec::with_capacity(bytes))
}

#[cfg(test)]
mod tests {
    use kallisto_barrier::UnsealKey;

    use super::*;
    use crate::FileWriter;

    /// Chunks as the store makes them (docs/format.md): a head, the records, an end.
    fn chunks(records: &[(Vec<u8>, Vec<u8>)]) -> [Vec<u8>; 3] {
        let mut head = vec![1];
        head.extend_from_slice(&1_u32.to_le_bytes());
        head.extend_from_slice(&[7; 16]);
        head.extend_from_slice(&9_u64.to_le_bytes());
        head.extend_from_slice(&2_u64.to_le_bytes());
        head.push(1);
        head.extend_from_slice(&1_u64.to_le_bytes());
        head.extend_from_slice(&[0, 0, 0, 0, 0]);
        let mut body = Vec::new();
        for (key, value) in records {
            let stored = [&3_u64.to_le_bytes()[..], value].concat();
            for part in [key, &stored] {
                body.extend_from_slice(&u32::try_from(part.len()).unwrap().to_le_bytes());
                body.extend_from_slice(part);
            }
        }
        let checksum = crc32c::crc32c_append(0, &body);
        let body = [&[2], &checksum.to_le_bytes()[..], &body].concat();
        let count = records.len() as u64;
        let end = [&[3], &checksum.to_le_bytes()[..], &count.to_le_bytes()].concat();
        [head, body, end]
    }

    struct Sealed {
        file: Vec<u8>,
        unseal: UnsealKey,
        root: Arc<RootKey>,
    }

    /// A backup of a few records, of which `change` may change what is stored before it is summed up.
    fn sealed(change: impl FnOnce(&mut Vec<(Vec<u8>, Vec<u8>)>)) -> Sealed {
        let (unseal, root) = (UnsealKey::generate().unwrap(), RootKey::generate().unwrap());
        let keyring = Keyring::generate([5; 16], 0).unwrap();
        let wrapped = data_encoding::HEXLOWER.encode(&root.wrap(&unseal).unwrap());
        let seal = format!(r#"{{"type":"shamir","shares":5,"threshold":3,"root":"{wrapped}"}}"#);
        let mut records =
            vec![(vec![0, 1], seal.into_bytes()), (vec![0, 2], keyring.seal(&root).unwrap())];
        let version = |number: u64| [&[0x11][..], &[0; 20], &number.to_be_bytes()].concat();
        for key in [vec![2, 0, 0, 0, 9], version(0), version(1), version(2)] {
            let mut envelope = Vec::new();
            keyring.seal_record(&key, b"a value", &mut envelope).unwrap();
            records.push((key, envelope));
        }
        change(&mut records);
        let mut file = Vec::new();
        let mut writer = FileWriter::begin(br#"{"Index":9}"#, &mut file);
        chunks(&records).iter().for_each(|chunk| writer.put_chunk(chunk, &mut file));
        let tag = root.tag_key(TAG).unwrap();
        writer.end(|sums| tag.sign(sums), &mut file);
        Sealed { file, unseal, root: Arc::new(root) }
    }

    fn examine(file: &[u8], key: KeyGiven) -> Result<Report, NotWhole> {
        let mut examiner = Examiner::new(key);
        file.chunks(100).try_for_each(|piece| examiner.take(piece))?;
        examiner.finish()
    }

    #[test]
    fn a_whole_file_is_told_with_what_it_holds() {
        let Sealed { file, unseal, root } = sealed(|_| ());
        let report = examine(&file, KeyGiven::Nothing).unwrap();
        assert_eq!((report.records, report.authenticated), (6, None));
        let kinds: Vec<_> = report.contents.kinds.into_iter().collect();
        let told = [("barrier", 2), ("kv_v2_secrets", 1), ("kv_v2_versions", 2), ("mounts", 1)];
        assert_eq!(kinds, told);
        assert_eq!(report.contents.key_versions.into_values().sum::<u64>(), 4);
        assert_eq!(report.contents.seal.unwrap().threshold, 3);
        for key in [KeyGiven::Unseal(unseal), KeyGiven::Root(root)] {
            assert_eq!(examine(&file, key).unwrap().authenticated, Some(4));
        }
    }

    #[test]
    fn a_file_that_was_changed_or_cut_anywhere_is_never_called_whole() {
        let Sealed { file, .. } = sealed(|_| ());
        for at in (0..file.len()).step_by(3) {
            assert!(examine(&file[..at], KeyGiven::Nothing).is_err(), "cut at {at}");
            let mut bad = file.clone();
            bad[at] ^= 0x10;
            // Time, hint and system in the head of the gzip say nothing of what is inside.
            let says_nothing = (4..10).contains(&at);
            assert_eq!(examine(&bad, KeyGiven::Nothing).is_ok(), says_nothing, "{at}");
        }
    }

    #[test]
    fn a_record_that_was_moved_is_found_with_the_key_alone() {
        let Sealed { file, unseal, .. } = sealed(|records| {
            let (one, other) = (records[4].1.clone(), records[5].1.clone());
            (records[4].1, records[5].1) = (other, one);
        });
        assert!(examine(&file, KeyGiven::Nothing).is_ok());
        let told = examine(&file, KeyGiven::Unseal(unseal)).unwrap_err().to_string();
        assert!(told.starts_with("record 11"), "{told}");
    }

    #[test]
    fn another_key_is_told_from_damage() {
        let Sealed { file, .. } = sealed(|_| ());
        let other = UnsealKey::generate().unwrap();
        let told = examine(&file, KeyGiven::Unseal(other)).unwrap_err().to_string();
        assert_eq!(told, "its root key does not open: wrong key");
        let other = Arc::new(RootKey::generate().unwrap());
        let told = examine(&file, KeyGiven::Root(other)).unwrap_err().to_string();
        assert_eq!(told, "its keyring does not open: wrong key");
    }

    #[test]
    fn what_is_no_envelope_is_found_without_a_key() {
        let Sealed { file, .. } = sealed(|records| records[3].1 = b"clear text".to_vec());
        let told = examine(&file, KeyGiven::Nothing).unwrap_err().to_string();
        assert!(told.ends_with("is no envelope"), "{told}");
    }
}
