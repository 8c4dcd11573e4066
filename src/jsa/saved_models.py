"""Models as files: weights and constructor arguments, without code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from jsa.errors import CheckpointError, UsageError, shortened
from jsa.io.arguments import Arguments, make
from jsa.io.atomic_files import check_destination
from jsa.io.tensor_files import load_tensors, save_tensors
from jsa.io.weights import check_format, finite_weights, take_weights, weights_of

if TYPE_CHECKING:
    from jsa.model import LatentVariableModel

M = TypeVar("M", bound="LatentVariableModel")

FORMAT = 1
STORABLE = "numbers, text, None, booleans, lists, tuples, dicts with text keys, LatentSpace, Layer or Style"


def save_model(model: LatentVariableModel, path: Path | str) -> None:
    """Write a model to one file: its weights and the arguments of its constructor, whole or not at all.

    The file is in the format of safetensors. It holds no code, so that opening a stranger's file runs none: who loads
    it says of which class the model is. Whatever is changed of a model after it was made, other than its weights and
    buffers, is not in the file.

    Args:
        model: The model. The arguments that it was made with are numbers, text, None, booleans, lists, tuples, dicts
            with text keys, ``LatentSpace``, ``Layer`` or ``Style``; any other is refused.
        path: The file. One that exists is replaced.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from jsa import BeliefNetwork, LatentSpace, Layer
        >>> model = BeliefNetwork(Layer("bernoulli", 6), LatentSpace.of(Layer("bernoulli", 4)), hidden=(5,))
        >>> with TemporaryDirectory() as folder:
        ...     save_model(model, f"{folder}/model.safetensors")
        ...     again = load_model(BeliefNetwork, f"{folder}/model.safetensors")
        >>> torch.equal(again.inference[0].network.first.weight, model.inference[0].network.first.weight)
        True
    """
    record = constructor_record(model)
    check_destination(Path(path), "path")
    save_tensors(Path(path), finite_weights(model), {"format": FORMAT, **record})


def load_model(kind: type[M], path: Path | str) -> M:
    """Make a model from a file of ``save_model``.

    Args:
        kind: The class of the model. The class of the file must have the same name and take the same arguments.
        path: The file.

    Returns:
        The model on the CPU, in training mode, like any new one.
    """
    path = Path(path)
    tensors, notes = load_tensors(path)
    name, arguments = notes.get("class"), notes.get("arguments")
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise CheckpointError(f"{path} was not written by jsa.save_model: choose another file")
    check_format(path, notes, FORMAT)
    if not _same(name, class_name(kind)):
        raise CheckpointError(
            f"{path} holds a {shortened(name)}, not a {class_name(kind)}: load it with the class that was saved"
        )
    # The weights at the start are drawn at random, which is nobody's business.
    with torch.random.fork_rng([]):
        model = make(kind, arguments, path)
    _take_precision(model, tensors)
    take_weights(model, tensors, path)
    return model


def constructor_record(model: LatentVariableModel) -> dict[str, Any]:
    """Return the class and the constructor arguments of a model, as JSON can hold them.

    An argument that JSON cannot hold is refused, by its name.
    """
    # A class that does not call the __new__ of LatentVariableModel tells nothing.
    arguments: Arguments = vars(model).get("_constructor_arguments", Arguments(known=False))
    name = type(model).__name__
    if not arguments.known:
        raise UsageError(
            f"the arguments that this {name} was made with are not known, because its class has a __new__ that keeps "
            "them: pass them on to super().__new__, or save model.state_dict() with torch.save"
        )
    for argument, held in arguments.others.items():
        raise UsageError(
            f"{name} cannot be saved, because its argument {argument} is or holds a {held}: give it {STORABLE} and "
            "make the rest in the constructor, or save model.state_dict() with torch.save"
        )
    return {"class": class_name(type(model)), "arguments": dict(arguments.records)}


def class_name(kind: type) -> str:
    """Return the name of a class with its module."""
    return f"{kind.__module__}:{kind.__qualname__}"


def _same(name: str, other: str) -> bool:
    """Return whether these are names of one class; a script is ``__main__`` when it runs, and not when imported."""
    if "__main__" in (name.partition(":")[0], other.partition(":")[0]):
        return name.partition(":")[2] == other.partition(":")[2]
    return name == other


def _take_precision(model: LatentVariableModel, tensors: dict[str, torch.Tensor]) -> None:
    """Bring the model to the precision of the tensors, into which it may have been moved after it was made."""
    own = [(name, tensor) for name, tensor in weights_of(model) if name in tensors and tensor.is_floating_point()]
    found = {tensors[name].dtype for name, _ in own}
    if len(found) == 1 and found != {tensor.dtype for _, tensor in own}:
        # Buffers that are not in the file go along.
        model.to(found.pop())
    for name, tensor in own:
        tensor.data = tensor.data.to(tensors[name].dtype)
