//! Drives the server with vaultrs: `VAULT_ADDR` and `VAULT_TOKEN` name it. Prints one line a check.

use std::collections::HashMap;
use std::env;

use vaultrs::api::ResponseWrapper;
use vaultrs::api::auth::approle::requests::SetAppRoleRequest;
use vaultrs::api::sys::requests::{EnableEngineRequest, ListMountsRequest};
use vaultrs::api::token::requests::CreateTokenRequest;
use vaultrs::client::{VaultClient, VaultClientSettingsBuilder};
use vaultrs::error::ClientError;
use vaultrs::{auth, kv1, kv2, sys, token, transit};

type Fields = HashMap<String, String>;
type Walk = Result<(), ClientError>;

fn client(token: &str) -> VaultClient {
    let address = env::var("VAULT_ADDR").expect("VAULT_ADDR");
    let settings = VaultClientSettingsBuilder::default().address(address).token(token).build();
    VaultClient::new(settings.expect("settings")).expect("a client")
}

#[track_caller]
fn want(name: &str, is: bool) {
    assert!(is, "{name}");
    println!("ok {name}");
}

/// The status of a refusal.
#[track_caller]
fn refused<T>(name: &str, status: u16, told: Result<T, ClientError>) {
    match told {
        Err(ClientError::APIError { code, .. }) => want(name, code == status),
        Err(error) => panic!("{name}: {error}"),
        Ok(_) => panic!("{name}: not refused"),
    }
}

fn fields(pairs: &[(&str, &str)]) -> Fields {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Walk {
    let root = client(&env::var("VAULT_TOKEN").expect("VAULT_TOKEN"));
    let health = sys::health(&root).await?;
    want("health", health.initialized && !health.sealed && !health.standby);
    want("seal status", !sys::status(&root).await.map(|s| format!("{s:?}"))?.contains("SEALED"));
    key_values(&root).await?;
    tokens(&root).await?;
    approle(&root).await?;
    named_keys(&root).await
}

async fn key_values(root: &VaultClient) -> Walk {
    let mut one = EnableEngineRequest::builder();
    one.options(fields(&[("version", "1")]));
    sys::mount::enable(root, "rust-v1", "kv", Some(&mut one)).await?;
    kv1::set(root, "rust-v1", "a/b", &HashMap::from([("user", "u")])).await?;
    let got: Fields = kv1::get(root, "rust-v1", "a/b").await?;
    want("kv v1", got == fields(&[("user", "u")]));
    want("kv v1 list", kv1::list(root, "rust-v1", "a").await?.data.keys == ["b"]);
    kv1::delete(root, "rust-v1", "a/b").await?;
    sys::mount::disable(root, "rust-v1").await?;

    sys::mount::enable(root, "rust-v2", "kv-v2", None).await?;
    kv2::set(root, "rust-v2", "a", &fields(&[("v", "1")])).await?;
    kv2::set(root, "rust-v2", "a", &fields(&[("v", "2")])).await?;
    let got: Fields = kv2::read(root, "rust-v2", "a").await?;
    want("kv v2", got == fields(&[("v", "2")]));
    let old: Fields = kv2::read_version(root, "rust-v2", "a", 1).await?;
    want("kv v2 old version", old == fields(&[("v", "1")]));
    want("kv v2 list", kv2::list(root, "rust-v2", "").await? == ["a"]);
    want("kv v2 metadata", kv2::read_metadata(root, "rust-v2", "a").await?.versions.len() == 2);
    kv2::delete_latest(root, "rust-v2", "a").await?;
    // What is deleted is answered with its metadata, which vaultrs takes for no error of the API.
    want("kv v2 deleted", kv2::read::<Fields>(root, "rust-v2", "a").await.is_err());
    kv2::undelete_versions(root, "rust-v2", "a", vec![2]).await?;
    kv2::destroy_versions(root, "rust-v2", "a", vec![1]).await?;
    want("kv v2 destroyed", kv2::read_version::<Fields>(root, "rust-v2", "a", 1).await.is_err());
    want("mounts", sys::mount::list(root).await?.contains_key("rust-v2/"));
    Ok(())
}

async fn tokens(root: &VaultClient) -> Walk {
    let rules = r#"path "rust-v2/data/mine/*" { capabilities = ["create", "read"] }"#;
    sys::policy::set(root, "rust-p", rules).await?;
    want("policy", sys::policy::read(root, "rust-p").await?.rules == rules);
    let mut asked = CreateTokenRequest::builder();
    asked.policies(vec!["rust-p".to_owned()]).ttl("1h");
    let made = token::new(root, Some(&mut asked)).await?;
    let mine = client(&made.client_token);
    kv2::set(&mine, "rust-v2", "mine/x", &fields(&[("a", "b")])).await?;
    refused("a policy's end", 403, kv2::read::<Fields>(&mine, "rust-v2", "a").await);
    want("lookup", token::lookup_self(&mine).await?.ttl > 3500);
    want("renew", token::renew_self(&mine, Some("10m")).await?.lease_duration == 600);
    token::revoke_accessor(root, &made.accessor).await?;
    refused("a revoked token", 403, token::lookup_self(&mine).await);

    let wrapped = ListMountsRequest::builder().build().expect("a request").wrap(root).await?;
    want("wrapped", wrapped.lookup(root).await?.creation_path == "sys/mounts");
    let again = wrapped.info.token.clone();
    want("unwrapped", wrapped.unwrap(root).await?.contains_key("rust-v2/"));
    let twice = sys::wrapping::unwrap::<Fields>(root, Some(&again)).await;
    refused("a wrapped answer is given once", 400, twice);
    Ok(())
}

async fn approle(root: &VaultClient) -> Walk {
    sys::auth::enable(root, "rust-approle", "approle", None).await?;
    let mut role = SetAppRoleRequest::builder();
    role.token_policies(vec!["rust-p".to_owned()]).token_ttl("10m");
    auth::approle::role::set(root, "rust-approle", "web", Some(&mut role)).await?;
    let role_id = auth::approle::role::read_id(root, "rust-approle", "web").await?.role_id;
    let secret_id =
        auth::approle::role::secret::generate(root, "rust-approle", "web", None).await?;
    let anyone = client("");
    let login = auth::approle::login(&anyone, "rust-approle", &role_id, &secret_id.secret_id);
    want("approle", login.await?.lease_duration == 600);
    let wrong = auth::approle::login(&anyone, "rust-approle", &role_id, "wrong").await;
    refused("approle: a wrong secret id", 400, wrong);
    sys::auth::disable(root, "rust-approle").await
}

async fn named_keys(root: &VaultClient) -> Walk {
    sys::mount::enable(root, "rust-transit", "transit", None).await?;
    transit::key::create(root, "rust-transit", "k", None).await?;
    let sealed = transit::data::encrypt(root, "rust-transit", "k", "aGVsbG8=", None).await?;
    let sealed = sealed.ciphertext;
    let opened = transit::data::decrypt(root, "rust-transit", "k", &sealed, None).await?;
    want("transit", opened.plaintext == "aGVsbG8=");
    Ok(())
}
