"""Functions as files: the text of their IR, and their arrays, in one file of the format of safetensors.

The texts are in the file's metadata: the version of the format, the program, how arguments become its inputs, and a
digest of all. Nothing in a file is run when it is read.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ParseError, VerifyException

from tenon.dialects.support.plain_arrays import elements_of, host_array, is_stored
from tenon.dialects.upstream.module_parser import ModuleParser
from tenon.eager.recording import Stored
from tenon.lowering.pipeline import run_passes
from tenon.runtime.arguments.interface import main_function
from tenon.runtime.arguments.tree import Structure
from tenon.runtime.lower import new_context
from tenon.runtime.reads.places import Place
from tenon.runtime.stages import Traced
from tenon.saving import read_arrays, write_arrays
from tenon.traces.loaded import LoadedFunction
from tenon.traces.outcomes import Made
from tenon.traces.portable import portable
from tenon.traces.program import Program
from tenon.traces.upgrades import VERSION, Content, upgraded

_VERSION, _PROGRAM, _FUNCTION, _DIGEST = "tenon.version", "tenon.program", "tenon.function", "tenon.digest"


def write_program(path: str | Path, program: Program, args: Any, kwargs: Any) -> None:
    """Write what a traced function does with arguments like these."""
    inputs: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {}
    leaves: list[Any] = []
    structure = _described((args, kwargs), leaves)
    states: dict[int, str] = {}
    for given in program.arguments:
        if given.argument is not None:
            inputs.append({"argument": given.argument})
        else:
            name = _unique(given.name, arrays)
            value = given.place.get() if given.place is not None else given.tensor
            arrays[name] = host_array(elements_of(value))
            states[id(given)] = name
            inputs.append({"state": name})
    for number, array in enumerate(program.captured):
        name = _unique(f"array.{number}", arrays)
        arrays[name] = host_array(array)
        inputs.append({"state": name})
    function = {
        "name": program.name,
        "arguments": structure,
        "inputs": inputs,
        "changes": _changes(program, states),
        "result": _result(program, args, kwargs, leaves, states),
        "tensors": True,
    }
    _write(path, program.module, function, arrays)


def write_traced(path: str | Path, traced: Traced) -> None:
    """Write a function of `jit`, traced for some arguments."""
    if traced.signature is None or traced.frozen:
        raise TypeError(f"save: {traced.name} has frozen arguments; save the function that takes them")
    structure: Structure = traced.signature.key[0]
    main = main_function(traced.module)
    numbers = iter(range(len(main.body.block.args)))
    count = len(main.body.block.args) - len(traced.captured)
    arrays = {f"array.{number}": host_array(array) for number, array in enumerate(traced.captured)}
    function = {
        "name": traced.name,
        "arguments": _structure(structure, numbers),
        "inputs": [*[{"argument": number} for number in range(count)], *[{"state": name} for name in arrays]],
        "changes": [],
        "result": _structure(traced.result, iter(range(traced.result.size)), "output"),
        "tensors": False,
    }
    _write(path, traced.module, function, arrays)


def _write(path: str | Path, module: ModuleOp, function: dict[str, Any], arrays: Mapping[str, Any]) -> None:
    whole = portable(module)
    main_function(whole).attributes.pop("donations", None)
    texts = {_VERSION: str(VERSION), _PROGRAM: str(whole), _FUNCTION: json.dumps(function)}
    write_arrays(path, arrays, {**texts, _DIGEST: _digest(texts, arrays)})


def load(path: str | Path, device: str | None = None) -> LoadedFunction:
    """The function that `save` of a traced one has written to a file: with its tensors, in `state`, which it changes as
    the saved one did.

    It runs on `device` (`"cpu"`, `"cuda"`, `"cuda:1"`), wherever it was saved; without one, on the GPU that an argument
    is on, or on the CPU. Raises `ValueError` for a file that is none of a function, is damaged, or is of a newer
    version than this Tenon reads.
    """
    arrays, texts = read_arrays(path)
    if _VERSION not in texts:
        raise ValueError(f"{path} is no file of a function; tenon.saving.load reads trees of arrays")
    try:
        version = int(texts[_VERSION])
    except ValueError:
        raise ValueError(f"{path} is damaged: its version is {texts[_VERSION]!r}") from None
    told = {name: text for name, text in texts.items() if name != _DIGEST}
    if version <= VERSION and texts.get(_DIGEST) != _digest(told, arrays):
        raise ValueError(f"{path} is damaged: its content is not what was written")
    if version > VERSION:
        upgraded(Content("", {}), version, str(path))
    content = upgraded(Content(texts[_PROGRAM], json.loads(texts[_FUNCTION])), version, str(path))
    try:
        context = new_context()
        module = ModuleParser(context, content.program, str(path)).parse_module()
        module.verify()
        run_passes(context, module, ["name-sizes"])
    except (ParseError, VerifyException) as error:
        raise ValueError(f"{path}: {error}") from None
    state = {name: np.array(array) for name, array in arrays.items()}
    return LoadedFunction(module, content.function, state, version, device)


def _digest(texts: Mapping[str, str], arrays: Mapping[str, Any]) -> str:
    found = hashlib.sha256(json.dumps(dict(sorted(texts.items()))).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(array.reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def _unique(name: str, taken: Mapping[str, Any]) -> str:
    number, result = 0, name
    while result in taken:
        number += 1
        result = f"{name}.{number}"
    return result


class _Mark:
    """In the place of an array that a program gives, or, without a number, of a view of one."""

    def __init__(self, number: int | None) -> None:
        self.number = number

    def __getitem__(self, key: Any) -> _Mark:
        return _Mark(None)

    def reshape(self, *given: Any) -> _Mark:
        return _Mark(None)

    transpose = broadcast_to = detach = reshape


def _changes(program: Program, states: Mapping[int, str]) -> list[dict[str, Any]]:
    """What of the state, or of the arguments, becomes which result."""
    plan = program.plan
    changes: list[dict[str, Any]] = []
    for given, number in plan.contents:
        target = {"argument": given.argument} if given.argument is not None else {"state": states[id(given)]}
        changes.append({**target, "output": number})
    made = _marked(program)
    items = [(Place(container, key, str(key)), made.arrays[number]) for container, key, number in plan.items]
    for place, value in [*items, *[(place, make(made)) for place, make in plan.places]]:
        found = [g for g in program.arguments if g.place is not None and g.place.is_at(place.container, place.key)]
        number = _number(value)
        if number is None or not found:
            raise TypeError(
                f"save: {program.name} sets {place.name}, which is no array that was there before; return it instead"
            )
        changes.append({"state": states[id(found[0])], "output": number})
    if plan.grown:
        raise TypeError(f"save: {program.name} appends to a list; return what it appends instead")
    if plan.refilled:
        raise TypeError(f"save: {program.name} changes a set; return what is in it instead")
    if plan.gradients:
        raise TypeError(f"save: {program.name} leaves gradients in grad; return them instead")
    return changes


def _marked(program: Program, arguments: Sequence[Any] = ()) -> Made:
    marks = [_Mark(number) for number in range(len(program.plan.values))]
    return Made(arguments, marks, dict(enumerate(marks)))


def _number(value: Any) -> int | None:
    return value.number if isinstance(value, _Mark) else None


def _result(program: Program, args: Any, kwargs: Any, leaves: Sequence[Any], states: Mapping[int, str]) -> Any:
    known: dict[int, dict[str, Any]] = {
        id(leaf): {"argument": number} for number, leaf in enumerate(leaves) if isinstance(leaf, Stored)
    }
    for given in program.arguments:
        if given.argument is None and given.tensor is not None:
            known[id(given.tensor)] = {"state": states[id(given)]}
    result = program.plan.result(_marked(program, leaves))

    def described(value: Any) -> Any:
        if isinstance(value, _Mark) and value.number is not None:
            return {"output": value.number}
        if id(value) in known:
            return known[id(value)]
        if isinstance(value, _Mark | Stored):
            raise TypeError(f"save: {program.name} gives views of tensors; clone() them")
        return _node(value, described, "result")

    return described(result)


def _described(tree: Any, leaves: list[Any]) -> Any:
    """Arguments for JSON; data are numbered."""

    def described(value: Any) -> Any:
        if isinstance(value, tuple | list | dict):
            return _node(value, described, "argument")
        leaves.append(value)
        if isinstance(value, Stored) or is_stored(value) or type(value) is float:
            return {"argument": len(leaves) - 1}
        return _node(value, described, "argument")

    return described(tree)


def _node(value: Any, described: Any, what: str) -> Any:
    if type(value) in (tuple, list):
        return {type(value).__name__: [described(item) for item in value]}
    if type(value) is dict:
        return {"dict": [[key, described(item)] for key, item in value.items()]}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    raise TypeError(f"save: {what} of kind {type(value).__name__}; only arrays, numbers and texts go into a file")


def _structure(structure: Structure, numbers: Any, kind: str = "argument") -> Any:
    """A structure of `jit`'s for JSON."""
    if structure.kind is None:
        return {kind: next(numbers)}
    if structure.kind in (tuple, list):
        return {structure.kind.__name__: [_structure(child, numbers, kind) for child in structure.children]}
    if structure.kind is dict:
        parts = [_structure(child, numbers, kind) for child in structure.children]
        return {"dict": [[key, part] for key, part in zip(structure.static[0], parts, strict=True)]}
    if structure.kind is type(None):
        return {"value": None}
    raise TypeError(
        f"save: arguments and results of kind {structure.kind.__name__}; only tuples, lists and dicts of arrays go "
        "into a file. Save a traced function of tensors, whose module is around it"
    )


__all__ = ["load", "write_program", "write_traced"]
