// Live pages, on the browser's own EventSource. The stream only observes: what it says is that something changed, and
// the regions that care are fetched again from their own addresses.
//
//   <section data-live="…/events" data-live-status="…/status">         one element of the page holds the stream
//     data-live-events="snapshot progress items state reset end"        names to listen for (heartbeat always is)
//     data-live-cursor="412"          the last event that the page was made with; a fresh stream begins after it
//     data-live-cursor-name="after"   how the server is told, in the query ("after" unless said otherwise)
//     data-live-final="end concluido" events after which nothing follows: the stream is closed for good ("end")
//     data-live-ended                 present when there is nothing to wait for: no stream is opened
//     data-live-silence="60"          seconds without any event, heartbeats included, until the notice (clock A)
//     data-live-poll="5"              seconds between two looks at the status while the stream is down
//     data-live-hidden="30"           seconds after which a hidden tab lets go of the stream
//   <div id="bar" data-url="…" data-refresh-on="progress state">        a region, and the events that concern it
//     data-refresh-wait="1000"        milliseconds in which several events make one refresh (400)
//     data-refresh-every="5"          seconds after which it is fetched again also without an event
//   <button data-live-pause>          stops all refreshes until it is pressed again; so does "retoma:pause" on document.
//                                     What comes meanwhile is counted in #live-paused, and shown when it goes on
//
// A browser gives one server six connections at a time, and every stream holds one. So of many tabs the four that were
// used last hold a stream; the others look now and then, and take it up again when somebody comes back to them.
//
// On document: "retoma:event" with detail {name, id, data} for every event, "retoma:live" with detail {up}. A look at
// the status that brings something new is told as an event called "status", which concerns every region.
"use strict";

