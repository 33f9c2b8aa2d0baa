"""Make's commands for a stack: update, preview, destroy, state, clean."""

from cli.setup import interrupt

interrupt.answer_until_main()
