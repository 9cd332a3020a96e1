// Keeps the page current: reads it again every two seconds while somebody sees it.
// Without this script the page is whole, and loads itself again every ten seconds.
"use strict";

const main = document.querySelector("main[data-live]");
if (main) {
    const INTERVAL_MS = 2000;
    let isAsking = false;

    // Whoever reads details or copies text must not lose their place.
    const isBusy = () => {
        const active = document.activeElement;
        const selection = document.getSelection();
        return (active !== main && main.contains(active)) || (selection !== null && !selection.isCollapsed);
    };

    const show = async () => {
        if (isAsking || document.hidden || isBusy()) return;
        isAsking = true;
        try {
            const answer = await fetch(main.dataset.live, { cache: "no-store" });
            const page = new DOMParser().parseFromString(await answer.text(), "text/html");
            const fresh = page.querySelector("main");
            if (answer.ok && fresh && !isBusy()) main.replaceChildren(...fresh.childNodes);
        } catch {
            const notice = main.querySelector("#silent");
            if (notice) notice.hidden = false;
        } finally {
            isAsking = false;
        }
    };

    setInterval(show, INTERVAL_MS);
    document.addEventListener("visibilitychange", show);
}
