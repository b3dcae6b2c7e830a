"""Call every public callable with odd values that hypothesis makes, for one argument or several; it finds the simplest call."""

import collections
import functools

import hypothesis
from hypothesis import strategies as st
from tqdm import tqdm

from tests.campaign import calls, odd
from tests.campaign.doors import doors
from tests.campaign.outcome import Outcome


def good_calls():
    """One call with good arguments for each callable: they must succeed, or the campaign would test nothing."""
    return [calls.Call(door.name, door.call(), (), ()) for door in doors()]


def odd_calls(door):
    """A strategy: calls of ``door`` with odd values for some of its arguments."""
    return st.dictionaries(st.sampled_from(door.parameters), odd.VALUES, min_size=1).map(functools.partial(_call, door))


def _call(door, given):
    given = {name: value for name, value in given.items() if (name, value) not in odd.PATIENCE}
    names = {*door.parameters, *door.name.split(".")}
    for key in (*given, *given.values()):
        names |= odd.WORDS.get(key, set())
    return calls.Call(door.name, door.call(**given), tuple(given), tuple(names))


def search_arrays(count, seed=0):
    """As :func:`search`, of the methods that engines call with arrays."""
    return search(count, seed, arrays=True)


def search(count, seed=0, arrays=False):
    """``count`` calls of each callable: of losses', regularizers' and models' methods if ``arrays``, else of all others.

    A finding is the simplest call of a callable that goes wrong.
    """
    kinds, findings = collections.Counter(), []
    tried = [door for door in doors() if door.parameters and door.arrays == arrays]
    with calls.asking() as ask:
        for door in tqdm(tried, desc="callables", disable=None):
            answers = {}
            if found := simplest(door, count, seed, ask, answers):
                call, answer = found
                findings.append(f"{answer.where} | {call.door} | {answer.finding}\n    {call.text}")
            kinds.update(answer.kind for answer in answers.values())
    said = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    return Outcome(len(tried), sorted(findings), f"{kinds.total()} calls: {said}")


def simplest(door, count, seed, ask, answers):
    """The simplest call of ``door`` among ``count`` that is a finding, and its answer; None if there is none."""
    found = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(odd_calls(door))
    def attempt(call):
        if call.text not in answers:  # a call that hangs is waited for once
            answers[call.text] = ask(call)
        if answers[call.text].finding:
            found.append(call)
            raise AssertionError

    try:
        attempt()
    except AssertionError:
        return found[-1], answers[found[-1].text]
    return None
