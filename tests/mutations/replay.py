"""Wrong variants of the replays: unrolls, frame stacks, sequences, ranks, and the memory of ReF-ER."""

from tests.mutations.variant import Variant

UNROLLS = "repro/replay/unrolls.py"
STACKS = "repro/replay/frame_stacks.py"
WRITER = "repro/replay/sequence_writer.py"
SEQUENCES = "repro/replay/sequences.py"
RANKS = "repro/replay/prioritised.py"
KERNELS = "repro/replay/refer_kernels.py"
REFER = "repro/replay/refer.py"
TEST_UNROLLS = "tests/replay/test_unrolls.py"
TEST_SEQUENCES = "tests/replay/test_sequences.py"
TEST_PRIORITISED = "tests/replay/test_prioritised.py"
TEST_REFER = "tests/replay/test_refer.py"
TEST_PRIORITISED_REFER = "tests/papers/refer/test_prioritised.py"

VARIANTS = [
    Variant(
        "unrolls: newest never drawn",
        UNROLLS,
        "generator.integers(first, self._end, size)",
        "generator.integers(first, max(self._end - 1, first + 1), size)",
        TEST_UNROLLS,
    ),
    Variant(
        "unrolls: later ones drawn more often",
        UNROLLS,
        "generator.integers(first, self._end, size)",
        "np.maximum(generator.integers(first, self._end, size), generator.integers(first, self._end, size))",
        TEST_UNROLLS,
    ),
    Variant(
        "unrolls: the same one for the whole batch",
        UNROLLS,
        "generator.integers(first, self._end, size)",
        "np.full(size, generator.integers(first, self._end))",
        TEST_UNROLLS,
    ),
    Variant(
        "unrolls: last in, first out",
        UNROLLS,
        "place = self._end % self.capacity",
        "place = min(self._end, self.capacity - 1)",
        TEST_UNROLLS,
    ),
    Variant(
        "unrolls: overwritten frames are drawn",
        UNROLLS,
        "self._arrays[i][first % self.capacity].min() < images.first",
        "False and images",
        TEST_UNROLLS,
    ),
    Variant(
        "unrolls: state without the newest",
        UNROLLS,
        '"end": self._end,',
        '"end": self._end - 1,',
        TEST_UNROLLS,
    ),
    Variant(
        "stacks: newest frame first",
        STACKS,
        "np.uint8(stacks[t, p] >> shift)",
        "np.uint8(stacks[t, p] >> (np.uint32(24) - shift))",
        TEST_UNROLLS,
    ),
    Variant(
        "stacks: a game's start is not seen",
        STACKS,
        "changed |= (stacks[t, p] & np.uint32(0xFFFFFF)) ^ (stacks[t - 1, p] >> np.uint32(8))",
        "pass",
        TEST_UNROLLS,
    ),
    Variant(
        "stacks: every stack stored in full",
        STACKS,
        "if changed == 0 and s < STACK - 1:",
        "if False:",
        TEST_UNROLLS,
    ),
    Variant(
        "stacks: rows one frame late",
        STACKS,
        "frames[b, t], frames[b, t + 1], frames[b, t + 2], frames[b, t + 3]",
        "frames[b, t], frames[b, t], frames[b, t + 1], frames[b, t + 2]",
        TEST_SEQUENCES,
        slow=True,
    ),
    Variant(
        "sequences: over a game's end",
        WRITER,
        "            if step_type == StepType.LAST:\n",
        "            if False:\n",
        TEST_SEQUENCES,
        slow=True,
    ),
    Variant(
        "sequences: a game's end not filled",
        WRITER,
        "while self._count < final_start + self._rows:",
        "while False:",
        TEST_SEQUENCES,
        slow=True,
    ),
    Variant(
        "sequences: period not read",
        WRITER,
        "if start >= 0 and start % self._period == 0:",
        "if start >= 0:",
        TEST_SEQUENCES,
        slow=True,
    ),
    Variant(
        "sequences: state of the second row",
        WRITER,
        "sequence[STATE] = history[STATE][-self._rows]",
        "sequence[STATE] = history[STATE][-self._rows + self._period]",
        TEST_SEQUENCES,
        slow=True,
    ),
    Variant(
        "sequences: uniform whatever the priority",
        SEQUENCES,
        "reverb.selectors.Prioritized(exponent) if exponent else reverb.selectors.Uniform()",
        "reverb.selectors.Uniform()",
        TEST_SEQUENCES,
        slow=True,
    ),
    Variant(
        "sequences: priority exponent of 1",
        SEQUENCES,
        "reverb.selectors.Prioritized(exponent) if",
        "reverb.selectors.Prioritized(1.0) if",
        TEST_SEQUENCES,
        slow=True,
    ),
    Variant(
        "sequences: newest gives way",
        SEQUENCES,
        "remover=reverb.selectors.Fifo()",
        "remover=reverb.selectors.Lifo()",
        TEST_SEQUENCES,
        slow=True,
    ),
    Variant(
        "ranks: exponent not read",
        RANKS,
        "dtype=np.float64) ** -alpha)",
        "dtype=np.float64) ** -1.0)",
        TEST_PRIORITISED,
    ),
    Variant(
        "ranks: from 0",
        RANKS,
        "np.arange(1, self._heap.size + 1, dtype=np.float64)",
        "np.arange(2, self._heap.size + 2, dtype=np.float64)",
        TEST_PRIORITISED,
    ),
    Variant(
        "ranks: independent draws, no ranges",
        RANKS,
        "(np.arange(batch) + generator.random(batch)) * (cumulative[-1] / batch)",
        "generator.random(batch) * cumulative[-1]",
        TEST_PRIORITISED,
    ),
    Variant(
        "ranks: weights upside down",
        RANKS,
        "** (alpha * beta)",
        "** (-alpha * beta)",
        TEST_PRIORITISED,
    ),
    Variant(
        "ranks: weights without beta",
        RANKS,
        "** (alpha * beta)",
        "** alpha",
        TEST_PRIORITISED,
    ),
    Variant(
        "ranks: new rows have the lowest priority",
        RANKS,
        "priority = self._priority[self._heap[0]] if self.size else np.float32(1.0)",
        "priority = np.float32(0.0)",
        TEST_PRIORITISED,
    ),
    Variant(
        "ranks: lowest priority first",
        RANKS,
        'np.argsort(-self._priority[rows], kind="stable")',
        'np.argsort(self._priority[rows], kind="stable")',
        TEST_PRIORITISED,
    ),
    Variant(
        "ranks: never sorted",
        RANKS,
        "if self._written >= self._heap.size:",
        "if False:",
        TEST_PRIORITISED,
    ),
    Variant(
        "ReF-ER memory: far count without its lower bound",
        KERNELS,
        "return not (1.0 / c_max < rho < c_max)",
        "return not (rho < c_max)",
        f"{TEST_REFER}::test_bounds_themselves_are_far",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: bounds are near",
        KERNELS,
        "return not (1.0 / c_max < rho < c_max)",
        "return not (1.0 / c_max <= rho <= c_max)",
        f"{TEST_REFER}::test_bounds_themselves_are_far",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: ratio of the trace not truncated",
        KERNELS,
        "weight = rho if rho < ONE else ONE",
        "weight = rho",
        f"{TEST_REFER}::test_random_operations_match_the_naive_twin",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: trace not weighted",
        KERNELS,
        "weight = rho if rho < ONE else ONE",
        "weight = ONE",
        f"{TEST_REFER}::test_random_operations_match_the_naive_twin",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: target not discounted",
        KERNELS,
        "+ (weight * discount) * next_v_tbc",
        "+ weight * next_v_tbc",
        f"{TEST_REFER}::test_random_operations_match_the_naive_twin",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: reads on past a cut",
        KERNELS,
        "        if serial == starts[slot] + lengths[slot] - 1:\n"
        "            next_v_tbc = last_values[slot]\n"
        "        else:\n"
        "            next_v_tbc = numbers[(serial + 1) % capacity, V_TBC]\n"
        "        reward = numbers[row, REWARD] * inverse\n"
        "        numbers[row, V_TBC]",
        "        next_v_tbc = numbers[(serial + 1) % capacity, V_TBC]\n"
        "        reward = numbers[row, REWARD] * inverse\n"
        "        numbers[row, V_TBC]",
        f"{TEST_REFER}::test_random_operations_match_the_naive_twin",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: stops correcting one step early",
        KERNELS,
        "            if v_tbc == numbers[row, V_TBC]:\n"
        "                done = serial\n"
        "                break\n"
        "            numbers[row, V_TBC] = v_tbc\n",
        "            numbers[row, V_TBC] = v_tbc\n"
        "            if serial < ordered[place]:\n"
        "                done = serial\n"
        "                break\n",
        f"{TEST_REFER}::test_random_operations_match_the_naive_twin",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: ratio of a duplicate counted twice",
        KERNELS,
        "        leave(row, numbers[row, RHO], far, c_max, low)\n        enter(row, rho[place], far, c_max, low)",
        "        enter(row, rho[place], far, c_max, low)",
        f"{TEST_REFER}::test_random_operations_match_the_naive_twin",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: a lower bound moves nothing to the far steps",
        KERNELS,
        "            far.counts[0] += 1\n        else:\n            far.edge[kept] = row\n            kept += 1",
        "            far.edge[kept] = row\n            kept += 1",
        f"{TEST_REFER}::test_random_operations_match_the_naive_twin",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: terminal states bootstrap in the target of Q",
        KERNELS,
        "            if episodes.terminated[slot]:\n                kept = ZERO\n",
        "",
        f"{TEST_REFER}::test_random_operations_match_the_naive_twin",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: reward not scaled in Q_ret",
        KERNELS,
        "reward = steps.numbers[row, REWARD] * inverse",
        "reward = steps.numbers[row, REWARD]",
        f"{TEST_REFER}::test_random_operations_match_the_naive_twin",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: windows over the start of an episode",
        KERNELS,
        "length = min(longest, indices[place] - episodes.start[steps.slot[row]] + 1)",
        "length = longest",
        f"{TEST_REFER}::test_windows_end_with_the_drawn_step_and_begin_with_its_episode",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: terminated episodes bootstrap",
        REFER,
        "0.0 if terminated else values_[-1]",
        "values_[-1]",
        f"{TEST_REFER}::test_random_operations_match_the_naive_twin",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: time limits do not bootstrap",
        REFER,
        "0.0 if terminated else values_[-1]",
        "0.0",
        f"{TEST_REFER}::test_random_operations_match_the_naive_twin",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: one episode too many leaves",
        REFER,
        "while len(self) + length > self._capacity:",
        "while len(self) + length >= self._capacity:",
        f"{TEST_REFER}::test_random_operations_match_the_naive_twin",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: oldest step never drawn",
        REFER,
        "return generator.integers(self._head, self._tail, batch)",
        "return generator.integers(self._head + 1, self._tail, batch)",
        f"{TEST_REFER}::test_uniform_draws_have_equal_frequencies",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: later steps drawn more often",
        REFER,
        "return generator.integers(self._head, self._tail, batch)",
        "return generator.integers(self._head, self._tail, (2, batch)).max(0)",
        f"{TEST_REFER}::test_uniform_draws_have_equal_frequencies",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: steps that leave stay far",
        REFER,
        "kernels.leave_all(self._steps, self._head, end, self._far, self._c_max, self._low)",
        "pass",
        f"{TEST_REFER}::test_random_operations_match_the_naive_twin",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: priorities of signed errors",
        REFER,
        "np.abs(errors_)",
        "np.maximum(errors_, 0.0)",
        f"{TEST_PRIORITISED_REFER}::test_k_1_draws_weighs_and_ranks_as_a_naive_twin_does",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: far share of the capacity",
        REFER,
        "return self.num_far / len(self) if len(self) else 0.0",
        "return self.num_far / self._capacity",
        f"{TEST_REFER}::test_random_operations_match_the_naive_twin",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: reward scale about the mean",
        REFER,
        "self._scale = float(np.sqrt(squares / len(self))) + EPSILON",
        "self._scale = float(self._fields.reward[self._rows(self._head, self._tail)].std()) + EPSILON",
        f"{TEST_REFER}::test_random_operations_match_the_naive_twin",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: targets keep the old reward scale",
        REFER,
        "            self._recompute(self._head)\n\n    def state_statistics",
        "\n    def state_statistics",
        f"{TEST_REFER}::test_random_operations_match_the_naive_twin",
        slow=True,
    ),
    Variant(
        "ReF-ER memory: statistics renewed at each call",
        REFER,
        "if self._statistics is None:\n            self._assert",
        "if True:\n            self._assert",
        f"{TEST_REFER}::test_state_statistics_are_of_the_first_call",
        slow=True,
    ),
]
