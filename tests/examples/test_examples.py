"""The examples train, and continue after a kill to the same weights and chains, but not without a part of the state."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from jsa import JSA, LatentSpace, Layer, Stage

EXAMPLES = Path(__file__).parents[2] / "examples"
ROWS, EPOCHS = 250, 4
"""Three steps an epoch, the last of half the size; stage II begins with the second epoch."""
KILLED_AT = 8
"""The second step of the third epoch."""
CONTINUES = ["plain_torch", "lightning_module", "accelerate_loop"]
POSTERIORS = ["torch_distributions", "pyro_posterior"]
HALF_WRITTEN = {"plain_torch": "last.partial", "accelerate_loop": "partial/model.safetensors"}
"""What a kill during the next checkpoint may leave; Lightning uses temporary files elsewhere."""
CHAINS = re.compile(r"(learner\.)?estimator\._extra_state")
# Warnings of the frameworks about themselves; every other one is an error.
NOT_OURS = [
    # Lightning 2.6 asks torch's pytree in the way of earlier releases.
    "ignore:`isinstance(treespec, LeafSpec)` is deprecated:FutureWarning",
    # Lightning expects a new folder also when it continues.
    "ignore:Checkpoint directory:UserWarning",
    # Lightning recommends more loader processes where there are more processors.
    "ignore:The 'train_dataloader' does not have many workers",
    "ignore:The 'val_dataloader' does not have many workers",
]


def run(name: str, out: Path, *flags: str, kill_at: int | None = None) -> subprocess.CompletedProcess[str]:
    warnings = ["error", *NOT_OURS, "always:this state_dict has no chains"]
    options: list[str] = [part for warning in warnings for part in ("-W", warning)]
    killer = [] if kill_at is None else [str(Path(__file__).with_name("kill_at_step.py")), str(kill_at)]
    sizes = ["--rows", str(ROWS), "--epochs", str(EPOCHS), "--switch-after", "1", "--out", str(out)]
    return subprocess.run(
        [sys.executable, *options, *killer, EXAMPLES / f"{name}.py", *sizes, *flags],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def finished(process: subprocess.CompletedProcess[str]) -> str:
    assert process.returncode == 0, process.stderr
    assert re.search(r"^validation NLL \d+\.\d+ \+- ", process.stdout, re.MULTILINE), process.stdout
    return process.stdout


def newest(out: Path) -> Path:
    """The file of the weights and chains."""
    (path,) = [*out.glob("last.pt"), *out.glob("last.ckpt"), *out.glob("epochs-*/model.safetensors")]
    return path


def read(path: Path) -> dict[str, Any]:
    if path.suffix == ".safetensors":
        return {"state_dict": safetensors.torch.load_file(path)}
    saved: dict[str, Any] = torch.load(path, weights_only=True)
    return saved


def state_of(saved: dict[str, Any]) -> dict[str, Tensor]:
    state: dict[str, Tensor] = saved["learner"] if "learner" in saved else saved["state_dict"]
    return state


def write(path: Path, saved: dict[str, Any]) -> None:
    if path.suffix == ".safetensors":
        safetensors.torch.save_file(saved["state_dict"], path, {"format": "pt"})
    else:
        torch.save(saved, path)


def chains_of(state: dict[str, Tensor]) -> tuple[str, JSA]:
    """The entry of the chains, and an estimator that holds them."""
    (key,) = filter(CHAINS.fullmatch, state)
    estimator = JSA(LatentSpace.of(Layer("bernoulli", 40)), ROWS, switch_after=1)
    estimator.set_extra_state(state[key])
    return key, estimator


def different(one: Path, other: Path) -> list[str]:
    first, second = state_of(read(newest(one))), state_of(read(newest(other)))
    assert first.keys() == second.keys()
    return [name for name in first if not torch.equal(first[name], second[name])]


@dataclass(frozen=True)
class Killed:
    """An example, the folder of a training that was not interrupted, and that of one that was killed."""

    name: str
    whole: Path
    folder: Path

    def resumed(self, change: Callable[[dict[str, Any]], None] | None = None) -> tuple[Path, str]:
        """Continue with a change to the checkpoint; return the folder and what was warned of."""
        # Always in the folder where it was killed: Lightning warns of a checkpoint that was moved.
        out = self.folder.with_name("run")
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(self.folder, out)
        if change is not None:
            saved = read(newest(out))
            change(saved)
            write(newest(out), saved)
        process = run(self.name, out, "--resume")
        finished(process)
        return out, process.stderr


@pytest.fixture(scope="module", params=CONTINUES)
def killed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Killed:
    folder = tmp_path_factory.mktemp(request.param)
    finished(run(request.param, folder / "whole"))
    process = run(request.param, folder / "run", kill_at=KILLED_AT)
    assert process.returncode == -signal.SIGKILL, process.stderr
    (folder / "run").rename(folder / "killed")
    if request.param in HALF_WRITTEN:
        half = folder / "killed" / HALF_WRITTEN[request.param]
        half.parent.mkdir(exist_ok=True)
        half.write_bytes(b"half")
    return Killed(request.param, folder / "whole", folder / "killed")


def test_a_killed_training_continues_to_the_same_weights_and_chains(killed: Killed) -> None:
    _, estimator = chains_of(state_of(read(newest(killed.folder))))
    assert estimator.chains.passes == (KILLED_AT - 1) // 3
    assert estimator.stage == Stage.PERSISTENT
    assert different(killed.whole, killed.folder)
    out, warned = killed.resumed()
    assert "has no chains" not in warned
    assert different(killed.whole, out) == []
    _, estimator = chains_of(state_of(read(newest(out))))
    assert estimator.chains.passes == EPOCHS
    assert estimator.chains.visited_rows == ROWS


def without_chains(saved: dict[str, Any]) -> None:
    state = state_of(saved)
    del state[chains_of(state)[0]]


def with_forgotten_states(saved: dict[str, Any]) -> None:
    """The stage and the clock stay, so that the states alone are missing."""
    state = state_of(saved)
    key, estimator = chains_of(state)
    estimator.chains.forget(torch.arange(ROWS))
    assert estimator.stage == Stage.PERSISTENT
    state[key] = estimator.get_extra_state()


def with_another_random_state(saved: dict[str, Any]) -> None:
    saved["random"] = torch.Generator().manual_seed(1).get_state()


def test_without_the_entry_of_the_chains_it_warns_and_continues_to_other_weights(killed: Killed) -> None:
    out, warned = killed.resumed(without_chains)
    assert warned.count("this state_dict has no chains") == 1
    assert weights_among(different(killed.whole, out))


@pytest.mark.parametrize("change", [with_forgotten_states, with_another_random_state])
@pytest.mark.parametrize("killed", ["plain_torch"], indirect=True)
def test_with_other_chains_or_draws_it_continues_to_other_weights(
    killed: Killed, change: Callable[[dict[str, Any]], None]
) -> None:
    assert weights_among(different(killed.whole, killed.resumed(change)[0]))


def weights_among(names: list[str]) -> list[str]:
    return [name for name in names if not CHAINS.fullmatch(name)]


@pytest.mark.parametrize("name", POSTERIORS)
def test_other_posteriors_learn(name: str, tmp_path: Path) -> None:
    told = finished(run(name, tmp_path / "run"))
    bounds = [float(bound) for bound in re.findall(r"^epoch \d: bound (\S+), now stage [12]$", told, re.MULTILINE)]
    assert len(bounds) == EPOCHS
    # Without learning, bounds of so many rows differ by a few nats.
    assert bounds[-1] - bounds[0] > 30


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    process = run("plain_torch", tmp_path)
    assert process.returncode == 2
    assert f"{tmp_path} exists: add --resume to continue, or give another folder" in process.stderr


def test_make_examples_runs_every_example() -> None:
    makefile = EXAMPLES.parent / "Makefile"
    if not makefile.is_file():
        pytest.skip("the Makefile is part of the repository, not of the distribution")
    listed = re.search(r"^EXAMPLES := (.*)$", makefile.read_text(encoding="utf-8"), re.MULTILINE)
    assert listed
    scripts = {path.stem for path in EXAMPLES.glob("*.py") if "__main__" in path.read_text(encoding="utf-8")}
    assert set(listed[1].split()) == scripts == {*CONTINUES, *POSTERIORS}
