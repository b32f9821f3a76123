//! The routes of a mount's settings.

use kallisto_api::json::{Json, Map};
use kallisto_api::{Error, Response};
use kallisto_engine::Call;

use super::answer;
use super::config::{ClusterUrls, CrlConfig};
use super::given::{GivenFields, object};
use super::ids::IssuerId;
use super::issuer::UrlSettings;
use super::lists;
use super::memory::{CLUSTER, CRL, Pki, PkiState, URLS};

fn text(map: Map) -> Vec<u8> {
    Json::Object(map).to_text()
}

fn urls_shown(settings: &UrlSettings) -> Map {
    let mut map = object([("enable_templating", settings.are_templates.into())]);
    for (name, urls) in settings.lists() {
        map.insert(name.to_owned(), Json::strings(urls.iter().cloned()));
    }
    map
}

pub(super) async fn read_urls(call: Call<'_>) -> Result<Response, Error> {
    let memory: &Pki = call.memory()?;
    Ok(answer::data(urls_shown(&memory.read().urls), Vec::new()))
}

pub(super) async fn write_urls(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let given = GivenFields::of(&body);
    let memory: &Pki = call.memory()?;
    let written = call.storage.transact(URLS, |transaction| {
        let known = match transaction.get(URLS)? {
            None => UrlSettings::default(),
            Some(record) => record.decode(super::memory::decode_urls)?,
        };
        let mut urls = known.clone();
        urls.update(given, "enable_templating")?;
        transaction.put(URLS, text(urls_shown(&urls)))?;
        Ok((known, urls))
    });
    let (known, urls) = written.await?;
    // Complete lists say where deltas are.
    let deltas = |settings: &UrlSettings| settings.urls.delta_crl_distribution_points.clone();
    if (deltas(&known), known.are_templates) != (deltas(&urls), urls.are_templates) {
        lists::decide_all(&call).await?;
    }
    let state = memory.read();
    let nobody = IssuerId::parse("00000000-0000-0000-0000-000000000000");
    let warnings = nobody.and_then(|id| templates_fail(&state, id, &urls)).into_iter().collect();
    Ok(answer::data(urls_shown(&urls), warnings))
}

/// What is said of templates that cannot be filled as yet.
pub(super) fn templates_fail(state: &PkiState, id: IssuerId, urls: &UrlSettings) -> Option<String> {
    let Err(Error::Invalid(why)) = state.urls_of(id, urls) else { return None };
    Some(format!(
        "issuance may fail: {why}\n\nConsider setting the cluster-local address if it is not \
         already set."
    ))
}

pub(super) async fn read_cluster(call: Call<'_>) -> Result<Response, Error> {
    let memory: &Pki = call.memory()?;
    Ok(answer::data(memory.read().cluster.shown(), Vec::new()))
}

pub(super) async fn write_cluster(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let cluster = call.storage.transact(CLUSTER, |transaction| {
        let known = match transaction.get(CLUSTER)? {
            None => ClusterUrls::default(),
            Some(record) => record.decode(ClusterUrls::decode)?,
        };
        let cluster = known.update(GivenFields::of(&body))?;
        transaction.put(CLUSTER, text(cluster.shown()))?;
        Ok((known != cluster, cluster))
    });
    let (differs, cluster) = cluster.await?;
    // Templates of where deltas are, which complete lists say, are filled with these.
    if differs {
        lists::decide_all(&call).await?;
    }
    Ok(answer::data(cluster.shown(), Vec::new()))
}

pub(super) async fn read_crl(call: Call<'_>) -> Result<Response, Error> {
    let memory: &Pki = call.memory()?;
    Ok(answer::data(memory.read().crl.shown(), Vec::new()))
}

pub(super) async fn write_crl(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let (before, after) = call
        .storage
        .transact(CRL, |transaction| {
            let known = match transaction.get(CRL)? {
                None => CrlConfig::default(),
                Some(record) => record.decode(CrlConfig::decode)?,
            };
            let config = known.update(GivenFields::of(&body))?;
            transaction.put(CRL, text(config.shown()))?;
            Ok((known, config))
        })
        .await?;
    let mut warnings = Vec::new();
    // What lists say depends on these: there are new ones.
    let differs = before.is_disabled != after.is_disabled
        || before.expiry_secs != after.expiry_secs
        || before.rebuilds_itself != after.rebuilds_itself
        || before.has_deltas != after.has_deltas;
    if differs {
        lists::decide_all(&call).await?;
        warnings = lists::warn_of_unsigned(&call)?;
    }
    Ok(answer::data(after.shown(), warnings))
}

/// Lets there be new lists of everybody who signs.
pub(super) async fn rotate_crl(call: Call<'_>) -> Result<Response, Error> {
    lists::decide_all(&call).await?;
    let warnings = lists::warn_of_unsigned(&call)?;
    Ok(answer::data(object([("success", true.into())]), warnings))
}

pub(super) async fn rotate_delta(call: Call<'_>) -> Result<Response, Error> {
    let memory: &Pki = call.memory()?;
    let (has_deltas, scopes) = {
        let state = memory.read();
        (state.crl.has_deltas, state.scopes())
    };
    let mut warnings = Vec::new();
    if has_deltas {
        let now = call.now.as_second();
        for scope in scopes {
            lists::decide(&call.storage, scope, |lists| Some(lists.with_delta(now))).await?;
        }
    } else {
        warnings.push(
            "requested rebuild of delta CRL when delta CRL is not enabled; this is a no-op"
                .to_owned(),
        );
    }
    Ok(answer::data(object([("success", true.into())]), warnings))
}
