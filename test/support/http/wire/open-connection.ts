import { connect, type Socket } from 'node:net';

/** A connection whose bytes a test writes and reads itself. */
export class OpenConnection {
  #received = Buffer.alloc(0);
  #isClosed = false;
  #wake: () => void = () => undefined;
  readonly #socket: Socket;

  constructor(port: number) {
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true });
    this.#socket.on('data', (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#wake();
    });
    // The close that follows reports the outcome.
    this.#socket.on('error', () => undefined);
    this.#socket.on('close', () => {
      this.#isClosed = true;
      this.#wake();
    });
  }

  write(bytes: string | Buffer): void {
    this.#socket.write(bytes);
  }

  /** All received bytes, once they contain `part`. */
  async until(part: string): Promise<string> {
    while (!this.#received.includes(part)) await this.#more(`"${part}"`);
    return this.#received.toString('latin1');
  }

  /** The first result of `read` for the received bytes; those are consumed then. */
  async next<Part>(
    read: (bytes: Buffer) => { readonly part: Part; readonly length: number } | undefined,
  ): Promise<Part> {
    for (;;) {
      const found = read(this.#received);
      if (found !== undefined) {
        this.#received = this.#received.subarray(found.length);
        return found.part;
      }
      await this.#more('the rest of a response');
    }
  }

  close(): void {
    this.#socket.destroy();
  }

  async #more(awaited: string): Promise<void> {
    if (this.#isClosed) {
      const came = this.#received.toString('latin1', 0, 500);
      throw new Error(`the connection was closed before ${awaited} came: ${came}`);
    }
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
  }
}
