//! The arguments of the loads, checked and made into plans.

use std::io::{IsTerminal, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use secrecy::SecretString;

use super::figures::LoadFigures;
use super::herd::{self, ClientLogin, HerdPlan};
use super::keys::Draw;
use super::plan::{LoadPace, LoadPlan};
use super::prepare::{LoginToken, Operator};
use super::progress::{LoadBar, WatchedBy};
use super::protocol::{RequestTemplates, TemplateParts};
use super::target::{LoadProtocol, LoadTarget, Sessions};
use super::{plot, report, run};
use kallisto_command::config::Environment;
use kallisto_command::error::{EXIT_SERVER, Error};
use kallisto_command::files;
use kallisto_command::outcome::Outcome;

const ADDRESS_DEFAULT: &str = "http://127.0.0.1:8200";
const RESP_ADDRESS_DEFAULT: &str = "redis://127.0.0.1:6379";
const PATH_DEFAULT: &str = "/v1/secret/data/bench/k{}";
const KEY_DEFAULT: &str = "bench/k{}";
/// Longest load, in seconds; bounds the time of a run and the memory of an open loop.
const DURATION_SECS_MAX: u64 = 3_600;
/// Most connections, and most clients of a herd: ports of one address, less those in use.
const CONNECTIONS_MAX: u32 = 28_000;
const THREADS_MAX: u32 = 64;
/// Most requests on their way on one connection.
const DEPTH_MAX: u32 = 1_024;
/// Largest value of a secret, in bytes.
const VALUE_BYTES_MAX: u32 = 512 << 10;
/// Fewest and most requests a second.
const RATES: std::ops::RangeInclusive<f64> = 0.001..=10_000_000.0;
const KEYS_MAX: u64 = 100_000_000;
/// Files a run has open beside its connections.
const FILES_BESIDE: u64 = 64;
/// Connections and depth with which keys are written before a run.
const PREPARING: (NonZeroU32, u32) = (NonZeroU32::new(64).unwrap(), 1);

/// Loads on a server.
#[derive(Subcommand, Debug)]
pub(crate) enum LoadCommand {
    Http(HttpArgs),
    Resp(RespArgs),
    Mixed(MixedArgs),
    Herd(HerdArgs),
}

/// Read secrets of a server over HTTP
///
/// Works with any server of Vault's API, and with -path with any HTTP server. Closed loop unless
/// -rate is given.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    kallisto bench http -prepare -connections=64\n  \
    kallisto bench http -prepare -rate=20000 -duration=30 -svg=latency.svg\n  \
    kallisto bench http -address=https://127.0.0.1:8200 -ca-cert=ca.pem -prepare -reconnect\n\n\
    Exit codes: 0 all answers were good, 1 a mistake in the call, 2 some were not, or the server was not reached")]
pub(crate) struct HttpArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    load: LoadArgs,
    /// Path of the secrets; {} is the number of the key
    #[arg(long, value_name = "PATTERN", default_value = PATH_DEFAULT)]
    path: String,
    /// Of a hundred requests, how many write
    #[arg(long, value_name = "PERCENT", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=100))]
    writes: u8,
}

/// Read keys of a server over the Redis protocol
///
/// Works with Redis as well. A token, if there is one, is sent with AUTH.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    kallisto bench resp -prepare -pipeline=16\n  \
    kallisto bench resp -address=redis://127.0.0.1:6379 -writes=100\n\n\
    Exit codes: 0 all answers were good, 1 a mistake in the call, 2 some were not, or the server was not reached")]
pub(crate) struct RespArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    load: LoadArgs,
    /// Keys; {} is the number of the key
    #[arg(long, value_name = "PATTERN", default_value = KEY_DEFAULT)]
    key: String,
    /// Of a hundred requests, how many write
    #[arg(long, value_name = "PERCENT", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=100))]
    writes: u8,
}

/// Read and write at once, over HTTP or the Redis protocol as the address says
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    kallisto bench mixed -prepare\n  \
    kallisto bench mixed -address=redis://127.0.0.1:6379 -writes=50 -prepare\n\n\
    Exit codes: 0 all answers were good, 1 a mistake in the call, 2 some were not, or the server was not reached")]
