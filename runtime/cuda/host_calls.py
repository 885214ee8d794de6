"""What takes the place of a kernel of programs on a device: Python, on copies of the arrays, or a library."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr

from tenon.dialects.families.host import call_host, host_dtypes, is_host_call, raise_pending
from tenon.lowering.steps.library import Multiplication, is_library_call
from tenon.runtime.cuda.device import Backend, DeviceBuffer


def is_call(function: func.FuncOp) -> bool:
    """Whether something else takes the place of a kernel."""
    return is_host_call(function) or is_library_call(function)


def run_call(backend: Backend, function: func.FuncOp, buffers: Sequence[DeviceBuffer]) -> None:
    """Call what `function` stands for. Raises what that raises."""
    if is_host_call(function):
        _run_host_call(backend, function, buffers)
        return
    product = Multiplication.of(function)
    operands = (product.left, product.right, product.result)
    backend.multiply(function.sym_name.data, product, [buffers[operand.argument].address for operand in operands])


def _run_host_call(backend: Backend, function: func.FuncOp, buffers: Sequence[DeviceBuffer]) -> None:
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
