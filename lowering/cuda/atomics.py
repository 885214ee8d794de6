"""Atomic updates of elements (`memref.atomic_rmw`) as CUDA C++: what the hardware has by its own functions, all else by
exchanging an element for as long as another thread was faster.

Of 64-bit integers in shared memory the hardware adds no more than halves: a sum of halves that wraps around hands its
carry on, so that the two halves are right when all additions are done. A barrier is between them and who reads the
element."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IntegerType, MemRefType
from xdsl.ir import Operation

from tenon.dialects.upstream.atomic_kinds import ATOMIC_KINDS
from tenon.lowering.cuda.kernel_writer import KernelWriter
from tenon.lowering.cuda.shared_memory import SHARED_MEMORY


@dataclass(frozen=True)
class _Atomic:
    name: str
    """Of the device function."""
    unsigned: bool = False
    """Whether it takes integers as unsigned ones."""


_BY_OP: dict[type[Operation], _Atomic] = {
    arith.AddfOp: _Atomic("tn_atomic_add"),
    arith.AddiOp: _Atomic("tn_atomic_add", unsigned=True),
    arith.MaxSIOp: _Atomic("tn_atomic_max"),
    arith.MaxUIOp: _Atomic("tn_atomic_max", unsigned=True),
    arith.MinSIOp: _Atomic("tn_atomic_min"),
    arith.MinUIOp: _Atomic("tn_atomic_min", unsigned=True),
    arith.MuliOp: _Atomic("tn_atomic_multiply", unsigned=True),
    arith.OrIOp: _Atomic("tn_atomic_or", unsigned=True),
    arith.AndIOp: _Atomic("tn_atomic_and", unsigned=True),
}
ATOMICS = {ATOMIC_KINDS.index(op_type): atomic for op_type, atomic in _BY_OP.items()}
"""By the number of the kind."""

_UNSIGNED = {32: "unsigned int", 64: "unsigned long long"}

ATOMIC_FUNCTIONS = """
template <class T> __device__ __forceinline__ void tn_atomic_add(T *address, T value) { atomicAdd(address, value); }
template <class T> __device__ __forceinline__ void tn_atomic_max(T *address, T value) { atomicMax(address, value); }
template <class T> __device__ __forceinline__ void tn_atomic_min(T *address, T value) { atomicMin(address, value); }
template <class T> __device__ __forceinline__ void tn_atomic_or(T *address, T value) { atomicOr(address, value); }
template <class T> __device__ __forceinline__ void tn_atomic_and(T *address, T value) { atomicAnd(address, value); }
template <class T> __device__ __forceinline__ void tn_atomic_multiply(T *address, T value) {
  T expected = 1;
  for (;;) {
    const T found = atomicCAS(address, expected, (T)(expected * value));
    if (found == expected) return;
    expected = found;
  }
}
__device__ __forceinline__ void tn_atomic_add_halves(unsigned long long *address, unsigned long long value) {
  unsigned int *halves = (unsigned int *)address;
  const unsigned int low = (unsigned int)value, before = atomicAdd(halves, low);
  const unsigned int high = (unsigned int)(value >> 32) + (before + low < before);
  if (high != 0) atomicAdd(halves + 1, high);
}
"""


def emit_atomic(writer: KernelWriter, op: memref.AtomicRMWOp) -> None:
    """The call of a device function; what was there before is not asked for."""
    atomic, buffer = ATOMICS.get(op.kind.value.data), op.memref.type
    assert isinstance(buffer, MemRefType)
    element = buffer.element_type
    if atomic is None or list(op.result.uses):
        raise writer.error(f"{op.name} of kind {op.kind.value.data} has no CUDA C++ form")
    address, value = f"&{writer.element(op.memref, op.indices)}", writer.names[op.value]
    name = atomic.name
    if isinstance(element, IntegerType) and atomic.unsigned:
        kind = _UNSIGNED.get(element.width.data)
        if kind is None:
            raise writer.error(f"{op.name} of {element} has no CUDA C++ form")
        address, value = f"({kind} *){address}", f"({kind}){value}"
        if name == "tn_atomic_add" and element.width.data == 64 and buffer.memory_space == SHARED_MEMORY:
            name = "tn_atomic_add_halves"
    writer.line(f"{name}({address}, {value});")
