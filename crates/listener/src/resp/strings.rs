//! `GET`, `SET`, `MGET`, `MSET`: a secret as one value, its field [`VALUE`].

use kallisto_core::limits::CONFLICT_RETRIES_MAX;
use kallisto_core::{Denial, Error, ExpectedVersion, FastPathCaller, FieldsWrite, Json, Map};
use kallisto_traces::SpanStatus;
use tokio::io::{AsyncRead, AsyncWrite};

use super::reply::Replies;
use super::secret::{FoundSecret, field_bytes, write_field_of};
use super::session::{CommandArguments, CommandFailure, RespSession, Stopped, text};
use super::wire::{Gone, RespWire};
use crate::buffer_pool;

/// The field that stands for a secret's value.
pub(super) const VALUE: &str = "value";

/// Under which condition `SET` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetCondition {
    Always,
    /// `NX`
    Absent,
    /// `XX`
    Present,
}

/// What `SET` answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetReply {
    Ok,
    /// `GET`: the value that was there.
    Old,
}

/// The key of a command that is a `GET`.
pub(super) fn key_of_get(arguments: CommandArguments<'_>) -> Option<&str> {
    let is_get = arguments.len() == 2 && arguments.get(0)?.eq_ignore_ascii_case(b"GET");
    if is_get { arguments.text(1).ok() } else { None }
}

impl RespSession {
    async fn value(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(match self.read(key).await? {
            FoundSecret::Live(secret) => secret.field(VALUE).map(field_bytes),
            FoundSecret::Nothing(_) => None,
        })
    }

    /// Answers how many bytes a `GET` would.
    pub(super) async fn length(
        &self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
    ) -> Result<(), CommandFailure> {
        let value = self.value(arguments.text(1)?).await?;
        replies.integer(value.map_or(0, |value| value.len() as i64));
        Ok(())
    }

    /// Answers a `GET` that memory answers; false when the read may have to wait, and nothing was done.
    pub(super) fn get_at_once<S>(
        &mut self,
        bearer: &FastPathCaller<'_>,
        wire: &mut RespWire<S>,
        key: &str,
    ) -> bool
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (gathered, start) = (wire.gathered.len(), wire.replies.bytes().len());
        let begin = self.shared.tracer.get().map(|tracer| tracer.monotonic());
        let mut failed = None;
        let replies = &mut wire.replies;
        match self.read_fields(bearer, key, &mut wire.gathered) {
            None => return false,
            Some(Ok(mut fields)) => {
                match &fields {
                    Some(fields) => write_field_of(fields, VALUE, replies),
                    None => replies.null(),
                }
                buffer_pool::wipe(fields.as_deref_mut().unwrap_or_default());
            }
            Some(Err(error)) => {
                failed = begin.is_some().then(|| error.clone());
                let failure = CommandFailure::from(error);
                replies.error(failure.word, &failure.text);
            }
        }
        let span = begin.and_then(|begin| self.span_of_get(begin, failed.as_ref()));
        if wire.gathered.len() > gathered {
            wire.held.push(start..wire.replies.bytes().len());
            wire.spans.extend(span);
        } else if let Some(span) = span {
            span.end(SpanStatus::Unset);
        }
        true
    }

    pub(super) async fn get(
        &self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
    ) -> Result<(), CommandFailure> {
        let value = self.value(arguments.text(1)?).await?;
        write_value(replies, value.as_deref());
        Ok(())
    }

    /// A key that the policies keep from the client is null, as one that is not there. What else fails is the answer to
    /// all: null would say that nothing is there. Once a part of the reply has left, it is cut.
    pub(super) async fn get_many<S>(
        &self,
        wire: &mut RespWire<S>,
        arguments: CommandArguments<'_>,
    ) -> Result<(), Stopped>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let keys: Vec<&str> = arguments.from(1).map(text).collect::<Result<_, _>>()?;
        let start = wire.replies.bytes().len();
        let mut has_left = false;
        wire.replies.array(keys.len());
        for key in keys {
            let value = match self.value(key).await {
                Ok(value) => value,
                Err(Error::Denied(Denial::Policy)) => None,
                Err(_) if has_left => return Err(Gone.into()),
                Err(error) => {
                    wire.replies.take_back(start);
                    return Err(CommandFailure::from(error).into());
                }
            };
            write_value(&mut wire.replies, value.as_deref());
            has_left |= wire.relieve().await?;
        }
        Ok(())
    }

    pub(super) async fn set(
        &self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
    ) -> Result<(), CommandFailure> {
        let key = arguments.text(1)?;
        let fields = value_field(arguments.text(2)?);
        let (condition, answer) = options(arguments)?;
        if (condition, answer) == (SetCondition::Always, SetReply::Ok) {
            self.write(key, fields, ExpectedVersion::Any).await?;
            replies.ok();
            return Ok(());
        }
        for _ in 0..CONFLICT_RETRIES_MAX {
            let (old, version, is_there) = match self.read(key).await? {
                FoundSecret::Nothing(version) => (None, version, false),
                FoundSecret::Live(secret) => {
                    (secret.field(VALUE).map(field_bytes), secret.version(), true)
                }
            };
            let writes = match condition {
                SetCondition::Always => true,
                SetCondition::Absent => !is_there,
                SetCondition::Present => is_there,
            };
            let expected = ExpectedVersion::Version(version);
            if writes
                && self.write(key, fields.clone(), expected).await? == FieldsWrite::CasMismatch
            {
                continue;
            }
            match (answer, writes) {
                (SetReply::Old, _) => write_value(replies, old.as_deref()),
                (SetReply::Ok, true) => replies.ok(),
                (SetReply::Ok, false) => replies.null(),
            }
            return Ok(());
        }
        Err(Error::Conflict.into())
    }

    /// What failed first is the answer; nothing is taken back.
    pub(super) async fn set_many(
        &self,
        replies: &mut Replies,
        arguments: CommandArguments<'_>,
    ) -> Result<(), CommandFailure> {
        if arguments.len().is_multiple_of(2) {
            return Err(CommandFailure::plain("wrong number of arguments for 'mset' command"));
        }
        self.set_all(arguments).await?;
        replies.ok();
        Ok(())
    }
}

