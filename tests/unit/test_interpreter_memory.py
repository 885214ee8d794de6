"""The interpreter's `tensor`, `memref` and `vector` against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from interpreting import DTYPES, run
from random_numbers import generator

from tenon.dialects.interpreter.interpreter import InterpreterError

RANDOM = generator()


class TestTensor:
    def test_elements(self):
        text = """func.func @main(%x: tensor<2x3xf32>, %i: index)
            -> (f32, tensor<2x3xf32>, tensor<2xf32>, tensor<4xf32>) {
          %c1 = arith.constant 1 : index
          %e = tensor.extract %x[%c1, %i] : tensor<2x3xf32>
          %u = tensor.insert %e into %x[%i, %c1] : tensor<2x3xf32>
          %f = tensor.from_elements %e, %e : tensor<2xf32>
          %s = tensor.splat %e : tensor<4xf32>
          func.return %e, %u, %f, %s : f32, tensor<2x3xf32>, tensor<2xf32>, tensor<4xf32>
        }"""
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        element, updated, elements, splat = run(text, x, 0)
        assert element == 3
        np.testing.assert_array_equal(x, np.arange(6).reshape(2, 3))
        np.testing.assert_array_equal(updated, [[0, 3, 2], [3, 4, 5]])
        np.testing.assert_array_equal(elements, [3, 3])
        np.testing.assert_array_equal(splat, [3] * 4)

    def test_slices(self):
        text = """func.func @main(%x: tensor<4x6xi32>, %y: tensor<3xi32>, %o: index)
            -> (tensor<2x3xi32>, tensor<6xi32>, tensor<4x6xi32>) {
          %a = tensor.extract_slice %x[%o, 1] [2, 3] [1, 2] : tensor<4x6xi32> to tensor<2x3xi32>
          %b = tensor.extract_slice %x[%o, 0] [1, 6] [1, 1] : tensor<4x6xi32> to tensor<6xi32>
          %c = tensor.insert_slice %y into %x[%o, 2] [1, 3] [1, 1] : tensor<3xi32> into tensor<4x6xi32>
          func.return %a, %b, %c : tensor<2x3xi32>, tensor<6xi32>, tensor<4x6xi32>
        }"""
        x = np.arange(24, dtype=np.int32).reshape(4, 6)
        y = np.array([-1, -2, -3], np.int32)
        a, b, c = run(text, x, y, 2)
        np.testing.assert_array_equal(a, x[2:4, 1:6:2])
        np.testing.assert_array_equal(b, x[2])
        expected = x.copy()
        expected[2, 2:5] = y
        np.testing.assert_array_equal(c, expected)
        assert x[2, 2] == 14
        with pytest.raises(
            InterpreterError, match=r"tensor.extract_slice: index \[4, 5\] is out of bounds for shape \(4, 6\)"
        ):
            run(text, x, y, 3)

    def test_shapes(self):
        text = """func.func @main(%x: tensor<2x6xf32>)
            -> (tensor<12xf32>, tensor<2x3x2xf32>, tensor<3x4xf32>, index, tensor<4x6xf32>) {
          %c1 = arith.constant 1 : index
          %shape = arith.constant dense<[3, 4]> : tensor<2xindex>
          %a = tensor.collapse_shape %x [[0 : i64, 1 : i64]] : tensor<2x6xf32> into tensor<12xf32>
          %b = tensor.expand_shape %x [[0 : i64], [1 : i64, 2 : i64]] output_shape [2, 3, 2]
            : tensor<2x6xf32> into tensor<2x3x2xf32>
          %c = tensor.reshape %x(%shape) : (tensor<2x6xf32>, tensor<2xindex>) -> tensor<3x4xf32>
          %d = tensor.dim %x, %c1 : tensor<2x6xf32>
          %e = tensor.concat dim(0) %x, %x : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>
          %f = tensor.cast %x : tensor<2x6xf32> to tensor<2x?xf32>
          func.return %a, %b, %c, %d, %e : tensor<12xf32>, tensor<2x3x2xf32>, tensor<3x4xf32>, index, tensor<4x6xf32>
        }"""
        x = RANDOM.standard_normal((2, 6)).astype(np.float32)
        a, b, c, d, e = run(text, x)
        np.testing.assert_array_equal(a, x.reshape(12))
        np.testing.assert_array_equal(b, x.reshape(2, 3, 2))
        np.testing.assert_array_equal(c, x.reshape(3, 4))
        assert d == 6
        np.testing.assert_array_equal(e, np.concatenate([x, x]))

    def test_rank_zero(self):
        text = """func.func @main(%p: tensor<i1>, %x: tensor<1xf32>) -> (f32, tensor<f32>) {
          %shape = arith.constant dense<> : tensor<0xindex>
          %s = tensor.reshape %x(%shape) : (tensor<1xf32>, tensor<0xindex>) -> tensor<f32>
          %c = tensor.extract %p[] : tensor<i1>
          %v = tensor.extract %s[] : tensor<f32>
          %n = arith.negf %v : f32
          %r = arith.select %c, %v, %n : f32
          func.return %r, %s : f32, tensor<f32>
        }"""
        value, scalar = run(text, np.array(False), np.array([2.5], np.float32))
        assert value == -2.5
        assert scalar.shape == ()
        assert scalar == 2.5

    @pytest.mark.parametrize("index", [-1, 3])
    def test_extract_out_of_bounds(self, index):
        text = """func.func @main(%x: tensor<3x3xf32>, %i: index) -> f32 {
          %r = tensor.extract %x[%i, %i] : tensor<3x3xf32>
          func.return %r : f32
        }"""
        message = rf"tensor.extract: index \[{index}, {index}\] is out of bounds for shape \(3, 3\)"
        with pytest.raises(InterpreterError, match=message):
            run(text, np.zeros((3, 3), np.float32), index)

    def test_empty_tensors_show_when_read(self):
        text = """func.func @main() -> (tensor<2xf32>, tensor<2xi8>) {
          %f = tensor.empty() : tensor<2xf32>
          %i = tensor.empty() : tensor<2xi8>
          func.return %f, %i : tensor<2xf32>, tensor<2xi8>
        }"""
        floats, integers_ = run(text)
        assert np.isnan(floats).all()
        assert (integers_ == -128).all()


class TestMemref:
    def test_views_of_an_arena_alias(self):
        text = """func.func @main(%arena: memref<256xi8>) -> f32 {
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %offset = arith.constant 64 : index
          %a = memref.view %arena[%offset][] : memref<256xi8> to memref<2x3xf32>
          %b = memref.view %arena[%offset][] : memref<256xi8> to memref<6xf32>
          %c = memref.view %arena[%offset][] : memref<256xi8> to memref<f32>
          %v = arith.constant 1.5 : f32
          memref.store %v, %a[%one, %zero] : memref<2x3xf32>
          memref.store %v, %c[] : memref<f32>
          %three = arith.constant 3 : index
          %r = memref.load %b[%three] : memref<6xf32>
          func.return %r : f32
        }"""
        arena = np.zeros(256, np.int8)
        assert run(text, arena) == (1.5,)
        np.testing.assert_array_equal(arena[64:88].view(np.float32), [1.5, 0, 0, 1.5, 0, 0])

    def test_views_stay_in_the_arena(self):
        text = """func.func @main(%arena: memref<64xi8>, %offset: index) {
          %a = memref.view %arena[%offset][] : memref<64xi8> to memref<4xf64>
          func.return
        }"""
        run(text, np.zeros(64, np.int8), 32)
        with pytest.raises(InterpreterError, match=r"memref\.view: bytes 33 to 65 are out of bounds for 64 bytes"):
            run(text, np.zeros(64, np.int8), 33)

    def test_subview_reinterpret_cast_and_reshapes_write_through(self):
        text = """func.func @main(%x: memref<4x6xf32>, %o: index) -> index {
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %v = arith.constant 1.0 : f32
          %w = arith.constant 2.0 : f32
          %z = arith.constant 3.0 : f32
          %s = memref.subview %x[%o, 1] [1, 3] [1, 2] : memref<4x6xf32> to memref<3xf32, strided<[2], offset: ?>>
          memref.store %v, %s[%one] : memref<3xf32, strided<[2], offset: ?>>
          %r = memref.reinterpret_cast %x to offset: [0], sizes: [3, 8], strides: [8, 1]
            : memref<4x6xf32> to memref<3x8xf32>
          memref.store %w, %r[%one, %one] : memref<3x8xf32>
          %c = memref.collapse_shape %x [[0 : i64, 1 : i64]] : memref<4x6xf32> into memref<24xf32>
          memref.store %z, %c[%zero] : memref<24xf32>
          %d = memref.dim %x, %one : memref<4x6xf32>
          func.return %d : index
        }"""
        x = np.zeros((4, 6), np.float32)
        expected = x.copy()
        expected[2, 3], expected.flat[9], expected[0, 0] = 1, 2, 3
        assert run(text, x, 2) == (6,)
        np.testing.assert_array_equal(x, expected)

    def test_reinterpret_cast_stays_in_bounds(self):
        text = """func.func @main(%x: memref<4xf32>) {
          %r = memref.reinterpret_cast %x to offset: [0], sizes: [5], strides: [1] : memref<4xf32> to memref<5xf32>
          func.return
        }"""
        with pytest.raises(
            InterpreterError, match=r"memref\.reinterpret_cast: elements 0 to 4 are out of bounds for 4"
        ):
            run(text, np.zeros(4, np.float32))

    def test_reinterpret_cast_needs_the_base_of_the_buffer(self):
        text = """func.func @main(%x: memref<4xf32>) {
          %s = memref.subview %x[1] [2] [1] : memref<4xf32> to memref<2xf32, strided<[1], offset: 1>>
          %r = memref.reinterpret_cast %s to offset: [0], sizes: [2], strides: [1]
            : memref<2xf32, strided<[1], offset: 1>> to memref<2xf32>
          func.return
        }"""
        with pytest.raises(InterpreterError, match=r"memref\.reinterpret_cast: the offset of .* is not known to be 0"):
            run(text, np.zeros(4, np.float32))

    def test_globals(self):
        text = """
        "memref.global"() <{sym_name = "weights", sym_visibility = "private", type = memref<2xf32>,
          initial_value = dense<[1.0, 2.0]> : tensor<2xf32>, constant}> : () -> ()
        func.func @main(%y: memref<2xf32>, %write: i1) {
          %w = memref.get_global @weights : memref<2xf32>
          "memref.copy"(%w, %y) : (memref<2xf32>, memref<2xf32>) -> ()
          scf.if %write {
            "memref.copy"(%y, %w) : (memref<2xf32>, memref<2xf32>) -> ()
          }
          func.return
        }"""
        y = np.zeros(2, np.float32)
        run(text, y, False)
        np.testing.assert_array_equal(y, [1, 2])
        with pytest.raises(InterpreterError, match=r"memref\.copy: .*read-only"):
            run(text, y, True)

    def test_alloc_shows_when_read(self):
        text = """func.func @main(%i: index) -> f32 {
          %a = memref.alloc() : memref<2x2xf32>
          %b = memref.alloca() : memref<2xf32>
          %v = memref.load %a[%i, %i] : memref<2x2xf32>
          func.return %v : f32
        }"""
        assert np.isnan(run(text, 0)[0])

    @pytest.mark.parametrize("index", [-1, 2])
    def test_load_and_store_out_of_bounds(self, index):
        text = """func.func @main(%x: memref<2xf32>, %i: index, %load: i1) {{
          %v = arith.constant 1.0 : f32
          scf.if %load {{
            %w = memref.load %x[%i] : memref<2xf32>
          }} else {{
            memref.store %v, %x[%i] : memref<2xf32>
          }}
          func.return
        }}""".replace("{{", "{").replace("}}", "}")
        for name, is_load in (("load", True), ("store", False)):
            with pytest.raises(
                InterpreterError, match=rf"memref.{name}: index \[{index}\] is out of bounds for shape \(2,\)"
            ):
                run(text, np.zeros(2, np.float32), index, is_load)

    @pytest.mark.parametrize(("kind", "expected"), [(0, 5.5), (2, 2.0), (3, 3.5), (6, 2.0), (9, 7.0)])
    def test_atomic_rmw(self, kind, expected):
        text = f"""func.func @main(%x: memref<2xf32>, %v: f32) -> f32 {{
          %one = arith.constant 1 : index
          %old = "memref.atomic_rmw"(%v, %x, %one) <{{kind = {kind} : i64}}> : (f32, memref<2xf32>, index) -> f32
          func.return %old : f32
        }}"""
        x = np.array([0, 3.5], np.float32)
        assert run(text, x, 2.0) == (3.5,)
        assert x[1] == expected


class TestVector:
    def test_loads_copy_and_stores_write(self):
        text = """func.func @main(%x: memref<4x8xf32>, %i: index, %j: index) {
          %v = vector.load %x[%i, %j] : memref<4x8xf32>, vector<4xf32>
          %w = vector.load %x[%i, %j] : memref<4x8xf32>, vector<2x2xf32>
          %z = arith.constant dense<0.0> : vector<4xf32>
          vector.store %z, %x[%i, %j] : memref<4x8xf32>, vector<4xf32>
          %s = arith.addf %v, %v : vector<4xf32>
          %zero = arith.constant 0 : index
          vector.store %s, %x[%zero, %zero] : memref<4x8xf32>, vector<4xf32>
          vector.store %w, %x[%zero, %j] : memref<4x8xf32>, vector<2x2xf32>
          func.return
        }"""
        x = np.arange(32, dtype=np.float32).reshape(4, 8)
        expected = x.copy()
        expected[2, 4:8] = 0
        expected[0, :4] = 2 * x[2, 4:8]
        expected[0:2, 4:6] = x[2:4, 4:6]
        run(text, x, 2, 4)
        np.testing.assert_array_equal(x, expected)
        with pytest.raises(InterpreterError, match=r"vector.load: index \[2, 8\] is out of bounds for shape \(4, 8\)"):
            run(text, x, 2, 5)

    def test_masked_access_touches_only_its_lanes(self):
        text = """func.func @main(%x: memref<6xf32>, %i: index, %n: index) -> vector<4xf32> {
          %mask = vector.create_mask %n : vector<4xi1>
          %pass = arith.constant dense<-1.0> : vector<4xf32>
          %v = vector.maskedload %x[%i], %mask, %pass : memref<6xf32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
          %d = arith.addf %v, %v : vector<4xf32>
          vector.maskedstore %x[%i], %mask, %d : memref<6xf32>, vector<4xi1>, vector<4xf32>
          func.return %v : vector<4xf32>
        }"""
        x = np.arange(6, dtype=np.float32)
        np.testing.assert_array_equal(run(text, x, 4, 2)[0], [4, 5, -1, -1])
        np.testing.assert_array_equal(x, [0, 1, 2, 3, 8, 10])
        np.testing.assert_array_equal(run(text, x, 9, 0)[0], [-1] * 4)
        with pytest.raises(InterpreterError, match=r"vector.maskedload: index \[6\] is out of bounds for shape \(6,\)"):
            run(text, x, 4, 3)

    def test_lanes(self):
        text = """func.func @main(%a: vector<4xf32>, %s: f32, %k: index)
            -> (vector<4xf32>, vector<4xf32>, f32, vector<4xf32>, vector<5xf32>, vector<4xi32>) {
          %b = vector.broadcast %s : f32 to vector<4xf32>
          %f = vector.fma %a, %b, %a : vector<4xf32>
          %e = "vector.extract"(%a, %k) <{static_position = array<i64: -9223372036854775808>}>
            : (vector<4xf32>, index) -> f32
          %i = "vector.insert"(%s, %a) <{static_position = array<i64: 1>}> : (f32, vector<4xf32>) -> vector<4xf32>
          %h = vector.shuffle %a, %i [0, 5, 2, 7, 1] : vector<4xf32>, vector<4xf32>
          %c = vector.bitcast %a : vector<4xf32> to vector<4xi32>
          func.return %b, %f, %e, %i, %h, %c
            : vector<4xf32>, vector<4xf32>, f32, vector<4xf32>, vector<5xf32>, vector<4xi32>
        }"""
        a = np.array([1, 2, 3, 4], np.float32)
        broadcast, fused, extracted, inserted, shuffled, bits = run(text, a, 10.0, 2)
        np.testing.assert_array_equal(broadcast, [10] * 4)
        np.testing.assert_array_equal(fused, 11 * a)
        assert extracted == 3
        np.testing.assert_array_equal(inserted, [1, 10, 3, 4])
        np.testing.assert_array_equal(shuffled, [1, 10, 3, 4, 2])
        np.testing.assert_array_equal(bits, a.view(np.int32))

    @pytest.mark.parametrize(
        ("kind", "element", "expected"),
        [
            ("add", "f32", 8),
            ("mul", "f32", 24),
            ("maximumf", "f32", 4),
            ("minimumf", "f32", -1),
            ("add", "i8", 8),
            ("mul", "i8", 24),
            ("maxsi", "i8", 6),
            ("maxui", "i8", -1),
            ("minsi", "i8", -3),
            ("minui", "i8", 2),
            ("and", "i8", 0),
            ("or", "i8", -1),
            ("xor", "i8", -1 ^ 4 ^ -3 ^ 2 ^ 6),
        ],
    )
    def test_reduction(self, kind, element, expected):
        lanes = {"f32": [-1, 4, 2, 3, -1], "i8": [-1, 4, -3, 2, 6]}[element]
        if kind in ("add", "mul"):
            lanes = {"add": [-1, 4, 2, 3, 0], "mul": [-1, 4, -2, 3, 1]}[kind]
        n = len(lanes)
        text = f"""func.func @main(%v: vector<{n}x{element}>) -> {element} {{
          %r = vector.reduction <{kind}>, %v : vector<{n}x{element}> into {element}
          func.return %r : {element}
        }}"""
        assert run(text, np.array(lanes, DTYPES[element])) == (expected,)

    def test_reduction_with_start(self):
        text = """func.func @main(%v: vector<3xf32>, %s: f32) -> f32 {
          %r = vector.reduction <add>, %v, %s : vector<3xf32> into f32
          func.return %r : f32
        }"""
        assert run(text, np.array([1, 2, 3], np.float32), 10.0) == (16,)
