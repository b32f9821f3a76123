//! Services that are asked by HTTP and answer in JSON: GitHub, Okta.
//!
//! Invariants:
//! - A list is followed page by page below the base address alone: whoever answers cannot have a token sent elsewhere.
//! - What a service answers is not repeated to a client but for its status.
//! - A 401 is the fault of whoever logs in only where their own proof was shown; all else is the service's, and is told as such.

use std::net::IpAddr;

use kallisto_api::{Error, Fields, Json, Map, json};
use kallisto_engine::{Authorization, Outbound, OutboundAnswer, OutboundCall, Payload};

/// Most pages of a list.
const PAGES_MAX: usize = 10;

/// A service, asked as somebody.
pub(crate) struct RestService<'a> {
    pub(crate) outbound: &'a dyn Outbound,
    /// What it is called in errors.
    pub(crate) name: &'static str,
    /// Where it is; ends with a slash.
    pub(crate) base: &'a str,
    pub(crate) authorization: Authorization,
    /// What whoever logs in is told of a 401; `None` where it is not their proof that is shown.
    pub(crate) refused: Option<&'static str>,
}

impl RestService<'_> {
    /// That it is of no use.
    pub(crate) fn failed(&self, why: &str) -> Error {
        Error::Unavailable(format!("{} {why}", self.name))
    }

    /// That it answered with another status than it should.
    pub(crate) fn bad_status(&self, status: u16, doing: &str) -> Error {
        match (status, self.refused) {
            (401, Some(text)) => Error::invalid(text),
            _ => self.failed(&format!("answered {doing} with status {status}")),
        }
    }

    /// Sends a request; any status is an answer.
    pub(crate) async fn send(
        &self,
        url: String,
        payload: Payload,
    ) -> Result<OutboundAnswer, Error> {
        let authorization = self.authorization.clone();
        let call = OutboundCall { url, authorization, payload, ..OutboundCall::default() };
        self.outbound.call(call).await.map_err(|error| match error {
            Error::Unavailable(_) => self.failed("was not reached in time"),
            other => other,
        })
    }

    /// The object at a path; `None` when the service knows of none.
    pub(crate) async fn find(&self, path: &str) -> Result<Option<Map>, Error> {
        let answer = self.send(format!("{}{path}", self.base), Payload::Nothing).await?;
        match answer.status {
            200 => json::parse_object(&answer.body)
                .map(Some)
                .map_err(|_| self.failed(&format!("answered /{path} with no JSON object"))),
            404 => Ok(None),
            status => Err(self.bad_status(status, &format!("/{path}"))),
        }
    }

    /// The object at a path that there has to be.
    pub(crate) async fn object(&self, path: &str) -> Result<Map, Error> {
        self.find(path).await?.ok_or_else(|| self.bad_status(404, &format!("/{path}")))
    }

    /// The objects listed at a path, of all pages. More than there may be fail: they are not left out.
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<Map>, Error> {
        let shown = path.split('?').next().unwrap_or_default();
        let mut url = format!("{}{path}", self.base);
        let mut all = Vec::new();
        for _ in 0..PAGES_MAX {
            let answer = self.send(url, Payload::Nothing).await?;
            if answer.status != 200 {
                return Err(self.bad_status(answer.status, &format!("/{shown}")));
            }
            let page = objects(&answer.body).ok_or_else(|| {
                self.failed(&format!("answered /{shown} with no list of objects"))
            })?;
            all.extend(page);
            url = match next_page(&answer.link) {
                None => return Ok(all),
                Some(next) if is_below(next, self.base) => next.to_owned(),
                Some(_) => {
                    return Err(self.failed(&format!("has the next page of /{shown} elsewhere")));
                }
            };
        }
        Err(self.failed(&format!("has more than {PAGES_MAX} pages of /{shown}")))
    }
}

