//! Tidying: deleting what has ended, a page at a time.
//!
//! What is being tidied, how far it is and what was deleted is one record, so that it goes on after a change of leader or a crash where it was, and anyone
//! sees it. The job does some pages at each pass; the request that starts it does the first ones.

use std::collections::BTreeMap;

use kallisto_api::json::{Json, Map};
use kallisto_api::response::Logical;
use kallisto_api::{Error, Fields, Response};
use kallisto_engine::storage::Page;
use kallisto_engine::{Call, EngineContext, Storage, Stored};
use kallisto_pki::Serial;
use kallisto_pki::certificate::ParsedCertificate;

use super::given::{GivenFields, object};
use super::ids::ListScope;
use super::lists;
use super::memory::{Pki, PkiState, TIDY};
use super::revoked::{
    Lists, RevocationRecord, StoredCertificate, certificate_record, revoked_record,
};
use super::structure::{ChangedIssuers, note_change, put_lists};
use super::tidy_settings::{Auto, OPERATIONS, TidyWhat};
use super::{acme, answer, metadata};

/// Pages of a pass.
const PAGES_MAX: usize = 10;
/// Longest page.
const PAGE_NAMES_MAX: i64 = 2_000;

/// Where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TidyPhase {
    Certificates,
    Metadata,
    Revoked,
    Issuers,
    Acme,
}

impl TidyPhase {
    const fn name(self) -> &'static str {
        match self {
            Self::Certificates => "certificates",
            Self::Metadata => "metadata",
            Self::Revoked => "revoked",
            Self::Issuers => "issuers",
            Self::Acme => "acme",
        }
    }
}

/// How far tidying is, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TidyProgress {
    /// Empty before the first time.
    state: String,
    what: TidyWhat,
    is_auto: bool,
    phase: Option<TidyPhase>,
    /// The name after which it goes on.
    after: String,
    started_at: i64,
    finished_at: i64,
    /// When the next page may be looked at.
    next_at: i64,
    auto_finished_at: i64,
    certificates_deleted: i64,
    revoked_deleted: i64,
    issuers_deleted: i64,
    invalid_found: i64,
    acme_accounts_deleted: i64,
}

const RUNNING: &str = "Running";
const FINISHED: &str = "Finished";
const CANCELLED: &str = "Cancelled";

impl TidyProgress {
    fn encode(&self) -> Vec<u8> {
        let mut map = self.what.shown();
        map.extend(object([
            ("state", self.state.as_str().into()),
            ("is_auto", self.is_auto.into()),
            ("phase", self.phase.map_or("", TidyPhase::name).into()),
            ("after", self.after.as_str().into()),
            ("started_at", self.started_at.into()),
            ("finished_at", self.finished_at.into()),
            ("next_at", self.next_at.into()),
            ("auto_finished_at", self.auto_finished_at.into()),
            ("certificates_deleted", self.certificates_deleted.into()),
            ("revoked_deleted", self.revoked_deleted.into()),
            ("issuers_deleted", self.issuers_deleted.into()),
            ("invalid_found", self.invalid_found.into()),
            ("acme_accounts_deleted", self.acme_accounts_deleted.into()),
        ]));
        Json::Object(map).to_text()
    }

    fn decode(stored: &Stored) -> Result<Self, Error> {
        stored.decode_object(|map| {
            let given = GivenFields(Fields::new(map));
            let number = |name: &str| given.whole(name, 0);
            Ok(Self {
                state: given.text("state")?,
                what: TidyWhat::default().update(given)?,
                is_auto: given.flag("is_auto", false)?,
                phase: match given.text("phase")?.as_str() {
                    "certificates" => Some(TidyPhase::Certificates),
                    "metadata" => Some(TidyPhase::Metadata),
                    "revoked" => Some(TidyPhase::Revoked),
                    "issuers" => Some(TidyPhase::Issuers),
                    "acme" => Some(TidyPhase::Acme),
                    _ => None,
                },
                after: given.text("after")?,
                started_at: number("started_at")?,
                finished_at: number("finished_at")?,
                next_at: number("next_at")?,
                auto_finished_at: number("auto_finished_at")?,
                certificates_deleted: number("certificates_deleted")?,
                revoked_deleted: number("revoked_deleted")?,
                issuers_deleted: number("issuers_deleted")?,
                invalid_found: number("invalid_found")?,
                acme_accounts_deleted: number("acme_accounts_deleted")?,
            })
        })
    }

