"use strict";

function filterRows(form) {
  const table = document.getElementById(form.dataset.for);
  const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = form.elements.verdict.value;
  let shown = 0;
  for (const row of table.tBodies[0].rows) {
    const text = row.dataset.text ||= [...row.cells].slice(0, 2).map((cell) => cell.textContent).join(" ").toLowerCase();
    const fits = wanted === "" || (wanted === "result" ? row.dataset.result === "yes" : row.dataset.verdict === wanted);
    row.hidden = !(fits && words.every((word) => text.includes(word)));
    shown += !row.hidden;
  }
  form.querySelector("output").textContent = `${shown} of ${table.tBodies[0].rows.length} rows`;
}

function sortRows(table, column, header) {
  const ascending = header.getAttribute("aria-sort") !== "ascending";
  const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const numeric = header.classList.contains("n");
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    if ((x === "") !== (y === "")) return x === "" ? 1 : -1; // empty cells last, whichever way
    const order = numeric ? x - y : x.localeCompare(y, undefined, { numeric: true });
    return ascending ? order : -order;
  });
  table.tBodies[0].append(...rows);
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
}

async function copy(button) {
  const text = button.dataset.copy;
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
    button.focus();
  }
  button.textContent = done ? "Copied" : "Failed";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

for (const form of document.querySelectorAll(".filters")) {
  form.hidden = false;
  for (const kind of ["input", "change"]) form.addEventListener(kind, () => filterRows(form));
  form.addEventListener("submit", (event) => event.preventDefault());
  filterRows(form);
}
for (const table of document.querySelectorAll("table.rows")) {
  [...table.tHead.rows[0].cells].forEach((header, column) => {
    if (header.classList.contains("unsorted")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => sortRows(table, column, header));
  });
}
for (const button of document.querySelectorAll(".copy")) {
  button.hidden = false;
  button.addEventListener("click", () => copy(button));
}
