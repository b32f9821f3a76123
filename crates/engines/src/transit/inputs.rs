//! One input or a batch of them, and the answer in the same shape.
//!
//! A batch is answered item by item: what is wrong with one is told in its place, and the others
//! are worked off. Whole requests fail only for what no item is to blame for.

use super::BATCH_ITEMS_MAX;
use super::refusal;
use kallisto_api::fields::kind_mismatch;
use kallisto_api::{Error, Fields, Json, Logical, Map, Response};
use kallisto_engine::pace::TurnPace;
use kallisto_transit::TransitKey;

/// The inputs of a request.
pub(super) enum Inputs<'a> {
    /// The request's own fields.
    One(&'a Map),
    /// The items of `batch_input`.
    Batch(Vec<&'a Map>),
}

/// What is told of an item that went well, or what is wrong with it.
pub(super) type ItemOutcome = Result<Map, Error>;

/// What a failed item does to the status of the reply.
pub(super) enum OnFailure {
    /// Nothing.
    Told,
    /// 400, or this code if others went well and the request gave it.
    Status(Option<i64>),
}

impl<'a> Inputs<'a> {
    /// The inputs of a request body.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a batch that is none.
    pub(super) fn of(body: &'a Map) -> Result<Self, Error> {
        let items = match body.get("batch_input") {
            None | Some(Json::Null) => return Ok(Self::One(body)),
            Some(Json::Array(items)) => items,
            Some(other) => {
                let what = kind_mismatch(other, "slice");
                return Err(unparsed(&format!("source data must be an array or slice: {what}")));
            }
        };
        if items.is_empty() {
            return Err(Error::invalid("missing batch input to process"));
        }
        if items.len() > BATCH_ITEMS_MAX {
            return Err(Error::invalid(format!(
                "batch_input has {} items, of at most {BATCH_ITEMS_MAX}",
                items.len()
            )));
        }
        let map_of = |(at, item): (usize, &'a Json)| {
            item.as_object().ok_or_else(|| unparsed(&format!("[{at}] expected a map")))
        };
        items.iter().enumerate().map(map_of).collect::<Result<_, _>>().map(Self::Batch)
    }

    /// The inputs, in order.
    pub(super) fn items(&self) -> impl Iterator<Item = &'a Map> {
        let items: &[&'a Map] = match self {
            Self::One(item) => std::slice::from_ref(item),
            Self::Batch(items) => items,
        };
        items.iter().copied()
    }

    /// Refuses a batch in which an item lacks a field.
    pub(super) fn require(&self, field: &str, missing: &str) -> Result<(), Error> {
        let lacking = self.items().position(|item| !item.contains_key(field));
        match (self, lacking) {
            (_, None) => Ok(()),
            (Self::One(_), Some(_)) => Err(Error::invalid(missing)),
            (Self::Batch(_), Some(at)) => Err(unparsed(&format!("'[{at}].{field}' {missing}"))),
        }
    }

    /// Refuses a batch in which an item has something else than a text in a field: a null is no empty text.
    pub(super) fn require_texts(&self, field: &str) -> Result<(), Error> {
        let Self::Batch(items) = self else { return Ok(()) };
        for (at, item) in items.iter().enumerate() {
            if let Some(other) = item.get(field).filter(|value| value.as_str().is_none()) {
                let what = kind_mismatch(other, "string");
                let what = what.split_once(' ').map_or("", |(_, what)| what);
                return Err(unparsed(&format!("'[{at}].{field}' {what}")));
            }
        }
        Ok(())
    }

    /// Whether items carry a context: all or none of them.
    pub(super) fn have_context(&self) -> Result<bool, Error> {
        let has =
            |item: &Map| !matches!(item.get("context").and_then(Json::as_str), None | Some(""));
        let with = self.items().filter(|item| has(item)).count();
        if with > 0 && with < self.items().count() {
            return Err(Error::invalid(
                "context should be set either in all the request blocks or in none",
            ));
        }
        Ok(with > 0)
    }

    /// Works off the inputs, in order, letting others in between; `effort` says how much an input takes.
    pub(super) async fn work_off(
        &self,
        effort: impl Fn(&Map) -> usize,
        mut work: impl FnMut(&'a Map) -> ItemOutcome,
    ) -> Vec<ItemOutcome> {
        let mut outcomes = Vec::with_capacity(self.items().count());
        let mut pace = TurnPace::default();
        for item in self.items() {
            outcomes.push(work(item));
            pace.spend(effort(item)).await;
        }
        outcomes
    }

    /// The reply: the outcome of one input as it is, those of a batch as `batch_results`. `blank` is
    /// what a failed item of a batch says besides its error.
    pub(super) fn answer(
        &self,
        outcomes: Vec<ItemOutcome>,
        blank: &[(&str, Json)],
        on_failure: &OnFailure,
    ) -> Result<Response, Error> {
        let items = match self {
            Self::One(_) => {
                let outcome = outcomes.into_iter().next();
                let told = outcome.unwrap_or_else(|| Err(Error::internal(&"an input is lost")));
                return Ok(Response::data(&told?.into()));
            }
            Self::Batch(items) => items,
        };
        let (mut results, mut failed) = (Vec::with_capacity(items.len()), 0);
        for (item, outcome) in items.iter().zip(outcomes) {
            let mut told = match outcome {
                Ok(told) => told,
                Err(Error::Invalid(why)) => {
                    failed += 1;
                    let blank =
                        blank.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
                    blank.chain([("error".to_owned(), why.into())]).collect()
                }
                Err(other) => return Err(other),
            };
            let reference = Fields::new(item).string("reference")?.unwrap_or_default();
            told.insert("reference".into(), reference.into());
            results.push(Json::Object(told));
        }
        let all_failed = failed == results.len();
        let data = Json::object([("batch_results", Json::Array(results))]).to_text();
        let mut logical = Logical { data, ..Logical::default() };
        match on_failure {
            OnFailure::Status(asked) if failed > 0 => {
                let code = failure_code(asked.filter(|_| !all_failed), &mut logical.warnings);
                Ok(Response::WithStatus { code, logical })
            }
            _ => Ok(Response::Logical(logical)),
        }
    }
}

fn failure_code(asked: Option<i64>, warnings: &mut Vec<String>) -> u16 {
    const CODE: u16 = 400;
    let Some(asked) = asked else { return CODE };
    // Below 200 are codes that end no answer.
    match u16::try_from(asked) {
        Ok(code) if (200..600).contains(&code) => code,
        _ => {
            warnings.push(format!(
                "invalid HTTP response code override from partial_failure_response_code, reverting \
                 to {CODE}"
            ));
            CODE
        }
    }
}

fn unparsed(why: &str) -> Error {
    Error::invalid(format!("failed to parse batch input: {why}"))
}

/// What a private operation of a key takes, the largest part of working off an input; `bytes` is the field that holds
/// what is worked on.
pub(super) fn effort(key: &TransitKey, bytes: &'static str) -> impl Fn(&Map) -> usize {
    let own = match key.kind() {
        kind if kind.is_rsa() => TurnPace::TURN,
        kind if kind.signs() => TurnPace::TURN / 4,
        _ => 0,
    };
    move |item| {
        let text = item.get(bytes).and_then(Json::as_str).unwrap_or_default();
        own + TurnPace::of_bytes(text.len())
    }
}

/// A field of an input that is base64; empty when it is absent.
pub(super) fn base64(item: &Map, field: &str) -> Result<zeroize::Zeroizing<Vec<u8>>, Error> {
    match item.get(field) {
        Some(Json::String(text)) => {
            Ok(kallisto_transit::decode_base64(text).map_err(refusal)?.into())
        }
        _ => {
            let text = Fields::new(item).string(field)?.unwrap_or_default();
            Ok(kallisto_transit::decode_base64(&text).map_err(refusal)?.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kallisto_api::json::parse_object;

    fn refusal<T>(result: Result<T, Error>) -> String {
        result.err().expect("it is refused").to_string()
    }

    #[test]
    fn a_batch_is_an_array_of_objects() {
        let with = |body: &str| Inputs::of(&parse_object(body.as_bytes()).unwrap()).map(|_| ());
        assert!(with("{}").is_ok());
        assert!(with(r#"{"batch_input":[{}]}"#).is_ok());
        assert_eq!(refusal(with(r#"{"batch_input":[]}"#)), "missing batch input to process");
        assert!(refusal(with(r#"{"batch_input":"x"}"#)).contains("must be an array or slice"));
        assert!(refusal(with(r#"{"batch_input":[1]}"#)).contains("[0] expected a map"));
        let many = format!(r#"{{"batch_input":[{}{{}}]}}"#, "{},".repeat(BATCH_ITEMS_MAX));
        assert!(refusal(with(&many)).contains("of at most"));
    }

    #[test]
    fn contexts_are_in_all_items_or_in_none() {
        let with = |body: &str| {
            let body = parse_object(body.as_bytes()).unwrap();
            Inputs::of(&body).unwrap().have_context()
        };
        assert_eq!(with(r#"{"context":"YQ=="}"#), Ok(true));
        assert_eq!(with(r#"{"context":""}"#), Ok(false));
        assert_eq!(with(r#"{"batch_input":[{},{"context":""}]}"#), Ok(false));
        assert!(with(r#"{"batch_input":[{},{"context":"YQ=="}]}"#).is_err());
    }

    #[test]
    fn a_failed_item_is_told_in_its_place_and_decides_the_status() {
        let body = parse_object(br#"{"batch_input":[{"reference":"r"},{}]}"#).unwrap();
        let inputs = Inputs::of(&body).unwrap();
        let answer = |first: ItemOutcome, second: ItemOutcome, asked| {
            let on_failure = OnFailure::Status(asked);
            inputs.answer(vec![first, second], &[("valid", false.into())], &on_failure).unwrap()
        };
        let good = || Ok(Map::from([("x".to_owned(), "1".into())]));
        let bad = || Err(Error::invalid("why"));
        let Response::WithStatus { code, logical } = answer(good(), bad(), None) else {
            panic!("a failure has a status");
        };
        assert_eq!(code, 400);
        assert_eq!(
            String::from_utf8(logical.data).unwrap(),
            r#"{"batch_results":[{"reference":"r","x":"1"},{"error":"why","reference":"","valid":false}]}"#
        );
        let code = |first, second, asked| match answer(first, second, asked) {
            Response::WithStatus { code, .. } => code,
            Response::Logical(_) => 200,
            other => panic!("{other:?}"),
        };
        assert_eq!(code(good(), bad(), Some(207)), 207);
        assert_eq!(code(good(), bad(), Some(101)), 400);
        assert_eq!(code(bad(), bad(), Some(207)), 400);
        assert_eq!(code(good(), good(), Some(207)), 200);
    }
}
