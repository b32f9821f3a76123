//! `AUTH`, `HELLO`, `SELECT`, `CLIENT`, `INFO`, `PING`, `RESET`: the commands about the connection itself.

use kallisto_core::json::{self, Json};
use kallisto_core::{Denial, Error, Operation, Response};
use secrecy::SecretString;
use zeroize::Zeroizing;

use super::reply::{Replies, RespVersion};
use super::session::{CommandArguments, CommandFailure, RespSession, integer};

/// The version of Redis whose commands and forms are served, for clients that ask.
const REDIS_VERSION: &str = "7.2.0";
/// Users whose password is a token.
const TOKEN_USERS: [&str; 2] = ["default", "token"];
/// Longest name of a client, in bytes.
const NAME_BYTES_MAX: usize = 256;

impl RespSession {
    pub(super) async fn authenticate(
        &mut self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
    ) -> Result<(), CommandFailure> {
        match arguments.len() {
            2 => self.log_in(TOKEN_USERS[0], arguments.text(1)?).await?,
            3 => self.log_in(arguments.text(1)?, arguments.text(2)?).await?,
            _ => return Err(CommandFailure::syntax()),
        }
        replies.ok();
        Ok(())
    }

    /// Takes a token, or the one that a user's password earns. Whoever asked before stays who it was
    /// when this fails.
    async fn log_in(&mut self, user: &str, password: &str) -> Result<(), CommandFailure> {
        let token = if TOKEN_USERS.contains(&user) {
            SecretString::from(password)
        } else {
            self.exchange(user, password).await?
        };
        let before = self.token.replace(token);
        let known = self.ask(Operation::Read, "auth/token/lookup-self", &[], &[]).await;
        match known {
            // One without the right to look itself up is a token nevertheless.
            Ok(_) | Err(Error::Denied(Denial::Policy)) => Ok(()),
            Err(error) => {
                self.token = before;
                Err(CommandFailure::of_login(error))
            }
        }
    }

    /// Whether the token that asks is one, wherever it is at home. A mount may be in a namespace that it is not of, where it is told that it is
    /// none.
    pub(super) async fn has_live_token(&self) -> bool {
        let known = self.ask(Operation::Read, "auth/token/lookup-self", &[], &[]).await;
        !matches!(known, Err(Error::Denied(Denial::BadToken)))
    }

    async fn exchange(&self, user: &str, password: &str) -> Result<SecretString, CommandFailure> {
        let path = format!("auth/{}/login/{user}", self.shared.userpass);
        let body = Zeroizing::new(Json::object([("password", password.into())]).to_text());
        match self.ask(Operation::Update, &path, &[], &body).await {
            Ok(Response::Logical(reply)) => {
                let raw = json::member(&reply.auth, "client_token").unwrap_or_default();
                match json::parse(raw) {
                    // The password was right: there is a requirement in the place of a token.
                    Ok(Json::String(token)) if token.is_empty() => Err(CommandFailure::plain(
                        "this login needs a second factor: log in over HTTP, then AUTH with its token",
                    )),
                    Ok(Json::String(token)) => Ok(token.into()),
                    _ => Err(CommandFailure::of_login(Error::NotFound)),
                }
            }
            Ok(_) => Err(CommandFailure::of_login(Error::NotFound)),
            Err(error) => Err(CommandFailure::of_login(error)),
        }
    }

    pub(super) async fn hello(
        &mut self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
    ) -> Result<(), CommandFailure> {
        let protocol = match arguments.get(1) {
            None => replies.protocol,
            Some(given) => version_of(given)?,
        };
        let mut at = 2;
        while at < arguments.len() {
            match arguments.word(at).as_str() {
                "AUTH" if at + 2 < arguments.len() => {
                    self.log_in(arguments.text(at + 1)?, arguments.text(at + 2)?).await?;
                    at += 3;
                }
                "SETNAME" if at + 1 < arguments.len() => {
                    self.set_name(arguments.get(at + 1).unwrap_or_default())?;
                    at += 2;
                }
                _ => return Err(CommandFailure::syntax()),
            }
        }
        if self.token.is_none() {
            if self.shared.core.is_sealed() {
                return Err(Error::Sealed.into());
            }
            return Err(CommandFailure {
                word: "NOAUTH",
                text: "HELLO must be called with the client already authenticated, otherwise the \
                       HELLO <proto> AUTH <user> <pass> option can be used to authenticate the \
                       client and select the RESP protocol version at the same time"
                    .into(),
            });
        }
        replies.protocol = protocol;
        replies.map(7);
        for (name, value) in [("server", "kallisto"), ("version", REDIS_VERSION)] {
            replies.bulk(name.as_bytes());
            replies.bulk(value.as_bytes());
        }
        replies.bulk(b"proto");
        replies.integer(match protocol {
            RespVersion::Two => 2,
            RespVersion::Three => 3,
        });
        replies.bulk(b"id");
        replies.integer(i64::try_from(self.id).unwrap_or(i64::MAX));
        for (name, value) in [("mode", "standalone"), ("role", self.role().in_hello())] {
            replies.bulk(name.as_bytes());
            replies.bulk(value.as_bytes());
        }
        replies.bulk(b"modules");
        replies.array(0);
        Ok(())
    }

