// RUN: tenon-opt %s | filecheck %s
// RUN: tenon-opt %s | tenon-opt | filecheck %s
// RUN: tenon-opt %s --print-op-generic | tenon-opt | filecheck %s

// Ops for GPUs read what they print, in their own form and in the generic one.
func.func @copies(%to: memref<2x8xf16, 3 : i64>, %from: memref<2x8xf16>, %i: index, %n: index) {
  %t = "nvgpu.device_async_copy"(%to, %i, %i, %from, %i, %i) <{bypassL1, dstElements = 8 : index, operandSegmentSizes = array<i32: 1, 2, 1, 2, 0>}> : (memref<2x8xf16, 3 : i64>, index, index, memref<2x8xf16>, index, index) -> !nvgpu.device.async.token
  %u = "nvgpu.device_async_copy"(%to, %i, %i, %from, %i, %i, %n) <{dstElements = 2 : index, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1>}> : (memref<2x8xf16, 3 : i64>, index, index, memref<2x8xf16>, index, index, index) -> !nvgpu.device.async.token
  %g = nvgpu.device_async_create_group %t, %u
  %h = nvgpu.device_async_create_group {}
  %k = nvgpu.device_async_create_group %t {last}
  nvgpu.device_async_wait %g {numGroups = 1 : i32}
  nvgpu.device_async_wait %h
  func.return
}
// CHECK-LABEL:   @copies
// CHECK-NEXT:      %t = "nvgpu.device_async_copy"(%to, %i, %i, %from, %i, %i) <{bypassL1, dstElements = 8 : index, operandSegmentSizes = array<i32: 1, 2, 1, 2, 0>}> :
// CHECK-NEXT:      %u = "nvgpu.device_async_copy"(%to, %i, %i, %from, %i, %i, %n) <{dstElements = 2 : index, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1>}> :
// CHECK-NEXT:      %g = nvgpu.device_async_create_group %t, %u{{$}}
// CHECK-NEXT:      %h = nvgpu.device_async_create_group {}
// CHECK-NEXT:      %k = nvgpu.device_async_create_group %t {last}
// CHECK-NEXT:      nvgpu.device_async_wait %g {numGroups = 1 : i32}
// CHECK-NEXT:      nvgpu.device_async_wait %h{{$}}

func.func @products_of_warps(%s: memref<8x8xf32, 3 : i64>, %h: memref<8x8xf16, 3 : i64>, %i: index, %d: vector<2x2xf32>) -> vector<2x2xf32> {
  %a = nvgpu.ldmatrix %s[%i, %i] {transpose = false, numTiles = 4 : i32} : memref<8x8xf32, 3 : i64> -> vector<4x1xf32>
  %b = nvgpu.ldmatrix %s[%i, %i] {transpose = false, numTiles = 2 : i32} : memref<8x8xf32, 3 : i64> -> vector<2x1xf32>
  %t = nvgpu.ldmatrix %h[%i, %i] {transpose = true, numTiles = 1 : i32} : memref<8x8xf16, 3 : i64> -> vector<1x2xf16>
  %e = nvgpu.mma.sync(%a, %b, %d) {mmaShape = [16 : i64, 8 : i64, 8 : i64], tf32Enabled} : (vector<4x1xf32>, vector<2x1xf32>, vector<2x2xf32>) -> vector<2x2xf32>
  func.return %e : vector<2x2xf32>
}
// CHECK-LABEL:   @products_of_warps
// CHECK-NEXT:      %a = nvgpu.ldmatrix %s[%i, %i] {transpose = false, numTiles = 4 : i32} : memref<8x8xf32, 3 : i64> -> vector<4x1xf32>
// CHECK-NEXT:      %b = nvgpu.ldmatrix %s[%i, %i] {transpose = false, numTiles = 2 : i32} : memref<8x8xf32, 3 : i64> -> vector<2x1xf32>
// CHECK-NEXT:      %t = nvgpu.ldmatrix %h[%i, %i] {transpose = true, numTiles = 1 : i32} : memref<8x8xf16, 3 : i64> -> vector<1x2xf16>
// CHECK-NEXT:      %e = nvgpu.mma.sync(%a, %b, %d) {mmaShape = [16 : i64, 8 : i64, 8 : i64], tf32Enabled} : (vector<4x1xf32>, vector<2x1xf32>, vector<2x2xf32>) -> vector<2x2xf32>

func.func @products_of_warpgroups(%a: memref<2x64x64xbf16, 3>, %b: memref<2x2x64x64xbf16, 3>, %d: memref<64xf32>, %i: index, %n: i1) {
  nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
  nvvm.wgmma.fence.aligned
  "warpgroup.mma"(%a, %i, %i, %i, %b, %i, %i, %i, %i, %d, %i, %n) <{columns = 128 : i64, operandSegmentSizes = array<i32: 1, 3, 1, 4, 1, 1, 1>, transposeB}> : (memref<2x64x64xbf16, 3>, index, index, index, memref<2x2x64x64xbf16, 3>, index, index, index, index, memref<64xf32>, index, i1) -> ()
  nvvm.wgmma.commit.group.sync.aligned
  nvvm.wgmma.wait.group.sync.aligned 1
  nvvm.wgmma.wait.group.sync.aligned {last} 0
  func.return
}
// CHECK-LABEL:   @products_of_warpgroups
// CHECK-NEXT:      nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
// CHECK-NEXT:      nvvm.wgmma.fence.aligned
// CHECK-NEXT:      "warpgroup.mma"(%a, %i, %i, %i, %b, %i, %i, %i, %i, %d, %i, %n) <{columns = 128 : i64, operandSegmentSizes = array<i32: 1, 3, 1, 4, 1, 1, 1>, transposeB}> :
// CHECK-NEXT:      nvvm.wgmma.commit.group.sync.aligned
// CHECK-NEXT:      nvvm.wgmma.wait.group.sync.aligned 1
// CHECK-NEXT:      nvvm.wgmma.wait.group.sync.aligned {last} 0

