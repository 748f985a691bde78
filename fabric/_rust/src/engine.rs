//! An open store: one Tonbo database, and the guards around it.
use std::{
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, Weak, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use arrow::{
    array::{Array, RecordBatch},
    datatypes::SchemaRef,
};
use fusio::{disk::LocalFs, executor::tokio::TokioExecutor};
use tokio::{
    runtime::{Handle, Runtime},
    sync::watch,
};
use tonbo::db::{
    BatchesThreshold, DB, DbBuilder, WalConfig, WalSyncPolicy, wal_tuning::WalConfigExt,
};

use crate::{
    errors::{Failure, caught},
    folder::Folder,
    log::LogFiles,
};

pub type Db = DB<LocalFs, TokioExecutor>;

/// So often is a store opened, with pauses from 10 ms on, each twice the one before it.
///
/// A write to Tonbo's manifest starts a recovery beside itself (`session_write` of fusio-manifest's
/// manifest.rs), which lists the writers at work before this one is noted among them. So on a busy
/// machine it now and then adopts the segment that is just being written; the writer then finds the
/// head changed or locked (`commit_inner` of its session.rs), and nobody tries again.
const OPENS: u32 = 8;
const RACE: &str = "precondition failed";
/// So long may the log's writer, and a flush, take to end when a store is closed.
const ENDING: Duration = Duration::from_secs(60);

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
    users: Arc<Users>,
    open: Mutex<Option<Open>>,
    /// A fork has none of the threads that a store needs.
    process: u32,
}

impl Engine {
    pub fn open(
        path: &Path, schema: SchemaRef, key: usize, sync: bool, seal_batches: usize, guards: Guards,
    ) -> Result<Self, Failure> {
        let folder = Folder::take(path, guards.lock, guards.stale_files, guards.closed_files)?;
        let mut attempt = 1;
        let open = loop {
            match Open::new(&folder, &schema, key, sync, seal_batches) {
                Err(lost) if attempt < OPENS && lost.text().contains(RACE) => {
                    thread::sleep(Duration::from_millis(5 << attempt));
                    if guards.stale_files {
                        folder.clean().map_err(Failure::storage)?; // what this try left behind
                    }
                    attempt += 1;
                }
                other => break other,
            }
        };
        let open = open.map_err(|failure| {
            failure.amid(format!("{} can't be opened", folder.path.display()))
        })?;
        Ok(Self {
            schema, key, guards, folder, gate: RwLock::new(()), closing: watch::channel(false).0,
            puts: watch::channel(0).0, users: Arc::default(), open: Mutex::new(Some(open)),
            process: std::process::id(),
        })
    }

    /// The database and what runs it, unless the store was closed.
    pub fn used(&self) -> Result<Used, Failure> {
        if self.process != std::process::id() {
            return Err(Failure::storage(format!(
                "the store in {} was opened by process {}, and this is a fork of it; open another \
                 one here", self.folder.path.display(), self.process
            )));
        }
        let open = held(&self.open);
        let Some(Open { db, runtime, .. }) = open.as_ref() else {
            return Err(Failure::value(format!(
                "the store in {} is closed", self.folder.path.display()
            )));
        };
        let user = User::new(&self.users);
        Ok(Used { db: db.clone(), runtime: runtime.handle().clone(), _user: user })
    }

    pub fn put(&self, batch: RecordBatch, tombstones: Option<Vec<bool>>) -> Result<(), Failure> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let Used { db, runtime, _user } = &self.used()?;
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

    /// Wait for all who use it, end all threads and, if asked, note what the files hold.
    ///
    /// Nobody writes in the folder any more when it returns. Twice is fine.
    pub fn close(&self, note: bool) -> Result<(), Failure> {
        if self.process != std::process::id() {
            return Ok(()); // the threads, and the files, are another process's
        }
        self.closing.send_replace(true);
        let mut open = held(&self.open); // whoever else closes it waits here
        let Some(open) = open.take() else { return Ok(()) };
        self.users.wait();
        open.end(note);
        let noted = if note && self.guards.closed_files { self.folder.note() } else { Ok(()) };
        self.folder.give_back();
        noted.map_err(|error| Failure::storage(format!(
            "{} was closed, but not noted as whole: {error}", self.folder.path.display()
        )))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // Ending it would wait for threads that a fork does not have.
            std::mem::forget(self.open.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
        let _ = self.close(false);
    }
}

pub fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A database and all that runs it.
struct Open {
    db: Db,
    runtime: Runtime,
    /// The log's writer holds it, and so does a flush, each as long as it is at work.
    workers: Weak<TokioExecutor>,
}

impl Open {
    fn new(
        folder: &Folder, schema: &SchemaRef, key: usize, sync: bool, seal_batches: usize,
    ) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1).max_blocking_threads(4).enable_all().thread_name("tonbo")
            .build().map_err(Failure::storage)?;
        let (db, workers) = caught(|| runtime.block_on(async {
            let executor = Arc::new(TokioExecutor::default());
            let workers = Arc::downgrade(&executor);
            let log = LogFiles::default();
            let is_open = log.is_open.clone();
            let builder = DbBuilder::from_schema_key_indices(schema.clone(), vec![key])
                .map_err(Failure::storage)?
                .on_disk(&folder.path).map_err(Failure::storage)?;
            let log = WalConfig::default().segment_backend(Arc::new(log));
            let db = WalConfigExt::wal_config(builder, log)
                .wal_sync_policy(if sync { WalSyncPolicy::Always } else { WalSyncPolicy::Disabled })
                .with_minor_compaction(1, 0)
                // Neither `with_compaction_options` nor a strategy: with deletes, major compaction
                // loses rows that nobody deleted.
                .with_seal_policy(Arc::new(BatchesThreshold { batches: seal_batches }))
                .open_with_executor(executor).await.map_err(Failure::storage)?;
            is_open.store(true, Ordering::Release);
            Ok((db, workers))
        }))?;
        Ok(Self { db, runtime, workers })
    }

    /// End it: log and flush once they are done if it is to be `whole`, amid their work if not.
    fn end(self, whole: bool) {
        let Self { db, runtime, workers } = self;
        let entered = runtime.enter();
        drop(db); // the log's writer ends when it has written what it was given
        drop(entered);
        let until = Instant::now() + ENDING;
        while whole && workers.strong_count() > 0 && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        drop(runtime); // waits for all of its threads; one may be amid writing a file
    }
}

/// The database while somebody uses it; the store is not closed before this is dropped.
///
/// A closure that is to keep it must take it whole: of a field it alone would keep that field.
pub struct Used {
    pub db: Db,
    pub runtime: Handle,
    /// The last field, for it is dropped last.
    _user: User,
}

/// How many use a store.
#[derive(Default)]
struct Users {
    count: Mutex<usize>,
    fewer: Condvar,
}

impl Users {
    fn wait(&self) {
        let mut count = held(&self.count);
        while *count > 0 {
            count = self.fewer.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// One of them, as long as it lives.
struct User(Arc<Users>);

impl User {
    fn new(among: &Arc<Users>) -> Self {
        *held(&among.count) += 1;
        Self(among.clone())
    }
}

impl Drop for User {
    fn drop(&mut self) {
        *held(&self.0.count) -= 1;
        self.0.fewer.notify_all();
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
