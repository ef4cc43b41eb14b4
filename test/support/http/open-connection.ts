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
    // What became of it is said by the close that follows.
    this.#socket.on('error', () => undefined);
    this.#socket.on('close', () => {
      this.#isClosed = true;
      this.#wake();
    });
  }

  write(bytes: string | Buffer): void {
    this.#socket.write(bytes);
  }

  /** Everything that has come, once it holds `part`. */
  async until(part: string): Promise<string> {
    while (!this.#received.includes(part)) await this.#more(`"${part}"`);
    return this.#received.toString('latin1');
  }

  /** What `read` makes of the bytes that came, once it makes something of them; they are used up then. */
  async next<Part>(
    read: (bytes: Buffer) => { readonly part: Part; readonly length: number } | undefined,
  ): Promise<Part> {
    for (;;) {
      const found = read(this.#received);
      if (found !== undefined) {
        this.#received = this.#received.subarray(found.length);
        return found.part;
      }
      await this.#more('the rest of an answer');
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
