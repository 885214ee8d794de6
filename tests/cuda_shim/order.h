// What each thread knows to be finished: vector clocks, and the last accesses to each granule of shared memory.
//
// A slot is a thread, or what performs asynchronous operations: the copies of a thread, the bulk stores of a thread,
// the matrix products of a warpgroup, the loads of an mbarrier. The time of an access is that of its slot: of a thread
// the number of its releases, else the number of the group or phase. An access is ordered after another if its actor
// knows that time of the other's slot. Barriers and arrivals join what is known, waits raise single slots.
// Accesses are judged when they are issued, so what is found hardly depends on the order in which fibers run.
#pragma once
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace tn_shim {

typedef uint32_t u32;
const unsigned int WARP = 32, MOST_THREADS = 1024;
const u32 NOWHERE = ~0u;

// ---------------------------------------------------------------------------------------------------------- findings

static std::string findings;
static std::map<std::string, int> found;
static uint3 position_of_block();

static std::string format(const char *text, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, text);
  vsnprintf(buffer, sizeof buffer, text, arguments);
  va_end(arguments);
  return buffer;
}

// The first finding of each name in a launch is told: later ones mostly follow from it.
static void find(const char *name, const std::string &what) {
  if (found[name]++) return;
  uint3 at = position_of_block();
  if (!findings.empty()) findings += "\n";
  findings += std::string(name) + format(" in block (%u, %u, %u): ", at.x, at.y, at.z) + what;
}

static std::string thread_name(u32 thread) { return format("thread %u", thread); }

// ------------------------------------------------------------------------------------------------------------ clocks

// Vectors grow when something is known: of most kernels they stay empty.
struct Clock {
  std::vector<u32> threads, fences, slots;

  static void join(std::vector<u32> &own, const std::vector<u32> &other) {
    if (own.size() < other.size()) own.resize(other.size());
    u32 *a = own.data();
    const u32 *b = other.data();
    for (size_t i = 0, n = other.size(); i < n; i++) a[i] = a[i] > b[i] ? a[i] : b[i];
  }
  static void meet(std::vector<u32> &own, const std::vector<u32> &other) {
    if (own.size() > other.size()) own.resize(other.size());
    for (size_t i = 0; i < own.size(); i++) own[i] = std::min(own[i], other[i]);
  }
  static u32 at(const std::vector<u32> &of, u32 index) { return index < of.size() ? of[index] : 0; }
  static void raise(std::vector<u32> &of, u32 index, u32 time) {
    if (index >= of.size()) of.resize(index + 1);
    of[index] = std::max(of[index], time);
  }
  void join(const Clock &other) {
    join(threads, other.threads);
    join(fences, other.fences);
    join(slots, other.slots);
  }
  void meet(const Clock &other) {
    meet(threads, other.threads);
    meet(fences, other.fences);
    meet(slots, other.slots);
  }
  void clear() {
    threads.clear();
    fences.clear();
    slots.clear();
  }
};

static u32 thread_count;
static std::vector<std::string> slot_names;  // of slots that are no threads, from `thread_count` on
static Clock common;                         // what all threads know since the last barrier of the block
static u32 barriers_passed;

static u32 new_slot(const std::string &name) {
  slot_names.push_back(name);
  return thread_count + (u32)slot_names.size() - 1;
}
static std::string slot_name(u32 slot) { return slot < thread_count ? thread_name(slot) : slot_names[slot - thread_count]; }

// Who accesses memory: `self` is the thread whose own accesses come before in any case.
struct Actor {
  u32 slot, time, self;
  const Clock *clock;
  bool asynchronous;  // through the async proxy: bulk copies and wgmma
  const char *what;

  bool knows(u32 other, u32 when) const {
    if (other < thread_count)
      return other == self || Clock::at(common.threads, other) >= when || Clock::at(clock->threads, other) >= when;
    u32 index = other - thread_count;
    return Clock::at(common.slots, index) >= when || Clock::at(clock->slots, index) >= when;
  }
  bool sees_fence(u32 other, u32 when) const {
    return Clock::at(common.fences, other) >= when || Clock::at(clock->fences, other) >= when;
  }
  std::string name() const { return std::string(what) + " of " + slot_name(slot); }
};

// ----------------------------------------------------------------------------------------------------- shared memory

enum Kind : uint8_t { NEVER, PLAIN, ATOMIC, ASYNC, BARRIER };

