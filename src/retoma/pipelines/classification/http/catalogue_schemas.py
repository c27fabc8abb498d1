"""Prompts, projects and documents on the wire, in the words of the classifier's users."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from retoma.pipelines.classification.model import Project, ProjectDocument, SavedPrompt
from retoma.pipelines.classification.words import MODES, POSITIONS, SOURCES
from retoma.web.asked import Id
from retoma.web.shapes import Shape, Time

Name = Annotated[str, Field(min_length=1, max_length=200)]
Note = Annotated[str, Field(max_length=2000)]
Code = Annotated[str, Field(min_length=1, max_length=100)]
Content = Annotated[str, Field(min_length=10, max_length=100_000)]
Model = Annotated[str, Field(min_length=1, max_length=200)]
Mode = Literal["chunk", "completo"]
Position = Literal["fim", "inicio"]
Tokens = Annotated[int, Field(ge=100, le=4000)]

_MODES = {there: here for here, there in MODES.items()}
_POSITIONS = {there: here for here, there in POSITIONS.items()}


def settings_of(given: dict[str, Any]) -> dict[str, Any]:
    """What was said of a project or a trial, in the library's own names."""
    names = {
        "nome": "name",
        "descricao": "description",
        "prompt_id": "prompt_id",
        "modelo": "model",
        "modo_processamento": "mode",
        "posicao_chunk": "position",
        "tamanho_chunk": "chunk_tokens",
        "max_concurrent": "at_once",
        "max_retries_execucao": "max_resumes",
        "max_retries_documento": "max_retries",
    }
    said = {names[name]: value for name, value in given.items() if value is not None}
    if "mode" in said:
        said["mode"] = _MODES[said["mode"]]
    if "position" in said:
        said["position"] = _POSITIONS[said["position"]]
    return said


# — prompts —


class NewPrompt(Shape):
    """A prompt to be kept; its categories are lines of its text."""

    nome: Name
    conteudo: Content
    descricao: Note | None = None
    codigos_documento: Note | None = None


class PromptChange(Shape):
    """Another name or text; what is left out stays."""

    nome: Name | None = None
    conteudo: Content | None = None
    descricao: Note | None = None
    codigos_documento: Note | None = None


class PromptShown(Shape):
    """A prompt. Its text is there with the scope content:read; *versao* is the hash of it."""

    id: int
    nome: str
    descricao: str | None
    codigos_documento: str | None
    conteudo: str | None
    versao: str
    ativo: bool
    criado_em: Time
    atualizado_em: Time

    @classmethod
    def seen(cls, each: SavedPrompt, *, content: bool) -> PromptShown:
        """A prompt as it goes over the wire."""
        return cls(
            id=each.id,
            nome=each.name,
            descricao=each.description,
            codigos_documento=each.document_codes,
            conteudo=each.content if content else None,
            versao=each.sha256,
            ativo=each.archived_at is None,
            criado_em=each.created_at,
            atualizado_em=each.updated_at,
        )


# — projects and documents —


class ProjectChange(Shape):
    """Other settings for a project; what is left out stays."""

    nome: Name | None = None
    descricao: Note | None = None
    prompt_id: Id | None = None
    modelo: Model | None = None
    modo_processamento: Mode | None = None
    posicao_chunk: Position | None = None
    tamanho_chunk: Tokens | None = None
    max_concurrent: Annotated[int, Field(ge=1, le=10)] | None = None
    max_retries_execucao: Annotated[int, Field(ge=0, le=1000)] | None = None
    max_retries_documento: Annotated[int, Field(ge=0, le=100)] | None = None


class NewProject(ProjectChange):
    """A project (a lot); what is left out is as usual."""

    nome: Name


class ProjectShown(Shape):
    """A project and how its documents are classified."""

    id: int
    nome: str
    descricao: str | None
    prompt_id: int | None
    prompt_nome: str | None
    modelo: str | None
    modo_processamento: Mode
    posicao_chunk: Position
    tamanho_chunk: int
    max_concurrent: int
    max_retries_execucao: int
    max_retries_documento: int
    total_documentos: int
    ativo: bool
    criado_em: Time
    atualizado_em: Time

    @classmethod
    def seen(cls, each: Project) -> ProjectShown:
        """A project as it goes over the wire."""
        return cls(
            id=each.id,
            nome=each.name,
            descricao=each.description,
            prompt_id=each.prompt_id,
            prompt_nome=each.prompt,
            modelo=each.model,
            modo_processamento=MODES[each.mode],
            posicao_chunk=POSITIONS[each.position],
            tamanho_chunk=each.chunk_tokens,
            max_concurrent=each.at_once,
            max_retries_execucao=each.max_resumes,
            max_retries_documento=each.max_retries,
            total_documentos=each.documents,
            ativo=each.archived_at is None,
            criado_em=each.created_at,
            atualizado_em=each.updated_at,
        )


class NewCode(Shape):
    """A document whose file is still to come."""

    codigo: Code
    numero_processo: Name | None = None
    descricao: Note | None = None


class NewCodes(Shape):
    """Codes, as texts or with what is known of each."""

    codigos: Annotated[list[Code | NewCode], Field(min_length=1, max_length=2000)]


class CodesAdded(Shape):
    """What became of the codes."""

    mensagem: str
    adicionados: int
    total: int


class CodeShown(Shape):
    """A document of a project."""

    id: int
    projeto_id: int
    codigo: str
    numero_processo: str | None
    descricao: str | None
    arquivo_nome: str | None
    arquivo_hash: str | None
    tipo_documento: str | None
    tamanho_bytes: int | None
    fonte: str
    ativo: bool
    criado_em: Time

    @classmethod
    def seen(cls, each: ProjectDocument) -> CodeShown:
        """A document as it goes over the wire."""
        return cls(
            id=each.id,
            projeto_id=each.project_id,
            codigo=each.code,
            numero_processo=each.case_number,
            descricao=each.description,
            arquivo_nome=each.filename,
            arquivo_hash=each.sha256,
            tipo_documento=each.kind,
            tamanho_bytes=each.size,
            fonte=SOURCES.get(each.source, each.source),
            ativo=each.archived_at is None,
            criado_em=each.created_at,
        )


class UploadFault(Shape):
    """A file that was not taken; *codigo* never changes."""

    arquivo: str
    erro: str
    codigo: str


class Duplicate(Shape):
    """A file whose content is in the project already."""

    arquivo: str
    codigo_documento: str


class Uploaded(Shape):
    """What became of the files."""

    mensagem: str
    adicionados: int
    duplicados: int
    erros: int
    detalhes_erros: list[UploadFault]
    detalhes_duplicados: list[Duplicate]


class Said(Shape):
    """What was done, in a sentence."""

    mensagem: str


class Trial(Shape):
    """What was found in a document that nobody keeps."""

    nome_arquivo: str
    sucesso: bool
    categoria: str
    subcategoria: str | None
    confianca: str
    pontuacao: float | None
    revisar: bool
    justificativa: str
    trecho: str | None
    texto_via: str
    tokens_extraidos: int
    tokens_usados: int
    custo_usd: str
    chunk_usado: str
    modelo: str
    resultado_json: dict[str, Any]


class Models(Shape):
    """Whether documents can be classified here, and by whom."""

    disponivel: bool
    modelo_padrao: str
    modelos_disponiveis: list[str]
