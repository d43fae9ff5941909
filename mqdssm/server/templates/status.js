"use strict";
// Every few seconds the page gets itself again and shows the new state. Without scripts the browser loads it again.
const SECONDS = 5;
const lost = document.getElementById("lost");
async function refresh() {
  const selection = document.getSelection();
  if (document.hidden || (selection && !selection.isCollapsed)) {
    return;
  }
  try {
    const answer = await fetch(location.pathname, {cache: "no-store", redirect: "error"});
    if (!answer.ok) {
      throw new Error(String(answer.status));
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const state = page.querySelector("main");
    if (state === null) {
      throw new Error("no status page");
    }
    const was = document.getElementById("full-size");
    const is = state.querySelector("#full-size");
    if (was !== null && is !== null) {
      is.checked = was.checked;
    }
    document.querySelector("main").replaceWith(state);
    document.title = page.title;
    lost.hidden = true;
  } catch {
    lost.hidden = false;
  }
}
setInterval(refresh, SECONDS * 1000);
