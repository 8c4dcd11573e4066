"""What results of version 0.1.0 say otherwise. They are read for good, for its long runs go on writing them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsa.errors import UsageError
from jsa.io.json_records import to_record
from jsa.runs.config import TrainConfig

NAMES = {"optimisation": "optimization", "optimiser": "optimizer", "initialisation": "initialization"}
"""Fields that 0.1.0 spelled otherwise. The spelling alone tells the two apart: none of these is a name of today."""

SETTINGS: Mapping[str, Any] = {
    "data": "mnist-static",
    "model": "nonlinear",
    "estimator": "jsa",
    "epochs": 20,
    "seed": 0,
    "batch_size": 50,
    "scan": "shuffle",
    "method": {"particles": None, "temperature": None, "baseline": None, "sleep": None},
    "dataset": {
        "data_dir": None,
        "valid_file": None,
        "test_file": None,
        "valid_fraction": 0.1,
        "test_fraction": 0.1,
        "split_seed": 0,
        "data_classes": None,
    },
    "network": {
        "activation": "leaky-relu",
        "negative_slope": 0.01,
        "initialization": "torch",
        "initial_bias": None,
        "latents": [200],
        "latent_kind": "bernoulli",
        "latent_classes": 2,
        "hidden": [],
        "prior": "fixed",
        "conditional": False,
    },
    "optimization": {
        "optimizer": "adam",
        "learning_rate": 3e-4,
        "schedule": "constant",
        "schedule_offset": 1000.0,
        "schedule_exponent": 0.75,
        "average_decay": None,
        "non_finite": "stop",
    },
    "stages": {"switch_epoch": None, "switch_patience": None},
    "validation": {
        "validate_every": 5,
        "validation_samples": 100,
        "validation_rows": None,
        "stop_after": None,
        "test_samples": 1000,
        "leading_epochs": 1,
        "followed_rows": None,
    },
    "machine": {
        "device": "cpu",
        "threads": None,
        "mapped_chains": False,
        "checkpoint_seconds": 30.0,
        "snapshot_every": None,
    },
}
"""The defaults of 0.1.0, which a result has where it does not say otherwise, whatever the default is today.

A setting that comes later belongs in here too, with the value that does what 0.1.0 did. One that is cut stays, so that
results with its default are still read.
"""


def with_names_of_today(record: Any) -> Any:
    """Return a record in today's spelling, whichever of the two it has."""
    if isinstance(record, dict):
        renamed = {NAMES.get(name, name): with_names_of_today(value) for name, value in record.items()}
        if len(renamed) < len(record):
            both = next(name for old, name in NAMES.items() if old in record and name in record)
            raise UsageError(f"the field {both!r} is there in two spellings: remove one of them")
        return renamed
    return [with_names_of_today(item) for item in record] if isinstance(record, list) else record


def with_all_settings(config: Any) -> Any:
    """Return the record of a configuration with every setting of today, and no other."""
    return _completed(config, SETTINGS, to_record(TrainConfig()))


def _completed(record: Any, frozen: Mapping[str, Any], today: Mapping[str, Any]) -> Any:
    if not isinstance(record, dict):
        return record
    found = {}
    for name, value in {**frozen, **record}.items():
        default = frozen.get(name)
        if isinstance(default, Mapping) and name in today:
            found[name] = _completed(value, default, today[name])
        elif name in frozen and name not in today:
            if value != default:
                raise UsageError(
                    f"the setting {name} no longer exists, and {value!r} is not its old default {default!r}: "
                    "move the file away and make the result again"
                )
        else:
            found[name] = value
    return found
