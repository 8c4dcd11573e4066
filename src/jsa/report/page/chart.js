// One chart: it is drawn anew whenever something changes.

const NAMESPACE = "http://www.w3.org/2000/svg";
const MARGIN = { left: 52, right: 20, top: 24, bottom: 42 };
const HEIGHT = 320;
const MARKS_A_LINE = 7;

function shape(name, attributes, parent) {
  const made = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (parent) parent.append(made);
  return made;
}

// The mark of a series around a place: circle, square, triangle, diamond, triangle on its tip, cross.
function markPath(mark, x, y, r) {
  const at = (dx, dy) => `${(x + dx * r).toFixed(1)},${(y + dy * r).toFixed(1)}`;
  return [
    () => `M${at(-1, 0)}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0Z`,
    () => `M${at(-0.9, -0.9)}L${at(0.9, -0.9)}L${at(0.9, 0.9)}L${at(-0.9, 0.9)}Z`,
    () => `M${at(0, -1.2)}L${at(1.1, 0.9)}L${at(-1.1, 0.9)}Z`,
    () => `M${at(0, -1.3)}L${at(1.3, 0)}L${at(0, 1.3)}L${at(-1.3, 0)}Z`,
    () => `M${at(0, 1.2)}L${at(1.1, -0.9)}L${at(-1.1, -0.9)}Z`,
    () => `M${at(-1, -1)}L${at(1, 1)}M${at(-1, 1)}L${at(1, -1)}`,
  ][mark]();
}

// The curves of the runs of a chart that are to be seen, each with its points.
function linesOf(data, section, runs, state) {
  const axis = section.axes[state.axis];
  const found = [];
  for (const number of runs) {
    const run = data.runs[number];
    const track = run.tracks[section.track];
    const across = track[axis.figure];
    if (!across) continue;
    section.views[state.view].lines.forEach((kind, place) => {
      const values = track[kind.figure];
      if (!values) return;
      const points = [];
      values.forEach((y, index) => {
        const x = across[index];
        if (y === null || x === null || (state.range === "log" && y <= 0)) return;
        const point = { x, y };
        if (kind.low && track[kind.low]) [point.low, point.high] = [track[kind.low][index], track[kind.high][index]];
        points.push(point);
      });
      if (points.length) found.push({ run, number, kind, place, points, series: data.series[run.series] });
    });
  }
  return found;
}

// Where on the axis the last epoch of stage I ends.
function switchPlace(run, section, state) {
  const track = run.tracks[section.track];
  const epochs = track.epoch;
  const across = track[section.axes[state.axis].figure];
  if (run.switch === null || !epochs || !across) return null;
  const after = epochs.findIndex((epoch) => epoch >= run.switch);
  if (after < 0 || across[after] === null) return null;
  if (after === 0 || across[after - 1] === null) return across[after];
  const share = (run.switch - epochs[after - 1]) / (epochs[after] - epochs[after - 1]);
  return across[after - 1] + share * (across[after] - across[after - 1]);
}

class Chart {
  constructor(data, section, chart, state) {
    Object.assign(this, { data, section, chart, state });
    this.node = document.createElement("figure");
    this.node.className = "chart";
    const heading = document.createElement("figcaption");
    heading.textContent = chart.title;
    this.holder = document.createElement("div");
    this.holder.className = "holder";
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tip.hidden = true;
    this.tip.setAttribute("aria-live", "polite");
    this.node.append(heading, this.holder);
  }

