// The labels of one picture as a list: the arrow keys go through it, and the answer keys answer the marked one.

import { el, icon } from "./dom.js";
import { likely, pair } from "./wording.js";

const WORDS = { yes: "yes", no: "no", skip: "skipped", present: "yes", absent: "no" };
const DRAWING = { yes: "yes", no: "no", skip: "skip", present: "yes", absent: "no" };

/** The mark of an answer or label: drawing and word, so that colour is never the only sign. */
export function mark(item) {
  const kind = item.answer ?? item.value;
  const whose = item.answer ? "person" : item.origin === "model" ? "model" : "table";
  const words = kind ? WORDS[kind] : "open";
  const element = el("span", { class: "mark", "data-kind": kind ?? "open", "data-whose": whose, "data-pending": item.pending ? true : null });
  if (kind) element.append(icon(DRAWING[kind]));
  element.append(el("span", { class: "mark-word" }, words));
  return element;
}

/** @param {(item: any) => void} choose called when a label is picked */
export function labelList(choose) {
  const list = el("ul", { class: "labels-list" });
  const title = el("h3", { class: "labels-title", id: "labels-title" }, "In this image");
  const element = el("section", { class: "labels", "aria-labelledby": "labels-title" }, title, list);
  /** @type {any[]} */
  let items = [];

  const show = (labels, asked) => {
    const focused = list.contains(document.activeElement) ? document.activeElement.dataset.pair : null;
    items = labels;
    list.replaceChildren(
      ...labels.map((item) => {
        const here = asked && pair(item) === pair(asked);
        const said = item.answer ?? (item.value ? WORDS[item.value] : "open");
        const row = el(
          "button",
          {
            type: "button",
            class: "label-row",
            "data-pair": pair(item),
            "aria-current": here ? "true" : null,
            tabindex: here ? 0 : -1,
            title: item.class_name,
            "aria-label": `${item.class_name}: ${said}${item.conflict ? ", conflict" : ""}${item.score === null ? "" : `, model ${likely(item.score)}`}`,
            on: { click: () => choose(item) },
          },
          el("span", { class: "label-name" }, item.class_name),
          el("span", { class: "label-score" }, item.score === null ? "" : likely(item.score)),
          mark(item),
        );
        return el("li", {}, row);
      }),
    );
    if (asked && !labels.some((item) => pair(item) === pair(asked))) list.querySelector("button")?.setAttribute("tabindex", "0");
    const current = list.querySelector("[aria-current]");
    if (current) keepInSight(list, current);
    if (focused !== null) (list.querySelector(`[data-pair="${CSS.escape(focused)}"]`) ?? current)?.focus({ preventScroll: true });
  };
  const wait = () => {
    items = [];
    list.replaceChildren(...Array.from({ length: 8 }, () => el("li", { class: "label-wait", "aria-hidden": "true" })));
  };
  const none = (text) => {
    items = [];
    list.replaceChildren(el("li", { class: "labels-none" }, text));
  };
  /** The label above or below the asked one. */
  const beside = (asked, by) => {
    const at = asked ? items.findIndex((item) => pair(item) === pair(asked)) : -1;
    return items[at < 0 ? (by > 0 ? 0 : items.length - 1) : Math.max(0, Math.min(items.length - 1, at + by))] ?? null;
  };
  /** The next label without an answer of a person, from the asked one on. */
  const open = (asked) => {
    const at = items.findIndex((item) => pair(item) === pair(asked));
    return items.slice(at + 1).find((item) => !item.answer) ?? null;
  };
  return { element, show, wait, none, beside, open };
}

/** Scrolls the list only, never the page, and by whole rows. */
function keepInSight(list, row) {
  const box = list.getBoundingClientRect();
  const at = row.getBoundingClientRect();
  if (at.top >= box.top && at.bottom <= box.bottom) return;
  const place = [...list.children].indexOf(row.parentElement);
  list.scrollTop = Math.max(0, place - 1) * row.parentElement.getBoundingClientRect().height;
}
