"""The effects of the latent variables next to the data on the observed variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from jsa.distributions import Factorized
from jsa.errors import UsageError, check_at_least
from jsa.evaluation.codes import drawn_code, mean_of_first_layer
from jsa.evaluation.generative import generative, in_shape_of, mean_of, observation
from jsa.evaluation.likelihood import device_of, evaluating
from jsa.evaluation.rows import Progress, Rows, as_rows, in_chunks
from jsa.evaluation.shown import ShownByShape, shades
from jsa.io.displays import image_table, preformatted
from jsa.io.pictures import as_images, between_black_and_white, fitting_scale, grid, png
from jsa.latent import Layer
from jsa.model import LatentVariableModel
from jsa.model_calls import posterior_of
from jsa.torch_contexts import seeded

ROWS_AT_ONCE = 1000
SHOWN = 10


@dataclass(frozen=True, repr=False)
class Effects(ShownByShape):
    """The effect of each variable of the first layer, averaged over rows. A notebook shows those that explain most.

    Attributes:
        shares: The probability of each value of each variable under q(h | x): 0 and 1 of a bit, or the classes.
        means: The mean of p(x | h) with the variable set to the value and the rest of h drawn from q.
        rows: The number of rows.
        layer: The variables of x, if the model's ``observation`` returned a distribution of jsa.
        image_shape: Height and width of x as an image; None if the shape of x says so, or if it is not an image.
    """

    shares: Float[Tensor, "variables values"]
    means: Float[Tensor, "variables values *observed"]
    rows: int
    layer: Layer | None = None
    image_shape: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        as_images(shades(self.means[0], self.layer), self.image_shape)

    @cached_property
    def usual(self) -> Float[Tensor, "variables *observed"]:
        """The mean of p(x | h) with the values of the variable weighted by their shares."""
        return torch.einsum("vk,vk...->v...", self.shares, self.means)

    @cached_property
    def explained(self) -> Float[Tensor, " variables"]:
        """The variance of x, summed over its columns, that each variable explains: 0 for one without effect."""
        deviations = self.means - self.usual.unsqueeze(1)
        return (self.shares * deviations.square().flatten(2).sum(2)).sum(1)

    @property
    def strongest(self) -> list[int]:
        """The variables, ordered from the one that explains most."""
        return self.explained.argsort(descending=True).tolist()

    def changes(self, variable: int) -> list[tuple[Float[Tensor, " *observed"], Float[Tensor, " *observed"]]]:
        """Return the mean of p(x | h) before and after a change: a bit from 0 to 1, or the usual mean to each class."""
        means = self.means[variable]
        if len(means) == 2:
            return [(means[0], means[1])]
        return [(self.usual[variable], mean) for mean in means]

    def text(
        self, labels: Sequence[str | None] | None = None, variables: int = 10, columns: int = 5, row: str = "row"
    ) -> str:
        """Describe the variables that explain most, with the columns that change most with each.

        Args:
            labels: The name of each number of x, None for one to leave out; by default its place, such as ``x[3]``.
            variables: The number of latent variables to show.
            columns: The number of columns to show for each.
            row: What a row is called.

        Example:
            >>> means = torch.tensor([[[0.1, 0.5], [0.9, 0.6]]])
            >>> print(Effects(torch.tensor([[0.75, 0.25]]), means, rows=100).text(["bread", "soap"]))
            1 latent variable next to the data, on 100 rows
            <BLANKLINE>
            bit 1, 100.0% of what all explain
              on in 25.0% of the rows
                bread  0.10 -> 0.90
                soap   0.50 -> 0.60
        """
        check_at_least(1, variables=variables, columns=columns)
        shape = self.means.shape[2:]
        if labels is None:
            labels = [f"x{list(map(int, torch.unravel_index(torch.tensor(n), shape)))}" for n in range(shape.numel())]
        if len(labels) != shape.numel():
            raise UsageError(f"x has {shape.numel()} numbers, each with a label of its own or None, not {len(labels)}")
        total, count = len(self.shares), f"{self.rows:,} {row}{'s' * (self.rows != 1)}"
        lines = [f"{total:,} latent variable{'s' * (total != 1)} next to the data, on {count}"]
        for variable in self.strongest[:variables]:
            lines += ["", *self._paragraph(variable, labels, columns)]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def _title(self, variable: int) -> str:
        """Say which variable it is, and its part of what all explain."""
        total = float(self.explained.sum())
        part = float(self.explained[variable]) / total if total else 0.0
        name = "bit" if self.shares.shape[1] == 2 else "variable"
        return f"{name} {variable + 1}, {part:.1%} of what all explain"

    def _paragraph(self, variable: int, labels: Sequence[str | None], columns: int) -> Iterator[str]:
        """Yield how often a variable takes its values, and the columns that change most with it."""
        shares = self.shares[variable].tolist()
        is_bit, width = len(shares) == 2, max(len(label or "") for label in labels)
        yield self._title(variable)
        values = [f"on in {shares[1]:.1%} of the rows"] if is_bit else [f"{share:.1%} of the rows" for share in shares]
        for value, (share, change) in enumerate(zip(values, self.changes(variable), strict=True)):
            before, after = (part.flatten() for part in change)
            yield f"  {share}" if is_bit else f"  class {value}, {share}"
            order = (after - before).abs().argsort(descending=True).tolist()
            for column in [column for column in order if labels[column] is not None][:columns]:
                yield f"    {labels[column]:{width}}  {before[column]:.2f} -> {after[column]:.2f}"

    def _repr_html_(self) -> str:
        lines = []
        for variable in self.strongest[:SHOWN]:
            images = as_images(shades(self.means[variable], self.layer), self.image_shape)
            if images is None:
                return preformatted(str(self))
            values = grid(between_black_and_white(images), columns=min(len(images), SHOWN))
            shares = ", ".join(f"{share:.1%}" for share in self.shares[variable].tolist())
            lines.append(
                (png(values, fitting_scale(values)), f"{self._title(variable)}; shares of its values: {shares}")
            )
        return image_table(lines)


def describe(
    model: LatentVariableModel,
    rows: Rows | Tensor,
    seed: int = 0,
    *,
    image_shape: tuple[int, int] | None = None,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> Effects:
    """Set each variable of the first layer to each of its values for each row, and record the mean of p(x | h).

    The model needs discrete latent variables and the methods ``observation`` and ``sample_latent``
    (``jsa.Generative``). It is called in evaluation mode with states of shape (rows, width), once for each value of
    each variable. If q(h | x) has no means, as ``encode`` says, the shares are those of one draw for each row.

    Args:
        model: The model.
        rows: The rows for which states are drawn: a tensor, or an object that returns rows by number.
        seed: The seed of the draws from q(h | x).
        image_shape: Height and width of x as an image, if the shape of x does not say so.
        device: The device of the evaluation; by default that of the model's parameters.
        progress: Called with the number of rows done.

    Returns:
        The effects, on the CPU.

    Example:
        >>> from jsa import BeliefNetwork, LatentSpace, Layer
        >>> model = BeliefNetwork(Layer("bernoulli", 6), LatentSpace.of(Layer("bernoulli", 4)))
        >>> found = describe(model, torch.eye(6))
        >>> found.means.shape, found.shares.shape  # of each bit when it is off and when it is on
        (torch.Size([4, 2, 6]), torch.Size([4, 2]))
    """
    generative(model)
    rows, device = as_rows(rows), device or device_of(model)
    first = model.latent.layers[0]
    if first.kind == "gaussian":
        raise UsageError(
            "effects need discrete latent variables, but those of this model are Gaussian: encode rows instead"
        )
    values = torch.tensor(list(Layer(first.kind, 1, first.classes).enumerate()), device=device)
    shares = torch.zeros(first.variables, len(values), device=device)
    sums: dict[tuple[int, int], Tensor] = {}
    layer = None
    with evaluating(model), seeded(seed, device):
        for batch in in_chunks(rows, ROWS_AT_ONCE, device, progress):
            posterior = posterior_of(model, batch)
            h = drawn_code(model, batch, posterior)
            mean = mean_of_first_layer(model, batch, posterior)
            shares += _probabilities(first, h[:, : first.width] if mean is None else mean).sum(0)
            for variable in range(first.variables):
                for number, value in enumerate(values):
                    changed = h.clone()
                    changed[:, : first.width].unflatten(-1, (first.variables, -1))[:, variable] = value.to(h.dtype)
                    observed = observation(model, changed, batch.context)
                    layer = observed.layer if isinstance(observed, Factorized) else None
                    total = in_shape_of(batch.x, mean_of(model, observed, len(batch))).sum(0)
                    sums[variable, number] = sums.get((variable, number), 0) + total
    means = torch.stack(list(sums.values())).unflatten(0, shares.shape).float()
    return Effects((shares / len(rows)).cpu(), (means / len(rows)).cpu(), len(rows), layer, image_shape)


def _probabilities(layer: Layer, mean: Float[Tensor, "batch width"]) -> Float[Tensor, "batch variables values"]:
    """Return the probability of each value of each variable."""
    if layer.kind == "bernoulli":
        return torch.stack([1 - mean, mean], dim=-1)
    return mean.unflatten(-1, (layer.variables, layer.classes))
