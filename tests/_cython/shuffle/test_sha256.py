"""Our own SHA-256 and HMAC against the library's, and against the vectors that were published."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.shuffle.wire.headers import hmac_sha256, sha256
from tests.support.arrays import examples

TEXTS = st.integers(0, 200).flatmap(lambda n: st.binary(min_size=n, max_size=n))


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        ),
        (b"a" * 1_000_000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
    ],
    ids=["empty", "abc", "448 bits", "a million"],
)
def test_published_digests(data: bytes, digest: str) -> None:
    """FIPS 180, the examples of SHA-256."""
    assert sha256(data).hex() == digest


@pytest.mark.parametrize(
    ("key", "data", "code"),
    [
        (
            b"\x0b" * 20,
            b"Hi There",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        ),
        (
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            b"\xaa" * 20,
            b"\xdd" * 50,
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
        ),
        (
            bytes(range(1, 26)),
            b"\xcd" * 50,
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
        ),
        (
            b"\xaa" * 131,
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
        (
            b"\xaa" * 131,
            b"This is a test using a larger than block-size key and a larger than block-size data."
            b" The key needs to be hashed before being used by the HMAC algorithm.",
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
        ),
    ],
)
def test_published_codes(key: bytes, data: bytes, code: str) -> None:
    """RFC 4231, cases 1 to 4, 6 and 7."""
    assert hmac_sha256(key, data).hex() == code


def test_published_short_code() -> None:
    """RFC 4231, case 5: its first 128 bits."""
    code = hmac_sha256(b"\x0c" * 20, b"Test With Truncation")
    assert code[:16].hex() == "a3b6167473100ee06e0c796c2955552b"


@pytest.mark.parametrize("n_bytes", range(201))
def test_every_length_around_the_borders_of_blocks(n_bytes: int) -> None:
    data = bytes(i * 7 % 256 for i in range(n_bytes))
    assert sha256(data) == hashlib.sha256(data).digest()
    assert hmac_sha256(data, b"rows") == hmac.digest(data, b"rows", "sha256")
    assert hmac_sha256(b"key", data) == hmac.digest(b"key", data, "sha256")


@examples()
@given(TEXTS)
def test_digests_as_the_library_does(data: bytes) -> None:
    assert sha256(data) == hashlib.sha256(data).digest()


@examples()
@given(TEXTS, TEXTS)
def test_signs_as_the_library_does(key: bytes, data: bytes) -> None:
    assert hmac_sha256(key, data) == hmac.digest(key, data, "sha256")


@pytest.mark.parametrize("wrong", [None, "abc", bytearray(b"abc"), 7])
def test_takes_bytes_alone(wrong: object) -> None:
    with pytest.raises(TypeError):
        sha256(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        hmac_sha256(b"key", wrong)  # type: ignore[arg-type]
