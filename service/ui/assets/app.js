// Scripts of all pages: keyboard navigation, panels at the side, menus that close, ages that are
// updated, copying, notices that are shown once.
"use strict";

(() => {
  // A checkbox takes no text.
  const isTyping = (target) =>
    target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null;

  const closeMenus = (except) => {
    for (const menu of document.querySelectorAll("details.menu[open], details.facet[open]")) {
      if (!menu.contains(except)) menu.open = false;
    }
  };

  // Arrow keys move the focus by one along the links of a list, such as rows or verdicts.
  const step = (target, selector, by) => {
    const list = target.closest(selector);
    if (list === null) return false;
    const links = [...list.querySelectorAll("a[href], input[type=checkbox]")].filter(
      // From a link to a link, and from a checkbox to a checkbox.
      (each) => each.localName === target.localName,
    );
    const next = links.includes(target) ? links[links.indexOf(target) + by] : undefined;
    if (next === undefined) return false;
    if (selector === ".verdicts") {
      target.tabIndex = -1;
      next.tabIndex = 0;
    }
    next.focus();
    return true;
  };

  // Each list of verdicts is one stop of the tab key. Without scripts each verdict is one, because no
  // arrow key leads to it.
  for (const list of document.querySelectorAll(".verdicts")) {
    const links = [...list.querySelectorAll("a[href]")];
    for (const link of links) link.tabIndex = link === links.at(-1) ? 0 : -1;
  }

  // On narrow screens a panel at the side comes last: for the tab key and screen readers too.
  const isNarrow = matchMedia("(max-width: 60rem)");
  const placePanels = () => {
    for (const panel of document.querySelectorAll(".narrow-wide:not(.all) > .side")) {
      if (isNarrow.matches) panel.parentElement.append(panel);
      else panel.parentElement.prepend(panel);
    }
  };
  isNarrow.addEventListener("change", placePanels);
  placePanels();

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target;
    if (event.key === "Escape") {
      const menu = target.closest("details.menu[open], details.facet[open]");
      closeMenus(null);
      if (menu !== null) menu.querySelector("summary").focus();
      // On narrow screens it lies over the page while it has the focus.
      if (target.id === "find") target.blur();
    } else if (event.key === "/" && !isTyping(target)) {
      const field = document.getElementById("glob") ?? document.getElementById("find");
      if (field === null) return;
      event.preventDefault();
      field.focus();
      field.select();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const by = event.key === "ArrowDown" ? 1 : -1;
      if (!isTyping(target) && step(target, ".walk", by)) event.preventDefault();
    } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const by = event.key === "ArrowRight" ? 1 : -1;
      if (!isTyping(target) && step(target, ".verdicts", by)) event.preventDefault();
    }
  });

  document.addEventListener("click", (event) => {
    closeMenus(event.target);
    const button = event.target.closest("[data-copy]");
    if (button === null) return;
    const text = button.parentElement.querySelector("pre").textContent;
    navigator.clipboard.writeText(text).then(() => {
      button.lastChild.textContent = "Copied";
    });
  });

  const showCopyButtons = () => {
    if (navigator.clipboard === undefined) return;
    for (const button of document.querySelectorAll("[data-copy]")) button.hidden = false;
  };
  showCopyButtons();

  // The age of the page by the browser's clock, since the server's clock may differ.
  let opened = Date.now();
  const tell = () => {
    const seconds = Math.round((Date.now() - opened) / 1000);
    let age = `${seconds}\u00a0s`;
    if (seconds >= 60) age = `${Math.floor(seconds / 60)}\u00a0min`;
    if (seconds >= 3600) age = `${Math.floor(seconds / 3600)}\u00a0h`;
    for (const place of document.querySelectorAll("[data-age]")) {
      place.textContent = `Updated ${age} ago`;
    }
  };
  setInterval(tell, 10_000);

  // A notice of what a form did is not repeated by a reload or to whoever gets the URL. It names the
  // parameter that it was made from.
  const once = document.querySelector("[data-once]");
  if (once !== null) {
    const url = new URL(location.href);
    url.searchParams.delete(once.dataset.once);
    history.replaceState(history.state, "", url);
  }

  // A part that is being loaded looks so, and stays if no answer comes. One that opens is loaded
  // until it has come.
  document.addEventListener("htmx:beforeRequest", (event) => {
    const part = event.detail.elt;
    if (part.matches("[data-load-once]") && (part.dataset.loadOnce === "done" || !part.open)) {
      event.preventDefault();
      return;
    }
    event.detail.target.setAttribute("aria-busy", "true");
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    event.detail.target.removeAttribute("aria-busy");
    if (event.detail.successful && event.detail.elt.matches("[data-load-once]")) {
      event.detail.elt.dataset.loadOnce = "done";
    }
    document.getElementById("unanswered")?.remove();
  });
  document.addEventListener("htmx:sendError", (event) => {
    const notice = document.createElement("p");
    notice.id = "unanswered";
    notice.className = "notice broken";
    notice.setAttribute("role", "alert");
    notice.textContent = "The service did not answer. Try again, or reload the page.";
    event.detail.target.before(notice);
  });

  document.addEventListener("htmx:afterSwap", (event) => {
    showCopyButtons();
    if (event.target.id !== "results") return;
    opened = Date.now();
    tell();
  });

  const countChosen = () => {
    const told = document.querySelector("[data-chosen]");
    if (told === null) return;
    const chosen = told.closest("form").querySelectorAll("input[name=id]:checked").length;
    told.textContent = chosen === 0 ? "Choose tests, then" : `${chosen} chosen`;
  };
  document.addEventListener("change", countChosen);
  // A page from the browser's history may still have chosen tests.
  window.addEventListener("pageshow", countChosen);
})();
