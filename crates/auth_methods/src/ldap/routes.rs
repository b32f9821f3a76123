//! The routes of logins at a directory.

use kallisto_engine::FieldKind::{Flag, Span, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Admits, Field, LIMIT, field};
use kallisto_engine::{Handler, RouteRows, RowIndex, handler, row};

use super::{GROUPS, USERS, config, log_in};
use crate::routes::with_token_fields;

const NAME: Field = field("name", Text, "The name.");
const POLICIES: Field = field("policies", Texts, "The policies.");

/// `auth/ldap/`.
pub(super) static LDAP: RouteRows<Handler> = RouteRows {
    index: RowIndex::new(),
    name: "ldap",
    tag: "auth",
    about: "Users of a directory log in with their password there.",
    groups: &[
        &[row!("config", with_token_fields![
            field("url", Text, "`ldap://HOST:PORT` or `ldaps://HOST:PORT`, several with commas between, tried in order."),
            field("starttls", Flag, "Whether TLS begins on an open connection."),
            field("insecure_tls", Flag, "Whether no certificate is checked."),
            field("certificate", Text, "The authorities to believe, as PEM."),
            field("client_tls_cert", Text, "A certificate for us, as PEM."),
            field("client_tls_key", Text, "Its key, as PEM; never shown."),
            field("tls_min_version", Text, "`tls12` or `tls13`."),
            field("tls_max_version", Text, "`tls12` or `tls13`."),
            field("binddn", Text, "As whom users and groups are searched for."),
            field("bindpass", Text, "With which password; never shown."),
            field("userdn", Text, "Below which entry users are."),
            field("userattr", Text, "The attribute that users are called by; `cn` when nobody says."),
            field("userfilter", Text, "Which entry is a user's, with `{{.UserAttr}}` and `{{.Username}}`."),
            field("upndomain", Text, "What follows the `@` of names at an Active Directory."),
            field("discoverdn", Flag, "Whether users are searched for as nobody."),
            field("anonymous_group_search", Flag, "Whether groups are searched for as nobody."),
            field("groupdn", Text, "Below which entry groups are; no groups are searched for without it."),
            field("groupfilter", Text, "Which entries are a user's groups, with `{{.UserDN}}` and `{{.Username}}`."),
            field("groupattr", Text, "The attribute that groups are called by; `cn` when nobody says."),
            field("use_token_groups", Flag, "Not supported: refused when it is true."),
            field("username_as_alias", Flag, "Whether users are known by the name that they log in with."),
            field("case_sensitive_names", Flag, "Whether names of groups and users here have case."),
            field("deny_null_bind", Flag, "Whether an empty password is refused at once; it is unless this says no."),
            field("dereference_aliases", Text, "`never`, `finding`, `searching` or `always`."),
            field("max_page_size", Whole, "How many groups are asked for at a time; 0 for all at once."),
            field("request_timeout", Span, "How long a request to the directory takes at the most."),
            field("connection_timeout", Span, "How long a connection is tried for."),
        ], {
            Read => "Read how the directory is asked, without secrets.", handler!(|run| config::read(&run));
            Update => "Change how the directory is asked.", handler!(async |run| config::write(&run).await);
        })],
        &[
            row!("groups", &[AFTER, LIMIT], {
                List => "List the groups that have policies.", handler!(|run| GROUPS.list(&run));
            }),
            row!("groups/{name..}", &[NAME, POLICIES], {
                Read => "Read a group's policies.", handler!(|run| GROUPS.read(&run));
                Update => "Give policies to a group.",
                    handler!(async |run| GROUPS.write(&run).await);
                Delete => "Take its policies from a group.",
                    handler!(async |run| GROUPS.delete(&run, "name").await);
            }),
            row!("users", &[AFTER, LIMIT], {
                List => "List the users that have policies or groups here.", handler!(|run| USERS.list(&run));
            }),
            row!("users/{name..}", &[NAME, POLICIES, field("groups", Texts, "Groups besides those of the directory.")], {
                Read => "Read a user's policies and groups.", handler!(|run| USERS.read(&run));
                Update => "Give policies and groups to a user.",
                    handler!(async |run| USERS.write(&run).await);
                Delete => "Take policies and groups from a user.",
                    handler!(async |run| USERS.delete(&run, "name").await);
            }),
        ],
        &[row!("login/{name..}", &[NAME, field("password", Text, "The password.")], {
            Update => "Log in.", handler!(log_in);
        } .admitting(Admits::Anyone))],
    ],
};
