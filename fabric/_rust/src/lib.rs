//! Python's face of a Tonbo store: record batches by the Arrow C data interface.
//!
//! Tonbo 0.4.0-a2 is an alpha with known faults, each of which has a guard here (`engine.rs`,
//! `scan.rs`, `folder.rs`, `types.rs`). Its transactions, snapshots and major compaction lose rows
//! and are not reachable. All work is done without the GIL.
mod engine;
mod errors;
mod folder;
mod log;
mod scan;
mod types;

use std::{path::PathBuf, sync::Arc};

use arrow::{
    array::{ArrayData, RecordBatch, RecordBatchReader, make_array},
    compute::concat_batches,
    datatypes::Schema,
    pyarrow::{FromPyArrow, IntoPyArrow, ToPyArrow},
};
use pyo3::prelude::*;

use engine::{Engine, Guards, bits};
use errors::{Failure, StoreError};
use scan::{Wanted, scan};
use types::{conform, keys_alone, stored};

/// A table of rows by one binary key, in a folder of its own.
#[pyclass(frozen)]
struct Store {
    engine: Arc<Engine>,
}

#[pymethods]
impl Store {
    #[staticmethod]
    #[pyo3(signature = (folder, schema, key, *, sync=true, seal_batches=64, without=Vec::new()))]
    fn open(
        py: Python<'_>, folder: PathBuf, schema: &Bound<'_, PyAny>, key: String, sync: bool,
        seal_batches: usize, without: Vec<String>,
    ) -> PyResult<Self> {
        let given = Schema::from_pyarrow_bound(schema)?;
        let engine = py.detach(|| {
            let guards = Guards::without(&without)?;
            let (schema, at) = stored(&given, &key, guards.types)?;
            Engine::open(&folder, schema, at, sync, seal_batches.max(1), guards)
        })?;
        Ok(Self { engine: Arc::new(engine) })
    }

    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.engine.schema.as_ref().to_pyarrow(py)
    }

    #[pyo3(signature = (batch, tombstones=None))]
    fn put(
        &self, py: Python<'_>, batch: &Bound<'_, PyAny>, tombstones: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let batch = RecordBatch::from_pyarrow_bound(batch)?;
        let gone = tombstones.map(ArrayData::from_pyarrow_bound).transpose()?;
        py.detach(|| {
            let gone = gone.map(|data| bits(&make_array(data), batch.num_rows())).transpose()?;
            let batch = conform(batch, &self.engine.schema, self.engine.key)?;
            self.engine.put(batch, gone)
        })?;
        Ok(())
    }

    fn delete(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        let keys = make_array(ArrayData::from_pyarrow_bound(keys)?);
        py.detach(|| {
            let batch = keys_alone(keys, &self.engine.schema, self.engine.key)?;
            let gone = vec![true; batch.num_rows()];
            self.engine.put(batch, Some(gone))
        })?;
        Ok(())
    }

    #[pyo3(signature = (begin=None, end=None, *, columns=None, limit=None))]
    fn scan<'py>(
        &self, py: Python<'py>, begin: Option<Vec<u8>>, end: Option<Vec<u8>>,
        columns: Option<Vec<String>>, limit: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let wanted = Wanted { begin, end, columns, limit };
        let reader = py.detach(|| scan(self.engine.clone(), wanted))?;
        let reader: Box<dyn RecordBatchReader + Send> = Box::new(reader);
        reader.into_pyarrow(py)
    }

    fn get<'py>(&self, py: Python<'py>, key: Vec<u8>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = py.detach(|| {
            let mut end = key.clone();
            end.push(0); // the next key there can be
            let wanted = Wanted { begin: Some(key), end: Some(end), columns: None, limit: None };
            let reader = scan(self.engine.clone(), wanted)?;
            let parts = reader.collect::<Result<Vec<_>, _>>().map_err(Failure::storage)?;
            concat_batches(&self.engine.schema, &parts).map_err(Failure::storage)
        })?;
        if found.num_rows() == 0 {
            return Ok(None);
        }
        found.to_pyarrow(py).map(Some)
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let _used = self.engine.used()?;
            self.engine.folder.sync().map_err(|error| Failure::storage(format!(
                "{} can't be written: {error}", self.engine.folder.path.display()
            )))
        })?;
        Ok(())
    }

    #[pyo3(signature = (*, note=true))]
    fn close(&self, py: Python<'_>, note: bool) -> PyResult<()> {
        py.detach(|| self.engine.close(note))?;
        Ok(())
    }
}

#[pymodule]
fn fabric_tonbo(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("StoreError", module.py().get_type::<StoreError>())?;
    module.add_class::<Store>()
}
