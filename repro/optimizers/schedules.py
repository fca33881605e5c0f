"""Learning-rate schedules over environment frames."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class LinearOnFrames(tf.keras.optimizers.schedules.LearningRateSchedule):
    """Moves linearly from `initial` to `final` over a budget of environment frames, then stays there.

        value(k) = (1 - x) initial + x final,    x = min(1, k frames_per_update / total_frames)

    k is the number of updates applied so far (`optimizer.iterations`), so the first update uses `initial`, and a
    checkpoint restores the value with the optimiser.

    Args:
        initial: learning rate of the first update.
        final: learning rate from `total_frames` on.
        total_frames: budget of the run in environment frames (agent steps times frame skip), > 0.
        frames_per_update: environment frames that one update consumes, batch size times unroll length times frame
            skip, > 0.

    Raises:
        ValueError: a number of frames is not positive.
    """

    def __init__(self, initial: float, final: float, total_frames: int, frames_per_update: int) -> None:
        if total_frames <= 0 or frames_per_update <= 0:
            raise ValueError(
                f"LinearOnFrames: total_frames ({total_frames}) and frames_per_update ({frames_per_update}) "
                "must be positive."
            )
        self.initial = float(initial)
        self.final = float(final)
        self.total_frames = int(total_frames)
        self.frames_per_update = int(frames_per_update)

    def __call__(self, step: tf.Tensor | tf.Variable | int) -> tf.Tensor:
        """Learning rate, float32 [], of the update after `step` earlier ones (integer [])."""
        total_updates = self.total_frames / self.frames_per_update
        fraction = tf.minimum(tf.cast(step, tf.float32) / total_updates, 1.0)
        return (1.0 - fraction) * self.initial + fraction * self.final

    def get_config(self) -> dict[str, Any]:
        return {
            "initial": self.initial,
            "final": self.final,
            "total_frames": self.total_frames,
            "frames_per_update": self.frames_per_update,
        }
