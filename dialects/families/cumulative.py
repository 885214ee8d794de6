"""The family of ops that keep every step of a combination along one axis."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from tenon.dialects.definition.operands import to_scalar
from tenon.dialects.definition.scalar import convert, to_compute
from tenon.dialects.definition.value import Value, ops
from tenon.dialects.families.along_axis import AlongAxis, KeepsType
from tenon.dialects.families.linalg_builders import ASSOCIATIVE, LoopIndex, empty, filled, generic, static_shape
from tenon.dialects.families.monoid import CombiningOp
from tenon.dialects.families.structured_op import require_hooks, require_operands
from tenon.dialects.types.shapes import normalize_axis
from tenon.dialects.types.types import compute_type, element_of, i64, shape_of, tensor_type

Step = Callable[[list[Value], Value, Callable[[], Value]], Sequence[Value]]


class CumulativeOp(KeepsType, AlongAxis, CombiningOp):
    """Each result element is what `scalar(accumulator, x)` makes of the elements up to it along `axis`.

    The class declares one operand and the setting `axis`. With the setting `reverse`, where it is declared, elements
    are combined from the last to the first; with `exclusive` a result leaves out the element at its own place. The
    accumulator starts from `initial`, and is kept in f32 for f16 and bf16; see `CombiningOp`.
    """

    AUTOCAST = "full"
    ASSOCIATIVE: ClassVar[bool] = False
    """Whether `scalar` (or the choice by `better`) is associative, but for rounding, and `initial` in front of elements
    changes nothing, so that parts of the axis may be combined. Of a `COMBINE` that is known; of others a class says
    it."""

    @classmethod
    def check_family(cls) -> None:
        require_hooks(cls, "initial", "scalar")
        cls.check_axis()

    @classmethod
    def check_axis(cls) -> None:
        """Raise `TypeError` unless the class declares one operand and the setting `axis`."""
        require_operands(cls, 1)
        if "axis" not in cls.SIGNATURE.settings:
            raise TypeError(f"{cls.__name__} ({cls.name}) must declare the setting `axis`")

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        (x,) = operands
        accumulator = compute_type(element_of(x.type))
        start = self._checked_initial(accumulator)

        def step(states: Sequence[Value], value: Value, _: object) -> list[Value]:
            return [to_scalar(self.scalar(states[0], value), accumulator, f"{self.name}: the result of scalar")]

        return self.scan(x, [(accumulator, start)], step)

    def scan(self, x: SSAValue, states: Sequence[tuple[Attribute, float]], step: Step) -> list[SSAValue]:
        """All steps of `step(states, element, place)`, one result per state (type, start); `place()` is the index along
        the axis."""
        shape, settings = static_shape(x), self.settings
        elements = [element_of(result.type) for result in self.results]
        if 0 in shape:
            return [filled(shape, element, 0) for element in elements]
        rank, axis = len(shape), normalize_axis(settings["axis"], len(shape))
        dims = [AffineExpr.dimension(i) for i in range(rank)]
        kept = [i for i in range(rank) if i != axis]
        last = shape[axis] - 1
        reverse, exclusive = settings.get("reverse", False), settings.get("exclusive", False)
        inputs: list[tuple[SSAValue, AffineMap]] = []
        if reverse:
            # linalg reads every loop's extent off an operand that it indexes as it is; nothing reads this one.
            inputs.append((empty([shape[axis]], elements[0]), AffineMap(rank, 0, (dims[axis],))))
            dims[axis] = dims[axis] * -1 + last
        along = AffineMap(rank, 0, tuple(dims))
        inputs.append((x, along))
        across = AffineMap(rank, 0, tuple([dims[i] for i in kept]))
        outputs = [(filled([shape[i] for i in kept], type_, start), across) for type_, start in states]
        outputs += [(empty(shape, element), along) for element in elements]

        def body(values: list[Value], current: list[Value]) -> Sequence[Value]:
            before = current[: len(states)]

            def place() -> Value:
                number = LoopIndex(axis, shape[axis])
                return ops.subtract(last, number) if reverse else number

            after = step(before, to_compute(values[-1]), place)
            return [*after, *(before if exclusive else after)]

        # A reduction loop that also indexes results is run in order, one parallel element of the states at a time.
        scanned = generic(inputs, outputs, [i == axis for i in range(rank)], body)
        if self.ASSOCIATIVE and isinstance(op := scanned[0].owner, Operation):
            op.attributes[ASSOCIATIVE] = UnitAttr()
        return scanned[len(states) :]


class ArgCumulativeOp(CumulativeOp):
    """For each place along `axis` the element that `better(x, best)` prefers to all before it, and where that is."""

    @staticmethod
    @abstractmethod
    def better(x: Any, best: Any) -> Any:
        """Whether `x` replaces `best`."""

    @staticmethod
    def scalar(accumulator: Any, x: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def check_family(cls) -> None:
        require_hooks(cls, "initial", "better")
        cls.check_axis()

    @classmethod
    def infer(cls, *operands: Any, **settings: Any) -> Any:
        x = super().infer(*operands, **settings)
        return x, tensor_type(shape_of(x), i64)

    def structured(self, operands: list[Any]) -> list[SSAValue]:
        (x,) = operands
        element = compute_type(element_of(x.type))

        def step(states: list[Value], value: Value, place: Callable[[], Value]) -> Sequence[Value]:
            best, best_place = states
            replace = self.better(value, best)
            return [ops.select(replace, value, best), ops.select(replace, convert(place(), i64), best_place)]

        return self.scan(x, [(element, self._checked_initial(element)), (i64, 0)], step)
