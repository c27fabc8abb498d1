"""The classifier's own routes, letter by letter: as its users call them, on a real server with real documents."""

from __future__ import annotations

import asyncio
import csv
import gc
import io
import json
import threading
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import openpyxl
import psycopg
import pytest

from retoma import Retoma, Settings
from retoma.pipelines import ALL, CLASSIFICATION
from retoma.pipelines.classification.library import Classification
from retoma.providers import BlobStore, Classifier, Extractor
from retoma.providers.factory import providers_from
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalClassifier, LocalExtractor
from retoma.providers.local.encoder import Lexical
from retoma.testing import drain
from retoma.web import site
from retoma.web.http import stream

from .conftest import code, serving

BASE = "/classificador/api"
TEXTS = {
    "peticao.txt": "Excelentíssimo senhor juiz, o autor vem propor ação de cobrança. Dos fatos. Dos pedidos: requer a "
    "citação do réu. Nestes termos, pede deferimento. Dá-se à causa o valor de mil reais.",
    "sentenca.txt": "Vistos. Relatório. Fundamento e decido. Ante o exposto, julgo procedente o pedido e condeno o réu "
    "ao pagamento das custas e honorários. Publique-se, registre-se, intimem-se.",
    "contrato.txt": "Pelo presente instrumento particular, contratante e contratada ajustam: cláusula primeira, do "
    "objeto. Do preço e forma de pagamento. Vigência. Rescisão. Fica eleito o foro da comarca.",
    "ata.txt": "Ata da reunião. Assembleia geral. Presentes os senhores diretores. Ordem do dia. Foi aprovado por "
    "unanimidade. Nada mais havendo a tratar, lavrei a presente ata.",
}
SHORT = "curto.txt", b"oi"
BROKEN = "quebrado.pdf", b"%PDF-1.4\nnothing that anybody could read"


class Desk:
    """A server of the classifier, and workers for it when they are wanted."""

    def __init__(self, url: str, settings: Settings, blobs: Path) -> None:
        self.url, self.settings, self.blobs = url, settings, blobs
        self.client = httpx2.Client(base_url=url, timeout=240)

    def app(self) -> Retoma:
        return app_for(self.settings, self.blobs)

    def get(self, path: str, **options: Any) -> Any:
        answered = self.client.get(BASE + path, **options)
        assert answered.status_code == 200, answered.text
        return answered.json()

    def post(self, path: str, body: Any = None, status: int = 202) -> Any:
        answered = self.client.post(BASE + path, **({} if body is None else {"json": body}))
        assert answered.status_code == status, answered.text
        return answered.json()

    def work(self) -> None:
        asyncio.run(drain(self.app()))

    def ask(self, question: Any) -> Any:
        async def asked() -> Any:
            async with self.app() as app:
                return await question(app)

        return asyncio.run(asked())

    def followers(self, id: int) -> list[stream.Follower]:
        """Who follows an execution; the server is a thread of ours."""
        found = [each for each in gc.get_objects() if isinstance(each, stream.EventHub)]
        watched = [room._watched[id] for room in found if id in room._watched]
        return [follower for each in watched for story in each.stories.values() for follower in story.followers]

    def upload(self, project: int, *files: tuple[str, bytes]) -> Any:
        sent = [("arquivos", each) for each in files]
        answered = self.client.post(f"{BASE}/lotes/{project}/upload", files=sent)
        assert answered.status_code == 200, answered.text
        return answered.json()

    def lot(self, *more: tuple[str, bytes], **settings: Any) -> int:
        """A project with the four good documents and *more*."""
        project = self.post("/projetos", {"nome": "Lote de teste", **settings}, 201)["id"]
        files = [(name, text.encode()) for name, text in TEXTS.items()]
        told = self.upload(project, *files, *more)
        assert told["adicionados"] == len(files) + len(more)
        return int(project)

    def start(self, project: int, body: Any = None) -> int:
        return int(self.post(f"/projetos/{project}/executar", body)["execucao_id"])

    def stall(self, id: int) -> None:
        """One document is done, nobody works any more, and the time is over."""
        self.ask(lambda app: _stalled(app, id))


async def _stalled(app: Retoma, id: int) -> None:
    async with app.transaction() as conn:
        await conn.execute(
            "update retoma.batches set was = 'queued', state = 'running', started_at = now() - interval '1 hour',"
            " last_progress_at = now() - interval '10 minutes', last_key = 'ata.txt', epoch = epoch + 1 where id = %s",
            [id],
        )
        await conn.execute("update retoma.jobs set run_at = now() - interval '1 hour' where batch_id = %s", [id])
    assert [why.batch_id for why in (await app.batches.look_after()).stalled] == [id]


