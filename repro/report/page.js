"use strict";

const groups = [...document.querySelectorAll("details.group")];
let openBefore = null; // which groups were open when a search began

function filterRows(form) {
  const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = form.elements.verdict.value;
  if (words.length && !openBefore) openBefore = groups.map((group) => group.open);
  const perPaper = new Map();
  let elsewhere = 0; // rows with all words, but not of the chosen kind
  for (const group of groups) {
    const rows = [...group.querySelectorAll("tbody tr")];
    let shown = 0;
    for (const row of rows) {
      row.words ||= [group.dataset.words, ...[0, 1, 2].map((i) => row.cells[i].textContent)].join(" ").toLowerCase();
      const fits = !wanted || (wanted === "result" ? "result" in row.dataset : row.dataset.verdict === wanted);
      const found = words.every((word) => row.words.includes(word));
      row.hidden = !(fits && found);
      shown += !row.hidden;
      elsewhere += found && !fits;
    }
    group.hidden = shown === 0;
    if (words.length) group.open = shown > 0;
    const paper = group.closest(".paper");
    const [before, total] = perPaper.get(paper) ?? [0, 0];
    perPaper.set(paper, [before + shown, total + rows.length]);
  }
  if (!words.length && openBefore) {
    groups.forEach((group, i) => { group.open = openBefore[i]; });
    openBefore = null;
  }
  for (const [paper, [shown, total]] of perPaper) {
    paper.querySelector(".shown").textContent = `${shown} of ${total} shown`;
    paper.hidden = words.length > 0 && shown === 0;
  }
  const sum = (i) => [...perPaper.values()].reduce((total, counts) => total + counts[i], 0);
  const output = form.querySelector("output");
  const more = words.length > 0 && elsewhere > 0;
  output.textContent = `${sum(0)} of ${sum(1)} rows${more ? `, ${elsewhere} more in “all rows”` : ""}`;
  output.classList.toggle("more", more);
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

const COPY = matchMedia("(max-width: 48rem)").matches ? "Copy command" : "Copy"; // where its text is not shown

async function copy(button, text) {
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
  setTimeout(() => { button.textContent = COPY; }, 1500);
}

function addButton(parent, text, onClick) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...text);
  button.addEventListener("click", () => onClick(button));
  parent.append(button);
  return button;
}

// A link to a part of the page opens what it lies in and the list of its runs.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (const filter of ["text", "verdict"]) {
    if (!target.closest("[hidden]")) break;
    form.elements[filter].value = "";
    filterRows(form);
  }
  for (let part = target; part; part = part.parentElement) if (part.matches("details")) part.open = true;
  const inner = target.matches(".runs") && target.querySelector("details");
  if (inner) inner.open = true;
  document.documentElement.classList.add("whole");  // groups above it have their height at once
  target.scrollIntoView();
}

const form = document.getElementById("filters");
form.hidden = false;
for (const kind of ["input", "change"]) form.addEventListener(kind, () => filterRows(form));
form.addEventListener("submit", (event) => event.preventDefault());
filterRows(form);
for (const table of document.querySelectorAll("table.rows")) {
  [...table.tHead.rows[0].cells].forEach((header, column) => {
    if (header.classList.contains("unsorted")) return;
    addButton(header, [...header.childNodes], () => sortRows(table, column, header));
  });
  for (const code of table.querySelectorAll(".command code")) {
    const text = code.textContent;
    const button = addButton(code.parentElement, [COPY], (self) => copy(self, text));
    button.className = "copy";
    button.title = text;
    const [task, agent] = [...code.closest("tr").cells].map((cell) => cell.firstChild.textContent.trim());
    button.setAttribute("aria-label", `Copy the command for ${task}, ${agent}`);
    code.title = text;
  }
}
addEventListener("hashchange", openTarget);
openTarget();
