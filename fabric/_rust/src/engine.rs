//! An open store: one Tonbo database, and the guards around it.
use std::{
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use arrow::{
    array::{Array, RecordBatch},
    datatypes::SchemaRef,
};
use fusio::{disk::LocalFs, executor::tokio::TokioExecutor};
use tokio::{runtime::Runtime, sync::watch};
use tonbo::db::{BatchesThreshold, DB, DbBuilder, WalSyncPolicy};

use crate::{
    errors::{Failure, caught},
    folder::Folder,
};

pub type Db = DB<LocalFs, TokioExecutor>;

/// Which guards are on. All of them, but for tests that show what each is for.
#[derive(Clone, Copy)]
pub struct Guards {
    pub flush_race: bool,
    pub lock: bool,
    pub stale_files: bool,
    pub types: bool,
    pub closed_files: bool,
    pub read_ahead: bool,
}

impl Guards {
    pub fn without(names: &[String]) -> Result<Self, Failure> {
        let mut on = Self {
            flush_race: true, lock: true, stale_files: true, types: true, closed_files: true,
            read_ahead: true,
        };
        for name in names {
            match name.as_str() {
                "flush_race" => on.flush_race = false,
                "lock" => on.lock = false,
                "stale_files" => on.stale_files = false,
                "types" => on.types = false,
                "closed_files" => on.closed_files = false,
                "read_ahead" => on.read_ahead = false,
                _ => return Err(Failure::value(format!(
                    "a guard is flush_race, lock, stale_files, types, closed_files or read_ahead, \
                     got {name:?}"
                ))),
            }
        }
        Ok(on)
    }
}

pub struct Engine {
    pub schema: SchemaRef,
    pub key: usize,
    pub guards: Guards,
    pub folder: Folder,
    /// A put writes, the set-up of a scan reads: no memtable is sealed amid a set-up.
    pub gate: RwLock<()>,
    /// Readers look whether the store closes.
    pub closing: watch::Sender<bool>,
    /// How many puts wait, or are at work.
    pub puts: watch::Sender<usize>,
    pub readers: Readers,
    open: Mutex<Option<(Db, Arc<Runtime>)>>,
    /// A fork has none of the threads that a store needs.
    process: u32,
}

impl Engine {
    pub fn open(
        path: &Path, schema: SchemaRef, key: usize, sync: bool, seal_batches: usize, guards: Guards,
    ) -> Result<Self, Failure> {
        let folder = Folder::take(path, guards.lock, guards.stale_files, guards.closed_files)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1).max_blocking_threads(4).enable_all().thread_name("tonbo")
            .build().map_err(Failure::storage)?;
        let opened = caught(|| runtime.block_on(async {
            DbBuilder::from_schema_key_indices(schema.clone(), vec![key])
                .map_err(Failure::storage)?
                .on_disk(&folder.path).map_err(Failure::storage)?
                .wal_sync_policy(if sync { WalSyncPolicy::Always } else { WalSyncPolicy::Disabled })
                .with_minor_compaction(1, 0)
                // Neither `with_compaction_options` nor a strategy: with deletes, major compaction
                // loses rows that nobody deleted.
                .with_seal_policy(Arc::new(BatchesThreshold { batches: seal_batches }))
                .open().await.map_err(Failure::storage)
        }));
        let db = match opened {
            Ok(db) => db,
            Err(failure) => {
                runtime.shutdown_timeout(Duration::from_secs(5));
                return Err(failure.amid(format!("{} can't be opened", folder.path.display())));
            }
        };
        Ok(Self {
            schema, key, guards, folder, gate: RwLock::new(()), closing: watch::channel(false).0,
            puts: watch::channel(0).0, readers: Readers::default(),
            open: Mutex::new(Some((db, Arc::new(runtime)))),
            process: std::process::id(),
        })
    }

    /// The database and what runs it, unless it was closed.
    pub fn db(&self) -> Result<(Db, Arc<Runtime>), Failure> {
        if self.process != std::process::id() {
            return Err(Failure::storage(format!(
                "the store in {} was opened by process {}, and this is a fork of it; open another \
                 one here", self.folder.path.display(), self.process
            )));
        }
        held(&self.open).clone().ok_or_else(|| {
            Failure::value(format!("the store in {} is closed", self.folder.path.display()))
        })
    }

    pub fn put(&self, batch: RecordBatch, tombstones: Option<Vec<bool>>) -> Result<(), Failure> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let (db, runtime) = self.db()?;
        self.puts.send_modify(|waiting| *waiting += 1);
        let gate = self.guards.flush_race
            .then(|| self.gate.write().unwrap_or_else(PoisonError::into_inner));
        let done = caught(|| runtime.block_on(async {
            match tombstones {
                Some(bits) => db.ingest_with_tombstones(batch, bits).await,
                None => db.ingest(batch).await,
            }.map_err(Failure::storage)
        }));
        drop(gate);
        self.puts.send_modify(|waiting| *waiting -= 1);
        done.map_err(|failure| {
            failure.amid(format!("{} can't be written", self.folder.path.display()))
        })
    }

    /// Wait for readers, end all threads and, if asked, note what the files hold. Twice is fine.
    pub fn close(&self, note: bool) -> Result<(), Failure> {
        if self.process != std::process::id() {
            return Ok(()); // the threads, and the files, are another process's
        }
        self.closing.send_replace(true);
        self.readers.wait();
        let Some((db, runtime)) = held(&self.open).take() else { return Ok(()) };
        let entered = runtime.enter();
        drop(db);
        drop(entered);
        if let Some(runtime) = Arc::into_inner(runtime) {
            runtime.shutdown_timeout(Duration::from_secs(30));
        }
        let noted = if note && self.guards.closed_files { self.folder.note() } else { Ok(()) };
        self.folder.give_back();
        noted.map_err(|error| Failure::storage(format!(
            "{} was closed, but not noted as whole: {error}", self.folder.path.display()
        )))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.close(false);
    }
}

pub fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many readers are at work.
#[derive(Default)]
pub struct Readers {
    count: Mutex<usize>,
    fewer: Condvar,
}

impl Readers {
    pub fn one_more(&self) {
        *held(&self.count) += 1;
    }
    pub fn one_less(&self) {
        *held(&self.count) -= 1;
        self.fewer.notify_all();
    }
    fn wait(&self) {
        let mut count = held(&self.count);
        while *count > 0 {
            count = self.fewer.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Bits of a boolean column, one a row.
pub fn bits(column: &dyn Array, n_rows: usize) -> Result<Vec<bool>, Failure> {
    let Some(column) = column.as_any().downcast_ref::<arrow::array::BooleanArray>() else {
        return Err(Failure::kind(format!("tombstones are boolean, got {}", column.data_type())));
    };
    if column.len() != n_rows || column.null_count() > 0 {
        return Err(Failure::value(format!(
            "{n_rows} rows need as many tombstones, none of them null; got {} and {} nulls",
            column.len(), column.null_count()
        )));
    }
    Ok(column.values().iter().collect())
}
