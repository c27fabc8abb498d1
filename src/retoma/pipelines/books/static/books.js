// Books that are at work are looked at again, more rarely when nothing moves, and never while nobody looks. A region
// that follows is fetched alone; when its mark has changed, those that come after it are fetched too.
"use strict";

(() => {
  const { refresh, announce } = window.retoma;
  const STEPS = [1500, 3000, 6000];
  let pace = 0, timer = 0, looking = false;

  const followed = () => document.querySelector("[data-follow][data-url][id]");
  const shape = (region) => region.dataset.mark ?? region.textContent;

  function follow() {
    clearTimeout(timer);
    if (looking || document.hidden || followed()?.dataset.follow !== "moving") return;
    timer = setTimeout(look, STEPS[pace]);
  }

  async function look() {
    const region = followed();
    const before = shape(region);
    looking = true;
    try {
      await refresh(region);
      const now = followed();
      const changed = now && shape(now) !== before;
      if (changed) {
        if (now.dataset.said) announce(now.dataset.said, { now: now.dataset.follow !== "moving" });
        await Promise.all([...document.querySelectorAll("[data-after][data-url][id]")].map(refresh));
      }
      pace = changed ? 0 : Math.min(pace + 1, STEPS.length - 1);
    } finally {
      looking = false;
      follow();
    }
  }

  document.addEventListener("visibilitychange", () => {
    pace = 0;
    follow();
  });
  follow();
})();
