//! A snapshot that was opened: its records, each decrypted when it is asked for.

use std::collections::BTreeMap;
use std::ops::Bound;

use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::file::PassedBy;
use crate::seal::{Cipher, open_record, term_of};

/// An opened snapshot.
pub struct OpenSnapshot {
    records: BTreeMap<Box<str>, Box<[u8]>>,
    keys: BTreeMap<u32, Cipher>,
    /// What it holds that was not kept.
    pub passed_by: PassedBy,
}

impl OpenSnapshot {
    pub(crate) const fn new(
        records: BTreeMap<Box<str>, Box<[u8]>>,
        keys: BTreeMap<u32, Cipher>,
        passed_by: PassedBy,
    ) -> Self {
        Self { records, keys, passed_by }
    }

    /// The plaintext of a record; `None` where there is none.
    ///
    /// # Errors
    /// [`Error::Record`] if it is not sealed with a key of this snapshot.
    pub fn get(&self, path: &str) -> Result<Option<Zeroizing<Vec<u8>>>> {
        let Some(record) = self.records.get(path) else { return Ok(None) };
        let key = term_of(record).and_then(|term| self.keys.get(&term));
        let opened = key.and_then(|key| open_record(key, path, record));
        opened.map(Some).ok_or_else(|| {
            Error::record(format!("{path}: it does not open with the keys of this snapshot"))
        })
    }

