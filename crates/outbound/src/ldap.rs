//! Directories, by `ldap3` over a connection of ours.
//!
//! The crate reads what is well formed: it takes apart without end what is nested without end, and panics at a result that is none. So it
//! does not have the connection. It has one end of a pair of sockets inside this process; [`wire`] carries the other end's bytes over the
//! connection, and lets through what it has looked at and what answers a request. TLS is ours as well, as with every far end.

mod wire;

#[cfg(any(test, feature = "fuzz"))]
pub use wire::read_hostile;

use std::collections::{BTreeMap, HashSet};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use kallisto_engine::far_end::{
    FAR_END_ANSWER_BYTES_MAX, FarEndLogin, LdapAttribute, LdapChange, LdapDereference, LdapEntry,
    LdapOperation, LdapScope, LdapSearch, LdapWork, MissingEntry, TlsUse,
};
use kallisto_engine::{BoxFuture, FarEnd, FarEndAnswer, FarEndFailure, FarEndWork};
use ldap3::adapters::{Adapter, EntriesOnly, PagedResults};
use ldap3::asn1::{PL, StructureTag};
use ldap3::exop::{Exop, WhoAmI};
use ldap3::result::ExopResult;
use ldap3::{
    DerefAliases, Ldap, LdapConnAsync, LdapConnSettings, LdapError, LdapResult, Mod, Scope,
    SearchOptions, StdStream,
};
use rustls_pki_types::ServerName;
use secrecy::ExposeSecret;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use crate::connect;
use crate::driver::{FarEndSession, no_such_work};
use crate::tls;

/// Result codes of RFC 4511, section 4.1.9.
mod code {
    pub(super) const SUCCESS: u32 = 0;
    pub(super) const OPERATIONS_ERROR: u32 = 1;
    pub(super) const TIME_LIMIT_EXCEEDED: u32 = 3;
    pub(super) const SIZE_LIMIT_EXCEEDED: u32 = 4;
    pub(super) const ADMIN_LIMIT_EXCEEDED: u32 = 11;
    pub(super) const NO_SUCH_ATTRIBUTE: u32 = 16;
    pub(super) const NO_SUCH_OBJECT: u32 = 32;
    pub(super) const INAPPROPRIATE_AUTHENTICATION: u32 = 48;
    pub(super) const INVALID_CREDENTIALS: u32 = 49;
    pub(super) const BUSY: u32 = 51;
    pub(super) const UNAVAILABLE: u32 = 52;
    pub(super) const UNWILLING_TO_PERFORM: u32 = 53;
    pub(super) const OTHER: u32 = 80;
}

/// What a result says that is no success.
fn refusal(result: &LdapResult) -> FarEndFailure {
    match result.rc {
        // Whoever says so, perhaps for another directory behind it, may have done the work, or may still do it.
        code::OPERATIONS_ERROR
        | code::TIME_LIMIT_EXCEEDED
        | code::ADMIN_LIMIT_EXCEEDED
        | code::BUSY
        | code::UNAVAILABLE
        | code::OTHER => FarEndFailure::Unknown(words(result)),
        _ => FarEndFailure::Refused(words(result)),
    }
}

/// What the result of a bind says that is no success. Only one code says that a password is wrong; others are about the entry, and the rest
/// is about the directory.
fn login_refusal(result: &LdapResult, login: &FarEndLogin) -> FarEndFailure {
    match result.rc {
        code::INVALID_CREDENTIALS => FarEndFailure::LoginRefused(words(result)),
        code::INAPPROPRIATE_AUTHENTICATION | code::NO_SUCH_OBJECT => {
            FarEndFailure::LoginBarred(words(result))
        }
        // A bind with a name and without a password (RFC 4513, section 5.1.2).
        code::UNWILLING_TO_PERFORM if login.password.expose_secret().is_empty() => {
            FarEndFailure::LoginBarred(words(result))
        }
        _ => FarEndFailure::Unreachable(words(result)),
    }
}

struct DirectorySession {
    ldap: Ldap,
    /// What carries bytes, and what reads them; both end with the session.
    tasks: [JoinHandle<()>; 2],
    is_anonymous: bool,
}