    fn set_name(&mut self, name: &[u8]) -> Result<(), CommandFailure> {
        let is_plain = name.iter().all(|byte| byte.is_ascii_graphic());
        if !is_plain || name.len() > NAME_BYTES_MAX {
            return Err(CommandFailure::plain(
                "Client names cannot contain spaces, newlines or special characters.",
            ));
        }
        self.name = name.to_vec();
        Ok(())
    }

    pub(super) fn client(
        &mut self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
    ) -> Result<(), CommandFailure> {
        match arguments.word(1).as_str() {
            "ID" => replies.integer(i64::try_from(self.id).unwrap_or(i64::MAX)),
            "GETNAME" if self.name.is_empty() => replies.null(),
            "GETNAME" => replies.bulk(&self.name),
            "SETNAME" => {
                self.set_name(arguments.get(2).unwrap_or_default())?;
                replies.ok();
            }
            "INFO" => {
                let name = String::from_utf8_lossy(&self.name);
                let (id, remote, db) = (self.id, self.remote, self.selected);
                let line = format!("id={id} addr={remote} name={name} db={db}\n");
                replies.bulk(line.as_bytes());
            }
            "SETINFO" => {
                check_info(arguments)?;
                replies.ok();
            }
            // How a client's memory is managed: nothing depends on it.
            "NO-EVICT" | "NO-TOUCH" => replies.ok(),
            other => {
                let shown = other.to_ascii_lowercase();
                return Err(CommandFailure::plain(format!("unknown subcommand 'client|{shown}'")));
            }
        }
        Ok(())
    }

    /// The configured mounts are the databases.
    pub(super) fn select(
        &mut self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
    ) -> Result<(), CommandFailure> {
        self.selected = database_of(arguments, self.shared.mounts.len())?;
        replies.ok();
        Ok(())
    }

    pub(super) fn ping(&self, replies: &mut Replies, arguments: CommandArguments<'_>) {
        match arguments.get(1) {
            None => replies.simple("PONG"),
            Some(text) => replies.bulk(text),
        }
    }

    pub(super) fn info(&self, replies: &mut Replies) {
        let mut text = format!(
            "# Server\r\nredis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\n\
             kallisto_version:{}\r\n\r\n# Replication\r\n{}\r\n# Keyspace\r\n",
            env!("CARGO_PKG_VERSION"),
            self.role().in_info()
        );
        for (at, mount) in self.shared.mounts.iter().enumerate() {
            text.push_str(&format!("db{at}:mount={mount}\r\n"));
        }
        replies.bulk(text.as_bytes());
    }

    /// Clients that are given several servers write to the one that says it is a master.
    fn role(&self) -> ServerRole {
        let store = self.shared.core.store();
        if store.leads() {
            return ServerRole::Leader;
        }
        let cluster = store.replicated();
        let has_leader = cluster.is_some_and(|cluster| cluster.leadership().leader_id != 0);
        ServerRole::Follower { has_leader }
    }

    /// As after connecting.
    pub(super) fn reset(&mut self, replies: &mut Replies) {
        self.token = None;
        self.selected = 0;
        self.name.clear();
        replies.protocol = RespVersion::Two;
        replies.simple("RESET");
    }
}

/// What a server is in its cluster, in Redis's words. Of a replica Redis also says where its master is; at which address the leader has a
/// listener of this protocol, if it has one, is not known here.
#[derive(Clone, Copy)]
enum ServerRole {
    Leader,
    Follower { has_leader: bool },
}

