// The grid for one class: starts from the labels as they stand, one sign on a page; what is clicked gets another answer.

import { button, byId, el, icon, say, visible } from "./dom.js";
import { prefetch } from "./photo.js";
import { count, counted, imageAddress, likely, pair, standing } from "./wording.js";

const CELL = 168;
const MOST = 60;
const FEWEST = 12;
const WORDS = { yes: "Yes", no: "No", skip: "Skip", open: "Open" };
/** What a page asks, by the sign of its labels. */
const TASKS = {
  present: "Labelled present. Click those that do not show it, then save.",
  absent: "Labelled absent. Click those that do show it, then save.",
  open: "No label yet. Click once for yes, twice for no; what stays open is not saved.",
};
const START = { present: "yes", absent: "no", open: "open" };

export class SheetView {
  /** Answers as they would be saved, by pair; those of earlier pages stay, so that undo brings them back. @type {Map<string, "yes" | "no" | "skip" | "open">} */
  marks = new Map();
  /** What all on this page have that are not clicked: their label. @type {"yes" | "no" | "open"} */
  rest = "open";
  /** @type {number | null} */
  #class = null;
  #key = "";
  #at = 0;
  #size = FEWEST;

  /** @param {import("./desk.js").Desk} desk @param {{focusClass: () => void}} filters */
  constructor(desk, filters) {
    this.desk = desk;
    this.element = byId("sheet");
    this.kicker = el("p", { class: "kicker" });
    this.title = el("h2", { class: "question" });
    this.task = el("p", { class: "sheet-task" });
    this.cells = el("div", { class: "cells", role: "group", "aria-label": "Images: press to change the answer" });
    this.counted = el("p", { class: "sheet-count", role: "status" });
    this.save = button("Save", { class: "answer answer-main", drawing: "yes", key: "Enter", on: { click: () => this.confirm() } });
    this.rests = ["yes", "no"].map((kind) =>
      button(`${WORDS[kind]} to all`, { class: "segment", drawing: kind, "data-kind": kind, title: "All on this page but the clicked ones (A)", on: { click: () => this.turn(kind) } }),
    );
    const step = (by, drawing, words) =>
      button("", { class: "tool", drawing, label: words, title: words, on: { click: () => this.page(by) } });
    this.steps = [step(-1, "previous", "Previous page (Page Up)"), step(1, "next", "Next page (Page Down)")];
    this.head = el(
      "div",
      { class: "sheet-head" },
      el("div", { class: "sheet-title" }, this.kicker, this.title, this.task),
      el("div", { class: "segments", role: "group", "aria-label": "Answer for all that are not clicked" }, ...this.rests),
      el("div", { class: "sheet-steps" }, ...this.steps),
    );
    this.choosing = el(
      "div",
      { class: "choosing", hidden: true },
      el("h2", { class: "blank-title" }, "Which class?"),
      el("p", {}, "The grid shows many images of one class, as they are labelled. Choose the class, then click the images that are labelled wrong."),
      button("Choose a class", { class: "answer answer-main", drawing: "search", key: "C", on: { click: () => filters.focusClass() } }),
    );
    this.foot = el(
      "div",
      { class: "sheet-foot" },
      this.counted,
      button("Undo", { class: "answer answer-undo", drawing: "undo", key: "U", on: { click: () => desk.undo() } }),
      this.save,
    );
    this.element.append(this.head, this.cells, this.choosing, this.foot);
    desk.questions.addEventListener("change", () => this.render());
    desk.addEventListener("answers", () => this.#paint());
    desk.addEventListener("undone", (event) => this.#undone(/** @type {CustomEvent} */ (event).detail.items));
    new ResizeObserver(() => this.#fit()).observe(this.cells);
  }

  /** The questions of this page: as many as fit, all labelled alike. */
  get items() {
    const { items, place } = this.desk.questions;
    const page = items.slice(place, place + this.#size);
    const end = page.findIndex((item) => sign(item) !== sign(page[0]));
    return end < 0 ? page : page.slice(0, end);
  }

  /** What differs from the answers that are there already. @returns {[any, "yes" | "no" | "skip"][]} */
  get #changed() {
    const marked = this.items.map((item) => [item, this.#mark(item)]);
    return /** @type {[any, "yes" | "no" | "skip"][]} */ (marked.filter(([item, mark]) => mark !== "open" && item.answer !== mark));
  }

  #mark(item) {
    return this.marks.get(pair(item)) ?? item.answer ?? START[sign(item)];
  }

  render() {
    if (this.element.hidden) return;
    const { questions, choice } = this.desk;
    const none = choice.class === null;
    this.choosing.hidden = !none;
    this.cells.hidden = this.head.hidden = this.foot.hidden = none;
    if (none) return;
    if (this.#class !== choice.class) this.marks.clear();
    this.#class = choice.class;
    this.#measure();
    const name = this.desk.class?.name ?? "";
    this.title.replaceChildren(el("bdi", {}, name), "?");
    this.title.title = visible(name);
    this.title.dataset.length = name.length > 40 ? "very-long" : "short";
    const { items } = this;
    say(this.kicker, items.length ? `${count(questions.place + 1)} to ${count(questions.place + items.length)} of ${count(questions.total)}` : " ");
    this.steps[0].disabled = questions.place === 0;
    this.steps[1].disabled = questions.place + items.length >= questions.items.length;
    say(this.task, items.length ? TASKS[sign(items[0])] : "");
    const key = `${questions.place}/${items.map(pair).join()}`;
    if (key !== this.#key) this.#lay(items, key);
    this.#paint();
    for (const item of questions.items.slice(questions.place + items.length, questions.place + items.length + this.#size)) prefetch(imageAddress("thumbnail", item));
  }

  /** Give all on this page that are not clicked another answer. @param {"yes" | "no"} [kind] the next one where not given */
  turn(kind = this.rest === "yes" ? "no" : "yes") {
    for (const item of this.items) if (this.#mark(item) === this.rest) this.marks.set(pair(item), kind);
    this.rest = kind;
    this.#paint();
  }

  /** Change the answer of a cell. @param {"yes" | "no" | "skip"} [to] */
  toggle(at = this.#at, to) {
    const item = this.items[at];
    if (!item) return;
    const now = this.#mark(item);
    const round = START[sign(item)] === "open" ? { open: "yes", yes: "no", no: "open", skip: "open" } : { yes: "no", no: "yes", skip: START[sign(item)] };
    this.marks.set(pair(item), to && now === to ? START[sign(item)] : (to ?? round[now]));
    this.#focus(at, false);
    this.#paint();
  }

  /** Save the page and go to the next. */
  confirm() {
    const { items } = this;
    if (!items.length || this.element.hidden || this.desk.choice.class === null) return;
    const focused = this.cells.contains(document.activeElement);
    const changed = this.#changed;
    if (changed.length) this.desk.answer(changed);
    this.#at = 0;
    this.desk.questions.goTo(this.desk.questions.place + items.length);
    this.cells.scrollTop = 0;
    if (focused && this.items.length) this.#focus(0);
  }

  /** @param {number} by pages */
  page(by) {
    const { questions } = this.desk;
    const { items } = questions;
    let to = questions.place + this.items.length;
    if (by > 0 && to >= items.length) return;
    if (by < 0) {
      if (!questions.place) return;
      to = questions.place - 1;
      while (to > 0 && questions.place - to < this.#size && sign(items[to - 1]) === sign(items[to])) to -= 1;
    }
    this.#at = 0;
    questions.goTo(to);
  }

  /** Move the focus. @param {string} key */
  walk(key) {
    const across = this.#columns();
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across, Home: -this.#at, End: this.items.length - 1 - this.#at }[key];
    const entering = !this.cells.contains(document.activeElement);
    const to = entering ? this.#at : this.#at + (by ?? 0);
    if (to >= 0 && to < this.items.length) this.#focus(to);
  }

  #lay(items, key) {
    this.#key = key;
    this.#at = Math.min(this.#at, Math.max(0, items.length - 1));
    this.rest = items.length ? START[sign(items[0])] : "open";
    for (const item of items) if (item.answer) this.marks.set(pair(item), item.answer);
    const focused = this.cells.contains(document.activeElement);
    this.cells.replaceChildren(...items.map((item, at) => this.#cell(item, at)));
    if (focused) this.#focus(this.#at);
  }

  #cell(item, at) {
    const cell = el(
      "button",
      { type: "button", class: "cell", "data-at": at, title: item.picture, on: { click: () => this.toggle(at), focus: () => this.#focus(at, false) } },
      el("span", { class: "cell-picture" }, el("img", { src: imageAddress("thumbnail", item), alt: "", draggable: "false" }), el("span", { class: "cell-mark" })),
      el("span", { class: "cell-under" }, el("span", { class: "cell-answer" }), el("span", { class: "cell-score" }, item.score === null ? "" : likely(item.score))),
      el("span", { class: "cell-given" }, standing(item)),
    );
    cell.querySelector("img").addEventListener("error", () => cell.setAttribute("data-broken", ""));
    return cell;
  }

  #paint() {
    if (this.element.hidden) return;
    const { items } = this;
    const totals = { yes: 0, no: 0, skip: 0, open: 0 };
    items.forEach((item, at) => {
      const cell = this.cells.children[at];
      const mark = this.#mark(item);
      totals[mark] += 1;
      if (!cell) return;
      const done = item.answer === mark ? (item.pending ? ", not saved yet" : ", saved") : "";
      cell.tabIndex = at === this.#at ? 0 : -1;
      cell.setAttribute("aria-label", `${item.picture}: ${WORDS[mark]}${done}. ${standing(item)}${item.score === null ? "" : `, model ${likely(item.score)}`}`);
      cell.setAttribute("aria-pressed", String(mark !== this.rest));
      cell.toggleAttribute("data-done", item.answer === mark && !item.pending);
      if (cell.dataset.mark !== mark) {
        cell.dataset.mark = mark;
        cell.querySelector(".cell-mark").replaceChildren(...(mark === "open" ? [] : [icon(mark)]));
        say(cell.querySelector(".cell-answer"), WORDS[mark]);
      }
    });
    for (const one of this.rests) one.setAttribute("aria-pressed", String(one.dataset.kind === this.rest));
    const parts = [`${count(totals.yes)} yes`, `${count(totals.no)} no`];
    if (totals.open) parts.push(`${count(totals.open)} open`);
    if (totals.skip) parts.push(`${count(totals.skip)} skipped`);
    say(this.counted, items.length ? parts.join(", ") : "");
    const changes = this.#changed.length;
    say(this.save.querySelector(".button-text"), changes ? `Save ${counted(changes, "answer")}` : "Next page");
    this.save.disabled = !items.length;
  }

  #focus(at, move = true) {
    this.#at = at;
    [...this.cells.children].forEach((cell, number) => (cell.tabIndex = number === at ? 0 : -1));
    if (move) this.cells.children[at]?.focus();
  }

  /** As many cells as fit without scrolling; on a small screen a fixed number, and the page scrolls. */
  #measure() {
    const { clientWidth, clientHeight } = this.cells;
    if (!clientWidth) return;
    const rows = Math.floor((clientHeight + 12) / (this.#height() + 12));
    this.#size = Math.max(FEWEST, Math.min(MOST, this.#columns() * rows));
  }

  #columns() {
    return getComputedStyle(this.cells).gridTemplateColumns.split(" ").length || 1;
  }

  #height() {
    return this.cells.firstElementChild?.getBoundingClientRect().height || CELL;
  }

  #fit() {
    const before = this.#size;
    this.#measure();
    if (this.#size !== before) this.render();
  }

  #undone(items) {
    // Also from the end of the list, where nothing is shown.
    if (this.desk.choice.view !== "grid" || !items.length) return;
    this.#key = "";
    this.desk.questions.bring(items);
  }
}

/** How an item is labelled. @returns {"present" | "absent" | "open"} */
const sign = (item) => item?.value ?? "open";
