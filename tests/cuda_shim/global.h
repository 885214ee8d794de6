// Global memory: the buffers that kernels may touch, and what warps ask of memory, counted.
//
// An access counts as one request of a warp together with those that other lanes make at the same place of the code,
// as often as they came there before. A request moves sectors of 32 bytes of global memory, or takes as many turns as
// the most words that one of the 32 banks of shared memory has to give.
#pragma once
#include <set>
#include <tuple>

namespace tn_shim {

struct Buffer {
  char *start;
  size_t bytes, guarded;         // up to `guarded` bytes, an access that starts here meant this buffer
  std::vector<bool> read, written;
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

static void global_access(const void *code, const void *pointer, u32 bytes, bool write) {
  touch(pointer, bytes, write);
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
