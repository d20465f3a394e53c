"""Compressed bodies: what was compressed comes back, and nothing grows past what a request may
have.
"""

import gzip
import zlib

import cramjam
import pytest
from hypothesis import given, strategies as st

from spanscore.receive.http_requests import ENCODINGS, decompress

COMPRESS = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zlib": zlib.compress,
    "zstd": cramjam.zstd.compress,
    "snappy": cramjam.snappy.compress_raw,
    "x-snappy-framed": cramjam.snappy.compress,
    "lz4": cramjam.lz4.compress,
}
MAX_BYTES = 10**6
encodings = pytest.mark.parametrize("encoding", ENCODINGS)


@pytest.mark.slow
@encodings
@given(plain=st.binary(max_size=500), max_bytes=st.integers(0, 600))
def test_what_was_compressed_comes_back_or_is_said_to_be_too_large(encoding, plain, max_bytes):
    packed = bytes(COMPRESS[encoding](plain))
    assert decompress(encoding, packed, max_bytes) == (plain if len(plain) <= max_bytes else None)


@encodings
@given(body=st.binary(min_size=1, max_size=100))
def test_any_bytes_are_decompressed_or_refused_with_a_value_error(encoding, body):
    try:
        decompress(encoding, body, MAX_BYTES)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right


@pytest.mark.slow
@encodings
@given(plain=st.binary(min_size=50, max_size=500), end=st.integers(1, 5))
def test_a_body_that_is_cut_is_refused(encoding, plain, end):
    packed = bytes(COMPRESS[encoding](plain))
    with pytest.raises(ValueError, match=r"."):
        decompress(encoding, packed[:-end], MAX_BYTES)


@pytest.mark.slow
@encodings
def test_a_small_body_that_would_be_huge_is_said_to_be_too_large(encoding):
    assert decompress(encoding, bytes(COMPRESS[encoding](bytes(50 * MAX_BYTES))), MAX_BYTES) is None


@encodings
def test_an_empty_body_is_empty(encoding):
    assert decompress(encoding, b"", MAX_BYTES) == b""


def test_snappy_is_known_by_its_frames_where_an_old_collector_frames_it():
    assert decompress("snappy", bytes(cramjam.snappy.compress(b"spans")), MAX_BYTES) == b"spans"


@given(st.lists(st.binary(max_size=200), max_size=4), st.integers(0, 900))
def test_streams_strung_together_are_one_body(parts, max_bytes):
    plain = b"".join(parts)
    packed = b"".join(gzip.compress(x) for x in parts)
    assert decompress("gzip", packed, max_bytes) == (plain if len(plain) <= max_bytes else None)


def test_a_body_strung_together_from_countless_streams_is_refused():
    with pytest.raises(ValueError, match="compressed streams"):
        decompress("gzip", gzip.compress(b"") * 10_000, MAX_BYTES)
