"""What `benchmarks.gpu` measures: for each workload its inputs and the function, as users of each library write it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.networks import NETWORKS, operations, problem

Function = Callable[..., Any]


@dataclass(frozen=True)
class GpuWorkload:
    """Functions are made of the library (`tenon`, `torch`); inputs are PyTorch's arrays on the GPU.

    `bytes` are those that have to be moved, each array once; `operations` those on operands of `kind`, a multiply-add
    being two.
    """

    name: str
    section: str
    inputs: Callable[[Any], Sequence[Any]]
    in_tenon: Callable[[Any], Function]
    in_torch: Callable[[Any], Function]
    bytes: float = 0.0
    operations: float = 0.0
    kind: str = "f32"
    compiled: bool = True
    """Whether `torch.compile` takes part."""
    in_compiled_torch: Callable[[Any], Function] | None = None
    """What takes part as `torch.compile` where that is more than a call of it."""
    is_step: bool = False
    """Whether a call takes no inputs and changes what the function keeps; Tenon's then compiles by itself."""

    def widened(self, torch: Any, x: Any) -> Any:
        """An input in a dtype in which PyTorch's result counts as exact."""
        if x.dtype in (torch.float16, torch.bfloat16):
            return x.float()
        return x.double() if x.dtype == torch.float32 and x.numel() < 2**27 else x


def normal(*shapes: tuple[int, ...], dtype: str = "float32") -> Callable[[Any], Sequence[Any]]:
    """Standard normal numbers of these shapes."""
    return lambda torch: [torch.randn(shape, device="cuda").to(getattr(torch, dtype)) for shape in shapes]


SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}
SHORT = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}


def _elementwise() -> list[GpuWorkload]:
    made: list[GpuWorkload] = []
    count = 2**26
    for dtype in ("float32", "bfloat16"):
        size = SIZES[dtype]
        made += [
            GpuWorkload(
                f"add-64M-{SHORT[dtype]}",
                "Elementwise",
                normal((count,), (count,), dtype=dtype),
                lambda tenon: lambda x, y: x + y,
                lambda torch: lambda x, y: x + y,
                bytes=3 * size * count,
                compiled=False,
            ),
            GpuWorkload(
                f"chain-64M-{SHORT[dtype]}",
                "Elementwise",
                normal((count,), (count,), dtype=dtype),
                lambda tenon: lambda x, y: tenon.tanh(x * tenon.sigmoid(x) + y) * y + 1,
                lambda torch: lambda x, y: torch.tanh(x * torch.sigmoid(x) + y) * y + 1,
                bytes=3 * size * count,
            ),
            GpuWorkload(
                f"gelu-64M-{SHORT[dtype]}",
                "Elementwise",
                normal((count,), dtype=dtype),
                lambda tenon: lambda x: tenon.gelu(x),
                lambda torch: lambda x: torch.nn.functional.gelu(x),
                bytes=2 * size * count,
            ),
        ]
    return made


def _with_gradient(torch: Any, function: Function) -> Function:
    """The gradients of all arguments but the last, which is that of the result."""

    def gradients(*arrays: Any) -> Any:
        leaves = [x.detach().requires_grad_() for x in arrays[:-1]]
        return torch.autograd.grad(function(*leaves), leaves, arrays[-1])

    return gradients


def _our_gradient(tenon: Any, function: Function) -> Function:
    def gradients(*arrays: Any) -> Any:
        *given, slope = arrays
        return tenon.vjp(function, *given, cotangent=slope)[1]

    return gradients


def _layer_norm(tenon: Any) -> Function:
    return lambda x, weight, bias: tenon.layer_norm(x, weight, bias)


def _torch_layer_norm(torch: Any) -> Function:
    return lambda x, weight, bias: torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias)


