"use strict";
// A field above long tables that hides the rows without a text. Without scripts all rows are there.
for (const table of document.querySelectorAll("table[data-filter]")) {
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = "show only rows with …";
  field.setAttribute("aria-label", "Filter: " + table.dataset.filter);
  const line = document.createElement("p");
  line.className = "filter";
  line.append(field);
  table.before(line);
  field.addEventListener("input", () => {
    const wanted = field.value.toLowerCase();
    for (const row of table.tBodies[0].rows) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
    }
  });
}
