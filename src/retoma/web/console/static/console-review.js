// The review desk with keys. A decision is put into an outbox and sent; the next thing, which was fetched before, is shown
// at once. What was not answered is sent again with the same key until it is: the server knows a decision by its key, so
// nothing is lost and nothing counts twice, also when the server was killed in between or this page is loaded anew.
"use strict";

(() => {
  const OUTBOX = "retoma_review_outbox", OFF = "retoma_keys_off", RENEW = 20_000, PAIR = 1200;
  const desk = () => document.getElementById("desk");
  let ahead = null, shownAt = performance.now(), sending = false, pairAt = -PAIR, failures = 0;

  const kept = () => JSON.parse(sessionStorage.getItem(OUTBOX) || "[]");
  const keep = (all) => sessionStorage.setItem(OUTBOX, JSON.stringify(all));

  function pending() {
    const waiting = kept().length, badge = document.getElementById("review-saving");
    badge.hidden = !failures || !waiting;
    badge.textContent = retoma.say("console.review.saving", { n: waiting });
  }

  function counted(n, waiting) {
    const place = document.getElementById("review-n");
    place.dataset.n = n;
    place.textContent = retoma.say("console.review.sitting", { n, count: retoma.number(n) });
    if (waiting !== undefined) {
      document.getElementById("review-waiting").textContent = retoma.say("console.review.left", { n: waiting, count: retoma.number(waiting) });
    }
  }

  async function region(place) {
    const answer = await fetch(place, { headers: { Accept: "text/html", "HX-Request": "true", "HX-Target": "section#desk" } });
    if (!answer.ok) throw new Error(String(answer.status));
    return { place, html: await answer.text() };
  }

  // The next thing, read before it is wanted. A failure only means that it is read when it is wanted.
  function fetchAhead(place) {
    if (!place || ahead?.place === place) return;
    const asked = { place, coming: region(place) };
    asked.coming.then((found) => { asked.html = found.html; }, () => { if (ahead === asked) ahead = null; });
    ahead = asked;
  }

  function show(found) {
    const fresh = new DOMParser().parseFromString(found.html, "text/html").getElementById("desk");
    if (!fresh) return location.assign(found.place);
    desk().replaceWith(fresh);
    history.pushState({}, "", found.place);
    begin();
    retoma.announce(document.getElementById("desk-title").textContent, { now: true });
  }

  // A page that cannot be drawn: its text stays, and the reason stands where the picture would.
  async function unshown(image) {
    if (image.dataset.failed) return;
    image.dataset.failed = "yes";
    let why = "";
    try {
      const answer = await fetch(image.src, { headers: { Accept: "application/json", "Accept-Language": document.documentElement.lang } });
      if (!answer.ok) why = (await answer.json()).detail;
    } catch { /* nobody answers; the general words are enough */ }
    const said = document.createElement("p");
    said.className = "soft review-no-image";
    said.setAttribute("role", "status");
    said.textContent = why || retoma.say("console.review.image_failed");
    const sides = image.closest(".review-sides");
    image.closest(".review-page").replaceWith(said);
    sides.classList.remove("both");
  }

  document.addEventListener("error", (event) => { if (event.target.matches?.(".review-image")) unshown(event.target); }, true);

  function begin() {
    const image = desk().querySelector(".review-image");
    if (image?.complete && !image.naturalWidth) unshown(image);
    shownAt = performance.now();
    retoma.localise(desk());
    document.getElementById("passage")?.scrollIntoView({ block: "nearest" });
    desk().focus({ preventScroll: true });
    fetchAhead(desk().dataset.next);
  }

  function decide(action) {
    const form = document.getElementById("decide");
    if (!form || desk().dataset.sent) return;
    desk().dataset.sent = "yes";
    form.elements.seconds.value = ((performance.now() - shownAt) / 1000).toFixed(2);
    const said = new URLSearchParams(new FormData(form));
    said.set("do", action);
    const n = Number(document.getElementById("review-n").dataset.n);
    said.set("n", n);
    keep([...kept(), { place: form.action, body: said.toString(), back: desk().dataset.place }]);
    if (action !== "skip") counted(n + 1);
    const following = ahead;
    ahead = null;
    if (following?.html && following.place.split("?")[0] !== form.action.split("?")[0]) show(following);
    send();
  }

  async function send() {
    if (sending) return;
    sending = true;
    while (kept().length) {
      const [first] = kept();
      const answer = await post(first);
      if (answer === null) {
        failures += 1;
        pending();
        await new Promise((go) => setTimeout(go, Math.min(3000, 100 * 2 ** failures)));
        continue;
      }
      failures = 0;
      keep(kept().slice(1));
      pending();
      await answered(first, answer);
    }
    sending = false;
  }

  // The answer; null when there was none, or one that says to come again.
  async function post(each) {
    try {
      const answer = await fetch(each.place, {
        method: "POST", body: each.body, keepalive: each.body.length < 60_000,
        headers: { Accept: "application/json", "Content-Type": "application/x-www-form-urlencoded" },
      });
      if (answer.status === 429 || answer.status >= 500) return null;
      return { ok: answer.ok, status: answer.status, said: await answer.json() };
    } catch {
      return null;
    }
  }

  async function answered(each, answer) {
    if (!answer.ok) {
      retoma.notice("bad", retoma.say("console.review.wrong"), answer.said.detail || "");
      // What could not be decided is shown again; what somebody else has decided is passed over.
      if (answer.status !== 409 && answer.status !== 404) return show(await region(each.back));
      if (desk().dataset.sent && !kept().length) location.assign(each.back);
      return;
    }
    const { next, n, waiting, end } = answer.said;
    if (!kept().length) counted(n, waiting);
    const here = desk().dataset.review;
    const others = next.filter((place) => !place.split("?")[0].endsWith(`/${here}`));
    if (desk().dataset.sent) {
      if (!others.length) return location.assign(end);
      show(await again(() => region(others[0])));
      fetchAhead(others[1]);
    } else if (others.length) {
      fetchAhead(others[0]);
    }
  }

  async function again(ask) {
    for (let tries = 0; ; tries += 1) {
      try {
        return await ask();
      } catch {
        await new Promise((go) => setTimeout(go, Math.min(3000, 100 * 2 ** tries)));
      }
    }
  }

  async function undo() {
    const form = document.getElementById("undo");
    while (kept().length) await new Promise((go) => setTimeout(go, 50));
    const said = new URLSearchParams(new FormData(form));
    said.set("n", document.getElementById("review-n").dataset.n);
    said.set("key", `undo ${crypto.randomUUID?.() ?? Math.random()}`);
    const answer = await post({ place: form.action, body: said.toString() });
    if (!answer?.ok) return retoma.notice("bad", retoma.say("console.review.wrong"), answer?.said.detail || "");
    const before = desk().dataset.place;
    counted(answer.said.n);
    show(await again(() => region(answer.said.at)));
    ahead = null;
    fetchAhead(before);
  }

  function opens(id, field) {
    const fold = document.getElementById(id);
    if (!fold) return;
    fold.open = true;
    document.getElementById(field).focus();
  }

  const acts = {
    Enter: () => decide("accept"),
    e: () => opens("edit", "value"),
    r: () => opens("reject", "note"),
    s: () => decide("skip"),
    u: undo,
    "?": () => document.getElementById("review-keys").showModal(),
  };

  // Before the keys of the console, which leave alone what was taken here.
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || localStorage.getItem(OFF)) return;
    const field = event.target.closest?.("input, textarea, select, [contenteditable], dialog[open]");
    if (field) {
      if (event.key === "Escape" && !field.matches("dialog")) { field.closest("details")?.removeAttribute("open"); desk().focus(); }
      if (event.key === "Enter" && field.id === "note") { event.preventDefault(); decide("reject"); }
      return;
    }
    const paired = performance.now() - pairAt < PAIR;
    pairAt = event.key === "g" ? performance.now() : -PAIR;
    if (paired || (event.key === "Enter" && event.target.closest?.("a, button, summary"))) return;
    const choice = /^[1-9]$/.test(event.key) && document.querySelector(`[data-do="choose:${event.key}"]`);
    if (!choice && !(event.key in acts)) return;
    event.preventDefault();
    if (choice) decide(choice.dataset.do);
    else acts[event.key]();
  }, true);

  document.addEventListener("submit", (event) => {
    if (event.target.id === "decide") {
      event.preventDefault();
      decide(event.submitter?.dataset.do || "accept");
    } else if (event.target.id === "undo") {
      event.preventDefault();
      undo();
    }
  });

  addEventListener("popstate", () => location.reload());

  setInterval(async () => {
    if (!desk()?.dataset.open || kept().length) return;
    const answer = await post({ place: desk().dataset.renew, body: "" });
    const mine = desk().dataset.review;
    if (answer?.ok && !answer.said.ids.includes(Number(mine)) && !desk().dataset.sent) location.assign(desk().dataset.place);
  }, RENEW);

  begin();
  if (kept().length) {
    const own = document.getElementById("decide")?.action;
    if (kept().some((each) => each.place === own)) desk().dataset.sent = "yes";
    failures = 1;
    send();
  }
})();
