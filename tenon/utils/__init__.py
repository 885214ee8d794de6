"""What PyTorch has in `torch.utils`, by its names: `data` and `checkpoint`."""

from tenon.utils import checkpoint, data

__all__ = ["checkpoint", "data"]