/// The objects of an array; an empty body has none.
fn objects(body: &[u8]) -> Option<Vec<Map>> {
    if body.trim_ascii().is_empty() {
        return Some(Vec::new());
    }
    let Json::Array(items) = json::parse(body).ok()? else { return None };
    items
        .into_iter()
        .map(|item| match item {
            Json::Object(map) => Some(map),
            _ => None,
        })
        .collect()
}

/// Whether an address is one of those below a base that ends with a slash.
fn is_below(url: &str, base: &str) -> bool {
    url.starts_with(base) && url.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The address of the next page, by a `Link` header (RFC 8288, section 3).
fn next_page(link: &str) -> Option<&str> {
    let mut rest = link;
    while let Some((_, from)) = rest.split_once('<') {
        let (url, after) = from.split_once('>')?;
        let (params, more) = split_unquoted(after);
        if params.split(';').any(is_next) {
            return Some(url);
        }
        rest = more;
    }
    None
}

/// Whether a parameter of a link says that it leads to the next page.
fn is_next(param: &str) -> bool {
    let Some((name, value)) = param.split_once('=') else { return false };
    let words = value.trim().trim_matches('"');
    name.trim().eq_ignore_ascii_case("rel")
        && words.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case("next"))
}

/// A text up to the first comma outside quotes, and what follows it.
fn split_unquoted(text: &str) -> (&str, &str) {
    let mut is_quoted = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => return (&text[..at], &text[at + 1..]),
            _ => {}
        }
    }
    (text, "")
}

/// Where a service is, as it is kept: with a slash at its end.
///
/// # Errors
/// [`Error::Invalid`] for what is no address of a server.
pub(crate) fn base_url(name: &str, given: &str) -> Result<String, Error> {
    crate::jwt::check_url(name, given)?;
    if given.contains(['?', '#']) {
        return Err(Error::invalid(format!("{name} must have no query and no fragment")));
    }
    Ok(format!("{}/", given.trim_end_matches('/')))
}

/// Whether what is sent to an address leaves this machine without TLS.
pub(crate) fn sends_in_clear(base: &str) -> bool {
    let Some(rest) = base.strip_prefix("http://") else { return false };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(inside) => inside.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host != "localhost" && !host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// A number that names something, such as an organization; 0 for none.
pub(crate) fn id_of(object: &Map) -> i64 {
    Fields::new(object).int("id").ok().flatten().unwrap_or_default()
}

/// A text of an object; empty when it is not there.
pub(crate) fn text<'m>(object: &'m Map, name: &str) -> &'m str {
    object.get(name).and_then(Json::as_str).unwrap_or_default()
}

