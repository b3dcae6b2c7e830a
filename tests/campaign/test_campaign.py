"""A short campaign, and that it would find what there is to find."""

import pytest

from tests.campaign import calls, fuzz
from tests.campaign.calls import Call
from tests.campaign.parts import PARTS

CLEAN = (
    "calls", "array calls", "damaged files", "flipped bits", "kills and stops", "single ranks",
    "runs in a row",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CLEAN)
def test_nothing_is_found(name):
    part = PARTS[name]
    outcome = part.search(part.short, 0)
    assert outcome.cases >= part.short
    assert not outcome.findings, "\n".join(outcome.findings)


def test_every_callable_has_a_good_call():
    asked = fuzz.good_calls()
    assert len(asked) > 150
    answers = {call.text: answer for call, answer in calls.run(asked)}
    assert {text: answer for text, answer in answers.items() if answer != calls.Answer("result")} == {}


@pytest.mark.parametrize(
    ("text", "names", "kind", "wrong"),
    [
        ("topologies.ring(agents=-1)", {"agents"}, "ValueError", ""),
        ("topologies.ring(agents=-1)", {"size"}, "ValueError", "names no argument"),
        ("[].nothing", set(), "AttributeError", "not an error for users"),
        ("len(3)", {"value"}, "TypeError", "comes from inside"),
        ("float('x')", {"value"}, "ValueError", "comes from inside"),
        ("b'\\xff'.decode()", {"byte"}, "UnicodeDecodeError", "not an error for users"),
        ("open('absent')", set(), "FileNotFoundError", ""),
        ("pathlib.os._exit(7)", set(), "death", "exit code 7"),
        ("calls.time.sleep(60)", set(), "hang", "no answer after 2 s"),
    ],
)
def test_what_a_finding_is(text, names, kind, wrong):
    text = text.replace("calls.time", "__import__('time')")
    [(_, answer)] = calls.run([Call("door", text, (), tuple(names))], seconds=2.0)
    assert answer.kind == kind
    assert wrong in answer.finding
    assert bool(answer.finding) == bool(wrong)
