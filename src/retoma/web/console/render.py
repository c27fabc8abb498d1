"""A page of the console: the template in the console's frame, with its menu."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse

from retoma.web.console.menu import MENU
from retoma.web.pages.render import page


def console_page(request: Request, name: str, *, current: str, status: int = 200, **values: Any) -> HTMLResponse:
    """The page of template *name* below ``console/``; *current* is the path of the menu's entry that it belongs to."""
    return page(request, f"console/{name}", status=status, menu=MENU, current=current, **values)