func.func @lanes(%m: i32, %c: i1, %x: f32, %o: i32, %w: i32) -> (i32, f32) {
  %l = nvvm.vote.sync ballot %m, %c -> i32
  %y, %valid = gpu.shuffle xor %x, %o, %w : f32
  nvvm.barrier id = %o number_of_threads = %w
  nvvm.barrier.arrive id = %o number_of_threads = %w
  func.return %l, %y : i32, f32
}
// CHECK-LABEL:   @lanes
// CHECK-NEXT:      %l = nvvm.vote.sync ballot %m, %c -> i32
// CHECK-NEXT:      %y, %valid = gpu.shuffle xor %x, %o, %w : f32
// CHECK-NEXT:      nvvm.barrier id = %o number_of_threads = %w
// CHECK-NEXT:      nvvm.barrier.arrive id = %o number_of_threads = %w

func.func @boxes(%a: memref<64x256xbf16>, %s: memref<2x4x64x64xbf16, 3 : i64>, %p: i1, %i: index) {
  %u = "memref.cast"(%a) : (memref<64x256xbf16>) -> memref<*xbf16>
  %m = "nvgpu.tma.create.descriptor"(%u, %i, %i) : (memref<*xbf16>, index, index) -> !nvgpu.tensormap.descriptor<tensor = memref<64x64xbf16, 3 : i64>, swizzle = swizzle_128b, l2promo = l2promo_256b, oob = zero, interleave = none>
  %b = "nvgpu.mbarrier.create"() : () -> !nvgpu.mbarrier.group<memorySpace = 3 : i64, num_barriers = 4>
  "nvgpu.mbarrier.init"(%b, %i, %i) : (!nvgpu.mbarrier.group<memorySpace = 3 : i64, num_barriers = 4>, index, index) -> ()
  "nvvm.fence.mbarrier.init"() : () -> ()
  nvvm.setmaxregister decrease 40
  nvvm.setmaxregister increase 232
  %e = "nvvm.elect.sync"() : () -> i1
  "nvgpu.mbarrier.arrive.expect_tx"(%b, %i, %i) : (!nvgpu.mbarrier.group<memorySpace = 3 : i64, num_barriers = 4>, index, index) -> ()
  %d = memref.subview %s[%i, 3, 0, 0] [1, 1, 64, 64] [1, 1, 1, 1] : memref<2x4x64x64xbf16, 3 : i64> to memref<64x64xbf16, strided<[64, 1], offset: ?>, 3 : i64>
  "nvgpu.tma.async.load"(%d, %b, %m, %i, %i, %i) <{operandSegmentSizes = array<i32: 1, 1, 1, 2, 1, 0, 0>}> : (memref<64x64xbf16, strided<[64, 1], offset: ?>, 3 : i64>, !nvgpu.mbarrier.group<memorySpace = 3 : i64, num_barriers = 4>, !nvgpu.tensormap.descriptor<tensor = memref<64x64xbf16, 3 : i64>, swizzle = swizzle_128b, l2promo = l2promo_256b, oob = zero, interleave = none>, index, index, index) -> ()
  "nvgpu.mbarrier.try_wait.parity"(%b, %p, %i, %i) : (!nvgpu.mbarrier.group<memorySpace = 3 : i64, num_barriers = 4>, i1, index, index) -> ()
  %t = "nvgpu.mbarrier.arrive"(%b, %i) : (!nvgpu.mbarrier.group<memorySpace = 3 : i64, num_barriers = 4>, index) -> !nvgpu.mbarrier.token
  func.return
}
// CHECK-LABEL:   @boxes
// CHECK:           %m = "nvgpu.tma.create.descriptor"(%u, %i, %i) : (memref<*xbf16>, index, index) -> !nvgpu.tensormap.descriptor<tensor = memref<64x64xbf16, 3 : i64>, swizzle = swizzle_128b, l2promo = l2promo_256b, oob = zero, interleave = none>
// CHECK-NEXT:      %b = "nvgpu.mbarrier.create"() : () -> !nvgpu.mbarrier.group<memorySpace = 3 : i64, num_barriers = 4>
// CHECK:           nvvm.setmaxregister decrease 40
// CHECK-NEXT:      nvvm.setmaxregister increase 232
// CHECK-NEXT:      %e = "nvvm.elect.sync"() : () -> i1
// CHECK:           "nvgpu.tma.async.load"(%d, %b, %m, %i, %i, %i) <{operandSegmentSizes = array<i32: 1, 1, 1, 2, 1, 0, 0>}> :
