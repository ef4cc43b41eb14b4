import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

export interface Responded {
  readonly status: number;
  readonly body: string;
  readonly ms: number;
}

/** Clients that are connected already, and ask all at once. */
export class Crowd {
  private constructor(
    private readonly sockets: readonly Socket[],
    private readonly host: string,
  ) {}

  static async gather(url: string, size: number): Promise<Crowd> {
    const { hostname, port, host } = new URL(url);
    const sockets: Socket[] = [];
    for (let i = 0; i < size; i += 1) {
      const socket = connect(Number(port), hostname);
      socket.setNoDelay();
      await once(socket, 'connect');
      sockets.push(socket);
    }
    return new Crowd(sockets, host);
  }

  /** Every client sends the same request at the same time. */
  ask(path: string, key: string): Promise<Responded[]> {
    const request = [
      `POST ${path} HTTP/1.1`,
      `host: ${this.host}`,
      `idempotency-key: ${key}`,
      'content-length: 0',
      '\r\n',
    ].join('\r\n');
    return Promise.all(this.sockets.map((socket) => exchange(socket, request)));
  }

  leave(): void {
    for (const socket of this.sockets) socket.destroy();
  }
}

function exchange(socket: Socket, request: string): Promise<Responded> {
  return new Promise((resolve, reject) => {
    const sentAt = performance.now();
    let text = '';
    const onData = (data: Buffer) => {
      text += data.toString('latin1');
      const [head = '', body] = text.split('\r\n\r\n', 2);
      const length = Number(/^content-length: *(\d+)/im.exec(head)?.[1]);
      if (body === undefined || body.length < length) return;
      socket.off('data', onData).off('close', onClose);
      resolve({ status: Number(head.slice(9, 12)), body, ms: performance.now() - sentAt });
    };
    const onClose = () => {
      reject(new Error('The connection was closed without an answer.'));
    };
    socket.on('data', onData).once('close', onClose);
    socket.write(request);
  });
}
