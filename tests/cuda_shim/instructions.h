// The device functions of `lowering/instructions` on the host: the same names, performed by the runtime.
#pragma once

typedef tn_shim::TensorMap TnTensorMap;

template <int Bytes> static inline void tn_cp_async(void *shared, const void *global, unsigned int valid = Bytes) {
  tn_shim::cp_async(shared, global, Bytes, valid);
}
static inline void tn_cp_async_commit() { tn_shim::cp_async_commit(); }
template <int Groups> static inline void tn_cp_async_wait() { tn_shim::cp_async_wait(Groups); }

#define TN_SHIM_MATRICES(n)                                                                                            \
  static inline void tn_ldmatrix_x##n(unsigned int (&r)[n], const void *row) { tn_shim::ldmatrix(r, row, n, false); }  \
  static inline void tn_ldmatrix_x##n##_trans(unsigned int (&r)[n], const void *row) {                                 \
    tn_shim::ldmatrix(r, row, n, true);                                                                                \
  }                                                                                                                    \
  static inline void tn_stmatrix_x##n(void *row, const unsigned int (&r)[n]) { tn_shim::stmatrix(row, r, n, false); }  \
  static inline void tn_stmatrix_x##n##_trans(void *row, const unsigned int (&r)[n]) {                                 \
    tn_shim::stmatrix(row, r, n, true);                                                                                \
  }
TN_SHIM_MATRICES(1)
TN_SHIM_MATRICES(2)
TN_SHIM_MATRICES(4)

#define TN_SHIM_MMA(name, T, element)                                                                              \
  static inline void tn_mma_##name(T (&d)[4], const unsigned int (&a)[4], const unsigned int (&b)[2]) {            \
    tn_shim::mma(d, a, b, tn_shim::element);                                                                       \
  }
TN_SHIM_MMA(m16n8k16_bf16, float, BF16)
TN_SHIM_MMA(m16n8k16_f16, float, F16)
TN_SHIM_MMA(m16n8k8_tf32, float, TF32)
TN_SHIM_MMA(m16n8k32_s8, int, S8)
static inline void tn_mma_m16n8k8_f64(double (&d)[4], const double (&a)[4], const double (&b)[2]) { tn_shim::mma_f64(d, a, b); }

static inline unsigned long long tn_wgmma_descriptor(const void *shared, unsigned int leading, unsigned int stride, int swizzle) {
  return tn_shim::wgmma_descriptor(shared, leading, stride, (unsigned int)swizzle);
}
static inline void tn_wgmma_fence() { tn_shim::wgmma_fence(); }
static inline void tn_wgmma_commit() { tn_shim::wgmma_commit(); }
template <int Groups> static inline void tn_wgmma_wait() { tn_shim::wgmma_wait(Groups); }

#define TN_SHIM_WGMMA_OF(name, n, element)                                                                             \
  template <int AT = 0, int BT = 0>                                                                                    \
  static inline void tn_wgmma_##name(float (&d)[n / 2], unsigned long long a, unsigned long long b, bool accumulate) { \
    tn_shim::wgmma(d, n, tn_shim::element, 0, a, b, accumulate, AT, BT);                                               \
  }                                                                                                                    \
  template <int BT = 0>                                                                                                \
  static inline void tn_wgmma_##name##_registers(float (&d)[n / 2], const unsigned int (&a)[4], unsigned long long b,  \
                                                 bool accumulate) {                                                    \
    tn_shim::wgmma(d, n, tn_shim::element, a, 0, b, accumulate, false, BT);                                            \
  }
#define TN_SHIM_WGMMA(n)                           \
  TN_SHIM_WGMMA_OF(m64n##n##k16_bf16, n, BF16)     \
  TN_SHIM_WGMMA_OF(m64n##n##k16_f16, n, F16)       \
  TN_SHIM_WGMMA_OF(m64n##n##k8_tf32, n, TF32)
TN_SHIM_WGMMA(8)
TN_SHIM_WGMMA(16)
TN_SHIM_WGMMA(32)
TN_SHIM_WGMMA(64)
TN_SHIM_WGMMA(96)
TN_SHIM_WGMMA(128)
TN_SHIM_WGMMA(160)
TN_SHIM_WGMMA(192)
TN_SHIM_WGMMA(224)
TN_SHIM_WGMMA(256)

static inline void tn_mbarrier_init(unsigned long long *barrier, unsigned int count) { tn_shim::mbarrier_init(barrier, count); }
static inline void tn_mbarrier_arrive(unsigned long long *barrier) { tn_shim::mbarrier_arrive(barrier, 0); }
static inline void tn_mbarrier_expect(unsigned long long *barrier, unsigned int bytes) { tn_shim::mbarrier_arrive(barrier, bytes); }
static inline void tn_mbarrier_wait(unsigned long long *barrier, unsigned int parity) { tn_shim::mbarrier_wait(barrier, parity); }
static inline void tn_fence_mbarrier_init() { tn_shim::fence_mbarrier_init(); }
static inline void tn_fence_proxy_async() { tn_shim::fence_proxy_async(); }

static inline void tn_tma_load_2d(void *shared, const TnTensorMap *map, int x, int y, unsigned long long *barrier) {
  int position[] = {x, y};
  tn_shim::tma_load(shared, map, 2, position, barrier);
}
static inline void tn_tma_load_3d(void *shared, const TnTensorMap *map, int x, int y, int z, unsigned long long *barrier) {
  int position[] = {x, y, z};
  tn_shim::tma_load(shared, map, 3, position, barrier);
}
static inline void tn_tma_load_4d(void *shared, const TnTensorMap *map, int x, int y, int z, int v, unsigned long long *barrier) {
  int position[] = {x, y, z, v};
  tn_shim::tma_load(shared, map, 4, position, barrier);
}
static inline void tn_tma_store_2d(const TnTensorMap *map, int x, int y, const void *shared) {
  int position[] = {x, y};
  tn_shim::tma_store(map, 2, position, shared);
}
static inline void tn_tma_store_3d(const TnTensorMap *map, int x, int y, int z, const void *shared) {
  int position[] = {x, y, z};
  tn_shim::tma_store(map, 3, position, shared);
}
static inline void tn_tma_store_commit() { tn_shim::tma_store_commit(); }
template <int Groups> static inline void tn_tma_store_wait() { tn_shim::tma_store_wait(Groups); }

static inline void tn_named_barrier_sync(unsigned int barrier, unsigned int threads) { tn_shim::named_barrier(barrier, threads, true); }
static inline void tn_named_barrier_arrive(unsigned int barrier, unsigned int threads) { tn_shim::named_barrier(barrier, threads, false); }
template <int Registers> static inline void tn_setmaxnreg_dec() { tn_shim::set_registers(Registers, false); }
template <int Registers> static inline void tn_setmaxnreg_inc() { tn_shim::set_registers(Registers, true); }
static inline bool tn_elect() { return tn_shim::elect(); }