    fn read(storage: &Storage<'_>) -> Result<Self, Error> {
        match storage.get(TIDY)? {
            None => Ok(Self::default()),
            Some(record) => Self::decode(&record),
        }
    }

    fn is_running(&self) -> bool {
        self.state == RUNNING
    }

    fn begun(&self, what: TidyWhat, is_auto: bool, now: i64) -> Self {
        let auto_finished_at = self.auto_finished_at;
        Self {
            state: RUNNING.to_owned(),
            what,
            is_auto,
            phase: Some(TidyPhase::Certificates),
            started_at: now,
            auto_finished_at,
            ..Self::default()
        }
    }

    /// Goes on to what comes after a phase.
    fn next_phase(&mut self, now: i64) {
        self.after.clear();
        self.phase = match self.phase {
            Some(TidyPhase::Certificates) => Some(TidyPhase::Metadata),
            Some(TidyPhase::Metadata) => Some(TidyPhase::Revoked),
            Some(TidyPhase::Revoked) => Some(TidyPhase::Issuers),
            Some(TidyPhase::Issuers) => Some(TidyPhase::Acme),
            Some(TidyPhase::Acme) | None => None,
        };
        if self.phase.is_none() {
            FINISHED.clone_into(&mut self.state);
            self.finished_at = now;
            if self.is_auto {
                self.auto_finished_at = now;
            }
        }
    }

    /// What is told of it.
    fn shown(&self, state: &PkiState) -> Map {
        let time = |at: i64| match at {
            0 => Json::Null,
            at => super::revoke::timestamp(at.saturating_mul(1_000_000_000)).to_string().into(),
        };
        let has_begun = !self.state.is_empty();
        let mut map = self.what.shown();
        let counts = state.counts();
        let message = match self.phase {
            Some(TidyPhase::Certificates) => "Tidying certificate store".to_owned(),
            Some(TidyPhase::Metadata) => "Tidying certificate metadata".to_owned(),
            Some(TidyPhase::Revoked) => "Tidying revoked certificates".to_owned(),
            Some(TidyPhase::Issuers) => "Tidying expired issuers".to_owned(),
            Some(TidyPhase::Acme) => "Tidying ACME accounts".to_owned(),
            None => String::new(),
        };
        map.extend(object([
            ("state", if has_begun { self.state.as_str() } else { "Inactive" }.into()),
            ("error", Json::Null),
            ("message", if message.is_empty() { Json::Null } else { message.into() }),
            ("time_started", time(self.started_at)),
            ("time_finished", time(self.finished_at)),
            ("last_auto_tidy_finished", time(self.auto_finished_at)),
            ("cert_store_deleted_count", self.certificates_deleted.into()),
            ("revoked_cert_deleted_count", self.revoked_deleted.into()),
            ("issuer_deleted_count", self.issuers_deleted.into()),
            ("invalid_cert_count", self.invalid_found.into()),
            ("missing_issuer_cert_count", 0i64.into()),
            ("current_cert_store_count", (counts.0 as u64).into()),
            ("current_revoked_cert_count", (counts.1 as u64).into()),
            ("acme_account_deleted_count", self.acme_accounts_deleted.into()),
            ("acme_account_revoked_count", 0i64.into()),
            ("acme_orders_deleted_count", 0i64.into()),
            ("total_acme_account_count", (state.acme_accounts as u64).into()),
        ]));
        map
    }
}

