"""CUDA C++ that sorts tiles of rows by their digits of 8 bits, from the lowest one up.

A block has a tile, a thread several elements of it in registers: element `i` of lane `l` of a warp is `32 * i + l`
elements behind the first one of the warp. To order a tile by a digit, each warp goes through its elements in order, 32
at a time: a ballot for each bit of the digit tells a lane which others have the same value, so that their count is
advanced by one lane, once. With the counts of all warps and values added up, each element has its place, and goes there
by way of shared memory. Nothing depends on which warp comes first, and equal elements keep their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import Template
from typing import Any

from xdsl.ir import Attribute

from tenon.dialects.ops.order.ordering import Order
from tenon.dialects.types.types import bit_width

DIGIT_BITS = 8
VALUES = 1 << DIGIT_BITS

_TILE_BYTES = 32 << 10
"""Of the keys of a tile in shared memory: beside the counts of warps, what a block gets without asking."""
_LONGEST_TILE = 8192
_MOST_THREADS, _ITEMS, _AT_ONCE = 512, 16, 32
"""At most so many threads have so many elements each, of which a ballot sees so many: with more threads there are more
counts to add up, and with more elements a thread cannot hold them."""

_WORDS = {8: "unsigned char", 16: "unsigned short", 32: "unsigned int", 64: "unsigned long long"}


def longest_tile(element: Attribute) -> int:
    """How many elements a block sorts."""
    return min(_LONGEST_TILE, _TILE_BYTES * 8 // bit_width(element))


def digits_of(element: Attribute) -> int:
    """How many digits an element has."""
    return bit_width(element) // DIGIT_BITS


@dataclass(frozen=True)
class Tiles:
    """Rows of equal `length`, each in `number` tiles of nearly equal size."""

    rows: int
    length: int
    number: int

    @property
    def size(self) -> int:
        """Of the largest tile."""
        return -(-self.length // self.number)

    @property
    def threads(self) -> int:
        """Of a block."""
        return min(_MOST_THREADS, max(1, -(-self.size // (_ITEMS * _AT_ONCE))) * _AT_ONCE)

    @property
    def items(self) -> int:
        """Elements of a thread."""
        return max(1, -(-self.size // self.threads))

    @property
    def launch(self) -> tuple[int, int]:
        """Blocks, and threads of each."""
        return self.rows * self.number, self.threads


def _kernel(symbol: str, tiles: Tiles, element: Attribute, descending: bool, parameters: str, body: str) -> str:
    """The text of a kernel, with what `body` uses: `row`, `tile`, `first` and `size` (where the tile is in its row),
    and the functions of `_DEVICE`."""
    words = {
        "symbol": symbol,
        "key": _WORDS[bit_width(element)],
        "tiles": tiles.number,
        "length": tiles.length,
        "threads": tiles.threads,
        "items": tiles.items,
        "ordered": Order.of(element, descending).text(),
        "parameters": parameters,
        "body": body,
    }
    return Template(_DEVICE + _KERNEL).substitute(words)


_DEVICE = """
namespace ${symbol}_code {
typedef $key Key;
constexpr int TILES = $tiles, THREADS = $threads, ITEMS = $items, WARPS = THREADS / 32, VALUES = 256;
constexpr long long LENGTH = $length;

struct Counts {
  unsigned short of_warp[WARPS][VALUES];
  int first[VALUES];  // where in the tile elements with a value begin
};

__device__ __forceinline__ int digit_of(Key key, int shift) {
  return (int)(($ordered >> shift) & 255u);
}

// The place in the tile of element `item` of this thread, as it is loaded.
__device__ __forceinline__ int place_of(int item) {
  return ((int)threadIdx.x / 32 * ITEMS + item) * 32 + (int)threadIdx.x % 32;
}

// Where elements go, by one digit. What is beyond the tile is last before, and stays there.
__device__ __forceinline__ void find_targets(const Key (&keys)[ITEMS], int size, int shift, Counts &counts,
                                             int (&targets)[ITEMS]) {
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  for (int i = thread; i < WARPS * VALUES; i += THREADS) counts.of_warp[i / VALUES][i % VALUES] = 0;
  __syncthreads();
  unsigned short *own = counts.of_warp[warp];
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    const int digit = place_of(i) < size ? digit_of(keys[i], shift) : VALUES - 1;
    unsigned int same = 0xffffffffu;
#pragma unroll
    for (int bit = 0; bit < 8; bit++) {
      const bool is_set = (digit >> bit) & 1;
      const unsigned int set = __ballot_sync(0xffffffffu, is_set);
      same &= is_set ? set : ~set;
    }
    const int before = __popc(same & ((1u << lane) - 1u)), counted = own[digit];
    __syncwarp();
    if (before == 0) own[digit] = (unsigned short)(counted + __popc(same));
    __syncwarp();
    targets[i] = counted + before;
  }
  __syncthreads();
  for (int value = thread; value < VALUES; value += THREADS) {
    int sum = 0;
    for (int other = 0; other < WARPS; other++) {
      const int count = counts.of_warp[other][value];
      counts.of_warp[other][value] = (unsigned short)sum;
      sum += count;
    }
    counts.first[value] = sum;
  }
  __syncthreads();
  if (warp == 0) {
    int sums[VALUES / 32], sum = 0;
#pragma unroll
    for (int i = 0; i < VALUES / 32; i++) sum += sums[i] = counts.first[lane * (VALUES / 32) + i];
    int before = sum;
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = __shfl_up_sync(0xffffffffu, before, distance);
      if (lane >= distance) before += other;
    }
    before -= sum;
#pragma unroll
    for (int i = 0; i < VALUES / 32; i++) {
      counts.first[lane * (VALUES / 32) + i] = before;
      before += sums[i];
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    const int digit = place_of(i) < size ? digit_of(keys[i], shift) : VALUES - 1;
    targets[i] += counts.first[digit] + own[digit];
  }
}

