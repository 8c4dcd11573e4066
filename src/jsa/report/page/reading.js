// What a reader does with the rest of the page: copy commands, sort the table of runs, follow a link into the settings.

function copied(text) {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done ? Promise.resolve() : Promise.reject(new Error("copying is not allowed here"));
}

function addCopying() {
  for (const pressed of document.querySelectorAll("button.copy")) {
    pressed.addEventListener("click", async () => {
      const code = pressed.parentElement.querySelector("code");
      try {
        await copied(code.textContent);
        pressed.textContent = "copied";
      } catch {
        // The reader can still copy what is selected.
        getSelection().selectAllChildren(code);
        pressed.textContent = "selected";
      }
      setTimeout(() => { pressed.textContent = "copy"; }, 1500);
    });
  }
}

function sortBy(table, column, falling) {
  const value = (row) => row.cells[column].dataset.value;
  const rows = [...table.tBodies[0].rows];
  rows.sort((one, two) => {
    const [first, second] = [value(one), value(two)];
    // A run without the figure comes last in both directions.
    if ((first === undefined) !== (second === undefined)) return first === undefined ? 1 : -1;
    const order = first === undefined
      ? one.cells[column].textContent.localeCompare(two.cells[column].textContent, "en", { numeric: true })
      : Number(first) - Number(second);
    return falling ? -order : order;
  });
  table.tBodies[0].append(...rows);
}

function addSorting() {
  for (const table of document.querySelectorAll("table.sortable")) {
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => heading.querySelector("button").addEventListener("click", () => {
      const falling = heading.getAttribute("aria-sort") === "ascending";
      for (const other of headings) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
      sortBy(table, column, falling);
    }));
  }
}

function openTarget() {
  const target = location.hash.startsWith("#run-") && document.getElementById(location.hash.slice(1));
  if (!target) return;
  for (let node = target; node; node = node.parentElement.closest("details")) node.open = true;
  target.scrollIntoView();
}

const data = JSON.parse(document.getElementById("data").textContent);
for (const section of data.sections) {
  new Section(data, section, document.querySelector(`[data-section="${section.name}"]`));
}
addCopying();
addSorting();
addEventListener("hashchange", openTarget);
openTarget();
