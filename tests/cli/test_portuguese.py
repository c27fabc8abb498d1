"""The command line in Portuguese: by LANG, for people; what programs read is the same in every language."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from retoma import Retoma
from retoma.app import extension
from retoma.app.extension import Extension
from retoma.cli import language, output, workers
from retoma.cli.language import Phrase, joined, relayed, spoken, words
from retoma.model.job import JobState

from .conftest import Command, Run, here
from .test_batch import on_a_terminal
from .test_classify import PROGRAM as CLASSIFY

PORTUGUESE = {"LANG": "pt_BR.UTF-8"}
ENGLISH = re.compile(r"\b(the|and|is|are|of|with|not|to|what|jobs?|batch(es)?|Try|Usage|Options|There)\b")
STAMPS = Path(__file__).parents[1] / "packaging/stamps/src"


def english_in(said: str) -> list[str]:
    return [line for line in said.splitlines() if ENGLISH.search(line)]


@pytest.fixture
def portuguese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", PORTUGUESE["LANG"])


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "in_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def lote(program: Retoma, work: Callable[[], int]) -> int:
    """A batch that is over, and whose jobs have failed."""

    async def make() -> int:
        async with program as app:
            return (await app.batch(app.registry.pipeline("stumble"), ["a", "b"], name="cartas")).id

    id = asyncio.run(make())
    work()
    return id


# — which language —


@pytest.mark.parametrize(
    ("variables", "spoken"),
    [
        ({}, "en"),
        ({"LANG": "pt_BR.UTF-8"}, "pt"),
        ({"LANG": "pt"}, "pt"),
        ({"LANG": "C"}, "en"),
        ({"LANG": "POSIX"}, "en"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "pt_BR.UTF-8", "LC_MESSAGES": "en_US.UTF-8"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "pt_PT.UTF-8"}, "pt"),
        ({"LANG": "pt_BR.UTF-8", "LC_MESSAGES": "pt_BR", "LC_ALL": "C"}, "en"),
        ({"LANG": "C", "LC_ALL": "pt_BR.UTF-8"}, "pt"),
        ({"LANG": "pt_BR.UTF-8", "LC_ALL": ""}, "pt"),
        ({"LANG": "pt_BR.UTF-8", "LANGUAGE": "en:pt"}, "en"),
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "es:pt_BR:en"}, "pt"),
        ({"LANG": "C", "LANGUAGE": "pt"}, "en"),
    ],
)
def test_the_environment_says_which_language(
    variables: dict[str, str], spoken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert language.language() == spoken


# — help and wrong words —


def test_the_help_is_in_portuguese(command: Command) -> None:
    ran = command("--help", **PORTUGUESE)

    assert ran.returncode == 0
    assert ran.stdout.startswith("Uso: retoma [OPÇÕES] COMANDO [ARGUMENTOS]...")
    assert "Comece aqui:" in ran.stdout
    assert "Mostra esta mensagem e sai." in ran.stdout
    assert not english_in(re.sub(r"(?m)^  (\w|-)+ |que batch", "", ran.stdout))


@pytest.mark.usefixtures("portuguese")
@pytest.mark.parametrize(
    "words",
    [
        "batch list",
        "batch watch",
        "job retry",
        "db roles",
        "key create",
        "classify",
        "quotes run",
        "books plan",
        "batch export",
    ],
)
def test_the_help_of_a_command_is_in_portuguese(words: str) -> None:
    said = here(*words.split(), "--help").stdout

    assert said.startswith(f"Uso: retoma {words} [OPÇÕES]")
    assert "Opções:" in said
    assert not re.search(r"\b(the|and|Print|Only|Show|Usage|Options|default|required)\b", said)


def test_a_command_that_was_helped_in_portuguese_is_helped_in_english_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LANG", "pt_BR.UTF-8")
    assert "Uso:" in here("batch", "list", "--help").stdout
    assert "Uso:" in here("--help").stdout
    monkeypatch.setenv("LANG", "C")

    said = here("batch", "list", "--help").stdout

    assert said.startswith("Usage: retoma batch list [OPTIONS]")
    assert "[default: 50" in said
    assert "Show this message and exit." in here("--help").stdout


def test_a_command_that_was_helped_in_english_is_helped_in_portuguese_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LANG", "C")
    assert "Show this message and exit." in here("job", "retry", "--help").stdout
    monkeypatch.setenv("LANG", "pt_BR.UTF-8")

    assert "Mostra esta mensagem e sai." in here("job", "retry", "--help").stdout


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (
            "job list --stte x",
            "Não existe a opção '--stte'. Você quis dizer '--state'?\nTente: retoma job list --help\n",
        ),
        ("jobs", "Não existe o comando 'jobs'. Você quis dizer 'retoma job'?\nTente: retoma --help\n"),
        ("job cancel", "Quais tarefas?\nTente: retoma job cancel --help\n"),
        ("batch watch", "Falta o argumento 'ID'.\nTente: retoma batch watch --help\n"),
        ("classify /nada", "Valor inválido para 'DIR': Diretório '/nada' não existe.\nTente: retoma classify --help\n"),
    ],
)
def test_a_wrong_word_is_told_in_portuguese_with_the_same_exit_code(command: Command, args: str, told: str) -> None:
    ran = command(*args.split(), **PORTUGUESE)

    assert (ran.returncode, ran.stderr) == (2, told)


# — what commands say —


@pytest.mark.usefixtures("portuguese")
def test_an_error_and_its_next_step_are_told_in_portuguese(run: Run) -> None:
    ran = run("batch", "show", "404")

    assert ran.exit_code == 3
    assert ran.stderr.splitlines() == [
        "Não existe o lote 404.",
        "Tente: Veja com 'retoma batch list' o que existe; talvez tenha sido limpo.",
    ]


def test_a_program_that_is_not_there_is_told_in_portuguese(command: Command, database_url: str) -> None:
    ran = command("worker", "--app", "nada:app", DATABASE_URL=database_url, **PORTUGUESE)

    assert ran.returncode == 2
    assert ran.stderr.startswith("Não existe o módulo 'nada' aqui (")
    assert "Tente: Informe o seu programa como módulo:atributo" in ran.stderr


@pytest.mark.parametrize(
    ("url", "why", "written"),
    [
        ("lixo", "não começa com postgresql://", "% escrito como %25"),
        ("postgresql://ana:a/b@host/app", "há um @ depois do endereço do servidor", "escritos como %2F %23 %3F %40"),
        ("postgresql://ana:a%b@host/app", "um % na senha não", "% escrito como %25"),
    ],
)
def test_an_address_that_cannot_be_read_is_told_in_portuguese_from_end_to_end(
    command: Command, url: str, why: str, written: str
) -> None:
    ran = command("status", DATABASE_URL=url, **PORTUGUESE)

    said, tried = ran.stderr.splitlines()
    assert said.startswith("A URL do banco de dados não pode ser lida (não aparece aqui, porque pode conter uma senha)")
    assert why in said
    assert tried.startswith("Tente: Ela deve ser como postgresql://usuário:senha@servidor:5432/banco")
    assert written in tried


@pytest.mark.usefixtures("portuguese")
def test_braces_of_an_advice_stand_once(run: Run) -> None:
    ran = run("enqueue", "double", "a")

    assert """'{"nome": "valor"}'.""" in ran.stderr


@pytest.mark.usefixtures("portuguese")
@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "x.bin is of no kind that we know; it begins with bb 19. We read pdf, docx.",
            "x.bin não é de nenhum tipo que conhecemos; começa com bb 19. Lemos pdf, docx.",
        ),
        (
            "a.txt has 0 bytes. Was the upload or the copy cut off? Send it again.",
            "a.txt tem 0 bytes. O envio ou a cópia foi interrompido? Envie de novo.",
        ),
        (
            "text_too_short: a.txt has 46 characters of text, and 50 are needed. Send it again.",
            "text_too_short: a.txt tem 46 caracteres de texto, e são necessários 50. Envie de novo.",
        ),
        (
            "a.epub cannot be read: No such file or directory.",
            "a.epub não pode ser lido: o arquivo ou a pasta não existe.",
        ),
        (
            "a.txt has 0 bytes. Something that nobody wrote down.",
            "a.txt has 0 bytes. Something that nobody wrote down.",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_told_in_portuguese_sentence_by_sentence(said: str, told: str) -> None:
    assert relayed(said) == told


@pytest.mark.usefixtures("portuguese", "terminal")
def test_the_error_below_a_row_is_told_in_portuguese(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(["a.txt has 0 bytes."], {"error": str}, nothing="", below="error")

    assert "a.txt tem 0 bytes." in capsys.readouterr().out


@pytest.mark.usefixtures("portuguese", "terminal")
def test_the_screen_of_a_person_is_in_portuguese(run: Run, lote: int) -> None:
    run("enqueue", "double", "1")
    listed, shown, why, status = (
        run(*words).output
        for words in (("batch", "list"), ("batch", "show", str(lote)), ("batch", "explain", str(lote)), ("status",))
    )

    assert re.search(r"nome +estado", listed)
    assert "concluído" in listed
    assert "erros 2" in shown
    assert re.search(r"\nerros\n", shown)
    assert "último código" in shown
    assert "O lote está concluído" in why
    assert "provas" in why
    assert "Nenhum worker ativo, e há tarefas que poderiam rodar agora: 1." in status
    assert "Tente: retoma worker --app myapp:app" in status
    assert not english_in(re.sub("retoma .*|.*cannot read.*", "", listed + shown + status))


@pytest.mark.usefixtures("portuguese", "terminal")
def test_the_doctor_speaks_portuguese(run: Run) -> None:
    said = run("doctor").output

    assert "nenhum ativo" in said
    assert "Tente: retoma worker --app myapp:app" in said
    assert "nada fica guardado por mais de 30 dias" in said
    assert re.search(r"limite: cabeçalhos +100 por pedido", said)
    assert "65.536 bytes" in said


def test_a_terminal_of_its_own_is_spoken_to_in_portuguese(command: Command, database_url: str) -> None:
    command.environment |= PORTUGUESE

    code, printed = on_a_terminal(command, database_url, "status")

    assert code == 0
    assert "Nenhum worker ativo." in printed
    assert "Nenhuma tarefa foi enfileirada ainda." in printed


@pytest.mark.timeout(600)
def test_a_folder_is_classified_in_portuguese(command: Command, database_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "ata.txt").write_text("Ata da reunião. Assembleia geral. Presentes os senhores. Ordem do dia.")
    where = {"DATABASE_URL": database_url, "CLASSIFY_BLOBS": str(tmp_path / "blobs"), "RETOMA_HEARTBEAT_SECONDS": "0.5"}
    process = command.start("classify", str(folder), "--app", CLASSIFY, **where, **PORTUGUESE)

    out, err = process.communicate(timeout=220)

    assert process.returncode == 0, err
    assert "1 arquivos: 1 novos, 0 já conhecidos." in err
    assert re.search(r"Execução \d+: 1 documentos\.", err)
    assert re.search(r"O lote \d+ \(.*\) está concluído: 1 tarefas em ", err)
    assert "\tcompleted\t" in out


@pytest.mark.usefixtures("portuguese")
@pytest.mark.parametrize(("answer", "code"), [("s\n", 0), ("sim\n", 0), ("n\n", 2), ("\n", 2)])
def test_a_question_is_answered_in_portuguese(
    answer: str, code: int, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "somebody_is_here", lambda: True)

    ran = run("prune", input=answer)

    assert ran.exit_code == code
    assert "Remover? [s/N]" in ran.stderr
    assert ("Nada foi mudado." in ran.stderr) == (code != 0)


# — what programs read —


@pytest.mark.parametrize(
    "args",
    ["batch list", "batch show {id}", "batch explain {id}", "batch errors {id}", "job list", "status",
     "batch list --json", "batch explain {id} --json", "status --json", "job show 1 --json", "verify", "db status"],
)  # fmt: skip
def test_a_pipe_gets_the_same_in_every_language(
    args: str, run: Run, lote: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = args.format(id=lote).split()
    english = run(*given)
    monkeypatch.setenv("LANG", "pt_BR.UTF-8")

    portuguese = run(*given)

    assert english.stdout
    assert without_clock(portuguese.stdout) == without_clock(english.stdout)
    assert portuguese.exit_code == english.exit_code


def without_clock(text: str) -> str:
    """*text* without what goes on between two looks."""
    return re.sub(
        r"\d+(\.\d+)? s\b|\"[a-z_]*seconds\": [\d.]+|_seconds\t[\d.]+|\"now\": \"[^\"]+\"|\d\d:\d\d:\d\d\.\d+",
        "…",
        text,
    )


@pytest.mark.usefixtures("portuguese")
def test_what_the_doctor_prints_as_json_is_english(run: Run) -> None:
    found = {each["what"]: each["seen"] for each in json.loads(run("doctor", "--json").stdout)}

    assert found["retention"] == "nothing is kept for longer than 30 days"
    assert found["limit: headers"] == "100 of a request (RETOMA_WEB_HEADERS)"


# — phrases —


@pytest.mark.usefixtures("portuguese")
def test_a_phrase_is_english_as_text_and_portuguese_when_it_is_said() -> None:
    called = Phrase("Batch {id} ({name})", id=7, name="{cartas}")
    told = Phrase("{batch} is {state} at {done} of {total}.", batch=called, state=JobState.FAILED, done=1, total=2)

    assert told == "Batch 7 ({cartas}) is failed at 1 of 2."
    assert json.dumps([told]) == '["Batch 7 ({cartas}) is failed at 1 of 2."]'
    assert spoken(told) == "O lote 7 ({cartas}) parou em 1 de 2 (estado: erro)."
    assert spoken(joined([Phrase("yes"), Phrase("no")], Phrase(" and "))) == "sim e não"


@pytest.mark.usefixtures("portuguese")
def test_numbers_are_written_as_in_portuguese() -> None:
    assert words("Failed jobs: {failed:,}.", failed=12345) == "Tarefas com erro: 12.345."
    assert words("{pace:.3g} jobs/s", pace=1.5) == "1,5 tarefas/s"
    assert words("Job {id} was told {name!r}.", id=12345, name="a.b") == "A tarefa 12345 recebeu o sinal 'a.b'."


@pytest.mark.usefixtures("portuguese")
def test_what_nobody_has_translated_stays_english_and_foreign_braces_do_no_harm() -> None:
    assert words("Nobody wrote {this} down.", this="that") == "Nobody wrote that down."
    assert words("{a} {b!r") == "{a} {b!r"
    assert relayed("Something {odd} happened in {there") == "Something {odd} happened in {there"


# — extensions —


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[[Extension], None]:
    monkeypatch.syspath_prepend(str(STAMPS))

    def install(given: Extension) -> None:
        monkeypatch.setattr(extension, "installed", lambda: [given])
        language.packages.cache_clear()

    return install


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Which packages are there is looked up once in a process, and tests bring others."""
    yield
    language.packages.cache_clear()


