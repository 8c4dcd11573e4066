"""The three parts of a dataset."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jsa.data.dataset import Dataset
from jsa.errors import UsageError


@dataclass(frozen=True)
class Splits:
    """Rows to learn from, rows to choose by, and rows to report on.

    Attributes:
        name: The name of the dataset, or of the table's file.
        train: What is learned from.
        valid: What stops the training and chooses between models.
        test: What is reported, and used for nothing else.
        classes: The number of values that each variable can take; the same in all three.
        image_shape: Height and width of a row as a picture, context and observed columns together; None
            where a row is no picture.
    """

    name: str
    train: Dataset
    valid: Dataset
    test: Dataset
    classes: int
    image_shape: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        for part, rows in (("train", self.train), ("valid", self.valid), ("test", self.test)):
            if rows.classes != self.classes:
                raise UsageError(f"{part} of {self.name} has {rows.classes} classes, not {self.classes}")
            here = rows.observed_columns, rows.context_columns
            if here != (self.train.observed_columns, self.train.context_columns):
                raise UsageError(f"{part} and train of {self.name} do not have the same columns")

    def split_context(self, columns: int) -> Splits:
        """The same rows, with their first `columns` variables as context of the others, in all three parts.

        With half of the columns of a picture this is structured prediction: the lower half, given the upper.
        """
        return replace(
            self,
            train=self.train.split_context(columns),
            valid=self.valid.split_context(columns),
            test=self.test.split_context(columns),
        )
