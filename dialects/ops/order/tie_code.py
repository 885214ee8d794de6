"""LLVM IR that breaks the ties of sorted rows (`partition.break_ties`): what is tied is packed anew, its lowest bits
above its index, and sorted in place by the sorter of the runtime, unless it is in order already."""

from __future__ import annotations

from string import Template


def tie_code(symbol: str, rows: int, size: int, place_bits: int) -> str:
    """The function `symbol` for `rows` of `size` keys, above an index of `place_bits` bits."""
    return _CODE.substitute(symbol=symbol, rows=rows, size=size, place_bits=place_bits, in_place=(1 << place_bits) - 1)


_CODE = Template("""
declare void @tenon_sort_64(ptr, ptr, i64, i64, i64, i64, i64)
define void @$symbol(ptr %all_sorted, ptr %all_keys, ptr %shifts, ptr %all_places) {
entry:
  br label %rows
rows:
  %row = phi i64 [0, %entry], [%next_row, %row_done]
  %more_rows = icmp slt i64 %row, $rows
  br i1 %more_rows, label %row_start, label %exit
row_start:
  %start = mul i64 %row, $size
  %sorted = getelementptr i64, ptr %all_sorted, i64 %start
  %keys = getelementptr i64, ptr %all_keys, i64 %start
  %places = getelementptr i64, ptr %all_places, i64 %start
  %shift_at = getelementptr i64, ptr %shifts, i64 %row
  %shift = load i64, ptr %shift_at
  %unit = shl i64 1, %shift
  %lower = sub i64 %unit, 1
  %is_whole = icmp eq i64 %shift, 0
  br label %runs
runs:
  %first = phi i64 [0, %row_start], [%end, %run_done]
  %more = icmp slt i64 %first, $size
  br i1 %more, label %run, label %row_done
run:
  %sorted_at = getelementptr i64, ptr %sorted, i64 %first
  %value = load i64, ptr %sorted_at
  %upper = lshr i64 %value, $place_bits
  %behind = add i64 %first, 1
  br label %find
find:
  %end = phi i64 [%behind, %run], [%further, %equal]
  %inside = icmp slt i64 %end, $size
  br i1 %inside, label %look, label %found
look:
  %other_at = getelementptr i64, ptr %sorted, i64 %end
  %other = load i64, ptr %other_at
  %other_upper = lshr i64 %other, $place_bits
  %is_other = icmp ne i64 %other_upper, %upper
  %is_end = or i1 %is_other, %is_whole
  br i1 %is_end, label %found, label %equal
equal:
  %further = add i64 %end, 1
  br label %find
found:
  %target = getelementptr i64, ptr %places, i64 %first
  %is_single = icmp eq i64 %end, %behind
  br i1 %is_single, label %single, label %tie
single:
  %only = and i64 %value, $in_place
  store i64 %only, ptr %target
  br label %run_done
tie:
  %i = phi i64 [%first, %found], [%next, %tie]
  %before = phi i64 [0, %found], [%packed, %tie]
  %so_far = phi i1 [true, %found], [%is_sorted, %tie]
  %tied_at = getelementptr i64, ptr %sorted, i64 %i
  %tied = load i64, ptr %tied_at
  %place = and i64 %tied, $in_place
  %key_at = getelementptr i64, ptr %keys, i64 %place
  %key = load i64, ptr %key_at
  %rest = and i64 %key, %lower
  %moved = shl i64 %rest, $place_bits
  %packed = or i64 %moved, %place
  %packed_at = getelementptr i64, ptr %places, i64 %i
  store i64 %packed, ptr %packed_at
  %is_behind = icmp uge i64 %packed, %before
  %is_sorted = and i1 %so_far, %is_behind
  %next = add i64 %i, 1
  %more_tied = icmp slt i64 %next, %end
  br i1 %more_tied, label %tie, label %tied_row
tied_row:
  br i1 %is_sorted, label %unpack, label %sort
sort:
  %count = sub i64 %end, %first
  call void @tenon_sort_64(ptr %target, ptr %target, i64 1, i64 %count, i64 0, i64 -1, i64 0)
  br label %unpack
unpack:
  %j = phi i64 [%first, %sort], [%first, %tied_row], [%next_j, %unpack]
  %at = getelementptr i64, ptr %places, i64 %j
  %broken = load i64, ptr %at
  %its_place = and i64 %broken, $in_place
  store i64 %its_place, ptr %at
  %next_j = add i64 %j, 1
  %more_j = icmp slt i64 %next_j, %end
  br i1 %more_j, label %unpack, label %run_done
run_done:
  br label %runs
row_done:
  %next_row = add i64 %row, 1
  br label %rows
exit:
  ret void
}
""")
