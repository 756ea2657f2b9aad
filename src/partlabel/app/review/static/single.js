// One picture at a time: its question, the answers, and the other labels of the picture.

import { button, byId, el, icon, say, visible } from "./dom.js";
import { labelList } from "./picture_labels.js";
import { photoStage, prefetch } from "./photo.js";
import { count, imageAddress, likely, pair, standing } from "./wording.js";

const AHEAD = 3;
const STRIP = 9;
const LONG = 26;
const VERY_LONG = 60;

/** @typedef {import("./questions.js").Item} Item */

export class SingleView {
  /** The label that the answer keys answer. @type {Item | null} */
  asked = null;
  /** A label picked from the picture's list instead of the question of the queue. */
  #picked = false;
  #image = -1;

  /** @param {import("./desk.js").Desk} desk */
  constructor(desk) {
    this.desk = desk;
    this.element = byId("single");
    this.photo = photoStage({ move: (by) => this.move(by), swipe: (answer) => this.answer(answer) });
    this.labels = labelList((item) => this.pick(item));
    this.file = el("span", { class: "caption-file" });
    this.size = el("span", { class: "caption-size" });
    this.caption = el("p", { class: "caption" }, this.file, this.size);
    this.strip = el("ol", { class: "strip", "aria-hidden": "true" });
    this.kicker = el("p", { class: "kicker" });
    this.question = el("h2", { class: "question", "aria-live": "polite" });
    this.facts = el("p", { class: "facts" });
    this.bar = el("span", { class: "likely-bar", "aria-hidden": "true" });
    this.marked = el("p", { class: "marked" });
    this.buttons = {
      yes: button("Yes", { class: "answer answer-yes", drawing: "yes", key: "Y", on: { click: () => this.answer("yes") } }),
      no: button("No", { class: "answer answer-no", drawing: "no", key: "N", on: { click: () => this.answer("no") } }),
      skip: button("Skip", { class: "answer answer-skip", drawing: "skip", key: "S", on: { click: () => this.answer("skip") } }),
    };
    const undo = button("Undo", { class: "answer answer-undo", drawing: "undo", key: "U", on: { click: () => desk.undo() } });
    const picture = el("div", { class: "picture" }, this.photo.element, el("div", { class: "under" }, this.caption, this.strip));
    const panel = el(
      "div",
      { class: "panel" },
      el("div", { class: "ask" }, this.kicker, this.question, this.bar, this.facts, this.marked),
      el("div", { class: "answers", role: "group", "aria-label": "Answer" }, ...Object.values(this.buttons), undo),
      this.labels.element,
    );
    this.element.append(picture, panel);
    desk.questions.addEventListener("change", () => this.render());
    desk.addEventListener("answers", () => this.#marks());
    desk.addEventListener("undone", (event) => this.#undone(/** @type {CustomEvent} */ (event).detail.items));
  }

  get #byPicture() {
    return this.desk.choice.queue === "pictures";
  }

  /** @param {number} by */
  move(by) {
    this.#picked = false;
    this.desk.questions.goTo(this.desk.questions.place + by);
  }

  /** Up and down in the list of labels. @param {number} by */
  walk(by) {
    const item = this.labels.beside(this.asked, by);
    if (item) this.pick(item);
  }

  /** @param {Item} item */
  pick(item) {
    this.asked = item;
    this.#picked = !this.#byPicture && pair(item) !== pair(this.desk.questions.current ?? item);
    this.#ask();
    this.#marks();
  }

  /** @param {"yes" | "no" | "skip"} answer */
  answer(answer) {
    const { questions } = this.desk;
    if (!this.asked || this.element.hidden) return;
    const answered = this.asked;
    this.desk.answer([[answered, answer]]);
    flash(this.buttons[answer]);
    if (this.#byPicture) {
      const next = this.labels.open(answered);
      if (next) this.pick(next);
      else this.#marks();
    } else if (this.#picked) {
      this.#picked = false;
      if (questions.current) this.pick(questions.current);
    } else questions.nextOpen();
  }

  render() {
    if (this.element.hidden) return;
    const item = this.desk.questions.current;
    if (!item) return;
    if (!this.#picked && !this.#byPicture) this.asked = item;
    if (this.#image !== item.image) this.#turnTo(item);
    this.#ask();
    this.#marks();
    this.#strip();
    this.#ahead();
  }

  async #turnTo(item) {
    this.#image = item.image;
    this.#picked = false;
    this.asked = this.#byPicture ? null : item;
    this.photo.show(item);
    say(this.file, item.picture);
    say(this.size, "\u00a0");
    this.caption.title = visible(item.picture);
    this.loaded = null;
    this.labels.wait();
    try {
      const reply = await this.desk.picture(item.image);
      if (this.#image !== item.image) return;
      this.loaded = reply;
      say(this.size, reply.width ? `${reply.width} × ${reply.height}` : "size unknown");
      if (this.#byPicture) this.asked = reply.labels.find((label) => !label.answer) ?? reply.labels[0] ?? null;
      this.#ask();
      this.#marks();
    } catch (error) {
      if (this.#image === item.image) this.labels.none(`The labels could not be loaded: ${error.message}`);
      this.#image = -1;
    }
  }

  #ask() {
    const { questions } = this.desk;
    const { asked } = this;
    const noun = this.#byPicture ? "Image" : "Question";
    const more = this.#picked ? "Another label of this image" : `${noun} ${count(questions.place + 1)} of ${count(questions.total)}`;
    say(this.kicker, more);
    const name = asked?.class_name ?? "";
    if (this.question.dataset.name !== name) {
      this.question.dataset.name = name;
      this.question.dataset.length = name.length > VERY_LONG ? "very-long" : name.length > LONG ? "long" : "short";
      this.question.replaceChildren(el("span", { class: "unseen" }, "In this image: "), el("bdi", {}, name), asked ? "?" : "");
      this.question.title = visible(name);
    }
    for (const one of Object.values(this.buttons)) one.disabled = !asked;
  }

  #marks() {
    const { asked } = this;
    if (this.element.hidden) return;
    const score = asked?.score ?? null;
    this.bar.style.setProperty("--share", String(score ?? 0));
    this.bar.toggleAttribute("data-none", score === null);
    const model = score === null ? "no score of the model" : `model ${likely(score)}`;
    say(this.facts, asked ? `${standing(asked)} · ${model}` : "");
    this.#mine(asked);
    for (const [answer, one] of Object.entries(this.buttons)) one.setAttribute("aria-pressed", String(asked?.answer === answer));
    if (this.loaded?.image === this.#image) {
      if (this.loaded.labels.length) this.labels.show(this.loaded.labels, asked);
      else this.labels.none("No label is known or scored here.");
    }
    this.#strip();
  }

  /** What was answered here, and whether the server has it. @param {Item | null} asked */
  #mine(asked) {
    const answer = asked?.answer;
    this.marked.dataset.state = !answer ? "none" : asked.conflict ? "conflict" : asked.pending ? "pending" : "saved";
    const word = answer === "skip" ? "skipped" : answer;
    const whose = asked?.mine ? "Your answer" : "Answered";
    const how = asked?.conflict ? "in conflict" : asked?.pending ? "not saved yet" : "saved";
    this.marked.replaceChildren(...(answer ? [icon(answer), `${whose}: ${word}, ${how}`] : []));
  }

  /** The film strip: where we are among the pictures around. */
  #strip() {
    const { questions } = this.desk;
    const from = Math.max(0, Math.min(questions.place - 3, questions.items.length - STRIP));
    const key = questions.items.slice(from, from + STRIP).map((item) => `${pair(item)}${item.answer}${item.pending}`).join() + questions.place;
    if (this.strip.dataset.key === key) return;
    this.strip.dataset.key = key;
    this.strip.replaceChildren(
      ...questions.items.slice(from, from + STRIP).map((item, at) => {
        const place = from + at;
        const frame = el("li", { class: "strip-item", "data-here": place === questions.place ? true : null, on: { click: () => this.move(place - questions.place) } });
        frame.append(el("img", { src: imageAddress("thumbnail", item), alt: "", draggable: "false" }));
        if (item.answer) frame.append(el("span", { class: "strip-mark", "data-pending": item.pending ? true : null }, icon(item.answer)));
        return frame;
      }),
    );
  }

  #ahead() {
    const { items, place } = this.desk.questions;
    const next = items.slice(place + 1).filter((item) => item.image !== this.#image);
    const images = new Map(next.map((item) => [item.image, item]));
    for (const item of [...images.values()].slice(0, AHEAD)) {
      prefetch(imageAddress("photo", item));
      this.desk.picture(item.image).catch(() => {});
    }
  }

  #undone(items) {
    if (this.desk.choice.view !== "single" || !items.length) return;
    const [first] = items;
    if (this.#byPicture) {
      const place = this.desk.questions.items.findIndex(({ image }) => image === first.image);
      if (!this.element.hidden && first.image === this.#image) this.pick(this.loaded?.labels.find((label) => pair(label) === pair(first)) ?? first);
      else if (place >= 0) this.desk.questions.goTo(place);
      return;
    }
    this.#picked = false;
    this.desk.questions.bring(items);
  }
}

/** The pressed look, for answers given by key. @param {HTMLElement} element */
function flash(element) {
  element.setAttribute("data-pressed", "");
  window.setTimeout(() => element.removeAttribute("data-pressed"), 140);
}
