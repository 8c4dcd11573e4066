"""Neural variational inference and learning."""

from __future__ import annotations

from itertools import accumulate
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from jsa.batch import Batch, Estimate
from jsa.estimators.base import Description, Estimator, at_least, follow, inputs_of, mean_signal, space_of
from jsa.latent import LatentSpace
from jsa.model import LatentVariableModel
from jsa.model_calls import BatchPosterior, log_joint, log_joint_terms, posterior_of, refuse_non_finite


class NVIL(Estimator):
    r"""REINFORCE with input-dependent baselines, centering, variance normalization and a signal for each layer.

    .. math:: \frac{f_i - C_i(x, h_{<i}) - c_i}{\max(1, \sqrt{v_i})} \nabla_\phi \log q(h_i | x, h_{<i})

    for each layer i: the signal f_i leaves out the terms that are fixed before layer i is drawn, c_i and v_i are
    exponential means of the signal minus C_i and of its variance, and the network C_i learns by least squares to
    predict the centered signal. The division rescales a layer's gradient, which is unbiased up to that scale. Weights
    of rows count in c_i and C_i, but not in v_i. A model or posterior that does not separate its layers is treated as
    one layer.

    Args:
        latent: The latent space of the model, ``model.latent``.
        inputs: The width of an observation together with its context.
        particles: The number n of draws per row.
        hidden: The width of the hidden layer of the baseline networks.
        decay: The decay of the exponential means.
        normalize: Whether to divide by the standard deviation.

    References:
        Mnih and Gregor, Neural variational inference and learning in belief networks, ICML 2014.
    """

    description: ClassVar[Description] = Description(
        optimizes="ELBO",
        unbiased="yes, up to a scale for each layer",
        latents="all",
        decoder_evaluations="n",
        reference="Mnih & Gregor, ICML 2014",
    )
    centers: Tensor
    variances: Tensor

    def __init__(
        self,
        latent: LatentSpace,
        inputs: int,
        particles: int = 1,
        hidden: int = 100,
        decay: float = 0.8,
        normalize: bool = True,
    ) -> None:
        super().__init__()
        self.particles = at_least(particles, 1, "NVIL")
        self.decay = decay
        self.normalize = normalize
        self.baselines = nn.ModuleList(
            nn.Sequential(nn.Linear(inputs + where.start, hidden), nn.Tanh(), nn.Linear(hidden, 1))
            for where in space_of(latent, "NVIL").slices
        )
        self._inputs = inputs
        self._starts = [where.start for where in latent.slices]
        self.register_buffer("centers", torch.zeros(len(latent.layers)))
        self.register_buffer("variances", torch.ones(len(latent.layers)))

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        """Draw states and give each layer the part of the signal that its draw can change."""
        posterior = posterior_of(model, batch)
        h = posterior.sample((self.particles,))
        joints, inferences = _terms(model, batch, posterior, h)
        joint, inference = torch.stack(joints).sum(0), torch.stack(inferences).sum(0)
        log_weights = (joint - inference).detach()
        refuse_non_finite(batch, joint.detach(), inference.detach(), log_weights)
        gain = batch.mean(joint)
        for layer, signal in enumerate(_signals(joints, inferences)):
            predicted = self._baseline(layer, batch, h)
            centered = signal - predicted.detach()
            advantage = centered - self.centers[layer]
            if self.normalize:
                advantage = advantage / self.variances[layer].sqrt().clamp_min(1)
            gain = gain + batch.mean(advantage * inferences[layer])
            gain = gain - batch.mean((signal - self.centers[layer] - predicted).square())
            if self.training:
                self._follow(layer, batch, centered)
        return Estimate(-gain, batch.mean(log_weights), log_weights, {})

    def _baseline(self, layer: int, batch: Batch, h: Tensor) -> Float[Tensor, "samples batch"]:
        """Predict the signal from everything that is known before the layer is drawn."""
        inputs = inputs_of(batch, self._inputs, "NVIL")
        known = torch.cat([inputs.expand(*h.shape[:-1], -1), h[..., : self._starts[layer]]], dim=-1)
        prediction: Tensor = self.baselines[layer](known)
        return prediction.squeeze(-1)

    def _follow(self, layer: int, batch: Batch, centered: Tensor) -> None:
        """Update the exponential means. They take effect at the next step, so that no draw centers itself."""
        mean, variance = mean_signal(batch, centered), centered.var(correction=0)
        follow(self.centers[layer], mean, 1 - self.decay)
        follow(self.variances[layer], variance, 1 - self.decay)


def _terms(
    model: LatentVariableModel, batch: Batch, posterior: BatchPosterior, h: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the terms of log p and of log q by layer, or one term each if the layers cannot be separated."""
    if posterior.layers is not None and (terms := log_joint_terms(model, batch, h)) is not None:
        return terms, posterior.layers.layer_log_probs(h)
    joint = log_joint(model, batch, h)
    return [joint, torch.zeros_like(joint)], [posterior.log_prob(h)]


def _signals(joints: list[Tensor], inferences: list[Tensor]) -> list[Tensor]:
    """Return, for each layer, the terms of log p - log q that are not yet fixed when it is drawn.

    Term i of log p is fixed with layer i, and the last one, the prior's, with the last layer.
    """
    *by_layer, prior = joints
    still_open = [(joint - inference).detach() for joint, inference in zip(by_layer, inferences, strict=True)]
    still_open[-1] = still_open[-1] + prior.detach()
    return list(accumulate(reversed(still_open)))[::-1]
