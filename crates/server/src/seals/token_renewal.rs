//! The token of `seal "transit"`, renewed while the server runs.
//!
//! A thread asks the other server how long the token lives (`auth/token/lookup-self`) and renews it at half of that
//! (`auth/token/renew-self`). It does so while this server is sealed too: the next start needs the token. [`RenewalPlan`] decides what
//! is asked next and when; [`TokenRenewal`] asks.
//!
//! Invariants:
//! - There is one request at a time, and a pause of [`PAUSE_MIN`] at least between two.
//! - No line of the log holds the token.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use kallisto_command::client::error::ClientError;
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};
use kallisto_command::secret::as_u64;

use super::transit::TransitSettings;

const LOOKUP: &str = "auth/token/lookup-self";
const RENEW: &str = "auth/token/renew-self";

/// The shortest and the longest time between two requests while they succeed.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest time between two while they fail; the first is [`PAUSE_MIN`], and each is twice the one before.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(60);
/// The time between two while the token may not be renewed, or has ended. Each sixth is logged.
const DENIED_PAUSE: Duration = Duration::from_secs(10 * 60);
const DENIED_PER_LINE: u32 = 6;
/// How often a token is looked at that does not end.
const ENDLESS_PAUSE: Duration = Duration::from_secs(60 * 60);

/// How long a token lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SealTokenLife {
    /// Until it is revoked.
    Endless,
    /// As long as this, unless it is renewed before.
    Ends { ttl: Duration, is_renewable: bool },
}

/// Why a request came to nothing.
#[derive(Debug)]
enum RenewalFailure {
    /// The token has no right to it, or has ended: the two cannot be told apart.
    Denied(String),
    /// Anything else.
    Failed(String),
}

/// The other server, as far as the token goes.
trait TokenServer {
    fn look_up(&self) -> Result<SealTokenLife, RenewalFailure>;
    fn renew(&self) -> Result<SealTokenLife, RenewalFailure>;
}

/// What is asked next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RenewalStep {
    LookUp,
    Renew,
}

/// What is known of the token.
struct RenewalPlan {
    next: RenewalStep,
    may_look_up: bool,
    /// How long it lived when that was said last.
    ttl: Option<Duration>,
    /// Requests in a row that failed.
    failures: u32,
}

impl RenewalPlan {
    const fn new() -> Self {
        Self { next: RenewalStep::LookUp, may_look_up: true, ttl: None, failures: 0 }
    }

    /// Asks what is to be asked, and says how long to wait for the next time.
    fn step(&mut self, server: &dyn TokenServer) -> Duration {
        match self.next {
            RenewalStep::LookUp => match server.look_up() {
                Ok(life) => self.know(life),
                Err(RenewalFailure::Denied(why)) => {
                    tracing::warn!(
                        why,
                        "the transit seal's token may not look itself up, or has ended; renewing it without"
                    );
                    (self.may_look_up, self.next) = (false, RenewalStep::Renew);
                    PAUSE_MIN
                }
                Err(RenewalFailure::Failed(why)) => self.fail(&why),
            },
            RenewalStep::Renew => match server.renew() {
                Ok(life) => {
                    self.note_renewal(life);
                    self.know(life)
                }
                Err(RenewalFailure::Denied(why)) => self.be_denied(&why),
                Err(RenewalFailure::Failed(why)) => self.fail(&why),
            },
        }
    }

    /// Goes by what the other server said of the token.
    fn know(&mut self, life: SealTokenLife) -> Duration {
        if self.failures > 0 {
            tracing::info!("the transit seal's token is looked after again");
        }
        self.failures = 0;
        match life {
            SealTokenLife::Endless => {
                (self.ttl, self.next) = (None, self.first_step());
                ENDLESS_PAUSE
            }
            SealTokenLife::Ends { ttl, is_renewable } => {
                self.ttl = Some(ttl);
                self.next = if is_renewable { RenewalStep::Renew } else { self.first_step() };
                if !is_renewable {
                    tracing::warn!(
                        ends_in_secs = ttl.as_secs(),
                        "the transit seal's token cannot be renewed: give the server another one before it ends, or its next start stays sealed"
                    );
                }
                (ttl / 2).clamp(PAUSE_MIN, PAUSE_MAX)
            }
        }
    }

