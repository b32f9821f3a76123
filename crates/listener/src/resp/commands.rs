//! The table of commands, and `COMMAND`, which lists it.

use super::reply::Replies;
use super::session::{CommandArguments, CommandFailure};

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RespVerb {
    Auth,
    Client,
    Command,
    Del,
    Discard,
    Echo,
    Exec,
    Exists,
    Get,
    HDel,
    HExists,
    HGet,
    HGetAll,
    HKeys,
    HLen,
    HMGet,
    HMSet,
    HSet,
    HVals,
    Hello,
    Info,
    Keys,
    MGet,
    MSet,
    Multi,
    Ping,
    PTtl,
    Quit,
    Reset,
    Scan,
    Select,
    Set,
    StrLen,
    Ttl,
    Type,
}

impl RespVerb {
    /// Whether a transaction ends with it.
    pub(super) const fn ends_transaction(self) -> bool {
        matches!(self, Self::Discard | Self::Exec | Self::Reset)
    }
}

/// What Redis calls the flags of a command.
type Flags = &'static [&'static str];
/// The places of a command's keys: first, last, and from one to the next.
type KeyPlaces = (i64, i64, i64);

/// A row of the table.
pub(super) struct CommandRow {
    /// In lower case.
    pub(super) name: &'static str,
    pub(super) verb: RespVerb,
    /// Arguments with the name; below zero, at least so many.
    arity: i64,
    /// Most arguments with the name. `COMMAND` cannot tell: its arity has one end, and Redis checks the other in the command.
    most: usize,
    flags: Flags,
    keys: KeyPlaces,
}

impl CommandRow {
    /// Whether it takes so many arguments, its name among them.
    pub(super) fn takes(&self, count: usize) -> bool {
        let least = usize::try_from(self.arity.unsigned_abs()).unwrap_or(usize::MAX);
        if self.arity < 0 { (least..=self.most).contains(&count) } else { count == least }
    }

    /// Whether it runs before a client says who it is.
    pub(super) fn is_open(&self) -> bool {
        self.flags.contains(&NO_AUTH)
    }

    /// The same, with at most so many arguments.
    const fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }
}

const fn row(
    name: &'static str,
    verb: RespVerb,
    arity: i64,
    flags: Flags,
    keys: KeyPlaces,
) -> CommandRow {
    CommandRow { name, verb, arity, most: usize::MAX, flags, keys }
}

const READ: Flags = &["readonly", "fast"];
const SLOW_READ: Flags = &["readonly"];
const WRITE: Flags = &["write", "denyoom"];
const OWN: Flags = &["noscript", "fast"];
const OPEN: Flags = &["noscript", "loading", "fast", NO_AUTH];
const NO_AUTH: &str = "no_auth";
const NO_KEYS: KeyPlaces = (0, 0, 0);
const ONE_KEY: KeyPlaces = (1, 1, 1);
const ALL_KEYS: KeyPlaces = (1, -1, 1);

/// The commands there are.
const COMMANDS: [CommandRow; 36] = [
    row("auth", RespVerb::Auth, -2, OPEN, NO_KEYS),
    row("client", RespVerb::Client, -2, OWN, NO_KEYS),
    row("command", RespVerb::Command, -1, OWN, NO_KEYS),
    row("del", RespVerb::Del, -2, WRITE, ALL_KEYS),
    row("discard", RespVerb::Discard, 1, OWN, NO_KEYS),
    row("echo", RespVerb::Echo, 2, OWN, NO_KEYS),
    row("exec", RespVerb::Exec, 1, OWN, NO_KEYS),
    row("exists", RespVerb::Exists, -2, READ, ALL_KEYS),
    row("get", RespVerb::Get, 2, READ, ONE_KEY),
    row("hdel", RespVerb::HDel, -3, WRITE, ONE_KEY),
    row("hello", RespVerb::Hello, -1, OPEN, NO_KEYS),
    row("hexists", RespVerb::HExists, 3, READ, ONE_KEY),
    row("hget", RespVerb::HGet, 3, READ, ONE_KEY),
    row("hgetall", RespVerb::HGetAll, 2, SLOW_READ, ONE_KEY),
    row("hkeys", RespVerb::HKeys, 2, SLOW_READ, ONE_KEY),
    row("hlen", RespVerb::HLen, 2, READ, ONE_KEY),
    row("hmget", RespVerb::HMGet, -3, READ, ONE_KEY),
    row("hmset", RespVerb::HMSet, -4, WRITE, ONE_KEY),
    row("hset", RespVerb::HSet, -4, WRITE, ONE_KEY),
    row("hvals", RespVerb::HVals, 2, SLOW_READ, ONE_KEY),
    row("info", RespVerb::Info, -1, OWN, NO_KEYS),
    row("keys", RespVerb::Keys, 2, SLOW_READ, NO_KEYS),
    row("mget", RespVerb::MGet, -2, READ, ALL_KEYS),
    row("mset", RespVerb::MSet, -3, WRITE, (1, -1, 2)),
    row("multi", RespVerb::Multi, 1, OWN, NO_KEYS),
    row("ping", RespVerb::Ping, -1, OWN, NO_KEYS).at_most(2),
    row("pttl", RespVerb::PTtl, 2, READ, ONE_KEY),
    row("quit", RespVerb::Quit, -1, OPEN, NO_KEYS),
    row("reset", RespVerb::Reset, 1, OPEN, NO_KEYS),
    row("scan", RespVerb::Scan, -2, SLOW_READ, NO_KEYS),
    row("select", RespVerb::Select, 2, OWN, NO_KEYS),
    row("set", RespVerb::Set, -3, WRITE, ONE_KEY),
    row("strlen", RespVerb::StrLen, 2, READ, ONE_KEY),
    row("ttl", RespVerb::Ttl, 2, READ, ONE_KEY),
    row("type", RespVerb::Type, 2, READ, ONE_KEY),
    row("unlink", RespVerb::Del, -2, WRITE, ALL_KEYS),
];

