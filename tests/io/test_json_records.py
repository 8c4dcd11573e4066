"""Configurations to JSON and back."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsa.errors import UsageError
from jsa.io.json_records import from_record, read_number_lines, read_record, to_record
from jsa.models.presets import MODELS, NetworkConfig, preset
from jsa.runs.config import DataConfig, RunConfig
from jsa.training.config import OptimizerConfig

configurations = st.builds(
    RunConfig,
    data=st.text(min_size=1).filter(lambda text: "\0" not in text),
    model=st.sampled_from(sorted(MODELS)),
    epochs=st.integers(1, 10_000),
    seed=st.integers(-(1 << 63), (1 << 63) - 1),
    scan=st.sampled_from(["shuffle", "random"]),
    dataset=st.builds(
        DataConfig, data_dir=st.none() | st.just(Path("some/where")), data_classes=st.none() | st.just(3)
    ),
    network=st.sampled_from([preset(name) for name in sorted(MODELS)]),
    optimization=st.builds(
        OptimizerConfig, learning_rate=st.floats(1e-6, 1.0), average_decay=st.none() | st.floats(0.1, 0.9)
    ),
)


@given(configurations)
def test_a_configuration_survives_json(config: RunConfig) -> None:
    assert from_record(RunConfig, json.loads(json.dumps(to_record(config)))) == config


def test_a_field_that_is_left_out_has_its_default() -> None:
    assert from_record(RunConfig, {"epochs": 3}) == replace(RunConfig(), epochs=3)


def test_a_number_may_be_written_without_its_point() -> None:
    assert from_record(RunConfig, {"optimization": {"learning_rate": 1}}).optimization.learning_rate == 1.0


def test_what_was_left_out_is_named_where_all_must_be_there() -> None:
    whole = to_record(RunConfig())
    assert from_record(RunConfig, whole, complete=True) == RunConfig()
    del whole["optimization"]["schedule"]
    with pytest.raises(UsageError, match=r"the field optimization\.schedule is missing: add it"):
        from_record(RunConfig, whole, complete=True)


def test_a_field_without_default_must_be_there() -> None:
    @dataclass
    class Point:
        x: int
        y: int = 0

    assert from_record(Point, {"x": 1}) == Point(1)
    with pytest.raises(UsageError, match="the field x is missing: add it"):
        from_record(Point, {"y": 1})


FINITE = "optimization.learning_rate must be of type float and finite"


def record(content: object) -> bytes:
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{"epochs": 0}', "epochs must be 1 or more, not 0"),
        (b'{"epoch": 1}', "there is no field 'epoch': did you mean 'epochs'?"),
        (record({"network": {"hiden": []}}), "there is no field 'network.hiden'"),
        (record({"epochs": "3"}), "epochs must be of type int, not '3'"),
        (record({"epochs": True}), "epochs must be of type int, not True"),
        (record({"network": {"hidden": 200}}), "network.hidden must be a list"),
        (record({"network": {"prior": "free"}}), "network.prior is one of fixed, learned, not 'free'"),
        (record({"optimization": []}), "optimization must be an object with named fields"),
        (
            record({"optimization": {"learning_rate": 10**400}}),
            "optimization.learning_rate must be of type float and finite",
        ),
        (record({"seed": 1 << 63}), "seed must be of type int with at most 64 bits"),
        (record({"data": "mnist\0static"}), "data contains an invalid character"),
        (record({"dataset": {"data_dir": "\ud800"}}), "dataset.data_dir contains an invalid character"),
        (record({"method": {"baseline": ["none"]}}), "method.baseline is one of none, running, not ['none']"),
        (record([]), "the configuration must be an object"),
        (b'{"epochs": 1, "epochs": 2}', "the field 'epochs' appears twice"),
        (b'{"epochs": 1', "is not valid JSON"),
        (b'{"epochs": \xff}', "is not valid JSON"),
        *(
            (b'{"optimization": {"learning_rate": %b}}' % rate, FINITE)
            for rate in (b"NaN", b"1e999", b"1" + b"0" * 400)
        ),
        (b'{"seed": ' + b"9" * 5000 + b"}", "is not valid JSON"),
        (b"[" * 100_000, "is nested too deeply"),
        (b'{"epochs": ' + b"[" * 900 + b"]" * 900 + b"}", "epochs must be of type int"),
        (b" " * (1 << 20) + b"{}", "is larger than 1048576 bytes"),
        (b'{"' + b"x" * 100_000 + b'": 1}', "there is no field 'x"),
        (b'{"epochs": "' + b"x" * 100_000 + b'"}', "epochs must be of type int"),
    ],
)
def test_a_file_that_cannot_be_right_is_named_in_a_short_sentence(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_record(RunConfig, path)
    assert str(caught.value).startswith(str(path))
    assert sentence in str(caught.value)
    assert len(str(caught.value)) < 500


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        read_record(RunConfig, tmp_path / "none.json")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_record(RunConfig, tmp_path)


def test_lines_of_numbers_are_read_and_a_torn_last_one_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"epoch": 1, "objective": -2.5}\n{"epoch": 2}\n{"epoch": 3, "obj')
    assert list(read_number_lines(path)) == [{"epoch": 1, "objective": -2.5}, {"epoch": 2}]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b'{"epoch": 2', "line 2 is not valid JSON"),
        *((line, "line 2 is not an object of numbers") for line in (b'{"epoch": "2"}', b'{"epoch": true}', b"[2]")),
        (b'{"epoch": 2, "epoch": 3}', "line 2 is not valid JSON (the field 'epoch' appears twice)"),
        *((line, "line 2 is not valid JSON") for line in (b"\xff", b"", b"[" * 100_000)),
        (b" " * (1 << 20), "line 2 has more than 1048576 bytes"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes, sentence: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"epoch": 1}\n' + line + b'\n{"epoch": 3}\n')
    with pytest.raises(UsageError) as caught:
        list(read_number_lines(path))
    assert f"{path}: {sentence}" in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: NetworkConfig(latents=()),
        lambda: NetworkConfig(conditional=True, latents=(3, 3), prior="learned"),
        lambda: NetworkConfig(conditional=True),
    ],
)
def test_impossible_settings_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(UsageError):
        make()