def _rows() -> list[GpuWorkload]:
    made: list[GpuWorkload] = []
    for length, dtype in (
        (64, "float32"),
        (1024, "float32"),
        (8192, "float32"),
        (65536, "float32"),
        (1024, "bfloat16"),
    ):
        rows = 2**26 // length
        moved = 2 * SIZES[dtype] * 2**26
        made.append(
            GpuWorkload(
                f"softmax-{rows}x{length}-{SHORT[dtype]}",
                "Rows",
                normal((rows, length), dtype=dtype),
                lambda tenon: lambda x: tenon.softmax(x),
                lambda torch: lambda x: x.softmax(-1),
                bytes=moved,
                compiled=length in (1024, 8192),
            )
        )
    for length in (1024, 8192):
        rows = 2**26 // length
        made += [
            GpuWorkload(
                f"layernorm-{rows}x{length}-f32",
                "Rows",
                normal((rows, length), (length,), (length,)),
                _layer_norm,
                _torch_layer_norm,
                bytes=2 * 4 * 2**26,
            ),
            GpuWorkload(
                f"layernorm-gradient-{rows}x{length}-f32",
                "Rows",
                normal((rows, length), (length,), (length,), (rows, length)),
                lambda tenon: _our_gradient(tenon, _layer_norm(tenon)),
                lambda torch: _with_gradient(torch, _torch_layer_norm(torch)),
                bytes=3 * 4 * 2**26,
                compiled=False,
            ),
            GpuWorkload(
                f"rmsnorm-{rows}x{length}-bf16",
                "Rows",
                normal((rows, length), (length,), dtype="bfloat16"),
                lambda tenon: lambda x, w: tenon.rms_norm(x, w),
                lambda torch: lambda x, w: torch.nn.functional.rms_norm(x, x.shape[-1:], w),
                bytes=2 * 2 * 2**26,
            ),
        ]
    made.append(
        GpuWorkload(
            "softmax-gradient-65536x1024-f32",
            "Rows",
            normal((65536, 1024), (65536, 1024)),
            lambda tenon: _our_gradient(tenon, lambda x: tenon.softmax(x)),
            lambda torch: _with_gradient(torch, lambda x: x.softmax(-1)),
            bytes=3 * 4 * 2**26,
            compiled=False,
        )
    )
    return made


def _reductions() -> list[GpuWorkload]:
    count, side = 2**26, 8192
    whole, square, halves = normal((count,)), normal((side, side)), normal((side, side), dtype="bfloat16")
    # name, inputs, by Tenon, by PyTorch, bytes for each element
    rows: list[tuple[str, Any, Any, Any, int]] = [
        ("sum-64M", whole, lambda t: t.sum, lambda t: t.sum, 4),
        ("sum-rows-8192", square, lambda t: lambda x: t.sum(x, axis=1), lambda t: lambda x: x.sum(1), 4),
        ("sum-columns-8192", square, lambda t: lambda x: t.sum(x, axis=0), lambda t: lambda x: x.sum(0), 4),
        ("argmax-rows-8192", square, lambda t: lambda x: t.argmax(x, axis=1), lambda t: lambda x: x.argmax(1), 4),
        ("cumsum-rows-8192", square, lambda t: lambda x: t.cumsum(x, axis=1), lambda t: lambda x: x.cumsum(1), 8),
        ("cumsum-64M", whole, lambda t: lambda x: t.cumsum(x), lambda t: lambda x: x.cumsum(0), 8),
        ("transpose-8192-f32", square, _transposed, _torch_transposed, 8),
        ("transpose-8192-bf16", halves, _transposed, _torch_transposed, 4),
    ]
    return [
        GpuWorkload(name, "Reductions", inputs, ours, theirs, bytes=moved * count)
        for name, inputs, ours, theirs, moved in rows
    ]


def _transposed(tenon: Any) -> Function:
    return lambda x: tenon.transpose(x, (1, 0)) + 1


def _torch_transposed(torch: Any) -> Function:
    return lambda x: (x.t() + 1).contiguous()


def _product(name: str, m: int, n: int, k: int, dtype: str, batch: int = 0, form: str = "nn") -> GpuWorkload:
    lead = (batch,) if batch else ()
    left = (*lead, k, m) if form[0] == "t" else (*lead, m, k)
    right = (*lead, n, k) if form[1] == "t" else (*lead, k, n)
    rank = len(left)
    swapped = (*range(rank - 2), rank - 1, rank - 2)

    def ours(tenon: Any) -> Function:
        def function(x: Any, y: Any) -> Any:
            return (tenon.transpose(x, swapped) if form[0] == "t" else x) @ (
                tenon.transpose(y, swapped) if form[1] == "t" else y
            )

        return function

    def torchs(torch: Any) -> Function:
        return lambda x, y: (x.mT if form[0] == "t" else x) @ (y.mT if form[1] == "t" else y)

    times = max(batch, 1)
    return GpuWorkload(
        name,
        "Products",
        normal(left, right, dtype=dtype),
        ours,
        torchs,
        bytes=times * SIZES[dtype] * (m * k + k * n + m * n),
        operations=2 * times * m * n * k,
        kind=SHORT[dtype],
        compiled=False,
    )


