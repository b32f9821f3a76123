//! What leaves and comes in: `export`, `backup`, `restore`, `wrapping_key` and imports.

use super::refusal;
use kallisto_api::{Error, Expected, Fields, Json, Map, Response, Span};
use kallisto_transit::{
    Derivation, Error as TransitError, ExportFormat, ExportKind, ImportHash, Kdf, KeyKind,
    KeyOrigin, KeySpec, RestoredKey, TransitKey, WrappingKey, decode_base64,
};
use zeroize::Zeroizing;

use super::store::{Becomes, Created};
use super::{TransitHandler, decoded, is_key_name};

/// Where a mount keeps the key that imports are wrapped for.
const WRAPPING_KEY: &str = "wrapping-key";

pub(super) fn export(
    transit: &TransitHandler<'_>,
    kind: &str,
    name: &str,
    version: Option<&str>,
) -> Result<Response, Error> {
    let query = transit.call.request.query_fields();
    let format = Fields::new(&query).string("format")?.unwrap_or_default();
    let kind = ExportKind::named(kind)
        .ok_or_else(|| Error::invalid(format!("invalid export type: {kind}")))?;
    let format = ExportFormat::named(&format)
        .ok_or_else(|| Error::invalid(format!("invalid format: {format}")))?;
    let key = transit.find(name)?.ok_or(Error::NotFound)?;
    let keys: Map = key
        .export(kind, format, version)
        .map_err(refusal)?
        .into_iter()
        .map(|(number, text)| (number.to_string(), text.as_str().into()))
        .collect();
    Ok(Response::data(&Json::object([
        ("name", name.into()),
        ("type", key.kind().name().into()),
        ("keys", keys.into()),
    ])))
}

pub(super) async fn backup(transit: &TransitHandler<'_>, name: &str) -> Result<Response, Error> {
    let now_ns = transit.call.request.now_ns();
    let missing = Error::invalid(format!("key {name:?} not found"));
    let mut text = Zeroizing::new(String::new());
    transit
        .change(name, missing, |key| {
            let (noted, backup) = key.backup(name, now_ns).map_err(|error| match error {
                kallisto_transit::Error::Invalid(why) => Error::Expected(Expected::NoBackup(why)),
                other => refusal(other),
            })?;
            text = backup;
            Ok(Becomes::Other(noted))
        })
        .await?;
    Ok(Response::data(&Json::object([("backup", text.as_str().into())])))
}

pub(super) async fn restore(
    transit: &TransitHandler<'_>,
    name: Option<&str>,
) -> Result<Response, Error> {
    let body = transit.call.request.object()?;
    let fields = Fields::new(&body);
    let backup = fields.string("backup")?.unwrap_or_default();
    if backup.is_empty() {
        return Err(Error::invalid("'backup' must be supplied"));
    }
    let RestoredKey { name: own, key } =
        TransitKey::restore(&backup, transit.call.request.now_ns()).map_err(refusal)?;
    let name = name.unwrap_or(&own);
    if !is_key_name(name) {
        return Err(Error::invalid("the backup's key has a name that no key here can have"));
    }
    if fields.boolean("force")?.unwrap_or(false) {
        transit.overwrite(name, &key).await?;
        return Ok(Response::Empty);
    }
    match transit.add(name, key).await? {
        Created::New(_) => Ok(Response::Empty),
        Created::Existing(_) => Err(Error::Expected(Expected::KeyExists(name.to_owned()))),
    }
}

pub(super) async fn wrapping_key(transit: &TransitHandler<'_>) -> Result<Response, Error> {
    let key = find_wrapping_key(transit).await?;
    Ok(Response::data(&Json::object([("public_key", key.public_pem().map_err(refusal)?.into())])))
}

/// The mount's wrapping key, made when it is first asked for.
async fn find_wrapping_key(transit: &TransitHandler<'_>) -> Result<WrappingKey, Error> {
    if let Some(record) = transit.call.storage.get(WRAPPING_KEY)? {
        return decoded(&record, WrappingKey::decode);
    }
    let key = transit.call.run_heavy(WrappingKey::make).await?.map_err(refusal)?;
    let existing = transit.call.storage.transact(WRAPPING_KEY, |transaction| {
        // Somebody else may have made one meanwhile, and shown it already.
        if let Some(stored) = transaction.get(WRAPPING_KEY)? {
            return decoded(&stored, WrappingKey::decode).map(Some);
        }
        transaction.put(WRAPPING_KEY, key.encode().to_vec())?;
        Ok(None)
    });
    Ok(existing.await?.unwrap_or(key))
}

