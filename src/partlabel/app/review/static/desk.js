// The desk: the run, what is chosen, the questions, and what happens to an answer. Knows nothing of the page's elements.

import { queueAddress, writeChoice } from "./choice.js";
import { Questions } from "./questions.js";
import { ask, Away, connection } from "./server.js";
import { counted, pair, tally } from "./wording.js";

/** @typedef {import("./questions.js").Item} Item */
/** @typedef {import("./choice.js").Choice} Choice */

/** Pictures whose labels are remembered. */
const REMEMBERED = 16;
const REFRESH = 20_000;
/** After an answer the counts of the queues are asked for once it has been quiet for so long. */
const QUIET = 2500;
/** An empty queue may still be worked out by the server. */
const EMPTY = 4000;

/** What is sent of an item. @param {any} item @param {"yes" | "no" | "skip"} answer @param {string} queue */
const asAnswer = ({ picture, class_name, content }, answer, queue) => ({ picture, class_name, content, answer, queue });

/** Who else answered, by name where it is known. @param {any[]} conflicts @param {string | null} me */
function others(conflicts, me) {
  const names = new Set(conflicts.flatMap(({ answers }) => answers.map(({ person }) => person)).filter((name) => name !== me));
  return names.size && !names.has(null) ? [...names].join(", ") : "Another browser";
}

/** Where the session is asked for; the pace is that of this browser. @param {string} browser */
export const sessionAddress = (browser) => `/api/session?${new URLSearchParams({ browser })}`;

/**
 * Fires "choice", "session" (counts changed), "answers" (marks changed), "undone", "said" (detail: text for the live
 * region) and "trouble" (detail: text of something that went wrong).
 */
export class Desk extends EventTarget {
  #pictures = new Map();
  #before = new WeakMap();
  #quiet = 0;
  /** Whether the grid took the class from the question, so that nobody chose it. */
  #taken = false;

