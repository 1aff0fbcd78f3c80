//! Makes room for new connections when a server holds as many as it may.
//!
//! Idle connections cost their clients nothing when they are closed, so those go first, the longest idle
//! ones before the others. Only when the limit is near, an address that holds a quarter of all
//! connections has to make room for its own new ones. This machine's own address does not, because all
//! clients of a local proxy have it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

use super::{IN_FLIGHT, Open, Order, State};

/// Where connections come from, as far as they are counted together: an IPv4 address, or the 64 bits of
/// an IPv6 address that a network gives to one customer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Origin {
    Local,
    V4([u8; 4]),
    V6([u8; 8]),
}

/// How many connections there are, and from where.
#[derive(Debug)]
pub(super) struct Crowd {
    limit: usize,
    by_origin: HashMap<Origin, usize>,
    /// Whether connections were closed for lack of room since there was room last.
    is_full: bool,
}

impl Origin {
    pub(super) fn of(peer: IpAddr) -> Self {
        match peer.to_canonical() {
            address if address.is_loopback() => Self::Local,
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [network @ .., _, _, _, _, _, _, _, _] = address.octets();
                Self::V6(network)
            }
        }
    }
}

impl Crowd {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), by_origin: HashMap::new(), is_full: false }
    }

    pub(super) fn enter(&mut self, origin: Origin) {
        *self.by_origin.entry(origin).or_default() += 1;
    }

    pub(super) fn leave(&mut self, origin: Origin) {
        if let Some(n) = self.by_origin.get_mut(&origin) {
            *n -= 1;
            if *n == 0 {
                self.by_origin.remove(&origin);
            }
        }
    }

    /// Whether an address holds more than its share of the connections there may be.
    fn is_greedy(&self, origin: Origin) -> bool {
        let held = self.by_origin.get(&origin).copied().unwrap_or_default();
        origin != Origin::Local && held >= (self.limit / 4).max(1)
    }

    /// How many connections there may be before an address must keep to its share.
    fn near(&self) -> usize {
        self.limit - self.limit / 4
    }
}

impl State {
    /// Makes room for one more connection from `origin`; `false` when there can be none.
    pub(super) fn make_room(&mut self, origin: Origin) -> bool {
        if self.open.len() >= self.crowd.near() && self.crowd.is_greedy(origin) {
            return self.close_idle(Some(origin)) > 0;
        }
        if self.open.len() >= self.crowd.limit {
            self.close_idle(None);
        }
        true
    }

    /// Closes the longest idle connections, of one origin or of all, and says how many.
    ///
    /// Some at once, so that a flood of connections does not look at all of them again for each.
    pub(super) fn close_idle(&mut self, only: Option<Origin>) -> usize {
        let limit = self.crowd.limit;
        if !std::mem::replace(&mut self.crowd.is_full, true) {
            tracing::warn!(
                limit,
                open = self.open.len(),
                "as many connections as there may be; closing the longest idle ones (more are \
                 possible with a higher limit of open files)"
            );
        }
        let mut idle: Vec<(u32, u64)> = self
            .open
            .iter()
            .filter(|(_, open)| only.is_none_or(|origin| open.origin == origin))
            .filter_map(|(number, open)| Some((open.idle_sweeps()?, *number)))
            .collect();
        let n_closed = idle.len().min((limit / 64).max(1));
        if n_closed == 0 {
            return 0;
        }
        // The longest idle first, and of those the oldest.
        idle.select_nth_unstable_by_key(n_closed - 1, |(sweeps, number)| {
            (std::cmp::Reverse(*sweeps), *number)
        });
        for (_, number) in &idle[..n_closed] {
            self.open[number].watch.tell(Order::Close);
        }
        n_closed
    }

    /// Notes that there is room again.
    pub(super) fn look_for_relief(&mut self) {
        if self.crowd.is_full && self.open.len() < self.crowd.near() {
            self.crowd.is_full = false;
            tracing::info!(open = self.open.len(), "there is room for connections again");
        }
    }
}

impl Open {
    /// For how many sweeps nothing happened; `None` while an answer is under way, or once the connection
    /// was told to close.
    fn idle_sweeps(&self) -> Option<u32> {
        let traffic = self.watch.traffic.load(Ordering::Relaxed);
        let is_told = self.watch.order.load(Ordering::Relaxed) != Order::Serve as u8;
        match traffic & IN_FLIGHT == 0 && !is_told {
            true if traffic == self.traffic => Some(self.quiet_sweeps + 1),
            true => Some(0),
            false => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Connections, Entry, SWEEPS};
    use super::*;

    const LOCAL: [u8; 4] = [127, 0, 0, 1];

    fn enter(connections: &Arc<Connections>, peer: [u8; 4]) -> Option<Entry> {
        connections.enter(IpAddr::from(peer))
    }

    fn is_closed(entry: &Entry) -> bool {
        entry.watch().order.load(Ordering::Relaxed) == Order::Close as u8
    }

    #[test]
    fn the_longest_idle_connection_makes_room() {
        let connections = Arc::new(Connections::new(4));
        let mut entries: Vec<_> = (0..4).map(|_| enter(&connections, LOCAL).unwrap()).collect();
        let _answer = entries[0].watch().request();
        connections.sweep(4 * SWEEPS);
        connections.sweep(4 * SWEEPS);
        drop(entries[1].watch().request());
        assert!(!entries.iter().any(is_closed), "there was room so far");
        entries.push(enter(&connections, LOCAL).unwrap());
        let closed: Vec<bool> = entries.iter().map(is_closed).collect();
        assert_eq!(closed, [false, false, true, false, false]);
        entries.push(enter(&connections, LOCAL).unwrap());
        assert!(is_closed(&entries[3]) && !is_closed(&entries[0]), "no connection is closed twice");
    }

    #[test]
    fn an_address_makes_room_for_itself_only_when_the_limit_is_near() {
        let connections = Arc::new(Connections::new(16));
        let (greedy, other) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let held: Vec<_> = (0..12).map(|_| enter(&connections, greedy).unwrap()).collect();
        let answers: Vec<_> = held[1..].iter().map(|entry| entry.watch().request()).collect();
        let next = enter(&connections, greedy).unwrap();
        assert!(is_closed(&held[0]), "its own idle one makes room");
        let _busy = next.watch().request();
        assert!(enter(&connections, greedy).is_none(), "all that it has are busy");
        assert!(enter(&connections, other).is_some());
        drop((held, answers, next));
        assert!(enter(&connections, greedy).is_some());
        assert!(connections.lock().crowd.by_origin.is_empty());
    }

    #[test]
    fn addresses_are_counted_by_network_and_this_machine_is_not() {
        let of = |address: &str| Origin::of(address.parse().unwrap());
        assert_eq!(of("::ffff:127.0.0.1"), Origin::Local);
        assert_eq!(of("::1"), Origin::Local);
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        let connections = Arc::new(Connections::new(4));
        let held: Vec<_> = (0..8).map(|_| enter(&connections, LOCAL).unwrap()).collect();
        assert_eq!(held.len(), 8, "a local proxy's clients are never refused for their address");
    }
}
