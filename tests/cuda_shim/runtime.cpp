// Runs CUDA C++ on the CPU: one fiber per CUDA thread, one block after another.
//
// A fiber runs until it waits (at a barrier, for a copy) or ends. A kernel that is right gives the same whatever the
// turns of fibers and the completion of asynchronous operations are; `Options` says which are tried. What is wrong is
// found in two ways that do not depend on each other: `order.h` judges every access when it is issued, and the data
// of what is in flight is really late: new shared memory holds 0xff bytes, accumulators NaN. A launch returns what was
// found, a line each: a name, the block, and a sentence.
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define __align__(n) __attribute__((aligned(n)))
struct uint3 { unsigned int x, y, z; };
struct dim3 { unsigned int x, y, z; };
#include "runtime.h"
#include "order.h"
#include "fibers.h"
#include "barriers.h"
#include "global.h"
#include "hooks.h"
#include "copies.h"
#include "matrix.h"

namespace tn_shim {

const u32 MOST_SHARED = 232448;

Thread *current;
uint3 block_position;
dim3 block_shape, grid_shape;
static Entry entry;

static uint3 position_of_block() { return block_position; }
unsigned char *dynamic_shared() { return (unsigned char *)dynamic_memory; }

static void end_of_fiber() {
  Fiber &fiber = self();
  auto in_flight = [&](const char *what) { find("exit-in-flight", thread_name(fiber.number) + " ends while " + what + " in flight"); };
  if (!fiber.accumulators.empty()) in_flight("products are");
  if (!is_awaited(fiber.store_slot, fiber.stored)) in_flight("bulk stores are");
  if (!is_awaited(fiber.copy_slot, fiber.copied)) in_flight("cp.async is");
}

static void fiber_main() {
  entry.run(entry.argument);
  end_of_fiber();
  Fiber &fiber = self();
  fiber.waiting = ENDED;
  for (Barrier *barrier : {&block_barrier, &own_warp().barrier, &own_warp().exchange}) {
    barrier->members--;
    open_if_complete(*barrier);
  }
  for (;;) switch_to(&fiber, &scheduler);
}

static bool is_ready(const Fiber &fiber) {
  switch (fiber.waiting) {
    case NOTHING: return true;
    case AT_BARRIER: return fiber.barrier->generation != fiber.target;
    case AT_MBARRIER: return (fiber.mbarrier->phase & 1) != fiber.target;
    case FOR_PRODUCTS: return products_issued(warpgroups[fiber.number / GROUP], fiber.target);
    case FOR_REGISTERS: return registers_suffice(fiber.number / GROUP, fiber.target);
    case ENDED: return false;
  }
  return false;
}

// Gives fibers [first, last) a turn each, in `order`; returns whether any of them could go on.
static bool run_once(const u32 *order, u32 first, u32 last) {
  bool advanced = false;
  for (u32 i = first; i < last; i++) {
    Fiber &fiber = fibers[order[i]];
    if (!is_ready(fiber)) continue;
    fiber.waiting = NOTHING;
    current = &fiber;
    switch_to(&scheduler, &fiber);
    advanced = true;
    if (options.completion == AT_RANDOM) perform_at_random();
  }
  return advanced;
}

static bool run_turns(std::vector<u32> &order) {
  if (options.turns == SHUFFLED)
    for (u32 i = thread_count - 1; i > 0; i--) std::swap(order[i], order[draw() % (i + 1)]);
  if (options.turns == IN_ORDER || options.turns == SHUFFLED) return run_once(order.data(), 0, thread_count);
  bool advanced = false;
  for (u32 i = 0, count = (u32)warps.size(); i < count; i++) {
    u32 first = (options.turns == WARPS_UP ? i : count - 1 - i) * WARP;
    while (run_once(order.data(), first, std::min(first + WARP, thread_count))) advanced = true;
  }
  return advanced;
}

// Nothing can go on: each kind of wait is named, as one of them is the cause.
static void tell_why_stuck() {
  for (const Fiber &fiber : fibers) {
    std::string who = thread_name(fiber.number);
    if (fiber.waiting == AT_BARRIER) {
      size_t number = (size_t)(fiber.barrier - named);
      std::string text = "not all threads reach a barrier";
      if (number < NAMED_BARRIERS)
        text = who + format(" waits at named barrier %zu, where %u of %u are", number, fiber.barrier->waiting, fiber.barrier->members);
      find("deadlock", text);
    } else if (fiber.waiting == FOR_REGISTERS) {
      find("setmaxnreg", who + format(" waits for %u registers, which the other warpgroups do not give back", fiber.target));
    } else if (fiber.waiting == FOR_PRODUCTS) {
      find("deadlock", who + " waits for a wgmma that not all of its warpgroup issue");
    } else if (fiber.waiting == AT_MBARRIER) {
      const MBarrier &barrier = *fiber.mbarrier;
      const char *name = barrier.bytes ? "mbarrier-bytes" : barrier.pending < barrier.count ? "mbarrier-arrivals" : "mbarrier-phase";
      find(name, who + format(" waits for parity %u of ", fiber.target) + mbarrier_name(barrier) +
           format(" in phase %u, which misses %u of %u arrivals and %ld bytes", barrier.phase, barrier.pending, barrier.count, barrier.bytes));
    }
  }
}

static bool run_block(std::vector<u32> &order) {
  for (;;) {
    if (run_turns(order)) continue;
    bool ended = true;
    for (const Fiber &fiber : fibers) ended &= fiber.waiting == ENDED;
    if (ended) return true;
    if (perform_load(false)) continue;
    tell_why_stuck();
    return false;
  }
}

static void clear_block() {
  for (Fiber &fiber : fibers)
    for (Accumulator *accumulator : fiber.accumulators) delete accumulator;
  for (Warpgroup &group : warpgroups)
    for (Product *product : group.products) delete product;
  for (auto &barrier : mbarriers) delete barrier.second;
  mbarriers.clear();
  copies.clear();
  bulks.clear();
  release_granules();
}

static void begin_block(char *stacks) {
  block_number++;
  barriers_passed = 0;
  common.clear();
  slot_names.clear();
  memset(static_start, 0xff, static_bytes);
  memset(dynamic_memory, 0xff, dynamic_bytes);
  block_barrier = {0, thread_count, 0, {}};
  for (Barrier &barrier : named) barrier = Barrier();
  warps.resize((thread_count + WARP - 1) / WARP);
  for (u32 i = 0; i < warps.size(); i++) {
    u32 members = std::min(WARP, thread_count - i * WARP);
    warps[i].barrier = {0, members, 0, {}};
    warps[i].exchange = {0, members, 0, {}};
  }
  warpgroups.assign((thread_count + GROUP - 1) / GROUP, Warpgroup());
  for (Warpgroup &group : warpgroups) group.registers = options.registers;
  for (u32 i = 0; i < thread_count; i++) {
    Fiber &fiber = fibers[i];
    u32 row = i / block_shape.x;
    fiber.clock.clear();
    fiber.accumulators.clear();
    fiber.operands.clear();
    fiber.thread = {i % block_shape.x, row % block_shape.y, row / block_shape.y};
    fiber.number = i;
    fiber.waiting = NOTHING;
    fiber.time = 1;
    fiber.copied = fiber.stored = fiber.fence_time = fiber.copy_group = fiber.store_group = fiber.product_group = fiber.products = 0;
    fiber.copy_slot = fiber.store_slot = -1;
    fiber.registers = options.registers;
    fiber.registers_ordered = false;
    prepare(&fiber, stacks + STACK_BYTES * i, STACK_BYTES);
  }
}

static void end_block(bool finished) {
  if (finished) {
    check_arrivals();
    for (const Bulk &bulk : bulks)
      if (bulk.load) find("exit-in-flight", "the block ends while a bulk load is in flight");
    for (Bulk &bulk : bulks)
      if (!bulk.load) perform(bulk);
  }
  counters.barriers += barriers_passed;
  if (counting) account_block();
  clear_block();
}

static void run_grid() {
  std::vector<u32> order(thread_count);
  for (u32 i = 0; i < thread_count; i++) order[i] = i;
  for (u32 z = 0; z < grid_shape.z; z++)
    for (u32 y = 0; y < grid_shape.y; y++)
      for (u32 x = 0; x < grid_shape.x; x++) {
        block_position = {x, y, z};
        begin_block(stacks);
        bool finished = run_block(order);
        end_block(finished);
        if (!finished) return;
      }
}

// ------------------------------------------------------------------------------------------------------------- launch

static sigjmp_buf fault_return;
static char *fault_address;

static void on_fault(int, siginfo_t *info, void *) {
  fault_address = (char *)info->si_addr;
  siglongjmp(fault_return, 1);
}

static const char *prepare_launch(const Entry &kernel, const unsigned int *grid, const unsigned int *block) {
  grid_shape = {grid[0], grid[1], grid[2]};
  block_shape = {block[0], block[1], block[2]};
  thread_count = block[0] * block[1] * block[2];
  if (thread_count > MOST_THREADS) return "block-size: a block has at most 1024 threads";
  if (options.dynamic > MOST_SHARED) return "shared-size: a block has at most 232448 bytes of dynamic shared memory";
  if (!stacks) {  // kept from one launch to the next
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *made = (char *)mmap(0, STACK_BYTES * MOST_THREADS, PROT_READ | PROT_WRITE, flags, -1, 0);
    char *memory = (char *)mmap(0, MOST_SHARED + 8192, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (made == MAP_FAILED || memory == MAP_FAILED) return "memory: none for the stacks of a block";
    stacks = made;
    dynamic_memory = memory + 4096;
  }
  entry = kernel;
  static_start = kernel.shared_start;
  static_bytes = (u32)(kernel.shared_stop - kernel.shared_start);
  dynamic_start = (static_bytes + 1023) / 1024 * 1024;
  dynamic_bytes = options.dynamic;
  granule_shift = 2;
  granules.resize((dynamic_start + dynamic_bytes) / 4 + 1);
  fibers.resize(thread_count);
  counting = options.counting != 0;
  counters = Counters();
  first_block = block_number;
  blocks_ordered = false;
  for (Buffer &buffer : buffers) buffer.read.clear(), buffer.written.clear();
  random_state = options.seed * 2654435761u | 1;
  findings.clear();
  found.clear();
  return 0;
}

const char *launch(const Entry &kernel, const unsigned int *grid, const unsigned int *block, const Options &given) {
  options = given;
  if (const char *refused = prepare_launch(kernel, grid, block)) return refused;
  static char signal_stack[65536];
  stack_t own_stack = {}, old_stack;
  own_stack.ss_sp = signal_stack;
  own_stack.ss_size = sizeof signal_stack;
  sigaltstack(&own_stack, &old_stack);
  struct sigaction action = {}, old_segv, old_bus;
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &old_segv);
  sigaction(SIGBUS, &action, &old_bus);
  if (sigsetjmp(fault_return, 1) == 0) {
    run_grid();
  } else {
    find("fault", format("%llu", (unsigned long long)(uintptr_t)fault_address));
    clear_block();
  }
  sigaction(SIGSEGV, &old_segv, 0);
  sigaction(SIGBUS, &old_bus, 0);
  sigaltstack(&old_stack, 0);
  return findings.empty() ? 0 : findings.c_str();
}

}  // namespace tn_shim

extern "C" {
// The buffers that the next launches may touch; `guarded` counts the bytes to the page that cannot be touched.
void tn_shim_forget_buffers() { tn_shim::buffers.clear(), tn_shim::last_buffer = 0; }
void tn_shim_buffer(void *start, size_t bytes, size_t guarded) { tn_shim::buffers.push_back({(char *)start, bytes, guarded, {}, {}, 4, {}}); }
void tn_shim_counters(uint64_t *result) { memcpy(result, &tn_shim::counters, sizeof tn_shim::counters); }
}
