"""Wrong variants of the replays: unrolls, frame stacks, sequences, ranks, and the memory of ReF-ER."""

from tests.mutations.variant import Variant

UNROLLS, STACKS = "repro/replay/unrolls.py", "repro/replay/frame_stacks.py"
WRITER, SEQUENCES = "repro/replay/sequence_writer.py", "repro/replay/sequences.py"
RANKS, REFER, KERNELS = "repro/replay/prioritised.py", "repro/replay/refer.py", "repro/replay/refer_kernels.py"
T_U, T_S = "tests/replay/test_unrolls.py", "tests/replay/test_sequences.py"
T_P, T_R = "tests/replay/test_prioritised.py", "tests/replay/test_refer.py"

VARIANTS = [
    Variant("unrolls: newest never drawn", UNROLLS, "generator.integers(first, self._end, size)", "generator.integers(first, max(self._end - 1, first + 1), size)", T_U),
    Variant("unrolls: later ones drawn more often", UNROLLS, "generator.integers(first, self._end, size)", "np.maximum(generator.integers(first, self._end, size), generator.integers(first, self._end, size))", T_U),
    Variant("unrolls: the same one for the whole batch", UNROLLS, "generator.integers(first, self._end, size)", "np.full(size, generator.integers(first, self._end))", T_U),
    Variant("unrolls: last in, first out", UNROLLS, "place = self._end % self.capacity", "place = min(self._end, self.capacity - 1)", T_U),
    Variant("unrolls: overwritten frames are drawn", UNROLLS, "self._arrays[i][first % self.capacity].min() < images.first", "False and images", T_U),
    Variant("unrolls: state without the newest", UNROLLS, '"end": self._end,', '"end": self._end - 1,', T_U),
    Variant("stacks: newest frame first", STACKS, "np.uint8(stacks[t, p] >> shift)", "np.uint8(stacks[t, p] >> (np.uint32(24) - shift))", T_U),
    Variant("stacks: a game's start is not seen", STACKS, "changed |= (stacks[t, p] & np.uint32(0xFFFFFF)) ^ (stacks[t - 1, p] >> np.uint32(8))", "pass", T_U),
    Variant("stacks: every stack stored in full", STACKS, "if changed == 0 and s < STACK - 1:", "if False:", T_U),
    Variant("stacks: rows one frame late", STACKS, "frames[b, t], frames[b, t + 1], frames[b, t + 2], frames[b, t + 3]", "frames[b, t], frames[b, t], frames[b, t + 1], frames[b, t + 2]", T_S, slow=True),
    Variant("sequences: over a game's end", WRITER, "            if step_type == StepType.LAST:\n", "            if False:\n", T_S, slow=True),
    Variant("sequences: a game's end not filled", WRITER, "while self._count < final_start + self._rows:", "while False:", T_S, slow=True),
    Variant("sequences: period not read", WRITER, "if start >= 0 and start % self._period == 0:", "if start >= 0:", T_S, slow=True),
    Variant("sequences: state of the second row", WRITER, "sequence[STATE] = history[STATE][-self._rows]", "sequence[STATE] = history[STATE][-self._rows + self._period]", T_S, slow=True),
    Variant("sequences: uniform whatever the priority", SEQUENCES, "reverb.selectors.Prioritized(exponent) if exponent else reverb.selectors.Uniform()", "reverb.selectors.Uniform()", T_S, slow=True),
    Variant("sequences: priority exponent of 1", SEQUENCES, "reverb.selectors.Prioritized(exponent) if", "reverb.selectors.Prioritized(1.0) if", T_S, slow=True),
    Variant("sequences: newest gives way", SEQUENCES, "remover=reverb.selectors.Fifo()", "remover=reverb.selectors.Lifo()", T_S, slow=True),
    Variant("ranks: exponent not read", RANKS, "dtype=np.float64) ** -alpha)", "dtype=np.float64) ** -1.0)", T_P),
    Variant("ranks: from 0", RANKS, "np.arange(1, self._heap.size + 1, dtype=np.float64)", "np.arange(2, self._heap.size + 2, dtype=np.float64)", T_P),
    Variant("ranks: independent draws, no ranges", RANKS, "(np.arange(batch) + generator.random(batch)) * (cumulative[-1] / batch)", "generator.random(batch) * cumulative[-1]", T_P),
    Variant("ranks: weights upside down", RANKS, "** (alpha * beta)", "** (-alpha * beta)", T_P),
    Variant("ranks: weights without beta", RANKS, "** (alpha * beta)", "** alpha", T_P),
    Variant("ranks: new rows have the lowest priority", RANKS, "priority = self._priority[self._heap[0]] if self.size else np.float32(1.0)", "priority = np.float32(0.0)", T_P),
    Variant("ranks: lowest priority first", RANKS, "np.argsort(-self._priority[rows], kind=\"stable\")", "np.argsort(self._priority[rows], kind=\"stable\")", T_P),
    Variant("ranks: never sorted", RANKS, "if self._written >= self._heap.size:", "if False:", T_P),
    Variant("ReF-ER memory: far count without its lower bound", KERNELS, "return not (1.0 / c_max < rho < c_max)", "return not (rho < c_max)", T_R, slow=True),
    Variant("ReF-ER memory: bounds are near", KERNELS, "return not (1.0 / c_max < rho < c_max)", "return not (1.0 / c_max <= rho <= c_max)", T_R, slow=True),
    Variant("ReF-ER memory: ratio of the trace not truncated", KERNELS, "weight = rho if rho < ONE else ONE", "weight = rho", T_R, slow=True),
    Variant("ReF-ER memory: trace not weighted", KERNELS, "weight = rho if rho < ONE else ONE", "weight = ONE", T_R, slow=True),
    Variant("ReF-ER memory: target not discounted", KERNELS, "+ (weight * discount) * next_v_tbc", "+ weight * next_v_tbc", T_R, slow=True),
    Variant("ReF-ER memory: reads on past a cut", KERNELS, "        if serial == starts[slot] + lengths[slot] - 1:\n            next_v_tbc = last_values[slot]\n        else:\n            next_v_tbc = numbers[(serial + 1) % capacity, V_TBC]\n        reward = numbers[row, REWARD] * inverse\n        numbers[row, V_TBC]", "        next_v_tbc = numbers[(serial + 1) % capacity, V_TBC]\n        reward = numbers[row, REWARD] * inverse\n        numbers[row, V_TBC]", T_R, slow=True),
    Variant("ReF-ER memory: stops correcting one step early", KERNELS, "            if v_tbc == numbers[row, V_TBC]:\n                done = serial\n                break\n            numbers[row, V_TBC] = v_tbc\n", "            numbers[row, V_TBC] = v_tbc\n            if serial < ordered[place]:\n                done = serial\n                break\n", T_R, slow=True),
    Variant("ReF-ER memory: ratio of a duplicate counted twice", KERNELS, "        leave(row, numbers[row, RHO], far, c_max, low)\n        enter(row, rho[place], far, c_max, low)", "        enter(row, rho[place], far, c_max, low)", T_R, slow=True),
    Variant("ReF-ER memory: a lower bound moves nothing to the far steps", KERNELS, "            far.counts[0] += 1\n        else:\n            far.edge[kept] = row\n            kept += 1", "            far.edge[kept] = row\n            kept += 1", T_R, slow=True),
    Variant("ReF-ER memory: terminal states bootstrap in the target of Q", KERNELS, "            if episodes.terminated[slot]:\n                kept = ZERO\n", "", T_R, slow=True),
    Variant("ReF-ER memory: reward not scaled in Q_ret", KERNELS, "reward = steps.numbers[row, REWARD] * inverse", "reward = steps.numbers[row, REWARD]", T_R, slow=True),
    Variant("ReF-ER memory: windows over the start of an episode", KERNELS, "length = min(longest, indices[place] - episodes.start[steps.slot[row]] + 1)", "length = longest", T_R, slow=True),
    Variant("ReF-ER memory: terminated episodes bootstrap", REFER, "0.0 if terminated else values_[-1]", "values_[-1]", T_R, slow=True),
    Variant("ReF-ER memory: time limits do not bootstrap", REFER, "0.0 if terminated else values_[-1]", "0.0", T_R, slow=True),
    Variant("ReF-ER memory: one episode too many leaves", REFER, "while len(self) + length > self._capacity:", "while len(self) + length >= self._capacity:", T_R, slow=True),
    Variant("ReF-ER memory: oldest step never drawn", REFER, "return generator.integers(self._head, self._tail, batch)", "return generator.integers(self._head + 1, self._tail, batch)", T_R, slow=True),
    Variant("ReF-ER memory: later steps drawn more often", REFER, "return generator.integers(self._head, self._tail, batch)", "return generator.integers(self._head, self._tail, (2, batch)).max(0)", T_R, slow=True),
    Variant("ReF-ER memory: steps that leave stay far", REFER, "kernels.leave_all(self._steps, self._head, end, self._far, self._c_max, self._low)", "pass", T_R, slow=True),
    Variant("ReF-ER memory: priorities of signed errors", REFER, "np.abs(errors_)", "np.maximum(errors_, 0.0)", "tests/papers/refer/test_prioritised.py", slow=True),
    Variant("ReF-ER memory: far share of the capacity", REFER, "return self.num_far / len(self) if len(self) else 0.0", "return self.num_far / self._capacity", T_R, slow=True),
    Variant("ReF-ER memory: reward scale about the mean", REFER, "self._scale = float(np.sqrt(squares / len(self))) + EPSILON", "self._scale = float(self._fields.reward[self._rows(self._head, self._tail)].std()) + EPSILON", T_R, slow=True),
    Variant("ReF-ER memory: targets keep the old reward scale", REFER, "            self._recompute(self._head)\n\n    def state_statistics", "\n    def state_statistics", T_R, slow=True),
    Variant("ReF-ER memory: statistics renewed at each call", REFER, "if self._statistics is None:\n            self._assert", "if True:\n            self._assert", T_R, slow=True),
]
