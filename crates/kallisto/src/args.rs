//! Single-dash flags: `-format=json` becomes `--format=json` before clap sees it.
//!
//! Vault's command line takes `-flag` and `--flag` alike, and people type the former. clap would
//! read `-format` as seven short flags. The rewrite is purely textual: it needs no list of flags
//! and so cannot fall behind one.

use std::ffi::{OsStr, OsString};

/// Rewrites every `-word` to `--word`, up to a lone `--`.
///
/// Kept as they are: `-` (standard input), single letters (`-f`, `-h`), negative numbers, anything
/// that is not UTF-8 and everything after `--`. So is all that follows `USER@HOST` of the verb `ssh`:
/// it is for another program.
pub(crate) fn normalise(args: Vec<OsString>) -> Vec<OsString> {
    let is_ssh = args.get(1).is_some_and(|verb| verb == "ssh");
    let mut verbatim = false;
    args.into_iter()
        .map(|arg| {
            verbatim |= arg == OsStr::new("--");
            verbatim |= is_ssh && arg.to_str().is_some_and(is_destination);
            match arg.to_str() {
                Some(text) if !verbatim && is_single_dash_flag(text) => format!("-{text}").into(),
                _ => arg,
            }
        })
        .collect()
}

fn is_single_dash_flag(text: &str) -> bool {
    let Some(name) = text.strip_prefix('-') else { return false };
    let name = name.split('=').next().unwrap_or_default();
    let mut letters = name.chars();
    let starts_with_letter = letters.next().is_some_and(|first| first.is_ascii_alphabetic());
    starts_with_letter && (name.len() > 1 || text.contains('='))
}

fn is_destination(text: &str) -> bool {
    !text.starts_with('-') && text.contains('@')
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
            ("-f=false", "--f=false"),
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
    }
}
