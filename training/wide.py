"""The wide arm: one process with the CPUs of all workers, and no strategy."""

from training.launch import entry

if __name__ == "__main__":
    asked = entry.begin("wide", __doc__)
    entry.run(lambda: entry.take_part(entry.on_this_machine(asked), "wide"), asked.result)
