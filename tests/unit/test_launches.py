"""Launches in memory: native code gives the driver what `main` gives a device step by step, at any addresses."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any, NoReturn

import ml_dtypes
import numpy as np
import pytest
from driver_stand_in import SIGNATURES, STATUSES, CUDADriverError
from xdsl.dialects.builtin import ModuleOp

import tenon
from tenon.lowering.cuda.bulk_copies import TensorMap, tensor_maps
from tenon.lowering.options import LoweringOptions
from tenon.lowering.steps.library import Multiplication
from tenon.passes.machine import GPUS
from tenon.runtime import lower
from tenon.runtime.cuda import launches
from tenon.runtime.cuda.device import DeviceBuffer, LaunchError
from tenon.runtime.cuda.host_program import HostProgram
from tenon.runtime.cuda.launches import Launches, packed
from tenon.runtime.cuda.recording import Copy, Launch, Recorder, Recording, record

CONTEXT, BF16 = 1, ml_dtypes.bfloat16


class Stream:
    """Notes how often it is waited for; one that is `broken` has an error to report then."""

    def __init__(self) -> None:
        self.ptr, self.waits, self.is_broken = 7, 0, False

    def synchronize(self) -> None:
        self.waits += 1
        if self.is_broken:
            raise CUDADriverError(700)


class Device:
    """Launches step by step, which it notes, and what launches in memory need of one."""

    def __init__(self) -> None:
        self.noted: list[tuple[Any, ...]] = []
        self.context, self.waits = CONTEXT, False
        self.failures: tuple[type[Exception], ...] = (CUDADriverError,)
        self.functions: dict[str, int] = {}
        self.maps: dict[str, Sequence[TensorMap]] = {}
        self.allocated = 1 << 40

    def error(self, status: int) -> Exception:
        return CUDADriverError(status)

    def allocate(self, byte_count: int) -> tuple[int, object]:
        self.allocated += 1 << 20
        return self.allocated, None

    def copy(self, destination: int, source: int, byte_count: int) -> None:
        if destination != source:
            self.noted.append((destination, source, byte_count))

    def read(self, address: int, byte_count: int) -> NoReturn:
        raise NotImplementedError

    def write(self, address: int, data: bytes) -> NoReturn:
        raise NotImplementedError

    def launch(
        self, kernel: str, grid: Any, block: Any, arguments: Sequence[np.generic], dynamic_shared: int = 0
    ) -> None:
        given = [value.tobytes() for value in arguments]
        self.noted.append((self.functions[kernel], *grid, *block, dynamic_shared, *given))

    def multiply(self, kernel: str, product: Multiplication, addresses: Sequence[int]) -> NoReturn:
        raise NotImplementedError


class Driver:
    """Notes what it is called with. The thread has another context at first."""

    def __init__(self) -> None:
        self.noted: list[tuple[Any, ...]] = []
        self.described: list[tuple[Any, ...]] = []
        self.sizes: dict[int, Sequence[int]] = {}
        """The bytes of each argument, by function."""
        self.context = 0
        self.refused: dict[int | str, int] = {}
        for name, kinds in SIGNATURES.items():
            setattr(self, name, ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(self._noting(getattr(self, f"_{name}"))))

    def _noting(self, work: Callable[..., int | None]) -> Callable[..., int]:
        return lambda *given: work(*given) or 0

    def _cuCtxGetCurrent(self, found: Any) -> None:
        found[0] = self.context

    def _cuCtxSetCurrent(self, context: int) -> None:
        self.context = context

    def _cuLaunchKernel(self, function: int, *rest: Any) -> int:
        *shape, stream, arguments, extra = rest
        assert (stream, self.context, bool(extra)) == (7, CONTEXT, False)
        given = [ctypes.string_at(arguments[n], size) for n, size in enumerate(self.sizes[function])]
        self.noted.append((function, *shape, *given))
        return self.refused.get(function, 0)

    def _cuMemcpyAsync(self, destination: int, source: int, size: int, stream: int) -> int:
        assert stream == 7
        self.noted.append((destination, source, size))
        return self.refused.get("copy", 0)

    def _cuStreamGetCaptureInfo_v2(self, *asked: Any) -> NoReturn:
        raise NotImplementedError

    def _cuTensorMapEncodeTiled(self, *told: Any) -> int:
        to, element, rank, address, sizes, strides, box, steps, *rest = told
        self.described.append((element, rank, address, sizes[:rank], strides[: rank - 1], box[:rank], steps[:rank]))
        assert rest == [0, 3, 3, 0]
        ctypes.memset(to, len(self.described), 128)
        return int(to % 64 != 0 or address % 16 != 0)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(launches, "driver", lambda: made)
    return made


def floats(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def mapped(function: Callable[..., Any], *arrays: Any, gpu: str = "sm_90") -> ModuleOp:
    module = tenon.jit(function).trace(*arrays).module
    return lower.map_to_grid(lower.lower_with(module.clone(), "cuda", LoweringOptions(gpu=GPUS[gpu]), "f"))


def chain(x: Any, w: Any, b: Any) -> Any:
    h = tenon.tanh(x @ w + b)
    return h - tenon.sum(h), tenon.sum(h, axis=0), x


def counted(x: Any) -> Any:
    """Places in arrays, and numbers, differ from iteration to iteration."""
    return tenon.scan(lambda carry, row: (tenon.tanh(carry + row), carry), x[0], x)


PROGRAMS: dict[str, tuple[Callable[..., Any], Sequence[Any]]] = {
    "several kernels": (chain, [floats(4, 8), floats(8, 16), floats(16)]),
    "a loop": (counted, [floats(5, 3)]),
    "a copy": (lambda x: (x, x[1:]), [floats(6)]),
    "one kernel": (lambda x, y: x + y, [floats(9), floats(9)]),
}


def prepared(module: ModuleOp, driver: Driver) -> tuple[Device, HostProgram, Recording]:
    device = Device()
    program = HostProgram(module, device)
    for number, (name, function) in enumerate(program.launches.items(), 1):
        device.functions[name], device.maps[name] = number, tensor_maps(function)
    recording = record(program)
    assert isinstance(recording, Recording)
    for event in recording.events:
        if isinstance(event, Launch):
            sizes = [value.dtype.itemsize for value in event.arguments]
            driver.sizes[device.functions[event.kernel]] = [*sizes, *[128] * len(device.maps[event.kernel])]
    return device, program, recording


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_driver_gets_what_is_launched_step_by_step(name: str, waits: bool, driver: Driver) -> None:
    function, arrays = PROGRAMS[name]
    device, program, recording = prepared(mapped(function, *arrays), driver)
    device.waits = waits
    given, fixed = len(program.inputs) + len(program.outputs), [1 << 50]
    fixed += [(1 << 51) + (n << 20) for n in range(len(recording.places))]
    made, stream = Launches(device, recording.events, recording.bases, recording.offsets, given, fixed), Stream()
    for number in range(3):
        addresses = [((number + 2) << 44) + (n << 20) for n in range(given)]
        if number == 2:
            addresses[-1] = addresses[0]  # a result in the memory of an argument
        described = [*program.inputs, *program.outputs, program.arena]
        buffers = [DeviceBuffer(a, *one, None) for a, one in zip([*addresses, fixed[0]], described, strict=True)]
        device.noted, driver.noted, device.allocated = [], [], (1 << 51) - (1 << 20)
        program(buffers[: len(program.inputs)], buffers[len(program.inputs) : -1], buffers[-1])
        made.run(packed(addresses), stream)
        assert driver.noted == device.noted
    assert stream.waits == (3 * len(recording.events) if waits else 0)


def test_buffers_of_main_share_memory_where_they_are_not_in_use_together() -> None:
    recorder = Recorder()
    arena, first, second, _, third = (recorder.allocate(size)[0] for size in (64, 1000, 300, 50, 1000))
    for destination, source in ((first, arena), (second, first), (third, second), (arena, third)):
        recorder.copy(destination, source, 8)
    recording = Recording(recorder, 1)
    assert recording.places[0] == recording.places[3]
    assert recording.places[1] in (1024, 0)
    assert recording.places[0] in (0, 512)
    assert recording.scratch < 1000 + 1024


def test_loops_whose_steps_have_buffers_are_recorded(driver: Driver) -> None:
    """Each step's partial sums of columns have a buffer, of which no two are in use together."""
    start = floats(20000, 8)
    loop = mapped(lambda x: tenon.scan(lambda c, _: (c + tenon.sum(c, axis=0), None), x, None, length=80)[0], start)
    _, _, recording = prepared(loop, driver)
    assert len(recording.places) == 80
    assert set(recording.places) == {0}


