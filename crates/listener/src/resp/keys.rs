//! `DEL`, `EXISTS`, `TTL`, `TYPE`, `KEYS`, `SCAN`: secrets by their paths.
//!
//! Listing asks the core for everything below the folder that a pattern starts with, which takes the
//! capability `scan` there; a caller without it gets what it may `list`, folder by folder. Secrets whose
//! current version is deleted are left out, as far as the caller may see that.

use std::collections::HashSet;

use jiff::Timestamp;
use kallisto_core::json::{self, Json, members};
use kallisto_core::{Denial, Error, Operation, Path, Response};

use super::glob;
use super::reply::Replies;
use super::secret::FoundSecret;
use super::session::{CommandArguments, CommandFailure, RespSession, text};
use super::strings::VALUE;

/// Most keys of one reply.
const KEYS_MAX: usize = 100_000;
/// Keys of a `SCAN` that says no count, as in Redis.
const SCAN_KEYS: usize = 10;

/// What a time to live is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TtlUnit {
    Seconds,
    Milliseconds,
}

impl TtlUnit {
    fn of(self, time: Timestamp) -> i64 {
        match self {
            Self::Seconds => time.as_second(),
            Self::Milliseconds => time.as_millisecond(),
        }
    }
}

impl RespSession {
    pub(super) async fn delete_many(
        &self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
    ) -> Result<(), CommandFailure> {
        let keys: Vec<&str> = arguments.from(1).map(text).collect::<Result<_, _>>()?;
        // All are looked for first: a key that is none or may not be read is refused before anything was deleted.
        let (mut seen, mut existing) = (HashSet::with_capacity(keys.len()), Vec::new());
        for key in keys {
            if seen.insert(key) && self.exists(key).await? {
                existing.push(key);
            }
        }
        for key in &existing {
            self.delete(key).await?;
        }
        replies.integer(existing.len() as i64);
        Ok(())
    }

    pub(super) async fn count_existing(
        &self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
    ) -> Result<(), CommandFailure> {
        let mut existing = 0;
        for at in 1..arguments.len() {
            existing += i64::from(self.exists(arguments.text(at)?).await?);
        }
        replies.integer(existing);
        Ok(())
    }

    /// The time until a secret's version is deleted by itself; -1 for never, -2 for no secret.
    pub(super) async fn ttl(
        &self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
        unit: TtlUnit,
    ) -> Result<(), CommandFailure> {
        let now = self.shared.clock.now();
        replies.integer(match self.read(arguments.text(1)?).await? {
            FoundSecret::Nothing(_) => -2,
            FoundSecret::Live(secret) => {
                secret.ends_at().map_or(-1, |end| unit.of(end).saturating_sub(unit.of(now)).max(0))
            }
        });
        Ok(())
    }

    /// What a key holds: a string where the secret has nothing but what `GET` reads, or else a hash.
    pub(super) async fn kind(
        &self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
    ) -> Result<(), CommandFailure> {
        replies.simple(self.kind_of(arguments.text(1)?).await?.unwrap_or("none"));
        Ok(())
    }

