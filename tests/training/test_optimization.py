"""Learning rates."""

import pytest

from jsa.training.config import OptimizerConfig
from jsa.training.optimization import learning_rate_share


def test_robbins_monro_is_a_over_t_plus_t0_to_the_kappa() -> None:
    config = OptimizerConfig(schedule="robbins-monro")
    a = 1000.0**0.75
    for step in (0, 1, 7, 1000):
        assert learning_rate_share(config, step, 5000) == pytest.approx(a / (step + 1000.0) ** 0.75, rel=1e-12)


def test_cosine_goes_from_the_full_rate_to_almost_none() -> None:
    config = OptimizerConfig(schedule="cosine")
    rates = [learning_rate_share(config, step, 100) for step in range(100)]
    assert rates[0] == pytest.approx(1.0)
    assert rates[50] == pytest.approx(0.5)
    assert rates[-1] < 1e-3
    assert rates == sorted(rates, reverse=True)


def test_constant_stays() -> None:
    config = OptimizerConfig()
    assert {learning_rate_share(config, step, 10) for step in range(10)} == {1.0}
