"""Models of the Real-World RL suite: tasks of the control suite with one physical parameter changed.

The parameters, their ranges and the changes to the models are from google-research/realworldrl_suite (commit be7a51c),
`realworldrl_suite/environments/*.py`; neither its specification nor the STAC paper gives them.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from repro.environments.dm_control_task import import_suite

SKY, SKY_SIZE = "./common/skybox.xml", b'"32"'
"""Texture of the sky and its size in pixels; the suite's 800 pixels take nine tenths of the time to build a model."""


class Perturbation(NamedTuple):
    """The physical parameter of a domain that is sampled for each episode.

    Attributes:
        change: function that writes a value of the parameter into the model's XML.
        ranges: smallest and largest value for each level.
    """

    change: Callable[[ElementTree.Element, float], None]
    ranges: dict[str, tuple[float, float]]


def perturbed_physics(domain: str, value: float) -> Any:
    """Returns a `Physics` of the suite with a changed parameter of the model.

    Args:
        domain: one of `PERTURBATIONS`.
        value: value of the domain's parameter.
    """
    import_suite()
    module = importlib.import_module(f"dm_control.suite.{domain}")
    common = importlib.import_module("dm_control.suite.common")
    if domain == "quadruped":  # the floor of `walk`: twenty seconds at half a metre per second
        text = module.make_model(floor_size=10)
    else:
        text = module.get_model_and_assets()[0]
    model = ElementTree.fromstring(text)
    PERTURBATIONS[domain].change(model, value)
    sky = common.ASSETS[SKY].replace(b'"800"', SKY_SIZE)
    return module.Physics.from_xml_string(ElementTree.tostring(model), {**common.ASSETS, SKY: sky})


def upright_start(task: Any, physics: Any) -> None:
    """Begins an episode of the quadruped upright with a random heading; the control suite samples any orientation.

    Args:
        task: `quadruped.Move`, whose rng is used.
        physics: physics of the simulation.
    """
    azimuth = task.random.uniform(0, 2 * math.pi)
    orientation = np.array((math.cos(azimuth / 2), 0, 0, math.sin(azimuth / 2)))
    quadruped = importlib.import_module("dm_control.suite.quadruped")
    quadruped._find_non_contacting_height(physics, orientation)


def _pole_length(model: ElementTree.Element, length: float) -> None:
    """Sets the pole's length in metres and its mass to a tenth of that in kilograms; 1 in the control suite."""
    pole = model.findall("./default/default/geom")[0]
    pole.set("fromto", f"0 0 0 0 0 {length}")
    pole.set("mass", str(length / 10))


def _thigh_length(model: ElementTree.Element, half_length: float) -> None:
    """Sets half the length of both thighs in metres; 0.225 in the control suite."""
    for thigh in model.findall("./worldbody/body/body/geom"):
        thigh.set("pos", f"0 0 {-half_length}")
        thigh.set("size", f"0.05 {half_length}")
    for leg in model.findall("./worldbody/body/body/body"):
        leg.set("pos", f"0 0 {-0.25 - 2 * half_length}")


def _shin_length(model: ElementTree.Element, length: float) -> None:
    """Sets the length of all four shins along two axes each in metres; 0.25 in the control suite."""
    model.findall("./default/default/default[@class='knee']/geom")[0].set("fromto", f"0 0 0 {length} 0 {-length}")
    for ankle in model.findall("./worldbody/body/body/body/body"):
        ankle.set("pos", f"{length} 0 {-length}")


def _contact_friction(model: ElementTree.Element, friction: float) -> None:
    """Sets the sliding friction of body and floor, 0.7 and 1 in the control suite.

    The torsional and rolling frictions become 0.1; they are 0.005 and 0.0001 in the control suite.
    """
    for part in ("./default/default/geom", "./worldbody/geom"):
        model.findall(part)[0].set("friction", f"{friction} .1 .1")


PERTURBATIONS = {
    "cartpole": Perturbation(_pole_length, {"easy": (0.9, 1.1), "medium": (0.7, 1.7), "hard": (0.5, 2.3)}),
    "walker": Perturbation(_thigh_length, {"easy": (0.225, 0.25), "medium": (0.225, 0.4), "hard": (0.225, 0.55)}),
    "quadruped": Perturbation(_shin_length, {"easy": (0.25, 0.3), "medium": (0.25, 0.8), "hard": (0.25, 1.4)}),
    "humanoid": Perturbation(_contact_friction, {"easy": (0.6, 0.8), "medium": (0.5, 0.9), "hard": (0.4, 1.0)}),
}
