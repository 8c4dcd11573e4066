"""Configurations to JSON and back."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsa.configuration import DataConfig, MethodConfig, OptimiserConfig, StageConfig, TrainConfig
from jsa.errors import UsageError
from jsa.models.configuration import MODELS, NetworkConfig, preset
from jsa.records import from_record, to_record

configurations = st.builds(
    TrainConfig,
    data=st.text(min_size=1),
    model=st.sampled_from(sorted(MODELS)),
    epochs=st.integers(1, 10_000),
    seed=st.integers(),
    scan=st.sampled_from(["shuffle", "random"]),
    dataset=st.builds(
        DataConfig, data_dir=st.none() | st.just(Path("some/where")), data_classes=st.none() | st.just(3)
    ),
    network=st.sampled_from([preset(name) for name in sorted(MODELS)]),
    optimisation=st.builds(
        OptimiserConfig, learning_rate=st.floats(1e-6, 1.0), average_decay=st.none() | st.floats(0.1, 0.9)
    ),
)


@given(configurations)
def test_a_configuration_survives_json(config: TrainConfig) -> None:
    assert from_record(TrainConfig, json.loads(json.dumps(to_record(config)))) == config


def test_a_field_that_is_left_out_has_its_default() -> None:
    assert from_record(TrainConfig, {"epochs": 3}) == replace(TrainConfig(), epochs=3)


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ({"epoch": 3}, "there is no field 'epoch': did you mean 'epochs'?"),
        ({"network": {"hiden": []}}, "there is no field 'network.hiden'"),
        ({"epochs": "3"}, "epochs must be of type int, not '3'"),
        ({"epochs": True}, "epochs must be of type int, not True"),
        ({"epochs": 0}, "epochs is 1 or more, not 0"),
        ({"network": {"hidden": 200}}, "network.hidden must be a list"),
        ({"network": {"prior": "free"}}, "network.prior is one of fixed, learned, not 'free'"),
        ({"optimisation": {"learning_rate": float("nan")}}, "optimisation.learning_rate must be of type float"),
        ({"optimisation": []}, "optimisation must be an object with named fields"),
        ([], "the configuration must be an object"),
    ],
)
def test_what_cannot_be_right_is_named(record: object, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_record(TrainConfig, record)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: OptimiserConfig(learning_rate=0.0),
        lambda: OptimiserConfig(schedule_exponent=0.5),
        lambda: OptimiserConfig(schedule_exponent=1.1),
        lambda: OptimiserConfig(schedule_offset=0.0),
        lambda: OptimiserConfig(average_decay=1.0),
        lambda: StageConfig(switch_epoch=-1),
        lambda: StageConfig(switch_patience=0),
        lambda: TrainConfig(batch_size=0),
        lambda: MethodConfig(particles=0),
        lambda: NetworkConfig(latents=()),
        lambda: NetworkConfig(hidden=(0,)),
        lambda: NetworkConfig(conditional=True, latents=(3, 3), prior="learned"),
        lambda: NetworkConfig(conditional=True),
    ],
)
def test_impossible_settings_are_refused(make) -> None:
    with pytest.raises(UsageError):
        make()
