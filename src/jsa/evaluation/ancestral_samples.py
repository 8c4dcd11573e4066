"""Ancestral samples of a model: h from the prior, then x from p(x | h)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from jsa.distributions import Factorized
from jsa.errors import UsageError, check_at_least
from jsa.evaluation.codes import class_numbers, compact
from jsa.evaluation.generative import draw_of, mean_of, observation, prior_states
from jsa.evaluation.likelihood import device_of, evaluating
from jsa.evaluation.rows import Progress, Rows, Subset
from jsa.evaluation.shown import RowResult, display, first_of
from jsa.io.pictures import SCALE, between_black_and_white, grid, png, scale_of_lines
from jsa.latent import LatentSpace
from jsa.model import LatentVariableModel
from jsa.torch_contexts import seeded

STATES_AT_ONCE = 1000
SHOWN = 100


@dataclass(frozen=True, repr=False)
class Samples(RowResult):
    """Samples of a model. In a notebook they are shown as pictures, if they are images.

    Attributes:
        h: The latent states, drawn from the prior.
        x: A draw from p(x | h) of each state.
        means: The mean of p(x | h) of each state.
    """

    h: Tensor
    x: Tensor
    means: Tensor

    def __post_init__(self) -> None:
        self.images(self.means[:1])

    def arrays(self, latent: LatentSpace) -> dict[str, Tensor]:
        """Return states, means, draws and contexts with one number per variable; means remain probabilities."""
        arrays = {"h": compact(latent, self.h), "mean": self.means, "x": self._numbers(self.x)}
        if self.contexts is not None:
            arrays["context"] = self._numbers(self.contexts)
        return arrays

    @property
    def rows(self) -> Tensor:
        """The draws as rows of class numbers, which begin with the context for a conditional model."""
        x = self._numbers(self.x)
        return x if self.contexts is None else torch.cat([self._numbers(self.contexts), x], dim=-1)

    def png(self, scale: int = SCALE) -> bytes:
        """Return the means as a PNG picture: images side by side, or a line for each row that is not an image.

        Args:
            scale: The width of each value in pixels.
        """
        check_at_least(1, scale=scale)
        if (images := self.images(self.means)) is not None:
            return png(grid(between_black_and_white(images)), scale)
        lines = self.shades(self.means)
        if lines.ndim != 2:
            raise UsageError(f"samples of shape {lines.shape[1:]} are neither images nor vectors: give an image_shape")
        return png(between_black_and_white(lines), max(scale, scale_of_lines(lines)))

    def _numbers(self, values: Tensor) -> Tensor:
        return values if self.layer is None else class_numbers(self.layer, values)

    def _repr_html_(self) -> str | None:
        if (images := self.images(self.means[:SHOWN])) is None:
            return None
        text = f"{first_of(len(self.h), SHOWN, 'samples')}: the mean of p(x | h) for h from the prior"
        return display(grid(between_black_and_white(images)), text)


def sample(
    model: LatentVariableModel,
    count: int = 100,
    seed: int = 0,
    contexts: Tensor | None = None,
    *,
    image_shape: tuple[int, int] | None = None,
    progress: Progress | None = None,
) -> Samples:
    """Draw ancestral samples from a model: h from the prior, then x from p(x | h).

    The model needs the methods ``sample_latent`` and ``observation`` (``jsa.Generative``), which are called in
    evaluation mode: ``sample_latent((count,), None)``, or ``sample_latent((), contexts)``, and ``observation`` with
    states of shape (rows, width), at most a thousand at once.

    Args:
        model: The model.
        count: The number of samples. It does not matter if there are contexts.
        seed: The seed of the draws.
        contexts: For a conditional model, the context of each sample.
        image_shape: Height and width of a row as an image, if the shape of x does not say so.
        progress: Called with the number of samples done.

    Returns:
        The samples, on the CPU.

    Example:
        >>> from jsa import BeliefNetwork, LatentSpace, Layer
        >>> model = BeliefNetwork(Layer("bernoulli", 12), LatentSpace.of(Layer("bernoulli", 5)))
        >>> samples = sample(model, count=20, image_shape=(4, 3))
        >>> samples
        Samples(h: 20 x 5, x: 20 x 12, means: 20 x 12, layer: 12 bernoulli variables, image_shape: (4, 3))
    """
    if contexts is None:
        check_at_least(1, count=count)
    elif len(contexts) == 0:
        raise UsageError("there are no contexts: give one for each sample")
    else:
        count, contexts = len(contexts), contexts.to(device_of(model))
    drawn, means, layer = [], [], None
    with evaluating(model), seeded(seed, device_of(model)):
        h = prior_states(model, count, contexts)
        for numbers in torch.arange(count, device=h.device).split(STATES_AT_ONCE):
            observed = observation(model, h[numbers], None if contexts is None else contexts[numbers])
            layer = observed.layer if isinstance(observed, Factorized) else None
            drawn.append(draw_of(model, observed, len(numbers)).cpu())
            means.append(mean_of(model, observed, len(numbers)).cpu())
            if progress is not None:
                progress(len(numbers))
    return Samples(
        h.cpu(),
        torch.cat(drawn),
        torch.cat(means),
        contexts=None if contexts is None else contexts.cpu(),
        layer=layer,
        image_shape=image_shape,
    )


def contexts_of(rows: Rows, count: int) -> Tensor | None:
    """Return the contexts of this many rows, spread evenly; None for rows without context."""
    return rows.batch(Subset.spread(rows, count).numbers).context
