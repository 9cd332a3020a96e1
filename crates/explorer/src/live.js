// Shows what has changed: reads the page again when the server tells of a block or of the page's own subject.
// Without this script a page is whole, and as old as its last load.
"use strict";

const main = document.querySelector("main[data-live]");
if (main && "EventSource" in window) {
    let events = null;
    let timer = 0;

    // Whoever reads details or types must not lose their place.
    // A click on the page gives `main` itself the focus, which loses nothing.
    const isBusy = () => main.querySelector("details[open]") !== null
        || (document.activeElement !== main && main.contains(document.activeElement));

    const show = async () => {
        const answer = await fetch(location.href, { cache: "no-cache" });
        if (!answer.ok) return;
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.querySelector("main");
        if (!fresh || isBusy()) return;
        main.replaceChildren(...fresh.childNodes);
        main.dispatchEvent(new Event("fresh"));
    };

    // A block changes many things at once: one look is enough.
    const later = () => {
        clearTimeout(timer);
        timer = setTimeout(show, 250);
    };

    // The state of an address or a transaction in the words of the page's `data-state`.
    const figures = (stats) => [
        stats.tx_count, stats.funded_txo_count, stats.funded_txo_sum, stats.spent_txo_count, stats.spent_txo_sum,
    ];
    const stateOf = {
        address: (data) => [...figures(data.chain_stats), ...figures(data.mempool_stats)].join(" "),
        tx: (data) => data.known ? data.status.block_hash ?? "mempool" : "gone",
    };

    // Events begin with the blocks since the tip of the page, and with the state of its own subject. What happened
    // between the page and its events is seen so, and a page to which nothing happened is not read twice.
    const start = () => {
        if (events || document.hidden) return;
        events = new EventSource(main.dataset.live);
        let isBegun = false;
        for (const kind of ["block", "reorg"]) events.addEventListener(kind, later);
        for (const [kind, state] of Object.entries(stateOf)) {
            events.addEventListener(kind, (event) => {
                const known = main.querySelector("[data-state]")?.dataset.state;
                if (isBegun || state(JSON.parse(event.data)) !== known) later();
                isBegun = true;
            });
        }
    };

    // A browser has few connections for one host: pages that nobody sees hold none.
    document.addEventListener("visibilitychange", () => {
        if (!document.hidden) {
            start();
            later();
        } else if (events) {
            events.close();
            events = null;
        }
    });
    start();
}