def app_for(settings: Settings, blobs: Path) -> Retoma:
    providers = {
        Extractor: LocalExtractor(),
        Classifier: LocalClassifier(Lexical()),
        BlobStore: FolderBlobs(blobs),
    }
    return Retoma(settings=settings, extensions=[CLASSIFICATION], providers=providers)


@pytest.fixture
def house(settings: Settings, tmp_path: Path) -> Iterator[Desk]:
    with serving(app_for(settings, tmp_path / "blobs")) as url:
        made = Desk(url, settings, tmp_path / "blobs")
        yield made
        made.client.close()


# — the four routes of the document —


def test_the_detailed_status_has_every_field_and_its_figures_add_up(house: Desk) -> None:
    project = house.lot(SHORT, BROKEN)
    started = house.post(f"/projetos/{project}/executar")
    id = started["execucao_id"]
    before = house.get(f"/execucoes/{id}/status-detalhado")
    house.work()
    after = house.get(f"/execucoes/{id}/status-detalhado")

    assert (started["status"], started["total_arquivos"], started["rota_origem"]) == ("PENDENTE", 6, "/classificador/")
    assert before["contagem_por_status"]["PENDENTE"] == 6
    assert before["ultimo_heartbeat"] is None
    assert {
        "execucao_id", "projeto_id", "status", "rota_origem", "total_arquivos", "arquivos_processados",
        "arquivos_sucesso", "arquivos_erro", "progresso_percentual", "contagem_por_status", "ultimo_heartbeat",
        "ultimo_codigo_processado", "tentativas_retry", "max_retries", "pode_retomar", "esta_travada",
        "erro_mensagem", "iniciado_em", "finalizado_em", "documentos_com_erro",
    } <= after.keys()  # fmt: skip
    assert (after["status"], after["rota_origem"], after["max_retries"]) == ("CONCLUIDO", "/classificador/", 3)
    assert (after["arquivos_processados"], after["arquivos_sucesso"], after["arquivos_erro"]) == (6, 4, 2)
    assert after["progresso_percentual"] == 100.0
    assert sum(after["contagem_por_status"].values()) == after["total_arquivos"]
    assert after["ultimo_heartbeat"].endswith("Z")
    assert after["ultimo_codigo_processado"] in {*TEXTS, "curto.txt", "quebrado.pdf"}
    (first, second) = sorted(after["documentos_com_erro"], key=lambda each: each["codigo"])
    assert first.keys() == {
        "id", "codigo", "nome_arquivo", "erro_mensagem", "tentativas", "ultimo_erro_em", "pode_reprocessar",
    }  # fmt: skip
    assert first["erro_mensagem"].startswith("text_too_short: curto.txt has 2 characters")
    assert second["erro_mensagem"].startswith("document_damaged: quebrado.pdf")
    assert first["pode_reprocessar"]


def test_the_errors_are_listed_with_the_newest_first_and_all_that_is_known(house: Desk) -> None:
    id = house.start(house.lot(SHORT, BROKEN))
    house.work()

    told = house.get(f"/execucoes/{id}/erros")

    assert (told["execucao_id"], told["total_erros"]) == (id, 2)
    assert told["erros"][0].keys() == {
        "id", "codigo_documento", "numero_processo", "nome_arquivo", "erro_mensagem", "erro_stack", "tentativas",
        "ultimo_erro_em", "pode_reprocessar", "criado_em",
    }  # fmt: skip
    assert [each["tentativas"] for each in told["erros"]] == [1, 1], "what cannot be read is not tried again"
    times = [each["ultimo_erro_em"] for each in told["erros"]]
    assert times == sorted(times, reverse=True)


def test_of_many_resumes_at_once_one_moves_it_and_the_others_are_told_that_it_runs(house: Desk) -> None:
    id = house.start(house.lot())
    house.stall(id)
    stuck = house.get(f"/execucoes/{id}/status-detalhado")

    with ThreadPoolExecutor(10) as pool:
        told = list(pool.map(lambda _: house.post(f"/execucoes/{id}/retomar"), range(10)))
    house.work()
    after = house.get(f"/execucoes/{id}/status-detalhado")

    assert (stuck["status"], stuck["esta_travada"], stuck["pode_retomar"]) == ("TRAVADO", True, True)
    assert stuck["erro_mensagem"] == "Nenhum worker ativo atende a fila classification."
    assert stuck["ultimo_codigo_processado"] == "ata.txt"
    assert sorted(each["mudou"] for each in told) == [False] * 9 + [True]
    assert {each["status"] for each in told} == {"EM_ANDAMENTO"}
    assert [each["mensagem"] for each in told if not each["mudou"]] == ["A execução já está em andamento."] * 9
    assert {each["mensagem"] for each in told if each["mudou"]} == {
        "Nenhum worker ativo: a execução continua assim que um for iniciado. Nenhuma retomada foi gasta."
    }
    assert (after["status"], after["tentativas_retry"]) == ("CONCLUIDO", 0)
    assert house.post(f"/execucoes/{id}/retomar")["mensagem"] == "A execução já foi concluída."


