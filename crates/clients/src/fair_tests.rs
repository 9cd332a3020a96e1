//! The invariants of the queue, over random requests and costs.
#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use proptest::prelude::*;

const COST_MAX: Duration = Duration::from_millis(50);

/// A requested turn: its client, its number and its cost.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ticket {
    client: u64,
    number: u64,
    cost: Duration,
}

/// The queue, a clock and the running turns.
struct World {
    fair: FairQueue<Ticket>,
    slots: usize,
    client_slots: usize,
    now: Duration,
    /// Running turns and their ends.
    running: Vec<(Duration, Ticket)>,
    waiting: Vec<Ticket>,
    /// Every granted turn, in order.
    given: Vec<Ticket>,
    asked: u64,
}

impl World {
    fn new(slots: usize, client_slots: usize) -> Self {
        Self {
            fair: FairQueue::new(slots, client_slots),
            slots,
            client_slots,
            now: Duration::ZERO,
            running: Vec::new(),
            waiting: Vec::new(),
            given: Vec::new(),
            asked: 0,
        }
    }

    fn ask(&mut self, client: u64, cost: Duration) -> Ticket {
        let ticket = Ticket { client, number: self.asked, cost };
        self.asked += 1;
        if self.fair.try_take(ClientId::Connection(client)) {
            self.start(ticket);
        } else {
            self.waiting.push(ticket);
            self.fair.wait(ClientId::Connection(client), ticket);
        }
        self.settle();
        ticket
    }

    fn set_client_slots(&mut self, client_slots: usize) {
        self.client_slots = client_slots;
        self.fair.set_client_slots(client_slots);
        self.settle();
    }

    /// Ends the turn that ends first.
    fn step(&mut self) {
        let first = (0..self.running.len()).min_by_key(|place| self.running[*place].0);
        if let Some(first) = first {
            let (end, ticket) = self.running.swap_remove(first);
            self.now = end;
            self.fair.end(ClientId::Connection(ticket.client), ticket.cost);
        }
        self.settle();
    }

    fn settle(&mut self) {
        while let Some((client, ticket)) = self.fair.next() {
            assert_eq!(client, ClientId::Connection(ticket.client));
            let place = self.waiting.iter().position(|waiting| *waiting == ticket).unwrap();
            self.waiting.remove(place);
            self.start(ticket);
        }
        self.check();
    }

    fn start(&mut self, ticket: Ticket) {
        assert!(self.held(ticket.client) < self.client_slots, "{ticket:?} is one too many");
        self.running.push((self.now + ticket.cost, ticket));
        self.given.push(ticket);
    }

    fn held(&self, client: u64) -> usize {
        self.running.iter().filter(|(_, ticket)| ticket.client == client).count()
    }

    fn check(&self) {
        assert!(self.running.len() <= self.slots);
        assert_eq!(self.fair.waiting(), self.waiting.len());
        for ticket in &self.waiting {
            let may_have = self.held(ticket.client) < self.client_slots;
            assert!(!may_have || self.running.len() == self.slots, "a slot is free and {ticket:?} waits");
        }
        let has_excess = self.running.iter().any(|(_, ticket)| self.held(ticket.client) > self.client_slots);
        assert!(has_excess || !self.fair.has_excess());
    }

    /// Returns the work granted to a client from the `from`th turn on.
    fn work(&self, client: u64, from: usize) -> Duration {
        self.given[from..].iter().filter(|ticket| ticket.client == client).map(|ticket| ticket.cost).sum()
    }
}

fn cost() -> impl Strategy<Value = Duration> {
    prop_oneof![0..100u64, 0..50_000u64].prop_map(Duration::from_micros)
}

#[derive(Debug, Clone)]
enum Event {
    Ask(u64, Duration),
    Step,
    ClientSlots(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        10 => (0..5u64, cost()).prop_map(|(client, cost)| Event::Ask(client, cost)),
        10 => Just(Event::Step),
        1 => (1usize..6).prop_map(Event::ClientSlots),
    ];
    proptest::collection::vec(event, 0..300)
}