// Puts `values` in order in shared memory.
template <class T>
__device__ __forceinline__ void put(const T (&values)[ITEMS], const int (&targets)[ITEMS], void *shared) {
  __syncthreads();
#pragma unroll
  for (int i = 0; i < ITEMS; i++) ((T *)shared)[targets[i]] = values[i];
  __syncthreads();
}

template <class T> __device__ __forceinline__ void take(T (&values)[ITEMS], const void *shared) {
#pragma unroll
  for (int i = 0; i < ITEMS; i++) values[i] = ((const T *)shared)[place_of(i)];
}

template <class T> __device__ __forceinline__ void load(T (&values)[ITEMS], const T *source, int size) {
#pragma unroll
  for (int i = 0; i < ITEMS; i++) values[i] = place_of(i) < size ? source[place_of(i)] : T(0);
}
}  // namespace
"""

_KERNEL = """
extern "C" __global__ __launch_bounds__($threads) void $symbol($parameters) {
  using namespace ${symbol}_code;
  const int thread = threadIdx.x, row = (int)(blockIdx.x / TILES), tile = (int)(blockIdx.x % TILES);
  const int first = (int)(tile * LENGTH / TILES), size = (int)((tile + 1) * LENGTH / TILES) - first;
$body
}
"""


def sort_code(symbol: str, tiles: Tiles, element: Attribute, settings: dict[str, Any]) -> str:
    body = f"""
  __shared__ Counts counts;
  __shared__ Key shared[ITEMS * THREADS];
  Key keys[ITEMS];
  int targets[ITEMS];
  load(keys, x + row * LENGTH, size);
#pragma unroll 1
  for (int shift = 0; shift < {DIGIT_BITS * digits_of(element)}; shift += {DIGIT_BITS}) {{
    find_targets(keys, size, shift, counts, targets);
    put(keys, targets, shared);
    take(keys, shared);
  }}
  for (int i = thread; i < size; i += THREADS) result[row * LENGTH + i] = shared[i];"""
    parameters = f"const {symbol}_code::Key *x, {symbol}_code::Key *result"
    return _kernel(symbol, tiles, element, settings["descending"], parameters, body)


def argsort_code(symbol: str, tiles: Tiles, element: Attribute, settings: dict[str, Any]) -> str:
    body = f"""
  __shared__ Counts counts;
  alignas(16) __shared__ unsigned char shared[ITEMS * THREADS * (sizeof(Key) < 2 ? 2 : sizeof(Key))];
  Key keys[ITEMS];
  unsigned short places[ITEMS];
  int targets[ITEMS];
  load(keys, x + row * LENGTH + first, size);
