"""Peak memory in addition to data and model, measured in separate processes."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from benchmarks.report import Measurement
from benchmarks.settings import METHODS, Model, Setting, digits, make_model
from benchmarks.timing import Spread
from benchmarks.workload import Training
from jsa import likelihood
from jsa.data import Dataset
from jsa.evaluation.rows import Subset

PROCESS = Path("/proc/self")
Work = Callable[[Setting, Dataset, Model], object]


def peaks(setting: Setting) -> Iterator[Measurement]:
    """(e) Yield the peak of ten training steps, and of the NLL of two rows with few and many samples."""
    if not (PROCESS / "clear_refs").exists():
        return
    for name, work in (
        ("10 steps of JSA", _ten_steps),
        ("nll, 1,000 samples", _nll_of_1_000_samples),
        ("nll, 20,000 samples", _nll_of_20_000_samples),
    ):
        growth = _in_a_process(work, setting)
        yield Measurement("memory", setting.name, name, "MB above the data", Spread(growth, growth, growth))


def _ten_steps(setting: Setting, data: Dataset, model: Model) -> None:
    training = Training(setting, data, model, METHODS[1].build(setting.particles, model, len(data)))
    for _ in range(10):
        training.step()


def _nll_of_1_000_samples(setting: Setting, data: Dataset, model: Model) -> None:
    likelihood(model, Subset.spread(data, 2), 1_000)


def _nll_of_20_000_samples(setting: Setting, data: Dataset, model: Model) -> None:
    likelihood(model, Subset.spread(data, 2), 20_000)


def _in_a_process(work: Work, setting: Setting) -> float:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_report_growth, args=(sender, work, setting))
    process.start()
    growth = float(receiver.recv())
    process.join()
    return growth


def _report_growth(sender: Connection, work: Work, setting: Setting) -> None:
    torch.set_num_threads(1)
    data = digits(setting)
    model = make_model(setting, data)
    # Linux forgets the peak of before, such as that of decoding the data.
    (PROCESS / "clear_refs").write_text("5")
    before = _megabytes("VmRSS")
    work(setting, data, model)
    sender.send(_megabytes("VmHWM") - before)


def _megabytes(field: str) -> float:
    found = re.search(rf"{field}:\s+(\d+) kB", (PROCESS / "status").read_text())
    assert found is not None
    return int(found[1]) / 1024