def test_arguments_are_passed_as_they_are(driver: Driver) -> None:
    values = (np.float64(-0.0), np.int8(-5), np.float16(1.5), np.bool_(True), np.int64(-1), BF16(3), np.uint64(0))
    event = Launch("kernel", (5, 2, 3), (32, 4, 1), values, (6,), 1024)
    device = Device()
    device.functions["kernel"], driver.sizes[1] = 1, [value.dtype.itemsize for value in values]
    Launches(device, [event], [0], [1 << 61], 0).run(b"", Stream())
    given = [*[value.tobytes() for value in values[:-1]], np.uint64(1 << 61).tobytes()]
    assert driver.noted == [(1, 5, 2, 3, 32, 4, 1, 1024, *given)]


def test_what_is_refused_is_named(driver: Driver) -> None:
    kernels = [Launch(f"kernel_{n}", (n, 1, 1), (32, 1, 1), (), (), 0) for n in (1, 2, 3)]
    device, stream = Device(), Stream()
    device.functions, driver.sizes = {f"kernel_{n}": n for n in (1, 2, 3)}, {1: (), 2: (), 3: ()}
    driver.refused = {2: 701}
    made = Launches(device, kernels, [], [], 0)
    with pytest.raises(
        LaunchError, match=r"^kernel @kernel_2 \(grid \(2, 1, 1\), block .*\): CUDA_ERROR_LAUNCH_"
    ) as raised:
        made.run(b"", stream)
    assert (raised.value.kernel, str(raised.value.__cause__)) == ("kernel_2", STATUSES[701])
    assert [one[0] for one in driver.noted] == [1, 2]
    driver.refused, device.waits, stream.is_broken = {}, True, True
    with pytest.raises(LaunchError, match=r"^kernel @kernel_1 .*: CUDA_ERROR_ILLEGAL_ADDRESS"):
        made.run(b"", stream)
    driver.refused = {"copy": 700}
    with pytest.raises(CUDADriverError, match="illegal memory access"):
        Launches(device, [Copy(8)], [1, 2], [0, 0], 2).run(packed([64, 128]), stream)


