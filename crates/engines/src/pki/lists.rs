//! Revocation lists: deciding on new ones, and making what was decided.
//!
//! That there is a new list is a record, which says its number; what it says follows from the records that are there, so that every server makes the same
//! list of them, when it is first asked for it. So a revocation costs two small records however many there are, and who wants
//! a list pays for it once.

use std::collections::BTreeMap;
use std::sync::Arc;

use kallisto_api::Error;
use kallisto_engine::{Call, EngineContext, Storage};
use kallisto_pki::crl::{CrlContents, ExtraExtension, RevokedEntry as Entry};

use super::config::CrlConfig;
use super::ids::{IssuerId, ListScope};
use super::memory::{MadeList, Pki, PkiState};
use super::revoked::{Lists, lists_record};

/// For how long the making of a list is worth waiting, by its entries: making takes some 150 ns for each, so a server is at this for a few hundredths
/// of its time at the most.
const REMADE_AFTER_NS_PER_ENTRY: i64 = 10_000;

/// Lists of fewer entries are made at once, by whoever asks.
const QUICK_ENTRIES: usize = 1_000;

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Complete,
    Delta,
}

impl Which {
    /// The number of the latest one; 0 for none. Where deltas are off, the latest one is that of the complete list, which says that nothing changed:
    /// clients that look for a delta find a signed one, and no empty text.
    const fn number(self, lists: &Lists) -> u64 {
        match self {
            Self::Complete => lists.complete,
            Self::Delta => lists.delta,
        }
    }
}

/// Decides that there is a new complete list, unless there is one of a number after `number`: of many revocations at once few decide.
async fn decide_complete(
    storage: &Storage<'_>,
    scope: ListScope,
    after: u64,
    now: i64,
) -> Result<(), Error> {
    decide(storage, scope, move |lists| (lists.number <= after).then(|| lists.with_complete(now)))
        .await
}

