// What the compiler's instrumentation calls: each access to memory, and each index outside of its array.
#pragma once

namespace tn_shim {

static char *stacks;

static void misaligned(const void *pointer, u32 bytes, const char *what) {
  find("misaligned", thread_name(current->number) + format(" %s %u bytes at an address that is %zu modulo %u", what, bytes,
       (size_t)pointer % bytes, bytes));
}

static inline __attribute__((always_inline)) void access(const void *code, void *pointer, u32 bytes, bool write) {
  if ((size_t)((char *)pointer - stacks) < STACK_BYTES * MOST_THREADS) return;
  if ((size_t)pointer % bytes) misaligned(pointer, bytes, write ? "writes" : "reads");
  u32 address = shared_address(pointer);
  if (address == NOWHERE) {
    if ((size_t)((char *)pointer - (dynamic_memory - 4096)) < dynamic_bytes + 8192)
      return find("shared-range", thread_name(current->number) + format(" accesses byte %zd of %u of dynamic shared memory",
                  (char *)pointer - dynamic_memory, dynamic_bytes));
    return global_access(code, pointer, bytes, write);
  }
  if (!is_shared(address, bytes))
    return find("shared-range", thread_name(current->number) + format(" accesses byte %u of shared memory, which ends before", address));
  note(code, SHARED, address, bytes, write);
  if (write) shared_write(address, bytes, plain("a store"), PLAIN);
  else shared_read(address, bytes, plain("a load"));
}

void fence_device() { blocks_ordered = true; }

void atomic_access(void *pointer, size_t bytes) {
  u32 address = shared_address(pointer);
  if ((size_t)pointer % bytes) misaligned(pointer, (u32)bytes, "updates");
  if (!is_shared(address, (u32)bytes)) {
    touch(pointer, (u32)bytes, false);
    if (counting) note(__builtin_return_address(0), GLOBAL, (uint64_t)pointer, (u32)bytes, false);
    return global_access(__builtin_return_address(0), pointer, (u32)bytes, true, true);
  }
  shared_read(address, (u32)bytes, plain("an atomic"), true);
  shared_write(address, (u32)bytes, plain("an atomic"), ATOMIC);
}

}  // namespace tn_shim

#define TN_SHIM_HOOKS(bytes)                                                                                      \
  extern "C" void __tsan_read##bytes(void *p) { tn_shim::access(__builtin_return_address(0), p, bytes, false); }  \
  extern "C" void __tsan_write##bytes(void *p) { tn_shim::access(__builtin_return_address(0), p, bytes, true); }  \
  extern "C" void __tsan_unaligned_read##bytes(void *p) {                                                         \
    tn_shim::access(__builtin_return_address(0), p, bytes, false);                                                \
  }                                                                                                               \
  extern "C" void __tsan_unaligned_write##bytes(void *p) {                                                        \
    tn_shim::access(__builtin_return_address(0), p, bytes, true);                                                 \
  }
TN_SHIM_HOOKS(1)
TN_SHIM_HOOKS(2)
TN_SHIM_HOOKS(4)
TN_SHIM_HOOKS(8)
TN_SHIM_HOOKS(16)
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void *) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_vptr_update(void **, void *) {}
extern "C" void __tsan_read_range(char *start, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) tn_shim::access(__builtin_return_address(0), start + i, 1, false);
}
extern "C" void __tsan_write_range(char *start, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) tn_shim::access(__builtin_return_address(0), start + i, 1, true);
}
extern "C" void __ubsan_handle_out_of_bounds(void *, size_t index) {
  tn_shim::find("array-range", tn_shim::thread_name(tn_shim::current->number) + tn_shim::format(" takes element %zd, outside of an array of the kernel", (ssize_t)index));
}
