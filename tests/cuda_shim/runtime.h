// What the runtime offers to compiled kernels and to Python. The runtime is compiled once, kernels are linked to it.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace tn_shim {

struct Thread {
  uint3 thread;
  unsigned int number;
};

// In which order the fibers of a block get their turn, and when asynchronous operations are performed.
enum Turns { IN_ORDER, WARPS_UP, WARPS_DOWN, SHUFFLED };
enum Completion { AT_ISSUE, AT_LATEST, AT_RANDOM };

struct Options {
  int turns, completion;
  unsigned int seed;
  int counting;             // fill the counters, too (slower)
  unsigned int dynamic;     // bytes of dynamic shared memory
  unsigned int registers;   // of a thread at entry, for `setmaxnreg`
};

struct Entry {
  void (*run)(void *);
  void *argument;
  char *shared_start, *shared_stop;  // static shared memory of the library that the kernel is in
};

// A description of a tensor for bulk copies, in the place of the driver's opaque one.
struct __align__(64) TensorMap {
  char *base;
  unsigned int rank, element, swizzle, fill;
  unsigned long long sizes[5], strides[5];  // strides in bytes; the innermost is an element
  unsigned int box[5];
};

extern Thread *current;
extern uint3 block_position;
extern dim3 block_shape, grid_shape;

const char *launch(const Entry &entry, const unsigned int *grid, const unsigned int *block, const Options &options);

void sync_threads();
void sync_warp(unsigned int mask);
uint64_t exchange_bits(uint64_t bits, unsigned int source);
unsigned int ballot(unsigned int mask, bool predicate);
void fence_device();
void atomic_access(void *address, size_t bytes);
unsigned char *dynamic_shared();

// Instructions. Registers of fragments are 32 bits each; an address in shared memory is a pointer.
void cp_async(void *shared, const void *global, unsigned int bytes, unsigned int valid);
void cp_async_commit();
void cp_async_wait(unsigned int groups);
void ldmatrix(unsigned int *registers, const void *row, int matrices, bool transposed);
void stmatrix(void *row, const unsigned int *registers, int matrices, bool transposed);
enum Element { BF16, F16, TF32, S8 };
void mma(void *d, const unsigned int *a, const unsigned int *b, int element);
void mma_f64(double *d, const double *a, const double *b);
uint64_t wgmma_descriptor(const void *shared, unsigned int leading, unsigned int stride, unsigned int swizzle);
void wgmma(float *d, int columns, int element, const unsigned int *a_registers, uint64_t a, uint64_t b, bool accumulate,
           bool a_transposed, bool b_transposed);
void wgmma_fence();
void wgmma_commit();
void wgmma_wait(unsigned int groups);
void mbarrier_init(void *barrier, unsigned int count);
void mbarrier_arrive(void *barrier, unsigned int bytes);
void mbarrier_wait(void *barrier, unsigned int parity);
void tma_load(void *shared, const TensorMap *map, int rank, const int *position, void *barrier);
void tma_store(const TensorMap *map, int rank, const int *position, const void *shared);
void tma_store_commit();
void tma_store_wait(unsigned int groups);
void fence_proxy_async();
void fence_mbarrier_init();
void named_barrier(unsigned int barrier, unsigned int threads, bool wait);
void set_registers(unsigned int count, bool increase);
bool elect();

}  // namespace tn_shim