  /** @param {any} session @param {Choice} choice @param {import("./outbox.js").Outbox} outbox */
  constructor(session, choice, outbox) {
    super();
    this.session = session;
    this.choice = choice;
    this.outbox = outbox;
    this.questions = new Questions(outbox);
    connection.probe = () => outbox.probe();
    connection.addEventListener("back", () => this.#returned());
    outbox.addEventListener("saved", (event) => this.#saved(/** @type {CustomEvent} */ (event).detail));
    outbox.addEventListener("refused", (event) => {
      this.#trouble(`Not saved: ${/** @type {CustomEvent} */ (event).detail.batch.refusal}`);
    });
    window.setInterval(() => this.#total() === 0 && !connection.away && this.refresh(), EMPTY);
    window.setInterval(() => document.visibilityState === "visible" && !connection.away && this.refresh(), REFRESH);
  }

  start() {
    writeChoice(this.choice);
    this.questions.load(this.choice);
    this.outbox.flush();
  }

  /** The class that is chosen. */
  get class() {
    return this.session.classes.find(({ id }) => id === this.choice.class) ?? null;
  }

  /**
   * Change what is looked at. A class that nobody chose does not follow into another queue.
   * @param {Partial<Choice>} part @param {boolean} [taken] the class is that of the question, as the grid wants one
   */
  choose(part, taken = false) {
    if (this.#taken && part.queue !== undefined && part.queue !== this.choice.queue) part = { class: null, ...part };
    if (part.class !== undefined) this.#taken = taken;
    const before = queueAddress(this.choice, 0, 1);
    this.choice = { ...this.choice, ...part };
    if (this.choice.queue === "pictures") this.choice.view = "single";
    writeChoice(this.choice);
    this.#fire("choice");
    if (queueAddress(this.choice, 0, 1) !== before) this.questions.load(this.choice);
  }

  /** The choice without filters; queue and view stay. */
  clear() {
    this.choose({ class: null, origin: "", value: "", low: null, high: null, search: "" });
  }

  /**
   * Answer one or more pairs at once: one batch, undone together.
   * @param {[Item, "yes" | "no" | "skip"][]} given
   */
  answer(given) {
    const queue = this.choice.queue === "pictures" ? "all" : this.choice.queue;
    const answers = given.map(([item, answer]) => asAnswer(item, answer, queue));
    const before = given.map(([item]) => ({ ...item }));
    for (const [item, answer] of given) {
      for (const same of this.#held(item)) Object.assign(same, { answer, mine: true, pending: true });
    }
    this.#before.set(answers, before);
    const about = given.length === 1 ? `${given[0][0].class_name}, ${given[0][1]}` : tally(answers);
    this.outbox.add(answers, about);
    this.#fire("answers");
  }

  /** Take back the latest batch of answers. */
  async undo() {
    try {
      const result = await this.outbox.undo();
      if ("local" in result) this.#restore(this.#before.get(result.local) ?? [], "Not sent");
      else {
        Object.assign(this.session, { progress: result.reply.progress, precision: result.reply.precision });
        this.#fire("session");
        this.#restore(result.reply.undone, "Taken back");
        this.#soon();
      }
    } catch (error) {
      this.#trouble(error.status === 409 ? "There is nothing to take back." : error.message);
    }
  }

  /** Settle a conflict: the answer stands whatever others said. */
  settle(conflict, answer) {
    const { class_name } = conflict;
    this.outbox.add([asAnswer(conflict, answer, "all")], `conflict settled: ${class_name}, ${answer}`, true);
    for (const same of this.#held(conflict)) Object.assign(same, { answer, conflict: false, mine: true, pending: true });
    this.#fire("answers");
  }

  /** Give up what the server refused. */
  discard() {
    const gone = this.outbox.discard();
    this.#restore(gone.flatMap((answer) => this.#held(answer).map((item) => ({ ...item, answer: null }))), "Dropped");
  }

  /** A picture with its labels, remembered for a while. @param {number} image */
  picture(image) {
    const held = this.#pictures.get(image);
    if (held) return held.promise;
    const entry = { promise: ask(`/api/picture/${image}`), reply: null };
    this.#pictures.set(image, entry);
    if (this.#pictures.size > REMEMBERED) this.#pictures.delete(this.#pictures.keys().next().value);
    entry.promise = entry.promise.then((reply) => {
      const waiting = this.outbox.latest();
      for (const item of reply.labels) {
        const mine = waiting.get(pair(item));
        if (mine) Object.assign(item, { answer: mine.answer, mine: true, pending: true });
      }
      entry.reply = reply;
      return reply;
    });
    entry.promise.catch(() => this.#pictures.delete(image));
    return entry.promise;
  }

  /** Ask for the counts again. */
  async refresh() {
    try {
      const fresh = await ask(sessionAddress(this.outbox.browser));
      if (fresh.store === this.outbox.store && this.outbox.waiting) this.outbox.flush();
      if (fresh.review !== this.session.review) return; // another run or table: the page is about to be loaded again
      const filled = this.#open(fresh) > 0 && this.#open(this.session) === 0;
      this.session = fresh;
      this.#fire("session");
      // A queue that was still being worked out when it was chosen.
      if (filled && this.questions.state === "ready" && !this.questions.items.length) this.questions.load(this.choice);
    } catch (error) {
      if (!(error instanceof Away)) this.#trouble(error.message);
    }
  }

  /** Questions of the chosen queue, answered or not; null for pictures. */
  #total() {
    return this.session.queues.find(({ id }) => id === this.choice.queue)?.total ?? null;
  }

  /** Open questions of the chosen queue. */
  #open(session) {
    const queue = session.queues.find(({ id }) => id === this.choice.queue);
    return queue ? queue.total - queue.answered : 0;
  }

  /** All objects that stand for this pair, the given one included. */
  #held(item) {
    const lists = [this.questions.items, ...[...this.#pictures.values()].map(({ reply }) => reply?.labels ?? [])];
    const same = lists.flat().filter((other) => pair(other) === pair(item));
    return "class_name" in item && !("answers" in item) && !same.includes(item) ? [...same, item] : same;
  }

  #restore(items, how) {
    for (const item of items) {
      for (const same of this.#held(item)) Object.assign(same, item, { mine: false, pending: false });
    }
    this.dispatchEvent(new CustomEvent("undone", { detail: { items } }));
    this.#fire("answers");
    if (items.length) this.say(`${how}: ${items.length === 1 ? items[0].class_name : counted(items.length, "answer")}.`);
  }

  #saved({ batch, reply }) {
    const waiting = this.outbox.latest();
    const clashes = new Set(reply.conflicts.map(pair));
    for (const answer of batch.answers) {
      for (const same of this.#held(answer)) {
        same.pending = waiting.has(pair(answer));
        same.conflict = clashes.has(pair(answer));
      }
    }
    Object.assign(this.session, { progress: reply.progress, precision: reply.precision });
    this.#fire("session");
    this.#fire("answers");
    this.say(`Saved: ${batch.about}.`);
    if (reply.aside) this.#trouble(`${counted(reply.aside, "answer")} about images or classes that this table lacks: kept for a table that has them.`);
    if (reply.outdated) this.#trouble(`${counted(reply.outdated, "answer")} about images that have been changed since: kept, but not counted.`);
    if (clashes.size) this.#trouble(`${others(reply.conflicts, this.session.person)} answered ${counted(clashes.size, "question")} differently. See Conflicts.`);
    this.#soon();
  }

  #soon() {
    clearTimeout(this.#quiet);
    this.#quiet = window.setTimeout(() => this.refresh(), QUIET);
  }

  #returned() {
    this.refresh();
    if (this.questions.state === "failed") this.questions.retry();
  }

  /** To the live region. @param {string} text */
  say(text) {
    this.dispatchEvent(new CustomEvent("said", { detail: text }));
  }

  /** Something went wrong. @param {string} text */
  #trouble(text) {
    this.dispatchEvent(new CustomEvent("trouble", { detail: text }));
  }

  #fire(name) {
    this.dispatchEvent(new Event(name));
  }
}
