//! The stampede: clients that connect all at once, log in, and read one secret each.
//!
//! Time counts from when the first of them set out, for every client: what the last one waited is what
//! the restart of a whole cluster would take.

use std::io;
use std::time::Duration;

use kallisto_core::json::{self, Json};
use secrecy::{ExposeSecret, SecretString};

use super::RunClock;
use super::connection::{LoadConnection, READ_BYTES, Received};
use super::figures::LoadFigures;
use super::plan::LoadKind;
use super::poll::Poll;
use super::process::Observer;
use super::progress::LoadBar;
use super::protocol::{LoadReply, ReplyVerdict, http_reply};
use super::target::LoadTarget;
use kallisto_command::error::Error;

/// Clients that set out between two looks at those that are on their way.
const START_STEP: usize = 128;
/// Longest wait for a socket; the end of the time is looked for between two.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// How the clients get a token.
pub(super) enum ClientLogin {
    /// They have one.
    Token(SecretString),
    /// They log in with this body at this path.
    Login { path: String, body: String },
}

/// A herd.
pub(super) struct HerdPlan {
    pub(super) clients: usize,
    pub(super) entry: ClientLogin,
    /// Path of the secrets, with `{}` where a key's number goes.
    pub(super) pattern: String,
    pub(super) keys: u64,
    /// Time after which whoever was not served counts as an error.
    pub(super) time_max: Duration,
    /// Time for which connections stay open after everyone was served.
    pub(super) hold: Duration,
}

/// What came of a herd: `writes` are logins, `reads` are secrets, each counted from the start.
pub(super) struct HerdFigures {
    pub(super) figures: LoadFigures,
    pub(super) served: u64,
    /// From the start to the last that was served.
    pub(super) all_served: Duration,
}

/// Where a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HerdStage {
    Setting,
    LoggingIn,
    Reading,
    Over,
}

struct HerdClient {
    connection: Option<LoadConnection>,
    stage: HerdStage,
}

struct Herd<'a> {
    plan: &'a HerdPlan,
    target: &'a LoadTarget,
    watch: RunClock,
    poll: Poll,
    clients: Vec<HerdClient>,
    figures: LoadFigures,
    served: u64,
    over: usize,
    last_served_ns: u64,
    scratch: Vec<u8>,
}

/// Lets the herd loose.
pub(super) fn run(
    plan: &HerdPlan,
    target: &LoadTarget,
    pid: Option<u32>,
    progress: &LoadBar,
) -> Result<HerdFigures, Error> {
    let broken = |error: io::Error| Error::unusable(format!("{}: {error}", target.authority));
    let client = |_| HerdClient { connection: None, stage: HerdStage::Setting };
    let mut observer = pid.and_then(Observer::new);
    let mut herd = Herd {
        plan,
        target,
        poll: Poll::new().map_err(broken)?,
        clients: (0..plan.clients).map(client).collect(),
        figures: LoadFigures::new(),
        served: 0,
        over: 0,
        last_served_ns: 0,
        scratch: vec![0; READ_BYTES],
        watch: RunClock::start(),
    };
    herd.run(&mut observer, progress).map_err(broken)?;
    if !plan.hold.is_zero() {
        std::thread::sleep(plan.hold);
    }
    progress.finish();
    herd.figures.usage = observer.and_then(Observer::usage);
    let all_served = Duration::from_nanos(herd.last_served_ns);
    herd.figures.elapsed = all_served;
    Ok(HerdFigures { figures: herd.figures, served: herd.served, all_served })
}

