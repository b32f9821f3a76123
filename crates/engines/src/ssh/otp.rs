//! One-time passwords: making one for a host, and taking it when the helper on that host asks.
//!
//! A password is kept by its keyed hash, so that no record has it. It ends with its lease, and whoever asks about it later hears what
//! they hear of one that never was.

use std::net::IpAddr;

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use kallisto_api::json::{self, Json};
use kallisto_api::{BoxFuture, Error, Fields, Response};
use kallisto_engine::{Call, EngineContext, LeaseCall, NewLease};

use super::memory::SshMemory;
use super::role::OtpRole;

/// What a helper asks to see whether it reaches the server.
const ECHO_REQUEST: &str = "verify-echo-request";
const ECHO_RESPONSE: &str = "verify-echo-response";
/// Length of a one-time password: a UUID.
const OTP_BYTES: usize = 36;
/// Longest user name, in bytes.
const USER_BYTES_MAX: usize = 255;

/// What is kept of a one-time password.
struct OtpRecord {
    ip: String,
    username: String,
    role: String,
    /// When it ends, in seconds since 1970.
    ends: i64,
}

impl OtpRecord {
    fn encode(&self) -> Vec<u8> {
        Json::object([
            ("ends", self.ends.into()),
            ("ip", self.ip.as_str().into()),
            ("role_name", self.role.as_str().into()),
            ("username", self.username.as_str().into()),
        ])
        .to_text()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let fields = Fields::new(&map);
        let text = |name: &str| fields.string(name).ok()?;
        Some(Self {
            ip: text("ip")?,
            username: text("username")?,
            role: text("role_name")?,
            ends: fields.int("ends").ok()??,
        })
    }
}

/// The record of a password.
fn record(context: &EngineContext<'_>, otp: &str) -> Result<String, Error> {
    Ok(format!("otp/{}", HEXLOWER.encode(&context.keyed_hash.hash(otp)?)))
}

fn address(fields: Fields<'_>) -> Result<IpAddr, Error> {
    let text = fields.string("ip")?.unwrap_or_default();
    if text.is_empty() {
        return Err(Error::invalid("Missing ip"));
    }
    let address: Result<IpAddr, _> = text.parse();
    let address = address.map_err(|_| {
        let shown: String = text.chars().take(64).collect();
        Error::invalid(format!("Invalid IP {shown:?}"))
    })?;
    Ok(address.to_canonical())
}

/// The user of a password: the one that is asked for, if the role allows it, or the default one.
fn user(role: &OtpRole, fields: Fields<'_>) -> Result<String, Error> {
    let asked = fields.string("username")?.unwrap_or_default();
    if asked.is_empty() || asked == role.default_user {
        return Ok(role.default_user.clone());
    }
    if role.users.is_empty() {
        return Err(Error::invalid(
            "Username has to be either in allowed users list or has to be a default username",
        ));
    }
    let allows_any = matches!(role.users.as_slice(), [only] if only == "*");
    if !allows_any && !role.users.contains(&asked) {
        return Err(Error::invalid("Username is not present is allowed users list"));
    }
    let is_name = !asked.chars().any(|c| c.is_control() || c.is_whitespace());
    if !is_name || asked.len() > USER_BYTES_MAX {
        return Err(Error::invalid("username is no name of a user"));
    }
    Ok(asked)
}

pub(super) async fn make(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("role")?;
    let body = call.request.object()?;
    let fields = Fields::new(&body);
    let address = address(fields)?;
    let (role, is_zero_address) = {
        let state = call.memory::<SshMemory>()?.read();
        (state.roles.get(name).cloned(), state.is_zero_address(name))
    };
    let role = role.ok_or_else(|| Error::invalid(format!("Role {name:?} not found")))?;
    let otp_role = role.otp().ok_or_else(|| {
        Error::invalid(format!("role key type '{}' has no one-time passwords", role.key_type()))
    })?;
    let username = user(otp_role, fields)?;
    if !otp_role.admits(address, is_zero_address) {
        return Err(Error::invalid("Error validating IP: IP does not belong to role"));
    }
    let port = otp_role.port;
    let otp = call.random.make_uuid()?;
    let record_name = record(&call, &otp)?;
    let lease = NewLease {
        renewable: false,
        revocation: record_name.clone().into_bytes(),
        ..NewLease::default()
    };
    let kept = OtpRecord { ip: address.to_string(), username, role: name.to_owned(), ends: 0 };
    call.issue(lease, move |ends: Timestamp| -> BoxFuture<'_, Result<Json, Error>> {
        Box::pin(async move {
            let kept = OtpRecord { ends: ends.as_second(), ..kept };
            call.storage.put(&record_name, kept.encode()).await?;
            Ok(Json::object([
                ("ip", kept.ip.into()),
                ("key", otp.into()),
                ("key_type", "otp".into()),
                ("port", port.into()),
                ("username", kept.username.into()),
            ]))
        })
    })
    .await
}

/// Takes a password. It is gone then, whoever else asks about it at the same time.
pub(super) async fn verify(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let otp = Fields::new(&body).string("otp")?.unwrap_or_default();
    if otp == ECHO_REQUEST {
        return Ok(Response::data(&Json::object([("message", ECHO_RESPONSE.into())])));
    }
    let unknown = || Error::invalid("OTP not found");
    if otp.len() != OTP_BYTES {
        return Err(unknown());
    }
    let name = record(&call, &otp)?;
    let now = call.now.as_second();
    let found = call.storage.transact(&name, |transaction| {
        let Some(found) = transaction.get(&name)? else { return Ok(None) };
        transaction.delete(&name)?;
        found.decode(OtpRecord::decode).map(Some)
    });
    let found = found.await?.filter(|record| now < record.ends).ok_or_else(unknown)?;
    Ok(Response::data(&Json::object([
        ("ip", found.ip.into()),
        ("role_name", found.role.into()),
        ("username", found.username.into()),
    ])))
}

/// The end of a lease: its password is gone, whether it was shown or not.
pub(super) async fn end_lease(call: LeaseCall<'_>) -> Result<(), Error> {
    let name = std::str::from_utf8(call.revocation)
        .ok()
        .filter(|name| name.starts_with("otp/"))
        .ok_or_else(|| call.damaged())?;
    call.storage.delete(name).await
}

pub(super) async fn look_up(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let address = address(Fields::new(&body))?;
    let memory: &SshMemory = call.memory()?;
    let state = memory.read();
    let admits = |name: &str, role: &OtpRole| role.admits(address, state.is_zero_address(name));
    let mut names: Vec<&str> = state
        .roles
        .iter()
        .filter(|(name, role)| role.otp().is_some_and(|role| admits(name, role)))
        .map(|(name, _)| name.as_str())
        .collect();
    names.sort_unstable();
    // Clients take null for none.
    let names = if names.is_empty() { Json::Null } else { Json::strings(names) };
    Ok(Response::data(&Json::object([("roles", names)])))
}

pub(super) async fn tidy(_: Call<'_>) -> Result<Response, Error> {
    Ok(Response::data(&Json::object([("message", "Removed 0 of 0 host keys.".into())])))
}
