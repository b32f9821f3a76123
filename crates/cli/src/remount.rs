//! `secrets move`: a mount under another path.

use clap::Args;

use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output;
use kallisto_command::secret::Secret;

/// How often the server is asked whether a move has ended, and the pause between.
const ASKS_MAX: u32 = 600;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(200);

/// Moves a mount to another path.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto secrets move secret/ team/secret/\n\n\
    Policies name paths: what is moved is reached by the rules for its new path alone.\n\n\
    Exit codes: 0 moved, 1 a mistake in the call, 2 the server refused, or the move failed")]
pub(crate) struct Move {
    /// Where it is mounted
    from: String,
    /// Where it will be
    to: String,
    #[command(flatten)]
    common: CommonFlags,
}

impl Move {
    /// Moves it, and waits until that is done.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let (from, to) = (self.from.trim_matches('/'), self.to.trim_matches('/'));
        let client = Client::new(&config)?;
        let body =
            Map::from([("from".to_owned(), Json::from(from)), ("to".to_owned(), Json::from(to))]);
        let what = format!("secrets engine {from}/ to {to}/");
        let doing = format!("Error moving {what}");
        let answer = client.send(&ClientRequest::put("sys/remount", body));
        let data = Secret::data_of(answer.map_err(Error::doing(doing.clone()))?, &doing)?;
        let id = data.get("migration_id").and_then(Json::as_str);
        let id = id.ok_or_else(|| Error::empty_answer(&doing))?;
        let status = await_end(&client, id)?;
        if status != "success" {
            return Err(Error::Absent(format!(
                "Moving {what} ended with: {status} (migration {id})"
            )));
        }
        let sentence = format!("Success! Finished moving {what}, with migration ID {id}");
        Ok(output::done(&config, &sentence))
    }
}

/// Asks until the move has ended; returns how.
fn await_end(client: &Client<'_>, id: &str) -> Result<String, Error> {
    let request = ClientRequest::get(&format!("sys/remount/status/{id}"));
    for _ in 0..ASKS_MAX {
        let doing = Error::doing("Error asking for the state of the move");
        let answer = client.send(&request).map_err(doing)?.unwrap_or_default();
        let info = answer.datum_map("migration_info");
        let status = info.and_then(|info| info.get("status")).and_then(Json::as_str);
        match status {
            Some("in-progress") => std::thread::sleep(PAUSE),
            status => return Ok(status.unwrap_or("unknown").to_owned()),
        }
    }
    Ok("in-progress".to_owned())
}
