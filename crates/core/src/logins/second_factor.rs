//! Logins that need a second factor.
//!
//! One that shows its codes in the header `X-Vault-MFA` has its token at once. Any other is kept, and answered with an id and what has to be
//! shown; whoever shows it at `sys/mfa/validate`, to any server of the cluster, has the token. What a login needs is decided again then.
//!
//! In the engine storage of the identity mount: `mfa/pending/GROUP/REST` is a login that waits, where an id is `GROUP-REST` and its group that of
//! the entity's id, so that those of one entity are counted by a look.
//!
//! Invariants:
//! - A login that waits is taken once: of any number of good codes for it one has the token.
//! - Of an entity a bounded number waits, each for [`PENDING_SECS`]; a new one drops the oldest.

use jiff::Timestamp;
use kallisto_engine::token_params::TokenParams;
use kallisto_engine::{Login, Storage, address};

use super::{identify, issue};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{self, Json, Map};
use crate::api::request::Request;
use crate::api::response::{Logical, Response};
use crate::engines::identity::mfa::{self, FactorCodes, MfaConstraint};
use crate::identity::record::IdentityId;
use crate::random;
use crate::state::Core;
use crate::storage::engine_storage::{EngineStorage, IDENTITY_MOUNT};
use crate::storage::keys::MountId;
use crate::view::{Mount, NamespaceContext};

/// How long a login waits for its second factor.
const PENDING_SECS: i64 = 300;
/// How many logins of an entity wait at a time.
const PENDING_OF_ENTITY_MAX: usize = 16;
const FOLDER: &str = "mfa/pending/";
/// Bytes of the group of an id.
const GROUP_BYTES: usize = 8;
/// Entities whose logins are looked through at a time.
const SWEPT_AT_ONCE: usize = 256;
/// Most codes that a login shows, and the longest.
const CODES_MAX: usize = 16;
const CODE_BYTES_MAX: usize = 256;
const HEADER: &str = "x-vault-mfa";
const WARNING: &str = "A login request was issued that is subject to MFA validation. Please make sure to validate the login by sending another request to mfa/validate endpoint.";

fn storage(context: &NamespaceContext) -> Result<EngineStorage<'_>, Error> {
    EngineStorage::builtin(context, MountId::IDENTITY)
}

/// The folder of the logins that wait of whoever an id belongs to.
fn folder_of(id: &str) -> String {
    format!("{FOLDER}{}/", &id[..GROUP_BYTES])
}

/// The record of an id, which has the form of a UUID.
fn record_of(id: &str) -> String {
    format!("{}{}", folder_of(id), &id[GROUP_BYTES + 1..])
}

/// The codes that a login brings in its headers: `METHOD` or `METHOD:CODE`.
///
/// # Errors
/// [`Error::Invalid`] when there are too many, or two for one method.
pub(super) fn shown_in(request: &Request<'_>) -> Result<FactorCodes, Error> {
    let mut codes = FactorCodes::new();
    for value in request.headers.values(HEADER) {
        let (method, code) = value.split_once(':').unwrap_or((&value, ""));
        add_code(&mut codes, method.trim(), code)?;
    }
    Ok(codes)
}

fn add_code(codes: &mut FactorCodes, method: &str, code: &str) -> Result<(), Error> {
    let code = code.trim();
    let code = code.strip_prefix("passcode=").unwrap_or(code);
    if codes.len() >= CODES_MAX || code.len() > CODE_BYTES_MAX {
        return Err(Error::invalid("too many MFA credentials, or one too long"));
    }
    if codes.insert(method.to_owned(), code.to_owned()).is_some() {
        return Err(Error::invalid("more than one MFA credential for a method"));
    }
    Ok(())
}

