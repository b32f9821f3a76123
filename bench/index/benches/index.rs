//! Criterion's view of the index beside its peers: membership, uniform and zipf.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::sync::RwLock;

use criterion::{Criterion, criterion_group, criterion_main};
use kallisto_bench_index::{Peer, Radix, Shape, Spread, main_shape, picks};
use kallisto_index::PathIndex;

fn membership<P: Peer>(criterion: &mut Criterion, shape: &Shape) {
    let peer = P::build(&shape.paths);
    for spread in [Spread::Uniform, Spread::Zipf] {
        let picks = picks(spread, shape.paths.len(), 1 << 16, 1);
        let kinds = [
            ("hit", &shape.paths),
            ("unknown leaf", &shape.unknown_leaves),
            ("unknown folder", &shape.unknown_folders),
        ];
        for (kind, paths) in kinds {
            let asked: Vec<&String> = picks.iter().map(|&at| &paths[at]).collect();
            let mut at = 0;
            criterion.bench_function(&format!("{}/{kind}/{spread:?}", P::NAME), |bencher| {
                bencher.iter(|| {
                    at = (at + 1) % asked.len();
                    black_box(peer.contains(asked[at]))
                });
            });
        }
    }
}

fn all(criterion: &mut Criterion) {
    let shape = main_shape(1_000_000);
    membership::<PathIndex>(criterion, &shape);
    membership::<BTreeMap<Box<str>, ()>>(criterion, &shape);
    membership::<RwLock<BTreeSet<Box<str>>>>(criterion, &shape);
    membership::<Radix>(criterion, &shape);
    let index = PathIndex::build(&shape.paths);
    let folder = "team-0042/service-07";
    criterion.bench_function("PathIndex/list 100", |bencher| {
        bencher.iter(|| black_box(index.list(folder, None, 100)));
    });
    criterion.bench_function("PathIndex/scan 100", |bencher| {
        bencher.iter(|| black_box(index.scan("team-0042", None, 100)));
    });
    criterion.bench_function("PathIndex/count", |bencher| {
        bencher.iter(|| black_box(index.count("team-0042")));
    });
    criterion.bench_function("PathIndex/insert and remove", |bencher| {
        bencher.iter(|| (index.insert("team-0042/new"), index.remove("team-0042/new")));
    });
}

criterion_group!(benches, all);
criterion_main!(benches);