def test_a_stalled_execution_without_resumes_left_fails_for_good(house: Desk) -> None:
    id = house.start(house.lot(max_retries_execucao=0))
    house.stall(id)

    refused = house.client.post(f"{BASE}/execucoes/{id}/retomar")
    assert house.client.post(f"{BASE}/watchdog/verificar").status_code == 200
    after = house.get(f"/execucoes/{id}")

    assert code(refused) == (409, "resume_limit_reached")
    assert (after["status"], after["pode_retomar"], after["max_retries"]) == ("ERRO", False, 0)


def test_only_errors_are_tried_again(house: Desk, psql: psycopg.Connection) -> None:
    id = house.start(house.lot(SHORT))
    house.work()
    attempts = """select job_id, count(*) from retoma.attempts join retoma.jobs on jobs.id = job_id
                   where pipeline = 'classification' group by 1 order by 1"""
    before = dict(psql.execute(attempts).fetchall())

    told = house.post(f"/execucoes/{id}/reprocessar-erros")
    house.work()
    again = {job for job, count in psql.execute(attempts).fetchall() if count > before[job]}
    (failed,) = house.get(f"/execucoes/{id}/erros")["erros"]

    assert (told["total_erros"], told["reprocessaveis"], told["status"]) == (1, 1, "EM_ANDAMENTO")
    assert len(again) == 1
    assert failed["tentativas"] == 2
    assert psql.execute("select count(*) from retoma.classifications").fetchone() == (5,)


# — the rest of its routes —


def test_the_same_routes_stand_at_the_root(house: Desk) -> None:
    id = house.start(house.lot())

    there = house.client.get(f"/execucoes/{id}/status-detalhado").json()

    assert {**there, "verificado_em": None} == {**house.get(f"/execucoes/{id}/status-detalhado"), "verificado_em": None}
    assert house.client.get("/status").json()["modelo_padrao"] == "local"


def test_prompts_and_projects_are_kept_changed_and_archived(house: Desk) -> None:
    (usual,) = house.get("/prompts")
    new = {"nome": "Meu", "conteudo": "Diga o tipo:\n- um: primeiro; alfa\n- dois: segundo; beta"}
    prompt = house.post("/prompts", new, 201)
    again = house.client.post(f"{BASE}/prompts", json=new)
    bad = house.client.post(f"{BASE}/prompts", json={"nome": "x", "conteudo": "```categorias\n- sem dois pontos\n```"})
    changed = house.client.put(f"{BASE}/prompts/{prompt['id']}", json={"descricao": "d"}).json()
    project = house.post("/projetos", {"nome": "P", "prompt_id": prompt["id"], "modo_processamento": "completo"}, 201)
    put = house.client.put(f"{BASE}/projetos/{project['id']}", json={"tamanho_chunk": 4000, "posicao_chunk": "inicio"})
    wrong = house.client.put(f"{BASE}/projetos/{project['id']}", json={"tamanho_chunk": 4001})

    assert usual["nome"] == "Tipos de documento"
    assert code(again) == (409, "conflict")
    assert code(bad) == (422, "validation_failed")
    assert (changed["descricao"], changed["versao"]) == ("d", prompt["versao"])
    assert (project["modo_processamento"], project["max_retries_documento"]) == ("completo", 2)
    assert (put.json()["tamanho_chunk"], put.json()["posicao_chunk"]) == (4000, "inicio")
    assert code(wrong) == (422, "validation_failed")
    assert house.client.delete(f"{BASE}/projetos/{project['id']}").status_code == 200
    assert code(house.client.get(f"{BASE}/projetos/{project['id']}")) == (404, "not_found")
    assert house.client.delete(f"{BASE}/prompts/{prompt['id']}").status_code == 200
    assert [each["nome"] for each in house.get("/prompts")] == ["Tipos de documento"]


def test_the_text_of_a_prompt_is_answered_only_to_those_who_may_read_it(house: Desk) -> None:
    new = {"nome": "Meu", "conteudo": "SEGREDO. Diga o tipo:\n- um: primeiro; alfa\n- dois: segundo; beta"}
    prompt = house.post("/prompts", new, 201)
    writer = house.ask(lambda app: app.access.create("test", ("submit",)))[0]
    reader = house.ask(lambda app: app.access.create("test", ("submit", "content:read")))[0]

    changed, read = (
        house.client.put(
            f"{BASE}/prompts/{prompt['id']}", json={"descricao": "d"}, headers={"Authorization": f"Bearer {key}"}
        )
        for key in (writer, reader)
    )

    assert (changed.status_code, changed.json()["descricao"]) == (200, "d")
    assert "SEGREDO" not in changed.text
    assert read.json()["conteudo"] == new["conteudo"]


