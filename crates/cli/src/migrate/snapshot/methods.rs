//! Login methods: their settings, roles, users and secret ids.

use aws_lc_rs::hmac;
use data_encoding::{BASE64, HEXLOWER};
use jiff::Timestamp;
use kallisto_vault_snapshot::OpenSnapshot;

use super::fields::{self, FieldRow, ReadFields};
use super::layout::{NO_TIME, SourceNamespace, StoredMount};
use super::{item, read_json, records_in};
use crate::login_kind::LoginKind;
use crate::migrate::endpoint::ItemFailure;
use crate::migrate::mounts::text;
use kallisto_command::json::{Json, Map};

/// Where the secret ids of a role are, if they are of one cluster alone.
const LOCAL_SECRET_IDS: &str = "secret_id_local/";
/// Where they are else.
const SECRET_IDS: &str = "secret_id/";

/// A secret id, as the target takes it.
pub(in crate::migrate) struct SecretIdImport {
    pub(in crate::migrate) accessor: String,
    pub(in crate::migrate) body: Map,
    pub(in crate::migrate) has_expired: bool,
}

/// The secret ids of a role.
#[derive(Default)]
pub(in crate::migrate) struct StoredSecretIds {
    pub(in crate::migrate) read: Vec<SecretIdImport>,
    /// Names of records that were not read, and why.
    pub(in crate::migrate) unread: Vec<(String, String)>,
}

/// A kind of object: the route below its mount that names them, the folder they are stored in, and their fields.
struct StoredKind {
    method: LoginKind,
    route: &'static str,
    folder: &'static str,
    rows: &'static [FieldRow],
}

const fn kind(
    method: LoginKind,
    route: &'static str,
    folder: &'static str,
    rows: &'static [FieldRow],
) -> StoredKind {
    StoredKind { method, route, folder, rows }
}

static KINDS: &[StoredKind] = &[
    kind(LoginKind::Approle, "role", "role/", fields::APPROLE_ROLE),
    kind(LoginKind::Userpass, "users", "user/", fields::USERPASS_USER),
    kind(LoginKind::Token, "roles", "sys/token/roles/", fields::TOKEN_ROLE),
    kind(LoginKind::Jwt, "role", "role/", fields::JWT_ROLE),
    kind(LoginKind::Oidc, "role", "role/", fields::JWT_ROLE),
    kind(LoginKind::Kubernetes, "role", "role/", fields::KUBERNETES_ROLE),
    kind(LoginKind::Cert, "certs", "cert/", fields::CERT_ROLE),
];

/// Settings by method; a method that has none is not in the list, and one whose settings are not understood has no rows.
static SETTINGS: &[(LoginKind, &[FieldRow])] = &[
    (LoginKind::Jwt, fields::JWT_CONFIG),
    (LoginKind::Oidc, fields::JWT_CONFIG),
    (LoginKind::Kubernetes, fields::KUBERNETES_CONFIG),
    (LoginKind::Cert, &[]),
];

/// Where the objects of a kind are.
fn folder_of(at: &SourceNamespace, method: &StoredMount, kind: &StoredKind) -> String {
    match kind.method {
        // Tokens are the server's own, and not below the folder of their mount.
        LoginKind::Token => at.below(kind.folder),
        _ => format!("{}{}", method.folder, kind.folder),
    }
}

fn stored_kind(method: &StoredMount, route: &str) -> Result<&'static StoredKind, ItemFailure> {
    let is_asked = |kind: &&StoredKind| kind.method.name() == method.kind && kind.route == route;
    KINDS.iter().find(is_asked).ok_or_else(|| not_read(method))
}

fn not_read(method: &StoredMount) -> ItemFailure {
    ItemFailure::Item(format!(
        "what a login method {:?} keeps is not read from a snapshot: set it up by hand, or move it live",
        method.kind
    ))
}

/// The names of a kind of objects.
pub(super) fn list(
    opened: &OpenSnapshot,
    at: &SourceNamespace,
    method: &StoredMount,
    route: &str,
) -> Result<Vec<String>, ItemFailure> {
    let kind = stored_kind(method, route)?;
    Ok(records_in(opened, &folder_of(at, method, kind)))
}

/// What is at a path of a method.
pub(super) fn read(
    opened: &OpenSnapshot,
    at: &SourceNamespace,
    method: &StoredMount,
    path: &str,
) -> Result<Option<ReadFields>, ItemFailure> {
    if path == "config" {
        let rows = SETTINGS.iter().find(|(kind, _)| kind.name() == method.kind);
        let (_, rows) = rows.ok_or_else(|| not_read(method))?;
        let stored = read_json(opened, &format!("{}config", method.folder))?;
        return stored.map(|stored| fields::settings(stored, rows)).transpose();
    }
    let (route, name) = path.split_once('/').unwrap_or((path, ""));
    let kind = stored_kind(method, route)?;
    let (name, part) = match name.strip_suffix("/role-id") {
        Some(name) if kind.method == LoginKind::Approle => (name, Some("role_id")),
        _ => (name, None),
    };
    let stored = read_json(opened, &format!("{}{name}", folder_of(at, method, kind)))?;
    let Some(stored) = stored else { return Ok(None) };
    if let Some(part) = part {
        let id = stored.get(part).cloned().unwrap_or(Json::Null);
        let shown = Map::from([(part.to_owned(), id)]);
        return Ok(Some(ReadFields { shown, ..ReadFields::default() }));
    }
    let own = match kind.method {
        LoginKind::Approle => approle_fields(&stored)?,
        LoginKind::Userpass => password_hash(&stored)?,
        _ => ReadFields::default(),
    };
    let mut read = fields::role(stored, kind.rows)?;
    read.shown.extend(own.shown);
    read.hidden.extend(own.hidden);
    Ok(Some(read))
}

