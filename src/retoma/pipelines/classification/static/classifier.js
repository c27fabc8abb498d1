// The screen of the classifier: files on their way, the clock of an execution that does not advance, the
// preview of the quick test. Everything else is plain forms and regions.
"use strict";

(() => {
  const byId = (id) => document.getElementById(id);

  // — a form that asks first. Without JavaScript the server asks, with a page of its own —

  document.addEventListener("submit", async (event) => {
    const form = event.target.closest?.("form[data-ask]");
    if (!form) return;
    event.preventDefault();
    if (!(await retoma.ask(form.dataset.ask))) return;
    const place = new URL(form.action);
    if (place.pathname.endsWith("/cancelar")) place.searchParams.set("sim", "1");
    form.action = place;
    form.submit();
  });

  // — what somebody opened stays open when its region is fetched again —

  const open = new Set();
  document.addEventListener("toggle", (event) => {
    if (!event.target.id) return;
    event.target.open ? open.add(event.target.id) : open.delete(event.target.id);
  }, true);
  function reopen() {
    for (const id of open) byId(id)?.setAttribute("open", "");
  }

  // — a region that is looked at again every few seconds, only while it says so and somebody sees it —

  const polled = new Map(); // by id: the element itself is replaced
  setInterval(() => {
    for (const region of document.querySelectorAll("[data-poll][id]")) {
      const before = polled.get(region.id);
      if (document.hidden || Date.now() - (before ?? 0) < Number(region.dataset.poll) * 1000) continue;
      polled.set(region.id, Date.now());
      if (before) retoma.refresh(region);
    }
  }, 500);

  // — whole document or a part —

  const mode = byId("mode");
  function fit() {
    for (const field of document.querySelectorAll("[data-for-chunk]")) field.hidden = mode.value !== "chunk";
  }
  mode?.addEventListener("change", fit);
  if (mode) fit();

  // — a new lot: files are chosen, sent in groups, and then the execution begins. Sent again, no file is there twice —

  const lot = byId("new-lot");
  if (lot) newLot();

  function newLot() {
    const GROUP_FILES = 20, GROUP_BYTES = 20_000_000;
    const most = Number(lot.dataset.most), largest = Number(lot.dataset.largest), megabytes = largest / 1_000_000;
    const start = byId("start"), drop = byId("drop"), list = byId("unfit");
    const once = crypto.randomUUID();
    let files = [], sent = 0, project = null, busy = false;
    const told = { added: 0, known: [], refused: [] };

    const isZip = (file) => /\.zip$/i.test(file.name);
    const size = (bytes) => retoma.number(Math.max(0.1, Math.round(bytes / 100_000) / 10)) + " MB";

    function line(name, why) {
      const item = document.createElement("li"), strong = document.createElement("strong");
      strong.textContent = name;
      item.append(strong, `: ${why}`);
      return item;
    }

    function choose(more) {
      if (busy) return;
      const known = new Set(files.map((file) => `${file.webkitRelativePath || file.name}/${file.size}/${file.lastModified}`));
      const unfit = [];
      for (const file of more) {
        if (file.name.startsWith(".")) continue;
        if (file.size > largest && !isZip(file)) unfit.push(line(file.name, retoma.say("classifier.new.too_large", { megabytes })));
        else if (!file.size) unfit.push(line(file.name, retoma.say("classifier.refused.file_empty")));
        else if (!known.has(`${file.webkitRelativePath || file.name}/${file.size}/${file.lastModified}`)) files.push(file);
      }
      list.replaceChildren(...unfit);
      show();
    }

    function show() {
      const n = files.length, tooMany = n > most;
      byId("chosen").textContent = tooMany ? retoma.say("classifier.new.too_many", { n, most })
        : n ? retoma.say("classifier.new.chosen", { n, size: size(files.reduce((sum, file) => sum + file.size, 0)) })
          : retoma.say("classifier.new.nothing");
      byId("clear").hidden = !n || busy;
      list.hidden = !list.childElementCount;
      start.disabled = !n || tooMany || busy;
      byId("not-ready").hidden = n > 0;
    }

    for (const id of ["files", "folder"]) {
      const input = byId(id);
      const take = () => {
        choose(input.files);
        input.value = "";
      };
      input.addEventListener("change", take);
      if (input.files.length) take(); // chosen before this script had come
    }
    byId("clear").addEventListener("click", () => {
      files = [];
      list.replaceChildren();
      show();
      byId("files").focus();
    });
    for (const name of ["dragenter", "dragover"]) drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
    for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
    drop.addEventListener("drop", (event) => {
      event.preventDefault();
      choose(event.dataTransfer.files);
    });

    const headers = { "Content-Type": "application/json", Accept: "application/json", "Accept-Language": retoma.language };

    async function post(url, body, key) {
      const answer = await fetch(url, { method: "POST", headers: { ...headers, "Idempotency-Key": key }, body: body && JSON.stringify(body) });
      const said = await answer.json();
      if (!answer.ok) throw Object.assign(new Error(said.detail), { title: said.title });
      return said;
    }

    function settings() {
      const given = Object.fromEntries(new FormData(lot));
      const chunk = given.mode === "chunk";
      const name = given.name.trim() || retoma.say("classifier.new.name_now", { when: retoma.when(new Date()) });
      return {
        nome: name,
        prompt_id: Number(given.prompt_id),
        ...(given.model.trim() ? { modelo: given.model.trim() } : {}),
        modo_processamento: chunk ? "chunk" : "completo",
        ...(chunk ? { posicao_chunk: given.position === "start" ? "inicio" : "fim", tamanho_chunk: Number(given.chunk_tokens) } : {}),
        max_concurrent: Number(given.at_once),
        max_retries_execucao: Number(given.max_resumes),
        max_retries_documento: Number(given.max_retries),
      };
    }

    function group() {
      const some = [];
      let bytes = 0;
      for (const file of files.slice(sent)) {
        if (some.length && (some.length >= GROUP_FILES || bytes + file.size > GROUP_BYTES)) break;
        some.push(file);
        bytes += file.size;
      }
      return some;
    }

    function send(some, progress) {
      const form = new FormData();
      for (const file of some) form.append("arquivos", file, file.name);
      return new Promise((resolve, reject) => {
        const request = new XMLHttpRequest();
        request.open("POST", `${lot.dataset.lots}/${project}/upload`);
        request.setRequestHeader("Accept", "application/json");
        request.setRequestHeader("Accept-Language", retoma.language);
        request.responseType = "json";
        request.upload.onprogress = (event) => event.total && progress(event.loaded / event.total);
        request.onload = () => request.status < 300 ? resolve(request.response)
          : reject(Object.assign(new Error(request.response?.detail ?? ""), { title: request.response?.title }));
        request.onerror = () => reject(new Error());
        request.send(form);
      });
    }

    function say(text, share) {
      byId("sending").hidden = false;
      byId("sending-text").textContent = text;
      byId("sending-bar").value = share;
    }

    async function sendAll() {
      while (sent < files.length) {
        const some = group(), before = sent;
        const progress = (share) => say(
          retoma.say("classifier.new.sending", { n: before, total: files.length }), (before + share * some.length) / files.length);
        progress(0);
        const answer = await send(some, progress);
        sent += some.length;
        told.added += answer.adicionados;
        told.known.push(...answer.detalhes_duplicados);
        told.refused.push(...answer.detalhes_erros);
        tell();
      }
      say(retoma.say("classifier.new.sent", { n: sent }), 1);
    }

    function tell() {
      const known = byId("sent-known"), refused = byId("sent-refused");
      known.hidden = !told.known.length;
      known.firstElementChild.textContent = retoma.say("classifier.new.known", { n: told.known.length });
      known.lastElementChild.replaceChildren(...told.known.map((each) =>
        line(each.arquivo, retoma.say("classifier.new.same_as", { codigo: each.codigo_documento }))));
      refused.hidden = !told.refused.length;
      refused.querySelector("strong").textContent = retoma.say("classifier.new.refused", { n: told.refused.length });
      refused.querySelector("ul").replaceChildren(...told.refused.map((each) => {
        const key = `classifier.refused.${each.codigo}`, words = retoma.say(key);
        return line(each.arquivo, words === key ? each.erro : words);
      }));
    }

    async function begin() {
      say(retoma.say("classifier.new.starting"), 1);
      const made = await post(`${lot.dataset.projects}/${project}/executar`, null, `${once}-start`);
      location.assign(`${lot.dataset.runs}/${made.execucao_id}`);
    }

    async function guarded(work) {
      if (busy) return;
      busy = true;
      show();
      try {
        await work();
      } catch (error) {
        retoma.notice("bad", error.title ?? retoma.say("classifier.new.broken"), error.title ? error.message : retoma.say("classifier.new.broken_next"));
        byId("notices").scrollIntoView({ block: "center" });
        busy = false;
        show();
      }
    }

    lot.addEventListener("submit", (event) => {
      event.preventDefault();
      guarded(async () => {
        project ??= (await post(lot.dataset.projects, settings(), once)).id;
        await sendAll();
        const taken = told.added + told.known.length;
        if (taken && !told.refused.length) return begin();
        say(taken ? retoma.say("classifier.new.added", { n: told.added }) : retoma.say("classifier.new.none_taken"), 1);
        byId("go-on").hidden = !taken;
        files = [];
        sent = 0;
        busy = false;
        show();
        if (taken) byId("go-on").focus();
      });
    });
    byId("go-on").addEventListener("click", () => guarded(begin));
    addEventListener("beforeunload", (event) => busy && sent < files.length && event.preventDefault());
    show();
  }

  document.addEventListener("htmx:after:swap", () => {
    reopen();
    clocks();
    tick();
  });

  // — the log tells the second, too —

  const second = new Intl.DateTimeFormat(retoma.language, { timeStyle: "medium" });
  function clocks() {
    for (const time of document.querySelectorAll(".log time[datetime]")) time.textContent = second.format(new Date(time.dateTime));
  }
  clocks();

  // What was just done is said once: who loads the page again need not read it again.
  if (new URLSearchParams(location.search).has("dito")) history.replaceState(null, "", location.pathname + location.hash);

  // — clock B: the server says since when nothing ended. It is hushed while there is no news: then nobody knows —

  const run = byId("run");
  let up = true, ended = run?.hasAttribute("data-live-ended");
  const ahead = run ? Number(run.dataset.now) - Date.now() / 1000 : 0;

  function span(seconds) {
    const whole = Math.round(seconds);
    return whole < 120 ? `${whole} s` : whole < 3600 ? `${Math.floor(whole / 60)} min ${whole % 60} s`
      : `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  }

  // A worker that is gone sends no news: after so many seconds without any the server is asked, and then again.
  const WONDER = 10;
  let wondered = Date.now();

  function tick() {
    const summary = byId("summary"), line = byId("quiet");
    if (!summary || !line) return;
    const { state, since, threshold, quiet } = summary.dataset;
    const silent = Date.now() / 1000 + ahead - Number(since);
    const running = state === "running" && since && up;
    const shown = running && (quiet === "yes" || 2 * silent >= Number(threshold));
    line.hidden = !shown;
    if (shown) line.textContent = retoma.say("exec.quiet", { time: span(silent) });
    if (running && !document.hidden && silent >= WONDER && Date.now() - wondered >= WONDER * 1000) {
      wondered = Date.now();
      retoma.refresh(summary);
    }
  }

  if (run) {
    setInterval(tick, 1000);
    document.addEventListener("retoma:live", (event) => { up = event.detail.up; tick(); });
    document.addEventListener("retoma:event", ({ detail }) => {
      if (detail.name === "end") ended = true;
      // What was just done is old news once something else has happened to the execution.
      if (detail.name === "end" || detail.name === "state") byId("said")?.remove();
      if (detail.name !== "progress") return;
      const { done, total, failed } = detail.data;
      retoma.announce(retoma.say("classifier.run.announce", { done, total, failed }));
    });
    // What has ended may be taken up again in another tab: whoever comes back to this one sees it.
    document.addEventListener("visibilitychange", async () => {
      if (document.hidden || !ended) return;
      await retoma.refresh(byId("summary"));
      if (byId("summary")?.dataset.open === "yes") location.reload();
    });
  }

  // — the quick test: the document beside its result, from the browser's own memory —

  const chosen = byId("trial-form")?.querySelector("input[type=file]");
  let shownUrl = "";
  chosen?.addEventListener("change", async () => {
    const box = byId("preview"), file = chosen.files[0];
    if (shownUrl) URL.revokeObjectURL(shownUrl);
    shownUrl = "";
    let part = document.createElement("p");
    part.className = "faint";
    part.textContent = retoma.say(file ? "classifier.trial.preview_not" : "classifier.trial.preview_none");
    if (file && /\.pdf$/i.test(file.name)) {
      part = document.createElement("iframe");
      part.title = file.name;
      // Whatever is in it, it is shown as a PDF: by the browser's viewer, which is shut off from this page.
      part.src = shownUrl = URL.createObjectURL(new Blob([file], { type: "application/pdf" }));
    } else if (file && /\.(txt|csv)$/i.test(file.name)) {
      part = document.createElement("pre");
      part.className = "document-text";
      part.textContent = await file.slice(0, 200_000).text();
    }
    box.replaceChildren(part);
  });
})();