pub(super) async fn start(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let what = TidyWhat::default().update(GivenFields::of(&body))?;
    if what.is_nothing() {
        return Ok(accepted(format!(
            "Manual tidy requested but no tidy operations were set. Enable at least one tidy \
             operation to be run {OPERATIONS}."
        )));
    }
    let now = call.now.as_second();
    let begun = call.storage.transact(TIDY, |transaction| {
        let known = match transaction.get(TIDY)? {
            None => TidyProgress::default(),
            Some(record) => TidyProgress::decode(&record)?,
        };
        if known.is_running() {
            return Ok(false);
        }
        transaction.put(TIDY, known.begun(what.clone(), false, now).encode())?;
        Ok(true)
    });
    if !begun.await? {
        return Ok(accepted("Tidy operation already in progress.".to_owned()));
    }
    let memory: &Pki = call.memory()?;
    proceed(&call.storage, memory, now).await?;
    Ok(accepted(
        "Tidy operation successfully started. Its progress is told by tidy-status.".to_owned(),
    ))
}

fn accepted(warning: String) -> Response {
    Response::Accepted(Logical { warnings: vec![warning], ..Logical::default() })
}

pub(super) async fn status(call: Call<'_>) -> Result<Response, Error> {
    let memory: &Pki = call.memory()?;
    let progress = TidyProgress::read(&call.storage)?;
    Ok(answer::data(progress.shown(&memory.read()), Vec::new()))
}

pub(super) async fn cancel(call: Call<'_>) -> Result<Response, Error> {
    let now = call.now.as_second();
    let cancelled = call.storage.transact(TIDY, |transaction| {
        let mut known = match transaction.get(TIDY)? {
            None => TidyProgress::default(),
            Some(record) => TidyProgress::decode(&record)?,
        };
        if !known.is_running() {
            return Ok(false);
        }
        CANCELLED.clone_into(&mut known.state);
        known.phase = None;
        known.finished_at = now;
        transaction.put(TIDY, known.encode())?;
        Ok(true)
    });
    if cancelled.await? {
        return status(call).await;
    }
    Ok(answer::nothing(vec![
        "Tidy operation cannot be cancelled as none is currently running.".to_owned(),
    ]))
}

/// Tidies on, and starts when it is time.
pub(super) async fn run(context: EngineContext<'_>) -> Result<(), Error> {
    let now = context.now.as_second();
    let progress = TidyProgress::read(&context.storage)?;
    if !progress.is_running() {
        let auto = Auto::read(&context.storage)?;
        let is_due =
            auto.is_enabled && now >= progress.auto_finished_at.saturating_add(auto.interval_secs);
        if !is_due {
            return Ok(());
        }
        let begun = progress.begun(auto.what, true, now);
        context
            .storage
            .transact(TIDY, |transaction| {
                let known = transaction.get(TIDY)?;
                let known = known.map(|record| TidyProgress::decode(&record)).transpose()?;
                if known.is_none_or(|known| !known.is_running()) {
                    transaction.put(TIDY, begun.encode())?;
                }
                Ok(())
            })
            .await?;
    }
    let memory = context.memory.and_then(|memory| {
        let memory: &dyn std::any::Any = memory;
        memory.downcast_ref::<Pki>()
    });
    let memory = memory.ok_or_else(|| Error::internal(&"a PKI mount without memory"))?;
    proceed(&context.storage, memory, now).await
}