impl Drop for DirectorySession {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Opens a session with the first host that answers, and is neither busy nor unavailable.
pub(crate) async fn open(
    far_end: &FarEnd,
    login: &FarEndLogin,
    starts_tls: bool,
    until: Instant,
) -> Result<Box<dyn FarEndSession>, FarEndFailure> {
    connect::open_first(far_end, until, |host, port| {
        open_at(far_end, login, (host, port), starts_tls)
    })
    .await
}

async fn open_at(
    far_end: &FarEnd,
    login: &FarEndLogin,
    (host, port): (&str, u16),
    starts_tls: bool,
) -> Result<Box<dyn FarEndSession>, FarEndFailure> {
    let mut stream = connect::connect_to(far_end, host, port).await?;
    let unreachable = |why: String| FarEndFailure::Unreachable(format!("{host}: {why}"));
    let pair_failed = |error: std::io::Error| FarEndFailure::Unreachable(error.to_string());
    let wire: Box<dyn wire::LdapWire> = match far_end.tls.usage {
        TlsUse::Never => Box::new(stream),
        _ => {
            if starts_tls {
                wire::start_tls(&mut stream).await.map_err(unreachable)?;
            }
            let config = tls::config(&far_end.tls)?;
            let name = ServerName::try_from(tls::server_name(&far_end.tls, host).to_owned())
                .map_err(|_| unreachable("is no name for TLS".into()))?;
            let connector = TlsConnector::from(Arc::new(config));
            let stream = connector.connect(name, stream).await;
            Box::new(stream.map_err(|error| unreachable(format!("TLS: {error}")))?)
        }
    };
    let (ours, theirs) = UnixStream::pair().map_err(pair_failed)?;
    ours.set_nonblocking(true).map_err(pair_failed)?;
    let ours = tokio::net::UnixStream::from_std(ours).map_err(pair_failed)?;
    let settings = LdapConnSettings::new().set_std_stream(StdStream::Unix(theirs));
    let opened = LdapConnAsync::with_settings(settings, "ldapi://carried").await;
    let (conn, ldap) = opened.map_err(|error| unreachable(error.to_string()))?;
    // What ends either, the session hears.
    let tasks = [
        tokio::spawn(wire::carry(ours, wire)),
        tokio::spawn(async move { drop(conn.drive().await) }),
    ];
    let mut session = DirectorySession { ldap, tasks, is_anonymous: login.user.is_empty() };
    if !session.is_anonymous {
        let bound = session.ldap.simple_bind(&login.user, login.password.expose_secret()).await;
        let bound = bound.map_err(|error| unreachable(lost(&error)))?;
        if bound.rc != code::SUCCESS {
            return Err(login_refusal(&bound, login).map(|words| format!("{host}: {words}")));
        }
    }
    Ok(Box::new(session))
}

/// A result in words: its name, and what the directory says besides.
fn words(result: &LdapResult) -> String {
    let shown = result.to_string();
    // `rc=49 (invalidCredentials), dn: "", text: ""`
    let name = shown.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    let name = name.map_or("unknown", |(name, _)| name);
    match result.text.is_empty() {
        true => format!("LDAP result {} {name}", result.rc),
        false => format!("LDAP result {} {name}: {}", result.rc, result.text),
    }
}

/// The connection ended, or the crate refused what it was to send.
fn lost(error: &LdapError) -> String {
    match error {
        LdapError::ResultRecv { .. } | LdapError::OpSend { .. } => {
            "the connection was closed, or what came over it is no LDAP".to_owned()
        }
        other => other.to_string(),
    }
}

/// What came of an operation over a session.
fn judged(
    outcome: Result<LdapResult, LdapError>,
    missing: MissingEntry,
) -> Result<(), FarEndFailure> {
    let result = outcome.map_err(|error| failure(&error))?;
    match result.rc {
        code::SUCCESS => Ok(()),
        code::NO_SUCH_OBJECT | code::NO_SUCH_ATTRIBUTE if missing == MissingEntry::Passes => Ok(()),
        _ => Err(refusal(&result)),
    }
}

fn failure(error: &LdapError) -> FarEndFailure {
    match error {
        // Nothing was sent.
        LdapError::FilterParsing | LdapError::AddNoValues => {
            FarEndFailure::Refused(error.to_string())
        }
        other => FarEndFailure::Unknown(lost(other)),
    }
}

fn values(attribute: &LdapAttribute) -> (Vec<u8>, HashSet<Vec<u8>>) {
    let values = attribute.values.iter().map(|value| value.0.to_vec()).collect();
    (attribute.name.clone().into_bytes(), values)
}

impl DirectorySession {
    async fn work(&mut self, work: &LdapWork) -> Result<FarEndAnswer, FarEndFailure> {
        let mut answer = FarEndAnswer::Done;
        for (at, operation) in work.operations.iter().enumerate() {
            let step = self.step(operation, work.missing, answer).await;
            answer = step.map_err(|failure| match failure {
                FarEndFailure::Refused(words) if at == 0 => FarEndFailure::NothingDone(words),
                other => other,
            })?;
        }
        Ok(answer)
    }