/// Keeps a good login, and answers with what has to be shown for its token.
///
/// # Errors
/// The store's refusal.
pub(super) async fn ask(
    context: &NamespaceContext,
    path: &str,
    mount: &Mount,
    login: &Login,
    entity: IdentityId,
    needed: &[MfaConstraint],
    now: Timestamp,
) -> Result<Response, Error> {
    let id =
        format!("{}{}", &entity.to_string()[..GROUP_BYTES], &random::make_uuid()?[GROUP_BYTES..]);
    let ends = now.as_second().saturating_add(PENDING_SECS);
    let record = Json::object([
        ("accessor", mount.entry.accessor.as_str().into()),
        ("path", path.into()),
        ("alias", login.alias.as_str().into()),
        ("display_name", login.display_name.as_str().into()),
        ("metadata", login.metadata.clone().into()),
        ("groups", Json::strings(login.groups.iter().cloned())),
        ("params", login.params.to_map().into()),
        ("kept", login.kept.clone().into()),
        ("entity_id", entity.to_string().into()),
        ("ends", ends.into()),
    ])
    .to_text();
    let kept = storage(context)?;
    let folder = folder_of(&id);
    Storage::new(&kept, IDENTITY_MOUNT)
        .transact(&folder, |transaction| {
            let waiting = kept.list_some(&folder, PENDING_OF_ENTITY_MAX);
            if waiting.len() >= PENDING_OF_ENTITY_MAX {
                let mut oldest: Option<(i64, String)> = None;
                for name in waiting {
                    let name = format!("{folder}{name}");
                    let Some(found) = transaction.get(&name)? else { continue };
                    let ends = found.decode(PendingLogin::decode)?.ends;
                    if oldest.as_ref().is_none_or(|(other, _)| ends < *other) {
                        oldest = Some((ends, name));
                    }
                }
                if let Some((_, name)) = oldest {
                    transaction.delete(&name)?;
                }
            }
            transaction.put(&record_of(&id), record.clone())
        })
        .await?;
    let constraints: Map = needed.iter().map(MfaConstraint::shown).collect();
    let auth = Json::object([
        ("client_token", "".into()),
        ("accessor", "".into()),
        ("policies", Json::Null),
        ("token_policies", Json::Null),
        ("metadata", Json::Null),
        ("lease_duration", 0_u64.into()),
        ("renewable", false.into()),
        ("entity_id", "".into()),
        ("token_type", "default".into()),
        ("orphan", false.into()),
        (
            "mfa_requirement",
            Json::object([("mfa_request_id", id.into()), ("mfa_constraints", constraints.into())]),
        ),
        ("num_uses", 0_u64.into()),
    ]);
    Ok(Response::Logical(Logical {
        auth: auth.to_text(),
        warnings: vec![WARNING.to_owned()],
        ..Logical::default()
    }))
}

/// A login that waits for its second factor.
struct PendingLogin {
    accessor: String,
    path: String,
    ends: i64,
    login: Login,
}

impl PendingLogin {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let fields = Fields::new(&map);
        let read = || -> Result<Self, Error> {
            let text = |name: &str| fields.string(name)?.ok_or(Error::NotFound);
            let object =
                |name: &str| Ok::<_, Error>(fields.map(name)?.cloned().unwrap_or_default());
            Ok(Self {
                accessor: text("accessor")?,
                path: text("path")?,
                ends: fields.int("ends")?.ok_or(Error::NotFound)?,
                login: Login {
                    alias: text("alias")?,
                    display_name: text("display_name")?,
                    metadata: object("metadata")?,
                    groups: fields.strings("groups")?.unwrap_or_default(),
                    params: TokenParams::decode(&object("params")?)?,
                    kept: object("kept")?,
                },
            })
        };
        read().ok()
    }
}

/// The codes of `mfa_payload`: each a text, or a list of one.
fn payload(body: &Map) -> Result<FactorCodes, Error> {
    let given = Fields::new(body).map("mfa_payload")?;
    let given = given.filter(|given| !given.is_empty());
    let given = given.ok_or_else(|| Error::invalid("missing mfa_payload"))?;
    let mut codes = FactorCodes::new();
    for (method, value) in given {
        let code = match value {
            Json::String(code) => code.as_str(),
            Json::Array(items) => match items.as_slice() {
                [] => "",
                [Json::String(code)] => code,
                _ => return Err(Error::invalid("mfa_payload has more than one code of a method")),
            },
            _ => return Err(Error::invalid("mfa_payload has codes that are no texts")),
        };
        add_code(&mut codes, method, code)?;
    }
    Ok(codes)
}

/// Takes the second factor of a login that waits, and answers with its token.
///
/// # Errors
/// [`Error::Invalid`] when no login waits under the id; what is said of the codes; what a login hears.
pub(crate) async fn validate(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    let context = core.namespace_context(request.namespace)?;
    let body = request.object()?;
    let id = Fields::new(&body).string("mfa_request_id")?.filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| Error::invalid("missing request ID"))?;
    let codes = payload(&body)?;
    let unknown = || Error::invalid("invalid request ID");
    let name = IdentityId::parse(&id).map(|id| record_of(&id.to_string())).ok_or_else(unknown)?;
    let kept = storage(&context)?;
    let waiting = Storage::new(&kept, IDENTITY_MOUNT);
    let found = waiting.get(&name)?.ok_or_else(unknown)?;
    let PendingLogin { accessor, path, ends, login } = found.decode(PendingLogin::decode)?;
    let now = request.now;
    if ends <= now.as_second() {
        return Err(unknown());
    }
    let all = context.view.mounts.all();
    let mount = all.iter().find(|mount| mount.entry.accessor == accessor).ok_or_else(unknown)?;
    address::check(&login.params.bound_cidrs, request.remote)?;
    let entity = identify(&context, mount, &login, now).await?;
    let needed = mfa::requirement(&context, mount, entity)?;
    mfa::satisfy(&context, &needed, entity, &codes, now).await?;
    waiting
        .transact(&name, |transaction| {
            transaction.get(&name)?.ok_or_else(unknown)?;
            transaction.delete(&name)
        })
        .await?;
    issue(&context, &path, mount, login, entity, now).await
}

