//! `kallisto engine` as a user meets it: the real program, real files, a directory of its own.
//!
//! The unit tests hold the parser and the line reader; here commands go in at one end of the
//! process and answers come out at the other, across restarts, bad lines and SIGKILL.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::disallowed_methods, reason = "a test may touch disk")]

#[path = "support/scratch.rs"]
mod scratch;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::ops::Deref;
use std::process::Stdio;

use scratch::Scratch;

/// A directory of a test's own, in which `kallisto engine` runs.
struct Home(Scratch);

impl Home {
    fn new() -> Self {
        Self(Scratch::new("engine"))
    }

    /// Runs commands from standard input against `store` and expects success.
    fn run(&self, commands: &str, flags: &[&str]) -> String {
        let args = [&["run", "-i", "-", "-o", "-", "--dir", "store"], flags].concat();
        let ran = self.feed(commands.as_bytes(), &args);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.text().to_owned()
    }

    fn assert_clean(&self) {
        let ran = self.feed(b"", &["check", "store"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.text().starts_with("clean: "), "{}", ran.text());
    }
}

impl Deref for Home {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.0
    }
}

#[test]
fn answers_come_in_the_order_of_the_commands() {
    let home = Home::new();
    let answers = home.run(
        "PUT a 1\nGET a\nget b\nP b two words\ng b\nDEL a\nG a\nPUT e \nG e\nSCAN a z\nS x y",
        &[],
    );
    assert_eq!(answers, "1\nEMPTY\ntwo words\nEMPTY\n\ntwo words\n\nEMPTY\n");
    let answers = home.run("GET b\nGET none\nSCAN b b\nSCAN c d\nSCAN z a\n", &["--with-keys"]);
    assert_eq!(answers, "b two words\nnone EMPTY\nb two words\nEMPTY\nEMPTY\n");
}

#[test]
fn a_scan_includes_both_ends() {
    let home = Home::new();
    let answers = home.run("P a 1\nP b 2\nP c 3\nP d 4\nS b c\nS bb cc\nS a a\n", &[]);
    assert_eq!(answers, "2\n3\n3\n1\n");
}

#[test]
fn number_keys_keep_the_order_of_numbers() {
    let home = Home::new();
    let commands = "P 100 c\nP 9 a\nP 10 b\nP 18446744073709551615 d\nS 0 18446744073709551615\n";
    let flags = ["--keys", "u64", "--with-keys"];
    let wanted = "9 a\n10 b\n100 c\n18446744073709551615 d\n";
    assert_eq!(home.run(commands, &flags), wanted);
    let dump = home.feed(b"", &["dump", "store", "--keys", "u64"]);
    assert_eq!(dump.text(), "9\t1\n10\t1\n100\t1\n18446744073709551615\t1\n");
    let raw = home.feed(b"", &["dump", "store"]);
    assert!(
        raw.text().starts_with("\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\t\t1\n"),
        "{}",
        raw.text()
    );
}

#[test]
fn keys_of_the_wrong_kind_are_told_and_not_misread() {
    let home = Home::new();
    home.run("P word v\n", &[]);
    let dump = home.feed(b"", &["dump", "store", "--keys", "u64"]);
    assert_eq!((dump.code, dump.text()), (1, ""));
    assert!(dump.stderr.contains("no u64"), "{}", dump.stderr);
}

#[test]
fn a_bad_line_stops_the_run_and_keeps_everything_before_it() {
    for (bad, wrong) in [
        ("PUT lonely", "needs a value"),
        ("FROB x", "unknown command"),
        ("GET a b", "GET takes one key"),
    ] {
        let home = Home::new();
        let commands = format!("PUT a 1\n\nPUT b 2\nGET a\nDEL a\n{bad}\nPUT c 3\nGET b\n");
        fs::write(home.path("in"), commands).unwrap();
        let args = ["run", "-i", "in", "-o", "out", "--dir", "store", "--sync", "none"];
        let ran = home.feed(b"", &args);
        assert_eq!(ran.code, 1);
        assert!(ran.stderr.contains("in:6: ") && ran.stderr.contains(wrong), "{}", ran.stderr);
        assert!(!ran.stderr.contains("lonely"), "a message quotes no key");
        assert_eq!(fs::read_to_string(home.path("out")).unwrap(), "1\n");
        assert_eq!(home.run("GET a\nGET b\nGET c\n", &[]), "EMPTY\n2\nEMPTY\n");
        home.assert_clean();
    }
}

