"""The election: one leader at a time under any order of calls, lost answers, stops and clocks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fabric.coordinator.election.election import Ask, Election, Lease, Look, Renew, Take
from tests.support.arrays import examples

LEASE_S, GRACE_S = 6.0, 12.0
NAMES = ("a", "b", "c")


class Row:
    """What the store does with the lease, by a clock of its own; every epoch has one holder."""

    def __init__(self) -> None:
        self.lease = Lease(0, "", "", 0, 0.0)
        self.now = 1000.0
        self.ends = 0.0
        self.holders: dict[int, str] = {}

    def ask(self, name: str, ask: Ask) -> Lease:
        lease = self.lease
        match ask:
            case Take(stale=stale):
                free = self.ends <= self.now or lease.holder == name
                if free or stale == (lease.epoch, lease.renewals):
                    self.lease = Lease(lease.epoch + 1, name, f"at {name}", 0, 0.0)
                    self.holders[lease.epoch + 1] = name
                    self.ends = self.now + LEASE_S
            case Renew(epoch=epoch):
                if (lease.epoch, lease.holder) == (epoch, name):
                    self.lease = replace(lease, renewals=lease.renewals + 1)
                    self.ends = self.now + LEASE_S
        return replace(self.lease, left_s=self.ends - self.now)


class Candidates(RuleBasedStateMachine):
    """Three candidates; a question may reach the store late, an answer may come late or never."""

    def __init__(self) -> None:
        super().__init__()
        self.row = Row()
        self.now = dict.fromkeys(NAMES, 0.0)
        self.all = {name: Election(name, LEASE_S, GRACE_S) for name in NAMES}
        self.asking: dict[str, tuple[Ask, float]] = {}
        self.told: dict[str, Lease] = {}
        self.renewed = dict.fromkeys(NAMES, -1e9)
        self.led = dict.fromkeys(NAMES, 0)
        self.over: set[int] = set()

    @rule(name=st.sampled_from(NAMES))
    def ask(self, name: str) -> None:
        self.told.pop(name, None)  # whatever was on the way is lost
        self.asking[name] = (self.all[name].ask(self.now[name]), self.now[name])

    @precondition(lambda self: self.asking)
    @rule(data=st.data())
    def reach(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.asking)))
        if name not in self.told:
            self.told[name] = self.row.ask(name, self.asking[name][0])

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.told)))
        ask, asked = self.asking.pop(name)
        lease = self.told.pop(name)
        self.all[name].answered(ask, lease, asked, self.now[name])
        if self.all[name].leads(self.now[name]) == lease.epoch:
            self.renewed[name] = asked

    @precondition(lambda self: self.asking)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        """The store may have done what it was asked all the same."""
        name = data.draw(st.sampled_from(sorted(self.asking)))
        del self.asking[name]
        self.told.pop(name, None)
        self.all[name].failed(self.now[name])

    @rule(seconds=st.floats(0.1, 4.0))
    def time_passes(self, seconds: float) -> None:
        self.row.now += seconds
        for name in NAMES:
            self.now[name] += seconds

    @rule(name=st.sampled_from(NAMES), seconds=st.floats(1.0, 30.0))
    def one_is_stopped(self, name: str, seconds: float) -> None:
        """Everybody else goes on meanwhile: for it, that time passes at once."""
        self.row.now += seconds
        for other in NAMES:
            self.now[other] += seconds
        self.told.pop(name, None)

    @rule(seconds=st.floats(-100.0, 100.0))
    def the_stores_clock_jumps(self, seconds: float) -> None:
        self.row.now += seconds

    @rule(name=st.sampled_from(NAMES))
    def one_restarts(self, name: str) -> None:
        self.all[name] = Election(name, LEASE_S, GRACE_S)
        self.asking.pop(name, None)
        self.told.pop(name, None)
        self.renewed[name] = -1e9

    @invariant()
    def who_leads_holds_its_epoch_alone(self) -> None:
        leading = {n: e for n in NAMES if (e := self.all[n].leads(self.now[n]))}
        assert len(set(leading.values())) == len(leading)
        for name, epoch in leading.items():
            assert self.row.holders[epoch] == name

    @invariant()
    def nobody_leads_longer_than_allowed(self) -> None:
        for name in NAMES:
            if self.all[name].leads(self.now[name]):
                assert self.now[name] - self.renewed[name] < LEASE_S + GRACE_S

    @invariant()
    def a_term_that_is_over_stays_over(self) -> None:
        for name in NAMES:
            epoch = self.all[name].leads(self.now[name])
            if epoch != self.led[name]:
                self.over.add(self.led[name])
                self.led[name] = epoch
            assert not epoch or epoch not in self.over

    def teardown(self) -> None:
        """In quiet, with everybody reached, somebody leads alone, and goes on to."""
        for _ in range(12):
            self.time_passes(LEASE_S / 3)
            for name in NAMES:
                ask = self.all[name].ask(self.now[name])
                answer = self.row.ask(name, ask)
                self.all[name].answered(ask, answer, self.now[name], self.now[name])
        epochs = [self.all[name].leads(self.now[name]) for name in NAMES]
        assert sorted(epochs)[:2] == [0, 0]
        assert max(epochs) == self.row.lease.epoch > 0
        leader = self.row.lease.address
        assert [self.all[name].leader for name in NAMES] == [leader] * 3


TestCandidates = Candidates.TestCase
TestCandidates.settings = settings(examples(), stateful_step_count=40)


def lease(epoch: int, holder: str = "a", renewals: int = 0, left_s: float = LEASE_S) -> Lease:
    return Lease(epoch, holder, f"at {holder}", renewals, left_s)


def leading() -> Election:
    election = Election("a", LEASE_S, GRACE_S)
    election.answered(election.ask(0.0), lease(3), 0.0, 1.0)
    return election


def test_a_leader_renews_three_times_a_lease() -> None:
    election = leading()
    assert (election.due, election.leads(1.0)) == (2.0, 3)
    assert election.ask(2.0) == Renew(3)
    assert election.due == 4.0
    election.answered(Renew(3), lease(3, renewals=1), 2.0, 2.1)
    assert not election.doubtful(7.9)
    assert election.doubtful(8.0)  # six after it asked, not after the answer


def test_without_the_store_it_goes_on_for_its_grace_and_no_longer() -> None:
    election = leading()
    assert election.leads(17.99) == 3
    assert election.leads(18.0) == 0
    assert election.ask(18.0) == Take((3, 0))


def test_an_answer_after_the_end_begins_no_term_anew() -> None:
    """The coordinator of that term has been closed: another needs an epoch of its own."""
    election = leading()
    ask = election.ask(17.0)
    assert election.leads(18.0) == 0
    election.answered(ask, lease(3, renewals=1), 17.0, 18.5)
    assert election.leads(18.5) == 0
    assert isinstance(election.ask(18.5), Take)


@pytest.mark.parametrize("found", [lease(4, "b"), lease(4, "a"), lease(3, "b")])
def test_a_leader_that_meets_another_lease_leads_no_more(found: Lease) -> None:
    election = leading()
    election.answered(election.ask(2.0), found, 2.0, 2.1)
    assert election.leads(2.1) == 0


def test_rumours_of_a_higher_epoch_have_the_store_asked_at_once() -> None:
    election = leading()
    due = election.due
    election.told(3)
    assert election.due == due > 0
    election.told(4)
    assert (election.leads(1.0), election.due) == (3, 0.0)


def test_the_store_deposes_only_with_a_higher_epoch() -> None:
    election = leading()
    election.deposed(3)
    assert election.leads(1.0) == 3
    assert election.leader == "at a"
    election.deposed(4)
    assert (election.leads(1.0), election.leader) == (0, "")


def test_a_standby_knows_the_leader_and_who_was_before() -> None:
    election = Election("b", LEASE_S, GRACE_S)
    election.answered(Take(None), lease(3), 0.0, 0.1)
    assert (election.leads(0.1), election.leader) == (0, "at a")
    election.answered(Take(None), lease(3, left_s=-1.0), 2.0, 2.1)
    assert election.leader == ""
    election.answered(Take(None), lease(4, "b"), 4.0, 4.1)
    assert (election.leads(4.1), election.leader, election.predecessor) == (4, "at b", "at a")


def test_a_lease_that_nobody_renews_is_taken_whatever_the_stores_clock_says() -> None:
    election = Election("b", LEASE_S, GRACE_S)
    election.answered(Take(None), lease(3, left_s=1e6), 0.0, 0.0)
    assert election.ask(5.9) == Take(None)
    election.answered(Take(None), lease(3, left_s=1e6), 5.9, 5.9)
    assert election.ask(6.1) == Take((3, 0))
    election.answered(Take((3, 0)), lease(3, renewals=1, left_s=1e6), 6.1, 6.1)
    assert election.ask(8.0) == Take(None)  # it was renewed: seen anew


def test_after_the_store_was_away_the_leader_comes_first() -> None:
    election = Election("b", LEASE_S, GRACE_S)
    election.answered(Take(None), lease(3), 0.0, 0.0)
    election.failed(2.0)
    election.failed(40.0)
    assert election.ask(41.0) == Look()
    election.answered(Look(), lease(3, left_s=-30.0), 41.0, 41.0)
    assert election.ask(45.9) == Look()
    election.answered(Look(), lease(3, renewals=1), 45.9, 45.9)  # there it is
    assert election.ask(46.0) == Take(None)


def test_looking_makes_nobody_leader() -> None:
    election = Election("a", LEASE_S, GRACE_S)
    election.answered(Look(), lease(3, "a"), 0.0, 0.0)
    assert election.leads(0.0) == 0
