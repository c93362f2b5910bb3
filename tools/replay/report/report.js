// Draws the plots of the page: what to draw is in the element "plots", as the module plots.py describes it.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("plots").textContent);
  const timed = new Map();
  let charts = [];

  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const isNarrow = () => innerWidth <= 600;

  function duration(ns) {
    for (const [unit, name] of [[864e11, "d"], [36e11, "h"], [6e10, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "µs"]])
      if (ns >= unit) return `${Number((ns / unit).toPrecision(3))} ${name}`;
    return `${ns} ns`;
  }
  const number = value => value.toLocaleString("en-US", {maximumSignificantDigits: 4});
  const brief = value => value.toLocaleString("en-US", {notation: "compact", maximumSignificantDigits: 3});
  const seconds = value => value.toLocaleString("en-US", {maximumSignificantDigits: 3});
  const when = ms => new Date(ms).toISOString().slice(11, 23);

  // Text of others is never markup.
  function told(lines) {
    const box = document.createElement("div");
    for (const [mark, text] of lines) {
      const line = box.appendChild(document.createElement("div"));
      if (mark) {
        const dot = line.appendChild(document.createElement("span"));
        dot.className = "dot";
        dot.style.background = mark;
      }
      line.appendChild(document.createTextNode(text));
    }
    return box;
  }

  function atTime(plot, points) {
    if (!points.length) return "";
    const at = points[0].axisValue;
    const lines = [["", `${when(at)} UTC`]];
    for (const it of points)
      if (it.value[1] !== null && !(plot.kind === "bars" && it.value[1] === 0))
        lines.push([it.color, `${it.seriesName.split(": ")[0]}: ${number(it.value[1])} ${plot.unit}`]);
    for (const [begin, end, who, cause] of data.outages)
      if (begin <= at && at <= end) lines.push([colour("gap"), `${who}: ${cause}`]);
    return told(lines);
  }

  function marksOf(plot, isFirst) {
    if (!isFirst) return {};
    const hidden = {show: false};
    return {
      markArea: {
        silent: true, itemStyle: {color: colour("gap"), opacity: 0.45},
        label: {position: "insideTop", color: colour("ink"), fontSize: 11, overflow: "truncate"},
        // A short one has no room for its name: the tooltip has it.
        data: data.gaps.map(([begin, end, who]) => {
          const width = (end - begin) / (data.end - data.begin) * (innerWidth < 1180 ? innerWidth : 1180);
          return [{xAxis: begin, name: who, label: {show: plot.kind !== "sessions" && width > 9 * Math.min(who.length, 12), width}}, {xAxis: end}];
        }),
      },
      markLine: {
        symbol: "none", label: hidden, lineStyle: {color: colour("red"), type: "solid", width: 1.5},
        data: data.marks.map(([name, at]) => ({xAxis: at, name})),
      },
    };
  }

  function seriesOf(plot) {
    return plot.series.map((it, at) => {
      const common = {name: it.name, data: it.points, color: colour(it.colour), animation: false, ...marksOf(plot, at === 0)};
      if (plot.kind === "bars") return {...common, type: "bar", stack: "all", barCategoryGap: "0%"};
      if (plot.kind === "sessions")
        return {...common, type: "line", symbol: "rect", symbolSize: [5, 14], lineStyle: {width: 8, cap: "butt"}};
      return {
        ...common, type: "line", step: plot.steps ? "end" : false, symbol: "circle", symbolSize: 4,
        showSymbol: !plot.steps && it.points.length < 400,
        lineStyle: {width: 1.5, type: it.dashed ? "dotted" : "solid"},
      };
    });
  }

  function optionOf(plot) {
    const ink = colour("ink"), line = {lineStyle: {color: colour("edge")}};
    const label = {color: ink, hideOverlap: true};
    const split = {lineStyle: {color: colour("grid")}};
    const isShort = data.end - data.begin < 5000;
    const isTimed = plot.kind !== "histogram";
    const points = plot.series[0].points;
    return {
      useUTC: true,
      textStyle: {fontFamily: "system-ui, sans-serif", color: ink},
      legend: {
        show: isTimed, type: "scroll", left: 0, right: isNarrow() ? 0 : 40, top: 0,
        selected: Object.fromEntries(plot.series.filter(it => it.hidden).map(it => [it.name, false])),
        textStyle: {color: ink}, pageTextStyle: {color: ink}, pageIconColor: ink, inactiveColor: colour("edge"),
      },
      tooltip: {
        trigger: plot.kind === "sessions" ? "item" : "axis", confine: true, backgroundColor: colour("card"),
        borderColor: colour("edge"), textStyle: {color: colour("text"), fontSize: 12},
        formatter: shown => {
          if (plot.kind === "sessions")
            return shown.seriesType === "line" && shown.value ? told([[shown.color, shown.value[2]]]) : "";
          if (isTimed) return atTime(plot, shown);
          const [low, high, count] = points[shown[0].dataIndex];
          return told([["", `${duration(low)} to ${duration(high)}: ${number(count)} ${plot.unit}`]]);
        },
      },
      toolbox: {
        show: isTimed && !isNarrow(), right: 0, top: -4, iconStyle: {borderColor: ink},
        feature: {dataZoom: {yAxisIndex: "none", title: {zoom: "zoom: draw a box", back: "back"}}},
      },
      dataZoom: isTimed ? [
        {type: "inside", filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseMove: false, moveOnMouseWheel: false},
        {type: "slider", filterMode: "none", height: 16, bottom: 4, brushSelect: false, showDataShadow: false,
         labelFormatter: "", borderColor: colour("edge"), fillerColor: colour("filler"), handleSize: "140%"},
      ] : [],
      // The same for all plots but that of sessions, whose rows have names: one time is at one place in all of them.
      grid: {
        left: isNarrow() ? (plot.kind === "sessions" ? 96 : 48) : (plot.kind === "sessions" ? 150 : 72), right: 28,
        top: isTimed ? 44 : 24, bottom: isTimed ? 46 : 24, outerBoundsMode: "none",
      },
      // The axis of times has no labels within a second: below some seconds it is one of numbers.
      xAxis: isTimed
        ? {type: isShort ? "value" : "time", min: data.begin, max: data.end, axisLine: line, splitLine: {show: false},
           axisLabel: isShort ? {...label, showMinLabel: false, showMaxLabel: false, formatter: when} : label}
        : {type: "category", data: points.map(it => duration(it[0])), axisLabel: label, axisLine: line},
      yAxis: plot.kind === "sessions"
        ? {type: "category", data: plot.rows, axisLabel: {...label, width: isNarrow() ? 84 : 138, overflow: "truncate"},
           axisLine: line, splitLine: {show: true, ...split}}
        : {type: plot.log ? "log" : "value", name: plot.unit, nameTextStyle: {color: ink, align: "left"}, nameGap: 6,
           axisLabel: {...label, formatter: plot.unit === "s" ? seconds : brief}, splitLine: split, minInterval: plot.unit.includes("/") || plot.log ? 0 : 1},
      series: isTimed ? seriesOf(plot)
        : [{type: "bar", data: points.map(it => it[2]), color: colour("blue"), barCategoryGap: "8%", animation: false}],
    };
  }

  function zoomTo(begin, end) {
    for (const chart of timed.values()) chart.dispatchAction({type: "dataZoom", startValue: begin, endValue: end});
  }

  function build() {
    for (const chart of charts) chart.dispose();
    charts = [];
    timed.clear();
    for (const plot of data.plots) {
      const box = document.getElementById(`plot-${plot.name}`);
      if (!box.offsetParent) continue;
      if (plot.kind === "sessions") box.style.height = `${Math.max(150, 96 + 22 * plot.rows.length)}px`;
      const chart = echarts.init(box);
      chart.setOption(optionOf(plot));
      chart.on("click", it => { if (it.componentType === "markLine") location.hash = it.name; });
      charts.push(chart);
      if (plot.kind !== "histogram") {
        chart.group = "times";
        timed.set(plot.name, chart);
      }
    }
    echarts.connect("times");
  }

  build();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (width === innerWidth) return;
    width = innerWidth;
    build();
  });
  document.getElementById("whole").addEventListener("click", () => zoomTo(data.begin, data.end));

  for (const part of document.querySelectorAll("details"))
    if (part.querySelector(".chart")) part.addEventListener("toggle", build);

  function show() {
    const part = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (part) {
      for (let box = part; box; box = box.parentElement) if (box.tagName === "DETAILS") box.open = true;
      part.scrollIntoView();
    }
    const name = location.hash.replace("#at-", "");
    const mark = data.marks.find(it => it[0] === name && location.hash.startsWith("#at-"));
    if (!mark) return;
    const around = (data.end - data.begin) / 20;
    zoomTo(Math.max(data.begin, mark[1] - around), Math.min(data.end, mark[1] + around));
    document.getElementById("charts").scrollIntoView();
  }
  addEventListener("hashchange", show);
  show();
})();
