//! What a far end is asked, and what it answers.

use std::fmt;

use secrecy::SecretString;

use super::FarEndFailure;
use super::directory::{LdapEntry, LdapWork};

/// What a far end is asked.
#[derive(Clone, Debug)]
pub enum FarEndWork {
    /// To log in, and to say that it is there.
    Check,
    /// To run statements of SQL.
    Sql(SqlWork),
    /// To run commands of Redis, one after another; the first that it refuses ends it.
    Redis(Vec<RedisCommand>),
    /// To do operations of LDAP.
    Ldap(LdapWork),
    /// To answer a request of HTTP.
    Http(HttpWork),
}

impl FarEndWork {
    /// The statements, if it is SQL.
    pub const fn sql(&self) -> Option<&SqlWork> {
        if let Self::Sql(work) = self { Some(work) } else { None }
    }

    /// The commands, if it is Redis.
    pub const fn redis(&self) -> Option<&[RedisCommand]> {
        if let Self::Redis(commands) = self { Some(commands.as_slice()) } else { None }
    }

    /// The operations, if it is LDAP.
    pub const fn ldap(&self) -> Option<&LdapWork> {
        if let Self::Ldap(work) = self { Some(work) } else { None }
    }

    /// The request, if it is HTTP.
    pub const fn http(&self) -> Option<&HttpWork> {
        if let Self::Http(work) = self { Some(work) } else { None }
    }
}

/// Statements of SQL.
#[derive(Clone)]
pub struct SqlWork {
    /// The statements; one text may have several. They run together or not at all where the database can do that for such statements; else
    /// the first that fails ends it.
    pub statements: Vec<SecretString>,
    /// What nobody else works on at the same time: work with the same word here waits for this one to end at the database, even when we no
    /// longer hear of it. Empty for nothing.
    pub exclusive: String,
}

/// A command of Redis: its words.
#[derive(Clone)]
pub struct RedisCommand(pub Vec<SecretString>);

/// What is done at a path of a server of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpWorkVerb {
    /// `GET`.
    Get,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `DELETE`.
    Delete,
}

/// A request of HTTP, with JSON both ways. No redirect is followed.
#[derive(Clone)]
pub struct HttpWork {
    /// What is done.
    pub verb: HttpWorkVerb,
    /// The path and the query, percent-encoded.
    pub path: String,
    /// The JSON that is sent; empty for nothing.
    pub body: Vec<u8>,
}

/// The answer to a request of HTTP, whatever its status.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpWorkAnswer {
    /// The status code.
    pub status: u16,
    /// The body, all of it.
    pub body: Vec<u8>,
}

/// What a far end answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FarEndAnswer {
    /// It is done.
    Done,
    /// The rows of the last statement that had any; a null is `None`.
    Rows(Vec<Vec<Option<String>>>),
    /// A reply for each command.
    Replies(Vec<RedisReply>),
    /// The entries that searches found.
    Entries {
        /// The entries.
        entries: Vec<LdapEntry>,
        /// Whether those are all: a limit of ours or of the directory cuts them off.
        is_whole: bool,
    },
    /// As whom a session is logged in; empty for nobody.
    Identity(String),
    /// The answer to a request.
    Http(HttpWorkAnswer),
}

/// What comes of a call of a far end.
pub type FarEndOutcome = Result<FarEndAnswer, FarEndFailure>;

/// A reply of Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisReply {
    /// Nothing.
    Null,
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
    /// Replies.
    List(Vec<Self>),
}

impl fmt::Debug for SqlWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlWork")
            .field("statements", &self.statements.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for RedisCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedisCommand")
    }
}

impl fmt::Debug for HttpWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("HttpWork");
        out.field("verb", &self.verb).field("path", &self.path).finish_non_exhaustive()
    }
}

impl fmt::Debug for HttpWorkAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpWorkAnswer").field("status", &self.status).finish_non_exhaustive()
    }
}
