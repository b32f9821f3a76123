//! What a device was asked to be: its type and options, read as the wire contract has them.
//!
//! Options are text by name. They are kept as they came, so that a listing shows what was given;
//! what they mean is read here once, and a device is made of nothing else.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::limits::{
    DEADLINE_DEFAULT, DEADLINE_MAX, OPTION_BYTES_MAX, OPTIONS_MAX, PREFIX_BYTES_MAX,
};
use crate::mask::Secrecy;

/// Options by name.
pub type DeviceOptions = BTreeMap<String, String>;

/// A device as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Where its records go.
    pub destination: AuditDestination,
    /// How they look.
    pub form: RecordForm,
    /// Whether values are masked.
    pub secrecy: Secrecy,
    /// How long it may take over one group.
    pub deadline: Duration,
}

/// What a device writes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordLayout {
    /// Two records with everything in each, as Vault's (`format=json`).
    Full,
    /// Everything once, and nothing that its ids lead to (`format=compact`).
    Compact,
}

/// How the records of a device look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordForm {
    /// What they say.
    pub layout: RecordLayout,
    /// Stands before every record.
    pub prefix: String,
    /// Whether accessors are masked as tokens are.
    pub masks_accessors: bool,
    /// Whether listings show how many names they have in place of the names.
    pub elides_listings: bool,
}

/// Where records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditDestination {
    /// To a file.
    File {
        /// Its path.
        path: PathBuf,
        /// Its permissions; `None` leaves them as they are.
        mode: Option<u32>,
    },
    /// To the standard output of the server.
    Stdout,
    /// Nowhere; records are made all the same.
    Discard,
    /// To a socket.
    Socket {
        /// What kind of socket.
        transport: SocketTransport,
        /// `host:port`, or a path.
        address: String,
    },
    /// To the machine's syslog.
    Syslog {
        /// The socket of the daemon.
        socket: PathBuf,
        /// Facility and severity, as one number.
        priority: u8,
        /// The name records come under.
        tag: String,
    },
}

impl AuditDestination {
    /// The file that it writes, if it writes one. Of a new destination that does, the rest follows: its path is checked, no two devices
    /// share it, its records can be read, and `operator diagnose` looks at it.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File { path, .. } => Some(path),
            Self::Stdout | Self::Discard | Self::Socket { .. } | Self::Syslog { .. } => None,
        }
    }
}

/// What kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketTransport {
    /// A TCP connection.
    Tcp,
    /// One datagram a record.
    Udp,
    /// A connection to a socket of this machine.
    Unix,
}

/// The names of syslog's facilities, by their number (RFC 5424, 6.2.1).
const FACILITIES: [&str; 24] = [
    "KERN", "USER", "MAIL", "DAEMON", "AUTH", "SYSLOG", "LPR", "NEWS", "UUCP", "CRON", "AUTHPRIV",
    "FTP", "NTP", "AUDIT", "ALERT", "CLOCK", "LOCAL0", "LOCAL1", "LOCAL2", "LOCAL3", "LOCAL4",
    "LOCAL5", "LOCAL6", "LOCAL7",
];
/// The severity of records: informational.
const SEVERITY: u8 = 6;
const SYSLOG_SOCKET: &str = "/dev/log";
const TAG_BYTES_MAX: usize = 32;
/// Most letters that may differ for an unknown option to be taken for a known one, and that are looked at.
const TYPO_LETTERS_MAX: usize = 2;
const NAME_LETTERS_MAX: usize = 64;

impl DeviceSpec {
    /// Refuses options that change what records hold and that no device here serves. Not part of [`DeviceSpec::parse`]: a device that was enabled
    /// with one before goes on as it did.
    ///
    /// # Errors
    /// Which one.
    pub fn check_served(options: &DeviceOptions) -> Result<(), String> {
        match options.contains_key("exclude") {
            true => Err("the option exclude is not available".to_owned()),
            false => Ok(()),
        }
    }

    /// Reads a device's type and options.
    ///
    /// # Errors
    /// What is wrong and where, in the words of the wire contract where it has some. No message
    /// repeats the value of an option but where clients know it so.
    pub fn parse(kind: &str, options: &DeviceOptions) -> Result<Self, String> {
        if options.len() > OPTIONS_MAX {
            return Err(format!("more than {OPTIONS_MAX} options"));
        }
        if let Some((name, _)) = options.iter().find(|(_, text)| text.len() > OPTION_BYTES_MAX) {
            return Err(format!("option {name:?} is longer than {OPTION_BYTES_MAX} bytes"));
        }
        Self::read(kind, &NamedOptions { options, asked: RefCell::default() })
    }

