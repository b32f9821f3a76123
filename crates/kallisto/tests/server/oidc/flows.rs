//! Honest logins in every mode, and through each server of a cluster.

use std::thread;

use super::provider::{Lie, Provider};
use super::{HERE, ROLE, auth_url, browse, hand_on, log_in, mount, server};
use crate::pair;
use crate::support::{Directory, Server, until};

#[test]
fn a_login_gives_a_token_of_its_role_with_groups_and_metadata() {
    let directory = Directory::new("oidc-good");
    let provider = Provider::start();
    let (server, keys) = server(&directory, &provider);
    let mut root = server.client(&keys.root);
    let accessor = root.get("sys/auth").at("data.oidc/.accessor");
    let group = root.put("identity/group", r#"{"name":"a","type":"external","policies":"adm"}"#);
    let alias = format!(
        r#"{{"name":"admins","mount_accessor":"{accessor}","canonical_id":"{}"}}"#,
        group.at("data.id")
    );
    root.put("identity/group-alias", &alias);
    let good = log_in(&server, &provider).good();
    assert_eq!(good.strings("auth.token_policies"), ["default", "dev"]);
    assert_eq!(good.strings("auth.policies"), ["adm", "default", "dev"], "{good:?}");
    assert_eq!(good.at("auth.metadata.role"), "r");
    let token = good.at("auth.client_token");
    assert_eq!(
        server.client(&token).get("auth/token/lookup-self").at("data.display_name"),
        "oidc-ann"
    );
    assert_eq!(server.client(&token).put("auth/token/renew-self", "{}").status, 200);
    // The next login has the groups that the provider says then.
    let without = r#"{"sub":"ann","team":"red","groups":["dev"]}"#;
    provider.lie(Lie { user_info: Some((200, without)), ..Lie::default() });
    let good = log_in(&server, &provider).good();
    assert_eq!(good.strings("auth.policies"), ["default", "dev"], "{good:?}");
    root.send("DELETE", "auth/oidc/role/r", "");
    let refused = server.client(&token).send("PUT", "auth/token/renew-self", "{}");
    assert_eq!((refused.status, refused.body.contains("role")), (400, true), "{refused:?}");
    server.stop();
}

#[test]
fn a_login_works_inside_a_namespace() {
    let directory = Directory::new("oidc-namespace");
    let provider = Provider::start();
    let (server, keys) = server(&directory, &provider);
    let mut root = server.client(&keys.root);
    root.put("sys/namespaces/team", "{}");
    root.put("team/sys/auth/oidc", r#"{"type":"oidc"}"#);
    root.put("team/auth/oidc/config", &provider.config(""));
    root.put("team/auth/oidc/role/r", ROLE);
    let body = format!(r#"{{"role":"r","redirect_uri":"{HERE}?namespace=team"}}"#);
    let url = server.anyone().put("team/auth/oidc/oidc/auth_url", &body).at("data.auth_url");
    let (code, state) = provider.log_in(&url);
    assert!(state.ends_with(",ns=team"), "{state}");
    let path = format!("auth/oidc/oidc/callback?code={code}&state={state}");
    assert_eq!(server.anyone().get(&path).status, 400, "the mount of another namespace");
    server.anyone().get(&format!("team/{path}")).good();
    server.stop();
}

/// The role and redirect URI of logins by direct callback.
fn direct(server: &Server, token: &str) -> String {
    let redirect = format!("http://{}/v1/auth/oidc/oidc/callback", server.address);
    let role = format!(
        r#"{{"user_claim":"sub","allowed_redirect_uris":"{redirect}","callback_mode":"direct"}}"#
    );
    server.client(token).put("auth/oidc/role/d", &role);
    redirect
}

#[test]
fn a_direct_callback_gives_no_token_before_somebody_pressed_the_button() {
    let directory = Directory::new("oidc-direct");
    let provider = Provider::start();
    let (server, keys) = server(&directory, &provider);
    let redirect = direct(&server, &keys.root);
    let body = format!(r#"{{"role":"d","redirect_uri":"{redirect}"}}"#);
    let refused = server.anyone().send("PUT", "auth/oidc/oidc/auth_url", &body);
    assert_eq!(refused.at("errors.0"), "missing client_nonce");
    let begun = auth_url(&server, "d", &redirect, "n");
    assert_eq!(begun.at("data.poll_interval"), "5");
    let state = begun.at("data.state");
    let poll = |nonce: &str| {
        let body = format!(r#"{{"state":"{state}","client_nonce":"{nonce}"}}"#);
        server.anyone().send("PUT", "auth/oidc/oidc/poll", &body)
    };
    assert_eq!(poll("n").at("errors.0"), "authorization_pending");
    assert_eq!(poll("x").at("errors.0"), "invalid client_nonce");
    let (code, state_back) = provider.log_in(&begun.at("data.auth_url"));
    assert_eq!(state_back, state);
    let target = format!("/v1/auth/oidc/oidc/callback?code={code}&state={state}");
    let (status, _, page) = browse(server.address, "GET", &target, "");
    assert_eq!(status, 200);
    for named in ["auth/oidc/", "<b>d</b>", "127.0.0.1", "<button"] {
        assert!(page.contains(named), "{named}: {page}");
    }
    assert_eq!(poll("n").at("errors.0"), "authorization_pending");
    // Coming back again shows no second button, and another button is none.
    let (status, _, again) = browse(server.address, "GET", &target, "");
    assert!(status == 400 && !again.contains("<button"), "{again}");
    let confirm = page.split_once("name=\"confirm\" value=\"").unwrap().1;
    let confirm = confirm.split_once('"').unwrap().0;
    let press = |value: &str| {
        browse(server.address, "POST", "/v1/auth/oidc/oidc/callback", &format!("confirm={value}"))
    };
    let (id, secret) = confirm.split_once('.').unwrap();
    // What is drawn may begin with any character.
    let first = if secret.starts_with('x') { 'y' } else { 'x' };
    let other = format!("{id}.{first}{}", &secret[1..]);
    for wrong in [&format!("{id}."), id, &other, &format!("x.{secret}")] {
        assert_eq!(press(wrong).0, 400, "{wrong}");
        assert_eq!(poll("n").at("errors.0"), "authorization_pending");
    }
    assert_eq!(press(confirm).0, 200);
    assert_eq!(press(confirm).0, 400, "the button is pressed once");
    assert_eq!(poll("x").at("errors.0"), "invalid client_nonce");
    let good = poll("n").good();
    assert_eq!(good.at("auth.metadata.role"), "d");
    let token = good.at("auth.client_token");
    assert_eq!(server.client(&token).get("auth/token/lookup-self").status, 200);
    assert_eq!(poll("n").at("errors.0"), "Vault login failed. Expired or missing OAuth state.");
    server.stop();
}

#[test]
fn a_direct_login_that_is_refused_tells_its_client_why_and_the_browser_nothing() {
    let directory = Directory::new("oidc-direct-refused");
    let provider = Provider::start();
    let (server, keys) = server(&directory, &provider);
    let redirect = direct(&server, &keys.root);
    server.client(&keys.root).put("auth/oidc/role/d", r#"{"bound_claims":{"team":"blue"}}"#);
    let begun = auth_url(&server, "d", &redirect, "n");
    let (code, state) = provider.log_in(&begun.at("data.auth_url"));
    let target = format!("/v1/auth/oidc/oidc/callback?code={code}&state={state}");
    let (status, _, page) = browse(server.address, "GET", &target, "");
    assert!(status == 400 && !page.contains("team"), "{page}");
    let body = format!(r#"{{"state":"{state}","client_nonce":"n"}}"#);
    let refused = server.anyone().send("PUT", "auth/oidc/oidc/poll", &body);
    let why =
        "error validating claims: claim \"team\" does not match any associated bound claim values";
    assert_eq!(refused.at("errors.0"), format!("Vault login failed. {why}"));
    server.stop();
}

/// With `form_post` a provider has the browser post, to the server: the page that began cannot take it.
#[test]
fn what_a_provider_posts_goes_on_to_the_page_that_began() {
    let directory = Directory::new("oidc-posted");
    let provider = Provider::start();
    let (server, keys) = server(&directory, &provider);
    let mut root = server.client(&keys.root);
    root.put("sys/namespaces/team", "{}");
    root.put("team/sys/auth/oidc", r#"{"type":"oidc"}"#);
    for namespace in ["", "team/"] {
        let config = provider.config(r#","oidc_response_mode":"form_post""#);
        root.put(&format!("{namespace}auth/oidc/config"), &config);
        let page = "https://kallisto.example/ui/callback/oidc";
        let role = format!(r#"{{"user_claim":"sub","allowed_redirect_uris":"{page}"}}"#);
        root.put(&format!("{namespace}auth/oidc/role/p"), &role);
        let body = format!(r#"{{"role":"p","redirect_uri":"{page}","client_nonce":"n"}}"#);
        let begun = server.anyone().put(&format!("{namespace}auth/oidc/oidc/auth_url"), &body);
        let url = begun.at("data.auth_url");
        let posting = format!("https://kallisto.example/v1/{namespace}auth/oidc/oidc/callback");
        let posting = posting.replace(':', "%3A").replace('/', "%2F");
        assert!(url.contains(&format!("&redirect_uri={posting}&")), "{url}");
        let (code, state) = provider.log_in(&url);
        let target = format!("/v1/{namespace}auth/oidc/oidc/callback");
        let form = format!("code={code}&state={state}");
        let (status, head, _) = browse(server.address, "POST", &target, &form);
        let location = format!("\nlocation: /ui/callback/oidc?{form}").to_ascii_lowercase();
        assert!(status == 303 && head.contains(&location), "{head}");
        let path =
            format!("{namespace}auth/oidc/oidc/callback?code={code}&state={state}&client_nonce=n");
        server.anyone().get(&path).good();
    }
    server.stop();
}

#[test]
fn an_address_without_a_page_is_told_with_a_warning() {
    let directory = Directory::new("oidc-no-page");
    let provider = Provider::start();
    provider.lie(Lie { has_no_page: true, ..Lie::default() });
    let (server, _) = server(&directory, &provider);
    let told = auth_url(&server, "r", HERE, "n");
    assert!(told.at("data.auth_url").starts_with("?client_id="), "{told:?}");
    assert!(told.at("warnings.0").contains("no authorization_endpoint"), "{told:?}");
    server.stop();
}

#[test]
fn a_device_logs_in_when_its_provider_says_so() {
    let directory = Directory::new("oidc-device");
    let provider = Provider::start();
    let (server, keys) = server(&directory, &provider);
    let role = r#"{"user_claim":"sub","callback_mode":"device"}"#;
    server.client(&keys.root).put("auth/oidc/role/v", role);
    let begin =
        || server.anyone().put("auth/oidc/oidc/auth_url", r#"{"role":"v","client_nonce":"n"}"#);
    // Google's says `verification_url`.
    provider.lie(Lie { says_url: true, ..Lie::default() });
    assert_eq!(begin().at("data.auth_url"), format!("{}/activate", provider.issuer()));
    provider.lie(Lie::default());
    let begun = begin();
    assert_eq!(begun.at("data.user_code"), "ABCD-EFGH");
    assert_eq!(begun.at("data.auth_url"), format!("{}/activate", provider.issuer()));
    assert_eq!(begun.at("data.poll_interval"), "1");
    assert!(!begun.body.contains("device_code"), "{begun:?}");
    let body = format!(r#"{{"state":"{}","client_nonce":"n"}}"#, begun.at("data.state"));
    let poll = || server.anyone().send("PUT", "auth/oidc/oidc/poll", &body);
    assert_eq!(poll().at("errors.0"), "authorization_pending");
    provider.let_in();
    let mut last = None;
    until("the device to be let in", || {
        let reply = poll();
        let is_done = reply.status == 200;
        last = Some(reply);
        is_done
    });
    assert_eq!(last.unwrap().at("auth.metadata.role"), "v");
    assert_eq!(poll().at("errors.0"), "Vault login failed. Expired or missing OAuth state.");
    server.stop();
}

#[test]
fn of_many_who_bring_the_same_one_gets_a_token() {
    let directory = Directory::new("oidc-racers");
    let provider = Provider::start();
    let (server, keys) = server(&directory, &provider);
    let redirect = direct(&server, &keys.root);
    // By direct callback the code is exchanged before, so it is not the provider that lets one pass.
    let begun = auth_url(&server, "d", &redirect, "n");
    let (code, state) = provider.log_in(&begun.at("data.auth_url"));
    let target = format!("/v1/auth/oidc/oidc/callback?code={code}&state={state}");
    let (_, _, page) = browse(server.address, "GET", &target, "");
    let confirm = page.split_once("name=\"confirm\" value=\"").unwrap().1;
    let confirm = format!("confirm={}", confirm.split_once('"').unwrap().0);
    browse(server.address, "POST", "/v1/auth/oidc/oidc/callback", &confirm);
    let body = format!(r#"{{"state":"{state}","client_nonce":"n"}}"#);
    let granted: usize = thread::scope(|scope| {
        let (server, body) = (&server, body.as_str());
        let racers: Vec<_> = (0..64)
            .map(|_| {
                scope.spawn(move || {
                    let reply = server.anyone().send("PUT", "auth/oidc/oidc/poll", body);
                    usize::from(!reply.at("auth.client_token").is_empty())
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).sum()
    });
    assert_eq!(granted, 1);
    server.stop();
}

#[test]
fn a_login_goes_on_at_another_server_and_after_another_leads() {
    let directory = Directory::new("oidc-pair");
    let provider = Provider::start();
    let (one, two, keys) = pair::start(&directory, &[]);
    mount(&one, &keys, &provider);
    until("the mount to be on both", || {
        two.client(&keys.root).get("auth/oidc/role/r").status == 200
    });
    let mut used = Vec::new();
    for (first, second) in [(&one, &two), (&two, &one), (&two, &two)] {
        let before = provider.exchanges();
        let (code, state) = provider.log_in(&auth_url(first, "r", HERE, "n").at("data.auth_url"));
        hand_on(second, &code, &state, "n").good();
        assert_eq!(provider.exchanges(), before + 1, "a follower asks nobody");
        assert_eq!(hand_on(first, &code, &state, "n").status, 400);
        used.push((code, state));
    }
    let (code, state) = provider.log_in(&auth_url(&one, "r", HERE, "n").at("data.auth_url"));
    one.client(&keys.root).put("sys/step-down", "");
    until("the other to lead", || {
        let health = two.anyone().get("sys/health");
        health.at("standby") == "false"
    });
    hand_on(&one, &code, &state, "n").good();
    used.push((code, state));
    for (code, state) in used {
        for server in [&one, &two] {
            let refused = hand_on(server, &code, &state, "n");
            assert!(refused.body.contains("Expired or missing OAuth state"), "{refused:?}");
        }
    }
    one.stop();
    two.stop();
}
