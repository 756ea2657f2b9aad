// The bar at the top: queues, and the buttons for conflicts, export, theme and help.

import { byId, button, el, say } from "./dom.js";
import { count } from "./wording.js";

/** @param {import("./desk.js").Desk} desk @param {{conflicts: () => void, export: () => void, help: () => void}} open */
export function showTop(desk, open) {
  const tabs = new Map();
  const tab = (id, title, help) => {
    const number = el("span", { class: "queue-count" });
    const words = el("span", { class: "queue-name" }, title);
    const element = el("button", { type: "button", class: "queue", title: help, on: { click: () => desk.choose({ queue: id }) } }, words, number);
    tabs.set(id, { element, number });
    return element;
  };
  byId("queues").append(
    ...desk.session.queues.map(({ id, title, help }) => tab(id, title, help)),
    tab("pictures", "Images", "One image at a time, with all its labels."),
  );
  const clashes = el("span", { class: "badge" });
  const conflicts = button("Conflicts", { class: "tool", drawing: "clash", on: { click: open.conflicts } });
  conflicts.append(clashes);
  byId("tools").append(
    conflicts,
    button("Export", { class: "tool", drawing: "export", on: { click: open.export } }),
    button("", { class: "tool", drawing: "sun", label: "Switch between light and dark", title: "Light or dark", on: { click: switchTheme } }),
    button("", { class: "tool", drawing: "help", label: "Help and keys", title: "Help and keys (?)", on: { click: open.help } }),
  );

  const update = () => {
    for (const { id, total, answered, counted } of desk.session.queues) {
      const { number, element } = tabs.get(id);
      const open = count(Math.max(0, total - answered));
      say(number, counted ? open : "–");
      element.setAttribute("aria-label", `${element.firstChild.textContent}, ${counted ? `${open} open` : "not counted yet"}`);
    }
    say(tabs.get("pictures").number, count(desk.session.pictures));
    for (const [id, { element }] of tabs) {
      if (id === desk.choice.queue) element.setAttribute("aria-current", "true");
      else element.removeAttribute("aria-current");
    }
    const number = desk.session.progress.conflicts;
    say(clashes, count(number));
    conflicts.toggleAttribute("data-some", number > 0);
    conflicts.setAttribute("aria-label", number ? `Conflicts: ${count(number)}` : "Conflicts: none");
  };
  const reveal = () => tabs.get(desk.choice.queue).element.scrollIntoView({ block: "nearest", inline: "center" });
  desk.addEventListener("choice", update);
  desk.addEventListener("choice", reveal);
  desk.addEventListener("session", update);
  update();
  reveal();
}

function switchTheme() {
  const root = document.documentElement;
  const light = root.dataset.theme ? root.dataset.theme === "light" : matchMedia("(prefers-color-scheme: light)").matches;
  root.dataset.theme = light ? "dark" : "light";
  try {
    localStorage.setItem("partlabel.theme", root.dataset.theme);
  } catch {
    // The choice then holds until the page is closed.
  }
}