/// Decides that there is a list with a revocation that was entered after a list of a number, where lists are made for that, and somebody may sign it.
pub(super) async fn decide_for_revocation(
    (storage, memory): (&Storage<'_>, &Pki),
    scope: ListScope,
    after: u64,
    now: i64,
) -> Result<(), Error> {
    let is_made = {
        let state = memory.read();
        !state.crl.rebuilds_itself && state.crl_signer(scope).is_some()
    };
    if is_made { decide_complete(storage, scope, after, now).await } else { Ok(()) }
}

/// What is said of those who may sign no lists, when there are to be new ones.
pub(super) fn warn_of_unsigned(call: &Call<'_>) -> Result<Vec<String>, Error> {
    let memory: &Pki = call.memory()?;
    let state = memory.read();
    let others: BTreeMap<ListScope, Vec<IssuerId>> = state.without_lists().collect();
    Ok(others.values().enumerate().map(|(at, ids)| unsigned(at, ids)).collect())
}

/// The same of one of them.
pub(super) fn warn_of_unsigned_of(state: &PkiState, scope: ListScope) -> Option<String> {
    let mut others = state.without_lists();
    others.find(|(known, _)| *known == scope).map(|(_, ids)| unsigned(0, &ids))
}

fn unsigned(at: usize, ids: &[IssuerId]) -> String {
    let ids: Vec<String> = ids.iter().map(IssuerId::to_string).collect();
    format!(
        "Warning {} during CRL rebuild: warning from local CRL rebuild: Issuer equivalency set with \
         associated keys lacked an issuer with CRL Signing KeyUsage; refusing to rebuild CRL for \
         this group of issuers: {}",
        at + 1,
        ids.join(",")
    )
}

/// Decides that there are new complete lists of everybody who signs.
pub(super) async fn decide_all(call: &Call<'_>) -> Result<(), Error> {
    let memory: &Pki = call.memory()?;
    let scopes = memory.read().scopes();
    let now = call.now.as_second();
    for scope in scopes {
        decide(&call.storage, scope, |lists| Some(lists.with_complete(now))).await?;
    }
    Ok(())
}

/// Changes the record of the lists of one who signs, if `change` says so.
pub(super) async fn decide(
    storage: &Storage<'_>,
    scope: ListScope,
    change: impl Fn(&Lists) -> Option<Lists> + Send + Sync,
) -> Result<(), Error> {
    let name = lists_record(scope);
    storage
        .transact(&name, |transaction| {
            let lists = match transaction.get(&name)? {
                Some(record) => record.decode(Lists::decode)?,
                None => Lists::default(),
            };
            if let Some(lists) = change(&lists) {
                transaction.put(&name, lists.encode())?;
            }
            Ok(())
        })
        .await
}

/// Longest list that is given from memory at once, in bytes.
pub(super) const AT_ONCE_BYTES_MAX: usize = 64 << 10;

/// The latest list of one who signs, in DER, where it was made already, somebody signs for it and it is short: what [`latest`] would say.
pub(super) fn made(
    memory: &Pki,
    state: &PkiState,
    scope: ListScope,
    which: Which,
) -> Option<Arc<Vec<u8>>> {
    let lists = &state.signing.get(&scope)?.lists;
    let number = which.number(lists);
    state.latest_crl_signer(scope)?;
    let all = memory.made();
    let made = all.get(&(scope, which == Which::Delta))?;
    let is_it = number != 0 && made.number == number && made.der.len() <= AT_ONCE_BYTES_MAX;
    is_it.then(|| Arc::clone(&made.der))
}

/// The latest list of one who signs; `None` where nobody signs it, or none was decided on yet. One who may sign no lists any more has the last one that
/// was decided on: clients that look for a list and find none let nobody in, or everybody.
///
/// # Errors
/// When it cannot be made.
pub(super) async fn latest(
    call: &Call<'_>,
    scope: ListScope,
    which: Which,
) -> Result<Option<MadeList>, Error> {
    let memory: &Pki = call.memory()?;
    let place = (scope, which == Which::Delta);
    let now_ns = call.request.now_ns();
    let (lists, picture, signer, config, count) = {
        let state = memory.read();
        let Some(signing) = state.signing.get(&scope) else { return Ok(None) };
        let Some((issuer, key)) = state.latest_crl_signer(scope) else { return Ok(None) };
        let urls = state.urls_of(issuer.id, &issuer.urls).unwrap_or_default();
        let lists = signing.lists.clone();
        let count = signing.revoked.len();
        (lists, signing.revoked.picture(), (issuer, key, urls), state.crl.clone(), count)
    };
    let number = which.number(&lists);
    if number == 0 {
        return Ok(None);
    }
    if let Some(made) = memory.made().get(&place) {
        let entries = i64::try_from(made.entries).unwrap_or(i64::MAX);
        let rests = match made.entries < QUICK_ENTRIES {
            true => 0,
            false => entries.saturating_mul(REMADE_AFTER_NS_PER_ENTRY),
        };
        let is_young = now_ns.saturating_sub(made.at_ns) < rests;
        // Another one makes it: what there is will do.
        let is_made = memory.making().contains(&place);
        if made.number == number || (made.number < number && (is_young || is_made)) {
            return Ok(Some(made.clone()));
        }
    }
    let making = memory.begin(place);
    let work = move || {
        let (issuer, key, urls) = signer;
        let this_update = match which {
            Which::Complete => lists.complete_at,
            Which::Delta => lists.delta_at,
        };
        let list = CrlContents {
            number,
            this_update,
            next_update: this_update.saturating_add(config.expiry_secs),
            base: (which == Which::Delta).then_some(lists.complete),
            freshest: &urls.delta_crl_distribution_points,
        };
        let is_on = |revoked: &&super::revoked::RevokedCertificate| match which {
            _ if config.is_disabled => false,
            Which::Complete => lists.complete_has(revoked),
            Which::Delta => lists.delta_has(revoked),
        };
        let mut entries = 0;
        let reasons = reasons();
        let on = picture.iter().filter(is_on).map(|revoked| {
            entries += 1;
            let at = revoked.at_ns.div_euclid(1_000_000_000);
            let reason = reasons.get(usize::from(revoked.reason)).map_or(&[][..], Vec::as_slice);
            (Entry { serial: revoked.serial, at }, reason)
        });
        let der = list.sign_all(on, &[], &issuer.crl_signer(&key));
        der.map(|der| MadeList { number, at_ns: now_ns, this_update, entries, der: Arc::new(der) })
    };
    // What is quickly made is made here.
    let made = if count < QUICK_ENTRIES { Ok(work()) } else { call.run_heavy(work).await };
    drop(making);
    let made: MadeList = made?.map_err(super::given::refuse)?;
    let mut all = memory.made();
    let is_newer = all.get(&place).is_none_or(|known| known.number < made.number);
    if is_newer {
        all.insert(place, made.clone());
    }
    Ok(Some(made))
}

/// The last reason that is told.
const REASON_LAST: u8 = 5;

/// What an entry says of each reason (RFC 5280, 5.3.1); of none it says nothing.
fn reasons() -> Vec<Vec<ExtraExtension>> {
    let told = |reason| match reason {
        0 => Vec::new(),
        reason => vec![ExtraExtension::reason(reason)],
    };
    (0..=REASON_LAST).map(told).collect()
}

/// Decides on the lists that it is time for, by the clock: before they end, and what a server that stopped between a revocation and its list left
/// undone.
pub(super) async fn run(context: EngineContext<'_>) -> Result<(), Error> {
    let memory = context.memory::<Pki>()?;
    let now = context.now.as_second();
    let due: Vec<(ListScope, Which)> = {
        let state = memory.read();
        let config = &state.crl;
        let of = |scope: ListScope| {
            let signing = state.signing.get(&scope)?;
            is_due(config, &signing.lists, |number| signing.revoked.has_after(number), now)
                .map(|which| (scope, which))
        };
        state.scopes().into_iter().filter_map(of).collect()
    };
    for (scope, which) in due {
        decide(&context.storage, scope, |lists| {
            Some(match which {
                Which::Complete => lists.with_complete(now),
                Which::Delta => lists.with_delta(now),
            })
        })
        .await?;
    }
    Ok(())
}

/// Which list it is time for.
fn is_due(
    config: &CrlConfig,
    lists: &Lists,
    has_after: impl Fn(u64) -> bool,
    now: i64,
) -> Option<Which> {
    let grace = if config.rebuilds_itself {
        config.grace_secs
    } else {
        config.grace_secs.min(config.expiry_secs / 2)
    };
    let lives = config.expiry_secs.saturating_sub(grace);
    if lists.number == 0 || now >= lists.complete_at.saturating_add(lives) {
        return Some(Which::Complete);
    }
    if !config.rebuilds_itself {
        return has_after(lists.number).then_some(Which::Complete);
    }
    let is_time = now >= lists.delta_at.saturating_add(config.delta_secs);
    let is_late = now >= lists.delta_at.saturating_add(lives);
    (config.has_deltas && ((is_time && has_after(lists.number)) || is_late)).then_some(Which::Delta)
}
