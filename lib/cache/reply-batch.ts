/**
 * Hands replies out together, behind all input of the turn of the event loop in which they were found: the same begins
 * that a store answers in one read. Told at once, each request would be answered before the next one is read: one
 * write, one wake-up of its client and one turn for each, and code that has left the processor's cache by the next. That
 * costs more than a round trip to Redis does, of which the replies come in batches: a third of the requests a second.
 */
export class ReplyBatch {
  private waiting: (() => void)[] = [];

  /** Resolves with `reply`, in this turn. */
  add<Reply>(reply: Reply): Promise<Reply> {
    return new Promise((resolve) => {
      this.waiting.push(() => {
        resolve(reply);
      });
      if (this.waiting.length === 1) setImmediate(() => this.tell());
    });
  }

  private tell(): void {
    const { waiting } = this;
    this.waiting = [];
    for (const resolve of waiting) resolve();
  }
}
