// The live event log: new rows, and the counts that follow them.
"use strict";

(() => {
  const live = document.getElementById("live");
  if (live === null) return;
  const pause = document.getElementById("pause");
  const arrived = document.getElementById("arrived");
  // New rows are fetched from the server, which filters and escapes them, at most this often.
  const SHORTEST = 2_000;
  const LONGEST = 60_000;
  // While the user reads, they are only counted, in the end at most this often.
  const WHILE_READ = 10_000;
  // How often the page looks whether rows that wait for a reader may be shown.
  const WATCH = 1_000;
  // Counts are fetched at most this often, because they cost more than rows.
  const BETWEEN_COUNTS = 30_000;
  // A browser opens six connections to a host by HTTP/1.1; a page that is hidden for longer gives the
  // one of its stream back.
  const HIDDEN = 60_000;
  const types = live.dataset.types.split(" ").filter(Boolean);
  const canHover = matchMedia("(hover: hover)");
  // As numbers on both sides, which may be as large as to be rounded.
  const pulls = live.dataset.pulls.split(" ").filter(Boolean).map(Number);
  let source = null;
  // The timer of the next attempt to open a refused stream, and its delay.
  let opening = null;
  let patience = SHORTEST;
  let timer = null;
  let delay = SHORTEST;
  // The request for rows that is under way; there is one at most, so none arrives out of order.
  let loading = null;
  // Whether an event arrived since the newest request, and whether the rows may lack events from
  // before the stream was open.
  let heard = false;
  let behind = false;
  // When rows were last read, and the id of the first request for them that failed since, null if none
  // has: it stays the same, so that an outage is announced once.
  let readAt = new Date();
  let failed = null;
  // The state of the stream, as a class and in words.
  let shown = ["lost", "Connecting"];
  // Whether the user asked for the rows that arrived, and what the button says meanwhile.
  let wanted = false;
  let isByPointer = false;
  let offered = "";
  // The timer that looks whether the user still reads.
  let watching = null;
  // When the counts were newest, and the timer of the next ones.
  let counted = Date.now();
  let counting = null;
  // Whether counts were due when the stream was closed.
  let uncounted = false;
  // Whether the stream is closed because nobody sees the page, and the timer that closes it.
  let resting = false;
  let hiding = null;

  // Screen readers announce what is written, even if it says the same.
  const write = (element, text) => {
    if (element.textContent !== text) element.textContent = text;
  };

  const tell = () => {
    const [state, text] = shown;
    if (failed === null) {
      live.className = `live ${state}`;
      return write(live, text);
    }
    const time = readAt.toISOString().slice(0, 19).replace("T", " ");
    const request = failed === "" ? "" : ` · request ${failed}`;
    live.className = `live ${state || "lost"}`;
    write(live, `${state === "" ? "Not up to date" : text}; last read ${time} UTC${request}`);
  };

  // Jitter, so that the browsers that show the same log do not all ask at once.
  const jitter = (time) => time * (0.75 + Math.random() / 2);

  const say = (state, text) => {
    shown = [state, text];
    tell();
  };

  // Rows are neither replaced nor moved while the user reads the list, or is about to click in it.
  const isRead = () => {
    const results = document.getElementById("results");
    const selection = getSelection();
    return (
      document.hidden ||
      results.contains(document.activeElement) ||
      arrived.contains(document.activeElement) ||
      // On touch screens, `:hover` stays with what was touched last.
      (canHover.matches && results.matches(":hover")) ||
      (!selection.isCollapsed && selection.getRangeAt(0).intersectsNode(results)) ||
      // Only the details of a row: subtrees of its metadata are open from the start.
      results.querySelector("td.time > details[open]") !== null ||
      results.getBoundingClientRect().top < 0
    );
  };

  const offer = (text) => {
    offered = text;
    if (text === "") return arrived.replaceChildren();
    const button = arrived.querySelector("button") ?? document.createElement("button");
    button.type = "button";
    button.className = "button tiny";
    write(button, text);
    button.onclick = (event) => {
      wanted = true;
      isByPointer = event.detail > 0;
      load();
    };
    if (button.parentElement === null) arrived.append(button);
    watching ??= setTimeout(watch, WATCH);
  };

  // No event says that somebody has stopped reading: a pointer leaves, a selection ends, a row closes.
  const watch = () => {
    watching = null;
    if (offered === "" || source === null) return;
    if (isRead()) {
      watching = setTimeout(watch, WATCH);
    } else {
      delay = SHORTEST;
      schedule();
    }
  };

  const entries = (list) => [...list.querySelectorAll("tr.entry")];

  // Not the address of this page, which may be that of the page with its counts.
  const request = (path, signal) =>
    fetch(`${live.dataset.rows}${path}${location.search}`, { headers: { "HX-Request": "true" }, signal });

  const read = async (answer) => {
    const holder = document.createElement("template");
    holder.innerHTML = await answer.text();
    return holder.content;
  };

  // Two events may have the same id, if they were received at different times.
  const keyOf = (row) => `${row.id} ${row.querySelector("time").dateTime}`;

  const listKnown = () => new Set(entries(document.getElementById("results")).map(keyOf));

  // The list has been filtered by the server: not every event of the stream belongs to it.
  const describe = (fresh) => {
    const known = listKnown();
    const rows = entries(fresh);
    const count = rows.filter((row) => !known.has(keyOf(row))).length;
    if (count === 0) return "";
    // With no row in common, there are more than fit on a page.
    const more = known.size > 0 && count === rows.length ? " or more" : "";
    return `Show ${count}${more} new ${count === 1 && !more ? "event" : "events"}`;
  };

  const swap = (fresh) => {
    const old = document.getElementById("results");
    const known = listKnown();
    const opened = [...old.querySelectorAll("tr.entry:has(td.time > details[open])")].map(keyOf);
    for (const row of entries(fresh)) {
      // Also closed as it was: the URL may name a row that the user has closed since.
      if (known.has(keyOf(row))) row.querySelector("details").open = opened.includes(keyOf(row));
      else row.classList.add("new");
    }
    old.replaceWith(fresh);
    const hadFocus = arrived.contains(document.activeElement);
    offer("");
    // Focus in the list holds its rows. A pointer does not need it, and can leave the list at once.
    if (hadFocus && !isByPointer) (fresh.querySelector(".toggle") ?? pause).focus();
    else if (fresh.getBoundingClientRect().top < 0) fresh.scrollIntoView();
  };

  // The total, the histogram and the values to filter by.
  const listCounts = () => ["counted", "narrow", "total"].map((id) => document.getElementById(id));

  const isCountRead = () =>
    document.hidden ||
    // A range is being selected, perhaps with the pointer outside.
    document.getElementById("brush-said")?.textContent ||
    listCounts().some((each) => each.contains(document.activeElement) || each.matches(":hover"));

  const count = async () => {
    counting = null;
    counted = Date.now();
    if (isCountRead()) return recount();
    try {
      const answer = await request("/counts");
      if (answer.status !== 200) return;
      const fresh = await read(answer);
      // Counting took too long: the old counts say more.
      if (fresh.getElementById("bars") === null) return;
      if (source === null) {
        uncounted = true;
        return;
      }
      if (isCountRead()) return recount();
      for (const old of listCounts()) {
        const each = fresh.getElementById(old.id);
        each.removeAttribute("hx-swap-oob");
        for (const open of old.querySelectorAll("section:has(details[open])")) {
          const name = open.getAttribute("aria-labelledby");
          each.querySelector(`[aria-labelledby="${name}"] details`)?.setAttribute("open", "");
        }
        old.replaceWith(each);
      }
      document.dispatchEvent(new Event("events:counted"));
    } catch {
      // The next new row asks again.
    }
  };

  const recount = () => {
    counting ??= setTimeout(count, Math.max(0, counted + BETWEEN_COUNTS - Date.now()));
  };

  const load = async () => {
    if (loading !== null) return;
    clearTimeout(timer);
    timer = null;
    heard = false;
    const current = new AbortController();
    loading = current;
    // Events that arrive before the stream is open are in neither.
    const isOpen = source?.readyState === EventSource.OPEN;
    let answer = null;
    try {
      answer = await request("", current.signal);
      if (answer.status === 204) return stop("lost", "Signed out");
      if ([403, 404].includes(answer.status)) return stop("lost", "Not live: reload the page");
      const fresh = answer.ok ? (await read(answer)).getElementById("results") : null;
      if (fresh === null) throw new Error(`no rows: ${answer.status}`);
      readAt = new Date();
      failed = null;
      tell();
      const news = describe(fresh);
      if (news !== "") recount();
      const mayMove = wanted || !isRead();
      delay = mayMove ? SHORTEST : Math.min(WHILE_READ, delay * 2);
      if (wanted || (mayMove && news !== "")) swap(fresh);
      else offer(news);
      wanted = false;
      if (isOpen) behind = false;
    } catch {
      if (current.signal.aborted) return;
      heard = true;
      delay = Math.min(LONGEST, delay * 2);
      failed ??= answer?.headers.get("X-Request-Id") ?? "";
      tell();
    } finally {
      if (loading === current) loading = null;
    }
    if (behind || heard) schedule();
  };

  const schedule = () => {
    if (timer !== null || source === null) return;
    // The next attempt to open the stream reads the rows.
    if (source.readyState === EventSource.CLOSED) return;
    timer = setTimeout(() => {
      timer = null;
      // A hidden page catches up when it is shown again.
      if (!document.hidden) load();
    }, jitter(delay));
  };

  const hear = (event) => {
    if (pulls.length > 0) {
      const pull = JSON.parse(event.data).pull_request;
      if (!pulls.includes(pull)) return;
    }
    heard = true;
    schedule();
  };

  const stop = (state, text) => {
    source?.close();
    source = null;
    loading?.abort();
    loading = null;
    wanted = false;
    clearTimeout(timer);
    timer = null;
    clearTimeout(opening);
    uncounted ||= counting !== null;
    clearTimeout(counting);
    counting = null;
    say(state, text);
    pause.textContent = "Resume";
  };

  const open = (catchUp) => {
    // The stream begins with the events that arrive after it is open.
    behind = true;
    const opened = new EventSource(live.dataset.stream);
    source = opened;
    opened.onopen = () => {
      patience = SHORTEST;
      say("", "Live");
      if (behind) catchUp();
    };
    opened.onerror = () => {
      if (opened !== source) return;
      say("lost", "Connection lost");
      if (opened.readyState === EventSource.CLOSED) reopen();
    };
    for (const type of types) opened.addEventListener(type, hear);
  };

  // The browser gives up after an answer such as the 502 of a proxy during a restart, and does not tell
  // its status. That of the rows says whether there is still something to wait for.
  const reopen = () => {
    const refused = source;
    clearTimeout(timer);
    timer = null;
    opening = setTimeout(async () => {
      await load();
      if (source !== refused) return;
      if (failed === null) open(schedule);
      else reopen();
    }, jitter(patience));
    patience = Math.min(LONGEST, patience * 2);
  };

  const start = (catchUp) => {
    resting = false;
    failed = null;
    patience = SHORTEST;
    pause.textContent = "Pause";
    say("lost", "Connecting");
    open(catchUp);
    if (uncounted) recount();
    uncounted = false;
  };

  pause.addEventListener("click", () => {
    if (source !== null) return stop("paused", "Paused");
    wanted = true;
    start(load);
  });
  const rest = () => {
    if (source === null) return;
    stop("paused", "Paused while hidden");
    resting = true;
  };
  const wake = () => {
    if (resting) start(schedule);
  };
  const look = () => {
    clearTimeout(hiding);
    if (document.hidden) {
      hiding = setTimeout(rest, HIDDEN);
      return;
    }
    if (resting) wake();
    else if (behind || heard || offered !== "") schedule();
  };
  document.addEventListener("visibilitychange", look);
  // A page that the browser keeps is shown again as it was, with the stream closed.
  addEventListener("pagehide", rest);
  addEventListener("pageshow", wake);
  live.hidden = pause.hidden = false;
  start(schedule);
  if (document.hidden) look();
})();
