"""CUDA C++ that combines runs of updates of one place, of which a thread has neighbouring elements of a row.

The numbers of updates are sorted by their places, in `order`; those of a place are a run. They are combined in this
order, four at a time being loaded, so that results are the same from launch to launch. Where a run has all of a block
of `length` numbers, the block is combined before, by threads of its own (`near`), and so are `length` of such blocks
(`far`): nobody goes through more than a few times `length` rows, whatever the runs are.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import Template

from xdsl.ir import Attribute

from tenon.dialects.types.types import bf16, bit_width, f16, f32, f64

THREADS = 256
_LOAD_BYTES = 16

ACCUMULATORS: dict[Attribute, str] = {f16: "float", bf16: "float", f32: "float", f64: "double"}
_ELEMENTS: dict[Attribute, str] = {f16: "tn_f16", bf16: "tn_bf16", f32: "float", f64: "double"}
_TO_SUM: dict[Attribute, str] = {f16: "tn_f16_to_f32(x)", bf16: "tn_bf16_to_f32(x)"}
_FROM_SUM: dict[Attribute, str] = {f16: "tn_f32_to_f16(x)", bf16: "tn_f32_to_bf16(x)"}
COMBINATIONS = {
    "add": "a + b",
    "multiply": "a * b",
    "maximum": "a != a ? a : a > b ? a : b",
    "minimum": "a != a ? a : a < b ? a : b",
}
"""By the names of ops; of extremes as `legalize-arith` writes them, where the later of equal zeros stays."""


@dataclass(frozen=True)
class Runs:
    """`updates` of `columns` elements each, to one of `rows`, in blocks of `length`."""

    rows: int
    columns: int
    updates: int
    length: int
    element: Attribute
    combine: str

    @property
    def width(self) -> int:
        """Elements of a thread: what one instruction loads, of all accumulators and elements."""
        width = _LOAD_BYTES * 8 // bit_width(f64 if self.element == f64 else f32)
        while self.columns % width:
            width //= 2
        return width

    @property
    def near(self) -> int:
        """Blocks of `length` updates."""
        return self.updates // self.length

    @property
    def far(self) -> int:
        """Blocks of `length` of these."""
        return self.near // self.length

    def launch(self, number: int) -> tuple[int, int]:
        """Blocks, and threads of each, for so many rows."""
        return max(1, -(-number * (self.columns // self.width) // THREADS)), THREADS

    def text(self, symbol: str, parameters: str, number: int, body: str) -> str:
        """A kernel with the body of the thread that has `column` of `row`, one of `number`."""
        words = {
            "symbol": symbol,
            "element": _ELEMENTS[self.element],
            "sum": ACCUMULATORS[self.element],
            "to_sum": _TO_SUM.get(self.element, "x"),
            "from_sum": _FROM_SUM.get(self.element, "x"),
            "combine": COMBINATIONS[self.combine],
            "width": self.width,
            "columns": self.columns,
            "threads": THREADS,
            "parameters": parameters,
            "number": number,
            "length": self.length,
            "body": body,
        }
        return Template(_TEXT).substitute(words)


_TEXT = """
namespace ${symbol}_code {
typedef $element Element;
typedef $sum Sum;
constexpr int WIDTH = $width, LENGTH = $length, AT_ONCE = 4;
constexpr long long COLUMNS = $columns;
typedef tn_vector<Element, WIDTH> Elements;
typedef tn_vector<Sum, WIDTH> Sums;

__device__ __forceinline__ Sum to_sum(Element x) { return $to_sum; }
__device__ __forceinline__ Element from_sum(Sum x) { return $from_sum; }
__device__ __forceinline__ Sum combine(Sum a, Sum b) { return $combine; }

struct Updates {
  const int *order;
  const Element *from;
  __device__ __forceinline__ Sums load(int number) const {
    const Elements found = tn_load<Elements>(from + order[number] * COLUMNS);
    Sums sums;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) sums.elements[i] = to_sum(found.elements[i]);
    return sums;
  }
};

struct Totals {
  const Sum *from;
  __device__ __forceinline__ Sums load(int number) const { return tn_load<Sums>(from + number * COLUMNS); }
};

__device__ __forceinline__ void combine(Sums &sums, const Sums &found) {
#pragma unroll
  for (int i = 0; i < WIDTH; i++) sums.elements[i] = combine(sums.elements[i], found.elements[i]);
}

