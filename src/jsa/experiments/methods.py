"""The methods that the tables compare, with the options that the paper gives them."""

from __future__ import annotations

from dataclasses import dataclass, field

from jsa.configuration import MethodConfig


@dataclass(frozen=True)
class Method:
    """A row of a table.

    Attributes:
        name: Its name in file names and on the command line.
        label: Its name in a table.
        estimator: The estimator.
        options: The options of the estimator but for the particles.
        particles: Whether it takes the number of particles of the experiment; otherwise it has its own default.
        published_as: The row of the paper that it is compared with; none for a method that the paper has not.
    """

    name: str
    label: str
    estimator: str
    options: MethodConfig = field(default_factory=MethodConfig)
    particles: bool = False
    published_as: str | None = None

    @property
    def own(self) -> bool:
        """Whether it is one of ours, below the rule of a table."""
        return self.published_as is None


REINFORCE = Method("reinforce", "REINFORCE", "reinforce", MethodConfig(baseline="none"), published_as="REINFORCE")
NVIL = Method("nvil", "NVIL", "nvil", published_as="NVIL")
RWS = Method("rws", "RWS", "rws", MethodConfig(sleep=0.0), True, "RWS")
CONCRETE = Method("concrete", "Concrete", "concrete", published_as="Concrete")
REBAR = Method("rebar", "REBAR", "rebar", published_as="REBAR")
VIMCO = Method("vimco", "VIMCO", "vimco", particles=True, published_as="VIMCO")
# The published implementation calls this VIMCO: its figures are compared with both.
RLOO = Method("rloo", "RLOO", "rloo", particles=True, published_as="VIMCO")
ARM = Method("arm", "ARM", "arm", published_as="ARM")
ARSM = Method("arsm", "ARSM", "arsm", published_as="ARSM")
STRAIGHT_THROUGH = Method(
    "st-gumbel-softmax", "ST Gumbel-S.", "st-gumbel-softmax", MethodConfig(temperature=1.0), True, "ST Gumbel-S."
)
JSA = Method("jsa", "JSA", "jsa", particles=True, published_as="JSA")
# The sampler of the published categorical experiment; see published.py, which this module does not import for torch's
# sake.
STALE_WEIGHT = Method("jsa-stale-weight", "JSA, stale weight", "jsa-stale-weight", particles=True, published_as="JSA")
RAO_BLACKWELL = Method("jsa-rao-blackwell", "JSA-Rao-Blackwell", "jsa-rao-blackwell", particles=True)
HYBRID = Method("hybrid", "Hybrid", "hybrid", particles=True)
