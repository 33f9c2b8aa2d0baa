"""Make's commands for a stack: update, preview, destroy, state, clean."""

from tools.setup import interrupt

interrupt.answer_until_main()
