//! The folder of a store: who may use it, and whether it is whole.
//!
//! Tonbo locks nothing, so a second process would be let in. When it is killed it leaves lock files
//! behind, which later stop the writer of its log, leases, which stop writes to its manifest for a
//! minute, and a part of that which it later takes for whole. Here one file is locked by the kernel
//! as long as the store is open; under that lock none of these can be in use.
//!
//! What a store wrote is noted with its CRC-32C when it is closed, for Tonbo reads a log up to the
//! first damaged byte and says nothing of the rest.
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use serde_json::{Map, Value, json};

use crate::errors::Failure;

const LOCK: &str = "LOCK";
const CLOSED: &str = "closed.json";
/// Folders of Tonbo's manifests: who is at work with one of them, and what was added to it.
const LEASES: &str = "leases";
const SEGMENTS: &str = "segments";
/// What a Parquet file begins and ends with.
const MAGIC: &[u8] = b"PAR1";

pub struct Folder {
    pub path: PathBuf,
    /// None where the guard was taken out, or the folder was given back.
    lock: Mutex<Option<File>>,
}

impl Folder {
    /// Take a folder for oneself; `locking`, `cleaning` and `checking` are off in tests alone.
    pub fn take(
        path: &Path, locking: bool, cleaning: bool, checking: bool,
    ) -> Result<Self, Failure> {
        let fault = |error: io::Error| {
            Failure::storage(format!("{} can't hold a store: {error}", path.display()))
        };
        fs::create_dir_all(path).map_err(fault)?;
        let path = &path.canonicalize().map_err(fault)?;
        let lock = if locking { Some(locked(path)?) } else { None };
        if checking {
            check(path)?;
        }
        if cleaning {
            clean(path).map_err(fault)?;
        }
        Ok(Self { path: path.to_path_buf(), lock: Mutex::new(lock) })
    }

    /// Remove what a writer that was ended amid its work left behind; for one that has none now.
    pub fn clean(&self) -> io::Result<()> {
        clean(&self.path)
    }