    /// One operation; the answer to it and to those before.
    async fn step(
        &mut self,
        operation: &LdapOperation,
        missing: MissingEntry,
        before: FarEndAnswer,
    ) -> Result<FarEndAnswer, FarEndFailure> {
        match operation {
            LdapOperation::Search(search) => {
                let (mut found, is_found_whole) = self.search(search).await?;
                Ok(match before {
                    FarEndAnswer::Entries { mut entries, is_whole } => {
                        entries.append(&mut found);
                        FarEndAnswer::Entries { entries, is_whole: is_whole && is_found_whole }
                    }
                    _ => FarEndAnswer::Entries { entries: found, is_whole: is_found_whole },
                })
            }
            LdapOperation::WhoAmI => self.who_am_i().await.map(FarEndAnswer::Identity),
            other => self.change(other, missing).await.map(|()| before),
        }
    }

    async fn change(
        &mut self,
        operation: &LdapOperation,
        missing: MissingEntry,
    ) -> Result<(), FarEndFailure> {
        let outcome = match operation {
            LdapOperation::Add { dn, attributes } => {
                self.ldap.add(dn, attributes.iter().map(values).collect()).await
            }
            LdapOperation::Modify { dn, changes } => {
                let changes = changes.iter().map(|(change, attribute)| {
                    let (name, values) = values(attribute);
                    match change {
                        LdapChange::Add => Mod::Add(name, values),
                        LdapChange::Delete => Mod::Delete(name, values),
                        LdapChange::Replace => Mod::Replace(name, values),
                    }
                });
                self.ldap.modify(dn, changes.collect()).await
            }
            LdapOperation::Rename { dn, rdn, deletes_old, parent } => {
                self.ldap.modifydn(dn, rdn, *deletes_old, parent.as_deref()).await
            }
            LdapOperation::Delete { dn } => self.ldap.delete(dn).await,
            LdapOperation::Search(_) | LdapOperation::WhoAmI => return Err(no_such_work()),
        };
        judged(outcome, missing)
    }

