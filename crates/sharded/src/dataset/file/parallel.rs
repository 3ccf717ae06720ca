//! The same work for many files at once: for files in an object store, most of it is waiting.

use std::sync::atomic::{AtomicUsize, Ordering};

/// For how many files work is done at the same time.
const FILES_AT_ONCE: usize = 32;

/// The results of `work` for all of these, in their order. It may be done on several threads.
pub(super) fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut taken = Vec::new();
        while let Some((place, item)) = nth(items, next.fetch_add(1, Ordering::Relaxed)) {
            taken.push((place, work(item)));
        }
        taken
    };
    let mut results = std::thread::scope(|scope| {
        let helper = |_| std::thread::Builder::new().spawn_scoped(scope, take).ok();
        // Where there are no more threads, those that are there do the work.
        let helpers: Vec<_> = (1..items.len().min(FILES_AT_ONCE)).map_while(helper).collect();
        let mut results = take();
        for helper in helpers {
            match helper.join() {
                Ok(own) => results.extend(own),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

fn nth<T>(items: &[T], place: usize) -> Option<(usize, &T)> {
    Some((place, items.get(place)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..1000).collect();
        assert_eq!(
            in_parallel(&items, |item| item * 2),
            items.iter().map(|item| item * 2).collect::<Vec<_>>()
        );
        assert!(in_parallel(&[] as &[usize], |item| *item).is_empty());
    }
}
