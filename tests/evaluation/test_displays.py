"""Results are shown shortly, in a notebook as in a terminal."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser

import pytest
import torch
from matplotlib import image

import jsa
from jsa import BeliefNetwork, LatentSpace, Layer
from jsa.chains import ChainCache, frozen_chains
from jsa.evaluation.ancestral_samples import Samples
from jsa.evaluation.gradient_variance import GradientReport
from jsa.evaluation.latent_effects import Effects
from jsa.evaluation.likelihood import exact_row_likelihoods
from jsa.evaluation.reconstructions import Reconstructions
from jsa.evaluation.results import LogVariance
from jsa.io.pictures import COLUMNS, MARGIN, Pixels


class Page(HTMLParser):
    """What a browser sees: every tag closed, the text, and the pictures."""

    def __init__(self, html: str | None) -> None:
        super().__init__()
        assert html is not None
        self.open: list[str] = []
        self.text = ""
        self.pictures: list[bytes] = []
        self.feed(html)
        assert self.open == []
        # Nothing that is wrong on a page of the other brightness, and nothing that runs or loads.
        assert not re.search(r"#[0-9a-f]{3}|rgb|white|black|<script|http", re.sub(r"base64,[^\"]*", "", html))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            source = dict(attrs)["src"] or ""
            self.pictures.append(base64.b64decode(source.removeprefix("data:image/png;base64,")))
        else:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def shades(self, number: int = 0) -> Pixels:
        read: Pixels = image.imread(io.BytesIO(self.pictures[number]))
        return read


def samples(count: int, **named: object) -> Samples:
    means = torch.linspace(0, 1, count * 6).reshape(count, 1, 2, 3)
    return Samples(torch.zeros(count, 2), means.round(), means, **named)  # type: ignore[arg-type]


def test_samples_that_are_images_are_shown_as_images() -> None:
    found = samples(12)
    page = Page(found._repr_html_())
    assert page.text.startswith("12 samples: the mean of p(x | h)")
    shades = page.shades()[::3, ::3, 0]
    assert shades.shape == (2 * 2 + MARGIN, COLUMNS * (3 + MARGIN) - MARGIN)
    expected = found.means[11, 0].numpy()
    assert abs(shades[2 + MARGIN :, 3 + MARGIN : 6 + MARGIN] - expected).max() < 1 / 200
    assert str(found) == "Samples(h: 12 x 2, x: 12 x 1 x 2 x 3, means: 12 x 1 x 2 x 3)"


def test_of_many_samples_the_first_are_shown() -> None:
    page = Page(samples(2_000)._repr_html_())
    assert page.text.startswith("the first 100 of 2,000 samples")
    assert page.shades().shape[0] == 3 * (10 * (2 + MARGIN) - MARGIN)


def test_rows_are_shown_as_images_by_their_shape_and_by_none_as_text() -> None:
    model = BeliefNetwork(Layer("categorical", 6, classes=3), LatentSpace.of(Layer("bernoulli", 2)))
    assert jsa.sample(model, 4)._repr_html_() is None
    found = jsa.sample(model, 4, image_shape=(2, 3))
    expected = (found.means.unflatten(-1, (6, 3)) @ torch.tensor([0, 0.5, 1])).reshape(4, 2, 3)
    assert abs(Page(found._repr_html_()).shades()[:6:3, :9:3, 0] - expected[0].numpy()).max() < 1 / 200
    # A line each, where they are no images.
    lines = image.imread(io.BytesIO(jsa.sample(model, 4).png()))
    assert lines.shape[:2] == (4 * 12, 6 * 12)


def test_a_context_comes_before_the_rest_of_its_image() -> None:
    means = torch.ones(1, 2)
    found = Samples(torch.zeros(1, 1), means, means, contexts=torch.zeros(1, 2), image_shape=(2, 2))
    shades = Page(found._repr_html_()).shades()[:6:3, :6:3, 0]
    assert shades.tolist() == [[0, 0], [1, 1]]


def test_reconstructions_are_below_their_rows_in_the_same_shades() -> None:
    x, means = torch.full((3, 2, 2), -1.0), torch.full((3, 2, 2), 0.0)
    x[0, 0, 0] = 1
    found = Reconstructions(x, means)
    shades = Page(found._repr_html_()).shades()[::3, ::3, 0]
    step = 2 + MARGIN
    assert shades[0, 0] == 1
    assert shades[0, step] == 0
    assert abs(shades[step, 0] - 0.5) < 1 / 200
    assert Reconstructions(x.flatten(1), means.flatten(1))._repr_html_() is None
    assert Reconstructions(x, means.flatten(1))._repr_html_() is None


def test_effects_are_shown_as_pictures_or_as_the_text_of_the_command() -> None:
    means = torch.zeros(2, 2, 1, 2, 2)
    means[1, 1] = 1
    found = Effects(torch.tensor([[0.5, 0.5], [0.2, 0.8]]), means, rows=30)
    page = Page(found._repr_html_())
    assert page.text.startswith("bit 2, 100.0% of what all explain; shares of its values: 20.0%, 80.0%")
    assert len(page.pictures) == 2
    # Off beside on.
    assert page.shades()[0, 0, 0] == 0
    assert page.shades()[0, -1, 0] == 1
    vectors = Effects(found.shares, means.flatten(2), rows=30)
    assert Page(vectors._repr_html_()).text == str(vectors) == vectors.text()
    assert "x[0, 1, 1]  0.00 -> 1.00" in found.text()
    assert "<b>" in Page(Effects(found.shares, means.flatten(2), 1)._repr_html_().replace("x[0]", "&lt;b&gt;")).text


@pytest.mark.parametrize("samples", [0, 1, 50])
def test_a_likelihood_shows_what_it_knows(samples: int) -> None:
    model = BeliefNetwork(Layer("bernoulli", 6), LatentSpace.of(Layer("bernoulli", 4)))
    rows = jsa.row_likelihoods(model, torch.eye(6), samples) if samples else exact_row_likelihoods(model, torch.eye(6))
    page = Page(rows.mean._repr_html_())
    assert f"{rows.mean.nll:.3f} nats per row" in page.text
    assert "nan" not in page.text
    assert "inf" not in page.text
    assert ("effective sample size" in page.text) == (samples > 0)
    assert ("standard error of sampling" in page.text) == (samples > 1)
    assert (rows.mean.warning or "") in page.text
    assert rows._repr_html_() == rows.mean._repr_html_()
    assert str(rows).startswith(f"RowLikelihoods(6 rows from {float(rows.nll.min()):.3f} to ")


def test_one_row_has_no_error_to_show() -> None:
    model = BeliefNetwork(Layer("bernoulli", 6), LatentSpace.of(Layer("bernoulli", 4)))
    assert "nan" not in Page(jsa.likelihood(model, torch.zeros(1, 6), 50)._repr_html_()).text


def test_frozen_chains_are_shown_with_their_warning() -> None:
    cache = ChainCache(LatentSpace.of(Layer("bernoulli", 3)), rows=3)
    empty = Page(frozen_chains(cache)._repr_html_())
    assert "rows with a chain0 of 3" in empty.text
    assert "longest" not in empty.text
    for _ in range(60):
        cache.write(torch.tensor([0, 1]), torch.ones(2, 3), moved=torch.tensor([True, False]))
    found = frozen_chains(cache)
    page = Page(found._repr_html_())
    assert "rows with a chain2 of 3visits120" in page.text
    assert "at rest for more than 20 passes" in page.text
    assert found.warning is not None
    assert found.warning in page.text
    assert str(found).startswith(
        "2 of 3 rows have a chain after 120 visits; at rest 50.0% of them for more than 1 pass, "
    )


def test_a_gradient_report_names_what_it_measured() -> None:
    given, total = LogVariance(-2.0, -2.1, -1.9), LogVariance(1.0, 0.9, 1.1)
    report = GradientReport({"theta": given, "phi": given}, {"theta": total, "phi": given}, {"theta": 0.25}, 3.0)
    assert str(report) == (
        "log variance of theta: 1.00 (0.90 to 1.10); "
        "log variance of theta, chains held fixed: -2.00 (-2.10 to -1.90); squared bias of theta: 0.25; "
        "log variance of phi: -2.00 (-2.10 to -1.90); decoder evaluations: 3 per row"
    )
    assert "chains held fixed-2.00" in Page(report._repr_html_()).text
