//! Who wrote and who deleted the versions of a secret, as its metadata record keeps it.
//!
//! The handlers make an [`Author`] of the request, unless the mount's settings say `attribution=false`; the decisions note it on the
//! versions they make or delete. Of a version written before there was attribution, or while it was off, nothing is known and
//! nothing is shown. What is kept says who had the token then: names change, entities merge, and the record stays as it is.
//!
//! ```text
//! writers u16 | writer* | notes u32 | note*                      at the end of a metadata record with flag 8
//! writer = entity id 16, zeros for none | display name u8 len | mount u8 len
//! note   = version u64 | created by u16 | deleted by u16 | request id 16     writers count from 1, 0 for nobody known
//! ```
//!
//! Invariants: notes are sorted by version, each version has at most one, and every writer is named by one.

use kallisto_codec::ByteReader;

use super::kv::MalformedKv;
use crate::api::json::{Json, Map};
use crate::api::request_id::uuid_text;
use crate::identity::record::IdentityId;

/// Longest name of a writer that is kept, in bytes; longer ones are cut.
const NAME_BYTES_MAX: usize = 255;
/// Bytes of a note.
const NOTE_BYTES: usize = 28;
/// Fewest bytes of a writer.
const WRITER_BYTES_MIN: usize = 18;

/// Who makes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Author {
    writer: VersionWriter,
    request_id: u128,
}

/// Whoever had a token.
#[derive(Clone, Debug, PartialEq, Eq)]
struct VersionWriter {
    entity_id: Option<IdentityId>,
    display_name: Box<str>,
    /// The path of the login method that made the token.
    mount: Box<str>,
}

/// What is known of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    version: u64,
    /// A place among the writers, from 1; 0 for nobody known.
    created_by: u16,
    deleted_by: u16,
    request_id: u128,
}

/// Who wrote the versions of a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attribution {
    writers: Vec<VersionWriter>,
    notes: Vec<Note>,
}

impl Author {
    /// Whoever has a token with this display name that the login method at `mount` made, in a request of this id.
    pub(crate) fn new(
        entity_id: Option<IdentityId>,
        display_name: &str,
        mount: &str,
        request_id: u128,
    ) -> Self {
        let (display_name, mount) = (cut(display_name).into(), cut(mount).into());
        Self { writer: VersionWriter { entity_id, display_name, mount }, request_id }
    }

    /// The same, in a request of this id.
    pub(crate) fn in_request(&mut self, request_id: u128) -> &Self {
        self.request_id = request_id;
        self
    }
}

