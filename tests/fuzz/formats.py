"""What can happen to files of a known format, so that the damage lies behind the parser's first check."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import lzma
import random
import struct
import zipfile
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load

from jsa.io.tensor_files import ENTRY, content_checksum

from .mutations import SIZES, any_mutation

SWOLLEN = bytes(80_000_000)
SWOLLEN_XZ = lzma.compress(SWOLLEN, preset=1)
DTYPES = ("BOOL", "U8", "I8", "F16", "BF16", "F32", "F64", "I64", "F4", "F8_E4M3", "C64", "F128", "", 7, None)
DESCRIPTIONS = (
    "|u1",
    "<f8",
    ">i4",
    "|O",
    "|b1",
    "<U7",
    "|V0",
    "|S0",
    "<c16",
    "<M8[s]",
    ("<f4", (9,)),
    [("a", "<i4")],
    "x",
)
SHAPES = (0, 1, -1, 3, 10**6, 10**12, 2**62, 2**63, 10**30, True, 1.5, "x", None)
JUNK: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 255, 10**9, 2**63, 10**30, 10**400, 1.5, -0.0, 1e308, float("nan"), float("inf")),
    *("", "\0", "x", "\ud800", "../../x", "x" * 2000, [], [[]], {}, {"x": 1}, [0, -1], [None]),
)


def safetensors_header(content: bytes, rng: random.Random) -> bytes:
    """Another header with a right length of itself."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    tensors = [name for name in header if name != "__metadata__"]
    name = rng.choice(tensors)
    entry = header[name]
    match rng.randrange(9):
        case 0:
            entry["dtype"] = rng.choice(DTYPES)
        case 1:
            entry["shape"] = [rng.choice(SIZES) for _ in range(rng.randrange(5))]
        case 2:
            entry["data_offsets"] = [rng.choice(SIZES), rng.choice(SIZES)]
        case 3:
            header[rng.choice(("other", "", "\0", "x" * 1000, rng.choice(tensors)))] = header.pop(name)
        case 4:
            del header[name]
        case 5:
            header["__metadata__"] = rng.choice(JUNK)
        case 6:
            header["__metadata__"][ENTRY] = any_mutation(header["__metadata__"][ENTRY].encode(), rng).decode("latin-1")
        case 7:
            header[name] = rng.choice(JUNK)
        case _:
            entry["shape"] = list(reversed(entry["shape"]))
    return with_safetensors_header(content, header)