pub(super) async fn import(transit: &TransitHandler<'_>, name: &str) -> Result<Response, Error> {
    let body = transit.call.request.object()?;
    let fields = Fields::new(&body);
    if body.contains_key("convergent_encryption") {
        return Err(Error::invalid(
            "import cannot be used on keys with convergent encryption enabled",
        ));
    }
    let flag = |name| Ok::<_, Error>(fields.boolean(name)?.unwrap_or(false));
    let rotates = flag("allow_rotation")?;
    let auto_rotate_secs = fields.span("auto_rotate_period")?.map_or(0, Span::secs);
    if auto_rotate_secs > 0 && !rotates {
        return Err(Error::invalid(
            "allow_rotation must be set to true if auto-rotation is enabled",
        ));
    }
    let named = fields.string("type")?.unwrap_or_else(|| KeyKind::Aes256Gcm96.name().to_owned());
    let kind = KeyKind::named(&named.to_ascii_lowercase())
        .ok_or_else(|| Error::invalid(format!("unknown key type: {named}")))?;
    let spec = KeySpec {
        derivation: imported_derivation(fields)?,
        exportable: flag("exportable")?,
        allow_plaintext_backup: flag("allow_plaintext_backup")?,
        auto_rotate_secs,
        ..KeySpec::default()
    };
    let origin = if rotates { KeyOrigin::ImportedRotatable } else { KeyOrigin::Imported };
    let exists = || {
        Error::invalid(
            "the import path cannot be used with an existing key; use import-version to rotate an \
             existing imported key",
        )
    };
    if transit.find(name)?.is_some() {
        return Err(exists());
    }
    let brought = brought(transit, fields, kind).await?;
    let now_ns = transit.call.request.now_ns();
    let make = move || match &brought {
        PortableInput::Private(material) => {
            TransitKey::import(kind, &spec, origin, material, now_ns)
        }
        PortableInput::Public(pem) => TransitKey::import_public(kind, &spec, origin, pem, now_ns)
            .map_err(|error| match error {
                TransitError::Invalid(why) => {
                    TransitError::Invalid(format!("error importing key: {why}"))
                }
                other => other,
            }),
    };
    match transit.create(name, kind, make).await? {
        Created::New(_) => Ok(Response::Empty),
        Created::Existing(_) => Err(exists()),
    }
}

/// How an imported key derives. Vault and OpenBao have keys that they made use another function than imported ones, and cannot bring the
/// former: `kdf` says which one it is.
fn imported_derivation(fields: Fields<'_>) -> Result<Derivation, Error> {
    let named = fields.string("kdf")?.filter(|name| !name.is_empty());
    let kdf = named.map(|name| {
        Kdf::named(&name).ok_or_else(|| Error::invalid(format!("unknown kdf: {name}")))
    });
    match (fields.boolean("derived")?.unwrap_or(false), kdf.transpose()?) {
        (false, None) => Ok(Derivation::None),
        (false, Some(_)) => Err(Error::invalid("kdf is for derived keys only")),
        (true, kdf) => Ok(Derivation::ByContext(kdf.unwrap_or(Kdf::HmacSha256Counter))),
    }
}

pub(super) async fn import_version(
    transit: &TransitHandler<'_>,
    name: &str,
) -> Result<Response, Error> {
    let body = transit.call.request.object()?;
    let fields = Fields::new(&body);
    let missing = Error::invalid(format!(
        "no key found with name {name}; to import a new key, use the import/ endpoint"
    ));
    // A version that is named is there and lacks its private half; without one it is the next.
    let version = match body.contains_key("version") {
        true => Some(fields.int("version")?.unwrap_or_default()),
        false => None,
    };
    let Some(key) = transit.find(name)? else { return Err(missing) };
    let brought = brought(transit, fields, key.kind()).await?;
    let now_ns = transit.call.request.now_ns();
    transit
        .change(name, missing, |key| {
            let next = match (&brought, version) {
                (PortableInput::Private(material), None) => key.imported_version(material, now_ns),
                (PortableInput::Public(pem), None) => key.imported_public_version(pem, now_ns),
                (PortableInput::Private(material), Some(version)) => {
                    key.completed(version, material)
                }
                (PortableInput::Public(_), Some(version)) => Err(key.refuse_public_of(version)),
            };
            Ok(Becomes::Other(next.map_err(refusal)?))
        })
        .await?;
    Ok(Response::Empty)
}

/// What a request brings.
enum PortableInput {
    /// A whole key.
    Private(Zeroizing<Vec<u8>>),
    /// A public half, in PEM.
    Public(String),
}

