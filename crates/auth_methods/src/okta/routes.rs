//! The routes of logins at Okta.

use kallisto_engine::FieldKind::{Flag, Span, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Admits, Field, LIMIT, field};
use kallisto_engine::{Handler, RouteRows, RowIndex, handler, row};

use super::config::OktaConfig;
use super::{GROUPS, USERS, config, log_in};
use crate::records;
use crate::routes::with_token_fields;

const NAME: Field = field("name", Text, "The name.");
const POLICIES: Field = field("policies", Texts, "The policies.");

/// `auth/okta/`.
pub(super) static OKTA: RouteRows<Handler> = RouteRows {
    index: RowIndex::new(),
    name: "okta",
    tag: "auth",
    about: "Users of an organization at Okta log in with their password there.",
    groups: &[
        &[row!("config", with_token_fields![
            field("org_name", Text, "The organization."),
            field("organization", Text, "The older name of `org_name`."),
            field("api_token", Text, "Groups are asked for with it; never shown."),
            field("token", Text, "The older name of `api_token`."),
            field("base_url", Text, "The domain, `okta.com` when nobody says; or a whole address."),
            field("bypass_okta_mfa", Flag, "Whether a second factor that Okta asks for is left out."),
        ], {
            Read => "Read which organization logs in, without the token.", handler!(|run| config::read(&run));
            Update => "Change which organization logs in.",
                handler!(async |run| records::write_config::<OktaConfig>(&run).await);
        })],
        &[
            row!("groups", &[AFTER, LIMIT], {
                List => "List the groups that have policies.", handler!(|run| GROUPS.list(&run));
            }),
            row!("groups/{name..}", &[NAME, POLICIES], {
                Read => "Read a group's policies.", handler!(|run| GROUPS.read(&run));
                Update => "Give policies to a group.", handler!(async |run| GROUPS.write(&run).await);
                Delete => "Take its policies from a group.",
                    handler!(async |run| GROUPS.delete(&run, "name").await);
            }),
            row!("users", &[AFTER, LIMIT], {
                List => "List the users that have policies or groups here.", handler!(|run| USERS.list(&run));
            }),
            row!("users/{name..}", &[NAME, POLICIES, field("groups", Texts, "Groups besides those of Okta.")], {
                Read => "Read a user's policies and groups.", handler!(|run| USERS.read(&run));
                Update => "Give policies and groups to a user.", handler!(async |run| USERS.write(&run).await);
                Delete => "Take policies and groups from a user.",
                    handler!(async |run| USERS.delete(&run, "name").await);
            }),
        ],
        &[row!("login/{name..}", &[
            NAME,
            field("password", Text, "The password."),
            field("totp", Text, "The code of a second factor that Okta asks for."),
            field("provider", Text, "Whose factor that is, `OKTA` or `GOOGLE`; any when absent."),
        ], {
            Update => "Log in.", handler!(log_in);
        } .admitting(Admits::Anyone))],
    ],
};