(() => {
  const home = document.querySelector("[data-live]");
  if (!home || home.hasAttribute("data-live-ended")) return;

  const seconds = (name, usual) => Number(home.dataset[name] ?? usual) * 1000;
  const names = (text) => (text ?? "").split(/\s+/).filter(Boolean);
  const SILENCE = seconds("liveSilence", 60), POLL = seconds("livePoll", 5), HIDDEN = seconds("liveHidden", 30);
  const DEBOUNCE = 400, AGAIN = 3000, STREAMS = 4;
  const final = names(home.dataset.liveFinal ?? "end");
  const listened = new Set([...names(home.dataset.liveEvents), ...final, "heartbeat", "reset", "message"]);

  const started = performance.now();
  let stream = null, cursor = home.dataset.liveCursor || "", heardAt = performance.now(), over = false, up = false;
  let polling = 0, opening = 0, hiding = 0, tag = "";
  const due = new Map(), lately = new Map();
  let paused = false, missed = 0;
  const tabs = "BroadcastChannel" in window ? new BroadcastChannel("retoma-live") : null;
  let younger = 0, resting = false;

  // — the stream —

  function open() {
    clearTimeout(opening);
    if (over || document.hidden) return;
    stream?.close();
    const url = new URL(home.dataset.live, document.baseURI);
    if (cursor) url.searchParams.set(home.dataset.liveCursorName ?? "after", cursor);
    stream = new EventSource(url);
    stream.onopen = () => turn(true);
    stream.onerror = () => {
      turn(false);
      // Closed means that the browser will not try again by itself; we do, with the cursor, so nothing is lost.
      if (stream.readyState === EventSource.CLOSED) opening = setTimeout(open, AGAIN);
    };
    for (const name of listened) stream.addEventListener(name, (event) => hear(name, event));
    younger = 0;
    resting = false;
    tabs?.postMessage("opened");
  }

  // Another tab has opened a stream: when there are enough younger ones, this one lets go.
  function makeRoom() {
    if (!stream || (younger += 1) < STREAMS) return;
    close();
    resting = true;
    turn(false);
    if (!polling) polling = setInterval(() => document.hidden || freshen("status"), POLL);
  }

  function comeBack() {
    if (!resting || over) return;
    heardAt = performance.now();
    open();
    freshen("status");
  }

  tabs?.addEventListener("message", makeRoom);
  addEventListener("focus", comeBack);

  function close() {
    clearTimeout(opening);
    stream?.close();
    stream = null;
  }

  function hear(name, event) {
    heardAt = performance.now();
    if (event.lastEventId) cursor = event.lastEventId;
    turn(true);
    hush();
    let data = event.data;
    try {
      data = JSON.parse(event.data);
    } catch { /* plain text is all right */ }
    tell(name, event.lastEventId, data);
    if (final.includes(name)) {
      over = true;
      close();
      clearInterval(polling);
      polling = 0;
    }
  }

  function tell(name, id, data) {
    document.dispatchEvent(new CustomEvent("retoma:event", { detail: { name, id, data } }));
    if (name !== "heartbeat") freshen(name);
  }

  // — regions —

  function freshen(name) {
    if (paused) return missedOne();
    for (const region of document.querySelectorAll("[data-refresh-on][data-url][id]")) {
      const all = name === "status" || name === "reset" || name === "snapshot";
      if (!all && !names(region.dataset.refreshOn).includes(name)) continue;
      if (due.has(region.id)) continue;
      due.set(region.id, setTimeout(() => {
        due.delete(region.id);
        const still = document.getElementById(region.id);
        if (still) retoma.refresh(still);
      }, Number(region.dataset.refreshWait ?? DEBOUNCE)));
    }
  }

  // Ages and reasons change without an event.
  setInterval(() => {
    if (paused || document.hidden) return;
    const now = performance.now();
    for (const region of document.querySelectorAll("[data-refresh-every][data-url][id]")) {
      if (now - (lately.get(region.id) ?? started) < Number(region.dataset.refreshEvery) * 1000) continue;
      lately.set(region.id, now);
      retoma.refresh(region);
    }
  }, 1000);

  // — paused: who reads is not disturbed, and is told how much is new —

  const button = document.querySelector("[data-live-pause]"), count = document.getElementById("live-paused");

  function missedOne() {
    missed += 1;
    showPause();
  }

  function showPause() {
    retoma.paused = paused;
    if (count) count.textContent = paused ? retoma.say("live.paused", { n: missed }) : "";
    if (!button) return;
    button.setAttribute("aria-pressed", String(paused));
    button.querySelector("span").textContent = retoma.say(paused ? "live.go_on" : "live.pause");
  }

  function pause() {
    paused = !paused;
    if (!paused) {
      missed = 0;
      freshen("status");
      retoma.announce(retoma.say("live.whole"), { now: true });
    }
    showPause();
  }

  if (button) button.parentElement.hidden = false;
  button?.addEventListener("click", pause);
  document.addEventListener("retoma:pause", pause);

  // — while the stream is down: the status, by its own address, and only when it changed —

  function turn(now) {
    if (now === up && (now || polling)) return;
    up = now;
    document.dispatchEvent(new CustomEvent("retoma:live", { detail: { up } }));
    if (up) {
      clearInterval(polling);
      polling = 0;
    } else if (!polling && !over && home.dataset.liveStatus) {
      polling = setInterval(look, POLL);
    }
  }

  async function look() {
    if (document.hidden || !home.dataset.liveStatus) return;
    try {
      const headers = { Accept: "application/json", ...(tag ? { "If-None-Match": tag } : {}) };
      const answer = await fetch(home.dataset.liveStatus, { headers, cache: "no-store" });
      if (answer.status !== 200) return;
      tag = answer.headers.get("ETag") ?? "";
      tell("status", "", await answer.json());
    } catch { /* the clock says what there is to say */ }
  }

  // — clock A: no news from the server. It says nothing about the work itself, which may be perfectly well —

  const box = document.getElementById("live-notice");

  function tick() {
    if (over || resting || document.hidden || !box) return;
    const silent = performance.now() - heardAt;
    if (silent < SILENCE) return;
    const s = Math.floor(silent / 1000);
    box.querySelector("[data-live-text]").textContent = retoma.say("live.silence", { s });
    box.querySelector("[data-live-more]").textContent = polling ? retoma.say("live.polling", { s: POLL / 1000 }) : "";
    if (box.hidden) {
      box.hidden = false;
      // An open connection that brings nothing is as good as none: a proxy may be holding it.
      turn(false);
    }
  }

  function hush() {
    if (!box || box.hidden) return;
    box.hidden = true;
    retoma.announce(retoma.say("live.back"));
  }

  box?.querySelector("[data-live-reconnect]").addEventListener("click", open);
  box?.querySelector("[data-live-look]").addEventListener("click", () => {
    tag = "";
    look();
  });

  // — a tab that nobody sees lets go; when it is seen again it goes on from its cursor —

  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiding);
    if (document.hidden) {
      hiding = setTimeout(close, HIDDEN);
    } else if (!stream && !over) {
      heardAt = performance.now();
      open();
      freshen("status");
    }
  });
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => event.persisted && open());

  setInterval(tick, Math.min(1000, SILENCE / 2));
  open();
})();