/// The beginning of a name, as far as it is kept.
fn cut(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

impl Attribution {
    pub(crate) fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// Notes who made a version.
    pub(crate) fn created(&mut self, version: u64, author: &Author) {
        let created_by = self.place_of(&author.writer);
        let note = Note { version, created_by, deleted_by: 0, request_id: author.request_id };
        match self.notes.binary_search_by_key(&version, |note| note.version) {
            Ok(at) => self.notes[at] = note,
            Err(at) => self.notes.insert(at, note),
        }
    }

    /// Notes who deleted a version; `None` for nobody known, or one that is not deleted any more.
    pub(crate) fn deleted(&mut self, version: u64, author: Option<&Author>) {
        let at = self.notes.binary_search_by_key(&version, |note| note.version);
        let Some(author) = author else {
            if let Ok(at) = at {
                self.notes[at].deleted_by = 0;
            }
            return;
        };
        let deleted_by = self.place_of(&author.writer);
        match at {
            Ok(at) => self.notes[at].deleted_by = deleted_by,
            Err(at) => {
                self.notes.insert(at, Note { version, created_by: 0, deleted_by, request_id: 0 });
            }
        }
    }

    /// Keeps what is known of the versions that `keeps` says, and the writers they name.
    pub(crate) fn retain(&mut self, keeps: impl Fn(u64) -> bool) {
        self.notes.retain(|note| keeps(note.version));
        if self.names_all_in_order() {
            return;
        }
        let mut places = vec![0_u16; self.writers.len() + 1];
        let mut kept = Vec::with_capacity(self.writers.len());
        for note in &mut self.notes {
            for place in [&mut note.created_by, &mut note.deleted_by] {
                let old = usize::from(*place);
                if old == 0 {
                    continue;
                }
                if places[old] == 0 {
                    kept.push(self.writers[old - 1].clone());
                    places[old] = u16::try_from(kept.len()).unwrap_or(u16::MAX);
                }
                *place = places[old];
            }
        }
        self.writers = kept;
    }

    /// Whether the notes name every writer, each for the first time behind those before it: what [`Attribution::retain`] makes of any.
    fn names_all_in_order(&self) -> bool {
        let mut named = 0;
        for note in &self.notes {
            for place in [note.created_by, note.deleted_by] {
                match usize::from(place) {
                    place if place <= named => {}
                    place if place == named + 1 => named = place,
                    _ => return false,
                }
            }
        }
        named == self.writers.len()
    }

    /// Adds what is known of a version to the object that shows it.
    pub(crate) fn show(&self, version: u64, into: &mut Map) {
        let Ok(at) = self.notes.binary_search_by_key(&version, |note| note.version) else { return };
        let note = &self.notes[at];
        if let Some(writer) = self.writer(note.created_by) {
            into.insert("created_by".into(), writer.to_json());
        }
        if let Some(writer) = self.writer(note.deleted_by) {
            into.insert("deleted_by".into(), writer.to_json());
        }
        if note.request_id != 0 {
            into.insert("request_id".into(), uuid_text(note.request_id).into());
        }
    }

    fn writer(&self, place: u16) -> Option<&VersionWriter> {
        self.writers.get(usize::from(place).checked_sub(1)?)
    }

    /// The place of a writer, which is added if it is new. A record has at most twice as many writers as versions, which its
    /// limit of versions holds below 65,535.
    fn place_of(&mut self, writer: &VersionWriter) -> u16 {
        let at = match self.writers.iter().position(|known| known == writer) {
            Some(at) => at,
            None => {
                self.writers.push(writer.clone());
                self.writers.len() - 1
            }
        };
        u16::try_from(at + 1).unwrap_or(0)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let count = |count: usize| u16::try_from(count).expect("writers are bounded by versions");
        out.extend_from_slice(&count(self.writers.len()).to_le_bytes());
        for writer in &self.writers {
            let entity = writer.entity_id.map_or(0, IdentityId::bits);
            out.extend_from_slice(&entity.to_le_bytes());
            for text in [&writer.display_name, &writer.mount] {
                out.push(u8::try_from(text.len()).expect("names were cut"));
                out.extend_from_slice(text.as_bytes());
            }
        }
        let notes = u32::try_from(self.notes.len()).expect("notes are bounded by versions");
        out.extend_from_slice(&notes.to_le_bytes());
        for note in &self.notes {
            out.extend_from_slice(&note.version.to_le_bytes());
            out.extend_from_slice(&note.created_by.to_le_bytes());
            out.extend_from_slice(&note.deleted_by.to_le_bytes());
            out.extend_from_slice(&note.request_id.to_le_bytes());
        }
    }

    pub(super) fn decode(reader: &mut ByteReader<'_>) -> Result<Self, MalformedKv> {
        let count = usize::from(u16::from_le_bytes(array(reader)?));
        bounded(reader, count, WRITER_BYTES_MIN)?;
        let mut writers = Vec::with_capacity(count);
        for _ in 0..count {
            let entity = u128::from_le_bytes(array(reader)?);
            let entity_id = (entity != 0).then(|| IdentityId::of_bits(entity));
            let (display_name, mount) = (name(reader)?, name(reader)?);
            writers.push(VersionWriter { entity_id, display_name, mount });
        }
        let count = reader.u32().ok_or(MalformedKv)? as usize;
        bounded(reader, count, NOTE_BYTES)?;
        let mut notes: Vec<Note> = Vec::with_capacity(count);
        for _ in 0..count {
            let note = Note {
                version: reader.u64().ok_or(MalformedKv)?,
                created_by: u16::from_le_bytes(array(reader)?),
                deleted_by: u16::from_le_bytes(array(reader)?),
                request_id: u128::from_le_bytes(array(reader)?),
            };
            let named = usize::from(note.created_by.max(note.deleted_by));
            let follows = notes.last().is_none_or(|last| last.version < note.version);
            if named > writers.len() || !follows {
                return Err(MalformedKv);
            }
            notes.push(note);
        }
        Ok(Self { writers, notes })
    }
}

impl VersionWriter {
    fn to_json(&self) -> Json {
        Json::object([
            ("entity_id", self.entity_id.map_or_else(String::new, |id| id.to_string()).into()),
            ("display_name", (&*self.display_name).into()),
            ("mount", (&*self.mount).into()),
        ])
    }
}

fn array<const N: usize>(reader: &mut ByteReader<'_>) -> Result<[u8; N], MalformedKv> {
    reader.array().ok_or(MalformedKv)
}

fn name(reader: &mut ByteReader<'_>) -> Result<Box<str>, MalformedKv> {
    let bytes = usize::from(reader.u8().ok_or(MalformedKv)?);
    let text = reader.take(bytes).ok_or(MalformedKv)?;
    std::str::from_utf8(text).map(Box::from).map_err(|_| MalformedKv)
}

fn bounded(reader: &ByteReader<'_>, count: usize, item_bytes: usize) -> Result<(), MalformedKv> {
    if count > reader.len() / item_bytes { Err(MalformedKv) } else { Ok(()) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn author(name: &str) -> Author {
        let writer = VersionWriter {
            entity_id: Some(IdentityId::of_bits(7)),
            display_name: name.into(),
            mount: "auth/userpass/".into(),
        };
        Author { writer, request_id: 9 }
    }

    fn shown(attribution: &Attribution, version: u64) -> String {
        let mut map = Map::new();
        attribution.show(version, &mut map);
        let name =
            |key: &str| Some(map.get(key)?.as_object()?["display_name"].as_str()?.to_owned());
        format!("{:?} {:?}", name("created_by"), name("deleted_by"))
    }

    #[test]
    fn what_is_noted_is_shown_and_goes_with_its_version() {
        let mut all = Attribution::default();
        all.created(1, &author("ada"));
        all.created(2, &author("bob"));
        all.deleted(1, Some(&author("eve")));
        all.deleted(5, Some(&author("ada")));
        assert_eq!(shown(&all, 1), r#"Some("ada") Some("eve")"#);
        assert_eq!(shown(&all, 2), r#"Some("bob") None"#);
        assert_eq!(shown(&all, 5), r#"None Some("ada")"#);
        assert_eq!(shown(&all, 3), "None None");
        all.deleted(1, None);
        all.retain(|version| version < 3);
        assert_eq!(all.writers.len(), 2);
        assert_eq!(shown(&all, 1), r#"Some("ada") None"#);
        assert_eq!(shown(&all, 2), r#"Some("bob") None"#);
        all.retain(|_| false);
        assert!(all.is_empty() && all.writers.is_empty());
    }

    #[test]
    fn every_writer_that_is_kept_is_named_in_the_order_of_the_notes() {
        let mut dice = fastrand::Rng::with_seed(3);
        let mut all = Attribution::default();
        for version in 1..500 {
            let name = |dice: &mut fastrand::Rng| author(&dice.u8(..4).to_string());
            all.created(version, &name(&mut dice));
            if dice.bool() {
                all.deleted(version - dice.u64(..version.min(6)), Some(&name(&mut dice)));
            }
            let oldest = version.saturating_sub(dice.u64(2..9));
            let before: Vec<_> = (oldest..=version).map(|at| shown(&all, at)).collect();
            all.retain(|at| at >= oldest);
            assert!(all.names_all_in_order(), "{all:?}");
            let after: Vec<_> = (oldest..=version).map(|at| shown(&all, at)).collect();
            assert_eq!(after, before);
        }
    }

    #[test]
    fn it_reads_back_and_no_bytes_are_a_panic() {
        let mut all = Attribution::default();
        all.created(1, &author("ada"));
        all.created(3, &author(&"ü".repeat(200)[..NAME_BYTES_MAX - 1]));
        all.deleted(3, Some(&author("eve")));
        let mut bytes = Vec::new();
        all.encode(&mut bytes);
        let decode = |bytes: &[u8]| {
            let mut reader = ByteReader::new(bytes);
            let read = Attribution::decode(&mut reader)?;
            if reader.is_empty() { Ok(read) } else { Err(MalformedKv) }
        };
        assert_eq!(decode(&bytes), Ok(all));
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end]), Err(MalformedKv), "cut at {end}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                let _ = decode(&flipped);
            }
        }
        let name = "ü".repeat(200);
        assert_eq!(cut(&name).len(), NAME_BYTES_MAX - 1);
    }
}
