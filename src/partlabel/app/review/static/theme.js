// Runs before the first paint, so that the chosen theme does not flash. Not a module for that reason.
"use strict";

(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("partlabel.theme");
  } catch {
    // Without storage the theme of the system holds.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
