// Ticks, units and numbers of an axis.

function linearTicks(low, high, wanted) {
  const rough = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough * 0.999);
  const ticks = [];
  // Without "or 0" the tick at zero might be a minus zero.
  for (let tick = Math.ceil(low / step - 1e-9); tick * step <= high + step * 1e-6; tick += 1) {
    ticks.push(tick * step || 0);
  }
  return ticks;
}

function logTicks(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) {
    for (const one of [1, 2, 5]) ticks.push(one * 10 ** power);
  }
  const inside = ticks.filter((tick) => tick >= low && tick <= high);
  return inside.length > 2 ? inside : linearTicks(low, high, 4).filter((tick) => tick > 0);
}

// The digits that tell neighboring ticks apart, the same for all of them.
function tickLabels(ticks) {
  const gap = Math.min(...ticks.slice(1).map((tick, place) => tick - ticks[place]), Math.abs(ticks[0]) || 1);
  const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(gap) - 1e-9)));
  const even = ticks.every((tick) => Math.abs(tick - Number(tick.toFixed(digits))) < gap * 1e-3);
  return ticks.map((tick) => tick.toLocaleString("en", {
    minimumFractionDigits: even ? digits : digits + 1, maximumFractionDigits: even ? digits : digits + 1,
  }));
}

const UNITS = {
  plain: [[1, ""]],
  time: [[3600, "hours"], [60, "minutes"], [1, "seconds"]],
  count: [[1e9, "billions"], [1e6, "millions"], [1e3, "thousands"], [1, ""]],
};

// The largest unit of which the axis holds two or more.
function unitOf(kind, high) {
  const [size, name] = UNITS[kind].find(([one]) => high >= 2 * one) || UNITS[kind].at(-1);
  return { size, name };
}

function figure(value) {
  const size = Math.abs(value);
  if (size >= 1000) return value.toLocaleString("en", { maximumFractionDigits: 0 });
  return value.toFixed(size >= 10 ? 2 : size >= 0.1 || size === 0 ? 3 : 5);
}

function quantile(sorted, share) {
  const place = (sorted.length - 1) * share;
  const below = Math.floor(place);
  return sorted[below] + (sorted[Math.min(below + 1, sorted.length - 1)] - sorted[below]) * (place - below);
}

// Figures that fall from a huge start: the region in which most curves end, from where the better ones are after a
// tenth of their way.
function bestRegion(lines) {
  const ends = lines.map((line) => Math.min(...line.points.map((point) => point.y))).sort((a, b) => a - b);
  const best = ends[0];
  const usual = quantile(ends, 0.7);
  const early = lines
    .filter((line) => Math.min(...line.points.map((point) => point.y)) <= usual)
    .map((line) => line.points[Math.min(line.points.length - 1, Math.ceil(line.points.length / 10))].y)
    .sort((a, b) => a - b);
  return [best, Math.max(usual + 0.3 * (usual - best), quantile(early, 0.5))];
}
