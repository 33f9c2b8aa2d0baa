"""A simulator: the physics of a cart that balances a pole, as a program of its own that draws no picture.

python pole.py

It answers each line of its input by one. `set` and four numbers is a state to begin with, `push 0` or `push 1` a push
to the left or right; an answer has the four numbers of the state, and 1 where the pole has fallen, else 0. It ends with
its input, so also when the process that started it is gone.
"""

import math
import sys

GRAVITY, CART, POLE, LENGTH, FORCE = 9.8, 1.0, 0.1, 0.5, 10.0
"""Metres, kilograms, newtons, LENGTH half of the pole's: as in Gymnasium's CartPole."""
TURN = 0.02
"""Seconds of a push."""
SUBSTEPS = 200
"""Parts of a push that are computed one by one: a simulator of more than a pole takes its time, too."""
FALLEN, EDGE = math.radians(12), 2.4


def push(state: list[float], direction: str) -> list[float]:
    """The state after TURN seconds: position and speed of the cart, angle and speed of the pole."""
    position, speed, angle, turning = state
    force, mass, part = FORCE if direction == "1" else -FORCE, CART + POLE, TURN / SUBSTEPS
    for _ in range(SUBSTEPS):
        sine, cosine = math.sin(angle), math.cos(angle)
        pushed = (force + POLE * LENGTH * turning**2 * sine) / mass
        spin = (GRAVITY * sine - cosine * pushed) / (LENGTH * (4 / 3 - POLE * cosine**2 / mass))
        position, speed = position + part * speed, speed + part * (pushed - POLE * LENGTH * spin * cosine / mass)
        angle, turning = angle + part * turning, turning + part * spin
    return [position, speed, angle, turning]


def main() -> None:
    """Answer line by line."""
    state = [0.0] * 4
    for line in sys.stdin:
        order, *values = line.split()
        state = push(state, values[0]) if order == "push" else list(map(float, values))
        fallen = abs(state[0]) > EDGE or abs(state[2]) > FALLEN
        print(*state, int(fallen), flush=True)


if __name__ == "__main__":
    main()
