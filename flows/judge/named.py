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
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"The module of the judge {settings.judge} cannot be imported ({type(error).__name__}: {error}); mend "
            "it, or unset LOOKFIRST_JUDGE."
        ) from error
    try:
        judge: Judge = factory(settings)
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"The judge {settings.judge} cannot be made ({type(error).__name__}: {error}); mend its factory or "
            "what it needs, or unset LOOKFIRST_JUDGE."
        ) from error
    if not _is_judge(judge):
        raise UsageError(
            f"{settings.judge} made no judge but {type(judge).__name__}; a judge has `name`, `remote` and "
            "`judge(event, view, refused)`."
        )
    return judge


def _is_judge(made: object) -> bool:
    return (
        callable(getattr(made, "judge", None))
        and isinstance(getattr(made, "name", None), str)
        and isinstance(getattr(made, "remote", None), bool)
    )
