//! `keys/…`: making, showing, listing, changing and deleting named keys.

use super::refusal;
use kallisto_api::{Error, Fields, Json, Logical, Map, Response, Span};
use kallisto_transit::{
    Derivation, Kdf, KeyChange, KeyKind, KeyOrigin, KeySpec, Listed, Stamp, TransitKey,
};

use super::TransitHandler;
use super::store::{Becomes, Created, KEY_FOLDER};
use jiff::Timestamp;

pub(super) async fn create(transit: &TransitHandler<'_>, name: &str) -> Result<Response, Error> {
    let body = transit.call.request.object()?;
    let fields = Fields::new(&body);
    let named = fields.string("type")?.unwrap_or_else(|| KeyKind::Aes256Gcm96.name().to_owned());
    let flag = |name| Ok::<_, Error>(fields.boolean(name)?.unwrap_or(false));
    let derivation = match (flag("derived")?, flag("convergent_encryption")?) {
        (false, false) => Derivation::None,
        (true, false) => Derivation::ByContext(Kdf::HkdfSha256),
        (true, true) => Derivation::Convergent,
        (false, true) => {
            return Err(Error::invalid("convergent encryption requires derivation to be enabled"));
        }
    };
    let spec = KeySpec {
        derivation,
        hmac_key_bytes: fields.int("key_size")?.unwrap_or(0),
        exportable: flag("exportable")?,
        allow_plaintext_backup: flag("allow_plaintext_backup")?,
        auto_rotate_secs: fields.span("auto_rotate_period")?.map_or(0, Span::secs),
    };
    let kind = KeyKind::named(&named)
        .ok_or_else(|| Error::invalid(format!("unknown key type {named}")))?;
    // Where there is a key of this name too, for which it is not looked at any more.
    spec.check(kind).map_err(refusal)?;
    let now_ns = transit.call.request.now_ns();
    let created = transit.create(name, kind, move || TransitKey::make(kind, &spec, now_ns)).await?;
    let (Created::New(key) | Created::Existing(key)) = created;
    shown(name, &key, b"")
}

pub(super) fn read(transit: &TransitHandler<'_>, name: &str) -> Result<Response, Error> {
    let query = transit.call.request.query_fields();
    let context = Fields::new(&query).string("context")?.unwrap_or_default();
    let context = kallisto_transit::decode_base64(&context)
        .map_err(|_| Error::invalid("failed to base64-decode context"))?;
    let key = transit.find(name)?.ok_or(Error::NotFound)?;
    shown(name, &key, &context)
}

pub(super) fn list(transit: &TransitHandler<'_>) -> Result<Response, Error> {
    transit.call.list(KEY_FOLDER)
}

pub(super) async fn delete(transit: &TransitHandler<'_>, name: &str) -> Result<Response, Error> {
    transit.delete(name).await?;
    Ok(Response::Empty)
}

pub(super) async fn rotate(transit: &TransitHandler<'_>, name: &str) -> Result<Response, Error> {
    transit.call.request.object()?;
    let key = transit.rotate(name, transit.call.request.now_ns()).await?;
    shown(name, &key, b"")
}

pub(super) async fn configure(transit: &TransitHandler<'_>, name: &str) -> Result<Response, Error> {
    let body = transit.call.request.object()?;
    let fields = Fields::new(&body);
    let change = KeyChange {
        min_decryption_version: fields.int("min_decryption_version")?,
        min_encryption_version: fields.int("min_encryption_version")?,
        deletion_allowed: fields.boolean("deletion_allowed")?,
        exportable: fields.boolean("exportable")?,
        allow_plaintext_backup: fields.boolean("allow_plaintext_backup")?,
        auto_rotate_secs: fields.span("auto_rotate_period")?.map(Span::secs),
    };
    let missing = Error::invalid(format!("no existing key named {name} could be found"));
    let mut warning = None;
    let key = transit
        .change(name, missing, |key| {
            let (changed, said) = key.configured(&change).map_err(refusal)?;
            warning = said;
            Ok(changed.map_or(Becomes::Same, Becomes::Other))
        })
        .await?;
    shown_with(name, &key, warning)
}

pub(super) async fn trim(transit: &TransitHandler<'_>, name: &str) -> Result<Response, Error> {
    let body = transit.call.request.object()?;
    let asked = Fields::new(&body).int("min_available_version")?;
    let key = transit
        .change(name, Error::invalid("invalid key name"), |key| {
            let asked = asked.ok_or_else(|| Error::invalid("missing min_available_version"))?;
            Ok(Becomes::Other(key.trimmed(asked).map_err(refusal)?))
        })
        .await?;
    shown(name, &key, b"")
}

pub(super) async fn set_aside(transit: &TransitHandler<'_>, name: &str) -> Result<Response, Error> {
    let mut warning = None;
    let key = transit
        .change(name, Error::NotFound, |key| {
            if key.settings().soft_deleted {
                warning = Some("key was already marked as soft deleted");
                return Ok(Becomes::Same);
            }
            Ok(Becomes::Other(key.set_aside()))
        })
        .await?;
    shown_with(name, &key, warning)
}

pub(super) async fn take_up(transit: &TransitHandler<'_>, name: &str) -> Result<Response, Error> {
    let mut warning = None;
    let key = transit
        .change(name, Error::NotFound, |key| {
            if !key.settings().soft_deleted {
                warning = Some("key was already restored");
                return Ok(Becomes::Same);
            }
            Ok(Becomes::Other(key.taken_up()))
        })
        .await?;
    shown_with(name, &key, warning)
}

