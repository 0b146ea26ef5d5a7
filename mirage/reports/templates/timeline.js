"use strict";
// Zooms all pictures of a timeline together, and shows values at the pointer or by cursor keys. The page is complete without it.
for (const root of document.querySelectorAll(".timeline")) {
  const ACROSS = 10000, DOWN = 1000;
  const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const STEPS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200,
    ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].map((days) => 86400 * days)];
  const length = Number(root.dataset.length);
  const plots = [...root.querySelectorAll("svg.plot")];
  const axes = [...root.querySelectorAll(".time")];
  const reading = root.querySelector("output");
  const shown = root.querySelector(".shown");
  const shortest = Math.min(ACROSS, ACROSS * 10 / length);
  let from = 0, to = ACROSS, cursor = null;

  const seconds = (x) => x / ACROSS * length;

  function moment(value) {
    let rest = Math.round(value);
    const parts = [];
    for (const [unit, size] of UNITS) {
      const count = Math.floor(rest / size);
      rest -= count * size;
      if (count) parts.push(`${count} ${unit}`);
    }
    return parts.slice(0, 3).join(" ") || "0";
  }

  function number(value) {
    return Number(value.toPrecision(4)).toLocaleString("en");
  }

  // The step function that a line draws, or the upper edge of an area: points [x, y from there on], and the x of its end.
  const readings = new Map();
  function readingOf(path) {
    if (!readings.has(path)) {
      const points = [];
      let end = 0, x = 0;
      for (const [, command, first, second] of path.getAttribute("d").matchAll(/([MLHV])([\d.e+-]+)(?: ([\d.e+-]+))?/g)) {
        if (command === "H" && Number(first) < x) { points.pop(); break; }  // the lower edge
        if (command === "M" || command === "L") { x = Number(first); points.push([x, Number(second)]); }
        if (command === "H") { x = Number(first); end = x; }
        if (command === "V") points.push([x, Number(first)]);
      }
      readings.set(path, { points, end });
    }
    return readings.get(path);
  }

  function valueAt(path, x) {
    const { points, end } = readingOf(path);
    if (!points.length || x < points[0][0] || x > end) return null;
    let low = 0, high = points.length - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (points[middle][0] <= x) low = middle; else high = middle - 1;
    }
    return (1 - points[low][1] / DOWN) * Number(path.dataset.top);
  }

  function showValues(svg, x, target) {
    const pointed = target && target.closest && target.closest("[data-job]");
    let text = `${moment(seconds(x))} after the first submission`;
    if (pointed) {
      text += `: ${pointed.querySelector("title").textContent}`;
    } else {
      const lines = [...svg.querySelectorAll("path.line")].reverse().map((path) => [path, valueAt(path, x)]);
      const tops = [...svg.querySelectorAll("path.area")].map((path) => [path, valueAt(path, x)]);
      const areas = tops.map(([path, top], place) => [path, top - (place ? tops[place - 1][1] : 0)]).filter(([path, value]) => value > path.dataset.top / DOWN);
      const values = [...lines, ...areas].filter(([, value]) => value !== null)
        .map(([path, value]) => `${path.dataset.name} ${number(value)}${path.dataset.unit ? " " + path.dataset.unit : ""}`);
      if (values.length) text += `: ${values.join(", ")}`;
      const running = [...svg.querySelectorAll("[data-job]")].filter((job) => {
        const [begin, end] = job.dataset.at.split(" ").map(Number);
        return begin <= x && x < end;
      });
      if (running.length) {
        text += `: ${running.length} job${running.length > 1 ? "s" : ""}: ${running.slice(0, 8).map((job) => job.dataset.job).join(", ")}`;
        if (running.length > 8) text += ", ...";
      }
    }
    reading.textContent = text;
  }

  function drawCursor() {
    for (const svg of plots) {
      const line = svg.querySelector(".cursor");
      line.setAttribute("visibility", cursor === null ? "hidden" : "visible");
      if (cursor !== null) { line.setAttribute("x1", cursor); line.setAttribute("x2", cursor); }
    }
  }

  function draw() {
    for (const svg of plots) svg.setAttribute("viewBox", `${from} 0 ${to - from} ${DOWN}`);
    const begin = seconds(from), span = seconds(to - from);
    for (const axis of axes) {
      const most = Math.max(2, Math.min(10, Math.floor(axis.clientWidth / (begin > 86400 ? 110 : 80))));
      const step = STEPS.find((length) => span / length <= most) || STEPS[STEPS.length - 1];
      axis.replaceChildren();
      for (let second = Math.ceil(begin / step) * step; second < begin + span * 0.97; second += step) {
        const label = document.createElement("span");
        label.textContent = moment(second);
        label.style.left = `${(second - begin) / span * 100}%`;
        axis.append(label);
      }
    }
    shown.textContent = to - from >= ACROSS ? "all of the time" : `${moment(begin)} to ${moment(begin + span)}`;
    for (const button of root.querySelectorAll("button")) {
      const whole = to - from >= ACROSS;
      button.disabled = { out: whole, all: whole, earlier: from <= 0, later: to >= ACROSS, in: to - from <= shortest * 1.01 }[button.value];
    }
    drawCursor();
  }

  function show(first, last) {
    const size = Math.max(shortest, Math.min(ACROSS, last - first));
    from = Math.max(0, Math.min(ACROSS - size, first));
    to = from + size;
    draw();
  }

  function zoom(factor) {
    const middle = cursor !== null && cursor >= from && cursor <= to ? cursor : (from + to) / 2;
    show(middle - (middle - from) * factor, middle + (to - middle) * factor);
  }

  const actions = {
    in: () => zoom(0.5),
    out: () => zoom(2),
    earlier: () => show(from - (to - from) / 2, to - (to - from) / 2),
    later: () => show(from + (to - from) / 2, to + (to - from) / 2),
    all: () => show(0, ACROSS),
  };
  for (const button of root.querySelectorAll("button")) button.addEventListener("click", () => actions[button.value]());

  const keys = { "+": "in", "=": "in", "-": "out", "0": "all", Escape: "all", PageUp: "earlier", PageDown: "later" };
  for (const svg of plots) {
    const frame = svg.closest(".frame");
    const at = (event) => {
      const box = svg.getBoundingClientRect();
      return from + Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)) * (to - from);
    };
    let began = null;
    const band = svg.querySelector(".band");
    svg.addEventListener("pointerdown", (event) => { began = at(event); svg.setPointerCapture(event.pointerId); });
    svg.addEventListener("pointermove", (event) => {
      cursor = at(event);
      drawCursor();
      if (began !== null) {
        band.setAttribute("x", Math.min(began, cursor));
        band.setAttribute("width", Math.abs(cursor - began));
      } else {
        showValues(svg, cursor, event.target);
      }
    });
    const finish = (event) => {
      band.setAttribute("width", 0);
      const last = at(event), first = began;
      began = null;
      if (first === null) return;
      if (Math.abs(last - first) > (to - from) / 100) show(Math.min(first, last), Math.max(first, last));
      else showValues(svg, last, document.elementFromPoint(event.clientX, event.clientY));
    };
    svg.addEventListener("pointerup", finish);
    svg.addEventListener("pointercancel", () => { began = null; band.setAttribute("width", 0); });
    svg.addEventListener("dblclick", () => show(0, ACROSS));
    frame.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
        const sign = event.key === "ArrowLeft" ? -1 : 1;
        cursor = Math.max(0, Math.min(ACROSS, (cursor ?? (from + to) / 2) + sign * (to - from) / (event.shiftKey ? 10 : 100)));
        if (cursor < from || cursor > to) show(from + sign * (to - from) / 2, to + sign * (to - from) / 2);
        drawCursor();
        showValues(svg, cursor, null);
      } else if (keys[event.key]) {
        actions[keys[event.key]]();
      } else {
        return;
      }
      event.preventDefault();
    });
  }
  for (const hidden of root.querySelectorAll("[hidden]")) hidden.hidden = false;
  window.addEventListener("resize", draw);
  window.addEventListener("beforeprint", () => { cursor = null; show(0, ACROSS); });
  draw();
}
