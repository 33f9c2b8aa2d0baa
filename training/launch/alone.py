"""An arm of one process by itself."""

from training.launch import entry


def main(arm: str, doc: str | None) -> None:
    """Run the arm's only process, which trains and writes the result."""
    request = entry.begin(arm, doc)
    entry.run(lambda: entry.take_part(entry.on_this_machine(request), arm), request.result)
