//! Tests of what becomes of a chain over starts of a device, and of what is done to its file meanwhile.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::options::DeviceOptions;
use crate::sink::Real;
use crate::verify::{ChainFault, Verifier, VerifyFailure};
use crate::{AnchorFiles, AnchorVerdict, ChainHead};

/// A directory with an audit file and anchors.
struct AnchoredDirectory {
    directory: PathBuf,
    anchors: Arc<dyn Anchors>,
}

impl AnchoredDirectory {
    fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("kallisto-chained-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        let anchors = Arc::new(AnchorFiles(directory.join("anchors")));
        Self { directory, anchors }
    }

    fn file(&self) -> PathBuf {
        self.directory.join("audit.log")
    }

    fn start(&self, origin: Origin) -> Device {
        let path = self.file().display().to_string();
        let options: DeviceOptions = [("file_path".to_owned(), path)].into();
        let spec = DeviceSpec::parse("file", &options).unwrap();
        let anchors = Some(Arc::clone(&self.anchors));
        let around = Surroundings { destinations: &Real, anchors, node: "n1" };
        Device::start("file", spec, &[5; SALT_BYTES], origin, &around).unwrap()
    }

    /// Lets a device write so many records and end.
    fn run(&self, origin: Origin, records: usize) -> (ChainHead, AnchorVerdict) {
        let device = self.start(origin);
        write(&device, records);
        let verdict = device.verdict().unwrap();
        let key = device.public_key();
        assert_eq!(key, self.key());
        drop(device);
        self.wait_for_end();
        (self.verify(None).map_or(ChainHead::default(), |verified| verified.head), verdict)
    }

    fn wait_for_end(&self) {
        while Arc::strong_count(&self.anchors) > 1 {
            thread::yield_now();
        }
    }

    fn key(&self) -> DevicePublicKey {
        CheckpointSigner::new(&[5; SALT_BYTES], "n1", "file").unwrap().public_key()
    }

    fn lines(&self) -> Vec<Vec<u8>> {
        content(&self.file()).split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect()
    }

    fn put(&self, lines: &[Vec<u8>]) {
        put(&self.file(), &lines.concat());
    }

    fn verify(&self, key: Option<DevicePublicKey>) -> Result<crate::VerifiedChain, VerifyFailure> {
        verify(&[content(&self.file())], key)
    }
}