    /// The same; `None` for no secret.
    async fn kind_of(&self, key: &str) -> Result<Option<&'static str>, Error> {
        Ok(match self.read(key).await? {
            FoundSecret::Nothing(_) => None,
            FoundSecret::Live(secret) => {
                let is_alone = members(secret.fields()).count() == 1;
                Some(if is_alone && secret.field(VALUE).is_some() { "string" } else { "hash" })
            }
        })
    }

    pub(super) async fn keys(
        &self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
    ) -> Result<(), CommandFailure> {
        let pattern = arguments.get(1).unwrap_or_default();
        let folder = glob::folder(arguments.text(1)?);
        let names = self.all_below(folder).await?;
        let (names_bytes, pattern) = (bytes_of(&names), pattern.to_vec());
        let work = move || {
            let mut matching = matching(names, &pattern);
            matching.sort();
            matching
        };
        let mut found = Vec::new();
        for key in self.work_out(names_bytes, work).await? {
            if self.shows(&key, None).await? {
                found.push(key);
            }
        }
        if found.len() > KEYS_MAX {
            return Err(CommandFailure::plain(format!("more than {KEYS_MAX} keys: use SCAN")));
        }
        write_keys(replies, &found);
        Ok(())
    }

    pub(super) async fn scan(
        &self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
    ) -> Result<(), CommandFailure> {
        let cursor: u64 =
            arguments.text(1)?.parse().map_err(|_| CommandFailure::plain("invalid cursor"))?;
        let (mut pattern, mut count, mut kind) = ("*", SCAN_KEYS, None);
        for at in (2..arguments.len()).step_by(2) {
            if at + 1 == arguments.len() {
                return Err(CommandFailure::syntax());
            }
            match arguments.word(at).as_str() {
                "MATCH" => pattern = arguments.text(at + 1)?,
                "COUNT" => count = count_of(arguments.integer(at + 1))?,
                "TYPE" => kind = Some(arguments.text(at + 1)?),
                _ => return Err(CommandFailure::syntax()),
            }
        }
        let after = match cursor {
            0 => None,
            cursor => match self.shared.cursors.find(cursor) {
                Some(after) => Some(after),
                // Forgotten, as after a restart. An end would say that there are no more keys.
                None => {
                    return Err(CommandFailure::plain(
                        "the cursor is not known any more: begin the scan again with 0",
                    ));
                }
            },
        };
        let page = self.below(glob::folder(pattern), after, count).await?;
        let next = match page.last {
            Some(last) => self.shared.cursors.keep(last),
            None => 0,
        };
        let (names_bytes, pattern) = (bytes_of(&page.names), pattern.as_bytes().to_vec());
        let work = move || matching(page.names, &pattern);
        let mut found = Vec::new();
        for key in self.work_out(names_bytes, work).await? {
            if self.shows(&key, kind).await? {
                found.push(key);
            }
        }
        write_page(replies, next, &found)
    }

    /// Whether a listed key is there for a reader, and holds what is asked for; one that may not be read is there, and
    /// nobody knows what it holds.
    async fn shows(&self, key: &str, kind: Option<&str>) -> Result<bool, CommandFailure> {
        // Its fields are counted only where somebody asks what it is.
        let shown = match kind {
            None => self.exists(key).await,
            Some(kind) => self
                .kind_of(key)
                .await
                .map(|found| found.is_some_and(|found| kind.eq_ignore_ascii_case(found))),
        };
        match shown {
            Err(Error::Denied(Denial::Policy)) => Ok(kind.is_none()),
            shown => Ok(shown?),
        }
    }

    /// All keys below a folder, or more than [`KEYS_MAX`].
    async fn all_below(&self, folder: &str) -> Result<Vec<String>, CommandFailure> {
        let ListedPage { mut names, mut last } = self.below(folder, None, KEYS_MAX + 1).await?;
        while names.len() <= KEYS_MAX
            && let Some(after) = last
        {
            let mut page = self.below(folder, Some(after), KEYS_MAX + 1).await?;
            names.append(&mut page.names);
            last = page.last;
        }
        Ok(names)
    }

    /// The keys below a folder, at most about `limit` and after the one given.
    async fn below(
        &self,
        folder: &str,
        after: Option<String>,
        limit: usize,
    ) -> Result<ListedPage, CommandFailure> {
        // No key is in a folder that no path names.
        if Path::literal(&self.list_path(folder)).is_err() {
            return Ok(ListedPage { names: Vec::new(), last: None });
        }
        match self.page(Operation::Scan, folder, after.as_deref(), limit).await {
            // Without `scan`, what may be listed.
            Err(Error::Denied(Denial::Policy)) if after.is_none() => {
                Ok(ListedPage { names: self.walk(folder).await?, last: None })
            }
            page => Ok(page?),
        }
    }

    /// A page of what is in a folder (`List`) or anywhere below it (`Scan`).
    async fn page(
        &self,
        operation: Operation,
        folder: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ListedPage, Error> {
        let path = self.list_path(folder);
        let mut query = Vec::with_capacity(2);
        let has_pages = self.engine.has_versions();
        if has_pages {
            let inside = after.map(|after| after.strip_prefix(folder).unwrap_or_default());
            query.extend(inside.map(|inside| ("after", inside.to_owned())));
            query.push(("limit", limit.to_string()));
        }
        let mut answer = self.ask(operation, &path, &query, &[]).await;
        // The rule may allow shorter pages only; without a limit, they are as long as it allows.
        let is_shorter = has_pages && matches!(answer, Err(Error::Denied(Denial::Policy)));
        if is_shorter {
            query.pop();
            answer = self.ask(operation, &path, &query, &[]).await;
        }
        let names = match answer {
            Ok(reply) => self.names_of(reply, folder).await?,
            Err(Error::NotFound) => Vec::new(),
            Err(error) => return Err(error),
        };
        let may_go_on = is_shorter || (has_pages && names.len() >= limit);
        Ok(ListedPage { last: names.last().filter(|_| may_go_on).cloned(), names })
    }

    /// Everything below a folder, by listing folder after folder.
    async fn walk(&self, top: &str) -> Result<Vec<String>, CommandFailure> {
        let (mut pages, mut keys) = (vec![(top.to_owned(), None)], Vec::new());
        let mut is_first = true;
        while let Some((folder, after)) = pages.pop() {
            let after: Option<String> = after;
            let page = self.page(Operation::List, &folder, after.as_deref(), KEYS_MAX + 1).await;
            let ListedPage { names, last } = match page {
                Err(Error::Denied(Denial::Policy)) if !is_first => continue,
                page => page?,
            };
            is_first = false;
            pages.extend(last.map(|last| (folder, Some(last))));
            for name in names {
                if name.ends_with('/') {
                    pages.push((name, None));
                } else {
                    keys.push(name);
                }
            }
            if keys.len() + pages.len() > KEYS_MAX {
                return Err(CommandFailure::plain(format!("more than {KEYS_MAX} keys")));
            }
        }
        let bytes = bytes_of(&keys);
        let work = move || {
            keys.sort();
            keys
        };
        Ok(self.work_out(bytes, work).await?)
    }

    async fn names_of(&self, reply: Response, folder: &str) -> Result<Vec<String>, Error> {
        let Response::Logical(reply) = reply else { return Ok(Vec::new()) };
        let (bytes, folder) = (reply.data.len(), folder.to_owned());
        self.work_out(bytes, move || names_of(&reply.data, &folder)).await
    }

    fn list_path(&self, folder: &str) -> String {
        let noun = if self.engine.has_versions() { "metadata/" } else { "" };
        [self.mount(), noun, folder].concat()
    }
}