    /// The options that a device of this kind does not know, each in a sentence that says which one may be meant.
    pub fn unknown_options(kind: &str, options: &DeviceOptions) -> Vec<String> {
        let given = NamedOptions { options, asked: RefCell::default() };
        if Self::read(kind, &given).is_err() {
            // Not all of it was read, and something else is wrong first.
            return Vec::new();
        }
        let asked = given.asked.into_inner();
        let unknown = options.keys().filter(|name| !asked.contains(name.as_str()));
        unknown
            .map(|name| {
                let meant = asked.iter().map(|known| (letters_apart(name, known), known)).min();
                let meant = meant.filter(|(letters, _)| *letters <= TYPO_LETTERS_MAX);
                let meant = meant.map(|(_, known)| format!(": did you mean {known:?}?"));
                format!("unknown option {name:?}{}", meant.unwrap_or_default())
            })
            .collect()
    }

    /// Reads what is asked for; that is what a device knows.
    fn read(kind: &str, given: &NamedOptions<'_>) -> Result<Self, String> {
        let destination = match kind {
            "file" => file(given),
            "socket" => socket(given),
            "syslog" => syslog(given),
            other => Err(format!("unknown backend type: {other:?}")),
        };
        let destination = destination?;
        let layout = match given.text("format").unwrap_or("json") {
            "" | "json" => RecordLayout::Full,
            "compact" => RecordLayout::Compact,
            "jsonx" => {
                return Err("format \"jsonx\" is not available: use json or compact".to_owned());
            }
            other => return Err(format!("unknown format type {other:?}")),
        };
        let prefix = given.text("prefix").unwrap_or_default();
        if prefix.len() > PREFIX_BYTES_MAX || prefix.chars().any(|c| c.is_control() || c == '{') {
            return Err(format!(
                "prefix must be at most {PREFIX_BYTES_MAX} bytes, without control characters and {{"
            ));
        }
        if given.text("filter").is_some() || given.text("fallback").is_some() {
            return Err("the options filter and fallback are not available".to_owned());
        }
        let raw = given.switch("log_raw")?.unwrap_or(false);
        Ok(Self {
            destination,
            form: RecordForm {
                layout,
                prefix: prefix.to_owned(),
                masks_accessors: given.switch("hmac_accessor")?.unwrap_or(true),
                elides_listings: given.switch("elide_list_responses")?.unwrap_or(false),
            },
            secrecy: if raw { Secrecy::Raw } else { Secrecy::Masked },
            deadline: deadline(given)?,
        })
    }
}

/// Options under the names they are known by, and which were asked for.
struct NamedOptions<'a> {
    options: &'a DeviceOptions,
    asked: RefCell<BTreeSet<&'static str>>,
}

