"""Invented facts for the slots of a template. No person, firm, address or case of them exists."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence

_SLOT = re.compile(r"\{(\w+)\}")

_FIRST = {
    "pt": (
        "Marlene",
        "Osvaldo",
        "Tainá",
        "Reginaldo",
        "Íris",
        "Claudemir",
        "Benedita",
        "Júlio César",
        "Rosângela",
        "Wesley",
        "Antônia",
        "Fabrício",
        "Luzia",
        "Edson",
        "Priscila",
        "Joaquim",
        "Simone",
        "Valdir",
    ),
    "en": (
        "Margaret",
        "Owen",
        "Tamsin",
        "Reginald",
        "Iris",
        "Clement",
        "Beatrice",
        "Julian",
        "Rosalind",
        "Wesley",
        "Antonia",
        "Fabian",
        "Lucy",
        "Edgar",
        "Priscilla",
        "Jonathan",
        "Simone",
        "Walter",
    ),
}
_LAST = {
    "pt": (
        "Prates",
        "Quaresma",
        "do Amaral",
        "Bittencourt",
        "Sampaio Filho",
        "de Assis",
        "Lacerda",
        "Vilhena",
        "Tavares",
        "Nogueira",
        "Brandão",
        "Pacheco",
        "Goulart",
        "Meireles",
        "Falcão",
        "Aragão",
    ),
    "en": (
        "Prattley",
        "Quennell",
        "Amaral",
        "Binning",
        "Sampson",
        "Ashby",
        "Lacey",
        "Villiers",
        "Tavener",
        "Norwood",
        "Brandon",
        "Packard",
        "Goulding",
        "Merrill",
        "Falconer",
        "Arrowood",
    ),
}
_CITIES = {
    "pt": (
        "Vila Serena",
        "Porto das Canoas",
        "São Bento do Vale",
        "Campo Alegre do Sul",
        "Ribeira Nova",
        "Itapoã do Norte",
        "Monte Claro",
        "Santa Luzia da Serra",
        "Águas Mansas",
    ),
    "en": ("Fairbrook", "Port Canley", "Saint Bennet", "Merrydown", "Newbank", "Northcliff", "Clearhill", "Ridgewater"),
}
_FIRMS = {
    "pt": (
        "Comercial Aroeira Ltda.",
        "Transportes Maré Alta S.A.",
        "Construtora Pedra Branca Ltda.",
        "Laticínios Boa Hora",
        "Clínica Vida Plena",
        "Banco do Vale S.A.",
        "Metalúrgica Ipê",
        "Editora Três Rios",
        "Supermercados Oliveira & Filhos",
        "Tecidos Aurora ME",
    ),
    "en": (
        "Alder Trading Ltd.",
        "Hightide Transport Inc.",
        "Whitestone Builders",
        "Goodhour Dairies",
        "Fullwell Clinic",
        "Valley Bank plc",
        "Ironwood Metals",
        "Three Rivers Press",
        "Oliver & Sons Stores",
        "Aurora Textiles",
    ),
}
_STREETS = {
    "pt": (
        "Rua das Acácias, 120",
        "Avenida Beira-Rio, 2045",
        "Travessa do Poço, 8",
        "Rua Sete Colinas, 331, ap. 42",
        "Estrada do Moinho, km 6",
    ),
    "en": (
        "120 Acacia Street",
        "2045 Riverside Avenue",
        "8 Well Lane",
        "331 Seven Hills Road, flat 42",
        "Mill Road, mile 6",
    ),
}
_OFFICES = {
    "pt": (
        "Secretaria de Obras",
        "Secretaria Municipal de Educação",
        "Instituto de Águas",
        "Departamento de Trânsito",
        "Fundação de Assistência",
        "Autarquia de Saneamento",
    ),
    "en": (
        "the Department of Works",
        "the Education Board",
        "the Water Institute",
        "the Traffic Office",
        "the Welfare Trust",
    ),
}
_TRADES = {
    "pt": ("enfermeira", "pedreiro", "professora", "motorista", "contadora", "agricultor", "vigilante", "cozinheira"),
    "en": ("nurse", "bricklayer", "teacher", "driver", "accountant", "farmer", "security guard", "cook"),
}
_THINGS = {
    "pt": (
        "uma geladeira",
        "um veículo utilitário",
        "vinte computadores",
        "o telhado da escola",
        "um lote de medicamentos",
        "uma casa de dois pavimentos",
        "o elevador social",
        "três máquinas de costura",
        "um terreno rural",
        "um trator usado",
        "a bomba d'água",
        "mobília de escritório",
    ),
    "en": (
        "a refrigerator",
        "a delivery van",
        "twenty computers",
        "the school roof",
        "a batch of medicines",
        "a two-storey house",
        "the lift",
        "three sewing machines",
        "a plot of land",
        "a used tractor",
        "the water pump",
    ),
}
_SERVICES = {
    "pt": (
        "limpeza de prédios",
        "transporte escolar",
        "manutenção de ar-condicionado",
        "coleta de resíduos",
        "reforma da quadra",
        "digitalização de arquivos",
        "fornecimento de refeições",
        "segurança patrimonial",
        "tratamento de água",
        "gestão de estoques",
    ),
    "en": (
        "the cleaning of buildings",
        "school transport",
        "the upkeep of air conditioning",
        "waste collection",
        "the sports hall",
        "the scanning of archives",
        "catering",
        "site security",
        "water treatment",
        "stock control",
    ),
}
_GOODS = {
    "pt": (
        "PARAFUSO SEXT 1/2",
        "CIMENTO CP II 50KG",
        "PAPEL A4 RESMA",
        "TONER PRETO",
        "LUVA NITRILICA CX",
        "ARROZ T1 5KG",
        "CABO FLEX 2,5MM",
        "TINTA ACRIL 18L",
    ),
    "en": (
        "HEX BOLT 1/2",
        "CEMENT 50KG",
        "A4 PAPER REAM",
        "BLACK TONER",
        "NITRILE GLOVES BOX",
        "RICE 5KG",
        "CABLE 2.5MM",
    ),
}
_CLUBS = {
    "pt": ("Grêmio Ribeirinho", "Atlético Serrano", "Náutico do Vale", "União Operária"),
    "en": ("River Rovers", "Highland Athletic", "Valley United", "Dock Wanderers"),
}
_MONTHS = {
    "pt": ("janeiro", "fevereiro", "março", "abril", "maio", "junho", "julho", "agosto", "setembro", "outubro"),
    "en": ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
}


class Facts:
    """The facts of one text: a slot has one value in it, except those that are new each time."""

    def __init__(self, language: str, chance: random.Random) -> None:
        self._language = language
        self.chance = chance
        self._said: dict[str, str] = {}

    def fill(self, text: str) -> str:
        """*text* with its slots filled; a slot in capitals is filled in capitals."""
        return _SLOT.sub(lambda found: self._fact(found[1]), text)

    def _fact(self, slot: str) -> str:
        name = slot.lower()
        value = self._said.get(name) or _INVENTED[name.rstrip("23")](self)
        if name not in _NEW_EACH_TIME:
            self._said[name] = value
        return value.upper() if slot.isupper() else value

    def one(self, of: Mapping[str, Sequence[str]]) -> str:
        """One of them, in the language of the text."""
        return self.chance.choice(of[self._language])

    def person(self) -> str:
        """A name."""
        return f"{self.one(_FIRST)} {self.one(_LAST)}"

    def digits(self, pattern: str) -> str:
        """*pattern* with another digit for each 0."""
        return re.sub("0", lambda _: str(self.chance.randrange(10)), pattern)

    def date(self) -> str:
        """A day, written in one of two ways."""
        day, month, year = self.chance.randint(1, 28), self.one(_MONTHS), self.chance.randint(2011, 2025)
        number = _MONTHS[self._language].index(month) + 1
        if self._language == "en":
            return self.chance.choice((f"{month} {day}, {year}", f"{number:02}/{day:02}/{year}"))
        return self.chance.choice((f"{day} de {month} de {year}", f"{day:02}/{number:02}/{year}"))

    def money(self) -> str:
        """An amount."""
        amount = self.chance.choice((320, 1_250, 4_800, 12_400, 48_900, 310_000)) + self.chance.randrange(300)
        if self._language == "en":
            return f"${amount:,}.{self.chance.randrange(100):02}"
        return f"R$ {amount:,}".replace(",", ".") + f",{self.chance.randrange(100):02}"

    def rows(self) -> str:
        """Lines of a table of goods."""
        rows = (
            f"{self.digits('0000')} {self.one(_GOODS)} {self.chance.randint(1, 90)} {self.money()} {self.money()}"
            for _ in range(self.chance.randint(2, 9))
        )
        return "\n".join(rows)

    def hour(self) -> str:
        """A time of day."""
        hour, minute = self.chance.randint(8, 19), self.chance.choice((0, 15, 30))
        return f"{hour}:{minute:02}" if self._language == "en" else f"{hour}h{minute:02}"


_NEW_EACH_TIME = {"n", "data", "hora", "linhas"}

_INVENTED: dict[str, Callable[[Facts], str]] = {
    "nome": Facts.person,
    "empresa": lambda facts: facts.one(_FIRMS),
    "cidade": lambda facts: facts.one(_CITIES),
    "rua": lambda facts: facts.one(_STREETS),
    "orgao": lambda facts: facts.one(_OFFICES),
    "profissao": lambda facts: facts.one(_TRADES),
    "bem": lambda facts: facts.one(_THINGS),
    "servico": lambda facts: facts.one(_SERVICES),
    "clube": lambda facts: facts.one(_CLUBS),
    "data": Facts.date,
    "hora": Facts.hour,
    "valor": Facts.money,
    "linhas": Facts.rows,
    "n": lambda facts: str(facts.chance.randint(1, 980)),
    "ano": lambda facts: str(facts.chance.randint(2008, 2025)),
    "cpf": lambda facts: facts.digits("000.000.000-00"),
    "cnpj": lambda facts: facts.digits("00.000.000/0001-00"),
    "processo": lambda facts: facts.digits("0000000-00.2019.8.00.0000"),
    "chave": lambda facts: facts.digits("0000 0000 0000 0000 0000"),
}
