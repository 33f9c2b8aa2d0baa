"""The baseline arm: one process with the CPUs of one worker, and no strategy."""

from training.launch import entry

if __name__ == "__main__":
    asked = entry.begin("baseline", __doc__)
    entry.run(lambda: entry.take_part(entry.on_this_machine(asked), "baseline"), asked.result)
