"""Host ops of programs on a device: Python takes the place of a kernel, on copies of the arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr

from tenon.dialects.families.host import call_host, host_dtypes, raise_pending
from tenon.runtime.cuda.device import Backend, DeviceBuffer


def run_host_call(backend: Backend, function: func.FuncOp, buffers: Sequence[DeviceBuffer]) -> None:
    """Wait for the device, call what `function` stands for, and copy its results back. Raises what that raises."""
    count = function.attributes["num_inputs"]
    assert isinstance(count, IntegerAttr)
    arrays = [
        np.frombuffer(bytearray(backend.read(buffer.address, buffer.byte_count)), dtype).reshape(buffer.shape)
        for buffer, dtype in zip(buffers, host_dtypes(function), strict=True)
    ]
    call_host(function, arrays)
    raise_pending()
    inputs = count.value.data
    for buffer, array in zip(buffers[inputs:], arrays[inputs:], strict=True):
        backend.write(buffer.address, array.tobytes())
