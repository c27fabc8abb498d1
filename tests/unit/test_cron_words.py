"""A cron expression in words, in both languages; what has no plain words stays as it is written."""

from functools import partial

import pytest

from retoma.web.console.cron import in_words
from retoma.web.console.figures import bars
from retoma.web.console.speaking import span
from retoma.web.words import phrase


@pytest.mark.parametrize(
    ("cron", "english", "portuguese"),
    [
        ("* * * * *", "every minute", "a cada minuto"),
        ("*/15 * * * *", "every 15 minutes", "a cada 15 minutos"),
        ("5 * * * *", "every hour at minute 05", "a cada hora, no minuto 05"),
        ("0 4 * * *", "every day at 04:00", "todo dia às 04:00"),
        ("30 8,20 * * *", "every day at 08:30 and 20:30", "todo dia às 08:30 e 20:30"),
        ("0 4 * * 1-5", "from Monday to Friday at 04:00", "de segunda-feira a sexta-feira às 04:00"),
        ("0 9 * * mon,thu", "every Monday and Thursday at 09:00", "toda segunda-feira e toda quinta-feira às 09:00"),
        ("0 0 1 * *", "on day 1 of every month at 00:00", "no dia 1 de cada mês às 00:00"),
        ("0 6 25 12 *", "every year on December 25 at 06:00", "todo ano, em 25 de dezembro às 06:00"),
        ("0 6 * * 7", "every Sunday at 06:00", "todo domingo às 06:00"),
        ("0 4 1,15 * *", "at the times of 0 4 1,15 * *", "nos horários de 0 4 1,15 * *"),
        ("nonsense", "at the times of nonsense", "nos horários de nonsense"),
    ],
)
def test_a_schedule_is_told_in_words(cron: str, english: str, portuguese: str) -> None:
    assert in_words(cron, partial(phrase, "en")) == english
    assert in_words(cron, partial(phrase, "pt")) == portuguese


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (None, "–"),
        (0, "0 s"),
        (0.44, "440 ms"),
        (4.4, "4.4 s"),
        (12, "12 s"),
        (300, "5 min"),
        (3600, "1 h"),
        (12_000, "3 h 20 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_a_span_has_at_most_two_units(seconds: float | None, told: str) -> None:
    assert span(seconds) == told


def test_bars_fill_the_chart_and_their_parts_stand_on_each_other() -> None:
    drawn = bars([("a", "a", [("good", 3.0), ("warn", 1.0)]), ("b", "b", [])])

    assert drawn[0].parts == [("good", 25.0, 75.0), ("warn", 0.0, 25.0)]
    assert drawn[1].parts == []