impl Drop for AnchoredDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[expect(clippy::disallowed_methods, reason = "the test looks at the file from outside")]
fn content(path: &std::path::Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the test changes the file from outside")]
fn put(path: &std::path::Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}

fn write(device: &Device, records: usize) {
    for _ in 0..records {
        assert!(pollster::block_on(device.submit_test(&AuditSubject::default()).written()));
    }
}

/// Files in their order. Too many records without a signature count as the cut that they show.
fn verify(
    files: &[Vec<u8>],
    key: Option<DevicePublicKey>,
) -> Result<crate::VerifiedChain, VerifyFailure> {
    let mut verifier = Verifier::default().trusting(key);
    for file in files {
        verifier.take_file(&mut &file[..])?;
    }
    match verifier.too_many_unsigned() {
        Some(_) => Err(VerifyFailure::Line { line: 0, fault: ChainFault::NoRecord }),
        None => Ok(verifier.verified().unwrap()),
    }
}

/// The same records in a chain of somebody who has no key, without checkpoints or with these as they are.
fn rewritten(lines: &[Vec<u8>], keeps_checkpoints: bool) -> Vec<Vec<u8>> {
    let mut head = ChainHead::default();
    let kept = lines.iter().filter(|line| keeps_checkpoints || !crate::checkpoint::is_one(line));
    let again = |line: &Vec<u8>| {
        let body = crate::chain::body(line.strip_suffix(b"\n").unwrap()).unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        let mut line = body.replace("\"request\"", "\"response\"").into_bytes();
        head = head.link(0, &mut line);
        line
    };
    kept.map(again).collect()
}

#[test]
fn a_chain_goes_on_over_starts_and_is_signed_at_every_end() {
    let place = AnchoredDirectory::new("starts");
    let (head, verdict) = place.run(Origin::New, 3);
    assert_eq!((head.seq, verdict), (4, AnchorVerdict::New));
    let (head, verdict) = place.run(Origin::Known, 2);
    assert_eq!((head.seq, verdict), (7, AnchorVerdict::Sound));
    let verified = place.verify(Some(place.key())).unwrap();
    assert_eq!((verified.first, verified.signed), (1, Some(7)));
    let other = CheckpointSigner::new(&[6; SALT_BYTES], "n1", "file").unwrap().public_key();
    let failure = place.verify(Some(other)).unwrap_err();
    assert!(matches!(failure, VerifyFailure::Line { fault: ChainFault::Unsigned { seq: 4 }, .. }));
}

#[test]
fn a_chain_is_signed_before_too_many_records_are_not() {
    let place = AnchoredDirectory::new("many");
    let device = place.start(Origin::New);
    let count = usize::try_from(crate::limits::CHECKPOINT_RECORDS_MAX).unwrap();
    let tickets: Vec<Ticket> =
        (0..2 * count + 5).map(|_| device.submit_test(&AuditSubject::default())).collect();
    assert!(tickets.into_iter().all(|ticket| pollster::block_on(ticket.written())));
    let key = Some(place.key());
    // It is not ended: its last records wait for a signature.
    let verified = place.verify(key).unwrap();
    assert!(verified.signed.unwrap() >= 2 * count as u64);
    let lines = place.lines();
    let signed: Vec<usize> =
        (0..lines.len()).filter(|&at| crate::checkpoint::is_one(&lines[at])).collect();
    assert!(signed.windows(2).all(|pair| pair[1] - pair[0] <= count + 1) && signed[0] <= count);
    // Forged records behind the last checkpoint are not believed for long.
    let mut head = verified.head;
    let mut forged = lines.concat();
    for _ in 0..count + 1 {
        let start = forged.len();
        forged.extend_from_slice(b"{\"time\":\"t\",\"type\":\"request\"");
        head = head.link(start, &mut forged);
    }
    assert!(verify(&[forged], key).is_err());
    drop(device);
    place.wait_for_end();
}

#[test]
fn lines_that_were_cut_off_are_missed_at_the_next_start_and_for_ever() {
    let place = AnchoredDirectory::new("cut");
    let (head, _) = place.run(Origin::New, 5);
    let all = place.lines();
    for cut in 1..all.len() {
        put(&place.file(), &all[..cut].concat());
        let kept = place.anchors.read("file").unwrap().unwrap();
        assert!(verify(&[all[..cut].concat()], None).is_ok(), "the file alone does not tell");
        let device = place.start(Origin::Known);
        write(&device, 1);
        assert_eq!(device.verdict(), Some(AnchorVerdict::Cut), "{cut}");
        drop(device);
        place.wait_for_end();
        let failure = place.verify(None).unwrap_err();
        let gap = ChainFault::Gap { expected: cut as u64 + 1, found: head.seq + 1 };
        assert!(matches!(failure, VerifyFailure::Line { fault, .. } if fault == gap), "{cut}");
        place.anchors.write("file", &kept).unwrap();
    }
}

#[test]
fn a_file_that_was_removed_is_missed_and_one_that_was_moved_away_verifies_with_its_successor() {
    let place = AnchoredDirectory::new("moved");
    place.run(Origin::New, 4);
    let first = content(&place.file());
    fs::remove_file(place.file()).unwrap();
    let device = place.start(Origin::Known);
    write(&device, 2);
    assert_eq!(device.verdict(), Some(AnchorVerdict::Missing));
    drop(device);
    place.wait_for_end();
    let second = content(&place.file());
    assert_eq!(verify(&[first, second.clone()], Some(place.key())).unwrap().first, 1);
    // By itself it does not pretend to be the beginning.
    assert_eq!(verify(&[second], Some(place.key())).unwrap().first, 6);
}

#[test]
fn a_chain_that_somebody_else_wrote_is_found_by_the_server_and_by_the_key() {
    let place = AnchoredDirectory::new("rewritten");
    place.run(Origin::New, 6);
    let all = place.lines();
    for keeps_checkpoints in [false, true] {
        let forged = rewritten(&all, keeps_checkpoints);
        assert!(verify(&[forged.concat()], None).is_ok(), "a whole new chain is sound by itself");
        assert!(verify(&[forged.concat()], Some(place.key())).is_err());
        // As long as before, so that the number of the anchor is there.
        let mut longer = forged;
        while longer.len() <= all.len() {
            let last = crate::chain::read(longer.last().unwrap().strip_suffix(b"\n").unwrap());
            let mut line = b"{\"time\":\"t\",\"type\":\"request\"".to_vec();
            last.unwrap().head.link(0, &mut line);
            longer.push(line);
        }
        let kept = place.anchors.read("file").unwrap().unwrap();
        place.put(&longer);
        let device = place.start(Origin::Known);
        write(&device, 1);
        assert_eq!(device.verdict(), Some(AnchorVerdict::Rewritten));
        drop(device);
        place.wait_for_end();
        assert!(place.verify(None).is_err(), "the server does not go on behind it");
        place.anchors.write("file", &kept).unwrap();
    }
}

#[test]
fn an_anchor_that_is_missing_or_not_its_own_is_told() {
    let place = AnchoredDirectory::new("unanchored");
    place.run(Origin::New, 2);
    for bytes in [&b""[..], b"1 1 00 00\n"] {
        place.anchors.write("file", bytes).unwrap();
        let (_, verdict) = place.run(Origin::Known, 1);
        assert_eq!(verdict, AnchorVerdict::Unanchored);
    }
    let (_, verdict) = place.run(Origin::Known, 1);
    assert_eq!(verdict, AnchorVerdict::Sound);
}

#[test]
fn files_that_are_moved_away_under_a_device_are_signed_to_their_end() {
    let place = AnchoredDirectory::new("rotated");
    let device = place.start(Origin::New);
    let mut files = Vec::new();
    for at in 0..3 {
        write(&device, 4);
        let old = place.directory.join(format!("audit.log.{at}"));
        fs::rename(place.file(), &old).unwrap();
        device.reopen();
        while !place.file().exists() {
            thread::yield_now();
        }
        files.push(content(&old));
        assert!(verify(&files[at..], Some(place.key())).is_ok(), "alone");
        assert_eq!(verify(&files, Some(place.key())).unwrap().first, 1);
    }
    write(&device, 1);
    drop(device);
    place.wait_for_end();
    files.push(content(&place.file()));
    verify(&files, Some(place.key())).unwrap();
    assert_eq!(place.run(Origin::Known, 1).1, AnchorVerdict::Sound);
}

#[test]
fn a_server_that_was_put_back_meets_the_records_of_its_future() {
    let place = AnchoredDirectory::new("ahead");
    let (head, _) = place.run(Origin::New, 2);
    let anchored = place.lines();
    let hours = |hours: i64| crate::clock::now() + jiff::SignedDuration::from_hours(hours);
    for (later, verdict) in [(0, AnchorVerdict::Sound), (2, AnchorVerdict::Ahead)] {
        let mut line = format!("{{\"time\":\"{}\",\"type\":\"request\"", hours(later)).into_bytes();
        let next = head.link(0, &mut line);
        put(&place.file(), &[anchored.concat(), line].concat());
        let kept = place.anchors.read("file").unwrap().unwrap();
        let device = place.start(Origin::Known);
        write(&device, 1);
        assert_eq!(device.verdict(), Some(verdict), "{later}");
        drop(device);
        place.wait_for_end();
        let verified = place.verify(Some(place.key())).unwrap();
        assert!(verified.head.seq > next.seq, "the chain goes on behind what is there");
        place.anchors.write("file", &kept).unwrap();
    }
}
