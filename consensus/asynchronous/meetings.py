"""Events of two agents."""

from __future__ import annotations

from heapq import heappop, heappush

from consensus.asynchronous.events import Events


class Meetings(Events):
    """Events in which an agent meets a random neighbour, whose state it changes: one after the other.

    The agent goes on computing when a message has been there and back; if one is lost, it meets nobody.
    """

    def advance(self, most: int) -> list[int]:
        time, i = heappop(self.queue)
        number, targets = self.number[i], self.times.targets[i]
        drawn = self.times.of_wake(i, number)
        at = number - drawn.first
        chosen = int(drawn.partner[at] * len(targets))
        partner, back = targets[chosen], self.times.targets[targets[chosen]].index(i)
        returns = self.times.of_wake(partner, number)  # the way back: drawn by the same number
        lost = drawn.lost[at][chosen] or returns.lost[number - returns.first][back]
        self.sent[i] += 1
        self.lost[i] += lost
        row, other = slice(i, i + 1), slice(i, i + 1) if lost else slice(partner, partner + 1)
        (block,) = self.blocks.of([i])
        own = self.state._make([value[row] for value in self.state])
        mailbox = self.mailbox._make([getattr(self.state, name)[other][:, None] for name in self.mailbox._fields])
        state, messages = self.solver.wake(block.problem, block.arcs, own, mailbox)
        if not lost:
            self.read[[i, partner]] += 1
            self.sent[partner] += 1
            for name, value in messages._asdict().items():
                getattr(self.state, name)[other] = value
        for field, value in zip(self.state, state, strict=True):
            field[row] = value
        self.clock[i], self.number[i] = time, number + 1
        travel = drawn.delays[at][chosen] + returns.delays[number - returns.first][back]
        self.wakes_at[i] = self.times.next_wake(i, number + 1, time + travel)
        heappush(self.queue, (self.wakes_at[i], i))
        self.done += 1
        return [i]
