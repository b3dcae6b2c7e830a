"""A short campaign, and that it would find what there is to find."""

import pytest

from tests.campaign import calls, fuzz, targets
from tests.campaign.__main__ import PARTS
from tests.campaign.calls import Call


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTS)
def test_nothing_is_found(name):
    part = PARTS[name]
    outcome = part.search(part.short, 0)
    assert outcome.cases >= part.short
    assert not outcome.findings, "\n".join(outcome.findings)


def test_every_parameter_without_a_default_has_a_good_argument():
    assert len(targets.targets()) > 150


@pytest.mark.slow
def test_every_callable_has_a_good_call():
    """Otherwise the campaign would test nothing."""
    with calls.evaluator() as evaluate:
        answers = {text: evaluate(Call("", text)) for text in (target.call() for target in targets.targets())}
    assert len(answers) > 150
    assert {text: answer for text, answer in answers.items() if answer != calls.Answer("result")} == {}


@pytest.mark.slow
@pytest.mark.parametrize(("text", "name", "kind", "finding"), [
    ("topologies.ring(agents=-1)", "agents", "ValueError", ""),
    ("topologies.ring(agents=-1)", "size", "ValueError", "names no argument"),
    ("[].nothing", "", "AttributeError", "not an error for users"),
    ("len(3)", "value", "TypeError", "comes from inside"),
    ("float('x')", "value", "ValueError", "comes from inside"),
    ("b'\\xff'.decode()", "byte", "UnicodeDecodeError", "not an error for users"),
    ("open('absent')", "", "FileNotFoundError", ""),
    ("pathlib.os._exit(7)", "", "death", "exit code 7"),
    ("__import__('time').sleep(60)", "", "hang", "no answer after 2 s"),
])  # fmt: skip
def test_what_a_finding_is(text, name, kind, finding):
    with calls.evaluator(seconds=2.0) as evaluate:
        answer = evaluate(Call("", text, (name,)))
        assert evaluate(Call("", "1 + 1")).kind == "result"  # the process is replaced
    assert answer.kind == kind
    assert finding in answer.finding
    assert bool(answer.finding) == bool(finding)


def test_the_fuzzer_finds_the_simplest_call_that_goes_wrong():
    target = targets.Target("f", "f", {}, ("a", "b"), False, {})
    call = fuzz.simplest(target, 50, 0, lambda call: calls.Answer("result", "wrong" * ("b=" in call.text)), {})
    assert call.text == "f(b=None)"
    assert fuzz.simplest(target, 50, 0, lambda call: calls.Answer("result"), {}) is None
