"""The ground under every page: words, looks, files, signing in, and what a browser may do with it all."""

import gzip
import hashlib
import re
import string
from pathlib import Path

import pytest

import retoma
from retoma.app.extension import load
from retoma.model.batch import BatchState
from retoma.model.job import JobState
from retoma.pipelines import ALL
from retoma.web import packages, pages
from retoma.web.pages.assets import address_of, assets
from retoma.web.pages.styles import ICONS
from retoma.web.words import LANGUAGES, phrase, phrases

from .conftest import House, Open, code

HTML = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
FOLDER = Path(pages.__file__).parents[1]
CONSOLE = FOLDER / "console"
SLICES = [CONSOLE] + [Path(retoma.__file__).parent / "pipelines" / each.name for each in ALL if each.package]
TEMPLATES = sorted(path for folder in (FOLDER, *SLICES) for path in (folder / "templates").rglob("*.html"))
SCRIPTS = sorted(path for folder in (FOLDER, *SLICES) for path in (folder / "static").glob("*.js"))
packages.serve(ALL)
for mounted in (mounted for each in ALL for mounted in each.site):
    load(mounted.router)  # the pages of a product bring the styles of their states
HTMX = "e484d9171a9db30a39c8f16e3d709d4137f3211c659f8e6125816635033d593f"


def braces(text: str) -> set[str | None]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


# — words —


def test_every_phrase_is_there_in_every_language_with_the_same_braces() -> None:
    english, portuguese = phrases("en"), phrases("pt")

    assert english.keys() == portuguese.keys()
    for key, text in english.items():
        assert text.strip(), key
        assert portuguese[key].strip(), key
        assert braces(text) == braces(portuguese[key]), key


def test_every_phrase_that_a_page_says_is_there() -> None:
    sources = [*TEMPLATES, *SCRIPTS, *(path for folder in (FOLDER, *SLICES) for path in folder.rglob("*.py"))]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    said = set(re.findall(r"""\bsay\(\s*["']([\w.]+)["']\s*[,)]""", text))
    named = {each.word for kind in pages.state_styles().values() for each in kind.values()}

    assert len(said) > 10
    assert said | named <= phrases("en").keys(), (said | named) - phrases("en").keys()


def test_one_is_said_as_one() -> None:
    assert phrase("pt", "live.paused", n=1) == "Atualização pausada. 1 novidade."
    assert phrase("pt", "live.paused", n=2) == "Atualização pausada. 2 novidades."


def test_silence_of_the_server_is_never_told_as_a_stall_of_the_work() -> None:
    assert phrase("pt", "live.silence", s=60) == (
        "Sem notícias do servidor há 60 s. O processamento continua no servidor; esta tela pode estar desatualizada."
    )
    for language in LANGUAGES:
        live = " ".join(text for key, text in phrases(language).items() if key.startswith("live."))
        assert not re.search(r"trava|stall|stuck", live, re.IGNORECASE)


def test_every_state_has_a_word_an_icon_and_a_tone() -> None:
    assert pages.state_styles()["job"].keys() == set(JobState)
    assert pages.state_styles()["batch"].keys() == set(BatchState)
    assert pages.state_styles()["document"].keys() == {"PENDING", "PROCESSING", "COMPLETED", "FAILED"}
    sheet = assets()["app.css"].body.decode()
    for kind in pages.state_styles().values():
        looks = [(look.word, look.icon) for look in kind.values()]
        assert len(set(looks)) == len(looks)
        for look in kind.values():
            assert look.icon in ICONS
            assert f".tone-{look.tone}" in sheet


# — files —


def test_htmx_is_the_one_that_was_looked_at() -> None:
    kept = assets()["vendor/htmx-4.0.0.min.js"].body

    assert hashlib.sha256(kept).hexdigest() == HTMX
    assert "Zero-Clause BSD" in (FOLDER / "static/vendor/htmx-4.0.0.LICENSE.txt").read_text(encoding="utf-8")


