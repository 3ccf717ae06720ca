//! Queues with typed elements.

use crate::codec;
use crate::error::Result;
use crate::read::Read;
use crate::store::ControlStore;
use crate::transaction::{Effect, Outcome, Transaction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Elements of one type, first in, first out; each is taken once.
///
/// An element that was taken is gone, also if who took it dies the next moment. What must not be lost is a
/// row of a table; the queue only has its key, and whoever misses progress pushes the key again.
///
/// ```
/// use std::sync::Arc;
/// use whimbrel_control::{MemoryStore, Queue};
///
/// let tasks: Queue<u32> = Queue::new(Arc::new(MemoryStore::default()), "tasks");
/// tasks.push(&7)?;
/// assert_eq!(tasks.pop()?, Some(7));
/// assert_eq!(tasks.pop()?, None);
/// # Ok::<(), whimbrel_control::Error>(())
/// ```
pub struct Queue<T> {
    store: Arc<dyn ControlStore>,
    name: String,
    elements: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> Queue<T> {
    /// The queue of this name; it need not be made.
    pub fn new(store: Arc<dyn ControlStore>, name: &str) -> Queue<T> {
        Queue { store, name: name.to_string(), elements: PhantomData }
    }

    /// How many elements wait.
    ///
    /// # Errors
    /// Those of the store.
    pub fn waiting(&self) -> Result<u64> {
        self.store.read(&Read::Waiting { queue: self.name.clone() })?.waiting()
    }

    /// Puts an element at the end.
    ///
    /// # Errors
    /// `Invalid` if it cannot be written as bytes; those of the store.
    pub fn push(&self, element: &T) -> Result<()> {
        let transaction = Transaction::new().then(self.push_effect(element)?);
        self.store.commit(&transaction).map(|_| ())
    }

    /// What puts an element at the end.
    ///
    /// # Errors
    /// `Invalid` if it cannot be written as bytes.
    pub fn push_effect(&self, element: &T) -> Result<Effect> {
        let element = codec::encode(element, &self.place())?;
        Ok(Effect::Push { queue: self.name.clone(), element })
    }

    /// Takes the first element, if there is one.
    ///
    /// # Errors
    /// `Damaged` if it is of another type; those of the store.
    pub fn pop(&self) -> Result<Option<T>> {
        let transaction = Transaction::new().then(Effect::Pop { queue: self.name.clone() });
        match self.store.commit(&transaction)? {
            Outcome::Committed { popped, .. } => {
                let element = popped.into_iter().flatten().next();
                element.map(|element| codec::decode(&element, &self.place())).transpose()
            }
            Outcome::Conflict { .. } => Ok(None),
        }
    }

    /// Takes the first element, and waits for one, but not longer than this.
    ///
    /// # Errors
    /// As [`pop`](Queue::pop).
    pub fn pop_within(&self, at_most: Duration) -> Result<Option<T>> {
        let started = Instant::now();
        loop {
            let element = self.pop()?;
            let left = at_most.saturating_sub(started.elapsed());
            if element.is_some() || left.is_zero() {
                return Ok(element);
            }
            self.store.wait_for_element(&self.name, left)?;
        }
    }

    fn place(&self) -> String {
        format!("the queue `{}`", self.name)
    }
}