// Combines `sums` with what is at first, ..., last - 1, in this order.
template <class Source>
__device__ __forceinline__ void combine_all(Sums &sums, const Source &source, int first, int last) {
  for (; first + AT_ONCE <= last; first += AT_ONCE) {
    Sums found[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) found[i] = source.load(first + i);
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) combine(sums, found[i]);
  }
  for (; first < last; first++) combine(sums, source.load(first));
}

// The first block that begins at `number` or behind.
__device__ __forceinline__ int block_from(int number) { return (number + LENGTH - 1) / LENGTH; }
}  // namespace

extern "C" __global__ __launch_bounds__($threads) void $symbol($parameters) {
  using namespace ${symbol}_code;
  const long long number = (long long)blockIdx.x * $threads + threadIdx.x;
  const int row = (int)(number / (COLUMNS / WIDTH)), column = (int)(number % (COLUMNS / WIDTH)) * WIDTH;
  if (row >= $number) return;
$body
}
"""


def near_code(symbol: str, runs: Runs) -> str:
    """`near` from `places`, `order` and `updates`: blocks that are part of one run, no others."""
    body = f"""
  if (places[row * LENGTH] != places[row * LENGTH + LENGTH - 1] || places[row * LENGTH] >= {runs.rows}) return;
  const Updates source = {{order, updates + column}};
  Sums sums = source.load(row * LENGTH);
  combine_all(sums, source, row * LENGTH + 1, row * LENGTH + LENGTH);
  tn_store<Sums>(result + row * COLUMNS + column, sums);"""
    code = f"{symbol}_code"
    parameters = f"const int *places, const int *order, const {code}::Element *updates, {code}::Sum *result"
    return runs.text(symbol, parameters, runs.near, body)


def far_code(symbol: str, runs: Runs) -> str:
    """`far` from `places` and `near`."""
    body = f"""
  const int first = places[row * LENGTH * LENGTH], last = places[(row + 1) * LENGTH * LENGTH - 1];
  if (first != last || first >= {runs.rows}) return;
  const Totals source = {{near + column}};
  Sums sums = source.load(row * LENGTH);
  combine_all(sums, source, row * LENGTH + 1, row * LENGTH + LENGTH);
  tn_store<Sums>(result + row * COLUMNS + column, sums);"""
    code = f"{symbol}_code"
    return runs.text(symbol, f"const int *places, const {code}::Sum *near, {code}::Sum *result", runs.far, body)


def run_code(symbol: str, runs: Runs, *, is_one: bool) -> str:
    """The result from `x`, one number for all elements where it `is_one`, `starts`, `order`, `updates`, `near` and
    `far`."""
    start = "x[0]" if is_one else "before.elements[i]"
    before = "" if is_one else "\n  const Elements before = tn_load<Elements>(x + row * COLUMNS + column);"
    body = f"""
  const int first = starts[row], last = starts[row + 1];{before}
  Sums sums;
#pragma unroll
  for (int i = 0; i < WIDTH; i++) sums.elements[i] = to_sum({start});
  const Updates single = {{order, updates + column}};
  const Totals near_blocks = {{near + column}}, far_blocks = {{far + column}};
  const int near_first = block_from(first), near_last = last / LENGTH;
  if (near_first >= near_last) {{
    combine_all(sums, single, first, last);
  }} else {{
    combine_all(sums, single, first, near_first * LENGTH);
    const int far_first = block_from(near_first), far_last = near_last / LENGTH;
    if (far_first >= far_last) {{
      combine_all(sums, near_blocks, near_first, near_last);
    }} else {{
      combine_all(sums, near_blocks, near_first, far_first * LENGTH);
      combine_all(sums, far_blocks, far_first, far_last);
      combine_all(sums, near_blocks, far_last * LENGTH, near_last);
    }}
    combine_all(sums, single, near_last * LENGTH, last);
  }}
  Elements after;
#pragma unroll
  for (int i = 0; i < WIDTH; i++) after.elements[i] = from_sum(sums.elements[i]);
  tn_store<Elements>(result + row * COLUMNS + column, after);"""
    code = f"{symbol}_code"
    parameters = (
        f"const {code}::Element *x, const int *starts, const int *order, const {code}::Element *updates, "
        f"const {code}::Sum *near, const {code}::Sum *far, {code}::Element *result"
    )
    return runs.text(symbol, parameters, runs.rows, body)
