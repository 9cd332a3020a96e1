//! The best part of a set of transactions, by a minimum cut. Pure.
//!
//! A part must have the parents of its members. The best part at a fee rate is the one with the highest surplus: fees
//! above what that rate gives for the size. Members with a surplus send it to ancestors that lack some; where all
//! surplus arrives, no part is better than the whole, and what does not arrive shows the best part. This is the problem
//! of [maximum closure](https://en.wikipedia.org/wiki/Closure_problem), which a maximum flow solves exactly.

use super::members::{CLUSTER_MAX, Member, Rate, Set, bits};

/// The flow of surplus between the members of a cluster, kept between clusters for its memory.
#[derive(Debug)]
pub(super) struct Network {
    /// From a child to its parent.
    flow: Vec<i128>,
    /// Surplus of each member that is not sent, or lack that is not filled.
    surplus: [i128; CLUSTER_MAX],
    /// Children that send to each member.
    senders: [Set; CLUSTER_MAX],
}

impl Default for Network {
    fn default() -> Self {
        Self { flow: vec![0; CLUSTER_MAX * CLUSTER_MAX], surplus: [0; CLUSTER_MAX], senders: [0; CLUSTER_MAX] }
    }
}

impl Network {
    /// Returns the part of a set whose rate exceeds that of the whole by most surplus; `None` if no part has a higher
    /// rate.
    pub(super) fn best_part(&mut self, members: &[Member], set: Set) -> Option<Set> {
        self.fill(members, set);
        loop {
            let sources = self.with_surplus(set);
            if sources == 0 {
                return None;
            }
            let (reached, order, from) = self.reach(members, set, sources);
            let mut sent = false;
            for sink in order {
                sent |= self.surplus[sink] < 0 && self.send(members, sink, &from);
            }
            if !sent {
                return Some(reached);
            }
        }
    }

    /// Returns the smallest parts of a set, each with the rate of the whole, after [`Self::best_part`] found none that
    /// is better: members between which surplus can be sent in both directions belong together.
    pub(super) fn equal_parts(&self, members: &[Member], set: Set) -> Vec<Set> {
        let mut reach = [0; CLUSTER_MAX];
        for at in bits(set) {
            reach[at] = 1 << at | members[at].parents & set | self.senders[at];
        }
        for middle in bits(set) {
            for at in bits(set) {
                if reach[at] >> middle & 1 == 1 {
                    reach[at] |= reach[middle];
                }
            }
        }
        let (mut parts, mut left) = (Vec::new(), set);
        while left != 0 {
            let first = left.trailing_zeros() as usize;
            let part = bits(reach[first] & left)
                .filter(|at| reach[*at] >> first & 1 == 1)
                .fold(0, |part: Set, at| part | 1 << at);
            parts.push(part);
            left &= !part;
        }
        parts
    }

    /// Sets the surplus of each member at the rate of the whole set.
    fn fill(&mut self, members: &[Member], set: Set) {
        let whole = Rate::of(members, set);
        for at in bits(set) {
            let Rate { fee, size } = members[at].rate;
            self.surplus[at] = i128::from(fee) * i128::from(whole.size) - i128::from(whole.fee) * i128::from(size);
            self.senders[at] = 0;
            for parent in bits(members[at].parents & set) {
                self.flow[at * CLUSTER_MAX + parent] = 0;
            }
        }
    }

    fn with_surplus(&self, set: Set) -> Set {
        bits(set).filter(|at| self.surplus[*at] > 0).fold(0, |set, at| set | 1 << at)
    }

    /// The members to which surplus can be sent, the nearest first, and the one before each on its way.
    fn reach(&self, members: &[Member], set: Set, sources: Set) -> (Set, Vec<usize>, [usize; CLUSTER_MAX]) {
        let mut from = std::array::from_fn(|at| at);
        let (mut reached, mut order) = (sources, Vec::with_capacity(CLUSTER_MAX));
        order.extend(bits(sources));
        let mut next = 0;
        while let Some(at) = order.get(next).copied() {
            let new = (members[at].parents & set | self.senders[at]) & !reached;
            reached |= new;
            for to in bits(new) {
                from[to] = at;
                order.push(to);
            }
            next += 1;
        }
        (reached, order, from)
    }

    /// Sends surplus to a member on its way; false if the way gives none.
    fn send(&mut self, members: &[Member], sink: usize, from: &[usize; CLUSTER_MAX]) -> bool {
        let (mut amount, mut at) = (-self.surplus[sink], sink);
        while from[at] != at {
            if !is_parent(members, at, from[at]) {
                amount = amount.min(self.flow[at * CLUSTER_MAX + from[at]]);
            }
            at = from[at];
        }
        amount = amount.min(self.surplus[at]);
        if amount <= 0 {
            return false;
        }
        self.surplus[at] -= amount;
        self.surplus[sink] += amount;
        at = sink;
        while from[at] != at {
            self.shift(members, from[at], at, amount);
            at = from[at];
        }
        true
    }

    /// Sends surplus over one step: to a parent, or back to a child that had sent some.
    fn shift(&mut self, members: &[Member], from: usize, to: usize, amount: i128) {
        if is_parent(members, to, from) {
            self.flow[from * CLUSTER_MAX + to] += amount;
            self.senders[to] |= 1 << from;
        } else {
            let flow = &mut self.flow[to * CLUSTER_MAX + from];
            *flow -= amount;
            if *flow == 0 {
                self.senders[from] &= !(1 << to);
            }
        }
    }
}

fn is_parent(members: &[Member], parent: usize, child: usize) -> bool {
    members[child].parents >> parent & 1 == 1
}
