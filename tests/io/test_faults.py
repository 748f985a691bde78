"""Which error of ours an error of the system becomes."""

import errno

import pyarrow as pa
import pytest

from fabric.errors import CancelledError, DataError, NotFoundError, StorageError
from fabric.io.local_files import reading, writing


@pytest.mark.parametrize(
    ("raised", "kind", "text"),
    [
        (FileNotFoundError(errno.ENOENT, "x"), NotFoundError, "there is no file /x; was it moved"),
        (IsADirectoryError(errno.EISDIR, "x"), NotFoundError, "/x is a folder, not a CSV file"),
        (PermissionError(errno.EACCES, "x"), StorageError, "/x may not be read by this user"),
        (OSError(errno.EIO, "bad sector"), StorageError, "reading /x failed: .*bad sector"),
        (pa.ArrowInvalid("no\nsecond line"), DataError, "/x is not a whole CSV file: no; write"),
        (CancelledError("stop"), CancelledError, "stop"),
    ],
)
def test_reading(raised, kind, text):
    with pytest.raises(kind, match=text), reading("/x", "CSV"):
        raise raised


@pytest.mark.parametrize(
    ("raised", "kind", "text"),
    [
        (OSError(errno.ENOSPC, "x"), StorageError, "the disk is full: /x could not be written"),
        (OSError(errno.EROFS, "read-only"), StorageError, "/x could not be written: .*read-only"),
        (pa.ArrowNotImplementedError("no"), DataError, "/x can't hold these rows: no"),
        (CancelledError("stop"), CancelledError, "stop"),
    ],
)
def test_writing(raised, kind, text):
    with pytest.raises(kind, match=text), writing("/x"):
        raise raised