pub(crate) struct MixedArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    load: LoadArgs,
    /// Path or key of the secrets; {} is the number of the key [default: that of bench http or resp]
    #[arg(long, value_name = "PATTERN")]
    path: Option<String>,
    /// Of a hundred requests, how many write
    #[arg(long, value_name = "PERCENT", default_value_t = 5,
          value_parser = clap::value_parser!(u8).range(0..=100))]
    writes: u8,
}

/// Let clients connect all at once, log in, and read a secret each
///
/// Times count from the start for every client. Each asks once; what is refused is an error.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    kallisto bench herd -n 10000 -prepare\n  \
    kallisto bench herd -n 10000 -prepare -approle -pid=$(pidof kallisto)\n\n\
    Exit codes: 0 all were served, 1 a mistake in the call, 2 some were not, or the server was not reached")]
pub(crate) struct HerdArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Clients
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 1_000,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(CONNECTIONS_MAX)))]
    clients: u32,
    /// Each client logs in with AppRole; the role is made with the token that is given
    #[arg(long)]
    approle: bool,
    /// What kind of token the login gives
    #[arg(long, value_name = "KIND", value_enum, default_value_t = LoginToken::Service)]
    token_type: LoginToken,
    /// Path of the secrets; {} is the number of the key
    #[arg(long, value_name = "PATTERN", default_value = PATH_DEFAULT)]
    path: String,
    /// Seconds after which who was not served counts as an error
    #[arg(long, value_name = "SECONDS", default_value_t = 120,
          value_parser = clap::value_parser!(u64).range(1..=DURATION_SECS_MAX))]
    limit: u64,
    /// Seconds for which connections stay open after all were served
    #[arg(long, value_name = "SECONDS", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(0..=DURATION_SECS_MAX))]
    hold: u64,
}

/// Where a load goes and how it is told about.
#[derive(Args, Debug)]
struct ServerArgs {
    /// Server: http(s):// or redis(s):// and host:port [default: KALLISTO_ADDR, else this machine]
    #[arg(long, value_name = "URL")]
    address: Option<String>,
    /// Token [default: KALLISTO_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    token: Option<SecretString>,
    /// PEM file of the authority to trust [default: KALLISTO_CACERT, else the machine's]
    #[arg(long, value_name = "FILE")]
    ca_cert: Option<PathBuf>,
    /// Resume TLS sessions when connecting again
    #[arg(long)]
    resume: bool,
    /// Write the keys first and, over HTTP, make a policy and a token for it
    #[arg(long)]
    prepare: bool,
    /// Distinct keys
    #[arg(long, value_name = "COUNT", default_value_t = 1_000,
          value_parser = clap::value_parser!(u64).range(1..=KEYS_MAX))]
    keys: u64,
    /// Bytes of each secret's value
    #[arg(long, value_name = "BYTES", default_value_t = 128,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(VALUE_BYTES_MAX)))]
    value_bytes: u32,
    /// Process of the server, to tell what memory and processor time it uses
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Draw the latencies into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// How a load asks.
#[derive(Args, Debug)]
struct LoadArgs {
    /// Requests a second, answered or not; without it each connection asks when it was answered
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Connections
    #[arg(short = 'c', long, value_name = "COUNT", default_value = "50")]
    connections: NonZeroU32,
    /// Requests on their way on each connection
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(DEPTH_MAX)))]
    pipeline: u32,
    /// Threads
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(THREADS_MAX)))]
    threads: u32,
    /// A new connection for each request
    #[arg(long)]
    reconnect: bool,
    /// Seconds of load that are measured
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=DURATION_SECS_MAX))]
    duration: u64,
    /// Seconds of load before those
    #[arg(long, value_name = "SECONDS", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(0..=DURATION_SECS_MAX))]
    warm_up: u64,
    /// How keys are drawn
    #[arg(long, value_name = "DRAW", value_enum, default_value_t = Draw::Uniform)]
    draw: Draw,
    /// Seed of the draw
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