fn value_field(value: &str) -> Map {
    Map::from([(VALUE.to_owned(), Json::from(value))])
}

fn write_value(replies: &mut Replies, value: Option<&[u8]>) {
    match value {
        Some(value) => replies.bulk(value),
        None => replies.null(),
    }
}

fn options(arguments: CommandArguments<'_>) -> Result<(SetCondition, SetReply), CommandFailure> {
    let (mut condition, mut answer) = (SetCondition::Always, SetReply::Ok);
    for at in 3..arguments.len() {
        match (arguments.word(at).as_str(), condition) {
            // Said twice it says the same, as in Redis; the two exclude each other.
            ("NX", SetCondition::Always | SetCondition::Absent) => condition = SetCondition::Absent,
            ("XX", SetCondition::Always | SetCondition::Present) => {
                condition = SetCondition::Present;
            }
            ("GET", _) => answer = SetReply::Old,
            // A secret's lifetime is its metadata's; writing never changes it.
            ("KEEPTTL", _) => {}
            ("EX" | "PX" | "EXAT" | "PXAT", _) => {
                return Err(CommandFailure::plain(
                    "a lifetime is not set with a value here: see delete_version_after of its \
                     metadata",
                ));
            }
            _ => return Err(CommandFailure::syntax()),
        }
    }
    Ok((condition, answer))
}

#[cfg(test)]
mod tests {
    use super::super::session::tests::with_arguments;
    use super::*;

    #[test]
    fn options_of_set_may_be_said_twice_and_not_against_each_other() {
        let read = |words: &str| with_arguments(words, options).map_err(|why| why.text);
        for (words, condition, answer) in [
            ("SET a 1", SetCondition::Always, SetReply::Ok),
            ("SET a 1 NX nx", SetCondition::Absent, SetReply::Ok),
            ("SET a 1 XX GET XX", SetCondition::Present, SetReply::Old),
            ("SET a 1 GET GET KEEPTTL KEEPTTL", SetCondition::Always, SetReply::Old),
        ] {
            assert_eq!(read(words), Ok((condition, answer)), "{words}");
        }
        for words in ["SET a 1 NX XX", "SET a 1 XX NX", "SET a 1 NX XX NX", "SET a 1 FOO"] {
            assert_eq!(read(words).unwrap_err(), "syntax error", "{words}");
        }
    }
}
