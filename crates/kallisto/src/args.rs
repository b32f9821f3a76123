//! Single-dash flags: `-format=json` becomes `--format=json` before clap sees it.
//!
//! Vault's command line takes `-flag` and `--flag` alike, and people type the former. clap would
//! read `-format` as seven short flags. It is the other way round for flags of one letter: they are short ones to clap,
//! so `--n=1` becomes `-n=1`. The rewrite is purely textual: it needs no list of flags and so cannot fall behind one. Only
//! those that are left away when they are empty are listed.

use std::ffi::OsString;

/// Flags that say nothing when their value is empty, as for Vault's command line: scripts fill them from variables.
const SAY_NOTHING_WHEN_EMPTY: [&str; 24] = [
    "address",
    "ca-cert",
    "ca-path",
    "client-cert",
    "client-key",
    "default-lease-ttl",
    "display-name",
    "entity-alias",
    "explicit-max-ttl",
    "field",
    "format",
    "id",
    "increment",
    "max-lease-ttl",
    "method",
    "mode",
    "mount",
    "path",
    "period",
    "role",
    "tls-server-name",
    "ttl",
    "type",
    "wrap-ttl",
];

/// Rewrites every `-word` to `--word` and every `--x` to `-x`, up to a lone `--`, and leaves flags away that say nothing.
///
/// Kept as they are: `-` (standard input), single letters (`-f`, `-n=1`), negative numbers, anything
/// that is not UTF-8 and everything after `--`. So is all that follows the host of the verb `ssh`:
/// it is for another program.
pub(crate) fn normalise(args: Vec<OsString>) -> Vec<OsString> {
    let is_ssh = args.get(1).is_some_and(|verb| verb == "ssh");
    let mut kept = Vec::with_capacity(args.len());
    let mut verbatim = false;
    let mut before = String::new();
    let mut args = args.into_iter().peekable();
    while let Some(arg) = args.next() {
        let Some(text) = arg.to_str() else {
            kept.push(arg);
            continue;
        };
        verbatim |= text == "--";
        verbatim |= is_ssh && kept.len() > 1 && is_destination(text, &before);
        if verbatim {
            kept.push(arg);
            continue;
        }
        before = text.to_owned();
        let flag = rewritten(text).unwrap_or_else(|| text.to_owned());
        let name = flag.strip_prefix("--").unwrap_or_default();
        if name.strip_suffix('=').is_some_and(says_nothing_when_empty) {
            continue;
        }
        if says_nothing_when_empty(name) && args.next_if(|next| next.is_empty()).is_some() {
            continue;
        }
        kept.push(flag.into());
    }
    kept
}

fn says_nothing_when_empty(name: &str) -> bool {
    SAY_NOTHING_WHEN_EMPTY.contains(&name)
}

/// A flag with as many dashes as clap wants, if it has another number of them.
fn rewritten(text: &str) -> Option<String> {
    let single = text.strip_prefix('-')?;
    let bare = single.strip_prefix('-').unwrap_or(single);
    let name = bare.split('=').next().unwrap_or_default();
    let starts_with_letter = name.chars().next().is_some_and(|first| first.is_ascii_alphabetic());
    let wanted = if name.len() == 1 { format!("-{bare}") } else { format!("--{bare}") };
    (starts_with_letter && wanted != text).then_some(wanted)
}

/// Whether this names the host to log in at. A word after a flag without `=` may be the value of that flag, unless it
/// says who logs in.
fn is_destination(text: &str, before: &str) -> bool {
    let may_be_value = before.starts_with('-') && !before.contains('=');
    !text.starts_with('-') && (text.contains('@') || !may_be_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_are_doubled_where_they_mean_a_flag() {
        let table = [
            ("-format=json", "--format=json"),
            ("-format", "--format"),
            ("--format", "--format"),
            ("-cas=3", "--cas=3"),
            ("-custom-metadata=a=b", "--custom-metadata=a=b"),
            ("-ns=team", "--ns=team"),
            ("-n=1", "-n=1"),
            ("--n=1", "-n=1"),
            ("--f", "-f"),
            ("---f", "---f"),
            ("-f=false", "-f=false"),
            ("-f", "-f"),
            ("-h", "-h"),
            ("-", "-"),
            ("-1", "-1"),
            ("-1=x", "-1=x"),
            ("", ""),
            ("a=-b", "a=-b"),
            ("@file", "@file"),
            ("kv", "kv"),
            ("-\u{e9}t\u{e9}", "-\u{e9}t\u{e9}"),
        ];
        for (given, wanted) in table {
            assert_eq!(normalise(vec![given.into()]), vec![OsString::from(wanted)], "{given}");
        }
    }

    #[test]
    fn flags_with_an_empty_value_may_say_nothing() {
        for (given, wanted) in [
            (&["kv", "get", "-mount=", "-field", "", "a"][..], &["kv", "get", "a"][..]),
            (&["-description=", "-field=x", ""], &["--description=", "--field=x", ""]),
            (&["-description", "", "-mount"], &["--description", "", "--mount"]),
            (&["--", "-mount="], &["--", "-mount="]),
        ] {
            let normalised = normalise(given.iter().map(OsString::from).collect());
            assert_eq!(normalised, wanted.iter().map(OsString::from).collect::<Vec<_>>());
        }
    }

    #[test]
    fn two_dashes_end_the_flags() {
        let given = ["-mount", "--", "-mount"].map(OsString::from).to_vec();
        let wanted = ["--mount", "--", "-mount"].map(OsString::from).to_vec();
        assert_eq!(normalise(given), wanted);
    }

    #[test]
    fn what_is_for_ssh_is_left_as_it_is() {
        let given = ["kallisto", "ssh", "-mode=ca", "a@b", "-oX=y", "ls", "-la"];
        let wanted = ["kallisto", "ssh", "--mode=ca", "a@b", "-oX=y", "ls", "-la"];
        let normalised = normalise(given.map(OsString::from).to_vec());
        assert_eq!(normalised, wanted.map(OsString::from));
        let given = ["kallisto", "ssh", "-mode", "ca", "-role=dev", "10.0.0.7", "-oX=y", "-la"];
        let wanted = ["kallisto", "ssh", "--mode", "ca", "--role=dev", "10.0.0.7", "-oX=y", "-la"];
        let normalised = normalise(given.map(OsString::from).to_vec());
        assert_eq!(normalised, wanted.map(OsString::from));
    }
}