/// The row of a name in lower case, which has to be there.
const fn row_of(name: &str) -> &'static CommandRow {
    let mut at = 0;
    while !is_same(COMMANDS[at].name.as_bytes(), name.as_bytes()) {
        at += 1;
    }
    &COMMANDS[at]
}

const fn is_same(mut one: &[u8], mut other: &[u8]) -> bool {
    while let ([a, rest @ ..], [b, others @ ..]) = (one, other) {
        if *a != *b {
            return false;
        }
        (one, other) = (rest, others);
    }
    one.len() == other.len()
}

/// The command of a name in upper case.
pub(super) fn find(name: &[u8]) -> Option<&'static CommandRow> {
    // Nearly every command is this one.
    const GET: &CommandRow = row_of("get");
    if name == b"GET" {
        return Some(GET);
    }
    COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

/// `COMMAND`, `COMMAND COUNT|INFO|LIST|DOCS`.
pub(super) fn describe(
    replies: &mut Replies,
    arguments: CommandArguments<'_>,
) -> Result<(), CommandFailure> {
    match arguments.word(1).as_str() {
        "" => {
            replies.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| write(replies, command));
        }
        "COUNT" => replies.integer(COMMANDS.len() as i64),
        "LIST" => {
            replies.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| replies.bulk(command.name.as_bytes()));
        }
        "INFO" => {
            replies.array(arguments.len() - 2);
            for at in 2..arguments.len() {
                match find(arguments.word(at).as_bytes()) {
                    Some(command) => write(replies, command),
                    None => replies.null(),
                }
            }
        }
        // Texts for people, which clients do without.
        "DOCS" => replies.map(0),
        _ => return Err(CommandFailure::plain("unknown subcommand of 'command'")),
    }
    Ok(())
}

fn write(replies: &mut Replies, command: &CommandRow) {
    replies.array(10);
    replies.bulk(command.name.as_bytes());
    replies.integer(command.arity);
    replies.array(command.flags.len());
    command.flags.iter().for_each(|flag| replies.simple(flag));
    let (first, last, step) = command.keys;
    [first, last, step].into_iter().for_each(|place| replies.integer(place));
    // Categories, tips, key specifications and subcommands, which clients of version 3 look for.
    (0..4).for_each(|_| replies.array(0));
}

#[cfg(test)]
mod tests {
    use kallisto_reference::{hold, page, table};

    use super::*;

    /// How many arguments, as `COMMAND` counts them: with the name.
    fn arguments(command: &CommandRow) -> String {
        match command.arity {
            1 => "none".to_owned(),
            arity if arity < 0 && command.most < usize::MAX => {
                format!("{} to {}", -arity - 1, command.most - 1)
            }
            -1 => "any number".to_owned(),
            arity if arity < 0 => format!("{} or more", -arity - 1),
            arity => format!("{}", arity - 1),
        }
    }

    #[test]
    fn the_page_of_commands_is_what_the_table_says() {
        let about = "The commands of the Redis protocol, as `COMMAND` tells them. What each of them asks for and does is in \
            [The Redis protocol](../resp.md).";
        let mut text = page("RESP commands", about, "the table of commands");
        let rows = COMMANDS.iter().map(|command| {
            let keys = match command.keys {
                (0, ..) => "none",
                (_, 1, _) => "the first argument",
                (.., 2) => "every second argument",
                _ => "all arguments",
            };
            let name = format!("`{}`", command.name.to_uppercase());
            vec![name, arguments(command), keys.to_owned(), command.flags.join(", ")]
        });
        table(&mut text, &["command", "arguments", "keys", "flags"], rows);
        hold("resp-commands.md", &format!("{}\n", text.trim_end()));
    }

    #[test]
    fn the_table_is_sorted_and_found_in() {
        assert!(COMMANDS.is_sorted_by_key(|command| command.name));
        for command in &COMMANDS {
            let found = find(command.name.to_ascii_uppercase().as_bytes()).unwrap();
            assert_eq!(found.verb, command.verb);
        }
        assert!(find(b"FLUSHALL").is_none());
        assert!(find(b"GET").unwrap().takes(2) && !find(b"GET").unwrap().takes(3));
        let ping = find(b"PING").unwrap();
        assert!(ping.takes(1) && ping.takes(2) && !ping.takes(3));
        assert_eq!(arguments(ping), "0 to 1");
        assert!(find(b"DEL").unwrap().takes(9) && !find(b"DEL").unwrap().takes(1));
    }
}
