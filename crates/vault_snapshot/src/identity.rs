//! Entities and groups, as they are packed: many in one record, which is compressed.

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::expand::expand;
use crate::protobuf::{fields, text_pair};

/// What says that an item is an entity, a group, or aliases of this cluster alone.
const ENTITY: &str = "type.googleapis.com/identity.Entity";
const GROUP: &str = "type.googleapis.com/identity.Group";
const LOCAL_ALIASES: &str = "type.googleapis.com/identity.LocalAliases";

/// Something that was packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackedItem {
    /// An entity.
    Entity(StoredEntity),
    /// A group.
    Group(StoredGroup),
    /// Aliases of the entity with this id that are kept apart, since they are of one cluster alone.
    LocalAliases(String, Vec<StoredAlias>),
    /// The item with this id, which is not understood.
    NotRead(String, Error),
}

/// An entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredEntity {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What is said of it.
    pub metadata: BTreeMap<String, String>,
    /// Its policies.
    pub policies: Vec<String>,
    /// Whether it is disabled.
    pub disabled: bool,
    /// By what login methods know it.
    pub aliases: Vec<StoredAlias>,
    /// The id of its namespace.
    pub namespace: String,
    /// How many secrets of second factors it has.
    pub mfa_secrets: usize,
}

/// What a login method knows an entity or a group by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredAlias {
    /// The name at the method.
    pub name: String,
    /// The method's accessor.
    pub mount_accessor: String,
    /// What people wrote about it.
    pub custom_metadata: BTreeMap<String, String>,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredGroup {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its policies.
    pub policies: Vec<String>,
    /// Ids of groups that it is in.
    pub parents: Vec<String>,
    /// Ids of entities in it.
    pub members: Vec<String>,
    /// What is said of it.
    pub metadata: BTreeMap<String, String>,
    /// `internal` or `external`.
    pub kind: String,
    /// What a login method knows it by.
    pub alias: Option<StoredAlias>,
    /// The id of its namespace.
    pub namespace: String,
}

/// The items of a record. One that is not understood is among them, so that the others of its record move.
///
/// # Errors
/// [`Error::Record`] for damage of the record itself.
pub fn unpack(record: Zeroizing<Vec<u8>>) -> Result<Vec<PackedItem>> {
    let record = expand(record)?;
    let mut items = Vec::new();
    for field in fields(&record)? {
        match field.number {
            // Where it is kept.
            1 => drop(field.text()?),
            2 => {
                let (id, unpacked) = item(field.bytes()?)?;
                items.push(unpacked.unwrap_or_else(|error| PackedItem::NotRead(id, error)));
            }
            _ => return field.unknown("a packed record"),
        }
    }
    Ok(items)
}

/// The id of an item, and what it is.
fn item(bytes: &[u8]) -> Result<(String, Result<PackedItem>)> {
    let (mut id, mut kind, mut message) = (String::new(), String::new(), &[][..]);
    for field in fields(bytes)? {
        match field.number {
            1 => id = field.text()?,
            2 => {
                for field in fields(field.bytes()?)? {
                    match field.number {
                        1 => kind = field.text()?,
                        2 => message = field.bytes()?,
                        _ => return field.unknown("a packed item"),
                    }
                }
            }
            _ => return field.unknown("a packed item"),
        }
    }
    let unpacked = match &*kind {
        ENTITY => entity(message).map(PackedItem::Entity),
        GROUP => group(message).map(PackedItem::Group),
        LOCAL_ALIASES => {
            local_aliases(message).map(|aliases| PackedItem::LocalAliases(id.clone(), aliases))
        }
        _ => Err(Error::record("a packed item of another kind than entities and groups")),
    };
    Ok((id, unpacked))
}

fn local_aliases(message: &[u8]) -> Result<Vec<StoredAlias>> {
    let mut aliases = Vec::new();
    for field in fields(message)? {
        match field.number {
            1 => aliases.push(alias(field.bytes()?)?),
            _ => return field.unknown("local aliases"),
        }
    }
    Ok(aliases)
}