#[test]
fn a_key_that_is_no_number_is_a_bad_line() {
    let home = Home::new();
    let args = ["run", "-i", "-", "-o", "-", "--dir", "store", "--keys", "u64"];
    let ran = home.feed(b"P 1 a\nG 1\nP one b\n", &args);
    assert_eq!((ran.code, ran.text()), (1, "a\n"));
    let wanted = "standard input:3: the key is not a decimal number";
    assert!(ran.stderr.contains(wanted), "{}", ran.stderr);
}

#[test]
fn a_value_carries_nothing_of_the_one_before_it() {
    let home = Home::new();
    let long = "l".repeat(300);
    let longest = "x".repeat(10 << 20);
    let commands = format!(
        "P a {long}\nG a\nP a s\nG a\nP b {longest}\nP b t\nP c {long}\nP c \nG b\nG c\nP d {longest}\n"
    );
    assert_eq!(home.run(&commands, &[]), format!("{long}\ns\nt\n\n"));
    assert_eq!(home.feed(b"", &["compact", "store"]).code, 0);
    let reads = "G a\nG b\nG c\nG d\n";
    assert_eq!(home.run(reads, &[]), format!("s\nt\n\n{longest}\n"));
    let dump = home.feed(b"", &["dump", "store"]);
    assert_eq!(dump.text(), format!("a\t1\nb\t1\nc\t0\nd\t{}\n", longest.len()));
}

#[test]
fn values_may_be_any_bytes_but_a_line_feed() {
    let home = Home::new();
    let args = ["run", "-i", "-", "-o", "-", "--dir", "store"];
    let ran = home.feed(b"P \xffk \x00\xfe\ttab\nG \xffk\r\n", &args);
    assert_eq!(ran.stdout, b"\x00\xfe\ttab\n");
}

/// Writes, overwrites and deletes with reads in between, over several runs and compactions.
#[test]
fn a_long_run_answers_as_a_map_would() {
    const OPERATIONS: usize = 60_000;
    const KEYS: u64 = 5_000;
    let home = Home::new();
    let mut draw = fastrand::Rng::with_seed(11);
    let mut model = BTreeMap::new();
    for round in 0..3 {
        let (mut commands, mut wanted) = (String::new(), String::new());
        for at in 0..OPERATIONS {
            let key = draw.u64(..KEYS);
            match draw.u8(..10) {
                0..6 => {
                    let value = format!("{round}-{at}-{}", "v".repeat(draw.usize(..200)));
                    commands.push_str(&format!("PUT {key} {value}\n"));
                    model.insert(key, value);
                }
                6..9 => {
                    commands.push_str(&format!("GET {key}\n"));
                    wanted.push_str(model.get(&key).map_or("EMPTY", String::as_str));
                    wanted.push('\n');
                }
                _ => {
                    commands.push_str(&format!("DEL {key}\n"));
                    model.remove(&key);
                }
            }
        }
        commands.push_str(&format!("SCAN 0 {KEYS}\n"));
        wanted.extend(model.values().map(|value| format!("{value}\n")));
        let sync = ["none", "1000", "100000"][round];
        let answers = home.run(&commands, &["--keys", "u64", "--sync", sync]);
        // Not `assert_eq!`: megabytes of difference help nobody.
        assert!(answers == wanted, "round {round} differs");
        if round == 1 {
            assert_eq!(home.feed(b"", &["compact", "store"]).code, 0);
        }
        home.assert_clean();
    }
    let dump = home.feed(b"", &["dump", "store", "--keys", "u64"]);
    let wanted: Vec<String> =
        model.iter().map(|(key, value)| format!("{key}\t{}", value.len())).collect();
    assert!(dump.text().lines().eq(wanted.iter().map(String::as_str)), "the dump differs");
}

