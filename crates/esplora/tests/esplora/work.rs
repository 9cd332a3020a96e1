//! Answers of any length: they give their turns back when others ask, end when their clients leave or have used their
//! share, and are charged meanwhile.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use birdhouse_esplora::{
    Answer, Cache, Lane, Limits, Listener, Pages, Question, Reply, Route, Server, Settings, Sockets,
};
use birdhouse_net::{Proxy, Reads, Transport};
use bitcoin::Network;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::world::World;

/// Endpoints of one test: what they do is decided by counts that all tests of this file share, so they run in one.
static PAGES: Pages = Pages {
    routes: &[ROUTES],
    headers: &[],
    refusal: |refusal| refusal.text.to_string(),
    finish: |page, _| page.to_owned(),
};
const ROUTES: &[Route] = &[
    Route::get("/compute", Lane::Blocks, compute, "Computes until it must end."),
    Route::get("/short", Lane::Blocks, short, "An answer at once."),
];

static BEGUN: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicUsize = AtomicUsize::new(0);
static MAY_END: AtomicBool = AtomicBool::new(false);

/// A computation that reads nothing.
fn compute(question: &Question<'_>) -> Answer {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            ENDED.fetch_add(1, Ordering::SeqCst);
        }
    }
    let _end = End;
    BEGUN.fetch_add(1, Ordering::SeqCst);
    while !MAY_END.load(Ordering::SeqCst) {
        question.at.charge_step()?;
    }
    short(question)
}

fn short(_: &Question<'_>) -> Answer {
    Reply::html("done".into(), Cache::NoStore)
}

struct Served {
    port: u16,
    _stop: oneshot::Sender<()>,
    _runtime: Runtime,
}

/// Serves the endpoints on a machine of two processors.
fn serve(world: &World, limits: Limits) -> Served {
    let runtime = Runtime::new().unwrap();
    let socket = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let port = socket.local_addr().unwrap().port();
    let settings = Settings { limits, reads: Arc::new(Reads::new(2, 32, 8)), ..Settings::new(Network::Regtest) };
    let server = Server::new(Arc::clone(&world.rest.index), None, settings);
    let proxy = Proxy::From(vec!["127.0.0.0/8".parse().unwrap()]);
    let listener = Listener { name: "pages".into(), transport: Transport::Tcp, proxy, limits: () };
    let sockets = Sockets { pages: Some((&PAGES, vec![(socket, listener)])), ..Sockets::default() };
    let (stop, stopped) = oneshot::channel::<()>();
    runtime.spawn(server.serve(sockets, Duration::ZERO, async { drop(stopped.await) }));
    Served { port, _stop: stop, _runtime: runtime }
}

/// A request of the client with this number.
fn ask(served: &Served, client: u8, path: &str) -> TcpStream {
    let mut socket = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
    let client = format!("PROXY TCP4 203.0.113.{client} 127.0.0.1 1 1\r\n");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    socket.write_all(format!("{client}{request}").as_bytes()).unwrap();
    socket
}

fn answer(mut socket: TcpStream) -> String {
    socket.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    answer
}

fn count(of: &AtomicUsize) -> usize {
    of.load(Ordering::SeqCst)
}

/// Waits for a condition.
fn until(mut condition: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{} have begun and {} have ended", count(&BEGUN), count(&ENDED));
}

#[test]
fn computations_give_way_to_other_clients_and_end_with_their_own() {
    let world = World::small(83);
    let served = serve(&world, Limits::default());
    // Two clients compute on all processors; their computations end only after others were answered.
    let computing: Vec<_> =
        [1, 2].into_iter().flat_map(|client| [client; 3]).map(|client| ask(&served, client, "/compute")).collect();
    until(|| count(&BEGUN) >= 2);
    for client in [3, 4, 5] {
        let text = answer(ask(&served, client, "/short"));
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    }
    assert_eq!(count(&ENDED), 0);
    MAY_END.store(true, Ordering::SeqCst);
    for socket in computing {
        let text = answer(socket);
        assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("done"), "{text}");
    }
    MAY_END.store(false, Ordering::SeqCst);

    // Clients that leave.
    let leaving: Vec<_> = [1, 2, 3].map(|client| ask(&served, client, "/compute")).into();
    until(|| count(&BEGUN) >= 8);
    drop(leaving);
    until(|| count(&ENDED) == count(&BEGUN));

    // A client that uses up its share while it asks nothing more.
    let limits = Limits { client_work: Some(Duration::from_millis(50)), client_work_percent: 1, ..Limits::default() };
    let served = serve(&world, limits);
    let text = answer(ask(&served, 9, "/compute"));
    assert!(text.starts_with("HTTP/1.1 429") && text.contains("retry-after: "), "{text}");
}