impl LoadCommand {
    /// Runs the load and prints its figures.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        match self {
            Self::Http(http) => {
                let target = http.server.target(ADDRESS_DEFAULT)?.speaking(LoadProtocol::Http)?;
                load("http", &http.server, &http.load, target, &http.path, http.writes)
            }
            Self::Resp(resp) => {
                let target =
                    resp.server.target(RESP_ADDRESS_DEFAULT)?.speaking(LoadProtocol::Resp)?;
                load("resp", &resp.server, &resp.load, target, &resp.key, resp.writes)
            }
            Self::Mixed(mixed) => {
                let target = mixed.server.target(ADDRESS_DEFAULT)?;
                let pattern = mixed.path.as_deref().unwrap_or(match target.protocol {
                    LoadProtocol::Http => PATH_DEFAULT,
                    LoadProtocol::Resp => KEY_DEFAULT,
                });
                load("mixed", &mixed.server, &mixed.load, target, pattern, mixed.writes)
            }
            Self::Herd(herd) => stampede(&herd),
        }
    }
}

impl ServerArgs {
    fn target(&self, address_default: &str) -> Result<LoadTarget, Error> {
        let environment = Environment::process();
        let is_resp = address_default == RESP_ADDRESS_DEFAULT;
        let address = self.address.clone();
        // The environment names an HTTP server.
        let address = address.or_else(|| environment.value("ADDR").filter(|_| !is_resp));
        let ca_cert = self.ca_cert.clone();
        let ca_cert = ca_cert.or_else(|| environment.value("CACERT").map(PathBuf::from));
        let sessions = if self.resume { Sessions::Resumed } else { Sessions::Fresh };
        let address = address.as_deref().unwrap_or(address_default);
        LoadTarget::parse(address, ca_cert.as_deref(), sessions)
    }

    fn token(&self) -> Option<SecretString> {
        let token = self.token.clone();
        token.or_else(|| Environment::process().value("TOKEN").map(SecretString::from))
    }

    fn watched(&self) -> WatchedBy {
        let by_a_person = std::io::stderr().is_terminal() && !self.json;
        if by_a_person { WatchedBy::ByAPerson } else { WatchedBy::ByNobody }
    }

    fn templates(
        &self,
        target: &LoadTarget,
        pattern: &str,
        token: Option<&SecretString>,
    ) -> RequestTemplates {
        RequestTemplates::new(&TemplateParts {
            protocol: target.protocol,
            authority: &target.authority,
            pattern,
            token,
            value_bytes: self.value_bytes as usize,
        })
    }

    /// Writes every key once.
    fn write_keys(&self, target: &LoadTarget, templates: &RequestTemplates) -> Result<(), Error> {
        let (connections, depth) = PREPARING;
        let plan = LoadPlan {
            pace: LoadPace::EachOnce,
            reconnects: false,
            threads: 1,
            connections,
            depth,
            keys: self.keys,
            draw: Draw::Uniform,
            write_percent: 100,
            warm_up: Duration::ZERO,
            duration: Duration::ZERO,
            seed: 0,
        };
        let progress = LoadBar::new(self.watched(), "writing", LoadBar::length(&plan));
        let figures = run::run(&plan, target, templates, None, &progress)?;
        refuse_unwritten(&figures, self.keys)
    }

    fn draw_svg(&self, text: &str) -> Result<(), Error> {
        self.svg.as_deref().map_or(Ok(()), |path| write_picture(path, text))
    }
}

fn write_picture(path: &Path, text: &str) -> Result<(), Error> {
    files::fill_private(path, |file| file.write_all(text.as_bytes())).map_err(
        |error: std::io::Error| Error::unusable(format!("-svg {}: {error}", path.display())),
    )
}

impl LoadArgs {
    fn plan(&self, server: &ServerArgs, write_percent: u8) -> Result<LoadPlan, Error> {
        if self.connections.get() > CONNECTIONS_MAX {
            return Err(Error::usage(format!("-connections must be at most {CONNECTIONS_MAX}")));
        }
        if self.reconnect && self.pipeline > 1 {
            return Err(Error::usage("-reconnect and -pipeline exclude each other"));
        }
        let pace = pace(self.rate)?;
        Ok(LoadPlan {
            pace,
            reconnects: self.reconnect,
            threads: self.threads.min(self.connections.get()),
            connections: self.connections,
            depth: self.pipeline,
            keys: server.keys,
            draw: self.draw,
            write_percent,
            warm_up: Duration::from_secs(self.warm_up),
            duration: Duration::from_secs(self.duration),
            seed: self.seed,
        })
    }
}

