//! Looks at every state of a model.

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, Expectation, Model};

/// Looks at every state and gives the properties that one of them breaks, each with the steps that lead there; and how many
/// states there are. What a model says may happen has to happen somewhere.
fn run<M>(model: M) -> (Vec<(&'static str, String)>, usize)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let checker = model.checker().threads(2).spawn_bfs().join();
    let found = checker.discoveries();
    let broken = checker.model().properties().into_iter().filter_map(|property| {
        let path = found.get(property.name);
        match (property.expectation, path) {
            (Expectation::Sometimes, None) => Some((property.name, "it never happens".to_owned())),
            (Expectation::Always | Expectation::Eventually, Some(path)) => {
                Some((property.name, format!("{:#?}", path.clone().into_actions())))
            }
            (Expectation::Sometimes, Some(_))
            | (Expectation::Always | Expectation::Eventually, None) => None,
        }
    });
    (broken.collect(), checker.unique_state_count())
}

/// With all its rules a model holds.
#[track_caller]
pub(crate) fn holds<M>(model: M)
where
    M: Model + Debug + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let told = format!("{model:?}");
    let (broken, states) = run(model);
    eprintln!("{told}: {states} states");
    assert!(broken.is_empty(), "{told}: {broken:#?}");
}

/// Without one of them it breaks `property`.
#[track_caller]
pub(crate) fn breaks<M>(model: M, property: &str)
where
    M: Model + Debug + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let told = format!("{model:?}");
    let found: Vec<_> = run(model).0.into_iter().map(|(property, _)| property).collect();
    assert!(found.contains(&property), "{told}: {found:?}");
}
