"""What can happen to the bytes of any file."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Sequence

Mutation = Callable[[bytes, random.Random], bytes]

SIZES = (
    0,
    1,
    2,
    127,
    255,
    65_535,
    10**6,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    10**12,
    2**53,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
NUMBERS = ("-1", "0", "7", "256", "1e999", "-1e308", "NaN", "Infinity", "0.5", "9" * 30, "9" * 5000, "1_0", "0x10", "")


def flip_bits(content: bytes, rng: random.Random) -> bytes:
    """One to eight flipped bits."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def replace_byte(content: bytes, rng: random.Random) -> bytes:
    """Another byte in one place."""
    changed = bytearray(content)
    if changed:
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def truncate(content: bytes, rng: random.Random) -> bytes:
    """The beginning, of any length."""
    return content[: rng.randrange(len(content) + 1)]


def insert(content: bytes, rng: random.Random) -> bytes:
    """Some bytes more in one place."""
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.randbytes(rng.choice((1, 4, 100))) + content[place:]


def remove(content: bytes, rng: random.Random) -> bytes:
    """Some bytes fewer in one place."""
    start, stop = block(content, rng)
    return content[:start] + content[stop:]


def duplicate(content: bytes, rng: random.Random) -> bytes:
    """A block that stands there twice."""
    start, stop = block(content, rng)
    return content[:stop] + content[start:]


def blank(content: bytes, rng: random.Random) -> bytes:
    """A block that was never written."""
    start, stop = block(content, rng)
    return content[:start] + bytes(stop - start) + content[stop:]


def extreme_integer(content: bytes, rng: random.Random) -> bytes:
    """A length, a size or a number of another magnitude, in either order of bytes; often near the beginning."""
    size, code = rng.choice(((2, "H"), (4, "I"), (8, "Q")))
    if len(content) < size:
        return content
    place = rng.randrange(min(len(content) - size, rng.choice((8, 64, len(content)))) + 1)
    value = struct.pack(rng.choice("<>") + code, rng.choice(SIZES) % (1 << 8 * size))
    return content[:place] + value + content[place + size :]


def extreme_text_number(content: bytes, rng: random.Random) -> bytes:
    """A written number of another magnitude."""
    found = list(re.finditer(rb"\d+(\.\d+)?", content[:100_000]))
    if not found:
        return content
    match = rng.choice(found)
    number = rng.choice((*NUMBERS, *map(str, SIZES)))
    return content[: match.start()] + number.encode() + content[match.end() :]


def block(content: bytes, rng: random.Random) -> tuple[int, int]:
    """Where a block of random length begins and ends."""
    start = rng.randrange(len(content) + 1)
    return start, min(len(content), start + rng.choice((1, 8, 64, 512, 4096)))


ANY_FILE: Sequence[Mutation] = (
    flip_bits,
    flip_bits,
    replace_byte,
    truncate,
    insert,
    remove,
    duplicate,
    blank,
    extreme_integer,
    extreme_text_number,
)


def any_mutation(content: bytes, rng: random.Random) -> bytes:
    """One of the mutations of any file."""
    return rng.choice(ANY_FILE)(content, rng)
