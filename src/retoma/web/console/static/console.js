// Keys for the console. Single letters act outside fields only, and a switch turns them off (WCAG 2.1.4): the reader's
// choice is kept in this browser. Rows that j and k walk over carry data-row; the first link in a row is what Enter opens.
"use strict";

(() => {
  const OFF = "retoma_keys_off", PAIR = 1200;
  const places = { o: "", b: "batches", e: "errors", q: "queues", w: "workers", r: "review" };
  let first = 0, row = -1;

  const rows = () => [...document.querySelectorAll("[data-row]")];

  function walk(step) {
    const all = rows();
    if (!all.length) return;
    row = Math.min(all.length - 1, Math.max(0, row + step));
    for (const each of all) each.classList.toggle("chosen", each === all[row]);
    all[row].querySelector("a, button, input")?.focus();
    all[row].scrollIntoView({ block: "nearest" });
  }

  function tick() {
    const box = rows()[row]?.querySelector("input[type=checkbox]");
    box?.click();
  }

  function help(open) {
    const dialog = document.getElementById("keys");
    if (open) dialog.showModal();
    else dialog.close();
  }

  const acts = {
    "/": () => document.getElementById("console-search").focus(),
    "?": () => help(true),
    j: () => walk(1),
    k: () => walk(-1),
    x: tick,
    t: () => document.querySelector("[data-theme-switch]")?.click(),
    l: () => document.querySelector(".top-tools a[hreflang]")?.click(),
    p: () => document.dispatchEvent(new CustomEvent("retoma:pause")),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest?.("input, textarea, select, [contenteditable], dialog[open]")) return;
    if (localStorage.getItem(OFF)) return;
    const paired = performance.now() - first < PAIR;
    first = 0;
    if (paired && event.key in places) {
      event.preventDefault();
      location.assign(`${retoma.base}/console/${places[event.key]}`);
    } else if (event.key === "g") {
      first = performance.now();
    } else if (event.key in acts) {
      event.preventDefault();
      acts[event.key]();
    }
  });

  // A command beside a button: copied also where the page has no safe context.
  document.addEventListener("click", async (event) => {
    const text = event.target.closest?.("[data-copy]")?.dataset.copy;
    if (text === undefined) return;
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else {
      const field = document.createElement("textarea");
      field.value = text;
      document.body.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
    retoma.announce(retoma.say("base.copied"), { now: true });
  });
})();
