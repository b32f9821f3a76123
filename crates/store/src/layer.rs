//! A store over another one that does one thing differently: for tests and the simulator.

use std::sync::Arc;

use crate::{
    Batch, Commit, Durability, Error, Fold, Position, Record, RecordVisitor, Records, Replicated,
    Seqno, Store, StoreStats, Visit,
};

/// A store that hands on to [`StoreLayer::inner`] whatever it does not answer itself.
pub trait StoreLayer: Send + Sync {
    /// The store below.
    fn inner(&self) -> &dyn Store;

    /// See [`Store::commit`].
    fn commit(&self, batch: Batch) -> Commit {
        self.inner().commit(batch)
    }

    /// See [`Store::attach`].
    ///
    /// # Errors
    /// As there.
    fn attach(&self, fold: Arc<dyn Fold>) -> Result<Position, Error> {
        self.inner().attach(fold)
    }

    /// See [`Store::detach`].
    fn detach(&self) {
        self.inner().detach();
    }

    /// See [`Store::replicated`].
    fn replicated(&self) -> Option<&dyn Replicated> {
        self.inner().replicated()
    }

    /// See [`Store::generation`].
    fn generation(&self) -> Seqno {
        self.inner().generation()
    }

    /// See [`Store::leads`].
    fn leads(&self) -> bool {
        self.replicated().is_none_or(|cluster| cluster.leadership().is_mine())
    }
}

impl<L: StoreLayer> Records for L {
    fn get(&self, key: &[u8]) -> Result<Option<Record>, Error> {
        self.inner().get(key)
    }

    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], &Record) -> Visit,
    ) -> Result<(), Error> {
        self.inner().scan(prefix, visit)
    }

    fn scan_borrowed(
        &self,
        prefix: &[u8],
        behind: Option<&[u8]>,
        visit: &mut RecordVisitor<'_>,
    ) -> Result<(), Error> {
        self.inner().scan_borrowed(prefix, behind, visit)
    }

    fn approximate_len(&self) -> u64 {
        self.inner().approximate_len()
    }
}

impl<L: StoreLayer> Store for L {
    fn commit(&self, batch: Batch) -> Commit {
        StoreLayer::commit(self, batch)
    }

    fn position(&self) -> Position {
        self.inner().position()
    }

    fn attach(&self, fold: Arc<dyn Fold>) -> Result<Position, Error> {
        StoreLayer::attach(self, fold)
    }

    fn detach(&self) {
        StoreLayer::detach(self);
    }

    fn durability(&self) -> Durability {
        self.inner().durability()
    }

    fn set_durability(&self, durability: Durability) -> Commit {
        self.inner().set_durability(durability)
    }

    fn save(&self) -> Commit {
        self.inner().save()
    }

    fn replicated(&self) -> Option<&dyn Replicated> {
        StoreLayer::replicated(self)
    }

    fn generation(&self) -> Seqno {
        StoreLayer::generation(self)
    }

    fn leads(&self) -> bool {
        StoreLayer::leads(self)
    }

    fn stats(&self) -> StoreStats {
        self.inner().stats()
    }

    fn close(&self) -> Result<(), Error> {
        self.inner().close()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{Invitation, MemoryStore, RaftOptions, RaftStore, Replaced};

    /// A layer that changes nothing.
    struct Plain(MemoryStore);

    impl StoreLayer for Plain {
        fn inner(&self) -> &dyn Store {
            &self.0
        }
    }

    /// A layer over a server of a cluster that changes nothing.
    struct OverServer(Arc<RaftStore>);

    impl StoreLayer for OverServer {
        fn inner(&self) -> &dyn Store {
            &*self.0
        }
    }

    fn server() -> OverServer {
        let engine = kallisto_lsm::Options {
            background: kallisto_lsm::Background::Inline,
            ..RaftOptions::default().engine
        };
        let options = RaftOptions { engine, has_threads: false, ..RaftOptions::default() };
        OverServer(RaftStore::open(kallisto_lsm::disk::MemDisk::shared(), "s", options).unwrap())
    }

    #[test]
    fn a_layer_over_a_server_knows_what_is_restored_and_who_leads() {
        let store = server();
        let cluster = Store::replicated(&store).unwrap();
        assert_eq!(cluster.store_id(), store.0.store_id());
        assert!(!cluster.shares_records(), "each server has its own");
        assert!(Store::leads(&store));
        let generation = cluster.begin_restore().wait().unwrap();
        cluster.finish_restore(generation, 0).wait().unwrap();
        assert_eq!(Store::generation(&store), Seqno(generation.0));
        let store = server();
        let invitation = Invitation { store_id: [7; 16], node_id: 2, peers: Vec::new() };
        Store::replicated(&store).unwrap().join(invitation).wait().unwrap();
        assert!(!Store::leads(&store) && !Store::leads(&*store.0), "another is to lead");
    }

    /// Counts what it hears of.
    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Fold for Counted {
        fn load(&self, _: Position, _: &dyn Records) -> Result<(), Error> {
            Ok(())
        }

        fn fold(&self, _: Position, _: &Batch, _: &dyn Records) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }

        fn replaced(&self, _: Replaced) {}
    }

    #[test]
    fn what_a_layer_does_not_answer_is_handed_on() {
        let store = Plain(MemoryStore::new());
        let counted = Arc::<Counted>::default();
        let fold = Arc::clone(&counted) as Arc<dyn Fold>;
        assert_eq!(Store::attach(&store, fold), Ok(store.0.position()));
        let mut batch = Batch::new();
        batch
            .put(b"a/1".to_vec(), vec![1])
            .put(b"a/2".to_vec(), vec![2])
            .put(b"b".to_vec(), vec![]);
        let position = Store::commit(&store, batch).wait().unwrap();
        assert_eq!(counted.0.load(Ordering::SeqCst), 1);
        assert_eq!((store.position(), store.0.position()), (position, position));
        assert_eq!(store.get(b"a/1").unwrap().unwrap().value, vec![1]);
        let mut seen = Vec::new();
        store
            .scan(b"a/", &mut |key, _| {
                seen.push(key.to_vec());
                Visit::Continue
            })
            .unwrap();
        store
            .scan_borrowed(b"b", None, &mut |key, _, _| {
                seen.push(key.to_vec());
                Visit::Continue
            })
            .unwrap();
        assert_eq!(seen, [b"a/1".to_vec(), b"a/2".to_vec(), b"b".to_vec()]);
        assert_eq!(store.approximate_len(), store.0.approximate_len());
        assert_eq!(store.approximate_len(), 3);
        assert!(Store::leads(&store) && Store::replicated(&store).is_none());
        assert_eq!(Store::generation(&store), Seqno::ABSENT);
        Store::detach(&store);
        let mut batch = Batch::new();
        batch.delete(b"b".to_vec());
        Store::commit(&store, batch).wait().unwrap();
        assert_eq!(counted.0.load(Ordering::SeqCst), 1, "it hears no more");
        store.close().unwrap();
        assert!(Store::commit(&store, Batch::new()).wait().is_err());
    }
}
