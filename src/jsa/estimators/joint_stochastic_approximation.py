"""Joint stochastic approximation, the method of the paper."""

from __future__ import annotations

from typing import ClassVar

from jsa.estimators.base import Description
from jsa.estimators.persistent import PersistentEstimator


class JSA(PersistentEstimator):
    r"""Joint stochastic approximation: persistent Metropolis independence chains, one per row.

    When a row is visited, its chain makes ``particles`` moves with q(h | x) as its proposal, and the gradient is

    .. math:: \frac1n \sum_{k=1}^n \nabla \left[ \log p_\theta(x, h_k) + \log q_\phi(h_k | x) \right]

    at the states after the moves: ascent of log p(x) in theta, descent of KL(p(h|x) || q(h|x)) in phi. In stage I a
    chain starts from a new draw of q at each visit; in stage II it continues from its last state.

    Example:
        >>> import torch
        >>> from jsa import Batch, BeliefNetwork, LatentSpace, Layer
        >>> model = BeliefNetwork(Layer("bernoulli", 6), LatentSpace.of(Layer("bernoulli", 4)))
        >>> data = torch.bernoulli(torch.full((100, 6), 0.3))
        >>> estimator = JSA(model.latent, rows=len(data), particles=2)
        >>> rows = torch.randperm(100)[:10]
        >>> estimate = estimator(model, Batch(data[rows], rows))
        >>> estimate.loss.backward()
        >>> sorted(estimate.diagnostics)
        ['acceptance', 'cached_state_win_rate', 'chain_age', 'changed_per_evaluation', 'effective_sample_size',
         'frozen_share']

    On a trained model almost no whole state is accepted any more. Blocks of variables are, and the gradient at the last
    state alone costs less:

        >>> from jsa.kernels import Block, Cycle, Independence, MetropolisHastings, Repeat
        >>> kernel = Cycle(MetropolisHastings(Independence()), Repeat(MetropolisHastings(Block()), 4))
        >>> mixing = JSA(model.latent, rows=len(data), kernel=kernel, gradient="last")

    References:
        Ou and Song, Joint stochastic approximation and its application to learning discrete latent variable models,
        UAI 2020.
    """

    description: ClassVar[Description] = Description(
        optimizes="log p(x) for theta, KL(p(h|x) || q(h|x)) for phi",
        unbiased="in stage II, when the chains follow the posterior; stage I is biased",
        latents="all",
        decoder_evaluations="n + 1, and a backward over the states visited",
        reference="Ou & Song, UAI 2020",
    )
