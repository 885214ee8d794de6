"""The machine that programs are compiled for: every fact of it that something is decided by.

A pass decides by shares of these facts (`machine.l2 // 2`), never by a number of its own; what is no fact of a machine
but a choice stands in the pass, beside its reason. Passes take the machine as text, the names of a known one and of
facts that differ, `schedule{machine="neon l2=524288"}`; without, it is `GENERIC`. `runtime.lower` looks up the one that
a process runs on, once.

The number of threads is not among the facts: what is compiled is the same for any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, TypeVar

_MOST_REGISTERS = 32


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor. Sizes are in bytes where they do not say bits."""

    vector_bits: int = 512
    """The width of vector registers; 0: loops over scalars are written."""
    registers: int = _MOST_REGISTERS
    """How many vector registers there are."""
    part_bits: int = 128
    """Vector registers are made of parts of this size; shuffles within one are cheap."""
    l1: int = 1 << 15
    """What the nearest cache of data holds."""
    l2: int = 1 << 20
    """What the cache holds that a core has to itself."""
    l3: int = 1 << 25
    """What the last cache holds, which all cores share."""
    line: int = 64
    """What caches and memory exchange together."""
    page: int = 4096
    """What the processor foresees up to the end of, when it fetches ahead by itself."""
    scaling: bool = False
    """Whether one instruction multiplies by a power of two."""
    multiply_add: bool = True
    """Whether there are fused multiply-adds."""
    halves: bool = False
    """Whether instructions on a whole vector are carried out in two halves: loads then keep ahead of products."""
    dots: tuple[str, ...] = ()
    """The elements of whose groups there are dot products: bf16, i8."""
    tiles: tuple[str, ...] = ()
    """The elements of which instructions multiply matrices in registers of 16 rows of 64 bytes: bf16, i8."""
    packs: tuple[str, ...] = ()
    """The bits of lanes of which one instruction packs those that a mask selects: 16, 32, 64."""

    def __post_init__(self) -> None:
        bits = self.vector_bits
        if bits < 0 or bits & (bits - 1):
            raise ValueError(f"vector-bits is {bits}, neither 0 nor a power of two")
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise ValueError(f"{_option(name)} is {getattr(self, name)}, expected at least {least}")
        for name in ("part_bits", "line"):
            if (size := getattr(self, name)) & (size - 1):
                raise ValueError(f"{_option(name)} is {size}, expected a power of two")
        if self.line > _LONGEST_LINE:
            raise ValueError(f"line is {self.line}, expected at most {_LONGEST_LINE}")

    @property
    def lanes(self) -> int:
        """Numbers of 32 bits in a vector; 1 without vectors."""
        return max(self.vector_bits // 32, 1)

    @property
    def line_bits(self) -> int:
        """A line in bits, as vectors are measured."""
        return 8 * self.line

    @property
    def far(self) -> int:
        """What is not read again and again without cost: an eighth of the last cache, as other cores use it as well."""
        return max(self.l3 // 8, self.l2)

    def with_vectors(self, bits: int) -> Machine:
        """This machine, if all its vectors have `bits`; where these are not its own, with the registers of x86."""
        if bits == self.vector_bits:
            return self
        registers = _MOST_REGISTERS if bits >= GENERIC.vector_bits else 16
        return replace(self, vector_bits=bits, registers=registers, packs=(), tiles=())

    def text(self) -> str:
        """The facts in which this machine differs from `GENERIC`, as the option `machine` of passes takes them."""
        facts = [(f.name, getattr(self, f.name), f.default) for f in fields(self)]
        return " ".join([_fact_text(name, value) for name, value, default in facts if value != default])

    @staticmethod
    def of_option(pass_name: str, text: str) -> Machine:
        """As `parse`; errors say which pass has the option."""
        try:
            return _parsed(text)
        except ValueError as error:
            raise ValueError(f"{pass_name}: {error}") from None

    @staticmethod
    def parse(text: str) -> Machine:
        """The machine that `text` tells: the name of a known one or nothing, then facts, `avx2 l2=262144`. Raises
        `ValueError` for what it does not know."""
        return _parsed(text)


_LONGEST_LINE = 256
"""As long as lines of processors that are known are; tiles of rows that share one would not fit registers."""
_LEAST = {"registers": 4, "part_bits": 8, "l1": 256, "l2": 256, "l3": 256, "line": 8, "page": 256}
"""What facts are at least, so that no share of them that is used is nothing."""

GENERIC = Machine()
"""What passes assume where they are not told: a core of a server of x86 with AVX-512."""

MACHINES = {
    "generic": GENERIC,
    "avx512": replace(GENERIC, scaling=True),
    "avx2": GENERIC.with_vectors(256),
    "sse": replace(GENERIC.with_vectors(128), multiply_add=False),
    "neon": replace(GENERIC, vector_bits=128),
}
"""Machines by name, with the caches of `GENERIC`."""

VECTOR_BITS = (128, 256, 512)
"""The widths that instructions on vectors come in."""

TILE_REGISTERS = 8
"""Registers that hold matrices (`Machine.tiles`)."""

GPU_REGISTER = 4
"""Bytes of a register of a GPU's threads."""

ALIGNMENT = 64
"""Bytes at whose multiples buffers begin: a line, and the widest vector, of every machine that is known."""

HUGE_PAGE = 1 << 21
"""What systems with pages of 4 KiB can map as one."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU. Sizes are in bytes, rates in bytes or operations a second. By default what all of NVIDIA's have in common
    from `sm_80` on."""

    architecture: str = "sm_80"
    """What code is compiled for."""
    warp: int = 32
    """Threads that run in step."""
    largest_block: int = 1024
    """Threads of a block."""
    threads: int = 1536
    """Threads that a multiprocessor holds at a time."""
    blocks: int = 32
    """Blocks that a multiprocessor holds at a time, at most."""
    registers: int = 1 << 16
    """Of 32 bits, of a multiprocessor."""
    register_unit: int = 256
    """How many are given to a warp at a time."""
    thread_registers: int = 255
    """Of them, what one thread can have."""
    shared: int = 48 * 1024
    """Memory that the threads of a block share without opting in to more."""
    largest_shared: int = 99 * 1024
    """What they share where they opt in."""
    reserved_shared: int = 1024
    """What the system takes of shared memory for each block."""
    local: int = 512 * 1024
    """Memory that one thread can address for itself."""
    access: int = 16
    """What one thread loads or stores at once."""
    sector: int = 32
    """What an access moves of memory at least."""
    multiprocessors: int = 80
    """How many there are; as many blocks run at the same time, at least."""
    l2: int = 1 << 22
    """What the cache holds that all multiprocessors share."""
    bandwidth: float = 6e11
    """Of memory."""
    clock: float = 1.41e9
    """Cycles a second."""
    lanes: int = 64
    """Multiply-adds of f32 that a multiprocessor begins in a cycle."""
    schedulers: int = 4
    """Instructions that a multiprocessor begins in a cycle, each for all threads of a warp."""
    integer_lanes: int = 64
    """Operations on integers, comparisons, choices and conversions between neighbours that it begins in a cycle."""
    special: int = 16
    """Reciprocals, exponentials and the like, and slow conversions, that it begins in a cycle."""
    double_lanes: int = 2
    """The same of f64."""
    products: int = 512
    """Multiply-adds of f16 that the matrix instructions of its warps begin in a cycle."""
    warp_products: int = 0
    """The same by instructions that single warps give and wait for; 0: as many."""
    double_products: int = 0
    """The same of f64; 0: it has no units for them."""
    tf32: bool = False
    """Whether these may multiply f32 by its first 11 significant bits."""
    deterministic: bool = True
    """Whether results are the same from launch to launch: floats are not added up in whatever order threads come."""
    l2_access: int = 64
    """Bytes that a multiprocessor gets of the cache that all share in a cycle."""
    shared_access: int = 128
    """Bytes that it gets of shared memory in a cycle."""
    latency: float = 6e-7
    """Seconds from an access to memory to its data, about."""
    dependent: int = 4
    """Cycles from an operation to one that needs its result."""
    libraries: tuple[str, ...] = ()
    """What may compute whole kernels in place of code that is made for them (`CUBLAS`)."""
    library_share: float = 0.0
    """The share of `lanes` that cuBLAS keeps busy with large products of f32; 0: not known."""

    @property
    def common(self) -> Gpu:
        """This GPU without the instructions that only its architecture has."""
        return replace(self, architecture=self.architecture.rstrip("af"))

    @property
    def warpgroup(self) -> int:
        """Threads of the four warps that multiply matrices, and change the number of their registers, together."""
        return 4 * self.warp

    def products_of(self, element_bytes: int, *, by_warps: bool = False) -> int:
        """Multiply-adds of elements of so many bytes that matrix instructions begin in a cycle, or those of single
        warps."""
        if element_bytes == 8:
            return self.double_products
        return 2 * ((self.warp_products if by_warps else 0) or self.products) // element_bytes

    def resident(self, threads: int, registers: int, shared: int) -> int:
        """How many blocks a multiprocessor holds at a time: of so many threads of so many registers each (0: few), with
        bytes of shared memory."""
        warps = -(-threads // self.warp)
        of_warp = -(-registers * self.warp // self.register_unit) * self.register_unit
        by_registers = self.registers // (of_warp * warps) if registers else self.blocks
        by_shared = (self.largest_shared + self.reserved_shared) // (shared + self.reserved_shared)
        return min(self.blocks, self.threads // (warps * self.warp), by_registers, by_shared)

    def text(self) -> str:
        """The GPU as the option `machine` of passes takes it: its name, then the facts in which it differs."""
        known = GPUS.get(self.architecture, GPU)
        pairs = [(f.name, getattr(self, f.name), getattr(known, f.name)) for f in fields(self)]
        facts = [_fact_text(name, value) for name, value, usual in pairs if value != usual]
        return " ".join([*([self.architecture] if known is not GPU else []), *facts])

    @staticmethod
    def of_option(pass_name: str, text: str) -> Gpu:
        """The GPU that `text` tells: the name of a known one or nothing, then facts, `sm_90 multiprocessors=114`.
        Raises `ValueError`, which says which pass has the option, for what it does not know."""
        try:
            return _parsed_gpu(text)
        except ValueError as error:
            raise ValueError(f"{pass_name}: {error}") from None


CUBLAS = "cublas"
"""A library that multiplies matrices (`Gpu.libraries`)."""

GPU = Gpu()


def _hopper(architecture: str, **facts: Any) -> Gpu:
    """A GPU with the multiprocessor of H100, which that of B200 takes after."""
    rates = {"lanes": 128, "double_lanes": 64, "products": 2048}
    return Gpu(architecture, threads=2048, largest_shared=227 << 10, **rates, **facts)


GPUS = {
    gpu.architecture: gpu
    for gpu in (
        # A100, A10, L40S, H100 (with and without what only it has), B200; from NVIDIA's data sheets and the table of
        # compute capabilities in the CUDA programming guide.
        Gpu(
            "sm_80",
            threads=2048,
            largest_shared=163 << 10,
            multiprocessors=108,
            l2=40 << 20,
            bandwidth=1.555e12,
            double_lanes=32,
            products=1024,
            double_products=64,
        ),
        Gpu("sm_86", multiprocessors=72, l2=6 << 20, bandwidth=6e11, clock=1.695e9, lanes=128),
        Gpu("sm_89", multiprocessors=142, l2=96 << 20, bandwidth=8.64e11, clock=2.52e9, lanes=128),
        *(
            # mma.sync reaches 62.9 % of the units: Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU
            # Architecture via Microbenchmarking", IPDPS 2024. cuBLAS took 2.74 ms for 4096^3 of f32 on an H200.
            _hopper(
                name,
                multiprocessors=132,
                l2=50 << 20,
                bandwidth=3.35e12,
                clock=1.98e9,
                warp_products=1288,
                double_products=128,
                library_share=0.77,
            )
            for name in ("sm_90", "sm_90a")
        ),
        _hopper("sm_100", multiprocessors=148, l2=126 << 20, bandwidth=8e12, clock=1.965e9, double_products=64),
    )
}
"""GPUs by architecture: of each the one that most data centres have."""


def gpu_of(architecture: str) -> Gpu:
    """A GPU of an architecture, whose name may end with `a` or `f`; one that is not known has what all have."""
    known = GPUS.get(architecture) or GPUS.get(architecture.rstrip("af"), GPU)
    return replace(known, architecture=architecture)


def has_data_sheet(architecture: str) -> bool:
    """Whether facts of a GPU of an architecture are known, not only what all have."""
    return architecture.rstrip("af") in GPUS


def _fact_text(name: str, value: object) -> str:
    shown = ",".join(value) if isinstance(value, tuple) else str(value).lower()
    return f"{_option(name)}={shown}"


@lru_cache(maxsize=64)
def _parsed(text: str) -> Machine:
    return _of_text(text, GENERIC, MACHINES)


@lru_cache(maxsize=64)
def _parsed_gpu(text: str) -> Gpu:
    return _of_text(text, GPU, GPUS)


_MachineT = TypeVar("_MachineT", Machine, Gpu)


def _of_text(text: str, machine: _MachineT, known: Mapping[str, _MachineT]) -> _MachineT:
    words = text.split()
    if words and "=" not in words[0]:
        name = words.pop(0)
        if name not in known:
            raise ValueError(f"machine is {name!r}, none of {', '.join(known)}")
        machine = known[name]
    defaults = {f.name: f.default for f in fields(machine)}
    facts: dict[str, object] = {}
    for word in words:
        key, _, value = word.partition("=")
        name = key.replace("-", "_")
        if name not in defaults:
            raise ValueError(f"machine has no fact {key!r}, its facts are {', '.join(_option(n) for n in defaults)}")
        facts[name] = _value(key, value, defaults[name])
    return replace(machine, **facts)


def _option(name: str) -> str:
    return name.replace("_", "-")


def _value(key: str, text: str, default: object) -> object:
    """`text` as a value of the kind that `default` is."""
    try:
        if isinstance(default, tuple):
            return tuple(filter(None, text.split(",")))
        if isinstance(default, bool):
            return {"true": True, "false": False}[text]
        return type(default)(text)  # pyright: ignore
    except (KeyError, ValueError):
        kind = "true or false" if isinstance(default, bool) else "a number"
        kind = "an integer" if type(default) is int else kind
        raise ValueError(f"machine has {key}={text}, expected {kind}") from None