fn entity(bytes: &[u8]) -> Result<StoredEntity> {
    let mut entity = StoredEntity::default();
    for field in fields(bytes)? {
        match field.number {
            1 => entity.aliases.push(alias(field.bytes()?)?),
            2 => entity.id = field.text()?,
            3 => entity.name = field.text()?,
            4 => entity.metadata.extend([text_pair(field.bytes()?)?]),
            // Its times, whom it was merged from, and where it is packed.
            5..=7 | 9 => drop(field.bytes()?),
            8 => entity.policies.push(field.text()?),
            10 => entity.mfa_secrets += 1,
            11 => entity.disabled = field.number()? != 0,
            12 => entity.namespace = field.text()?,
            _ => return field.unknown("an entity"),
        }
    }
    Ok(entity)
}

fn alias(bytes: &[u8]) -> Result<StoredAlias> {
    let mut alias = StoredAlias::default();
    for field in fields(bytes)? {
        match field.number {
            // Ids, what the method is and last said, times, whom it was merged from, the namespace, where it is packed.
            1..=3 | 5 | 6 | 8..=11 | 14 => drop(field.bytes()?),
            4 => alias.mount_accessor = field.text()?,
            7 => alias.name = field.text()?,
            12 => alias.custom_metadata.extend([text_pair(field.bytes()?)?]),
            13 => drop(field.number()?),
            _ => return field.unknown("an alias"),
        }
    }
    Ok(alias)
}

fn group(bytes: &[u8]) -> Result<StoredGroup> {
    let mut group = StoredGroup::default();
    for field in fields(bytes)? {
        match field.number {
            1 => group.id = field.text()?,
            2 => group.name = field.text()?,
            3 => group.policies.push(field.text()?),
            4 => group.parents.push(field.text()?),
            5 => group.members.push(field.text()?),
            6 => group.metadata.extend([text_pair(field.bytes()?)?]),
            // Its times and where it is packed, and how often it was changed.
            7 | 8 | 10 => drop(field.bytes()?),
            9 => drop(field.number()?),
            11 => group.alias = Some(alias(field.bytes()?)?),
            12 => group.kind = field.text()?,
            13 => group.namespace = field.text()?,
            _ => return field.unknown("a group"),
        }
    }
    Ok(group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{put_bytes, put_number};

    fn packed(kind: &str, message: &[u8]) -> Vec<u8> {
        let (mut any, mut item, mut record) = (Vec::new(), Vec::new(), Vec::new());
        put_bytes(&mut any, 1, kind.as_bytes());
        put_bytes(&mut any, 2, message);
        put_bytes(&mut item, 1, b"id");
        put_bytes(&mut item, 2, &any);
        put_bytes(&mut record, 1, b"packer/buckets/1");
        put_bytes(&mut record, 2, &item);
        record
    }

    #[test]
    fn entities_and_groups_are_unpacked_and_others_refused() {
        let (mut alias, mut entity) = (Vec::new(), Vec::new());
        put_bytes(&mut alias, 4, b"accessor");
        put_bytes(&mut alias, 7, b"ann");
        put_bytes(&mut entity, 1, &alias);
        put_bytes(&mut entity, 3, b"ann");
        put_number(&mut entity, 11, 1);
        let unpacked = unpack(Zeroizing::new(packed(ENTITY, &entity))).unwrap();
        let [PackedItem::Entity(entity)] = &unpacked[..] else { panic!("{unpacked:?}") };
        assert!(entity.disabled && entity.name == "ann");
        assert_eq!(entity.aliases.first().unwrap().mount_accessor, "accessor");
        let mut group = Vec::new();
        put_bytes(&mut group, 11, &alias);
        put_bytes(&mut group, 12, b"external");
        let unpacked = unpack(Zeroizing::new(packed(GROUP, &group))).unwrap();
        let [PackedItem::Group(group)] = &unpacked[..] else { panic!("{unpacked:?}") };
        assert_eq!((&*group.kind, group.alias.is_some()), ("external", true));
        let mut newer = Vec::new();
        put_number(&mut newer, 99, 1);
        for (kind, message, why) in [
            ("type.googleapis.com/x", &b""[..], "another kind"),
            (ENTITY, &newer, "field 99 of an entity"),
        ] {
            // The good one beside it is read all the same.
            let record = [packed(kind, message), packed(GROUP, b"")].concat();
            let unpacked = unpack(Zeroizing::new(record)).unwrap();
            let [PackedItem::NotRead(id, told), PackedItem::Group(_)] = &unpacked[..] else {
                panic!("{unpacked:?}")
            };
            assert!(id == "id" && told.to_string().contains(why), "{told}");
        }
    }
}
