// A region that says data-follow="moving" is fetched again while it does, more rarely when nothing changes in it, and
// never while nobody looks or updates are paused.
"use strict";

(() => {
  const { refresh } = window.retoma;
  const STEPS = [1000, 2000, 5000];
  let pace = 0, timer = 0, paused = false;

  const followed = () => document.querySelector("[data-follow='moving'][data-url][id]");

  function follow() {
    clearTimeout(timer);
    if (!paused && !document.hidden && followed()) timer = setTimeout(look, STEPS[pace]);
  }

  async function look() {
    const region = followed();
    if (!region) return;
    const before = region.textContent;
    try {
      await refresh(region);
    } finally {
      const now = document.getElementById(region.id);
      pace = now && now.textContent !== before ? 0 : Math.min(pace + 1, STEPS.length - 1);
      follow();
    }
  }

  document.addEventListener("visibilitychange", () => { pace = 0; follow(); });
  document.addEventListener("retoma:pause", () => { paused = !paused; follow(); });

  // One tick for all rows of a table.
  document.addEventListener("change", (event) => {
    const all = event.target.closest?.("[data-tick-all]");
    if (!all) return;
    for (const box of all.closest("form").querySelectorAll("input[name=ids]")) box.checked = all.checked;
  });
  follow();
})();
