"""`torch.utils.data` by its names: all of `tenon.data`."""

from tenon.data import *  # noqa: F403
from tenon.data import __all__ as __all__
