// Conveniences: copies names, switches units and times, and keeps labels (BIP 329) in this browser.
// Without this script a page has everything that the server knows.
"use strict";

const LABELS_MAX = 10_000;
const LABEL_CHARS_MAX = 255;
const kept = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
// Returns false if the browser keeps nothing, as in a private window, or has no room.
const keep = (name, value) => { try { localStorage.setItem(name, value); return true; } catch { return false; } };
const make = (tag, text, properties) => Object.assign(document.createElement(tag), { textContent: text, ...properties });

// === Copies ===

const copy = async (text, button) => {
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        // Without encryption there is no clipboard, but there is what is selected.
        const area = make("textarea", text);
        document.body.append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
};

const addCopies = (main) => {
    for (const named of main.querySelectorAll("p.whole, pre")) {
        if (named.nextElementSibling?.className === "copy") continue;
        const button = make("button", "Copy", { className: "copy", type: "button" });
        button.addEventListener("click", () => copy(named.textContent, button));
        named.after(button);
    }
};

// === Units and times ===

const inSat = (sat) => sat.toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");

const showUnit = (main) => {
    const isSat = kept("unit") === "sat";
    for (const amount of main.querySelectorAll("[data-sat]")) {
        amount.dataset.btc ??= amount.innerHTML;
        if (isSat) amount.textContent = inSat(amount.dataset.sat); else amount.innerHTML = amount.dataset.btc;
    }
    for (const unit of main.querySelectorAll(".unit")) unit.textContent = isSat ? "sat" : "BTC";
};

const showTimes = (main) => {
    const isLocal = kept("times") === "local";
    for (const time of main.querySelectorAll("time")) {
        const what = time.hasAttribute("title") ? "title" : "textContent";
        time.dataset.utc ??= time[what];
        time[what] = isLocal ? new Date(time.dateTime).toLocaleString() : time.dataset.utc;
    }
};

// === Labels ===

// A label's line, by its type and the thing that it is for. Members that this script does not know stay.
const labels = () => { try { return new Map(JSON.parse(kept("labels") ?? "[]")); } catch { return new Map(); } };
const keyOf = (line) => `${line.type}:${line.ref}`;

// A line of an export; null if it is none.
const parseLabel = (row) => {
    try {
        const line = JSON.parse(row);
        return typeof line?.type === "string" && typeof line.ref === "string" ? line : null;
    } catch {
        return null;
    }
};

// A line over an older one of the same thing: a member that it leaves out stays as it is (BIP 329, "Importing").
const over = (older, line) => {
    const given = Object.entries(line).filter(([, value]) => value !== null);
    return { ...older, ...Object.fromEntries(given) };
};

// One bad line does not cost the others: that is why BIP 329 has a line for each label.
const importLabels = (text) => {
    const all = labels();
    let [count, skipped] = [0, 0];
    for (const row of text.split("\n").filter((row) => row.trim() !== "")) {
        const line = parseLabel(row);
        if (line === null) { skipped += 1; continue; }
        if (typeof line.label === "string") line.label = line.label.slice(0, LABEL_CHARS_MAX);
        all.set(keyOf(line), over(all.get(keyOf(line)), line));
        count += 1;
    }
    if (count === 0 && skipped > 0) throw new Error("no line is a label");
    if (all.size > LABELS_MAX) throw new Error(`these are more than ${LABELS_MAX} labels`);
    if (!keep("labels", JSON.stringify([...all]))) throw new Error("the browser has no room, or keeps nothing");
    return [count, skipped];
};

// An empty label is taken away, and the line with it if it says nothing else.
const setLabel = (type, ref, label) => {
    const all = labels();
    const line = { type, ref, ...all.get(`${type}:${ref}`), label };
    if (label === "") delete line.label;
    if (Object.keys(line).length === 2) all.delete(keyOf(line));
    else if (all.size < LABELS_MAX || all.has(keyOf(line))) all.set(keyOf(line), line);
    else return false;
    return keep("labels", JSON.stringify([...all]));
};

// The type and the thing of a path.
const thingOf = (url) => {
    const [, kind, ref] = url.pathname.match(/\/(tx|address)\/([^/]+)$/) ?? [];
    const output = url.hash.match(/^#output-(\d+)$/);
    if (kind === "tx" && output) return ["output", `${ref}:${output[1]}`];
    return kind === "tx" ? ["tx", ref] : kind === "address" ? ["addr", ref] : null;
};

const addLabels = (main) => {
    const all = labels();
    main.querySelectorAll(".label").forEach((label) => label.remove());
    for (const link of main.querySelectorAll("a.long-link")) {
        const thing = thingOf(new URL(link.href));
        const line = thing && all.get(thing.join(":"));
        if (line?.label) link.after(make("span", line.label, { className: "label" }));
    }
    const own = thingOf(new URL(location.pathname, location.href));
    const head = main.querySelector("p.whole");
    if (!own || !head || main.querySelector(".own-label")) return;
    const form = make("form", "", { className: "own-label" });
    const input = make("input", "", { value: all.get(own.join(":"))?.label ?? "", maxLength: LABEL_CHARS_MAX });
    input.placeholder = "Your label, kept in this browser";
    input.setAttribute("aria-label", "Your label, kept in this browser");
    input.addEventListener("input", () => input.setCustomValidity(""));
    form.append(input, make("button", "Keep"));
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        const isKept = setLabel(own[0], own[1], input.value.trim());
        input.setCustomValidity(isKept ? "" : "Not kept: the browser has no room for it, or keeps nothing.");
        if (!isKept) return input.reportValidity();
        input.blur();
        addLabels(main);
    });
    (head.nextElementSibling?.className === "copy" ? head.nextElementSibling : head).after(form);
};

const wireLabelsPage = (main) => {
    const area = main.querySelector("#labels");
    if (!area || area.dataset.wired) return;
    area.dataset.wired = "yes";
    const outcome = main.querySelector("#outcome");
    const show = () => { area.value = [...labels().values()].map((line) => JSON.stringify(line)).join("\n"); };
    area.form.hidden = false;
    area.form.addEventListener("submit", (event) => {
        event.preventDefault();
        try {
            const [count, skipped] = importLabels(area.value);
            const left = skipped > 0 ? ` Lines that are no labels and were left out: ${skipped}.` : "";
            outcome.textContent = `${count} labels are kept in this browser.${left}`;
            show();
        } catch (error) {
            outcome.textContent = `Nothing was kept: ${error.message}.`;
        }
    });
    main.querySelector("#forget").addEventListener("click", () => { keep("labels", "[]"); show(); });
    show();
};

// === All of it ===

const page = document.querySelector("main");
const improve = () => {
    addCopies(page);
    showUnit(page);
    showTimes(page);
    addLabels(page);
    wireLabelsPage(page);
};

const addSwitch = (name, words, values) => {
    const is = () => (kept(name) === values[1] ? 1 : 0);
    const button = make("button", words[is()], { className: "switch", type: "button" });
    button.addEventListener("click", () => {
        keep(name, values[1 - is()]);
        button.textContent = words[is()];
        improve();
    });
    document.querySelector("footer .bar").append(button);
};

addSwitch("unit", ["Show satoshis", "Show bitcoin"], ["btc", "sat"]);
addSwitch("times", ["Show local times", "Show UTC"], ["utc", "local"]);
improve();
page.addEventListener("fresh", improve);
