//! What the benches of the path index share: shapes of path sets, access patterns, peers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::RwLock;

use kallisto_index::PathIndex;

/// A set of paths, named.
pub struct Shape {
    /// Short name for the table.
    pub name: &'static str,
    /// The paths, ascending.
    pub paths: Vec<String>,
    /// As many unknown leaves, in folders that exist.
    pub unknown_leaves: Vec<String>,
    /// As many paths in folders that do not exist.
    pub unknown_folders: Vec<String>,
}

/// Makes the path of a number.
type Maker = fn(usize, usize) -> String;

fn teams(n: usize, count: usize) -> String {
    let folders = (count / 100).max(1);
    let (folder, secret) = (n % folders, n / folders);
    format!("team-{:04}/service-{:02}/db-password-{secret}", folder / 20, folder % 20)
}

fn one_folder(n: usize, _: usize) -> String {
    format!("production/secret-{n:07}")
}

fn lonely_leaves(n: usize, _: usize) -> String {
    format!("tenant-{n:07}/token")
}

fn deep(n: usize, count: usize) -> String {
    let folders = (count / 100).max(1);
    let (folder, secret) = (n % folders, n / folders);
    let (a, b, c) = (folder % 10, folder / 10 % 10, folder / 100);
    format!("eu-west-{a}/prod/cluster-{b}/namespace-{c:04}/apps/backend/v2/config/secret-{secret}")
}

/// Random names, where no prefix helps and no number is dense.
fn random(n: usize, count: usize) -> String {
    let folders = (count / 100).max(1);
    let mix = |seed: usize| fastrand::Rng::with_seed(seed as u64).u64(..);
    format!("{:08x}/{:012x}", mix(n % folders) >> 32, mix(n + (1 << 40)) >> 16)
}

/// Every shape of `count` paths.
pub fn shapes(count: usize) -> impl Iterator<Item = Shape> {
    let makers: [(&str, Maker); 5] = [
        ("10k folders x 100", teams),
        ("one folder", one_folder),
        ("1M folders x 1", lonely_leaves),
        ("deep, 9 segments", deep),
        ("random names", random),
    ];
    makers.into_iter().map(move |(name, maker)| shape(name, maker, count))
}

/// The shape the aims are stated for.
pub fn main_shape(count: usize) -> Shape {
    shape("10k folders x 100", teams, count)
}

fn shape(name: &'static str, maker: Maker, count: usize) -> Shape {
    let mut paths: Vec<String> = (0..count).map(|n| maker(n, count)).collect();
    paths.sort_unstable();
    paths.dedup();
    // In the middle of the names of a folder, after them, before them: by number.
    let unknown_leaves = paths.iter().enumerate().map(|(n, path)| {
        let (folder, name) = path.rsplit_once('/').expect("every shape has folders");
        match n % 4 {
            0 => format!("{folder}/absent-{n}"),
            1 => format!("{folder}/zz-absent-{n}"),
            _ => format!("{folder}/{name}x"),
        }
    });
    let unknown_leaves = unknown_leaves.collect();
    let unknown_folders = paths.iter().map(|path| {
        let (folder, name) = path.rsplit_once('/').expect("every shape has folders");
        format!("{folder}x/{name}")
    });
    let unknown_folders = unknown_folders.collect();
    Shape { name, paths, unknown_leaves, unknown_folders }
}

/// How questions are spread over the paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// All alike.
    Uniform,
    /// Zipf with exponent 0.99, the ranks scattered over the paths.
    Zipf,
}

/// `count` positions below `len`.
pub fn picks(spread: Spread, len: usize, count: usize, seed: u64) -> Vec<usize> {
    let mut rng = fastrand::Rng::with_seed(seed);
    match spread {
        Spread::Uniform => (0..count).map(|_| rng.usize(..len)).collect(),
        Spread::Zipf => {
            let mut scattered: Vec<usize> = (0..len).collect();
            fastrand::Rng::with_seed(1).shuffle(&mut scattered);
            let mut sums = Vec::with_capacity(len);
            let mut sum = 0.0;
            for rank in 1..=len {
                sum += (rank as f64).powf(-0.99);
                sums.push(sum);
            }
            (0..count)
                .map(|_| {
                    let at = rng.f64() * sum;
                    scattered[sums.partition_point(|&upto| upto < at).min(len - 1)]
                })
                .collect()
        }
    }
}

/// An ordered set of paths under test.
pub trait Peer {
    /// Its name in the table.
    const NAME: &'static str;
    /// Built the fastest way it offers from ascending paths.
    fn build(paths: &[String]) -> Self;
    /// Membership.
    fn contains(&self, path: &str) -> bool;
    /// Takes a path in.
    fn insert(&mut self, path: &str) -> bool;
    /// Takes a path out.
    fn remove(&mut self, path: &str) -> bool;
}

impl Peer for PathIndex {
    const NAME: &'static str = "PathIndex";
    fn build(paths: &[String]) -> Self {
        Self::from_sorted(paths).expect("ascending paths")
    }
    fn contains(&self, path: &str) -> bool {
        Self::contains(self, path)
    }
    fn insert(&mut self, path: &str) -> bool {
        Self::insert(self, path).expect("a valid path")
    }
    fn remove(&mut self, path: &str) -> bool {
        Self::remove(self, path)
    }
}

impl Peer for BTreeMap<Box<str>, ()> {
    const NAME: &'static str = "BTreeMap";
    fn build(paths: &[String]) -> Self {
        paths.iter().map(|path| (path.as_str().into(), ())).collect()
    }
    fn contains(&self, path: &str) -> bool {
        self.contains_key(path)
    }
    fn insert(&mut self, path: &str) -> bool {
        self.insert(path.into(), ()).is_none()
    }
    fn remove(&mut self, path: &str) -> bool {
        self.remove(path).is_some()
    }
}

impl Peer for RwLock<BTreeSet<Box<str>>> {
    const NAME: &'static str = "RwLock BTreeSet";
    fn build(paths: &[String]) -> Self {
        Self::new(paths.iter().map(|path| path.as_str().into()).collect())
    }
    fn contains(&self, path: &str) -> bool {
        self.read().expect("no panic under the lock").contains(path)
    }
    fn insert(&mut self, path: &str) -> bool {
        self.write().expect("no panic under the lock").insert(path.into())
    }
    fn remove(&mut self, path: &str) -> bool {
        self.write().expect("no panic under the lock").remove(path)
    }
}

/// Keys of the radix tree end in a NUL, so that none is a prefix of another.
pub struct Radix(blart::TreeMap<std::ffi::CString, ()>);

fn c_string(path: &str) -> std::ffi::CString {
    std::ffi::CString::new(path).expect("no path holds a NUL")
}

impl Peer for Radix {
    const NAME: &'static str = "blart (ART)";
    fn build(paths: &[String]) -> Self {
        let mut tree = blart::TreeMap::new();
        for path in paths {
            tree.insert(c_string(path), ());
        }
        Self(tree)
    }
    /// Asked with a key that already ends in a NUL: see [`probe`].
    fn contains(&self, path: &str) -> bool {
        match std::ffi::CStr::from_bytes_with_nul(path.as_bytes()) {
            Ok(key) => self.0.contains_key(key),
            Err(_) => self.0.contains_key(c_string(path).as_c_str()),
        }
    }
    fn insert(&mut self, path: &str) -> bool {
        self.0.insert(c_string(path), ()).is_none()
    }
    fn remove(&mut self, path: &str) -> bool {
        self.0.remove(c_string(path).as_c_str()).is_some()
    }
}
