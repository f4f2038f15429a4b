"use strict";
// Sorting: a button in each column's head. A cell sorts by data-v as a number, else by its text; empty ones come last.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.v !== undefined) return cell.dataset.v === "" ? null : Number(cell.dataset.v);
    const text = cell.textContent.trim();
    if (text === "" || text === "–") return null;
    return text !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
  };
  heads.forEach((head, column) => {
    if (head.textContent.trim() === "") return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const first = head.classList.contains("n") ? "descending" : "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      const order = before === first ? other : first;
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const rows = [...body.rows].map((row) => [key(row, column), row]);
      rows.sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null);
        if (typeof a === "number" && typeof b === "number") return sign * (a - b);
        return sign * String(a).localeCompare(String(b), "en", { numeric: true });
      });
      body.append(...rows.map(([, row]) => row));
    });
  });
}
// Light or dark, whatever the system says.
const button = document.createElement("button");
button.id = "theme";
button.type = "button";
const dark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};
const name = () => { button.textContent = dark() ? "Light" : "Dark"; };
button.addEventListener("click", () => {
  document.documentElement.dataset.theme = dark() ? "light" : "dark";
  name();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
name();
document.querySelector("header").append(button);
