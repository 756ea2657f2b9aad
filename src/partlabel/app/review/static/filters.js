// The row of filters, and the switch between one picture and the grid.

import { ORIGINS, filtersSet } from "./choice.js";
import { classSearch } from "./class_search.js";
import { byId, button, el, say } from "./dom.js";

const TYPING = 300;
const ORIGIN_WORDS = { unknown: "No label", given: "Given", model: "Model", review: "Reviewed", asked: "Asked", sampled: "Sampled" };

/**
 * @param {import("./desk.js").Desk} desk
 * @param {(view: "single" | "grid") => void} look changes the view
 * @returns {{focusClass: () => void}}
 */
export function showFilters(desk, look) {
  const classes = classSearch(desk);
  const origin = el(
    "select",
    { class: "field", "aria-label": "Origin of the label", on: { change: () => desk.choose({ origin: origin.value }) } },
    el("option", { value: "" }, "Origin"),
    ...ORIGINS.map((name) => el("option", { value: name }, ORIGIN_WORDS[name])),
  );
  const value = el(
    "select",
    { class: "field", "aria-label": "Value of the label", on: { change: () => desk.choose({ value: value.value }) } },
    el("option", { value: "" }, "Value"),
    el("option", { value: "present" }, "Present"),
    el("option", { value: "absent" }, "Absent"),
  );
  const scores = scoreRange(desk);
  const search = el("input", {
    class: "field",
    type: "search",
    placeholder: "File name",
    "aria-label": "Part of the file name",
    autocomplete: "off",
    spellcheck: "false",
  });
  later(search, () => desk.choose({ search: search.value.trim() }));
  const open = el("input", { type: "checkbox", id: "open-only", on: { change: () => desk.choose({ open: open.checked }) } });
  const clear = button("Clear", { class: "button quiet", on: { click: () => desk.clear() } });
  const more = el("div", { class: "filters-more", id: "filters-more" });
  more.append(
    scores.element,
    origin,
    value,
    search,
    el("label", { class: "check", for: "open-only" }, open, el("span", {}, "Open only")),
    clear,
  );
  const unfold = button("Filters", {
    class: "button filters-unfold",
    drawing: "filter",
    "aria-expanded": "false",
    "aria-controls": "filters-more",
    on: {
      click: () => {
        const unfolded = byId("filters").toggleAttribute("data-unfolded");
        unfold.setAttribute("aria-expanded", String(unfolded));
      },
    },
  });
  const views = viewSwitch(desk, look);
  byId("filters").append(classes.element, unfold, more, views.element);

  const update = () => {
    const { choice } = desk;
    const pictures = choice.queue === "pictures";
    origin.value = choice.origin;
    value.value = choice.value;
    open.checked = choice.open;
    if (document.activeElement !== search) search.value = choice.search;
    scores.update();
    const set = filtersSet(choice);
    clear.disabled = !set && choice.class === null;
    say(unfold.querySelector(".button-text"), set ? `Filters (${set})` : "Filters");
    byId("filters").toggleAttribute("data-pictures", pictures);
    views.update();
  };
  desk.addEventListener("choice", update);
  update();
  return { focusClass: classes.focus };
}

/** Lowest and highest score, in percent. @param {import("./desk.js").Desk} desk */
function scoreRange(desk) {
  const part = (name, words, placeholder) => {
    const input = el("input", {
      class: "field field-number",
      type: "number",
      min: 0,
      max: 100,
      step: 1,
      inputmode: "numeric",
      placeholder,
      "aria-label": `${words} score in percent`,
    });
    later(input, () => {
      const value = input.value === "" || !input.validity.valid ? null : Number(input.value) / 100;
      desk.choose({ [name]: value });
    });
    return input;
  };
  const low = part("low", "Lowest", "0");
  const high = part("high", "Highest", "100");
  const element = el("div", { class: "range", role: "group", "aria-label": "Score of the model" });
  element.append(el("span", { class: "range-word" }, "Score"), low, el("span", { "aria-hidden": "true" }, "to"), high, el("span", { "aria-hidden": "true" }, "%"));
  const write = (input, value) => {
    if (document.activeElement !== input) input.value = value === null ? "" : String(Math.round(100 * value));
  };
  return { element, update: () => [write(low, desk.choice.low), write(high, desk.choice.high)] };
}

/** Called when typing pauses, and at once on Enter. */
function later(input, act) {
  let timer = 0;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = window.setTimeout(act, TYPING);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") input.blur();
    if (event.key !== "Enter") return;
    clearTimeout(timer);
    act();
  });
}

/** @param {import("./desk.js").Desk} desk */
function viewSwitch(desk, look) {
  const choices = [
    ["single", "Single", "single"],
    ["grid", "Grid", "grid"],
  ];
  const buttons = choices.map(([view, words, drawing]) =>
    button(words, { class: "segment", drawing, title: `${words} (G)`, "data-view": view, on: { click: () => look(view) } }),
  );
  const element = el("div", { class: "segments view-switch", role: "group", "aria-label": "View" }, ...buttons);
  const update = () => {
    for (const one of buttons) one.setAttribute("aria-pressed", String(one.dataset.view === desk.choice.view));
    buttons[1].disabled = desk.choice.queue === "pictures";
  };
  return { element, update };
}
