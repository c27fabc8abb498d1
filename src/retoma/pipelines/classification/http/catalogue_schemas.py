"""Prompts, projects and documents on the wire, in the words of the classifier's users."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from retoma.pipelines.classification.labels import LONGEST_PROMPT
from retoma.pipelines.classification.model import Project, ProjectDocument, SavedPrompt
from retoma.pipelines.classification.translations import MODES, POSITIONS, SOURCES
from retoma.web.api.schemas.requests import WHOLE, Asked, Id, Wanted
from retoma.web.api.schemas.responses import Schema, Time

# What is nothing but blanks is no name; Python counts some control characters among them, and others do not.
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"[^\s\x00-\x1f\x7f-\x9f]")]
Note = Annotated[str, Field(max_length=2000)]
Code = Annotated[str, Field(min_length=1, max_length=100)]
Content = Annotated[str, Field(min_length=10, max_length=LONGEST_PROMPT)]
Model = Annotated[str, Field(min_length=1, max_length=200)]
Mode = Literal["chunk", "completo"]
Position = Literal["fim", "inicio"]
Tokens = Annotated[int, Field(ge=100, le=4000), WHOLE]

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


class NewPrompt(Asked):
    """A prompt to be kept; its categories are lines of its text."""

    nome: Name
    conteudo: Content
    descricao: Note | None = None
    codigos_documento: Note | None = None


class PromptChange(Asked):
    """Another name or text; what is left out stays."""

    nome: Name | None = None
    conteudo: Content | None = None
    descricao: Note | None = None
    codigos_documento: Note | None = None


class PromptShown(Schema):
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


class ProjectChange(Asked):
    """Other settings for a project; what is left out stays."""

    nome: Name | None = None
    descricao: Note | None = None
    prompt_id: Id | None = None
    modelo: Model | None = None
    modo_processamento: Mode | None = None
    posicao_chunk: Position | None = None
    tamanho_chunk: Tokens | None = None
    max_concurrent: Annotated[int, Field(ge=1, le=10), WHOLE] | None = None
    max_retries_execucao: Annotated[int, Field(ge=0, le=1000), WHOLE] | None = None
    max_retries_documento: Annotated[int, Field(ge=0, le=100), WHOLE] | None = None


class NewProject(ProjectChange):
    """A project (a lot); what is left out is as usual."""

    nome: Name


class ProjectShown(Schema):
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


class NewCode(Asked):
    """A document whose file is still to come."""

    codigo: Code
    numero_processo: Name | None = None
    descricao: Note | None = None


class NewCodes(Asked):
    """Codes, as texts or with what is known of each."""

    codigos: Annotated[list[Code | NewCode], Field(min_length=1, max_length=2000)]


class CodesAdded(Schema):
    """What became of the codes."""

    mensagem: str
    adicionados: int
    total: int


class CodeShown(Schema):
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


class UploadFault(Schema):
    """A file that was not taken; *codigo* never changes."""

    arquivo: str
    erro: str
    codigo: str


class Duplicate(Schema):
    """A file whose content is in the project already."""

    arquivo: str
    codigo_documento: str


class Uploaded(Schema):
    """What became of the files."""

    mensagem: str
    adicionados: int
    duplicados: int
    erros: int
    detalhes_erros: list[UploadFault]
    detalhes_duplicados: list[Duplicate]


class Said(Schema):
    """What was done, in a sentence."""

    mensagem: str


class Trial(Schema):
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
    custo_usd: str | None
    chunk_usado: str
    modelo: str
    resultado_json: dict[str, Any]


class Models(Schema):
    """Whether documents can be classified here, and by whom."""

    disponivel: bool
    modelo_padrao: str
    modelos_disponiveis: list[str]


class TrialForm(Wanted):
    """The fields beside the file."""

    prompt_id: Id | None = None
    prompt_texto: Content | None = None
    modelo: Model | None = None
    modo_processamento: Mode | None = None
    posicao_chunk: Position | None = None
    tamanho_chunk: Tokens | None = None


# — forms, as the reference shows them; they are read as they come in —

_BINARY = {"type": "string", "format": "binary"}


def _multipart(properties: dict[str, Any], required: list[str], told: str, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required, **more}
    content = {"multipart/form-data": {"schema": schema}}
    return {"requestBody": {"required": True, "description": told, "content": content}}


def _fields(form: type[Wanted], told: dict[str, str]) -> dict[str, Any]:
    """The fields of a *form* with what is *told* of each; one that is left out is not sent as null."""
    known = form.model_json_schema()["properties"]
    return {name: {**known[name]["anyOf"][0], "description": words} for name, words in told.items()}


FILES = _multipart(
    {"arquivos": {"type": "array", "items": _BINARY, "minItems": 1, "description": "The files, or ZIPs of them."}},
    ["arquivos"],
    "One or many files, under any field names.",
)
TRIAL = _multipart(
    {"arquivo": {**_BINARY, "description": "The document."}}
    | _fields(
        TrialForm,
        {
            "prompt_id": "The number of a prompt that is kept.",
            "prompt_texto": "A prompt of your own, in place of it.",
            "modelo": "The model that classifies.",
            "modo_processamento": "A part, or all.",
            "posicao_chunk": "Which part.",
            "tamanho_chunk": "Tokens of the part.",
        },
    ),
    ["arquivo"],
    "One file, and how it is to be classified.",
    additionalProperties=False,
)