def test_tensors_are_described_where_they_have_moved(driver: Driver) -> None:
    a, b = np.zeros((136, 264), BF16), np.zeros((264, 264), BF16)
    device, _, recording = prepared(mapped(lambda a, b: a @ b, a, b, gpu="sm_90a"), driver)
    made = Launches(device, recording.events, recording.bases, recording.offsets, 3, [1 << 50])
    first, other = [1 << 30, 1 << 31, 1 << 29], [1 << 30, 1 << 32, 1 << 29]
    for addresses in (first, first, other):
        made.run(packed(addresses), Stream())
    (*_, left, right), (*_, left_again, _), (*_, left_still, moved) = driver.noted
    assert [one[:3] for one in driver.described] == [(9, 2, 1 << 30), (9, 2, 1 << 31), (9, 2, 1 << 32)]
    assert [one[3:5] for one in driver.described[:2]] == [([264, 136], [528]), ([264, 264], [528])]
    assert all(len(one[5]) == 2 and one[6] == [1, 1] for one in driver.described)
    assert (left, right, moved) == tuple(bytes([n]) * 128 for n in (1, 2, 3))
    assert left == left_again == left_still
    with pytest.raises(LaunchError, match=r"^kernel @\w+ .*, a description of a tensor: CUDA_ERROR_INVALID_VALUE"):
        made.run(packed([first[0] + 8, *first[1:]]), Stream())


def test_nothing_is_copied_where_there_are_no_elements(driver: Driver) -> None:
    module = mapped(lambda x, y: (x, y), floats(0, 5), floats(3))
    assert prepared(module, driver)[2].events == [Copy(12)]


@pytest.mark.gpu
def test_device_runs_launches_at_other_addresses() -> None:
    """From a thread that has no context yet, too."""
    random = np.random.default_rng(0)
    a, b = (random.normal(size=(256, 256)).astype(BF16) for _ in range(2))
    product, step, many = (tenon.jit(f, device="cuda") for f in (lambda a, b: a @ b, chain, counted))
    x, w, bias = (random.normal(size=shape).astype(np.float32) for shape in ((4, 8), (8, 16), (16,)))
    h = np.tanh(x.astype(np.float64) @ w + bias)
    results: list[Any] = []

    def calls() -> None:
        for _ in range(8):
            results.append((product(a, b), *step(x, w, bias), many(x)[0]))  # results are kept, and others elsewhere

    calls()
    thread = Thread(target=calls)
    thread.start()
    thread.join()
    assert len(results) == 16
    last = x[0].astype(np.float64)
    for row in x:
        last = np.tanh(last + row)
    for one, shifted, total, same, carried in results:
        np.testing.assert_allclose(one.get().astype(float), a.astype(float) @ b.astype(float), rtol=0.02, atol=0.2)
        np.testing.assert_allclose(shifted.get(), h - h.sum(), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(total.get(), h.sum(0), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(same.get(), x)
        np.testing.assert_allclose(carried.get(), last, rtol=1e-4, atol=1e-5)
