"""The FIPE table as Parallelum's API v1 shows it."""

from __future__ import annotations

import re

from retoma.testing.wire import Asked, Given

BRANDS = [("21", "Fiat"), ("59", "VW - VolksWagen"), ("33", "Land Rover"), ("80", "Rover")]
MODELS = {
    "21": [(437, "147 C/ CL"), (4828, "UNO MILLE 1.0 Fire/ F.Flex 2p"), (4829, "UNO Way 1.4 4p"), (5000, "Palio 1.0")],
    "59": [(5940, "Gol 1.0 Mi"), (5941, "Saveiro 1.6")],
    "33": [(700, "Defender 110")],
    "80": [(701, "Mini")],
}
YEARS = [("2013-1", "2013 Gasolina"), ("2012-1", "2012 Gasolina"), ("2012-3", "2012 Diesel")]
PATH = re.compile(r"/fipe/(\w+)/marcas(?:/(\d+)/modelos(?:/(\d+)/anos(?:/([\d-]+))?)?)?")


def table(asked: Asked) -> Given:
    found = PATH.fullmatch(asked.path)
    if not found:
        return Given.json({"error": "Not found"}, status=404)
    _, brand, model, year = found.groups()
    match brand, model, year:
        case None, _, _:
            return Given.json([{"codigo": code, "nome": name} for code, name in BRANDS])
        case _, None, _:
            models = [{"codigo": code, "nome": name} for code, name in MODELS.get(brand, [])]
            return Given.json({"modelos": models, "anos": [{"codigo": "2012-1", "nome": "2012 Gasolina"}]})
        case _, _, None:
            return Given.json([{"codigo": code, "nome": name} for code, name in YEARS])
    names = {str(code): name for models in MODELS.values() for code, name in models}
    return Given.json(
        {
            "TipoVeiculo": 1,
            "Valor": f"R$ {int(year[:4]) * 10:,}".replace(",", ".") + ",50",
            "Marca": dict(BRANDS)[brand],
            "Modelo": names[model],
            "AnoModelo": int(year[:4]),
            "Combustivel": "Gasolina",
            "CodigoFipe": "001163-3",
            "MesReferencia": "novembro de 2026 ",
            "SiglaCombustivel": "G",
        }
    )


ROUTES = [("/fipe/", table)]
