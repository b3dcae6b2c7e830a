"""Call every public callable with odd values, one argument at a time and all at once."""

import collections
import random

from tests.campaign import calls, odd
from tests.campaign.doors import doors
from tests.campaign.outcome import Outcome


def good_calls():
    """One call with good arguments for each callable: they must succeed, or the campaign would test nothing."""
    return [calls.Call(door.name, door.call(), (), ()) for door in doors()]


def odd_calls(count, seed=0, arrays=False):
    """``count`` calls: most with one odd argument, drawn from all there are; the others with several.

    ``arrays``: of the methods of losses, regularizers and models, which engines call with arrays; else of all others.
    """
    rng = random.Random(seed)
    everyone = [door for door in doors() if door.parameters and door.arrays == arrays]
    single = [(door, {name: value}) for door in everyone for name in door.parameters for value in odd.VALUES]
    chosen = rng.sample(single, min(len(single), count * 4 // 5))
    while len(chosen) < count:
        door = rng.choice(everyone)
        chosen.append((door, {name: rng.choice(odd.VALUES) for name in door.parameters if rng.random() < 0.8}))
    return [_call(door, given) for door, given in chosen]


def _call(door, given):
    given = {name: value for name, value in given.items() if (name, value) not in odd.PATIENCE}
    names = {*door.parameters, *door.name.split(".")}
    for key in (*given, *given.values()):
        names |= odd.WORDS.get(key, set())
    return calls.Call(door.name, door.call(**given), tuple(given), tuple(names))


def search_arrays(count, seed=0):
    """As :func:`search`, of the methods that engines call with arrays."""
    return search(count, seed, arrays=True)


def search(count, seed=0, workers=2, arrays=False):
    """Findings, one for each (callable, kind, line) with its shortest call."""
    kinds, found = collections.Counter(), {}
    for call, answer in calls.run(odd_calls(count, seed, arrays), workers):
        kinds[answer.kind] += 1
        if answer.finding:
            key = (call.door, answer.kind, answer.where)
            if key not in found or len(call.text) < len(found[key][0].text):
                found[key] = (call, answer)
    ordered = sorted(found.items(), key=lambda item: (item[0][2], item[0][0]))
    findings = [f"{answer.where} | {call.door} | {answer.finding}\n    {call.text}" for _, (call, answer) in ordered]
    answers = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    tried = sum(door.arrays == arrays for door in doors())
    return Outcome(count, findings, f"{tried} callables: {answers}")
