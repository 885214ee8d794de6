"""The command `tenon-opt`: its output, its messages, and what it leaves behind when something fails."""

from __future__ import annotations

import io
import re
import shlex
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from tenon.passes.pipeline import PASSES
from tenon.runtime.knobs import knobs
from tenon.tools.opt import TenonOptMain, main

VALID = """\
func.func @f(%x: i32) -> i32 {
  %y = arith.addi %x, %x : i32
  %z = arith.muli %y, %y : i32
  func.return %z : i32
}
"""
USED_EARLY = """\
func.func @f(%x: i32) -> i32 {
  %z = arith.muli %y, %y : i32
  %y = arith.addi %x, %x : i32
  func.return %z : i32
}
"""
WRONG_TYPE = """\
"func.func"() <{sym_name = "f", function_type = (i32) -> i64}> ({
^bb0(%x: i32):
  func.return %x : i32
}) : () -> ()
"""


@dataclass(frozen=True)
class Rename(ModulePass):
    name = "test-rename"
    suffix: str = "_renamed"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, func.FuncOp):
                function.sym_name = StringAttr(function.sym_name.data + self.suffix)


@dataclass(frozen=True)
class Misorder(ModulePass):
    """Leave a module that `verify()` accepts and that uses a value before its definition."""

    name = "test-misorder"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if inner.name == "arith.addi":
                following = inner.next_op
                assert following is not None
                inner.detach()
                following.parent.insert_ops_after([inner], following)  # type: ignore[union-attr]
                return


@dataclass(frozen=True)
class Refuse(ModulePass):
    name = "test-refuse"
    limit: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise PassFailedException(f"test.refuse: more than {self.limit} ops")


@dataclass(frozen=True)
class Crash(ModulePass):
    name = "test-crash"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise KeyError("lost")


@pytest.fixture(autouse=True)
def test_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    for module_pass in (Rename, Misorder, Refuse, Crash):
        monkeypatch.setitem(PASSES, module_pass.name, lambda module_pass=module_pass: module_pass)


@pytest.fixture
def valid(tmp_path: Path) -> str:
    return write(tmp_path / "valid.mlir", VALID)


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_prints_what_the_passes_leave(valid: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([valid, "-p", 'test-rename,test-rename{suffix="_again"}']) == 0
    output, errors = capsys.readouterr()
    assert "@f_renamed_again(" in output
    assert errors == ""


def test_runs_passes_of_xdsl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(
        tmp_path / "unused.mlir", "func.func @f(%x: i32) {\n  %y = arith.addi %x, %x : i32\n  func.return\n}\n"
    )
    assert main([source, "-p", "dce"]) == 0
    assert "arith.addi" not in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "// nothing\n", f"{VALID}// -----\n"])
