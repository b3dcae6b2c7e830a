"""Call every public callable with odd values that hypothesis draws, for one argument or several, and shrink what goes wrong."""

import collections
import functools

import hypothesis
from hypothesis import strategies as st
from tqdm import tqdm

from tests.campaign import calls, odd
from tests.campaign.outcome import Outcome
from tests.campaign.targets import targets

PHASES = [hypothesis.Phase.generate, hypothesis.Phase.shrink]


def odd_calls(target):
    """A strategy: calls of ``target`` with odd values for some of its arguments."""
    names = st.lists(st.sampled_from(target.parameters), min_size=1, unique=True)
    drawn = names.flatmap(lambda some: st.fixed_dictionaries({name: odd.values(name) for name in some}))
    return drawn.map(functools.partial(_call, target))


def _call(target, given):
    given = {name: value for name, value in given.items() if (name, value) not in odd.PATIENCE}
    words = [odd.WORDS.get(key, set()) for key in (*given, *given.values())]
    return calls.Call(target.name, target.call(**given), tuple({*target.parameters, *target.name.split(".")}.union(*words)))


def search_arrays(count, seed=0):
    """As :func:`search`, for the methods that engines call with arrays."""
    return search(count, seed, arrays=True)


def search(count, seed=0, arrays=False):
    """``count`` calls of each callable: methods of losses, regularizers and models if ``arrays``, all others if not.

    A finding is the simplest call of a callable that goes wrong.
    """
    kinds, findings = collections.Counter(), []
    tried = [target for target in targets() if target.parameters and target.arrays == arrays]
    with calls.evaluator() as evaluate:
        for target in tqdm(tried, desc="callables", disable=None):
            answers = {}
            if call := simplest(target, count, seed, evaluate, answers):
                answer = answers[call.text]
                findings.append(f"{answer.where} | {call.target} | {answer.finding}\n    {call.text}")
            kinds.update(answer.kind for answer in answers.values())
    ends = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    return Outcome(len(tried), sorted(findings), f"{kinds.total()} calls: {ends}")


def simplest(target, count, seed, evaluate, answers):
    """The simplest of ``count`` calls of ``target`` that is a finding, None if there is none; ``answers`` are kept by text."""
    found = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count, database=None, deadline=None, report_multiple_bugs=False, phases=PHASES,
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    @hypothesis.given(odd_calls(target))
    def attempt(call):
        if call.text not in answers:  # a call that hangs is waited for once
            answers[call.text] = evaluate(call)
        if answers[call.text].finding:
            found.append(call)
            raise AssertionError

    try:
        attempt()
    except AssertionError:
        return found[-1]
    return None
