// What every page can do: words, times and numbers in the reader's language, notices, questions, theme, regions.
// Scripts of single pages build on window.retoma. No inline code, no eval.
"use strict";

window.retoma = (() => {
  const root = document.documentElement;
  const words = JSON.parse(document.getElementById("words").textContent);
  const language = root.lang;
  const base = root.dataset.base;
  const numbers = new Intl.NumberFormat(language);
  const moments = new Intl.DateTimeFormat(language, { dateStyle: "short", timeStyle: "short" });
  const whole = new Intl.DateTimeFormat(language, { dateStyle: "full", timeStyle: "long" });

  // A phrase of the catalogue, filled in; "key_one" is said when n is 1. A missing key is our mistake: it is shown.
  function say(key, values = {}) {
    const text = (values.n === 1 && words[`${key}_one`]) || words[key] || key;
    return text.replace(/\{(\w+)\}/g, (_, name) =>
      typeof values[name] === "number" ? number(values[name]) : String(values[name] ?? ""));
  }

  function number(value) {
    return numbers.format(value);
  }

  function when(value) {
    return moments.format(new Date(value));
  }

  function localise(within = document) {
    for (const time of within.querySelectorAll("time[datetime]:not([title])")) {
      const moment = new Date(time.dateTime);
      if (Number.isNaN(moment.valueOf())) continue;
      time.textContent = moments.format(moment);
      time.title = whole.format(moment);
    }
  }

  // — one voice for those who listen: what a person did is told at once, what moves by itself at most each 30 s —

  const QUIET = 30_000;
  let spokenAt = -QUIET, waiting = null, later = 0;

  function announce(text, { now = false } = {}) {
    const left = spokenAt + QUIET - performance.now();
    waiting = text;
    if (now || left <= 0) return speak();
    if (!later) later = setTimeout(speak, left);
  }

  function speak() {
    clearTimeout(later);
    later = 0;
    spokenAt = performance.now();
    document.getElementById("announcer").textContent = waiting;
  }

  function notice(tone, title, text = "") {
    const box = document.createElement("div");
    box.className = `notice tone-${tone}`;
    box.setAttribute("role", tone === "bad" ? "alert" : "status");
    const inner = document.createElement("div");
    inner.className = "notice-text";
    const strong = document.createElement("strong");
    strong.textContent = title;
    inner.append(strong);
    if (text) {
      const more = document.createElement("p");
      more.textContent = text;
      inner.append(more);
    }
    box.append(inner);
    document.getElementById("notices").replaceChildren(box);
  }

  // — regions: an element with an id and data-url is fetched again alone, and morphed, so focus and ticks stay —

  const tags = new WeakMap();
  const under = new Map();

  function refresh(region) {
    const running = under.get(region.id);
    if (running) {
      running.again = true;
      return running.done;
    }
    const state = { again: false };
    state.done = (async () => {
      try {
        do {
          state.again = false;
          await fetched(region);
        } while (state.again);
      } finally {
        under.delete(region.id);
      }
    })();
    under.set(region.id, state);
    return state.done;
  }

  async function fetched(region) {
    const headers = {
      Accept: "text/html",
      "HX-Request": "true",
      "HX-Target": `${region.tagName.toLowerCase()}#${region.id}`,
    };
    if (tags.has(region)) headers["If-None-Match"] = tags.get(region);
    let answer;
    try {
      answer = await fetch(region.dataset.url, { headers, cache: "no-store" });
    } catch {
      return false;
    }
    if (answer.headers.has("HX-Redirect")) location.assign(answer.headers.get("HX-Redirect"));
    if (answer.status !== 200) return answer.status === 304;
    const text = await answer.text();
    if (!region.isConnected) return false;
    const id = region.id;
    await htmx.swap({ text, target: region, sourceElement: region, swap: "outerMorph" });
    const shown = document.getElementById(id);
    if (shown && answer.headers.has("ETag")) tags.set(shown, answer.headers.get("ETag"));
    return true;
  }

  // — the question before what cannot be taken back —

  function ask(text) {
    const dialog = document.getElementById("ask");
    document.getElementById("ask-text").textContent = text;
    dialog.returnValue = "no";
    dialog.showModal();
    return new Promise((resolve) =>
      dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
  }

  document.addEventListener("htmx:confirm", async (event) => {
    event.preventDefault();
    const { ctx, issueRequest, dropRequest } = event.detail;
    (await ask(ctx.confirm)) ? issueRequest() : dropRequest();
  });

  document.addEventListener("htmx:error", () => notice("bad", say("base.failed"), say("base.offline")));
  // What somebody else swapped is not what its tag was given for, nor is what holds it or what it holds.
  document.addEventListener("htmx:after:swap", (event) => {
    const { target } = event.detail.ctx;
    const swapped = typeof target === "string" ? document.querySelector(target) : target;
    for (const each of swapped?.querySelectorAll("[data-url]") ?? []) tags.delete(each);
    for (let each = swapped; each; each = each.parentElement) tags.delete(each);
    localise();
  });

  // — theme: as the system, light, dark; the server reads the cookie, so that nothing flashes —

  function theme() {
    const order = { auto: "light", light: "dark", dark: "auto" };
    const next = order[root.dataset.theme || "auto"];
    if (next === "auto") delete root.dataset.theme;
    else root.dataset.theme = next;
    document.cookie = `retoma_theme=${next}; path=${base || "/"}; max-age=31536000; samesite=strict`;
    announce(say(`base.theme_now.${next}`), { now: true });
  }

  document.addEventListener("click", (event) => {
    if (event.target.closest?.("[data-theme-switch]")) theme();
  });

  // — where a menu is wider than its row: the place of this page in it is in view —

  function inView(chosen) {
    const row = chosen.closest("nav");
    const space = row.getBoundingClientRect(), place = chosen.getBoundingClientRect();
    if (row.scrollWidth > row.clientWidth) row.scrollLeft += place.left - space.left - (space.width - place.width) / 2;
  }

  root.classList.add("scripted");
  localise();
  for (const chosen of document.querySelectorAll("nav a[aria-current]")) inView(chosen);

  return { base, language, say, number, when, localise, announce, notice, refresh, ask };
})();
