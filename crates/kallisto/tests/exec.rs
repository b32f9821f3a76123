//! `kallisto exec` as a user meets it: the real program, real files, a directory of its own.
//!
//! Commands go in at one end of the process and answers come out at the other, across restarts, wrong keys, bad lines and
//! SIGKILL.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::disallowed_methods, reason = "a test may touch disk")]

#[path = "support/scratch.rs"]
mod scratch;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use scratch::Scratch;

/// A directory of a test's own with two keys, in which `kallisto exec` runs.
struct Home(Scratch);

impl Home {
    fn new() -> Self {
        let home = Self(Scratch::new("exec"));
        home.write_key("key", &(0..32).collect::<Vec<u8>>());
        home.write_key("other-key", ("f0".repeat(31) + "0d\n").as_bytes());
        home
    }

    /// A key that others may not read, whatever the umask is: the program warns of one that they may.
    fn write_key(&self, name: &str, key: &[u8]) {
        fs::write(self.path(name), key).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Runs commands against `store` and expects success.
    fn run(&self, commands: &str) -> String {
        let ran = self.feed(commands.as_bytes(), &["store", "--key-file", "key"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.text().to_owned()
    }

    /// Every file of the store with its bytes.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.path("store")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let bytes = fs::read(&path).unwrap();
                    files.insert(path, bytes);
                }
            }
        }
        files
    }
}

impl Deref for Home {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.0
    }
}

#[test]
fn a_session_answers_line_by_line_and_the_next_one_remembers() {
    let home = Home::new();
    let answers = home.run(
        "# first visit\n\
         put app/db password correct horse  battery\n\
         PUT /app/db/ port 5432\n\
         Put app/web port 80\n\
         GET app/db password\n\
         get app/db\n\
         get app/db user\n\
         get app/queue port\n\
         LIST\n\
         list app\n\
         list app/db\n\
         del app/web port\n\
         del app/web port\n\
         get app/web port\n\
         get app/web\n\
         list app/web\n\
         get app/webs port\n\
         mode\n\
         save\n\
         exit\n\
         put never reached x\n",
    );
    assert_eq!(
        answers,
        "OK\nOK\nOK\ncorrect horse  battery\npassword=correct horse  battery\nport=5432\n(nil)\n\
         (no such path)\napp/\ndb/\nweb/\npassword\nport\nOK\n(nil)\n(nil)\n\
         (nil)\n(empty)\n(no such path)\nSTRICT\nOK\n"
    );
    // Of a path that was emptied before, the store knows nothing any more.
    let answers = home.run("get app/db port\nget never reached\nget app/web port\n");
    assert_eq!(answers, "5432\n(no such path)\n(no such path)\n");
}

#[test]
fn an_empty_store_and_a_path_of_folders_say_so() {
    let home = Home::new();
    assert_eq!(home.run("list\nlist a\nget a b\n"), "(empty)\n(no such path)\n(no such path)\n");
    assert_eq!(home.run("put a/b c d\nget a\nget a b\n"), "OK\n(nil)\n(nil)\n");
}

#[test]
fn a_wrong_key_is_refused_and_nothing_changes() {
    let home = Home::new();
    home.run("put a b c\n");
    let before = home.files();
    let ran = home.feed(b"put a b d\n", &["store", "--key-file", "other-key"]);
    assert_eq!((ran.code, ran.text()), (1, ""));
    assert!(ran.stderr.contains("this is not the key of the store\nhint: "), "{}", ran.stderr);
    assert_eq!(home.files(), before);
    assert_eq!(home.run("get a b\n"), "c\n");
}

#[test]
fn the_key_may_come_from_the_environment_and_must_be_one() {
    let home = Home::new();
    home.run("put a b c\n");
    let with = |key: &str| {
        let file = home.path("stdin");
        fs::write(&file, "get a b\n").unwrap();
        let mut command = home.command(&["store"]);
        command.env("KALLISTO_EXEC_KEY", key).stdin(fs::File::open(&file).unwrap());
        command.output().unwrap()
    };
    let hex: String = (0..32).map(|n| format!("{n:02x}")).collect();
    assert_eq!(with(&hex).stdout, b"c\n");
    for bad in ["", "short", &hex[..62], "hunter2hunter2hunter2"] {
        let output = with(bad);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(text.contains("a key is 32 bytes") && !text.contains("hunter2"), "{text}");
    }
    // No file, no variable, no terminal.
    let ran = home.feed(b"get a b\n", &["store"]);
    assert!(ran.code == 1 && ran.stderr.contains("no key"), "{}", ran.stderr);
    fs::write(home.path("blank"), [0; 32]).unwrap();
    let ran = home.feed(b"", &["blank-store", "--key-file", "blank"]);
    assert!(ran.code == 1 && !home.path("blank-store").exists(), "{}", ran.stderr);
}

