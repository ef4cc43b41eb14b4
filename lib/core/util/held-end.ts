/** How much of the end of a body is held back until it is known to be right. */
export const HELD_BYTES = 65_536;

/** The last bytes of a body that comes in chunks of any length. Nothing is copied. */
export class HeldEnd {
  private chunks: Uint8Array[] = [];
  /** Of the first chunk that is held: to shift a long list for each of many small chunks costs a copy of it. */
  private first = 0;
  private bytes = 0;

  add(chunk: Uint8Array): void {
    this.chunks.push(chunk);
    this.bytes += chunk.length;
  }

  /** Gives out what is not among the last bytes. */
  *spare(): Generator<Uint8Array, void, undefined> {
    for (;;) {
      const chunk = this.chunks[this.first];
      if (chunk === undefined || this.bytes <= HELD_BYTES) break;
      const length = Math.min(chunk.length, this.bytes - HELD_BYTES);
      if (length === chunk.length) this.first += 1;
      else this.chunks[this.first] = chunk.subarray(length);
      this.bytes -= length;
      yield chunk.subarray(0, length);
    }
    if (this.first <= this.chunks.length / 2) return;
    this.chunks = this.chunks.slice(this.first);
    this.first = 0;
  }

  /** Gives out the end. */
  *rest(): Generator<Uint8Array, void, undefined> {
    yield* this.chunks.slice(this.first);
    this.clear();
  }

  clear(): void {
    this.chunks = [];
    this.first = 0;
    this.bytes = 0;
  }
}
