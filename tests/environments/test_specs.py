"""TF-Agents specs of gymnasium spaces."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

from repro.environments.specs import tensor_spec_of, unwrapped


def test_discrete_from_its_start() -> None:
    spec = tensor_spec_of(gymnasium.spaces.Discrete(5, start=2), "action")
    assert (spec.shape, spec.dtype, spec.name) == ((), tf.int32, "action")
    assert (spec.minimum, spec.maximum) == (2, 6)


def test_box_with_one_bound_and_with_many() -> None:
    frame = tensor_spec_of(gymnasium.spaces.Box(0, 255, (3, 2), np.uint8), "frame")
    assert (frame.shape, frame.dtype) == ((3, 2), tf.uint8)
    assert (frame.minimum, frame.maximum) == (0, 255)
    low = np.array([-1.0, -2.0], np.float32)
    force = tensor_spec_of(gymnasium.spaces.Box(low, -low), "force")
    assert force.dtype == tf.float32
    np.testing.assert_array_equal(force.minimum, low)
    np.testing.assert_array_equal(force.maximum, -low)


def test_dict_keeps_its_keys() -> None:
    space = gymnasium.spaces.Dict(frame=gymnasium.spaces.Box(0, 255, (2,), np.uint8), n=gymnasium.spaces.Discrete(3))
    spec = tensor_spec_of(space, "observation")
    assert list(spec) == ["frame", "n"]
    assert (spec["frame"].name, spec["n"].maximum) == ("frame", 2)


def test_other_spaces_are_refused() -> None:
    with pytest.raises(TypeError, match="tensor_spec_of.*MultiBinary"):
        tensor_spec_of(gymnasium.spaces.MultiBinary(3), "bits")


def test_unwrapped_nests_are_the_same_but_plain() -> None:
    class Step(NamedTuple):
        first: Any
        second: Any

    holder = tf.Module()
    plain = {"step": Step((1, 2), [3]), "state": {"h": 4}}
    holder.nest = plain  # an attribute of a module is wrapped
    found = unwrapped(holder.nest)
    tf.nest.assert_same_structure(found, plain)
    assert found == plain
    inner = [found, found["step"], found["step"].first, found["step"].second, found["state"]]
    assert [type(part) for part in inner] == [dict, Step, tuple, list, dict]
    assert type(holder.nest) is not dict  # otherwise `unwrapped` has become needless
