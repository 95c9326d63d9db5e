"use strict";
(() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("figures").textContent);
  const media = matchMedia("(prefers-color-scheme: dark)");
  const css = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const make = (tag, attributes = {}, text = "") => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.textContent = text;
    return element;
  };

  // Theme: the system's until someone says otherwise.
  const theme = document.getElementById("theme");
  const themes = ["auto", "light", "dark"];
  let chosen = "auto";
  const applyTheme = () => {
    if (chosen === "auto") delete root.dataset.theme;
    else root.dataset.theme = chosen;
    theme.textContent = "Theme: " + chosen;
    draw();
  };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    chosen = themes[(themes.indexOf(chosen) + 1) % themes.length];
    applyTheme();
  });
  media.addEventListener("change", () => draw());

  const { from, width, n } = data.axis;
  const whole = { min: from, max: from + width * n };
  const xs = Array.from({ length: n }, (_, k) => from + (k + 0.5) * width);
  let range = { ...whole };
  let plots = [];
  let moving = false;
  let clipped = true;
  const selected = new Set(data.runs.map((run) => run.id));
  const runs = () => data.runs.filter((run) => selected.has(run.id));
  const gpus = () => {
    const own = new Set(runs().map((run) => run.gpu));
    const found = data.gpus.filter((gpu) => own.has(gpu.id));
    return found.length && selected.size < data.runs.length ? found : data.gpus;
  };

  const short = (value) => (value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3))));
  const number = (value, unit = "") => (value == null ? "–" : short(value) + unit);
  const ms = (value) => (value == null ? "–" : value >= 1000 ? number(value / 1000, " s") : number(value, " ms"));
  const pct = (value) => (value == null ? "–" : Number(value.toFixed(value < 10 ? 1 : 0)) + " %");
  const tone = (index) => css("s" + (index % 8));
  const phaseColor = (name) => css(name) || css("user");
  const two = (value) => String(value).padStart(2, "0");
  const clock = (t) => {
    const date = new Date(t * 1000);
    return [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
  };
  const day = (t) => new Date(t * 1000).toLocaleDateString([], { day: "numeric", month: "short" });
  const times = (u, ticks, axis, space, step) =>
    ticks.map((t) => (step >= 86400 || clock(t) === "00:00:00" ? day(t) : step >= 60 ? clock(t).slice(0, 5) : clock(t)));
  const alpha = (color, share) => {
    const value = color.replace("#", "");
    const part = (at) => parseInt(value.slice(at, at + 2), 16);
    return `rgba(${part(0)},${part(2)},${part(4)},${share})`;
  };

  // Nothing is drawn across a hole longer than some columns: what was not measured is not drawn. Samples may come late
  // by some columns; a step stands in every column that it covers.
  const LATE = 5;
  const STEPPED = 2;
  const holes = (values, most) => {
    const out = [];
    let last = null;
    values.forEach((value, at) => {
      if (value == null) return;
      if (last !== null && at - last > most) out.push([last, at]);
      last = at;
    });
    return out;
  };
  const gaps = (most) => (u, series) => {
    const place = (at) => Math.round(u.valToPos(xs[at], "x", true));
    return holes(u.data[series], most).map(([last, next]) => [place(last), place(next)]);
  };

  // A column with holes on both sides is a line without length: it is drawn as a point.
  const lone = (most) => (u, series) => {
    const values = u.data[series];
    const near = (at, way) => Array.from({ length: most }, (_, k) => values[at + way * (k + 1)]).some((value) => value != null);
    return values.flatMap((value, at) => (value == null || near(at, 1) || near(at, -1) ? [] : [at]));
  };

  const marks = (u) => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.strokeStyle = alpha(css("dim"), 0.45);
    ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.lineWidth = devicePixelRatio;
    for (const mark of data.marks) {
      const x = Math.round(u.valToPos(mark.t, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  };

  const area = document.getElementById("plots");
  const show = (min, max, except) => {
    if (moving) return;
    moving = true;
    range = { min, max };
    area.dataset.seconds = String(max - min);
    for (const plot of plots) if (plot !== except) plot.setScale("x", range);
    moving = false;
  };
  const follow = (source) => show(source.scales.x.min, source.scales.x.max, source);
  const go = (min, max) => {
    const span = Math.min(whole.max - whole.min, Math.max(2 * width, max - min));
    const start = Math.min(Math.max(whole.min, min), whole.max - span);
    show(start, start + span);
  };

  const room = () => Math.max(240, Math.floor(area.getBoundingClientRect().width));
  const tall = (height) => (room() < 480 ? Math.round(height * 0.85) : height);

  // All charts leave the same room at the left, so that a moment is at the same place in each.
  const font = "12px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
  const side = (() => {
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = font;
    const names = data.runs.length > 1 ? data.runs.map((run) => pen.measureText(run.short).width) : [];
    return () => Math.min(Math.max(66, ...names.map((wide) => Math.ceil(wide) + 10)), Math.max(66, room() / 3));
  })();

  const chart = (title, note, series, values, { height = 200, unit, y, bands, draw: also, legend = true, axis } = {}) => {
    const holder = make("div", { class: "plot", role: "group", "aria-label": title });
    const head = make("h3", {}, title);
    if (note) head.append(make("small", {}, note));
    holder.append(head);
    area.append(holder);
    const line = { stroke: css("dim"), font, ticks: { stroke: css("line"), width: 1 }, grid: { stroke: css("grid"), width: 1 } };
    const plot = new uPlot(
      {
        width: room(),
        height: tall(height),
        padding: [8, 28, 0, 0],
        cursor: { sync: { key: "gputop", scales: ["x", null] }, drag: { x: true, y: false }, y: false, points: { size: 6 } },
        scales: { x: { time: true, min: range.min, max: range.max }, y: { range: y } },
        axes: [
          { ...line, size: 30, space: 70, values: times },
          { ...line, size: side(), gap: 4, values: (u, ticks) => ticks.map((tick) => unit(tick)), ...axis },
        ],
        series: [{ value: (u, t) => (t == null ? "–" : clock(t)), label: "time" }, ...series],
        bands,
        legend: { show: legend, live: true },
        hooks: { setScale: [(u, key) => key === "x" && follow(u)], draw: [marks, ...(also ? [also] : [])] },
      },
      [xs, ...values],
      holder,
    );
    plots.push(plot);
    return { plot, head, holder };
  };
  const stroke = (label, color, unit, more = {}) => ({
    label, stroke: color, width: 1.5, value: (u, value) => unit(value), gaps: gaps(LATE),
    points: { show: true, size: 4, fill: color, filter: lone(LATE) }, ...more,
  });
  const stepped = (label, color, unit, more = {}) =>
    stroke(label, color, unit, { gaps: gaps(STEPPED), points: { show: true, size: 4, fill: color, filter: lone(STEPPED) }, ...more });
  const AREA = { width: 0, points: { show: false } };

  const merged = (lines, pick) =>
    xs.map((_, k) => {
      const known = lines.map((line) => line[k]).filter((value) => value != null);
      return known.length ? pick(...known) : null;
    });

  const causes = [...new Set(data.runs.flatMap((run) => [...run.now, ...run.then].map((one) => one[2])))];
  const familyOf = (cause) => data.families[cause] || "state";
  const causeColor = (cause) => {
    const alike = causes.filter((one) => familyOf(one) === familyOf(cause));
    return alpha(css(familyOf(cause)), [1, 0.62, 0.38][Math.min(2, alike.indexOf(cause))]);
  };

  // Text on a band: dark on light ones, light on dark ones (relative luminance, ITU-R BT.709).
  const ink = (cause) => {
    const [red, green, blue, share] = causeColor(cause).match(/[\d.]+/g).map(Number);
    const paper = parseInt(css("card").slice(1, 3), 16);
    const seen = (part) => share * part + (1 - share) * paper;
    return 0.2126 * seen(red) + 0.7152 * seen(green) + 0.0722 * seen(blue) > 125 ? "#101418" : "#ffffff";
  };

  const ribbon = () => {
    const shown = runs();
    const many = shown.length > 1;
    const rows = shown.flatMap((run) => {
      const now = { name: many ? run.short : "verdict", spans: run.now };
      return run.differs ? [now, { name: "said then", spans: run.then }] : [now];
    });
    if (!rows.some((row) => row.spans.length)) return;
    const at = (row, t) => row.spans.find((span) => span[0] <= t && t < span[1]);
    const paint = (u) => {
      const { ctx, bbox } = u;
      const ratio = devicePixelRatio;
      const high = bbox.height / rows.length;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      ctx.font = `${11 * ratio}px system-ui, sans-serif`;
      ctx.textBaseline = "middle";
      ctx.textAlign = "left";
      rows.forEach((row, index) => {
        for (const [start, end, cause] of row.spans) {
          const left = Math.max(bbox.left, u.valToPos(start, "x", true));
          const right = Math.min(bbox.left + bbox.width, u.valToPos(end, "x", true));
          if (right <= left) continue;
          const top = bbox.top + index * high + ratio;
          ctx.fillStyle = css("card");
          ctx.fillRect(left, top, Math.max(ratio, right - left - ratio), high - 2 * ratio);
          ctx.fillStyle = causeColor(cause);
          ctx.fillRect(left, top, Math.max(ratio, right - left - ratio), high - 2 * ratio);
          if (ctx.measureText(cause).width + 10 * ratio < right - left) {
            ctx.fillStyle = ink(cause);
            ctx.fillText(cause, left + 5 * ratio, top + high / 2 - ratio);
          }
        }
      });
      ctx.restore();
    };
    const { plot, holder } = chart(
      "Verdict", "what held the run back, by today's rules", [{ show: true, stroke: "transparent", points: { show: false } }],
      [xs.map(() => null)],
      { height: 46 + 24 * rows.length, unit: () => "", y: [0, rows.length], draw: paint, legend: false, axis: {
        splits: () => rows.map((_, index) => rows.length - index - 0.5),
        values: () => rows.map((row) => row.name), grid: { show: false }, ticks: { show: false } } },
    );
    const read = make("p", { class: "read", "aria-live": "off" });
    holder.append(read);
    const legend = causes.filter((cause) => rows.some((row) => row.spans.some((span) => span[2] === cause)));
    const idle = () => legend.join(" · ");
    read.textContent = idle();
    plot.hooks.setCursor = [
      (u) => {
        const t = u.cursor.left == null || u.cursor.left < 0 ? null : u.posToVal(u.cursor.left, "x");
        if (t == null) return void (read.textContent = idle());
        const near = data.marks.filter((mark) => Math.abs(mark.t - t) < (range.max - range.min) / 150);
        const said = rows.slice(0, 8).map((row) => [row.name, (at(row, t) || [0, 0, "–"])[2]].join(": "));
        const happened = near.slice(0, 3).map((mark) => mark.kind + (mark.label ? " " + mark.label : ""));
        read.textContent = [clock(t), ...said, ...happened].join(" · ");
      },
    ];
  };

  const steps = () => {
    const shown = runs().filter((run) => run.high.some((value) => value != null));
    if (!shown.length) return;
    const low = merged(shown.map((run) => run.low), Math.min);
    const high = merged(shown.map((run) => run.high), Math.max);
    const ordered = high.filter((value) => value != null).sort((a, b) => a - b);
    const usual = 1.3 * ordered[Math.floor(0.98 * (ordered.length - 1))];
    const top = ordered[ordered.length - 1];
    const cuts = top > 2.5 * usual;
    const limit = cuts && clipped ? usual : 1.05 * top;
    const many = shown.length > 1;
    const { head } = chart(
      "Step time", many ? "median of each rank; band: shortest to longest of all" : "median; band: shortest to longest",
      [
        stepped("shortest", "transparent", ms, AREA),
        stepped("longest", "transparent", ms, AREA),
        ...shown.map((run, index) => stepped(many ? run.short : "median", tone(many ? data.runs.indexOf(run) : 0), ms)),
      ],
      [low, high, ...shown.map((run) => run.p50)],
      { unit: ms, y: [0, limit], bands: [{ series: [2, 1], fill: alpha(css("s0"), 0.18) }], height: 230 },
    );
    if (cuts) {
      const button = make("button", { type: "button" }, clipped ? `show up to ${ms(top)}` : "cut the longest off");
      button.addEventListener("click", () => { clipped = !clipped; draw(); });
      head.append(button);
    }
  };

  const phases = () => {
    const shown = runs().filter((run) => Object.keys(run.phases).length);
    if (!shown.length) return;
    const names = data.phases.filter((name) => shown.some((run) => run.phases[name]));
    const mean = (...values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const share = {};
    for (const name of names) {
      share[name] = merged(shown.map((run) => run.phases[name] || run.phases.other.map((v) => (v == null ? null : 0))), mean);
    }
    let below = xs.map(() => 0);
    const stacked = names.map((name) => (below = below.map((sum, k) => (share[name][k] == null ? null : (sum ?? 0) + share[name][k]))));
    const order = names.map((_, index) => names.length - 1 - index);
    const { plot } = chart(
      "Where the time went", shown.length > 1 ? "share of step time, mean of the ranks shown" : "share of step time",
      order.map((index) => ({
        ...stepped(names[index], phaseColor(names[index]), pct, { ...AREA, fill: phaseColor(names[index]) }),
        value: (u, value, series, at) => pct(at == null ? null : share[names[index]][at]),
      })),
      order.map((index) => stacked[index]),
      { unit: pct, y: [0, 100], height: 220 },
    );
    plot.root.classList.add("stack");
  };

  const devices = () => {
    const shown = gpus();
    const plot = (title, note, field, unit, y, extra) => {
      const lines = shown.filter((gpu) => gpu[field].some((value) => value != null));
      if (!lines.length) return;
      const color = (gpu) => tone(data.gpus.indexOf(gpu));
      const series = lines.map((gpu) => stroke(lines.length > 1 ? gpu.short : gpu.name, color(gpu), unit));
      const values = lines.map((gpu) => gpu[field]);
      if (extra && lines.length === 1) {
        series.unshift(stroke("peak", alpha(color(lines[0]), 0.45), unit, { width: 1, dash: [3, 3] }));
        values.unshift(lines[0][extra]);
      }
      chart(title, note, series, values, { unit, y, height: 170 });
    };
    plot("GPU utilization", "time in which some kernel ran; proves nothing alone", "util", pct, [0, 100], "peak");
    const most = Math.max(0, ...shown.map((gpu) => gpu.memory_total || Math.max(0, ...gpu.memory.filter((v) => v != null))));
    plot("GPU memory", most ? `of ${most.toFixed(0)} GiB` : "", "memory", (v) => number(v, " GiB"), [0, most || 1]);
    const power = Math.max(1, ...shown.flatMap((gpu) => gpu.power.filter((v) => v != null)));
    plot("GPU power", "", "power", (v) => number(v, " W"), [0, 1.1 * power]);
  };

  const hosts = () => {
    const shown = data.hosts.filter((host) => host.cpu.some((value) => value != null));
    if (!shown.length) return;
    const many = shown.length > 1;
    const series = [];
    const values = [];
    shown.forEach((host, index) => {
      series.push(stroke(many ? host.name + " CPU" : "CPU", tone(2 * index), pct));
      values.push(host.cpu);
      if (host.iowait.some((value) => value)) {
        series.push(stroke(many ? host.name + " iowait" : "iowait", tone(2 * index + 1), pct, { dash: [4, 3] }));
        values.push(host.iowait);
      }
    });
    chart("CPU", "all cores are 100 %", series, values, { unit: pct, y: [0, 100], height: 170 });
  };

  function draw() {
    if (!data.axis.n) return;
    for (const plot of plots) plot.destroy();
    plots = [];
    area.replaceChildren();
    ribbon();
    steps();
    phases();
    devices();
    hosts();
    document.getElementById("charts").hidden = !plots.length;
    root.dataset.plots = String(plots.length);
  }

  const controls = () => {
    const bar = document.getElementById("controls");
    const button = (text, label, act) => {
      const element = make("button", { type: "button", "aria-label": label, title: label }, text);
      element.addEventListener("click", act);
      bar.append(element);
      return element;
    };
    if (data.runs.length > 1) {
      const chips = [];
      const show = () => chips.forEach(([element, wanted]) => element.setAttribute("aria-pressed", String(wanted())));
      const all = button("all", "Show every run", () => {
        data.runs.forEach((run) => selected.add(run.id));
        show();
        draw();
      });
      chips.push([all, () => selected.size === data.runs.length]);
      for (const run of data.runs) {
        const chip = button(run.chip, "Show only " + run.name, (event) => {
          if (event.shiftKey || event.ctrlKey || event.metaKey) {
            if (!selected.delete(run.id)) selected.add(run.id);
            if (!selected.size) selected.add(run.id);
          } else {
            selected.clear();
            selected.add(run.id);
          }
          show();
          draw();
        });
        chips.push([chip, () => selected.size < data.runs.length && selected.has(run.id)]);
      }
      show();
      bar.append(make("span", { class: "gap" }));
    }
    const by = (share) => () => {
      const middle = (range.min + range.max) / 2;
      const half = ((range.max - range.min) / 2) * share;
      go(middle - half, middle + half);
    };
    const shift = (share) => () => go(range.min + share * (range.max - range.min), range.max + share * (range.max - range.min));
    button("+", "Closer", by(0.5));
    button("−", "Further away", by(2));
    button("‹", "Earlier", shift(-0.5));
    button("›", "Later", shift(0.5));
    button("whole run", "Show all of it", () => go(whole.min, whole.max));
  };

  controls();
  document.getElementById("charts").hidden = false;
  draw();
  let known = room();
  new ResizeObserver(() => {
    const now = room();
    if (now === known) return;
    known = now;
    for (const plot of plots) plot.setSize({ width: now, height: plot.height });
  }).observe(area);

  // Printed pages are light, whatever the screen is.
  addEventListener("beforeprint", () => { root.dataset.theme = "light"; draw(); });
  addEventListener("afterprint", () => applyTheme());
})();