/// Returns how much work a client may be ahead of another: turns are charged at their end, and each client holds a few.
fn slack(client_slots: usize) -> Duration {
    (COST_MAX + EXPECTED) * u32::try_from(client_slots).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_turn_is_granted_once_in_order_within_its_client_and_no_slot_is_wasted(
        events in events(), slots in 1usize..6, client_slots in 1usize..6,
    ) {
        let mut world = World::new(slots, client_slots);
        for event in events {
            match event {
                Event::Ask(client, cost) => drop(world.ask(client, cost)),
                Event::Step => world.step(),
                Event::ClientSlots(client_slots) => world.set_client_slots(client_slots),
            }
        }
        while !world.running.is_empty() {
            world.step();
        }
        prop_assert_eq!(world.given.len() as u64, world.asked);
        for client in 0..5 {
            let numbers: Vec<u64> = world.given.iter().filter(|t| t.client == client).map(|t| t.number).collect();
            prop_assert!(numbers.is_sorted(), "{:?}", numbers);
        }
        prop_assert_eq!((world.fair.active, world.fair.held, world.fair.queue.len()), (0, 0, 0));
    }

    #[test]
    fn clients_that_always_wait_get_equal_work_whatever_a_turn_costs(
        costs in proptest::collection::vec((0..4usize, cost()), 400), slots in 1usize..6, client_slots in 1usize..6,
    ) {
        let mut world = World::new(slots, client_slots);
        let mut costs_of: Vec<Vec<Duration>> = vec![Vec::new(); 4];
        for (client, cost) in &costs {
            costs_of[*client].push(*cost);
        }
        // Clients repeat their costs when these run out; the costs of client 0 are small.
        let cost_of = |client: usize, number: usize| {
            let costs = &costs_of[client];
            let cost = costs.get(number % costs.len().max(1)).copied().unwrap_or(EXPECTED);
            if client == 0 { cost / 10 } else { cost }
        };
        let mut asked = [0usize; 4];
        for _ in 0..600 {
            for (client, asked) in asked.iter_mut().enumerate() {
                while world.waiting.iter().filter(|ticket| ticket.client == client as u64).count() < 2 {
                    world.ask(client as u64, cost_of(client, *asked));
                    *asked += 1;
                }
            }
            world.step();
        }
        let work: Vec<Duration> = (0..4).map(|client| world.work(client, 0)).collect();
        let (least, most) = (work.iter().min().unwrap(), work.iter().max().unwrap());
        prop_assert!(most.saturating_sub(*least) <= slack(client_slots) * 2, "{:?}", work);
    }

    #[test]
    fn occasional_client_waits_behind_no_more_than_its_share(
        costs in proptest::collection::vec(cost(), 300), pauses in proptest::collection::vec(0usize..10, 20),
        slots in 1usize..6, client_slots in 1usize..6,
    ) {
        const LIGHT: u64 = 9;
        let mut world = World::new(slots, client_slots);
        let mut costs = costs.into_iter().cycle();
        let mut crowd = |world: &mut World| {
            for client in 0..4 {
                while world.waiting.iter().filter(|ticket| ticket.client == client).count() < 3 {
                    world.ask(client, costs.next().unwrap());
                }
            }
        };
        for pause in pauses {
            for _ in 0..pause {
                crowd(&mut world);
                world.step();
            }
            crowd(&mut world);
            let given_before = world.given.len();
            let ticket = world.ask(LIGHT, Duration::from_micros(100));
            let mut steps = 0;
            while world.waiting.contains(&ticket) && steps < 1000 {
                crowd(&mut world);
                world.step();
                steps += 1;
            }
            for client in 0..4 {
                let work = world.work(client, given_before);
                prop_assert!(work <= slack(client_slots) * 2, "client {} was given {:?}", client, work);
            }
            prop_assert!(!world.waiting.contains(&ticket), "starved for {} turns", steps);
        }
    }

    #[test]
    fn endless_stream_of_new_clients_starves_nobody(lead in 1u64..200, cost in 1u64..5_000) {
        let mut world = World::new(2, 1);
        world.ask(0, Duration::from_millis(lead));
        while !world.running.is_empty() {
            world.step();
        }
        // Client 0 is now ahead of the clock by half of the work it used.
        let cost = Duration::from_micros(cost);
        let mut newcomer = 1;
        for _ in 0..4 {
            world.ask(newcomer, cost);
            newcomer += 1;
        }
        let ticket = world.ask(0, cost);
        let mut given = Duration::ZERO;
        while world.waiting.contains(&ticket) {
            world.step();
            world.ask(newcomer, cost);
            newcomer += 1;
            given += cost;
            prop_assert!(given <= (Duration::from_millis(lead) + EXPECTED + cost) * 20, "starved for {:?}", given);
        }
    }
}

#[test]
fn single_client_leaves_a_slot_for_another() {
    let mut fair: FairQueue<()> = FairQueue::new(4, 2);
    assert!(fair.try_take(ClientId::Connection(1)));
    assert!(fair.try_take(ClientId::Connection(1)));
    assert!(!fair.try_take(ClientId::Connection(1)));
    assert!(fair.try_take(ClientId::Connection(2)));
}