struct AsyncReader { u32 slot, time; };

struct Granule {
  u32 block;                   // the number of the block that this is about; of another one it counts as never written
  u32 time, epoch;             // of the last write, and how many barriers came before
  u32 read_epoch, read_time;   // reads since the last barrier: of one thread, or of all in `readers`
  uint16_t slot, reader;
  Kind kind;
  bool read;
  uint8_t layout;              // 1 + the swizzle of the bulk copy that wrote it
  u32 *readers;
  std::vector<AsyncReader> *async_readers;
};

static char *static_start;
static u32 static_bytes, dynamic_start, dynamic_bytes;
static char *dynamic_memory;
static std::vector<Granule> granules;
static std::vector<u32 *> spare_readers;
static std::vector<u32> touched;  // granules with memory of their own
static u32 block_number, granule_shift;

static u32 shared_address(const void *pointer) {
  size_t offset = (size_t)((char *)pointer - dynamic_memory);
  if (offset < dynamic_bytes) return dynamic_start + (u32)offset;
  offset = (size_t)((char *)pointer - static_start);
  return offset < static_bytes ? (u32)offset : NOWHERE;
}
static char *shared_pointer(u32 address) {
  return address >= dynamic_start ? dynamic_memory + (address - dynamic_start) : static_start + address;
}
static bool is_shared(u32 address, u32 bytes) {
  return address != NOWHERE && (uint64_t)address + bytes <= (address >= dynamic_start ? dynamic_start + dynamic_bytes : static_bytes);
}

// Elements of fewer bytes than a granule have neighbours that other threads write: look at smaller granules from now on.
static __attribute__((noinline)) void refine(u32 bytes) {
  u32 shift = bytes == 1 ? 0 : 1, parts = 1u << (granule_shift - shift);
  std::vector<Granule> finer(granules.size() * parts);
  touched.clear();
  for (size_t i = 0; i < finer.size(); i++) {
    Granule &to = finer[i] = granules[i / parts];
    if (to.block != block_number) continue;
    if (to.readers) {
      u32 *copy = (u32 *)malloc(MOST_THREADS * sizeof(u32));
      memcpy(copy, to.readers, thread_count * sizeof(u32));
      to.readers = copy;
    }
    if (to.async_readers) to.async_readers = new std::vector<AsyncReader>(*to.async_readers);
    if (to.readers || to.async_readers) touched.push_back((u32)i);
  }
  granules.swap(finer);
  granule_shift = shift;
}

static Granule &granule_at(u32 index) {
  Granule &granule = granules[index];
  if (granule.block != block_number) {
    memset((void *)&granule, 0, sizeof granule);
    granule.block = block_number;
  }
  return granule;
}

static void drop_readers(Granule &granule) {
  granule.read = false;
  if (granule.readers) spare_readers.push_back(granule.readers);
  granule.readers = 0;
}

static void release_granules() {
  for (u32 index : touched) {
    Granule &granule = granules[index];
    drop_readers(granule);
    delete granule.async_readers;
    granule.async_readers = 0;
  }
  touched.clear();
}

static void note_read(Granule &granule, u32 index, const Actor &actor) {
  if (actor.slot >= thread_count) {
    if (!granule.async_readers) {
      granule.async_readers = new std::vector<AsyncReader>;
      touched.push_back(index);
    }
    for (AsyncReader &reader : *granule.async_readers)
      if (reader.slot == actor.slot) {
        reader.time = std::max(reader.time, actor.time);
        return;
      }
    granule.async_readers->push_back({actor.slot, actor.time});
    return;
  }
  if (granule.read && granule.read_epoch != barriers_passed) drop_readers(granule);
  if (!granule.read) {
    granule.read = true;
    granule.read_epoch = barriers_passed;
    granule.reader = (uint16_t)actor.slot;
    granule.read_time = actor.time;
  } else if (granule.readers) {
    granule.readers[actor.slot] = actor.time;
  } else if (granule.reader == actor.slot) {
    granule.read_time = actor.time;
  } else {
    u32 *readers = spare_readers.empty() ? (u32 *)malloc(MOST_THREADS * sizeof(u32)) : spare_readers.back();
    if (!spare_readers.empty()) spare_readers.pop_back();
    memset(readers, 0, thread_count * sizeof(u32));
    readers[granule.reader] = granule.read_time;
    readers[actor.slot] = actor.time;
    granule.readers = readers;
    touched.push_back(index);
  }
}

