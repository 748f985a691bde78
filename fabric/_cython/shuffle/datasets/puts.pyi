import pyarrow as pa

from fabric._cython.shuffle.datasets.files import DatasetFolder
from fabric._cython.shuffle.flight.directory import LocationDirectory
from fabric._cython.shuffle.flight.handlers import HandlerSet
from fabric.flight.directory import Puts

def serve_datasets(
    handlers: HandlerSet,
    face: Puts,
    folder: DatasetFolder,
    table: LocationDirectory,
    agent_id: str,
) -> None: ...
def check_foreign_schema(schema: pa.Schema) -> None: ...
def check_foreign_batch(batch: pa.RecordBatch, schema: pa.Schema) -> None: ...
