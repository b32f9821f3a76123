//! The routes of logins by GitHub.

use kallisto_engine::FieldKind::{Flag, Span, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Admits, Field, LIMIT, field};
use kallisto_engine::{Handler, RouteRows, RowIndex, handler, row};

use super::mapping::{TEAMS, USERS};
use super::{config, log_in};
use crate::routes::with_token_fields;

const TEAM: Field =
    field("key", Text, "The slug or the name of the team; `default` for everybody.");
const USER: Field = field("key", Text, "The login of the person; `default` for everybody.");
const VALUE: Field = field("value", Text, "The policies, with commas between.");

/// `auth/github/`.
pub(super) static GITHUB: RouteRows<Handler> = RouteRows {
    index: RowIndex::new(),
    name: "github",
    tag: "auth",
    about: "Members of an organization at GitHub log in with a token of theirs.",
    groups: &[
        &[row!("config", with_token_fields![
            field("organization", Text, "The organization that they have to be in."),
            field("organization_id", Whole, "Its number; GitHub is asked for it when nobody says."),
            field("base_url", Text, "Where the API is; `https://api.github.com` when nobody says."),
        ], {
            Read => "Read which organization logs in.", handler!(|run| config::read(&run));
            Update => "Change which organization logs in.", handler!(async |run| config::write(&run).await);
        })],
        &[
            row!("map/teams", &[AFTER, LIMIT], {
                Read => "List the teams that have policies.", handler!(|run| TEAMS.list(&run));
                List => "List the teams that have policies.", handler!(|run| TEAMS.list(&run));
            }),
            row!("map/teams/{key}", &[TEAM, VALUE], {
                Read => "Read a team's policies.", handler!(|run| TEAMS.read(&run));
                Update => "Give policies to a team.", handler!(async |run| TEAMS.write(&run).await);
                Delete => "Take its policies from a team.", handler!(async |run| TEAMS.delete(&run).await);
            }.creating(|to| TEAMS.record(to.params))),
            row!("map/users", &[AFTER, LIMIT], {
                Read => "List the people that have policies.", handler!(|run| USERS.list(&run));
                List => "List the people that have policies.", handler!(|run| USERS.list(&run));
            }),
            row!("map/users/{key}", &[USER, VALUE], {
                Read => "Read a person's policies.", handler!(|run| USERS.read(&run));
                Update => "Give policies to a person.", handler!(async |run| USERS.write(&run).await);
                Delete => "Take policies from a person.", handler!(async |run| USERS.delete(&run).await);
            }.creating(|to| USERS.record(to.params))),
        ],
        &[row!("login", &[field("token", Text, "The token of GitHub.")], {
            Update => "Log in.", handler!(log_in);
        } .admitting(Admits::Anyone))],
    ],
};
