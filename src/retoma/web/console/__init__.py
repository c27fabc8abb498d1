"""The console: pages that show the system itself, whatever its pipelines are, and let people act on it.

One module for each page of the menu (``menu.py``), one template of the same name in ``templates/console``, its words in
the section of the same name. A page asks only the front door (``visit.app``) and shows no more than its reader may see;
what changes something is a POST with the scope of the same route of the API. ``retoma.web.pages`` says how pages work.
"""
