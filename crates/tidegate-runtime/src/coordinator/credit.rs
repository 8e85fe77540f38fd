//! Which partitions may be read, and how much. Derived from the ledgers and the budget each time.

use super::Coordinator;
use crate::board::OwnershipId;

impl Coordinator {
    /// After a delivery: closes the partition if it has no room for another.
    pub(super) fn refresh_credit(&mut self, id: OwnershipId) {
        let capacity = self.settings.limits.messages_per_partition;
        let Some(owned) = self.owned.get(&id) else { return };
        if owned.has_room(capacity, false) {
            return;
        }
        owned.watch().wait_for_room();
        // The room may have come between the look and the request.
        let open = owned.has_room(capacity, true);
        self.demand.set_open(owned.partition(), open);
    }

    /// The partition asked for attention: opens it if it has room, with something to spare, so
    /// that it doesn't close again at once.
    pub(super) fn reopen(&mut self, id: OwnershipId) {
        let capacity = self.settings.limits.messages_per_partition;
        let Some(owned) = self.owned.get(&id) else { return };
        if owned.is_draining() || self.demand.is_open(owned.partition()) {
            return;
        }
        let mut open = owned.has_room(capacity, true);
        if !open {
            owned.watch().wait_for_room();
            open = owned.has_room(capacity, true);
        }
        self.demand.set_open(owned.partition(), open);
    }

    /// How much the byte budget allows for the next fetch.
    pub(super) fn refresh_demand(&mut self) {
        let limits = &self.settings.limits;
        let left = limits.bytes.saturating_sub(self.board.bytes());
        // Less than a chunk is no room: it would be read record by record.
        let enough = limits.chunk_bytes.min(limits.bytes / 4).max(1);
        if self.stopping.is_some() || (left < enough && self.board.starve()) {
            self.demand.set_limits(0, 0);
        } else {
            self.demand.set_limits(limits.chunk_messages, limits.chunk_bytes.min(left.max(1)));
        }
    }
}
