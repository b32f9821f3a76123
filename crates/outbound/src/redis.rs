//! Redis and Valkey: RESP version 2, over a connection of ours.
//!
//! Commands are sent one after another, each when the one before was answered.

use kallisto_engine::far_end::{FAR_END_ANSWER_BYTES_MAX, FarEndLogin, RedisCommand, RedisReply};
use kallisto_engine::{BoxFuture, FarEnd, FarEndAnswer, FarEndFailure, FarEndWork};
use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};

use crate::connect::{self, Wire, Wired};
use crate::driver::{FarEndSession, no_such_work};

/// Longest line of a reply.
const LINE_BYTES_MAX: u64 = 16 << 10;
/// Most replies in one.
const LIST_MAX: usize = 64 << 10;
/// How deep replies stand in replies.
const DEPTH_MAX: usize = 8;

struct Redis {
    wire: BufStream<Box<dyn Wire>>,
    is_closed: bool,
}

pub(crate) async fn open(
    far_end: &FarEnd,
    login: &FarEndLogin,
) -> Result<Box<dyn FarEndSession>, FarEndFailure> {
    let Wired { wire, .. } = connect::open_wire(far_end).await?;
    let mut session = Redis { wire: BufStream::new(wire), is_closed: false };
    if !login.password.expose_secret().is_empty() {
        let mut words = vec![SecretString::from("AUTH")];
        if !login.user.is_empty() {
            words.push(login.user.clone().into());
        }
        words.push(login.password.clone());
        session.command(&RedisCommand(words)).await.map_err(|failure| match failure {
            // Before version 6 it has no word of its own.
            FarEndFailure::Refused(words)
                if words.starts_with("WRONGPASS") || words.starts_with("ERR invalid password") =>
            {
                FarEndFailure::LoginRefused(words)
            }
            FarEndFailure::Refused(words) if is_passing(&words) => {
                FarEndFailure::Unreachable(words)
            }
            FarEndFailure::Refused(words) => FarEndFailure::LoginBarred(words),
            other => FarEndFailure::Unreachable(other.words().to_owned()),
        })?;
    }
    Ok(Box::new(session))
}

impl Redis {
    async fn command(&mut self, command: &RedisCommand) -> Result<RedisReply, FarEndFailure> {
        let exchange = self.exchange(command).await;
        match exchange {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(words)) => Err(FarEndFailure::Refused(words)),
            Err(error) => {
                self.is_closed = true;
                Err(FarEndFailure::Unknown(error.to_string()))
            }
        }
    }

    /// Runs commands until one is refused.
    async fn commands(&mut self, commands: &[RedisCommand]) -> Result<FarEndAnswer, FarEndFailure> {
        let mut replies = Vec::new();
        for command in commands {
            let reply = self.command(command).await;
            let reply = if asks_of_user(command) { known_user(reply) } else { reply };
            let nothing_done = commands.iter().take(replies.len()).all(asks_of_user);
            replies.push(reply.map_err(|failure| match failure {
                FarEndFailure::Refused(words) if is_passing(&words) => match nothing_done {
                    true => FarEndFailure::Unreachable(words),
                    false => FarEndFailure::Unknown(words),
                },
                FarEndFailure::Refused(words) if nothing_done => FarEndFailure::NothingDone(words),
                other => other,
            })?);
        }
        Ok(FarEndAnswer::Replies(replies))
    }

    async fn exchange(
        &mut self,
        command: &RedisCommand,
    ) -> std::io::Result<Result<RedisReply, String>> {
        let mut head = format!("*{}\r\n", command.0.len());
        for word in &command.0 {
            let word = word.expose_secret();
            head.push_str(&format!("${}\r\n", word.len()));
            self.wire.write_all(head.as_bytes()).await?;
            self.wire.write_all(word.as_bytes()).await?;
            "\r\n".clone_into(&mut head);
        }
        self.wire.write_all(head.as_bytes()).await?;
        self.wire.flush().await?;
        let mut bytes_left = FAR_END_ANSWER_BYTES_MAX;
        self.reply(DEPTH_MAX, &mut bytes_left).await
    }

    fn reply<'a>(
        &'a mut self,
        depth: usize,
        bytes_left: &'a mut usize,
    ) -> BoxFuture<'a, std::io::Result<Result<RedisReply, String>>> {
        Box::pin(async move {
            let line = self.line().await?;
            let (kind, rest) = line.split_at_checked(1).ok_or_else(|| garbled("an empty line"))?;
            let number = || rest.parse::<i64>().map_err(|_| garbled("no number"));
            Ok(match kind {
                "+" => Ok(RedisReply::Text(rest.to_owned())),
                "-" => Err(rest.to_owned()),
                ":" => Ok(RedisReply::Number(number()?)),
                "_" => Ok(RedisReply::Null),
                "$" => {
                    let Ok(length) = usize::try_from(number()?) else {
                        return Ok(Ok(RedisReply::Null));
                    };
                    let left = bytes_left.checked_sub(length).ok_or_else(|| garbled("too long"))?;
                    *bytes_left = left;
                    let mut text = vec![0; length];
                    self.wire.read_exact(&mut text).await?;
                    let mut end = [0; 2];
                    self.wire.read_exact(&mut end).await?;
                    Ok(RedisReply::Text(String::from_utf8_lossy(&text).into_owned()))
                }
                "*" => {
                    let Ok(count) = usize::try_from(number()?) else {
                        return Ok(Ok(RedisReply::Null));
                    };
                    let deeper = depth.checked_sub(1).ok_or_else(|| garbled("too deep"))?;
                    if count > LIST_MAX {
                        return Err(garbled("too many"));
                    }
                    let mut list = Vec::new();
                    for _ in 0..count {
                        let left = bytes_left.checked_sub(16).ok_or_else(|| garbled("too long"))?;
                        *bytes_left = left;
                        list.push(match self.reply(deeper, bytes_left).await? {
                            Ok(reply) => reply,
                            Err(words) => RedisReply::Text(words),
                        });
                    }
                    Ok(RedisReply::List(list))
                }
                _ => return Err(garbled("a reply of no known kind")),
            })
        })
    }

    async fn line(&mut self) -> std::io::Result<String> {
        let mut line = Vec::new();
        (&mut self.wire).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
        match line.strip_suffix(b"\r\n") {
            Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
            None if line.is_empty() => Err(std::io::ErrorKind::UnexpectedEof.into()),
            None => Err(garbled("a line without an end")),
        }
    }
}

