"""Which judge the settings name."""

from __future__ import annotations

from importlib import import_module

from flows.judge.contract import Judge
from flows.judge.rules import RulesJudge
from store.schema import Settings, UsageError


def judge_named(settings: Settings) -> Judge:
    """The judge of the settings: the rules, or what `factory(settings)` of a module of yours returns.

    Raises UsageError when there is no such module or factory.
    """
    if settings.judge == "rules":
        return RulesJudge()
    module, _, attribute = settings.judge.partition(":")
    try:
        factory = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"There is no judge {settings.judge} ({error}); LOOKFIRST_JUDGE is `rules`, or module:factory of a "
            "module that can be imported."
        ) from error
    judge: Judge = factory(settings)
    return judge
