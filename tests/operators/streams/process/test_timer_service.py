"""Due timers in layers, against a heap for each key."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fabric.operators.streams.process.timer_service import Layers

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20)), max_size=20)


def arrays(pairs):
    both = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.layers, self.left = Layers(*arrays([])), set()

    @rule(pairs=PAIRS)
    def add(self, pairs):
        self.layers.add(*arrays(set(pairs)))
        self.left |= set(pairs)

    @rule(pairs=PAIRS)
    def drop(self, pairs):
        self.layers.drop(*arrays(set(pairs)))
        self.left -= set(pairs)

    @rule()
    def pop(self):
        if not self.layers:
            return
        ids, times = self.layers.pop()
        found = list(zip(ids.tolist(), times.tolist(), strict=True))
        earliest = {key: min(t for k, t in self.left if k == key) for key, _ in self.left}
        assert dict(found).items() <= earliest.items()
        assert len(dict(found)) == len(found)
        assert times.tolist() == sorted(times.tolist())
        self.left -= set(found)

    @invariant()
    def ends(self):
        assert bool(self.layers) == bool(self.left)


TestLayers = Machine.TestCase
TestLayers.settings = settings(max_examples=60, stateful_step_count=25)


def test_every_key_is_in_the_first_layer():
    layers = Layers(*arrays({(1, 9), (1, 3), (2, 4), (3, 1)}))
    assert [a.tolist() for a in layers.pop()] == [[3, 1, 2], [1, 3, 4]]
    assert [a.tolist() for a in layers.pop()] == [[1], [9]]