impl<'a> NamedOptions<'a> {
    fn text(&self, name: &'static str) -> Option<&'a str> {
        self.asked.borrow_mut().insert(name);
        self.options.get(name).map(String::as_str)
    }

    fn switch(&self, name: &'static str) -> Result<Option<bool>, String> {
        match self.text(name) {
            None => Ok(None),
            Some("1" | "t" | "T" | "TRUE" | "true" | "True") => Ok(Some(true)),
            Some("0" | "f" | "F" | "FALSE" | "false" | "False") => Ok(Some(false)),
            Some(_) => Err(format!("option {name:?} is neither true nor false")),
        }
    }
}

/// How many letters have to be changed, added or left out to make one word of the other.
fn letters_apart(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.bytes().enumerate().take(NAME_LETTERS_MAX) {
        let mut before = std::mem::replace(&mut row[0], at + 1);
        for (at, known) in other.bytes().enumerate() {
            let same = before + usize::from(letter != known);
            before = row[at + 1];
            row[at + 1] = same.min(before + 1).min(row[at] + 1);
        }
    }
    row[other.len()]
}

fn file(given: &NamedOptions<'_>) -> Result<AuditDestination, String> {
    let path = given.text("file_path").or(given.text("path")).unwrap_or_default();
    // It means nothing of what is no file, and is known all the same.
    given.text("mode");
    let is = |name: &str| path.eq_ignore_ascii_case(name);
    Ok(match path {
        "" => return Err("file_path is required".to_owned()),
        "/dev/stdout" => AuditDestination::Stdout,
        "/dev/null" => AuditDestination::Discard,
        _ if is("stdout") => AuditDestination::Stdout,
        _ if is("discard") => AuditDestination::Discard,
        path => AuditDestination::File { path: path.into(), mode: mode(given)? },
    })
}

/// Octal permissions; all zeros leave those of the file as they are.
fn mode(given: &NamedOptions<'_>) -> Result<Option<u32>, String> {
    let Some(text) = given.text("mode").filter(|text| !text.is_empty()) else {
        return Ok(Some(0o600));
    };
    match u32::from_str_radix(text, 8) {
        Ok(0) => Ok(None),
        Ok(mode) if mode & !0o777 == 0 && mode & 0o200 != 0 => Ok(Some(mode)),
        _ => {
            Err("mode must be octal permissions that let the owner write, such as 0600".to_owned())
        }
    }
}

fn socket(given: &NamedOptions<'_>) -> Result<AuditDestination, String> {
    let address = given.text("address").unwrap_or_default();
    if address.is_empty() {
        return Err("address is required".to_owned());
    }
    let transport = match given.text("socket_type").unwrap_or("tcp") {
        "tcp" | "" => SocketTransport::Tcp,
        "udp" => SocketTransport::Udp,
        "unix" => SocketTransport::Unix,
        _ => return Err("socket_type must be tcp, udp or unix".to_owned()),
    };
    Ok(AuditDestination::Socket { transport, address: address.to_owned() })
}

fn syslog(given: &NamedOptions<'_>) -> Result<AuditDestination, String> {
    let facility = given.text("facility").unwrap_or("AUTH").to_ascii_uppercase();
    let Some(number) = FACILITIES.iter().position(|name| *name == facility) else {
        return Err(format!("invalid syslog facility: {facility}"));
    };
    let tag = given.text("tag").filter(|tag| !tag.is_empty()).unwrap_or("kallisto");
    if tag.len() > TAG_BYTES_MAX
        || !tag.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    {
        return Err(format!("tag must be at most {TAG_BYTES_MAX} letters, digits, - _ or ."));
    }
    Ok(AuditDestination::Syslog {
        socket: SYSLOG_SOCKET.into(),
        priority: u8::try_from(number * 8).unwrap_or(u8::MAX) | SEVERITY,
        tag: tag.to_owned(),
    })
}

/// A number of seconds, or a duration such as `500ms` or `1m`.
fn deadline(given: &NamedOptions<'_>) -> Result<Duration, String> {
    let Some(text) = given.text("write_timeout").filter(|text| !text.is_empty()) else {
        return Ok(DEADLINE_DEFAULT);
    };
    let deadline = kallisto_duration::parse_unsigned(text);
    deadline.filter(|d| !d.is_zero() && *d <= DEADLINE_MAX).ok_or_else(|| {
        format!("write_timeout must be like 2s or 500ms, at most {}s", DEADLINE_MAX.as_secs())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(kind: &str, options: &[(&str, &str)]) -> Result<DeviceSpec, String> {
        let options =
            options.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        DeviceSpec::parse(kind, &options)
    }

    #[test]
    fn devices_are_what_their_options_say() {
        let spec = parse("file", &[("file_path", "/var/log/a.log")]).unwrap();
        let file = AuditDestination::File { path: "/var/log/a.log".into(), mode: Some(0o600) };
        assert_eq!((spec.destination, spec.secrecy), (file, Secrecy::Masked));
        assert!(spec.form.masks_accessors && !spec.form.elides_listings);
        assert_eq!(spec.form.layout, RecordLayout::Full);
        let spec = parse("file", &[("path", "discard"), ("format", "compact")]).unwrap();
        assert_eq!(spec.form.layout, RecordLayout::Compact);
        let spec = parse("file", &[("path", "discard"), ("log_raw", "true")]).unwrap();
        assert_eq!((spec.destination, spec.secrecy), (AuditDestination::Discard, Secrecy::Raw));
        let spec = parse("syslog", &[("facility", "local0")]).unwrap();
        let AuditDestination::Syslog { priority, tag, .. } = spec.destination else {
            panic!("syslog")
        };
        assert_eq!((priority, tag.as_str()), (16 * 8 + 6, "kallisto"));
        let spec = parse("socket", &[("address", "h:1"), ("write_timeout", "500ms")]).unwrap();
        assert_eq!(spec.deadline, Duration::from_millis(500));
    }

    #[test]
    fn what_makes_no_device_is_refused_by_name() {
        for (kind, options, why) in [
            ("bogus", vec![], "unknown backend type"),
            ("file", vec![], "file_path is required"),
            ("file", vec![("file_path", "/a"), ("mode", "abc")], "mode"),
            ("file", vec![("file_path", "/a"), ("mode", "4755")], "mode"),
            ("file", vec![("file_path", "/a"), ("format", "xml")], "unknown format type"),
            ("file", vec![("file_path", "/a"), ("format", "jsonx")], "jsonx"),
            ("file", vec![("file_path", "/a"), ("prefix", "a\nb")], "prefix"),
            ("file", vec![("file_path", "/a"), ("prefix", "{")], "prefix"),
            ("file", vec![("file_path", "/a"), ("log_raw", "maybe")], "log_raw"),
            ("file", vec![("file_path", "/a"), ("filter", "x")], "filter"),
            ("socket", vec![], "address is required"),
            ("socket", vec![("address", "a"), ("socket_type", "x")], "socket_type"),
            ("socket", vec![("address", "a"), ("write_timeout", "1h")], "write_timeout"),
            ("syslog", vec![("facility", "zz")], "invalid syslog facility: ZZ"),
            ("syslog", vec![("tag", "a b")], "tag"),
        ] {
            let error = parse(kind, &options).unwrap_err();
            assert!(error.contains(why), "{kind} {options:?}: {error}");
        }
    }

    #[test]
    fn options_that_nobody_reads_are_named_with_what_is_meant() {
        let unknown = |kind: &str, options: &[(&str, &str)]| {
            let options =
                options.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
            DeviceSpec::unknown_options(kind, &options.collect())
        };
        let all = [
            ("elide_list_responses", "true"),
            ("format", "compact"),
            ("hmac_accessor", "true"),
            ("log_raw", "true"),
            ("prefix", "p"),
            ("write_timeout", "1s"),
        ];
        for (kind, own) in [
            ("file", &[("file_path", "/a"), ("path", "/b"), ("mode", "0600")][..]),
            ("file", &[("file_path", "stdout"), ("mode", "0600")]),
            ("socket", &[("address", "h:1"), ("socket_type", "udp")]),
            ("syslog", &[("facility", "AUTH"), ("tag", "t")]),
        ] {
            assert_eq!(unknown(kind, &[&all[..], own].concat()), Vec::<String>::new(), "{kind}");
        }
        let meant = "unknown option \"fromat\": did you mean \"format\"?";
        let said = unknown("file", &[("path", "/a"), ("fromat", "compact"), ("bogus", "1")]);
        assert_eq!(said, ["unknown option \"bogus\"", meant]);
    }

    #[test]
    fn every_spelling_of_a_switch_is_read() {
        for (texts, is_on) in [
            (["1", "t", "T", "TRUE", "true", "True"], true),
            (["0", "f", "F", "FALSE", "false", "False"], false),
        ] {
            for text in texts {
                let given =
                    ["hmac_accessor", "elide_list_responses", "log_raw"].map(|name| (name, text));
                let spec = parse("file", &[&[("path", "discard")][..], &given].concat()).unwrap();
                assert_eq!((spec.form.masks_accessors, spec.form.elides_listings), (is_on, is_on));
                let secrecy = if is_on { Secrecy::Raw } else { Secrecy::Masked };
                assert_eq!(spec.secrecy, secrecy, "{text}");
            }
        }
    }

    #[test]
    fn a_mode_lets_the_owner_write_and_sets_no_other_bits() {
        let mode = |text| {
            let spec = parse("file", &[("file_path", "/a"), ("mode", text)]).ok()?;
            let AuditDestination::File { mode, .. } = spec.destination else { panic!("a file") };
            Some(mode)
        };
        for (text, want) in [("", 0o600), ("0600", 0o600), ("200", 0o200), ("777", 0o777)] {
            assert_eq!(mode(text), Some(Some(want)), "{text:?}");
        }
        assert_eq!((mode("0"), mode("0000")), (Some(None), Some(None)), "as the file has it");
        for text in ["0400", "577", "1600", "1777", "8", "-600", " 600"] {
            assert_eq!(mode(text), None, "{text:?}");
        }
    }

    #[test]
    fn places_are_read_by_every_name_they_have() {
        let destination = |kind, options: &[_]| parse(kind, options).unwrap().destination;
        for (path, want) in [
            ("stdout", AuditDestination::Stdout),
            ("/dev/stdout", AuditDestination::Stdout),
            ("discard", AuditDestination::Discard),
            ("/dev/null", AuditDestination::Discard),
            ("STDOUT", AuditDestination::Stdout),
            ("Discard", AuditDestination::Discard),
        ] {
            assert_eq!(destination("file", &[("path", path)]), want);
        }
        let file = AuditDestination::File { path: "/a".into(), mode: Some(0o600) };
        assert_eq!(destination("file", &[("file_path", "/a"), ("path", "/b")]), file);
        for (kind, want) in [
            ("", SocketTransport::Tcp),
            ("tcp", SocketTransport::Tcp),
            ("udp", SocketTransport::Udp),
            ("unix", SocketTransport::Unix),
        ] {
            let got = destination("socket", &[("address", "h:1"), ("socket_type", kind)]);
            let want = AuditDestination::Socket { transport: want, address: "h:1".to_owned() };
            assert_eq!(got, want, "{kind:?}");
        }
        let syslog = |options: &[_]| match destination("syslog", options) {
            AuditDestination::Syslog { socket, priority, tag } => {
                assert_eq!(socket, PathBuf::from("/dev/log"));
                (priority, tag)
            }
            other => panic!("{other:?}"),
        };
        let named = |priority, tag: &str| (priority, tag.to_owned());
        assert_eq!(syslog(&[]), named(4 * 8 + 6, "kallisto"));
        assert_eq!(syslog(&[("facility", "kern"), ("tag", "")]), named(6, "kallisto"));
        assert_eq!(syslog(&[("facility", "LOCAL7"), ("tag", "a-b_c.D9")]), named(190, "a-b_c.D9"));
    }

    #[test]
    fn a_deadline_is_more_than_nothing_and_no_more_than_its_limit() {
        let read = |text: &str| {
            let spec = parse("file", &[("path", "discard"), ("write_timeout", text)]);
            spec.map(|spec| spec.deadline).map_err(|error| error.contains("write_timeout"))
        };
        let most = DEADLINE_MAX.as_secs();
        assert_eq!(read(""), Ok(DEADLINE_DEFAULT));
        assert_eq!(parse("file", &[("path", "discard")]).unwrap().deadline, DEADLINE_DEFAULT);
        for (text, want) in
            [("3", 3000), ("3s", 3000), ("3ms", 3), ("1ms", 1), ("1.5s", 1500), ("1m", 60_000)]
        {
            assert_eq!(read(text), Ok(Duration::from_millis(want)), "{text}");
        }
        assert_eq!(read(&format!("{most}s")), Ok(DEADLINE_MAX));
        assert_eq!(read(&format!("{}ms", most * 1000)), Ok(DEADLINE_MAX));
        let over = format!("{}ms", most * 1000 + 1);
        for text in ["0", "0s", "0ms", "-1", "1.5", "s", "18446744073709552s", "1h", &over] {
            assert_eq!(read(text), Err(true), "{text}");
        }
    }

    #[test]
    fn what_is_at_its_limit_is_taken_and_what_is_over_it_is_not() {
        let with = |name: &str, text: String| {
            parse("file", &[("path", "discard"), (name, &text)]).map(|_| ())
        };
        assert_eq!(with("prefix", "p".repeat(PREFIX_BYTES_MAX)), Ok(()));
        assert!(with("prefix", "p".repeat(PREFIX_BYTES_MAX + 1)).unwrap_err().contains("prefix"));
        assert_eq!(with("other", "o".repeat(OPTION_BYTES_MAX)), Ok(()));
        assert!(with("other", "o".repeat(OPTION_BYTES_MAX + 1)).unwrap_err().contains("other"));
        let tag = |text: String| parse("syslog", &[("tag", &text)]).map(|_| ());
        assert_eq!(tag("t".repeat(TAG_BYTES_MAX)), Ok(()));
        assert!(tag("t".repeat(TAG_BYTES_MAX + 1)).unwrap_err().contains("tag"));
        let many = |count: usize| {
            let names: Vec<String> = (1..count).map(|n| format!("option{n}")).collect();
            let options = names.iter().map(|name| (name.as_str(), ""));
            parse("file", &options.chain([("path", "discard")]).collect::<Vec<_>>()).map(|_| ())
        };
        assert_eq!(many(OPTIONS_MAX), Ok(()));
        assert!(many(OPTIONS_MAX + 1).unwrap_err().contains("options"));
    }
}
