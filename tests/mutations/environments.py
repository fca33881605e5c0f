"""Wrong variants of what batches of Gymnasium and MuJoCo environments report, scale and restore."""

from tests.mutations.variant import Variant

STEPPED = "repro/environments/stepped.py"
GYMNASIUM = "repro/environments/gymnasium.py"
SPACES = "repro/environments/gymnasium_spaces.py"
TEST = "tests/environments/test_gymnasium.py"

MAKE = "repro/environments/make.py"
MIXED = "repro/environments/mixed.py"
MIXED_TEST = "tests/environments/test_mixed.py"
DMLAB = "repro/environments/dmlab.py"
DMLAB_TEST = "tests/environments/test_dmlab.py"

VARIANTS = [
    Variant(
        "DeepMind Lab: all first episodes are cut together",
        DMLAB,
        "self.stagger_steps * place // num_envs",
        "self.stagger_steps",
        f"{DMLAB_TEST}::test_first_episodes_are_cut_at_steps_of_their_own",
    ),
    Variant(
        "DeepMind Lab: batches of a run are cut alike",
        DMLAB,
        "range(index, everywhere, batches)",
        "range(0, everywhere, batches)",
        f"{DMLAB_TEST}::test_first_episodes_are_cut_at_steps_of_their_own",
    ),
    Variant(
        "DeepMind Lab: later episodes are cut, too",
        DMLAB,
        "if over or is_cut:",
        "if False:",
        f"{DMLAB_TEST}::test_first_episodes_are_cut_at_steps_of_their_own",
    ),
    Variant(
        "DeepMind Lab: cut episodes of tests",
        DMLAB,
        "return 0 if self.test else",
        "return",
        f"{DMLAB_TEST}::test_episodes_are_staggered_again_where_they_begin_together_but_not_in_tests",
    ),
    Variant(
        "make: any actions fit",
        MAKE,
        "if is_continuous is None or is_continuous != discrete:",
        "if True:",
        "tests/papers/test_actions.py::test_actions_of_the_other_kind_are_refused",
    ),
    Variant(
        "gymnasium: a time limit is an end",
        STEPPED,
        "(terminated if step_terminated else truncated)[row]",
        "(terminated if step_terminated or steps >= self._step_limit else truncated)[row]",
        f"{TEST}::test_an_end_and_the_time_limit_are_told_apart",
    ),
    Variant(
        "gymnasium: truncations of the environment itself are missed",
        STEPPED,
        "if step_terminated or step_truncated or steps",
        "if step_terminated or steps",
        f"{TEST}::test_each_kind_of_end",
    ),
    Variant(
        "gymnasium: the time limit comes a step late",
        STEPPED,
        "steps >= self._step_limit",
        "steps > self._step_limit",
        f"{TEST}::test_an_end_and_the_time_limit_are_told_apart",
    ),
    Variant(
        "stepped: the next episode keeps the return of the last",
        STEPPED,
        "self._over[row], self._steps[row], self._returns[row] = False, 0, 0.0",
        "self._over[row], self._steps[row] = False, 0",
        f"{TEST}::test_equals_bare_gymnasium",
    ),
    Variant(
        "gymnasium: actions without the centre of their bounds",
        SPACES,
        "centre + scale * actions",
        "scale * actions",
        f"{TEST}::test_box_actions_are_scaled_to_bounds_on_both_sides_and_clipped",
    ),
    Variant(
        "gymnasium: actions are not clipped",
        SPACES,
        "np.clip(centre + scale * actions, low, high)",
        "centre + scale * actions",
        f"{TEST}::test_box_actions_are_scaled_to_bounds_on_both_sides_and_clipped",
    ),
    Variant(
        "gymnasium: discrete actions without their start",
        SPACES,
        "(actions + start)",
        "actions",
        f"{TEST}::test_discrete_actions_begin_at_their_start",
    ),
    Variant(
        "gymnasium: channels stay first",
        SPACES,
        "if channels < min(height, width):",
        "if channels < 0:",
        f"{TEST}::test_images_have_their_channels_last",
    ),
    Variant(
        "gymnasium: a pickle of arguments counts as a state",
        GYMNASIUM,
        "if _pickles_arguments_alone(task):",
        "if task is None:",
        f"{TEST}::test_a_pickle_of_arguments_is_no_state",
    ),
    Variant(
        "gymnasium: every pickle counts as a state",
        GYMNASIUM,
        "return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(expected, found, strict=True))",
        "return True",
        f"{TEST}::test_episodes_that_cannot_be_saved_are_cut_and_new_ones_begin",
    ),
    Variant(
        "gymnasium: the check of pickle steps the environment itself",
        GYMNASIUM,
        "first = pickle.loads(pickle.dumps(task))",
        "first = task",
        f"{TEST}::test_the_check_of_pickle_leaves_the_environments_as_they_are",
    ),
    Variant(
        "gymnasium: lost episodes go on as if they had been saved",
        GYMNASIUM,
        "self._lost = [not over for over in self._over]",
        "self._lost = [False for over in self._over]",
        f"{TEST}::test_an_actor_goes_on_where_it_was_saved",
    ),
    Variant(
        "gymnasium: restarts repeat the first episodes",
        GYMNASIUM,
        "self._restarts += 1",
        "self._restarts += 0",
        f"{TEST}::test_new_episodes_are_not_those_that_the_run_began_with",
    ),
    Variant(
        "gymnasium: one seed for all environments",
        GYMNASIUM,
        "SeedSequence((seed, row, restarts))",
        "SeedSequence((seed, 0, restarts))",
        f"{TEST}::test_seeds",
    ),
    Variant(
        "DeepMind Lab: batches of a run play the same episodes",
        DMLAB,
        "* batches + index",
        "* 1 + index",
        f"{DMLAB_TEST}::test_batches_of_a_run_take_turns_in_a_level_set",
    ),
    Variant(
        "DeepMind Lab: tests have the seeds of training",
        DMLAB,
        "(self.test << 31) | (self.level_set or seed)",
        "self.level_set or seed",
        f"{DMLAB_TEST}::test_batches_and_tests_have_episodes_of_their_own",
    ),
    Variant(
        "DeepMind Lab: a resumed run plays its first episodes again",
        DMLAB,
        'self._episodes = np.asarray(state["episodes"]).tolist()',
        'self._episodes = np.zeros_like(state["episodes"]).tolist()',
        f"{DMLAB_TEST}::test_no_seed_is_used_twice",
    ),
    Variant(
        "DeepMind Lab: a lost episode is an end",
        DMLAB,
        "return self._observation[row], 0.0, False, True",
        "return self._observation[row], 0.0, True, False",
        f"{DMLAB_TEST}::test_a_killed_process_costs_its_episode_alone",
    ),
    Variant(
        "DeepMind Lab: returns are of clipped rewards",
        DMLAB,
        "reward = REWARD_CLIPS[self.config.reward_clip](reward).astype(np.float32)",
        'reward = info["episode_return"] = REWARD_CLIPS[self.config.reward_clip](reward).astype(np.float32)',
        f"{DMLAB_TEST}::test_returns_are_of_rewards_that_are_not_clipped",
    ),
    Variant(
        "DeepMind Lab: the optimistic reward is observed",
        DMLAB,
        'REWARD_CLIPS["none" if self.config.reward_clip == "none" else "unit"](reward)',
        "REWARD_CLIPS[self.config.reward_clip](reward)",
        f"{DMLAB_TEST}::test_negative_last_rewards_are_not_shown_as_the_optimistic_ones",
    ),
    Variant(
        "DeepMind Lab: evaluations play training levels",
        MAKE,
        "config.env.test = True",
        "config.env.test = False",
        f"{DMLAB_TEST}::test_an_evaluation_plays_the_twin_for_tests",
    ),
    Variant(
        "DeepMind Lab: the hash of a word depends on the process",
        "repro/environments/dmlab_language.py",
        "int.from_bytes(digest)",
        "hash(word)",
        f"{DMLAB_TEST}::test_ids_of_words_are_the_same_in_every_process",
    ),
    Variant(
        "Atari: rewards are not clipped",
        "repro/environments/atari.py",
        "return np.clip(reward, -bound, bound, out=reward) if bound else reward",
        "return reward",
        "tests/environments/test_atari.py::test_reward_clip",
    ),
    Variant(
        "several tasks: actions of the rows side by side",
        MIXED,
        "part.step(actions[i::n])",
        "part.step(actions[i * part.num_envs : (i + 1) * part.num_envs])",
        f"{MIXED_TEST}::test_actions_and_returns_are_those_of_the_right_task",
    ),
    Variant(
        "several tasks: returns of the rows side by side",
        MIXED,
        "np.stack(parts, axis=1)",
        "np.stack(parts, axis=0)",
        f"{MIXED_TEST}::test_actions_and_returns_are_those_of_the_right_task",
    ),
    Variant(
        "several tasks: returns of tasks swapped",
        MIXED,
        "np.tile(np.arange(first, first + len(parts), dtype=np.int32), one.num_envs)",
        "np.tile(np.arange(first, first + len(parts), dtype=np.int32)[::-1], one.num_envs)",
        f"{MIXED_TEST}::test_actions_and_returns_are_those_of_the_right_task",
    ),
    Variant(
        "several tasks: every batch begins with the first task",
        MIXED,
        "return Share(first, num_envs, 1,",
        "return Share(0, num_envs, 1,",
        f"{MIXED_TEST}::test_each_task_has_as_many_environments_and_batches_of_a_task_have_numbers_of_their_own",
    ),
    Variant(
        "several tasks: unequal shares",
        MIXED,
        "if num_tasks % num_envs or batches * num_envs % num_tasks:",
        "if num_tasks % num_envs:",
        f"{MIXED_TEST}::test_unequal_shares_are_refused",
    ),
    Variant(
        "several tasks: batches share the episodes of a level",
        MIXED,
        "(begun, batches * num_envs // num_tasks)",
        "(0, batches * num_envs // num_tasks)",
        f"{MIXED_TEST}::test_no_two_actors_play_the_same_episode_of_a_level",
    ),
    Variant(
        "several tasks: one seed for all",
        MAKE,
        "zip(mine, np.random.SeedSequence(seed).generate_state(len(mine)) % 2**31)",
        "zip(mine, [seed] * len(mine))",
        f"{MIXED_TEST}::test_each_task_is_what_a_batch_of_its_own_would_be",
    ),
    Variant(
        "several tasks: actions of different meaning",
        MAKE,
        'if config.env.name == "atari" and not config.env.full_action_set:',
        "if False:",
        f"{MIXED_TEST}::test_what_cannot_be_learned_together_is_a_sentence",
    ),
]
