(() => {
  "use strict";
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const themes = ["auto", "light", "dark"];
  const show = (theme) => {
    root.dataset.theme = theme;
    button.textContent = "Theme: " + theme;
  };
  let stored = "auto";
  try { stored = localStorage.getItem("partlabel-theme") || "auto"; } catch { /* not allowed for this file */ }
  show(themes.includes(stored) ? stored : "auto");
  button.hidden = false;
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length];
    show(next);
    try { localStorage.setItem("partlabel-theme", next); } catch { /* lasts as long as the page */ }
  });

  const value = (row, column) => {
    const cell = row.cells[column];
    return "v" in cell.dataset ? cell.dataset.v : cell.textContent.trim();
  };
  const sort = (table, head) => {
    const column = head.cellIndex;
    const numeric = head.dataset.kind === "number";
    const before = head.getAttribute("aria-sort");
    const down = before === "none" ? numeric : before === "ascending";
    for (const other of head.parentNode.cells) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows].map((row) => [value(row, column), row]);
    rows.sort(([a], [b]) => {
      if (a === "" || b === "") return (a === "") - (b === "");
      const order = numeric ? a - b : a.localeCompare(b, undefined, { numeric: true });
      return down ? -order : order;
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    for (const head of table.tHead.rows[table.tHead.rows.length - 1].cells) {
      head.querySelector("button")?.addEventListener("click", () => sort(table, head));
    }
  }
})();