impl ServerRole {
    const fn in_hello(self) -> &'static str {
        match self {
            Self::Leader => "master",
            Self::Follower { .. } => "replica",
        }
    }

    const fn in_info(self) -> &'static str {
        match self {
            Self::Leader => "role:master\r\n",
            Self::Follower { has_leader: true } => "role:slave\r\nmaster_link_status:up\r\n",
            Self::Follower { has_leader: false } => "role:slave\r\nmaster_link_status:down\r\n",
        }
    }
}

/// The version of the protocol that `HELLO` asks for.
fn version_of(given: &[u8]) -> Result<RespVersion, CommandFailure> {
    match integer(given) {
        Some(2) => Ok(RespVersion::Two),
        Some(3) => Ok(RespVersion::Three),
        Some(_) => {
            Err(CommandFailure { word: "NOPROTO", text: "unsupported protocol version".into() })
        }
        None => Err(CommandFailure::plain("Protocol version is not an integer or out of range")),
    }
}

/// The database that `SELECT` asks for, of so many.
fn database_of(arguments: CommandArguments<'_>, count: usize) -> Result<usize, CommandFailure> {
    let given = arguments.integer(1).ok_or_else(CommandFailure::no_integer)?;
    let index = usize::try_from(given).ok().filter(|&index| index < count);
    index.ok_or_else(|| CommandFailure::plain("DB index is out of range"))
}

/// Checks what `CLIENT SETINFO` says of a client library, as Redis 7.2 does. Nothing depends on it, so it is not kept.
fn check_info(arguments: CommandArguments<'_>) -> Result<(), CommandFailure> {
    if arguments.len() != 4 {
        return Err(CommandFailure::plain(
            "wrong number of arguments for 'client|setinfo' command",
        ));
    }
    let option = arguments.text(2)?;
    if !["lib-name", "lib-ver"].iter().any(|known| known.eq_ignore_ascii_case(option)) {
        return Err(CommandFailure::plain(format!("Unrecognized option '{option}'")));
    }
    let is_plain = |text: &[u8]| text.iter().all(u8::is_ascii_graphic);
    match arguments.get(3) {
        Some(value) if is_plain(value) => Ok(()),
        _ => Err(CommandFailure::plain(format!(
            "{option} cannot contain spaces, newlines or special characters."
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::session::tests::with_arguments;
    use super::*;

    /// What Redis 7.0.15 and 7.2 answer.
    #[test]
    fn numbers_and_options_are_refused_in_redis_words() {
        let no_integer = "value is not an integer or out of range";
        let select = |words: &str| {
            with_arguments(words, |arguments| database_of(arguments, 2)).map_err(|why| why.text)
        };
        assert_eq!((select("SELECT 0"), select("SELECT 1")), (Ok(0), Ok(1)));
        for words in ["SELECT abc", "SELECT +1", "SELECT 01", "SELECT 99999999999999999999"] {
            assert_eq!(select(words).unwrap_err(), no_integer, "{words}");
        }
        for words in ["SELECT 2", "SELECT -1"] {
            assert_eq!(select(words).unwrap_err(), "DB index is out of range", "{words}");
        }
        assert_eq!(version_of(b"2").ok(), Some(RespVersion::Two));
        assert_eq!(version_of(b"3").ok(), Some(RespVersion::Three));
        for (given, word) in [("abc", "ERR"), ("3.0", "ERR"), ("1", "NOPROTO"), ("-1", "NOPROTO")] {
            assert_eq!(version_of(given.as_bytes()).unwrap_err().word, word, "{given}");
        }
        let said = version_of(b"abc").unwrap_err().text;
        assert_eq!(said, "Protocol version is not an integer or out of range");
    }

    #[test]
    fn what_a_library_says_of_itself_is_checked_as_redis_does() {
        let info = |words: &str| with_arguments(words, check_info).map_err(|why| why.text);
        assert_eq!(info("CLIENT SETINFO LIB-NAME redis-py(x_v1)"), Ok(()));
        assert_eq!(info("CLIENT SETINFO lib-ver 5.0.1"), Ok(()));
        assert_eq!(info("CLIENT SETINFO foo x").unwrap_err(), "Unrecognized option 'foo'");
        let count = "wrong number of arguments for 'client|setinfo' command";
        for words in ["CLIENT SETINFO", "CLIENT SETINFO lib-name", "CLIENT SETINFO lib-name a b"] {
            assert_eq!(info(words).unwrap_err(), count, "{words}");
        }
        let special = info("CLIENT SETINFO lib-name \u{7}").unwrap_err();
        assert_eq!(special, "lib-name cannot contain spaces, newlines or special characters.");
    }
}
