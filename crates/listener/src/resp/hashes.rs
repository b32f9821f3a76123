//! `HGET`, `HSET`, `HGETALL` and the others of their kind: the fields of a secret.

use kallisto_core::Json;
use kallisto_core::json::members;

use super::reply::Replies;
use super::secret::{FoundSecret, ReadSecret, SecretChange, write_field};
use super::session::{CommandArguments, CommandFailure, RespSession, text};

/// What is told of each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HashPart {
    Names,
    Values,
}

/// Answers a field of a secret, or that there is none.
fn write_named(replies: &mut Replies, secret: Option<&ReadSecret>, name: &str) {
    match secret.and_then(|secret| secret.field(name)) {
        Some(raw) => write_field(raw, replies),
        None => replies.null(),
    }
}

impl RespSession {
    async fn hash(
        &self,
        arguments: CommandArguments<'_>,
    ) -> Result<Option<ReadSecret>, CommandFailure> {
        Ok(match self.read(arguments.text(1)?).await? {
            FoundSecret::Live(secret) => Some(secret),
            FoundSecret::Nothing(_) => None,
        })
    }

    pub(super) async fn hash_get(
        &self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
    ) -> Result<(), CommandFailure> {
        let name = arguments.text(2)?;
        let secret = self.hash(arguments).await?;
        write_named(replies, secret.as_ref(), name);
        Ok(())
    }

    pub(super) async fn hash_get_many(
        &self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
    ) -> Result<(), CommandFailure> {
        let names: Vec<&str> = arguments.from(2).map(text).collect::<Result<_, _>>()?;
        let secret = self.hash(arguments).await?;
        replies.array(names.len());
        for name in names {
            write_named(replies, secret.as_ref(), name);
        }
        Ok(())
    }

    pub(super) async fn hash_exists(
        &self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
    ) -> Result<(), CommandFailure> {
        let name = arguments.text(2)?;
        let secret = self.hash(arguments).await?;
        let is_there = secret.as_ref().is_some_and(|secret| secret.field(name).is_some());
        replies.integer(is_there.into());
        Ok(())
    }

    pub(super) async fn hash_length(
        &self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
    ) -> Result<(), CommandFailure> {
        let secret = self.hash(arguments).await?;
        let fields = secret.as_ref().map(ReadSecret::fields).unwrap_or_default();
        replies.integer(members(fields).count() as i64);
        Ok(())
    }

    pub(super) async fn hash_all(
        &self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
    ) -> Result<(), CommandFailure> {
        let secret = self.hash(arguments).await?;
        let fields = secret.as_ref().map(ReadSecret::fields).unwrap_or_default();
        replies.map(members(fields).count());
        for (name, value) in members(fields) {
            write_field(name, replies);
            write_field(value, replies);
        }
        Ok(())
    }

    /// The names of the fields, or their values.
    pub(super) async fn hash_parts(
        &self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
        part: HashPart,
    ) -> Result<(), CommandFailure> {
        let secret = self.hash(arguments).await?;
        let fields = secret.as_ref().map(ReadSecret::fields).unwrap_or_default();
        replies.array(members(fields).count());
        for (name, value) in members(fields) {
            let told = match part {
                HashPart::Names => name,
                HashPart::Values => value,
            };
            write_field(told, replies);
        }
        Ok(())
    }

    /// Sets fields; how many of them are new.
    pub(super) async fn hash_set(
        &self,
        arguments: CommandArguments<'_>,
    ) -> Result<usize, CommandFailure> {
        if !arguments.len().is_multiple_of(2) {
            let name = arguments.word(0).to_ascii_lowercase();
            let text = format!("wrong number of arguments for '{name}' command");
            return Err(CommandFailure::plain(text));
        }
        let given: Vec<&str> = arguments.from(2).map(text).collect::<Result<_, _>>()?;
        let added = self
            .change(arguments.text(1)?, |fields| {
                let before = fields.len();
                for pair in given.chunks_exact(2) {
                    fields.insert(pair[0].to_owned(), Json::from(pair[1]));
                }
                (SecretChange::Put, fields.len() - before)
            })
            .await?;
        Ok(added)
    }

    /// Answers how many fields went; a secret without fields goes too.
    pub(super) async fn hash_delete(
        &self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
    ) -> Result<(), CommandFailure> {
        let names: Vec<&str> = arguments.from(2).map(text).collect::<Result<_, _>>()?;
        let removed = self
            .change(arguments.text(1)?, |fields| {
                let removed = names.iter().filter(|name| fields.remove(**name).is_some()).count();
                let change = match (removed, fields.is_empty()) {
                    (0, _) => SecretChange::Keep,
                    (_, true) => SecretChange::Delete,
                    (_, false) => SecretChange::Put,
                };
                (change, removed)
            })
            .await?;
        replies.integer(removed as i64);
        Ok(())
    }
}
