"""Base64 and hexadecimal there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.encoding import from_base64, from_hex, to_base64


@given(data=st.binary(max_size=200))
def test_there_and_back(data: bytes) -> None:
    assert from_base64(to_base64(data)) == data
    assert from_base64(to_base64(data).rstrip("=")) == data
    assert max(map(len, to_base64(data).split("\r\n"))) <= 76
    assert from_hex(data.hex().upper()) == data


@pytest.mark.parametrize("text", ["Y", "YQ=", "Y=Q=", "YQ==YQ==", "=", "YQ===", "Y!Q=", "é"])
def test_no_base64(text: str) -> None:
    with pytest.raises(ExpressionError, match="is not a valid binary in base64"):
        from_base64(text)
