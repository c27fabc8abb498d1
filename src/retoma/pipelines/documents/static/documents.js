// The documents: sending files, following those that are in progress, and what unfolds under a row.
"use strict";

(() => {
  const { base, say, announce, refresh } = retoma;
  const list = document.getElementById("uploads");

  // — sending: one request per file, three at once, so that one bad file is its own business —

  const AT_ONCE = 3;
  const queue = [], sent = new WeakMap();
  let under = 0;

  function send(files) {
    for (const file of files) {
      const row = document.getElementById("upload-template").content.firstElementChild.cloneNode(true);
      row.querySelector(".upload-name").textContent = file.name;
      list.append(row);
      sent.set(row, { file, row });
      enqueue(sent.get(row));
    }
  }

  function enqueue(upload) {
    show(upload, "upload.waiting");
    queue.push(upload);
    next();
  }

  function next() {
    while (under < AT_ONCE && queue.length) {
      under += 1;
      start(queue.shift());
    }
  }

  function show(upload, key, values = {}, { tone = "", text = "" } = {}) {
    const { row } = upload;
    row.className = `upload ${tone}`;
    row.querySelector(".upload-state").textContent = text || say(key, values);
    row.querySelector("progress").hidden = !["upload.waiting", "upload.sending", "upload.storing"].includes(key);
    row.querySelector("[data-again]").hidden = tone !== "bad" || key === "upload.too_large";
    row.querySelector("[data-open]").hidden = key !== "upload.duplicate";
    row.querySelector("[data-dismiss]").hidden = tone !== "bad" && key !== "upload.duplicate";
  }

  function start(upload) {
    const largest = Number(document.getElementById("drop").dataset.largest);
    if (upload.file.size > largest) {
      const size = Math.ceil(upload.file.size / 1e6), megabytes = Math.floor(largest / 1e6);
      return ended(upload, () => show(upload, "upload.too_large", { size, megabytes }, { tone: "bad" }));
    }
    const request = new XMLHttpRequest();
    const body = new FormData();
    body.append("files", upload.file);
    request.open("POST", `${base}/documents`);
    request.responseType = "json";
    request.setRequestHeader("Accept", "application/json");
    request.setRequestHeader("Accept-Language", retoma.language);
    request.upload.onprogress = (event) => {
      const percent = event.total ? Math.floor((100 * event.loaded) / event.total) : 0;
      upload.row.querySelector("progress").value = percent;
      show(upload, percent < 100 ? "upload.sending" : "upload.storing", { percent });
    };
    request.onload = () => ended(upload, () => answered(upload, request.status, request.response));
    request.onerror = () => ended(upload, () => show(upload, "upload.offline", {}, { tone: "bad" }));
    request.send(body);
    show(upload, "upload.sending", { percent: 0 });
  }

  function ended(upload, tell) {
    under -= 1;
    tell();
    next();
  }

  function answered(upload, status, body) {
    const became = body?.documents?.[0];
    if (status === 401) return location.reload();
    if (status !== 202 || !became?.id) {
      const text = became?.error?.detail ?? body?.detail ?? "";
      announce(`${upload.file.name}: ${text || say("upload.failed")}`, { now: true });
      return show(upload, "upload.failed", {}, { tone: "bad", text });
    }
    if (became.duplicate_of) {
      upload.row.querySelector("[data-open]").href = `${base}/documents/${became.id}`;
      return show(upload, "upload.duplicate");
    }
    announce(`${upload.file.name}: ${say("upload.accepted")}`, { now: true });
    upload.row.remove();
    grid();
  }

  list?.addEventListener("click", (event) => {
    const row = event.target.closest(".upload");
    if (event.target.closest("[data-dismiss]")) row.remove();
    if (event.target.closest("[data-again]")) {
      row.querySelector("progress").value = 0;
      enqueue(sent.get(row));
    }
  });

  const drop = document.getElementById("drop");
  if (drop) {
    const input = document.getElementById("files");
    const take = () => {
      send([...input.files]);
      input.value = "";
    };
    input.addEventListener("change", take);
    if (input.files.length) take(); // chosen before this script had come
    drop.addEventListener("submit", (event) => event.preventDefault());
    let depth = 0;
    const carries = (event) => event.dataTransfer?.types.includes("Files");
    addEventListener("dragenter", (event) => carries(event) && (depth += 1) && drop.classList.add("over"));
    addEventListener("dragleave", (event) => carries(event) && (depth -= 1) <= 0 && drop.classList.remove("over"));
    addEventListener("dragover", (event) => carries(event) && event.preventDefault());
    addEventListener("drop", (event) => {
      if (!carries(event)) return;
      event.preventDefault();
      depth = 0;
      drop.classList.remove("over");
      send([...event.dataTransfer.files]);
    });
  }

  // — the list itself —

  function grid() {
    const region = document.getElementById("documents");
    if (region) refresh(region).then(follow);
  }

  // — following: one question for all rows in progress, and none when there are none or nobody looks —

  const STEPS = [3000, 5000, 10_000];
  let pace = 0, timer = 0, tag = "", about = "", asking = false;

  const moving = () => [...document.querySelectorAll('[data-document][data-state="PENDING"], [data-document][data-state="PROCESSING"]')];

  function follow() {
    clearTimeout(timer);
    timer = 0;
    if (asking || document.hidden || !moving().length) return;
    timer = setTimeout(ask, STEPS[pace]);
  }

  async function ask() {
    const rows = moving();
    const ids = rows.map((row) => row.dataset.document).join(",");
    if (ids !== about) [about, tag] = [ids, ""];
    let changed = false;
    asking = true;
    try {
      const headers = { Accept: "application/json", ...(tag ? { "If-None-Match": tag } : {}) };
      const answer = await fetch(`${base}/documents/status?ids=${ids}`, { headers, cache: "no-store" });
      if (answer.status === 401) return location.reload();
      if (answer.status === 200) {
        tag = answer.headers.get("ETag") ?? "";
        changed = await moved(rows, (await answer.json()).documents);
      }
    } catch { /* the next look will tell */ } finally {
      asking = false;
    }
    pace = changed ? 0 : Math.min(pace + 1, STEPS.length - 1);
    follow();
  }

  async function moved(rows, states) {
    const now = new Map(states.map((each) => [each.document_id, each.status]));
    let changed = false;
    for (const row of rows) {
      const state = now.get(row.dataset.document);
      if (state === row.dataset.state) continue;
      changed = true;
      if (!state) {
        removed(row.dataset.document);
        continue;
      }
      const { name, document: id } = row.dataset;
      await refresh(row);
      if (state === "COMPLETED" || state === "FAILED") {
        announce(say("documents.now", { name, state: say(`state.document.${state.toLowerCase()}`) }), { now: true });
        const detail = document.getElementById(`detail--${id}`);
        if (detail?.childElementCount) await refresh(detail);
      }
    }
    return changed;
  }

  // — what unfolds —

  function unfold(link, open) {
    const more = document.getElementById(`more--${link.dataset.expand}`);
    more.hidden = !open;
    // A row that is open stays as it is when the list around it is fetched again.
    more.toggleAttribute("hx-morph-skip", open);
    marks();
    if (open) refresh(document.getElementById(`detail--${link.dataset.expand}`));
  }

  function marks() {
    for (const link of document.querySelectorAll("[data-expand]")) {
      const more = document.getElementById(`more--${link.dataset.expand}`);
      link.setAttribute("aria-controls", more.id);
      link.setAttribute("aria-expanded", String(!more.hidden));
    }
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("[data-expand]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    unfold(link, document.getElementById(`more--${link.dataset.expand}`).hidden);
  });

  function removed(id) {
    const row = document.getElementById(`row--${id}`);
    if (!row) return location.assign(`${base}/documents`);
    announce(say("documents.removed", { name: row.dataset.name }), { now: true });
    const next = row.nextElementSibling?.nextElementSibling ?? row.previousElementSibling?.previousElementSibling;
    document.getElementById(`more--${id}`)?.remove();
    row.remove();
    (next?.querySelector("[data-expand]") ?? document.getElementById("search"))?.focus();
    grid();
  }

  document.addEventListener("htmx:after:request", (event) => {
    const { ctx } = event.detail;
    const gone = ctx.sourceElement?.dataset?.removes;
    if (gone && ctx.response.status === 204) removed(gone);
  });

  document.addEventListener("htmx:after:swap", (event) => {
    const id = event.detail.ctx.sourceElement?.dataset?.reprocess;
    const detail = id && document.getElementById(`detail--${id}`);
    if (detail?.childElementCount) refresh(detail);
    pace = 0;
    marks();
    follow();
  });
  document.addEventListener("visibilitychange", () => {
    pace = 0;
    follow();
  });

  marks();
  follow();
})();
