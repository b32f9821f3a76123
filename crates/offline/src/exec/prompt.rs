//! Commands from a terminal: `rustyline` for the line, with history and completion.
//!
//! History is in memory only and keeps of a `PUT` the verb, the path and the key: a value has no business in a file or
//! under an arrow key, and what comes back needs one before it does anything. Completion offers verbs, then what the index has. A mistake is said and the prompt comes back; a store that
//! failed ends it.

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use zeroize::Zeroizing;

use kallisto_securedb::SecureDb;

use super::failure::ExecFailure;
use super::line::{self, ExecCommand, ExecLineError, VERBS};
use super::session::{SessionFlow, StoreSession};

const PROMPT: &str = "kallisto> ";
/// Most candidates offered at once.
const CANDIDATES_MAX: usize = 200;

/// Reads and carries out lines until the end.
pub(super) fn run(session: &mut StoreSession<'_>) -> Result<(), ExecFailure> {
    let config = Config::builder().completion_type(CompletionType::List).build();
    let history = MemHistory::with_config(&config);
    let mut editor = Editor::<NameCompleter<'_>, MemHistory>::with_history(config, history)
        .map_err(|error| cannot_read(&error))?;
    editor.set_helper(Some(NameCompleter { db: session.db() }));
    loop {
        let line = match editor.readline(PROMPT) {
            Ok(line) => Zeroizing::new(line),
            // Ctrl-C takes the line back, Ctrl-D leaves.
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(cannot_read(&error)),
        };
        let parsed = line::parse(line.as_bytes());
        if let Some(entry) = remembered(&line, &parsed) {
            // A history that is full forgets its oldest entry; nothing is lost by an error here.
            let _ = editor.add_history_entry(entry);
        }
        let done = match parsed {
            Ok(Some(command)) => session.execute(command),
            Ok(None) => Ok(SessionFlow::Command),
            Err(ExecLineError(text)) => Err(ExecFailure::mistake(text)),
        };
        session.settle()?;
        match done {
            Ok(SessionFlow::Command) => {}
            Ok(SessionFlow::End) => return Ok(()),
            Err(failure) if failure.is_mistake() => complain(&failure),
            Err(failure) => return Err(failure),
        }
    }
}

/// What history keeps of a line.
fn remembered(
    line: &str,
    parsed: &Result<Option<ExecCommand<'_>>, ExecLineError>,
) -> Option<String> {
    match parsed {
        Ok(Some(ExecCommand::Put { path, key, .. })) => Some(format!("PUT {path} {key}")),
        Ok(Some(_)) => Some(line.to_owned()),
        // What is no command may be a value that was typed in the wrong place.
        Ok(None) | Err(_) => None,
    }
}

#[expect(clippy::print_stderr, reason = "a person is watching")]
fn complain(failure: &ExecFailure) {
    eprintln!("{failure}");
}

fn cannot_read(error: &ReadlineError) -> ExecFailure {
    ExecFailure::mistake(format!("cannot read the terminal: {error}"))
}

/// Completes verbs and names.
struct NameCompleter<'a> {
    db: &'a SecureDb,
}

impl NameCompleter<'_> {
    /// Where the word under the cursor starts, and what it could become.
    fn candidates(&self, line: &str) -> (usize, Vec<String>) {
        let start = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let typed = &line[start..];
        let words: Vec<&str> = line[..start].split_whitespace().collect();
        let found = match words.as_slice() {
            [] => verbs(typed),
            [verb] if takes_path(verb) => self.below(typed),
            [verb, path] if takes_key(verb) => self.keys(path, typed),
            _ => Vec::new(),
        };
        (start, found)
    }

    /// Paths that start with what is typed; the last segment is completed.
    fn below(&self, typed: &str) -> Vec<String> {
        let (folder, last) = typed.rsplit_once('/').unwrap_or(("", typed));
        let before = &typed[..typed.len() - last.len()];
        let children = self.children(folder, last).into_iter().filter(|name| name.ends_with('/'));
        children.map(|name| format!("{before}{name}")).collect()
    }

    fn keys(&self, path: &str, typed: &str) -> Vec<String> {
        let path = path.trim_matches('/');
        self.children(path, typed).into_iter().filter(|name| !name.ends_with('/')).collect()
    }

    fn children(&self, folder: &str, start: &str) -> Vec<String> {
        let folder = folder.trim_start_matches('/');
        let names = self.db.list(folder, None, CANDIDATES_MAX * 5);
        names.into_iter().filter(|name| name.starts_with(start)).take(CANDIDATES_MAX).collect()
    }
}

fn verbs(typed: &str) -> Vec<String> {
    let typed = typed.to_ascii_uppercase();
    let fitting = VERBS.iter().map(|(verb, ..)| *verb).filter(|verb| verb.starts_with(&typed));
    fitting.map(str::to_owned).collect()
}

fn takes_path(verb: &str) -> bool {
    ["PUT", "GET", "DEL", "LIST"].iter().any(|known| known.eq_ignore_ascii_case(verb))
}

fn takes_key(verb: &str) -> bool {
    takes_path(verb) && !verb.eq_ignore_ascii_case("LIST")
}

impl Completer for NameCompleter<'_> {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, found) = self.candidates(&line[..pos]);
        let pair = |text: String| Pair { display: text.clone(), replacement: text };
        Ok((start, found.into_iter().map(pair).collect()))
    }
}

impl Hinter for NameCompleter<'_> {
    type Hint = String;
}

impl Highlighter for NameCompleter<'_> {}
impl Validator for NameCompleter<'_> {}
impl Helper for NameCompleter<'_> {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kallisto_lsm::disk::MemDisk;
    use kallisto_securedb::DbOptions;

    use super::*;

    #[test]
    fn history_never_keeps_a_value() {
        let kept = |line: &str| remembered(line, &line::parse(line.as_bytes()));
        assert_eq!(kept("put a/b k hunter2").as_deref(), Some("PUT a/b k"));
        assert_eq!(kept("get a k").as_deref(), Some("get a k"));
        assert_eq!(kept("hunter2"), None);
        assert_eq!(kept("# hunter2"), None);
    }

    #[test]
    fn verbs_paths_and_keys_are_completed() {
        let key: Vec<u8> = (0..32).collect();
        let options = DbOptions { disk: Arc::new(MemDisk::default()), ..DbOptions::default() };
        let db = SecureDb::open_with("store", &key, &options).unwrap();
        for name in ["app/db/password", "app/db/port", "app/web/port", "apple/x"] {
            db.insert(name, b"x").unwrap();
        }
        let names = NameCompleter { db: &db };
        for (line, start, expected) in [
            ("l", 0, &["LIST", "LOGLEVEL"][..]),
            ("get ap", 4, &["app/", "apple/"]),
            ("PUT app/", 4, &["app/db/", "app/web/"]),
            ("get app/db/ p", 12, &["password", "port"]),
            ("list app/d", 5, &["app/db/"]),
            ("put app/db k se", 13, &[]),
            ("save a", 5, &[]),
        ] {
            let (at, found) = names.candidates(line);
            assert_eq!(
                (at, found.as_slice()),
                (start, expected.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>().as_slice()),
                "{line}"
            );
        }
    }
}
