// The event log: selecting a range of the histogram, and keys in the list.
"use strict";

(() => {
  // What Escape does in the histogram.
  let leaveBars = () => {};

  const selectBars = () => {
    const bars = document.getElementById("bars");
    if (bars === null) return false;
    const links = [...bars.querySelectorAll("a")];
    const brush = document.getElementById("brush");
    const said = document.getElementById("brush-said");
    const before = [brush.getAttribute("x"), brush.getAttribute("width")];
    let first = null;
    let last = null;

    // The list is one stop of the tab key; arrow keys move within it.
    const rest = () => links.findLast((link) => link.querySelector(".in") !== null) ?? links.at(-1);
    for (const link of links) link.setAttribute("tabindex", "-1");
    rest().setAttribute("tabindex", "0");

    const bounds = () => [Math.min(first, last), Math.max(first, last)];

    const draw = () => {
      const [from, to] = bounds();
      const start = links[from].querySelector(".slot");
      const end = links[to].querySelector(".slot");
      const x = Number(start.getAttribute("x"));
      const right = Number(end.getAttribute("x")) + Number(end.getAttribute("width"));
      brush.setAttribute("x", String(x));
      brush.setAttribute("width", String(right - x));
      const label = (link) => link.getAttribute("aria-label");
      said.textContent = `${label(links[from]).split(" to ")[0]} to ${
        label(links[to]).split(" to ")[1].split(": ")[0]
      }, ${to === from ? "1 bar; Enter shows it" : `${to - from + 1} bars; Enter shows them`}`;
    };

    const giveUp = () => {
      first = last = null;
      brush.setAttribute("x", before[0]);
      brush.setAttribute("width", before[1]);
      said.textContent = "";
    };

    const choose = () => {
      const [from, to] = bounds();
      const target = new URL(links[from].getAttribute("href"), location.href);
      const end = new URL(links[to].getAttribute("href"), location.href);
      target.searchParams.set("received_to", end.searchParams.get("received_to"));
      location.assign(target);
    };

    const at = (event) => {
      const box = bars.getBoundingClientRect();
      const part = (event.clientX - box.left) / box.width;
      return Math.min(links.length - 1, Math.max(0, Math.floor(part * links.length)));
    };

    bars.addEventListener("dragstart", (event) => event.preventDefault());
    bars.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
      first = last = at(event);
      const move = (moved) => {
        if (first === null) return;
        last = at(moved);
        if (last !== first) draw();
      };
      const listening = new AbortController();
      const { signal } = listening;
      const end = () => {
        listening.abort();
        // A single bar is a link already.
        if (first !== null && last !== first) choose();
        else if (first !== null) giveUp();
      };
      const cancel = () => {
        listening.abort();
        giveUp();
      };
      document.addEventListener("pointermove", move, { signal });
      document.addEventListener("pointerup", end, { signal });
      document.addEventListener("pointercancel", cancel, { signal });
    });

    bars.addEventListener("keydown", (event) => {
      const number = links.indexOf(event.target);
      if (number < 0) return;
      const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -links.length, End: links.length };
      if (event.key in steps) {
        event.preventDefault();
        const next = Math.min(links.length - 1, Math.max(0, number + steps[event.key]));
        event.target.setAttribute("tabindex", "-1");
        links[next].setAttribute("tabindex", "0");
        links[next].focus();
        if (event.shiftKey) {
          first ??= number;
          last = next;
          draw();
        } else {
          giveUp();
        }
      } else if (event.key === "Enter" && first !== null) {
        event.preventDefault();
        choose();
      }
    });

    leaveBars = (target) => {
      if (first !== null) giveUp();
      else if (bars.contains(target)) document.getElementById("whole")?.click();
    };
    return true;
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") leaveBars(event.target);
  });
  if (!selectBars()) {
    // Counts that take long come after the page.
    const arrive = () => {
      if (selectBars()) document.removeEventListener("htmx:afterSwap", arrive);
    };
    document.addEventListener("htmx:afterSwap", arrive);
    document.addEventListener("htmx:afterRequest", (event) => {
      const { target, xhr } = event.detail;
      // Errors are swapped in too, so htmx takes them for successes.
      if (target.id !== "counted" || xhr.status === 200) return;
      for (const each of document.querySelectorAll("[data-counting]")) each.hidden = true;
      for (const each of document.querySelectorAll("[data-uncounted]")) each.hidden = false;
    });
  }
  // Those of a live log are replaced.
  document.addEventListener("events:counted", selectBars);

  document.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    if (!event.target.matches("#results .toggle")) return;
    const rows = [...document.querySelectorAll("#results .toggle")];
    const next = rows[rows.indexOf(event.target) + (event.key === "ArrowDown" ? 1 : -1)];
    if (next === undefined) return;
    event.preventDefault();
    next.focus();
  });
})();
