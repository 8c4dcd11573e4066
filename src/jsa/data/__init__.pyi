from .binarization import DynamicBinarization as DynamicBinarization
from .catalog import describe as describe
from .catalog import names as names
from .dataset import Conditioned as Conditioned
from .dataset import Dataset as Dataset
from .dataset import IndexedDataset as IndexedDataset
from .downloads import fetch as fetch
from .loading import load as load
from .order import Scan as Scan
from .order import batches_in_epoch as batches_in_epoch
from .order import epoch_order as epoch_order
from .schema import Schema as Schema
from .splits import Splits as Splits

__all__: list[str]