/// Whether the secret ids of a role are of one cluster alone, which is in the name of their folder.
fn approle_fields(stored: &Map) -> Result<ReadFields, ItemFailure> {
    let is_local = match text(stored, "secret_id_prefix") {
        "" | SECRET_IDS => false,
        LOCAL_SECRET_IDS => true,
        _ => return Err(item("its field \"secret_id_prefix\" is not understood")),
    };
    let shown = Map::from([("local_secret_ids".to_owned(), is_local.into())]);
    Ok(ReadFields { shown, ..ReadFields::default() })
}

/// The hash of a password, which is stored as the base64 of its text.
fn password_hash(stored: &Map) -> Result<ReadFields, ItemFailure> {
    let damaged = || item("its password hash is not understood");
    let hash = BASE64.decode(text(stored, "PasswordHash").as_bytes()).map_err(|_| damaged())?;
    let hash = String::from_utf8(hash).ok().filter(|hash| hash.starts_with("$2"));
    let hash = hash.ok_or_else(damaged)?;
    let hidden = Map::from([("password_hash".to_owned(), hash.into())]);
    Ok(ReadFields { hidden, ..ReadFields::default() })
}

/// The secret ids of a role. They are kept by HMACs under a key of the role, in a folder that is named by the HMAC of the role's name.
pub(super) fn secret_ids(
    opened: &OpenSnapshot,
    method: &StoredMount,
    path: &str,
) -> Result<StoredSecretIds, ItemFailure> {
    let mut found = StoredSecretIds::default();
    let Some(name) = path.strip_prefix("role/") else { return Ok(found) };
    let role = read_json(opened, &format!("{}role/{name}", method.folder))?;
    let Some(role) = role else { return Ok(found) };
    let key_text = text(&role, "hmac_key");
    let is_lower_case = role.get("lower_case_role_name") == Some(&true.into());
    let prefix = match text(&role, "secret_id_prefix") {
        "" => SECRET_IDS,
        prefix => prefix,
    };
    if key_text.is_empty() || !is_lower_case {
        return Err(item("its secret ids are kept in a way that is not understood"));
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, key_text.as_bytes());
    let named = HEXLOWER.encode(hmac::sign(&key, name.as_bytes()).as_ref());
    let folder = format!("{}{prefix}{named}/", method.folder);
    for hmac in records_in(opened, &folder) {
        let stored = read_json(opened, &format!("{folder}{hmac}"));
        let read = stored
            .and_then(|stored| stored.map(|stored| secret_id(stored, key_text, &hmac)).transpose());
        match read {
            Ok(read) => found.read.extend(read),
            // The HMAC is no secret: it takes the role's key to make one.
            Err(failure) => found.unread.push((hmac, failure.text())),
        }
    }
    Ok(found)
}

fn secret_id(mut stored: Map, key: &str, hmac: &str) -> Result<SecretIdImport, ItemFailure> {
    let accessor = text(&stored, "secret_id_accessor").to_owned();
    let mut body = Map::from([
        ("hmac_key".to_owned(), key.into()),
        ("secret_id_hmac".to_owned(), hmac.into()),
    ]);
    let ttl = stored.remove("secret_id_ttl").unwrap_or(Json::Null);
    let ttl = fields::seconds(&ttl).ok_or_else(|| item("its secret_id_ttl is not understood"))?;
    body.insert("secret_id_ttl".to_owned(), ttl.into());
    for (stored_name, name) in [
        ("secret_id_accessor", "secret_id_accessor"),
        ("secret_id_num_uses", "secret_id_num_uses"),
        ("creation_time", "creation_time"),
        ("last_updated_time", "last_updated_time"),
        ("expiration_time", "expiration_time"),
        ("metadata", "metadata"),
        ("cidr_list", "cidr_list"),
        ("token_cidr_list", "token_bound_cidrs"),
    ] {
        body.extend(stored.remove(stored_name).map(|value| (name.to_owned(), value)));
    }
    // What is left may be an old name of the number of uses, which is zero by now.
    let left = stored.iter().find(|(_, value)| !crate::migrate::pass::is_nothing(value));
    if let Some((name, _)) = left {
        return Err(ItemFailure::Item(format!("a secret id's field {name:?} is not understood")));
    }
    let end = text(&body, "expiration_time");
    let end: Option<Timestamp> =
        Some(end).filter(|end| *end != NO_TIME).and_then(|end| end.parse().ok());
    let has_expired = end.is_some_and(|end| end <= Timestamp::now());
    Ok(SecretIdImport { accessor, body, has_expired })
}
