//! `kv watch`: changes of secrets as they happen.
//!
//! Kallisto's alone. Prints a line for each event as it comes, so unlike other commands it writes
//! while it runs. A connection that breaks is opened again where it broke off.

use std::io::Write;
use std::time::Duration;

use clap::Args;

use super::place::{KvPath, MountFlag};
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map, parse_object};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{OutputFormat, table};

/// Pause before a broken stream is opened again.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// Follows changes of a secret or a folder.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto kv watch secret/app/\n  kallisto kv watch -mount=secret -format=json app/db\n  kallisto kv watch -events=1 secret/app/db && systemctl reload app\n\n\
    Exit codes: 0 as many events as asked for came, 1 a mistake in the call, 2 the server ended the stream"
)]
pub(crate) struct Watch {
    /// A secret, or a folder by a final /
    path: String,
    /// Begin after this event, or after this X-Kallisto-Index of a read
    #[arg(long, value_name = "INDEX")]
    index: Option<String>,
    /// End after so many changes
    #[arg(long, value_name = "NUMBER")]
    events: Option<u64>,
    #[command(flatten)]
    mount: MountFlag,
    #[command(flatten)]
    common: CommonFlags,
}

/// One event, as far as it has come.
#[derive(Default)]
struct WatchEvent {
    name: String,
    id: String,
    data: String,
}

/// Why a stream was left.
enum StreamLeft {
    /// It broke, or its server stopped.
    Broken,
    /// Enough changes have come.
    Enough,
    /// The server ended it, for this reason.
    Ended(String),
}

/// What is known between two connections.
struct Following {
    format: OutputFormat,
    index: Option<String>,
    left: Option<u64>,
}

impl Watch {
    /// Follows until there is a reason to end.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let place = KvPath::find(&client, &self.mount, &self.path)?;
        // A mount alone, or a final slash: what is below it.
        let path = if self.path.ends_with('/') || place.is_mount() {
            place.folder()
        } else {
            place.full()
        };
        let mut following =
            Following { format: config.format, index: self.index, left: self.events };
        loop {
            let mut request =
                ClientRequest::get("sys/kallisto/kv/watch").with_query("path", &*path);
            if let Some(index) = &following.index {
                request = request.with_query("index", index);
            }
            let doing = Error::doing(format!("Error watching {path}"));
            let mut event = WatchEvent::default();
            let mut end = StreamLeft::Broken;
            client
                .stream(&request, |line| match following.take(line, &mut event) {
                    None => true,
                    Some(left) => {
                        end = left;
                        false
                    }
                })
                .map_err(doing)?;
            match end {
                StreamLeft::Enough => return Ok(Outcome::default()),
                StreamLeft::Ended(reason) => return Err(Error::Absent(format!("Ended: {reason}"))),
                StreamLeft::Broken => std::thread::sleep(REOPEN_PAUSE),
            }
        }
    }
}

impl Following {
    /// Takes a line of the stream. Returns why to leave it, if there is a reason.
    fn take(&mut self, line: &str, event: &mut WatchEvent) -> Option<StreamLeft> {
        match line.split_once(": ") {
            Some(("event", name)) => name.clone_into(&mut event.name),
            Some(("id", id)) => id.clone_into(&mut event.id),
            Some(("data", data)) => data.clone_into(&mut event.data),
            _ if line.is_empty() && !event.name.is_empty() => {
                return self.finish(std::mem::take(event));
            }
            _ => {}
        }
        None
    }

    fn finish(&mut self, event: WatchEvent) -> Option<StreamLeft> {
        let data = parse_object(event.data.as_bytes()).unwrap_or_default();
        if event.name == "end" {
            let reason = data.get("reason").map(table::show).unwrap_or_default();
            // A server that stops may be another one soon.
            let is_stop = reason == "the server stops";
            return Some(if is_stop { StreamLeft::Broken } else { StreamLeft::Ended(reason) });
        }
        if !event.id.is_empty() {
            self.index = Some(event.id.clone());
        }
        if event.name == "ready" {
            return None;
        }
        if print(&self.shown(&event, data)).is_err() {
            // Nobody reads any more.
            return Some(StreamLeft::Enough);
        }
        let left = self.left.as_mut().filter(|_| event.name != "resync")?;
        *left = left.saturating_sub(1);
        (*left == 0).then_some(StreamLeft::Enough)
    }

    fn shown(&self, event: &WatchEvent, mut data: Map) -> String {
        if self.format != OutputFormat::Table {
            data.insert("event".into(), event.name.as_str().into());
            data.insert("index".into(), event.id.as_str().into());
            return String::from_utf8_lossy(&Json::Object(data).to_text()).into_owned();
        }
        let cell = |name: &str| data.get(name).map(table::show).unwrap_or_default();
        match event.name.as_str() {
            "resync" => format!("resync  {}", cell("reason")),
            name => {
                format!("{name:<6}  {}  {}", cell("path"), cell("version")).trim_end().to_owned()
            }
        }
    }
}

fn print(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