/// Deletes the logins whose second factor did not come in time.
///
/// # Errors
/// The store's refusal; the next run tries again.
pub(crate) async fn sweep(context: &NamespaceContext, now: Timestamp) -> Result<(), Error> {
    let kept = storage(context)?;
    let mut after: Option<String> = None;
    loop {
        let groups = kept.list_page(FOLDER, after.as_deref(), SWEPT_AT_ONCE);
        let mut ended = Vec::new();
        for group in &groups {
            let folder = format!("{FOLDER}{group}");
            for name in kept.list_some(&folder, PENDING_OF_ENTITY_MAX) {
                let name = format!("{folder}{name}");
                let Some(found) = kept.get(&name)? else { continue };
                let ends = PendingLogin::decode(&found.value).map_or(0, |waiting| waiting.ends);
                if ends <= now.as_second() {
                    ended.push(name);
                }
            }
        }
        Storage::new(&kept, IDENTITY_MOUNT).delete_all(ended).await?;
        match groups.last() {
            Some(last) if groups.len() == SWEPT_AT_ONCE => after = Some(last.clone()),
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_shows_a_bounded_number_of_short_codes_one_for_a_method() {
        let mut codes = FactorCodes::new();
        let longest = "1".repeat(CODE_BYTES_MAX);
        add_code(&mut codes, "m0", &longest).unwrap();
        add_code(&mut codes, "m1", &format!(" passcode={longest} ")).unwrap();
        assert_eq!(codes["m1"], longest);
        for too_long in [CODE_BYTES_MAX + 1, 2 * CODE_BYTES_MAX] {
            assert!(add_code(&mut codes, "long", &"1".repeat(too_long)).is_err());
        }
        assert!(add_code(&mut codes, "m0", "2").is_err(), "a second one");
        for at in 2..CODES_MAX {
            add_code(&mut codes, &format!("m{at}"), "1").unwrap();
        }
        assert!(add_code(&mut codes, "more", "1").is_err());
        assert_eq!(codes.len(), CODES_MAX);
    }

    #[test]
    fn a_code_is_a_text_or_a_list_of_one() {
        let read = |text: &str| payload(&json::parse_object(text.as_bytes()).unwrap());
        let codes = read(r#"{"mfa_payload":{"a":"1","b":["2"],"c":[]}}"#).unwrap();
        let given = [("a", "1"), ("b", "2"), ("c", "")];
        let given = given.map(|(method, code)| (method.to_owned(), code.to_owned()));
        assert_eq!(codes, FactorCodes::from(given));
        for refused in [r#"{"mfa_payload":{}}"#, r#"{"mfa_payload":{"a":["1","2"]}}"#, "{}"] {
            assert!(read(refused).is_err(), "{refused}");
        }
        assert!(read(r#"{"mfa_payload":{"a":1}}"#).is_err());
    }

    struct Shows(&'static [&'static str]);

    impl crate::api::request::HeaderSource for Shows {
        fn values(&self, name: &str) -> Vec<String> {
            let shown = if name == HEADER { self.0 } else { &[] };
            shown.iter().map(|value| (*value).to_owned()).collect()
        }
    }

    #[test]
    fn a_login_shows_its_codes_in_headers_each_behind_its_method() {
        let shown = |values: &'static [&'static str]| {
            let source = Shows(values);
            let headers = crate::api::request::Headers::of(&source);
            let login = crate::routes::tests::request(
                None,
                kallisto_auth::Operation::Update,
                "auth/userpass/login/u",
                "{}",
            );
            shown_in(&Request { headers, ..login })
        };
        let given = [("one", "123456"), ("two", ""), ("three", "7")];
        let given = given.map(|(method, code)| (method.to_owned(), code.to_owned()));
        let codes = shown(&["one:123456", "two", " three : passcode=7"]).unwrap();
        assert_eq!(codes, FactorCodes::from(given));
        assert_eq!(shown(&[]).unwrap(), FactorCodes::new());
        assert!(shown(&["one:1", "one:2"]).is_err());
    }
}
