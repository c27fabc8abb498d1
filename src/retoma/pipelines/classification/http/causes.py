"""Why an execution does not go on, in the language of its users."""

from __future__ import annotations

from functools import partial

from retoma.pipelines.classification.model import Execution
from retoma.web.words import phrase
from retoma.web.words.causes import cause_shown, rest_of, sentence_of


def trouble_of(each: Execution, *, content: bool) -> str | None:
    """Why an execution does not go on, when it does not, in the language of its users; the words of errors only with
    *content*.
    """
    say = partial(phrase, "pt")
    facts = (cause_shown(each.cause, content=content) or {}) | {
        "reason": each.reason,
        "spent": each.spent,
        "budget": each.budget,
    }
    match each.state:
        case "stalled":
            return sentence_of(each.reason, facts, say)
        case "failed":
            own = {"resumes": each.resumes, "max_resumes": each.max_resumes, "failures": each.failed}
            return sentence_of("failed", facts | own, say)
        case "paused":
            return sentence_of(rest_of(each.reason or ""), facts, say)
        case "cancelled":
            return sentence_of("cancelled", facts, say)
    return None