/// Looks at some pages.
async fn proceed(storage: &Storage<'_>, memory: &Pki, now: i64) -> Result<(), Error> {
    for _ in 0..PAGES_MAX {
        let before = TidyProgress::read(storage)?;
        let Some(phase) = before.phase.filter(|_| before.is_running() && before.next_at <= now)
        else {
            return Ok(());
        };
        let mut after = before.clone();
        let mut deletes = Vec::new();
        let (mut listed, mut gone) = (LeftLists::new(), ChangedIssuers::new());
        match phase {
            TidyPhase::Certificates => certificates(storage, now, &mut after, &mut deletes)?,
            TidyPhase::Metadata => metadata(storage, now, &mut after, &mut deletes)?,
            TidyPhase::Revoked => {
                revoked(storage, memory, now, (&mut after, &mut deletes, &mut listed))?;
            }
            TidyPhase::Issuers => gone = issuers(memory, now, &mut after, &mut deletes),
            TidyPhase::Acme => acme_accounts(storage, now, &mut after, &mut deletes)?,
        }
        if after.phase.is_some() && after.what.pause_secs > 0 {
            after.next_at = now.saturating_add(after.what.pause_secs);
        }
        // Before anything is deleted, so that no list of a number ever says two things.
        for (scope, ended) in listed {
            let without = move |lists: &Lists| Some(lists.without_ended(ended, now));
            lists::decide(storage, scope, without).await?;
        }
        storage
            .transact(TIDY, |transaction| {
                // Cancelled meanwhile, or somebody else did this page.
                let known = transaction.get(TIDY)?;
                let known = known.map(|record| TidyProgress::decode(&record)).transpose()?;
                if known.as_ref() != Some(&before) {
                    return Ok(());
                }
                if phase == TidyPhase::Issuers && !deletes.is_empty() {
                    note_change(transaction, now)?;
                    put_lists(transaction, &memory.read(), &gone, now)?;
                }
                for name in &deletes {
                    transaction.delete(name)?;
                }
                transaction.put(TIDY, after.encode())
            })
            .await?;
    }
    Ok(())
}

/// The next page of a folder.
fn page(progress: &TidyProgress) -> Page {
    let limit = progress.what.page_size.min(PAGE_NAMES_MAX);
    let after = (!progress.after.is_empty()).then(|| progress.after.clone());
    Page { after, limit: usize::try_from(limit).ok() }
}

/// The next names of a folder; none at its end.
fn names(
    storage: &Storage<'_>,
    folder: &str,
    progress: &TidyProgress,
) -> Result<Vec<String>, Error> {
    storage.list_page(folder, &page(progress))
}

fn certificates(
    storage: &Storage<'_>,
    now: i64,
    progress: &mut TidyProgress,
    deletes: &mut Vec<String>,
) -> Result<(), Error> {
    let what = progress.what.clone();
    let found = match what.certificates || what.invalid {
        true => names(storage, "cert/", progress)?,
        false => Vec::new(),
    };
    for name in &found {
        let record = format!("cert/{name}");
        let Some(stored) = storage.get(&record)? else { continue };
        let read = StoredCertificate::decode(&stored.value);
        let is_readable = read
            .as_ref()
            .is_some_and(|read| !what.invalid || ParsedCertificate::from_der(read.der).is_ok());
        let read = match read {
            Some(read) if is_readable => read,
            _ => {
                progress.invalid_found += 1;
                if what.invalid {
                    deletes.push(record);
                    progress.certificates_deleted += 1;
                }
                continue;
            }
        };
        if what.certificates && read.not_after.saturating_add(what.buffer_secs) < now {
            deletes.push(record);
            progress.certificates_deleted += 1;
        }
    }
    match found.into_iter().next_back() {
        Some(last) => progress.after = last,
        None => progress.next_phase(now),
    }
    Ok(())
}

/// What is kept with certificates that have ended, whether they are kept or not.
fn metadata(
    storage: &Storage<'_>,
    now: i64,
    progress: &mut TidyProgress,
    deletes: &mut Vec<String>,
) -> Result<(), Error> {
    let found = match progress.what.metadata {
        true => names(storage, metadata::FOLDER, progress)?,
        false => Vec::new(),
    };
    for name in &found {
        let record = format!("{}{name}", metadata::FOLDER);
        let Some(stored) = storage.get(&record)? else { continue };
        let ended = metadata::not_after(&stored.value)
            .is_some_and(|at| at.saturating_add(progress.what.buffer_secs) < now);
        if ended {
            deletes.push(record);
        }
    }
    match found.into_iter().next_back() {
        Some(last) => progress.after = last,
        None => progress.next_phase(now),
    }
    Ok(())
}

/// When the last of what is deleted ended, of each whose latest lists may have it.
type LeftLists = BTreeMap<ListScope, i64>;

