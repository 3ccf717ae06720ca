//! The latency model of a store: measured, kept in the store, and read.

use super::engine::Engine;
use super::handle::Database;
use crate::error::{Error, Result};
use crate::predict::{Model, Options};
use crate::store::{Found, Read, Store, Write};

impl Database {
    /// Keeps a model in the store, for `explain slo`; in place of the one before.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer.
    pub fn keep_model(&self, model: &Model) -> Result<()> {
        let write = Write::Put(KEY.to_vec(), model.to_bytes()?);
        self.engine.store.commit(&[], &[write]).map(drop)
    }

    /// The model that the store keeps.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer, `Data` if the model is damaged or of another release.
    pub fn model(&self) -> Result<Option<Model>> {
        self.engine.model()
    }

    /// The model that the store keeps, to predict with.
    ///
    /// # Errors
    /// As [`model`](Database::model); `Data` if the store was not measured.
    pub fn measured(&self) -> Result<Model> {
        self.model()?.ok_or_else(|| {
            Error::Data(
                "the store was not measured: run `whimbrel bounded measure STORE`, or call Database.measure() in Python"
                    .to_string(),
            )
        })
    }

    /// Measures the store, and keeps what was measured in it: in place of what was measured before, or added
    /// to it.
    ///
    /// # Errors
    /// As [`measure`](Database::measure) and [`keep_model`](Database::keep_model).
    pub fn measure_and_keep(&self, options: &Options, add: bool) -> Result<Model> {
        let fresh = self.measure(options)?;
        let model = match self.model()?.filter(|_| add) {
            Some(mut model) => {
                model.extend(fresh)?;
                model
            }
            None => fresh,
        };
        self.keep_model(&model)?;
        Ok(model)
    }

    /// Measures the store of this database; [`Model::measure`].
    ///
    /// # Errors
    /// As [`Model::measure`].
    pub fn measure(&self, options: &Options) -> Result<Model> {
        Model::measure(&self.engine.store, options)
    }
}

impl Engine {
    /// The model that the store keeps.
    pub(super) fn model(&self) -> Result<Option<Model>> {
        match self.store.read(&[Read::Get(KEY.to_vec())])?.pop() {
            Some(Found::Value(bytes)) => bytes.map(|bytes| Model::from_bytes(&bytes)).transpose(),
            _ => Err(Error::Internal("the store gave another answer than was asked for".to_string())),
        }
    }
}

/// Where a store keeps its model.
const KEY: &[u8] = b"\0\0\0\0latencies";