    /// Paths below a folder, which ends in a slash, in order.
    pub fn below<'s>(&'s self, folder: &'s str) -> impl Iterator<Item = &'s str> + 's {
        let from = (Bound::Included(folder), Bound::Unbounded);
        self.records
            .range::<str, _>(from)
            .map(|(path, _)| &**path)
            .take_while(move |path| path.starts_with(folder))
    }

    /// Names in a folder, which is empty or ends in a slash: of records, and of folders with a slash behind.
    #[must_use]
    pub fn names(&self, folder: &str) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for path in self.below(folder) {
            let rest = path.get(folder.len()..).unwrap_or_default();
            let name = match rest.split_once('/') {
                Some((name, _)) => format!("{name}/"),
                None => rest.to_owned(),
            };
            if names.last() != Some(&name) {
                names.push(name);
            }
        }
        names.sort_unstable();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests index what they built")]
    use super::*;
    use crate::file::SnapshotFile;
    use crate::testing::{META, Writer, open, pack, pack_members, record, shares};

    fn filled() -> Writer {
        let mut writer = Writer::new();
        writer.put("logical/a/b", b"one");
        writer.put("logical/a/c/d", b"two");
        writer.put("logical/a/c/e", b"three");
        writer.put("logical/ab", b"four");
        writer.put("sys/token/id/x", b"token");
        writer.put("namespaces/u/sys/expire/id/auth/x", b"lease");
        writer
    }

    #[test]
    fn records_open_by_their_paths_and_folders_are_listed() {
        for is_listed in [false, true] {
            let opened = open(&Writer { is_listed, ..filled() });
            assert_eq!(&**opened.get("logical/a/b").unwrap().unwrap(), b"one");
            assert!(opened.get("logical/a").unwrap().is_none());
            assert_eq!(opened.names("logical/a/"), ["b", "c/"]);
            assert_eq!(opened.names("logical/"), ["a/", "ab"]);
            assert_eq!(opened.below("logical/a/c/").count(), 2);
            assert_eq!((opened.passed_by.tokens, opened.passed_by.leases), (1, 1));
            assert!(opened.get("sys/token/id/x").unwrap().is_none());
        }
    }

    #[test]
    fn a_record_of_another_path_key_or_version_does_not_open() {
        let key = *b"the key of the records .........";
        for (place, sealed) in [
            ("moved", record(&key, 2, 2, "elsewhere", b"x")),
            ("other-term", record(&key, 3, 2, "other-term", b"x")),
            ("other-version", record(&key, 2, 3, "other-version", b"x")),
            ("short", vec![0, 0, 0, 2, 2, 1]),
            ("empty", Vec::new()),
        ] {
            let mut writer = filled();
            writer.records.push((place.to_owned(), sealed));
            let told = open(&writer).get(place).unwrap_err();
            assert!(matches!(&told, Error::Record(why) if why.contains(place)), "{told}");
        }
        // Version 1 vouches for no path.
        let mut writer = filled();
        writer.records.push(("old".to_owned(), record(&key, 2, 1, "old", b"text")));
        assert_eq!(&**open(&writer).get("old").unwrap().unwrap(), b"text");
    }

    #[test]
    fn a_file_that_was_cut_off_or_changed_is_refused() {
        let file = filled().file();
        for end in (0..file.len()).step_by(7).chain([file.len() - 1]) {
            assert!(SnapshotFile::read(&file[..end]).is_err(), "{end}");
        }
        for at in 10..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 1;
            let read = SnapshotFile::read(&*changed).and_then(|file| file.unseal(&shares()));
            // A compressed text may be spelled in more than one way.
            let plain = |file: &[u8]| {
                let mut plain = Vec::new();
                let read =
                    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(file), &mut plain);
                read.map(|_| plain).ok()
            };
            assert!(read.is_err() || plain(&changed) == plain(&file), "{at}");
        }
    }

    #[test]
    fn a_file_with_something_behind_its_end_is_refused() {
        let file = filled().file();
        let refused = |file: &[u8]| SnapshotFile::read(file).err().unwrap().to_string();
        for more in [&b"x"[..], b"\0", &[0; 4096], &file] {
            let told = refused(&[&file, more].concat());
            assert!(told.contains("something follows its end"), "{told}");
        }
        // The same inside of the gzip, behind the tar: zeros fill a block there, and nothing else does.
        let mut plain = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*file), &mut plain).unwrap();
        let packed = |more: &[u8]| {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
            std::io::Write::write_all(&mut gzip, &[&plain, more].concat()).unwrap();
            gzip.finish().unwrap()
        };
        assert!(SnapshotFile::read(&*packed(&[0; 8192])).is_ok());
        let long = vec![0; 2 << 20];
        for more in [&b"x"[..], &plain, &long] {
            let told = refused(&packed(more));
            assert!(told.contains("something follows its end"), "{told}");
        }
    }

    #[test]
    fn a_state_that_was_shortened_is_found_by_what_seals_its_sums() {
        let whole = filled();
        let members = |state: &[u8], sealed: &Writer| {
            let file = pack(&sealed.state());
            let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&*file));
            let mut sealed_sums = Vec::new();
            for member in archive.entries().unwrap() {
                let mut member = member.unwrap();
                if member.path().unwrap().to_str() == Some("SHA256SUMS.sealed") {
                    std::io::Read::read_to_end(&mut member, &mut sealed_sums).unwrap();
                }
            }
            let sum = |bytes: &[u8]| {
                let sum = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
                data_encoding::HEXLOWER.encode(sum.as_ref())
            };
            let sums = format!("{}  meta.json\n{}  state.bin\n", sum(META.as_bytes()), sum(state));
            pack_members(&[
                ("meta.json", META.as_bytes()),
                ("state.bin", state),
                ("SHA256SUMS", sums.as_bytes()),
                ("SHA256SUMS.sealed", &sealed_sums),
            ])
        };
        let mut shorter = filled();
        shorter.records.truncate(3);
        let read = SnapshotFile::read(&*members(&shorter.state(), &whole)).unwrap();
        let told = read.unseal(&shares()).err().unwrap();
        assert_eq!(told, Error::file("its sums are not those that the server sealed"));
        let same = SnapshotFile::read(&*members(&whole.state(), &whole)).unwrap();
        assert!(same.unseal(&shares()).is_ok());
    }

    #[test]
    fn a_file_that_expands_as_no_records_do_is_refused_before_memory_is_taken_for_it() {
        let entry = |path: &str, value: &[u8]| {
            let mut entry = Vec::new();
            crate::testing::put_bytes(&mut entry, 1, path.as_bytes());
            crate::testing::put_bytes(&mut entry, 2, value);
            let mut framed = Vec::new();
            crate::testing::put_varint(&mut framed, u64::try_from(entry.len()).unwrap());
            [framed, entry].concat()
        };
        let zeros = vec![0; 1 << 20];
        let many: Vec<u8> =
            (0..40).flat_map(|at| entry(&format!("logical/{at}"), &zeros)).collect();
        let one = entry("logical/one", &vec![0; 40 << 20]);
        for state in [many, one] {
            let told = SnapshotFile::read(&*pack(&state)).err().unwrap().to_string();
            assert!(told.contains("expands more than 64-fold"), "{told}");
        }
    }

    #[test]
    fn records_take_the_memory_that_is_given_and_no_more() {
        let file = filled().file();
        let told = SnapshotFile::read_within(&*file, 700).err().unwrap();
        assert_eq!(told, Error::Memory(700));
        assert!(SnapshotFile::read_within(&*file, 4096).is_ok());
        // What is counted and not kept takes none.
        let mut writer = filled();
        for at in 0..100 {
            writer.put(&format!("sys/token/id/{at}"), &[b'x'; 100]);
            writer.put(&format!("sys/counters/activity/{at}"), &[b'x'; 100]);
        }
        let read = SnapshotFile::read_within(&*writer.file(), 4096).unwrap();
        assert_eq!(read.passed_by.tokens, 101);
    }

    #[test]
    fn shares_of_another_server_too_few_and_other_seals_are_told_apart() {
        let read = || SnapshotFile::read(&*filled().file()).unwrap();
        let facts = read().seal().unwrap();
        assert_eq!((facts.shares, facts.threshold), (3, 2));
        let told = |shares: &[_]| read().unseal(shares).err().unwrap();
        assert!(matches!(told(&shares()[..1]), Error::Shares(why) if why.contains("takes 2")));
        let other = kallisto_barrier::SecretKey::generate().unwrap();
        let others = kallisto_barrier::shamir::split(&other, 2, 2).unwrap();
        assert!(matches!(told(&others), Error::Shares(why) if why.contains("another server")));
        let elsewhere = Writer { seal_kind: "awskms", ..filled() };
        let told = SnapshotFile::read(&*elsewhere.file()).unwrap().unseal(&shares()).err().unwrap();
        assert!(matches!(told, Error::Seal(why) if why.contains("awskms")));
        for threshold in [0, 256, u64::MAX] {
            let file = Writer { threshold, ..filled() }.file();
            let told = SnapshotFile::read(&*file).unwrap().seal().unwrap_err();
            assert!(matches!(told, Error::Seal(why) if why.contains("not understood")));
        }
    }

    #[test]
    fn files_with_other_members_or_layouts_are_refused() {
        let state = filled().state();
        let refused = |members: &[(&str, &[u8])]| {
            SnapshotFile::read(&*pack_members(members)).err().unwrap().to_string()
        };
        assert!(refused(&[("else", b"x")]).contains("none of one"));
        let of_kallisto = refused(&[("meta.json", b"{}"), ("state/00000001", b"x")]);
        assert!(of_kallisto.contains("operator raft snapshot restore"), "{of_kallisto}");
        assert!(refused(&[("meta.json", b"{}"), ("meta.json", b"{}")]).contains("twice"));
        assert!(refused(&[("meta.json", b"{}"), ("state.bin", &state)]).contains("no SHA256SUMS"));
        let long = vec![b' '; 2 << 20];
        assert!(refused(&[("meta.json", &long)]).contains("too long"));
        assert!(refused(&[("state.bin", &[0xff; 11])]).contains("length"));
        assert!(refused(&[("state.bin", &[0xff, 0xff, 0xff, 0x7f])]).contains("longer than"));
        assert!(refused(&[("state.bin", &[5, 0])]).contains("middle"));
        assert!(refused(&[("state.bin", &[2, 0x1a, 0])]).contains("not understood"));
        assert!(SnapshotFile::read(&b"no gzip"[..]).is_err());
    }
}
