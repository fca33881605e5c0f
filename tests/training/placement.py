"""Run by `test_placement.py` in a separate process: writes the devices of a training's parts to a JSON file.

The processor is split into three logical devices. The first is the host's. `STRATEGY` is the device that
`devices.make_strategy` uses if there is one GPU. `DEFAULT` is the device of operations that name none, which is a GPU
if TensorFlow chooses it. So placements by the strategy and by TensorFlow can be told apart.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_collections
import tensorflow as tf
from tensorflow.python.eager import context

from paper_configs.impala import gymnasium
from paper_configs.impala.dmlab_table1_throughput import schedules
from repro.acting.batches import Batch
from repro.acting.unrolls import UnrollGroup
from repro.papers import find_experiment
from repro.training import devices
from repro.training.run_directory import RunDirectory

HOST, STRATEGY, DEFAULT = "CPU:0", "CPU:1", "CPU:2"
NUM_ACTORS, UNROLL = 2, 3
BETWEEN = {"_Arg", "_Retval", "_Send", "_Recv", "_HostSend", "_HostRecv", "NoOp"}
"""Operations that bring values to a device and from it."""


def split_processor() -> None:
    """To be called before TensorFlow computes: the devices above, one of which is taken for a GPU."""
    devices.hide_gpus()
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
    make_strategy = tf.distribute.OneDeviceStrategy
    tf.distribute.OneDeviceStrategy = lambda device: make_strategy({"/gpu:0": STRATEGY}[device])
    devices.visible_gpus = lambda: ["GPU:0"]


def make_config(schedule: str, compile_: str) -> ml_collections.ConfigDict:
    """IMPALA on CartPole, with a schedule of Table 1."""
    config = gymnasium.get_config("smoke")
    config.learner.update(batch_size=NUM_ACTORS, unroll_length=UNROLL)
    with config.unlocked():
        config.runtime.update(schedules(NUM_ACTORS)[schedule]["runtime"])
    config.runtime.compile = compile_
    return config


def name(device: str) -> str:
    """The last part of TensorFlow's name of a device."""
    return device.rsplit("device:", 1)[-1]


def executed(call: Callable[[], Any]) -> tuple[Any, dict[str, list[str]]]:
    """What a call returns, and the types of the operations of its functions by the device that executed them."""
    context.context().enable_graph_collection()
    result = call()
    collected = context.context().export_run_metadata()
    context.context().disable_graph_collection()
    nodes = [node for found in collected.function_graphs for graph in found.partition_graphs for node in graph.node]
    by_device: dict[str, set[str]] = {}
    for node in nodes:
        if node.op not in BETWEEN:
            by_device.setdefault(name(node.device), set()).add(node.op)
    return result, {device: sorted(types) for device, types in by_device.items()}


def look(folder: Path, schedule: str, compile_: str) -> dict[str, Any]:
    """Where variables, an unroll of every actor and an update are, by what they are."""
    config = make_config(schedule, compile_)
    with tf.device(DEFAULT):
        trainer = find_experiment(config).build_trainer(1, RunDirectory(folder, config.to_dict(), 1), print)
    learner, actors = trainer._learner, [place.actor for place in trainer._source._actors.places]
    agent = learner.agent
    trainer._publish()
    groups = [UnrollGroup(agent.collect_data_spec, 1, UNROLL) for _ in actors]

    def act() -> None:
        with tf.device(DEFAULT):
            for actor, group in zip(actors, groups, strict=True):
                actor.sync_weights()
                actor.collect([group])

    def learn() -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        return learner._call(learner._step, Batch(groups, learner.to_device).trajectory)

    _, acting = executed(act)
    (scalars, _), learning = executed(learn)
    shared = [getattr(actor._inference, "_batching", None) for actor in actors]
    policies = [
        actor._inference._variables if batching is None else batching._policy.variables()
        for actor, batching in zip(actors, shared)
    ]
    trainer.close()
    return {
        "weights": [name(variable.device) for variable in agent.trainable_variables],
        "slots": [name(variable.device) for variable in agent._optimizer.variables],
        "scalars": [name(scalars.backing_device)],
        "learning": learning,
        "policies": [name(variable.device) for variables in policies for variable in variables],
        "shared": len({id(batching) for batching in shared if batching is not None}),
        "acting": acting,
    }


if __name__ == "__main__":
    split_processor()
    file, asked, compiled = Path(sys.argv[1]), *sys.argv[2:]
    file.write_text(json.dumps(look(file.parent / "run", asked, compiled)))