def _linear(size: int) -> GpuWorkload:
    return GpuWorkload(
        f"linear-gelu-{size}-bf16",
        "Products",
        normal((size, size), (size, size), (size,), dtype="bfloat16"),
        lambda tenon: lambda x, w, b: tenon.gelu(x @ tenon.transpose(w, (1, 0)) + b),
        lambda torch: lambda x, w, b: torch.nn.functional.gelu(torch.nn.functional.linear(x, w, b)),
        bytes=6 * size * size,
        operations=2 * size**3,
        kind="bf16",
    )


def _products() -> list[GpuWorkload]:
    return [
        _product("matmul-1024-f32", 1024, 1024, 1024, "float32"),
        _product("matmul-4096-f32", 4096, 4096, 4096, "float32"),
        *[_product(f"matmul-{n}-bf16", n, n, n, "bfloat16") for n in (1024, 2048, 4096, 8192)],
        _product("matmul-4096-f16", 4096, 4096, 4096, "float16"),
        _product("matmul-4096-bf16-a-bt", 4096, 4096, 4096, "bfloat16", form="nt"),
        _product("matmul-4096-bf16-at-b", 4096, 4096, 4096, "bfloat16", form="tn"),
        _product("batched-64x1024x1024x64-bf16", 1024, 1024, 64, "bfloat16", 64, "nt"),
        _product("batched-64x1024x64x1024-bf16", 1024, 64, 1024, "bfloat16", 64),
        _product("batched-512x64x64x64-f32", 64, 64, 64, "float32", 512),
        _product("skinny-16x8192x8192-bf16", 16, 8192, 8192, "bfloat16"),
        _product("vector-1x8192x8192-bf16", 1, 8192, 8192, "bfloat16"),
        _product("vector-1x8192x8192-f32", 1, 8192, 8192, "float32", form="nt"),
        _product("deep-64x64x1M-f32", 64, 64, 2**20, "float32", form="tn"),
        _linear(4096),
    ]


def _attention(tokens: int, width: int, causal: bool, batch: int) -> list[GpuWorkload]:
    heads = 16
    shape = (batch, heads, tokens, width)
    name = f"attention-{batch}x{heads}x{tokens}x{width}{'-causal' if causal else ''}"
    bytes_ = 2 * batch * heads * tokens * width
    operations = 2 * bytes_ * tokens / (2 if causal else 1)

    def ours(tenon: Any) -> Function:
        return lambda q, k, v: tenon.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def torchs(torch: Any) -> Function:
        return lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return [
        GpuWorkload(
            f"{name}-bf16",
            "Attention",
            normal(shape, shape, shape, dtype="bfloat16"),
            ours,
            torchs,
            bytes=4 * bytes_,
            operations=operations,
            kind="bf16",
            compiled=False,
        ),
        GpuWorkload(  # with the forward pass: two products, and five that the gradients need
            f"{name}-gradients-bf16",
            "Attention",
            normal(shape, shape, shape, shape, dtype="bfloat16"),
            lambda tenon: _our_gradient(tenon, ours(tenon)),
            lambda torch: _with_gradient(torch, torchs(torch)),
            bytes=7 * bytes_,
            operations=3.5 * operations,
            kind="bf16",
            compiled=False,
        ),
    ]


def _convolution(
    name: str, images: int, channels: int, size: int, filters: int, side: int, dtype: str, stride: int = 1
) -> list[GpuWorkload]:
    padding = side // 2
    out = (size + 2 * padding - side) // stride + 1
    operations = 2 * images * filters * out * out * channels * side * side

    def ours(tenon: Any) -> Function:
        return lambda x, w: tenon.conv2d(x, w, stride=stride, padding=padding)

    def torchs(torch: Any) -> Function:
        return lambda x, w: torch.nn.functional.conv2d(x, w, None, stride, padding)

    shapes = (images, channels, size, size), (filters, channels, side, side), (images, filters, out, out)
    return [
        GpuWorkload(
            f"{name}-{SHORT[dtype]}",
            "Convolutions",
            normal(*shapes[:2], dtype=dtype),
            ours,
            torchs,
            operations=operations,
            kind=SHORT[dtype],
            compiled=False,
        ),
        GpuWorkload(
            f"{name}-gradients-{SHORT[dtype]}",
            "Convolutions",
            normal(*shapes, dtype=dtype),
            lambda tenon: _our_gradient(tenon, ours(tenon)),
            lambda torch: _with_gradient(torch, torchs(torch)),
            operations=2 * operations,
            kind=SHORT[dtype],
            compiled=False,
        ),
    ]