fn shown(name: &str, key: &TransitKey, context: &[u8]) -> Result<Response, Error> {
    Ok(Response::data(&describe(name, key, context)?.into()))
}

fn shown_with(name: &str, key: &TransitKey, warning: Option<&str>) -> Result<Response, Error> {
    let data = Json::Object(describe(name, key, b"")?).to_text();
    let warnings = warning.map(str::to_owned).into_iter().collect();
    Ok(Response::Logical(Logical { data, warnings, ..Logical::default() }))
}

/// What is told of a key: all but its material.
fn describe(name: &str, key: &TransitKey, context: &[u8]) -> Result<Map, Error> {
    let (kind, settings) = (key.kind(), key.settings());
    let Json::Object(mut map) = Json::object([
        ("name", name.into()),
        ("type", kind.name().into()),
        ("derived", (key.derivation() != Derivation::None).into()),
        ("deletion_allowed", settings.deletion_allowed.into()),
        ("min_available_version", u64::from(settings.min_available_version).into()),
        ("min_decryption_version", u64::from(settings.min_decryption_version).into()),
        ("min_encryption_version", u64::from(settings.min_encryption_version).into()),
        ("latest_version", u64::from(key.latest_version()).into()),
        ("exportable", settings.exportable.into()),
        ("allow_plaintext_backup", settings.allow_plaintext_backup.into()),
        ("supports_encryption", kind.encrypts().into()),
        ("supports_decryption", kind.encrypts().into()),
        ("supports_signing", kind.signs().into()),
        ("supports_derivation", kind.derives().into()),
        ("auto_rotate_period", settings.auto_rotate_secs.into()),
        ("imported_key", (settings.origin != KeyOrigin::Made).into()),
        ("soft_deleted", settings.soft_deleted.into()),
    ]) else {
        unreachable!("an object was made of pairs");
    };
    if kind == KeyKind::Hmac {
        map.insert("key_size".into(), (key.hmac_key_bytes() as u64).into());
    } else {
        map.insert("keys".into(), versions(&key.list(context).map_err(refusal)?).into());
    }
    if settings.origin != KeyOrigin::Made {
        let rotates = settings.origin == KeyOrigin::ImportedRotatable;
        map.insert("imported_key_allow_rotation".into(), rotates.into());
    }
    for (field, stamp) in [("backup_info", settings.backup), ("restore_info", settings.restore)] {
        if let Some(stamp) = stamp {
            map.insert(field.into(), stamp_of(stamp));
        }
    }
    if let Some(kdf) = key.derivation().kdf() {
        let convergent = key.derivation() == Derivation::Convergent;
        map.insert("kdf".into(), kdf.name().into());
        // OpenBao says it twice, of this one only.
        if kdf == Kdf::HmacSha256Counter {
            map.insert("kdf_mode".into(), kdf.name().into());
        }
        map.insert("convergent_encryption".into(), convergent.into());
        if convergent {
            map.insert("convergent_encryption_version".into(), Json::Number("-1".into()));
        }
    }
    Ok(map)
}

/// A time in nanoseconds since 1970, as RFC 3339.
fn time_text(at_ns: i64) -> String {
    Timestamp::from_nanosecond(at_ns.into()).unwrap_or_default().to_string()
}

fn stamp_of(stamp: Stamp) -> Json {
    Json::object([
        ("time", time_text(stamp.at_ns).into()),
        ("version", u64::from(stamp.version).into()),
    ])
}

/// Versions by number: when they were made, and the public half of those that have one.
fn versions(listed: &[Listed]) -> Map {
    let one = |listed: &Listed| match &listed.public {
        None => listed.made_ns.div_euclid(1_000_000_000).into(),
        Some(public) => Json::object([
            ("name", public.name.into()),
            ("public_key", public.text.as_str().into()),
            ("creation_time", time_text(listed.made_ns).into()),
            ("certificate_chain", "".into()),
        ]),
    };
    listed.iter().map(|listed| (listed.version.to_string(), one(listed))).collect()
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::Update;

    use super::super::ENGINE;
    use super::*;
    use crate::testing::TestMount;

    #[test]
    fn what_makes_no_key_is_refused_where_there_is_one_too() {
        let mount = TestMount::new(&ENGINE);
        let ask = |path: &str, body: &str| mount.ask(1_800_000_000, Update, path, body);
        ask("keys/there", "").unwrap();
        for body in [
            r#"{"auto_rotate_period":"30m"}"#,
            r#"{"auto_rotate_period":"-1h"}"#,
            r#"{"type":"hmac","key_size":16}"#,
            r#"{"type":"hmac","key_size":513}"#,
            r#"{"key_size":32}"#,
            r#"{"type":"rsa-2048","derived":true}"#,
            r#"{"convergent_encryption":true}"#,
            r#"{"type":"aes"}"#,
        ] {
            let refused = ask("keys/new", body);
            assert!(matches!(refused, Err(Error::Invalid(_))), "{body}: {refused:?}");
            assert_eq!(ask("keys/there", body), refused, "{body}");
        }
        let kept = ask("keys/there", r#"{"type":"hmac","key_size":32,"auto_rotate_period":"1h"}"#);
        assert_eq!(TestMount::text(&kept.unwrap(), "type"), "aes256-gcm96");
    }
}