    /// Warns of a token that a renewal leaves as near to its end as it was: it has reached the longest life that it may have.
    fn note_renewal(&self, life: SealTokenLife) {
        let SealTokenLife::Ends { ttl, .. } = life else { return };
        if self.ttl.is_some_and(|before| before <= PAUSE_MAX * 2 && ttl <= before / 2 + PAUSE_MIN) {
            tracing::warn!(
                ends_in_secs = ttl.as_secs(),
                "the transit seal's token ends soon and a renewal does not help: give the server another one, or its next start stays sealed"
            );
        } else {
            tracing::debug!(ttl_secs = ttl.as_secs(), "the transit seal's token was renewed");
        }
    }

    /// The token may not be renewed, or is no more.
    fn be_denied(&mut self, why: &str) -> Duration {
        if self.failures.is_multiple_of(DENIED_PER_LINE) {
            tracing::warn!(
                why,
                "the transit seal's token may not renew itself, or has ended: if it has, the next start stays sealed"
            );
        }
        self.failures = self.failures.saturating_add(1);
        self.next = self.first_step();
        DENIED_PAUSE
    }

    fn fail(&mut self, why: &str) -> Duration {
        tracing::warn!(why, "the transit seal's token was not renewed; trying again");
        self.next = self.first_step();
        let pause = PAUSE_MIN * 2_u32.saturating_pow(self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        pause.min(RETRY_PAUSE_MAX)
    }

    const fn first_step(&self) -> RenewalStep {
        if self.may_look_up { RenewalStep::LookUp } else { RenewalStep::Renew }
    }
}

impl TokenServer for TransitSettings {
    fn look_up(&self) -> Result<SealTokenLife, RenewalFailure> {
        let told = ask(self, &ClientRequest::get(LOOKUP))?;
        life_of(told.data.as_ref(), "ttl").ok_or_else(|| strange(LOOKUP))
    }

