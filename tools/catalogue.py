"""Write the catalogue of invented offers and official records that quotes are tried with offline.

Everything in it is invented: shops end with .test, which belongs to nobody; brands, bodies and suppliers do not exist.
The same program writes the same file.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "src/retoma/pipelines/quotes/pricing/catalogue/catalogue.json"

# Title, code in the catalogue of materials (invented), price.
PRODUCTS: tuple[tuple[str, int, int], ...] = (
    ("Cadeira giratória presidente com braços", 900001, 890),
    ("Cadeira fixa empilhável polipropileno", 900002, 149),
    ("Mesa de escritório 120 cm com gavetas", 900003, 620),
    ("Mesa de reunião oval 8 lugares", 900004, 1850),
    ("Armário de aço 2 portas com chave", 900005, 1290),
    ("Arquivo de aço 4 gavetas", 900006, 980),
    ("Estante de aço 6 prateleiras", 900007, 410),
    ("Gaveteiro volante 3 gavetas", 900008, 385),
    ("Longarina 3 lugares estofada", 900009, 740),
    ("Quadro branco 120 x 90 cm magnético", 900010, 265),
    ("Notebook 15,6 polegadas 16 GB SSD 512 GB", 900011, 3890),
    ("Computador desktop 16 GB SSD 512 GB", 900012, 3250),
    ("Monitor LED 24 polegadas Full HD", 900013, 799),
    ("Impressora laser monocromática duplex", 900014, 1390),
    ("Multifuncional jato de tinta wi-fi", 900015, 1120),
    ("Projetor multimídia 3600 lumens", 900016, 2980),
    ("Nobreak 1500 VA bivolt", 900017, 1050),
    ("Switch 24 portas gigabit gerenciável", 900018, 1680),
    ("Roteador wi-fi 6 dual band", 900019, 489),
    ("Tablet 10 polegadas 128 GB", 900020, 1450),
    ("Telefone IP com visor", 900021, 420),
    ("Scanner de mesa com alimentador automático", 900022, 2340),
    ("Televisor LED 50 polegadas 4K", 900023, 2290),
    ("Câmera de segurança IP externa", 900024, 329),
    ("Ar-condicionado split 12000 BTU inverter", 900025, 2390),
    ("Ventilador de coluna 50 cm", 900026, 239),
    ("Refrigerador frost free 400 litros", 900027, 3190),
    ("Frigobar 120 litros", 900028, 1180),
    ("Micro-ondas 30 litros", 900029, 690),
    ("Bebedouro de coluna com compressor", 900030, 870),
    ("Cafeteira elétrica 30 xícaras", 900031, 219),
    ("Fogão industrial 4 bocas", 900032, 1290),
    ("Lavadora de alta pressão 1800 W", 900033, 640),
    ("Roçadeira a gasolina 43 cilindradas", 900034, 980),
    ("Furadeira de impacto 750 W", 900035, 359),
    ("Balança eletrônica 30 kg", 900036, 780),
    ("Fragmentadora de papel 20 folhas", 900037, 1190),
    ("Maca de exame clínico estofada", 900038, 940),
)
BRANDS = ("Araponga", "Jatobá", "Buriti", "Seriema", "Ipuã", "Carnaúba")
SHOPS = (
    "lojaveredas", "casaaraguaia", "magazinejequi", "pontotamarindo", "emporiosabia", "mercadoparati",
    "officeburiti", "tudojacaranda", "bazarguara", "lojaoimbuia",
)  # fmt: skip
SHAPES = ("graph", "offers", "aggregate", "specification", "variants", "microdata", "meta", "element", "pieces", "list")
TRAPS = (
    "instalment", "old", "currency", "listing", "duplicate", "sold-out", "foreign", "mismatch", "blocked", "no-price",
)  # fmt: skip
GOOD = 7
WITH_TRAPS = 2
BODIES = (
    "Prefeitura Municipal de Pedra Alta",
    "Universidade do Planalto Novo",
    "Câmara de Rio Manso",
    "Instituto Serra",
)
UNITS = (("PE", "Caetés do Norte"), ("MG", "Pedra Alta"), ("GO", "Planalto Novo"), ("PR", "Rio Manso"))
VEHICLES: tuple[tuple[str, str, str, tuple[tuple[int, int], ...]], ...] = (
    ("carros", "Ipuã", "Capivara 1.0 Flex 4p", ((2020, 48900), (2021, 53400), (2022, 58100))),
    ("carros", "Ipuã", "Capivara 1.6 Flex 4p Automático", ((2021, 66700), (2022, 71900))),
    ("carros", "Jatobá", "Tatu Cabine Dupla 2.8 Diesel 4x4", ((2019, 139800), (2021, 168500))),
    ("carros", "Seriema", "Lontra Sedan 2.0 Flex", ((2020, 79900), (2023, 104300))),
    ("motos", "Araponga", "Guará 160", ((2021, 13900), (2022, 15200))),
    ("caminhoes", "Buriti", "Anta 11.180 2p Diesel", ((2018, 198700), (2020, 241900))),
)


def main() -> None:
    """Write the file."""
    written = {
        "about": "Invented offers and records in the shapes of the services; written by tools/catalogue.py.",
        **shopping(),
        "compras": compras(),
        "pncp": pncp(),
        "fipe": fipe(),
    }
    TARGET.write_text(json.dumps(written, ensure_ascii=False, indent=0, sort_keys=True) + "\n", encoding="utf-8")


def brl(price: Decimal) -> str:
    return f"R$ {price:,.2f}".translate(str.maketrans(",.", ".,"))


def shopping() -> dict[str, Any]:
    """Offers as google_shopping lists them, and the page behind each."""
    results, pages = [], {}
    for number, (title, _, base) in enumerate(PRODUCTS):
        traps = [TRAPS[(number * WITH_TRAPS + each) % len(TRAPS)] for each in range(WITH_TRAPS)]
        for place in range(GOOD + WITH_TRAPS):
            trap = traps[place - GOOD] if place >= GOOD else ""
            percent = 100 + (place * 3 + number) % 19
            price = (Decimal(base) * percent / 100).quantize(Decimal("0.01")) - Decimal("0.10")
            shop = SHOPS[(number if trap == "duplicate" else number + place) % len(SHOPS)]
            domain = f"{shop}{'.com' if trap == 'foreign' else '.com.br'}.test"
            name = f"{title} {BRANDS[(number + place) % len(BRANDS)]}"
            path = f"/{'busca' if trap == 'listing' else 'produto'}/{number + 1}-{place + 1}"
            token = f"catalogue-{number + 1}-{place + 1}"
            pages[f"{domain}{path}"] = {
                "title": name,
                "price": str(price),
                "shape": trap or SHAPES[(number + place) % len(SHAPES)],
            }
            results.append(
                {
                    "position": place + 1,
                    "title": name,
                    "product_id": f"{number + 1:03}{place + 1:02}",
                    "immersive_product_page_token": token,
                    "source": shop.capitalize(),
                    "price": f"{brl(price)} agora",
                    "extracted_price": float(price),
                    "installment": {
                        "price": brl(price / 10),
                        "extracted_price": float((price / 10).quantize(Decimal("0.01"))),
                        "period": 10,
                    },
                    "link": f"http://{domain}{path}",
                }
            )
            if place % 3 == 0:
                results[-1]["old_price"] = brl(price * 2)
                results[-1]["extracted_old_price"] = float(price * 2)
    return {"shopping_results": results, "pages": pages}


def compras() -> list[dict[str, Any]]:
    """Purchases as the open data of Compras.gov.br tell them."""
    return [
        {
            "idCompra": f"99{number:04}0500{each:03}2026",
            "idItemCompra": f"99{number:04}0500{each:03}202600001",
            "forma": "SISPP",
            "modalidade": 5,
            "descricaoItem": title.upper(),
            "codigoItemCatalogo": code,
            "nomeUnidadeFornecimento": "UNIDADE",
            "siglaUnidadeFornecimento": "UN",
            "capacidadeUnidadeFornecimento": 0,
            "quantidade": 5 * (each + 1),
            "precoUnitario": float(Decimal(base) * (90 + each * 4) / 100),
            "percentualMaiorDesconto": 0,
            "niFornecedor": f"00000000{number:04}{each:02}",
            "nomeFornecedor": f"{BRANDS[(number + each) % len(BRANDS)].upper()} COMERCIO INVENTADO LTDA",
            "marca": BRANDS[(number + each) % len(BRANDS)].upper(),
            "codigoUasg": f"99{number:04}",
            "nomeUasg": BODIES[each % len(BODIES)].upper(),
            "municipio": UNITS[each % len(UNITS)][1],
            "estado": UNITS[each % len(UNITS)][0],
            "nomeOrgao": BODIES[each % len(BODIES)].upper(),
            "poder": "E",
            "esfera": "M",
            "dataCompra": f"2026-{4 + each:02}-10",
            "dataResultado": f"2026-{4 + each:02}-20",
        }
        for number, (title, code, base) in enumerate(PRODUCTS)
        if number % 2 == 0
        for each in range(5)
    ]


def pncp() -> dict[str, Any]:
    """Contracts as PNCP publishes them, with their items and results."""
    contracts, items, results = [], {}, {}
    for number, (title, _, base) in enumerate(PRODUCTS):
        if number % 3:
            continue
        cnpj, year, sequence = f"000000{number:04}0001", 2026, number + 1
        body = BODIES[number % len(BODIES)]
        state, city = UNITS[number % len(UNITS)]
        contracts.append(
            {
                "numeroControlePNCP": f"{cnpj}-1-{sequence:06}/{year}",
                "orgaoEntidade": {"cnpj": cnpj, "razaoSocial": body.upper(), "poderId": "E", "esferaId": "M"},
                "unidadeOrgao": {"ufSigla": state, "municipioNome": city, "nomeUnidade": body.upper()},
                "anoCompra": year,
                "sequencialCompra": sequence,
                "objetoCompra": f"Aquisição de {title.lower()}",
                "modalidadeId": 6,
                "modalidadeNome": "Pregão - Eletrônico",
                "dataPublicacaoPncp": f"2026-0{1 + number % 9}-15T10:00:00",
                "situacaoCompraNome": "Divulgada no PNCP",
            }
        )
        place = f"{cnpj}/{year}/{sequence}"
        items[place] = [
            {
                "numeroItem": 1,
                "descricao": title,
                "quantidade": 10,
                "unidadeMedida": "Unidade",
                "valorUnitarioEstimado": base * 1.1,
                "temResultado": True,
                "situacaoCompraItemNome": "Homologado",
            }
        ]
        results[f"{place}/1"] = [
            {
                "numeroItem": 1,
                "sequencialResultado": 1,
                "niFornecedor": f"0000000{number:05}01",
                "nomeRazaoSocialFornecedor": f"{BRANDS[number % len(BRANDS)].upper()} FORNECIMENTOS INVENTADOS LTDA",
                "quantidadeHomologada": 10,
                "valorUnitarioHomologado": round(base * 0.97, 2),
                "dataResultado": f"2026-0{1 + number % 9}-28",
            }
        ]
    return {"contratacoes": contracts, "itens": items, "resultados": results}


def fipe() -> dict[str, Any]:
    """Vehicles as the FIPE table answers them."""
    tables: dict[str, dict[str, Any]] = {}
    for number, (kind, brand, model, years) in enumerate(VEHICLES):
        brand_code = str(900 + BRANDS.index(brand))
        fuel, sign = ("Diesel", "D") if "Diesel" in model else ("Gasolina", "G")
        found = tables.setdefault(kind, {}).setdefault(brand_code, {"nome": brand, "modelos": {}})
        found["modelos"][str(9000 + number)] = {
            "nome": model,
            "anos": {
                f"{year}-1": {
                    "TipoVeiculo": {"carros": 1, "motos": 2, "caminhoes": 3}[kind],
                    "Valor": brl(Decimal(price)),
                    "Marca": brand,
                    "Modelo": model,
                    "AnoModelo": year,
                    "Combustivel": fuel,
                    "CodigoFipe": f"9{number:05}-{number % 10}",
                    "MesReferencia": "novembro de 2026",
                    "SiglaCombustivel": sign,
                }
                for year, price in years
            },
        }
    return tables


if __name__ == "__main__":
    main()
