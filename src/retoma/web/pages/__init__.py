"""The pages: HTML made on the server, from one base, in two languages, right with JavaScript switched off.

**A page is a route like any other.** Its router has ``route_class=PageRoute``, its endpoint says ``@needs(scope)`` and
returns ``page(request, "noun/name.html", **values)``. The door brings the key (header or cookie), the language
(``?lang=``, cookie, Accept-Language, Portuguese), the ETag, and problems as a page where a page was asked for.

**Pages of an extension** are a router in its ``site`` and a link in its ``links``, with templates, static files and
words in its package; ``retoma.app.extension`` says how.

**A template extends** ``base.html`` and fills ``title`` and ``main``. What it may use beside its own values: ``ui``
(the macros of ``macros.html``), ``say(key, **values)``, ``url(path)``, ``static(name)``, ``look(kind, state)``,
``icon(name)``, ``may(scope)``, ``lang``, ``number(value)``, ``size(bytes)``. A name that is not there is an error.

**A region is a block.** An element whose id equals the name of a block of its page may be fetched alone: the request
carries ``HX-Request: true`` and ``HX-Target: tag#id``, as htmx and ``live.js`` send it, and gets the block and nothing
else. A block must hold the whole element, id included. So a region's address is that of its page. Where there are many
of a kind, the id goes on after two hyphens: ``row--42`` asks for the block ``row``.

**Scripts** come from ``static/`` (``<script defer src="{{ static('documents.js') }}">`` in the block ``scripts``);
inline code, ``hx-on`` and ``js:`` are refused by the policy. ``app.js`` gives ``retoma.{base, language, say, number,
when, announce, notice, refresh, localise, ask}``; the words that a script may say are those whose keys begin with what
the page passes as ``script_words=("upload.",)``. ``live.js`` says in its head which attributes make a page live.
"""

from __future__ import annotations

from retoma.web.pages.languages import language_for, prefers_page
from retoma.web.pages.render import page
from retoma.web.pages.route import PageRoute
from retoma.web.pages.styles import StateStyle, state_styles

__all__ = ["PageRoute", "StateStyle", "language_for", "page", "prefers_page", "state_styles"]