// Whether the last write of a granule comes before what `actor` does, by a barrier of the block or by what it knows.
static bool follows_write(const Granule &granule, const Actor &actor) {
  return (granule.slot < thread_count && granule.epoch < barriers_passed) || actor.knows(granule.slot, granule.time);
}

static std::string place(u32 index) { return format("byte %u of shared memory", index << granule_shift); }

static void misses_fence(const Granule &granule, u32 index, const Actor &actor) {
  if (actor.asynchronous && (granule.kind == PLAIN || granule.kind == ATOMIC) && !actor.sees_fence(granule.slot, granule.time))
    find("proxy-fence", actor.name() + " reaches " + place(index) + " through the async proxy, which " + slot_name(granule.slot) +
         " wrote by ordinary stores: fence.proxy.async is missing between the store and the barrier");
}

static const char *order_name(const Granule &granule, const Actor &actor) {
  bool is_copy = granule.slot >= thread_count;
  return is_copy ? "copy-not-awaited" : actor.slot >= thread_count ? "store-not-awaited" : "race";
}

static void check_range(u32 bytes) {
  if (bytes < 1u << granule_shift) refine(bytes);
}

static void shared_read(u32 address, u32 bytes, const Actor &actor, bool atomic = false) {
  check_range(bytes);
  for (u32 index = address >> granule_shift, end = (address + bytes - 1) >> granule_shift; index <= end; index++) {
    Granule &granule = granule_at(index);
    if (granule.kind == NEVER)
      find("uninitialised", actor.name() + " reads " + place(index) + ", which nothing wrote");
    else if (!follows_write(granule, actor) && !(atomic && granule.kind == ATOMIC))
      find(order_name(granule, actor), actor.name() + " reads " + place(index) + ", which " + slot_name(granule.slot) +
           " writes; no barrier or wait is between");
    else
      misses_fence(granule, index, actor);
    if (!atomic) note_read(granule, index, actor);
  }
}

static void check_readers(Granule &granule, u32 index, const Actor &actor) {
  const char *why = "; no barrier or wait is between";
  if (granule.read && granule.read_epoch == barriers_passed) {
    for (u32 thread = 0; granule.readers && thread < thread_count; thread++)
      if (granule.readers[thread] && !actor.knows(thread, granule.readers[thread]))
        find(actor.slot < thread_count ? "race" : "overwritten-while-read",
             actor.name() + " writes " + place(index) + ", which " + thread_name(thread) + " reads" + why);
    if (!granule.readers && !actor.knows(granule.reader, granule.read_time))
      find(actor.slot < thread_count ? "race" : "overwritten-while-read",
           actor.name() + " writes " + place(index) + ", which " + thread_name(granule.reader) + " reads" + why);
  }
  if (granule.async_readers) {
    for (const AsyncReader &reader : *granule.async_readers)
      if (!actor.knows(reader.slot, reader.time))
        find("overwritten-while-read",
             actor.name() + " writes " + place(index) + ", which " + slot_name(reader.slot) + " may still read" + why);
    granule.async_readers->clear();
  }
}

static void shared_write(u32 address, u32 bytes, const Actor &actor, Kind kind, uint8_t layout = 0) {
  check_range(bytes);
  for (u32 index = address >> granule_shift, end = (address + bytes - 1) >> granule_shift; index <= end; index++) {
    Granule &granule = granule_at(index);
    if (granule.kind == BARRIER && kind != BARRIER)
      find("mbarrier-overwritten", actor.name() + " writes " + place(index) + ", part of an mbarrier");
    else if (granule.kind != NEVER && !(kind == ATOMIC && granule.kind == ATOMIC)) {
      if (!follows_write(granule, actor))
        find(order_name(granule, actor), actor.name() + " writes " + place(index) + ", which " + slot_name(granule.slot) +
             " writes, too; no barrier or wait is between");
      else
        misses_fence(granule, index, actor);
    }
    check_readers(granule, index, actor);
    drop_readers(granule);
    granule.kind = kind;
    granule.slot = (uint16_t)actor.slot;
    granule.time = actor.time;
    granule.epoch = barriers_passed;
    granule.layout = layout;
  }
}

}  // namespace tn_shim