    /// Let others take it.
    pub fn give_back(&self) {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Note what all files hold; for a store that nobody writes any more.
    pub fn note(&self) -> io::Result<()> {
        self.clean()?; // of a recovery that was ended amid its work
        let mut noted = Map::new();
        for file in files(&self.path)? {
            let data = fs::read(&file)?;
            let name = file.strip_prefix(&self.path).unwrap_or(&file).to_string_lossy();
            noted.insert(name.into_owned(), json!([data.len(), crc32c::crc32c(&data)]));
        }
        let new = self.path.join(".tmp-closed");
        fs::write(&new, Value::Object(noted).to_string())?;
        fs::rename(new, self.path.join(CLOSED))
    }

    /// The sorted files whose begin or end is not what it must be, for a message.
    pub fn broken(&self) -> String {
        let whole = |file: &PathBuf| {
            fs::read(file).is_ok_and(|data| data.starts_with(MAGIC) && data.ends_with(MAGIC))
        };
        let found = files(&self.path).unwrap_or_default().into_iter().filter(|file| {
            file.extension().is_some_and(|ending| ending == "parquet") && !whole(file)
        });
        found.map(|file| format!("; {} is damaged", file.display())).collect()
    }

    /// Write all that the kernel still holds back to the disk.
    pub fn sync(&self) -> io::Result<()> {
        for file in files(&self.path)? {
            match File::open(&file) {
                Ok(open) => open.sync_all()?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {} // a log that is done
                Err(error) => return Err(error),
            }
        }
        for folder in folders(&self.path)? {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }
}

fn locked(path: &Path) -> Result<File, Failure> {
    let at = path.join(LOCK);
    let fault = |error: io::Error| {
        Failure::storage(format!("{} can't be locked: {error}", at.display()))
    };
    let mut how = OpenOptions::new();
    let file = how.create(true).truncate(false).write(true).open(&at).map_err(fault)?;
    // SAFETY: the descriptor is open as long as `file` is.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(file);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::WouldBlock {
        return Err(Failure::storage(format!(
            "{} is in use by another process, or by a store of this one that is still open; \
             close that, or take another folder",
            path.display()
        )));
    }
    Err(fault(error))
}

fn clean(path: &Path) -> io::Result<()> {
    for folder in folders(path)? {
        for each in fs::read_dir(&folder)? {
            let each = each?;
            let left = stale(&each.file_name().to_string_lossy()) || folder.ends_with(LEASES);
            if left && each.file_type()?.is_file() {
                fs::remove_file(each.path())?;
            }
        }
        if folder.ends_with(SEGMENTS) {
            if let Some(segment) = unnamed(&folder)? {
                fs::remove_file(segment)?;
            }
        }
    }
    Ok(())
}

/// The segment of a manifest that was written, while the head that is to name it was not.
///
/// Tonbo would adopt it beside opening the store. By its sources rows may be lost amid that: those
/// of the sorted file that it adds are not taken from the log any more, and the next sorted file
/// may get the same number. Without the segment all of them come from the log.
fn unnamed(segments: &Path) -> io::Result<Option<PathBuf>> {
    let Some(last) = last_segment(segments) else { return Ok(None) };
    let mut beyond = Vec::new();
    for each in fs::read_dir(segments)? {
        let each = each?;
        if number(&each.file_name().to_string_lossy()).is_some_and(|number| number > last) {
            beyond.push(each.path());
        }
    }
    // A writer is ahead by one; where there are more, it is the head that is wrong.
    Ok(if beyond.len() == 1 { beyond.pop() } else { None })
}

/// The number of the last segment that the head of their manifest names, unless it is damaged.
fn last_segment(segments: &Path) -> Option<u64> {
    let text = match fs::read(segments.with_file_name("head.json")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(0),
        read => read.ok()?,
    };
    let head: Map<String, Value> = serde_json::from_slice(&text).ok()?;
    let last = head.get("last_segment_seq")?;
    if last.is_null() { Some(0) } else { last.as_u64() }
}

/// The number of a segment, by its name.
fn number(name: &str) -> Option<u64> {
    name.strip_prefix("seg-")?.get(..20)?.parse().ok()
}

/// Whether it is of a writer at work; under our own lock there is no other.
fn stale(name: &str) -> bool {
    name.ends_with(".lock") || name.starts_with(".tmp-")
}

/// Compare the files with what was noted when the store was closed, if it was.
fn check(path: &Path) -> Result<(), Failure> {
    let at = path.join(CLOSED);
    let text = match fs::read(&at) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read.map_err(|error| damaged(&at, error))?,
    };
    let noted: Map<String, Value> = serde_json::from_slice(&text).map_err(|e| damaged(&at, e))?;
    for (name, facts) in &noted {
        let file = path.join(name);
        let data = fs::read(&file).map_err(|error| damaged(&file, error))?;
        let (n_bytes, crc) = (facts[0].as_u64(), facts[1].as_u64());
        if n_bytes != Some(data.len() as u64) {
            return Err(damaged(&file, format!(
                "it has {} bytes, and had {} when the store was closed",
                data.len(), n_bytes.unwrap_or(0)
            )));
        }
        if crc != Some(u64::from(crc32c::crc32c(&data))) {
            return Err(damaged(&file, "its bytes are not those of when the store was closed"));
        }
    }
    fs::remove_file(&at).map_err(|error| damaged(&at, error))
}

fn damaged(file: &Path, what: impl std::fmt::Display) -> Failure {
    let file = file.display();
    Failure::storage(format!("{file} is damaged: {what}; restore the folder from a copy"))
}

/// All files but our own and those of writers.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in folders(path)? {
        for each in fs::read_dir(folder)? {
            let each = each?;
            let name = each.file_name().to_string_lossy().into_owned();
            if each.file_type()?.is_file() && name != LOCK && name != CLOSED && !stale(&name) {
                found.push(each.path());
            }
        }
    }
    Ok(found)
}

fn folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![path.to_path_buf()];
    let mut next = 0;
    while next < found.len() {
        for each in fs::read_dir(&found[next])? {
            let each = each?;
            if each.file_type()?.is_dir() {
                found.push(each.path());
            }
        }
        next += 1;
    }
    Ok(found)
}