/// An answer that came out of the pipe vouches for every write before it, whatever happens next.
#[test]
fn sigkill_takes_nothing_that_was_answered() {
    let home = Home::new();
    for round in 0..4u32 {
        let sync = ["commit", "100", "100000", "none"][round as usize];
        let args = ["run", "-i", "-", "-o", "-", "--dir", "store", "--sync", sync];
        let mut command = home.command(&args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut commands = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
        for at in 0..50 {
            let text: String = (0..20).map(|n| format!("P {round}-{at}-{n} {at}\n")).collect();
            commands.write_all(format!("{text}G {round}-{at}-0\n").as_bytes()).unwrap();
            assert_eq!(answers.next().unwrap().unwrap(), at.to_string());
        }
        // More is on its way when it dies.
        commands.write_all("P tail v\n".repeat(1000).as_bytes()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        home.assert_clean();
        let reads: String = (0..=round)
            .flat_map(|round| (0..50).map(move |at| (round, at)))
            .flat_map(|(round, at)| (0..20).map(move |n| format!("G {round}-{at}-{n}\n")))
            .collect();
        assert!(!home.run(&reads, &[]).contains("EMPTY"), "lost writes with --sync {sync}");
    }
}

#[test]
fn damage_is_named_with_file_and_offset() {
    let home = Home::new();
    let puts: String = (0..2_000).map(|n| format!("P key{n} value{n}\n")).collect();
    home.run(&puts, &[]);
    assert_eq!(home.feed(b"", &["compact", "store"]).code, 0);
    let sst = fs::read_dir(home.path("store"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "sst"))
        .unwrap();
    let mut bytes = fs::read(&sst).unwrap();
    bytes[5_000] ^= 1;
    fs::write(&sst, bytes).unwrap();
    let ran = home.feed(b"", &["check", "store"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    let name = sst.file_name().unwrap().to_str().unwrap();
    assert!(ran.stderr.contains(name) && ran.stderr.contains("at byte "), "{}", ran.stderr);
    let hint = "\nhint: restore the directory from a copy, unless it is a server's: ";
    assert!(ran.stderr.contains(hint), "{}", ran.stderr);
}

#[test]
fn looking_at_a_store_makes_none() {
    let home = Home::new();
    fs::create_dir(home.path("empty")).unwrap();
    for verb in ["check", "stats", "compact", "dump"] {
        for dir in ["empty", "absent"] {
            let ran = home.feed(b"", &[verb, dir]);
            assert_eq!((ran.code, ran.text()), (1, ""), "{verb} {dir}: {}", ran.stderr);
            assert!(ran.stderr.contains(dir), "{}", ran.stderr);
        }
    }
    assert_eq!(fs::read_dir(home.path("empty")).unwrap().count(), 0);
    assert!(!home.path("absent").exists());
}

#[test]
fn the_input_is_never_overwritten_by_the_output() {
    let home = Home::new();
    fs::write(home.path("in"), "P a 1\n").unwrap();
    fs::hard_link(home.path("in"), home.path("other")).unwrap();
    for output in ["in", "./in", "other"] {
        let ran = home.feed(b"", &["run", "-i", "in", "-o", output, "--dir", "store"]);
        assert_eq!(ran.code, 1);
        assert!(ran.stderr.contains("same file"), "{}", ran.stderr);
    }
    assert_eq!(fs::read_to_string(home.path("in")).unwrap(), "P a 1\n");
}

#[test]
fn a_store_in_use_leaves_the_output_alone() {
    let home = Home::new();
    let args = ["run", "-i", "-", "-o", "-", "--dir", "store"];
    let mut command = home.command(&args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut holder = command.spawn().unwrap();
    let mut commands = holder.stdin.take().unwrap();
    commands.write_all(b"P a 1\nG a\n").unwrap();
    let mut answer = String::new();
    BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
    assert_eq!(answer, "1\n", "an answer comes while the input stays open");
    fs::write(home.path("out"), "older").unwrap();
    let ran = home.feed(b"G a\n", &["run", "-i", "-", "-o", "out", "--dir", "store"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("in use"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(home.path("out")).unwrap(), "older");
    drop(commands);
    assert!(holder.wait().unwrap().success());
}

#[test]
fn figures_go_to_standard_error() {
    let home = Home::new();
    let commands: String = (0..10).map(|n| format!("P {n} v\nG {n}\n")).collect();
    let args = ["run", "-i", "-", "-o", "-", "--dir", "store", "--json", "--every", "5"];
    let ran = home.feed(commands.as_bytes(), &args);
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 5, "{}", ran.stderr);
    for (line, up_to) in lines.iter().zip(["5", "10", "15", "20"]) {
        assert!(line.starts_with(&format!("{{\"up_to\":{up_to},\"seconds\":")), "{line}");
    }
    assert!(lines[4].starts_with("{\"operations\":20,\"seconds\":"), "{}", lines[4]);
    assert!(lines[4].contains("\"puts\":10,\"gets\":10,\"missing\":0"), "{}", lines[4]);
    assert_eq!(ran.text(), "v\n".repeat(10));
}

#[test]
fn stats_and_compact_count_what_is_there() {
    let home = Home::new();
    home.run(&"P a 1\nP b 2\nP c 3\n".repeat(100), &[]);
    home.run("DEL c\n", &[]);
    let ran = home.feed(b"", &["compact", "store"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.text().contains("; 1 files, 2 entries, "), "{}", ran.text());
    let stats = home.feed(b"", &["stats", "store", "--json"]);
    assert!(stats.text().contains("\"all\":{\"files\":1,"), "{}", stats.text());
    assert!(stats.text().contains("\"entries\":2,\"deletes\":0}"), "{}", stats.text());
    let table = home.feed(b"", &["stats", "store"]);
    assert!(table.text().starts_with("level "), "{}", table.text());
}
