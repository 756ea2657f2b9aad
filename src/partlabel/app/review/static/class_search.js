// Choosing a class by typing part of its name: a combobox with a list, after the ARIA practice.

import { button, el, icon, say, visible } from "./dom.js";
import { count } from "./wording.js";

/** So many are listed; typing narrows them. */
const SHOWN = 60;

/**
 * @param {import("./desk.js").Desk} desk
 * @returns {{element: HTMLElement, focus: () => void}}
 */
export function classSearch(desk) {
  const list = el("ul", { class: "options", id: "class-options", role: "listbox", "aria-label": "Classes", hidden: true });
  const input = el("input", {
    class: "field",
    id: "class-search",
    type: "text",
    role: "combobox",
    placeholder: "All classes",
    autocomplete: "off",
    spellcheck: "false",
    "aria-label": "Class",
    "aria-expanded": "false",
    "aria-controls": "class-options",
    "aria-autocomplete": "list",
  });
  const clear = button("", { class: "field-clear", drawing: "close", label: "All classes", on: { click: () => pick(null) } });
  const element = el("div", { class: "combo" }, icon("search"), input, clear, list);
  /** @type {any[]} */
  let found = [];
  let active = -1;

  const chosen = () => desk.class?.name ?? "";
  const settle = () => {
    input.value = chosen();
    input.title = visible(chosen());
    clear.hidden = desk.choice.class === null;
    close();
  };
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const pick = (id) => {
    desk.choose({ class: id });
    settle();
    input.focus();
    close();
  };
  const move = (to) => {
    active = found.length ? (to + found.length) % found.length : -1;
    [...list.querySelectorAll("[role=option]")].forEach((option, at) => {
      option.setAttribute("aria-selected", String(at === active));
      if (at !== active) return;
      input.setAttribute("aria-activedescendant", option.id);
      option.scrollIntoView({ block: "nearest" });
    });
  };
  const open = (text) => {
    const all = matching(desk.session.classes, text);
    found = all.slice(0, SHOWN);
    list.replaceChildren(...found.map((klass, at) => option(klass, at, pick)));
    if (!found.length) list.append(el("li", { class: "options-note", role: "presentation" }, "No class of this name"));
    if (all.length > found.length) {
      list.append(el("li", { class: "options-note", role: "presentation" }, `${count(all.length - found.length)} more: type to narrow`));
    }
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    move(text && found.length ? 0 : -1);
  };

  input.addEventListener("focus", () => input.select());
  input.addEventListener("click", () => list.hidden && open(""));
  input.addEventListener("input", () => open(input.value));
  input.addEventListener("blur", () => window.setTimeout(() => element.contains(document.activeElement) || settle()));
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) open("");
      else move(active < 0 && event.key === "ArrowUp" ? -1 : active + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (!list.hidden && active >= 0) pick(found[active].id);
      else if (!input.value) pick(null);
    } else if (event.key === "Escape") {
      event.preventDefault();
      if (list.hidden) input.blur();
      else settle();
    }
  });
  // The field keeps the focus while an option is pressed.
  list.addEventListener("pointerdown", (event) => event.preventDefault());
  desk.addEventListener("choice", () => document.activeElement === input || settle());
  settle();
  return { element, focus: () => input.focus() };
}

function option(klass, at, pick) {
  const counts = `${count(klass.known)} known, ${count(klass.filled)} filled in`;
  const counted = el("span", { class: "option-count" });
  say(counted, counts);
  return el(
    "li",
    { class: "option", role: "option", id: `class-option-${at}`, "aria-selected": "false", title: klass.name, on: { click: () => pick(klass.id) } },
    el("span", { class: "option-name" }, klass.name),
    counted,
  );
}

/** Classes whose name holds the text; those that begin with it come first. */
export function matching(classes, text) {
  const wanted = text.trim().toLocaleLowerCase();
  if (!wanted) return classes;
  const rank = ({ name }) => {
    const at = name.toLocaleLowerCase().indexOf(wanted);
    return at === 0 ? 0 : at > 0 ? 1 : 2;
  };
  return classes.filter((klass) => rank(klass) < 2).sort((one, other) => rank(one) - rank(other));
}