@pytest.mark.parametrize("length", [100_001, 300_000])
def test_a_prompt_is_as_long_as_the_api_allows_by_form_and_by_api(house: Desk, length: int) -> None:
    content = "a" * length
    by_api = house.client.post(f"{BASE}/prompts", json={"nome": "longo", "conteudo": content})
    by_form = house.client.post("/classificador/prompts", data={"name": "longo", "content": content})
    noted = house.client.post(
        "/classificador/prompts", data={"name": "longo", "content": "a" * 100_000, "description": "d" * 2_001}
    )
    longest = house.client.post("/classificador/prompts", data={"name": "longo", "content": "a" * 100_000})

    assert code(by_api) == (422, "validation_failed")
    assert (by_form.status_code, noted.status_code, longest.status_code) == (422, 422, 303)


def test_an_upload_takes_each_file_by_itself_unpacks_a_zip_and_tells_what_it_knew(house: Desk) -> None:
    project = house.post("/projetos", {"nome": "Z"}, 201)["id"]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pasta/ata.txt", TEXTS["ata.txt"])
        archive.writestr("contrato.txt", TEXTS["contrato.txt"])
        archive.writestr("../../fora.txt", "x" * 100)
        archive.writestr("dentro.zip", b"PK\x03\x04")
        archive.writestr("bomba.txt", b"0" * 60_000_000)

    told = house.upload(
        project,
        ("ata.txt", TEXTS["ata.txt"].encode()),
        ("lote.zip", packed.getvalue()),
        ("programa.exe", b"MZ\x90\x00" + b"\x00" * 100),
        ("vazio.txt", b""),
    )
    listed = house.get(f"/projetos/{project}/codigos")

    assert (told["adicionados"], told["duplicados"], told["erros"]) == (2, 1, 5)
    assert {each["arquivo"]: each["codigo"] for each in told["detalhes_erros"]} == {
        "../../fora.txt": "archive_traversal",
        "dentro.zip": "archive_nested",
        "bomba.txt": "file_too_large",
        "programa.exe": "file_type_unsupported",
        "vazio.txt": "file_empty",
    }
    assert [each["codigo"] for each in listed] == ["ata.txt", "contrato.txt"]
    assert told["detalhes_duplicados"] == [{"arquivo": "ata.txt", "codigo_documento": "ata.txt"}]
    assert house.client.delete(f"{BASE}/codigos/{listed[0]['id']}").status_code == 200
    assert [each["codigo"] for each in house.get(f"/projetos/{project}/codigos")] == ["contrato.txt"]


def test_a_code_that_was_announced_gets_its_file_and_one_without_a_file_says_so(house: Desk) -> None:
    project = house.post("/projetos", {"nome": "C"}, 201)["id"]
    announced = {"codigos": [{"codigo": "ata", "numero_processo": "0001-1"}, "falta"]}
    assert house.post(f"/projetos/{project}/codigos", announced, 201)["adicionados"] == 2
    assert house.post(f"/projetos/{project}/codigos", announced, 201)["adicionados"] == 0
    house.upload(project, ("ata.txt", TEXTS["ata.txt"].encode()))

    id = house.start(project)
    house.work()
    done, missing = house.get(f"/execucoes/{id}/resultados")

    assert (done["codigo_documento"], done["numero_processo"], done["categoria"]) == ("ata", "0001-1", "ata")
    assert (missing["status"], missing["erro_mensagem"][:16]) == ("ERRO", "document_missing")


def test_results_are_filtered_and_paged_and_a_subset_is_all_that_a_run_of_it_does(house: Desk) -> None:
    project = house.lot(SHORT)
    ids = [each["id"] for each in house.get(f"/projetos/{project}/codigos")]
    id = house.start(project, {"codigos_ids": [ids[0], ids[1], ids[4]]})
    house.work()
    every = house.get(f"/execucoes/{id}/resultados")
    first = house.client.get(f"{BASE}/execucoes/{id}/resultados?limite=2")
    rest = house.client.get(first.headers["link"].partition("<")[2].partition(">")[0]).json()

    assert [each["codigo_id"] for each in every] == [ids[0], ids[1], ids[4]]
    assert [each["id"] for each in first.json() + rest] == [each["id"] for each in every]
    assert [each["categoria"] for each in every] == ["petição", "sentença", None]
    assert [each["status"] for each in every] == ["CONCLUIDO", "CONCLUIDO", "ERRO"]
    assert [each["codigo_documento"] for each in house.get(f"/execucoes/{id}/resultados?apenas_erros=true")] == [
        "curto.txt"
    ]
    assert len(house.get(f"/execucoes/{id}/resultados", params={"categoria": "petição"})) == 1
    sure = every[0]["confianca"]
    assert every[0] in house.get(f"/execucoes/{id}/resultados?confianca={sure}")
    assert every[0]["revisar"] == (sure == "baixa")


