// Charts of a batch, drawn by uPlot from the figures of the table below them. The colours are those of the page.
"use strict";

(() => {
  const charts = [];

  const colour = (name) => {
    const probe = document.createElement("span");
    probe.className = `unseen legend-probe tone-${name}`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };

  function axes() {
    const root = getComputedStyle(document.body), probe = document.createElement("span");
    probe.className = "unseen soft";
    document.body.append(probe);
    const soft = getComputedStyle(probe).color;
    probe.remove();
    const both = { stroke: soft, grid: { stroke: soft, width: 0.3 }, font: `12px ${root.fontFamily}` };
    const day = new Intl.DateTimeFormat(retoma.language, { day: "2-digit", month: "2-digit" });
    const hour = new Intl.DateTimeFormat(retoma.language, { hour: "2-digit", minute: "2-digit" });
    const days = (chart) => chart.scales.x.max - chart.scales.x.min > 2 * 86400;
    return {
      time: { ...both, values: (chart, at) => at.map((each) => (days(chart) ? day : hour).format(new Date(each * 1000))) },
      value: { ...both, size: 56, values: (_, at) => at.map((each) => retoma.number(each)) },
    };
  }

  function one(id, data, series) {
    const box = document.getElementById(id), { time, value } = axes();
    const chart = new uPlot({
      width: Math.max(200, box.clientWidth),
      height: 220,
      cursor: { drag: { x: true, y: false } },
      scales: { y: { range: (_, low, high) => [0, Math.max(high, 1e-3) * 1.08] } },
      axes: [time, value],
      series: [{ label: retoma.say("console.batch.chart_time"), value: (_, at) => at == null ? "–" : retoma.when(at * 1000) }, ...series],
    }, data, box);
    charts.push([chart, box]);
  }

  function line(word, tone, bars) {
    const stroke = colour(tone);
    return {
      label: retoma.say(`console.batch.chart_${word}`),
      stroke,
      width: 2,
      fill: bars ? stroke : undefined,
      paths: bars ? uPlot.paths.bars({ size: [0.7, 60] }) : undefined,
      points: { show: !bars },
      value: (_, shown) => shown == null ? "–" : retoma.number(Math.round(shown * 1000) / 1000),
    };
  }

  function draw() {
    for (const [chart] of charts.splice(0)) chart.destroy();
    const home = document.getElementById("charts");
    if (!home) return;
    const points = JSON.parse(home.dataset.points), column = (i) => points.map((point) => point[i]);
    const both = points.map(([, done, failed]) => done + failed);
    // The bar of all stands behind the bar of what ended well: what is seen of it is what ended badly.
    const failed = { ...line("failed", "bad", true), value: (_chart, _sum, _series, i) => i == null ? "–" : retoma.number(points[i][2]) };
    one("chart-throughput", [column(0), both, column(1)], [failed, line("done", "good", true)]);
    one("chart-latency", [column(0), column(3), column(4)], [line("median", "busy"), line("slow", "warn")]);
    shown = home.dataset.points;
  }

  let shown = "";
  draw();
  addEventListener("resize", () => {
    for (const [chart, box] of charts) chart.setSize({ width: Math.max(200, box.clientWidth), height: 220 });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  document.addEventListener("htmx:after:swap", () => {
    const home = document.getElementById("charts");
    if (home && (home.dataset.points !== shown || !home.querySelector(".uplot"))) draw();
  });
})();
