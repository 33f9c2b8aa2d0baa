"""Learns to balance a pole with RLlib's PPO. The physics are a simulator, a program of its own beside each runner.

With `--num-workers 0` there is no runner: the process that learns plays, too. Ray runs all the same.

python reinforcement.py --num-workers 2 --steps 6000
"""

import argparse
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from simulators import pole

RETURN = "episode_return_mean"
MOST_TURNS = 200
"""Of an episode."""


class BalancedPole(gymnasium.Env[np.ndarray[Any, Any], np.int64]):
    """Asks its simulator by pipes. A turn in which the pole stands is a point."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config: dict[str, Any]) -> None:  # noqa: ARG002 (RLlib gives it)
        self.simulator = subprocess.Popen(
            [sys.executable, pole.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.answers = iter(self.simulator.stdout or ())
        self.turns = 0

    def ask(self, *order: object) -> tuple[np.ndarray[Any, Any], bool]:
        """The state after this order, and whether the pole has fallen."""
        print(*order, file=self.simulator.stdin, flush=True)
        *state, fallen = next(self.answers).split()
        return np.array(state, np.float32), fallen == "1"

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
        """Begin an episode with the pole nearly upright."""
        super().reset(seed=seed, options=options)
        self.turns = 0
        return self.ask("set", *self.np_random.uniform(-0.05, 0.05, 4))[0], {}

    def step(self, action: np.int64) -> tuple[np.ndarray[Any, Any], float, bool, bool, dict[str, Any]]:
        """Push the cart."""
        self.turns += 1
        state, fallen = self.ask("push", action)
        return state, 1.0, fallen, self.turns >= MOST_TURNS, {}

    def close(self) -> None:
        """End the simulator, as it ends with its input."""
        self.simulator.communicate()


def main() -> None:
    """Learn until the pole is balanced long enough, or for so many steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-workers", type=int, default=2, help="runners; 0: the process that learns plays, too")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=6000, help="of the environment, over all runners")
    parser.add_argument("--until", type=float, default=float("inf"), help="the mean return at which it ends")
    options = parser.parse_args()
    config = (
        PPOConfig()
        .environment(BalancedPole)
        .env_runners(num_env_runners=options.num_workers)
        .training(train_batch_size_per_learner=1000, minibatch_size=125, num_epochs=8, lr=1e-3, vf_loss_coeff=0.01)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], vf_share_layers=False))
        .debugging(seed=options.seed)
    )
    learner = config.build_algo()
    steps, reached = 0, 0.0
    while steps < options.steps and reached < options.until:
        result = learner.train()
        steps, reached = result["num_env_steps_sampled_lifetime"], result["env_runners"][RETURN]
        print(f"{steps} steps, return {reached:.1f}", flush=True)
    learner.stop()


if __name__ == "__main__":
    main()