@pytest.mark.usefixtures("portuguese")
def test_an_extension_brings_its_own_words(installed: Callable[[Extension], None]) -> None:
    installed(Extension(name="stamps", pipelines="stamps.pipeline:PIPELINES", package="stamps"))

    assert words("{number} letters", number=3) == "3 cartas"
    assert words("The letters that were stamped.") == "As cartas carimbadas."


@pytest.mark.usefixtures("portuguese")
def test_an_extension_without_words_stays_english(installed: Callable[[Extension], None]) -> None:
    installed(Extension(name="stamps", pipelines="stamps.pipeline:PIPELINES"))

    assert words("{number} letters", number=3) == "3 letters"
    assert words("Nothing was changed.") == "Nada foi mudado."


@pytest.mark.parametrize(("lang", "read"), [("C", "False False False"), ("pt_BR.UTF-8", "True True False")])
def test_a_catalogue_is_read_only_for_those_who_need_it(lang: str, read: str) -> None:
    program = (
        "import sys\nfrom retoma.cli import main\n"
        "try: main(['--help'], prog_name='retoma')\nexcept SystemExit: pass\n"
        "print('retoma.web.packages' in sys.modules, 'tomllib' in sys.modules, 'fastapi' in sys.modules)"
    )

    ran = subprocess.run(
        [sys.executable, "-c", program], env={"LANG": lang}, capture_output=True, text=True, check=True
    )

    assert ran.stdout.splitlines()[-1] == read


def test_portuguese_needs_no_web_framework() -> None:
    program = (
        "import sys\nsys.modules['fastapi'] = None\nfrom retoma.cli.language import relayed\n"
        "print(relayed('There is no batch 7.'))"
    )

    ran = subprocess.run([sys.executable, "-c", program], env=PORTUGUESE, capture_output=True, text=True, check=True)

    assert ran.stdout == "Não existe o lote 7.\n"
