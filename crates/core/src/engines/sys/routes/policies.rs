//! Policies, and what they come to.

use kallisto_engine::FieldKind::{Map, Text, Texts};
use kallisto_engine::route::{Admits, Field, Scope, ServedBy, field};
use kallisto_engine::{Row, row};

use crate::dispatch::route_handler::{RouteHandler, any_token, runs};
use crate::engines::sys::capabilities::capabilities_of_accessor;
use crate::engines::sys::capabilities::capabilities_of_token;
use crate::engines::sys::capabilities::own_capabilities;
use crate::engines::sys::explain;
use crate::engines::sys::policies::{self, PolicyFamily};
use crate::engines::sys::policy_check;

const NAME: Field = field("name", Text, "Name of the policy.");
const POLICY: Field = field("policy", Text, "The policy in HCL or JSON, or either in base64.");
const PATHS: Field = field("paths", Texts, "The paths asked about.");

pub(super) const POLICIES: &[Row<RouteHandler>] = &[
    row!("policies/acl", &[], {
        List => "List the policies.", runs!(|run| Ok(policies::list(&run.context, PolicyFamily::Acl)));
    } .scope(Scope::Namespace)),
    row!("policies/acl/{name..}", &[NAME, POLICY], {
        Read => "Read a policy.",
            runs!(|run| policies::read(&run.context, run.params.get("name"), PolicyFamily::Acl));
        List => "List the policies whose names begin with this and a slash.",
            runs!(|run| policies::list_in(&run.context, run.params.get("name"), PolicyFamily::Acl));
        Update => "Write a policy.",
            runs!(async |run| {
                policies::write(&run.context, run.call, run.params.get("name"), PolicyFamily::Acl).await
            });
        Delete => "Delete a policy.",
            runs!(async |run| policies::delete(&run.context, run.params.get("name")).await);
    } .scope(Scope::Namespace)),
    row!("policy", &[], {
        List => "List the policies.",
            runs!(|run| Ok(policies::list(&run.context, PolicyFamily::Legacy)));
        Read => "List the policies.",
            runs!(|run| Ok(policies::list(&run.context, PolicyFamily::Legacy)));
    } .scope(Scope::Namespace).alias_of("policies/acl")),
    row!("policy/{name..}", &[NAME, POLICY, field("rules", Text, "The old name of `policy`.")], {
        Read => "Read a policy.",
            runs!(|run| policies::read(&run.context, run.params.get("name"), PolicyFamily::Legacy));
        List => "List the policies whose names begin with this and a slash.",
            runs!(|run| {
                policies::list_in(&run.context, run.params.get("name"), PolicyFamily::Legacy)
            });
        Update => "Write a policy.",
            runs!(async |run| {
                policies::write(&run.context, run.call, run.params.get("name"), PolicyFamily::Legacy).await
            });
        Delete => "Delete a policy.",
            runs!(async |run| policies::delete(&run.context, run.params.get("name")).await);
    } .scope(Scope::Namespace).alias_of("policies/acl/{name..}")),
];

pub(super) const CAPABILITIES: &[Row<RouteHandler>] = &[
    row!("capabilities", &[field("token", Text, "The token."), PATHS], {
        Update => "List what a token may do at some paths.",
            runs!(|run| capabilities_of_token(&run.context, run.call));
    } .served_by(ServedBy::AnyServer).scope(Scope::Namespace)),
    row!("capabilities-self", &[PATHS], {
        Update => "List what the token that asks may do at some paths.",
            runs!(|run| own_capabilities(&run.context, run.call));
    } .served_by(ServedBy::AnyServer).scope(Scope::Namespace)),
    row!("capabilities-accessor", &[field("accessor", Text, "The accessor of the token."), PATHS], {
        Update => "List what the token of an accessor may do at some paths.",
            runs!(|run| capabilities_of_accessor(&run.context, run.call));
    } .served_by(ServedBy::AnyServer).scope(Scope::Namespace)),
    row!("policies/explain", EXPLAINED, {
        Update => "Say which rule of which policy decides, and why the others lost.",
            runs!(|run| explain::about_others(&run.context, run.call)).or_any_token(|run| {
            explain::about_itself(run.context, run.request, run.caller)
        });
    }
    .served_by(ServedBy::AnyServer)
    .scope(Scope::Namespace)
    .admitting(Admits::AnyToken)
    .more("About another token, an entity or policies, the policies of the token that asks have to allow the path.")),
    row!("policies/check", &[POLICY], {
        Update => "Say what is wrong with the text of a policy, and which of its rules do nothing.",
            any_token!(|run| Some(policy_check::answer(run.context, run.request, run.caller)));
    }
    .served_by(ServedBy::AnyServer)
    .scope(Scope::Namespace)
    .admitting(Admits::AnyToken)
    .more("Nothing is stored. Warnings that name mounts are for tokens that reach them.")),
    row!("internal/ui/explain", EXPLAINED, {
        Update => "Say which rule of its own policies decides for the token that asks.",
            any_token!(|run| {
                Some(explain::only_about_itself(run.context, run.request, run.caller))
            });
    }
    .served_by(ServedBy::AnyServer)
    .scope(Scope::Namespace)
    .admitting(Admits::AnyToken)),
];

/// What an explanation takes.
const EXPLAINED: &[Field] = &[
    field("path", Text, "The path asked about."),
    PATHS,
    field("capability", Text, "The capability; `read` when absent."),
    field("capabilities", Texts, "Several; each is answered for each path."),
    field("accessor", Text, "Of the token; the one that asks when absent."),
    field("entity_id", Text, "The entity, instead of a token."),
    field("policies", Texts, "Policies the subject is taken to have besides."),
    field("draft", Map, "Texts of policies by name, in place of what is stored."),
];