def test_a_file_has_its_content_in_its_address_and_is_kept_for_ever(still_house: House) -> None:
    served = still_house.client.get(address_of("app.css"))
    old = still_house.client.get("/static/000000000000/app.css")

    assert served.headers["content-type"] == "text/css; charset=utf-8"
    assert served.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert served.content == old.content == assets()["app.css"].body
    assert old.headers["cache-control"] == "private, no-cache"
    assert all(each.body for each in assets().values())


@pytest.mark.parametrize("name", ["nothing.css", "../making.py", "..%2fmaking.py", "%2e%2e/making.py", "app.css/", ""])
def test_there_is_no_way_to_any_other_file(still_house: House, name: str) -> None:
    assert code(still_house.client.get(f"/static/000000000000/{name}")) == (404, "not_found")


def test_nothing_is_inline_and_nothing_comes_from_elsewhere() -> None:
    for path in TEMPLATES:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\son\w+=|hx-on|javascript:|\bjs:|style=|<style|https?://", text), path.name
        for script in re.findall(r"<script[^>]*>", text):
            assert 'src="{{ static(' in script or 'type="application/json"' in script, path.name
    for path in SCRIPTS:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\beval\(|new Function|innerHTML|insertAdjacentHTML|https?://", text), path.name


def test_the_first_load_is_light() -> None:
    # Charts are loaded on the one tab that shows them.
    first = [asset for name, asset in assets().items() if "uPlot" not in name and not name.endswith("-charts.js")]
    whole = sum(len(gzip.compress(asset.body)) for asset in first)

    assert whole < 60_000, "a page weighs at most 60 KB the first time"


# — signing in —


def signed_in(house: House, key: dict[str, str], **options: str) -> str:
    """The cookie of a browser that signed in with *key*."""
    answered = house.client.post(
        "/login", data={"key": key["Authorization"].removeprefix("Bearer "), **options}, headers=HTML
    )
    assert answered.status_code == 303
    return answered.headers["set-cookie"]


def test_whoever_signs_in_gets_a_cookie_that_no_script_and_no_other_site_can_use(house: House) -> None:
    cookie = signed_in(house, house.key("read"), next="/documents?status=FAILED")

    assert re.fullmatch(r"retoma_session=rts_\S+; HttpOnly; Max-Age=43200; Path=/; SameSite=strict", cookie)
    house.client.cookies.clear()
    value = cookie.partition(";")[0]
    assert house.get("/jobs", headers={"Cookie": value}).status_code == 200
    assert code(house.get("/jobs")) == (401, "auth_missing")
    assert code(house.get("/jobs", headers={"Cookie": value[:-2]})) == (401, "auth_invalid")
    crossed = house.get("/jobs", headers={"Cookie": value, "Sec-Fetch-Site": "cross-site"})
    assert code(crossed) == (401, "auth_missing")


def test_a_cookie_has_the_scopes_of_its_key_and_changes_nothing_for_another_site(house: House) -> None:
    cookie = {"Cookie": signed_in(house, house.key("read", "submit")).partition(";")[0]}
    house.client.cookies.clear()
    order = {"pipeline": "double", "input": 1}

    assert house.post("/jobs", order, headers=cookie | {"Sec-Fetch-Site": "same-origin"}).status_code == 202
    assert code(house.post("/jobs/1/cancel", headers=cookie)) == (403, "scope_required")
    for strange in ({"Sec-Fetch-Site": "same-site"}, {"Origin": "http://127.0.0.1:9"}, {"Origin": "null"}):
        assert code(house.post("/jobs", order, headers=cookie | strange)) == (403, "cross_site_blocked")


def test_a_wrong_key_is_refused_with_the_same_form(house: House) -> None:
    house.key("read")

    refused = house.client.post("/login", data={"key": "rtm_nothing", "next": "/documents"}, headers=HTML)

    assert refused.status_code == 401
    assert "Esta chave não abre nada aqui" in refused.text
    assert 'name="next" value="/documents"' in refused.text
    assert "rtm_nothing" not in refused.text
    assert "set-cookie" not in refused.headers


@pytest.mark.parametrize(
    "place", ["//evil.example", "https://evil.example", "/\\evil.example", "evil", "/\t/evil.example", "javascript:x"]
)
def test_signing_in_leads_to_a_page_of_ours_and_nowhere_else(house: House, place: str) -> None:
    key = house.key("read")["Authorization"].removeprefix("Bearer ")

    led = house.client.post("/login", data={"key": key, "next": place})

    assert (led.status_code, led.headers["location"]) == (303, "/")


def test_another_site_cannot_sign_anybody_in_or_out(house: House) -> None:
    for path in ("/login", "/logout"):
        refused = house.client.post(path, data={"key": "x"}, headers={"Origin": "https://evil.example"})
        assert code(refused) == (403, "cross_site_blocked")
    assert code(house.client.get("/login", headers={"Host": "evil.example"})) == (421, "host_not_allowed")
    assert code(house.client.post("/login", content=b"x" * 4001)) == (413, "payload_too_large")


def test_signing_out_forgets_the_key(house: House) -> None:
    signed_in(house, house.key("read"))

    left = house.client.post("/logout")

    assert (left.status_code, left.headers["location"]) == (303, "/login")
    assert 'retoma_session=""; ' in left.headers["set-cookie"]
    assert "Max-Age=0" in left.headers["set-cookie"]


def test_behind_tls_the_cookies_stay_with_it(open_house: Open) -> None:
    house = open_house()
    key = house.key("read")["Authorization"].removeprefix("Bearer ")

    answered = house.client.post("/login", data={"key": key}, headers={"X-Forwarded-Proto": "https"})

    assert answered.status_code == 303
    assert "Secure" in answered.headers["set-cookie"]


# — language —


@pytest.mark.parametrize(
    ("query", "headers", "tag"),
    [
        ("", {}, "pt-BR"),
        ("", {"Accept-Language": "de"}, "pt-BR"),
        ("", {"Accept-Language": "en-GB, pt;q=0.5"}, "en"),
        ("", {"Accept-Language": "en", "Cookie": "retoma_lang=pt"}, "pt-BR"),
        ("?lang=en", {"Cookie": "retoma_lang=pt"}, "en"),
        ("?lang=pt-BR", {"Accept-Language": "en"}, "pt-BR"),
        ("?lang=xx", {}, "pt-BR"),
    ],
)
def test_a_page_speaks_the_language_that_was_chosen(
    still_house: House, query: str, headers: dict[str, str], tag: str
) -> None:
    shown = still_house.client.get(f"/login{query}", headers=HTML | headers)

    assert shown.headers["content-language"] == tag
    assert f'<html lang="{tag}"' in shown.text
    assert ("retoma_lang=" in shown.headers.get("set-cookie", "")) == (query in ("?lang=en", "?lang=pt-BR"))
    still_house.client.cookies.clear()


def test_a_page_may_load_only_what_is_ours(still_house: House) -> None:
    shown = still_house.client.get("/login", headers=HTML)

    policy = dict(part.split(" ", 1) for part in shown.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert "unsafe" not in shown.headers["content-security-policy"]
    assert shown.headers["x-content-type-options"] == "nosniff"


# — an app that brings no page —


def test_the_root_leads_a_browser_to_the_console(open_house: Open) -> None:
    house = open_house()

    led = house.client.get("/", headers=HTML, follow_redirects=False)
    shown = house.client.get("/", headers=HTML, follow_redirects=True)

    assert (led.status_code, led.headers["Location"]) == (307, "/console/")
    assert (shown.status_code, shown.url.path) == (200, "/console/")


@pytest.mark.parametrize("path", ["/api/v1", "/api/v1/"])
def test_an_app_without_pages_shows_a_browser_what_its_api_can_do(open_house: Open, path: str) -> None:
    house = open_house()

    led = house.client.get(path, headers=HTML, follow_redirects=False)
    shown = house.client.get(path, headers=HTML, follow_redirects=True)

    assert (led.status_code, led.headers["Location"]) == (307, "/docs")
    assert shown.status_code == 200
    assert "/api/v1/jobs" in shown.text


def test_a_program_that_asks_for_the_api_itself_gets_its_description(open_house: Open) -> None:
    house = open_house()

    described = house.client.get("/api/v1", follow_redirects=True)

    assert "/api/v1/jobs" in described.json()["paths"]
