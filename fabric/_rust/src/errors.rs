//! What can go wrong, and as which exception Python sees it.
use std::{
    any::Any,
    fmt::Display,
    panic::{AssertUnwindSafe, catch_unwind},
};

use pyo3::{
    PyErr, create_exception,
    exceptions::{PyException, PyTypeError, PyValueError},
};

create_exception!(
    fabric_tonbo,
    StoreError,
    PyException,
    "A store can't be opened, read or written; the message says what to do."
);

#[derive(Debug, Clone)]
pub enum Failure {
    /// A type that a store does not take.
    Kind(String),
    /// An argument that makes no sense.
    Value(String),
    /// Files, or the crate.
    Storage(String),
}

impl Failure {
    pub fn kind(text: impl Display) -> Self {
        Self::Kind(text.to_string())
    }
    pub fn value(text: impl Display) -> Self {
        Self::Value(text.to_string())
    }
    pub fn storage(text: impl Display) -> Self {
        Self::Storage(text.to_string())
    }
    pub fn text(&self) -> &str {
        match self {
            Self::Kind(text) | Self::Value(text) | Self::Storage(text) => text,
        }
    }
    /// The same, with what was attempted before it.
    pub fn amid(self, what: impl Display) -> Self {
        match self {
            Self::Storage(text) => Self::Storage(format!("{what}: {text}")),
            other => other,
        }
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Kind(text) => PyTypeError::new_err(text),
            Failure::Value(text) => PyValueError::new_err(text),
            Failure::Storage(text) => StoreError::new_err(text),
        }
    }
}

/// What `work` gives; a panic of the crate is an error like others.
pub fn caught<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Failure::Storage(said(panic))))
}

fn said(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    format!("Tonbo panicked: {text}; close the store, and open it anew")
}