#[test]
fn a_bad_line_ends_a_script_with_its_number_and_keeps_what_was_before() {
    let home = Home::new();
    fs::write(home.path("script"), "put a b c\n\nsecret-in-the-wrong-place\nput a d e\n").unwrap();
    let ran = home.feed(b"", &["store", "--key-file", "key", "--file", "script"]);
    assert_eq!((ran.code, ran.text()), (1, "OK\n"));
    assert_eq!(ran.stderr, "script:3: no such verb; HELP prints them\n");
    assert_eq!(home.run("get a\n"), "b=c\n");
    let ran = home.feed(b"put a//b c d\n", &["store", "--key-file", "key"]);
    assert!(
        ran.code == 1 && ran.stderr.contains("standard input:1: invalid name"),
        "{}",
        ran.stderr
    );
}

#[test]
fn modes_change_while_it_runs_and_stats_tell() {
    let home = Home::new();
    let answers = home.run(
        "mode perf\nmode\nput a b c\nmode immediate\nmode\nloglevel\nloglevel debug\nloglevel\nstats\nhelp\n",
    );
    assert!(
        answers.starts_with("OK\nBATCH\nOK\nOK\nSTRICT\nwarn\nOK\ndebug\nnames: 1\n"),
        "{answers}"
    );
    assert!(answers.contains("\nmode: STRICT\nPUT PATH KEY VALUE "), "{answers}");
    let ran = home.feed(b"loglevel debug\nput a key hunter2\n", &["store", "--key-file", "key"]);
    assert!(ran.stderr.contains("PUT") && !ran.stderr.contains("hunter2"), "{}", ran.stderr);
    assert!(!ran.stderr.contains('\x1b'), "colours, though nothing is a terminal: {}", ran.stderr);
}

#[test]
fn bench_says_times_rates_and_hits_and_leaves_nothing() {
    let home = Home::new();
    let answers = home.run("put a b c\nmode batch\nbench 2500\nlist\nstats\n");
    let lines: Vec<&str> = answers.lines().collect();
    assert!(lines[2].starts_with("write: ") && lines[2].ends_with(" a second"), "{answers}");
    assert!(lines[3].starts_with("read: "), "{answers}");
    assert_eq!(lines[4], "hits:  2500 of 2500");
    assert_eq!(lines[5..7], ["a/", "names: 1"]);
}

#[test]
fn the_files_show_no_name_no_value_and_no_key() {
    let home = Home::new();
    let planted: String =
        (0..300).map(|n| format!("put planted-path/{n} planted-key planted-value-{n}\n")).collect();
    home.run(&planted);
    let key: Vec<u8> = (0..32).collect();
    for (path, bytes) in home.files() {
        for text in [b"planted".as_slice(), &key] {
            let found = bytes.windows(text.len()).any(|window| window == text);
            assert!(!found, "{}", path.display());
        }
    }
    assert_eq!(home.run("get planted-path/299 planted-key\n"), "planted-value-299\n");
}

#[test]
fn a_second_process_is_refused() {
    let home = Home::new();
    let mut first = home
        .command(&["store", "--key-file", "key"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut answers = BufReader::new(first.stdout.take().unwrap()).lines();
    let mut commands = first.stdin.take().unwrap();
    commands.write_all(b"put a b c\n").unwrap();
    // An answer comes before the next command: whoever feeds a pipe may wait for it.
    assert_eq!(answers.next().unwrap().unwrap(), "OK");
    let ran = home.feed(b"get a b\n", &["store", "--key-file", "key"]);
    assert!(ran.code == 1 && ran.stderr.contains("store is in use"), "{}", ran.stderr);
    drop(commands);
    assert!(first.wait().unwrap().success());
}

/// A process that is killed loses nothing that it answered, in either mode: what a batch may lose, only a power cut takes.
#[test]
fn sigkill_takes_nothing_that_was_answered() {
    const ROUNDS: usize = 6;
    let home = Home::new();
    let mut number = 0;
    for round in 0..ROUNDS {
        let mode = ["strict", "batch"][round % 2];
        let mut process = home
            .command(&["store", "--key-file", "key", "--mode", mode])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut answers = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut commands = process.stdin.take().unwrap();
        for _ in 0..20 + round * 7 {
            writeln!(commands, "put n {number} value-{number}").unwrap();
            assert_eq!(answers.next().unwrap().unwrap(), "OK");
            number += 1;
        }
        process.kill().unwrap();
        process.wait().unwrap();
        let all: Vec<String> = home.run("get n\n").lines().map(str::to_owned).collect();
        assert_eq!(all.len(), number, "round {round}");
        assert!((0..number).all(|n| all.contains(&format!("{n}=value-{n}"))));
    }
}
