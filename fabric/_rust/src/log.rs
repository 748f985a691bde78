//! The files of a log, which is not cut while it is written.
//!
//! Each flush looks at the end of the log, beside its writer (`tail_metadata_with_hint` of Tonbo's
//! wal/storage.rs). Where that is amid a frame, the flush takes it for what a crash left and writes
//! the log anew up to there: what was put meanwhile is lost. Only opening a store may do so; of a
//! flush it is refused, which fails then, and the next one does its work.
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use fusio::{
    disk::LocalFs,
    dynamic::MaybeSend,
    error::Error,
    fs::{FileMeta, FileSystemTag, Fs, OpenOptions},
    path::Path,
};
use futures::Stream;

#[derive(Clone, Default)]
pub struct LogFiles {
    files: LocalFs,
    /// From then on nobody may cut it.
    pub is_open: Arc<AtomicBool>,
}

impl Fs for LogFiles {
    type File = <LocalFs as Fs>::File;

    fn file_system(&self) -> FileSystemTag {
        self.files.file_system()
    }

    async fn open_options(&self, path: &Path, options: OpenOptions) -> Result<Self::File, Error> {
        if options.truncate && self.is_open.load(Ordering::Acquire) {
            return Err(Error::Unsupported { message: format!("cutting {path}, which is written") });
        }
        self.files.open_options(path, options).await
    }

    async fn create_dir_all(path: &Path) -> Result<(), Error> {
        <LocalFs as Fs>::create_dir_all(path).await
    }

    async fn list(
        &self, path: &Path,
    ) -> Result<impl Stream<Item = Result<FileMeta, Error>> + MaybeSend, Error> {
        self.files.list(path).await
    }

    async fn remove(&self, path: &Path) -> Result<(), Error> {
        self.files.remove(path).await
    }

    async fn copy(&self, from: &Path, to: &Path) -> Result<(), Error> {
        self.files.copy(from, to).await
    }

    async fn link(&self, from: &Path, to: &Path) -> Result<(), Error> {
        self.files.link(from, to).await
    }

    async fn exists(&self, path: &Path) -> Result<bool, Error> {
        self.files.exists(path).await
    }
}
