"""The files that the program opens: how to make a good one of each kind, and how it is opened."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from helpers.published_images import contents_of, published, published_images, put, sha256
from helpers.small_results import result, score
from jsa import JSA, Batch, BeliefNetwork, ChainCache, LatentSpace, Layer
from jsa.data.fashion_mnist import fashion_mnist
from jsa.data.mnist import unpack_archive
from jsa.data.published_files import PublishedBits
from jsa.data.salakhutdinov import PACKED_NAME, read_amat, read_packed
from jsa.data.schema import Schema
from jsa.data.splits import Splits
from jsa.data.tables.table import TableOptions, table_splits
from jsa.experiments.results import read_result, write_result
from jsa.io.provenance import Provenance
from jsa.io.tensor_files import load_tensors, save_tensors
from jsa.learner import Learner
from jsa.runs.config import RunConfig
from jsa.runs.folder import RunFolder
from jsa.runs.identity import RowsIdentity, RunIdentity
from jsa.runs.scores import Scores, read_rescored, read_scores, write_rescored, write_scores
from jsa.saved_models import constructor_record
from jsa.training.config import OptimizerConfig
from jsa.training.optimization import make_optimizer
from jsa.training.selection import ValidatedEpoch
from jsa.training.state import State
from jsa.training.weights import load_weights, save_weights

from . import formats
from .mutations import Mutation, any_mutation

ROWS = 40
LATENT = LatentSpace.of(Layer("bernoulli", 5), Layer("categorical", 2, classes=3))


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
        name: What it is called in the table.
        make: Puts good files into a folder.
        open: Opens them as the program does, and gives what was read, in a form that can be compared.
        mutations: What happens to the files, beside what can happen to any.
        checksummed: Whether a file that was changed is recognized, so that none can load as something else.
    """

    name: str
    make: Callable[[Path], object]
    open: Callable[[Path], object]
    mutations: Sequence[Mutation]
    checksummed: bool


