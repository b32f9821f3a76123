//! The page of all routes in the documents, made from the tables that the server works by.

use kallisto_reference::{hold, page, table};

use super::tests::families;
use super::{Admits, Field, FieldPlace, Rights, Route, openapi, pattern};

/// Who may ask, in the words of the page.
fn asks(route: &Route) -> String {
    let admits = match route.admits {
        Admits::Policy => "policy",
        Admits::AnyToken => "any token",
        Admits::AnyTokenOrNone => "any token, or none for less",
        Admits::Anyone => "anyone",
        Admits::AnyoneIfConfigured => "anyone where the listener says so, else policy",
        Admits::AnyoneAtListener => "anyone at a listener that says so",
        Admits::AnyoneWhileSealed => "anyone while sealed, then policy",
        Admits::WrappingToken => "a wrapping token for itself, else policy",
    };
    let sudo = match route.rights {
        Rights::Plain => "",
        Rights::Sudo => "; `sudo`",
        Rights::SudoToList => "; `sudo` to list",
        Rights::SudoToWrite => "; `sudo` to write",
    };
    let audited = if route.is_audited { "" } else { "; not audited" };
    format!("{admits}{sudo}{audited}")
}

/// The operations with a sentence each.
fn does(route: &Route) -> String {
    let lines = route.does.iter().map(|(operation, about)| {
        format!("**{}** {}", openapi::verb(*operation).to_uppercase(), about.trim_end_matches('.'))
    });
    lines.collect::<Vec<_>>().join("; ")
}

/// What it takes besides its path.
fn fields(route: &Route) -> String {
    let in_path: Vec<&str> = pattern::parameters(route.pattern).collect();
    let others = route.fields.iter().filter(|field| !in_path.contains(&field.name));
    let name = |field: &Field| match field.place {
        FieldPlace::Body => format!("`{}`", field.name),
        FieldPlace::Query => format!("`?{}=`", field.name),
    };
    others.map(name).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_page_of_routes_is_what_the_tables_say() {
    let about = "Every route below `/v1/`, by the mount that it belongs to: `secret/` stands for a KV mount of version 2, `one/` for one of \
        version 1, everything else for where it is usually mounted. `{name}` is one segment of a path, `{name..}` all that is left of it. \
        What a field holds is in the OpenAPI document of a running server (`sys/internal/specs/openapi`) and in the help of each path \
        (`kallisto path-help PATH`). [The HTTP API](../api.md) explains what the tables cannot.";
    let mut text = page("Routes", about, "the tables of routes");
    for (family, base) in families() {
        let rows = family.routes().filter(|route| !route.is_fallback).map(|route| {
            let also = route.alias_of.map(|of| format!(" (as `{base}{of}`)")).unwrap_or_default();
            vec![
                format!("`{base}{}`{also}", route.pattern),
                does(route),
                asks(route),
                fields(route),
            ]
        });
        let rows: Vec<Vec<String>> = rows.collect();
        if !rows.is_empty() {
            text.push_str(&format!("## `{base}`\n\n"));
            table(&mut text, &["path", "operations", "who may ask", "fields"], rows);
        }
    }
    hold("routes.md", &format!("{}\n", text.trim_end()));
}
