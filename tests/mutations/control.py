"""Wrong variants of the control suite's batches and of the Real-World RL challenges."""

from tests.mutations.variant import Variant

TASK = "repro/environments/dm_control_task.py"
BATCH = "repro/environments/dm_control.py"
RENDERER = "repro/environments/offscreen.py"
RWRL = "repro/environments/rwrl.py"
MODELS = "repro/environments/rwrl_models.py"
TEST = "tests/environments/test_dm_control.py"
TEST_RWRL = "tests/environments/test_rwrl.py"

VARIANTS = [
    Variant(
        "heading of the quadruped over half of the circle",
        MODELS,
        "task.random.uniform(0, 2 * math.pi)",
        "task.random.uniform(0, math.pi)",
        "tests/environments/test_rwrl.py::test_the_quadruped_s_heading_is_any",
    ),
    Variant(
        "DM Control: the target is no part of a saved state",
        TASK,
        '    "geom_pos",\n',
        "",
        f"{TEST}::test_a_task_has_no_other_state_than_what_is_saved",
        slow=True,
    ),
    Variant(
        "DM Control: a restored simulation lacks the first half of its next step",
        TASK,
        "mujoco.mj_step1(self.model, self.data)",
        "mujoco.mj_kinematics(self.model, self.data)",
        f"{TEST}::test_restored_episodes_go_on_exactly",
    ),
    Variant(
        "DM Control: half of a Gaussian pair is no part of a saved state",
        TASK,
        '"has_gauss": rng["has_gauss"],\n                "gauss"',
        '"has_gauss": 0,\n                "gauss"',
        f"{TEST}::test_restored_episodes_go_on_exactly",
    ),
    Variant(
        "DM Control: all actuators have bounds of 1",
        BATCH,
        "return self._centre + self._scale * np.clip",
        "return np.clip",
        f"{TEST}::test_actions_are_scaled_to_their_bounds_and_clipped",
    ),
    Variant(
        "DM Control: one seed for all environments",
        "repro/environments/stepped.py",
        "np.random.SeedSequence((self._seed, row))",
        "np.random.SeedSequence((self._seed, 0))",
        f"{TEST}::test_seeds_and_independence",
    ),
    Variant(
        "DM Control: an unstable simulation ends the episode",
        TASK,
        "return self._features, 0.0, False, True",
        "return self._features, 0.0, True, False",
        f"{TEST}::test_an_unstable_simulation_is_cut",
    ),
    Variant(
        "DM Control: pixels are upside down",
        RENDERER,
        "return picture[::-1]",
        "return picture",
        f"{TEST}::test_pixels_show_what_is_and_are_restored_exactly",
        slow=True,
    ),
    Variant(
        "RWRL: observations come a step early",
        RWRL,
        "DelayLine(level.observation_delay)",
        "DelayLine(max(level.observation_delay - 1, 0))",
        f"{TEST_RWRL}::test_dummies_are_unit_gaussians_that_are_not_delayed",
    ),
    Variant(
        "RWRL: the dummies are delayed",
        RWRL,
        "return np.concatenate((self._observations.pass_on(reading), dummies))",
        "return self._observations.pass_on(np.concatenate((reading, dummies)))",
        f"{TEST_RWRL}::test_dummies_are_unit_gaussians_that_are_not_delayed",
    ),
    Variant(
        "RWRL: a component that fails may begin to fail again",
        RWRL,
        "self.left[(self.left == 0) & begins] = self._steps",
        "self.left[begins] = self._steps",
        f"{TEST_RWRL}::test_spells_have_their_share_and_their_length",
    ),
    Variant(
        "RWRL: a stuck component reads what the sensor has",
        RWRL,
        "self._reading = reading\n",
        "self._reading = features\n",
        f"{TEST_RWRL}::test_a_dropped_reading_may_be_stuck_at",
    ),
    Variant(
        "RWRL: an action acts for one step more",
        RWRL,
        "self._held, self._held_for = noisy, self._level.repeated_steps",
        "self._held, self._held_for = noisy, self._level.repeated_steps + 1",
        f"{TEST_RWRL}::test_an_action_acts_for_some_steps",
    ),
    Variant(
        "RWRL: noisy actions leave their bounds",
        RWRL,
        "np.clip(self._rng.normal(delayed, self._level.action_noise), self._low, self._high)",
        "self._rng.normal(delayed, self._level.action_noise)",
        f"{TEST_RWRL}::test_noise_of_actions_is_brought_within_their_bounds",
    ),
    Variant(
        "RWRL: one parameter for all episodes",
        RWRL,
        "self._build(float(self._rng.uniform(*self._range)))",
        "self._build(self.parameter)",
        f"{TEST_RWRL}::test_each_episode_has_a_parameter_of_the_level_s_range",
    ),
    Variant(
        "RWRL: a held action is no part of a saved state",
        RWRL,
        'self._held_for = int(state["held_for"])',
        "self._held_for = 0",
        f"{TEST_RWRL}::test_restored_episodes_go_on_exactly",
    ),
    Variant(
        "RWRL: spells end where a saved state is taken up",
        RWRL,
        '        self._dropped.left, self._stuck.left = np.array(state["dropped"]), np.array(state["stuck"])\n',
        "",
        f"{TEST_RWRL}::test_every_random_effect_follows_its_seed_and_a_saved_state",
    ),
    Variant(
        "RWRL: noise of observations from NumPy's global generator",
        RWRL,
        "reading = self._rng.normal(",
        "reading = np.random.normal(",
        f"{TEST_RWRL}::test_every_random_effect_follows_its_seed_and_a_saved_state",
    ),
    Variant(
        "RWRL: the legs stay where shorter thighs end",
        MODELS,
        'leg.set("pos", f"0 0 {-0.25 - 2 * half_length}")',
        'leg.set("pos", "0 0 -0.7")',
        f"{TEST_RWRL}::test_models_have_what_their_parameter_says",
    ),
    Variant(
        "RWRL: noise on what is dropped",
        RWRL,
        """        reading = self._rng.normal(features, self._level.observation_noise)
        reading[self._dropped.sample(self._rng)] = 0.0
""",
        """        reading = np.where(self._dropped.sample(self._rng), 0.0, features)
        reading = self._rng.normal(reading, self._level.observation_noise)
""",
        f"{TEST_RWRL}::test_noise_comes_before_what_is_dropped_and_before_what_is_held",
    ),
    Variant(
        "RWRL: a held action gets noise of its own",
        RWRL,
        "        return self._held\n",
        "        return np.clip(self._rng.normal(self._held, self._level.action_noise), self._low, self._high)\n",
        f"{TEST_RWRL}::test_noise_comes_before_what_is_dropped_and_before_what_is_held",
    ),
    Variant(
        "RWRL: an action is held before it is delayed",
        RWRL,
        """        delayed = self._actions.pass_on(action)
        noisy = np.clip(self._rng.normal(delayed, self._level.action_noise), self._low, self._high)
        if self._held_for == 0:
            self._held, self._held_for = noisy, self._level.repeated_steps
        self._held_for -= 1
        return self._held
""",
        """        if self._held_for == 0:
            self._held, self._held_for = action, self._level.repeated_steps
        self._held_for -= 1
        delayed = self._actions.pass_on(self._held)
        return np.clip(self._rng.normal(delayed, self._level.action_noise), self._low, self._high)
""",
        f"{TEST_RWRL}::test_an_action_is_delayed_before_it_is_held",
    ),
]
