// Barriers of the block, of warps, named ones, and mbarriers: who waits, and what passing them lets a thread know.
#pragma once

namespace tn_shim {

struct Barrier {
  u32 waiting, members, generation;
  Clock clocks[2];  // alternately, as those who leave slowly still take the one before

  // What the threads of this generation bring and take.
  Clock &clock() {
    Clock &own = clocks[generation % 2];
    if (!waiting) own.clear();
    return own;
  }
};

struct Warp {
  Barrier barrier;              // of __syncwarp, which orders memory
  Barrier exchange;             // of shuffles and matrix instructions, which do not
  uint64_t values[2][WARP];     // alternately, so that the next exchange cannot overtake a slow reader
  uint64_t registers[2][WARP][6];  // of 4 or of 8 bytes
  const char *rows[2][WARP];
};

const u32 NAMED_BARRIERS = 16;

static Barrier block_barrier, named[NAMED_BARRIERS];
static std::vector<Warp> warps;

static Warp &own_warp() { return warps[current->number / WARP]; }
static u32 first_of_warp() { return current->number / WARP * WARP; }

// Everybody is here, or has ended: each knows what all did before.
static void open_block_barrier() {
  common.threads.resize(thread_count);
  bool fenced = !common.fences.empty(), slots = false;
  for (const Fiber &fiber : fibers) {
    fenced |= fiber.fence_time > 0;
    slots |= !fiber.clock.slots.empty();
  }
  if (fenced && common.fences.size() < thread_count) common.fences.resize(thread_count);
  for (Fiber &fiber : fibers) {
    common.threads[fiber.number] = fiber.time;
    if (fenced) Clock::raise(common.fences, fiber.number, fiber.fence_time);
    if (slots) Clock::join(common.slots, fiber.clock.slots);
    if (!fiber.clock.fences.empty()) Clock::join(common.fences, fiber.clock.fences);
    fiber.time++;
    if (!fiber.clock.threads.empty()) fiber.clock.threads.clear();
  }
  block_barrier.waiting = 0;
  block_barrier.generation++;
  barriers_passed++;
}

static void open_if_complete(Barrier &barrier) {
  if (!barrier.waiting || barrier.waiting < barrier.members) return;
  if (&barrier == &block_barrier) return open_block_barrier();
  barrier.waiting = 0;
  barrier.generation++;
}

static void arrive_and_wait(Barrier &barrier) {
  u32 generation = barrier.generation;
  barrier.waiting++;
  open_if_complete(barrier);
  if (barrier.generation == generation) wait(AT_BARRIER, &barrier, generation);
}

// A barrier of fewer threads than the block: its clock is what they all bring, and what each takes.
static void release_into(Clock &clock) {
  clock.join(known());
  self().time++;
}

void sync_threads() { arrive_and_wait(block_barrier); }

void sync_warp(unsigned int) {
  Barrier &barrier = own_warp().barrier;
  Clock &clock = barrier.clock();
  release_into(clock);
  arrive_and_wait(barrier);
  self().clock.join(clock);
}

// A rendezvous of the warp; returns which of the two sets of slots this exchange has.
static u32 meet_warp() {
  u32 set = own_warp().exchange.generation % 2;
  arrive_and_wait(own_warp().exchange);
  return set;
}

uint64_t exchange_bits(uint64_t bits, unsigned int source) {
  Warp &warp = own_warp();
  warp.values[warp.exchange.generation % 2][current->number % WARP] = bits;
  return warp.values[meet_warp()][source % WARP];
}

unsigned int ballot(unsigned int mask, bool predicate) {
  Warp &warp = own_warp();
  warp.values[warp.exchange.generation % 2][current->number % WARP] = predicate;
  u32 set = meet_warp(), result = 0, live = std::min(WARP, thread_count - first_of_warp());
  for (u32 lane = 0; lane < live; lane++)
    if (mask >> lane & 1 && warp.values[set][lane]) result |= 1u << lane;
  return result;
}

void named_barrier(unsigned int number, unsigned int threads, bool waits) {
  if (number >= NAMED_BARRIERS || threads % WARP || !threads)
    return find("barrier-count", format("named barrier %u of %u threads: expected one below 16 and whole warps", number, threads));
  Barrier &barrier = named[number];
  if (!barrier.waiting) barrier.members = threads;
  if (barrier.members != threads)
    find("barrier-count", thread_name(current->number) + format(" names %u threads at barrier %u, another %u", threads, number, barrier.members));
  Clock &clock = barrier.clock();
  release_into(clock);
  if (waits) {
    arrive_and_wait(barrier);
    self().clock.join(clock);
  } else {
    barrier.waiting++;
    open_if_complete(barrier);
  }
}

// --------------------------------------------------------------------------------------------------------- mbarriers

struct MBarrier {
  u32 address, count, pending, phase, slot, maker, made;
  long bytes;
  bool fenced;
  Clock arriving, done;
};

static std::map<u32, MBarrier *> mbarriers;

static std::string mbarrier_name(const MBarrier &barrier) { return format("the mbarrier at byte %u", barrier.address); }

void mbarrier_init(void *pointer, unsigned int count) {
  u32 address = shared_address(pointer);
  if (!is_shared(address, 8) || address % 8)
    return find("shared-range", thread_name(current->number) + " makes an mbarrier outside of shared memory, or misaligned");
  shared_write(address, 8, plain("mbarrier.init"), BARRIER);
  MBarrier *&barrier = mbarriers[address];
  delete barrier;
  barrier = new MBarrier{address, count, count, 0, 0, current->number, self().time, 0, false, {}, {}};
  barrier->slot = new_slot("the copies of " + mbarrier_name(*barrier));
}

static MBarrier *mbarrier_at(const void *pointer, const char *what) {
  u32 address = shared_address(pointer);
  auto entry = mbarriers.find(address);
  if (entry == mbarriers.end()) {
    find("mbarrier-uninitialised", thread_name(current->number) + format(" uses %s on byte %u, where no mbarrier is", what, address));
    return 0;
  }
  MBarrier *barrier = entry->second;
  if (!plain(what).knows(barrier->maker, barrier->made))
    find("mbarrier-uninitialised", thread_name(current->number) + format(" uses %s on ", what) + mbarrier_name(*barrier) +
         " that " + thread_name(barrier->maker) + " makes; no barrier is between");
  return barrier;
}

static void complete_if_done(MBarrier &barrier) {
  if (barrier.pending || barrier.bytes) return;
  barrier.phase++;
  barrier.pending = barrier.count;
  barrier.done.join(barrier.arriving);
  Clock::raise(barrier.done.slots, barrier.slot - thread_count, barrier.phase);
}

void mbarrier_arrive(void *pointer, unsigned int bytes) {
  MBarrier *barrier = mbarrier_at(pointer, bytes ? "arrive.expect_tx" : "arrive");
  if (!barrier) return;
  release_into(barrier->arriving);
  barrier->bytes += bytes;
  if (!barrier->pending)
    return find("mbarrier-arrivals", thread_name(current->number) + " arrives at " + mbarrier_name(*barrier) +
                format(" more often than its count of %u in one phase", barrier->count));
  barrier->pending--;
  complete_if_done(*barrier);
}

void mbarrier_wait(void *pointer, unsigned int parity) {
  MBarrier *barrier = mbarrier_at(pointer, "wait");
  if (!barrier) return;
  if ((barrier->phase & 1) == (parity & 1)) wait(AT_MBARRIER, barrier, parity & 1);
  self().clock.join(barrier->done);
}

// The block has ended: a barrier that some arrived at and others never will is one that somebody missed, whether or not
// anybody was left to wait for it.
static void check_arrivals() {
  for (auto &entry : mbarriers) {
    const MBarrier &barrier = *entry.second;
    if (barrier.pending < barrier.count || barrier.bytes)
      find(barrier.bytes ? "mbarrier-bytes" : "mbarrier-arrivals",
           "the block ends, and phase " + format("%u of ", barrier.phase) + mbarrier_name(barrier) +
           format(" misses %u of %u arrivals and %ld bytes", barrier.pending, barrier.count, barrier.bytes));
  }
  for (u32 number = 0; number < NAMED_BARRIERS; number++)
    if (named[number].waiting)
      find("barrier-count", format("the block ends, and %u of %u threads are at named barrier %u", named[number].waiting, named[number].members, number));
}

void fence_mbarrier_init() {
  for (auto &entry : mbarriers)
    if (entry.second->maker == current->number) entry.second->fenced = true;
}

void fence_proxy_async() {
  Fiber &fiber = self();
  fiber.fence_time = fiber.time++;
  if (fiber.copy_slot >= 0)  // of cp.async, what was awaited
    Clock::raise(fiber.clock.fences, (u32)fiber.copy_slot, Clock::at(fiber.clock.slots, (u32)fiber.copy_slot - thread_count));
  fence_mbarrier_init();
}

}  // namespace tn_shim