/// An object inside another.
pub(crate) fn inner<'m>(object: &'m Map, name: &str) -> Option<&'m Map> {
    object.get(name).and_then(Json::as_object)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use kallisto_api::BoxFuture;

    use super::*;

    /// Answers in order, and notes what was asked.
    #[derive(Default)]
    pub(crate) struct Script {
        answers: Mutex<VecDeque<Result<OutboundAnswer, Error>>>,
        pub(crate) asked: Mutex<Vec<String>>,
    }

    impl Script {
        pub(crate) fn new(answers: Vec<(u16, &str, &str)>) -> Self {
            let answers = answers.into_iter().map(|(status, link, body)| match status {
                0 => Err(Error::Unavailable("a server at 10.1.2.3 was not reached".into())),
                _ => Ok(OutboundAnswer { status, link: link.into(), body: body.into() }),
            });
            Self { answers: Mutex::new(answers.collect()), asked: Mutex::default() }
        }
    }

    impl Outbound for Script {
        fn call(&self, call: OutboundCall) -> BoxFuture<'_, Result<OutboundAnswer, Error>> {
            self.asked.lock().unwrap().push(call.url);
            let next = self.answers.lock().unwrap().pop_front().expect("an answer");
            Box::pin(std::future::ready(next))
        }
    }

    fn service(outbound: &dyn Outbound) -> RestService<'_> {
        RestService {
            outbound,
            name: "Hub",
            base: "https://hub.example/api/",
            authorization: Authorization::None,
            refused: Some("the token is refused"),
        }
    }

    /// A future that never waits, run.
    pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(future).poll(&mut context) {
            std::task::Poll::Ready(done) => done,
            std::task::Poll::Pending => panic!("it waits"),
        }
    }

    #[test]
    fn pages_are_followed_below_the_base_and_nowhere_else() {
        let next = "<https://hub.example/api/list?page=2>; rel=\"next\", \
                    <https://hub.example/api/list?page=3>; rel=\"last\"";
        let script = Script::new(vec![(200, next, r#"[{"id":1}]"#), (200, "", r#"[{"id":"2"}]"#)]);
        let found = run(service(&script).list("list?per_page=1")).unwrap();
        assert_eq!(found.iter().map(id_of).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(script.asked.lock().unwrap()[1], "https://hub.example/api/list?page=2");
        for elsewhere in [
            "<https://evil.example/api/list?page=2>; rel=next",
            "<http://hub.example/api/list?page=2>; rel=\"next\"",
            "<https://hub.example/api.evil/>; rel=\"prev next\"",
            "<https://hub.example/api/\u{e9}>; rel=\"next\"",
            "</api/list?page=2>; title=\"a, b\"; rel=\"next\"",
        ] {
            let script = Script::new(vec![(200, elsewhere, "[]")]);
            let refused = run(service(&script).list("list")).unwrap_err();
            assert!(matches!(refused, Error::Unavailable(_)), "{elsewhere}");
            assert_eq!(script.asked.lock().unwrap().len(), 1);
        }
    }

    #[test]
    fn pages_without_end_are_refused() {
        let next = "<https://hub.example/api/list?page=2>; rel=\"next\"";
        let script = Script::new(vec![(200, next, "[]"); PAGES_MAX]);
        assert!(matches!(run(service(&script).list("list")), Err(Error::Unavailable(_))));
        assert_eq!(script.asked.lock().unwrap().len(), PAGES_MAX);
    }

    #[test]
    fn what_is_wrong_is_told_by_whose_fault_it_is_and_repeats_nothing() {
        for (status, body) in
            [(0, ""), (403, "no"), (404, ""), (500, ""), (301, ""), (200, "{"), (200, r#"["x"]"#)]
        {
            let script = Script::new(vec![(status, "", body)]);
            let Err(Error::Unavailable(text)) = run(service(&script).list("list?a=b")) else {
                panic!("{status} {body}")
            };
            assert!(text.starts_with("Hub ") && !text.contains("10.1.2.3"), "{text}");
        }
        let script = Script::new(vec![(401, "", "")]);
        let refused = run(service(&script).object("me")).unwrap_err();
        assert_eq!(refused, Error::invalid("the token is refused"));
        let script = Script::new(vec![(401, "", "")]);
        let own = RestService { refused: None, ..service(&script) };
        assert!(matches!(run(own.object("me")), Err(Error::Unavailable(_))));
        let script = Script::new(vec![(200, "", " \n")]);
        assert_eq!(run(service(&script).list("list")).unwrap().len(), 0);
    }

    #[test]
    fn an_address_is_kept_with_a_slash_and_known_to_be_in_the_clear() {
        assert_eq!(
            base_url("base_url", "https://hub.example/api/v3").unwrap(),
            "https://hub.example/api/v3/"
        );
        for bad in
            ["", "hub.example", "ftp://hub", "https://u@hub", "https://hub/?a", "https://hub/#a"]
        {
            assert!(base_url("base_url", bad).is_err(), "{bad}");
        }
        for (url, clear) in [
            ("https://hub.example/", false),
            ("http://127.0.0.1:80/", false),
            ("http://[::1]:80/", false),
            ("http://localhost/", false),
            ("http://hub.example/", true),
            ("http://localhost.evil.example/", true),
            ("http://127.evil.example/", true),
        ] {
            assert_eq!(sends_in_clear(url), clear, "{url}");
        }
    }
}
