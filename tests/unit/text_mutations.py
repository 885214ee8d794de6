"""The texts that the lit tests consist of, and ways to change a text at random."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

LIT = Path(__file__).parents[1] / "lit"
LARGEST_TEXT = 12_000

TOKEN = re.compile(
    r"%[\w$.-]+(?:#\d+)?|@[\w$.]+|\^\w+|#[\w.]+|![\w.]+|\"[^\"\n]*\"|\d+\.\d*(?:[eE][+-]?\d+)?|0x[0-9a-fA-F]+|\d+|"
    r"[a-zA-Z_][\w.]*|->|::|\s+|."
)
NUMBERS = (
    *(
        "0",
        "1",
        "2",
        "3",
        "4",
        "5",
        "7",
        "8",
        "16",
        "17",
        "64",
        "100",
        "1000",
        "-1",
        "-2",
        "-7",
        "100000",
        "2147483647",
    ),
    *("2147483648", "4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551616", "-2147483649"),
    *("1.0", "-0.0", "1e400", "0x7FC00000", "0xFFFFFFFFFFFFFFFF", "true", "false", "?", "*", "99999999999999999999999"),
)
ELEMENTS = (
    *("f16", "bf16", "f32", "f64", "i1", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "index"),
    *("i4", "i128", "si8", "tf32", "f8E4M3FN", "f80", "f128", "none", "complex<f32>", "i0", "i65", "tuple<f32>"),
)
DIMENSIONS = (
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "7",
    "8",
    "17",
    "?",
    "64",
    "1000",
    "100000",
    "2147483648",
    "4611686018427387904",
)
KINDS = ("tensor", "memref", "vector")


@cache
def texts() -> tuple[str, ...]:
    """The modules in the lit tests, without comments."""
    found: list[str] = []
    for path in sorted(LIT.rglob("*.mlir")):
        for chunk in path.read_text().split("// -----"):
            lines = [line.partition("//")[0].rstrip() for line in chunk.splitlines()]
            text = "\n".join(line for line in lines if line) + "\n"
            if 1 < len(text) <= LARGEST_TEXT:
                found.append(text)
    return tuple(found)


@cache
def op_names() -> dict[str, tuple[str, ...]]:
    """The names of ops in the texts, by dialect, with those of the tensor dialect that no text has."""
    from tenon.dialects.definition.registry import registry

    names = {name for text in texts() for name in re.findall(r"\b(?:[a-z]+\.)[a-z_0-9.]+\b", text)} | {*registry()}
    dialects: dict[str, list[str]] = {}
    for name in sorted(names):
        dialects.setdefault(name.partition(".")[0], []).append(name)
    return {dialect: tuple(names) for dialect, names in dialects.items()}


def _tokens(text: str) -> list[str]:
    return TOKEN.findall(text)


def _positions(tokens: Sequence[str], pattern: str) -> list[int]:
    return [position for position, token in enumerate(tokens) if re.fullmatch(pattern, token)]


def _number(text: str, chance: random.Random) -> str:
    found = list(re.finditer(r"(?<![\w.%@#^-])-?\d+(?:\.\d+(?:[eE][+-]?\d+)?)?(?![\w.])", text))
    return _put(text, chance.choice(found).span(), chance.choice(NUMBERS)) if found else text


def _element(text: str, chance: random.Random) -> str:
    found = list(re.finditer(r"(?<=[x<: (])(?:bf16|[fi]\d+|ui\d+|index)\b", text))
    if not found:
        return text
    chosen, element = chance.choice(found), chance.choice(ELEMENTS)
    if chance.random() < 0.3:
        return re.sub(rf"\b{chosen[0]}\b|(?<=x){chosen[0]}\b", element, text)
    return _put(text, chosen.span(), element)


def _shape(text: str, chance: random.Random) -> str:
    """Another dimension in one type, or in all that are equal to it; or one more or less; or another kind of type."""
    found = list(re.finditer(r"(tensor|memref|vector)<((?:(?:\d+|\?)x)*)([^<>]*)>", text))
    if not found:
        return text
    chosen = chance.choice(found)
    dimensions = chosen[2].split("x")[:-1]
    kind = chance.choice(KINDS) if chance.random() < 0.1 else chosen[1]
    what = chance.randrange(4)
    if what == 0:
        dimensions.insert(chance.randint(0, len(dimensions)), chance.choice(DIMENSIONS))
    elif what == 1:
        dimensions = ["*"]
    elif dimensions:
        place = chance.randrange(len(dimensions))
        dimensions[place : place + 1] = [] if what == 2 else [chance.choice(DIMENSIONS)]
    new = f"{kind}<{''.join(f'{size}x' for size in dimensions)}{chosen[3]}>"
    return text.replace(chosen[0], new) if chance.random() < 0.6 else _put(text, chosen.span(), new)


def _dimension_everywhere(text: str, chance: random.Random) -> str:
    """One size, wherever it is a dimension or a number: such a text is often valid."""
    found = re.findall(r"(?<=[<x])(\d+)(?=x)", text)
    return re.sub(rf"(?<![\w.]){chance.choice(found)}(?=x|\b)", chance.choice(DIMENSIONS), text) if found else text


def _unknown(text: str, chance: random.Random) -> str:
    """Dimensions that are not known, in one place or everywhere."""
    found = list(re.finditer(r"(?<=tensor<)(?:(?:\d+|\?)x)+(?=[a-z])", text))
    if not found:
        return text
    chosen = chance.choice(found)
    new = "*x" if chance.random() < 0.2 else re.sub(r"\d+", lambda m: "?" if chance.random() < 0.6 else m[0], chosen[0])
    if chance.random() < 0.5:
        return text.replace(f"<{chosen[0]}", f"<{new}")
    return _put(text, chosen.span(), new)


def _op(text: str, chance: random.Random) -> str:
    found = [m for m in re.finditer(r"\b([a-z]+)\.[a-z_0-9.]+\b", text) if m[1] in op_names()]
    if not found:
        return text
    chosen = chance.choice(found)
    return _put(text, chosen.span(), chance.choice(op_names()[chosen[1]]))


def _same_class(text: str, chance: random.Random) -> str:
    """One token in the place of another one of its class: a value, a type, a name, a number."""
    tokens = _tokens(text)
    pattern = chance.choice((r"%.*", r"@.*", r"\^.*", r'".*"', r"[a-z].*", r"#.*", r"\d.*", r"[^\w\s]"))
    places = _positions(tokens, pattern)
    if len(places) > 1:
        one, other = chance.sample(places, 2)
        if chance.random() < 0.5:
            tokens[one] = tokens[other]
        else:
            tokens[one], tokens[other] = tokens[other], tokens[one]
    return "".join(tokens)


def _token(text: str, chance: random.Random) -> str:
    tokens = _tokens(text)
    place = chance.randrange(len(tokens)) if tokens else 0
    match chance.randrange(3):
        case 0:
            del tokens[place : place + chance.choice((1, 1, 2, 5))]
        case 1:
            tokens.insert(place, chance.choice(tokens or [""]))
        case _:
            tokens.insert(
                place,
                chance.choice(("(", "[", "{", "<", "tensor<", "{a = ", "-", "module {\n"))
                * chance.choice((1, 3, 2000)),
            )
    return "".join(tokens)


def _line(text: str, chance: random.Random) -> str:
    lines = text.splitlines()
    if len(lines) < 2:
        return text
    one, other = chance.sample(range(len(lines)), 2)
    match chance.randrange(3):
        case 0:
            del lines[one]
        case 1:
            lines.insert(other, lines[one])
        case _:
            lines[one], lines[other] = lines[other], lines[one]
    return "\n".join(lines) + "\n"


def _setting(text: str, chance: random.Random) -> str:
    """A list in brackets with one entry more, less or other; or a setting left out."""
    found = list(re.finditer(r"\[([-\w., ]*)\]", text))
    if not found:
        return re.sub(r" \{[^{}\n]*\}", "", text, count=1)
    chosen = chance.choice(found)
    entries = [entry for entry in chosen[1].split(", ") if entry]
    if entries and chance.random() < 0.6:
        entries[chance.randrange(len(entries))] = chance.choice(NUMBERS)
    elif entries and chance.random() < 0.5:
        entries.pop()
    else:
        entries.insert(chance.randint(0, len(entries)), chance.choice(NUMBERS))
    return _put(text, chosen.span(), f"[{', '.join(entries)}]")


def _characters(text: str, chance: random.Random) -> str:
    place = chance.randrange(len(text)) if text else 0
    match chance.randrange(4):
        case 0:
            return text[:place] + chance.choice("\0\n\t{}()[]<>%@#^!\"'-:=,.x?*é\u2028\ud7ff0aZ") + text[place + 1 :]
        case 1:
            return text[:place] + text[place + chance.choice((1, 3, 20, 200)) :]
        case 2:
            return text[:place]
        case _:
            start = chance.randrange(len(text)) if text else 0
            return text[:place] + text[start : start + chance.choice((1, 3, 20, 200))] + text[place:]


def _put(text: str, span: tuple[int, int], new: str) -> str:
    return text[: span[0]] + new + text[span[1] :]


WEIGHTS_OF_MUTATIONS = {
    _number: 10,
    _element: 6,
    _shape: 10,
    _dimension_everywhere: 14,
    _unknown: 10,
    _op: 10,
    _same_class: 12,
    _token: 4,
    _line: 8,
    _setting: 12,
    _characters: 4,
}
