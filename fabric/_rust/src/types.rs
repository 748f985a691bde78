//! Which columns a store takes.
//!
//! Tonbo 0.4.0-a2 takes some types at `put` that it can't read back: decimals, zoned timestamps,
//! large and fixed-size binaries. So only types that were seen to come back are let in, and the
//! others are refused when the store is opened, before anything is lost.
use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, RecordBatch, new_null_array},
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};

use crate::errors::Failure;

const ENGINE: &str = "the engine 'arrow' takes all types";

fn reads_back(kind: &DataType) -> bool {
    use DataType::*;
    matches!(
        kind,
        Boolean | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 | Float32
            | Float64 | Utf8 | Binary | Date32 | Date64 | Timestamp(_, None)
            | Time64(TimeUnit::Microsecond) | Duration(TimeUnit::Microsecond)
    )
}

/// The schema as it is stored: the key never null, all else may be (a tombstone has a key alone).
pub fn stored(schema: &Schema, key: &str, guarded: bool) -> Result<(SchemaRef, usize), Failure> {
    let Ok(at) = schema.index_of(key) else {
        let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        return Err(Failure::value(format!(
            "the key column {key:?} is not one of the columns {}", names.join(", ")
        )));
    };
    if schema.field(at).data_type() != &DataType::Binary {
        return Err(Failure::kind(format!(
            "the key column {key:?} must be binary, got {}", schema.field(at).data_type()
        )));
    }
    let mut fields = Vec::with_capacity(schema.fields().len());
    for (number, field) in schema.fields().iter().enumerate() {
        let (name, kind) = (field.name(), field.data_type());
        if guarded && !reads_back(kind) {
            return Err(Failure::kind(format!(
                "the column {name:?} is {kind}, which Tonbo is not known to read back; {ENGINE}"
            )));
        }
        fields.push(Field::new(name, kind.clone(), number != at));
    }
    Ok((Arc::new(Schema::new(fields)), at))
}

/// A batch with exactly the columns of a store.
pub fn conform(batch: RecordBatch, schema: &SchemaRef, key: usize) -> Result<RecordBatch, Failure> {
    let given = batch.schema();
    let same = given.fields().len() == schema.fields().len()
        && given.fields().iter().zip(schema.fields()).all(|(given, own)| {
            given.name() == own.name() && given.data_type() == own.data_type()
        });
    if !same {
        return Err(Failure::value(format!(
            "the store has the columns {}, got {}", told(schema), told(&given)
        )));
    }
    no_nulls(batch.column(key))?;
    RecordBatch::try_new(schema.clone(), batch.columns().to_vec()).map_err(Failure::storage)
}

/// Tombstones have keys alone.
pub fn keys_alone(keys: ArrayRef, schema: &SchemaRef, key: usize) -> Result<RecordBatch, Failure> {
    if keys.data_type() != &DataType::Binary {
        return Err(Failure::kind(format!("keys are binary, got {}", keys.data_type())));
    }
    no_nulls(&keys)?;
    let n = keys.len();
    let columns = schema.fields().iter().enumerate().map(|(at, field)| {
        if at == key { keys.clone() } else { new_null_array(field.data_type(), n) }
    });
    RecordBatch::try_new(schema.clone(), columns.collect()).map_err(Failure::storage)
}

fn no_nulls(keys: &ArrayRef) -> Result<(), Failure> {
    match keys.null_count() {
        0 => Ok(()),
        n => Err(Failure::value(format!("{n} keys are null; every row needs a key"))),
    }
}

fn told(schema: &Schema) -> String {
    let fields = schema.fields().iter();
    let each = fields.map(|field| format!("{}: {}", field.name(), field.data_type()));
    each.collect::<Vec<_>>().join(", ")
}
