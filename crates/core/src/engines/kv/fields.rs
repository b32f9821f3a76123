//! Writing the fields of a secret, and deleting one that is as it was read, for protocols that have no place for anything else.
//!
//! The change is a request as any other, so it passes every stage; but its body is no text, and that another writer was faster is returned as
//! what it is, and not as an error to be read.

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

/// What came of a write of fields, or of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldsWrite {
    /// The secret has these fields, or is gone.
    Written,
    /// It is not what was expected, and is as it was.
    CasMismatch,
}

/// The body of a write of `fields` in an engine of this kind.
pub fn fields_body(kind: EngineKind, fields: Map, expected: ExpectedVersion) -> Map {
    if !kind.has_versions() {
        return fields;
    }
    let mut body = deletion_body(kind, expected);
    body.insert("data".to_owned(), Json::Object(fields));
    body
}

/// The body of a deletion in an engine of this kind.
pub fn deletion_body(kind: EngineKind, expected: ExpectedVersion) -> Map {
    match expected {
        ExpectedVersion::Version(version) if kind.has_versions() => {
            Map::from([("options".to_owned(), Json::object([("cas", version.into())]))])
        }
        ExpectedVersion::Any | ExpectedVersion::Version(_) => Map::new(),
    }
}

/// The version that the body of a change expects, if it was made here.
pub(super) fn expected_version(body: BodyKind<'_>) -> Option<u64> {
    let BodyKind::Fields(body) = body else { return None };
    match body.get("options")?.as_object()?.get("cas")? {
        Json::Number(version) => version.parse().ok(),
        _ => None,
    }
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
        self.change_fields(request, Operation::Update, body).await
    }

    /// Deletes the latest version of a secret, if it is what is expected. The path of `request` is that of the secret's data, and `body` was made
    /// by [`deletion_body`].
    ///
    /// # Errors
    /// What the client may hear: see [`Error`].
    pub async fn delete_fields(
        &self,
        request: &Request<'_>,
        body: &Map,
    ) -> Result<FieldsWrite, Error> {
        self.change_fields(request, Operation::Delete, body).await
    }

    async fn change_fields(
        &self,
        request: &Request<'_>,
        operation: Operation,
        body: &Map,
    ) -> Result<FieldsWrite, Error> {
        let request =
            Request { operation, body: &[], body_kind: BodyKind::Fields(body), ..request.clone() };
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
    fn a_deletion_that_expects_another_version_deletes_nothing_and_says_so() {
        use ExpectedVersion::{Any, Version};
        let core = open_core(RouteAccess::Token);
        let delete = |path: &str, expected| {
            let kind = core.engine_at(&format!("{}/", path.split_once('/').unwrap().0)).unwrap();
            let request = Request {
                token: Some(TokenText::new(ROOT)),
                ..Request::new(Operation::Read, Path::literal(path).unwrap(), Timestamp::UNIX_EPOCH)
            };
            pollster::block_on(core.delete_fields(&request, &deletion_body(kind, expected)))
        };
        let is_there = |path: &str| {
            ask(&core, Some(ROOT), Operation::Read, path, "")
                .is_ok_and(|answer| matches!(answer, crate::api::response::Response::Logical(_)))
        };
        for value in ["one", "two"] {
            write(&core, ROOT, "secret/data/a", fields(value), Any).unwrap();
        }
        for wrong in [0, 1, 3] {
            assert_eq!(delete("secret/data/a", Version(wrong)), Ok(FieldsWrite::CasMismatch));
        }
        assert!(stored(&core, "secret/data/a").contains(r#""data":{"v":"two"}"#));
        assert_eq!(delete("secret/data/a", Version(2)), Ok(FieldsWrite::Written));
        assert!(!is_there("secret/data/a"));
        write(&core, ROOT, "secret/data/a", fields("three"), Any).unwrap();
        assert_eq!(delete("secret/data/a", Any), Ok(FieldsWrite::Written));
        assert!(!is_there("secret/data/a"));
        assert_eq!(delete("secret/data/none", Version(1)), Ok(FieldsWrite::CasMismatch));
        // Without versions there is nothing to expect.
        assert!(deletion_body(EngineKind::KV_V1, Version(7)).is_empty());
        write(&core, ROOT, "one/a", fields("x"), Any).unwrap();
        assert_eq!(delete("one/a", Version(7)), Ok(FieldsWrite::Written));
        assert!(!is_there("one/a"));
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
