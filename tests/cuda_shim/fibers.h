// One fiber per CUDA thread, switched by hand. A fiber runs until it waits or ends; `wait` says what for.
#pragma once
#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace tn_shim {

const size_t STACK_BYTES = 576 * 1024;  // of address space: 512 KiB of local memory and some for the calls

struct Barrier;
struct MBarrier;
struct Accumulator;

enum Wait { NOTHING, AT_BARRIER, AT_MBARRIER, FOR_PRODUCTS, FOR_REGISTERS, ENDED };

// Registers that a product in flight reads, and what they held when it was issued.
struct OperandRegisters { const u32 *registers; u32 held[4], group; };

struct Fiber : Thread {
  Wait waiting;
  union { Barrier *barrier; MBarrier *mbarrier; };
  u32 target;                       // of the wait: a generation, a parity, a group, a number of registers
  u32 time, fence_time;             // own slot of the clock; the last time that a proxy fence covers
  Clock clock;
  u32 copy_group, store_group, product_group, products;
  u32 copied, stored;               // 1 + the last group with copies, with bulk stores
  int copy_slot, store_slot;        // -1 until there is one
  u32 registers;
  bool registers_ordered;           // `wgmma_fence` since registers of products were last touched
  std::vector<Accumulator *> accumulators;
  std::vector<OperandRegisters> operands;
#if defined(__x86_64__)
  void *stack_pointer;
#else
  ucontext_t context;
#endif
};

static Fiber scheduler;
static std::vector<Fiber> fibers;
static void fiber_main();

static Fiber &self() { return *(Fiber *)current; }

#if defined(__x86_64__)
// Saves what the calling convention says a call preserves, and returns on the other stack.
extern "C" void tn_shim_switch(void **from, void *to) __attribute__((visibility("hidden")));
asm(R"(
.text
.globl tn_shim_switch
.hidden tn_shim_switch
tn_shim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

static void switch_to(Fiber *from, Fiber *to) { tn_shim_switch(&from->stack_pointer, to->stack_pointer); }

static void prepare(Fiber *fiber, char *stack, size_t bytes) {
  void **top = (void **)(stack + bytes - 64);  // a multiple of 16: aligned as before a call
  *--top = 0;
  *--top = (void *)fiber_main;
  top -= 6;
  memset(top, 0, 6 * sizeof(void *));
  fiber->stack_pointer = top;
}
#else
static void switch_to(Fiber *from, Fiber *to) { swapcontext(&from->context, &to->context); }

static void prepare(Fiber *fiber, char *stack, size_t bytes) {
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = stack;
  fiber->context.uc_stack.ss_size = bytes;
  fiber->context.uc_link = 0;
  makecontext(&fiber->context, fiber_main, 0);
}
#endif

static __attribute__((noinline)) void wait(Wait what, void *on, u32 target) {
  Fiber &fiber = self();
  fiber.waiting = what;
  fiber.barrier = (Barrier *)on;
  fiber.target = target;
  switch_to(&fiber, &scheduler);
}

// Whether the running thread waited for all that a slot of its own does.
static bool is_awaited(int slot, u32 last) {
  return slot < 0 || Clock::at(self().clock.slots, (u32)slot - thread_count) >= last;
}

// The actor of a plain access by the running thread.
static Actor plain(const char *what) {
  Fiber &fiber = self();
  return {fiber.number, fiber.time, fiber.number, &fiber.clock, false, what};
}

// What the running thread knows, with its own past, as another slot takes it over at a release.
static Clock known() {
  Fiber &fiber = self();
  Clock result = fiber.clock;
  Clock::raise(result.threads, fiber.number, fiber.time);
  if (fiber.fence_time) Clock::raise(result.fences, fiber.number, fiber.fence_time);
  return result;
}

}  // namespace tn_shim
