"""Names and defaults of version 0.1.0 in results. They are read forever, because its long runs still write them."""

from __future__ import annotations

import json
import reprlib
from typing import Any

from jsa.errors import UsageError
from jsa.io.json_records import to_record
from jsa.runs.config import RunConfig

NAMES = {
    "optimisation": "optimization",
    "optimiser": "optimizer",
    "initialisation": "initialization",
    "mapped_chains": "chains_on_disk",
}
"""Fields that 0.1.0 named differently. None of the old names is a name of today, so the name tells them apart."""

MOVED = {"checkpoint_seconds": ("machine", "checkpoints"), "snapshot_every": ("machine", "checkpoints")}
"""Settings that 0.1.0 had in another group: that group, and the one of today."""

SETTINGS: dict[str, Any] = json.loads("""{
  "data": "mnist-static", "model": "nonlinear", "estimator": "jsa", "epochs": 20, "steps": null, "seed": 0,
  "batch_size": 50,
  "scan": "shuffle",
  "method": {"particles": null, "temperature": null, "baseline": null, "sleep": null},
  "dataset": {"data_dir": null, "valid_file": null, "test_file": null, "valid_fraction": 0.1, "test_fraction": 0.1,
    "split_seed": 0, "data_classes": null},
  "network": {"activation": "leaky-relu", "negative_slope": 0.01, "initialization": "torch", "initial_bias": null,
    "latents": [200], "latent_kind": "bernoulli", "latent_classes": 2, "hidden": [], "prior": "fixed",
    "conditional": false},
  "optimization": {"optimizer": "adam", "learning_rate": 0.0003, "schedule": "constant", "schedule_offset": 1000.0,
    "schedule_exponent": 0.75, "average_decay": null, "non_finite": "stop"},
  "stages": {"switch_epoch": null, "switch_patience": null},
  "validation": {"validate_every": 5, "validation_samples": 100, "validation_rows": null, "stop_after": null,
    "test_samples": 1000, "leading_epochs": 1, "followed_rows": null},
  "checkpoints": {"checkpoint_seconds": 30.0, "snapshot_every": null},
  "machine": {"device": "cpu", "threads": null, "memory_limit": null, "chains_on_disk": false},
  "output": {"progress": true, "pictures": true}
}""")
"""The defaults of 0.1.0. A result without a setting has the default of 0.1.0, whatever the default is today.

A later setting belongs here too, with the value that does what 0.1.0 did. A setting that was cut stays here, so that
results with its default can still be read.
"""


def with_names_of_today(record: Any) -> Any:
    """Return a record in today's spelling."""
    if isinstance(record, list):
        return [with_names_of_today(item) for item in record]
    if not isinstance(record, dict):
        return record
    for old, name in NAMES.items():
        if old in record and name in record:
            raise UsageError(f"the field {name!r} appears in two spellings: remove one of them")
    return {NAMES.get(name, name): with_names_of_today(value) for name, value in record.items()}


def with_all_settings(config: Any) -> Any:
    """Return the record of a configuration with every setting of today and without settings that were cut."""
    return _completed(_moved(config), SETTINGS, to_record(RunConfig()))


def _moved(config: Any) -> Any:
    if not isinstance(config, dict):
        return config
    found = dict(config)
    for name, (before, today) in MOVED.items():
        group = found.get(before)
        if isinstance(group, dict) and name in group:
            found[before] = {other: value for other, value in group.items() if other != name}
            found[today] = {**found.get(today, {}), name: group[name]}
    return found


def _completed(record: Any, frozen: dict[str, Any], today: dict[str, Any]) -> Any:
    if not isinstance(record, dict):
        return record
    found = {}
    for name, value in {**frozen, **record}.items():
        if name in frozen and name not in today:
            if value != frozen[name]:
                raise UsageError(
                    f"the setting {name} no longer exists, and {reprlib.repr(value)} is not its old "
                    f"default {frozen[name]!r}: move the file away and make the result again"
                )
        elif isinstance(frozen.get(name), dict):
            found[name] = _completed(value, frozen[name], today[name])
        else:
            found[name] = value
    return found