fn pace(rate: Option<f64>) -> Result<LoadPace, Error> {
    match rate {
        None => Ok(LoadPace::Closed),
        Some(per_second) if RATES.contains(&per_second) => Ok(LoadPace::Open { per_second }),
        Some(_) => Err(Error::usage("-rate must be 0.001 to 10,000,000")),
    }
}

/// The load that follows asks for every key: one that was not written would be an error of the server.
fn refuse_unwritten(figures: &LoadFigures, keys: u64) -> Result<(), Error> {
    if let Some((why, count)) = figures.errors.iter().next() {
        return Err(Error::unusable(format!("preparing: {count} keys not written: {why}")));
    }
    let written = figures.good_total();
    if written == keys {
        return Ok(());
    }
    let minutes = run::EACH_ONCE_MAX.as_secs() / 60;
    Err(Error::unusable(format!(
        "preparing: {written} of {keys} keys were written in {minutes} minutes: give fewer -keys"
    )))
}

fn load(
    kind: &str,
    server: &ServerArgs,
    load: &LoadArgs,
    target: LoadTarget,
    pattern: &str,
    write_percent: u8,
) -> Result<Outcome, Error> {
    check_pattern(pattern)?;
    let plan = load.plan(server, write_percent)?;
    raise_open_files(plan.connections.get())?;
    let mut token = server.token();
    if server.prepare {
        server.write_keys(&target, &server.templates(&target, pattern, token.as_ref()))?;
        if let (LoadProtocol::Http, Some(operator)) = (target.protocol, &token) {
            let operator = Operator { target: &target, token: operator };
            token = Some(operator.make_token(pattern)?);
        }
    }
    let templates = server.templates(&target, pattern, token.as_ref());
    let progress = LoadBar::new(server.watched(), "load", LoadBar::length(&plan));
    let figures = run::run(&plan, &target, &templates, server.pid, &progress)?;
    let title = title(kind, &target, &plan, server);
    let curves = [("reads", &figures.reads), ("writes", &figures.writes)];
    let curves: Vec<_> = curves.into_iter().filter(|(_, curve)| !curve.is_empty()).collect();
    server.draw_svg(&plot::svg(&title, &curves))?;
    let text = match server.json {
        true => report::json(&title, &figures),
        false => report::table(&title, &figures),
    };
    let code = if figures.errors.is_empty() { 0 } else { EXIT_SERVER };
    Ok(Outcome::print(text).with_code(code))
}

fn stampede(args: &HerdArgs) -> Result<Outcome, Error> {
    let server = &args.server;
    check_pattern(&args.path)?;
    let target = server.target(ADDRESS_DEFAULT)?.speaking(LoadProtocol::Http)?;
    raise_open_files(args.clients)?;
    let token = server.token();
    if server.prepare {
        server.write_keys(&target, &server.templates(&target, &args.path, token.as_ref()))?;
    }
    let operator = token.as_ref().map(|token| Operator { target: &target, token });
    let entry = match (&operator, args.approle) {
        (Some(operator), true) => operator.make_login(&args.path, args.token_type)?,
        (Some(operator), false) if server.prepare => {
            ClientLogin::Token(operator.make_token(&args.path)?)
        }
        (Some(operator), false) => ClientLogin::Token(operator.token.clone()),
        (None, true) => return Err(Error::usage("-approle needs a token to make the role with")),
        (None, false) => ClientLogin::Token(SecretString::from("none")),
    };
    let plan = HerdPlan {
        clients: args.clients as usize,
        entry,
        pattern: args.path.clone(),
        keys: server.keys,
        time_max: Duration::from_secs(args.limit),
        hold: Duration::from_secs(args.hold),
    };
    let progress = LoadBar::new(server.watched(), "herd", u64::from(args.clients));
    let herd = herd::run(&plan, &target, server.pid, &progress)?;
    let how = if args.approle { "an AppRole login each" } else { "a token" };
    let title = format!("herd of {} at {}, {how}", args.clients, target.authority);
    let curves = [("logins", &herd.figures.writes), ("served", &herd.figures.reads)];
    let curves: Vec<_> = curves.into_iter().filter(|(_, curve)| !curve.is_empty()).collect();
    server.draw_svg(&plot::svg(&title, &curves))?;
    let text = match server.json {
        true => report::herd_json(&title, &herd),
        false => report::herd_table(&title, &herd),
    };
    let all_served = herd.served == u64::from(args.clients);
    Ok(Outcome::print(text).with_code(if all_served { 0 } else { EXIT_SERVER }))
}

