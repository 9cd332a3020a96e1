use super::*;

const MS: Duration = Duration::from_millis(1);

fn taken(worker: &Worker<&'static str>, most: usize) -> Vec<&'static str> {
    let (mut work, mut count) = (Vec::new(), 0);
    assert!(worker.take(&mut work, |_| {
        count += 1;
        count == most
    }));
    worker.done(work.iter().map(|(client, _)| (*client, MS)));
    work.into_iter().map(|(_, piece)| piece).collect()
}

#[test]
fn clients_take_turns_and_each_keeps_its_order() {
    let (queue, worker) = WorkQueue::new(100, 100);
    for piece in ["a1", "a2", "a3", "a4"] {
        assert!(queue.put(ClientId::Connection(1), piece));
    }
    queue.put(ClientId::Connection(2), "b1");
    queue.put(ClientId::Connection(2), "b2");
    assert_eq!(taken(&worker, 2), ["a1", "b1"]);
    queue.put(ClientId::Connection(3), "c1");
    let rest = taken(&worker, 10);
    assert!(rest.iter().position(|piece| *piece == "c1") < rest.iter().position(|piece| *piece == "a4"), "{rest:?}");
    assert!(worker.is_idle());
    queue.close();
    assert!(!worker.take(&mut Vec::new(), |_| true));
    drop(worker);
    assert!(queue.has_ended() && !queue.put(ClientId::Connection(1), "late"));
}

#[test]
fn a_client_whose_work_takes_long_is_next_less_often() {
    let (queue, worker) = WorkQueue::new(100, 100);
    for _ in 0..20 {
        queue.put(ClientId::Connection(1), "long");
        queue.put(ClientId::Connection(2), "short");
    }
    let mut taken = Vec::new();
    while taken.len() < 20 {
        let mut work = Vec::new();
        assert!(worker.take(&mut work, |_| true));
        worker.done(work.iter().map(|(client, piece)| (*client, if *piece == "long" { 50 * MS } else { MS })));
        taken.extend(work.into_iter().map(|(_, piece)| piece));
    }
    let long = taken.iter().filter(|piece| **piece == "long").count();
    assert!((1..=2).contains(&long), "{taken:?}");
}

#[tokio::test]
async fn who_finds_no_room_waits_until_there_is_some() {
    let (queue, _worker) = WorkQueue::<()>::new(100, 60);
    let (first, second) = (ClientId::Connection(1), ClientId::Connection(2));
    let large = queue.reserve(first, 500).await;
    let waits = |client: ClientId, bytes| {
        let queue = Arc::clone(&queue);
        tokio::spawn(async move { queue.reserve(client, bytes).await })
    };
    let other = waits(second, 10);
    tokio::task::yield_now().await;
    assert!(!other.is_finished(), "all room is taken");
    drop(large);
    let other = other.await;
    let held = queue.reserve(first, 60).await;
    let more = waits(first, 1);
    tokio::task::yield_now().await;
    assert!(!more.is_finished(), "the client has as much as it may have");
    let others = queue.reserve(second, 30).await;
    assert_eq!(queue.bytes(), 100);
    drop(held);
    drop((more.await, other, others));
    let state = queue.state.lock();
    assert_eq!((state.bytes, state.by_client.len(), state.crowded), (0, 0, 0));
}
