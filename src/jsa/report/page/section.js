// The charts of one kind with what can be chosen for all of them, and their legend.

const RANGES = [["best", "best region"], ["all", "all"], ["log", "all, logarithmic"]];

function button(label, pressed, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.setAttribute("aria-pressed", String(pressed));
  made.append(label);
  made.addEventListener("click", () => act(made));
  return made;
}

// Buttons of which one is always chosen.
function choice(title, labels, chosen, act) {
  const group = document.createElement("div");
  group.className = "choice";
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", title);
  const name = document.createElement("span");
  name.textContent = title;
  group.append(name);
  labels.forEach((label, place) => {
    group.append(button(label, place === chosen, (pressed) => {
      for (const other of group.querySelectorAll("button")) {
        other.setAttribute("aria-pressed", String(other === pressed));
      }
      act(place);
    }));
  });
  return group;
}

class Section {
  constructor(data, section, holder) {
    Object.assign(this, { data, section });
    this.state = { view: this.fullestView(), axis: 0, range: "best", hiddenSeries: new Set(), hiddenLines: new Set() };
    this.charts = data.charts.map((chart, number) => new Chart(data, section, { ...chart, number }, this.state));
    this.controls = document.createElement("div");
    this.controls.className = "controls";
    this.kinds = document.createElement("div");
    this.legend = document.createElement("div");
    for (const node of [this.kinds, this.legend]) node.className = "legend";
    const grid = document.createElement("div");
    grid.className = "grid-of-charts";
    grid.append(...this.charts.map((chart) => chart.node));
    this.absent = document.createElement("p");
    holder.append(this.controls, this.kinds, this.legend, grid, this.absent);
    this.addControls();
    this.changeView();
    let width = 0;
    new ResizeObserver(() => {
      if (grid.clientWidth === width) return;
      width = grid.clientWidth;
      this.draw();
    }).observe(grid);
  }

  has(run, view) {
    return view.lines.some((line) => run.tracks[this.section.track][line.figure]);
  }

  // The first view in which half of the charts show all their runs, of those that have any of its figures at all.
  fullestView() {
    const { views } = this.section;
    const runs = this.data.charts.map((chart) => chart.runs.map((number) => this.data.runs[number])
      .filter((run) => views.some((view) => this.has(run, view)))).filter((found) => found.length);
    const whole = views.map((view) => runs.filter((found) => found.every((run) => this.has(run, view))).length);
    const first = whole.findIndex((count) => 2 * count >= runs.length);
    return first < 0 ? whole.indexOf(Math.max(...whole)) : first;
  }

  addControls() {
    const { section, state } = this;
    if (section.views.length > 1) {
      this.controls.append(choice("show", section.views.map((view) => view.label), state.view, (place) => {
        state.view = place;
        state.hiddenLines.clear();
        this.changeView();
      }));
    }
    if (section.axes.length > 1) {
      this.controls.append(choice("against", section.axes.map((axis) => axis.label), state.axis, (place) => {
        state.axis = place;
        this.draw();
      }));
    }
    if (section.views.some((view) => view.falling)) {
      this.controls.append(choice("range", RANGES.map(([, label]) => label), 0, (place) => {
        [state.range] = RANGES[place];
        this.draw();
      }));
    }
  }

  // Another view has other lines, and maybe other series.
  changeView() {
    const { data, section, state } = this;
    const view = section.views[state.view];
    this.kinds.hidden = view.lines.length < 2;
    this.kinds.replaceChildren(...view.lines.map((line, place) =>
      this.toggle(swatch(null, line.dashed, 28), line.label, state.hiddenLines, place)));
    const present = new Set(data.runs.filter((run) => this.has(run, view)).map((run) => run.series));
    this.legend.replaceChildren(...data.series.flatMap((series, number) => present.has(number)
      ? [this.emphasizing(this.toggle(swatch(series, false, 28), series.label, state.hiddenSeries, number), number)]
      : []));
    if (present.size > 1) this.legend.append(this.everything(present));
    this.draw();
  }

  toggle(sign, label, hidden, number) {
    const content = document.createElement("span");
    content.append(sign, label);
    const made = button(content, !hidden.has(number), (pressed) => {
      if (!hidden.delete(number)) hidden.add(number);
      pressed.setAttribute("aria-pressed", String(!hidden.has(number)));
      this.draw();
    });
    made.title = "hide or show";
    return made;
  }

  emphasizing(made, number) {
    const emphasize = (series) => this.charts.forEach((chart) => chart.emphasize(series));
    made.addEventListener("pointerenter", () => emphasize(this.state.hiddenSeries.has(number) ? null : number));
    made.addEventListener("pointerleave", () => emphasize(null));
    return made;
  }

  // Hides all curves, from where single ones can be picked, or shows all again.
  everything(present) {
    const { hiddenSeries } = this.state;
    const made = document.createElement("button");
    made.type = "button";
    made.className = "everything";
    made.textContent = "all or none";
    made.addEventListener("click", () => {
      if (hiddenSeries.size) hiddenSeries.clear();
      else for (const number of present) hiddenSeries.add(number);
      for (const other of this.legend.querySelectorAll("[aria-pressed]")) {
        other.setAttribute("aria-pressed", String(hiddenSeries.size === 0));
      }
      this.draw();
    });
    return made;
  }

  draw() {
    for (const chart of this.charts) chart.draw();
    this.sayWhatIsAbsent();
  }

  // A chart that the other views have and this one has not would otherwise be missed.
  sayWhatIsAbsent() {
    const { section, state, charts, data } = this;
    const known = charts.filter((chart) => chart.node.hidden
      && chart.chart.runs.some((number) => section.views.some((view) => this.has(data.runs[number], view))));
    this.absent.hidden = known.length === 0;
    this.absent.textContent = `Without ${section.views[state.view].label}: ${
      known.map((chart) => chart.chart.title).join("; ")}.`;
  }
}
