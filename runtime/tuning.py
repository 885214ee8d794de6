"""The tuning record that is in use, and what tells processors apart in it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from tenon.runtime.cpu.compile import Target, host_target
from tenon.runtime.knobs import knobs

if TYPE_CHECKING:
    from tenon.lowering.tuning_record import Decisions


def processor_name(target: Target, bits: int) -> str:
    """How a record calls a target: LLVM's name, the width of vectors, and a digest of all its features."""
    features = ",".join(sorted(target.features.split(",")))
    return f"{target.cpu} {bits} {hashlib.sha256(features.encode()).hexdigest()[:8]}"


def options(device: str, vector_bits: int) -> str:
    """The options of the pass `schedule` that name the record and the processor, for vectors of `vector_bits`; empty
    where no record is in use.

    Raises `FileNotFoundError` where there is no such file, `ValueError` where `TENON_REPRODUCIBLE` is set and the
    record has nothing for this processor.
    """
    path = knobs.tuning
    if path is None or device != "cpu":
        return ""
    if not path.is_file():
        raise FileNotFoundError(f"TENON_TUNING: there is no tuning record {path}")
    processor = processor_name(host_target(), vector_bits)
    if knobs.reproducible:
        from tenon.lowering.tuning_record import TuningRecord

        known = TuningRecord.read(path).processors
        if processor not in known:
            raise ValueError(
                f"tuning record {path} is for {', '.join(sorted(known)) or 'no processor'}, and this processor is "
                f"{processor}; with TENON_REPRODUCIBLE=1 it is not left unused"
            )
    return f"record={json.dumps(str(path))} processor={json.dumps(processor)}"


def decisions(device: str, vector_bits: int) -> Decisions:
    """What the record says that is in use; nothing without one. Raises as `options` does."""
    from tenon.lowering.tuning_record import TuningRecord

    if knobs.tuning is None or not options(device, vector_bits):
        return {}
    return TuningRecord.read(knobs.tuning).processors.get(processor_name(host_target(), vector_bits), {})


def digest(device: str, vector_bits: int) -> str:
    """What code depends on besides the module: the record, and the processor it is read for."""
    path = knobs.tuning
    if path is None or not options(device, vector_bits):
        return ""
    return f"{processor_name(host_target(), vector_bits)} {hashlib.sha256(path.read_bytes()).hexdigest()}"
