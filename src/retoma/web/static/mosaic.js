// The mosaic of a batch: one mark for each job, colour and shape by state, as in the legend. It is drawn on a canvas, so
// ten thousand of them cost one element; a click or Enter opens the job at that place. The element #mosaic says all that a
// page has of its own: data-letters, data-open-url, to which the place is added, and data-at, the phrase for a place.
"use strict";

(() => {
  const STATES = { q: "queued", r: "running", c: "completed", s: "skipped", f: "failed", v: "review", x: "cancelled" };
  const TONES = { queued: "waiting", running: "busy", completed: "good", skipped: "quiet", failed: "bad", review: "warn", cancelled: "quiet" };
  const region = () => document.getElementById("mosaic");
  const drawn = { cell: 0, columns: 1, letters: "", at: -1 };

  function tones() {
    const probe = document.createElement("span"), found = {};
    document.body.append(probe);
    for (const [state, tone] of Object.entries(TONES)) {
      probe.className = `unseen legend-probe tone-${tone}`;
      found[state] = getComputedStyle(probe).color;
    }
    probe.remove();
    return found;
  }

  function draw() {
    const canvas = region()?.querySelector("canvas");
    if (!canvas || !canvas.clientWidth) return;
    const letters = drawn.letters = region().dataset.letters, n = letters.length, width = canvas.clientWidth;
    const cell = drawn.cell = n <= 300 ? 18 : n <= 2500 ? 12 : n <= 20000 ? 8 : 5, mark = cell - (cell > 10 ? 4 : cell > 5 ? 2 : 1);
    const columns = drawn.columns = Math.max(1, Math.floor(width / cell)), rows = Math.max(1, Math.ceil(n / columns));
    const scale = devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = rows * cell * scale;
    canvas.style.height = `${rows * cell}px`;
    const pen = canvas.getContext("2d"), colours = tones();
    pen.scale(scale, scale);
    for (let i = 0; i < n; i++) {
      const state = STATES[letters[i]] ?? "cancelled";
      pen.fillStyle = pen.strokeStyle = colours[state];
      shape(pen, state, (i % columns) * cell + (cell - mark) / 2, Math.floor(i / columns) * cell + (cell - mark) / 2, mark);
    }
    if (drawn.at >= 0) {
      pen.strokeStyle = getComputedStyle(canvas).color;
      pen.lineWidth = 2;
      pen.strokeRect((drawn.at % columns) * cell + 1, Math.floor(drawn.at / columns) * cell + 1, cell - 2, cell - 2);
    }
  }

  function shape(pen, state, x, y, size) {
    const middle = size / 2, thin = Math.max(1, size / 8), thick = Math.max(1.5, size / 4.5);
    pen.beginPath();
    pen.lineWidth = thin;
    switch (state) {
      case "completed": return pen.fillRect(x, y, size, size);
      case "queued": return pen.strokeRect(x + thin / 2, y + thin / 2, size - thin, size - thin);
      case "running": pen.arc(x + middle, y + middle, middle, 0, 7); return pen.fill();
      case "review": pen.lineWidth = thick; pen.arc(x + middle, y + middle, Math.max(.5, middle - thick / 2), 0, 7); return pen.stroke();
      case "skipped": pen.moveTo(x, y); pen.lineTo(x + size, y + middle); pen.lineTo(x, y + size); return pen.fill();
      case "failed": pen.lineWidth = thick; pen.moveTo(x, y); pen.lineTo(x + size, y + size); pen.moveTo(x + size, y); pen.lineTo(x, y + size); return pen.stroke();
      default: pen.lineWidth = thick; pen.moveTo(x, y + middle); pen.lineTo(x + size, y + middle); return pen.stroke();
    }
  }

  function place(event) {
    const i = Math.floor(event.offsetY / drawn.cell) * drawn.columns + Math.floor(event.offsetX / drawn.cell);
    return event.offsetX < drawn.columns * drawn.cell && i < drawn.letters.length ? i : -1;
  }

  function point(i) {
    if (i === drawn.at) return;
    drawn.at = i;
    draw();
    const state = STATES[drawn.letters[i]];
    document.getElementById("mosaic-at").textContent =
      i < 0 ? "" : retoma.say(region().dataset.at, { n: i + 1, state: retoma.say(`state.job.${state}`) });
  }

  function open(i) {
    if (i >= 0) location.assign(region().dataset.openUrl + i);
  }

  const isMosaic = (event) => event.target.matches?.("canvas.mosaic");
  document.addEventListener("mousemove", (event) => isMosaic(event) && point(place(event)));
  document.addEventListener("click", (event) => isMosaic(event) && open(place(event)));
  document.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: drawn.columns, ArrowUp: -drawn.columns }[event.key];
    if (!isMosaic(event) || !(step || event.key === "Enter")) return;
    event.preventDefault();
    if (event.key === "Enter") open(drawn.at);
    else point(Math.min(drawn.letters.length - 1, Math.max(0, drawn.at + step)));
  });

  draw();
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  document.addEventListener("htmx:after:swap", draw);
})();
