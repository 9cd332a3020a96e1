// Lays `page` out in two frames and writes its faults into the document.
const slack = 0.5;

function describe(element) {
  const name = element.getAttribute("class") ? `${element.tagName}.${element.getAttribute("class")}` : element.tagName;
  return `${name} "${element.textContent.trim().slice(0, 40)}"`;
}

function overlap(a, b) {
  const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
  const along = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  return across > slack && along > slack;
}

function look(frame) {
  const doc = frame.contentDocument;
  const width = frame.contentWindow.innerWidth;
  const found = { width, plots: 0, texts: 0, untitled: [], overlaps: [], clipped: [], wide: [] };
  for (const svg of doc.querySelectorAll("svg")) {
    const box = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")];
    if (box.width === 0 || texts.length === 0) continue;
    found.plots += 1;
    found.texts += texts.length;
    const label = svg.getAttribute("aria-label") || "a plot";
    if (!svg.querySelector("text.title")) found.untitled.push(label);
    const boxes = texts.map((text) => text.getBoundingClientRect());
    boxes.forEach((one, index) => {
      if (one.left < box.left - slack || one.right > box.right + slack || one.top < box.top - slack || one.bottom > box.bottom + slack)
        found.clipped.push(`${label}: ${describe(texts[index])}`);
      boxes.slice(0, index).forEach((other, before) => {
        if (overlap(one, other)) found.overlaps.push(`${label}: ${describe(texts[index])} and ${describe(texts[before])}`);
      });
    });
  }
  for (const element of doc.body.querySelectorAll("*")) {
    if (element.closest(".scroll") && !element.matches(".scroll")) continue;
    const box = element.getBoundingClientRect();
    if (box.width > 0 && box.right > width + slack) found.wide.push(describe(element));
  }
  return found;
}

const frames = [1200, 400].map((width) => {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width:${width}px;height:900px;border:0`;
  frame.srcdoc = page;
  return frame;
});
Promise.all(frames.map((frame) => new Promise((done) => {
  frame.onload = () => done(frame);
  document.body.append(frame);
}))).then((loaded) => {
  const found = document.createElement("pre");
  found.textContent = "FINDINGS:" + JSON.stringify(loaded.map(look));
  document.body.append(found);
});
