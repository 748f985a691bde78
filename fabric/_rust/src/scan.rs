//! Reading: a scan is set up at once, and its rows come from a thread of its own.
//!
//! A scan whose set-up overlaps Tonbo's background flush misses the rows that are being flushed:
//! the manifest it read is older than the new file, and the memtable is drained already. So the
//! head of the manifest is read before and after the set-up, which is done again if it moved.
//!
//! As long as a scan lives it holds the memtable's lock, so a put would wait for a reader that
//! nobody reads. Rows are read ahead of who wants them: a few batches, and all once a put waits.
use std::{
    path::PathBuf,
    pin::Pin,
    sync::{Arc, PoisonError, mpsc},
};

use arrow::{
    array::{RecordBatch, RecordBatchReader},
    compute::concat_batches,
    datatypes::{Schema, SchemaRef},
    error::ArrowError,
};
use futures::{Stream, StreamExt};
use tokio::sync::{Semaphore, mpsc as queue};
use tonbo::db::{DBError, Expr, ScalarValue};

use crate::{
    engine::{Db, Engine},
    errors::{Failure, caught},
};

/// Tonbo gives 1,024 rows at a time; so many are joined.
const BATCH_ROWS: usize = 1 << 14;
/// So many batches are read ahead while no put waits.
const AHEAD: usize = 2;
const SETUPS_MAX: usize = 1_000;

pub struct Wanted {
    pub begin: Option<Vec<u8>>,
    /// It is not in it.
    pub end: Option<Vec<u8>>,
    pub columns: Option<Vec<String>>,
    pub limit: Option<usize>,
}

impl Wanted {
    fn predicate(&self, key: &str) -> Option<Expr> {
        let bound = |bytes: &Vec<u8>| ScalarValue::Binary(Some(bytes.clone()));
        let from = self.begin.as_ref().map(|bytes| Expr::gt_eq(key, bound(bytes)));
        let to = self.end.as_ref().map(|bytes| Expr::lt(key, bound(bytes)));
        match (from, to) {
            (Some(from), Some(to)) => Some(Expr::and(vec![from, to])),
            (from, to) => from.or(to),
        }
    }

    fn projection(&self, schema: &SchemaRef) -> Result<Option<SchemaRef>, Failure> {
        let Some(names) = &self.columns else { return Ok(None) };
        let fields: Result<Vec<_>, _> = names.iter().map(|name| {
            schema.field_with_name(name).cloned().map_err(|_| {
                Failure::value(format!("the store has no column {name:?}"))
            })
        }).collect();
        Ok(Some(Arc::new(Schema::new(fields?))))
    }
}

/// Rows as they come.
pub struct Reader {
    schema: SchemaRef,
    rows: queue::UnboundedReceiver<Result<RecordBatch, Failure>>,
    room: Arc<Semaphore>,
    failed: bool,
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.rows.blocking_recv()?;
        self.room.add_permits(1);
        self.failed = next.is_err();
        Some(next.map_err(|failure| ArrowError::ComputeError(failure.text().to_owned())))
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

type Rows<'a> = Pin<Box<dyn Stream<Item = Result<RecordBatch, DBError>> + 'a>>;

/// Set a scan up; what is put after it returns is not seen.
pub fn scan(engine: Arc<Engine>, wanted: Wanted) -> Result<Reader, Failure> {
    let used = engine.used()?;
    let projection = wanted.projection(&engine.schema)?;
    let schema = projection.clone().unwrap_or_else(|| engine.schema.clone());
    let (to, rows) = queue::unbounded_channel();
    let room = Arc::new(Semaphore::new(AHEAD));
    let (ready, set_up) = mpsc::sync_channel(1);
    let (own, own_room) = (schema.clone(), room.clone());
    let spawned = std::thread::Builder::new().name("tonbo-scan".into()).spawn(move || {
        let used = used; // all of it
        let failed = caught(|| used.runtime.block_on(async {
            let rows = opened(&engine, &used.db, &wanted, projection.as_ref()).await?;
            let _ = ready.send(Ok(()));
            passed(&engine, rows, own, &to, &own_room).await
        }));
        if let Err(failure) = failed {
            let at = format!("{} can't be read", engine.folder.path.display());
            let failure = failure.amid(at + &engine.folder.broken());
            let _ = ready.send(Err(failure.clone()));
            let _ = to.send(Err(failure));
        }
    });
    spawned.map_err(Failure::storage)?;
    set_up.recv().map_err(|_| Failure::storage("the thread of a scan ended without an answer"))??;
    Ok(Reader { schema, rows, room, failed: false })
}

async fn opened<'a>(
    engine: &Engine, db: &'a Db, wanted: &Wanted, projection: Option<&SchemaRef>,
) -> Result<Rows<'a>, Failure> {
    let head = engine.folder.path.join("manifest/version/head.json");
    for _ in 0..SETUPS_MAX {
        let mut scan = db.scan();
        if let Some(predicate) = wanted.predicate(engine.schema.field(engine.key).name()) {
            scan = scan.filter(predicate);
        }
        if let Some(projection) = projection {
            scan = scan.projection(projection.clone());
        }
        if let Some(limit) = wanted.limit {
            scan = scan.limit(limit);
        }
        if !engine.guards.flush_race {
            return Ok(Box::pin(scan.stream().await.map_err(Failure::storage)?));
        }
        let before = bytes(&head);
        let rows = {
            let _gate = engine.gate.read().unwrap_or_else(PoisonError::into_inner);
            scan.stream().await
        };
        if bytes(&head) == before {
            return Ok(Box::pin(rows.map_err(Failure::storage)?));
        }
    }
    Err(Failure::storage(format!(
        "its manifest moved {SETUPS_MAX} times while one scan was set up"
    )))
}

fn bytes(head: &PathBuf) -> Vec<u8> {
    std::fs::read(head).unwrap_or_default()
}

/// Pass rows on until there are no more, nobody wants them, or the store is closed.
async fn passed(
    engine: &Engine, mut rows: Rows<'_>, schema: SchemaRef,
    to: &queue::UnboundedSender<Result<RecordBatch, Failure>>, room: &Semaphore,
) -> Result<(), Failure> {
    let (mut closing, mut puts) = (engine.closing.subscribe(), engine.puts.subscribe());
    let (mut parts, mut n_rows) = (Vec::new(), 0);
    loop {
        let next = rows.next().await.transpose().map_err(Failure::storage)?;
        let ended = next.is_none();
        if let Some(part) = next {
            n_rows += part.num_rows();
            parts.push(part);
        }
        if n_rows >= BATCH_ROWS || (ended && n_rows > 0) {
            let joined = concat_batches(&schema, &parts).map_err(Failure::storage)?;
            (parts, n_rows) = (Vec::new(), 0);
            tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => {
                    return Err(Failure::storage("the store was closed while it was read"));
                }
                _ = to.closed() => return Ok(()),
                free = room.acquire() => if let Ok(free) = free { free.forget() },
                _ = puts.wait_for(|waiting| engine.guards.read_ahead && *waiting > 0) => {}
            }
            let _ = to.send(Ok(joined));
        }
        if ended {
            return Ok(());
        }
    }
}
