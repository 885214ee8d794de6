"""What the key of compiled code is made of: equal for modules that are alike, different for all others."""

import functools
from dataclasses import fields, replace

import numpy as np
import pytest
from xdsl.parser import Parser

import tenon
from tenon.lowering.options import LoweringOptions
from tenon.runtime import executables, lower
from tenon.runtime.lower import new_context
from tenon.runtime.store.module_digest import digest

KERNEL = """
builtin.module {
  func.func @main(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
    %c = tenon.constant {value = dense<2.500000e+00> : tensor<f32>} : tensor<f32>
    %y = tenon.multiply %x, %c : tensor<4x3xf32>, tensor<f32> -> tensor<4x3xf32>
    %z = tenon.cast %y {dtype = f32} : tensor<4x3xf32> -> tensor<4x3xf32>
    %w = tenon.selu %z {alpha = 0.0, gamma = 1.0} : tensor<4x3xf32> -> tensor<4x3xf32>
    func.return %w : tensor<4x3xf32>
  }
}
"""


def digest_of(text):
    return digest(Parser(new_context(), text).parse_module())


def test_what_is_parsed_again_is_the_same():
    module = Parser(new_context(), KERNEL).parse_module()
    assert digest(module) == digest(module.clone()) == digest_of(KERNEL) == digest_of(str(module))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tenon.multiply", "tenon.add"),
        ("%x, %c : tensor<4x3xf32>, tensor<f32>", "%x, %x : tensor<4x3xf32>, tensor<4x3xf32>"),
        ("4x3xf32", "3x4xf32"),
        ("xf32", "xf64"),
        ("2.500000e+00", "2.500001e+00"),
        ("alpha = 0.0", "alpha = -0.0"),
        ("gamma = 1.0", "gamma = 1.0000000000000002"),
        ("gamma = 1.0", "gamma = inf"),
        ("@main", "@other"),
        ("%x", "%input"),
        ("func.return %w", "func.return %z"),
        ("-> tensor<4x3xf32> {\n    %c", "-> tensor<4x3xf32> attributes {donations = array<i64: 0>} {\n    %c"),
    ],
)
def test_every_difference_counts(old, new):
    assert old in KERNEL
    text = KERNEL.replace(old, new).replace("f32} ", "f64} " if new == "xf64" else "f32} ")
    text = text.replace("tensor<f32>", "tensor<f64>") if new == "xf64" else text
    assert digest_of(text) != digest_of(KERNEL)


def traced(function, *arguments):
    return digest(tenon.jit(function).trace(*arguments).module)


def test_arrays_count_element_by_element():
    x = np.ones((3, 5), np.float32)
    masks = [np.tri(3, 5, k, dtype=bool) for k in (0, 1)]
    digests = {traced(lambda x, mask=mask: tenon.select(mask, x, 0.0), x) for mask in masks}
    assert len(digests) == 2
    zeros = np.zeros(5, np.float32)
    assert traced(lambda x: x * zeros, x) != traced(lambda x: x * -zeros, x)


def test_which_of_several_attributes_an_op_has_counts():
    x = np.float32(0.5)

    def chain(*alphas):
        return traced(lambda x: functools.reduce(lambda x, alpha: tenon.selu(x, alpha=alpha), alphas, x), x)

    assert len({chain(1.0, 2.0, 1.0), chain(1.0, 2.0, 2.0), chain(1.0, 2.0, 3.0)}) == 3


def test_sizes_that_types_do_not_print_count():
    n, m = tenon.dim("n"), tenon.dim("m")
    modules = [tenon.jit(lambda x: tenon.exp(x)).trace(tenon.ShapeDtype(shape)).module for shape in ((n, m), (m, n))]
    texts = [str(module).replace('["n", "m"]', "").replace('["m", "n"]', "") for module in modules]
    assert texts[0] == texts[1]
    for module in modules:  # where the names stand in an attribute, too, types alone must tell
        next(iter(module.ops)).arg_attrs = None
    assert digest(modules[0]) != digest(modules[1])


def test_regions_count():
    x = np.float32(1.0)
    forms = [lambda x: tenon.cond(x > 0, lambda: x, lambda: -x), lambda x: tenon.cond(x > 0, lambda: -x, lambda: x)]
    assert traced(forms[0], x) != traced(forms[1], x)


def test_where_ops_come_from_does_not_count():
    x = np.float32(1.0)
    assert traced(lambda x: x + 1.0, x) == traced(
        lambda x: x + 1.0,
        x,
    )


@pytest.mark.parametrize("name", [field.name for field in fields(LoweringOptions) if field.name != "tuning"])
def test_every_option_of_lowering_counts(name, monkeypatch):
    options, before = lower.options("cpu"), executables._target_key("cpu", lower.options("cpu"))
    other = {"vector_bits": 64, "cache": 12345, "dots": ("other",), "exact_math": "exp"}.get(
        name, not getattr(options, name)
    )
    monkeypatch.setattr(lower, "options", lambda device: replace(options, **{name: other}))
    assert executables._target_key("cpu", lower.options("cpu")) != before


def test_what_a_tuning_record_says_counts_not_where_it_lies(tmp_path):
    keys = []
    for number, text in enumerate(("{}", "{}", "[]")):
        path = tmp_path / f"{number}.json"
        path.write_text(text)
        with tenon.knobs.override(tuning=path):
            keys.append(executables._target_key("cpu", lower.options("cpu")))
    assert keys[0] == keys[1] != keys[2]
