"use strict";
document.documentElement.classList.add("scripted");

// Tabs: arrow keys, Home and End move between them; the address remembers the outer one.
for (const set of document.querySelectorAll(".tabs")) {
  const tabs = [...set.querySelector(":scope > [role=tablist]").children];
  const select = (tab, focus) => {
    for (const other of tabs) {
      const chosen = other === tab;
      other.setAttribute("aria-selected", chosen);
      other.tabIndex = chosen ? 0 : -1;
      document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
    }
    if (focus) tab.focus();
  };
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => {
      select(tab);
      history.replaceState(null, "", "#" + tab.id);
    });
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: -1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      select(tabs.at(to % tabs.length), true);
    });
  });
  select(tabs.find((tab) => "#" + tab.id === location.hash) || tabs[0]);
}

// One stop of the Tab key per chart; from there, arrow keys move between the things with a tip.
const tips = (chart) => [...chart.querySelectorAll("[data-tip]")];
for (const chart of document.querySelectorAll("[data-rove]")) {
  const items = tips(chart);
  items.forEach((item, i) => {
    item.tabIndex = i ? -1 : 0;
    if (!item.hasAttribute("aria-label")) item.setAttribute("aria-label", item.dataset.tip);
  });
  chart.addEventListener("keydown", (event) => {
    const at = items.indexOf(event.target);
    if (at < 0) return;
    const cell = event.target.closest("td");
    const row = chart.matches(".heat") && cell ? cell.parentNode.cells.length - 1 : 1;
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: row, ArrowUp: -row }[event.key];
    const next = items[at + by];
    if (!next) return;
    event.preventDefault();
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}

// What is wider than the page shows at which edge it goes on.
const mark = (box) => {
  const left = box.scrollLeft;
  box.classList.toggle("before", left > 1);
  box.classList.toggle("after", left + box.clientWidth < box.scrollWidth - 1);
};
// An example that is wider than the page starts at its first mistake, once it is seen.
const centre = (box) => {
  if (box.dataset.centred || !box.clientWidth) return;
  box.dataset.centred = "yes";
  const mistake = box.querySelector(".wrong, .miss");
  if (!mistake) return;
  const [at, all] = [mistake, box].map((element) => element.getBoundingClientRect());
  box.scrollLeft += at.left + at.width / 2 - (all.left + all.width / 2);
};
const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    centre(target);
    mark(target);
  }
});
for (const box of document.querySelectorAll(".scroll")) {
  box.addEventListener("scroll", () => mark(box), { passive: true });
  resized.observe(box);
}

// Tooltips: the same for the pointer, a finger and the keyboard.
const tip = document.getElementById("tip");
const hide = () => { tip.hidden = true; };
const show = (event) => {
  const item = event.target.closest && event.target.closest("[data-tip]");
  if (!item) return hide();
  tip.textContent = item.dataset.tip;
  tip.hidden = false;
  const box = item.getBoundingClientRect();
  const room = 8;
  const left = box.left + box.width / 2 - tip.offsetWidth / 2;
  const above = box.top - tip.offsetHeight - room;
  tip.style.left = Math.max(room, Math.min(left, innerWidth - tip.offsetWidth - room)) + "px";
  tip.style.top = (above > room ? above : box.bottom + room) + "px";
};
addEventListener("mouseover", show);
addEventListener("focusin", show);
addEventListener("click", show);
addEventListener("focusout", hide);
addEventListener("scroll", hide, true);
addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