fn revoked(
    storage: &Storage<'_>,
    memory: &Pki,
    now: i64,
    (progress, deletes, listed): (&mut TidyProgress, &mut Vec<String>, &mut LeftLists),
) -> Result<(), Error> {
    let found = match progress.what.revoked {
        true => names(storage, "revoked/", progress)?,
        false => Vec::new(),
    };
    for name in &found {
        let Some(serial) = Serial::parse(name) else { continue };
        let Some(stored) = storage.get(&revoked_record(&serial))? else { continue };
        let Some(record) = RevocationRecord::decode(serial, &stored.value) else { continue };
        let not_after = record.revoked.not_after;
        let ended = not_after.saturating_add(progress.what.revoked_buffer_secs);
        if ended < now {
            match fate(&memory.read(), &record, now) {
                RevocationFate::Kept => continue,
                RevocationFate::LeavesLists => {
                    let last = listed.entry(record.scope).or_insert(not_after);
                    *last = not_after.max(*last);
                }
                RevocationFate::Forgotten => {}
            }
            deletes.push(revoked_record(&serial));
            let certificate = certificate_record(&serial);
            if storage.get(&certificate)?.is_some() {
                deletes.push(certificate);
            }
            progress.revoked_deleted += 1;
        }
    }
    match found.into_iter().next_back() {
        Some(last) => progress.after = last,
        None => progress.next_phase(now),
    }
    Ok(())
}

/// What becomes of a revocation of what ended.
enum RevocationFate {
    /// It stays until there is a complete list without it, which is not made for it alone, or nobody signs another list and the latest one has ended.
    Kept,
    /// There is a new complete list without it.
    LeavesLists,
    /// No list has it.
    Forgotten,
}

fn fate(state: &PkiState, record: &RevocationRecord, now: i64) -> RevocationFate {
    let lists = match state.signing.get(&record.scope).map(|signing| &signing.lists) {
        Some(lists) if !lists.are_done_with(&record.revoked) => lists,
        _ => return RevocationFate::Forgotten,
    };
    if state.crl_signer(record.scope).is_some() {
        return match state.crl.rebuilds_itself {
            true => RevocationFate::Kept,
            false => RevocationFate::LeavesLists,
        };
    }
    // There is no other list by itself: what is on the latest ones stays as long as they are good.
    let is_served = state.latest_crl_signer(record.scope).is_some();
    match is_served && lists.are_good_with(&record.revoked, state.crl.expiry_secs, now) {
        true => RevocationFate::Kept,
        false => RevocationFate::Forgotten,
    }
}

/// Issuers that ended long ago, but for the default one.
fn issuers(
    memory: &Pki,
    now: i64,
    progress: &mut TidyProgress,
    deletes: &mut Vec<String>,
) -> ChangedIssuers {
    let mut gone = ChangedIssuers::new();
    if progress.what.expired_issuers {
        let state = memory.read();
        for issuer in state.issuers.values() {
            let ended =
                issuer.certificate.not_after.saturating_add(progress.what.issuer_buffer_secs);
            let is_default = state.issuer_defaults.default == Some(issuer.id);
            if ended < now && !is_default {
                deletes.push(super::revoked::issuer_record(issuer.id));
                gone.insert(issuer.id, None);
                progress.issuers_deleted += 1;
            }
        }
    }
    progress.next_phase(now);
    gone
}

/// Accounts of ACME that nothing is left of. Their orders are deleted by themselves.
fn acme_accounts(
    storage: &Storage<'_>,
    now: i64,
    progress: &mut TidyProgress,
    deletes: &mut Vec<String>,
) -> Result<(), Error> {
    let last = match progress.what.acme {
        true => {
            let buffer_secs = progress.what.acme_buffer_secs;
            let found = acme::tidy_accounts(*storage, &page(progress), now, buffer_secs)?;
            progress.acme_accounts_deleted += found.accounts;
            deletes.extend(found.deletes);
            found.last
        }
        false => None,
    };
    match last {
        Some(last) => progress.after = last,
        None => progress.next_phase(now),
    }
    Ok(())
}