    fn renew(&self) -> Result<SealTokenLife, RenewalFailure> {
        let told = ask(self, &ClientRequest::put(RENEW, Map::new()))?;
        life_of(told.auth.as_ref(), "lease_duration").ok_or_else(|| strange(RENEW))
    }
}

fn ask(
    settings: &TransitSettings,
    request: &ClientRequest,
) -> Result<kallisto_command::secret::Secret, RenewalFailure> {
    let client = Client::new(&settings.client);
    let client = client.map_err(|error| RenewalFailure::Failed(error.to_string()))?;
    match client.without_line().send(request) {
        Ok(answer) => answer.ok_or_else(|| strange(&request.path)),
        Err(ClientError::Api(error)) if error.status == 403 => {
            Err(RenewalFailure::Denied(error.summary()))
        }
        Err(error) => Err(RenewalFailure::Failed(error.to_string())),
    }
}

fn strange(path: &str) -> RenewalFailure {
    RenewalFailure::Failed(format!("{path}: the answer does not say how long the token lives"))
}

/// What an answer says of a token, whose time is under the key `ttl`. No time and no end is a token that does not end.
fn life_of(said: Option<&Map>, ttl: &str) -> Option<SealTokenLife> {
    let said = said?;
    let secs = as_u64(said.get(ttl)?)?;
    let has_end = said.get("expire_time").is_some_and(|end| !matches!(end, Json::Null));
    if secs == 0 && !has_end {
        return Some(SealTokenLife::Endless);
    }
    let is_renewable = matches!(said.get("renewable"), Some(Json::Bool(true)));
    Some(SealTokenLife::Ends { ttl: Duration::from_secs(secs), is_renewable })
}

/// The thread that renews. It ends when this is dropped, behind a request that is under way.
pub(crate) struct TokenRenewal {
    _stop: SyncSender<()>,
}

impl TokenRenewal {
    /// Starts to renew the token of these settings.
    ///
    /// # Errors
    /// That there is no thread for it.
    pub(crate) fn start(settings: Arc<TransitSettings>) -> Result<Self, Error> {
        let (stop, stopped) = sync_channel::<()>(1);
        let run = move || {
            let mut plan = RenewalPlan::new();
            let mut pause = Duration::ZERO;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = plan.step(&*settings);
            }
        };
        // Nobody waits for its end: it may be asking a server that does not answer, and holds nothing that has to be closed.
        match std::thread::Builder::new().name("seal-token".into()).spawn(run) {
            Ok(_) => Ok(Self { _stop: stop }),
            Err(error) => {
                Err(Error::usage(format!("no thread to renew the seal's token: {error}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    use kallisto_command::json::parse_object;

    use super::*;

    type Answer = Result<SealTokenLife, RenewalFailure>;

    /// Says what it was given, in order.
    struct Told(RefCell<VecDeque<(RenewalStep, Answer)>>);

    impl Told {
        fn next(&self, asked: RenewalStep) -> Answer {
            let (wanted, answer) = self.0.borrow_mut().pop_front().expect("an answer");
            assert_eq!(asked, wanted);
            answer
        }
    }

    impl TokenServer for Told {
        fn look_up(&self) -> Answer {
            self.next(RenewalStep::LookUp)
        }

        fn renew(&self) -> Answer {
            self.next(RenewalStep::Renew)
        }
    }

    const fn ends(secs: u64, is_renewable: bool) -> Answer {
        Ok(SealTokenLife::Ends { ttl: Duration::from_secs(secs), is_renewable })
    }

    /// The seconds that are waited behind each of these answers.
    fn pauses(answers: Vec<(RenewalStep, Answer)>) -> Vec<u64> {
        let steps = answers.len();
        let server = Told(RefCell::new(answers.into()));
        let mut plan = RenewalPlan::new();
        (0..steps).map(|_| plan.step(&server).as_secs()).collect()
    }

    #[test]
    fn a_token_is_renewed_at_half_of_its_time() {
        use RenewalStep::{LookUp, Renew};
        let renewed = vec![
            (LookUp, ends(90, true)),
            (Renew, ends(3600, true)),
            (Renew, ends(30 * 86_400, true)),
            (Renew, ends(1, true)),
        ];
        assert_eq!(pauses(renewed), [45, 1800, 86_400, 1]);
        let not_renewable = vec![(LookUp, ends(100, false)), (LookUp, ends(50, false))];
        assert_eq!(pauses(not_renewable), [50, 25]);
        let endless =
            vec![(LookUp, Ok(SealTokenLife::Endless)), (LookUp, Ok(SealTokenLife::Endless))];
        assert_eq!(pauses(endless), [3600, 3600]);
    }

    #[test]
    fn what_fails_is_tried_again_ever_later_and_one_that_is_denied_a_look_is_renewed_without() {
        use RenewalStep::{LookUp, Renew};
        let failed = || Err(RenewalFailure::Failed("nobody answers".to_owned()));
        let denied = || Err(RenewalFailure::Denied("permission denied".to_owned()));
        let down = (0..8).map(|_| (LookUp, failed())).chain([(LookUp, ends(10, true))]);
        assert_eq!(pauses(down.collect()), [1, 2, 4, 8, 16, 32, 60, 60, 5]);
        let blind = vec![
            (LookUp, denied()),
            (Renew, ends(20, true)),
            (Renew, failed()),
            (Renew, denied()),
            (Renew, ends(20, true)),
        ];
        assert_eq!(pauses(blind), [1, 10, 1, 600, 10]);
    }

    #[test]
    fn answers_are_read_as_they_are_given() {
        for (text, life) in [
            (r#"{"ttl":0,"expire_time":null,"renewable":false}"#, Some(SealTokenLife::Endless)),
            (r#"{"ttl":0,"expire_time":"2030-01-01T00:00:00Z"}"#, ends(0, false).ok()),
            (r#"{"ttl":60,"renewable":true}"#, ends(60, true).ok()),
            (r#"{"renewable":true}"#, None),
        ] {
            let said = parse_object(text.as_bytes()).unwrap();
            assert_eq!(life_of(Some(&said), "ttl"), life, "{text}");
        }
    }
}