/// Some keys, and the one to go on after, if there may be more.
struct ListedPage {
    names: Vec<String>,
    last: Option<String>,
}

/// How many keys a `SCAN` looks at that says so.
fn count_of(given: Option<i64>) -> Result<usize, CommandFailure> {
    let given = given.ok_or_else(CommandFailure::no_integer)?;
    // Redis calls a number below one an error of syntax.
    match usize::try_from(given) {
        Ok(count) if count > 0 => Ok(count.min(KEYS_MAX)),
        _ => Err(CommandFailure::syntax()),
    }
}

/// Those that a pattern stands for.
fn matching(names: Vec<String>, pattern: &[u8]) -> Vec<String> {
    names.into_iter().filter(|name| glob::matches(pattern, name.as_bytes())).collect()
}

/// How much there is to look through.
fn bytes_of(names: &[String]) -> usize {
    names.iter().map(String::len).sum()
}

/// The names of a list's reply, with their folder in front.
fn names_of(data: &[u8], folder: &str) -> Vec<String> {
    let Ok(data) = json::parse_object(data) else { return Vec::new() };
    match data.get("keys") {
        Some(Json::Array(names)) => {
            let names = names.iter().filter_map(Json::as_str);
            names.map(|name| [folder, name].concat()).collect()
        }
        _ => Vec::new(),
    }
}

fn write_page(replies: &mut Replies, next: u64, keys: &[String]) -> Result<(), CommandFailure> {
    replies.array(2);
    replies.bulk(next.to_string().as_bytes());
    write_keys(replies, keys);
    Ok(())
}

fn write_keys(replies: &mut Replies, keys: &[String]) {
    replies.array(keys.len());
    for key in keys {
        replies.bulk(key.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_a_number_above_zero() {
        let count = |given| count_of(given).map_err(|why| why.text);
        assert_eq!(count(Some(1)), Ok(1));
        assert_eq!(count(Some(i64::MAX)), Ok(KEYS_MAX));
        assert_eq!(count(None).unwrap_err(), "value is not an integer or out of range");
        for given in [0, -1, i64::MIN] {
            assert_eq!(count(Some(given)).unwrap_err(), "syntax error", "{given}");
        }
    }
}
