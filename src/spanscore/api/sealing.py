"""Numbers that a server hands out and takes back, without whoever holds them being able to read or
change them.

This is authenticated encryption with a synthetic nonce (SIV, RFC 5297), with keyed BLAKE2b in the
place of AES: the nonce is a keyed hash of the content, and the content is masked with a keyed hash
of the nonce.
"""

import hashlib
from itertools import count
from typing import Final

_TAG_BYTES: Final = 16
_BLOCK_BYTES: Final = 64


def seal(key: bytes, content: bytes) -> bytes:
    """`content` that only who has the key can read; 16 bytes longer.

    >>> opened(b"key", seal(b"key", b"content")), opened(b"other", seal(b"key", b"content"))
    (b'content', None)
    """
    tag = _tag(key, content)
    return tag + _masked(key, tag, content)


def opened(key: bytes, sealed: bytes) -> bytes | None:
    """What was sealed with this key; None where it is anything else."""
    tag, content = sealed[:_TAG_BYTES], _masked(key, sealed[:_TAG_BYTES], sealed[_TAG_BYTES:])
    return content if _tag(key, content) == tag else None


def _tag(key: bytes, content: bytes) -> bytes:
    return hashlib.blake2b(
        content, key=key, digest_size=_TAG_BYTES, person=b"spanscore tag"
    ).digest()


def _masked(key: bytes, tag: bytes, content: bytes) -> bytes:
    blocks = (_block(key, tag, number) for number in count())
    mask = b"".join(next(blocks) for _ in range(0, len(content), _BLOCK_BYTES))
    return bytes(x ^ y for x, y in zip(content, mask, strict=False))


def _block(key: bytes, tag: bytes, number: int) -> bytes:
    numbered = tag + number.to_bytes(8, "big")
    return hashlib.blake2b(
        numbered, key=key, digest_size=_BLOCK_BYTES, person=b"spanscore mask"
    ).digest()
