"""The release of the seed's Figure 13, as far as the paper tells it: 6 million of 22 million devices on line when it
begins, 4 million of them covered within the last of 7 minutes, all after 19 minutes."""

from __future__ import annotations

from tapml.field.releases import FullStep, GrayStep, NamedStep, Plan, Step

BETA = [f"beta-device-{number:08d}" for number in range(20)]
_SHARES = (0.001, 0.01, 0.05, 0.15, 0.35)


def seed_plan() -> Plan:
    """Twenty beta devices for half a minute, five gray steps of 66 seconds, everybody after six minutes."""
    steps: list[Step] = [NamedStep(kind="beta", devices=BETA, seconds=30)]
    steps += [GrayStep(share=share, seconds=66) for share in _SHARES]
    steps.append(FullStep(kind="full"))
    return Plan(task="simulated/task", version="2.0", manifest="0" * 64, steps=steps)
