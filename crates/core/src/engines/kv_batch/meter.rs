//! Counts what a request for many secrets does to each, as requests of their own would be counted.
//!
//! The request itself was counted at its own path already; here each secret it reads or changes, and each folder it lists, is
//! counted at the path at which a request of its own would do so, before it is done. So a limit for a path, a mount or
//! everything holds for one request of a thousand paths as for a thousand requests.

use kallisto_auth::Operation;

use super::place::{SecretName, SecretPlace};
use crate::api::error::Error;
use crate::caller::call::AuthorizedCall;
use crate::state::Core;

/// Counts for one request.
#[derive(Clone, Copy)]
pub(in crate::engines) struct Meter<'a> {
    core: &'a Core,
    call: &'a AuthorizedCall<'a, 'a>,
}

impl<'a> Meter<'a> {
    pub(in crate::engines) const fn of(core: &'a Core, call: &'a AuthorizedCall<'a, 'a>) -> Self {
        Self { core, call }
    }

    /// Takes one from what rate limits leave for `operation` at `path`.
    ///
    /// # Errors
    /// [`Error::OverQuota`] when nothing is left.
    pub(in crate::engines) fn take(&self, operation: Operation, path: &str) -> Result<(), Error> {
        self.core.take_allowance_at(self.call, operation, path)
    }