fn title(kind: &str, target: &LoadTarget, plan: &LoadPlan, server: &ServerArgs) -> String {
    let pace = match plan.pace {
        LoadPace::Open { per_second } => format!("{per_second} requests/s"),
        LoadPace::Closed | LoadPace::EachOnce => "closed loop".to_owned(),
    };
    let reuse = if plan.reconnects { ", a connection a request" } else { "" };
    format!(
        "{kind} at {}: {pace}, {} connections, {} deep{reuse}; {} keys, {} bytes, {} % writes",
        target.authority,
        plan.connections,
        plan.depth,
        plan.keys,
        server.value_bytes,
        plan.write_percent
    )
}

fn check_pattern(pattern: &str) -> Result<(), Error> {
    let is_plain = pattern.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain && pattern.contains("{}") {
        Ok(())
    } else {
        Err(Error::usage(format!(
            "{pattern:?}: want graphic characters, and {{}} for the key's number"
        )))
    }
}

/// Takes as many open files as the system grants, which must do for so many connections.
fn raise_open_files(connections: u32) -> Result<(), Error> {
    let granted = getrlimit(Resource::Nofile);
    let wanted = u64::from(connections) + FILES_BESIDE;
    if granted.maximum.is_some_and(|maximum| maximum < wanted) {
        return Err(Error::usage(format!(
            "{connections} connections need {wanted} open files: raise the limit (ulimit -Hn)"
        )));
    }
    let all = Rlimit { current: granted.maximum, maximum: granted.maximum };
    setrlimit(Resource::Nofile, all)
        .map_err(|error| Error::usage(format!("the limit of open files stays as it is: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::plan::LoadKind;
    use crate::load::protocol::ReplyVerdict;

    #[test]
    fn patterns_name_a_key_and_nothing_that_breaks_a_request() {
        assert!(check_pattern(PATH_DEFAULT).is_ok() && check_pattern(KEY_DEFAULT).is_ok());
        for wrong in ["/v1/secret/data/k", "/a b{}", "/{}\r\nX: y"] {
            assert!(check_pattern(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_rate_is_one_that_can_be_asked_for() {
        assert!(matches!(pace(None), Ok(LoadPace::Closed)));
        for rate in [0.001, 20_000.0, 10_000_000.0] {
            assert!(pace(Some(rate)).is_ok_and(|pace| pace == LoadPace::Open { per_second: rate }));
        }
        for rate in [0.0, -1.0, 1e-300, 1e15, f64::INFINITY, f64::NAN] {
            assert!(pace(Some(rate)).is_err(), "{rate}");
        }
    }

    #[test]
    fn keys_that_were_not_written_in_time_are_told() {
        let mut figures = LoadFigures::new();
        (0..3).for_each(|_| figures.answered(LoadKind::Write, 1, ReplyVerdict::Good));
        assert!(refuse_unwritten(&figures, 3).is_ok());
        let told = refuse_unwritten(&figures, 4).unwrap_err().to_string();
        assert!(told.contains("3 of 4 keys"), "{told}");
        figures.answered(LoadKind::Write, 1, ReplyVerdict::Status(503));
        assert!(refuse_unwritten(&figures, 4).is_err());
    }

    #[test]
    fn a_picture_takes_the_place_of_no_device() {
        let directory =
            std::env::temp_dir().join(format!("kallisto-picture-{}", std::process::id()));
        files::create_private_directory(&directory).unwrap();
        let (device, picture) = (directory.join("device"), directory.join("picture.svg"));
        std::os::unix::fs::symlink("/dev/null", &device).unwrap();
        write_picture(&device, "<svg/>").unwrap();
        assert_eq!(std::fs::read_link(&device).unwrap(), Path::new("/dev/null"));
        (0..2).for_each(|_| write_picture(&picture, "<svg/>").unwrap());
        assert_eq!(files::read(&picture).unwrap(), b"<svg/>");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
