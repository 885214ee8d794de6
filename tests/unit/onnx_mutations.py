"""Models with something wrong: small models of which fields, or bytes, are changed at random.

Reading, importing and running one gives results or `OnnxError`, and nothing else. A model is known by a number, which
is all that is needed to make it again.

    python tests/unit/onnx_mutations.py --count 10000            look for others, in processes of their own
    python tests/unit/onnx_mutations.py --first 4711 --count 1   one of them
    python tests/unit/onnx_mutations.py --first 4711 --save broken.onnx
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import helper
from onnx_models import info, model, node, perceptron
from onnx_operator_cases import CASES

from tenon.onnx import Model, OnnxError, load

INTEGERS = (0, 1, -1, 2, 3, 7, 64, 255, -128, 2**31 - 1, 2**31, -(2**31), 2**40, 2**63 - 1, -(2**63))
REALS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e30, -1e30, 1e-30, math.inf, -math.inf, math.nan)
TEXTS = ("", "x", "y", "N", "\0", "\u00e9\u4e2d", "a" * 300, "../x", "ai.onnx", "ai.onnx.ml", "axis", "NOTSET")
SECONDS = 60
"""After so long a model counts as one that hangs."""
MEMORY = 12 * 2**30
MOST_ELEMENTS = 2**20


# --- models to begin with -------------------------------------------------------------------------


def _structured() -> onnx.ModelProto:
    """Branches, a loop, a scan, a function, constants and named sizes."""
    truth = info("c2", np.bool_, ())
    steps = helper.make_graph(
        [node("Identity", "c1", "c2"), node("Add", "v x", "w"), node("Neg", "w", "row")],
        "steps",
        [info("i", np.int64, ()), info("c1", np.bool_, ()), info("v", np.float32, (2, 3))],
        [truth, info("w", np.float32, (2, 3)), info("row", np.float32, (2, 3))],
    )
    each = helper.make_graph(
        [node("Add", "s e", "t"), node("Exp", "e", "f")],
        "each",
        [info("s", np.float32, (3,)), info("e", np.float32, (3,))],
        [info("t", np.float32, (3,)), info("f", np.float32, (3,))],
    )
    branches = [
        helper.make_graph([node(name, "x", f"b{name}")], name, [], [info(f"b{name}", None)]) for name in ("Neg", "Abs")
    ]
    opsets = [helper.make_opsetid("", 21)]
    twice = helper.make_function("own", "Twice", ["a"], ["b"], [node("Add", "a a", "b")], opsets)
    nodes = [
        node("Constant", "", "k", value=onnx.numpy_helper.from_array(np.asarray(3))),
        node("If", "c", "chosen", "choice", then_branch=branches[0], else_branch=branches[1]),
        node("Loop", "k c x", "last rows", "loop", body=steps),
        node("Scan", "zero chosen", "sum parts", "scan", body=each, num_scan_inputs=1),
        node("Twice", "last", "double", domain="own"),
        node("Reshape", "double shape", "y"),
    ]
    return model(
        nodes,
        {"x": (np.float32, ("N", 3)), "c": (np.bool_, ())},
        ["y", "rows", "sum", "parts"],
        {"zero": np.zeros(3, np.float32), "shape": np.asarray([3, -1])},
        functions=[twice],
        domains={"own": 1},
    )


def _sequences() -> onnx.ModelProto:
    """Sequences and optionals, at the border of the model and through a loop, a branch and a map."""
    tensor = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, (2, 3))
    sequence = helper.make_sequence_type_proto(tensor)
    optional = helper.make_optional_type_proto(tensor)
    steps = helper.make_graph(
        [node("Identity", "c1", "c2"), node("SequenceAt", "s i", "e"), node("SequenceInsert", "v e", "w")],
        "steps",
        [info("i", np.int64, ()), info("c1", np.bool_, ()), helper.make_value_info("v", sequence)],
        [info("c2", np.bool_, ()), helper.make_value_info("w", sequence)],
    )
    each = helper.make_graph([node("Neg", "a", "b")], "each", [info("a", np.float32, (2, 3))], [info("b", np.float32)])
    branches = [
        helper.make_graph([node(name, operand, f"b{name}")], name, [], [info(f"b{name}", None)])
        for name, operand in (("OptionalGetElement", "o"), ("Identity", "x"))
    ]
    nodes = [
        node("SplitToSequence", "x", "parts", "cut", axis=1, keepdims=0),
        node("SequenceLength", "s", "n"),
        node("SequenceConstruct", "x", "one"),
        node("Loop", "n - one", "grown", "loop", body=steps),
        node("SequenceErase", "grown zero", "less"),
        node("SequenceMap", "less", "mapped", body=each),
        node("OptionalHasElement", "o", "has"),
        node("If", "has", "chosen", then_branch=branches[0], else_branch=branches[1]),
        node("SequenceInsert", "mapped chosen zero", "more"),
        node("ConcatFromSequence", "more", "y", axis=0, new_axis=1),
        node("Optional", "", "none", type=sequence),
    ]
    source = model(nodes, {"x": (np.float32, (2, 3))}, ["y", "parts", "none"], {"zero": np.asarray(0)})
    source.graph.input.extend([helper.make_value_info("s", sequence), helper.make_value_info("o", optional)])
    return source


def _trees() -> onnx.ModelProto:
    """A tree with a comparison and a set, and one of the older kind on its scores."""
    attributes: dict[str, Any] = {
        "nodes_featureids": [0, 1],
        "nodes_splits": onnx.numpy_helper.from_array(np.asarray([0.5, 0], np.float32)),
        "nodes_modes": onnx.numpy_helper.from_array(np.asarray([0, 6], np.uint8)),
        "membership_values": onnx.numpy_helper.from_array(np.asarray([1, 2, math.nan], np.float32)),
        "nodes_truenodeids": [1, 0],
        "nodes_trueleafs": [0, 1],
        "nodes_falsenodeids": [2, 1],
        "nodes_falseleafs": [1, 1],
        "tree_roots": [0],
        "leaf_targetids": [0, 1, 0],
        "leaf_weights": onnx.numpy_helper.from_array(np.asarray([1, 2, 3], np.float32)),
        "n_targets": 2,
    }
    older: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [1, 0, 0],
        "nodes_modes": ["BRANCH_LT", "LEAF", "LEAF"],
        "nodes_values": [1.5, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "class_treeids": [0, 0],
        "class_nodeids": [1, 2],
        "class_ids": [0, 1],
        "class_weights": [0.5, 1.0],
        "classlabels_int64s": [3, 4],
    }
    nodes = [
        node("TreeEnsemble", "x", "y", domain="ai.onnx.ml", **attributes),
        node("TreeEnsembleClassifier", "y", "label scores", domain="ai.onnx.ml", **older),
    ]
    return model(nodes, {"x": (np.float32, (2, 3))}, ["label", "scores"], domains={"ai.onnx.ml": 5})


@cache
def seeds() -> list[bytes]:
    """Small models: those of the operators, and some with more structure."""
    special = [_structured(), _sequences(), _trees(), perceptron()[0]]
    operators = {(case.operator, case.opset): case for case in CASES}.values()
    ordinary = [case.model().SerializeToString() for case in operators]
    return [proto.SerializeToString() for proto in special] * (len(ordinary) // 6) + ordinary


# --- mutations ------------------------------------------------------------------------------------


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                yield from _messages(inner)


def _scalar(field: FieldDescriptor, old: Any, texts: list[str], chance: random.Random) -> Any:
    """Another value of a field, near the old one or far from it."""
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
            data = bytearray(old)
            for _ in range(chance.choice((0, 1, 3))):
                if data:
                    data[chance.randrange(len(data))] = chance.randrange(256)
            return bytes(
                data[: chance.choice((len(data), len(data) // 2, max(len(data) - 1, 0))) + chance.choice((0, 9))]
            )
        case FieldDescriptor.CPPTYPE_STRING:
            return chance.choice(texts)
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return chance.choice(REALS)
        case FieldDescriptor.CPPTYPE_BOOL:
            return not old
        case FieldDescriptor.CPPTYPE_ENUM:
            assert field.enum_type is not None
            return chance.choice([v.number for v in field.enum_type.values])
        case _:
            unsigned = field.cpp_type in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64)
            bits = 32 if field.cpp_type in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32) else 64
            value = chance.choice((*INTEGERS, old + 1, old - 1, -old, chance.randrange(30)))
            low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            return min(max(value, low), high)


def _change_list(
    field: FieldDescriptor, values: Any, others: list[Message], texts: list[str], chance: random.Random
) -> None:
    place = chance.randrange(len(values)) if len(values) else 0
    what = chance.choice(("drop", "double", "swap", "change", "change"))
    if what == "swap" and len(values) > 1 and field.message_type is not None:
        values.insert(chance.randrange(len(values)), values.pop(place))
    elif what == "drop" and len(values):
        del values[place]
    elif field.message_type is not None:
        same = [m for m in others if m.DESCRIPTOR is field.message_type] or [None]
        taken = chance.choice(same)
        copied = type(taken)() if taken is not None else None
        if copied is not None and taken is not None:
            copied.CopyFrom(taken)
        new = values.add()
        if copied is not None:
            new.CopyFrom(copied)
    else:
        old = values[place] if len(values) else {FieldDescriptor.CPPTYPE_STRING: ""}.get(field.cpp_type, 0)
        if field.type == FieldDescriptor.TYPE_BYTES and not len(values):
            old = b""
        new = _scalar(field, old, texts, chance)
        if what == "change" and len(values):
            values[place] = new
        else:
            values.append(new)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The bytes of a model with one to three changes."""
    if chance.random() < 0.25:
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 1, 2, 5))):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        return bytes(damaged)
    proto = onnx.ModelProto.FromString(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        everything = list(_messages(proto))
        # Nodes and attributes are what the importer has most to do with.
        likely = [m for m in everything if isinstance(m, onnx.NodeProto | onnx.AttributeProto | onnx.TensorProto)]
        target: Any = chance.choice(likely if likely and chance.random() < 0.6 else everything)
        texts = [*TEXTS, *_names(proto)]
        present = [field for field, _ in target.ListFields()]
        fields = present if present and chance.random() < 0.8 else list(target.DESCRIPTOR.fields)
        field = chance.choice(fields)
        if field.is_repeated:
            _change_list(field, getattr(target, field.name), everything, texts, chance)
        elif field.message_type is not None:
            same = [m for m in everything if m.DESCRIPTOR is field.message_type and m is not target]
            chosen = chance.choice(same) if same and chance.random() < 0.5 else None
            copied = None if chosen is None else chosen.SerializeToString()
            target.ClearField(field.name)
            if copied is not None:
                getattr(target, field.name).ParseFromString(copied)
        elif chance.random() < 0.15:
            target.ClearField(field.name)
        else:
            setattr(target, field.name, _scalar(field, getattr(target, field.name), texts, chance))
    return proto.SerializeToString()


def _names(proto: onnx.ModelProto) -> list[str]:
    """Names that are in use, and some operators."""
    names = [name for each in proto.graph.node for name in (*each.input, *each.output, each.op_type)]
    return [*names, "Neg", "Concat", "Loop", "Shape", "Gather", "Reshape", "Cast"]


def broken(number: int) -> bytes:
    """The model of this number."""
    chance = random.Random(number)
    return mutated(chance.choice(seeds()), chance)


# --- what has to hold -----------------------------------------------------------------------------


def arguments(loaded: Model) -> dict[str, Any] | None:
    """Zeros and ones for its inputs; `None` where these are unknown or large."""
    given: dict[str, Any] = {}
    for entry in loaded.inputs:
        if entry.dtype is None or entry.shape is None:
            return None
        shape = tuple(size if isinstance(size, int) else 2 for size in entry.shape)
        if math.prod(shape) > MOST_ELEMENTS or len(shape) > 32:
            return None
        array = (np.arange(math.prod(shape)) % 2).reshape(shape).astype(entry.dtype)
        given[entry.name] = [array, array] if entry.is_sequence else array
    return given


def attempt(data: bytes, run: bool) -> str:
    """How far a model gets: "read", "traced", "run", or "refused". Raises what it must not raise."""
    reached = "refused"
    try:
        loaded = load(data)
        reached = "read"
        loaded.trace(**{entry.name: [None, None] for entry in loaded.inputs if entry.is_sequence})
        reached = "traced"
        given = arguments(loaded) if run else None
        if given is not None and sum(a.size for a in loaded.weights.values()) < MOST_ELEMENTS:
            loaded.apply(loaded.weights, **given)
            reached = "run"
    except OnnxError as error:
        text = str(error)
        assert text, "an error without a word"
        assert "object has no attribute" not in text, text
        assert "NoneType" not in text, text
        assert "unpack" not in text, text
    return reached


# --- looking for more -----------------------------------------------------------------------------


class Hanging(BaseException):
    """It takes too long."""


def _alarm(*_: Any) -> None:
    raise Hanging


def _batch(first: int, count: int, run: bool, sender: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, _alarm)
    for number in range(first, first + count):
        sender.send((number, "begins", ""))
        signal.alarm(SECONDS)
        try:
            sender.send((number, attempt(broken(number), run), ""))
        except Hanging:
            sender.send((number, "hangs", traceback.format_exc()))
        except BaseException:
            sender.send((number, "raises", traceback.format_exc()))
        finally:
            signal.alarm(0)
    sender.close()


def search(first: int, count: int, run: bool, found: Callable[[int, str, str], None]) -> dict[str, int]:
    """Try models from number `first` on, in processes of their own, and tell `found` what goes wrong."""
    counts: dict[str, int] = {}
    context = multiprocessing.get_context("fork")
    seeds()
    number, end = first, first + count
    while number < end:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_batch, args=(number, min(200, end - number), run, sender))
        process.start()
        sender.close()
        last, is_open = number - 1, True
        pending = False
        while is_open:
            try:
                if not receiver.poll(SECONDS + 30):
                    process.kill()
                    break
                last, outcome, details = receiver.recv()
            except EOFError:
                break
            pending = outcome == "begins"
            if not pending:
                counts[outcome] = counts.get(outcome, 0) + 1
                if outcome in ("hangs", "raises"):
                    found(last, outcome, details)
        process.join()
        if pending:
            counts["crashes"] = counts.get("crashes", 0) + 1
            found(last, "crashes", f"status {process.exitcode}")
        number = last + 1
    return counts


def main() -> int:
    """Run what the command line asks for; the exit status is 1 where something was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, help="the number of the first model (by default, from the clock)")
    parser.add_argument("--count", type=int, default=1000, help="how many models")
    parser.add_argument("--read-only", action="store_true", help="do not run what can be imported")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the first model to a file, and end")
    options = parser.parse_args()
    first = int(time.time()) % 10**9 * 1000 if options.first is None else options.first
    if options.save:
        options.save.write_bytes(broken(first))
        return 0
    print(f"models from {first} on", flush=True)

    def found(number: int, outcome: str, details: str) -> None:
        print(f"--- {number} {outcome}\n{details}", flush=True)

    counts = search(first, options.count, not options.read_only, found)
    print(" ".join(f"{name}: {count}" for name, count in sorted(counts.items())))
    return any(counts.get(name) for name in ("hangs", "raises", "crashes"))


if __name__ == "__main__":
    sys.exit(main())
