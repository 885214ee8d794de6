// Global memory: the buffers that kernels may touch, and what warps ask of memory, counted.
//
// An access counts as one request of a warp together with those that other lanes make at the same place of the code,
// as often as they came there before. A request moves sectors of 32 bytes of global memory, or takes as many turns as
// the most words that one of the 32 banks of shared memory has to give.
#pragma once
#include <set>
#include <tuple>

namespace tn_shim {

// The last write and the last read of a piece of a buffer in this launch.
struct Trace {
  u32 write_block, write_time, write_epoch, read_block, read_time, read_epoch;  // blocks by number; 0: none
  uint16_t writer, reader;
  bool atomic;
};

struct Buffer {
  char *start;
  size_t bytes, guarded;         // up to `guarded` bytes, an access that starts here meant this buffer
  std::vector<bool> read, written;
  u32 piece;                     // bytes that a trace is about: 4, or 1 where elements are smaller
  std::vector<Trace> traces;
};

static std::vector<Buffer> buffers;
static size_t last_buffer;
static bool counting;

enum Space : uint8_t { GLOBAL, SHARED };

struct Access {
  u32 thread, occurrence;
  const void *code;
  uint64_t address;
  uint8_t bytes;
  bool write;
  Space space;
};

// Named as in `Counters` of the Python side, in this order.
struct Counters {
  uint64_t load_requests, load_sectors, load_bytes, store_requests, store_sectors, store_bytes;
  uint64_t shared_requests, shared_turns, shared_least_turns;
  uint64_t read_bytes, written_bytes;  // of global memory, each byte once
  uint64_t copied_bytes;               // by cp.async and bulk copies, between global and shared memory
  uint64_t tensor_operations;          // multiplications and additions of matrix instructions
  uint64_t barriers;
};

static Counters counters;
static std::vector<Access> accesses;

static Buffer *buffer_of(const void *pointer) {
  for (size_t i = 0, n = buffers.size(); i < n; i++) {
    size_t candidate = i ? (last_buffer + i) % n : last_buffer;
    if ((size_t)((char *)pointer - buffers[candidate].start) < buffers[candidate].guarded) {
      last_buffer = candidate;
      return &buffers[candidate];
    }
  }
  return 0;
}

static void note(const void *code, Space space, uint64_t address, u32 bytes, bool write) {
  if (counting) accesses.push_back({current->number, 0, code, address, (uint8_t)bytes, write, space});
}

// Blocks run in any order, so what two of them do to one place is a race whatever the order was here; unless a fence of
// the device says that the kernel orders blocks itself, by counters, which is not modelled.
static u32 first_block;
static bool blocks_ordered;

static bool comes_before(u32 block, u32 thread, u32 time, u32 epoch) {
  if (block <= first_block) return true;  // an earlier launch, or none
  if (block != block_number) return blocks_ordered;
  return thread == current->number || epoch < barriers_passed || plain("").knows(thread, time);
}

static void trace(Buffer &buffer, size_t offset, u32 bytes, bool write, bool atomic) {
  if (buffer.traces.empty()) {
    buffer.piece = 4;
    buffer.traces.resize(buffer.guarded / 4 + 1);
  }
  if (buffer.piece > 1 && (bytes < 4 || offset % 4)) {
    std::vector<Trace> finer(buffer.guarded + 4);
    for (size_t i = 0; i < buffer.guarded; i++) finer[i] = buffer.traces[i / 4];
    buffer.traces.swap(finer);
    buffer.piece = 1;
  }
  Fiber &fiber = self();
  for (size_t i = offset / buffer.piece; i <= (offset + bytes - 1) / buffer.piece && i < buffer.traces.size(); i++) {
    Trace &last = buffer.traces[i];
    const char *what = write ? "writes" : "reads";
    if (!(atomic && last.atomic) && !comes_before(last.write_block, last.writer, last.write_time, last.write_epoch))
      find("global-race", thread_name(fiber.number) + format(" %s byte %zu of a buffer of %zu, which thread %u%s writes; nothing orders them",
           what, i * buffer.piece, buffer.bytes, last.writer, last.write_block == block_number ? "" : " of another block"));
    if (!write) {
      last.read_block = block_number, last.read_time = fiber.time, last.read_epoch = barriers_passed;
      last.reader = (uint16_t)fiber.number;
      continue;
    }
    if (!atomic && !comes_before(last.read_block, last.reader, last.read_time, last.read_epoch))
      find("global-race", thread_name(fiber.number) + format(" writes byte %zu of a buffer of %zu, which thread %u%s reads; nothing orders them",
           i * buffer.piece, buffer.bytes, last.reader, last.read_block == block_number ? "" : " of another block"));
    last.write_block = block_number, last.write_time = fiber.time, last.write_epoch = barriers_passed;
    last.writer = (uint16_t)fiber.number, last.atomic = atomic;
  }
}

static void touch(const void *pointer, u32 bytes, bool write) {
  Buffer *buffer = buffer_of(pointer);
  if (!buffer) return;
  size_t offset = (size_t)((char *)pointer - buffer->start);
  if (offset + bytes > buffer->bytes)
    find("global-range", thread_name(current->number) + format(" accesses bytes %zu to %zu of a buffer of %zu", offset, offset + bytes, buffer->bytes));
  if (!counting) return;
  std::vector<bool> &map = write ? buffer->written : buffer->read;
  if (map.empty()) map.resize(buffer->guarded);
  for (u32 i = 0; i < bytes; i++) {
    size_t byte = offset + i;
    if (byte < buffer->bytes && !map[byte]) {
      map[byte] = true;
      (write ? counters.written_bytes : counters.read_bytes)++;
    }
  }
}

static void global_access(const void *code, const void *pointer, u32 bytes, bool write, bool atomic = false) {
  touch(pointer, bytes, write);
  if (Buffer *buffer = buffer_of(pointer)) trace(*buffer, (size_t)((char *)pointer - buffer->start), bytes, write, atomic);
  if (counting && buffer_of(pointer)) note(code, GLOBAL, (uint64_t)pointer, bytes, write);
}

static void account_global(const Access *first, const Access *last) {
  std::set<uint64_t> sectors;
  std::set<std::pair<uint64_t, u32>> places;
  for (const Access *a = first; a != last; a++) {
    for (uint64_t sector = a->address / 32; sector <= (a->address + a->bytes - 1) / 32; sector++) sectors.insert(sector);
    places.insert({a->address, a->bytes});
  }
  uint64_t bytes = 0;
  for (auto &place : places) bytes += place.second;
  (first->write ? counters.store_requests : counters.load_requests)++;
  (first->write ? counters.store_sectors : counters.load_sectors) += sectors.size();
  (first->write ? counters.store_bytes : counters.load_bytes) += bytes;
}

// Lanes take turns by 128 bytes: all of them, halves or quarters of the warp; in a turn each bank gives one word.
static void account_shared(const Access *first, const Access *last) {
  u32 lanes = WARP * 4 / std::max<u32>(4, first->bytes);
  counters.shared_requests++;
  std::map<u32, std::map<u32, std::set<uint64_t>>> words;
  for (const Access *a = first; a != last; a++)
    for (uint64_t word = a->address / 4; word <= (a->address + a->bytes - 1) / 4; word++)
      words[a->thread % WARP / lanes][word % 32].insert(word);
  for (auto &part : words) {
    size_t most = 0;
    for (auto &bank : part.second) most = std::max(most, bank.second.size());
    counters.shared_turns += most;
    counters.shared_least_turns++;
  }
}

static void account_block() {
  std::map<std::pair<u32, const void *>, u32> times;
  for (Access &access : accesses) access.occurrence = times[{access.thread, access.code}]++;
  auto key = [](const Access &a) { return std::make_tuple(a.thread / WARP, a.code, a.occurrence, a.space, a.write, a.bytes); };
  std::stable_sort(accesses.begin(), accesses.end(), [&](const Access &a, const Access &b) { return key(a) < key(b); });
  for (size_t i = 0, end; i < accesses.size(); i = end) {
    for (end = i; end < accesses.size() && key(accesses[end]) == key(accesses[i]);) end++;
    (accesses[i].space == SHARED ? account_shared : account_global)(&accesses[i], &accesses[0] + end);
  }
  accesses.clear();
}

}  // namespace tn_shim