def test_the_exports_open_and_have_one_row_per_document(house: Desk) -> None:
    id = house.start(house.lot(SHORT, ("=cmd().txt", TEXTS["ata.txt"].encode() + b" Outra.")))
    house.work()

    book = openpyxl.load_workbook(io.BytesIO(house.client.get(f"{BASE}/execucoes/{id}/exportar/excel").content))
    text = house.client.get(f"{BASE}/execucoes/{id}/exportar/csv").content.decode("utf-8-sig")
    told = house.client.get(f"{BASE}/execucoes/{id}/exportar/json")

    sheet, about = book.worksheets
    rows = list(csv.reader(io.StringIO(text), delimiter=";"))
    assert (sheet.max_row, len(rows), len(told.json()["resultados"])) == (7, 7, 6)
    assert [cell.value for cell in sheet[1]] == rows[0]
    assert dict(about.values)["execucao_id"] == id
    assert dict(about.values)["status"] == "CONCLUIDO"
    assert {row[0] for row in rows[1:]} == {*TEXTS, "curto.txt", "'=cmd().txt"}
    assert all(line.startswith('"') and line.endswith('"') for line in text.strip().splitlines())
    formulas = [cell for row in sheet.iter_rows() for cell in row if cell.data_type == "f"]
    assert formulas == []
    assert told.json()["resultados"][0]["resultado_json"]["categoria"] == "petição"
    assert 'filename="classificacao-' in told.headers["content-disposition"]


def test_pause_cancel_and_archive_do_what_they_say(house: Desk) -> None:
    project = house.lot()
    id = house.start(project)
    joined = house.post(f"/projetos/{project}/executar")

    paused = house.post(f"/execucoes/{id}/pausar", status=200)
    running = house.get("/execucoes-em-andamento")
    resumed = house.post(f"/execucoes/{id}/retomar")
    busy = house.client.delete(f"{BASE}/execucoes/{id}")
    cancelled = house.post(f"/execucoes/{id}/cancelar", status=200)
    again = house.client.post(f"{BASE}/execucoes/{id}/cancelar").status_code
    archived = house.client.delete(f"{BASE}/execucoes/{id}").json()

    assert (joined["execucao_id"], joined["ja_em_andamento"]) == (id, True)
    assert paused["status"] == "PAUSADO"
    assert [(each["execucao_id"], each["status"], each["pode_retomar"]) for each in running] == [(id, "PAUSADO", True)]
    assert (resumed["status"], resumed["tentativas_retry"]) == ("PENDENTE", 0)
    assert code(busy) == (409, "conflict")
    assert (cancelled["status"], cancelled["total_arquivos"]) == ("CANCELADO", 4)
    assert again == 200, "asked again, it is done"
    assert archived["mensagem"] == "Execução arquivada."
    assert house.get(f"/projetos/{project}/execucoes") == []
    assert house.get(f"/execucoes/{id}")["arquivada"]


def test_one_document_is_tried_and_nothing_is_kept(house: Desk, psql: psycopg.Connection) -> None:
    def count() -> Any:
        tables = ("jobs", "batches", "classifications", "project_documents", "calls", "loose_blobs")
        return [psql.execute(f"select count(*) from retoma.{each}").fetchone() for each in tables]

    before = count()

    told = house.client.post(
        f"{BASE}/classificar-avulso",
        files={"arquivo": ("ata.txt", TEXTS["ata.txt"].encode())},
        data={"modo_processamento": "completo"},
    )
    short = house.client.post(f"{BASE}/classificar-avulso", files={"arquivo": SHORT})
    none = house.client.post(f"{BASE}/classificar-avulso", data={"modelo": "local"}, files={})

    assert told.status_code == 200, told.text
    assert (told.json()["categoria"], told.json()["texto_via"], told.json()["modelo"]) == ("ata", "txt", "local")
    assert short.json()["errors"][0]["code"] == "text_too_short"
    assert none.status_code in {415, 422}
    assert count() == before


def test_a_second_run_of_the_same_skips_what_is_known(house: Desk) -> None:
    project = house.lot()
    first = house.start(project)
    house.work()
    second = house.start(project)
    house.work()
    third = house.start(project, {"reaproveitar": False})
    house.work()

    told = {id: house.get(f"/execucoes/{id}/status-detalhado")["contagem_por_status"] for id in (first, second, third)}
    copies = house.get(f"/execucoes/{second}/resultados")
    originals = house.get(f"/execucoes/{first}/resultados")

    assert (told[first]["CONCLUIDO"], told[first]["PULADO"]) == (4, 0)
    assert (told[second]["CONCLUIDO"], told[second]["PULADO"]) == (0, 4)
    assert (told[third]["CONCLUIDO"], told[third]["PULADO"]) == (4, 0)
    assert [each["copiado_de"] for each in copies] == [each["id"] for each in originals]
    assert [each["categoria"] for each in copies] == [each["categoria"] for each in originals]
    assert house.get(f"/execucoes/{second}/mosaico")["documentos"] == "UUUU"