def _convolutions() -> list[GpuWorkload]:
    return [
        *_convolution("conv-3x3-32x64x56", 32, 64, 56, 64, 3, "bfloat16"),
        *_convolution("conv-1x1-32x256x56-to-64", 32, 256, 56, 64, 1, "bfloat16"),
        *_convolution("conv-3x3-32x64x56", 32, 64, 56, 64, 3, "float32"),
    ]


def _pooling() -> GpuWorkload:
    shape = (64, 64, 112, 112)
    return GpuWorkload(
        "max-pool-3x3-s2-64x64x112",
        "Convolutions",
        normal(shape),
        lambda tenon: lambda x: tenon.max_pool2d(x, 3, stride=2, padding=1),
        lambda torch: lambda x: torch.nn.functional.max_pool2d(x, 3, 2, 1),
        bytes=4 * 64 * 64 * (112 * 112 + 56 * 56),
        compiled=False,
    )


def _step(network: str) -> GpuWorkload:
    """A step of training by Adam, of a network that CPUs are measured by as well. Compiled, PyTorch replays a graph."""

    def ours(tenon: Any) -> Function:
        from benchmarks.networks import in_tenon

        return in_tenon.stepper(network, problem(network), device="cuda")

    def torchs(torch: Any, **settings: Any) -> Function:
        from benchmarks.networks import in_torch

        return in_torch.stepper(network, problem(network), device="cuda", **settings)

    return GpuWorkload(
        f"{network}-step-f32",
        "Training",
        normal(),
        ours,
        torchs,
        operations=operations(network),
        in_compiled_torch=lambda torch: torchs(torch, compiled=True),
        is_step=True,
    )


def _places(count: int, below: int) -> Callable[[Any], Any]:
    return lambda torch: torch.randint(0, below, (count,), device="cuda")


def _indices() -> list[GpuWorkload]:
    rows, width, places = 100_000, 64, 1_000_000
    return [
        GpuWorkload(
            "gather-1M-of-100000x64",
            "Indices",
            lambda torch: [torch.randn(rows, width, device="cuda"), _places(places, rows)(torch)],
            lambda tenon: lambda x, i: tenon.take(x, i, axis=0),
            lambda torch: lambda x, i: x[i],
            bytes=4 * (rows + places) * width + 8 * places,
            compiled=False,
        ),
        GpuWorkload(
            "scatter-add-1M-to-100000x64",
            "Indices",
            lambda torch: [torch.randn(places, width, device="cuda"), _places(places, rows)(torch)],
            lambda tenon: lambda x, i: tenon.zeros((rows, width)).at[i].add(x),
            lambda torch: lambda x, i: torch.zeros(rows, width, device="cuda", dtype=x.dtype).index_add_(0, i, x),
            bytes=4 * (rows + places) * width + 8 * places,
            compiled=False,
        ),
        GpuWorkload(
            "histogram-16M",
            "Indices",
            lambda torch: [_places(2**24, 256)(torch)],
            lambda tenon: lambda i: tenon.zeros((256,)).at[i].add(1.0),
            lambda torch: lambda i: torch.bincount(i, minlength=256).float(),
            bytes=8 * 2**24,
            compiled=False,
        ),
        GpuWorkload(
            "sort-10M-f32",
            "Indices",
            normal((10_000_000,)),
            lambda tenon: lambda x: tenon.sort(x),
            lambda torch: lambda x: x.sort().values,
            bytes=8 * 10_000_000,
            compiled=False,
        ),
        GpuWorkload(
            "sort-rows-1000x4096-f32",
            "Indices",
            normal((1000, 4096)),
            lambda tenon: lambda x: tenon.sort(x),
            lambda torch: lambda x: x.sort(-1).values,
            bytes=8 * 4096 * 1000,
            compiled=False,
        ),
        GpuWorkload(
            "topk-50-of-64x50257-f32",
            "Indices",
            normal((64, 50257)),
            lambda tenon: lambda x: tenon.top_k(x, 50)[0],
            lambda torch: lambda x: x.topk(50).values,
            bytes=4 * 64 * 50257,
            compiled=False,
        ),
    ]


WORKLOADS = (
    *_elementwise(),
    *_rows(),
    *_reductions(),
    *_products(),
    *_attention(1024, 64, False, 8),
    *_attention(4096, 64, False, 2),
    *_attention(4096, 128, True, 2),
    *_convolutions(),
    _pooling(),
    *_indices(),
    *map(_step, NETWORKS),
)