/// Whether it refuses what it will take later, or what another server of it takes: it starts, it is busy, it is a replica.
fn is_passing(words: &str) -> bool {
    ["LOADING", "MASTERDOWN", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "READONLY"]
        .iter()
        .any(|word| words.starts_with(word))
}

/// Whether a command asks what there is of a user.
fn asks_of_user(command: &RedisCommand) -> bool {
    command.0.get(1).is_some_and(|word| word.expose_secret() == "GETUSER")
}

/// Goes on for a user that is there, and for one of whom the login may not know.
fn known_user(reply: Result<RedisReply, FarEndFailure>) -> Result<RedisReply, FarEndFailure> {
    match reply {
        Ok(RedisReply::Null) => Err(FarEndFailure::Refused("no such user".to_owned())),
        Err(FarEndFailure::Refused(words)) if words.starts_with("NOPERM") => Ok(RedisReply::Null),
        reply => reply,
    }
}

fn garbled(what: &str) -> std::io::Error {
    std::io::Error::other(format!("it does not speak RESP: {what}"))
}

impl FarEndSession for Redis {
    fn run<'a>(
        &'a mut self,
        work: &'a FarEndWork,
    ) -> BoxFuture<'a, Result<FarEndAnswer, FarEndFailure>> {
        Box::pin(async move {
            match work {
                FarEndWork::Check => {
                    let ping = RedisCommand(vec![SecretString::from("PING")]);
                    match self.command(&ping).await {
                        Ok(_) => Ok(FarEndAnswer::Done),
                        // Whoever may not ping is logged in.
                        Err(FarEndFailure::Refused(words)) if words.starts_with("NOPERM") => {
                            Ok(FarEndAnswer::Done)
                        }
                        Err(FarEndFailure::Refused(words)) if !is_passing(&words) => {
                            Err(FarEndFailure::LoginBarred(words))
                        }
                        Err(other) => Err(FarEndFailure::Unreachable(other.words().to_owned())),
                    }
                }
                _ => self.commands(work.redis().ok_or_else(no_such_work)?).await,
            }
        })
    }

    fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn check(&mut self) -> BoxFuture<'_, bool> {
        let ping = FarEndWork::Check;
        Box::pin(async move { self.run(&ping).await.is_ok() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> RedisCommand {
        RedisCommand(words.iter().map(|word| SecretString::from(*word)).collect())
    }

    /// Runs the commands against a server that answers so to `GETUSER` and with `OK` to the others; what came of it, and whether `SETUSER` reached it.
    async fn run(answer: &'static str) -> (Result<FarEndAnswer, FarEndFailure>, bool) {
        let (near, far) = tokio::io::duplex(1 << 16);
        let server = tokio::spawn(async move {
            let mut far = BufStream::new(far);
            let (mut line, mut is_set) = (String::new(), false);
            while far.read_line(&mut line).await.unwrap_or(0) > 0 {
                // The last word of each command here is the user's name.
                let asks = line.as_str() == "GETUSER\r\n";
                is_set |= line.as_str() == "SETUSER\r\n";
                if asks || line.as_str() == "SETUSER\r\n" {
                    for _ in 0..2 {
                        far.read_line(&mut line).await.unwrap();
                    }
                    let answer = if asks { answer } else { "+OK\r\n" };
                    far.write_all(answer.as_bytes()).await.unwrap();
                    far.flush().await.unwrap();
                }
                line.clear();
            }
            is_set
        });
        let mut session = Redis { wire: BufStream::new(Box::new(near)), is_closed: false };
        let commands = [&["ACL", "GETUSER", "u"][..], &["ACL", "SETUSER", "u"]].map(command);
        let outcome = session.run(&FarEndWork::Redis(Vec::from(commands))).await;
        drop(session);
        (outcome, server.await.unwrap())
    }

    /// `SETUSER` would make it.
    #[tokio::test]
    async fn what_is_for_a_user_that_is_not_there_is_not_done() {
        for nobody in ["*-1\r\n", "_\r\n", "$-1\r\n"] {
            let (outcome, is_set) = run(nobody).await;
            let why = outcome.unwrap_err();
            assert!(matches!(&why, FarEndFailure::NothingDone(_)), "{why:?}");
            assert!(!is_set && why.words().contains("no such user"), "{why:?}");
        }
        for somebody in ["*2\r\n+flags\r\n*1\r\n+on\r\n", "-NOPERM of getuser\r\n"] {
            let (outcome, is_set) = run(somebody).await;
            assert!(outcome.is_ok() && is_set, "{outcome:?}");
        }
    }
}