/// The key a request brings: wrapped, or its public half in the open. With both, the whole one counts.
async fn brought(
    transit: &TransitHandler<'_>,
    fields: Fields<'_>,
    kind: KeyKind,
) -> Result<PortableInput, Error> {
    let Some(ciphertext) = fields.string("ciphertext")? else {
        if !kind.signs() {
            return Err(Error::invalid("provided type does not support public_key import"));
        }
        return Ok(PortableInput::Public(fields.string("public_key")?.unwrap_or_default()));
    };
    let named = fields.string("hash_function")?.unwrap_or_else(|| "SHA256".to_owned());
    let hash = ImportHash::named(&named)
        .ok_or_else(|| Error::invalid(format!("unknown hash function: {named}")))?;
    let wrapped = decode_base64(&ciphertext).map_err(refusal)?;
    Ok(PortableInput::Private(
        find_wrapping_key(transit).await?.unwrap(&wrapped, hash).map_err(refusal)?,
    ))
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::key_wrap::{AES_256, AesKek, KeyWrapPadded};
    use aws_lc_rs::rsa::{OAEP_SHA256_MGF1SHA256, OaepPublicEncryptingKey, PublicEncryptingKey};
    use data_encoding::BASE64;
    use kallisto_auth::Operation::{Read, Update};

    use super::super::ENGINE;
    use super::*;
    use crate::testing::TestMount;

    const NOW: i64 = 1_800_000_000;

    /// A key as a client wraps it for the mount.
    fn wrap(mount: &TestMount, key: &[u8]) -> String {
        let answer = mount.ask(NOW, Read, "wrapping_key", "").unwrap();
        let pem = TestMount::text(&answer, "public_key");
        let lines: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let public = BASE64.decode(lines.as_bytes()).unwrap();
        let public = PublicEncryptingKey::from_der(&public).unwrap();
        let public = OaepPublicEncryptingKey::new(public).unwrap();
        let mut wrapped = vec![0; public.ciphertext_size()];
        public.encrypt(&OAEP_SHA256_MGF1SHA256, &[3; 32], &mut wrapped, None).unwrap();
        let mut inner = vec![0; key.len() + 15];
        let kek = AesKek::new(&AES_256, &[3; 32]).unwrap();
        wrapped.extend_from_slice(kek.wrap_with_padding(key, &mut inner).unwrap());
        BASE64.encode(&wrapped)
    }

    /// The text is what OpenBao 2.7.2 made of the same key, imported there.
    #[test]
    fn an_imported_derived_key_derives_as_in_openbao_unless_it_is_told_otherwise() {
        let mount = TestMount::new(&ENGINE);
        let wrapped = wrap(&mount, &(0..32).collect::<Vec<u8>>());
        let import = |name: &str, more: &str| {
            let body = format!(r#"{{"ciphertext":"{wrapped}"{more}}}"#);
            mount.ask(NOW, Update, &format!("keys/{name}/import"), &body)
        };
        let text = "vault:v1:zn1oueRIZFqX8aQnvliycEdedto4fUlgJ3co3nIyiOfx";
        let decrypt = |name: &str| {
            let body = format!(r#"{{"ciphertext":"{text}","context":"Y29udGV4dA=="}}"#);
            mount.ask(NOW, Update, &format!("decrypt/{name}"), &body)
        };
        let told = |name: &str, field: &str| {
            let key = mount.ask(NOW, Read, &format!("keys/{name}"), "").unwrap();
            key.get(field).and_then(Json::as_str).map(str::to_owned)
        };
        import("a", r#","derived":true"#).unwrap();
        assert_eq!(TestMount::text(&decrypt("a").unwrap(), "plaintext"), "cGxhaW4=");
        for field in ["kdf", "kdf_mode"] {
            assert_eq!(told("a", field).as_deref(), Some("hmac-sha256-counter"));
        }
        import("b", r#","derived":true,"kdf":"hkdf_sha256""#).unwrap();
        assert!(decrypt("b").is_err());
        assert_eq!(told("b", "kdf").as_deref(), Some("hkdf_sha256"));
        mount.ask(NOW, Update, "keys/made", r#"{"derived":true}"#).unwrap();
        assert_eq!(told("made", "kdf").as_deref(), Some("hkdf_sha256"));
        assert_eq!(told("made", "kdf_mode"), None);
        for more in [r#","derived":true,"kdf":"x""#, r#","kdf":"hkdf_sha256""#] {
            assert!(matches!(import("c", more), Err(Error::Invalid(_))), "{more}");
        }
    }
}
