"""Random lifecycles with the real engine, the same at every run: `python -m tests.lifecycle` has others, and more."""

import pytest

from tests.lifecycle.drive import drive
from tests.program.engine import cli_here


@pytest.mark.slow
def test_whatever_happens_the_next_up_ends_with_the_comparison_of_the_present_settings() -> None:
    """Forty steps; the lines that a failure prints are its reproducer.

    A full disk is for the command: it may cut off bytecode, after which an update ends with words of Python's, and
    every copy of a state, after which nothing goes on before somebody has typed what is said.
    """
    program = cli_here()
    if program is None:
        pytest.skip("no Pulumi CLI on PATH or in .tools: `./rwi test` brings it")
    drive(program, steps=40, seed=1, each=10, left_out={"fill_disk"})