#pragma unroll
  for (int i = 0; i < ITEMS; i++) places[i] = (unsigned short)place_of(i);
#pragma unroll 1
  for (int shift = 0; shift < {DIGIT_BITS * digits_of(element)}; shift += {DIGIT_BITS}) {{
    find_targets(keys, size, shift, counts, targets);
    put(keys, targets, shared);
    take(keys, shared);
    put(places, targets, shared);
    take(places, shared);
  }}
  const unsigned short *ordered = (const unsigned short *)shared;
  for (int i = thread; i < {settings["k"]}; i += THREADS)
    result[(long long)blockIdx.x * {settings["k"]} + i] = first + ordered[i];"""
    parameters = f"const {symbol}_code::Key *x, long long *result"
    return _kernel(symbol, tiles, element, settings["descending"], parameters, body)


def count_code(symbol: str, tiles: Tiles, element: Attribute, settings: dict[str, Any]) -> str:
    body = f"""
  __shared__ int counts[WARPS][VALUES];
  for (int i = thread; i < WARPS * VALUES; i += THREADS) counts[i / VALUES][i % VALUES] = 0;
  __syncthreads();
  x += row * LENGTH + first;
  for (int i = thread; i < size; i += THREADS)
    atomicAdd(&counts[thread / 32][digit_of(x[i], {DIGIT_BITS * settings["digit"]})], 1);
  __syncthreads();
  for (int value = thread; value < VALUES; value += THREADS) {{
    int sum = 0;
    for (int warp = 0; warp < WARPS; warp++) sum += counts[warp][value];
    result[((long long)row * VALUES + value) * TILES + tile] = sum;
  }}"""
    parameters = f"const {symbol}_code::Key *x, int *result"
    return _kernel(symbol, tiles, element, settings["descending"], parameters, body)


def move_code(
    symbol: str, tiles: Tiles, element: Attribute, settings: dict[str, Any], *, with_places: bool = False
) -> str:
    places = (
        """
  int places[ITEMS];
  load(places, from_places + row * LENGTH + first, size);"""
        if with_places
        else ""
    )
    move_places = (
        """
  put(places, targets, shared);
#pragma unroll
  for (int i = 0; i < ITEMS; i++)
    if (i * THREADS + thread < size)
      to_places[row * LENGTH + to[i]] = ((const int *)shared)[i * THREADS + thread];"""
        if with_places
        else ""
    )
    body = f"""
  __shared__ Counts counts;
  __shared__ int offsets[VALUES];
  alignas(16) __shared__ unsigned char shared[ITEMS * THREADS * (sizeof(Key) < 4 ? 4 : sizeof(Key))];
  Key keys[ITEMS];
  int targets[ITEMS];
  load(keys, x + row * LENGTH + first, size);{places}
  constexpr int SHIFT = {DIGIT_BITS * settings["digit"]};
  find_targets(keys, size, SHIFT, counts, targets);
  for (int value = thread; value < VALUES; value += THREADS)
    offsets[value] = starts[((long long)row * VALUES + value) * TILES + tile] - counts.first[value];
  put(keys, targets, shared);
  int to[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {{
    const int at = i * THREADS + thread;
    if (at < size) {{
      const Key key = ((const Key *)shared)[at];
      to[i] = offsets[digit_of(key, SHIFT)] + at;
      result[row * LENGTH + to[i]] = key;
    }}
  }}{move_places}"""
    key = f"{symbol}_code::Key"
    given, written = ("const int *from_places, ", ", int *to_places") if with_places else ("", "")
    parameters = f"const {key} *x, {given}const int *starts, {key} *result{written}"
    return _kernel(symbol, tiles, element, settings["descending"], parameters, body)
