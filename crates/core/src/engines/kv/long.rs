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
        let (mut last, mut left) = (String::new(), wanted);
        let place = (asked.folder, after.as_deref());
        let found = asked.depth.names_each(&kv.mount.index, place, wanted, |name| {
            write_string(name, &mut data);
            data.push(b',');
            left -= 1;
            if left == 0 {
                name.clone_into(&mut last);
            }
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

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::{List, Read, Scan, Update};

    use super::*;
    use crate::api::json::{self, Json};
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{ROOT, ask, open_core, request};

    /// A server with so many names in the folder `f` of both versions.
    fn core_with(names: usize) -> Core {
        let core = open_core(RouteAccess::Token);
        let context = core.context.load_full().unwrap();
        for path in ["secret/", "one/"] {
            let (mount, _) = context.view.mounts.route(path).unwrap();
            for at in 0..names {
                mount.index.insert(&format!("f/{at:04}")).unwrap();
            }
        }
        core
    }

    fn asked<'a>(operation: Operation, path: &'a str, query: &[(&str, &str)]) -> Request<'a> {
        let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Request { query: query.collect(), ..request(Some(ROOT), operation, path, "") }
    }

    fn is_long_at(core: &Core, operation: Operation, path: &str, limit: Option<&str>) -> bool {
        let query: Vec<_> = limit.into_iter().map(|limit| ("limit", limit)).collect();
        let context = core.context.load_full().unwrap();
        let (mount, inside) = context.view.mounts.route(path).unwrap();
        is_long(&asked(operation, path, &query), &mount, inside)
    }

    #[test]
    fn a_list_is_long_by_what_lies_in_the_folder_unless_a_short_page_is_asked_for() {
        let most = usize::try_from(SHORT_MAX).unwrap();
        let (short, long) = (core_with(most), core_with(most + 1));
        for (operation, path) in [
            (List, "secret/metadata/f"),
            (Scan, "secret/metadata/f/"),
            (Scan, "secret/metadata"),
            (List, "one/f"),
            (Scan, "one/"),
        ] {
            assert!(!is_long_at(&short, operation, path, None), "{operation:?} {path}");
            assert!(is_long_at(&long, operation, path, None), "{operation:?} {path}");
        }
        for (operation, path) in [
            (Read, "secret/metadata/f"),
            (Read, "one/f"),
            (List, "secret/data/f"),
            (List, "secret/metadata/g"),
            (List, "sys/f"),
        ] {
            assert!(!is_long_at(&long, operation, path, None), "{operation:?} {path}");
        }
        for (limit, is_page) in [
            ("1", true),
            ("2048", true),
            ("2049", false),
            ("0", false),
            ("-1", false),
            ("x", false),
        ] {
            let path = "secret/metadata/f";
            assert_eq!(is_long_at(&long, List, path, Some(limit)), !is_page, "{limit}");
            assert!(is_long_at(&long, List, "one/f", Some(limit)), "version 1 knows no pages");
        }
        let most = usize::try_from(DETAILED_SHORT_MAX).unwrap();
        let (short, long) = (core_with(most), core_with(most + 1));
        let path = "secret/detailed-metadata/f";
        assert!(!is_long_at(&short, List, path, None) && is_long_at(&long, List, path, None));
        assert!(!is_long_at(&long, Scan, path, Some("64")));
        assert!(is_long_at(&long, Scan, path, Some("65")));
        assert!(!is_long_at(&long, List, "secret/metadata/f", None));
    }

    fn answer(
        core: &Core,
        operation: Operation,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Logical, Error> {
        match pollster::block_on(core.handle(&asked(operation, path, query)))? {
            Response::Logical(logical) => Ok(logical),
            other => panic!("{other:?}"),
        }
    }

    fn keys(logical: &Logical) -> Vec<String> {
        let data = json::parse_object(&logical.data).unwrap();
        let Some(Json::Array(keys)) = data.get("keys") else { panic!("no keys") };
        keys.iter().map(|key| key.as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_long_list_has_the_names_of_its_page() {
        const NAMES: usize = 3_000;
        let core = core_with(NAMES);
        let names: Vec<String> = (0..NAMES).map(|at| format!("{at:04}")).collect();
        for operation in [List, Scan] {
            for (query, expected) in [
                (vec![], &names[..]),
                (vec![("limit", "0")], &names[..]),
                (vec![("limit", "2049")], &names[..2049]),
                (vec![("limit", "2304")], &names[..2304]),
                (vec![("limit", "5000")], &names[..]),
                (vec![("after", "0099")], &names[100..]),
                (vec![("after", "0499"), ("limit", "2060")], &names[500..2560]),
                (vec![("after", "0999"), ("limit", "2049")], &names[1000..]),
            ] {
                let told = answer(&core, operation, "secret/metadata/f", &query).unwrap();
                assert!(keys(&told) == expected, "{operation:?} {query:?}");
                assert!(told.warnings.is_empty());
            }
            let behind = answer(&core, operation, "secret/metadata/f", &[("after", "2999")]);
            assert_eq!(behind.unwrap_err(), Error::NotFound);
            let told = answer(&core, operation, "one/f", &[("limit", "5")]).unwrap();
            assert!(keys(&told) == names);
            assert_eq!(told.warnings, ["Endpoint ignored these unrecognized parameters: [limit]"]);
        }
        let waiting = answer(&core, List, "secret/metadata/f", &[("wait", "1s")]);
        assert!(matches!(waiting, Err(Error::Invalid(why)) if why.contains("in pages: limit")));
    }

    #[test]
    fn a_long_detailed_list_shows_of_each_secret_what_a_read_of_its_metadata_does() {
        let core = open_core(RouteAccess::Token);
        let mut names: Vec<String> = (0..70).map(|at| format!("s{at:02}")).collect();
        for name in &names {
            let put = ask(
                &core,
                Some(ROOT),
                Update,
                &format!("secret/metadata/d/{name}"),
                &format!(r#"{{"custom_metadata":{{"is":"{name}"}}}}"#),
            );
            put.unwrap();
        }
        ask(&core, Some(ROOT), Update, "secret/metadata/d/sub/x", r#"{"max_versions":3}"#).unwrap();
        // A name that vanished since it was listed.
        let context = core.context.load_full().unwrap();
        let (mount, _) = context.view.mounts.route("secret/").unwrap();
        mount.index.insert("d/t").unwrap();
        names.extend(["sub/".to_owned(), "t".to_owned()]);
        for (query, expected) in [
            (vec![], &names[..]),
            (vec![("limit", "65")], &names[..65]),
            (vec![("limit", "68"), ("after", "s01")], &names[2..70]),
            (vec![("after", "s05")], &names[6..]),
        ] {
            let told = answer(&core, List, "secret/detailed-metadata/d", &query).unwrap();
            assert_eq!(keys(&told), expected, "{query:?}");
            let data = json::parse_object(&told.data).unwrap();
            let info = data.get("key_info").unwrap().as_object().unwrap();
            let secrets: Vec<&String> =
                expected.iter().filter(|name| name.starts_with('s') && *name != "sub/").collect();
            assert_eq!(info.keys().collect::<Vec<_>>(), secrets);
            for (name, shown) in info.iter() {
                let read = answer(&core, Read, &format!("secret/metadata/d/{name}"), &[]).unwrap();
                assert_eq!(*shown, json::parse(&read.data).unwrap(), "{name}");
            }
        }
        let behind = answer(&core, List, "secret/detailed-metadata/d", &[("after", "t")]);
        assert_eq!(behind.unwrap_err(), Error::NotFound);
        let all = answer(&core, Scan, "secret/detailed-metadata/", &[]).unwrap();
        let shown = json::parse_object(&all.data).unwrap();
        let info = shown.get("key_info").unwrap().as_object().unwrap();
        assert_eq!((keys(&all).len(), info.len()), (72, 71));
        assert!(info.contains_key("d/sub/x"));
    }
}