    async fn search(
        &mut self,
        search: &LdapSearch,
    ) -> Result<(Vec<LdapEntry>, bool), FarEndFailure> {
        let options = SearchOptions::new()
            .deref(match search.dereference {
                LdapDereference::Never => DerefAliases::Never,
                LdapDereference::Finding => DerefAliases::Finding,
                LdapDereference::Searching => DerefAliases::Searching,
                LdapDereference::Always => DerefAliases::Always,
            })
            .sizelimit(i32::try_from(search.entries_max).unwrap_or(i32::MAX));
        let scope = match search.scope {
            LdapScope::Base => Scope::Base,
            LdapScope::Subtree => Scope::Subtree,
        };
        let mut adapters: Vec<Box<dyn Adapter<'_, String, Vec<String>>>> =
            vec![Box::new(EntriesOnly::new())];
        if let Ok(size @ 1..) = i32::try_from(search.page_size) {
            adapters.push(Box::new(PagedResults::new(size)));
        }
        let attributes = search.attributes.clone();
        let searching = self.ldap.with_search_options(options);
        let begun = searching
            .streaming_search_with(adapters, &search.base, scope, &search.filter, attributes)
            .await;
        let mut stream = begun.map_err(|error| failure(&error))?;
        let (mut entries, mut bytes) = (Vec::new(), 0);
        while let Some(found) = stream.next().await.map_err(|error| failure(&error))? {
            let (entry, size) = entry(found.0).ok_or_else(|| {
                FarEndFailure::Unknown("it does not speak LDAP: an entry that is none".into())
            })?;
            bytes += size;
            if bytes > FAR_END_ANSWER_BYTES_MAX || entries.len() >= search.entries_max as usize {
                // The rest of the answer is not read: the session ends.
                return Err(FarEndFailure::Unknown("the answer is over its limit".into()));
            }
            entries.push(entry);
        }
        let result = stream.finish().await;
        match result.rc {
            code::SUCCESS => Ok((entries, true)),
            code::SIZE_LIMIT_EXCEEDED => Ok((entries, false)),
            // A base that is not there has nothing below it.
            code::NO_SUCH_OBJECT => Ok((entries, true)),
            _ => Err(refusal(&result)),
        }
    }

    async fn who_am_i(&mut self) -> Result<String, FarEndFailure> {
        let asked = self.ldap.extended(WhoAmI).await.map_err(|error| failure(&error))?;
        let ExopResult(Exop { val, .. }, result) = asked;
        match result.rc {
            code::SUCCESS => Ok(String::from_utf8_lossy(&val.unwrap_or_default()).into_owned()),
            _ => Err(refusal(&result)),
        }
    }
}

/// An entry of an answer, and how many bytes it has; `None` for what is none.
fn entry(tag: StructureTag) -> Option<(LdapEntry, usize)> {
    let mut parts = tag.expect_constructed()?.into_iter();
    let dn = String::from_utf8(parts.next()?.expect_primitive()?).ok()?;
    let mut bytes = dn.len();
    let mut attributes = BTreeMap::new();
    for attribute in parts.next()?.expect_constructed()? {
        let mut parts = attribute.expect_constructed()?.into_iter();
        let name = String::from_utf8(parts.next()?.expect_primitive()?).ok()?;
        let mut values = Vec::new();
        for value in parts.next()?.expect_constructed()? {
            let PL::P(value) = value.payload else { return None };
            bytes += value.len() + 16;
            values.extend(String::from_utf8(value).ok());
        }
        bytes += name.len();
        attributes.insert(name.to_ascii_lowercase(), values);
    }
    Some((LdapEntry { dn, attributes }, bytes))
}

impl FarEndSession for DirectorySession {
    fn run<'a>(
        &'a mut self,
        work: &'a FarEndWork,
    ) -> BoxFuture<'a, Result<FarEndAnswer, FarEndFailure>> {
        Box::pin(async move {
            match work {
                // Who logged in has heard from it.
                FarEndWork::Check if !self.is_anonymous => Ok(FarEndAnswer::Done),
                FarEndWork::Check => {
                    let unreachable =
                        |failure: FarEndFailure| FarEndFailure::Unreachable(failure.to_string());
                    self.search(&root()).await.map(|_| FarEndAnswer::Done).map_err(unreachable)
                }
                _ => self.work(work.ldap().ok_or_else(no_such_work)?).await,
            }
        })
    }

    fn is_closed(&self) -> bool {
        self.tasks.iter().any(JoinHandle::is_finished)
    }

    fn check(&mut self) -> BoxFuture<'_, bool> {
        Box::pin(async { self.search(&root()).await.is_ok() })
    }
}

/// What every directory shows to everybody: its root.
fn root() -> LdapSearch {
    LdapSearch {
        base: String::new(),
        scope: LdapScope::Base,
        filter: "(objectClass=*)".to_owned(),
        attributes: vec!["1.1".to_owned()],
        entries_max: 1,
        page_size: 0,
        dereference: LdapDereference::Never,
    }
}

#[cfg(test)]
mod tests;