#[test]
fn client_that_may_hold_fewer_slots_gets_none_until_it_holds_fewer() {
    let mut fair: FairQueue<&str> = FairQueue::new(4, 4);
    (0..3).for_each(|_| assert!(fair.try_take(ClientId::Connection(1))));
    assert!(fair.try_take(ClientId::Connection(2)));
    fair.wait(ClientId::Connection(1), "fourth");
    fair.set_client_slots(2);
    assert!(fair.has_excess());
    fair.end(ClientId::Connection(2), EXPECTED);
    assert_eq!(fair.next(), None);
    assert!(fair.try_take(ClientId::Connection(2)), "its place is not kept for the other one");
    fair.end(ClientId::Connection(1), EXPECTED);
    assert!(!fair.has_excess());
    assert_eq!(fair.next(), None);
    fair.end(ClientId::Connection(1), EXPECTED);
    assert_eq!(fair.next(), Some((ClientId::Connection(1), "fourth")));
}

#[test]
fn work_without_contention_costs_nothing_later() {
    let mut fair: FairQueue<&str> = FairQueue::new(1, 1);
    for _ in 0..1000 {
        assert!(fair.try_take(ClientId::Connection(1)));
        fair.end(ClientId::Connection(1), COST_MAX);
    }
    assert!(fair.try_take(ClientId::Connection(3)));
    fair.wait(ClientId::Connection(1), "greedy before");
    fair.wait(ClientId::Connection(2), "new");
    fair.end(ClientId::Connection(3), COST_MAX);
    assert_eq!(fair.next(), Some((ClientId::Connection(1), "greedy before")));
    fair.end(ClientId::Connection(1), COST_MAX);
    assert_eq!(fair.next(), Some((ClientId::Connection(2), "new")));
}

#[test]
fn idle_clients_are_dropped() {
    let mut fair: FairQueue<()> = FairQueue::new(1, 1);
    for client in 0..10_000 {
        assert!(fair.try_take(ClientId::Connection(client)));
        fair.end(ClientId::Connection(client), EXPECTED);
    }
    assert!(fair.shares.len() <= PRUNE_AT, "{}", fair.shares.len());
}

/// Returns the clients of the next turns when both wait for many turns of equal cost.
fn next_turns(fair: &mut FairQueue<u64>, clients: [u64; 2]) -> Vec<u64> {
    for client in clients {
        (0..20).for_each(|_| fair.wait(ClientId::Connection(client), client));
    }
    let mut order = Vec::new();
    for _ in 0..20 {
        let (client, ticket) = fair.next().unwrap();
        fair.end(client, COST_MAX);
        order.push(ticket);
    }
    order
}

#[test]
fn returning_client_gets_no_credit_for_its_absence() {
    let mut fair: FairQueue<u64> = FairQueue::new(1, 1);
    for client in [1].into_iter().chain(std::iter::repeat_n(2, 100)) {
        assert!(fair.try_take(ClientId::Connection(client)));
        fair.end(ClientId::Connection(client), COST_MAX);
    }
    let order = next_turns(&mut fair, [1, 2]);
    assert_eq!(order.iter().filter(|client| **client == 1).count(), 10, "{order:?}");
}

#[test]
fn work_beside_long_turns_costs_nothing_later() {
    let mut fair: FairQueue<u64> = FairQueue::new(4, 1);
    for client in 10..13 {
        assert!(fair.try_take(ClientId::Connection(client)));
    }
    for _ in 0..100 {
        assert!(fair.try_take(ClientId::Connection(1)));
        fair.end(ClientId::Connection(1), COST_MAX);
    }
    let order = next_turns(&mut fair, [1, 2]);
    assert_eq!(order.iter().filter(|client| **client == 1).count(), 10, "{order:?}");
}

#[test]
fn a_client_is_among_others_for_a_second_after_another_has_asked() {
    let (start, mut recent) = (Instant::now(), RecentClients::default());
    let after = |ms| start + Duration::from_millis(ms);
    let [one, other] = [1, 2].map(ClientId::Connection);
    recent.asked(one, after(0));
    recent.asked(one, after(100));
    assert!(!recent.are_several(after(100)));
    recent.asked(other, after(500));
    assert!(recent.are_several(after(500)));
    (600..2000).step_by(100).for_each(|at| recent.asked(one, after(at)));
    assert!(recent.are_several(after(1499)) && !recent.are_several(after(1500)));
    recent.asked(other, after(2000));
    assert!(recent.are_several(after(2000)));
}
