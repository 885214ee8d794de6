"""The tuning record that is in use, and what tells processors apart in it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from tenon.runtime.cpu.compile import Target, host_target
from tenon.runtime.cuda.names import kind_of, ordinal_of
from tenon.runtime.knobs import knobs

if TYPE_CHECKING:
    from tenon.lowering.tuning_record import Decisions


def processor_name(target: Target, bits: int) -> str:
    """How a record calls a target: LLVM's name, the width of vectors, and a digest of all its features."""
    features = ",".join(sorted(target.features.split(",")))
    return f"{target.cpu} {bits} {hashlib.sha256(features.encode()).hexdigest()[:8]}"


def gpu_name(device: str, architecture: str) -> str:
    """How a record calls a GPU: what code is compiled for, and the name of the one that is there, if it is of that
    kind."""
    from tenon.runtime.cuda import device_cuda

    if device_cuda.why_unavailable() is None and device_cuda.architecture(ordinal_of(device)) == architecture:
        return f"{architecture} {device_cuda.model(ordinal_of(device))}"
    return architecture


def processor_of(device: str, kind: str | int) -> str:
    """How a record calls what code is compiled for: the `kind` is the architecture of a GPU, or the width of vectors of
    this processor."""
    if kind_of(device) == "cuda":
        return gpu_name(device, str(kind))
    return processor_name(host_target(), int(kind))


def options(device: str, kind: str | int) -> str:
    """The options of the pass that decides which name the record and the processor; empty where no record is in use.

    Raises `FileNotFoundError` where there is no such file, `ValueError` where `TENON_REPRODUCIBLE` is set and the
    record has nothing for this processor.
    """
    path = knobs.tuning
    if path is None:
        return ""
    if not path.is_file():
        raise FileNotFoundError(f"TENON_TUNING: there is no tuning record {path}")
    processor = processor_of(device, kind)
    if knobs.reproducible:
        from tenon.lowering.tuning_record import TuningRecord

        record = TuningRecord.read(path)
        if record.of(processor) is None:
            raise ValueError(
                f"tuning record {path} is for {', '.join(sorted(record.processors)) or 'no processor'}, and this "
                f"processor is {processor}; with TENON_REPRODUCIBLE=1 it is not left unused"
            )
    return f"record={json.dumps(str(path))} processor={json.dumps(processor)}"


def decisions(device: str, kind: str | int) -> Decisions:
    """What the record says that is in use; nothing without one. Raises as `options` does."""
    from tenon.lowering.tuning_record import TuningRecord

    if knobs.tuning is None or not options(device, kind):
        return {}
    return TuningRecord.read(knobs.tuning).of(processor_of(device, kind)) or {}


def digest(device: str, kind: str | int) -> str:
    """What code depends on besides the module: the record, and the processor it is read for."""
    path = knobs.tuning
    if path is None or not options(device, kind):
        return ""
    return f"{processor_of(device, kind)} {hashlib.sha256(path.read_bytes()).hexdigest()}"