def sealed_again(content: bytes, rng: random.Random) -> bytes:
    """Other tensors or notes, under a right checksum: what somebody makes on purpose."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    entry = json.loads(header["__metadata__"][ENTRY])
    if rng.random() < 0.4:
        entry["notes"] = mutated_json(entry["notes"].encode(), rng).decode("utf-8", "replace")
    elif rng.random() < 0.5:
        content = content[: 8 + length] + any_mutation(content[8 + length :], rng)
    else:
        content = safetensors_header(content, rng)
        (length,) = struct.unpack("<Q", content[:8])
        with contextlib.suppress(ValueError):
            header = json.loads(content[8 : 8 + length])
    metadata = header.get("__metadata__")
    if not isinstance(metadata, dict):
        return content
    # What is no such file any more stays without a right checksum.
    with contextlib.suppress(SafetensorError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        entry["checksum"] = content_checksum(load(content), entry["notes"])
    metadata[ENTRY] = json.dumps(entry)
    return with_safetensors_header(content, header)


def with_safetensors_header(content: bytes, header: object) -> bytes:
    (length,) = struct.unpack("<Q", content[:8])
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def mutated_json(content: bytes, rng: random.Random) -> bytes:
    """JSON that is still JSON, or nearly: another value, a field less, another name, a field twice, a deep nest."""
    if rng.random() < 0.3:
        return any_mutation(content, rng)
    if rng.random() < 0.05:
        return rng.choice((b"[", b'{"x":')) * rng.choice((500, 990, 100_000))
    record = json.loads(content)
    inner = record
    while isinstance(inner, dict) and inner:
        name = rng.choice(list(inner))
        if not isinstance(inner[name], dict) or not inner[name] or rng.random() < 0.2:
            change_field(inner, name, rng)
            break
        inner = inner[name]
    text = json.dumps(record)
    return text.replace("{", '{"epochs": 3, ', 1).encode() if rng.random() < 0.05 else text.encode()


def change_field(record: dict[str, Any], name: str, rng: random.Random) -> None:
    match rng.randrange(4):
        case 0:
            del record[name]
        case 1:
            record[rng.choice((name[:-1], name + "s", "", "\0", "x" * 500))] = record.pop(name)
        case _:
            record[name] = rng.choice(JUNK)


def json_line(content: bytes, rng: random.Random) -> bytes:
    """Lines of JSON, one of them mutated, exchanged or torn."""
    lines = content.splitlines(keepends=True)
    place = rng.randrange(len(lines))
    lines[place] = mutated_json(lines[place], rng) + rng.choice((b"\n", b"\n", b"", b"\r\n", b"\0"))
    return b"".join(lines)


def npy_header(content: bytes, rng: random.Random) -> bytes:
    """Another header with a right length of itself."""
    (length,) = struct.unpack("<H", content[8:10])
    header = ast.literal_eval(content[10 : 10 + length].decode())
    match rng.randrange(5):
        case 0:
            header["descr"] = rng.choice(DESCRIPTIONS)
        case 1:
            header["fortran_order"] = rng.choice((True, 1, None, "x"))
        case 2:
            del header[rng.choice(list(header))]
        case _:
            header["shape"] = tuple(rng.choice(SHAPES) for _ in range(rng.randrange(5)))
    text = f"{header}\n".encode()
    version = rng.choice((b"\1\0", b"\1\0", b"\2\0", b"\3\0", b"\4\0"))
    size = struct.pack("<H" if version == b"\1\0" else "<I", len(text))
    return content[:6] + version + size + text + content[10 + length :]


def rebuilt_zip(content: bytes, rng: random.Random) -> bytes:
    """An archive with right checksums around mutated members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old:
        members = {name: old.read(name) for name in old.namelist()}
    chosen = rng.choice(list(members))
    members[chosen] = rng.choice((npy_header, any_mutation))(members[chosen], rng)
    if rng.random() < 0.2:
        members[rng.choice(("x", "x/", "../x.npy", "train", "valid.npy"))] = members.pop(chosen)
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    with zipfile.ZipFile(stream, "w", rng.choice(methods)) as new:
        for name, values in members.items():
            new.writestr(name, values)
    return stream.getvalue()


def zip_directory(content: bytes, rng: random.Random) -> bytes:
    """Another size, place or method in the archive's directory."""
    directory = content.index(b"PK\x01\x02")
    place = directory + rng.choice((8, 10, 16, 20, 24, 28, 30, 32, 42))
    return content[:place] + struct.pack("<I", rng.choice(SIZES) % 2**32) + content[place + 4 :]


def idx_header(content: bytes, rng: random.Random) -> bytes:
    """Another number of dimensions, or another dimension."""
    place = 4 * rng.randrange(1 + content[3])
    value = rng.randbytes(4) if place == 0 else struct.pack(">I", rng.choice(SIZES) % 2**32)
    return content[:place] + value + content[place + 4 :]


def rebuilt_xz(content: bytes, rng: random.Random) -> bytes:
    """A right xz file around a mutated content, or around one that swells."""
    if rng.random() < 0.05:
        return SWOLLEN_XZ
    return lzma.compress(any_mutation(lzma.decompress(content), rng), preset=0)


def csv_cell(content: bytes, rng: random.Random) -> bytes:
    """Another cell."""
    lines = content.split(b"\n")
    place = rng.randrange(len(lines))
    cells = lines[place].split(b",")
    junk = (
        b"",
        b"256",
        b"-1",
        b"nan",
        b"1e400",
        b'"',
        b'"1',
        b"\xff",
        b"\0",
        b"1;1",
        b"x" * 200_000,
        b"9" * 5000,
        "٣".encode(),
    )
    cells[rng.randrange(len(cells))] = rng.choice(junk)
    lines[place] = b",".join(cells)
    return b"\n".join(lines)
