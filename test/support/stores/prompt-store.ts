import { MemoryIdempotencyStore } from 'nestjs-idempotency/memory';

/** Replies at once: no iteration of the event loop, and no driven time, passes between command and reply. */
export class PromptStore extends MemoryIdempotencyStore {
  protected override deliver(reply: () => void): void {
    reply();
  }
}