  draw() {
    const { section, state } = this;
    const view = section.views[state.view];
    const axis = section.axes[state.axis];
    const all = linesOf(this.data, section, this.chart.runs, state);
    this.node.hidden = all.length === 0;
    const lines = all.filter((line) => !state.hiddenSeries.has(line.run.series) && !state.hiddenLines.has(line.place));
    const width = Math.max(260, this.holder.clientWidth || 400);
    const svg = shape("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, tabindex: "0", role: "img" });
    svg.setAttribute("aria-label", `${this.chart.title}: ${view.label} against ${axis.label}`);
    this.holder.replaceChildren(svg, this.tip);
    this.tip.hidden = true;
    this.lines = [];
    if (all.length === 0) return;
    this.frame(svg, width, lines.length ? lines : all, view, axis);
    if (!lines.length) {
      shape("text", { x: width / 2, y: HEIGHT / 2, "text-anchor": "middle", class: "label" }, svg).textContent =
        "all curves are hidden";
      return;
    }
    this.drawSwitches(lines);
    this.drawLines(svg, lines);
    this.watch(svg, axis);
  }

  // The range of both axes, their ticks and labels.
  frame(svg, width, lines, view, axis) {
    const falling = view.falling && this.state.range === "best";
    const xs = lines.flatMap((line) => [line.points[0].x, line.points.at(-1).x]);
    let left = Math.min(...xs) > 0.2 * Math.max(...xs) ? Math.min(...xs) : 0;
    let right = Math.max(...xs);
    // A single place stands in the middle.
    if (right <= left) [left, right] = [left - (left / 2 || 1), left + (left / 2 || 1)];
    let low = Infinity;
    let high = -Infinity;
    for (const line of lines) {
      for (const point of line.points) {
        low = Math.min(low, point.low ?? point.y);
        high = Math.max(high, point.high ?? point.y);
      }
    }
    if (falling) high = Math.min(high, bestRegion(lines)[1]);
    const log = this.state.range === "log" && view.falling && low > 0;
    const single = high <= low;
    const room = single ? Math.abs(high) * 0.05 || 1 : (high - low) * 0.06;
    [low, high] = log ? [low / 1.03, high * 1.03] : [low - room, high + (falling && !single ? 0 : room)];
    const scale = log ? Math.log : (value) => value;
    const inner = width - MARGIN.left - MARGIN.right;
    const depth = HEIGHT - MARGIN.top - MARGIN.bottom;
    this.x = (value) => MARGIN.left + ((value - left) / (right - left)) * inner;
    this.y = (value) => MARGIN.top + (1 - (scale(value) - scale(low)) / (scale(high) - scale(low))) * depth;
    this.unit = unitOf(axis.kind, right);
    this.high = high;

    const clip = `clip-${this.section.name}-${this.chart.number}`;
    const clipping = shape("clipPath", { id: clip }, shape("defs", {}, svg));
    shape("rect", { x: MARGIN.left, y: MARGIN.top, width: inner, height: depth }, clipping);
    this.inside = shape("g", { "clip-path": `url(#${clip})` });
    const across = linearTicks(left / this.unit.size, right / this.unit.size, Math.max(2, inner / 90));
    tickLabels(across).forEach((text, place) => {
      const x = this.x(across[place] * this.unit.size);
      shape("line", { x1: x, x2: x, y1: MARGIN.top, y2: MARGIN.top + depth, class: "grid" }, svg);
      shape("text", { x, y: HEIGHT - MARGIN.bottom + 16, "text-anchor": "middle", class: "tick" }, svg)
        .textContent = text;
    });
    const up = log ? logTicks(low, high) : linearTicks(low, high, 6);
    tickLabels(up).forEach((text, place) => {
      const y = this.y(up[place]);
      shape("line", { x1: MARGIN.left, x2: MARGIN.left + inner, y1: y, y2: y, class: "grid" }, svg);
      shape("text", { x: MARGIN.left - 6, y: y + 4, "text-anchor": "end", class: "tick" }, svg).textContent = text;
    });
    const corner = `M${MARGIN.left},${MARGIN.top}V${MARGIN.top + depth}H${MARGIN.left + inner}`;
    shape("path", { d: corner, class: "axis" }, svg);
    const label = shape("text", { x: MARGIN.left + inner, y: HEIGHT - 6, "text-anchor": "end", class: "label" }, svg);
    label.textContent = axis.label + (this.unit.name ? `, ${this.unit.name}` : "");
    shape("text", { x: MARGIN.left, y: HEIGHT - 6, class: "label" }, svg).textContent = `↑ ${view.unit}`;
    svg.append(this.inside);
  }

  // A vertical line where stage II begins; one for all runs that switch at the same place.
  drawSwitches(lines) {
    const places = new Map();
    for (const line of lines) {
      const place = switchPlace(line.run, this.section, this.state);
      if (place !== null) places.set(this.x(place).toFixed(1), line.series.color);
    }
    for (const [x, color] of places) {
      const kind = places.size === 1 ? "switch" : `switch color-${color}`;
      shape("line", { x1: x, x2: x, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom, class: kind }, this.inside);
    }
    if (!places.size) return;
    const first = Math.min(...[...places.keys()].map(Number));
    const note = shape("text", { x: first + 4, y: HEIGHT - MARGIN.bottom - 6, class: "note" }, this.inside);
    note.textContent = "stage II";
  }

  drawLines(svg, lines) {
    const above = new Set();
    for (const line of lines) {
      const color = `color-${line.series.color}`;
      const places = line.points.map((point) => ({ x: this.x(point.x), y: this.y(point.y), point }));
      const group = shape("g", { class: `line ${color}`, "data-series": line.run.series, "data-run": line.number });
      if (line.points[0].low !== undefined) {
        const top = line.points.map((point, place) => `${places[place].x.toFixed(1)},${this.y(point.high).toFixed(1)}`);
        const back = line.points.map((point, place) => `${places[place].x.toFixed(1)},${this.y(point.low).toFixed(1)}`);
        shape("path", { d: `M${top.join("L")}L${back.reverse().join("L")}Z`, class: "band" }, group);
      }
      shape("path", {
        d: `M${places.map((place) => `${place.x.toFixed(1)},${place.y.toFixed(1)}`).join("L")}`,
        class: line.kind.dashed ? "curve dashed" : "curve",
      }, group);
      // Marks stand at other places for each series, so that they do not hide each other.
      const every = Math.max(1, Math.floor(places.length / MARKS_A_LINE));
      const marks = [];
      for (let place = (line.run.series * 3) % every; place < places.length; place += every) {
        marks.push(markPath(line.series.mark, places[place].x, places[place].y, 3.2));
      }
      shape("path", { d: marks.join(""), class: line.kind.dashed ? "marks hollow" : "marks" }, group);
      this.inside.append(group);
      this.lines.push({ ...line, places, group });
      if (line.points.every((point) => point.y > this.high)) above.add(line.series.label);
    }
    if (above.size) {
      const names = [...above].slice(0, 3).join(", ") + (above.size > 3 ? ` and ${above.size - 3} more` : "");
      const x = svg.getAttribute("width") - MARGIN.right;
      shape("text", { x, y: MARGIN.top - 8, "text-anchor": "end", class: "note" }, svg).textContent = `above: ${names}`;
    }
  }

  // Values under the pointer, and along a curve by the arrow keys.
  watch(svg, axis) {
    const across = { y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom };
    this.cursor = shape("line", { ...across, class: "cursor", visibility: "hidden" }, svg);
    this.dot = shape("circle", { r: 5, class: "dot", visibility: "hidden" }, svg);
    let at = null;
    const show = (next) => {
      at = next;
      this.show(at, axis);
    };
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      show(this.nearest(event.clientX - box.left, event.clientY - box.top));
    });
    svg.addEventListener("pointerleave", () => this.show(null));
    svg.addEventListener("blur", () => this.show(null));
    svg.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return show(null);
      const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!move) return undefined;
      event.preventDefault();
      if (!at) return show({ line: 0, place: this.lines[0].places.length - 1 });
      const line = (at.line + move[0] + this.lines.length) % this.lines.length;
      const last = this.lines[line].places.length - 1;
      return show({ line, place: Math.max(0, Math.min(last, at.place + move[1])) });
    });
  }

  // Lets the curves of one series stand out, or of none.
  emphasize(series) {
    for (const line of this.lines) line.group.classList.toggle("faint", series !== null && line.run.series !== series);
  }

  nearest(x, y) {
    let best = null;
    let least = Infinity;
    this.lines.forEach((line, number) => {
      const place = nearestPlace(line.places, x);
      const distance = Math.hypot(line.places[place].x - x, 1.5 * (line.places[place].y - y));
      if (distance < least) [least, best] = [distance, { line: number, place }];
    });
    return best;
  }

  show(at, axis) {
    for (const line of this.lines) line.group.classList.toggle("faint", at !== null && this.lines[at.line] !== line);
    for (const part of [this.cursor, this.dot]) part.setAttribute("visibility", at ? "visible" : "hidden");
    this.tip.hidden = !at;
    if (!at) return;
    const here = this.lines[at.line].places[at.place];
    this.cursor.setAttribute("x1", here.x);
    this.cursor.setAttribute("x2", here.x);
    this.dot.setAttribute("cx", here.x);
    this.dot.setAttribute("cy", Math.max(MARGIN.top, here.y));
    this.dot.setAttribute("class", `dot color-${this.lines[at.line].series.color}`);
    const value = here.point.x / this.unit.size;
    const heading = document.createElement("b");
    heading.textContent = `${axis.label} ${Number(value.toPrecision(4)).toLocaleString("en")} ${this.unit.name}`;
    this.tip.replaceChildren(heading, ...this.tipRows(at, here.x));
    this.placeTip(here.x);
  }

  // Beside the cursor where the window has room for it, else below the chart.
  placeTip(x) {
    this.tip.classList.remove("below");
    this.tip.style.left = "0";
    const width = this.tip.offsetWidth;
    const start = this.holder.getBoundingClientRect().left;
    const right = x + 14;
    const left = x - 14 - width;
    if (start + right + width < document.documentElement.clientWidth) this.tip.style.left = `${right}px`;
    else if (start + left > 0) this.tip.style.left = `${left}px`;
    else this.tip.classList.add("below");
  }

  // The curve itself and its neighbors at the same place, the lowest first.
  tipRows(at, x) {
    const rows = this.lines.map((line, number) => ({
      line,
      chosen: number === at.line,
      point: line.places[number === at.line ? at.place : nearestPlace(line.places, x)],
    })).filter((row) => row.chosen || Math.abs(row.point.x - x) < 12).sort((a, b) => a.point.point.y - b.point.point.y);
    const chosen = rows.findIndex((row) => row.chosen);
    const first = Math.max(0, Math.min(chosen - 5, rows.length - 11));
    return rows.slice(first, first + 11).map((row) => {
      const node = document.createElement("span");
      node.className = row.chosen ? "chosen" : "";
      const { y, low, high } = row.point.point;
      const many = this.section.views[this.state.view].lines.length > 1;
      const name = document.createElement("span");
      name.textContent = `${row.line.run.label}${many ? `, ${row.line.kind.label}` : ""}`;
      const text = document.createElement("span");
      text.textContent = figure(y) + (low === undefined ? "" : ` [${figure(low)}, ${figure(high)}]`);
      node.append(swatch(row.line.series, row.line.kind.dashed, 20), name, text);
      return node;
    });
  }
}

function nearestPlace(places, x) {
  let low = 0;
  let high = places.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (places[middle].x < x) low = middle;
    else high = middle;
  }
  return Math.abs(places[low].x - x) <= Math.abs(places[high].x - x) ? low : high;
}

// A piece of a curve, as a legend shows it.
function swatch(series, dashed, width) {
  const svg = shape("svg", { width, height: 12, viewBox: `0 0 ${width} 12`, "aria-hidden": "true" });
  const group = shape("g", { class: `line ${series ? `color-${series.color}` : "color-none"}` }, svg);
  shape("path", { d: `M0,6H${width}`, class: dashed ? "curve dashed" : "curve" }, group);
  const mark = series && markPath(series.mark, width / 2, 6, 3.4);
  if (mark) shape("path", { d: mark, class: dashed ? "marks hollow" : "marks" }, group);
  return svg;
}