    /// The same for a list of what is in a folder, or for a look at the one secret that a place is.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub(in crate::engines) fn take_list(&self, place: &SecretPlace) -> Result<(), Error> {
        let operation = if place.is_folder() { Operation::List } else { Operation::Read };
        self.take(operation, &SecretName::api_path(&place.mount, "metadata", &place.path))
    }
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::{List, Read, Update};

    use super::*;
    use crate::api::request::Request;
    use crate::api::response::{BatchPart, Response};
    use crate::platform::server_info::RouteAccess;
    use crate::quotas::scope::QuotaScope;
    use crate::quotas::{RULES, RuleSpec};
    use crate::routes::tests::{ROOT, ask, open_core, request};

    /// A server with three secrets, and a rule that lets `rate` requests pass at a path.
    fn limited(path: &str, rate: f64) -> Core {
        let core = open_core(RouteAccess::Token);
        for name in ["a", "b", "c"] {
            let data = r#"{"data":{"k":"v"}}"#;
            ask(&core, Some(ROOT), Update, &format!("secret/data/f/{name}"), data).unwrap();
            let custom = r#"{"custom_metadata":{"team":"x"}}"#;
            ask(&core, Some(ROOT), Update, &format!("secret/metadata/f/{name}"), custom).unwrap();
        }
        let spec = RuleSpec {
            name: "q".to_owned(),
            scope: QuotaScope { path: path.to_owned(), ..QuotaScope::default() },
            rate,
            interval_secs: 60,
            ..RuleSpec::default()
        };
        let context = core.context.load_full().unwrap();
        assert!(context.view.quotas.put(&format!("{RULES}q"), &spec.encode()));
        core
    }

    fn asked(core: &Core, operation: Operation, path: &str, body: &str) -> Result<Response, Error> {
        let remote = Some("10.0.0.1:1".parse().unwrap());
        let request = Request { remote, ..request(Some(ROOT), operation, path, body) };
        pollster::block_on(core.handle(&request))
    }

    fn batch(core: &Core, route: &str, body: &str) -> Result<Response, Error> {
        asked(core, Update, &format!("sys/kallisto/kv/{route}"), body)
    }

    /// How many of the items were answered; none of the others but for the limit.
    fn answered(answer: Result<Response, Error>) -> usize {
        let Ok(Response::Each(items)) = answer else { panic!("{answer:?}") };
        let is_over =
            |answer: &Result<BatchPart, Error>| matches!(answer, Err(Error::OverQuota(_)));
        assert!(items.iter().all(|item| item.answer.is_ok() || is_over(&item.answer)));
        items.iter().filter(|item| item.answer.is_ok()).count()
    }

    const THREE: &str = r#"{"paths":["secret/data/f/a","secret/data/f/b","secret/data/f/c"]}"#;

    #[test]
    fn what_reads_or_changes_many_secrets_is_not_wrapped() {
        let core = limited("sys/", 100.0);
        for route in ["read", "write", "delete", "copy", "move", "recover", "list", "search"] {
            let path = format!("sys/kallisto/kv/{route}");
            let request =
                Request { wrap_ttl_secs: 60, ..request(Some(ROOT), Update, &path, THREE) };
            let answer = pollster::block_on(core.handle(&request));
            let Err(Error::Invalid(why)) = answer else { panic!("{route}: {answer:?}") };
            assert!(why.contains("cannot be wrapped"), "{route}: {why}");
        }
    }

    #[test]
    fn each_secret_of_a_read_counts_at_its_path() {
        for (path, rate, count) in [
            ("secret/", 2.0, 2),
            ("secret/data/*", 1.0, 1),
            ("secret/data/f/b", 1.0, 3),
            ("", 3.0, 2),
            ("secret/metadata/*", 1.0, 3),
        ] {
            let core = limited(path, rate);
            assert_eq!(answered(batch(&core, "read", THREE)), count, "{path}");
        }
        let core = limited("secret/data/f/b", 1.0);
        assert!(asked(&core, Read, "secret/data/f/b", "").is_ok());
        assert_eq!(answered(batch(&core, "read", THREE)), 2);
        let again = asked(&core, Read, "secret/data/f/b", "");
        assert!(matches!(again, Err(Error::OverQuota(_))));
    }

    #[test]
    fn what_is_done_together_is_refused_together_and_not_at_all() {
        let write = r#"{"writes":[{"path":"secret/data/f/a","data":{"k":"w"}},
            {"path":"secret/data/f/b","data":{"k":"w"}},{"path":"secret/data/f/c","data":{"k":"w"}}]}"#;
        let there = r#"{"from":"secret/f/","to":"secret/g/"}"#;
        for (route, body, needed) in [
            ("write", write, 3.0),
            ("delete", r#"{"path":"secret/f/"}"#, 4.0),
            ("delete", r#"{"path":"secret/f/","purge":true}"#, 4.0),
            ("copy", there, 13.0),
            ("move", there, 16.0),
        ] {
            let core = limited("secret/*", needed - 1.0);
            let before = core.store.position();
            let answer = batch(&core, route, body);
            assert!(matches!(answer, Err(Error::OverQuota(_))), "{route}: {answer:?}");
            assert_eq!(core.store.position(), before, "{route} changed something");
            let answer = batch(&limited("secret/*", needed), route, body);
            assert!(answer.is_ok(), "{route}: {answer:?}");
        }
        // A dry run is one look at the folder.
        let core = limited("secret/*", 1.0);
        assert!(batch(&core, "delete", r#"{"path":"secret/f/","dry_run":true}"#).is_ok());
    }

    #[test]
    fn a_list_a_search_and_a_watch_count_at_their_folder_and_metadata_where_it_is_shown() {
        for (route, operation) in [("list", Update), ("search", Update)] {
            let core = limited("secret/metadata/f", 1.0);
            let ask = || {
                asked(
                    &core,
                    operation,
                    &format!("sys/kallisto/kv/{route}"),
                    r#"{"path":"secret/f/"}"#,
                )
            };
            assert!(ask().is_ok(), "{route}");
            assert!(matches!(ask(), Err(Error::OverQuota(_))), "{route}");
            let plain = asked(&core, List, "secret/metadata/f", "");
            assert!(matches!(plain, Err(Error::OverQuota(_))), "{route}");
        }
        let search = r#"{"path":"secret/f/","metadata":{"team":"x"}}"#;
        let answer = batch(&limited("secret/metadata/*", 3.0), "search", search);
        assert!(matches!(answer, Err(Error::OverQuota(_))), "{answer:?}");
        assert!(batch(&limited("secret/metadata/*", 4.0), "search", search).is_ok());
        let core = limited("secret/metadata/f", 1.0);
        let watch = |core: &Core| {
            let query = vec![("path".to_owned(), "secret/f/".to_owned())];
            let remote = Some("10.0.0.1:1".parse().unwrap());
            let request = request(Some(ROOT), Read, "sys/kallisto/kv/watch", "");
            pollster::block_on(core.handle(&Request { query, remote, ..request }))
        };
        assert!(watch(&core).is_ok());
        assert!(matches!(watch(&core), Err(Error::OverQuota(_))));
    }
}