impl Herd<'_> {
    fn run(&mut self, observer: &mut Option<Observer>, progress: &LoadBar) -> io::Result<()> {
        let ends_ns = self.plan.time_max.as_nanos() as u64;
        let mut ready = Vec::new();
        let mut started = 0;
        while self.over < self.clients.len() && self.watch.nanos() < ends_ns {
            let step = START_STEP.min(self.clients.len() - started);
            for id in started..started + step {
                self.set_out(id);
            }
            started += step;
            let all_started = started == self.clients.len();
            ready.clear();
            self.poll.wait(if all_started { WAIT_MAX } else { Duration::ZERO }, &mut ready)?;
            for &id in &ready {
                if let Err(error) = self.turn(id) {
                    self.give_up(id, &format!("lost: {error}"));
                }
            }
            if let Some(observer) = observer {
                observer.look();
            }
            progress.show_count(self.over as u64, self.served);
        }
        for id in 0..self.clients.len() {
            self.time_out(id);
        }
        Ok(())
    }

    fn set_out(&mut self, id: usize) {
        match LoadConnection::open(self.target, &self.poll, id) {
            Ok(mut connection) => {
                let stage = match &self.plan.entry {
                    ClientLogin::Token(token) => {
                        self.write_read(id, token.expose_secret(), &mut connection.output);
                        HerdStage::Reading
                    }
                    ClientLogin::Login { path, body } => {
                        let request = format!(
                            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
                             Content-Length: {}\r\n\r\n{body}",
                            self.target.authority,
                            body.len()
                        );
                        connection.output.extend_from_slice(request.as_bytes());
                        HerdStage::LoggingIn
                    }
                };
                let sent = connection.send(&self.poll);
                self.clients[id] = HerdClient { connection: Some(connection), stage };
                if let Err(error) = sent {
                    self.give_up(id, &format!("lost: {error}"));
                }
            }
            Err(error) => self.give_up(id, &format!("not connected: {error}")),
        }
    }

    fn write_read(&self, id: usize, token: &str, out: &mut Vec<u8>) {
        let key = (id as u64 % self.plan.keys).to_string();
        let path = self.plan.pattern.replacen("{}", &key, 1);
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nX-Vault-Token: {token}\r\n\r\n",
            self.target.authority
        );
        out.extend_from_slice(request.as_bytes());
    }

    fn turn(&mut self, id: usize) -> io::Result<()> {
        let client = &mut self.clients[id];
        let Some(connection) = &mut client.connection else { return Ok(()) };
        let received = connection.receive(&mut self.scratch)?;
        let reply = http_reply(&connection.input);
        let reply = reply.map_err(|_| io::Error::other("a reply cannot be read"))?;
        if let Some(reply) = reply {
            self.answered(id, reply);
        }
        let client = &mut self.clients[id];
        if received == Received::End && client.stage != HerdStage::Over {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if received == Received::End {
            client.connection = None;
        }
        match &mut client.connection {
            Some(connection) => connection.send(&self.poll),
            None => Ok(()),
        }
    }

    fn answered(&mut self, id: usize, reply: LoadReply) {
        let now = self.watch.nanos();
        let stage = self.clients[id].stage;
        let kind = if stage == HerdStage::LoggingIn { LoadKind::Write } else { LoadKind::Read };
        self.figures.answered(kind, now, reply.verdict);
        let Some(connection) = &mut self.clients[id].connection else { return };
        let token = (stage == HerdStage::LoggingIn)
            .then(|| token_of(&connection.input[reply.body..reply.bytes]).unwrap_or_default());
        connection.consume(reply.bytes);
        if reply.verdict != ReplyVerdict::Good {
            return self.end(id);
        }
        match token {
            Some(token) => {
                let mut request = Vec::new();
                self.write_read(id, &token, &mut request);
                let client = &mut self.clients[id];
                client.stage = HerdStage::Reading;
                if let Some(connection) = &mut client.connection {
                    connection.output.extend_from_slice(&request);
                }
            }
            None => {
                self.served += 1;
                self.last_served_ns = now;
                self.end(id);
            }
        }
    }

    /// Nothing more comes of this client. Its connection stays until the herd is over, when it is one
    /// of those whose memory is asked for.
    fn end(&mut self, id: usize) {
        let client = &mut self.clients[id];
        client.stage = HerdStage::Over;
        if self.plan.hold.is_zero() {
            client.connection = None;
        }
        self.over += 1;
    }

    /// Counts a client whose connection was lost, or never made.
    fn give_up(&mut self, id: usize, why: &str) {
        let Some(kind) = self.waits_for(id) else { return };
        self.figures.lost(kind, why);
        self.clients[id].connection = None;
        self.end(id);
    }

    /// Counts a client that waited to the end.
    fn time_out(&mut self, id: usize) {
        let Some(kind) = self.waits_for(id) else { return };
        self.figures.unanswered(kind, self.watch.nanos(), "not served in time");
        self.clients[id].connection = None;
        self.end(id);
    }

    /// What a client waits for; nothing once it is over.
    fn waits_for(&self, id: usize) -> Option<LoadKind> {
        match self.clients[id].stage {
            HerdStage::Over => None,
            HerdStage::LoggingIn => Some(LoadKind::Write),
            HerdStage::Setting | HerdStage::Reading => Some(LoadKind::Read),
        }
    }
}

/// The token in the answer to a login.
pub(super) fn token_of(body: &[u8]) -> Option<String> {
    match json::parse(json::member(json::member(body, "auth")?, "client_token")?) {
        Ok(Json::String(token)) => Some(token),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_found_in_a_login_answer() {
        let body =
            br#"{"request_id":"x","auth":{"accessor":"a","client_token":"s.1","renewable":true}}"#;
        assert_eq!(token_of(body).as_deref(), Some("s.1"));
        assert_eq!(token_of(br#"{"auth":null}"#), None);
    }
}
