"""SerpAPI's Google Shopping: the key is in the address."""

from __future__ import annotations

from retoma.testing.wire import Asked, Given


def search(asked: Asked) -> Given:
    key = asked.query.get("api_key", "")
    if "secret" not in key:
        return Given.json({"error": f"Invalid API key {key}. Your API key should be here."}, status=401)
    meta = {"id": "s1", "status": "Success", "json_endpoint": f"https://serpapi.com/searches/s1.json?api_key={key}"}
    if asked.query["q"] == "nada":
        return Given.json({"search_metadata": meta, "error": "Google hasn't returned any results for this query."})
    return Given.json({"search_metadata": meta, "shopping_results": RESULTS})


RESULTS = [
    {
        "position": 1,
        "title": "Cadeira de escritório",
        "product_link": "https://shop.example/1",
        "source": "Loja A",
        "price": "R$ 1.299,90",
        "extracted_price": 1299.9,
    },
    {"position": 2, "title": "Cadeira sem preço", "source": "Loja B"},
    {
        "position": 3,
        "title": "Office chair",
        "link": "https://shop.example/3",
        "source": "Shop C",
        "price": "US$ 80.10",
        "extracted_price": 80.1,
    },
    {"position": 4, "title": "Cadeira gamer", "source": "Loja D", "price": "R$900", "extracted_price": 900},
]

ROUTES = [("/search.json", search)]