def comparable(content: object) -> object:
    """What can be compared by ==: arrays as their type, shape and bytes."""
    if isinstance(content, torch.Tensor):
        return comparable(content.detach().numpy())
    if isinstance(content, np.ndarray):
        return str(content.dtype), content.shape, content.tobytes()
    if isinstance(content, dict):
        return {name: comparable(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [comparable(value) for value in content]
    return content


def rows_of(splits: Splits) -> object:
    """The rows of all three parts."""
    parts = (splits.train, splits.valid, splits.test)
    return [part.batch(torch.arange(len(part))).x for part in parts]


# Weights, states, chains


def network() -> BeliefNetwork:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return BeliefNetwork(Layer("bernoulli", 4), LATENT, (3,))


def make_weights(folder: Path) -> None:
    save_weights(network(), folder / "best.safetensors", {"epoch": 4, "valid_nll": 100.5})


def open_weights(folder: Path) -> object:
    model = network()
    notes = load_weights(model, folder / "best.safetensors")
    return notes, model.state_dict()


def make_model(folder: Path) -> None:
    network().save(folder / "model.safetensors")


def open_model(folder: Path) -> object:
    model = BeliefNetwork.load(folder / "model.safetensors")
    return constructor_record(model), model.state_dict()


def training_state() -> tuple[State, Learner, torch.optim.Optimizer]:
    """A training of which nothing has been made yet."""
    model = network()
    learner = Learner(model, JSA(LATENT, rows=ROWS, particles=2))
    optimizer = make_optimizer(learner, OptimizerConfig())
    identity = {"seed": 0, "rows": ROWS}
    return State(learner, optimizer, identity=identity), learner, optimizer


def make_state(folder: Path) -> None:
    state, learner, optimizer = training_state()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        learner(Batch(torch.ones(4, 4), torch.arange(4))).loss.backward()
    optimizer.step()
    state.save(folder / "state.safetensors")


def open_state(folder: Path) -> object:
    state, learner, optimizer = training_state()
    with torch.random.fork_rng():
        state.load(folder / "state.safetensors")
        drawn = torch.rand(3)
    assert learner.estimator.chains is not None
    remembered = [optimizer.state[parameter] for parameter in learner.parameters()]
    chains = contents(learner.estimator.chains)
    return learner.state_dict(), remembered, chains, drawn, state.progress, learner.estimator.stage


def make_chains_on_disk(folder: Path) -> None:
    """Chains that are a checkpoint further than the state file."""
    cache = filled(ChainCache(LATENT, ROWS, folder / "chains"))
    cache.commit()
    rows = torch.arange(5)
    cache.write(rows, LATENT.enumerate()[7:12], moved=torch.ones(5, dtype=torch.bool))
    save_tensors(folder / "state.safetensors", cache.state_dict(), {})
    cache.write(rows, LATENT.enumerate()[12:17], moved=torch.ones(5, dtype=torch.bool))
    cache.commit()


def open_chains_on_disk(folder: Path) -> object:
    cache = ChainCache(LATENT, ROWS, folder / "chains")
    tensors, _ = load_tensors(folder / "state.safetensors")
    cache.load_state_dict(tensors)
    return contents(cache)


def make_chains(folder: Path) -> None:
    save_tensors(folder / "chains.safetensors", filled(ChainCache(LATENT, ROWS)).state_dict(), {})


def filled(cache: ChainCache) -> ChainCache:
    rows = torch.arange(0, ROWS, 2)
    states = LATENT.enumerate()[: len(rows)]
    cache.write(rows, states, moved=torch.ones(len(rows), dtype=torch.bool))
    return cache


def open_chains(folder: Path) -> object:
    cache = ChainCache(LATENT, ROWS)
    tensors, _ = load_tensors(folder / "chains.safetensors")
    cache.load_state_dict(tensors)
    return contents(cache)


def contents(cache: ChainCache) -> object:
    every = torch.arange(ROWS)
    return *cache.read(every), cache.age(every), cache.visits


# Configuration and metrics


def make_config(folder: Path) -> None:
    RunFolder(folder).write_config(RunConfig())


def make_metrics(folder: Path) -> None:
    records = [{"epoch": epoch, "objective": -100.0 / epoch, "seconds": 1.5, "stage": 1} for epoch in range(1, 6)]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    RunFolder(folder).metrics.write_text(lines, encoding="utf-8")


# Scores, versions and published results


def make_scores(folder: Path) -> None:
    scored = score(100.5)
    write_scores(RunFolder(folder), Scores(ValidatedEpoch(101.5, 4), 1_000, scored))
    write_rescored(RunFolder(folder), {4: scored, 5: scored})


def make_provenance(folder: Path) -> None:
    for version in ("0.1.0", "0.2.0"):
        RunFolder(folder).add_provenance(Provenance(version, None, "3.11", "2.13", "2.4", threads=1))


def make_data_identity(folder: Path) -> None:
    train, valid, test = (RowsIdentity(rows, rows, hashlib.sha256(bytes(rows)).hexdigest()) for rows in (160, 20, 10))
    schema = Schema.of(784, image_shape=(28, 28)).conditioned(392)
    RunIdentity(Path("/home/somebody"), train, valid, test, schema, "a model", None).write(folder)


# Published data


GRAY = np.random.default_rng(0).integers(0, 256, (12, 4, 4))
IMAGES = contents_of(GRAY[:8], GRAY[8:])
PUBLISHED_IMAGES = published_images(IMAGES)

PACKED_ROWS = {
    name: np.random.default_rng(rows).integers(0, 256, (rows, 98)).astype(np.uint8)
    for name, rows in (("train", 3), ("valid", 2), ("test", 1))
}
AMAT = {
    f"binarized_mnist_{name}.amat": "".join(
        " ".join(map(str, row)) + "\n" for row in np.unpackbits(rows, axis=1).tolist()
    ).encode()
    for name, rows in PACKED_ROWS.items()
}
PUBLISHED_AMAT = {
    name: PublishedBits(published(file, AMAT[file]), sha256(rows))
    for (name, rows), file in zip(PACKED_ROWS.items(), AMAT, strict=True)
}


def open_fashion(folder: Path) -> object:
    splits = fashion_mnist(folder, published=PUBLISHED_IMAGES, train_rows=6)
    return rows_of(splits), splits.train.labels, splits.test.labels


def make_archive(folder: Path) -> None:
    content = b"".join(IMAGES[file.name] for file in PUBLISHED_IMAGES.files)
    (folder / "mnist.xz").write_bytes(lzma.compress(content, preset=0))


def open_archive(folder: Path) -> object:
    training, test = unpack_archive((folder / "mnist.xz").read_bytes(), PUBLISHED_IMAGES)
    return training.pixels, training.labels, test.pixels, test.labels


# Own tables


TABLE = np.random.default_rng(1).integers(0, 2, (60, 7)).astype(np.uint8)


def open_table(name: str) -> Callable[[Path], object]:
    return lambda folder: rows_of(table_splits(folder / name, TableOptions()))


def make_csv(folder: Path) -> None:
    lines = [",".join("abcdefg"), *(",".join(map(str, row)) for row in TABLE.tolist())]
    (folder / "table.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


KINDS: Sequence[Kind] = (
    Kind("weights", make_weights, open_weights, [formats.safetensors_header], True),
    Kind("weights, sealed again", make_weights, open_weights, [formats.sealed_again] * 3, False),
    Kind("model", make_model, open_model, [formats.safetensors_header], True),
    Kind("model, sealed again", make_model, open_model, [formats.sealed_again] * 3, False),
    Kind("state", make_state, open_state, [formats.safetensors_header], True),
    Kind("state, sealed again", make_state, open_state, [formats.sealed_again] * 3, False),
    Kind("chains", make_chains, open_chains, [formats.safetensors_header], True),
    Kind("chains, sealed again", make_chains, open_chains, [formats.sealed_again] * 3, False),
    Kind("chains on disk", make_chains_on_disk, open_chains_on_disk, [], True),
    Kind(
        "config.json",
        make_config,
        lambda folder: RunFolder(folder).read_config(),
        [formats.mutated_json],
        False,
    ),
    Kind(
        "metrics.jsonl",
        make_metrics,
        lambda folder: list(RunFolder(folder).read_metrics()),
        [formats.json_line],
        False,
    ),
    Kind(
        "scores",
        make_scores,
        lambda folder: (read_scores(RunFolder(folder)), read_rescored(RunFolder(folder))),
        [formats.mutated_json],
        False,
    ),
    Kind(
        "provenance.jsonl",
        make_provenance,
        lambda folder: RunFolder(folder).read_provenance(),
        [formats.json_line],
        False,
    ),
    Kind("identity.json", make_data_identity, RunIdentity.read, [formats.mutated_json], False),
    Kind(
        "result",
        lambda folder: write_result(result(chains=True, variance=True), folder / "result.json"),
        lambda folder: read_result(folder / "result.json"),
        [formats.mutated_json],
        False,
    ),
    Kind("embedded MNIST, .xz", make_archive, open_archive, [formats.rebuilt_xz], True),
    Kind("IDX", lambda folder: put(folder, IMAGES), open_fashion, [formats.idx_header], True),
    Kind(
        "published .amat", lambda folder: put(folder, AMAT), lambda folder: read_amat(folder, PUBLISHED_AMAT), [], True
    ),
    Kind(
        "published .npz",
        lambda folder: np.savez_compressed(folder / PACKED_NAME, **PACKED_ROWS),  # type: ignore[arg-type]
        lambda folder: read_packed(folder / PACKED_NAME, PUBLISHED_AMAT),
        [formats.rebuilt_zip, formats.zip_directory],
        True,
    ),
    Kind(
        "own table, .npy",
        lambda folder: np.save(folder / "table.npy", TABLE),
        open_table("table.npy"),
        [formats.npy_header],
        False,
    ),
    Kind(
        "own table, .npz",
        lambda folder: np.savez_compressed(folder / "table.npz", train=TABLE[:40], test=TABLE[40:]),
        open_table("table.npz"),
        [formats.rebuilt_zip, formats.zip_directory],
        False,
    ),
    Kind("own table, .csv", make_csv, open_table("table.csv"), [formats.csv_cell], False),
)


def mutations_of(kind: Kind) -> Sequence[Mutation]:
    """Those of its format in about half of the files."""
    return [any_mutation] * max(1, len(kind.mutations)) + list(kind.mutations)
