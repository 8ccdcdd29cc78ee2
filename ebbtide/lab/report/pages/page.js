for (const figure of document.querySelectorAll("figure")) {
  const source = figure.querySelector("script");
  const data = source ? JSON.parse(source.textContent) : { places: [] };
  if (!data.places.length) continue;
  const say = figure.appendChild(document.createElement("div"));
  say.className = "say"; say.setAttribute("aria-hidden", "true");
  let index = 0;
  const cell = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });
  const swatch = ink => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const rect = svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "rect"));
    for (const [name, value] of Object.entries({ width: 11, height: 11, rx: 2, class: "f-" + ink })) rect.setAttribute(name, value);
    svg.setAttribute("viewBox", "0 0 11 11");
    if (!ink) rect.setAttribute("opacity", 0);
    return svg;
  };
  const shown = value => typeof value === "number" ? value.toLocaleString("en-US") : value;
  const drawings = [...figure.querySelectorAll("svg[data-left]")];
  const visible = () => drawings.find(svg => svg.getBoundingClientRect().width > 0);
  const pick = Object.assign(document.createElement("label"), { className: "pick" });
  const range = Object.assign(document.createElement("input"), { type: "range", min: 0, max: data.places.length - 1, value: 0 });
  range.setAttribute("aria-label", "Read the values at one point: " + figure.querySelector("h2").textContent);
  pick.append(cell("span", "Read the values at one point"), range);
  const hide = () => { say.style.visibility = ""; for (const line of figure.querySelectorAll(".crosshair")) line.style.visibility = ""; };
  const told = () => data.labels[index] + ": " + data.rows.map(row => row.name + " " + shown(row.values[index])).join(", ");
  const show = svg => {
    const left = +svg.dataset.left, right = +svg.dataset.right;
    const x = left + data.places[index] / 10000 * (right - left), line = svg.querySelector(".crosshair");
    line.setAttribute("x1", x); line.setAttribute("x2", x); line.style.visibility = "visible";
    say.replaceChildren(cell("b", data.labels[index]), ...data.rows.map(row => {
      const span = document.createElement("span");
      span.append(swatch(row.ink), row.name, cell("em", shown(row.values[index])));
      return span;
    }));
    const seen = svg.getBoundingClientRect(), around = figure.getBoundingClientRect();
    const at = seen.left - around.left + x * seen.width / svg.viewBox.baseVal.width;
    const wanted = at + 16 + say.offsetWidth < around.width ? at + 14 : at - 14 - say.offsetWidth;
    say.style.left = Math.max(4, Math.min(wanted, around.width - say.offsetWidth - 4)) + "px";
    say.style.top = seen.top - around.top + 34 + "px"; say.style.visibility = "visible";
    range.value = index; range.setAttribute("aria-valuetext", told());
  };
  figure.querySelector("details").before(pick);
  range.setAttribute("aria-valuetext", told());
  range.addEventListener("input", () => { index = +range.value; show(visible()); });
  range.addEventListener("focus", () => { if (range.matches(":focus-visible")) show(visible()); });
  range.addEventListener("blur", hide);
  figure.addEventListener("keydown", event => { if (event.key === "Escape") hide(); });
  for (const svg of drawings) {
    svg.addEventListener("pointermove", event => {
      const seen = svg.getBoundingClientRect(), left = +svg.dataset.left, right = +svg.dataset.right;
      const inside = (event.clientX - seen.left) * svg.viewBox.baseVal.width / seen.width;
      const place = (inside - left) / (right - left) * 10000;
      if (place < -50 || place > 10050) return hide();
      index = data.places.reduce((best, at, i) => Math.abs(at - place) < Math.abs(data.places[best] - place) ? i : best, 0);
      show(svg);
    });
    svg.addEventListener("pointerleave", hide);
  }
}
const reach = () => { for (const area of document.querySelectorAll(".scroll")) area.tabIndex = area.scrollWidth > area.clientWidth ? 0 : -1; };
document.addEventListener("toggle", reach, true); window.addEventListener("resize", reach); reach();
