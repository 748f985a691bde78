"""Whether the end of a RocksDB log was torn off by a crash, or damaged afterwards.

One job: `is_cut_short`. A log's last record may be incomplete: its write never returned, and
RocksDB drops it. But a record whose *length* was damaged looks just the same, and everything from
there on would be dropped with it. The checksum tells the two apart: it does not cover the length,
so if it is right for some shorter one, the record was whole.

The format: blocks of 32 KiB; records of checksum (4 bytes, masked CRC-32C), length (2), type (1)
and payload, none across two blocks (RocksDB wiki, "Write Ahead Log File Format").
"""

from __future__ import annotations

from pathlib import Path

_BLOCK = 32 << 10
_HEADER = 7
_MASK = 0xA282EAD8


def _table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)  # noqa: PLW2901
        table.append(value)
    return tuple(table)


_CRC = _table()


def is_cut_short(log: Path) -> bool:
    """Whether a record that was written in whole seems to go on after the end of its file or block.

    A log that is damaged elsewhere fails its checksums, which RocksDB tests itself.
    """
    data = log.read_bytes()
    at = 0
    while at + _HEADER <= len(data):
        end = min(len(data), at - at % _BLOCK + _BLOCK)
        if end - at < _HEADER:  # the rest of a block that is too short for a record
            at = end
            continue
        length = int.from_bytes(data[at + 4 : at + 6], "little")
        if length == 0 and data[at + 6] == 0:  # room that was reserved
            return False
        if at + _HEADER + length > end:
            return _is_whole(data[at:end])
        at += _HEADER + length
    return False


def _is_whole(record: bytes) -> bool:
    """Whether the checksum in front is that of the bytes up to some place after it."""
    wanted = int.from_bytes(record[:4], "little")
    crc = 0xFFFFFFFF
    for byte in record[6:]:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
        plain = crc ^ 0xFFFFFFFF
        if ((plain >> 15 | plain << 17) + _MASK) & 0xFFFFFFFF == wanted:
            return True
    return False