def test_text_without_an_operation_is_an_empty_module(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also what is behind the last separator of a file."""
    assert main([write(tmp_path / "empty.mlir", text), "-p", "cse", "--split-input-file"]) == 0
    output, errors = capsys.readouterr()
    assert output.rstrip().endswith("builtin.module {\n}")
    assert errors == ""


def test_registers_the_tenon_dialect(valid: str) -> None:
    assert "tenon" in TenonOptMain([valid]).ctx.registered_dialect_names


@pytest.mark.parametrize("arguments", [[], ["-"]], ids=["default", "dash"])
def test_reads_standard_input(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(VALID.encode())))
    assert main(arguments) == 0
    assert "arith.muli" in capsys.readouterr().out


@pytest.mark.parametrize(("stream", "name"), [("sys.stdin", "input"), ("sys.stdout", "output")])
def test_closed_streams(
    stream: str, name: str, valid: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stream, None)
    assert main(["-" if name == "input" else valid]) == 1
    assert capsys.readouterr().err == f"tenon-opt: error: standard {name} is closed\n"


PASS_OF_A_USER = """
from dataclasses import dataclass
from xdsl.passes import ModulePass

@dataclass(frozen=True)
class ErasePass(ModulePass):
    name = "{name}"
    number: int = 0

    def apply(self, ctx, op):
        op.body.block.first_op.sym_name = type(op.body.block.first_op.sym_name)(f"erased_{{self.number}}")
"""


def test_passes_of_a_file(valid: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "passes_of_a_user.py"
    file.write_text(PASS_OF_A_USER.format(name="test-of-a-user"))
    assert main(["--ops", str(file), valid, "-p", "test-of-a-user{number=3}"]) == 0
    assert "@erased_3" in capsys.readouterr().out
    file.write_text(PASS_OF_A_USER.format(name="fuse"))
    assert main(["--ops", str(file), valid]) == 1
    del sys.modules["passes_of_a_user"]
    assert capsys.readouterr().err == "tenon-opt: error: passes_of_a_user.ErasePass: there is another pass 'fuse'\n"


def test_version_names_both(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])
    assert exit_.value.code == 0
    assert re.fullmatch(r"tenon-opt \d+\.\d+\.\d+ \(xdsl 0\.74\.\d+\)\n", capsys.readouterr().out)


class TestOutputFile:
    def test_appears_with_the_whole_text(self, valid: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        target = tmp_path / "out.mlir"
        assert main([valid, "-o", str(target)]) == 0
        assert capsys.readouterr().out == ""
        assert main([str(target)]) == 0
        assert capsys.readouterr().out == target.read_text()

    def test_may_be_the_input(self, valid: str) -> None:
        Path(valid).chmod(0o640)
        assert main([valid, "-p", "test-rename", "-o", valid]) == 0
        assert "@f_renamed(" in Path(valid).read_text()
        assert stat.S_IMODE(Path(valid).stat().st_mode) == 0o640

    @pytest.mark.parametrize("passes", ["", "test-crash", "test-misorder"])
    def test_is_left_alone_on_failure(self, tmp_path: Path, passes: str) -> None:
        source = write(tmp_path / "in.mlir", f"{VALID}// -----\n{VALID if passes else USED_EARLY}")
        target = Path(write(tmp_path / "out.mlir", "before"))
        options = ["--split-input-file", "--reproducer-dir", str(tmp_path / "reproducers")]
        assert main([source, "-p", passes, "-o", str(target), *options]) == 1
        assert target.read_text() == "before"
        assert {path.name for path in tmp_path.iterdir()} <= {"in.mlir", "out.mlir", "reproducers"}

    def test_may_be_a_device(self, valid: str) -> None:
        assert main([valid, "-o", "/dev/null"]) == 0
        assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)

    def test_dash_is_standard_output(self, valid: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([valid, "-o", "-"]) == 0
        assert "arith.muli" in capsys.readouterr().out


class TestBadInput:
    def test_syntax_error(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source = write(tmp_path / "bad.mlir", "func.func @f() {\n  func.return %\n}\n")
        assert main([source]) == 1
        output, errors = capsys.readouterr()
        assert output == ""
        assert errors.startswith(f"tenon-opt: error: {source}:2:")
        assert "func.return %" in errors
        assert "Traceback" not in errors

    def test_syntax_error_in_a_later_chunk_has_its_line_in_the_file(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source = write(tmp_path / "bad.mlir", f"{VALID}// -----\nfunc.func @f() {{\n  func.return %\n}}\n")
        assert main([source, "--split-input-file"]) == 1
        assert f"{source}:8:" in capsys.readouterr().err

    def test_verify_error_is_shown_in_the_ir(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([write(tmp_path / "bad.mlir", WRONG_TYPE)]) == 1
        errors = capsys.readouterr().err
        assert errors.startswith("tenon-opt: error: ")
        assert '"func.return"(%x)' in errors
        assert "^" in errors
        assert "Traceback" not in errors

    def test_use_before_definition(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source = write(tmp_path / "bad.mlir", USED_EARLY)
        assert main([source]) == 1
        assert capsys.readouterr().err.startswith(
            f"tenon-opt: error: {source}:2:3: arith.muli: operand 0 (%y) is used before its definition by arith.addi"
            " (and 1 more)\n"
        )

    def test_disable_verify_lets_it_pass(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("xdsl.ir.Attribute.__post_init__", lambda self: None)  # the option replaces it for good
        assert main([write(tmp_path / "bad.mlir", USED_EARLY), "--disable-verify"]) == 0

    def test_verify_diagnostics_prints_and_succeeds(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source = write(tmp_path / "bad.mlir", f"{USED_EARLY}// -----\n{VALID}")
        assert main([source, "--verify-diagnostics", "--split-input-file"]) == 0
        output, errors = capsys.readouterr()
        assert "is used before its definition by arith.addi" in output
        assert output.index("is used before") < output.index("// -----") < output.index("arith.addi %x, %x")
        assert errors == ""

    def test_parsing_diagnostics_prints_and_succeeds(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([write(tmp_path / "bad.mlir", "func.retrun"), "--parsing-diagnostics"]) == 0
        assert "func.retrun" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["absent.mlir"], "error: absent.mlir: no such file or directory"),
            (["-p", "test-rname"], "there is no pass 'test-rname', did you mean 'test-rename'"),
            (["-p", "test-rename{size=3}"], "pass 'test-rename': Provided arguments"),
            (["-p", "test-rename{suffix=3}"], "pass 'test-rename': Incompatible types"),
            (["-p", "test-rename{"], "Error parsing pass pipeline specification"),
        ],
        ids=["file", "pass", "option", "option_type", "pipeline"],
    )
    def test_bad_command(self, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(arguments) == 1
        errors = capsys.readouterr().err
        assert errors.startswith("tenon-opt: error: ")
        assert message in errors
        assert "Traceback" not in errors


class TestFailingPass:
    def failure(self, valid: str, passes: str, directory: Path, *options: str) -> None:
        assert main([valid, "-p", passes, "--reproducer-dir", str(directory), *options]) == 1

    def test_names_itself_and_repeats(self, valid: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.failure(valid, "test-rename,test-refuse{limit=3},test-rename", tmp_path / "new")
        output, errors = capsys.readouterr()
        assert output == ""
        message = "tenon-opt: error: pass 'test-refuse' failed: test.refuse: more than 3 ops\n"
        assert errors.startswith(message)
        assert "Traceback" not in errors

        (reproducer,) = (tmp_path / "new").iterdir()
        assert f"tenon-opt: the ir before it is in {reproducer}\n" in errors
        assert '"f_renamed"' in reproducer.read_text()
        assert '"f_renamed_renamed"' not in reproducer.read_text()
        self.check_repeats(errors, message, tmp_path / "again", capsys)

    def check_repeats(self, errors: str, message: str, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (line,) = re.findall(r"repeat with: (.*)", errors)
        program, *arguments = shlex.split(line)
        assert program == "tenon-opt"
        assert main([*arguments, "--reproducer-dir", str(directory)]) == 1
        assert message in capsys.readouterr().err

    @pytest.mark.parametrize("options", [[], ["--verify-each"]], ids=["found_at_the_end", "found_at_once"])
    def test_first_pass_at_fault_is_blamed(
        self, valid: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
    ) -> None:
        self.failure(valid, "test-rename,test-misorder,test-rename", tmp_path / "new", *options)
        errors = capsys.readouterr().err
        message = (
            "tenon-opt: error: pass 'test-misorder' left invalid ir: "
            f"{valid}:3:3: arith.muli: operand 0 (%y) is used before its definition by arith.addi (and 1 more)\n"
        )
        assert errors.startswith(message)
        self.check_repeats(errors, message, tmp_path / "again", capsys)

    def test_invalid_ir_is_blamed_before_the_pass_that_stumbles_over_it(
        self, valid: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.failure(valid, "test-misorder,test-crash", tmp_path)
        assert "pass 'test-misorder' left invalid ir" in capsys.readouterr().err

    def test_bug_in_a_pass_shows_its_traceback(
        self, valid: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.failure(valid, "test-crash", tmp_path)
        errors = capsys.readouterr().err
        assert errors.startswith("Traceback")
        assert errors.count("raise ") == 1
        assert 'raise KeyError("lost")' in errors
        assert "tenon-opt: error: pass 'test-crash' failed: KeyError: 'lost'\n" in errors

    def test_debug_shows_the_traceback_of_a_refusal(
        self, valid: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TENON_TRACEBACK", "full")
        self.failure(valid, "test-refuse", tmp_path)
        assert "raise PassFailedException" in capsys.readouterr().err

    def test_passes_of_users_are_in_the_repetition(
        self, valid: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "failing_passes_of_a_user.py"
        file.write_text(
            PASS_OF_A_USER.format(name="test-of-a-user-fails").replace("{self.number}", "{1 // self.number}")
        )
        self.failure(valid, "test-of-a-user-fails", tmp_path / "new", "--ops", str(file))
        message = "pass 'test-of-a-user-fails' failed: ZeroDivisionError"
        self.check_repeats(capsys.readouterr().err, message, tmp_path / "again", capsys)

    def test_unregistered_ops_are_allowed_in_the_repetition(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source = write(tmp_path / "unregistered.mlir", '"other.op"() : () -> ()\n')
        self.failure(source, "test-refuse", tmp_path / "new", "--allow-unregistered-dialect")
        self.check_repeats(capsys.readouterr().err, "pass 'test-refuse' failed", tmp_path / "again", capsys)

    def test_verify_diagnostics_prints_and_succeeds(
        self, valid: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert (
            main([valid, "-p", "test-refuse", "--verify-diagnostics", "--reproducer-dir", str(tmp_path / "new")]) == 0
        )
        assert capsys.readouterr().out == "test.refuse: more than 0 ops\n"
        assert not (tmp_path / "new").exists()


class TestReports:
    def test_ir_after_every_pass(self, valid: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([valid, "-p", "test-rename,test-rename", "--print-ir-after-all"]) == 0
        first, second = capsys.readouterr().err.split("// -----// IR after test-rename //----- //\n")[1:]
        assert first.startswith("builtin.module {\n  func.func @f_renamed(")
        assert "@f_renamed_renamed(" in second

    @pytest.mark.parametrize("option", ["--timing", "--time-passes"])
    def test_time_of_every_step(self, valid: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([valid, "-p", "test-rename,cse", "--verify-each", option]) == 0
        header, *rows = capsys.readouterr().err.splitlines()
        assert header.split() == ["seconds", "share", "step"]
        steps = [row.split()[-1] for row in rows]
        assert steps == ["parse", "verify", "test-rename", "verify", "cse", "verify", "print", "total"]
        seconds = [float(row.split()[0]) for row in rows]
        assert seconds[-1] == pytest.approx(sum(seconds[:-1]), abs=1e-3)

    def test_verification_is_left_out_between_passes(self, valid: str, capsys: pytest.CaptureFixture[str]) -> None:
        with knobs.override(verify=False):
            assert main([valid, "-p", "test-rename,cse", "--timing"]) == 0
        rows = capsys.readouterr().err.splitlines()[1:]
        assert [row.split()[-1] for row in rows] == [
            "parse",
            "verify",
            "test-rename",
            "cse",
            "verify",
            "print",
            "total",
        ]


def test_a_dialect_is_loaded_only_when_it_is_named(valid: str) -> None:
    tool = TenonOptMain([valid])
    tool.run()
    assert {dialect.name for dialect in tool.ctx.loaded_dialects} <= {"builtin", "func", "arith"}
