// Runs CUDA C++ on the CPU: one fiber per CUDA thread, one block after another.
//
// A fiber runs until it waits (at __syncthreads, __syncwarp or a shuffle) or ends. The order in which fibers get their
// turn is the schedule of a launch; a kernel whose result depends on it has a race:
//   0  in order: every thread of the block goes on to its next wait, then all of them again
//   1  warp by warp upwards: each warp goes as far as it can before the next one starts
//   2  warp by warp downwards
// A launch returns an error text if no fiber can go on although some have not ended (a barrier or a shuffle that not
// all threads reach), or if a kernel touches a guarded page; the caller puts such pages around its buffers.
// At the start of a block its shared memory holds the bytes 0xff (NaN, -1), not what the last block left there.
#pragma once
#define TENON_HOST_SHIM 1

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("tn_shared")))

struct uint3 { unsigned int x, y, z; };
struct dim3 { unsigned int x, y, z; };

extern "C" char __start_tn_shared[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_tn_shared[] __attribute__((weak, visibility("hidden")));

namespace tn_shim {

const unsigned int WARP = 32;
const unsigned int MOST_THREADS = 1024;
const size_t STACK_BYTES = 576 * 1024;  // of address space: 512 KiB of local memory and some for the calls

// ------------------------------------------------------------------------------------------------------------ fibers

struct Fiber {
  uint3 thread;
  unsigned int number;
  bool ended;
#if defined(__x86_64__)
  void *stack_pointer;
#else
  ucontext_t context;
#endif
};

static Fiber scheduler;
static Fiber *current;
static void fiber_main();

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

// ------------------------------------------------------------------------------------------------- blocks and barriers

// A barrier opens when all of its members that have not ended are waiting at it.
struct Barrier {
  unsigned int waiting, members, generation;
};

struct Warp {
  Barrier barrier;
  uint64_t exchanged[2][WARP];  // alternately, so that the next exchange cannot overtake a slow reader
};

static dim3 block_shape, grid_shape;
static uint3 block_position;
static Barrier block_barrier;
static Warp *warps;
static unsigned long progress;
static void (*entry)(void *);
static void *entry_argument;

static void open_if_complete(Barrier &barrier) {
  if (barrier.waiting && barrier.waiting == barrier.members) {
    barrier.waiting = 0;
    barrier.generation++;
    progress++;
  }
}

static __attribute__((noinline)) void wait_at(Barrier &barrier) {
  unsigned int generation = barrier.generation;
  barrier.waiting++;
  progress++;
  open_if_complete(barrier);
  while (barrier.generation == generation) switch_to(current, &scheduler);
}

static Warp &own_warp() { return warps[current->number / WARP]; }

static void fiber_main() {
  entry(entry_argument);
  current->ended = true;
  progress++;
  block_barrier.members--;
  own_warp().barrier.members--;
  open_if_complete(block_barrier);
  open_if_complete(own_warp().barrier);
  for (;;) switch_to(current, &scheduler);
}

// Runs fibers [first, last) in turn, once each; returns whether any of them got further.
static bool run_once(Fiber *fibers, unsigned int first, unsigned int last) {
  unsigned long before = progress;
  for (unsigned int i = first; i < last; i++) {
    if (fibers[i].ended) continue;
    current = &fibers[i];
    switch_to(&scheduler, current);
  }
  return progress != before;
}

static bool run_block(Fiber *fibers, unsigned int threads, int schedule) {
  unsigned int warp_count = (threads + WARP - 1) / WARP;
  while (block_barrier.members) {
    bool advanced = false;
    if (schedule == 0) advanced = run_once(fibers, 0, threads);
    else
      for (unsigned int i = 0; i < warp_count; i++) {
        unsigned int first = (schedule == 1 ? i : warp_count - 1 - i) * WARP;
        unsigned int last = first + WARP < threads ? first + WARP : threads;
        while (run_once(fibers, first, last)) advanced = true;
      }
    if (!advanced) return false;
  }
  return true;
}

// ------------------------------------------------------------------------------------------------------------- launch

static sigjmp_buf fault_return;
static char *fault_address;

static void on_fault(int, siginfo_t *info, void *) {
  fault_address = (char *)info->si_addr;
  siglongjmp(fault_return, 1);
}

// The error text of the last launch; a fault is reported with its address, which the caller knows how to place.
static char error_text[128];

static const char *run_grid(unsigned int threads, int schedule, char *stacks, Fiber *fibers) {
  for (unsigned int z = 0; z < grid_shape.z; z++)
    for (unsigned int y = 0; y < grid_shape.y; y++)
      for (unsigned int x = 0; x < grid_shape.x; x++) {
        block_position = {x, y, z};
        block_barrier = {0, threads, 0};
        memset(__start_tn_shared, 0xff, (size_t)(__stop_tn_shared - __start_tn_shared));
        for (unsigned int first = 0; first < threads; first += WARP)
          warps[first / WARP].barrier = {0, threads - first < WARP ? threads - first : WARP, 0};
        for (unsigned int i = 0; i < threads; i++) {
          unsigned int row = i / block_shape.x;
          fibers[i].thread = {i % block_shape.x, row % block_shape.y, row / block_shape.y};
          fibers[i].number = i;
          fibers[i].ended = false;
          prepare(&fibers[i], stacks + STACK_BYTES * i, STACK_BYTES);
        }
        if (!run_block(fibers, threads, schedule)) {
          snprintf(error_text, sizeof error_text, "deadlock in block (%u, %u, %u): not all threads reach a barrier", x, y, z);
          return error_text;
        }
      }
  return 0;
}

static const char *launch(const unsigned int *grid, const unsigned int *block, int schedule) {
  grid_shape = {grid[0], grid[1], grid[2]};
  block_shape = {block[0], block[1], block[2]};
  unsigned int threads = block[0] * block[1] * block[2];
  static char *stacks = (char *)MAP_FAILED;  // kept from one launch to the next
  if (stacks == (char *)MAP_FAILED) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    stacks = (char *)mmap(0, STACK_BYTES * MOST_THREADS, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (stacks == (char *)MAP_FAILED) return "no memory for the stacks of a block";
  }
  if (threads > MOST_THREADS) return "a block has at most 1024 threads";
  Fiber *fibers = (Fiber *)calloc(threads, sizeof(Fiber));
  warps = (Warp *)calloc((threads + WARP - 1) / WARP, sizeof(Warp));

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

  const char *error;
  if (sigsetjmp(fault_return, 1) == 0) {
    error = run_grid(threads, schedule, stacks, fibers);
  } else {
    snprintf(error_text, sizeof error_text, "fault at %llu", (unsigned long long)(uintptr_t)fault_address);
    error = error_text;
  }

  sigaction(SIGSEGV, &old_segv, 0);
  sigaction(SIGBUS, &old_bus, 0);
  sigaltstack(&old_stack, 0);
  free(fibers);
  free(warps);
  return error;
}

// Calls a kernel with arguments that are given as in cuLaunchKernel: a pointer to each.
template <int... I> struct Indices {};
template <int N, int... I> struct Count : Count<N - 1, N - 1, I...> {};
template <int... I> struct Count<0, I...> { typedef Indices<I...> Type; };

template <class... A> struct Call {
  void (*kernel)(A...);
  void **arguments;
  template <int... I> void apply(Indices<I...>) { kernel(*(A *)arguments[I]...); }
  static void run(void *self) { ((Call *)self)->apply(typename Count<sizeof...(A)>::Type()); }
};

template <class... A>
const char *launch_kernel(void (*kernel)(A...), const unsigned int *grid, const unsigned int *block, void **arguments,
                          int schedule) {
  Call<A...> call = {kernel, arguments};
  entry = Call<A...>::run;
  entry_argument = &call;
  return launch(grid, block, schedule);
}

// Every thread of a warp that is in `mask` gives a value and reads the one of lane `source`.
template <class T> T exchange(unsigned int mask, T value, unsigned int source) {
  static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves at most 64 bits");
  Warp &warp = own_warp();
  uint64_t *slots = warp.exchanged[warp.barrier.generation % 2];
  memcpy(&slots[current->number % WARP], &value, sizeof(T));
  (void)mask;
  wait_at(warp.barrier);
  T result;
  memcpy(&result, &slots[source % WARP], sizeof(T));
  return result;
}

}  // namespace tn_shim

#define TN_SHIM_EXPORT(symbol, kernel)                                                                                 \
  extern "C" const char *symbol(const unsigned int *grid, const unsigned int *block, void **arguments, int schedule) { \
    return tn_shim::launch_kernel(&kernel, grid, block, arguments, schedule);                                          \
  }

// ------------------------------------------------------------------------------------------- what device code can use

#define threadIdx (tn_shim::current->thread)
#define blockIdx (tn_shim::block_position)
#define blockDim (tn_shim::block_shape)
#define gridDim (tn_shim::grid_shape)

static inline void __syncthreads() { tn_shim::wait_at(tn_shim::block_barrier); }
static inline void __syncwarp(unsigned int = 0xffffffffu) { tn_shim::wait_at(tn_shim::own_warp().barrier); }

template <class T> static inline T __shfl_sync(unsigned int mask, T value, int lane) {
  return tn_shim::exchange(mask, value, (unsigned int)lane);
}
template <class T> static inline T __shfl_xor_sync(unsigned int mask, T value, int distance) {
  return tn_shim::exchange(mask, value, tn_shim::current->number % tn_shim::WARP ^ (unsigned int)distance);
}
template <class T> static inline T __shfl_down_sync(unsigned int mask, T value, unsigned int distance) {
  unsigned int lane = tn_shim::current->number % tn_shim::WARP;
  return tn_shim::exchange(mask, value, lane + distance < tn_shim::WARP ? lane + distance : lane);
}
template <class T> static inline T __shfl_up_sync(unsigned int mask, T value, unsigned int distance) {
  unsigned int lane = tn_shim::current->number % tn_shim::WARP;
  return tn_shim::exchange(mask, value, lane >= distance ? lane - distance : lane);
}

template <class T> static inline T atomicAdd(T *address, T value) { T old = *address; *address = (T)(old + value); return old; }
template <class T> static inline T atomicMax(T *address, T value) { T old = *address; if (value > old) *address = value; return old; }
template <class T> static inline T atomicMin(T *address, T value) { T old = *address; if (value < old) *address = value; return old; }
template <class T> static inline T atomicExch(T *address, T value) { T old = *address; *address = value; return old; }
template <class T> static inline T atomicCAS(T *address, T expected, T value) {
  T old = *address;
  if (old == expected) *address = value;
  return old;
}

template <class To, class From> static inline To tn_shim_bits(From value) {
  To result;
  memcpy(&result, &value, sizeof result);
  return result;
}
static inline float __int_as_float(int x) { return tn_shim_bits<float>(x); }
static inline int __float_as_int(float x) { return tn_shim_bits<int>(x); }
static inline double __longlong_as_double(long long x) { return tn_shim_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return tn_shim_bits<long long>(x); }
static inline float tn_f16_to_f32(unsigned short x) { return (float)tn_shim_bits<_Float16>(x); }
static inline unsigned short tn_f32_to_f16(float x) { return tn_shim_bits<unsigned short>((_Float16)x); }
static inline unsigned short tn_f64_to_f16(double x) { return tn_shim_bits<unsigned short>((_Float16)x); }

static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clzll(unsigned long long x) { return x ? __builtin_clzll(x) : 64; }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
