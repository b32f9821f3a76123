//! Writing the fields of a secret, for protocols that have no place for anything else.
//!
//! The write is a request as any other, so it passes every stage; but its body is no text, and that another writer was faster is returned as what
//! it is, and not as an error to be read.

use kallisto_auth::Operation;

use crate::api::error::Error;
use crate::api::json::{Json, Map};
use crate::api::request::{BodyKind, Request};
use crate::records::engine_kind::EngineKind;
use crate::state::Core;

/// What a secret is expected to be before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// Anything.
    Any,
    /// At this version, 0 for a secret that is not there; an engine without versions takes it for anything.
    Version(u64),
}

/// What came of a write of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldsWrite {
    /// The secret has these fields.
    Written,
    /// It is not what was expected, and is as it was.
    CasMismatch,
}

/// The body of a write of `fields` in an engine of this kind.
pub fn fields_body(kind: EngineKind, fields: Map, expected: ExpectedVersion) -> Map {
    if !kind.has_versions() {
        return fields;
    }
    let mut body = Map::from([("data".to_owned(), Json::Object(fields))]);
    if let ExpectedVersion::Version(version) = expected {
        body.insert("options".to_owned(), Json::object([("cas", version.into())]));
    }
    body
}

impl Core {
    /// Replaces the fields of a secret. The path of `request` is that of the secret's data, and `body` was made by [`fields_body`];
    /// what else the request says of its operation and body is passed over.
    ///
    /// # Errors
    /// What the client may hear: see [`Error`].
    pub async fn write_fields(
        &self,
        request: &Request<'_>,
        body: &Map,
    ) -> Result<FieldsWrite, Error> {
        let request = Request {
            operation: Operation::Update,
            body: &[],
            body_kind: BodyKind::Fields(body),
            ..request.clone()
        };
        match self.handle(&request).await {
            Ok(_) => Ok(FieldsWrite::Written),
            Err(Error::CasMismatch) => Ok(FieldsWrite::CasMismatch),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kallisto_auth::Path;

    use super::*;
    use crate::api::request::TokenText;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{ROOT, ask, open_core};

    fn write(
        core: &Core,
        token: &str,
        path: &str,
        fields: Map,
        expected: ExpectedVersion,
    ) -> Result<FieldsWrite, Error> {
        let kind = core.engine_at(&format!("{}/", path.split_once('/').unwrap().0)).unwrap();
        let request = Request {
            token: Some(TokenText::new(token)),
            ..Request::new(Operation::Read, Path::literal(path).unwrap(), Timestamp::UNIX_EPOCH)
        };
        pollster::block_on(core.write_fields(&request, &fields_body(kind, fields, expected)))
    }

    fn fields(value: &str) -> Map {
        Map::from([("v".to_owned(), value.into())])
    }

    fn stored(core: &Core, path: &str) -> String {
        let answer = ask(core, Some(ROOT), Operation::Read, path, "").unwrap();
        let crate::api::response::Response::Logical(logical) = answer else { panic!("{answer:?}") };
        String::from_utf8(logical.data).unwrap()
    }

    #[test]
    fn a_write_that_expects_another_version_changes_nothing_and_says_so() {
        use ExpectedVersion::{Any, Version};
        let core = open_core(RouteAccess::Token);
        for (value, expected, outcome) in [
            ("one", Version(1), FieldsWrite::CasMismatch),
            ("one", Version(0), FieldsWrite::Written),
            ("two", Version(0), FieldsWrite::CasMismatch),
            ("two", Version(1), FieldsWrite::Written),
            ("three", Any, FieldsWrite::Written),
            ("four", Version(2), FieldsWrite::CasMismatch),
        ] {
            let written = write(&core, ROOT, "secret/data/a", fields(value), expected);
            assert_eq!(written.unwrap(), outcome, "{value} {expected:?}");
        }
        assert!(stored(&core, "secret/data/a").contains(r#""data":{"v":"three"}"#));
        // Without versions there is nothing to expect.
        let written = write(&core, ROOT, "one/a", fields("x"), Version(7));
        assert_eq!(written.unwrap(), FieldsWrite::Written);
        assert_eq!(stored(&core, "one/a"), r#"{"v":"x"}"#);
    }

    #[test]
    fn rules_about_parameters_hold_for_fields_without_a_text() {
        let core = open_core(RouteAccess::Token);
        let rules = r#"path \"one/*\" { capabilities = [\"create\", \"update\"] denied_parameters = { \"v\" = [\"bad\"] } }"#;
        ask(
            &core,
            Some(ROOT),
            Operation::Update,
            "sys/policies/acl/p",
            &format!(r#"{{"policy":"{rules}"}}"#),
        )
        .unwrap();
        ask(
            &core,
            Some(ROOT),
            Operation::Update,
            "auth/token/create",
            r#"{"id":"writer","policies":["p"]}"#,
        )
        .unwrap();
        let any = ExpectedVersion::Any;
        assert_eq!(write(&core, "writer", "one/a", fields("good"), any), Ok(FieldsWrite::Written));
        let refused = write(&core, "writer", "one/a", fields("bad"), any);
        assert!(matches!(refused, Err(Error::Denied(_))), "{refused:?}");
        assert_eq!(stored(&core, "one/a"), r#"{"v":"good"}"#);
    }
}
