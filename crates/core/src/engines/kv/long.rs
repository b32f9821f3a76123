//! Lists too long to be made in one go.
//!
//! A list of a million names takes most of a second, during which its thread would serve no other request. What
//! lies in a large folder is therefore listed in steps, with others served in between, and written as
//! text at once: a tree of JSON would take several times the memory. Only so many such lists are made at
//! a time ([`crate::admission`]). Names that come or go meanwhile may or may not be seen, as between two
//! pages of a list.

use crate::records::engine_kind::KvState;
use kallisto_auth::Operation;

use super::list::{ListDepth, ListPage, ignored_page, too_many};
use super::v2;
use super::v2::detail;
use crate::api::error::Error;
use crate::api::json::write_string;
use crate::api::request::Request;
use crate::api::response::{Logical, Response};
use crate::engines::kv::access::Kv;
use crate::limits::LIST_ENTRIES_MAX;
use crate::records::engine_kind::EngineKind;
use crate::state::Core;
use crate::view::Mount;
use kallisto_engine::pace::TurnPace;
use kallisto_engine::pace::cooperative_yield;

/// Entries below a folder up to which its list is made in one go.
const SHORT_MAX: u64 = 2_048;
/// The same where a record is read for each, which may have thousands of versions.
const DETAILED_SHORT_MAX: u64 = 64;
/// Names listed before others are served.
const STEP: usize = 256;
/// The same where a record is read for each.
const DETAILED_STEP: usize = 16;
/// Bytes of a usual name in a list, with its quotes and its comma.
const NAME_BYTES_USUAL: usize = 24;

/// Which list is asked for.
struct ListQuery<'p> {
    folder: &'p str,
    depth: ListDepth,
    is_detailed: bool,
}

impl<'p> ListQuery<'p> {
    /// The list that a request asks for at a path inside a mount; `None` when it asks for none.
    fn new(operation: Operation, kind: EngineKind, path: &'p str) -> Option<Self> {
        let depth = match operation {
            Operation::List => ListDepth::Children,
            Operation::Scan => ListDepth::All,
            _ => return None,
        };
        match kind.kv() {
            Some(KvState::V1) => return Some(Self { folder: path, depth, is_detailed: false }),
            Some(KvState::V2) => {}
            _ => return None,
        }
        let (noun, folder) = v2::split(path);
        let is_detailed = match noun {
            "metadata" => false,
            "detailed-metadata" => true,
            _ => return None,
        };
        Some(Self { folder: folder.unwrap_or_default(), depth, is_detailed })
    }
}

/// Whether a request asks for a list that takes long; `path` is inside the mount.
pub(crate) fn is_long(request: &Request<'_>, mount: &Mount, path: &str) -> bool {
    let Some(asked) = ListQuery::new(request.operation, mount.entry.kind, path) else {
        return false;
    };
    let short_max = if asked.is_detailed { DETAILED_SHORT_MAX } else { SHORT_MAX };
    // Version 1 knows no pages.
    let is_page = mount.entry.kind != EngineKind::KV_V1 && asks_for_few(request, short_max);
    mount.index.count(asked.folder) > short_max && !is_page
}

/// Whether a request asks for a list that reads records; `path` is inside the mount.
pub(super) fn is_detailed(request: &Request<'_>, mount: &Mount, path: &str) -> bool {
    let asked = ListQuery::new(request.operation, mount.entry.kind, path);
    asked.is_some_and(|asked| asked.is_detailed)
}

/// Whether it asks for a page that is short however much there is.
fn asks_for_few(request: &Request<'_>, short_max: u64) -> bool {
    let limit = request.sole_in_query("limit").ok().flatten();
    let limit = limit.and_then(|text| text.parse::<u64>().ok());
    limit.is_some_and(|limit| (1..=short_max).contains(&limit))
}

/// Makes such a list.
///
/// # Errors
/// [`Error::Busy`] when too many are made already; else what a short list says.
pub(crate) async fn list(core: &Core, kv: &Kv<'_>) -> Result<Response, Error> {
    let Kv { call, mount, path, .. } = *kv;
    let kind = mount.entry.kind;
    let asked = ListQuery::new(call.operation, kind, path).ok_or(Error::UnsupportedOperation)?;
    let _place = core.admission.lists.take(call.client(), 1)?;
    let (page, warnings) = match kind.kv() {
        Some(KvState::V1) => (ListPage::default(), ignored_page(kv)),
        _ => (ListPage::from_query(kv)?, Vec::new()),
    };
    let data = match asked.is_detailed {
        true => write_detailed(kv, &asked, page).await?,
        false => write(kv, &asked, page).await?,
    };
    Ok(Response::Logical(Logical { data, warnings, ..Logical::default() }))
}

/// Names go from the index into the reply and nowhere between: a million texts would each be allocated and copied.
async fn write(kv: &Kv<'_>, asked: &ListQuery<'_>, page: ListPage) -> Result<Vec<u8>, Error> {
    let most = page.names_max();
    let mut data = Vec::with_capacity(keys_bytes(kv.mount.index.count(asked.folder), most));
    data.extend_from_slice(b"{\"keys\":[");
    let (mut after, mut count) = (page.after, 0);
    loop {
        let wanted = STEP.min(most - count);
        let mut last = String::new();
        let place = (asked.folder, after.as_deref());
        let found = asked.depth.names_each(&kv.mount.index, place, wanted, |name| {
            write_string(name, &mut data);
            data.push(b',');
            name.clone_into(&mut last);
        });
        count += found;
        if count > LIST_ENTRIES_MAX {
            return Err(too_many());
        }
        if found < wanted || count == most {
            break;
        }
        after = Some(last);
        cooperative_yield().await;
    }
    if count == 0 {
        return Err(Error::NotFound);
    }
    // The comma behind the last name.
    data.pop();
    data.extend_from_slice(b"]}");
    Ok(data)
}

/// Bytes of `{"keys":[..]}` with so many usual names in it.
fn keys_bytes(names: u64, most: usize) -> usize {
    let names = usize::try_from(names).unwrap_or(usize::MAX).min(most);
    names * NAME_BYTES_USUAL + 16
}

async fn write_detailed(
    kv: &Kv<'_>,
    asked: &ListQuery<'_>,
    page: ListPage,
) -> Result<Vec<u8>, Error> {
    let most = page.names_max();
    let (mut keys, mut info, mut pace) = (Vec::new(), Vec::new(), TurnPace::default());
    let (mut after, mut count) = (page.after, 0);
    loop {
        let wanted = DETAILED_STEP.min(most - count);
        let names = asked.depth.names(&kv.mount.index, asked.folder, after.as_deref(), wanted);
        for name in &names {
            if !keys.is_empty() {
                keys.push(b',');
            }
            write_string(name, &mut keys);
            let before = info.len();
            detail(kv, asked.folder, name, &mut info)?;
            pace.spend(TurnPace::of_bytes(info.len() - before)).await;
        }
        count += names.len();
        if count > LIST_ENTRIES_MAX {
            return Err(too_many());
        }
        let is_last = names.len() < wanted || count == most;
        after = names.into_iter().next_back().or(after);
        if is_last {
            break;
        }
        cooperative_yield().await;
    }
    if count == 0 {
        return Err(Error::NotFound);
    }
    let mut data = Vec::with_capacity(keys.len() + info.len() + 32);
    for part in [b"{\"key_info\":{", info.as_slice(), b"},\"keys\":[", keys.as_slice(), b"]}"] {
        data.extend_from_slice(part);
    }
    Ok(data)
}