def test_the_status_of_an_execution_that_has_ended_is_unchanged_for_ever(
    house: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = house.start(house.lot())
    house.work()
    path = f"{BASE}/execucoes/{id}/status-detalhado"
    tag = house.client.get(path).headers["etag"]
    counted: list[int] = []
    monkeypatch.setattr(Classification, "detail", lambda *_: counted.append(id))

    answered = house.client.get(path, headers={"If-None-Match": tag})

    assert (answered.status_code, answered.content, counted) == (304, b"", [])


@pytest.mark.parametrize(
    ("noun", "new", "change"),
    [
        ("prompts", {"nome": "Meu", "conteudo": "Diga o tipo do documento."}, {"descricao": "outro"}),
        ("projetos", {"nome": "Lote"}, {"descricao": "outro"}),
    ],
)
def test_what_was_changed_since_it_was_looked_at_is_neither_changed_nor_removed(
    house: Desk, noun: str, new: Any, change: Any
) -> None:
    path = f"{BASE}/{noun}/{house.post(f'/{noun}', new, 201)['id']}"
    tag = house.client.get(path).headers["etag"]
    same = house.client.get(path, headers={"If-None-Match": tag})

    changed = house.client.put(path, json=change, headers={"If-Match": tag})
    late = house.client.put(path, json={"nome": "tarde"}, headers={"If-Match": tag})
    gone = house.client.delete(path, headers={"If-Match": tag})
    now = house.client.get(path)

    assert (same.status_code, changed.status_code) == (304, 200)
    assert [code(each) for each in (late, gone)] == [(412, "precondition_failed")] * 2
    assert (now.json()["descricao"], now.json()["nome"]) == ("outro", new["nome"])
    assert now.headers["etag"] == changed.headers["etag"] != tag
    assert house.client.put(path, json=change, headers={"If-Match": "*"}).status_code == 200
    last = house.client.get(path).headers["etag"]
    assert house.client.delete(path, headers={"If-Match": f'"other", {last}'}).status_code == 200
    absent = house.client.put(f"{BASE}/{noun}/404", json=change, headers={"If-Match": "*"})
    assert code(absent) == (404, "not_found")


def test_of_two_who_change_what_both_have_looked_at_one_is_told_so(house: Desk) -> None:
    path = f"{BASE}/projetos/{house.post('/projetos', {'nome': 'Lote'}, 201)['id']}"
    tag = house.client.get(path).headers["etag"]

    def change(each: int) -> int:
        return house.client.put(path, json={"nome": f"Lote {each}"}, headers={"If-Match": tag}).status_code

    with ThreadPoolExecutor(6) as pool:
        told = sorted(pool.map(change, range(6)))

    assert told == [200, *[412] * 5]


def test_an_execution_is_archived_only_as_it_was_looked_at(house: Desk) -> None:
    id = house.start(house.lot())
    path = f"{BASE}/execucoes/{id}"
    early = house.client.get(path).headers["etag"]
    house.work()

    late = house.client.delete(path, headers={"If-Match": early})
    gone = house.client.delete(path, headers={"If-Match": house.client.get(path).headers["etag"]})

    assert code(late) == (412, "precondition_failed")
    assert gone.status_code == 200


def test_a_name_of_blanks_is_refused_where_it_is_read(house: Desk) -> None:
    for blank in ("\x1f", " \t", "\u2003", "\x85", "\x7f"):
        refused = house.client.post(f"{BASE}/projetos", json={"nome": blank})

        assert code(refused) == (422, "validation_failed"), repr(blank)
        assert [each["pointer"] for each in refused.json()["errors"]] == ["/nome"], repr(blank)
    assert house.post("/projetos", {"nome": "\u0301 é"}, 201)["nome"] == "\u0301 é"


def test_an_upload_without_a_file_is_refused(house: Desk) -> None:
    project = house.post("/projetos", {"nome": "Lote de teste"}, 201)["id"]

    refused = house.client.post(f"{BASE}/lotes/{project}/upload", files={"nota": (None, "no file")})

    assert code(refused) == (400, "file_missing")


# — the stream —


def follow(house: Desk, id: int, last: int | None = None) -> list[tuple[int | None, dict[str, Any]]]:
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    found: list[tuple[int | None, dict[str, Any]]] = []
    with house.client.stream("GET", f"{BASE}/execucoes/{id}/eventos", headers=headers) as response:
        assert response.status_code == 200
        number = None
        for line in response.iter_lines():
            if line.startswith("id: "):
                number = int(line[4:])
            elif line.startswith("data: "):
                found.append((number, json.loads(line[6:])))
                number = None
    return found


def test_the_stream_tells_the_whole_story_from_any_number_on_and_is_not_needed(house: Desk) -> None:
    id = house.start(house.lot(SHORT))
    house.work()
    house.post(f"/execucoes/{id}/reprocessar-erros")
    house.work()

    told = follow(house, id, last=0)
    numbers = [number for number, _ in told if number is not None]
    half = follow(house, id, last=numbers[len(numbers) // 2])
    snapshot = follow(house, id)

    kinds = [each["tipo"] for _, each in told]
    assert numbers == list(range(1, numbers[-1] + 1)), "none is missing and none is told twice"
    assert [kind for kind in kinds if kind != "progresso"] == ["inicio", "concluido", "reprocessamento", "concluido"]
    results = [each["resultado"] for _, each in told if each["tipo"] == "progresso" and each["resultado"]]
    assert sorted(each["codigo_documento"] for each in results) == sorted([*TEXTS, "curto.txt", "curto.txt"])
    assert results[0].keys() == {
        "codigo_documento", "numero_processo", "nome_arquivo", "categoria", "subcategoria", "confianca",
        "justificativa", "sucesso", "erro", "texto_via", "tokens_usados",
    }  # fmt: skip
    last = told[-1][1]
    assert (last["sucesso"], last["erros"], last["recuperados"], last["ainda_com_erro"]) == (4, 1, 0, 1)
    assert last["rota_origem"] == "/classificador/"
    assert all(each["processados"] <= each["total"] == 5 for _, each in told)
    assert [number for number, _ in half if number] == numbers[len(numbers) // 2 + 1 :]
    assert (snapshot[0][1]["tipo"], snapshot[0][1]["processados"]) == ("inicio", 5)
    ended = house.client.get(f"{BASE}/execucoes/{id}/eventos", headers={"Last-Event-ID": str(numbers[-1])})
    assert ended.status_code == 204


def test_an_execution_is_put_into_words_once_however_many_follow_it(
    house: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "EVERY", 3600.0)  # so that only what happens makes it look
    library, asked = Classification, []
    for name in ("execution", "results"):
        plain = getattr(library, name)

        def counted(self: Any, *args: Any, _plain: Any = plain, **options: Any) -> Any:
            if asyncio.current_task() is not None and "EventHub" in str(asyncio.current_task()):
                asked.append(_plain.__name__)
            return _plain(self, *args, **options)

        monkeypatch.setattr(library, name, counted)

    def watched_by(clients: int) -> tuple[int, list[list[tuple[int | None, dict[str, Any]]]]]:
        id = house.start(house.lot(), {"reaproveitar": False})
        heard: list[list[tuple[int | None, dict[str, Any]]]] = []
        listeners = [threading.Thread(target=lambda: heard.append(follow(house, id))) for _ in range(clients)]
        for each in listeners:
            each.start()
        while len(house.followers(id)) < clients:
            time.sleep(0.02)
        asked.clear()
        house.ask(lambda app: app.batches.cancel(id))
        house.post("/watchdog/verificar", status=200)  # any change lets the reader look
        for each in listeners:
            each.join(60)
        return len(asked), heard

    alone, one = watched_by(1)
    together, many = watched_by(12)

    assert 0 < together <= alone, (alone, together)
    assert len(many) == 12
    assert all([said for _, said in each] == [said for _, said in many[0]] for each in many)
    assert [said["tipo"] for _, said in one[0]] == [said["tipo"] for _, said in many[0]]
    assert "erro" in [said["tipo"] for _, said in many[0]]


def test_a_resume_is_told_with_what_was_done_and_what_is_left(house: Desk) -> None:
    id = house.start(house.lot())
    house.stall(id)
    house.post(f"/execucoes/{id}/retomar")
    house.work()

    told = {each["tipo"]: each for _, each in follow(house, id, last=0)}

    assert told["erro"]["mensagem"].startswith("Execução travada")
    assert {"ja_processados", "pendentes", "rota_origem", "execucao_id"} <= told["retomada"].keys()


def test_a_silent_execution_beats_and_a_page_that_leaves_is_noticed_and_stops_nothing(
    house: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = threading.Event()
    leave = stream.EventHub._leave

    def noticed(newsroom: stream.EventHub, id: int, follower: stream.Follower) -> None:
        leave(newsroom, id, follower)
        left.set()

    monkeypatch.setattr(stream.EventHub, "_leave", noticed)
    monkeypatch.setattr(stream, "HEARTBEAT", 0.2)
    id = house.start(house.lot())

    with house.client.stream("GET", f"{BASE}/execucoes/{id}/eventos") as response:
        lines = response.iter_lines()
        while next(lines) != "event: heartbeat":
            pass
        beat = json.loads(next(lines).removeprefix("data: "))

    assert (beat["tipo"], beat["status"], beat["execucao_id"]) == ("heartbeat", "PENDENTE", id)
    assert left.wait(240), "the server noticed that nobody listens any more"
    house.work()
    assert house.get(f"/execucoes/{id}")["status"] == "CONCLUIDO"


def test_the_routes_of_all_ready_pipelines_are_described_once_each(settings: Settings, tmp_path: Path) -> None:
    providers = providers_from({"RETOMA_HOME": str(tmp_path)})

    described = site(Retoma(settings=settings, extensions=ALL, providers=providers)).openapi()

    names = [each["operationId"] for path in described["paths"].values() for each in path.values()]
    assert len(names) == len(set(names))
    assert f"{BASE}/execucoes/{{id}}/status-detalhado" in described["paths"]
    assert "/execucoes/{id}/status-detalhado" not in described["paths"], "the same at the root is told once"


# — who may —


def test_a_key_sees_content_only_when_it_may_and_nothing_of_other_pipelines(house: Desk) -> None:
    id = house.start(house.lot(SHORT))
    house.work()

    def key(*scopes: str, pipelines: tuple[str, ...] = ()) -> dict[str, str]:
        text, _ = house.ask(lambda app: app.access.create("test", scopes, pipelines=pipelines))
        return {"Authorization": f"Bearer {text}"}

    reader, other = key("read"), key("read", pipelines=("quotes",))
    (fault,) = house.client.get(f"{BASE}/execucoes/{id}/erros", headers=reader).json()["erros"]
    seen = house.client.get(f"{BASE}/execucoes/{id}/resultados", headers=reader).json()

    assert (fault["erro_mensagem"], fault["erro_stack"]) == (None, None)
    assert {each["justificativa"] for each in seen} == {None}
    assert code(house.client.get(f"{BASE}/execucoes/{id}/exportar/csv", headers=reader)) == (403, "scope_required")
    assert code(house.client.post(f"{BASE}/execucoes/{id}/retomar", headers=reader)) == (403, "scope_required")
    assert code(house.client.get(f"{BASE}/execucoes/{id}", headers=other)) == (404, "not_found")
    assert code(house.client.get(f"{BASE}/execucoes/{id}")) == (401, "auth_missing")


# — another prompt for the rest —

PAGE = {"Accept": "text/html"}
MINUTES = "Leia com cuidado.\n\n- reunião: registro de assembleia; presentes, ordem do dia\n- acordo: cláusulas; foro\n"


def test_the_rest_of_an_execution_gets_another_prompt_and_the_two_are_compared(house: Desk) -> None:
    id = house.start(house.lot(), {"piloto": 1})
    house.work()
    prompt = house.post("/prompts", {"nome": "Cuidado", "conteudo": MINUTES}, status=201)["id"]

    done = house.post(f"/execucoes/{id}/replanejar", {"prompt_id": prompt, "observacao": "com cuidado"})
    again = house.post(f"/execucoes/{id}/replanejar", {"prompt_id": prompt})
    compared = house.client.get(done["comparar_url"]).json()["cohorts"]
    nobody = house.client.post(f"{BASE}/execucoes/{id}/replanejar", json={"prompt_id": 999_999})

    assert (done["mudou"], done["documentos_movidos"]) == (True, 3)
    assert done["mensagem"] == "Os documentos que não tinham começado usam o novo prompt."
    assert (again["mudou"], again["mensagem"]) == (False, "A execução já usa este prompt.")
    assert [(each["number"], each["jobs"], each.get("note")) for each in compared] == [
        (1, 1, None),
        (2, 3, "com cuidado"),
    ]
    assert code(nobody) == (404, "not_found")


def test_the_page_gives_the_rest_another_prompt_and_the_console_leads_there(house: Desk) -> None:
    id = house.start(house.lot(), {"piloto": 1})
    house.work()
    prompt = house.post("/prompts", {"nome": "Cuidado", "conteudo": "- reunião: ata\n- acordo: contrato\n"}, status=201)
    place = f"/classificador/execucoes/{id}"

    before = house.client.get(place, headers=PAGE).text
    sent = house.client.post(f"{place}/replanejar", data={"prompt": str(prompt["id"]), "observacao": "x"}, headers=PAGE)
    after = house.client.get(place, headers=PAGE).text
    wrong = house.client.post(f"{place}/replanejar", data={"prompt": "nenhum"}, headers=PAGE)
    console = house.client.get(f"/console/batches/{id}?tab=configuration", headers=PAGE).text

    assert '<select id="replan-prompt"' in before
    assert "data-cohort" not in before
    assert (sent.status_code, sent.headers["location"]) == (303, f"{place}?dito=replanned")
    assert 'data-cohort="1"' in after
    assert 'data-cohort="2"' in after
    assert wrong.status_code == 422
    assert f'href="{place}#replan"' in console
