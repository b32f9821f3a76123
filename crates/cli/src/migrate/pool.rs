//! Many items by a few threads: a bounded number is in progress, and the first error that ends a pass ends it for all.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use kallisto_command::error::Error;

/// Does `work` to every item, so many at a time.
///
/// # Errors
/// The first that `work` returned; items not begun by then are not.
pub(super) fn for_each<T: Sync>(
    items: &[T],
    workers: usize,
    work: impl Fn(&T) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    let take = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = work(item) {
                next.store(items.len(), Ordering::Relaxed);
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers.min(items.len()) {
            scope.spawn(take);
        }
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_done_once_and_an_error_stops_the_rest() {
        let done = AtomicUsize::new(0);
        let items: Vec<usize> = (0..1000).collect();
        for_each(&items, 4, |item| {
            done.fetch_add(*item, Ordering::Relaxed);
            Ok(())
        })
        .unwrap();
        assert_eq!(done.into_inner(), 499_500);
        let begun = AtomicUsize::new(0);
        let ended = for_each(&items, 4, |item| {
            begun.fetch_add(1, Ordering::Relaxed);
            if *item == 10 { Err(Error::usage("here")) } else { Ok(()) }
        });
        assert!(ended.is_err() && begun.into_inner() < 1000);
        assert!(for_each::<usize>(&[], 4, |_| Ok(())).is_ok());
    }
}
